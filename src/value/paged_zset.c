/* Sorted sets in pages: what their table has, beside the order. */
#include "value/paged_zset.h"

#include <string.h>

#include "base/check.h"

/* The value of a pair of the table. */
static double score_of(struct bytes value)
{
    double score;

    CHECK(value.size == sizeof(score));
    memcpy(&score, value.data, sizeof(score));
    return score;
}

bool paged_zset_insert_in_table(const struct value *value, struct bytes member, double score)
{
    return paged_put(value, member, bytes_of(&score, sizeof(score)));
}

struct paged_value *paged_zset_create(const struct btree *tree, const struct paged_plan *plan, uint64_t id, struct paged_access *access)
{
    struct paged_value *paged = paged_ordered_of_roots(&(struct paged_root){ 0 }, &(struct page_tree_root){ 0 }, id);
    struct value value = { .type = VALUE_ZSET, .encoding = ZSET_PAGED, .object = paged };
    struct btree_place place;

    paged_attach(&value, access);
    paged_table_create(&access->table, plan->count, plan->size);
    paged_order_build(&value, tree);
    for (bool more = btree_seek_rank(tree, 0, &place); more; more = btree_next(tree, &place)) {
        struct bytes member;
        double score = btree_get(tree, place, &member);

        CHECK(paged_zset_insert_in_table(&value, member, score));
    }
    return paged;
}

/* The member's page of the table. False: it is missing, and wanted. */
static bool has_member(const struct value *value, struct bytes member)
{
    return paged_has_page(value, paged_table_page(&paged_of(value)->access->table, member));
}

bool paged_zset_score(const struct value *value, struct bytes member, double *score)
{
    struct bytes found;

    if (!paged_find(value, member, &found))
        return false;
    *score = score_of(found);
    return true;
}

void paged_zset_insert(const struct value *value, struct bytes member, double score)
{
    CHECK(paged_order_insert(value, member, score) && paged_zset_insert_in_table(value, member, score));
}

bool paged_zset_put(const struct value *value, struct bytes member, double score)
{
    struct bytes found;

    if (!paged_find(value, member, &found)) {
        paged_zset_insert(value, member, score);
        return true;
    }
    if (memcmp(found.data, &score, sizeof(score)) != 0) {
        paged_order_move(value, member, score_of(found), score);
        paged_put(value, member, bytes_of(&score, sizeof(score)));
    }
    return false;
}

bool paged_zset_remove(const struct value *value, struct bytes member)
{
    double score;

    if (!paged_zset_score(value, member, &score))
        return false;
    paged_order_remove(value, member, score);
    return paged_remove(value, member);
}

static void forget_member(void *context, struct bytes member)
{
    CHECK(paged_remove(context, member));
}

void paged_zset_remove_ranks(const struct value *value, size_t first, size_t count)
{
    struct value set = *value;

    paged_order_remove_ranks(value, first, count, forget_member, &set);
}

bool paged_zset_rank(const struct value *value, struct bytes member, bool *is_there, size_t *rank, double *score)
{
    if (!has_member(value, member))
        return false;
    *is_there = paged_zset_score(value, member, score);
    return !*is_there || paged_order_rank(value, member, *score, rank);
}

struct btree *paged_zset_to_btree(const struct value *value)
{
    struct btree *tree = btree_create(&paged_of(value)->access->table.seed);
    struct paged_order_place place;
    bool more = paged_count(value) > 0;

    btree_reserve(tree, paged_count(value));
    if (more)
        paged_order_seek_rank(value, 0, &place);
    for (; more; more = paged_order_next(value, &place)) {
        struct order_element element = paged_order_get(&place);

        btree_insert(tree, element.member, element.score);
    }
    return tree;
}

struct scanning {
    btree_found *found;
    void *context;
};

static void found_pair(void *context, struct bytes member, struct bytes score)
{
    struct scanning *scanning = context;

    scanning->found(scanning->context, member, score_of(score));
}

bool paged_zset_scan(const struct value *value, uint64_t *cursor, size_t count, btree_found *found, void *context)
{
    struct scanning scanning = { found, context };

    return paged_scan(value, cursor, count, found_pair, &scanning);
}

bool paged_zset_random(const struct value *value, struct random *random, struct bytes *member, double *score)
{
    struct bytes found;

    if (!paged_random(value, random, member, &found))
        return false;
    *score = score_of(found);
    return true;
}

/* --- what calls will need --- */

bool paged_zset_has_score(const struct value *value, struct bytes member, bool *is_there, double *score)
{
    struct paged_access *access;

    if (!has_member(value, member))
        return false;
    access = paged_begin_question(value);
    *is_there = paged_end_question(access, paged_zset_score(value, member, score));
    return true;
}

bool paged_zset_has_element(const struct value *value, struct bytes member)
{
    double score;
    bool is_there;

    return paged_zset_has_score(value, member, &is_there, &score) && (!is_there || paged_order_has_place(value, score, member));
}

bool paged_zset_has_put(const struct value *value, struct bytes member, double score, bool adds, size_t count)
{
    double old = 0;
    bool is_there;

    if (!paged_zset_has_score(value, member, &is_there, &old))
        return false;
    if (is_there && adds)
        score += old;
    if (score != score)
        return true;                    /* it won't be done */
    return paged_order_has_move(value, member, is_there ? &old : NULL, score, count);
}

bool paged_zset_has_table(const struct value *value)
{
    bool has = true;

    for (uint32_t page = 0; page < paged_of(value)->root.pages; page++)
        has = paged_has_page(value, page) && has;
    return has;
}

bool paged_zset_has_removal(const struct value *value, size_t first, size_t count)
{
    struct paged_order_place place;
    bool has = true;

    if (!paged_tree_has_ranks(value, first, count))
        return false;
    if (count > 0)
        paged_order_seek_rank(value, first, &place);
    for (size_t i = 0; i < count; i++) {
        has = has_member(value, paged_order_get(&place).member) && has;
        if (i + 1 == count || !paged_order_next(value, &place))
            break;                      /* what comes after them need not be there */
    }
    return has;
}
