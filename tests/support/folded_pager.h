/* A memory pager (support/memory_pager.h) for values in pages that have a table and a tree, whose numbers of pages are far apart (value/paged.h): both go into one row.
 */
#ifndef KELVIN_SUPPORT_FOLDED_PAGER_H
#define KELVIN_SUPPORT_FOLDED_PAGER_H

#include "support/memory_pager.h"
#include "value/paged.h"

struct folded_pager {
    struct pager pager;             /* first */
    struct memory_pager memory;
};

void folded_pager_init(struct folded_pager *pager);
void folded_pager_release(struct folded_pager *pager);
/* Loads what a value wants, and forgets that; something is wanted. */
void folded_pager_load_wanted(struct folded_pager *pager, struct paged_access *access);

/* Puts a question until it returns true; `most` times at most. `rig` has a folded pager and the access. */
#define FOLDED_ASK(rig, most, question) \
    do { \
        int rounds = 0; \
        while (!(question)) { \
            assert_true(rounds++ < (most)); \
            folded_pager_load_wanted(&(rig)->folder, &(rig)->access); \
        } \
        assert_int_equal((rig)->access.wanted_count, 0); \
    } while (0)

#endif
