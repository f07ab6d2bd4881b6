/* Streams: a log of entries by ID, with new ones added at the end; and consumer groups (value/stream_group.h).
 *
 * Entries are in nodes, which are listpacks as in RDB, so a dump contains them as they are. The elements of a node:
 *
 *   node  = live | deleted | field count | field ... | 0 | entry ...
 *   entry = flags | ms - node's | seq - node's | value ...                              | element count      SAME_FIELDS
 *         | flags | ms - node's | seq - node's | field count | field | value ...        | element count
 *
 * The node's ID is that of its first entry, which determined the node's fields. "element count" is the number of the
 * entry's elements before it, so that entries can be read backwards. A deleted entry is flagged; its node is removed
 * with its last live entry.
 *
 * A stream may be empty: XADD and XTRIM can leave it empty, and a group can be created with an empty one.
 *
 * Nodes may be in pages: value/stream_nodes.h.
 */
#ifndef KELVIN_VALUE_STREAM_H
#define KELVIN_VALUE_STREAM_H

#include "base/text.h"
#include "containers/idmap.h"
#include "containers/listpack.h"
#include "value/paged_tree.h"
#include "value/value.h"

struct stream_group;

struct stream {                     /* anyone may read it; only value/stream*.c change it */
    struct idmap nodes;             /* ID of the first entry -> struct listpack *; in pages: the last one, or none */
    struct paged_ordered *pages;    /* of a stream in pages: what it is a part of; else NULL */
    uint64_t length;                /* entries that are not deleted */
    uint64_t entries_added;         /* since its creation */
    struct stream_id first_id;      /* of the first entry; zero if there is none */
    struct stream_id last_id;       /* the last one ever assigned, or set by XSETID */
    struct stream_id max_deleted_id;
    struct stream_group **groups;   /* ordered by name */
    uint32_t group_count, group_room;
};

/* In pages (value/paged.h) are the nodes but the last one; all else is in memory with the root. */
struct paged_stream {
    struct paged_ordered ordered;   /* first */
    struct stream stream;
};

struct value stream_create(void);   /* empty */
static inline struct stream *stream_of(const struct value *value)
{
    return value_is_paged(value) ? &((struct paged_stream *)value->object)->stream : value->object;
}

/* Appends an entry with `pair_count` fields and values. `id` must be greater than last_id (CHECKed). False, and nothing
 * changed, if they are too large for a node. The bytes must not be part of the stream. */
bool stream_append(struct stream *stream, const struct value_limits *limits, struct stream_id id, const struct bytes *pairs,
    size_t pair_count);
bool stream_has(const struct stream *stream, struct stream_id id);
/* False if it is not there. Updates max_deleted_id. */
bool stream_delete(struct stream *stream, struct stream_id id);

/* Removes entries from the front: until `length_max` are left, or all below `min_id`. If approximate: only whole nodes,
 * and at most `limit` entries (0: no limit). Returns the number removed. */
struct stream_trim {
    enum { TRIM_LENGTH, TRIM_ID } by;
    bool approximate;
    uint64_t length_max;
    struct stream_id min_id;
    uint64_t limit;
};
uint64_t stream_trim(struct stream *stream, const struct stream_trim *trim);

/* The highest ID of a live entry; zero if there is none. */
struct stream_id stream_last_live_id(const struct stream *stream);
/* The same, including deleted entries that are still in a node: last_id must not be lower. */
struct stream_id stream_last_kept_id(const struct stream *stream);

/* A node. Valid until the stream changes. */
struct stream_place {               /* these fields are private */
    struct idmap_place in_memory;
    struct page_tree_path in_pages; /* of a stream in pages; of its last node, if that is in memory, only rank and count */
    bool is_in_page;
};

/* Iterates over the entries from `start` to `end`, both included, forwards or backwards. The stream must not change meanwhile. */
enum stream_direction { STREAM_UP, STREAM_DOWN };
struct stream_iterator {
    const struct stream *stream;    /* these fields are private */
    struct stream_id start, end, node_id;
    enum stream_direction direction;
    struct stream_place node;
    uint64_t border;                /* in pages: entries before the last node of the range; UINT64_MAX: it goes on to the end */
    const struct listpack *pack;    /* NULL: none is left */
    size_t at;                      /* forwards: the next entry; backwards: its last element; LISTPACK_NONE: end of the node */
    size_t node_fields, node_field_count;       /* of the node */
    size_t field_at, value_at;      /* the next pair of the entry; field_at is LISTPACK_NONE if the entry has the node's fields */
    char field_digits[TEXT_INT_SIZE], value_digits[TEXT_INT_SIZE];
};
void stream_iterate(struct stream_iterator *iterator, const struct stream *stream, struct stream_id start, struct stream_id end,
    enum stream_direction direction);
/* The next entry. Its `pair_count` pairs are then read by stream_pair. */
bool stream_next(struct stream_iterator *iterator, struct stream_id *id, size_t *pair_count);
/* The next pair of that entry; borrowed until the next pair. */
void stream_pair(struct stream_iterator *iterator, struct bytes *field, struct bytes *value);

/* How many nodes there are; bytes of their listpacks, about. */
size_t stream_node_count(const struct stream *stream);
size_t stream_size(const struct stream *stream);

/* Questions of a call about what it is about to do with a stream that may be in pages. False: pages are missing, and the call asks for them (key_ask); the question is to be put again then. */
static inline bool stream_is_here(const struct stream *stream) { return stream->pages == NULL; }      /* nothing needs to be asked */
bool stream_has_append(const struct stream *stream, const struct value_limits *limits, const struct bytes *pairs, size_t pair_count);
bool stream_has_add(const struct stream *stream);                                       /* a node more at the end */
/* Reading up to `count_max` entries; 0: all. With 0-0 and the highest ID also stream_last_live_id and stream_last_kept_id, if it is from the end. */
bool stream_has_range(const struct stream *stream, struct stream_id start, struct stream_id end, uint64_t count_max, enum stream_direction direction);
bool stream_has_ids(const struct stream *stream, const struct stream_id *ids, size_t count);    /* reading or deleting these */
bool stream_has_trim(const struct stream *stream, const struct stream_trim *trim, uint64_t added);         /* stream_trim, after `added` entries more */
static inline bool stream_has_all(const struct stream *stream)
{
    return stream_has_range(stream, (struct stream_id){ 0, 0 }, STREAM_ID_MAX, 0, STREAM_UP);
}

/* Building a stream from untrusted bytes; used by the codec. Nodes are added in order; false if a node is not valid.
 * The bytes are copied. A node without live entries is omitted. stream_build_end gets the rest of the state: last_id
 * must not be below the last live entry. Deleted ones after that, which it may be below (XSETID of Redis 7.0), are omitted then, too. */
bool stream_build_node(struct stream *stream, struct stream_id id, struct bytes listpack);
bool stream_build_end(struct stream *stream);
/* After some of the nodes: the state that these have. */
void stream_build_part(struct stream *stream);

/* For tests: CHECKs all invariants. */
void stream_verify(const struct stream *stream);

#endif
