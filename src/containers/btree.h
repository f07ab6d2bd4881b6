/* Btree: members, byte strings that are there once, in the order of (score, member). A counted B+ tree with an index of its members.
 *
 * What it is for: everything a sorted set is asked. By rank, score or member to a place; from a place to its rank; from place to
 * place both ways: all in O(log n), or O(1) for a step.
 *
 * Why not a skip list and a dict, as Redis has it (some 90 to 110 bytes an element beside the member):
 *
 * - Members and scores lie in the leaves themselves, in order, in blocks of up to LEAF_SIZE_MAX bytes that are never much larger
 *   than what is in them. Walking a range is reading memory in order, and there are no pointers to members anywhere.
 * - Nodes have 24-bit ids, found through one table. So a block may be reallocated whenever its size changes, and what refers to
 *   a node takes 4 bytes.
 * - The index of the members, a hash table, says for each member only its leaf's id and 7 bits of its hash: 4 bytes. A leaf has
 *   8 bits of each member's hash side by side; so looking for a member is one cache line of the index, a few lines of the leaf. The
 *   entry does not change when the member moves within its leaf, which is what nearly all insertions and removals do.
 *   The price is that half of the members of a leaf that splits must be hashed again, one for each insertion on average.
 * - An inner node knows of each child its first score and how many elements there are below it. Where scores are equal, the first member is
 *   looked up in the leaf, so members are not copied into inner nodes.
 *
 * Beside 8 bytes of score and the member itself that is 3 bytes in the leaf, about 6 in the index, and the allocator's rounding of a
 * leaf (docs/decisions/0008-sorted-sets.md has what was measured).
 *
 * Scores are any double but NaN; 0 and -0 are equal in order, and kept as they are given. Members are ordered as memcmp does, a
 * prefix first. Limits, CHECKed: 2^24 nodes, which a billion short members fill, or sixty million of 255 bytes and more.
 *
 * Owner: whoever owns the value. Functions that take a const btree change nothing, so any number of threads may read while nobody
 * writes. Bytes given to a function that changes the tree must not lie in it; bytes it gives out are borrowed until it changes.
 */
#ifndef KELVIN_CONTAINERS_BTREE_H
#define KELVIN_CONTAINERS_BTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/hash.h"

struct btree;

/* The tree keeps a copy of the seed. Scans of trees of one seed go through the members in the same order. */
struct btree *btree_create(const struct hash_seed *seed);
/* So many elements will come, as it seems: the index of an empty tree need not grow step by step. */
void btree_reserve(struct btree *tree, size_t count);
void btree_destroy(struct btree *tree);                     /* NULL is fine; takes time by the number of leaves */
struct btree *btree_copy(const struct btree *tree);
size_t btree_count(const struct btree *tree);

/* A place: an element. Holds until the tree changes. */
struct btree_place {
    uint32_t leaf, slot;
};

/* Adds a member or gives it another score. True if it is new. */
bool btree_put(struct btree *tree, struct bytes member, double score);
/* The same for a member that is known not to be there: nobody looks again. */
void btree_insert(struct btree *tree, struct bytes member, double score);
/* False if there was none. */
bool btree_remove(struct btree *tree, struct bytes member);
/* Removes `count` elements from rank `first` on; they are there. O(count + log n). */
void btree_remove_ranks(struct btree *tree, size_t first, size_t count);

/* The place of a member. */
bool btree_find(const struct btree *tree, struct bytes member, struct btree_place *place);
/* The element at a place. */
double btree_get(const struct btree *tree, struct btree_place place, struct bytes *member);
size_t btree_rank(const struct btree *tree, struct btree_place place);      /* 0 is the lowest */
/* The place with this rank; false if there are not as many elements. */
bool btree_seek_rank(const struct btree *tree, size_t rank, struct btree_place *place);
/* False behind the last and before the first. */
bool btree_next(const struct btree *tree, struct btree_place *place);
bool btree_previous(const struct btree *tree, struct btree_place *place);

/* How many elements stand below a border, which is the rank of the first that does not: those with a score below `score`, or
 * not above it; or, in a tree whose scores are all the same, those whose member is below `member`, or not above it. */
enum btree_border { BTREE_BELOW, BTREE_NOT_ABOVE };
size_t btree_count_by_score(const struct btree *tree, double score, enum btree_border border);
size_t btree_count_by_member(const struct btree *tree, struct bytes member, enum btree_border border);

/* Calls `found` for about `count` elements from `cursor` on, and returns where to go on: 0 at the end, as at the start.
 * Between two calls the tree may change in any way: a member that is there from the first call to the last is found at least
 * once. Any cursor is safe to give. `found` must not change the tree. */
typedef void btree_found(void *context, struct bytes member, double score);
uint64_t btree_scan(const struct btree *tree, uint64_t cursor, size_t count, btree_found *found, void *context);

/* Bytes of memory, as the allocator counts them. Looks at about `samples` nodes and extrapolates; 0 looks at all. */
size_t btree_memory(const struct btree *tree, size_t samples);

/* How many blocks of memory it is made of, long members not counted: the work of freeing it. */
size_t btree_blocks(const struct btree *tree);

/* For tests: CHECKs everything that must hold within the tree. */
void btree_verify(const struct btree *tree);

#endif
