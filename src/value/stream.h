/* Streams: entries by ID, a log that is added to at its end; and consumer groups (value/stream_group.h).
 *
 * Entries lie in nodes, which are listpacks as RDB has them, so a dump takes them as they are. A node's first element say:
 *
 *   node  = live | deleted | field count | field ... | 0 | entry ...
 *   entry = flags | ms - node's | seq - node's | value ...                              | element count      SAME_FIELDS
 *         | flags | ms - node's | seq - node's | field count | field | value ...        | element count
 *
 * The node's ID is that of its first entry, which gave it its fields. "element count" is that of the entry's elements in front of it,
 * so that one can walk backwards. An entry that was deleted is flagged; its node goes with the last live one.
 *
 * A stream may be empty: XADD and XTRIM leave it so, and a group can be made on one.
 */
#ifndef KELVIN_VALUE_STREAM_H
#define KELVIN_VALUE_STREAM_H

#include "base/text.h"
#include "containers/idmap.h"
#include "containers/listpack.h"
#include "value/value.h"

struct stream_group;

struct stream {                     /* read by anybody; changed by value/stream*.c */
    struct idmap nodes;             /* ID of the first entry -> struct listpack * */
    uint64_t length;                /* entries that are not deleted */
    uint64_t entries_added;         /* ever */
    struct stream_id first_id;      /* of the first entry; zero if there is none */
    struct stream_id last_id;       /* last ever given, or set by XSETID */
    struct stream_id max_deleted_id;
    struct stream_group **groups;   /* in the order of their names */
    uint32_t group_count, group_room;
};

struct value stream_create(void);   /* empty */
static inline struct stream *stream_of(const struct value *value) { return value->object; }

/* Appends an entry: `pair_count` times field and value. `id` is greater than last_id (CHECKed). False, and nothing done, if they are too
 * large for a node. The bytes must not lie in the stream. */
bool stream_append(struct stream *stream, const struct value_limits *limits, struct stream_id id, const struct bytes *pairs,
    size_t pair_count);
bool stream_has(const struct stream *stream, struct stream_id id);
/* False if it was not there. Keeps max_deleted_id. */
bool stream_delete(struct stream *stream, struct stream_id id);

/* Removes entries from the front: until `length_max` are left, or all below `min_id`. Approximately: whole nodes only, and never more
 * than `limit` entries (0: no limit). Returns how many went. */
struct stream_trim {
    enum { TRIM_LENGTH, TRIM_ID } by;
    bool approximate;
    uint64_t length_max;
    struct stream_id min_id;
    uint64_t limit;
};
uint64_t stream_trim(struct stream *stream, const struct stream_trim *trim);

/* The highest ID of an entry that is there; zero if there is none. */
struct stream_id stream_last_live_id(const struct stream *stream);
/* The same with deleted ones that are still in a node: last_id must not be below. */
struct stream_id stream_last_kept_id(const struct stream *stream);

/* Entries from `start` to `end`, both included, forwards or backwards. The stream does not change meanwhile. */
enum stream_direction { STREAM_UP, STREAM_DOWN };
struct stream_iterator {
    const struct stream *stream;    /* these are private */
    struct stream_id start, end, node_id;
    enum stream_direction direction;
    struct idmap_place node;
    const struct listpack *pack;    /* NULL: none is left */
    size_t at;                      /* forwards: the next entry; backwards: its last element; LISTPACK_NONE: the node is done */
    size_t node_fields, node_field_count;       /* the node's own */
    size_t field_at, value_at;      /* the next pair of the entry; field_at is LISTPACK_NONE if the entry has the fields itself */
    char field_digits[TEXT_INT_SIZE], value_digits[TEXT_INT_SIZE];
};
void stream_iterate(struct stream_iterator *iterator, const struct stream *stream, struct stream_id start, struct stream_id end,
    enum stream_direction direction);
/* The next entry. Its `pair_count` pairs are then read by stream_pair. */
bool stream_next(struct stream_iterator *iterator, struct stream_id *id, size_t *pair_count);
/* The next pair of that entry; borrowed until the next pair. */
void stream_pair(struct stream_iterator *iterator, struct bytes *field, struct bytes *value);

/* Building one from bytes that nobody vouches for; used by the codec. Nodes come in order; false for what is no valid node. The bytes
 * are copied. A node without live entries is left out. stream_build_end is given the rest of the state: last_id must not be below the
 * last entry. */
bool stream_build_node(struct stream *stream, struct stream_id id, struct bytes listpack);
bool stream_build_end(struct stream *stream);

/* For tests: CHECKs everything that must hold. */
void stream_verify(const struct stream *stream);

#endif
