#include "value/paged_times.h"

#include "base/check.h"
#include "base/mem.h"
#include "containers/pair.h"
#include "value/paged_order.h"

enum { NO_FIELD = -1 };

/* --- roots --- */

struct paged_value *paged_times_of_roots(const struct paged_root *root, const struct page_tree_root *tree, const struct paged_bounds *bounds, uint64_t id)
{
    struct paged_times *times = mem_alloc(sizeof(*times));

    *times = (struct paged_times){ { { .root = *root, .id = id }, *tree }, *bounds };
    return &times->ordered.paged;
}

/* The value has another root for the same pages. */
static void change_root(struct value *hash, enum value_encoding encoding, struct paged_value *paged)
{
    struct paged_access *access = paged_of(hash)->access;

    mem_free(hash->object);
    *hash = (struct value){ .type = VALUE_HASH, .encoding = (uint8_t)encoding, .object = paged };
    paged_attach(hash, access);
}

void paged_times_begin(struct value *hash)
{
    const struct paged_value *paged = paged_of(hash);
    const struct paged_bounds none = { (int64_t)PAIR_NUMBER_MAX, 0 };

    change_root(hash, HASH_PAGED_TIMES, paged_times_of_roots(&paged->root, &(struct page_tree_root){ 0 }, &none, paged->id));
}

void paged_times_end_if_none(struct value *hash)
{
    const struct paged_value *paged = paged_of(hash);
    struct page_tree_root *tree = &paged_ordered_of(hash)->tree;
    struct pager *pager = &paged->access->tree_pager.pager;

    if (tree->count > 0)
        return;
    for (uint32_t page = 0; page < tree->next; page++)      /* those that were not used any more */
        pager->drop(pager, page);
    page_tree_root_release(tree);
    change_root(hash, HASH_PAGED, paged_of_root(&paged->root, paged->id));
}

/* --- bounds --- */

static void widen(struct paged_bounds *bounds, int64_t time_ms)
{
    if (time_ms < bounds->first_ms)
        bounds->first_ms = time_ms;
    if (time_ms > bounds->last_ms)
        bounds->last_ms = time_ms;
}

/* A time of this one is gone: the bound that it was is found again, if the leaf is there. */
static void narrow(const struct value *hash, int64_t gone_ms)
{
    struct paged_bounds *bounds = &paged_times_of(hash)->bounds;
    struct page_tree tree = paged_tree(paged_of(hash)->access);
    struct page_tree_path path;
    struct bytes leaf;

    if (gone_ms <= bounds->first_ms && page_tree_first(&tree, &path) == PAGE_TREE_YES) {
        leaf = paged_tree_resident_leaf(&tree, path.leaf);
        if (leaf.data != NULL)
            bounds->first_ms = (int64_t)order_page_at(leaf, 0).score;
    }
    if (gone_ms >= bounds->last_ms && page_tree_last(&tree, &path) == PAGE_TREE_YES) {
        leaf = paged_tree_resident_leaf(&tree, path.leaf);
        if (leaf.data != NULL)
            bounds->last_ms = (int64_t)order_page_at(leaf, order_page_count(leaf) - 1).score;
    }
}

/* --- fields --- */

static void put_number(const struct value *hash, struct bytes field, int64_t time_ms)
{
    const struct paged_table *table = &paged_of(hash)->access->table;
    enum paged_answer answer;

    while ((answer = paged_table_put_number(table, field, (uint64_t)time_ms)) == PAGED_MISSING)
        table->pager->bring(table->pager, paged_table_page(table, field));
    CHECK(answer == PAGED_YES);
}

int64_t paged_time(const struct value *hash, struct bytes field)
{
    const struct paged_table *table = &paged_of(hash)->access->table;
    enum paged_answer answer;
    uint64_t number;

    while ((answer = paged_table_number(table, field, &number)) == PAGED_MISSING)
        table->pager->bring(table->pager, paged_table_page(table, field));
    return answer == PAGED_YES ? (int64_t)number : NO_FIELD;
}

void paged_times_build(struct value *hash, const struct btree *times)
{
    struct btree_place place;

    paged_times_begin(hash);
    paged_order_build(hash, times);
    for (bool more = btree_seek_rank(times, 0, &place); more; more = btree_next(times, &place)) {
        struct bytes field;
        int64_t time_ms = (int64_t)btree_get(times, place, &field);

        put_number(hash, field, time_ms);
        widen(&paged_times_of(hash)->bounds, time_ms);
    }
}

void paged_times_set(const struct value *hash, struct bytes field, int64_t time_ms)
{
    int64_t old_ms = paged_time(hash, field);

    CHECK(old_ms != NO_FIELD);
    if (old_ms == time_ms)
        return;
    put_number(hash, field, time_ms);
    if (old_ms == 0)
        CHECK(paged_order_insert(hash, field, (double)time_ms));
    else if (time_ms == 0)
        paged_order_remove(hash, field, (double)old_ms);
    else
        paged_order_move(hash, field, (double)old_ms, (double)time_ms);
    if (time_ms > 0)
        widen(&paged_times_of(hash)->bounds, time_ms);
    if (old_ms > 0)
        narrow(hash, old_ms);
}

void paged_times_forget(const struct value *hash, struct bytes field)
{
    int64_t time_ms = paged_time(hash, field);

    if (time_ms <= 0)
        return;
    paged_order_remove(hash, field, (double)time_ms);
    narrow(hash, time_ms);
}

/* --- expiry --- */

/* The leaves with fields that expire until then, the first first, and the one after them if there are no more in that. */
struct due_walk {
    struct paged_order_place place;
    paged_tree_step *step;
    size_t left;                        /* fields that are still counted */
    uint32_t here;                      /* in this leaf */
};

static void walk_due(struct due_walk *walk, size_t max)
{
    walk->step = page_tree_first;
    walk->left = max;
}

/* Goes to the next leaf. False: that was the last one, or, while it is asked (paged_begin_question), pages are wanted. */
static bool next_due(const struct value *hash, int64_t now_ms, struct due_walk *walk)
{
    uint32_t count;

    if (walk->step == NULL || walk->left == 0 || !paged_tree_reach(hash, &walk->place.path, walk->step))
        return false;
    walk->place.page = paged_tree_leaf(hash, &walk->place.path);
    if (walk->place.page.data == NULL)
        return false;
    count = order_page_count(walk->place.page);
    walk->here = order_page_count_by_score(walk->place.page, (double)now_ms, ORDER_NOT_ABOVE);
    walk->step = walk->here == count ? page_tree_next : NULL;
    if (walk->here > walk->left)
        walk->here = (uint32_t)walk->left;
    walk->left -= walk->here;
    return true;
}

size_t paged_times_due(const struct value *hash, int64_t now_ms, size_t max)
{
    struct due_walk walk;

    walk_due(&walk, max);
    while (next_due(hash, now_ms, &walk))
        ;
    return max - walk.left;
}

struct removal {
    const struct value *hash;
    void (*expired)(void *context, struct bytes field);
    void *context;
};

static void remove_field(void *context, struct bytes field)
{
    const struct removal *removal = context;

    removal->expired(removal->context, field);
    CHECK(paged_remove(removal->hash, field));
}

size_t paged_times_remove(const struct value *hash, int64_t now_ms, size_t max, void (*expired)(void *context, struct bytes field), void *context)
{
    struct removal removal = { hash, expired, context };
    size_t count = paged_times_due(hash, now_ms, max);

    paged_order_remove_ranks(hash, 0, count, remove_field, &removal);
    narrow(hash, paged_times_of(hash)->bounds.first_ms);
    if (paged_times_of(hash)->bounds.last_ms <= now_ms)
        narrow(hash, paged_times_of(hash)->bounds.last_ms);
    return count;
}

bool paged_times_has_due(const struct value *hash, int64_t now_ms, size_t max, size_t *ready)
{
    struct paged_access *access = paged_begin_question(hash);
    uint32_t wanted = access->wanted_count;
    struct due_walk walk;
    bool has = true;

    *ready = 0;
    walk_due(&walk, max);
    while (next_due(hash, now_ms, &walk)) {
        for (uint32_t i = 0; i < walk.here; i++) {
            has = paged_has_page(hash, paged_table_page(&access->table, order_page_at(walk.place.page, i).member)) && has;
            *ready += has;
        }
    }
    return paged_end_question(access, access->wanted_count == wanted);
}

/* --- hidden fields --- */

/* How many times are hidden, and where the first one is that is not, if there is one. False: pages are wanted. */
static bool find_seen(const struct value *hash, int64_t now_ms, size_t *hidden)
{
    return paged_order_score_border(hash, (double)now_ms, BTREE_NOT_ABOVE, hidden) &&
        (*hidden == paged_ordered_of(hash)->tree.count || paged_tree_has_ranks(hash, *hidden, 1));
}

bool paged_times_has_view(const struct value *hash, int64_t now_ms)
{
    size_t hidden;

    return find_seen(hash, now_ms, &hidden);
}

/* Returns how many times are hidden; `*first_ms` is the first one that is not, or -1. */
static size_t see(const struct value *hash, int64_t now_ms, int64_t *first_ms)
{
    struct paged_access *access = paged_of(hash)->access;
    struct pager *pager = access->table.pager;
    struct paged_order_place first;
    size_t hidden;

    while (!find_seen(hash, now_ms, &hidden)) {
        for (uint32_t i = 0; i < access->wanted_count; i++)
            pager->bring(pager, access->wanted[i]);
        paged_forget_wanted(access);
    }
    *first_ms = -1;
    if (hidden < paged_ordered_of(hash)->tree.count) {
        paged_order_seek_rank(hash, hidden, &first);
        *first_ms = (int64_t)paged_order_get(&first).score;
    }
    return hidden;
}

int64_t paged_times_next_after(const struct value *hash, int64_t now_ms)
{
    int64_t first_ms;

    see(hash, now_ms, &first_ms);
    return first_ms;
}

void paged_times_hide(const struct value *hash, int64_t now_ms, struct paged_times *room, struct value *view)
{
    struct paged_access *access = paged_of(hash)->access;
    int64_t first_ms;
    size_t hidden = see(hash, now_ms, &first_ms);

    *room = *paged_times_of(hash);
    room->ordered.paged.root.count -= hidden;
    room->bounds.first_ms = first_ms < 0 ? (int64_t)PAIR_NUMBER_MAX : first_ms;
    *view = (struct value){ .type = hash->type, .encoding = hash->encoding, .object = room };
    paged_attach(view, access);
    access->table.hidden_until = (uint64_t)now_ms;
}

/* --- changes --- */

bool paged_times_has_change(const struct value *hash, struct bytes field, int64_t time_ms, size_t count)
{
    struct paged_access *access = paged_of(hash)->access;
    double old;
    int64_t old_ms;

    if (!paged_has_page(hash, paged_table_page(&access->table, field)))
        return false;
    paged_begin_question(hash);
    old_ms = paged_time(hash, field);
    paged_end_question(access, true);
    old = (double)old_ms;
    if (time_ms >= 0)
        return paged_order_has_move(hash, field, old_ms > 0 ? &old : NULL, (double)time_ms, count);
    return old_ms <= 0 || paged_order_has_removal(hash, field, old, count);
}
