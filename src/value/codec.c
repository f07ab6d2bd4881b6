#include "value/codec.h"

#include "base/check.h"
#include "base/crc64.h"
#include "base/text.h"
#include "containers/listpack.h"
#include "value/codec_private.h"
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

/* Writing */

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

void codec_write_raw(struct buffer *out, struct bytes bytes)
{
    char *to = buffer_reserve(out, LENGTH_SIZE_MAX + bytes.size);
    size_t width = length_put((uint8_t *)to, bytes.size);

    if (bytes.size > 0)
        memcpy(to + width, bytes.data, bytes.size);
    out->size += width + bytes.size;
}

/* Writes the special form, if the number has 32 bits. */
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
        codec_write_raw(out, string);
}

static void write_string(const struct value *value, struct buffer *out)
{
    char digits[TEXT_INT_SIZE];

    buffer_append_u8(out, CODEC_RDB_STRING);
    if (UNLIKELY(string_is_in_blocks(value))) {
        size_t size = string_size(value);

        codec_write_length(out, size);
        string_read(value, 0, size, buffer_reserve(out, size));
        out->size += size;
        return;
    }
    if (value->encoding != STRING_INT || !write_int(out, value->integer))
        codec_write_raw(out, string_bytes(value, digits));
}

/* Reading */

bool codec_take(struct bytes *input, size_t size, struct bytes *taken)
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
    if (!codec_take(input, 1, &taken))
        return STATUS_CORRUPT;
    first = (uint8_t)taken.data[0];
    *length = first & 0x3f;
    switch (first & 0xc0) {
    case LENGTH_6: return STATUS_OK;
    case LENGTH_14:
        if (!codec_take(input, 1, &taken))
            return STATUS_CORRUPT;
        *length = *length << 8 | (uint8_t)taken.data[0];
        return STATUS_OK;
    case SPECIAL: *is_special = true; return STATUS_OK;
    }
    if ((first != LENGTH_32 && first != LENGTH_64) || !codec_take(input, first == LENGTH_32 ? 4 : 8, &taken))
        return STATUS_CORRUPT;
    *length = number_be(taken);
    return STATUS_OK;
}

enum status codec_read_size(struct bytes *input, uint64_t *size)
{
    bool is_special;
    enum status status = codec_read_length(input, size, &is_special);

    return status == STATUS_OK && is_special ? STATUS_CORRUPT : status;
}

static enum status read_lzf(struct bytes *input, size_t unpacked_max, struct buffer *scratch, struct bytes *string)
{
    uint64_t packed_size, size;
    struct bytes packed;
    enum status status = codec_read_size(input, &packed_size);

    if (status == STATUS_OK)
        status = codec_read_size(input, &size);
    if (status != STATUS_OK)
        return status;
    if (!codec_take(input, packed_size, &packed) || (unpacked_max > 0 && size > unpacked_max))
        return STATUS_CORRUPT;
    status = lzf_decode(packed, size, scratch);
    if (status == STATUS_OK)
        *string = bytes_of(scratch->data + scratch->size - size, size);
    return status;
}

enum status codec_read_string(struct bytes *input, size_t unpacked_max, struct buffer *scratch, char digits[TEXT_INT_SIZE],
    struct bytes *string)
{
    uint64_t length;
    bool is_special;
    struct bytes taken;
    enum status status = codec_read_length(input, &length, &is_special);

    if (status != STATUS_OK)
        return status;
    if (!is_special)
        return codec_take(input, length, string) ? STATUS_OK : STATUS_CORRUPT;
    if (length == SPECIAL_LZF)
        return read_lzf(input, unpacked_max, scratch, string);
    if (length > SPECIAL_INT_32 || !codec_take(input, (size_t)1 << length, &taken))
        return STATUS_CORRUPT;
    *string = bytes_of(digits, text_of_int(number_le(taken), digits));
    return STATUS_OK;
}

bool codec_skip_string(struct bytes *input)
{
    uint64_t length, unpacked;
    struct bytes taken;
    bool is_special;

    if (codec_read_length(input, &length, &is_special) != STATUS_OK)
        return false;
    if (!is_special)
        return codec_take(input, length, &taken);
    if (length <= SPECIAL_INT_32)
        return codec_take(input, (size_t)1 << length, &taken);
    return length == SPECIAL_LZF && codec_read_size(input, &length) == STATUS_OK && codec_read_size(input, &unpacked) == STATUS_OK &&
        codec_take(input, length, &taken);
}

static enum status read_string(uint8_t rdb_type, struct bytes *input, const struct value_limits *limits,
    struct buffer *scratch, struct value *value)
{
    char digits[TEXT_INT_SIZE];
    size_t mark = scratch->size;
    struct bytes bytes;
    enum status status = codec_read_string(input, limits->string_unpacked_max, scratch, digits, &bytes);

    if (status != STATUS_OK)
        return status;
    *value = string_value(bytes);       /* digits become an integer, so the value does not borrow from them */
    if (value->encoding != STRING_EMBEDDED)
        scratch->size = mark;
    return STATUS_OK;
}

enum status codec_read_blob(struct bytes *input, struct buffer *scratch, struct bytes *blob)
{
    size_t mark = scratch->size;
    char digits[TEXT_INT_SIZE];
    enum status status = codec_read_string(input, LISTPACK_SIZE_MAX, scratch, digits, blob);

    scratch->size = mark;
    if (status == STATUS_OK && blob->data == digits)    /* an integer is not a blob, and `digits` ends with this function */
        status = STATUS_CORRUPT;
    return status;
}

/* The tables */

static codec_writer *const writers[VALUE_TYPE_COUNT] = {
    [VALUE_STRING] = write_string,
    [VALUE_LIST] = codec_write_list,
    [VALUE_SET] = codec_write_set,
    [VALUE_ZSET] = codec_write_zset,
    [VALUE_HASH] = codec_write_hash,
    [VALUE_STREAM] = codec_write_stream,
};

/* The reader of an RDB type, and the encoding for which it is written. */
struct rdb_row {
    enum value_type type;
    codec_reader *read;
    enum { NEVER_WRITTEN, OF_COMPACT, OF_TABLE } written;     /* a string has only one form */
};

static const struct rdb_row rdb_rows[] = {
    [CODEC_RDB_STRING] = { VALUE_STRING, read_string, NEVER_WRITTEN },
    [CODEC_RDB_LIST] = { VALUE_LIST, codec_read_list, NEVER_WRITTEN },
    [CODEC_RDB_LIST_ZIPLIST] = { VALUE_LIST, codec_read_list, NEVER_WRITTEN },
    [CODEC_RDB_LIST_QUICKLIST] = { VALUE_LIST, codec_read_list, NEVER_WRITTEN },
    [CODEC_RDB_LIST_QUICKLIST_2] = { VALUE_LIST, codec_read_list, OF_TABLE },
    [CODEC_RDB_SET] = { VALUE_SET, codec_read_set, OF_TABLE },
    [CODEC_RDB_SET_INTSET] = { VALUE_SET, codec_read_set, OF_COMPACT },
    [CODEC_RDB_SET_LISTPACK] = { VALUE_SET, codec_read_set, NEVER_WRITTEN },
    [CODEC_RDB_ZSET] = { VALUE_ZSET, codec_read_zset, NEVER_WRITTEN },
    [CODEC_RDB_ZSET_2] = { VALUE_ZSET, codec_read_zset, OF_TABLE },
    [CODEC_RDB_ZSET_ZIPLIST] = { VALUE_ZSET, codec_read_zset, NEVER_WRITTEN },
    [CODEC_RDB_ZSET_LISTPACK] = { VALUE_ZSET, codec_read_zset, OF_COMPACT },
    [CODEC_RDB_HASH] = { VALUE_HASH, codec_read_hash, OF_TABLE },
    [CODEC_RDB_HASH_ZIPMAP] = { VALUE_HASH, codec_read_hash, NEVER_WRITTEN },
    [CODEC_RDB_HASH_ZIPLIST] = { VALUE_HASH, codec_read_hash, NEVER_WRITTEN },
    [CODEC_RDB_HASH_LISTPACK] = { VALUE_HASH, codec_read_hash, OF_COMPACT },
    [CODEC_RDB_HASH_TIMES_OLD] = { VALUE_HASH, codec_read_hash, NEVER_WRITTEN },
    [CODEC_RDB_HASH_LISTPACK_TIMES_OLD] = { VALUE_HASH, codec_read_hash, NEVER_WRITTEN },
    [CODEC_RDB_HASH_TIMES] = { VALUE_HASH, codec_read_hash, OF_TABLE },
    [CODEC_RDB_HASH_LISTPACK_TIMES] = { VALUE_HASH, codec_read_hash, OF_COMPACT },
    [CODEC_RDB_STREAM] = { VALUE_STREAM, codec_read_stream, NEVER_WRITTEN },
    [CODEC_RDB_STREAM_2] = { VALUE_STREAM, codec_read_stream, NEVER_WRITTEN },
    [CODEC_RDB_STREAM_3] = { VALUE_STREAM, codec_read_stream, NEVER_WRITTEN },       /* written, but there are no limits to restore */
};

/* NULL for an unknown type. */
static const struct rdb_row *rdb_row_of(uint8_t rdb_type)
{
    if (rdb_type >= sizeof(rdb_rows) / sizeof(rdb_rows[0]) || rdb_rows[rdb_type].read == NULL)
        return NULL;
    return &rdb_rows[rdb_type];
}

void codec_encode(const struct value *value, struct buffer *out)
{
    CHECK(value->type < VALUE_TYPE_COUNT && writers[value->type] != NULL);
    writers[value->type](value, out);
}

enum status codec_read(uint8_t rdb_type, struct bytes *input, const struct value_limits *limits, struct buffer *scratch,
    struct value *value)
{
    const struct rdb_row *row = rdb_row_of(rdb_type);

    return row != NULL ? row->read(rdb_type, input, limits, scratch, value) : STATUS_CORRUPT;
}

enum status codec_decode(struct bytes payload, const struct value_limits *limits, struct buffer *scratch,
    struct value *value)
{
    struct bytes type;
    struct value read;
    enum status status;

    if (!codec_take(&payload, 1, &type))
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

/* DUMP and RESTORE */

enum status codec_for_dump(struct bytes payload, struct buffer *room, struct bytes *dumped)
{
    size_t start = room->size;
    enum status status;

    *dumped = payload;
    if (payload.size == 0)
        return STATUS_CORRUPT;
    if (payload.data[0] != CODEC_RDB_STREAM_3)
        return STATUS_OK;
    status = codec_stream_for_dump(payload, room);
    *dumped = bytes_of(room->data + start, room->size - start);
    return status;
}

bool codec_has_times(struct bytes payload)
{
    return payload.size > 0 && (uint8_t)payload.data[0] >= CODEC_RDB_HASH_TIMES_OLD;
}

enum status codec_without_times(struct bytes payload, struct buffer *room, struct bytes *plain)
{
    size_t start = room->size;
    enum status status = codec_hash_without_times(payload, room);

    *plain = bytes_of(room->data + start, room->size - start);
    return status;
}

void codec_dump(const struct value *value, struct buffer *out)
{
    size_t start = out->size;
    uint64_t crc;

    if (value->type == VALUE_STREAM)
        codec_write_stream_for_dump(value, out);
    else
        codec_encode(value, out);
    buffer_append_u8(out, value->type == VALUE_HASH && hash_has_times(value) ? CODEC_RDB_VERSION_TIMES : CODEC_RDB_VERSION);
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
    const struct rdb_row *row = payload.size > 0 ? rdb_row_of((uint8_t)payload.data[0]) : NULL;

    if (row == NULL)
        return STATUS_CORRUPT;
    *type = row->type;
    return STATUS_OK;
}

struct value_limits codec_limits_of(struct bytes payload, enum codec_form form, const struct value_limits *limits)
{
    const struct rdb_row *row = payload.size > 0 ? rdb_row_of((uint8_t)payload.data[0]) : NULL;
    struct value_limits exact = *limits;
    size_t entries_max;

    if (row == NULL || row->written == NEVER_WRITTEN)
        return exact;
    entries_max = row->written == OF_TABLE ? 0 : SIZE_MAX;
    exact.hash_listpack_entries_max = entries_max;
    exact.set_intset_entries_max = entries_max;
    exact.set_listpack_entries_max = entries_max;
    exact.zset_listpack_entries_max = entries_max;
    exact.list_kept = form == CODEC_FROM_LISTPACK ? LIST_KEPT_LISTPACK : LIST_KEPT_CHUNKS;
    if (form == CODEC_FROM_LISTPACK) {
        exact.set_listpack_entries_max = SIZE_MAX;
        exact.set_listpack_value_max = SIZE_MAX;
    }
    return exact;
}
