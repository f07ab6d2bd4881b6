/* Roots: which pages of values in pages (tier/record.h) have good records. 16 bytes of memory for each page, 24 and the key for each value. */
#ifndef KELVIN_CHECK_ROOTS_H
#define KELVIN_CHECK_ROOTS_H

#include "base/buffer.h"

struct good_page {
    uint64_t id;
    uint32_t incarnation, number;       /* of the page space */
};
struct good_root {
    uint64_t id;
    uint32_t incarnation;               /* of the database */
    uint32_t table_pages, tree_pages;
    size_t key_at, key_size;            /* in `keys` */
};
/* All zero is empty. */
struct roots {
    struct good_page *page_list;
    size_t page_count, page_capacity;
    struct good_root *list;
    size_t count, capacity;
    struct buffer keys;
};

void roots_release(struct roots *roots);
/* A good record of any key. */
void roots_note(struct roots *roots, uint32_t incarnation, struct bytes key, struct bytes record);
/* Calls `lacking` for each value that lacks pages. */
typedef void root_lacks(void *context, uint32_t incarnation, struct bytes key, uint32_t missing, uint32_t pages);
void roots_compare(struct roots *roots, root_lacks *lacking, void *context);

#endif
