#include "value/paged.h"

#include "base/check.h"
#include "base/mem.h"
#include "containers/idmap.h"
#include "value/paged_tree.h"

enum {
    WANTED_FIRST = 16,
    SCAN_AHEAD_MAX = 1024, SCAN_COUNT_MAX = 16384,      /* pages and elements of a scan's step */
    PAIR_EXTRA = 3, ELEMENT_EXTRA = 2, PAGE_EXTRA = 66,         /* bytes beside pairs and elements of trees: in the page; entry, name, half of its room, table */
    PAGE_PAIRS = 16,
    FREE_AHEAD = 8, LEAVES_FACTOR = 2,      /* free pages of a tree that are at hand; leaves that are half full, and nodes */
    NODE_SIZE_MIN = 620, TOP_SIZE_LESS = 200,       /* room for three children with the longest separators, and in a node for one more than in the top */
    FIELD_SHARE = 2,                /* of a pair's bytes, for the field in the tree */
    SIZE_MAX_FACTOR = 3,            /* pages with few large pairs, of the usual size */
};

struct paged_limits paged_limits_of(const struct value_limits *limits)
{
    uint32_t size = (uint32_t)limits->page_size;

    return (struct paged_limits){ PAGE_PAIRS, size, size * SIZE_MAX_FACTOR };
}

struct paged_value *paged_of_root(const struct paged_root *root, uint64_t id)
{
    struct paged_value *paged = mem_alloc(sizeof(*paged));

    *paged = (struct paged_value){ .root = *root, .id = id };
    return paged;
}

struct paged_value *paged_create(const struct dict *dict, const struct paged_plan *plan, uint64_t id, struct paged_access *access)
{
    struct paged_value *paged = paged_of_root(&(struct paged_root){ 0 }, id);
    struct paged_table *table = &access->table;
    struct dict_iterator iterator;
    struct bytes key, data;

    paged->access = access;
    access->tree = NULL;
    table->root = &paged->root;
    paged_table_create(table, plan->count, plan->size);
    dict_iterate(&iterator, dict);
    while (dict_next(&iterator, &key, &data))
        CHECK(paged_table_put(table, key, data) == PAGED_YES);
    return paged;
}

struct paged_extent paged_extent_of(const struct value *value)
{
    const struct paged_value *paged = paged_of(value);
    struct paged_extent extent = { .id = paged->id, .table_pages = paged->root.pages };

    if (paged_has_tree(value))
        extent.tree_pages = paged_ordered_of(value)->tree.next;
    return extent;
}

static const struct paged_table *table_of(const struct value *value)
{
    return &paged_of(value)->access->table;
}

static void bring(const struct paged_table *table, uint32_t page)
{
    table->pager->bring(table->pager, page);
}

static void bring_page_of(const struct paged_table *table, struct bytes key)
{
    bring(table, paged_table_page(table, key));
}

bool paged_find(const struct value *value, struct bytes key, struct bytes *found)
{
    const struct paged_table *table = table_of(value);
    enum paged_answer answer;

    while (UNLIKELY((answer = paged_table_find(table, key, found)) == PAGED_MISSING))
        bring_page_of(table, key);
    return answer == PAGED_YES;
}

bool paged_put(const struct value *value, struct bytes key, struct bytes data)
{
    const struct paged_table *table = table_of(value);
    enum paged_answer answer;

    while (UNLIKELY((answer = paged_table_put(table, key, data)) == PAGED_MISSING))
        bring_page_of(table, key);
    return answer == PAGED_YES;
}

bool paged_remove(const struct value *value, struct bytes key)
{
    const struct paged_table *table = table_of(value);
    enum paged_answer answer;

    while (UNLIKELY((answer = paged_table_remove(table, key)) == PAGED_MISSING))
        bring_page_of(table, key);
    return answer == PAGED_YES;
}

static bool is_missing(const struct paged_table *table, uint32_t page)
{
    size_t size;

    return table->pager->find(table->pager, page, PAGER_LOOK, &size) == NULL;
}

void paged_want(const struct value *value, uint32_t page)
{
    struct paged_access *access = paged_of(value)->access;

    if (access->wanted_count > PAGED_WANTED_MAX)
        return;
    if (access->wanted_count == access->wanted_capacity) {
        access->wanted_capacity = access->wanted_capacity * 2 + WANTED_FIRST;
        access->wanted = mem_realloc(access->wanted, access->wanted_capacity * sizeof(access->wanted[0]));
    }
    access->wanted[access->wanted_count++] = page;
    if (paged_has_table(value) && !paged_has_tree(value))
        access->wants_all |= access->wanted_count >= PAGED_WANTED_MAX || access->wanted_count > access->table.root->pages;
}

bool paged_has_page(const struct value *value, uint32_t page)
{
    if (!is_missing(table_of(value), page))
        return true;
    paged_want(value, page);
    return false;
}

void paged_forget_wanted(struct paged_access *access)
{
    mem_free(access->wanted);
    access->wanted = NULL;
    access->wanted_count = access->wanted_capacity = 0;
    access->wants_all = false;
}

static struct page_tree_limits tree_limits(size_t page_size, enum value_type type)
{
    size_t node_size = page_size > NODE_SIZE_MIN ? page_size : NODE_SIZE_MIN;

    size_t child_size = type == VALUE_LIST ? PAGE_TREE_CHILD_SIZE(0) : type == VALUE_STREAM ? PAGE_TREE_CHILD_SIZE(sizeof(struct stream_id)) : 0;

    return (struct page_tree_limits){ node_size, node_size - TOP_SIZE_LESS, child_size };
}

void paged_attach(const struct value *value, struct paged_access *access)
{
    struct paged_value *paged = paged_of(value);

    paged->access = access;
    access->table.root = &paged->root;
    access->tree = paged_has_tree(value) ? &paged_ordered_of(value)->tree : NULL;
    for (int i = 0; i < PAGED_FOUND; i++)
        access->found[i].count = 0;
    access->found_next = 0;
    access->tree_limits = tree_limits(access->table.limits.size_min, (enum value_type)value->type);
}

uint32_t paged_ahead(const struct paged_access *access, uint32_t numbers[PAGED_AHEAD_MAX])
{
    uint32_t count = access->table.root->count > 0 ? paged_table_ahead(&access->table, numbers) : 0;

    if (access->tree != NULL) {
        struct page_tree tree = paged_tree(access);
        uint32_t trunk;

        if (!page_tree_has_free(&tree, FREE_AHEAD, &trunk))
            numbers[count++] = PAGED_TREE_FIRST + trunk;
    }
    if (access->ahead > 0)
        numbers[count++] = PAGED_TREE_FIRST + access->ahead - 1;
    return count;
}

bool paged_has_leaves(const struct value *value, uint64_t leaves)
{
    struct page_tree tree = paged_tree(paged_of(value)->access);
    uint32_t trunk;

    if (page_tree_has_free(&tree, leaves * LEAVES_FACTOR + 1, &trunk))
        return true;
    paged_want(value, PAGED_TREE_FIRST + trunk);
    return false;
}

/* For that many elements more, about. */
static bool has_leaves_for(const struct value *value, size_t count)
{
    const struct page_tree_root *tree = paged_of(value)->access->tree;

    return tree == NULL || paged_has_leaves(value, tree->count > 0 ? (uint64_t)((double)count * tree->leaves / (double)tree->count) : count);
}

bool paged_has_room(const struct value *value, size_t count)
{
    uint32_t max = count < PAGE_ROW_AHEAD_MAX ? (uint32_t)count : PAGE_ROW_AHEAD_MAX, numbers[PAGE_ROW_AHEAD_MAX];
    uint32_t behind = paged_has_table(value) ? paged_table_behind(table_of(value), numbers, max) : 0;
    bool has = has_leaves_for(value, count);

    for (uint32_t i = 0; i < behind; i++)
        has = paged_has_page(value, numbers[i]) && has;
    return has;
}

/* Nearly all are hidden: one that is not. */
static bool first_seen(const struct value *value, struct bytes *key, struct bytes *data)
{
    struct paged_iterator iterator = { 0 };

    CHECK(table_of(value)->hidden_until > 0 && paged_next(value, &iterator, key, data));
    return true;
}

bool paged_random(const struct value *value, struct random *random, struct bytes *key, struct bytes *data)
{
    const struct paged_table *table = table_of(value);
    uint32_t page = 0;
    enum paged_answer answer = paged_table_random(table, random, key, data, &page);

    if (LIKELY(answer == PAGED_YES))
        return true;
    if (UNLIKELY(answer == PAGED_NO))
        return first_seen(value, key, data);
    paged_table_skip_draw(table, random);
    paged_want(value, page);
    return false;
}

/* The pages of the scan's next step, about; a cursor's pages have as many elements as others. */
static void want_ahead(const struct value *value, uint64_t cursor, size_t count)
{
    const struct paged_table *table = table_of(value);
    const struct paged_root *root = table->root;
    double share = (double)count * root->pages / (double)root->count;
    uint32_t pages = share < SCAN_AHEAD_MAX ? (uint32_t)share + 1 : SCAN_AHEAD_MAX;

    do {
        (void)paged_has_page(value, paged_table_scan_page(table, &cursor));
    } while (--pages > 0 && cursor != 0);
}

bool paged_scan(const struct value *value, uint64_t *cursor, size_t count, dict_found *found, void *context)
{
    struct paged_access *access = paged_of(value)->access;

    if (count > SCAN_COUNT_MAX)
        count = SCAN_COUNT_MAX;
    want_ahead(value, *cursor, count);
    if (access->wanted_count > 0)
        return false;
    return paged_table_scan(&access->table, cursor, count, found, context) == PAGED_YES;
}

bool paged_has_all(const struct value *value)
{
    const struct paged_table *table = table_of(value);

    for (uint32_t page = 0; page < table->root->pages; page++) {
        if (is_missing(table, page)) {
            paged_of(value)->access->wants_all = true;
            return false;
        }
    }
    return true;
}

bool paged_next(const struct value *value, struct paged_iterator *iterator, struct bytes *key, struct bytes *data)
{
    const struct paged_table *table = table_of(value);
    enum paged_answer answer;

    while (UNLIKELY((answer = paged_table_next(table, iterator, key, data)) == PAGED_MISSING))
        bring(table, iterator->page);
    return answer == PAGED_YES;
}

struct dict *paged_to_dict(const struct value *value)
{
    struct dict *dict = dict_create(&table_of(value)->seed);
    struct paged_iterator iterator = { 0 };
    struct bytes key, data;

    dict_reserve(dict, paged_count(value));
    while (paged_next(value, &iterator, &key, &data))
        dict_put(dict, key, data);
    return dict;
}

size_t value_memory_in_pages(const struct value *value)
{
    const struct paged_root *root;
    size_t size;

    if (!value_is_paged(value))
        return 0;
    root = &paged_of(value)->root;
    size = root->size + root->count * PAIR_EXTRA + (size_t)root->pages * PAGE_EXTRA;
    if (paged_has_tree(value))
        size += (size_t)paged_ordered_of(value)->tree.next * PAGE_EXTRA;
    if (value->type == VALUE_ZSET)
        size += root->size + root->count * ELEMENT_EXTRA;
    else if (value->type == VALUE_HASH && paged_has_tree(value))
        size += paged_ordered_of(value)->tree.count * (root->count > 0 ? root->size / root->count / FIELD_SHARE : 0);
    return size;
}
