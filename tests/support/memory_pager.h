/* A pager whose pages are in memory, each in a block of exactly its size, which is another one after each change: what reads stale or other bytes is found by the
 * address sanitizer. Any page can be made missing. Failures CHECK. */
#ifndef KELVIN_SUPPORT_MEMORY_PAGER_H
#define KELVIN_SUPPORT_MEMORY_PAGER_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/random.h"
#include "containers/pager.h"

struct memory_page {
    char *data;                 /* NULL: it does not exist */
    size_t size;
    bool is_missing;
};

struct memory_pager {
    struct pager pager;         /* first */
    struct memory_page *pages;
    uint32_t capacity, count;   /* of `pages`; of pages that exist */
    uint64_t changes;           /* calls that changed something */
    uint64_t brought;           /* pages */
};

void memory_pager_init(struct memory_pager *pager);
void memory_pager_release(struct memory_pager *pager);
/* Makes each page missing with a chance of one in `one_in`. */
void memory_pager_lose(struct memory_pager *pager, struct random *random, uint64_t one_in);
void memory_pager_load(struct memory_pager *pager, uint32_t number);
void memory_pager_load_all(struct memory_pager *pager);
/* Also of a missing one. */
struct bytes memory_pager_page(const struct memory_pager *pager, uint32_t number);

#endif
