/* Hashes: a listpack, or field/value pairs; read are the older ziplists and zipmaps, too. */
#include "containers/dict.h"
#include "containers/listpack.h"
#include "containers/ziplist.h"
#include "value/codec_private.h"
#include "value/hash.h"

void codec_write_hash(const struct value *value, struct buffer *out)
{
    struct dict_iterator iterator;
    struct bytes field, data;

    if (value->encoding == HASH_LISTPACK) {
        buffer_append_u8(out, CODEC_RDB_HASH_LISTPACK);
        codec_write_raw(out, listpack_bytes(value->object));
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

enum status codec_read_hash(uint8_t type, struct bytes *input, const struct value_limits *limits, struct buffer *scratch,
    struct value *value)
{
    struct pairs pairs = { .type = type, .input = input, .scratch = scratch };
    struct bytes blob;
    enum status status;

    if (type == CODEC_RDB_HASH) {
        status = codec_read_size(input, &pairs.left);
        if (status == STATUS_OK && pairs.left > input->size / 2)
            status = STATUS_CORRUPT;                    /* a pair takes two bytes at least */
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
