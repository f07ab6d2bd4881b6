#include "value/paged_tree.h"

enum { NODE_SIZE_MIN = 620, TOP_SIZE_LESS = 200 };         /* room for three children with the longest separators, and in a node for one more than in the top */

static struct pager *all_of(struct pager *pager)
{
    return ((struct paged_tree_pager *)pager)->all;
}

static const char *find_page(struct pager *pager, uint32_t number, enum pager_use use, size_t *size)
{
    return all_of(pager)->find(all_of(pager), PAGED_TREE_FIRST + number, use, size);
}

static char *change_page(struct pager *pager, uint32_t number, size_t size)
{
    return all_of(pager)->change(all_of(pager), PAGED_TREE_FIRST + number, size);
}

static char *create_page(struct pager *pager, uint32_t number, size_t size)
{
    return all_of(pager)->create(all_of(pager), PAGED_TREE_FIRST + number, size);
}

static void drop_page(struct pager *pager, uint32_t number)
{
    all_of(pager)->drop(all_of(pager), PAGED_TREE_FIRST + number);
}

static void bring_page(struct pager *pager, uint32_t number)
{
    all_of(pager)->bring(all_of(pager), PAGED_TREE_FIRST + number);
}

void paged_tree_pager_init(struct paged_tree_pager *pager, struct pager *all)
{
    *pager = (struct paged_tree_pager){ { .find = find_page, .change = change_page, .create = create_page, .drop = drop_page, .bring = bring_page }, all };
}

struct page_tree paged_tree(const struct paged_access *access)
{
    size_t node_size = access->table.limits.size_min > NODE_SIZE_MIN ? access->table.limits.size_min : NODE_SIZE_MIN;

    return (struct page_tree){ access->tree, (struct pager *)&access->tree_pager.pager, { node_size, node_size - TOP_SIZE_LESS } };
}
