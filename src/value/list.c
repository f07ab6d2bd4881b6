#include "value/list.h"

#include "base/compiler.h"
#include "containers/listpack.h"
#include "value/paged_list.h"
#include "value/type.h"

enum {
    CHUNK_SIZE_MAX = 64 * 1024,     /* a larger listpack from outside is split up */
    COPY_FILL = -2,                 /* of a copy of what was in pages: 8 KiB, as by default */
    SMALL_SLACK = 2,                /* the mean size of elements that stay is not that of all */
};

static inline struct listpack *pack_of(const struct value *list)
{
    return list->object;
}

static inline struct listpack **pack_slot(struct value *list)
{
    return (struct listpack **)&list->object;
}

static inline struct chunk_list *chunks_of(const struct value *list)
{
    return list->object;
}

struct value list_create(void)
{
    return (struct value){ .type = VALUE_LIST, .encoding = LIST_LISTPACK, .object = listpack_create() };
}

size_t list_count(const struct value *list)
{
    if (UNLIKELY(value_is_paged(list)))
        return paged_list_count(list);
    return list->encoding == LIST_LISTPACK ? listpack_count(pack_of(list)) : chunk_list_count(chunks_of(list));
}

static void to_chunks(struct value *list, const struct value_limits *limits)
{
    struct chunk_list *chunks = chunk_list_create(limits->list_fill, limits->list_depth);

    if (listpack_count(pack_of(list)) > 0)
        chunk_list_add_pack_take(chunks, pack_of(list));
    else
        listpack_destroy(pack_of(list));
    list->encoding = LIST_CHUNKS;
    list->object = chunks;
}

static void to_listpack(struct value *list)
{
    struct chunk_list *chunks = chunks_of(list);

    list->object = chunk_list_take_pack(chunks);
    list->encoding = LIST_LISTPACK;
    chunk_list_destroy(chunks);
}

void list_grow(struct value *list, const struct value_limits *limits, size_t count, size_t bytes)
{
    const struct listpack *pack = pack_of(list);

    if (list->encoding == LIST_LISTPACK &&
        (chunk_exceeds(limits->list_fill, listpack_size(pack) + bytes, listpack_count(pack) + count) ||
            !listpack_has_room(pack, count, bytes)))
        to_chunks(list, limits);
}

static bool is_small(const struct value_limits *limits, size_t size, size_t count, size_t share)
{
    size_t size_max, count_max;

    chunk_limits(limits->list_fill, &size_max, &count_max);
    return size < LISTPACK_SIZE_MAX / 2 && size <= size_max / share && count <= count_max / share;
}

/* Changes to a listpack if there is one chunk with at most 1/`share` of the limits of a chunk. */
static void shrink_to(struct value *list, const struct value_limits *limits, size_t share)
{
    if (is_small(limits, chunk_list_pack_size(chunks_of(list)), chunk_list_count(chunks_of(list)), share))
        to_listpack(list);
}

/* Whether so small a list in pages becomes a listpack: as those in chunks do, where a chunk has SIZE_OF_COUNTED bytes at most if its elements are counted. */
static bool fits_pack(const struct value_limits *limits, size_t size, size_t count)
{
    return count > 0 && is_small(limits, size, count, 2) && !chunk_exceeds(limits->list_fill, size, 1);
}

/* Whether a list in pages may be so small when `kept` of its elements are left, each of which has the mean size over `slack` at least. */
static bool may_fit_pack(const struct value *list, const struct value_limits *limits, size_t kept, double slack)
{
    double share = (double)kept / (double)paged_list_count(list) / slack;

    return fits_pack(limits, (size_t)((double)paged_of(list)->root.size * share), kept) &&      /* the pages alone: in most cases it is known then */
        fits_pack(limits, (size_t)((double)paged_list_size(list) * share), kept);
}

/* Not if pages would have to be read. The value's size is not exact. */
bool list_becomes_pack(const struct value *list, const struct value_limits *limits, struct value *pack)
{
    struct list_iterator iterator;
    char digits[TEXT_INT_SIZE];
    bool fits = true;

    if (list_is_here(list) || !may_fit_pack(list, limits, paged_list_count(list), 1) || !list_tree_is_resident(list))
        return false;
    *pack = list_create();
    list_iterate(&iterator, list, 0, LIST_TAIL);
    while (fits && list_step(&iterator)) {
        listpack_append(pack_slot(pack), list_element(&iterator, digits));
        fits = fits_pack(limits, listpack_size(pack_of(pack)), paged_list_count(list));
    }
    list_iterate_end(&iterator);
    if (!fits)
        value_free(pack);
    return fits;
}

void list_shrink(struct value *list, const struct value_limits *limits)
{
    if (list->encoding == LIST_CHUNKS && list_count(list) > 0)
        shrink_to(list, limits, 2);
}

void list_push(struct value *list, enum list_end end, struct bytes element)
{
    if (list->encoding == LIST_CHUNKS)
        chunk_list_push(chunks_of(list), end, element);
    else if (UNLIKELY(value_is_paged(list)))
        paged_list_push(list, end, element);
    else
        listpack_insert(pack_slot(list), end == LIST_HEAD ? listpack_first(pack_of(list)) : LISTPACK_NONE, element);
}

void list_set(struct value *list, size_t index, struct bytes element)
{
    if (list->encoding == LIST_CHUNKS)
        chunk_list_set(chunks_of(list), index, element);
    else if (UNLIKELY(value_is_paged(list)))
        paged_list_set(list, index, element);
    else
        listpack_replace(pack_slot(list), listpack_seek(pack_of(list), (int64_t)index), element);
}

void list_insert(struct value *list, size_t index, struct bytes element)
{
    if (list->encoding == LIST_CHUNKS)
        chunk_list_insert(chunks_of(list), index, element);
    else if (UNLIKELY(value_is_paged(list)))
        paged_list_insert(list, index, element);
    else
        listpack_insert(pack_slot(list), listpack_seek(pack_of(list), (int64_t)index), element);
}

void list_delete(struct value *list, size_t index, size_t count)
{
    if (count == 0)
        return;
    if (list->encoding == LIST_CHUNKS)
        chunk_list_delete(chunks_of(list), index, count);
    else if (UNLIKELY(value_is_paged(list)))
        paged_list_delete(list, index, count);
    else
        listpack_delete(pack_slot(list), listpack_seek(pack_of(list), (int64_t)index), count);
}

const struct chunk_list *list_chunks(const struct value *list)
{
    return list->encoding == LIST_CHUNKS ? list->object : NULL;
}

size_t list_remove(struct value *list, struct bytes element, size_t count_max, enum list_end from)
{
    if (list->encoding == LIST_CHUNKS)
        return chunk_list_remove(chunks_of(list), element, count_max, from);
    if (UNLIKELY(value_is_paged(list)))
        return paged_list_remove(list, element, count_max, from);
    return chunk_remove_from_pack(pack_slot(list), element, count_max, from);
}

struct bytes list_end_element(const struct value *list, enum list_end end, char digits[TEXT_INT_SIZE])
{
    const struct listpack *pack = pack_of(list);

    if (list->encoding == LIST_CHUNKS)
        return chunk_list_end_element(chunks_of(list), end, digits);
    if (UNLIKELY(value_is_paged(list)))
        return paged_list_end_element(list, end, digits);
    return listpack_get(pack, end == LIST_HEAD ? listpack_first(pack) : listpack_last(pack), digits);
}

void list_iterate(struct list_iterator *iterator, const struct value *list, size_t index, enum list_end towards)
{
    iterator->in_pages.list = NULL;
    if (list->encoding == LIST_CHUNKS)
        chunk_list_iterate(&iterator->chunks, chunks_of(list), index, towards);
    else if (LIKELY(list->encoding == LIST_LISTPACK))
        chunk_list_iterate_pack(&iterator->chunks, pack_of(list), listpack_count(pack_of(list)), index, towards);
    else
        paged_list_iterate(&iterator->in_pages, &iterator->chunks, list, index, towards);
}

/* Questions */

bool list_has_ranks(const struct value *list, size_t index, size_t count)
{
    return list_is_here(list) || paged_list_has(list, index, count);
}

bool list_has_trim(const struct value *list, const struct value_limits *limits, size_t from, size_t to)
{
    bool has;

    if (list_is_here(list))
        return true;
    has = paged_list_has_removal(list, 0, from);
    has = paged_list_has_removal(list, to, paged_list_count(list) - to) && has;
    if (may_fit_pack(list, limits, to - from, SMALL_SLACK))
        has = paged_list_has(list, from, to - from) && has;
    return has;
}

bool list_has_popped(const struct value *list, const struct value_limits *limits, enum list_end end, size_t count)
{
    size_t all = list_count(list);
    bool has;

    if (list_is_here(list) || (!may_fit_pack(list, limits, all - count, SMALL_SLACK) && paged_list_has_end(list, end, count)))
        return true;
    has = paged_list_has(list, end == LIST_HEAD ? 0 : all - count, count);
    return list_has_trim(list, limits, end == LIST_HEAD ? count : 0, end == LIST_HEAD ? all : all - count) && has;
}

bool list_has_push(const struct value *list, enum list_end end, size_t count, size_t bytes)
{
    return list_is_here(list) || paged_list_has_push(list, end, count, bytes);
}

bool list_has_set(const struct value *list, size_t index, size_t bytes)
{
    return list_is_here(list) || paged_list_has_set(list, index, bytes);
}

bool list_has_search(const struct value *list, struct bytes element, enum list_end from, size_t matches, size_t length_max)
{
    return list_is_here(list) || paged_list_has_search(list, element, from, matches, length_max);
}

/* Building: always chunks; a small list becomes a listpack at the end */

struct value list_build(const struct value_limits *limits)
{
    struct value list = list_create();

    to_chunks(&list, limits);
    return list;
}

void list_build_add(struct value *list, struct bytes element)
{
    chunk_list_push(chunks_of(list), LIST_TAIL, element);
}

enum status list_build_pack(struct value *list, const struct value_limits *limits, struct bytes listpack)
{
    struct chunk_list_iterator iterator;
    char digits[TEXT_INT_SIZE];
    struct listpack *pack;
    bool is_whole;

    if (!listpack_is_valid(listpack))
        return STATUS_CORRUPT;
    pack = listpack_of_bytes(listpack);
    if (listpack_count(pack) == 0) {            /* Redis omits empty ones, too */
        listpack_destroy(pack);
        return STATUS_OK;
    }
    is_whole = limits->list_kept == LIST_KEPT_LISTPACK || listpack.size <= CHUNK_SIZE_MAX;
    if (is_whole) {
        chunk_list_add_pack_take(chunks_of(list), pack);
        return STATUS_OK;
    }
    chunk_list_iterate_pack(&iterator, pack, listpack_count(pack), 0, LIST_TAIL);
    while (chunk_list_step(&iterator))
        list_build_add(list, chunk_list_element(&iterator, digits));
    chunk_list_iterate_end(&iterator);
    listpack_destroy(pack);
    return STATUS_OK;
}

enum status list_build_end(struct value *list, const struct value_limits *limits)
{
    if (list_count(list) == 0)
        return STATUS_CORRUPT;
    switch (limits->list_kept) {
    case LIST_BY_SIZE: shrink_to(list, limits, 1); break;
    case LIST_KEPT_CHUNKS: break;
    case LIST_KEPT_LISTPACK:
        if (chunk_list_pack_size(chunks_of(list)) >= LISTPACK_SIZE_MAX / 2)
            return STATUS_CORRUPT;
        to_listpack(list);
    }
    return STATUS_OK;
}

/* Operations of the type */

static const char *list_encoding_name(const struct value *list)
{
    return list->encoding == LIST_LISTPACK ? "listpack" : "quicklist";
}

static void list_free(struct value *list)
{
    if (list->encoding == LIST_LISTPACK)
        listpack_destroy(pack_of(list));
    else if (UNLIKELY(value_is_paged(list)))
        paged_list_free(list);
    else
        chunk_list_destroy(chunks_of(list));
}

static size_t list_memory(const struct value *list, size_t samples)
{
    if (UNLIKELY(value_is_paged(list)))
        return paged_list_memory(list);
    return list->encoding == LIST_LISTPACK ? listpack_memory(pack_of(list)) : chunk_list_memory(chunks_of(list), samples);
}

static size_t list_free_effort(const struct value *list)
{
    return list->encoding == LIST_LISTPACK || value_is_paged(list) ? 1 : chunk_list_chunks(chunks_of(list)) + 1;
}

/* A value that leaves its database is whole. */
static struct chunk_list *copy_to_chunks(const struct value *list)
{
    struct chunk_list *copy = chunk_list_create(COPY_FILL, 0);
    struct list_iterator iterator;
    char digits[TEXT_INT_SIZE];

    list_iterate(&iterator, list, 0, LIST_TAIL);
    while (list_step(&iterator))
        chunk_list_push(copy, LIST_TAIL, list_element(&iterator, digits));
    list_iterate_end(&iterator);
    return copy;
}

static struct value list_copy(const struct value *list)
{
    struct value copy = *list;

    if (UNLIKELY(value_is_paged(list)))
        return (struct value){ .type = VALUE_LIST, .encoding = LIST_CHUNKS, .object = copy_to_chunks(list) };
    if (list->encoding == LIST_LISTPACK)
        copy.object = listpack_copy(pack_of(list));
    else
        copy.object = chunk_list_copy(chunks_of(list));
    return copy;
}

static void list_digest(const struct value *list, struct value_sum *sum)
{
    struct list_iterator iterator;
    char digits[TEXT_INT_SIZE];
    uint64_t index = 0;

    list_iterate(&iterator, list, 0, LIST_TAIL);
    for (; list_step(&iterator); index++)
        value_sum_add_pair(sum, bytes_of(&index, sizeof(index)), list_element(&iterator, digits));
    list_iterate_end(&iterator);
}

const struct value_operations list_operations = {
    .encoding_name = list_encoding_name,
    .free = list_free,
    .memory = list_memory,
    .free_effort = list_free_effort,
    .copy = list_copy,
    .digest = list_digest,
};
