/* Hostile RDB files: any bytes, or a good file, made at random and damaged. The reader must come to the same end however the bytes come (in
 * one piece or in small ones, their number known or not), hand out what the codec takes or refuses, and end with a message. What is read
 * or written beyond bounds, and what is lost, is for the sanitizers to find. */
#include <string.h>

#include "base/check.h"
#include "base/crc64.h"
#include "base/mem.h"
#include "base/message.h"
#include "persist/rdb_format.h"
#include "persist/rdb_reader.h"
#include "support/fuzz.h"
#include "value/codec.h"

enum { FILE_MAX = 1 << 18 };

struct stream {
    struct bytes bytes;
    size_t at, step;
};

static ssize_t stream_read(void *context, void *to, size_t size)
{
    struct stream *stream = context;
    size_t left = stream->bytes.size - stream->at;

    if (size > stream->step)
        size = stream->step;
    if (size > left)
        size = left;
    memcpy(to, stream->bytes.data + stream->at, size);
    stream->at += size;
    return (ssize_t)size;
}

/* Bodies that fit the types they are listed under; s: a random string, n: a random length, l and i: a listpack and a ziplist of one
 * element, (..): up to three times. Other characters stand for themselves, in hex. */
static const struct {
    uint8_t type;
    const char *body;
} shapes[] = {
    { RDB_TYPE_STRING, "s" }, { RDB_TYPE_LIST, "(s)" }, { RDB_TYPE_SET, "(s)" }, { RDB_TYPE_ZSET, "(s fd)" }, { RDB_TYPE_ZSET, "(s 03312e35)" },
    { RDB_TYPE_HASH, "(ss)" }, { RDB_TYPE_ZSET_2, "(s 000000000000f03f)" }, { RDB_TYPE_MODULE_2, "n 01n 02n 0300000000 040000000000000000 05s 00" },
    { RDB_TYPE_HASH_ZIPMAP, "09010161010062ff7878" }, { RDB_TYPE_LIST_ZIPLIST, "i" }, { RDB_TYPE_SET_INTSET, "10 0400000002000000 01000000 70110100" },
    { RDB_TYPE_ZSET_ZIPLIST, "i" }, { RDB_TYPE_HASH_ZIPLIST, "i" }, { RDB_TYPE_LIST_QUICKLIST, "(i)" },
    { RDB_TYPE_STREAM, "(10 00010203040506070001020304050607 l) nnn (s nn (00010203040506070001020304050607 0001020304050607 n) (s 0001020304050607 (00010203040506070001020304050607)))" },
    { RDB_TYPE_HASH_LISTPACK, "l" }, { RDB_TYPE_ZSET_LISTPACK, "l" }, { RDB_TYPE_LIST_QUICKLIST_2, "(02 l)" }, { RDB_TYPE_LIST_QUICKLIST_2, "(01 s)" },
    { RDB_TYPE_STREAM_2, "(10 00010203040506070001020304050607 l) nnnnnnnn (s nnn (00010203040506070001020304050607 0001020304050607 n) (s 0001020304050607 (00010203040506070001020304050607)))" },
    { RDB_TYPE_SET_LISTPACK, "l" },
    { RDB_TYPE_STREAM_3, "(10 00010203040506070001020304050607 l) nnnnnnnn (s nnn (00010203040506070001020304050607 0001020304050607 n) (s 00010203040506070001020304050607 (00010203040506070001020304050607)))" },
    { RDB_TYPE_HASH_EXPIRES_OLD, "(n ss)" }, { RDB_TYPE_HASH_LISTPACK_EXPIRES_OLD, "l" }, { RDB_TYPE_HASH_EXPIRES, "0001020304050600 (n ss)" },
    { RDB_TYPE_HASH_LISTPACK_EXPIRES, "0001020304050600 l" },
};

static void put_string(struct fuzz_input *input, struct buffer *out)
{
    static const struct bytes packed = { "\xc3\x0a\x40\x78\x02" "aba\xe0\x6a\x01\x01" "ab", 14 };
    char text[400];
    size_t size = fuzz_below(input, fuzz_below(input, 10) == 0 ? sizeof(text) : 20);

    switch (fuzz_below(input, 8)) {
    case 0: buffer_append_bytes(out, packed); break;
    case 1: codec_write_string(out, bytes_of(text, text_of_int(fuzz_integer(input), text))); break;
    default:
        memset(text, 'a' + (int)fuzz_below(input, 26), size);
        codec_write_string(out, bytes_of(text, size));
    }
}

static void put_number(struct fuzz_input *input, struct buffer *out)
{
    int shift = (int)fuzz_below(input, 64);

    codec_write_length(out, fuzz_next(input) >> shift);
}

static int hex(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

static const char *put_shape(struct fuzz_input *input, struct buffer *out, const char *shape)
{
    static const struct bytes listpack = { "\x0e\x0e\0\0\0\2\0\x81" "f\x02\x81v\x02\xff", 15 };
    static const struct bytes ziplist = { "\x10\x10\0\0\0\x0d\0\0\0\2\0\0\x01" "f\x03\xf2\xff", 17 };

    for (; *shape != '\0' && *shape != ')'; shape++) {
        switch (*shape) {
        case ' ': break;
        case 's': put_string(input, out); break;
        case 'n': put_number(input, out); break;
        case 'l': buffer_append_bytes(out, listpack); break;
        case 'i': buffer_append_bytes(out, ziplist); break;
        case '(': {
            uint64_t count = fuzz_below(input, 4);
            struct buffer unused = { 0 };
            const char *end = put_shape(input, &unused, shape + 1);

            buffer_release(&unused);
            codec_write_length(out, count);
            for (uint64_t i = 0; i < count; i++)
                put_shape(input, out, shape + 1);
            shape = end;
            break;
        }
        default:
            buffer_append_u8(out, (uint8_t)(hex(shape[0]) << 4 | hex(shape[1])));
            shape++;
        }
    }
    return shape;
}

static void put_part(struct fuzz_input *input, struct buffer *file)
{
    size_t shape = fuzz_below(input, sizeof(shapes) / sizeof(shapes[0]));

    switch (fuzz_below(input, 16)) {
    case 0: buffer_append_u8(file, RDB_OPCODE_AUX); put_shape(input, file, "ss"); return;
    case 1: buffer_append_u8(file, RDB_OPCODE_SELECT); codec_write_length(file, fuzz_below(input, 20)); return;
    case 2: buffer_append_u8(file, RDB_OPCODE_RESIZE); put_shape(input, file, "nn"); return;
    case 3: buffer_append_u8(file, RDB_OPCODE_FUNCTION); put_shape(input, file, "s"); return;
    case 4: buffer_append_u8(file, RDB_OPCODE_MODULE_AUX); put_shape(input, file, "n 02 n 05s 0300000000 00"); return;
    case 5: buffer_append_u8(file, RDB_OPCODE_SLOT_INFO); put_shape(input, file, "nnn"); return;
    case 6: put_shape(input, file, "fc 0001020304050607"); break;
    case 7: put_shape(input, file, "fd 00010203"); break;
    case 8: put_shape(input, file, "f9 20"); break;
    case 9: buffer_append_u8(file, RDB_OPCODE_IDLE); put_shape(input, file, "n"); break;
    }
    buffer_append_u8(file, shapes[shape].type);
    put_string(input, file);
    put_shape(input, file, shapes[shape].body);
}

/* With a checksum of 0 damage is not found out before it is parsed. */
static void make_file(struct fuzz_input *input, struct buffer *file)
{
    uint64_t crc = 0;

    buffer_append_format(file, "REDIS%04d", (int)(fuzz_below(input, 8) == 0 ? fuzz_below(input, 14) : 12));
    for (uint64_t i = fuzz_below(input, 40); i > 0; i--)
        put_part(input, file);
    buffer_append_u8(file, RDB_OPCODE_END);
    if (fuzz_below(input, 4) == 0)
        crc = crc64(0, buffer_bytes(file));
    buffer_append(file, &crc, 8);
}

struct outcome {
    enum status status;
    uint64_t offset, parts, sum;    /* sum: over all that was handed out */
    struct message message;
};

static void add(struct outcome *outcome, struct bytes bytes)
{
    outcome->sum = crc64(outcome->sum, bytes);
    outcome->sum = crc64(outcome->sum, bytes_of(&bytes.size, sizeof(bytes.size)));
}

static void read_file(struct bytes file, size_t step, bool knows_size, bool decodes, struct outcome *outcome)
{
    static const struct value_limits limits = { .hash_listpack_entries_max = 8, .hash_listpack_value_max = 20 };
    struct stream stream = { .bytes = file, .step = step };
    struct rdb_reader *reader = rdb_reader_create(&(struct rdb_source){ stream_read, &stream, knows_size ? file.size : UINT64_MAX });
    struct buffer scratch = { 0 };
    struct rdb_part part;

    *outcome = (struct outcome){ 0 };
    while ((outcome->status = rdb_read(reader, &part, &outcome->message)) == STATUS_OK && part.kind != RDB_PART_END) {
        CHECK(rdb_reader_offset(reader) <= file.size && part.offset < file.size);
        outcome->parts++;
        add(outcome, part.name);
        add(outcome, part.value);
        add(outcome, part.payload);
        add(outcome, bytes_of(&part.expire_ms, sizeof(part.expire_ms)));
        CHECK(part.expire_ms >= -1 && part.idle_s >= -1 && part.freq >= -1 && part.freq <= 255);
        if (decodes && part.payload.size > 0) {
            struct value value;
            enum status status = codec_decode(part.payload, &limits, &scratch, &value);

            CHECK(status == STATUS_OK || status == STATUS_CORRUPT);
            if (status == STATUS_OK && value_is_object(&value))
                value_free(&value);
            scratch.size = 0;
        }
    }
    outcome->offset = rdb_reader_offset(reader);
    CHECK((outcome->status == STATUS_OK) == message_is_empty(&outcome->message));
    CHECK(outcome->status == STATUS_OK || outcome->status == STATUS_CORRUPT || outcome->status == STATUS_TRUNCATED ||
        outcome->status == STATUS_VERSION);
    rdb_reader_destroy(reader);
    buffer_release(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct bytes telling = BYTES("\0\1\x3f\x40\x7f\x80\x81\xc0\xc3\xc4\xf4\xf7\xfa\xfc\xfd\xfe\xff");
    struct fuzz_input input;
    struct buffer file = { 0 };
    struct outcome whole, parts;
    bool made, knows_size, good = false;
    struct bytes exact;
    size_t step;

    fuzz_begin(&input, data, size);
    made = fuzz_below(&input, 2);
    knows_size = fuzz_below(&input, 2);
    step = 1 + fuzz_below(&input, fuzz_below(&input, 2) ? 300 : 1);
    if (made) {
        make_file(&input, &file);
        exact = fuzz_exact_copy(buffer_bytes(&file));
        fuzz_damage(&input, &file, telling, 4, FILE_MAX);
        good = bytes_equal(exact, buffer_bytes(&file)) && memcmp(exact.data, "REDIS0012", 9) == 0;
        mem_free((void *)exact.data);
    } else {
        fuzz_rest(&input, &file);
    }
    exact = fuzz_exact_copy(buffer_bytes(&file));
    read_file(exact, SIZE_MAX, false, true, &whole);
    read_file(exact, step, knows_size, false, &parts);
    CHECK(whole.status == parts.status && whole.parts == parts.parts && whole.sum == parts.sum);
    CHECK(whole.status == STATUS_TRUNCATED || whole.offset == parts.offset);
    CHECK(!good || whole.status == STATUS_OK);
    mem_free((void *)exact.data);
    buffer_release(&file);
    return 0;
}
