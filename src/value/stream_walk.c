/* Iterating over a stream in either direction. */
#include "base/compiler.h"
#include "value/stream_private.h"

static void enter_node(struct stream_iterator *iterator)
{
    const struct listpack *pack = stream_node_read(iterator->stream, &iterator->node, &iterator->node_id);

    iterator->pack = pack;
    if (pack == NULL)
        return;
    iterator->node_fields = node_fields(pack, &iterator->node_field_count);
    iterator->at = iterator->direction == STREAM_UP ? node_first_entry(pack) : listpack_last(pack);
}

static bool goes_to_end(const struct stream_iterator *iterator)
{
    return iterator->direction == STREAM_UP ? stream_id_compare(iterator->end, STREAM_ID_MAX) == 0 : stream_id_is_zero(iterator->start);
}

void stream_iterate(struct stream_iterator *iterator, const struct stream *stream, struct stream_id start, struct stream_id end,
    enum stream_direction direction)
{
    iterator->stream = stream;
    iterator->start = start;
    iterator->end = end;
    iterator->direction = direction;
    iterator->pack = NULL;
    if (stream_id_compare(start, end) > 0)
        return;
    iterator->border = UINT64_MAX;
    if (UNLIKELY(stream->pages != NULL) && !goes_to_end(iterator)) {
        if (!stream_node_reach(stream, direction == STREAM_UP ? end : start, &iterator->node))
            return;
        iterator->border = iterator->node.in_pages.rank;
    }
    if (stream_node_reach(stream, direction == STREAM_UP ? start : end, &iterator->node))
        enter_node(iterator);
}

/* Advances to the next entry; false at the end of the node. */
static bool step_within(struct stream_iterator *iterator, struct stream_entry *view)
{
    const struct listpack *pack = iterator->pack;
    size_t at = iterator->at;

    if (at == LISTPACK_NONE)
        return false;
    if (iterator->direction == STREAM_UP) {
        *view = stream_entry_read(pack, iterator->node_id, at, iterator->node_field_count);
        iterator->at = stream_entry_skip(pack, view);
        return true;
    }
    /* The node's own fields end with a 0; no entry has so few elements. */
    int64_t count = number_at(pack, at);

    if (count == 0)
        return false;
    for (; count > 0; count--)
        at = listpack_previous(pack, at);
    *view = stream_entry_read(pack, iterator->node_id, at, iterator->node_field_count);
    iterator->at = listpack_previous(pack, at);
    return true;
}

static bool step_node(struct stream_iterator *iterator)
{
    bool up = iterator->direction == STREAM_UP, is_last = iterator->stream->pages != NULL && iterator->node.in_pages.rank == iterator->border;
    bool more = is_last ? false : up ? stream_node_next(iterator->stream, &iterator->node) : stream_node_previous(iterator->stream, &iterator->node);

    if (more)
        enter_node(iterator);
    else
        iterator->pack = NULL;
    return more;
}

bool stream_next(struct stream_iterator *iterator, struct stream_id *id, size_t *pair_count)
{
    bool up = iterator->direction == STREAM_UP;
    struct stream_entry view;

    while (iterator->pack != NULL) {
        if (!step_within(iterator, &view)) {
            step_node(iterator);
            continue;
        }
        if (up ? stream_id_compare(view.id, iterator->end) > 0 : stream_id_compare(view.id, iterator->start) < 0)
            break;
        if (view.flags & STREAM_ENTRY_DELETED ||
            (up ? stream_id_compare(view.id, iterator->start) < 0 : stream_id_compare(view.id, iterator->end) > 0))
            continue;
        *id = view.id;
        *pair_count = view.pair_count;
        iterator->value_at = view.pairs;
        iterator->field_at = view.flags & STREAM_ENTRY_SAME_FIELDS ? iterator->node_fields : LISTPACK_NONE;
        return true;
    }
    iterator->pack = NULL;
    return false;
}

void stream_pair(struct stream_iterator *iterator, struct bytes *field, struct bytes *value)
{
    const struct listpack *pack = iterator->pack;

    if (iterator->field_at != LISTPACK_NONE) {
        *field = listpack_get(pack, iterator->field_at, iterator->field_digits);
        iterator->field_at = listpack_next(pack, iterator->field_at);
    } else {
        *field = listpack_get(pack, iterator->value_at, iterator->field_digits);
        iterator->value_at = listpack_next(pack, iterator->value_at);
    }
    *value = listpack_get(pack, iterator->value_at, iterator->value_digits);
    iterator->value_at = listpack_next(pack, iterator->value_at);
}
