#include "base/message.h"
#include "persist/rdb_reader.h"

#include "support/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/crc64.h"
#include "base/mem.h"
#include "persist/rdb_format.h"
#include "value/codec.h"
#include "value/string.h"

/* Bytes that come `step` at a time; then `error`, or the end. Every third read is interrupted. */
struct stream {
    struct bytes bytes;
    size_t at, step;
    int error, reads;
    size_t wanted_max;
};

static ssize_t stream_read(void *context, void *to, size_t size)
{
    struct stream *stream = context;
    size_t left = stream->bytes.size - stream->at;

    if (++stream->reads % 3 == 0) {
        errno = EINTR;
        return -1;
    }
    if (size > stream->wanted_max)
        stream->wanted_max = size;
    if (left == 0 && stream->error != 0) {
        errno = stream->error;
        return -1;
    }
    if (size > stream->step)
        size = stream->step;
    if (size > left)
        size = left;
    memcpy(to, stream->bytes.data + stream->at, size);
    stream->at += size;
    return (ssize_t)size;
}

static struct rdb_reader *reader_on(struct stream *stream, bool knows_size)
{
    return rdb_reader_create(&(struct rdb_source){ stream_read, stream, knows_size ? stream->bytes.size : UINT64_MAX });
}

static void show_bytes(struct buffer *out, struct bytes bytes)
{
    for (size_t i = 0; i < bytes.size; i++) {
        uint8_t byte = (uint8_t)bytes.data[i];

        buffer_append_format(out, byte > 32 && byte < 127 ? "%c" : "\\%02x", byte);
    }
}

static void show_part(struct buffer *out, const struct rdb_part *part)
{
    switch (part->kind) {
    case RDB_PART_AUX:
        buffer_append_string(out, "aux ");
        show_bytes(out, part->name);
        buffer_append_string(out, "=");
        show_bytes(out, part->value);
        break;
    case RDB_PART_DB: buffer_append_format(out, "db %llu", (unsigned long long)part->db); break;
    case RDB_PART_RESIZE:
        buffer_append_format(out, "resize %llu %llu", (unsigned long long)part->key_count, (unsigned long long)part->expiring_count);
        break;
    case RDB_PART_KEY:
        buffer_append_format(out, "%llu/", (unsigned long long)part->db);
        show_bytes(out, part->name);
        buffer_append_format(out, " type %u", part->type);
        if (part->expire_ms >= 0)
            buffer_append_format(out, " until %lld", (long long)part->expire_ms);
        if (part->idle_s >= 0)
            buffer_append_format(out, " idle %lld", (long long)part->idle_s);
        if (part->freq >= 0)
            buffer_append_format(out, " freq %d", part->freq);
        if (part->type == RDB_TYPE_STRING || part->type == RDB_TYPE_HASH) {
            buffer_append_u8(out, ' ');
            show_bytes(out, part->payload);
        }
        break;
    case RDB_PART_FUNCTION:
        buffer_append_string(out, "function ");
        show_bytes(out, part->value);
        break;
    case RDB_PART_END: buffer_append_string(out, "end"); break;
    }
    buffer_append_u8(out, '\n');
}

/* All parts, one per line; then the status, if it is an error. */
static enum status read_all(struct bytes file, size_t step, bool knows_size, struct buffer *shown, struct message *message)
{
    struct stream stream = { .bytes = file, .step = step };
    struct rdb_reader *reader = reader_on(&stream, knows_size);
    struct rdb_part part;
    enum status status;

    shown->size = 0;
    while ((status = rdb_read(reader, &part, message)) == STATUS_OK) {
        show_part(shown, &part);
        if (part.kind == RDB_PART_END) {
            assert_int_equal(rdb_reader_offset(reader), file.size);
            break;
        }
    }
    rdb_reader_destroy(reader);
    return status;
}

static const size_t steps[] = { 1, 2, 3, 5, 17, 100, 1 << 20 };
enum { STEP_COUNT = sizeof(steps) / sizeof(steps[0]) };

static void shows(struct bytes file, const char *expected)
{
    struct buffer shown = { 0 };
    struct message message;

    for (int i = 0; i < STEP_COUNT; i++) {
        enum status status = read_all(file, steps[i], i % 2, &shown, &message);

        if (status != STATUS_OK)
            fail_msg("step %zu: %s: %s", steps[i], status_name(status), message.text);
        if (!bytes_equal(buffer_bytes(&shown), bytes_of_string(expected)))
            fail_msg("step %zu gives\n%.*sinstead of\n%s", steps[i], (int)shown.size, shown.data, expected);
    }
    buffer_release(&shown);
}

static void fails(struct bytes file, enum status expected, const char *words)
{
    struct buffer shown = { 0 };
    struct message message;

    for (int i = 0; i < STEP_COUNT; i++) {
        enum status status = read_all(file, steps[i], i % 2, &shown, &message);

        if (status != expected || strstr(message.text, words) == NULL || strstr(message.text, "offset ") == NULL)
            fail_msg("step %zu: %s: '%s', expected %s and '%s'", steps[i], status_name(status), message.text, status_name(expected), words);
    }
    buffer_release(&shown);
}

#define END "\xff\0\0\0\0\0\0\0\0"

static void the_parts_of_a_file_come_in_order(void **state)
{
    shows(BYTES("REDIS0012\xfa\x09redis-ver\x06" "7.4.15\xfa\x0aredis-bits\xc0\x40\xf5\x07#!lua n"
        "\xf7\x81\x01\x02\x03\x04\x05\x06\x07\x08\x02\x02\x01\x05\x02\x40\x41\x03" "abcd\x04" "abcdefgh\x05\x03xyz\x00"
        "\xfe\x00\xfb\x03\x01\xf4\x05\x03\x01\x00\x01k\x01v"
        "\xfc\x01\x02\x00\x00\x00\x00\x00\x00\xf9\x09\x00\x01m\xc1\x34\x12"
        "\xf8\x40\x50\xfd\x01\x01\x00\x00\x04\x01h\x01\x01" "f\xc0\x07"
        "\xfe\x0f\x00\x00\x00" END),
        "aux redis-ver=7.4.15\naux redis-bits=64\nfunction #!lua\\20n\ndb 0\nresize 3 1\n0/k type 0 \\00\\01v\n"
        "0/m type 0 until 513 freq 9 \\00\\c14\\12\n0/h type 4 until 257000 idle 80 \\04\\01\\01f\\c0\\07\n"
        "db 15\n15/ type 0 \\00\\00\nend\n");
}

static void names_in_any_form_are_decoded(void **state)
{
    shows(BYTES("REDIS0010\x00\xc0\xfe\x01" "a\x00\xc1\x00\x80\x01" "b\x00\xc2\xff\xff\xff\x7f\x01" "c\x00\xc3\x05\x0a\x00x\xe0\x00\x00\x01" "d"
        "\x00\x40\x03xyz\x01" "e\x00\x80\x00\x00\x00\x02no\x01" "f\x00\x81\x00\x00\x00\x00\x00\x00\x00\x01n\x01g" END),
        "0/-2 type 0 \\00\\01a\n0/-32768 type 0 \\00\\01b\n0/2147483647 type 0 \\00\\01c\n0/xxxxxxxxxx type 0 \\00\\01d\n"
        "0/xyz type 0 \\00\\01e\n0/no type 0 \\00\\01f\n0/n type 0 \\00\\01g\nend\n");
}

static void times_before_1970_are_long_past(void **state)
{
    shows(BYTES("REDIS0009\xfc\xff\xff\xff\xff\xff\xff\xff\xff\x00\x01k\x01v\xfd\xfe\xff\xff\xff\x00\x01m\x01v\xfc\0\0\0\0\0\0\0\0\x00\x01n\x01v" END),
        "0/k type 0 until 0 \\00\\01v\n0/m type 0 until 0 \\00\\01v\n0/n type 0 until 0 \\00\\01v\nend\n");
}

#define ID "\0\1\2\3\4\5\6\7\0\1\2\3\4\5\6\7"
#define MS "\1\2\3\4\5\6\7\0"

/* A body of each type; those of types 2, 5, 11, 17, 18 and 19 are what Redis 7.0.15 dumped. */
static const struct {
    uint8_t type;
    struct bytes body;
} bodies[] = {
    { RDB_TYPE_STRING, BYTES("\x04text") },
    { RDB_TYPE_STRING, BYTES("\xc3\x0a\x40\x78\x02" "aba\xe0\x6a\x01\x01" "ab") },
    { RDB_TYPE_LIST, BYTES("\x02\x01" "a\xc0\x07") },
    { RDB_TYPE_LIST, BYTES("\x00") },
    { RDB_TYPE_SET, BYTES("\x03\x01" "b\x01" "a\xc1\x2c\x01") },
    { RDB_TYPE_ZSET, BYTES("\x04\x01" "a\x03" "1.5\x01" "b\xff\x01" "c\xfe\x01" "d\xfd") },
    { RDB_TYPE_HASH, BYTES("\x02\x01" "f\x01v\xc0\x01\x00") },
    { RDB_TYPE_ZSET_2, BYTES("\x02\x01" "b\x00\x00\x00\x00\x00\x00\xf0\x7f\x01" "a\x00\x00\x00\x00\x00\x00\xf0\x3f") },
    { RDB_TYPE_MODULE_2, BYTES("\x81" MS "\x01\x05\x02\x81" MS "\x03" "abcd\x04" MS "\x05\x03xyz\x00") },
    { RDB_TYPE_HASH_ZIPMAP, BYTES("\x09\x01\x01" "a\x01\x00" "b\xff" "xx") },
    { RDB_TYPE_LIST_ZIPLIST, BYTES("\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff") },
    { RDB_TYPE_SET_INTSET, BYTES("\x10\x04\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x70\x11\x01\x00") },
    { RDB_TYPE_ZSET_ZIPLIST, BYTES("\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff") },
    { RDB_TYPE_HASH_ZIPLIST, BYTES("\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff") },
    { RDB_TYPE_LIST_QUICKLIST, BYTES("\x02\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff") },
    { RDB_TYPE_STREAM, BYTES("\x01\x10" ID "\x03lpk\x02\x05\x01\x01\x02g1\x05\x00\x01" ID MS "\x01\x01\x02" "c1" MS "\x01" ID) },
    { RDB_TYPE_HASH_LISTPACK, BYTES("\x07\x07\0\0\0\0\0\xff") },
    { RDB_TYPE_ZSET_LISTPACK, BYTES("\x14\x14\x00\x00\x00\x04\x00\x81" "a\x02\x01\x01\x81" "b\x02\x83" "2.5\x04\xff") },
    { RDB_TYPE_LIST_QUICKLIST_2, BYTES("\x02\x02\x13\x13\x00\x00\x00\x04\x00\x81" "a\x02\x81" "b\x02\x81" "c\x02\x81" "d\x02\xff\x01\x03xyz") },
    { RDB_TYPE_STREAM_2, BYTES("\x01\x10\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x3a\x3a\x00\x00\x00\x16\x00\x02\x01\x01\x01\x01\x01"
        "\x81\x66\x02\x00\x01\x02\x01\x00\x01\x00\x01\x81\x76\x02\x04\x01\x03\x01\x01\x01\x00\x01\x82\x76\x32\x03\x04\x01\x00\x01\x02\x01\xdf\xff\x02"
        "\x01\x01\x81\x67\x02\x81\x77\x02\x06\x01\xff\x02\x03\x00\x01\x01\x02\x01\x03\x02\x02\x67\x32\x03\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff\x00"
        "\x00\x03\x67\x72\x70\x03\x00\x03\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\xfd\x9c\xd4\xfd\xa1\x01\x00\x00\x01\x00"
        "\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\xff\x9c\xd4\xfd\xa1\x01\x00\x00\x01\x03\x02\x61\x6c\xfd\x9c\xd4\xfd\xa1\x01\x00"
        "\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x02\x62\x6f\xff\x9c\xd4\xfd\xa1\x01\x00\x00\x01\x00\x00\x00\x00\x00"
        "\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x04\x69\x64\x6c\x65\xff\x9c\xd4\xfd\xa1\x01\x00\x00\x00") },
    { RDB_TYPE_SET_LISTPACK, BYTES("\x07\x07\0\0\0\0\0\xff") },
    { RDB_TYPE_STREAM_3, BYTES("\x01\x10" ID "\x03lpk\x02\x05\x01\x01\x00\x00\x00\x07\x01\x02g1\x05\x00\x03\x01" ID MS "\x01\x01\x02" "c1" MS MS "\x01" ID) },
    { RDB_TYPE_HASH_EXPIRES_OLD, BYTES("\x02\x00\x01" "f\x01v\x81\0\0\1\2\3\4\5\6\x01g\x01w") },
    { RDB_TYPE_HASH_LISTPACK_EXPIRES_OLD, BYTES("\x07\x07\0\0\0\0\0\xff") },
    { RDB_TYPE_HASH_EXPIRES, BYTES(MS "\x02\x00\x01" "f\x01v\x40\x50\x01g\x01w") },
    { RDB_TYPE_HASH_LISTPACK_EXPIRES, BYTES(MS "\x07\x07\0\0\0\0\0\xff") },
};
enum { BODY_COUNT = sizeof(bodies) / sizeof(bodies[0]) };

static void put_key(struct buffer *file, const char *name, int body)
{
    buffer_append_u8(file, bodies[body].type);
    codec_write_string(file, bytes_of_string(name));
    buffer_append_bytes(file, bodies[body].body);
}

static void file_of_all_types(struct buffer *file)
{
    char name[16];

    buffer_append_string(file, "REDIS0012\xfe\x05");
    for (int i = 0; i < BODY_COUNT; i++) {
        snprintf(name, sizeof(name), "key%d", i);
        put_key(file, name, i);
    }
}

static void put_checksum(struct buffer *file)
{
    uint64_t crc;

    buffer_append_u8(file, RDB_OPCODE_END);
    crc = crc64(0, buffer_bytes(file));
    buffer_append(file, &crc, 8);
}

/* Values of types that the codec knows are returned as they are in the file, others are skipped: in both cases the next key is found. */
static void the_end_of_every_type_of_value_is_found(void **state)
{
    struct buffer file = { 0 };
    char name[16];
    struct message message;

    file_of_all_types(&file);
    put_checksum(&file);
    for (int i = 0; i < STEP_COUNT; i++) {
        struct stream stream = { .bytes = buffer_bytes(&file), .step = steps[i] };
        struct rdb_reader *reader = reader_on(&stream, i % 2);
        struct rdb_part part;

        assert_int_equal(rdb_read(reader, &part, &message), STATUS_OK);
        for (int body = 0; body < BODY_COUNT; body++) {
            enum value_type value;

            if (rdb_read(reader, &part, &message) != STATUS_OK)
                fail_msg("body %d, step %zu: %s", body, steps[i], message.text);
            assert_int_equal(part.kind, RDB_PART_KEY);
            assert_int_equal(part.db, 5);
            assert_int_equal(part.type, bodies[body].type);
            assert_int_equal((uint8_t)file.data[part.offset], part.type);
            snprintf(name, sizeof(name), "key%d", body);
            assert_true(bytes_equal(part.name, bytes_of_string(name)));
            if (codec_peek_type(bytes_of(&part.type, 1), &value) != STATUS_OK) {
                assert_int_equal(part.payload.size, 0);
                continue;
            }
            assert_int_equal(part.payload.size, bodies[body].body.size + 1);
            assert_int_equal((uint8_t)part.payload.data[0], part.type);
            assert_memory_equal(part.payload.data + 1, bodies[body].body.data, bodies[body].body.size);
        }
        if (rdb_read(reader, &part, &message) != STATUS_OK)
            fail_msg("the end: %s", message.text);
        assert_int_equal(part.kind, RDB_PART_END);
        assert_int_equal(rdb_reader_version(reader), 12);
        rdb_reader_destroy(reader);
    }
    buffer_release(&file);
}

static void a_file_cut_anywhere_ends_early(void **state)
{
    struct buffer file = { 0 }, shown = { 0 };
    struct message message;

    file_of_all_types(&file);
    put_checksum(&file);
    for (size_t size = 0; size < file.size; size++) {
        for (int knows_size = 0; knows_size < 2; knows_size++) {
            char *exact = mem_alloc(size);
            enum status status;

            memcpy(exact, file.data, size);
            status = read_all(bytes_of(exact, size), 64, knows_size, &shown, &message);
            if (status != STATUS_TRUNCATED || strstr(message.text, "at offset ") == NULL)
                fail_msg("cut at %zu: %s: %s", size, status_name(status), message.text);
            mem_free(exact);
        }
    }
    buffer_release(&file);
    buffer_release(&shown);
}

static void a_flipped_bit_is_found(void **state)
{
    struct buffer file = { 0 }, shown = { 0 };
    struct message message;

    file_of_all_types(&file);
    put_checksum(&file);
    for (size_t bit = 9 * 8; bit < file.size * 8; bit++) {
        file.data[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_not_equal(read_all(buffer_bytes(&file), 1 << 20, false, &shown, &message), STATUS_OK);
        assert_non_null(strstr(message.text, "offset"));
        file.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_int_equal(read_all(buffer_bytes(&file), 1 << 20, false, &shown, &message), STATUS_OK);
    buffer_release(&file);
    buffer_release(&shown);
}

static void versions_before_5_have_no_checksum(void **state)
{
    shows(BYTES("REDIS0004\xfe\x00\x00\x01k\x01v\xff"), "db 0\n0/k type 0 \\00\\01v\nend\n");
    fails(BYTES("REDIS0005\xfe\x00\x00\x01k\x01v\xff"), STATUS_TRUNCATED, "ends early");
    fails(BYTES("REDIS0005\xfe\x00\x00\x01k\x01v\xff" "abcdefgh"), STATUS_CORRUPT, "checksum");
}

static void files_that_are_not_rdb_or_too_new_are_refused(void **state)
{
    fails(BYTES(""), STATUS_TRUNCATED, "at offset 0");
    fails(BYTES("REDIZ0010\xff"), STATUS_CORRUPT, "not an RDB file, at offset 0");
    fails(BYTES("REDIS00x0\xff"), STATUS_CORRUPT, "not a number");
    fails(BYTES("REDIS0000\xff"), STATUS_VERSION, "version 0");
    fails(BYTES("REDIS0013\xff"), STATUS_VERSION, "version 13");
    fails(BYTES("REDIS9999\xff"), STATUS_VERSION, "version 9999");
    fails(BYTES("REDIS0010\x08\x03odd\x01v" END), STATUS_VERSION, "type 8 of a value is not known, at offset 14 (in the key 'odd'");
    fails(BYTES("REDIS0010\x06\x03mod\x01v" END), STATUS_VERSION, "'mod', type 6: module");
    fails(BYTES("REDIS0012\x1a\x03odd\x01v" END), STATUS_VERSION, "type 26");
    fails(BYTES("REDIS0012\xf3\x03odd\x01v" END), STATUS_VERSION, "type 243");
    fails(BYTES("REDIS0010\xf6\x03" "abc" END), STATUS_VERSION, "release candidate");
}

/* Lengths larger than the file cost neither memory nor time. */
static void wrong_lengths_are_refused(void **state)
{
    static const struct bytes lies[] = {
        BYTES("\x00\x81\x7f\xff\xff\xff\xff\xff\xff\xff" "k"), BYTES("\x00\x01k\x81\xff\xff\xff\xff\xff\xff\xff\xff" "v"),
        BYTES("\x00\x01k\x80\xff\xff\xff\xff" "v"), BYTES("\x04\x01k\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01" "f\x01v"),
        BYTES("\x01\x01k\x81\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00"), BYTES("\x05\x01k\x81\xff\xff\xff\xff\xff\xff\xff\xff\x00"),
        BYTES("\x12\x01k\x81\xff\xff\xff\xff\xff\xff\xff\xff\x02\x00"), BYTES("\x0f\x01k\x80\xff\xff\xff\xff\x00\x00\x00"),
        BYTES("\x00\x01k\xc3\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01x"), BYTES("\xfa\x81\x00\xff\xff\xff\xff\xff\xff\xff" "name"),
    };
    struct buffer file = { 0 };
    int64_t began = clock_mono_us();

    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        for (int knows_size = 0; knows_size < 2; knows_size++) {
            struct stream stream = { .step = 1 << 20 };
            struct rdb_reader *reader;
            struct rdb_part part;
            struct message message;
            enum status status;

            file.size = 0;
            buffer_append_string(&file, "REDIS0012");
            buffer_append_bytes(&file, lies[i]);
            stream.bytes = buffer_bytes(&file);
            reader = reader_on(&stream, knows_size);
            while ((status = rdb_read(reader, &part, &message)) == STATUS_OK)
                assert_int_not_equal(part.kind, RDB_PART_END);
            assert_int_equal(status, STATUS_TRUNCATED);
            assert_true(stream.wanted_max <= 1 << 20);
            rdb_reader_destroy(reader);
        }
    }
    assert_true(clock_mono_us() - began < 20 * 1000000);
    buffer_release(&file);
}

static void invalid_bytes_are_reported_with_their_offset(void **state)
{
    fails(BYTES("REDIS0010\x00\x01k\x82xxxxxxxx"), STATUS_CORRUPT,
        "byte 0x82, which is invalid, at offset 12 (in the key 'k', type 0: string)");
    fails(BYTES("REDIS0010\x00\x01k\xc4xxxxxxxx"), STATUS_CORRUPT, "form 4");
    fails(BYTES("REDIS0010\x04\x01k\xc1xxxxxxxx"), STATUS_CORRUPT, "a length was expected");
    fails(BYTES("REDIS0010\xfe\xc1xxxxxxxx"), STATUS_CORRUPT, "a length was expected");
    fails(BYTES("REDIS0010\x07\x01k\x01\x06xxxxxxxx"), STATUS_CORRUPT, "the mark 6");
    fails(BYTES("REDIS0010\x00\xc3\x02\x05xyxxxxxx"), STATUS_CORRUPT, "a compressed string is damaged");
    fails(BYTES("REDIS0010\xfc\x01"), STATUS_TRUNCATED, "ends early: 8 bytes were expected, at offset 10");
}

static void a_failing_disk_is_not_damage(void **state)
{
    struct stream stream = { .bytes = BYTES("REDIS0010\x00\x01k\x05v"), .step = 4, .error = EIO };
    struct rdb_reader *reader = reader_on(&stream, false);
    struct rdb_part part;
    struct message message;

    assert_int_equal(rdb_read(reader, &part, &message), STATUS_IO);
    assert_non_null(strstr(message.text, "Input/output error"));
    rdb_reader_destroy(reader);
}

static void bytes_after_the_end_are_not_read(void **state)
{
    FILE *file = tmpfile();
    struct rdb_reader *reader;
    struct rdb_part part;
    struct message message;

    assert_non_null(file);
    assert_int_equal(fwrite("REDIS0010\xfe\x00" END "*1\r\n", 1, 24, file), 24);
    assert_int_equal(fflush(file), 0);
    reader = rdb_reader_create_file(fileno(file));
    assert_int_equal(rdb_read(reader, &part, &message), STATUS_OK);
    assert_int_equal(rdb_read(reader, &part, &message), STATUS_OK);
    assert_int_equal(part.kind, RDB_PART_END);
    assert_int_equal(rdb_reader_offset(reader), 20);
    rdb_reader_destroy(reader);
    fclose(file);
}

static void large_values_and_many_small_ones_are_read(void **state)
{
    struct buffer file = { 0 };
    char name[32];
    struct message message;
    enum { MANY = 50000, LARGE = 5000000 };
    char *value = mem_alloc(LARGE);
    struct stream stream = { .step = 70001 };
    struct rdb_reader *reader;
    struct rdb_part part;

    memset(value, 'v', LARGE);
    buffer_append_string(&file, "REDIS0010");
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "key:%d", i);
        buffer_append_u8(&file, 0);
        codec_write_string(&file, bytes_of_string(name));
        codec_write_string(&file, bytes_of(value, i == 20000 || i == 40000 ? LARGE : (size_t)(i % 100)));
    }
    put_checksum(&file);
    stream.bytes = buffer_bytes(&file);
    reader = reader_on(&stream, true);
    for (int i = 0; i < MANY; i++) {
        size_t size = i == 20000 || i == 40000 ? LARGE : (size_t)(i % 100);

        assert_int_equal(rdb_read(reader, &part, &message), STATUS_OK);
        snprintf(name, sizeof(name), "key:%d", i);
        assert_true(bytes_equal(part.name, bytes_of_string(name)));
        assert_true(part.payload.size > size && part.payload.size <= size + 6);
        assert_true(size == 0 || memcmp(part.payload.data + part.payload.size - size, value, size) == 0);
    }
    assert_int_equal(rdb_read(reader, &part, &message), STATUS_OK);
    assert_int_equal(part.kind, RDB_PART_END);
    rdb_reader_destroy(reader);
    mem_free(value);
    buffer_release(&file);
}

static const uint64_t the_earliest = 0x123456789a;

/* A hash or set of `count` elements of some sizes; the others are a string. */
static void append_collection(struct buffer *file, uint8_t type, const char *name, unsigned count)
{
    char text[4000];

    memset(text, 'e', sizeof(text));
    buffer_append_u8(file, type);
    codec_write_string(file, bytes_of_string(name));
    if (type == RDB_TYPE_HASH_EXPIRES)
        buffer_append(file, &the_earliest, sizeof(the_earliest));
    codec_write_length(file, count);
    for (unsigned i = 0; i < count; i++) {
        int size = snprintf(text, 16, "%u", i);

        text[size] = 'e';
        if (type == RDB_TYPE_HASH_EXPIRES)
            codec_write_length(file, i % 3 * i);
        codec_write_string(file, bytes_of(text, (size_t)size + i % 7 * (i % 100 == 0 ? 500 : 3)));
        if (type == RDB_TYPE_HASH || type == RDB_TYPE_HASH_EXPIRES)
            codec_write_string(file, bytes_of(text, (size_t)size));
        else if (type == RDB_TYPE_ZSET_2)
            buffer_append(file, &(double){ i / 3.0 }, sizeof(double));
        else if (type == RDB_TYPE_ZSET)
            buffer_append_string(file, i % 5 == 0 ? "\xfe" : "\x03" "1.5");        /* infinite, or a text */
    }
}

/* The score after a member. */
static void take_score(uint8_t type, struct bytes *input, uint64_t *sum)
{
    size_t size = type == RDB_TYPE_ZSET_2 ? sizeof(double) : type != RDB_TYPE_ZSET ? 0 : (uint8_t)input->data[0] == 0xfe ? 1 : 4;

    assert_true(input->size >= size);
    *sum = crc64(*sum, bytes_of(input->data, size));
    *input = bytes_of(input->data + size, input->size - size);
}

/* The time before a field. */
static void take_time(struct bytes *input, uint64_t *sum)
{
    uint64_t number;
    bool is_special;

    assert_int_equal(codec_read_length(input, &number, &is_special), STATUS_OK);
    *sum = crc64(*sum, bytes_of(&number, sizeof(number)));
}

/* What the codec makes of the parts, one after the other: `*sum` does not depend on how they are cut. */
static unsigned add_up(struct bytes payload, uint64_t *sum)
{
    struct bytes input = bytes_of(payload.data + 1, payload.size - 1), text;
    struct buffer scratch = { 0 };
    char digits[TEXT_INT_SIZE];
    uint64_t count;
    bool is_special, has_times = payload.data[0] == RDB_TYPE_HASH_EXPIRES;
    unsigned strings = 0;

    if (has_times) {
        assert_memory_equal(input.data, &the_earliest, sizeof(the_earliest));
        input = bytes_of(input.data + sizeof(the_earliest), input.size - sizeof(the_earliest));
    }
    assert_int_equal(codec_read_length(&input, &count, &is_special), STATUS_OK);
    assert_false(is_special);
    while (input.size > 0) {
        if (has_times && strings % 2 == 0)
            take_time(&input, sum);
        assert_int_equal(codec_read_string(&input, 0, &scratch, digits, &text), STATUS_OK);
        *sum = crc64(*sum, text);
        take_score((uint8_t)payload.data[0], &input, sum);
        strings++;
        scratch.size = 0;
    }
    assert_int_equal(strings, count * (payload.data[0] == RDB_TYPE_HASH || has_times ? 2 : 1));
    buffer_release(&scratch);
    return (unsigned)count;
}

static void check_collection(struct rdb_reader *reader, uint8_t type, const char *name, unsigned count, bool is_split, uint64_t *sum)
{
    struct message message;
    struct rdb_part part;
    unsigned elements, parts = 1;

    assert_int_equal(rdb_read(reader, &part, &message), STATUS_OK);
    assert_false(part.is_rest);
    assert_int_equal(part.elements, is_split ? count : 0);
    elements = add_up(part.payload, sum);
    while (is_split) {
        assert_int_equal(part.type, type);
        assert_true(bytes_equal(part.name, bytes_of_string(name)));
        assert_true(part.payload.size < (1 << 20) + 10000);
        if (part.is_last)
            break;
        assert_int_equal(rdb_read(reader, &part, &message), STATUS_OK);
        assert_true(part.is_rest && part.kind == RDB_PART_KEY && part.elements == 0);
        elements += add_up(part.payload, sum);
        parts++;
    }
    assert_int_equal(elements, count);
    assert_true(parts > 1 || !is_split);
}

static void large_collections_come_in_parts(void **state)
{
    static const size_t cuts[] = { 1 << 30, 65537, 333 };
    static const struct { uint8_t type; const char *name; unsigned count; } keys[] = {
        { RDB_TYPE_HASH, "", 250000 }, { RDB_TYPE_SET, "s", 300000 }, { RDB_TYPE_HASH, "small", 10 }, { RDB_TYPE_LIST, "list", 300000 }, { RDB_TYPE_LIST, "small list", 7 }, { RDB_TYPE_SET, "large members", 70000 },
        { RDB_TYPE_ZSET_2, "z", 200000 }, { RDB_TYPE_ZSET, "scores as text", 200000 }, { RDB_TYPE_ZSET_2, "small z", 5 },
        { RDB_TYPE_HASH_EXPIRES, "times", 200000 }, { RDB_TYPE_HASH_EXPIRES, "small times", 6 },
    };
    enum { KEYS = sizeof(keys) / sizeof(keys[0]) };
    struct buffer file = { 0 };
    uint64_t sums[2] = { 0 };
    struct message message;
    struct rdb_part part;

    (void)state;
    buffer_append_string(&file, "REDIS0010");
    for (int i = 0; i < KEYS; i++)
        append_collection(&file, keys[i].type, keys[i].name, keys[i].count);
    put_checksum(&file);
    for (int split = 0; split < 2; split++) {
        for (size_t step = 0; step < sizeof(cuts) / sizeof(cuts[0]); step++) {
            struct stream stream = { .bytes = buffer_bytes(&file), .step = cuts[step] };
            struct rdb_reader *reader = reader_on(&stream, step > 0);

            sums[split] = 0;
            if (split)
                rdb_reader_split(reader);
            for (int i = 0; i < KEYS; i++)
                check_collection(reader, keys[i].type, keys[i].name, keys[i].count, split && keys[i].count > 10, &sums[split]);
            assert_int_equal(rdb_read(reader, &part, &message), STATUS_OK);         /* the checksum is right */
            assert_int_equal(part.kind, RDB_PART_END);
            rdb_reader_destroy(reader);
            assert_true(sums[split] == sums[0]);
        }
    }
    buffer_release(&file);
}

static void append_string(struct buffer *file, const char *name, size_t size)
{
    buffer_append_u8(file, RDB_TYPE_STRING);
    codec_write_string(file, bytes_of_string(name));
    codec_write_length(file, size);
    for (size_t i = 0; i < size; i++)
        buffer_append_u8(file, (uint8_t)(i * 7 + i / 1000));
}

/* Adds up the parts of a string. */
static void check_string(struct rdb_reader *reader, const char *name, size_t size, size_t parts)
{
    struct value_limits limits = { 0 };
    struct message message;
    struct rdb_part part;
    size_t at = 0;

    for (size_t i = 0; i < parts; i++) {
        struct buffer scratch = { 0 };
        char digits[TEXT_INT_SIZE];
        struct value value;
        struct bytes bytes;

        assert_int_equal(rdb_read(reader, &part, &message), STATUS_OK);
        assert_true(part.kind == RDB_PART_KEY && part.type == RDB_TYPE_STRING && bytes_equal(part.name, bytes_of_string(name)));
        assert_int_equal(part.elements, i == 0 && parts > 1 ? size : 0);
        assert_true(part.is_rest == (i > 0) && part.is_last == (i > 0 && i == parts - 1));
        assert_int_equal(codec_decode(part.payload, &limits, &scratch, &value), STATUS_OK);
        bytes = string_bytes(&value, digits);
        for (size_t j = 0; j < bytes.size; j++, at++)
            assert_true((uint8_t)bytes.data[j] == (uint8_t)(at * 7 + at / 1000));
        value_free(&value);
        buffer_release(&scratch);
    }
    assert_int_equal(at, size);
}

static void large_strings_come_in_parts(void **state)
{
    static const size_t cuts[] = { 1 << 30, 65537, 333 }, sizes[] = { 3000000, 0, 1, 1 << 20, (1 << 20) + 1, 2 << 20, 70 };
    enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };
    struct buffer file = { 0 };
    struct message message;
    struct rdb_part part;

    (void)state;
    buffer_append_string(&file, "REDIS0010");
    for (int i = 0; i < SIZES; i++)
        append_string(&file, "string", sizes[i]);
    buffer_append_bytes(&file, BYTES("\0\3lzf\xc3\x05\x40\x64\0x\xe0\x5a\0"));       /* a compressed one, and a number: in one part */
    buffer_append_bytes(&file, BYTES("\0\3int\xc0\x07"));
    put_checksum(&file);
    for (int split = 0; split < 2; split++) {
        for (size_t step = 0; step < sizeof(cuts) / sizeof(cuts[0]); step++) {
            struct stream stream = { .bytes = buffer_bytes(&file), .step = cuts[step] };
            struct rdb_reader *reader = reader_on(&stream, step > 0);

            if (split)
                rdb_reader_split(reader);
            for (int i = 0; i < SIZES; i++)
                check_string(reader, "string", sizes[i], split && sizes[i] > 1 << 20 ? (sizes[i] + (1 << 20) - 1) >> 20 : 1);
            for (int i = 0; i < 2; i++) {
                assert_int_equal(rdb_read(reader, &part, &message), STATUS_OK);
                assert_true(part.kind == RDB_PART_KEY && part.elements == 0 && !part.is_rest && part.payload.size == (i == 0 ? 10 : 3));
            }
            assert_int_equal(rdb_read(reader, &part, &message), STATUS_OK);         /* the checksum is right */
            assert_int_equal(part.kind, RDB_PART_END);
            rdb_reader_destroy(reader);
        }
    }
    file.size = 2000000;
    for (int split = 0; split < 2; split++) {
        struct stream stream = { .bytes = buffer_bytes(&file), .step = 1 << 30 };
        struct rdb_reader *reader = reader_on(&stream, true);
        enum status status;

        if (split)
            rdb_reader_split(reader);
        while ((status = rdb_read(reader, &part, &message)) == STATUS_OK)
            assert_true(split);
        assert_int_equal(status, STATUS_TRUNCATED);
        rdb_reader_destroy(reader);
    }
    buffer_release(&file);
}

/* Nodes are any strings here; what follows them is 8 numbers and a group without anything in it. */
static const char stream_end[] = "\1\2\3\4\5\6\7\x08\1\1g\2\3\4\0\0";

static void append_stream(struct buffer *file, unsigned nodes)
{
    buffer_append_u8(file, RDB_TYPE_STREAM_3);
    codec_write_string(file, BYTES("stream"));
    codec_write_length(file, nodes);
    for (unsigned i = 0; i < nodes; i++) {
        char node[100];

        memset(node, (int)i, sizeof(node));
        codec_write_string(file, bytes_of(node, 16));
        codec_write_string(file, bytes_of(node, 50 + i % 50));
    }
    buffer_append(file, stream_end, sizeof(stream_end) - 1);
}

/* Returns how many parts it has. */
static unsigned check_stream(struct rdb_reader *reader, unsigned nodes)
{
    unsigned parts = 0, left = nodes;
    struct message message;
    struct rdb_part part;

    do {
        bool is_special;
        uint64_t count;
        struct bytes body;

        assert_int_equal(rdb_read(reader, &part, &message), STATUS_OK);
        assert_true(part.kind == RDB_PART_KEY && part.type == RDB_TYPE_STREAM_3 && bytes_equal(part.name, BYTES("stream")));
        assert_int_equal(part.payload.data[0], RDB_TYPE_STREAM_3);
        assert_true(part.is_rest == (parts > 0));
        body = bytes_of(part.payload.data + 1, part.payload.size - 1);
        assert_int_equal(codec_read_length(&body, &count, &is_special), STATUS_OK);
        assert_true(parts > 0 || part.elements == (count < nodes ? nodes : 0));
        assert_true(count <= left && part.is_last == (parts > 0 && count == left));
        for (uint64_t i = 0; i < count * 2; i++) {
            uint64_t size;

            assert_int_equal(codec_read_length(&body, &size, &is_special), STATUS_OK);
            assert_true(!is_special && size <= body.size && (uint8_t)body.data[0] == (uint8_t)(nodes - left));
            body = bytes_of(body.data + size, body.size - size);
            left -= i % 2 == 1;
        }
        assert_true(left == 0 ? bytes_equal(body, bytes_of(stream_end, sizeof(stream_end) - 1)) : body.size == 0);
        parts++;
    } while (!part.is_last && (part.elements > 0 || part.is_rest));
    assert_int_equal(left, 0);
    return parts;
}

static void large_streams_come_in_parts(void **state)
{
    static const size_t cuts[] = { 1 << 30, 65537, 333 };
    static const unsigned nodes[] = { 50000, 5, 0, 40000 };
    enum { STREAMS = sizeof(nodes) / sizeof(nodes[0]) };
    struct buffer file = { 0 };
    struct message message;
    struct rdb_part part;

    (void)state;
    buffer_append_string(&file, "REDIS0011");
    for (int i = 0; i < STREAMS; i++)
        append_stream(&file, nodes[i]);
    put_checksum(&file);
    for (int split = 0; split < 2; split++) {
        for (size_t step = 0; step < sizeof(cuts) / sizeof(cuts[0]); step++) {
            struct stream stream = { .bytes = buffer_bytes(&file), .step = cuts[step] };
            struct rdb_reader *reader = reader_on(&stream, step > 0);

            if (split)
                rdb_reader_split(reader);
            for (int i = 0; i < STREAMS; i++) {
                unsigned parts = check_stream(reader, nodes[i]);

                assert_true(split && nodes[i] > 10 ? parts > 3 : parts == 1);
            }
            assert_int_equal(rdb_read(reader, &part, &message), STATUS_OK);         /* the checksum is right */
            assert_int_equal(part.kind, RDB_PART_END);
            rdb_reader_destroy(reader);
        }
    }
    buffer_release(&file);
}

/* Cut in one of its parts, and with a number of elements that the file has no room for. */
static void a_collection_in_parts_is_checked(void **state)
{
    struct buffer file = { 0 };
    struct message message;
    struct rdb_part part;

    (void)state;
    buffer_append_string(&file, "REDIS0010");
    append_collection(&file, RDB_TYPE_SET, "s", 300000);
    for (int kind = 0; kind < 2; kind++) {
        struct stream stream = { .bytes = buffer_bytes(&file), .step = 1 << 30 };
        struct rdb_reader *reader = reader_on(&stream, true);
        enum status status;

        if (kind == 1)
            memcpy(file.data + RDB_HEADER_SIZE + 3, "\x80\x7f\xff\xff\xff", 5);
        rdb_reader_split(reader);
        while ((status = rdb_read(reader, &part, &message)) == STATUS_OK)
            assert_int_equal(kind, 0);
        assert_int_equal(status, kind == 0 ? STATUS_TRUNCATED : STATUS_CORRUPT);
        rdb_reader_destroy(reader);
    }
    buffer_release(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parts_of_a_file_come_in_order),
        cmocka_unit_test(names_in_any_form_are_decoded),
        cmocka_unit_test(times_before_1970_are_long_past),
        cmocka_unit_test(the_end_of_every_type_of_value_is_found),
        cmocka_unit_test(a_file_cut_anywhere_ends_early),
        cmocka_unit_test(a_flipped_bit_is_found),
        cmocka_unit_test(versions_before_5_have_no_checksum),
        cmocka_unit_test(files_that_are_not_rdb_or_too_new_are_refused),
        cmocka_unit_test(wrong_lengths_are_refused),
        cmocka_unit_test(invalid_bytes_are_reported_with_their_offset),
        cmocka_unit_test(a_failing_disk_is_not_damage),
        cmocka_unit_test(bytes_after_the_end_are_not_read),
        cmocka_unit_test(large_values_and_many_small_ones_are_read),
        cmocka_unit_test(large_collections_come_in_parts),
        cmocka_unit_test(large_strings_come_in_parts),
        cmocka_unit_test(large_streams_come_in_parts),
        cmocka_unit_test(a_collection_in_parts_is_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
