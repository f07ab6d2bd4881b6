/* Page row: pages that are the places of a hash table that grows by linear hashing (containers/linear_hash.h): they have the numbers from 0 on. One is split, or two are joined, when
 * the pages are there; a step that was put off is not noted, as it follows from what the table has whether one is due.
 */
#ifndef KELVIN_CONTAINERS_PAGE_ROW_H
#define KELVIN_CONTAINERS_PAGE_ROW_H

#include "base/bytes.h"
#include "containers/linear_hash.h"
#include "containers/pager.h"

/* The step that is due. */
enum page_row_step { PAGE_ROW_STAYS, PAGE_ROW_GROWS, PAGE_ROW_SHRINKS };

/* Steps that are looked ahead beyond those that are due, and pages in all. */
enum { PAGE_ROW_AHEAD = 32, PAGE_ROW_AHEAD_MAX = 256 };

/* The pages that are missing of those that the next steps change, first come first: PAGE_ROW_AHEAD_MAX at most. `due` steps have been put off. Returns how many. */
uint32_t page_row_ahead(struct pager *pager, uint32_t pages, enum page_row_step step, uint64_t due, uint32_t numbers[PAGE_ROW_AHEAD_MAX]);

/* The page that is split when there are `next` pages, of a row that has `pages` now. False: it is not known yet, as it will have been split or made by then. */
static inline bool page_row_split(uint32_t pages, uint64_t next, uint32_t *number)
{
    uint64_t level = 1ull << linear_hash_level(pages), half = linear_hash_other_half(next + 1);

    *number = (uint32_t)half;
    return next < UINT32_MAX && (next < 2 * level || (next < 4 * level && half < pages - level));
}

/* A page's bytes; data is NULL if it is missing. */
static inline struct bytes page_row_at(struct pager *pager, uint32_t number, enum pager_use use)
{
    size_t size = 0;
    const char *data = pager->find(pager, number, use, &size);

    return bytes_of(data, size);
}

#endif
