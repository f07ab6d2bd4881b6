/* Building a stream from untrusted nodes, every element of which is checked. */
#include "value/stream_private.h"

#include "base/check.h"
#include "value/stream_group.h"

/* Reads the integer at *at, which must be at least `low`, and advances. */
static bool take_number(const struct listpack *pack, size_t *at, int64_t low, int64_t *number)
{
    if (*at == LISTPACK_NONE || !listpack_get_int(pack, *at, number) || *number < low)
        return false;
    *at = listpack_next(pack, *at);
    return true;
}

/* Skips `count` elements; false if there are fewer. */
static bool take_elements(const struct listpack *pack, size_t *at, int64_t count)
{
    for (; count > 0 && *at != LISTPACK_NONE; count--)
        *at = listpack_next(pack, *at);
    return count == 0;
}

static bool entry_check(const struct listpack *pack, size_t *at, struct stream_id node_id, int64_t node_field_count, struct stream_id *id,
    int64_t *flags)
{
    int64_t ms, seq, pair_count = node_field_count, element_count, count_stored;

    if (!take_number(pack, at, 0, flags) || *flags > (STREAM_ENTRY_DELETED | STREAM_ENTRY_SAME_FIELDS) ||
        !take_number(pack, at, INT64_MIN, &ms) ||
        !take_number(pack, at, INT64_MIN, &seq))
        return false;
    *id = (struct stream_id){ node_id.ms + (uint64_t)ms, node_id.seq + (uint64_t)seq };
    if (*flags & STREAM_ENTRY_SAME_FIELDS) {
        element_count = pair_count;
    } else {
        if (!take_number(pack, at, 0, &pair_count) || pair_count > LISTPACK_SIZE_MAX)
            return false;
        element_count = 1 + pair_count * 2;
    }
    return take_elements(pack, at, *flags & STREAM_ENTRY_SAME_FIELDS ? pair_count : pair_count * 2) &&
        take_number(pack, at, 0, &count_stored) && count_stored == element_count + 3;
}

/* Checks a whole node; returns the ID of the last entry, deleted or not, and the number of live ones. */
static bool node_check(const struct listpack *pack, struct stream_id node_id, struct stream_id *last, uint64_t *live_count)
{
    size_t at = listpack_first(pack);
    int64_t live, deleted, field_count, zero, flags;
    uint64_t deleted_count = 0, count = 0;
    struct stream_id id;

    *live_count = 0;
    if (!take_number(pack, &at, 0, &live) || !take_number(pack, &at, 0, &deleted) || !take_number(pack, &at, 0, &field_count) ||
        !take_elements(pack, &at, field_count) || !take_number(pack, &at, 0, &zero) || zero != 0)
        return false;
    for (; at != LISTPACK_NONE; count++) {
        if (!entry_check(pack, &at, node_id, field_count, &id, &flags) || stream_id_compare(id, count == 0 ? node_id : *last) < (count > 0))
            return false;
        *last = id;
        if (flags & STREAM_ENTRY_DELETED)
            deleted_count++;
        else
            ++*live_count;
    }
    return count > 0 && *live_count == (uint64_t)live && deleted_count == (uint64_t)deleted;
}

bool stream_page_is_sound(struct bytes page, uint64_t *live)
{
    struct stream_id last;

    return page.size > STREAM_PAGE_HEAD_SIZE && listpack_is_valid(stream_page_pack(page)) &&
        node_check((const struct listpack *)stream_page_pack(page).data, stream_page_id(page), &last, live) && *live > 0;
}

bool stream_build_node(struct stream *stream, struct stream_id id, struct bytes listpack)
{
    struct stream_id last;
    struct listpack *pack;
    uint64_t live;

    if (stream_node_count(stream) > 0 && stream_id_compare(stream_last_kept_id(stream), id) >= 0)
        return false;
    if (!listpack_is_valid(listpack))
        return false;
    pack = listpack_of_bytes(listpack);
    if (!node_check(pack, id, &last, &live)) {
        listpack_destroy(pack);
        return false;
    }
    if (live == 0) {
        listpack_destroy(pack);
        return true;
    }
    stream_node_add(stream, id, pack);
    stream->length += live;
    return true;
}

/* Deleted entries after the last live one go. */
static void drop_deleted_end(struct stream *stream)
{
    struct stream_place place;
    struct stream_edit edit;
    struct stream_id node_id;
    size_t field_count, end = LISTPACK_NONE, dropped = 0, at;

    CHECK(stream_node_last(stream, &place));
    (void)stream_node_read(stream, &place, &node_id);
    stream_node_edit(stream, &place, &edit);
    node_fields(*edit.pack, &field_count);
    for (at = node_first_entry(*edit.pack); at != LISTPACK_NONE;) {
        struct stream_entry view = stream_entry_read(*edit.pack, node_id, at, field_count);

        at = stream_entry_skip(*edit.pack, &view);
        dropped++;
        if (!(view.flags & STREAM_ENTRY_DELETED)) {
            end = at;
            dropped = 0;
        }
    }
    listpack_delete(edit.pack, end, SIZE_MAX);
    at = listpack_next(*edit.pack, listpack_first(*edit.pack));
    listpack_replace_int(edit.pack, at, number_at(*edit.pack, at) - (int64_t)dropped);
    stream_node_store(stream, &place, &edit);
}

bool stream_build_end(struct stream *stream)
{
    stream_note_first(stream);
    if (stream_id_compare(stream_last_live_id(stream), stream->last_id) > 0)
        return false;
    if (stream_id_compare(stream_last_kept_id(stream), stream->last_id) > 0)
        drop_deleted_end(stream);
    return true;
}

void stream_build_part(struct stream *stream)
{
    stream->last_id = stream_last_kept_id(stream);
    if (stream_id_is_zero(stream->first_id))
        stream_note_first(stream);
}

void stream_verify(const struct stream *stream)
{
    struct stream_place place;
    struct stream_id last = { 0, 0 };
    uint64_t length = 0, live;

    if (stream->pages == NULL)
        idmap_verify(&stream->nodes);
    for (bool more = stream_node_first(stream, &place); more; more = stream_node_next(stream, &place)) {
        struct stream_id id;
        const struct listpack *pack = stream_node_read(stream, &place, &id);

        CHECK(listpack_is_valid(listpack_bytes(pack)));
        CHECK(length == 0 || stream_id_compare(last, id) < 0);
        CHECK(node_check(pack, id, &last, &live) && live > 0 && live == stream_node_live(stream, &place));
        length += live;
    }
    CHECK(length == stream->length);
    CHECK(stream_id_compare(stream_last_live_id(stream), stream->last_id) <= 0);
    CHECK(stream->length > 0 || stream_id_is_zero(stream->first_id));
    stream_groups_verify(stream);
}
