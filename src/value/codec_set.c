/* Sets: an intset as it is, or one member after the other; listpacks are read, too. */
#include "containers/intset.h"
#include "value/codec_private.h"
#include "value/set.h"

void codec_write_set(const struct value *value, struct buffer *out)
{
    struct set_iterator iterator;
    struct bytes member;

    if (value->encoding == SET_INTSET) {
        buffer_append_u8(out, CODEC_RDB_SET_INTSET);
        codec_write_raw(out, intset_bytes(value->object));
        return;
    }
    buffer_append_u8(out, CODEC_RDB_SET);
    codec_write_length(out, set_count(value));
    set_iterate(&iterator, value);
    while (set_next(&iterator, &member))
        codec_write_string(out, member);
}

static enum status read_members(struct bytes *input, const struct value_limits *limits, struct buffer *scratch,
    struct value *value)
{
    size_t mark = scratch->size;
    char digits[TEXT_INT_SIZE];
    enum status status;
    struct bytes member;
    struct value set;
    uint64_t count;

    status = codec_read_size(input, &count);
    if (status != STATUS_OK)
        return status;
    if (count == 0 || count > input->size)          /* a member takes at least one byte */
        return STATUS_CORRUPT;
    set = set_build(limits, count);
    for (; count > 0 && status == STATUS_OK; count--) {
        status = codec_read_string(input, limits->string_unpacked_max, scratch, digits, &member);
        if (status == STATUS_OK && !set_build_add(&set, limits, member))
            status = STATUS_CORRUPT;
        scratch->size = mark;
    }
    if (status == STATUS_OK && set_build_end(&set, limits)) {
        *value = set;
        return STATUS_OK;
    }
    value_free(&set);
    return STATUS_CORRUPT;
}

enum status codec_read_set(uint8_t type, struct bytes *input, const struct value_limits *limits, struct buffer *scratch,
    struct value *value)
{
    struct bytes blob;
    enum status status;

    if (type == CODEC_RDB_SET)
        return read_members(input, limits, scratch, value);
    status = codec_read_blob(input, scratch, &blob);
    if (status != STATUS_OK)
        return status;
    return type == CODEC_RDB_SET_INTSET ? set_of_intset(blob, limits, value) : set_of_listpack(blob, limits, value);
}
