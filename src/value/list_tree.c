/* Changing. */
#include "value/list_tree.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "value/list_tree_private.h"

enum {
    SMALL_SHARE = 4, JOINED_SHARE_NUM = 3, JOINED_SHARE_OF = 4,         /* a leaf below a quarter is joined, if both have three quarters at most */
};

static size_t leaf_size_max(const struct value *value)
{
    return paged_tree_leaf_max(paged_of(value)->access);
}

static void change_size(const struct value *value, size_t more, size_t less)
{
    paged_tree_change_size(paged_ordered_of(value), more, less);
}

/* --- leaves --- */

static bool element_fits(const struct value *value, struct bytes page, struct bytes element)
{
    size_t size_max = leaf_size_max(value);

    return !list_page_is_large(page) && element.size < size_max && page.size + listpack_element_size(element) <= size_max;
}

/* Paths that were found are not valid any more. */
static void forget_found(const struct value *value)
{
    paged_of(value)->access->found[0].count = 0;
}

/* The leaf at the path, which is still where it is, has that many elements. */
static void set_count(const struct value *value, const struct page_tree_path *path, uint64_t count)
{
    struct page_tree tree = list_tree_of(value);
    struct page_tree_path *found = &paged_of(value)->access->found[0];

    page_tree_set_count(&tree, path, count);
    if (found->rank == path->rank)
        found->count = count;
    else
        found->count = 0;
}

/* A leaf beside the path's; NULL: the first one. Returns its bytes, which are to be written. */
static char *insert_leaf(const struct value *value, const struct page_tree_path *path, enum page_tree_side side, size_t count, size_t size)
{
    struct page_tree tree = list_tree_of(value);
    char *page;

    forget_found(value);
    page = page_tree_insert(&tree, path, side, BYTES(""), count, size, NULL);
    change_size(value, size, 0);
    return page;
}

static void add_leaf(const struct value *value, const struct page_tree_path *path, enum page_tree_side side, struct bytes element)
{
    size_t size_max = leaf_size_max(value), size = list_page_size_of(element, size_max);

    list_page_write(insert_leaf(value, path, side, 1, size), element, size_max);
}

/* Into a leaf in which it fits, before the position. */
static void insert_into(const struct value *value, const struct list_tree_place *place, size_t at, struct bytes element)
{
    struct page_tree tree = list_tree_of(value);
    size_t more = listpack_element_size(element);

    list_page_insert(tree.pager->change(tree.pager, place->path.leaf, place->page.size + more), at, element);
    set_count(value, &place->path, place->path.count + 1);
    change_size(value, more, 0);
}

/* Removes `count` elements from the position on, not all of the leaf's. */
static void cut_leaf(const struct value *value, const struct list_tree_place *place, size_t at, size_t count)
{
    struct page_tree tree = list_tree_of(value);
    size_t size = place->page.size, less = listpack_size_between(list_page_pack(place->page), at, count);

    list_page_remove(tree.pager->change(tree.pager, place->path.leaf, size), at, count);
    tree.pager->change(tree.pager, place->path.leaf, size - less);
    set_count(value, &place->path, place->path.count - count);
    change_size(value, 0, less);
}

void list_tree_drop_leaf(const struct value *value, const struct page_tree_path *path)
{
    forget_found(value);
    paged_tree_remove_leaf(paged_ordered_of(value), path);
}

/* The leaf's elements from `index` on, which is not 0, go into a new one after it. */
static void split_leaf(const struct value *value, const struct list_tree_place *place, size_t index)
{
    struct page_tree tree = list_tree_of(value);
    size_t at = listpack_seek(list_page_pack(place->page), (int64_t)index), count = place->path.count - index;
    size_t size = list_page_size_of_some(place->page, at, count);
    char *right = mem_alloc(size);
    struct page_tree_path again;

    list_page_write_some(right, place->page, at, count);
    cut_leaf(value, place, at, count);
    CHECK(page_tree_seek_rank(&tree, place->path.rank, &again) == PAGE_TREE_YES);
    memcpy(insert_leaf(value, &again, PAGE_TREE_AFTER, count, size), right, size);
    mem_free(right);
}

/* Joins two neighbours, if both are there and small enough. */
static bool join_leaves(const struct value *value, const struct page_tree_path *left, const struct page_tree_path *right)
{
    struct page_tree tree = list_tree_of(value);
    struct bytes low = paged_tree_resident_leaf(&tree, left->leaf), high = paged_tree_resident_leaf(&tree, right->leaf);
    uint64_t right_rank = left->rank + left->count + right->count;
    struct page_tree_path again;
    size_t size;
    char *copy;

    if (low.data == NULL || high.data == NULL || list_page_is_large(low) || list_page_is_large(high))
        return false;
    size = list_page_size_of_both(low, high);
    if (size > leaf_size_max(value) * JOINED_SHARE_NUM / JOINED_SHARE_OF)
        return false;
    copy = mem_alloc(high.size);
    memcpy(copy, high.data, high.size);
    high.data = copy;
    change_size(value, size, low.size);
    list_page_append(tree.pager->change(tree.pager, left->leaf, size), high);
    set_count(value, left, left->count + right->count);
    mem_free(copy);
    /* The elements of the right one are counted twice until it is gone. */
    CHECK(page_tree_seek_rank(&tree, right_rank, &again) == PAGE_TREE_YES);
    list_tree_drop_leaf(value, &again);
    return true;
}

/* Joins the leaf with this element with a neighbour if it is small, and neither the first nor the last one: those get more elements, or go. */
static void join_if_small(const struct value *value, size_t index)
{
    struct page_tree tree = list_tree_of(value);
    struct page_tree_path path;
    struct bytes page;

    if (index >= tree.root->count || page_tree_seek_rank(&tree, index, &path) != PAGE_TREE_YES || path.rank == 0 || path.rank + path.count == tree.root->count)
        return;
    page = paged_tree_resident_leaf(&tree, path.leaf);
    if (page.data != NULL && page.size < leaf_size_max(value) / SMALL_SHARE)
        paged_tree_join_beside(value, &path, join_leaves);
}

/* --- changing --- */

void list_tree_push(const struct value *value, enum list_end end, struct bytes element)
{
    enum page_tree_side side = end == LIST_HEAD ? PAGE_TREE_BEFORE : PAGE_TREE_AFTER;
    struct list_tree_place place;

    if (list_tree_count(value) == 0) {
        add_leaf(value, NULL, side, element);
        return;
    }
    CHECK(list_tree_find_path(value, end == LIST_HEAD ? 0 : list_tree_count(value) - 1, &place.path));
    if (!list_page_is_too_large(element, leaf_size_max(value))) {
        place.page = paged_tree_leaf(value, &place.path);
        if (element_fits(value, place.page, element)) {
            insert_into(value, &place, end == LIST_HEAD ? listpack_first(list_page_pack(place.page)) : LISTPACK_NONE, element);
            return;
        }
    }
    add_leaf(value, &place.path, side, element);
}

void list_tree_add_page(const struct value *value, enum list_end end, struct bytes page, size_t count)
{
    struct page_tree_path path;
    bool is_first = list_tree_count(value) == 0;

    if (!is_first)
        CHECK(list_tree_find_path(value, end == LIST_HEAD ? 0 : list_tree_count(value) - 1, &path));
    memcpy(insert_leaf(value, is_first ? NULL : &path, end == LIST_HEAD ? PAGE_TREE_BEFORE : PAGE_TREE_AFTER, count, page.size), page.data, page.size);
}

/* Before the first element of the place's leaf: into the leaf before, if that is there, into this one, or into a new one. What is added in order fills leaves like that. */
static void insert_before(const struct value *value, const struct list_tree_place *place, struct bytes element)
{
    struct page_tree tree = list_tree_of(value);
    struct list_tree_place before = *place;

    if (page_tree_previous(&tree, &before.path) == PAGE_TREE_YES) {
        before.page = paged_tree_resident_leaf(&tree, before.path.leaf);
        if (before.page.data != NULL && element_fits(value, before.page, element)) {
            insert_into(value, &before, LISTPACK_NONE, element);
            return;
        }
    }
    if (element_fits(value, place->page, element))
        insert_into(value, place, listpack_first(list_page_pack(place->page)), element);
    else
        add_leaf(value, &place->path, PAGE_TREE_BEFORE, element);
}

/* Into the place's leaf, where the element `within` it is, or before it. */
static void insert_at(const struct value *value, struct list_tree_place *place, size_t within, struct bytes element)
{
    size_t index = place->path.rank + within;

    if (within == 0) {
        insert_before(value, place, element);
    } else if (element_fits(value, place->page, element)) {
        insert_into(value, place, listpack_seek(list_page_pack(place->page), (int64_t)within), element);
    } else {
        split_leaf(value, place, within);
        (void)list_tree_seek(value, index, place);
        insert_before(value, place, element);
        join_if_small(value, index + 1);
        join_if_small(value, index - 1);
    }
}

/* The leaf with the element, if it is there. */
static bool look_for(const struct value *value, size_t index, struct list_tree_place *place)
{
    struct page_tree tree = list_tree_of(value);

    if (page_tree_seek_rank(&tree, index, &place->path) != PAGE_TREE_YES)
        return false;
    place->page = paged_tree_resident_leaf(&tree, place->path.leaf);
    return place->page.data != NULL;
}

void list_tree_insert(const struct value *value, size_t index, struct bytes element)
{
    struct list_tree_place place;

    if (index == 0 || index == list_tree_count(value)) {
        list_tree_push(value, index == 0 ? LIST_HEAD : LIST_TAIL, element);
    } else if (look_for(value, index, &place)) {
        insert_at(value, &place, index - place.path.rank, element);
    } else if (list_tree_seek(value, index - 1, &place) + 1 < place.path.count) {
        insert_at(value, &place, index - place.path.rank, element);
    } else if (element_fits(value, place.page, element)) {       /* after the last element of a leaf: the next one is not needed */
        insert_into(value, &place, LISTPACK_NONE, element);
    } else {
        add_leaf(value, &place.path, PAGE_TREE_AFTER, element);
    }
}

void list_tree_set(const struct value *value, size_t index, struct bytes element)
{
    struct page_tree tree = list_tree_of(value);
    struct pager *pager = tree.pager;
    struct list_tree_place place;
    size_t within = list_tree_seek(value, index, &place), old = place.page.size, size_max = leaf_size_max(value), size, at;
    char *page;

    if (place.path.count == 1) {
        size = list_page_size_of(element, size_max);
        list_page_write(pager->change(pager, place.path.leaf, size), element, size_max);
        change_size(value, size, old);
        return;
    }
    at = listpack_seek(list_page_pack(place.page), (int64_t)within);
    size = element.size < size_max ? old - listpack_size_between(list_page_pack(place.page), at, 1) + listpack_element_size(element) : SIZE_MAX;
    if (size > size_max) {
        cut_leaf(value, &place, at, 1);
        list_tree_insert(value, index, element);
        return;
    }
    page = pager->change(pager, place.path.leaf, size > old ? size : old);
    list_page_insert(page, list_page_remove(page, at, 1), element);
    if (size < old)
        pager->change(pager, place.path.leaf, size);
    change_size(value, size, old);
}

void list_tree_note_ahead(const struct value *value, enum list_end end)
{
    struct paged_access *access = paged_of(value)->access;
    struct page_tree tree = list_tree_of(value);
    struct page_tree_path path;
    enum page_tree_answer answer = end == LIST_HEAD ? page_tree_first(&tree, &path) : page_tree_last(&tree, &path);

    if (answer == PAGE_TREE_MISSING)
        access->ahead = path.missing + 1;
    else if (answer == PAGE_TREE_YES && paged_tree_resident_leaf(&tree, path.leaf).data == NULL)
        access->ahead = path.leaf + 1;
}

void list_tree_delete(const struct value *value, size_t index, size_t count)
{
    while (count > 0) {
        struct list_tree_place place;
        size_t within, here;

        CHECK(list_tree_find_path(value, index, &place.path));
        within = index - place.path.rank;
        here = place.path.count - within < count ? place.path.count - within : count;
        if (here == place.path.count) {
            list_tree_drop_leaf(value, &place.path);
        } else {
            place.page = paged_tree_leaf(value, &place.path);
            cut_leaf(value, &place, listpack_seek(list_page_pack(place.page), (int64_t)within), here);
            if (index > 0 && index < list_tree_count(value))
                join_if_small(value, place.path.rank);
        }
        count -= here;
    }
}

/* In the page, which may be without elements then. */
static size_t remove_in_page(char *page, struct bytes element, size_t count_max, enum list_end from)
{
    const struct listpack *pack = list_page_pack(bytes_of(page, 0));
    size_t removed = 0, at = from == LIST_HEAD ? listpack_find(pack, listpack_first(pack), element, 0) : listpack_last(pack);

    while (at != LISTPACK_NONE && removed < count_max) {
        size_t previous = from == LIST_TAIL ? listpack_previous(pack, at) : LISTPACK_NONE;

        if (listpack_equals(pack, at, element)) {
            at = list_page_remove(page, at, 1);
            removed++;
        }
        at = from == LIST_TAIL ? previous : listpack_find(pack, at, element, 0);
    }
    return removed;
}

static size_t remove_in_leaf(const struct value *value, const struct list_tree_place *place, struct bytes element, size_t count_max, enum list_end from)
{
    struct page_tree tree = list_tree_of(value);
    const struct listpack *pack = list_page_pack(place->page);
    size_t removed, size = place->page.size, size_after;
    char *page;

    if (list_page_is_large(place->page)) {
        if (!bytes_equal(list_page_large(place->page), element))
            return 0;
        list_tree_drop_leaf(value, &place->path);
        return 1;
    }
    if (listpack_find(pack, listpack_first(pack), element, 0) == LISTPACK_NONE)
        return 0;
    page = tree.pager->change(tree.pager, place->path.leaf, size);
    removed = remove_in_page(page, element, count_max, from);
    if (removed == place->path.count) {
        list_tree_drop_leaf(value, &place->path);
        return removed;
    }
    size_after = LIST_PAGE_FORM_SIZE + listpack_size(list_page_pack(bytes_of(page, size)));
    tree.pager->change(tree.pager, place->path.leaf, size_after);
    set_count(value, &place->path, place->path.count - removed);
    change_size(value, size_after, size);
    return removed;
}

size_t list_tree_remove(const struct value *value, struct bytes element, size_t count_max, enum list_end from)
{
    size_t removed = 0, index = from == LIST_HEAD ? 0 : list_tree_count(value) - 1;

    while (removed < count_max && index < list_tree_count(value)) {
        struct list_tree_place place;
        size_t here;

        (void)list_tree_seek(value, index, &place);
        here = remove_in_leaf(value, &place, element, count_max - removed, from);
        index = from == LIST_HEAD ? place.path.rank + place.path.count - here : place.path.rank - 1;       /* before the first: wraps to beyond the last */
        if (here > 0 && here < place.path.count)
            join_if_small(value, place.path.rank);
        removed += here;
    }
    return removed;
}

/* --- making --- */

struct building {
    const struct value *value;
    struct buffer page;
    size_t count;                       /* elements of the page */
};

static void finish_leaf(struct building *building)
{
    if (building->count > 0)
        list_tree_add_page(building->value, LIST_TAIL, buffer_bytes(&building->page), building->count);
    building->page.size = building->count = 0;
}

static void build_add(struct building *building, struct bytes element)
{
    size_t size_max = leaf_size_max(building->value), size;

    if (building->count > 0 && element_fits(building->value, buffer_bytes(&building->page), element)) {
        size = listpack_element_size(element);
        buffer_reserve(&building->page, size);
        list_page_insert(building->page.data, LISTPACK_NONE, element);
        building->page.size += size;
    } else {
        finish_leaf(building);
        size = list_page_size_of(element, size_max);
        list_page_write(buffer_reserve(&building->page, size), element, size_max);
        building->page.size = size;
    }
    building->count++;
}

void list_tree_fill(const struct value *value, const struct chunk_list *list)
{
    struct building building = { .value = value };
    struct chunk_list_iterator iterator;
    char digits[TEXT_INT_SIZE];

    chunk_list_iterate(&iterator, list, 0, LIST_TAIL);
    while (chunk_list_step(&iterator))
        build_add(&building, chunk_list_element(&iterator, digits));
    chunk_list_iterate_end(&iterator);
    finish_leaf(&building);
    buffer_release(&building.page);
}
