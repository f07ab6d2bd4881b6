/* Paged table: a hash table from keys to values, like containers/dict, whose pairs are in pages (containers/pair_page.h) that need not be resident. A set has
 * empty values. A pair may have a number beside its value, which is not 0: the time at which a field of a hash expires.
 *
 * Linear hashing with the hash and the order of dict: a scan that began in a dict with the same seed goes on here with its cursor. Each page is a place; it
 * has as many pairs as belong to it. So a page is as large as its pairs need: a pair that is larger than the usual page just makes a larger one.
 *
 * Growing and shrinking change one page or two, and none that is not resident: it is put off until it is. Which pages that waits for follows from the root alone
 * (paged_table_ahead), so there is no state of it. Pages get longer meanwhile, and a little longer only, if those are loaded soon.
 *
 * Owner: the owner of the value. Finding, walking, drawing and scanning change nothing but the uses that the pager counts. Bytes are valid as the pager says, and those
 * that are passed to a function must not be part of a page.
 */
#ifndef KELVIN_CONTAINERS_PAGED_TABLE_H
#define KELVIN_CONTAINERS_PAGED_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/random.h"
#include "base/siphash.h"
#include "containers/page_row.h"

/* All that is known without pages. Small: it stays in memory, or is loaded alone. */
struct paged_root {
    uint64_t count;             /* pairs */
    uint64_t size;              /* bytes of all pairs */
    uint32_t pages;             /* numbers below it exist, and no others; at least 1 */
    uint32_t longest;           /* upper bound of the pairs of a page; needed for a fair random choice */
    uint32_t longest_now;       /* the same of the pages that were split since their number last was a power of two, and of those that got longer */
};

/* How large pages are: on average `pairs` pairs, but not fewer bytes than `size_min` nor more than `size_max`, and not more pages than pairs. */
struct paged_limits {
    uint32_t pairs;
    uint32_t size_min, size_max;
};
#define PAGED_LIMITS_DEFAULT ((struct paged_limits){ 16, 1024, 3072 })

/* Made for each use. */
struct paged_table {
    struct paged_root *root;
    struct pager *pager;
    struct hash_seed seed;
    struct paged_limits limits;
    uint64_t hidden_until;      /* pairs with a number up to this one are not found, walked over, drawn or scanned; nothing is changed meanwhile, and the root's count is that of the others. 0: all are */
};

enum paged_answer { PAGED_NO, PAGED_YES, PAGED_MISSING };      /* missing: a page is, and nothing was changed */

/* Fills the root, and creates the pages that `count` pairs of `size` bytes in all will need: 0, 0 if that is not known. */
void paged_table_create(const struct paged_table *table, uint64_t count, uint64_t size);

/* The page that a key belongs to. */
uint32_t paged_table_page(const struct paged_table *table, struct bytes key);

/* `value` may be NULL. */
enum paged_answer paged_table_find(const struct paged_table *table, struct bytes key, struct bytes *value);
/* Sets the number of the key's pair, 0 if it has none. */
enum paged_answer paged_table_number(const struct paged_table *table, struct bytes key, uint64_t *number);
/* Adds without a number, or overwrites the value only. PAGED_YES: the key is new. Nothing is changed, neither the root, if the key is there and its value and the other one are empty. Values that get smaller do not make the table shrink: paged_table_settle does. */
enum paged_answer paged_table_put(const struct paged_table *table, struct bytes key, struct bytes value);
/* Gives the key's pair the number, at most PAIR_NUMBER_MAX, or none (0). PAGED_NO: the key is not there. */
enum paged_answer paged_table_put_number(const struct paged_table *table, struct bytes key, uint64_t number);
/* PAGED_NO: it was not there. */
enum paged_answer paged_table_remove(const struct paged_table *table, struct bytes key);

/* Writes the numbers of pages that are to be loaded so that the table can grow or shrink (containers/page_row.h); no client has to wait for them. paged_table_settle takes the next steps
 * afterwards, if their pages are there, as adding does to grow, and removing to shrink: a table that was created for many pairs has its pages while they are added. */
uint32_t paged_table_ahead(const struct paged_table *table, uint32_t numbers[PAGE_ROW_AHEAD_MAX]);
/* If much more splitting was put off than that, so that pages are too long: the pages, resident or not, that are split next, `max` at most. 0: it was not. Who adds pairs now better waits for them. */
uint32_t paged_table_behind(const struct paged_table *table, uint32_t numbers[PAGE_ROW_AHEAD_MAX], uint32_t max);
void paged_table_settle(const struct paged_table *table);

/* All pairs, each once, page by page from 0 on, in no particular order. The table must not change meanwhile. PAGED_NO: those were all. After PAGED_MISSING
 * it can be called again: the page is `page`. */
struct paged_iterator {
    uint32_t page, index;
    struct bytes bytes;         /* of the page; data NULL: to be looked up */
    uint64_t number;            /* of the pair that was found last */
};
enum paged_answer paged_table_next(const struct paged_table *table, struct paged_iterator *iterator, struct bytes *key, struct bytes *value);

/* A random pair, all with the same probability; the table must not be empty. PAGED_MISSING: `page` is needed, and the call with the same state of the generator. PAGED_NO: none was found in
 * many times the draws it takes, so the root is not that of these pages: damage. */
enum paged_answer paged_table_random(const struct paged_table *table, struct random *random, struct bytes *key, struct bytes *value, uint32_t *page);

/* Moves the generator on as a draw does, whose page is missing. */
void paged_table_skip_draw(const struct paged_table *table, struct random *random);

/* As dict_scan: calls `found` for about `count` pairs from the cursor on and changes it to the next one, 0 at the end. It ends before a page that is missing;
 * PAGED_MISSING if that is the first one. `found` must not change the table. */
typedef void paged_found(void *context, struct bytes key, struct bytes value);
enum paged_answer paged_table_scan(const struct paged_table *table, uint64_t *cursor, size_t count, paged_found *found, void *context);
/* The page in which a scan goes on, and the cursor after it. */
uint32_t paged_table_scan_page(const struct paged_table *table, uint64_t *cursor);

/* The root as bytes:  count u64 | size u64 | pages u32 | longest u32 | longest now u32. False: no table has such a root. */
enum { PAGED_ROOT_SIZE = 28 };
void paged_root_write(const struct paged_root *root, char bytes[PAGED_ROOT_SIZE]);
bool paged_root_read(const char bytes[PAGED_ROOT_SIZE], struct paged_root *root);

#endif
