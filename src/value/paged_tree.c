#include "value/paged_tree.h"

#include "base/mem.h"

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

/* --- roots --- */

struct paged_value *paged_ordered_of_roots(const struct paged_root *root, const struct page_tree_root *tree, uint64_t id)
{
    struct paged_ordered *ordered = mem_alloc(sizeof(*ordered));

    *ordered = (struct paged_ordered){ { .root = *root, .id = id }, *tree };
    return &ordered->paged;
}

void paged_ordered_free(struct value *value)
{
    page_tree_root_release(&paged_ordered_of(value)->tree);
    mem_free(value->object);
}

size_t paged_ordered_memory(const struct value *value)
{
    const struct buffer *top = &paged_ordered_of(value)->tree.top;

    return mem_size(value->object) + (top->data != NULL ? mem_size(top->data) : 0);
}

/* --- finding --- */

bool paged_tree_resolve(const struct value *value, uint32_t tree_page)
{
    struct paged_access *access = paged_of(value)->access;

    if (access->asks) {
        paged_want(value, PAGED_TREE_FIRST + tree_page);
        return false;
    }
    access->tree_pager.pager.bring(&access->tree_pager.pager, tree_page);
    return true;
}

struct bytes paged_tree_leaf(const struct value *value, const struct page_tree_path *path)
{
    struct pager *pager = &paged_of(value)->access->tree_pager.pager;
    size_t size = 0;
    const char *data;

    while ((data = pager->find(pager, path->leaf, PAGER_USE, &size)) == NULL) {
        if (!paged_tree_resolve(value, path->leaf))
            break;
    }
    return bytes_of(data, size);
}

struct bytes paged_tree_resident_leaf(const struct page_tree *tree, uint32_t leaf)
{
    size_t size = 0;
    const char *data = tree->pager->find(tree->pager, leaf, PAGER_LOOK, &size);

    return bytes_of(data, size);
}

/* --- questions --- */

struct paged_access *paged_begin_question(const struct value *value)
{
    struct paged_access *access = paged_of(value)->access;

    access->asks = access->table.pager->only_looks = true;
    return access;
}

bool paged_end_question(struct paged_access *access, bool answer)
{
    access->asks = access->table.pager->only_looks = false;
    return answer;
}

static bool has_all_of(const struct value *value, size_t first, size_t count, bool with_leaves)
{
    struct page_tree tree = paged_tree(paged_of(value)->access);
    uint64_t last = count > tree.root->count - 1 ? tree.root->count - 1 : first + count - 1;
    uint32_t one, found, *numbers;

    if (count == 0 || tree.root->count == 0 || first > last || page_tree_needs(&tree, first, last, with_leaves, &one, 1) == 0)
        return true;
    numbers = mem_alloc(PAGED_WANTED_MAX * sizeof(*numbers));
    found = page_tree_needs(&tree, first, last, with_leaves, numbers, PAGED_WANTED_MAX);
    for (uint32_t i = 0; i < found; i++)
        paged_want(value, PAGED_TREE_FIRST + numbers[i]);
    mem_free(numbers);
    return false;
}

bool paged_tree_has_ranks(const struct value *value, size_t first, size_t count)
{
    return has_all_of(value, first, count, true);
}

bool paged_tree_has_nodes(const struct value *value, size_t first, size_t count)
{
    return has_all_of(value, first, count, false);
}
