/* Score index: from the hash of a member to its score, for a large sorted set whose members are in other pages, in the order of scores. With the score a member is found there, and
 * whether it is the right one is seen there: here are 32 bits of its hash only, so several scores may be found, or one of another member.
 *
 *   page = hash u32 of each entry... | score f64 of each entry...        12 bytes each, in no particular order
 *
 * Linear hashing over pages (containers/page_row.h), so the low bits of the hash are the same in a page, and the others tell its members apart: of 85 entries in one of 10^6 pages
 * another one has the hash that is looked for in 2 % of the cases. Why not fewer bits: a page that is split needs one more each time, and the members are elsewhere.
 *
 * Owner: the owner of the value. Scores are compared as bits. Functions that meet a page that is missing say so and have changed nothing.
 */
#ifndef KELVIN_CONTAINERS_SCORE_INDEX_H
#define KELVIN_CONTAINERS_SCORE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "containers/page_row.h"

struct score_root {
    uint64_t count;             /* entries */
    uint32_t pages;             /* numbers below it exist, and no others; at least 1 */
};

enum { SCORE_INDEX_ENTRIES = 85 };      /* in a page, on average at most: 1 KiB */

/* Made for each use. */
struct score_index {
    struct score_root *root;
    struct pager *pager;
    uint32_t entries;           /* SCORE_INDEX_ENTRIES, or fewer in tests */
};

enum score_answer { SCORE_NO, SCORE_YES, SCORE_MISSING };

/* Fills the root, and creates the pages that `count` entries will need: 0 if that is not known. */
void score_index_create(const struct score_index *index, uint64_t count);

/* The page that a hash belongs to. All hashes are of 64 bits. */
uint32_t score_index_page(const struct score_index *index, uint64_t hash);

/* The next score with the hash; *at is 0 for the first one, and then stays as it was left. SCORE_NO: those were all. A change of the index in between may hide some. */
enum score_answer score_index_find(const struct score_index *index, uint64_t hash, uint32_t *at, double *score);
/* SCORE_YES, or SCORE_MISSING. */
enum score_answer score_index_add(const struct score_index *index, uint64_t hash, double score);
/* One entry with that hash and score. SCORE_NO: there is none. */
enum score_answer score_index_remove(const struct score_index *index, uint64_t hash, double score);
enum score_answer score_index_change(const struct score_index *index, uint64_t hash, double from, double to);

/* As paged_table_ahead and paged_table_settle. */
uint32_t score_index_ahead(const struct score_index *index, uint32_t numbers[PAGE_ROW_AHEAD_MAX]);
void score_index_settle(const struct score_index *index);

/* Whether bytes from outside can be a page: then nothing outside of them is read. */
bool score_page_is_sound(struct bytes page);

#endif
