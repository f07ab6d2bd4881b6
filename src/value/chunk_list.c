#include "value/chunk_list.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "containers/listpack.h"
#include "value/lzf.h"

enum {
    RING_MIN = 2,
    PLAIN_SIZE_MIN = 64 * 1024,     /* elements of this size have a chunk of their own */
    PACK_SIZE_MAX = 128 * 1024,     /* replacing elements may bring a chunk beyond its limit, but not beyond this */
    SIZE_OF_COUNTED = 8 * 1024,     /* limit of a chunk whose elements are counted */
    PACK_EMPTY_SIZE = 7,
    ELEMENT_OVERHEAD = 8,           /* reckoned for an element to come, as Redis does */
    COMPRESS_SIZE_MIN = 48, COMPRESS_GAIN_MIN = 8,
};

struct chunk {
    void *data;                     /* a struct listpack, struct plain or struct compressed */
    uint32_t count;                 /* elements */
    uint8_t form;                   /* enum chunk_form */
    bool is_incompressible;         /* that was tried */
};

struct plain {
    size_t size;
    char bytes[];
};

struct compressed {
    uint32_t size;                  /* of these bytes */
    uint32_t pack_size;
    char bytes[];
};

/* Chunk i lies at ring[(first + i) & (capacity - 1)]. No chunk is empty. The first and the last `depth` ones are not compressed. */
struct chunk_list {
    struct chunk *ring;
    uint32_t capacity, first, used;
    int16_t fill;
    uint16_t depth;
    uint64_t count;
};

/* Limits. */

void chunk_limits(int fill, size_t *size_max, size_t *count_max)
{
    static const size_t sizes[] = { 4096, 8192, 16384, 32768, 65536 };

    *size_max = *count_max = SIZE_MAX;
    if (fill >= 0)
        *count_max = fill == 0 ? 1 : (size_t)fill;
    else
        *size_max = sizes[fill < -5 ? 4 : -fill - 1];
}

bool chunk_exceeds(int fill, size_t size, size_t count)
{
    size_t size_max, count_max;

    chunk_limits(fill, &size_max, &count_max);
    if (size_max != SIZE_MAX)
        return size > size_max;
    return size > SIZE_OF_COUNTED || count > count_max;
}

/* The ring. */

static inline struct chunk *chunk_at(const struct chunk_list *list, size_t index)
{
    return &list->ring[(list->first + index) & (list->capacity - 1)];
}

static void ring_resize(struct chunk_list *list, uint32_t capacity)
{
    struct chunk *ring = mem_alloc(capacity * sizeof(*ring));

    for (uint32_t i = 0; i < list->used; i++)
        ring[i] = *chunk_at(list, i);
    mem_free(list->ring);
    list->ring = ring;
    list->capacity = capacity;
    list->first = 0;
}

/* Opens a gap before chunk `index`, moving the side that is shorter. */
static struct chunk *ring_insert(struct chunk_list *list, size_t index)
{
    if (list->used == list->capacity) {
        CHECK(list->capacity < UINT32_MAX / 2);
        ring_resize(list, list->capacity * 2);
    }
    if (index < list->used / 2) {
        list->first = (list->first - 1) & (list->capacity - 1);
        for (size_t i = 0; i < index; i++)
            *chunk_at(list, i) = *chunk_at(list, i + 1);
    } else {
        for (size_t i = list->used; i > index; i--)
            *chunk_at(list, i) = *chunk_at(list, i - 1);
    }
    list->used++;
    *chunk_at(list, index) = (struct chunk){ 0 };
    return chunk_at(list, index);
}

/* Takes `count` descriptors out; what they pointed to has been freed. */
static void ring_remove(struct chunk_list *list, size_t index, size_t count)
{
    size_t behind = list->used - index - count;

    if (count == 0)
        return;
    if (index < behind) {
        for (size_t i = index; i-- > 0; )
            *chunk_at(list, i + count) = *chunk_at(list, i);
        list->first = (uint32_t)(list->first + count) & (list->capacity - 1);
    } else {
        for (size_t i = 0; i < behind; i++)
            *chunk_at(list, index + i) = *chunk_at(list, index + count + i);
    }
    list->used -= (uint32_t)count;
    if (list->capacity > RING_MIN && list->used <= list->capacity / 4) {
        uint32_t capacity = list->capacity;

        while (capacity > RING_MIN && list->used <= capacity / 4)
            capacity /= 2;
        ring_resize(list, capacity);
    }
}

/* Chunks. */

static inline struct listpack *pack_of(const struct chunk *chunk)
{
    return chunk->data;
}

/* Its listpack may move when it changes. What was known about compressing it no longer holds. */
static inline struct listpack **pack_slot(struct chunk *chunk)
{
    chunk->is_incompressible = false;
    return (struct listpack **)&chunk->data;
}

static struct bytes plain_bytes(const struct chunk *chunk)
{
    const struct plain *plain = chunk->data;

    return bytes_of(plain->bytes, plain->size);
}

static struct plain *plain_of(struct bytes element)
{
    struct plain *plain = mem_alloc(sizeof(*plain) + element.size);

    plain->size = element.size;
    memcpy(plain->bytes, element.data, element.size);
    return plain;
}

static void chunk_free(struct chunk *chunk)
{
    if (chunk->form == CHUNK_PACK)
        listpack_destroy(chunk->data);
    else
        mem_free(chunk->data);
}

/* The listpack that a compressed chunk is; freed with mem_free. */
static char *unpack(const struct chunk *chunk)
{
    const struct compressed *compressed = chunk->data;
    struct buffer buffer = { .data = mem_alloc(mem_class(compressed->pack_size)), .capacity = compressed->pack_size };

    CHECK(lzf_decode(bytes_of(compressed->bytes, compressed->size), compressed->pack_size, &buffer) == STATUS_OK);
    return buffer.data;
}

/* So that its elements can be changed. */
static void chunk_open(struct chunk *chunk)
{
    char *pack;

    if (chunk->form != CHUNK_COMPRESSED)
        return;
    pack = unpack(chunk);
    mem_free(chunk->data);
    chunk->data = pack;
    chunk->form = CHUNK_PACK;
}

static void chunk_compress(struct chunk *chunk)
{
    struct bytes pack;
    struct compressed *compressed;
    size_t size;

    if (chunk->form != CHUNK_PACK || chunk->is_incompressible)
        return;
    pack = listpack_bytes(pack_of(chunk));
    chunk->is_incompressible = true;
    if (pack.size < COMPRESS_SIZE_MIN)
        return;
    compressed = mem_alloc(sizeof(*compressed) + pack.size);
    size = lzf_encode(pack, compressed->bytes, pack.size - COMPRESS_GAIN_MIN);
    if (size == 0) {
        mem_free(compressed);
        return;
    }
    compressed->size = (uint32_t)size;
    compressed->pack_size = (uint32_t)pack.size;
    listpack_destroy(pack_of(chunk));
    chunk->data = mem_realloc(compressed, sizeof(*compressed) + size);
    chunk->form = CHUNK_COMPRESSED;
    chunk->is_incompressible = false;
}

/* Compresses or opens the chunk, as its place demands. */
static void settle(struct chunk_list *list, size_t index)
{
    if (index >= list->used)
        return;
    if (index < list->depth || list->used - index <= list->depth)
        chunk_open(chunk_at(list, index));
    else
        chunk_compress(chunk_at(list, index));
}

/* To be called after each change: `first` to `last` are the chunks that changed. Besides them, a chunk may have crossed a border
 * because others came or went: at most two come at a time. */
static void settle_around(struct chunk_list *list, size_t first, size_t last)
{
    size_t depth = list->depth;

    if (depth == 0)
        return;
    for (size_t i = first; i <= last; i++)
        settle(list, i);
    for (size_t i = 0; i <= depth + 1 && i < list->used; i++) {
        settle(list, i);
        settle(list, list->used - 1 - i);
    }
}

static bool has_room(const struct chunk_list *list, const struct chunk *chunk, struct bytes element)
{
    size_t size;

    if (chunk->form == CHUNK_PLAIN || element.size >= PLAIN_SIZE_MIN)
        return false;
    size = chunk->form == CHUNK_PACK ? listpack_size(pack_of(chunk)) : ((struct compressed *)chunk->data)->pack_size;
    return !chunk_exceeds(list->fill, size + element.size + ELEMENT_OVERHEAD, chunk->count + 1);
}

/* A chunk of one element, before chunk `index`. */
static void insert_alone(struct chunk_list *list, size_t index, struct bytes element)
{
    struct chunk *chunk = ring_insert(list, index);

    chunk->count = 1;
    if (element.size >= PLAIN_SIZE_MIN) {
        chunk->form = CHUNK_PLAIN;
        chunk->data = plain_of(element);
    } else {
        chunk->form = CHUNK_PACK;
        chunk->data = listpack_create();
        listpack_append(pack_slot(chunk), element);
    }
}

/* The list. */

struct chunk_list *chunk_list_create(int fill, int depth)
{
    struct chunk_list *list = mem_zalloc(sizeof(*list));

    list->fill = (int16_t)(fill < -5 ? -5 : fill > INT16_MAX ? INT16_MAX : fill);
    list->depth = (uint16_t)(depth < 0 ? 0 : depth > UINT16_MAX ? UINT16_MAX : depth);
    list->capacity = RING_MIN;
    list->ring = mem_alloc(RING_MIN * sizeof(struct chunk));
    return list;
}

void chunk_list_destroy(struct chunk_list *list)
{
    for (size_t i = 0; i < list->used; i++)
        chunk_free(chunk_at(list, i));
    mem_free(list->ring);
    mem_free(list);
}

static struct chunk chunk_copy(const struct chunk *chunk)
{
    const struct compressed *compressed = chunk->data;
    struct chunk copy = *chunk;

    switch (chunk->form) {
    case CHUNK_PACK: copy.data = listpack_copy(pack_of(chunk)); break;
    case CHUNK_PLAIN: copy.data = plain_of(plain_bytes(chunk)); break;
    default:
        copy.data = mem_alloc(sizeof(*compressed) + compressed->size);
        memcpy(copy.data, compressed, sizeof(*compressed) + compressed->size);
    }
    return copy;
}

struct chunk_list *chunk_list_copy(const struct chunk_list *list)
{
    struct chunk_list *copy = mem_alloc(sizeof(*copy));

    *copy = *list;
    copy->first = 0;
    copy->ring = mem_alloc(copy->capacity * sizeof(struct chunk));
    for (size_t i = 0; i < list->used; i++)
        copy->ring[i] = chunk_copy(chunk_at(list, i));
    return copy;
}

size_t chunk_list_count(const struct chunk_list *list)
{
    return list->count;
}

size_t chunk_list_chunks(const struct chunk_list *list)
{
    return list->used;
}

size_t chunk_list_memory(const struct chunk_list *list, size_t samples)
{
    size_t looked_at = samples == 0 || samples > list->used ? list->used : samples, sum = 0;

    for (size_t i = 0; i < looked_at; i++)
        sum += mem_size(chunk_at(list, i * list->used / looked_at)->data);
    if (looked_at < list->used)
        sum = (size_t)((double)sum / (double)looked_at * list->used);
    return sum + mem_size(list->ring) + mem_size(list);
}

void chunk_list_add_pack_take(struct chunk_list *list, struct listpack *pack)
{
    struct chunk *chunk = ring_insert(list, list->used);

    chunk->data = pack;
    chunk->count = (uint32_t)listpack_count(pack);
    CHECK(chunk->count > 0);
    list->count += chunk->count;
    settle_around(list, list->used - 1, list->used - 1);
}

size_t chunk_list_pack_size(const struct chunk_list *list)
{
    const struct chunk *chunk = chunk_at(list, 0);

    if (list->used != 1)
        return SIZE_MAX;
    switch (chunk->form) {
    case CHUNK_PACK: return listpack_size(pack_of(chunk));
    case CHUNK_PLAIN: return plain_bytes(chunk).size + PACK_EMPTY_SIZE + LISTPACK_ELEMENT_OVERHEAD;
    default: return ((struct compressed *)chunk->data)->pack_size;
    }
}

struct listpack *chunk_list_take_pack(struct chunk_list *list)
{
    struct chunk *chunk = chunk_at(list, 0);
    struct listpack *pack;

    if (list->used != 1)
        return NULL;
    if (chunk->form == CHUNK_PLAIN) {
        pack = listpack_create();
        listpack_append(&pack, plain_bytes(chunk));
        chunk_free(chunk);
    } else {
        chunk_open(chunk);
        pack = pack_of(chunk);
    }
    list->used = 0;
    list->count = 0;
    return pack;
}

void chunk_list_push(struct chunk_list *list, enum list_end end, struct bytes element)
{
    size_t index = end == LIST_HEAD || list->used == 0 ? 0 : list->used - 1;
    struct chunk *chunk = list->used > 0 ? chunk_at(list, index) : NULL;

    list->count++;
    if (chunk != NULL && has_room(list, chunk, element)) {      /* with a depth, the ends are never compressed */
        struct listpack **pack = pack_slot(chunk);

        listpack_insert(pack, end == LIST_HEAD ? listpack_first(*pack) : LISTPACK_NONE, element);
        chunk->count++;
        return;
    }
    index = end == LIST_HEAD ? 0 : list->used;
    insert_alone(list, index, element);
    settle_around(list, index, index);
}

/* Which chunk has the element `*index`, which becomes an index in there. Counted from the nearer end. */
static size_t find_chunk(const struct chunk_list *list, size_t *index)
{
    size_t chunk;

    CHECK(*index < list->count);
    if (*index < list->count / 2) {
        for (chunk = 0; *index >= chunk_at(list, chunk)->count; chunk++)
            *index -= chunk_at(list, chunk)->count;
    } else {
        size_t begins = list->count;

        for (chunk = list->used; begins > *index; )
            begins -= chunk_at(list, --chunk)->count;
        *index -= begins;
    }
    return chunk;
}

/* The chunk's elements from `index` on become a chunk of their own behind it. */
static void split(struct chunk_list *list, size_t chunk_index, size_t index)
{
    struct chunk *left, *right = ring_insert(list, chunk_index + 1);
    struct listpack *pack = listpack_create();
    char digits[TEXT_INT_SIZE];
    size_t from;

    left = chunk_at(list, chunk_index);
    CHECK(left->form == CHUNK_PACK && index > 0 && index < left->count);
    from = listpack_seek(pack_of(left), (int64_t)index);
    for (size_t at = from; at != LISTPACK_NONE; at = listpack_next(pack_of(left), at)) {
        int64_t number;

        if (listpack_get_int(pack_of(left), at, &number))
            listpack_append_int(&pack, number);
        else
            listpack_append(&pack, listpack_get(pack_of(left), at, digits));
    }
    listpack_delete(pack_slot(left), from, left->count - index);
    *right = (struct chunk){ .data = pack, .form = CHUNK_PACK, .count = left->count - (uint32_t)index };
    left->count = (uint32_t)index;
}

/* Makes one of a chunk and the next one, if that is not too large. */
static bool merge(struct chunk_list *list, size_t index)
{
    struct chunk *left, *right;
    char digits[TEXT_INT_SIZE];

    if (index + 1 >= list->used)
        return false;
    left = chunk_at(list, index);
    right = chunk_at(list, index + 1);
    if (left->form == CHUNK_PLAIN || right->form == CHUNK_PLAIN)
        return false;
    chunk_open(left);
    chunk_open(right);
    if (chunk_exceeds(list->fill, listpack_size(pack_of(left)) + listpack_size(pack_of(right)) - PACK_EMPTY_SIZE, left->count + right->count))
        return false;
    for (size_t at = listpack_first(pack_of(right)); at != LISTPACK_NONE; at = listpack_next(pack_of(right), at))
        listpack_append(pack_slot(left), listpack_get(pack_of(right), at, digits));
    left->count += right->count;
    chunk_free(right);
    ring_remove(list, index + 1, 1);
    return true;
}

/* Into a chunk that has room, or is about to be divided. */
static void insert_into(struct chunk_list *list, size_t chunk_index, size_t index, struct bytes element)
{
    struct chunk *chunk = chunk_at(list, chunk_index);

    chunk_open(chunk);
    listpack_insert(pack_slot(chunk), index < chunk->count ? listpack_seek(pack_of(chunk), (int64_t)index) : LISTPACK_NONE, element);
    chunk->count++;
}

void chunk_list_insert(struct chunk_list *list, size_t index, struct bytes element)
{
    size_t at = index, first, last;
    struct chunk *chunk;

    if (index == 0 || index == list->count) {
        chunk_list_push(list, index == 0 ? LIST_HEAD : LIST_TAIL, element);
        return;
    }
    first = last = find_chunk(list, &at);
    chunk = chunk_at(list, first);
    list->count++;
    if (has_room(list, chunk, element)) {
        insert_into(list, first, at, element);
    } else if (at == 0 && has_room(list, chunk_at(list, first - 1), element)) {
        first--;
        insert_into(list, first, chunk_at(list, first)->count, element);
    } else if (at == 0) {
        insert_alone(list, first, element);
        last++;
    } else {
        chunk_open(chunk);
        split(list, first, at);
        if (has_room(list, chunk_at(list, first), element)) {
            insert_into(list, first, at, element);
        } else {
            insert_alone(list, first + 1, element);
            last++;
        }
        last++;
        merge(list, last);
        if (merge(list, last - 1))
            last--;
        if (first > 0 && merge(list, first - 1)) {
            first--;
            last--;
        }
    }
    /* A neighbour that was only looked at may be open now. */
    settle_around(list, first > 0 ? first - 1 : 0, last + 2);
}

/* `count` elements of one chunk, not all of it. */
static void delete_within(struct chunk *chunk, size_t index, size_t count)
{
    chunk_open(chunk);
    listpack_delete(pack_slot(chunk), listpack_seek(pack_of(chunk), (int64_t)index), count);
    chunk->count -= (uint32_t)count;
}

void chunk_list_delete(struct chunk_list *list, size_t index, size_t count)
{
    size_t chunk_index, whole_first, whole_count = 0, touched;

    if (count == 0)
        return;
    CHECK(index + count <= list->count);
    chunk_index = touched = find_chunk(list, &index);
    list->count -= count;
    if (index > 0) {
        struct chunk *chunk = chunk_at(list, chunk_index);
        size_t here = chunk->count - index < count ? chunk->count - index : count;

        delete_within(chunk, index, here);
        count -= here;
        chunk_index++;
    }
    whole_first = chunk_index;
    for (; count > 0 && chunk_at(list, chunk_index)->count <= count; chunk_index++, whole_count++) {
        count -= chunk_at(list, chunk_index)->count;
        chunk_free(chunk_at(list, chunk_index));
    }
    if (count > 0)
        delete_within(chunk_at(list, chunk_index), 0, count);
    ring_remove(list, whole_first, whole_count);
    settle_around(list, touched, touched + 1);
}

void chunk_list_set(struct chunk_list *list, size_t index, struct bytes element)
{
    size_t at = index, chunk_index = find_chunk(list, &at);
    struct chunk *chunk = chunk_at(list, chunk_index);

    if (chunk->form != CHUNK_PLAIN)
        chunk_open(chunk);
    if (chunk->count == 1) {
        chunk_free(chunk);
        ring_remove(list, chunk_index, 1);
        insert_alone(list, chunk_index, element);
    } else if (element.size < PLAIN_SIZE_MIN && listpack_size(pack_of(chunk)) + element.size < PACK_SIZE_MAX) {
        listpack_replace(pack_slot(chunk), listpack_seek(pack_of(chunk), (int64_t)at), element);
    } else {
        chunk_list_delete(list, index, 1);
        chunk_list_insert(list, index, element);
        return;
    }
    settle_around(list, chunk_index, chunk_index);
}

size_t chunk_remove_from_pack(struct listpack **pack, struct bytes element, size_t count_max, enum list_end from)
{
    size_t removed = 0, at;

    if (from == LIST_TAIL) {
        for (at = listpack_last(*pack); at != LISTPACK_NONE && removed < count_max; ) {
            size_t previous = listpack_previous(*pack, at);

            if (listpack_equals(*pack, at, element)) {
                listpack_delete(pack, at, 1);
                removed++;
            }
            at = previous;
        }
        return removed;
    }
    at = listpack_find(*pack, listpack_first(*pack), element, 0);
    while (at != LISTPACK_NONE) {
        at = listpack_delete(pack, at, 1);
        if (++removed == count_max)
            break;
        at = listpack_find(*pack, at, element, 0);
    }
    return removed;
}

/* The chunk may be left without elements. */
static size_t remove_from_chunk(struct chunk *chunk, struct bytes element, size_t count_max, enum list_end from)
{
    size_t removed;

    if (chunk->form == CHUNK_PLAIN) {
        removed = bytes_equal(plain_bytes(chunk), element);
    } else {
        if (chunk->form == CHUNK_COMPRESSED) {
            char *pack = unpack(chunk);
            bool is_there = listpack_find((struct listpack *)pack, listpack_first((struct listpack *)pack), element, 0) != LISTPACK_NONE;

            mem_free(pack);
            if (!is_there)
                return 0;
            chunk_open(chunk);
        }
        removed = chunk_remove_from_pack((struct listpack **)&chunk->data, element, count_max, from);
        if (removed > 0)
            chunk->is_incompressible = false;
    }
    chunk->count -= (uint32_t)removed;
    return removed;
}

/* Takes out the chunks that have no elements any more. */
static void drop_empty(struct chunk_list *list)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->used; i++) {
        struct chunk *chunk = chunk_at(list, i);

        if (chunk->count == 0)
            chunk_free(chunk);
        else if (kept++ != i)
            *chunk_at(list, kept - 1) = *chunk;
    }
    ring_remove(list, kept, list->used - kept);
}

size_t chunk_list_remove(struct chunk_list *list, struct bytes element, size_t count_max, enum list_end from)
{
    size_t removed = 0;
    bool any_empty = false;

    for (size_t i = 0; i < list->used && removed < count_max; i++) {
        size_t index = from == LIST_HEAD ? i : list->used - 1 - i, here;

        here = remove_from_chunk(chunk_at(list, index), element, count_max - removed, from);
        any_empty |= chunk_at(list, index)->count == 0;
        removed += here;
        if (here > 0 && list->depth > 0 && chunk_at(list, index)->count > 0)
            settle(list, index);
    }
    list->count -= removed;
    if (any_empty) {
        drop_empty(list);
        settle_around(list, 0, 0);
    }
    return removed;
}

/* Walking. */

static bool enter_chunk(struct chunk_list_iterator *iterator)
{
    const struct chunk *chunk;

    if (iterator->list == NULL) {
        iterator->ended = iterator->chunk != 0;
        return !iterator->ended;
    }
    mem_free(iterator->unpacked);
    iterator->unpacked = NULL;
    iterator->pack = NULL;
    if (iterator->chunk >= iterator->list->used) {
        iterator->ended = true;
        return false;
    }
    chunk = chunk_at(iterator->list, iterator->chunk);
    if (chunk->form == CHUNK_PLAIN) {
        iterator->plain = plain_bytes(chunk);
    } else if (chunk->form == CHUNK_PACK) {
        iterator->pack = pack_of(chunk);
    } else {
        iterator->unpacked = unpack(chunk);
        iterator->pack = (const struct listpack *)iterator->unpacked;
    }
    return true;
}

void chunk_list_iterate(struct chunk_list_iterator *iterator, const struct chunk_list *list, size_t index, enum list_end towards)
{
    *iterator = (struct chunk_list_iterator){ .list = list, .towards = towards, .ended = index >= list->count };
    if (!iterator->ended) {
        iterator->chunk = find_chunk(list, &index);
        iterator->skip = index;
    }
}

void chunk_list_iterate_pack(struct chunk_list_iterator *iterator, const struct listpack *pack, size_t count, size_t index,
    enum list_end towards)
{
    *iterator = (struct chunk_list_iterator){ .pack = pack, .towards = towards, .skip = index, .ended = index >= count };
}

bool chunk_list_step(struct chunk_list_iterator *iterator)
{
    bool backwards = iterator->towards == LIST_HEAD;

    if (iterator->ended)
        return false;
    if (!iterator->begun) {
        iterator->begun = true;
        if (enter_chunk(iterator) && iterator->pack != NULL)
            iterator->at = listpack_seek(iterator->pack, (int64_t)iterator->skip);
        return !iterator->ended;
    }
    if (iterator->pack != NULL) {
        iterator->at = backwards ? listpack_previous(iterator->pack, iterator->at) : listpack_next(iterator->pack, iterator->at);
        if (iterator->at != LISTPACK_NONE)
            return true;
    }
    iterator->chunk = backwards ? iterator->chunk - 1 : iterator->chunk + 1;    /* before the first: beyond the last */
    if (!enter_chunk(iterator))
        return false;
    if (iterator->pack != NULL)
        iterator->at = backwards ? listpack_last(iterator->pack) : listpack_first(iterator->pack);
    return true;
}

struct bytes chunk_list_element(const struct chunk_list_iterator *iterator, char digits[TEXT_INT_SIZE])
{
    return iterator->pack != NULL ? listpack_get(iterator->pack, iterator->at, digits) : iterator->plain;
}

bool chunk_list_equals(const struct chunk_list_iterator *iterator, struct bytes bytes)
{
    return iterator->pack != NULL ? listpack_equals(iterator->pack, iterator->at, bytes) : bytes_equal(iterator->plain, bytes);
}

void chunk_list_iterate_end(struct chunk_list_iterator *iterator)
{
    mem_free(iterator->unpacked);
    iterator->unpacked = NULL;
}

struct chunk_view chunk_list_view(const struct chunk_list *list, size_t index)
{
    const struct chunk *chunk = chunk_at(list, index);
    const struct compressed *compressed = chunk->data;

    switch (chunk->form) {
    case CHUNK_PACK: return (struct chunk_view){ .form = CHUNK_PACK, .bytes = listpack_bytes(pack_of(chunk)) };
    case CHUNK_PLAIN: return (struct chunk_view){ .form = CHUNK_PLAIN, .bytes = plain_bytes(chunk) };
    default: break;
    }
    return (struct chunk_view){
        .form = CHUNK_COMPRESSED, .bytes = bytes_of(compressed->bytes, compressed->size), .size = compressed->pack_size,
    };
}
