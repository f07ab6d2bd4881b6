#include "roots.h"

#include <stdlib.h>

#include "base/mem.h"
#include "containers/paged_table.h"
#include "keyspace/page_name.h"
#include "tier/record.h"

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
    struct paged_root root;
    uint64_t id;

    if (incarnation_is_of_pages(incarnation)) {
        note_page(roots, incarnation, key);
        return;
    }
    if (!record_peek_pages(record, &id, &root))
        return;
    if (roots->count == roots->capacity) {
        roots->capacity = roots->capacity * 2 + 64;
        roots->list = mem_realloc(roots->list, roots->capacity * sizeof(*roots->list));
    }
    roots->list[roots->count++] = (struct good_root){ id, incarnation, root.pages, roots->keys.size, key.size };
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

void roots_compare(struct roots *roots, root_lacks *lacking, void *context)
{
    if (roots->page_count > 0)
        qsort(roots->page_list, roots->page_count, sizeof(*roots->page_list), compare_pages);
    for (size_t i = 0; i < roots->count; i++) {
        const struct good_root *root = &roots->list[i];
        struct good_page first = { root->id, root->incarnation | INCARNATION_PAGES, 0 }, end = { root->id, first.incarnation, root->pages };
        size_t good = find_page(roots, &end) - find_page(roots, &first);

        if (good < root->pages)
            lacking(context, root->incarnation, bytes_of(roots->keys.data + root->key_at, root->key_size), root->pages - (uint32_t)good, root->pages);
    }
}
