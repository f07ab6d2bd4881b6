#include "value/paged_list.h"

#include "base/check.h"
#include "base/compiler.h"
#include "base/mem.h"

enum {
    END_LEAVES = 2,                     /* bytes of an end at most, in those of leaves */
    END_FILL = -1,                      /* its chunks: 4 KiB */
    AHEAD_ELEMENTS = 16,                /* that are left at an end when the tree's leaf there is loaded */
};

static struct paged_list *list_of(const struct value *value)
{
    return value->object;
}

static size_t leaf_size_max(const struct value *value)
{
    return paged_tree_leaf_max(paged_of(value)->access);
}

static bool is_large(const struct value *value, struct bytes element)
{
    return list_page_is_too_large(element, leaf_size_max(value));
}

/* --- roots --- */

struct paged_value *paged_list_of_roots(const struct paged_root *root, const struct page_tree_root *tree, struct chunk_list *const ends[2], uint64_t id)
{
    struct paged_list *list = mem_alloc(sizeof(*list));

    *list = (struct paged_list){ { { .root = *root, .id = id }, *tree }, { ends[0], ends[1] } };
    return &list->ordered.paged;
}

struct paged_value *paged_list_create(const struct chunk_list *list, uint64_t id, struct paged_access *access)
{
    struct paged_value *paged = paged_list_of_roots(&(struct paged_root){ 0 }, &(struct page_tree_root){ 0 }, (struct chunk_list *[2]){ NULL }, id);
    struct value value = { .type = VALUE_LIST, .encoding = LIST_PAGED, .object = paged };

    paged_attach(&value, access);
    list_tree_fill(&value, list);
    return paged;
}

static struct chunk_list *copy_end(const struct value *value, enum list_end end)
{
    return paged_list_end_count(value, end) > 0 ? chunk_list_copy(paged_list_end(value, end)) : NULL;
}

struct paged_value *paged_list_copy_root(const struct value *value, const struct page_tree_root *tree, uint64_t id)
{
    return paged_list_of_roots(&paged_of(value)->root, tree, (struct chunk_list *[2]){ copy_end(value, LIST_HEAD), copy_end(value, LIST_TAIL) }, id);
}

void paged_list_write_end(const struct value *value, enum list_end end, struct buffer *out)
{
    struct listpack *pack;
    struct listpack_gather gather;
    struct chunk_list_iterator iterator;
    char digits[TEXT_INT_SIZE];

    if (paged_list_end_count(value, end) == 0)
        return;
    pack = listpack_create();
    listpack_gather_begin(&gather, &pack);
    chunk_list_iterate(&iterator, paged_list_end(value, end), 0, LIST_TAIL);
    while (chunk_list_step(&iterator))
        listpack_gather(&gather, chunk_list_element(&iterator, digits));
    chunk_list_iterate_end(&iterator);
    listpack_gather_end(&gather);
    buffer_append_bytes(out, listpack_bytes(pack));
    listpack_destroy(pack);
}

bool paged_list_end_is_sound(struct bytes bytes)
{
    return bytes.size == 0 || (listpack_is_valid(bytes) && listpack_count((const struct listpack *)bytes.data) > 0);
}

struct chunk_list *paged_list_read_end(struct bytes bytes)
{
    struct chunk_list *chunks = NULL;

    if (bytes.size > 0) {
        chunks = chunk_list_create(END_FILL, 0);
        chunk_list_add_pack_take(chunks, listpack_of_bytes(bytes));
    }
    return chunks;
}

void paged_list_free(struct value *value)
{
    for (int end = 0; end < 2; end++) {
        if (list_of(value)->ends[end] != NULL)
            chunk_list_destroy(list_of(value)->ends[end]);
    }
    paged_ordered_free(value);
}

size_t paged_list_memory(const struct value *value)
{
    size_t memory = paged_ordered_memory(value);

    for (int end = 0; end < 2; end++) {
        if (list_of(value)->ends[end] != NULL)
            memory += chunk_list_memory(list_of(value)->ends[end], 0);
    }
    return memory;
}

static size_t end_size(const struct value *value, enum list_end end)
{
    return paged_list_end_count(value, end) > 0 ? chunk_list_size(paged_list_end(value, end)) : 0;
}

size_t paged_list_size(const struct value *value)
{
    return end_size(value, LIST_HEAD) + paged_of(value)->root.size + end_size(value, LIST_TAIL);
}

/* --- ends --- */

static struct chunk_list *make_end(const struct value *value, enum list_end end)
{
    struct chunk_list **chunks = &list_of(value)->ends[end];

    if (UNLIKELY(*chunks == NULL))
        *chunks = chunk_list_create(END_FILL, 0);
    return *chunks;
}

/* The elements of an end that are next to the tree become a leaf; one that is too large for it, as leaves were larger when it came, has one to itself. */
static void spill(const struct value *value, enum list_end end)
{
    struct chunk_list *chunks = list_of(value)->ends[end];
    enum list_end inner = end == LIST_HEAD ? LIST_TAIL : LIST_HEAD;
    size_t size_max = leaf_size_max(value), count;
    char digits[TEXT_INT_SIZE];
    struct bytes next = chunk_list_end_element(chunks, inner, digits);
    struct buffer page = { 0 };

    if (UNLIKELY(is_large(value, next))) {
        list_tree_push(value, end, next);
        chunk_list_delete(chunks, inner == LIST_HEAD ? 0 : chunk_list_count(chunks) - 1, 1);
        return;
    }
    list_page_write_empty(buffer_reserve(&page, size_max));
    count = chunk_list_move(chunks, inner, list_page_pack_in(page.data), size_max - LIST_PAGE_FORM_SIZE);
    page.size = LIST_PAGE_FORM_SIZE + listpack_size(list_page_pack_in(page.data));
    list_tree_add_page(value, end, buffer_bytes(&page), count);
    buffer_release(&page);
}

/* An end has become longer. */
static void settle_end(const struct value *value, enum list_end end)
{
    while (UNLIKELY(chunk_list_size(list_of(value)->ends[end]) > END_LEAVES * leaf_size_max(value)))
        spill(value, end);
}

/* All elements of an end go into the tree. */
static void empty_end(const struct value *value, enum list_end end)
{
    while (paged_list_end_count(value, end) > 0)
        spill(value, end);
}

/* Elements are about to be taken from an end without any: the leaf there becomes the end, unless all of it goes. */
static void fill_end(const struct value *value, enum list_end end, size_t count)
{
    size_t in_tree = list_tree_count(value);
    struct list_tree_place place;
    struct listpack *pack;

    if (paged_list_end_count(value, end) > 0 || in_tree == 0)
        return;
    CHECK(list_tree_find_path(value, end == LIST_HEAD ? 0 : in_tree - 1, &place.path));
    if (place.path.count <= count)
        return;
    place.page = paged_tree_leaf(value, &place.path);
    if (list_page_is_large(place.page))
        return;
    pack = listpack_of_bytes(list_page_large(place.page));
    list_tree_drop_leaf(value, &place.path);
    chunk_list_add_pack_take(make_end(value, end), pack);
}

/* --- parts --- */

static size_t part_count(const struct value *value, enum list_part part)
{
    return part == PART_TREE ? list_tree_count(value) : paged_list_end_count(value, part == PART_HEAD ? LIST_HEAD : LIST_TAIL);
}

/* The part with the element, which exists; `*index` becomes the one in it. */
static enum list_part find_part(const struct value *value, size_t *index)
{
    enum list_part part = PART_HEAD;

    while (*index >= part_count(value, part))
        *index -= part_count(value, part++);
    return part;
}

static enum list_end end_of_part(enum list_part part)
{
    return part == PART_HEAD ? LIST_HEAD : LIST_TAIL;
}

/* How many of these elements are in the part, from `*first` of it on. */
static size_t count_in_part(const struct value *value, enum list_part part, size_t index, size_t count, size_t *first)
{
    size_t begin = 0, end, from = index, to = count > SIZE_MAX - index ? SIZE_MAX : index + count;

    for (enum list_part before = PART_HEAD; before < part; before++)
        begin += part_count(value, before);
    end = begin + part_count(value, part);
    if (from < begin)
        from = begin;
    if (to > end)
        to = end;
    *first = from - begin;
    return from < to ? to - from : 0;
}

/* --- changing --- */

void paged_list_push(const struct value *value, enum list_end end, struct bytes element)
{
    if (UNLIKELY(is_large(value, element))) {
        empty_end(value, end);
        list_tree_push(value, end, element);
        return;
    }
    chunk_list_push(make_end(value, end), end, element);
    settle_end(value, end);
}

/* True: the place is in an end, which takes the element. If that is too large for it, the elements of the end are moved into the tree, where the place is then. */
static bool end_takes(const struct value *value, enum list_part part, struct bytes element)
{
    if (part == PART_TREE)
        return false;
    if (!is_large(value, element))
        return true;
    empty_end(value, end_of_part(part));
    return false;
}

void paged_list_set(const struct value *value, size_t index, struct bytes element)
{
    size_t within = index;
    enum list_part part = find_part(value, &within);
    enum list_end end = end_of_part(part);

    if (end_takes(value, part, element)) {
        chunk_list_set(list_of(value)->ends[end], within, element);
        settle_end(value, end);
        return;
    }
    list_tree_set(value, index - paged_list_end_count(value, LIST_HEAD), element);
}

void paged_list_insert(const struct value *value, size_t index, struct bytes element)
{
    size_t within = index;
    enum list_part part;
    enum list_end end;

    if (index == 0 || index == paged_list_count(value)) {
        paged_list_push(value, index == 0 ? LIST_HEAD : LIST_TAIL, element);
        return;
    }
    part = index == paged_list_end_count(value, LIST_HEAD) ? PART_HEAD : find_part(value, &within);      /* at the end of the head, not in front of the tree */
    end = end_of_part(part);
    if (end_takes(value, part, element)) {
        chunk_list_insert(list_of(value)->ends[end], within, element);
        settle_end(value, end);
        return;
    }
    list_tree_insert(value, index - paged_list_end_count(value, LIST_HEAD), element);
}

static void delete_in_part(const struct value *value, enum list_part part, size_t first, size_t count)
{
    if (part == PART_TREE)
        list_tree_delete(value, first, count);
    else
        chunk_list_delete(list_of(value)->ends[end_of_part(part)], first, count);
}

static void delete_in_parts(const struct value *value, size_t index, size_t count)
{
    for (int part = PART_TAIL; part >= PART_HEAD; part--) {
        size_t first, some = count_in_part(value, (enum list_part)part, index, count, &first);

        if (some > 0)
            delete_in_part(value, (enum list_part)part, first, some);
    }
}

void paged_list_delete(const struct value *value, size_t index, size_t count)
{
    bool is_at_end = index == 0 || index + count == paged_list_count(value);
    enum list_end end = index == 0 ? LIST_HEAD : LIST_TAIL;

    if (is_at_end)
        fill_end(value, end, count);
    if (LIKELY(is_at_end && count <= paged_list_end_count(value, end)))
        delete_in_part(value, end == LIST_HEAD ? PART_HEAD : PART_TAIL, end == LIST_HEAD ? 0 : paged_list_end_count(value, end) - count, count);
    else
        delete_in_parts(value, index, count);
    if (is_at_end && paged_list_end_count(value, end) <= AHEAD_ELEMENTS + count)
        list_tree_note_ahead(value, end);
}

size_t paged_list_remove(const struct value *value, struct bytes element, size_t count_max, enum list_end from)
{
    size_t removed = 0;

    for (int i = 0; i < 3 && removed < count_max; i++) {
        enum list_part part = (enum list_part)(from == LIST_HEAD ? i : PART_TAIL - i);

        if (part_count(value, part) > 0 && part == PART_TREE)
            removed += list_tree_remove(value, element, count_max - removed, from);
        else if (part_count(value, part) > 0)
            removed += chunk_list_remove(list_of(value)->ends[end_of_part(part)], element, count_max - removed, from);
    }
    return removed;
}

/* --- reading --- */

struct bytes paged_list_end_element(const struct value *value, enum list_end end, char digits[TEXT_INT_SIZE])
{
    const struct listpack *pack;
    struct list_tree_place place;

    if (paged_list_end_count(value, end) > 0)
        return chunk_list_end_element(paged_list_end(value, end), end, digits);
    if (list_tree_count(value) == 0)
        return chunk_list_end_element(paged_list_end(value, end == LIST_HEAD ? LIST_TAIL : LIST_HEAD), end, digits);
    (void)list_tree_seek(value, end == LIST_HEAD ? 0 : list_tree_count(value) - 1, &place);
    if (list_page_is_large(place.page))
        return list_page_large(place.page);
    pack = list_page_pack(place.page);
    return listpack_get(pack, end == LIST_HEAD ? listpack_first(pack) : listpack_last(pack), digits);
}

/* The leaf's elements from one on. */
static void iterate_leaf(const struct paged_list_iterator *iterator, struct chunk_list_iterator *chunks, size_t index, enum list_end towards)
{
    struct bytes page = iterator->leaf.page;

    if (list_page_is_large(page))
        *chunks = (struct chunk_list_iterator){ .plain = list_page_large(page), .towards = towards };
    else
        chunk_list_iterate_pack(chunks, list_page_pack(page), iterator->leaf.path.count, index, towards);
}

static void iterate_part(struct paged_list_iterator *iterator, struct chunk_list_iterator *chunks, enum list_part part, size_t index, enum list_end towards)
{
    iterator->part = part;
    if (part == PART_TREE)
        iterate_leaf(iterator, chunks, list_tree_seek(iterator->list, index, &iterator->leaf), towards);
    else
        chunk_list_iterate(chunks, paged_list_end(iterator->list, end_of_part(part)), index, towards);
}

void paged_list_iterate(struct paged_list_iterator *iterator, struct chunk_list_iterator *chunks, const struct value *list, size_t index, enum list_end towards)
{
    enum list_part part;

    iterator->list = NULL;
    if (index >= paged_list_count(list)) {
        *chunks = (struct chunk_list_iterator){ .ended = true };
        return;
    }
    iterator->list = list;
    part = find_part(list, &index);
    iterate_part(iterator, chunks, part, index, towards);
}

bool paged_list_next_part(struct paged_list_iterator *iterator, struct chunk_list_iterator *chunks)
{
    enum list_end towards = chunks->towards;

    if (iterator->part == PART_TREE && list_tree_step(iterator->list, towards, &iterator->leaf)) {
        iterate_leaf(iterator, chunks, towards == LIST_TAIL ? 0 : iterator->leaf.path.count - 1, towards);
        return chunk_list_step(chunks);
    }
    while (iterator->part != (towards == LIST_TAIL ? PART_TAIL : PART_HEAD)) {
        enum list_part part = towards == LIST_TAIL ? iterator->part + 1 : iterator->part - 1;
        size_t count = part_count(iterator->list, part);

        iterator->part = part;
        if (count > 0) {
            iterate_part(iterator, chunks, part, towards == LIST_TAIL ? 0 : count - 1, towards);
            return chunk_list_step(chunks);
        }
    }
    iterator->list = NULL;
    return false;
}

/* --- what calls will need --- */

bool paged_list_has(const struct value *value, size_t index, size_t count)
{
    size_t first, in_tree = count_in_part(value, PART_TREE, index, count, &first);

    return in_tree == 0 || paged_tree_has_ranks(value, first, in_tree);
}

bool paged_list_has_push(const struct value *value, enum list_end end, size_t count, size_t bytes)
{
    size_t leaf_max = leaf_size_max(value), more = bytes + count * (LISTPACK_ELEMENT_OVERHEAD + LIST_PAGE_EMPTY_SIZE);     /* at most, each in a chunk of its own */
    size_t size = end_size(value, end) + more;

    if (LIKELY(more <= leaf_max && size <= END_LEAVES * leaf_max))
        return true;
    return paged_has_leaves(value, 2 * size / leaf_max + 1) && list_tree_has_nodes_at(value, end);     /* two neighbours have more than one leaf */
}

bool paged_list_has_set(const struct value *value, size_t index, size_t bytes)
{
    size_t within = index;
    enum list_part part = find_part(value, &within);

    return part == PART_TREE ? paged_list_has(value, index, 1) : paged_list_has_push(value, end_of_part(part), 1, bytes);
}

bool paged_list_has_removal(const struct value *value, size_t index, size_t count)
{
    size_t first, in_tree = count_in_part(value, PART_TREE, index, count, &first);

    return in_tree == 0 || list_tree_has_removal(value, first, in_tree);
}

bool paged_list_has_end(const struct value *value, enum list_end end, size_t count)
{
    size_t at_end = paged_list_end_count(value, end);

    if (LIKELY(at_end > 0))
        return count <= at_end;
    return list_tree_count(value) > 0 && list_tree_has_end(value, end, count);
}

/* How many elements of an end equal this one, `max` at most; of `length` from `from` on. */
static size_t count_at_end(const struct chunk_list *chunks, struct bytes element, enum list_end from, size_t max, size_t length)
{
    struct chunk_list_iterator iterator;
    size_t found = 0;

    chunk_list_iterate(&iterator, chunks, from == LIST_HEAD ? 0 : chunk_list_count(chunks) - 1, from == LIST_HEAD ? LIST_TAIL : LIST_HEAD);
    for (; length > 0 && found < max && chunk_list_step(&iterator); length--)
        found += chunk_list_equals(&iterator, element);
    chunk_list_iterate_end(&iterator);
    return found;
}

bool paged_list_has_search(const struct value *value, struct bytes element, enum list_end from, size_t matches, size_t length_max)
{
    size_t at_end = paged_list_end_count(value, from);

    if (at_end > 0) {
        if (!list_tree_has_nodes_at(value, from))
            return false;
        matches -= count_at_end(paged_list_end(value, from), element, from, matches, length_max);
        length_max -= at_end < length_max ? at_end : length_max;
    }
    return matches == 0 || length_max == 0 || list_tree_count(value) == 0 || list_tree_has_search(value, element, from, matches, length_max);
}
