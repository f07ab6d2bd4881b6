#include "value/codec.h"

#include "base/check.h"
#include "base/text.h"
#include "containers/dict.h"
#include "containers/listpack.h"
#include "containers/ziplist.h"
#include "value/hash.h"
#include "value/lzf.h"
#include "value/string.h"

enum {
    LENGTH_6 = 0x00,
    LENGTH_14 = 0x40,
    LENGTH_32 = 0x80,
    LENGTH_64 = 0x81,
    SPECIAL = 0xc0,

    SPECIAL_INT_8 = 0,
    SPECIAL_INT_16 = 1,
    SPECIAL_INT_32 = 2,
    SPECIAL_LZF = 3,

    LENGTH_SIZE_MAX = 9,
    INT_TEXT_MAX = 11,      /* of an int32, with its sign */
};

/* Writing. */

static size_t length_put(uint8_t *to, uint64_t length)
{
    size_t width;

    if (length < 64) {
        to[0] = (uint8_t)(LENGTH_6 | length);
        return 1;
    }
    if (length < 16384) {
        to[0] = (uint8_t)(LENGTH_14 | length >> 8);
        to[1] = (uint8_t)length;
        return 2;
    }
    width = length <= UINT32_MAX ? 4 : 8;
    to[0] = width == 4 ? LENGTH_32 : LENGTH_64;
    for (size_t i = 0; i < width; i++)
        to[1 + i] = (uint8_t)(length >> 8 * (width - 1 - i));
    return 1 + width;
}

void codec_write_length(struct buffer *out, uint64_t length)
{
    out->size += length_put((uint8_t *)buffer_reserve(out, LENGTH_SIZE_MAX), length);
}

static void write_raw(struct buffer *out, struct bytes bytes)
{
    char *to = buffer_reserve(out, LENGTH_SIZE_MAX + bytes.size);
    size_t width = length_put((uint8_t *)to, bytes.size);

    if (bytes.size > 0)
        memcpy(to + width, bytes.data, bytes.size);
    out->size += width + bytes.size;
}

/* In the special form, if it has 32 bits. */
static bool write_int(struct buffer *out, int64_t number)
{
    uint8_t form[5];
    size_t size;

    if (number == (int8_t)number) {
        form[0] = SPECIAL | SPECIAL_INT_8;
        size = 1;
    } else if (number == (int16_t)number) {
        form[0] = SPECIAL | SPECIAL_INT_16;
        size = 2;
    } else if (number == (int32_t)number) {
        form[0] = SPECIAL | SPECIAL_INT_32;
        size = 4;
    } else {
        return false;
    }
    for (size_t i = 0; i < size; i++)
        form[1 + i] = (uint8_t)((uint64_t)number >> 8 * i);
    buffer_append(out, form, 1 + size);
    return true;
}

void codec_write_string(struct buffer *out, struct bytes string)
{
    int64_t number;

    if (string.size == 0 || string.size > INT_TEXT_MAX || (string.data[0] > '9') || !text_to_int(string, &number) ||
        !write_int(out, number))
        write_raw(out, string);
}

static void encode_string(const struct value *value, struct buffer *out)
{
    char digits[TEXT_INT_SIZE];

    buffer_append_u8(out, CODEC_RDB_STRING);
    if (value->encoding != STRING_INT || !write_int(out, value->integer))
        write_raw(out, string_bytes(value, digits));
}

static void encode_hash(const struct value *value, struct buffer *out)
{
    struct dict_iterator iterator;
    struct bytes field, data;

    if (value->encoding == HASH_LISTPACK) {
        buffer_append_u8(out, CODEC_RDB_HASH_LISTPACK);
        write_raw(out, listpack_bytes(value->object));
        return;
    }
    buffer_append_u8(out, CODEC_RDB_HASH);
    codec_write_length(out, dict_count(value->object));
    dict_iterate(&iterator, value->object);
    while (dict_next(&iterator, &field, &data)) {
        codec_write_string(out, field);
        codec_write_string(out, data);
    }
}

void codec_encode(const struct value *value, struct buffer *out)
{
    if (value->type == VALUE_HASH) {
        encode_hash(value, out);
    } else {
        CHECK(value->type == VALUE_STRING);
        encode_string(value, out);
    }
}

/* Reading. */

static bool take(struct bytes *input, size_t size, struct bytes *taken)
{
    if (size > input->size)
        return false;
    *taken = bytes_of(input->data, size);
    input->data += size;
    input->size -= size;
    return true;
}

static uint64_t number_be(struct bytes bytes)
{
    uint64_t number = 0;

    for (size_t i = 0; i < bytes.size; i++)
        number = number << 8 | (uint8_t)bytes.data[i];
    return number;
}

static int64_t number_le(struct bytes bytes)
{
    unsigned unused = 64 - 8 * (unsigned)bytes.size;
    uint64_t number = 0;

    for (size_t i = 0; i < bytes.size; i++)
        number |= (uint64_t)(uint8_t)bytes.data[i] << 8 * i;
    return (int64_t)(number << unused) >> unused;
}

enum status codec_read_length(struct bytes *input, uint64_t *length, bool *is_special)
{
    struct bytes taken;
    uint8_t first;

    *is_special = false;
    if (!take(input, 1, &taken))
        return STATUS_CORRUPT;
    first = (uint8_t)taken.data[0];
    *length = first & 0x3f;
    switch (first & 0xc0) {
    case LENGTH_6: return STATUS_OK;
    case LENGTH_14:
        if (!take(input, 1, &taken))
            return STATUS_CORRUPT;
        *length = *length << 8 | (uint8_t)taken.data[0];
        return STATUS_OK;
    case SPECIAL: *is_special = true; return STATUS_OK;
    }
    if ((first != LENGTH_32 && first != LENGTH_64) || !take(input, first == LENGTH_32 ? 4 : 8, &taken))
        return STATUS_CORRUPT;
    *length = number_be(taken);
    return STATUS_OK;
}

/* A length that is one. */
static enum status read_size(struct bytes *input, uint64_t *size)
{
    bool is_special;
    enum status status = codec_read_length(input, size, &is_special);

    return status == STATUS_OK && is_special ? STATUS_CORRUPT : status;
}

static enum status read_lzf(struct bytes *input, struct buffer *scratch, struct bytes *string)
{
    uint64_t packed_size, size;
    struct bytes packed;
    enum status status = read_size(input, &packed_size);

    if (status == STATUS_OK)
        status = read_size(input, &size);
    if (status != STATUS_OK)
        return status;
    if (!take(input, packed_size, &packed))
        return STATUS_CORRUPT;
    status = lzf_decode(packed, size, scratch);
    if (status == STATUS_OK)
        *string = bytes_of(scratch->data + scratch->size - size, size);
    return status;
}

enum status codec_read_string(struct bytes *input, struct buffer *scratch, char digits[TEXT_INT_SIZE],
    struct bytes *string)
{
    uint64_t length;
    bool is_special;
    struct bytes taken;
    enum status status = codec_read_length(input, &length, &is_special);

    if (status != STATUS_OK)
        return status;
    if (!is_special)
        return take(input, length, string) ? STATUS_OK : STATUS_CORRUPT;
    if (length == SPECIAL_LZF)
        return read_lzf(input, scratch, string);
    if (length > SPECIAL_INT_32 || !take(input, (size_t)1 << length, &taken))
        return STATUS_CORRUPT;
    *string = bytes_of(digits, text_of_int(number_le(taken), digits));
    return STATUS_OK;
}

static enum status read_string(struct bytes *input, struct buffer *scratch, struct value *value)
{
    char digits[TEXT_INT_SIZE];
    size_t mark = scratch->size;
    struct bytes bytes;
    enum status status = codec_read_string(input, scratch, digits, &bytes);

    if (status != STATUS_OK)
        return status;
    *value = string_value(bytes);       /* digits become an integer, so nothing borrows from them */
    if (value->encoding != STRING_EMBEDDED)
        scratch->size = mark;
    return STATUS_OK;
}

/* One pair after the other, from any of the three forms that are not a listpack. */
struct pairs {
    uint8_t type;
    uint64_t left;                      /* plain pairs; the others know their end */
    struct bytes *input;
    struct buffer *scratch;
    struct ziplist_reader ziplist;
    struct zipmap_reader zipmap;
    char field_digits[TEXT_INT_SIZE], value_digits[TEXT_INT_SIZE];
};

static enum status pairs_next_plain(struct pairs *pairs, struct bytes *field, struct bytes *value)
{
    size_t mark = pairs->scratch->size, mark_value;
    enum status status;

    if (pairs->left-- == 0)
        return STATUS_NOT_FOUND;
    status = codec_read_string(pairs->input, pairs->scratch, pairs->field_digits, field);
    mark_value = pairs->scratch->size;
    if (status == STATUS_OK)
        status = codec_read_string(pairs->input, pairs->scratch, pairs->value_digits, value);
    if (mark_value > mark)
        field->data = pairs->scratch->data + mark;      /* reading the value may have moved it */
    pairs->scratch->size = mark;                        /* what is there stays until the next pair */
    return status;
}

/* STATUS_NOT_FOUND at the end. */
static enum status pairs_next(struct pairs *pairs, struct bytes *field, struct bytes *value)
{
    enum status status;

    switch (pairs->type) {
    case CODEC_RDB_HASH: return pairs_next_plain(pairs, field, value);
    case CODEC_RDB_HASH_ZIPMAP: return zipmap_next(&pairs->zipmap, field, value);
    }
    status = ziplist_next(&pairs->ziplist, field, pairs->field_digits);
    if (status != STATUS_OK)
        return status;
    status = ziplist_next(&pairs->ziplist, value, pairs->value_digits);
    return status == STATUS_NOT_FOUND ? STATUS_CORRUPT : status;
}

static enum status read_pairs(struct pairs *pairs, const struct value_limits *limits, struct value *value)
{
    struct value hash = hash_build(limits, pairs->left);
    struct bytes field, data;
    enum status status;

    while ((status = pairs_next(pairs, &field, &data)) == STATUS_OK) {
        if (!hash_build_add(&hash, limits, field, data)) {
            status = STATUS_CORRUPT;
            break;
        }
    }
    if (status == STATUS_NOT_FOUND && hash_count(&hash) > 0 && hash_build_end(&hash, limits)) {
        *value = hash;
        return STATUS_OK;
    }
    value_free(&hash);
    return STATUS_CORRUPT;
}

static enum status read_hash(uint8_t type, struct bytes *input, const struct value_limits *limits, struct buffer *scratch,
    struct value *value)
{
    struct pairs pairs = { .type = type, .input = input, .scratch = scratch };
    size_t mark = scratch->size;
    char digits[TEXT_INT_SIZE];
    struct bytes blob;
    enum status status;

    if (type == CODEC_RDB_HASH) {
        status = read_size(input, &pairs.left);
        if (status == STATUS_OK && pairs.left > input->size / 2)
            status = STATUS_CORRUPT;                    /* a pair takes two bytes at least */
        return status == STATUS_OK ? read_pairs(&pairs, limits, value) : status;
    }
    status = codec_read_string(input, scratch, digits, &blob);
    scratch->size = mark;                               /* nothing else is written there below */
    if (status != STATUS_OK)
        return status;
    if (type == CODEC_RDB_HASH_LISTPACK)
        return hash_of_listpack(blob, limits, value);
    status = type == CODEC_RDB_HASH_ZIPMAP ? zipmap_read(&pairs.zipmap, blob) : ziplist_read(&pairs.ziplist, blob);
    return status == STATUS_OK ? read_pairs(&pairs, limits, value) : status;
}

enum status codec_read(uint8_t rdb_type, struct bytes *input, const struct value_limits *limits, struct buffer *scratch,
    struct value *value)
{
    switch (rdb_type) {
    case CODEC_RDB_STRING: return read_string(input, scratch, value);
    case CODEC_RDB_HASH:
    case CODEC_RDB_HASH_ZIPMAP:
    case CODEC_RDB_HASH_ZIPLIST:
    case CODEC_RDB_HASH_LISTPACK: return read_hash(rdb_type, input, limits, scratch, value);
    }
    return STATUS_CORRUPT;
}

enum status codec_decode(struct bytes payload, const struct value_limits *limits, struct buffer *scratch,
    struct value *value)
{
    struct bytes type;
    struct value read;
    enum status status;

    if (!take(&payload, 1, &type))
        return STATUS_CORRUPT;
    status = codec_read((uint8_t)type.data[0], &payload, limits, scratch, &read);
    if (status != STATUS_OK)
        return status;
    if (payload.size > 0) {
        value_free(&read);
        return STATUS_CORRUPT;
    }
    *value = read;
    return STATUS_OK;
}

/* DUMP and RESTORE. */

void codec_dump(const struct value *value, struct buffer *out)
{
    size_t start = out->size;
    uint64_t crc;

    codec_encode(value, out);
    buffer_append_u8(out, CODEC_RDB_VERSION);
    buffer_append_u8(out, 0);
    crc = crc64(0, bytes_of(out->data + start, out->size - start));
    buffer_append(out, &crc, sizeof(crc));          /* little-endian machines only */
}

enum status codec_restore(struct bytes dump, const struct value_limits *limits, struct buffer *scratch,
    struct value *value)
{
    struct bytes payload = dump;
    const char *footer;
    uint64_t crc;

    if (dump.size < CODEC_DUMP_FOOTER_SIZE)
        return STATUS_INVALID;
    payload.size -= CODEC_DUMP_FOOTER_SIZE;
    footer = payload.data + payload.size;
    if (((uint8_t)footer[0] | (uint8_t)footer[1] << 8) > CODEC_RDB_VERSION_MAX)
        return STATUS_INVALID;
    memcpy(&crc, footer + 2, sizeof(crc));
    if (crc != crc64(0, bytes_of(dump.data, dump.size - sizeof(crc))))
        return STATUS_INVALID;
    return codec_decode(payload, limits, scratch, value);
}

enum status codec_peek_type(struct bytes payload, enum value_type *type)
{
    if (payload.size == 0)
        return STATUS_CORRUPT;
    switch ((enum codec_rdb_type)(uint8_t)payload.data[0]) {
    case CODEC_RDB_STRING:
        *type = VALUE_STRING;
        return STATUS_OK;
    case CODEC_RDB_HASH:
    case CODEC_RDB_HASH_ZIPMAP:
    case CODEC_RDB_HASH_ZIPLIST:
    case CODEC_RDB_HASH_LISTPACK:
        *type = VALUE_HASH;
        return STATUS_OK;
    }
    return STATUS_CORRUPT;
}
