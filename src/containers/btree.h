/* Btree: different members (byte strings) in the order of (score, member). A counted B+ tree with an index of its
 * members.
 *
 * It supports what a sorted set needs: from a rank, a score or a member to a place, from a place to its rank, in O(log
 * n); from a place to its neighbours, in O(1).
 *
 * Why not a skip list and a dict, as in Redis (some 90 to 110 bytes per element in addition to the member):
 *
 * - Members and scores are stored in the leaves, in order, in blocks of up to LEAF_SIZE_MAX bytes that are never much
 *   larger than their contents. Reading a range is reading memory sequentially, and there are no pointers to members.
 * - Nodes have 24-bit ids, which one table maps to addresses. So a block may be reallocated whenever its size changes,
 *   and a reference to a node takes 4 bytes.
 * - The index of the members, a hash table, contains for each member only the id of its leaf and 7 bits of the hash: 4
 *   bytes. A leaf has 8 bits of each member's hash side by side, so finding a member reads one cache line of the index
 *   and a few of the leaf. The index entry does not change when the member moves within its leaf, which is all that
 *   most insertions and removals do. The price is that when a leaf splits, half of its members must be hashed again: on
 *   average one per insertion.
 * - An inner node contains for each child its first score and the number of elements below it. If scores are equal, the
 *   first member is read from the leaf, so members are not copied into inner nodes.
 *
 * In addition to 8 bytes of score and the member itself, an element takes 3 bytes in the leaf, about 6 in the index,
 * and the allocator's rounding of a leaf (measurements in docs/decisions/0008-sorted-sets.md).
 *
 * A score is any double but NaN; 0 and -0 are equal in order and stored as given. Members are ordered as by memcmp, a
 * prefix first. Limit, CHECKed: 2^24 nodes, enough for a billion short members, or sixty million of 255 bytes and more.
 *
 * Owner: the owner of the value. Functions that take a const btree change nothing, so any number of threads may read
 * while none writes. Bytes passed to a function that changes the tree must not be part of it; bytes returned are
 * borrowed until it changes.
 */
#ifndef KELVIN_CONTAINERS_BTREE_H
#define KELVIN_CONTAINERS_BTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/siphash.h"

struct btree;

/* The tree keeps a copy of the seed. Trees with the same seed scan their members in the same order. */
struct btree *btree_create(const struct hash_seed *seed);
/* About `count` elements are expected: sizes the index of an empty tree, so that it does not have to grow step by step. */
void btree_reserve(struct btree *tree, size_t count);
void btree_destroy(struct btree *tree);                     /* NULL is fine; takes time proportional to the number of leaves */
struct btree *btree_copy(const struct btree *tree);
size_t btree_count(const struct btree *tree);
size_t btree_size(const struct btree *tree);                /* bytes of all members and scores */

/* A place refers to an element. Valid until the tree changes. */
struct btree_place {
    uint32_t leaf, slot;
};

/* Adds a member or changes its score. True if it is new. */
bool btree_put(struct btree *tree, struct bytes member, double score);
/* The same for a member that is known not to be there: it is not looked up. */
void btree_insert(struct btree *tree, struct bytes member, double score);
/* False if it is not there. */
bool btree_remove(struct btree *tree, struct bytes member);
/* Removes `count` elements from rank `first` on, which must exist. O(count + log n). */
void btree_remove_ranks(struct btree *tree, size_t first, size_t count);

/* Finds the place of a member. */
bool btree_find(const struct btree *tree, struct bytes member, struct btree_place *place);
/* The score and the member at a place. */
double btree_get(const struct btree *tree, struct btree_place place, struct bytes *member);
size_t btree_rank(const struct btree *tree, struct btree_place place);      /* 0 is the lowest */
/* Finds the place with this rank; false if the rank is not below the count. */
bool btree_seek_rank(const struct btree *tree, size_t rank, struct btree_place *place);
/* False after the last element and before the first. */
bool btree_next(const struct btree *tree, struct btree_place *place);
bool btree_previous(const struct btree *tree, struct btree_place *place);

/* The number of elements below a border, which is the rank of the first element that is not below it. Below the border
 * are the elements with a score below `score`, or not above it; or, in a tree whose scores are all equal, those with a
 * member below `member`, or not above it. */
enum btree_border { BTREE_BELOW, BTREE_NOT_ABOVE };
size_t btree_count_by_score(const struct btree *tree, double score, enum btree_border border);
size_t btree_count_by_member(const struct btree *tree, struct bytes member, enum btree_border border);

/* Calls `found` for about `count` elements from `cursor` on and returns the next cursor. 0 begins and ends a scan.
 * Between two calls the tree may change in any way: a member that is there from the first call to the last is found at
 * least once. Any cursor is safe to pass. `found` must not change the tree. */
typedef void btree_found(void *context, struct bytes member, double score);
uint64_t btree_scan(const struct btree *tree, uint64_t cursor, size_t count, btree_found *found, void *context);

/* Bytes of memory as the allocator counts them. Measures about `samples` nodes and extrapolates; 0 measures all. */
size_t btree_memory(const struct btree *tree, size_t samples);

/* The number of memory blocks, long members not counted: a measure of the work of freeing the tree. */
size_t btree_blocks(const struct btree *tree);

/* For tests: CHECKs all invariants of the tree. */
void btree_verify(const struct btree *tree);

#endif
