/* Hashes: a listpack, or field/value pairs; the older ziplists and zipmaps are read, too. With expiry times:
 *
 *   type 24 = earliest time u64 | length | { length: 0, or 1 + time - earliest; field; value }
 *   type 25 = earliest time u64 | listpack of field, value, time (0: none), ordered by time, those without at the end
 *   types 22 and 23 are the same in release candidates, without the earliest time: 22 has the times themselves
 */
#include "containers/ziplist.h"
#include "value/codec_private.h"
#include "value/hash_private.h"

static void write_timed(const struct value *value, struct buffer *out)
{
    int64_t earliest = hash_next_expiry(value);
    struct hash_iterator iterator;
    struct bytes field, data;

    buffer_append_u8(out, hash_is_pack(value) ? CODEC_RDB_HASH_LISTPACK_TIMES : CODEC_RDB_HASH_TIMES);
    buffer_append(out, &earliest, sizeof(earliest));        /* little-endian machines only */
    if (hash_is_pack(value)) {
        codec_write_raw(out, listpack_bytes(value->object));
        return;
    }
    codec_write_length(out, hash_count(value));
    hash_iterate(&iterator, value);
    while (hash_next(&iterator, &field, &data)) {
        int64_t time_ms = hash_iterator_time(&iterator, field);

        codec_write_length(out, time_ms >= 0 ? (uint64_t)(time_ms - earliest + 1) : 0);
        codec_write_string(out, field);
        codec_write_string(out, data);
    }
}

void codec_write_hash(const struct value *value, struct buffer *out)
{
    struct hash_iterator iterator;
    struct bytes field, data;

    if (hash_has_times(value)) {
        write_timed(value, out);
        return;
    }
    if (value->encoding == HASH_LISTPACK) {
        buffer_append_u8(out, CODEC_RDB_HASH_LISTPACK);
        codec_write_raw(out, listpack_bytes(value->object));
        return;
    }
    buffer_append_u8(out, CODEC_RDB_HASH);
    codec_write_length(out, hash_count(value));
    hash_iterate(&iterator, value);
    while (hash_next(&iterator, &field, &data)) {
        codec_write_string(out, field);
        codec_write_string(out, data);
    }
}

/* Reads pairs one after the other, from any of the three forms that are not a listpack. */
struct pairs {
    uint8_t type;
    uint64_t left;                      /* of plain pairs; the others know their end */
    struct bytes *input;
    size_t unpacked_max;
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
    status = codec_read_string(pairs->input, pairs->unpacked_max, pairs->scratch, pairs->field_digits, field);
    mark_value = pairs->scratch->size;
    if (status == STATUS_OK)
        status = codec_read_string(pairs->input, pairs->unpacked_max, pairs->scratch, pairs->value_digits, value);
    if (mark_value > mark)
        field->data = pairs->scratch->data + mark;      /* reading the value may have moved it */
    pairs->scratch->size = mark;                        /* its contents stay there until the next pair */
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

/* Reads fields with their times one by one: types 22 and 24. */
static enum status read_timed(struct pairs *pairs, uint64_t earliest, const struct value_limits *limits, struct value *value)
{
    struct value hash = hash_build_timed(limits, pairs->left);
    struct bytes field, data;
    enum status status = STATUS_OK;

    pairs->type = CODEC_RDB_HASH;
    while (status == STATUS_OK && pairs->left > 0) {
        uint64_t time_ms;

        status = codec_read_size(pairs->input, &time_ms);
        if (status == STATUS_OK && time_ms > 0 && earliest > 0)
            time_ms = time_ms > (uint64_t)HASH_TIME_MAX ? time_ms : time_ms + earliest - 1;
        if (status == STATUS_OK && time_ms > (uint64_t)HASH_TIME_MAX)
            status = STATUS_CORRUPT;
        if (status == STATUS_OK)
            status = pairs_next(pairs, &field, &data);
        if (status == STATUS_OK && !hash_build_timed_add(&hash, field, data, (int64_t)time_ms))
            status = STATUS_CORRUPT;
    }
    if (status == STATUS_OK && hash_build_timed_end(&hash, limits)) {
        *value = hash;
        return STATUS_OK;
    }
    value_free(&hash);
    return STATUS_CORRUPT;
}

/* Reads what follows the type. With a listpack the earliest time is redundant. */
static enum status read_with_times(uint8_t type, struct bytes *input, const struct value_limits *limits, struct buffer *scratch,
    struct value *value)
{
    struct pairs pairs = { .type = type, .input = input, .unpacked_max = limits->string_unpacked_max, .scratch = scratch };
    uint64_t earliest = 0;
    struct bytes taken;
    enum status status;

    if (type == CODEC_RDB_HASH_TIMES || type == CODEC_RDB_HASH_LISTPACK_TIMES) {
        if (!codec_take(input, sizeof(earliest), &taken))
            return STATUS_CORRUPT;
        memcpy(&earliest, taken.data, sizeof(earliest));
    }
    if (type == CODEC_RDB_HASH_LISTPACK_TIMES || type == CODEC_RDB_HASH_LISTPACK_TIMES_OLD) {
        status = codec_read_blob(input, scratch, &taken);
        return status == STATUS_OK ? hash_of_timed_listpack(taken, limits, value) : status;
    }
    status = codec_read_size(input, &pairs.left);
    if (status == STATUS_OK && (pairs.left > input->size / 3 || earliest > (uint64_t)HASH_TIME_MAX))
        status = STATUS_CORRUPT;
    return status == STATUS_OK ? read_timed(&pairs, earliest, limits, value) : status;
}

enum status codec_read_hash(uint8_t type, struct bytes *input, const struct value_limits *limits, struct buffer *scratch,
    struct value *value)
{
    struct pairs pairs = { .type = type, .input = input, .unpacked_max = limits->string_unpacked_max, .scratch = scratch };
    struct bytes blob;
    enum status status;

    if (type >= CODEC_RDB_HASH_TIMES_OLD)
        return read_with_times(type, input, limits, scratch, value);
    if (type == CODEC_RDB_HASH) {
        status = codec_read_size(input, &pairs.left);
        if (status == STATUS_OK && pairs.left > input->size / 2)
            status = STATUS_CORRUPT;                    /* a pair takes at least two bytes */
        return status == STATUS_OK ? read_pairs(&pairs, limits, value) : status;
    }
    status = codec_read_blob(input, scratch, &blob);     /* nothing else is written to scratch below */
    if (status != STATUS_OK)
        return status;
    if (type == CODEC_RDB_HASH_LISTPACK)
        return hash_of_listpack(blob, limits, value);
    status = type == CODEC_RDB_HASH_ZIPMAP ? zipmap_read(&pairs.zipmap, blob) : ziplist_read(&pairs.ziplist, blob);
    return status == STATUS_OK ? read_pairs(&pairs, limits, value) : status;
}

/* A field and its value, as they are. */
static enum status copy_pair(struct bytes *input, struct buffer *out)
{
    const char *begin = input->data;

    if (!codec_skip_string(input) || !codec_skip_string(input))
        return STATUS_CORRUPT;
    buffer_append(out, begin, (size_t)(input->data - begin));
    return STATUS_OK;
}

static enum status copy_without_times(struct bytes *input, struct buffer *out)
{
    uint64_t count, time;
    enum status status = codec_read_size(input, &count);

    if (status == STATUS_OK && count > input->size / 3)
        status = STATUS_CORRUPT;                        /* each takes three bytes at least */
    if (status == STATUS_OK)
        codec_write_length(out, count);
    for (; status == STATUS_OK && count > 0; count--) {
        status = codec_read_size(input, &time);
        if (status == STATUS_OK)
            status = copy_pair(input, out);
    }
    return status;
}

static enum status copy_pack_without_times(struct bytes *input, struct buffer *out)
{
    struct buffer scratch = { 0 };
    struct bytes blob;
    enum status status = codec_read_blob(input, &scratch, &blob);
    struct listpack *pack = status == STATUS_OK && listpack_is_valid(blob) ? listpack_of_bytes(blob) : NULL;
    size_t count = pack != NULL ? listpack_count(pack) : 0, at;

    if (status == STATUS_OK && (count == 0 || count % 3 != 0))
        status = STATUS_CORRUPT;
    if (status == STATUS_OK) {
        codec_write_length(out, count / 3);
        at = listpack_first(pack);
        for (size_t i = 0; i < count; i++, at = listpack_next(pack, at)) {
            char digits[TEXT_INT_SIZE];

            if (i % 3 != 2)
                codec_write_string(out, listpack_get(pack, at, digits));
        }
    }
    listpack_destroy(pack);
    buffer_release(&scratch);
    return status;
}

enum status codec_hash_without_times(struct bytes payload, struct buffer *out)
{
    struct bytes type, earliest;
    enum status status;

    if (!codec_take(&payload, 1, &type))
        return STATUS_CORRUPT;
    if (type.data[0] != CODEC_RDB_HASH_TIMES && type.data[0] != CODEC_RDB_HASH_LISTPACK_TIMES)
        return STATUS_CORRUPT;                          /* the others are never in records */
    if (!codec_take(&payload, sizeof(uint64_t), &earliest))
        return STATUS_CORRUPT;
    buffer_append_u8(out, CODEC_RDB_HASH);
    status = type.data[0] == CODEC_RDB_HASH_TIMES ? copy_without_times(&payload, out) : copy_pack_without_times(&payload, out);
    return status == STATUS_OK && payload.size > 0 ? STATUS_CORRUPT : status;
}
