/* Finding and walking, and questions about what a call will need. */
#include "base/check.h"
#include "value/list_tree_private.h"

enum { AHEAD_MIN = 16 };        /* leaves that a search wants beyond those it has seen; then as many as these */

bool list_tree_find_path(const struct value *value, size_t index, struct page_tree_path *path)
{
    struct page_tree tree = list_tree_of(value);
    struct page_tree_path *found = &paged_of(value)->access->found[0];
    enum page_tree_answer answer;

    if (index - found->rank < found->count) {
        *path = *found;
        return true;
    }
    do
        answer = index == 0 ? page_tree_first(&tree, path) : index + 1 == tree.root->count ? page_tree_last(&tree, path) : page_tree_seek_rank(&tree, index, path);
    while (answer == PAGE_TREE_MISSING && paged_tree_resolve(value, path->missing));
    CHECK(answer != PAGE_TREE_NO);
    if (answer == PAGE_TREE_YES)
        *found = *path;
    return answer == PAGE_TREE_YES;
}

/* False: pages are wanted. */
static bool find_leaf(const struct value *value, size_t index, struct list_tree_place *place)
{
    if (!list_tree_find_path(value, index, &place->path))
        return false;
    place->page = paged_tree_leaf(value, &place->path);
    return place->page.data != NULL;
}

size_t list_tree_seek(const struct value *value, size_t index, struct list_tree_place *place)
{
    CHECK(find_leaf(value, index, place));
    return index - place->path.rank;
}

bool list_tree_step(const struct value *value, enum list_end towards, struct list_tree_place *place)
{
    bool is_there = paged_tree_reach(value, &place->path, towards == LIST_TAIL ? page_tree_next : page_tree_previous);

    if (is_there)
        place->page = paged_tree_leaf(value, &place->path);
    return is_there;
}

/* --- what calls will need --- */

bool list_tree_is_resident(const struct value *value)
{
    struct page_tree tree = list_tree_of(value);
    uint32_t missing;

    return tree.root->count == 0 || page_tree_needs(&tree, 0, tree.root->count - 1, true, &missing, 1) == 0;
}

bool list_tree_has_nodes_at(const struct value *value, enum list_end end)
{
    return list_tree_count(value) == 0 || paged_tree_has_nodes(value, end == LIST_HEAD ? 0 : list_tree_count(value) - 1, 1);
}

bool list_tree_has_end(const struct value *value, enum list_end end, size_t count)
{
    struct page_tree tree = list_tree_of(value);
    struct page_tree_path *path = &paged_of(value)->access->found[0];

    if ((end == LIST_HEAD ? page_tree_first(&tree, path) : page_tree_last(&tree, path)) == PAGE_TREE_YES)
        return path->count > count && paged_tree_resident_leaf(&tree, path->leaf).data != NULL;
    path->count = 0;
    return false;
}

/* The leaf with this element, if it has others than those from..to. */
static bool has_border(const struct value *value, size_t index, size_t from, size_t to)
{
    struct page_tree_path path;

    if (!list_tree_find_path(value, index, &path))
        return false;
    return (path.rank >= from && path.rank + path.count <= to) || paged_tree_leaf(value, &path).data != NULL;
}

bool list_tree_has_removal(const struct value *value, size_t index, size_t count)
{
    struct paged_access *access;
    bool has;

    if (count == 0)
        return true;
    if (!paged_tree_has_nodes(value, index, count))
        return false;
    access = paged_begin_question(value);
    has = has_border(value, index, index, index + count);
    return paged_end_question(access, has_border(value, index + count - 1, index, index + count) && has);
}

/* How many elements of the page equal it, `max` at most. */
static size_t count_in(struct bytes page, struct bytes element, size_t max)
{
    const struct listpack *pack = list_page_pack(page);
    size_t found = 0, at;

    if (list_page_is_large(page))
        return bytes_equal(list_page_large(page), element);
    for (at = listpack_find(pack, listpack_first(pack), element, 0); at != LISTPACK_NONE; at = listpack_find(pack, listpack_next(pack, at), element, 0)) {
        if (++found == max)
            break;
    }
    return found;
}

/* Some more leaves than the one with this element, `left` elements at most. */
static void want_ahead(const struct value *value, enum list_end from, size_t index, size_t left, size_t seen)
{
    size_t each = list_tree_count(value) / list_tree_leaves(value) + 1, count = (seen > AHEAD_MIN ? seen : AHEAD_MIN) * each;

    if (count > left)
        count = left;
    (void)paged_tree_has_ranks(value, from == LIST_HEAD ? index : index + 1 - count, count);
}

bool list_tree_has_search(const struct value *value, struct bytes element, enum list_end from, size_t matches, size_t length_max)
{
    size_t count = list_tree_count(value), left = length_max < count ? length_max : count, seen = 0;
    struct paged_access *access = paged_begin_question(value);
    bool has = true;

    while (has && left > 0 && matches > 0) {
        size_t passed = (length_max < count ? length_max : count) - left, index = from == LIST_HEAD ? passed : count - 1 - passed, here;
        struct list_tree_place place;

        has = find_leaf(value, index, &place);
        if (!has) {
            want_ahead(value, from, index, left, seen);
            break;
        }
        seen++;
        matches -= count_in(place.page, element, matches);
        here = from == LIST_HEAD ? place.path.rank + place.path.count - index : index + 1 - place.path.rank;
        left -= here < left ? here : left;
    }
    return paged_end_question(access, has);
}
