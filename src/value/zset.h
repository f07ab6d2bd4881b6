/* Sorted sets: members in the order of (score, member). A listpack while small, a counted tree (containers/btree.h)
 * beyond the limits, or in pages (value/paged_zset.h). Every function may change zset->encoding and zset->object; the caller puts the value back into its
 * entry (key_changed does).
 *
 * A score is any double but NaN. In a listpack -0 becomes 0, as in Redis. A *rank* counts from 0, the lowest.
 */
#ifndef KELVIN_VALUE_ZSET_H
#define KELVIN_VALUE_ZSET_H

#include "base/random.h"
#include "base/text.h"
#include "containers/btree.h"
#include "value/paged_zset.h"
#include "value/value.h"

struct value zset_create(void);                                 /* empty, a listpack */
/* Empty, in the encoding that Redis gives to a new key which is about to get `count` members, the first of `member_size` bytes. */
struct value zset_create_for(const struct value_limits *limits, size_t count, size_t member_size);
/* `count` members are about to be added: changes the encoding now if a listpack may not have that many. */
void zset_expect(struct value *zset, const struct value_limits *limits, size_t count);
size_t zset_count(const struct value *zset);

bool zset_score(const struct value *zset, struct bytes member, double *score);
/* False: the set is in pages that are missing; otherwise `is_there` says whether there is such a member. */
bool zset_rank(const struct value *zset, struct bytes member, bool *is_there, size_t *rank, double *score);
/* Adds a member or changes its score. True if it is new. The bytes must not be part of the set. */
bool zset_put(struct value *zset, const struct value_limits *limits, struct bytes member, double score);
/* The same for a member that is known not to be there: it is not looked up. */
void zset_insert(struct value *zset, const struct value_limits *limits, struct bytes member, double score);
bool zset_remove(struct value *zset, struct bytes member);
/* Removes `count` members from rank `first` on, which must exist. */
void zset_remove_ranks(struct value *zset, size_t first, size_t count);

/* The number of members below a border, which is the rank of the first member that is not below it
 * (containers/btree.h). By member: for sets whose scores are all equal. False: the set is in pages that are missing. */
bool zset_score_border(const struct value *zset, double score, enum btree_border border, size_t *rank);
bool zset_member_border(const struct value *zset, struct bytes member, enum btree_border border, size_t *rank);

/* A random member, all with the same probability; the set must not be empty. False: it is in pages that are missing. */
bool zset_random(const struct value *zset, struct random *random, struct bytes *member, double *score);

/* Iterates from a rank, up or down, to the end. The set must not change meanwhile. A member is borrowed until the next step. */
enum zset_direction { ZSET_UP, ZSET_DOWN };
struct zset_iterator {
    const struct value *zset;
    enum zset_direction direction;
    bool ended, was_taken;              /* these fields are private */
    size_t at;                          /* in a listpack */
    size_t rank;                        /* where it begins, in pages */
    struct btree_place place;
    struct paged_order_place in_pages;
    char digits[TEXT_INT_SIZE];
};
void zset_iterate(struct zset_iterator *iterator, const struct value *zset, size_t rank, enum zset_direction direction);
bool zset_next(struct zset_iterator *iterator, struct bytes *member, double *score);

/* ZSCAN: calls `found` for about `count` members from the cursor on and changes it to the next one, 0 at the end. A listpack
 * is returned completely. A member that is there from the first to the last call is found at least once. False: it is in pages that are missing. */
bool zset_scan(const struct value *zset, uint64_t *cursor, size_t count, btree_found *found, void *context);

/* Questions of a call about what it is about to do with a set that may be in pages. False: pages are missing, and the call asks for them (key_ask); the question is to be put again then. */
static inline bool zset_is_here(const struct value *zset) { return !value_is_paged(zset); }       /* nothing needs to be asked */
bool zset_has_room(const struct value *zset, size_t count);                             /* growing by that many */
bool zset_has_all(const struct value *zset);                                            /* reading all, also by member */
bool zset_has_ranks(const struct value *zset, size_t first, size_t count);              /* reading these, as far as they are there */
bool zset_has_removal(const struct value *zset, size_t first, size_t count);            /* zset_remove_ranks */
bool zset_has_score(const struct value *zset, struct bytes member, bool *is_there, double *score);      /* zset_score, whose result is set then */
bool zset_has_put(const struct value *zset, struct bytes member, double score, bool adds, size_t count);        /* zset_put, of the member's score and this one if `adds`; one of `count` */
bool zset_has_element(const struct value *zset, struct bytes member);                   /* zset_remove */

/* NULL: it is none. */
const struct btree *zset_tree(const struct value *zset);

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
