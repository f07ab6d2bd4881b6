/* Walking and scanning sorted sets in pages, and questions about what a call will need. */
#include "value/paged_zset_private.h"

/* --- walking --- */

struct order_element paged_zset_get(const struct paged_zset_place *place)
{
    return order_page_at(place->page, place->at);
}

bool paged_zset_next(const struct value *value, struct paged_zset_place *place)
{
    if (++place->at < order_page_count(place->page))
        return true;
    place->at = 0;
    return paged_tree_reach(value, &place->path, page_tree_next) && paged_zset_read_leaf(value, place);
}

bool paged_zset_previous(const struct value *value, struct paged_zset_place *place)
{
    if (place->at > 0) {
        place->at--;
        return true;
    }
    if (!paged_tree_reach(value, &place->path, page_tree_previous) || !paged_zset_read_leaf(value, place))
        return false;
    place->at = order_page_count(place->page) - 1;
    return true;
}

struct btree *paged_zset_to_btree(const struct value *value)
{
    struct btree *tree = btree_create(&paged_of(value)->access->table.seed);
    struct paged_zset_place place;
    bool more = paged_count(value) > 0;

    btree_reserve(tree, paged_count(value));
    if (more)
        paged_zset_seek_rank(value, 0, &place);
    for (; more; more = paged_zset_next(value, &place)) {
        struct order_element element = paged_zset_get(&place);

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

    scanning->found(scanning->context, member, paged_zset_score_of(score));
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
    *score = paged_zset_score_of(found);
    return true;
}

/* --- what calls will need --- */

bool paged_zset_has_score(const struct value *value, struct bytes member, bool *is_there, double *score)
{
    struct paged_access *access;

    if (!paged_zset_has_member(value, member))
        return false;
    access = paged_begin_question(value);
    *is_there = paged_end_question(access, paged_zset_score(value, member, score));
    return true;
}

bool paged_zset_has_place(const struct value *value, double score, struct bytes member)
{
    struct paged_access *access;
    struct paged_zset_place place;
    bool is_there;

    if (paged_ordered_of(value)->tree.leaves == 0)
        return true;
    access = paged_begin_question(value);
    return paged_end_question(access, paged_zset_find_place(value, score, member, &place, &is_there));
}

bool paged_zset_has_element(const struct value *value, struct bytes member)
{
    double score;
    bool is_there;

    return paged_zset_has_score(value, member, &is_there, &score) && (!is_there || paged_zset_has_place(value, score, member));
}

/* The leaf to which a step has led, if there is one. */
static bool has_leaf(const struct value *value, enum page_tree_answer answer, struct paged_zset_place *place)
{
    switch (answer) {
    case PAGE_TREE_NO: return true;
    case PAGE_TREE_YES: return paged_zset_read_leaf(value, place);
    case PAGE_TREE_MISSING: break;
    }
    return paged_tree_resolve(value, place->path.missing);
}

/* The leaves beside the place's, one of which has its range when it is gone. */
static bool has_neighbours(const struct value *value, const struct paged_zset_place *place)
{
    struct page_tree tree = paged_zset_tree(value);
    struct paged_zset_place before = *place, after = *place;
    bool has = has_leaf(value, page_tree_previous(&tree, &before.path), &before);

    return has_leaf(value, page_tree_next(&tree, &after.path), &after) && has;
}

bool paged_zset_has_put(const struct value *value, struct bytes member, double score, bool adds, size_t count)
{
    struct paged_access *access;
    struct paged_zset_place place;
    double old = 0;
    bool has = true, is_there, stays = false;

    if (!paged_zset_has_score(value, member, &is_there, &old))
        return false;
    if (is_there && adds)
        score += old;
    if (score != score)
        return true;                    /* it won't be done */
    access = paged_begin_question(value);
    if (is_there) {
        has = paged_zset_find_place(value, old, member, &place, &is_there);
        stays = has && paged_zset_stays(value, &place, score, member);
        if (has && !stays && count > 1 && order_page_count(place.page) <= count)
            has = has_neighbours(value, &place);            /* the others may take all that it has, and one may go where it was */
    }
    if (!stays && paged_ordered_of(value)->tree.leaves > 0)
        has = paged_zset_find_place(value, score, member, &place, &is_there) && has;
    return paged_end_question(access, has);
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
    struct paged_zset_place place;
    bool has = true;

    if (!paged_tree_has_ranks(value, first, count))
        return false;
    if (count > 0)
        paged_zset_seek_rank(value, first, &place);
    for (size_t i = 0; i < count; i++) {
        has = paged_zset_has_member(value, paged_zset_get(&place).member) && has;
        if (i + 1 == count || !paged_zset_next(value, &place))
            break;                      /* what comes after them need not be there */
    }
    return has;
}
