#include "table_file.h"

#include <string.h>

#include "base/buffer.h"
#include "masked_crc.h"

enum { FOOTER_SIZE = 48, TRAILER_SIZE = 5 };
static const uint64_t magic = 0xdb4775248b80fb57ull;

struct handle {
    uint64_t offset, size;
};

struct checking {
    struct bytes data;
    table_damaged *damaged;
    void *context;
    struct table_counts *counts;
    bool good;
};

static void report_damage(struct checking *checking, const struct table_damage *damage)
{
    checking->good = false;
    checking->damaged(checking->context, damage);
}

/* Any key after `first` may have been there. */
static void report_keys_lost_after(struct checking *checking, struct bytes first, const struct handle *where, const char *what)
{
    report_damage(checking, &(struct table_damage){ .offset = where->offset, .size = where->size, .what = what, .has_keys = true,
        .to_the_end = true, .first = first, .last = { "", 0 } });
}

static uint32_t u32_at(const char *at)
{
    uint32_t number;

    memcpy(&number, at, 4);
    return number;
}

static bool take_varint(struct bytes *from, uint64_t *number)
{
    *number = 0;
    for (int shift = 0; shift < 64 && from->size > 0; shift += 7) {
        uint8_t byte = (uint8_t)from->data[0];

        *from = bytes_of(from->data + 1, from->size - 1);
        *number |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

static bool take_handle(struct bytes *from, struct handle *handle)
{
    return take_varint(from, &handle->offset) && take_varint(from, &handle->size);
}

/* Sets *raw to the block's bytes as they are in the file, and verifies its checksum. NULL, or what is wrong. */
static const char *verify_block(struct checking *checking, const struct handle *handle, struct bytes *raw)
{
    uint64_t size = checking->data.size - FOOTER_SIZE;
    const char *at;

    if (handle->offset > size || handle->size > size - handle->offset || size - handle->offset - handle->size < TRAILER_SIZE)
        return "a block is outside of the file";
    at = checking->data.data + handle->offset;
    checking->counts->blocks++;
    if (masked_crc(at, handle->size + 1) != u32_at(at + handle->size + 1))
        return "a block's checksum is wrong";
    if (at[handle->size] != 0)
        return "a block has an unknown compression";
    *raw = bytes_of(at, handle->size);
    return NULL;
}

/* entry = shared varint, unshared varint, value size varint, unshared bytes of the key, value; then restarts u32..., their count u32.
 * `key` holds the key so far. */
static bool take_entry(struct bytes *from, struct buffer *key, struct bytes *value)
{
    uint64_t shared, unshared, value_size;

    if (!take_varint(from, &shared) || !take_varint(from, &unshared) || !take_varint(from, &value_size) || shared > key->size ||
        unshared > from->size || value_size > from->size - unshared)
        return false;
    key->size = shared;
    buffer_append(key, from->data, unshared);
    *value = bytes_of(from->data + unshared, value_size);
    *from = bytes_of(from->data + unshared + value_size, from->size - unshared - value_size);
    return true;
}

static bool find_entries(struct bytes contents, struct bytes *entries)
{
    uint32_t restarts;

    if (contents.size < 4)
        return false;
    restarts = u32_at(contents.data + contents.size - 4);
    if (restarts > (contents.size - 4) / 4)
        return false;
    *entries = bytes_of(contents.data, contents.size - 4 - 4 * (size_t)restarts);
    return true;
}

static const char *check_metaindex(struct checking *checking, struct bytes contents, struct handle *bad)
{
    struct bytes entries, value, raw;
    struct buffer key = { 0 };
    const char *what = NULL;

    if (!find_entries(contents, &entries))
        return "the metaindex is invalid";
    while (what == NULL && entries.size > 0) {
        struct handle handle;

        if (!take_entry(&entries, &key, &value) || !take_handle(&value, &handle)) {
            what = "the metaindex is invalid";
        } else {
            *bad = handle;
            what = verify_block(checking, &handle, &raw) != NULL ? "the filter's checksum is wrong" : NULL;
        }
    }
    buffer_release(&key);
    return what;
}

/* Checks all data blocks, by the index. An invalid entry of the index ends it. */
static void check_blocks(struct checking *checking, struct bytes contents, const struct handle *index)
{
    struct bytes entries, value, raw;
    struct buffer key = { 0 }, before = { 0 };

    if (!find_entries(contents, &entries)) {
        report_keys_lost_after(checking, bytes_of("", 0), index, "the index is invalid");
        return;
    }
    while (entries.size > 0) {
        struct handle handle;
        const char *what;

        if (!take_entry(&entries, &key, &value) || !take_handle(&value, &handle)) {
            report_keys_lost_after(checking, buffer_bytes(&before), index, "the index is invalid");
            break;
        }
        what = verify_block(checking, &handle, &raw);
        if (what != NULL)
            report_damage(checking, &(struct table_damage){ .offset = handle.offset, .size = handle.size, .what = what, .has_keys = true,
                .first = buffer_bytes(&before), .last = buffer_bytes(&key) });
        before.size = 0;
        buffer_append_bytes(&before, buffer_bytes(&key));
    }
    buffer_release(&key);
    buffer_release(&before);
}

bool table_file_check(struct bytes data, table_damaged *damaged, void *context, struct table_counts *counts)
{
    struct checking checking = { data, damaged, context, counts, true };
    struct handle metaindex, index, filter = { 0, 0 }, end = { data.size < FOOTER_SIZE ? 0 : data.size - FOOTER_SIZE, FOOTER_SIZE };
    struct bytes footer, raw;
    const char *what = NULL;

    counts->bytes += data.size;
    if (data.size < FOOTER_SIZE || memcmp(data.data + data.size - 8, &magic, 8) != 0) {
        report_keys_lost_after(&checking, bytes_of("", 0), &end, "it does not end like a table");
        return false;
    }
    footer = bytes_of(data.data + data.size - FOOTER_SIZE, FOOTER_SIZE - 8);
    if (!take_handle(&footer, &metaindex) || !take_handle(&footer, &index)) {
        report_keys_lost_after(&checking, bytes_of("", 0), &end, "the footer is invalid");
        return false;
    }
    what = verify_block(&checking, &metaindex, &raw);
    if (what == NULL) {
        what = check_metaindex(&checking, raw, &filter);
        metaindex = what != NULL ? filter : metaindex;
    }
    if (what != NULL)
        report_damage(&checking, &(struct table_damage){ .offset = metaindex.offset, .size = metaindex.size, .what = what });
    what = verify_block(&checking, &index, &raw);
    if (what != NULL)
        report_keys_lost_after(&checking, bytes_of("", 0), &index, what);
    else
        check_blocks(&checking, raw, &index);
    return checking.good;
}
