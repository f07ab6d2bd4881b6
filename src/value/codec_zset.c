/* Sorted sets: a listpack, or members with scores of eight bytes, the highest first, which is the fastest order for
 * Redis to load. Scores as text and ziplists are read, too.
 */
#include <math.h>
#include <string.h>

#include "containers/listpack.h"
#include "containers/ziplist.h"
#include "value/codec_private.h"
#include "value/zset.h"

/* The length of a score as text, or one of these values, which have no text. */
enum { SCORE_NAN = 253, SCORE_INFINITE = 254, SCORE_MINUS_INFINITE = 255 };

void codec_write_zset(const struct value *value, struct buffer *out)
{
    struct zset_iterator iterator;
    struct bytes member;
    double score;

    if (value->encoding == ZSET_LISTPACK) {
        buffer_append_u8(out, CODEC_RDB_ZSET_LISTPACK);
        codec_write_raw(out, listpack_bytes(value->object));
        return;
    }
    buffer_append_u8(out, CODEC_RDB_ZSET_2);
    codec_write_length(out, zset_count(value));
    zset_iterate(&iterator, value, zset_count(value) - 1, ZSET_DOWN);
    while (zset_next(&iterator, &member, &score)) {
        codec_write_string(out, member);
        buffer_append(out, &score, sizeof(score));      /* little-endian machines only */
    }
}

static enum status read_text_score(struct bytes *input, double *score)
{
    struct bytes taken;
    uint8_t size;

    if (!codec_take(input, 1, &taken))
        return STATUS_CORRUPT;
    size = (uint8_t)taken.data[0];
    if (size == SCORE_INFINITE || size == SCORE_MINUS_INFINITE) {
        *score = size == SCORE_INFINITE ? INFINITY : -INFINITY;
        return STATUS_OK;
    }
    return size != SCORE_NAN && codec_take(input, size, &taken) && text_to_double(taken, score) ? STATUS_OK : STATUS_CORRUPT;
}

static enum status read_binary_score(struct bytes *input, double *score)
{
    struct bytes taken;

    if (!codec_take(input, sizeof(*score), &taken))
        return STATUS_CORRUPT;
    memcpy(score, taken.data, sizeof(*score));
    return STATUS_OK;
}

static enum status read_pairs(uint8_t type, struct bytes *input, const struct value_limits *limits, struct buffer *scratch,
    struct value *zset)
{
    uint64_t count;
    enum status status = codec_read_size(input, &count);

    if (status != STATUS_OK || count == 0 || count > input->size / 2)      /* at least two bytes each */
        return STATUS_CORRUPT;
    zset_build_reserve(zset, count);
    for (; status == STATUS_OK && count > 0; count--) {
        size_t mark = scratch->size;
        char digits[TEXT_INT_SIZE];
        struct bytes member;
        double score;

        status = codec_read_string(input, limits->string_unpacked_max, scratch, digits, &member);
        scratch->size = mark;           /* the member stays there until the next one */
        if (status == STATUS_OK)
            status = type == CODEC_RDB_ZSET ? read_text_score(input, &score) : read_binary_score(input, &score);
        if (status == STATUS_OK && !zset_build_add(zset, member, score))
            status = STATUS_CORRUPT;
    }
    return status;
}

static enum status read_ziplist(struct bytes blob, struct value *zset)
{
    char member_digits[TEXT_INT_SIZE], score_digits[TEXT_INT_SIZE];
    struct ziplist_reader ziplist;
    struct bytes member, text;
    double score;
    enum status status = ziplist_read(&ziplist, blob);

    if (status != STATUS_OK)
        return status;
    while ((status = ziplist_next(&ziplist, &member, member_digits)) == STATUS_OK) {
        if (ziplist_next(&ziplist, &text, score_digits) != STATUS_OK || !text_to_double(text, &score) ||
            !zset_build_add(zset, member, score))
            return STATUS_CORRUPT;
    }
    return status == STATUS_NOT_FOUND && zset_count(zset) > 0 ? STATUS_OK : STATUS_CORRUPT;
}

enum status codec_read_zset(uint8_t type, struct bytes *input, const struct value_limits *limits, struct buffer *scratch,
    struct value *value)
{
    struct bytes blob;
    struct value zset;
    enum status status;

    if (type == CODEC_RDB_ZSET_ZIPLIST || type == CODEC_RDB_ZSET_LISTPACK) {
        status = codec_read_blob(input, scratch, &blob);
        if (status != STATUS_OK)
            return status;
    }
    if (type == CODEC_RDB_ZSET_LISTPACK)
        return zset_of_listpack(blob, limits, value);
    zset = zset_build(limits);
    status = type == CODEC_RDB_ZSET_ZIPLIST ? read_ziplist(blob, &zset) : read_pairs(type, input, limits, scratch, &zset);
    if (status != STATUS_OK) {
        value_free(&zset);
        return status;
    }
    zset_compact(&zset, limits);
    *value = zset;
    return STATUS_OK;
}
