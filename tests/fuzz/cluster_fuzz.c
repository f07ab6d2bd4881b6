/* Fuzz target of cluster/: nodes.conf, and messages of the bus. The first byte decides: 0, a text as it is; 1, a good file that is damaged; 2, a message
 * as it is; 3, a good message that is damaged.
 *
 * Nothing crashes, and what is accepted is accepted again, and the same, after it was written. A message that is accepted is given to a node, whose table is
 * sound afterwards.
 */
#include "base/check.h"
#include "base/mem.h"
#include "cluster/bus.h"
#include "cluster/bus_message.h"
#include "cluster/node_text.h"
#include "cluster/members.h"
#include "cluster/nodes_file.h"
#include "support/bus_again.h"
#include "support/cluster_view.h"
#include "support/fuzz.h"

enum { TEXT_MAX = 20000, NODES_MAX = 6 };

static void check_file(const struct nodes_file *file)
{
    CHECK(file->node_count > 0 && file->nodes[file->myself].flags & NODE_MYSELF && file->move_count <= SLOT_COUNT);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        CHECK(file->owners[slot] <= file->node_count);
}

/* The table of nodes that is made of a file is sound, and what it writes is accepted. */
static void check_members(struct fuzz_input *input, const struct nodes_file *file)
{
    struct members *members = members_create_from(file, 1000, &input->random);
    struct nodes_file *again = mem_alloc(sizeof(*again));
    struct buffer out = { 0 };
    struct message message = { "" };

    members_verify(members);
    members_write(members, &out);
    CHECK(nodes_file_read(buffer_bytes(&out), NODES_FILE_PORT_PLAIN, again, &message) == STATUS_OK);
    CHECK(again->node_count == file->node_count && again->move_count == file->move_count && again->current_epoch == file->current_epoch);
    nodes_file_release(again);
    mem_free(again);
    buffer_release(&out);
    members_destroy(members);
}

static void run_nodes_file(struct fuzz_input *input, struct bytes text)
{
    struct nodes_file file, again;
    struct buffer first = { 0 }, second = { 0 };
    struct message message = { "" };
    struct bytes copy = fuzz_exact_copy(text);
    enum status status = nodes_file_read(copy, NODES_FILE_PORT_PLAIN, &file, &message);

    if (status == STATUS_OK) {
        check_file(&file);
        check_members(input, &file);
        nodes_file_write(&file, &first);
        CHECK(nodes_file_read(buffer_bytes(&first), NODES_FILE_PORT_PLAIN, &again, &message) == STATUS_OK);
        CHECK(memcmp(file.owners, again.owners, sizeof(file.owners)) == 0);
        nodes_file_write(&again, &second);
        CHECK(bytes_equal(buffer_bytes(&first), buffer_bytes(&second)));
        nodes_file_release(&again);
        nodes_file_release(&file);
    } else {
        CHECK(message_is_empty(&message) == (status == STATUS_NOT_FOUND));
    }
    mem_free((void *)copy.data);
    buffer_release(&first);
    buffer_release(&second);
}

static void make_id(uint64_t number, char id[NODE_ID_SIZE + 1])
{
    memset(id, 'a' + (int)number, NODE_ID_SIZE);
    id[NODE_ID_SIZE] = '\0';
}

static void make_node(struct fuzz_input *input, int index, int count, struct buffer *text)
{
    static const char *const roles[] = { "master", "slave", "slave,fail", "master,fail?", "noflags", "master,noaddr", "slave,nofailover" };
    static const char *const addresses[] = { "1.2.3.4:1@2", ":0@0", "1.2.3.4:5", "::1:3@4,host.name", "1.2.3.4:1@2,,tls-port=4,nodename=n",
                                             "1.2.3.4:1@2,,tcp-port=4,tls-port=5" };
    const char *role = roles[fuzz_below(input, 7)];
    bool is_master = strncmp(role, "master", 6) == 0;
    char id[NODE_ID_SIZE + 1], other[NODE_ID_SIZE + 1];
    unsigned slot = (unsigned)index * 2000;

    make_id((uint64_t)index, id);
    make_id(fuzz_below(input, (uint64_t)count), other);
    buffer_append_format(text, "%s %s %s%s %s %u %u %u %s", id, addresses[fuzz_below(input, 6)], index == 0 ? "myself," : "", role,
                         strncmp(role, "slave", 5) == 0 && fuzz_below(input, 3) == 0 ? other : "-", (unsigned)fuzz_below(input, 3), (unsigned)fuzz_below(input, 1000),
                         (unsigned)fuzz_below(input, 20), fuzz_below(input, 2) == 0 ? "connected" : "disconnected");
    for (uint64_t ranges = is_master ? fuzz_below(input, 4) : 0; ranges > 0; ranges--) {
        buffer_append_format(text, " %u-%u", slot, slot + (unsigned)fuzz_below(input, 100));
        slot += 101;
    }
    for (uint64_t moves = fuzz_below(input, 4); moves > 0 && index == 0; moves--)
        buffer_append_format(text, " [%u-%c-%s]", (unsigned)fuzz_below(input, SLOT_COUNT), fuzz_below(input, 2) == 0 ? '<' : '>', other);
    buffer_append_string(text, fuzz_below(input, 5) == 0 ? "\n\n" : "\n");
}

static void make_nodes_file(struct fuzz_input *input, struct buffer *text)
{
    int count = 1 + (int)fuzz_below(input, NODES_MAX);

    for (int i = 0; i < count; i++)
        make_node(input, i, count, text);
    buffer_append_format(text, "vars currentEpoch %u lastVoteEpoch %u\n", (unsigned)fuzz_below(input, 30), (unsigned)fuzz_below(input, 30));
}

static void check_message(const struct bus_message *message, struct bytes bytes)
{
    const char *end = bytes.data + bytes.size;
    struct bus_gossip gossip;
    struct node_id id;
    uint64_t seconds;
    size_t at = 0;

    CHECK(memchr(message->ip, '\0', NODE_IP_SIZE) != NULL);
    CHECK(message->channel.size == 0 || message->channel.data + message->channel.size <= end);
    CHECK(message->text.size == 0 || message->text.data + message->text.size <= end);
    CHECK(node_host_name_is_valid(message->host_name) && node_name_is_valid(message->name));
    for (unsigned i = 0; i < message->gossip_count; i++)
        bus_message_gossip(message, i, &gossip);
    while (bus_message_forgotten(message, &at, &id, &seconds))
        ;
}

/* By a link that a stranger has opened, and by the one to the first other node. */
static void run_bus(const struct bus_message *message)
{
    struct bus_options options = { .timeout_ms = 1000, .validity_factor = 1, .requires_full_coverage = true, .port = 1, .bus_port = 2 };
    struct bus *bus = bus_create(cluster_view_create("b master 2 0-99\na master 3 100-199\nc slave-of-a\n" "d slave-of-b\ne master 5 300"), &options, 1, 1000);
    struct node *other = cluster_view_node(bus->members, 'a');
    struct node_id id = other->id;
    uint64_t link = bus_new_link(bus);
    bool is_refused;

    memcpy(other->ip, "10.0.0.1", 9);
    other->bus_port = 3;
    bus_link_accepted(bus, link, &is_refused);
    bus_received(bus, link, message, "10.0.0.3", "10.0.0.2", 1100);
    bus_tick(bus, 1200);
    for (unsigned i = 0; i < bus->outcome.action_count; i++) {
        if (bus->outcome.actions[i].kind == BUS_OPEN)
            bus_link_opened(bus, bus->outcome.actions[i].link, 1300);
    }
    other = members_find(bus->members, &id);
    if (other != NULL && other->peer.link != 0)
        bus_received(bus, other->peer.link, message, "10.0.0.1", "10.0.0.2", 1400);
    bus_tick(bus, 5000);
    members_verify(bus->members);
    bus_destroy(bus);
}

/* As a link receives it: the size first. What was read is written, and is the same when it is read and written again. */
static void run_message(struct bytes text)
{
    struct bytes copy = fuzz_exact_copy(text);
    struct bus_message message, again;
    struct buffer first = { 0 }, second = { 0 };
    uint32_t size;

    if (copy.size >= BUS_PREFIX_SIZE && bus_message_size(bytes_of(copy.data, BUS_PREFIX_SIZE), BUS_STRANGER_SIZE_MAX, &size) == STATUS_OK)
        CHECK(size >= BUS_HEADER_SIZE && size <= BUS_STRANGER_SIZE_MAX);
    if (bus_message_read(copy, &message) == STATUS_OK) {
        check_message(&message, copy);
        run_bus(&message);
        if (message.type < BUS_TYPE_COUNT && message.type != BUS_MODULE) {
            bus_again_write(&message, &first);
            CHECK(bus_message_read(buffer_bytes(&first), &again) == STATUS_OK);
            bus_again_write(&again, &second);
            CHECK(bytes_equal(buffer_bytes(&first), buffer_bytes(&second)));
        }
    }
    mem_free((void *)copy.data);
    buffer_release(&first);
    buffer_release(&second);
}

static struct node_id any_id(struct fuzz_input *input)
{
    struct node_id id;

    memset(id.text, 'a' + (int)fuzz_below(input, 26), NODE_ID_SIZE);
    return id;
}

static void add_parts(struct fuzz_input *input, struct buffer *out)
{
    struct bus_gossip gossip = { .ip = "10.0.0.1" };
    struct node_id id;

    for (uint64_t count = fuzz_below(input, 4); count > 0; count--) {
        gossip.id = any_id(input);
        bus_message_add_gossip(out, 0, &gossip);
    }
    for (uint64_t count = fuzz_below(input, 5); count > 0; count--) {
        id = any_id(input);
        switch (fuzz_below(input, 4)) {
        case 0: bus_message_add_host_name(out, 0, bytes_of("host.example", 1 + fuzz_below(input, 12))); break;
        case 1: bus_message_add_name(out, 0, bytes_of("name_of_a_node", 1 + fuzz_below(input, 14))); break;
        case 2: bus_message_add_forgotten(out, 0, &id, fuzz_below(input, 100)); break;
        case 3: bus_message_add_shard_id(out, 0, &id); break;
        }
    }
}

static void make_message(struct fuzz_input *input, struct buffer *out)
{
    static const uint16_t types[] = { BUS_PING, BUS_PONG, BUS_MEET, BUS_PING, BUS_FAIL, BUS_PUBLISH, BUS_FAILOVER_AUTH_REQUEST, BUS_UPDATE, BUS_MFSTART };
    struct slots slots = { { 0 } };
    struct bus_message message = { .type = types[fuzz_below(input, 9)], .sender = any_id(input), .slots = &slots, .about = any_id(input),
                                   .about_slots = &slots, .channel = BYTES("news"), .text = BYTES("text"), .ip = "10.0.0.2" };

    if (fuzz_below(input, 2) == 0)
        message.master = any_id(input);
    slots_add(&slots, (unsigned)fuzz_below(input, SLOT_COUNT));
    bus_message_write(&message, out);
    if (message.type <= BUS_MEET)
        add_parts(input, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct bytes telling = BYTES("\n ,:@=-[]<>0123456789abcmv");
    struct fuzz_input input;
    struct buffer text = { 0 };

    fuzz_begin(&input, data, size);
    switch (fuzz_below(&input, 4)) {
    case 0:
        fuzz_rest(&input, &text);
        run_nodes_file(&input, buffer_bytes(&text));
        break;
    case 1:
        make_nodes_file(&input, &text);
        run_nodes_file(&input, buffer_bytes(&text));
        fuzz_damage(&input, &text, telling, 4, TEXT_MAX);
        run_nodes_file(&input, buffer_bytes(&text));
        break;
    case 2:
        fuzz_rest(&input, &text);
        run_message(buffer_bytes(&text));
        break;
    case 3:
        make_message(&input, &text);
        run_message(buffer_bytes(&text));
        fuzz_damage(&input, &text, BYTES("\0\1\2\3\4\7\x08\x10\x30\x38\xff" "a"), 4, TEXT_MAX);
        run_message(buffer_bytes(&text));
        break;
    }
    buffer_release(&text);
    return 0;
}
