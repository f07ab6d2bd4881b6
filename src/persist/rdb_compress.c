#include "persist/rdb_compress.h"

#include "base/mem.h"
#include "persist/rdb_format.h"
#include "value/codec.h"
#include "value/lzf.h"

enum {
    BODY_MAX = 64 << 20,
    STRING_MIN = 21,            /* Redis does not compress shorter ones either */
    SAVED_MIN = 5,              /* more than the second length takes, mostly */
    LZF_FORM = 0xc3,            /* the special form of a string: LZF, with both sizes before it */
    KEEP_SIZE = 1 << 20,        /* bytes of memory kept for the next one */
    /* The attempt costs more than all else of a save. After MISSES_MAX strings in a row that did not get smaller only each PROBE-th short one is
     * tried, until one does. */
    MISSES_MAX = 128,
    PROBE = 16,
    ALWAYS_TRIED = 4096,        /* bytes from which on all are tried: these are what compression is for */
};

struct rdb_compress {
    struct buffer out, packed;
    bool any;                   /* a string got smaller */
    uint32_t misses;            /* strings since the last one that got smaller */
};

struct rdb_compress *rdb_compress_create(void)
{
    return mem_zalloc(sizeof(struct rdb_compress));
}

void rdb_compress_destroy(struct rdb_compress *compress)
{
    if (compress == NULL)
        return;
    buffer_release(&compress->out);
    buffer_release(&compress->packed);
    mem_free(compress);
}

/* Copies the beginning of *input, up to `rest`, unchanged. */
static void copy_until(struct rdb_compress *compress, struct bytes *input, struct bytes rest)
{
    buffer_append(&compress->out, input->data, (size_t)(rest.data - input->data));
    *input = rest;
}

static bool copy_bytes(struct rdb_compress *compress, struct bytes *input, size_t size)
{
    if (input->size < size)
        return false;
    copy_until(compress, input, bytes_of(input->data + size, input->size - size));
    return true;
}

static bool copy_number(struct rdb_compress *compress, struct bytes *input, uint64_t *value)
{
    struct bytes rest = *input;
    bool is_special;

    if (codec_read_length(&rest, value, &is_special) != STATUS_OK || is_special)
        return false;
    copy_until(compress, input, rest);
    return true;
}

static bool is_worth_a_try(const struct rdb_compress *compress, size_t size)
{
    return size >= STRING_MIN && (size >= ALWAYS_TRIED || compress->misses < MISSES_MAX || compress->misses % PROBE == 0);
}

static void append_packed(struct rdb_compress *compress, struct bytes text)
{
    size_t size = 0, room;

    if (is_worth_a_try(compress, text.size)) {
        room = text.size - SAVED_MIN;
        size = lzf_encode(text, buffer_reserve(&compress->packed, room), room);
    }
    if (size == 0) {
        compress->misses += text.size >= STRING_MIN;
        codec_write_length(&compress->out, text.size);
        buffer_append_bytes(&compress->out, text);
        return;
    }
    buffer_append_u8(&compress->out, LZF_FORM);
    codec_write_length(&compress->out, size);
    codec_write_length(&compress->out, text.size);
    buffer_append(&compress->out, compress->packed.data, size);
    compress->any = true;
    compress->misses = 0;
}

/* Copies a string of any form, compressed if that helps; numbers and compressed strings stay as they are. */
static bool copy_string(struct rdb_compress *compress, struct bytes *input)
{
    static const size_t number_sizes[] = { 1, 2, 4 };
    struct bytes rest = *input;
    uint64_t size, full_size;
    bool is_special, is_plain;

    if (codec_read_length(&rest, &size, &is_special) != STATUS_OK)
        return false;
    is_plain = !is_special;
    if (is_special && size < 3) {
        size = number_sizes[size];
    } else if (is_special) {
        if (size != 3 || codec_read_length(&rest, &size, &is_special) != STATUS_OK || is_special ||
            codec_read_length(&rest, &full_size, &is_special) != STATUS_OK || is_special)
            return false;
    }
    if (rest.size < size)
        return false;
    if (is_plain) {
        append_packed(compress, bytes_of(rest.data, (size_t)size));
        *input = bytes_of(rest.data + size, rest.size - (size_t)size);
    } else {
        copy_until(compress, input, bytes_of(rest.data + size, rest.size - (size_t)size));
    }
    return true;
}

/* The parts of an element of a value: strings, then a number of plain bytes. */
struct shape {
    bool counted;               /* the number of elements is first */
    bool numbered;              /* each element begins with a number */
    int strings;
    size_t plain;
};

static bool shape_of(uint8_t type, struct shape *shape)
{
    switch (type) {
    case RDB_TYPE_STRING:
    case RDB_TYPE_HASH_ZIPMAP:
    case RDB_TYPE_LIST_ZIPLIST:
    case RDB_TYPE_SET_INTSET:
    case RDB_TYPE_ZSET_ZIPLIST:
    case RDB_TYPE_HASH_ZIPLIST:
    case RDB_TYPE_HASH_LISTPACK:
    case RDB_TYPE_ZSET_LISTPACK:
    case RDB_TYPE_SET_LISTPACK:
        *shape = (struct shape){ .strings = 1 };
        return true;
    case RDB_TYPE_LIST:
    case RDB_TYPE_SET:
    case RDB_TYPE_LIST_QUICKLIST:
        *shape = (struct shape){ .counted = true, .strings = 1 };
        return true;
    case RDB_TYPE_LIST_QUICKLIST_2:
        *shape = (struct shape){ .counted = true, .numbered = true, .strings = 1 };
        return true;
    case RDB_TYPE_HASH:
    case RDB_TYPE_STREAM:               /* the nodes; what follows them stays as it is */
    case RDB_TYPE_STREAM_2:
    case RDB_TYPE_STREAM_3:
        *shape = (struct shape){ .counted = true, .strings = 2 };
        return true;
    case RDB_TYPE_ZSET_2:
        *shape = (struct shape){ .counted = true, .strings = 1, .plain = sizeof(double) };
        return true;
    default:
        return false;
    }
}

static bool copy_element(struct rdb_compress *compress, const struct shape *shape, struct bytes *input)
{
    uint64_t value;

    if (shape->numbered && !copy_number(compress, input, &value))
        return false;
    for (int i = 0; i < shape->strings; i++) {
        if (!copy_string(compress, input))
            return false;
    }
    return copy_bytes(compress, input, shape->plain);
}

static void begin_body(struct rdb_compress *compress)
{
    buffer_shrink(&compress->out, KEEP_SIZE);
    buffer_shrink(&compress->packed, KEEP_SIZE);
    compress->out.size = 0;
    compress->any = false;
}

static bool end_body(const struct rdb_compress *compress, struct bytes *smaller)
{
    if (compress->any)
        *smaller = buffer_bytes(&compress->out);
    return compress->any;
}

bool rdb_compress_body(struct rdb_compress *compress, uint8_t type, struct bytes body, struct bytes *smaller)
{
    struct shape shape;
    uint64_t count = 1;

    if (body.size < STRING_MIN || body.size > BODY_MAX || !shape_of(type, &shape))
        return false;
    begin_body(compress);
    if (shape.counted && !copy_number(compress, &body, &count))
        return false;
    for (; count > 0; count--) {
        if (!copy_element(compress, &shape, &body))
            return false;           /* a reader will report what is wrong with it */
    }
    buffer_append_bytes(&compress->out, body);
    return end_body(compress, smaller);
}

bool rdb_compress_elements(struct rdb_compress *compress, uint8_t type, struct bytes elements, struct bytes *smaller)
{
    struct shape shape;

    if (elements.size > BODY_MAX || !shape_of(type, &shape) || !shape.counted)
        return false;
    begin_body(compress);
    while (elements.size > 0) {
        if (!copy_element(compress, &shape, &elements))
            return false;
    }
    return end_body(compress, smaller);
}
