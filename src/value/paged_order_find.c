/* Finding elements, ranks and borders in an order in pages, walking, and questions about what a change will need. */
#include "value/paged_order_private.h"

#include "base/check.h"
#include "base/fetch_lines.h"

enum { FETCH_MAX = 4096 };

struct page_tree paged_order_tree(const struct value *value)
{
    return paged_tree(paged_of(value)->access);
}

/* Sets the page of the path's leaf. False: it is wanted. */
static bool read_leaf(const struct value *value, struct paged_order_place *place)
{
    place->page = paged_tree_leaf(value, &place->path);
    return place->page.data != NULL;
}

uint64_t paged_order_score_bits(double score)
{
    uint64_t bits;

    score = score == 0 ? 0 : score;
    memcpy(&bits, &score, sizeof(bits));
    return bits >> 63 ? ~bits : bits | 1ull << 63;
}

struct bytes paged_order_key(char room[PAGE_TREE_SEPARATOR_MAX], uint64_t score_bits, struct bytes member)
{
    uint64_t first = __builtin_bswap64(score_bits);
    size_t size = member.size < KEY_MEMBER_MAX ? member.size : KEY_MEMBER_MAX;

    memcpy(room, &first, sizeof(first));
    if (size > 0)
        memcpy(room + sizeof(first), member.data, size);
    return bytes_of(room, sizeof(first) + size);
}

/* The element with this rank, which exists. False: pages are wanted. */
static bool find_rank(const struct value *value, uint64_t rank, struct paged_order_place *place)
{
    struct page_tree tree = paged_order_tree(value);
    enum page_tree_answer answer;

    while ((answer = page_tree_seek_rank(&tree, rank, &place->path)) == PAGE_TREE_MISSING) {
        if (!paged_tree_resolve(value, place->path.missing))
            return false;
    }
    CHECK(answer == PAGE_TREE_YES);
    place->at = (uint32_t)(rank - place->path.rank);
    return read_leaf(value, place);
}

/* The place among the leaves before this rank, of which many have the same separator: halves them. */
static bool search_before(const struct value *value, double score, struct bytes member, uint64_t high, struct paged_order_place *place, bool *is_there)
{
    uint64_t low = 0;

    while (low < high) {
        if (!find_rank(value, low + (high - low) / 2, place))
            return false;
        place->at = order_page_place(place->page, score, member, is_there);
        if (place->at == order_page_count(place->page))
            low = place->path.rank + place->at;
        else if (place->at > 0 || *is_there)
            return true;
        else
            high = place->path.rank;
    }
    return find_rank(value, low, place);         /* before the first element of a leaf */
}

/* Separators have the beginning of members only, so leaves before this one may have the same one, and the element. */
static bool look_before(const struct value *value, double score, struct bytes member, struct paged_order_place *place, bool *is_there)
{
    struct page_tree tree = paged_order_tree(value);
    struct paged_order_place before = *place;
    enum page_tree_answer answer;

    while ((answer = page_tree_previous(&tree, &before.path)) == PAGE_TREE_MISSING) {
        if (!paged_tree_resolve(value, before.path.missing))
            return false;
    }
    if (answer == PAGE_TREE_NO)
        return true;
    if (!read_leaf(value, &before))
        return false;
    before.at = order_page_place(before.page, score, member, is_there);
    if (before.at == order_page_count(before.page))
        return true;                    /* it is between both */
    *place = before;
    return before.at > 0 || *is_there || search_before(value, score, member, before.path.rank, place, is_there);
}

/* Whether the element is in a leaf that was found before, or belongs between two of its elements: a call asks for the places that it then uses. */
static bool recall(const struct value *value, double score, struct bytes member, struct paged_order_place *place, bool *is_there)
{
    struct paged_access *access = paged_of(value)->access;
    struct page_tree tree = paged_order_tree(value);

    for (int i = 0; i < PAGED_FOUND; i++) {
        if (access->found[i].count == 0)
            continue;
        place->page = paged_tree_resident_leaf(&tree, access->found[i].leaf);
        if (place->page.data == NULL)
            continue;
        place->at = order_page_place(place->page, score, member, is_there);
        if (*is_there || (place->at > 0 && place->at < order_page_count(place->page))) {
            place->path = access->found[i];
            if (!access->asks)
                page_tree_use(&tree, &place->path);
            return true;
        }
    }
    return false;
}

static void remember(const struct value *value, const struct page_tree_path *path)
{
    struct paged_access *access = paged_of(value)->access;

    for (int i = 0; i < PAGED_FOUND; i++) {
        if (access->found[i].count > 0 && access->found[i].leaf == path->leaf)
            return;
    }
    access->found[access->found_next] = *path;
    access->found_next = (access->found_next + 1) % PAGED_FOUND;
}

void paged_order_forget_found(const struct value *value)
{
    for (int i = 0; i < PAGED_FOUND; i++)
        paged_of(value)->access->found[i].count = 0;
}

void paged_order_change_found(const struct value *value, const struct page_tree_path *path, uint64_t count)
{
    struct paged_access *access = paged_of(value)->access;

    for (int i = 0; i < PAGED_FOUND; i++) {
        if (access->found[i].leaf == path->leaf && access->found[i].count > 0)
            access->found[i].count = count;
        else if (access->found[i].rank > path->rank)
            access->found[i].rank += count - path->count;
    }
}

/* Asks the CPU for a leaf that is about to be searched, and often to be written again; not for all of a very large element. */
static void fetch_leaf(struct bytes page)
{
    fetch_lines(page.data, page.data + (page.size < FETCH_MAX ? page.size : FETCH_MAX));
}

bool paged_order_find_place(const struct value *value, double score, struct bytes member, struct paged_order_place *place, bool *is_there)
{
    struct page_tree tree = paged_order_tree(value);
    char room[PAGE_TREE_SEPARATOR_MAX];
    struct bytes key;
    enum page_tree_answer answer;

    if (recall(value, score, member, place, is_there))
        return true;
    key = paged_order_key(room, paged_order_score_bits(score), member);
    while ((answer = page_tree_seek(&tree, key, &place->path)) == PAGE_TREE_MISSING) {
        if (!paged_tree_resolve(value, place->path.missing))
            return false;
    }
    CHECK(answer == PAGE_TREE_YES);
    if (!read_leaf(value, place))
        return false;
    fetch_leaf(place->page);
    remember(value, &place->path);
    place->at = order_page_place(place->page, score, member, is_there);
    return member.size < KEY_MEMBER_MAX || place->at > 0 || *is_there || look_before(value, score, member, place, is_there);
}

void paged_order_find_element(const struct value *value, double score, struct bytes member, struct paged_order_place *place)
{
    bool is_there;

    CHECK(paged_order_find_place(value, score, member, place, &is_there) && is_there);
}

/* --- borders and ranks --- */

static bool find_score_border(const struct value *value, double score, enum btree_border border, size_t *rank)
{
    struct page_tree tree = paged_order_tree(value);
    uint64_t bits = paged_order_score_bits(score) + (border == BTREE_NOT_ABOVE ? 1 : 0);
    char room[PAGE_TREE_SEPARATOR_MAX];
    struct bytes key = paged_order_key(room, bits, bytes_of(NULL, 0));
    struct paged_order_place place;
    enum page_tree_answer answer;

    while ((answer = page_tree_seek(&tree, key, &place.path)) == PAGE_TREE_MISSING) {
        if (!paged_tree_resolve(value, place.path.missing))
            return false;
    }
    CHECK(answer == PAGE_TREE_YES);
    if (!read_leaf(value, &place))
        return false;
    *rank = place.path.rank + order_page_count_by_score(place.page, score, border == BTREE_BELOW ? ORDER_BELOW : ORDER_NOT_ABOVE);
    return true;
}

bool paged_order_score_border(const struct value *value, double score, enum btree_border border, size_t *rank)
{
    struct paged_access *access = paged_of(value)->access;
    bool found;

    access->asks = true;
    found = find_score_border(value, score, border, rank);
    access->asks = false;
    return found;
}

bool paged_order_member_border(const struct value *value, struct bytes member, enum btree_border border, size_t *rank)
{
    struct paged_access *access = paged_of(value)->access;
    struct paged_order_place place;
    bool found, is_there;

    access->asks = true;
    found = find_rank(value, 0, &place) && paged_order_find_place(value, order_page_at(place.page, 0).score, member, &place, &is_there);
    access->asks = false;
    if (found)
        *rank = place.path.rank + place.at + (is_there && border == BTREE_NOT_ABOVE ? 1 : 0);
    return found;
}

bool paged_order_rank(const struct value *value, struct bytes member, double score, size_t *rank)
{
    struct paged_access *access = paged_of(value)->access;
    struct paged_order_place place;
    bool found, is_there;

    access->asks = true;
    found = paged_order_find_place(value, score, member, &place, &is_there);
    access->asks = false;
    if (found)
        *rank = place.path.rank + place.at;
    return found;
}

void paged_order_seek_rank(const struct value *value, size_t rank, struct paged_order_place *place)
{
    CHECK(find_rank(value, rank, place));
}

/* --- walking --- */

struct order_element paged_order_get(const struct paged_order_place *place)
{
    return order_page_at(place->page, place->at);
}

bool paged_order_next(const struct value *value, struct paged_order_place *place)
{
    if (++place->at < order_page_count(place->page))
        return true;
    place->at = 0;
    return paged_tree_reach(value, &place->path, page_tree_next) && read_leaf(value, place);
}

bool paged_order_previous(const struct value *value, struct paged_order_place *place)
{
    if (place->at > 0) {
        place->at--;
        return true;
    }
    if (!paged_tree_reach(value, &place->path, page_tree_previous) || !read_leaf(value, place))
        return false;
    place->at = order_page_count(place->page) - 1;
    return true;
}

/* --- what changes will need --- */

bool paged_order_stays(const struct value *value, const struct paged_order_place *place, double score, struct bytes member)
{
    uint32_t count = order_page_count(place->page);
    bool is_there;
    uint32_t to = order_page_place(place->page, score, member, &is_there);

    return is_there || ((to > 0 || place->path.rank == 0) && (to < count || place->path.rank + count == paged_ordered_of(value)->tree.count));       /* (0 and -0 have the same place) */
}

bool paged_order_has_place(const struct value *value, double score, struct bytes member)
{
    struct paged_access *access;
    struct paged_order_place place;
    bool is_there;

    if (paged_ordered_of(value)->tree.leaves == 0)
        return true;
    access = paged_begin_question(value);
    return paged_end_question(access, paged_order_find_place(value, score, member, &place, &is_there));
}

/* The leaf to which a step has led, if there is one. */
static bool has_leaf(const struct value *value, enum page_tree_answer answer, struct paged_order_place *place)
{
    switch (answer) {
    case PAGE_TREE_NO: return true;
    case PAGE_TREE_YES: return read_leaf(value, place);
    case PAGE_TREE_MISSING: break;
    }
    return paged_tree_resolve(value, place->path.missing);
}

/* The leaves beside the place's, one of which has its range when it is gone. */
static bool has_neighbours(const struct value *value, const struct paged_order_place *place)
{
    struct page_tree tree = paged_order_tree(value);
    struct paged_order_place before = *place, after = *place;
    bool has = has_leaf(value, page_tree_previous(&tree, &before.path), &before);

    return has_leaf(value, page_tree_next(&tree, &after.path), &after) && has;
}

/* Finds the leaves of both places at once, if they are there: they are remembered. */
static void find_both(const struct value *value, struct bytes member, double low, double high)
{
    struct page_tree tree = paged_order_tree(value);
    char low_room[PAGE_TREE_SEPARATOR_MAX], high_room[PAGE_TREE_SEPARATOR_MAX];
    struct page_tree_path low_path, high_path;

    if (page_tree_seek_both(&tree, paged_order_key(low_room, paged_order_score_bits(low), member), paged_order_key(high_room, paged_order_score_bits(high), member), &low_path, &high_path)) {
        remember(value, &low_path);
        remember(value, &high_path);
    }
}

bool paged_order_has_move(const struct value *value, struct bytes member, const double *old, double score, size_t count)
{
    struct paged_access *access = paged_begin_question(value);
    struct paged_order_place place;
    bool has = true, is_there, stays = false;

    if (old != NULL) {
        find_both(value, member, *old < score ? *old : score, *old < score ? score : *old);
        has = paged_order_find_place(value, *old, member, &place, &is_there);
        stays = has && paged_order_stays(value, &place, score, member);
        if (has && !stays && count > 1 && order_page_count(place.page) <= count)
            has = has_neighbours(value, &place);            /* the others may take all that it has, and one may go where it was */
    }
    if (!stays && paged_ordered_of(value)->tree.leaves > 0)
        has = paged_order_find_place(value, score, member, &place, &is_there) && has;
    return paged_end_question(access, has);
}

bool paged_order_has_removal(const struct value *value, struct bytes member, double score, size_t count)
{
    struct paged_access *access = paged_begin_question(value);
    struct paged_order_place place;
    bool is_there, has = paged_order_find_place(value, score, member, &place, &is_there);

    if (has && count > 1 && order_page_count(place.page) <= count)
        has = has_neighbours(value, &place);
    return paged_end_question(access, has);
}
