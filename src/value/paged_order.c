/* Changing elements in order. */
#include "value/paged_order.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "value/paged_order_private.h"

enum {
    LEAF_SIZE_FACTOR = 2,               /* leaves have at most twice the bytes of a usual page, or one element */
    SMALL_SHARE = 4, JOINED_SHARE_NUM = 3, JOINED_SHARE_OF = 4,         /* a leaf below a quarter is joined, if both have three quarters at most */
    PARTS_MAX = 4, RENDER_ROOM = 4096,
    BUILD_PARTS = 256, BUILD_SHARE_NUM = 7, BUILD_SHARE_OF = 8,         /* a set that is built has leaves that are nearly full */
    ELEMENT_SIZE = sizeof(double) + 2,
};

/* --- leaves --- */

/* A page that was written out of parts of pages, which may change then. */
struct rendered {
    size_t size;
    uint32_t count;
    char *bytes;
    char room[RENDER_ROOM];
};

static void render(struct rendered *rendered, const struct order_part *parts, size_t count)
{
    rendered->size = order_page_size(parts, count, &rendered->count);
    rendered->bytes = rendered->size <= sizeof(rendered->room) ? rendered->room : mem_alloc(rendered->size);
    order_page_write(parts, count, rendered->bytes);
}

static void rendered_release(struct rendered *rendered)
{
    if (rendered->bytes != rendered->room)
        mem_free(rendered->bytes);
}

static struct bytes bytes_in(const struct rendered *rendered)
{
    return bytes_of(rendered->bytes, rendered->size);
}

static size_t leaf_size_max(const struct value *value)
{
    return (size_t)paged_of(value)->access->table.limits.size_min * LEAF_SIZE_FACTOR;
}

/* The path's leaf has that page from now on. */
static void replace_leaf(const struct value *value, const struct page_tree_path *path, const struct rendered *rendered)
{
    struct page_tree tree = paged_order_tree(value);

    memcpy(tree.pager->change(tree.pager, path->leaf, rendered->size), rendered->bytes, rendered->size);
    page_tree_set_count(&tree, path, rendered->count);
    paged_order_change_found(value, path, rendered->count);
}

static void add_leaf(const struct value *value, const struct page_tree_path *path, struct bytes separator, const struct rendered *rendered)
{
    struct page_tree tree = paged_order_tree(value);

    paged_order_forget_found(value);
    memcpy(page_tree_insert(&tree, path, PAGE_TREE_AFTER, separator, rendered->count, rendered->size, NULL), rendered->bytes, rendered->size);
}

static void remove_leaf(const struct value *value, const struct page_tree_path *path)
{
    struct page_tree tree = paged_order_tree(value);

    paged_order_forget_found(value);
    page_tree_remove(&tree, path);
}

/* Returns a key that is greater than the element on the left and not than the one on the right, which is greater: a short one, next to the left one, so that what comes in between goes to the right.
 * Members may differ too late for it. */
static struct bytes separator_of(char room[PAGE_TREE_SEPARATOR_MAX], const struct order_element *left, const struct order_element *right)
{
    char other[PAGE_TREE_SEPARATOR_MAX];
    struct bytes low = paged_order_key(other, paged_order_score_bits(left->score), left->member);
    struct bytes high = paged_order_key(room, paged_order_score_bits(right->score), right->member);
    size_t same = 0;

    while (same < low.size && same < high.size && low.data[same] == high.data[same])
        same++;
    if (same < low.size && same < high.size)
        room[same] = (char)((uint8_t)low.data[same] + 1);
    return bytes_of(high.data, same < high.size ? same + 1 : high.size);
}

/* The elements from..to of the parts. Returns how many parts they are. */
static size_t cut_parts(const struct order_part *parts, size_t count, uint32_t from, uint32_t to, struct order_part cut[PARTS_MAX])
{
    uint32_t begin = 0;
    size_t taken = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t size = parts[i].page.data == NULL ? 1 : parts[i].to - parts[i].from, end = begin + size;
        uint32_t first = from > begin ? from - begin : 0, last = to < end ? to - begin : size;

        if (from < end && to > begin && first < last) {
            cut[taken] = parts[i];
            if (parts[i].page.data != NULL) {
                cut[taken].from = parts[i].from + first;
                cut[taken].to = parts[i].from + last;
            }
            taken++;
        }
        begin = end;
    }
    return taken;
}

/* The path's leaf gets the parts up to `middle`, a new one after it the others. */
static void split_leaf(const struct value *value, const struct page_tree_path *path, const struct order_part *parts, size_t count, uint32_t middle)
{
    struct page_tree tree = paged_order_tree(value);
    uint64_t rank = path->rank;
    char room[PAGE_TREE_SEPARATOR_MAX];
    struct order_part cut[PARTS_MAX];
    struct rendered left, right;
    struct order_element last, first;
    struct page_tree_path again;

    render(&left, cut, cut_parts(parts, count, 0, middle, cut));
    render(&right, cut, cut_parts(parts, count, middle, UINT32_MAX, cut));
    last = order_page_at(bytes_in(&left), left.count - 1);
    first = order_page_at(bytes_in(&right), 0);
    replace_leaf(value, path, &left);
    CHECK(page_tree_seek_rank(&tree, rank, &again) == PAGE_TREE_YES);
    add_leaf(value, &again, separator_of(room, &last, &first), &right);
    rendered_release(&left);
    rendered_release(&right);
}

static void add_first(const struct value *value, double score, struct bytes member)
{
    struct order_part part = order_part_single(score, member);
    struct rendered only;

    render(&only, &part, 1);
    add_leaf(value, NULL, BYTES(""), &only);
    rendered_release(&only);
}

/* The element is after all of the place's leaf, which stays as it is. */
static void add_after(const struct value *value, const struct paged_order_place *place, double score, struct bytes member)
{
    struct order_element last = order_page_at(place->page, order_page_count(place->page) - 1), added = { score, member };
    struct order_part part = order_part_single(score, member);
    char room[PAGE_TREE_SEPARATOR_MAX];
    struct rendered only;

    render(&only, &part, 1);
    add_leaf(value, &place->path, separator_of(room, &last, &added), &only);
    rendered_release(&only);
}

/* Where a leaf is split that gets an element: at the beginning of the tree the others stay together, so that what is added in order leaves full leaves. */
static uint32_t split_of(const struct paged_order_place *place, const struct order_part *parts, size_t part_count)
{
    if (place->at == 0 && place->path.rank == 0)
        return 1;
    return order_page_middle(parts, part_count);
}

bool paged_order_insert(const struct value *value, struct bytes member, double score)
{
    struct page_tree tree = paged_order_tree(value);
    struct paged_order_place place;
    struct order_part parts[3];
    struct rendered leaf;
    uint32_t count;
    bool is_there;

    if (tree.root->leaves == 0) {
        add_first(value, score, member);
        return true;
    }
    CHECK(paged_order_find_place(value, score, member, &place, &is_there));
    if (is_there)
        return false;
    count = order_page_count(place.page);
    parts[0] = order_part_of(place.page, 0, place.at);
    parts[1] = order_part_single(score, member);
    parts[2] = order_part_of(place.page, place.at, count);
    if (order_page_size(parts, 3, NULL) > leaf_size_max(value)) {
        /* Elements that are larger than a leaf are not written again for their neighbours. */
        if (place.at == count && (place.path.rank + count == tree.root->count || place.page.size > leaf_size_max(value)))
            add_after(value, &place, score, member);
        else
            split_leaf(value, &place.path, parts, 3, split_of(&place, parts, 3));
        return true;
    }
    render(&leaf, parts, 3);
    replace_leaf(value, &place.path, &leaf);
    rendered_release(&leaf);
    return true;
}

/* Joins two neighbours, if both are there and small enough. Not if the right one is the first of its node: what comes after it would get its place in the order (page_tree.h), and the
 * elements would be looked for there. */
static bool join_leaves(const struct value *value, const struct page_tree_path *left, const struct page_tree_path *right)
{
    struct page_tree tree = paged_order_tree(value);
    struct bytes low = paged_tree_resident_leaf(&tree, left->leaf), high = paged_tree_resident_leaf(&tree, right->leaf);
    uint64_t right_rank = left->rank + left->count + right->count;
    struct page_tree_path again;
    struct order_part parts[2];
    struct rendered joined;

    if (low.data == NULL || high.data == NULL || right->steps[tree.root->height].at == 0)
        return false;
    parts[0] = order_part_of(low, 0, order_page_count(low));
    parts[1] = order_part_of(high, 0, order_page_count(high));
    if (order_page_size(parts, 2, NULL) > leaf_size_max(value) * JOINED_SHARE_NUM / JOINED_SHARE_OF)
        return false;
    render(&joined, parts, 2);
    replace_leaf(value, left, &joined);
    rendered_release(&joined);
    /* The elements of the right one are counted twice until it is gone. */
    CHECK(page_tree_seek_rank(&tree, right_rank, &again) == PAGE_TREE_YES);
    remove_leaf(value, &again);
    return true;
}

/* The leaf is small. */
static void join_with_neighbour(const struct value *value, uint64_t rank)
{
    struct page_tree tree = paged_order_tree(value);
    struct page_tree_path path;

    CHECK(page_tree_seek_rank(&tree, rank, &path) == PAGE_TREE_YES);
    paged_tree_join_beside(value, &path, join_leaves);
}

/* Removes the elements from..to of the place's leaf from the tree. */
static void cut_leaf(const struct value *value, const struct paged_order_place *place, uint32_t from, uint32_t to)
{
    uint32_t count = order_page_count(place->page);
    uint64_t rank = place->path.rank;
    struct order_part parts[2];
    struct rendered leaf;
    bool is_small;

    if (to - from == count) {
        remove_leaf(value, &place->path);
        return;
    }
    parts[0] = order_part_of(place->page, 0, from);
    parts[1] = order_part_of(place->page, to, count);
    render(&leaf, parts, 2);
    replace_leaf(value, &place->path, &leaf);
    is_small = leaf.size < leaf_size_max(value) / SMALL_SHARE;
    rendered_release(&leaf);
    if (is_small)
        join_with_neighbour(value, rank);
}

/* A leaf at the end of the tree; `last`: the element before it, if there is one. */
static void append_leaf(const struct value *value, const struct order_part *parts, size_t count, const struct order_element *last)
{
    struct page_tree tree = paged_order_tree(value);
    char room[PAGE_TREE_SEPARATOR_MAX];
    struct page_tree_path path;
    bool is_first = tree.root->leaves == 0;
    struct rendered leaf;

    render(&leaf, parts, count);
    if (!is_first)
        CHECK(page_tree_last(&tree, &path) == PAGE_TREE_YES);
    add_leaf(value, is_first ? NULL : &path, is_first ? BYTES("") : separator_of(room, last, &parts[0].single), &leaf);
    rendered_release(&leaf);
}

void paged_order_build(const struct value *value, const struct btree *tree)
{
    struct btree_place place;
    struct order_element last = { 0 };
    bool more = btree_seek_rank(tree, 0, &place);

    while (more) {
        struct order_part parts[BUILD_PARTS];
        size_t count = 0, size = 0;

        while (more && count < BUILD_PARTS && (count == 0 || size < leaf_size_max(value) * BUILD_SHARE_NUM / BUILD_SHARE_OF)) {
            struct bytes member;
            double score = btree_get(tree, place, &member);

            parts[count++] = order_part_single(score, member);
            size += member.size + ELEMENT_SIZE;
            more = btree_next(tree, &place);
        }
        append_leaf(value, parts, count, &last);
        last = parts[count - 1].single;
    }
}

/* --- changing --- */

/* Gives the element at the place another score, with which it stays in the leaf. */
static void move_within(const struct value *value, const struct paged_order_place *place, double score, struct bytes member)
{
    uint32_t count = order_page_count(place->page), from = place->at, to;
    struct order_part parts[PARTS_MAX];
    struct rendered leaf;
    bool is_there;

    to = order_page_place(place->page, score, member, &is_there);
    parts[0] = order_part_of(place->page, 0, to < from ? to : from);
    parts[1] = to > from ? order_part_of(place->page, from + 1, to) : order_part_single(score, member);
    parts[2] = to > from ? order_part_single(score, member) : order_part_of(place->page, to, from);
    parts[3] = order_part_of(place->page, to > from ? to : from + 1, count);
    render(&leaf, parts, PARTS_MAX);
    replace_leaf(value, &place->path, &leaf);
    rendered_release(&leaf);
}

/* Adds the element where it goes before it is removed: without it its leaf may be gone, and the place that was asked for (paged_order_has_place) was the one beside that leaf. */
void paged_order_move(const struct value *value, struct bytes member, double from, double to)
{
    struct paged_order_place place;

    paged_order_find_element(value, from, member, &place);
    if (paged_order_stays(value, &place, to, member)) {
        move_within(value, &place, to, member);
        return;
    }
    CHECK(paged_order_insert(value, member, to));
    paged_order_find_element(value, from, member, &place);
    cut_leaf(value, &place, place.at, place.at + 1);
}

void paged_order_remove(const struct value *value, struct bytes member, double score)
{
    struct paged_order_place place;

    paged_order_find_element(value, score, member, &place);
    cut_leaf(value, &place, place.at, place.at + 1);
}

void paged_order_remove_ranks(const struct value *value, size_t first, size_t count, paged_order_gone *gone, void *context)
{
    while (count > 0) {
        struct paged_order_place place;
        struct order_part part;
        struct rendered copy;

        paged_order_seek_rank(value, first, &place);
        part = order_part_of(place.page, place.at, order_page_count(place.page));
        if (part.to - part.from > count)
            part.to = part.from + (uint32_t)count;
        render(&copy, &part, 1);
        cut_leaf(value, &place, part.from, part.to);
        for (uint32_t i = 0; i < copy.count; i++)
            gone(context, order_page_at(bytes_in(&copy), i).member);
        count -= copy.count;
        rendered_release(&copy);
    }
}
