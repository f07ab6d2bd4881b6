/* Questions of calls about what they are about to do with a stream that may be in pages: reading and searching as they will, in a mode in which a missing page is noted. */
#include "base/compiler.h"
#include "value/stream_private.h"

static struct paged_access *begin_question(const struct stream *stream)
{
    struct value value = stream_nodes_value(stream);

    return paged_begin_question(&value);
}

/* False: something that is missing was wanted. */
static bool end_question(struct paged_access *access)
{
    return paged_end_question(access, access->wanted_count == 0);
}

static void want_node(const struct stream *stream, const struct stream_place *place)
{
    struct stream_id id;

    (void)stream_node_read(stream, place, &id);
}

bool stream_has_add(const struct stream *stream)
{
    struct value value;
    uint64_t in_pages;

    if (LIKELY(stream->pages == NULL))
        return true;
    value = stream_nodes_value(stream);
    in_pages = stream->pages->tree.count;
    return paged_has_leaves(&value, 1) && (in_pages == 0 || paged_tree_has_nodes(&value, in_pages - 1, 1));
}

bool stream_has_append(const struct stream *stream, const struct value_limits *limits, const struct bytes *pairs, size_t pair_count)
{
    const struct listpack *pack = NULL;
    struct paged_access *access;
    struct stream_place last;
    struct stream_id id;

    if (LIKELY(stream->pages == NULL))
        return true;
    access = begin_question(stream);
    if (stream_node_last(stream, &last))
        pack = stream_node_read(stream, &last, &id);
    if (!end_question(access))
        return false;
    return (pack != NULL && stream_node_takes(stream, pack, limits, pair_count, stream_pairs_size(pairs, pair_count))) || stream_has_add(stream);
}

/* By ranks: in the nodes at the ends there are entries outside of the range, so it may be one node more. */
bool stream_has_range(const struct stream *stream, struct stream_id start, struct stream_id end, uint64_t count_max, enum stream_direction direction)
{
    struct stream_place low, high;
    struct paged_access *access;
    struct value value;
    uint64_t from, to, spare;

    if (LIKELY(stream->pages == NULL) || stream_id_compare(start, end) > 0)
        return true;
    value = stream_nodes_value(stream);
    access = begin_question(stream);
    if (stream_node_reach(stream, start, &low) && stream_node_reach(stream, end, &high)) {
        from = low.in_pages.rank;
        to = high.in_pages.rank + high.in_pages.count;
        if (direction == STREAM_UP) {
            spare = stream_id_is_zero(start) ? 0 : low.in_pages.count;
            if (count_max > 0 && to - from > count_max + spare)
                to = from + count_max + spare;
        } else {
            spare = stream_id_compare(end, STREAM_ID_MAX) == 0 ? 0 : high.in_pages.count;
            if (count_max > 0 && to - from > count_max + spare)
                from = to - count_max - spare;
        }
        (void)paged_tree_has_ranks(&value, from, to - from);
    }
    return end_question(access);
}

bool stream_has_ids(const struct stream *stream, const struct stream_id *ids, size_t count)
{
    struct paged_access *access;

    if (LIKELY(stream->pages == NULL))
        return true;
    access = begin_question(stream);
    for (size_t i = 0; i < count; i++) {
        struct stream_place place, beside;

        if (!stream_node_seek(stream, ids[i], &place))
            continue;
        want_node(stream, &place);
        if (place.in_pages.count > count)
            continue;
        /* The node may go: then the next one may be the first, and one of those beside it is where others of the IDs are looked for. */
        beside = place;
        if ((count > 1 || place.in_pages.rank == 0) && stream_node_next(stream, &beside))
            want_node(stream, &beside);
        beside = place;
        if (count > 1 && stream_node_previous(stream, &beside))
            want_node(stream, &beside);
    }
    return end_question(access);
}

bool stream_has_trim(const struct stream *stream, const struct stream_trim *trim, uint64_t added)
{
    struct paged_access *access;
    struct stream_trim_plan plan;
    struct stream_place place;

    if (LIKELY(stream->pages == NULL))
        return true;
    access = begin_question(stream);
    if (stream_trim_plan(stream, trim, added, &plan, &place)) {
        want_node(stream, &place);
        if (stream_node_next(stream, &place))
            want_node(stream, &place);
    }
    return end_question(access);
}
