/* Stream, private: reading nodes and entries, whose format is described in stream.h. Inline, because iteration does it
 * for each entry.
 *
 * These bytes have been checked (stream_build.c) or were written by Kelvin: anything invalid is a bug.
 */
#ifndef KELVIN_VALUE_STREAM_PRIVATE_H
#define KELVIN_VALUE_STREAM_PRIVATE_H

#include "base/check.h"
#include "value/stream_nodes.h"

enum {
    STREAM_ENTRY_DELETED = 1,
    STREAM_ENTRY_SAME_FIELDS = 2,

    NODE_HEAD_ELEMENTS = 4,              /* elements of a node in addition to its fields and entries */
    ENTRY_HEAD_ELEMENTS = 5,             /* of an entry in addition to its fields and values, at most */
    NODE_SIZE_MAX = LISTPACK_SIZE_MAX - (1 << 16),
};

static inline int64_t number_at(const struct listpack *pack, size_t at)
{
    int64_t number = 0;

    CHECK(at != LISTPACK_NONE && listpack_get_int(pack, at, &number));
    return number;
}

static inline uint64_t node_live(const struct listpack *pack)
{
    return (uint64_t)number_at(pack, listpack_first(pack));
}

static inline size_t skip_elements(const struct listpack *pack, size_t at, size_t count)
{
    for (; count > 0 && at != LISTPACK_NONE; count--)
        at = listpack_next(pack, at);
    return at;
}

/* The position of the first field, and the number of fields. */
static inline size_t node_fields(const struct listpack *pack, size_t *field_count)
{
    size_t at = skip_elements(pack, listpack_first(pack), 2);

    *field_count = (size_t)number_at(pack, at);
    return listpack_next(pack, at);
}

static inline size_t node_first_entry(const struct listpack *pack)
{
    size_t field_count, at = node_fields(pack, &field_count);

    return skip_elements(pack, at, field_count + 1);
}

/* A decoded entry. */
struct stream_entry {
    int64_t flags;
    struct stream_id id;
    size_t pair_count;
    size_t pairs;               /* the first field, or the first value if the node has the fields; LISTPACK_NONE if there are none */
};

static inline struct stream_entry stream_entry_read(const struct listpack *pack, struct stream_id node_id, size_t at,
    size_t node_field_count)
{
    struct stream_entry view = { .flags = number_at(pack, at), .id = node_id, .pair_count = node_field_count };

    at = listpack_next(pack, at);
    view.id.ms += (uint64_t)number_at(pack, at);
    at = listpack_next(pack, at);
    view.id.seq += (uint64_t)number_at(pack, at);
    if (!(view.flags & STREAM_ENTRY_SAME_FIELDS)) {
        at = listpack_next(pack, at);
        view.pair_count = (size_t)number_at(pack, at);
    }
    view.pairs = listpack_next(pack, at);
    return view;
}

/* The position of the next entry; LISTPACK_NONE if this is the last one. */
static inline size_t stream_entry_skip(const struct listpack *pack, const struct stream_entry *view)
{
    return skip_elements(pack, view->pairs, view->pair_count * (view->flags & STREAM_ENTRY_SAME_FIELDS ? 1 : 2) + 1);
}

/* The position of the last entry, which must exist. */
static inline size_t node_last_entry(const struct listpack *pack)
{
    size_t at = listpack_last(pack);

    for (int64_t count = number_at(pack, at); count > 0; count--)
        at = listpack_previous(pack, at);
    return at;
}

/* The ID of the last entry, deleted or not. */
static inline struct stream_id node_last_id(const struct listpack *pack, struct stream_id node_id)
{
    return stream_entry_read(pack, node_id, node_last_entry(pack), 0).id;
}

/* Whether the node has room for one more entry. Counted against `size` are, as in Redis, fields and values. */
bool stream_node_takes(const struct stream *stream, const struct listpack *pack, const struct value_limits *limits, size_t pair_count, size_t size);
size_t stream_pairs_size(const struct bytes *pairs, size_t pair_count);

/* Updates first_id. */
void stream_note_first(struct stream *stream);

/* The entries that a trim removes. */
struct stream_trim_plan {
    uint64_t nodes;             /* from the front */
    uint64_t live;              /* entries of those */
    bool within;                /* then entries of the next one */
};
/* For a stream that has `added` entries more. `place`: the first node that is not removed as a whole; false if there is none, or pages are wanted. */
bool stream_trim_plan(const struct stream *stream, const struct stream_trim *trim, uint64_t added, struct stream_trim_plan *plan, struct stream_place *place);

#endif
