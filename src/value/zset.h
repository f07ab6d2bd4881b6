/* Sorted sets: members in the order of (score, member). A listpack while small, a counted tree (containers/btree.h)
 * beyond the limits. Every function may change zset->encoding and zset->object; the caller puts the value back into its
 * entry (key_changed does).
 *
 * A score is any double but NaN. In a listpack -0 becomes 0, as in Redis. A *rank* counts from 0, the lowest.
 */
#ifndef KELVIN_VALUE_ZSET_H
#define KELVIN_VALUE_ZSET_H

#include "base/text.h"
#include "containers/btree.h"
#include "value/value.h"

struct value zset_create(void);                                 /* empty, a listpack */
/* Empty, in the encoding that Redis gives to a new key which is about to get `count` members, the first of `member_size` bytes. */
struct value zset_create_for(const struct value_limits *limits, size_t count, size_t member_size);
/* `count` members are about to be added: changes the encoding now if a listpack may not have that many. */
void zset_expect(struct value *zset, const struct value_limits *limits, size_t count);
size_t zset_count(const struct value *zset);

bool zset_score(const struct value *zset, struct bytes member, double *score);
bool zset_rank(const struct value *zset, struct bytes member, size_t *rank, double *score);
/* Adds a member or changes its score. True if it is new. The bytes must not be part of the set. */
bool zset_put(struct value *zset, const struct value_limits *limits, struct bytes member, double score);
/* The same for a member that is known not to be there: it is not looked up. */
void zset_insert(struct value *zset, const struct value_limits *limits, struct bytes member, double score);
bool zset_remove(struct value *zset, struct bytes member);
/* Removes `count` members from rank `first` on, which must exist. */
void zset_remove_ranks(struct value *zset, size_t first, size_t count);

/* The number of members below a border, which is the rank of the first member that is not below it
 * (containers/btree.h). By member: for sets whose scores are all equal. */
size_t zset_count_by_score(const struct value *zset, double score, enum btree_border border);
size_t zset_count_by_member(const struct value *zset, struct bytes member, enum btree_border border);

/* Iterates from a rank, up or down, to the end. The set must not change meanwhile. A member is borrowed until the next step. */
enum zset_direction { ZSET_UP, ZSET_DOWN };
struct zset_iterator {
    const struct value *zset;
    enum zset_direction direction;
    bool ended;                         /* these fields are private */
    size_t at;                          /* in a listpack */
    struct btree_place place;
    char digits[TEXT_INT_SIZE];
};
void zset_iterate(struct zset_iterator *iterator, const struct value *zset, size_t rank, enum zset_direction direction);
bool zset_next(struct zset_iterator *iterator, struct bytes *member, double *score);

/* ZSCAN: calls `found` for about `count` members from `cursor` on and returns the next cursor, 0 at the end. A listpack
 * is returned completely. A member that is there from the first to the last call is found at least once. */
uint64_t zset_scan(const struct value *zset, uint64_t cursor, size_t count, btree_found *found, void *context);

/* Changes a tree to a listpack if the limits allow it. Redis does this to results of *STORE commands, and after loading. */
void zset_compact(struct value *zset, const struct value_limits *limits);

/* Building a sorted set from untrusted bytes; used by the codec. zset_build creates it, zset_build_add returns false if
 * the score is NaN or the member is there already, and zset_compact ends it. */
struct value zset_build(const struct value_limits *limits);
void zset_build_reserve(struct value *zset, size_t count);      /* it must be empty; about `count` members are expected */
bool zset_build_add(struct value *zset, struct bytes member, double score);
/* From the bytes of a listpack, which are copied; a tree if it has too many members. STATUS_CORRUPT for an invalid,
 * empty or unsorted one, a score that is not a number, or a member that occurs twice. */
enum status zset_of_listpack(struct bytes listpack, const struct value_limits *limits, struct value *zset);

#endif
