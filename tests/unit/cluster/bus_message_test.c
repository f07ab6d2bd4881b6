#include "cluster/bus_message.h"

#include "support/unit.h"

#include <string.h>

#include "support/bus_again.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "0123456789abcdef0123456789abcdef01234567"
#define C "cccccccccccccccccccccccccccccccccccccccc"

static struct node_id id_of(const char *text)
{
    struct node_id id;

    assert_true(node_id_read(bytes_of_string(text), &id));
    return id;
}

/* A header with all fields set, to values of which every byte is another one. */
static struct bus_message make(enum bus_type type, const struct slots *slots)
{
    struct bus_message message = {
        .type = (uint16_t)type, .flags = 0x0102, .port = 0x0304, .other_port = 0x0506, .bus_port = 0x0708, .state = 1,
        .message_flags = BUS_PAUSED | BUS_FORCE_ACK, .current_epoch = 0x1112131415161718, .config_epoch = 0x2122232425262728,
        .offset = 0x3132333435363738, .sender = id_of(A), .master = id_of(B), .ip = "10.1.2.3", .slots = slots,
    };

    return message;
}

static void check_at(const struct buffer *out, size_t at, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (out->data[at + i] != bytes[i])
            fail_msg("byte %zu is %02x instead of %02x", at + i, (uint8_t)out->data[at + i], (uint8_t)bytes[i]);
    }
}

static struct slots some_slots(void)
{
    struct slots slots = { { 0 } };

    slots_add(&slots, 1);
    slots_add_range(&slots, (struct slot_range){ 16376, 16383 });
    return slots;
}

/* Every byte of the header is where the protocol has it. */
static void check_header(const struct buffer *out, const char *size, const char *type, uint8_t message_flags)
{
    static const char zeros[SLOTS_SIZE];

    check_at(out, 0, "RCmb", 4);
    check_at(out, 4, size, 4);
    check_at(out, 8, "\0\1", 2);
    check_at(out, 10, "\3\4", 2);
    check_at(out, 12, type, 2);
    check_at(out, 16, "\x11\x12\x13\x14\x15\x16\x17\x18", 8);
    check_at(out, 24, "\x21\x22\x23\x24\x25\x26\x27\x28", 8);
    check_at(out, 32, "\x31\x32\x33\x34\x35\x36\x37\x38", 8);
    check_at(out, 40, A, 40);
    check_at(out, 80, "\2", 1);
    check_at(out, 81, zeros, 2046);
    check_at(out, 2127, "\xff", 1);
    check_at(out, 2128, B, 40);
    check_at(out, 2168, "10.1.2.3", 9);
    check_at(out, 2177, zeros, 37);
    check_at(out, 2216, zeros, 30);
    check_at(out, 2246, "\5\6", 2);
    check_at(out, 2248, "\7\x08", 2);
    check_at(out, 2250, "\1\2", 2);
    check_at(out, 2252, "\1", 1);
    check_at(out, 2253, (const char *)&message_flags, 1);
    check_at(out, 2254, zeros, 2);
}

static void read_well(const struct buffer *out, struct bus_message *message)
{
    struct buffer again = { 0 };
    uint32_t size;

    assert_int_equal(bus_message_size(bytes_of(out->data, BUS_PREFIX_SIZE), BUS_STRANGER_SIZE_MAX, &size), STATUS_OK);
    assert_int_equal(size, out->size);
    assert_int_equal(bus_message_read(buffer_bytes(out), message), STATUS_OK);
    bus_again_write(message, &again);
    assert_true(bytes_equal(buffer_bytes(out), buffer_bytes(&again)));
    buffer_release(&again);
}

static void a_ping_has_gossip_and_extensions_where_the_protocol_has_them(void **state)
{
    struct slots slots = some_slots();
    struct bus_message message = make(BUS_PING, &slots), read;
    struct bus_gossip gossip = { .id = id_of(C), .ping_sent_s = 0x41424344, .pong_s = 0x45464748, .ip = "::1", .port = 0x494a, .bus_port = 0x4b4c,
                                 .flags = 0x4d4e, .other_port = 0x4f50 }, got;
    struct buffer out = { 0 };
    size_t begin = bus_message_write(&message, &out), at = 0;
    struct node_id id = id_of(B);
    uint64_t seconds;

    check_header(&out, "\0\0\x08\xd0", "\0\0", 3);
    bus_message_add_gossip(&out, begin, &gossip);
    memset(gossip.id.text, 'd', NODE_ID_SIZE);
    bus_message_add_gossip(&out, begin, &gossip);
    bus_message_add_host_name(&out, begin, BYTES("host-7c"));           /* 8 bytes with its NUL */
    bus_message_add_name(&out, begin, BYTES("the-name"));               /* 9 with it */
    bus_message_add_forgotten(&out, begin, &id, 0x5152535455565758);
    bus_message_add_shard_id(&out, begin, &id);

    check_header(&out, "\0\0\x0a\x30", "\0\0", 7);
    check_at(&out, 14, "\0\2", 2);
    check_at(&out, 2214, "\0\4", 2);
    check_at(&out, 2256, C "ABCDEFGH::1\0", 52);
    check_at(&out, 2256 + 94, "IJKLMNOP\0\0dddd", 14);
    check_at(&out, 2464, "\0\0\0\x10\0\0\0\0host-7c\0", 16);
    check_at(&out, 2480, "\0\0\0\x18\0\1\0\0the-name\0\0\0\0\0\0\0\0", 24);
    check_at(&out, 2504, "\0\0\0\x38\0\2\0\0" B "QRSTUVWX", 56);
    check_at(&out, 2560, "\0\0\0\x30\0\3\0\0" B, 48);
    assert_int_equal(out.size, 2608);

    read_well(&out, &read);
    assert_int_equal(read.gossip_count, 2);
    assert_int_equal(read.flags, 0x0102);
    assert_int_equal(read.port, 0x0304);
    assert_int_equal(read.bus_port, 0x0708);
    assert_int_equal(read.other_port, 0x0506);
    assert_string_equal(read.ip, "10.1.2.3");
    assert_true(slots_equal(read.slots, &slots));
    bus_message_gossip(&read, 0, &got);
    assert_memory_equal(got.id.text, C, NODE_ID_SIZE);
    assert_string_equal(got.ip, "::1");
    assert_int_equal(got.pong_s, 0x45464748);
    assert_true(bytes_equal(read.host_name, BYTES("host-7c")));
    assert_true(bytes_equal(read.name, BYTES("the-name")));
    assert_memory_equal(read.shard_id.text, B, NODE_ID_SIZE);
    assert_true(bus_message_forgotten(&read, &at, &id, &seconds));
    assert_int_equal(seconds, 0x5152535455565758);
    assert_false(bus_message_forgotten(&read, &at, &id, &seconds));
    buffer_release(&out);
}

static void other_types_have_their_bodies(void **state)
{
    struct slots slots = some_slots();
    struct bus_message message, read;
    struct buffer out = { 0 };

    message = make(BUS_FAIL, &slots);
    message.about = id_of(C);
    bus_message_write(&message, &out);
    check_header(&out, "\0\0\x08\xf8", "\0\3", 3);
    check_at(&out, 2256, C, 40);
    read_well(&out, &read);
    assert_memory_equal(read.about.text, C, NODE_ID_SIZE);

    out.size = 0;
    message = make(BUS_UPDATE, &slots);
    message.about = id_of(C);
    message.about_epoch = 0x6162636465666768;
    message.about_slots = &slots;
    bus_message_write(&message, &out);
    check_header(&out, "\0\0\x11\0", "\0\7", 3);
    check_at(&out, 2256, "abcdefgh" C "\2", 49);
    check_at(&out, 4351, "\xff", 1);
    read_well(&out, &read);
    assert_true(slots_equal(read.about_slots, &slots));
    assert_int_equal(read.about_epoch, 0x6162636465666768);

    for (int type = BUS_PUBLISH; type <= BUS_PUBLISHSHARD; type += BUS_PUBLISHSHARD - BUS_PUBLISH) {
        out.size = 0;
        message = make((enum bus_type)type, &slots);
        message.channel = BYTES("news");
        message.text = BYTES("a\0b");
        bus_message_write(&message, &out);
        check_header(&out, "\0\0\x08\xdf", type == BUS_PUBLISH ? "\0\4" : "\0\x0a", 3);
        check_at(&out, 2256, "\0\0\0\4\0\0\0\3newsa\0b", 15);
        read_well(&out, &read);
        assert_true(bytes_equal(read.text, BYTES("a\0b")));
        out.size = 0;
        message.channel = message.text = bytes_of(NULL, 0);
        bus_message_write(&message, &out);
        read_well(&out, &read);
    }

    for (int type = BUS_FAILOVER_AUTH_REQUEST; type <= BUS_MFSTART; type += type == BUS_FAILOVER_AUTH_ACK ? 2 : 1) {
        char bytes[2] = { 0, (char)type };

        out.size = 0;
        message = make((enum bus_type)type, NULL);
        bus_message_write(&message, &out);
        check_at(&out, 4, "\0\0\x08\xd0", 4);
        check_at(&out, 12, bytes, 2);
        assert_int_equal(out.size, BUS_HEADER_SIZE);
        read_well(&out, &read);
    }
    buffer_release(&out);
}

static void names_of_types_are_those_of_redis(void **state)
{
    assert_string_equal(bus_type_name(BUS_FAILOVER_AUTH_REQUEST), "auth-req");
    assert_string_equal(bus_type_name(BUS_PUBLISHSHARD), "publishshard");
    assert_string_equal(bus_type_name(BUS_TYPE_COUNT), "unknown");
}

static void set_byte(struct buffer *out, size_t at, uint8_t byte)
{
    out->data[at] = (char)byte;
}

static enum status size_with(struct buffer *out, size_t at, uint8_t byte, size_t size_max)
{
    char before = out->data[at];
    enum status status;
    uint32_t size;

    set_byte(out, at, byte);
    status = bus_message_size(bytes_of(out->data, BUS_PREFIX_SIZE), size_max, &size);
    out->data[at] = before;
    return status;
}

static void the_first_sixteen_bytes_bound_what_follows(void **state)
{
    struct bus_message message = make(BUS_MEET, NULL);
    struct buffer out = { 0 };
    uint32_t size;

    bus_message_write(&message, &out);
    assert_int_equal(size_with(&out, 0, 'r', SIZE_MAX), STATUS_CORRUPT);
    assert_int_equal(size_with(&out, 3, 'B', SIZE_MAX), STATUS_CORRUPT);
    assert_int_equal(size_with(&out, 7, 0xcf, SIZE_MAX), STATUS_CORRUPT);               /* less than a header */
    assert_int_equal(size_with(&out, 15, 1, SIZE_MAX), STATUS_CORRUPT);                 /* gossip that is not there */
    assert_int_equal(size_with(&out, 5, 0x0f, SIZE_MAX), STATUS_OK);                    /* extensions of nearly 1 MiB */
    assert_int_equal(size_with(&out, 5, 0x11, SIZE_MAX), STATUS_TOO_LARGE);
    assert_int_equal(size_with(&out, 5, 0x0f, BUS_STRANGER_SIZE_MAX), STATUS_TOO_LARGE);
    assert_int_equal(size_with(&out, 4, 1, SIZE_MAX), STATUS_TOO_LARGE);
    assert_int_equal(size_with(&out, 13, BUS_FAIL, SIZE_MAX), STATUS_CORRUPT);          /* too short for one */
    assert_int_equal(size_with(&out, 13, BUS_PUBLISH, SIZE_MAX), STATUS_CORRUPT);
    assert_int_equal(size_with(&out, 13, BUS_MODULE, SIZE_MAX), STATUS_CORRUPT);
    assert_int_equal(size_with(&out, 13, BUS_MFSTART, SIZE_MAX), STATUS_OK);
    assert_int_equal(size_with(&out, 13, 99, SIZE_MAX), STATUS_OK);
    set_byte(&out, 13, BUS_MFSTART);
    assert_int_equal(size_with(&out, 7, 0xd1, SIZE_MAX), STATUS_TOO_LARGE);             /* it has no body */
    set_byte(&out, 13, BUS_PUBLISH);
    set_byte(&out, 4, 0x20);
    assert_int_equal(bus_message_size(bytes_of(out.data, BUS_PREFIX_SIZE), 1U << 30, &size), STATUS_OK);
    assert_int_equal(size, 0x200008d0);
    assert_int_equal(bus_message_size(bytes_of(out.data, BUS_PREFIX_SIZE), BUS_STRANGER_SIZE_MAX, &size), STATUS_TOO_LARGE);
    buffer_release(&out);
}

static enum status read_with(struct buffer *out, size_t at, uint8_t byte)
{
    char before = out->data[at];
    struct bus_message message;
    enum status status;

    set_byte(out, at, byte);
    status = bus_message_read(buffer_bytes(out), &message);
    out->data[at] = before;
    return status;
}

static void a_message_that_is_not_what_it_says_is_refused(void **state)
{
    struct slots slots = some_slots();
    struct bus_message message = make(BUS_PONG, &slots), read;
    struct bus_gossip gossip = { .id = id_of(C), .ip = "::1" };
    struct buffer out = { 0 };
    size_t begin = bus_message_write(&message, &out), extensions;

    bus_message_add_gossip(&out, begin, &gossip);
    extensions = out.size;
    bus_message_add_host_name(&out, begin, BYTES("host"));              /* 16 bytes */
    bus_message_add_forgotten(&out, begin, &gossip.id, 60);             /* 56 */
    bus_message_add_shard_id(&out, begin, &gossip.id);                  /* 48 */
    read_well(&out, &read);
    assert_int_equal(read_with(&out, 9, 2), STATUS_VERSION);
    assert_int_equal(read_with(&out, 40, '-'), STATUS_CORRUPT);         /* the sender */
    assert_int_equal(read_with(&out, 2128, 0), STATUS_CORRUPT);         /* a master that is half an ID */
    assert_int_equal(read_with(&out, 2170, '\n'), STATUS_CORRUPT);      /* its address */
    assert_int_equal(read_with(&out, 2256, '-'), STATUS_CORRUPT);       /* gossip: an ID, an address */
    assert_int_equal(read_with(&out, 2256 + 48, ' '), STATUS_CORRUPT);
    assert_int_equal(read_with(&out, 2215, 2), STATUS_CORRUPT);         /* fewer extensions than there are, and more */
    assert_int_equal(read_with(&out, 2215, 4), STATUS_CORRUPT);
    assert_int_equal(read_with(&out, 2253, 0), STATUS_CORRUPT);         /* none at all */
    assert_int_equal(read_with(&out, extensions + 3, 0), STATUS_CORRUPT);
    assert_int_equal(read_with(&out, extensions + 3, 12), STATUS_CORRUPT);
    assert_int_equal(read_with(&out, extensions + 2, 1), STATUS_CORRUPT);
    assert_int_equal(read_with(&out, extensions + 16 + 8, '-'), STATUS_CORRUPT);        /* who is forgotten */
    assert_int_equal(read_with(&out, extensions + 72 + 8, '-'), STATUS_CORRUPT);        /* the shard */
    assert_int_equal(read_with(&out, extensions + 5, 3), STATUS_CORRUPT);               /* the host name as a shard ID */
    assert_int_equal(read_with(&out, extensions + 5, 77), STATUS_OK);                   /* of a later version */
    for (size_t size = 0; size < out.size; size++)
        assert_int_equal(bus_message_read(bytes_of(out.data, size), &read), STATUS_CORRUPT);

    memset(out.data + 2168, '1', NODE_IP_SIZE);                         /* an address without an end */
    assert_int_equal(bus_message_read(buffer_bytes(&out), &read), STATUS_CORRUPT);
    memset(out.data + 2168, 0, NODE_IP_SIZE);
    memset(out.data + extensions + 8, 'h', 8);                          /* a host name without one */
    assert_int_equal(bus_message_read(buffer_bytes(&out), &read), STATUS_CORRUPT);

    out.size = 0;
    message = make(BUS_PUBLISH, &slots);
    message.channel = BYTES("news");
    bus_message_write(&message, &out);
    assert_int_equal(read_with(&out, 2259, 3), STATUS_CORRUPT);
    assert_int_equal(read_with(&out, 2259, 5), STATUS_CORRUPT);
    assert_int_equal(read_with(&out, 2256, 0xff), STATUS_CORRUPT);
    buffer_release(&out);
}

/* Nodes of Redis pass on what they were given, and it would get into nodes.conf. */
static void texts_that_would_break_a_line_are_left_out(void **state)
{
    struct bus_message message = make(BUS_PING, NULL), read;
    struct buffer out = { 0 };
    size_t begin = bus_message_write(&message, &out);

    bus_message_add_host_name(&out, begin, BYTES("host"));
    bus_message_add_name(&out, begin, BYTES("name"));
    set_byte(&out, BUS_HEADER_SIZE + 8 + 1, '\n');
    set_byte(&out, BUS_HEADER_SIZE + 16 + 8 + 1, ' ');
    assert_int_equal(bus_message_read(buffer_bytes(&out), &read), STATUS_OK);
    assert_int_equal(read.host_name.size, 0);
    assert_int_equal(read.name.size, 0);
    buffer_release(&out);
}

static void a_module_s_message_and_later_types_are_accepted_to_be_ignored(void **state)
{
    struct bus_message message = make(BUS_FAIL, NULL), read;
    struct buffer out = { 0 };

    message.about = id_of(C);
    bus_message_write(&message, &out);
    set_byte(&out, 13, 99);
    assert_int_equal(bus_message_read(buffer_bytes(&out), &read), STATUS_OK);
    assert_int_equal(read.type, 99);
    memset(out.data + BUS_HEADER_SIZE, 0, 40);
    set_byte(&out, 13, BUS_MODULE);
    set_byte(&out, BUS_HEADER_SIZE + 11, 40 - 13);
    assert_int_equal(bus_message_read(buffer_bytes(&out), &read), STATUS_OK);
    set_byte(&out, BUS_HEADER_SIZE + 11, 40 - 12);
    assert_int_equal(bus_message_read(buffer_bytes(&out), &read), STATUS_CORRUPT);
    buffer_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ping_has_gossip_and_extensions_where_the_protocol_has_them),
        cmocka_unit_test(other_types_have_their_bodies),
        cmocka_unit_test(names_of_types_are_those_of_redis),
        cmocka_unit_test(the_first_sixteen_bytes_bound_what_follows),
        cmocka_unit_test(a_message_that_is_not_what_it_says_is_refused),
        cmocka_unit_test(texts_that_would_break_a_line_are_left_out),
        cmocka_unit_test(a_module_s_message_and_later_types_are_accepted_to_be_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
