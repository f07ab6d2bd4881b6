#include "value/paged_tree.h"

#include "base/mem.h"

enum { LEAF_SIZE_FACTOR = 4, LEAF_EXTRA = 64 };     /* leaves of four usual pages, with what an entry adds to a page (keyspace/pages.h) */

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

static void fetch_page(struct pager *pager, uint32_t number, enum pager_part part)
{
    all_of(pager)->fetch(all_of(pager), PAGED_TREE_FIRST + number, part);
}

void paged_tree_pager_init(struct paged_tree_pager *pager, struct pager *all)
{
    *pager = (struct paged_tree_pager){ { .find = find_page, .change = change_page, .create = create_page, .drop = drop_page, .bring = bring_page, .fetch = all->fetch != NULL ? fetch_page : NULL }, all };
}

void paged_access_init(struct paged_access *access, struct pager *pages, const struct value_limits *limits)
{
    access->table = (struct paged_table){ .pager = pages, .seed = limits->seed, .limits = paged_limits_of(limits) };
    paged_tree_pager_init(&access->tree_pager, pages);
    access->ahead = 0;
    access->asks = access->wants_all = false;
    access->wanted_count = access->wanted_capacity = 0;
    access->wanted = NULL;
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

bool paged_tree_reach(const struct value *value, struct page_tree_path *path, paged_tree_step *step)
{
    struct page_tree tree = paged_tree(paged_of(value)->access);
    enum page_tree_answer answer;

    while ((answer = step(&tree, path)) == PAGE_TREE_MISSING && paged_tree_resolve(value, path->missing))
        ;
    return answer == PAGE_TREE_YES;
}

struct bytes paged_tree_resident_leaf(const struct page_tree *tree, uint32_t leaf)
{
    size_t size = 0;
    const char *data = tree->pager->find(tree->pager, leaf, PAGER_LOOK, &size);

    return bytes_of(data, size);
}

/* --- leaves --- */

size_t paged_tree_leaf_max(const struct paged_access *access)
{
    return (size_t)access->table.limits.size_min * LEAF_SIZE_FACTOR - LEAF_EXTRA;
}

void paged_tree_change_size(struct paged_ordered *ordered, size_t more, size_t less)
{
    uint64_t *size = &ordered->paged.root.size;

    *size += more;
    *size = ordered->tree.leaves > 0 && *size > less ? *size - less : 0;
}

void paged_tree_remove_leaf(struct paged_ordered *ordered, const struct page_tree_path *path)
{
    struct page_tree tree = paged_tree(ordered->paged.access);
    struct bytes page = paged_tree_resident_leaf(&tree, path->leaf);
    size_t size = page.data != NULL ? page.size : ordered->paged.root.size / tree.root->leaves;

    page_tree_remove(&tree, path);
    paged_tree_change_size(ordered, 0, size);
}

void paged_tree_join_beside(const struct value *value, const struct page_tree_path *path, paged_tree_join *join)
{
    struct page_tree tree = paged_tree(paged_of(value)->access);
    struct page_tree_path beside = *path;

    if (page_tree_next(&tree, &beside) == PAGE_TREE_YES && join(value, path, &beside))
        return;
    beside = *path;
    if (page_tree_previous(&tree, &beside) == PAGE_TREE_YES)
        (void)join(value, &beside, path);
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
    uint64_t last = count > tree.root->count - first ? tree.root->count - 1 : first + count - 1;
    uint32_t one, found, *numbers;

    if (count == 0 || first >= tree.root->count || page_tree_needs(&tree, first, last, with_leaves, &one, 1) == 0)
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
