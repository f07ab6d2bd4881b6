#include "roots.h"

#include <stdlib.h>

#include "base/mem.h"
#include "keyspace/page_name.h"
#include "tier/record.h"
#include "value/paged.h"

void roots_release(struct roots *roots)
{
    mem_free(roots->page_list);
    mem_free(roots->list);
    buffer_release(&roots->keys);
    *roots = (struct roots){ 0 };
}

static void note_page(struct roots *roots, uint32_t incarnation, struct bytes name)
{
    struct good_page page = { .incarnation = incarnation };

    if (!page_name_parse(name, &page.id, &page.number))
        return;
    if (roots->page_count == roots->page_capacity) {
        roots->page_capacity = roots->page_capacity * 2 + 1024;
        roots->page_list = mem_realloc(roots->page_list, roots->page_capacity * sizeof(*roots->page_list));
    }
    roots->page_list[roots->page_count++] = page;
}

void roots_note(struct roots *roots, uint32_t incarnation, struct bytes key, struct bytes record)
{
    struct paged_extent pages;

    if (incarnation_is_of_pages(incarnation)) {
        note_page(roots, incarnation, key);
        return;
    }
    if (!record_peek_pages(record, &pages, NULL))
        return;
    if (roots->count == roots->capacity) {
        roots->capacity = roots->capacity * 2 + 64;
        roots->list = mem_realloc(roots->list, roots->capacity * sizeof(*roots->list));
    }
    roots->list[roots->count++] = (struct good_root){ pages.id, incarnation, pages.table_pages, pages.tree_pages, roots->keys.size, key.size };
    buffer_append_bytes(&roots->keys, key);
}

/* Pages of one value are together. */
static int compare_pages(const void *a, const void *b)
{
    const struct good_page *first = a, *second = b;

    if (first->incarnation != second->incarnation)
        return first->incarnation < second->incarnation ? -1 : 1;
    if (first->id != second->id)
        return first->id < second->id ? -1 : 1;
    return first->number < second->number ? -1 : first->number > second->number;
}

/* The index of the first page that is not before this one. */
static size_t find_page(const struct roots *roots, const struct good_page *page)
{
    size_t low = 0, high = roots->page_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare_pages(&roots->page_list[middle], page) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* How many of its pages from `first` to `end - 1` are good. */
static uint32_t count_good(const struct roots *roots, const struct good_root *root, uint32_t first, uint32_t end)
{
    uint32_t incarnation = root->incarnation | INCARNATION_PAGES;
    struct good_page from = { root->id, incarnation, first }, to = { root->id, incarnation, end };

    return (uint32_t)(find_page(roots, &to) - find_page(roots, &from));
}

void roots_compare(struct roots *roots, root_lacks *lacking, void *context)
{
    if (roots->page_count > 0)
        qsort(roots->page_list, roots->page_count, sizeof(*roots->page_list), compare_pages);
    for (size_t i = 0; i < roots->count; i++) {
        const struct good_root *root = &roots->list[i];
        uint32_t all = root->table_pages + root->tree_pages;
        uint32_t good = count_good(roots, root, 0, root->table_pages) + count_good(roots, root, PAGED_TREE_FIRST, PAGED_TREE_FIRST + root->tree_pages);

        if (good < all)
            lacking(context, root->incarnation, bytes_of(roots->keys.data + root->key_at, root->key_size), all - good, all);
    }
}
