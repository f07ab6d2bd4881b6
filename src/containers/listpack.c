#include "containers/listpack.h"

#include <string.h>

#include "base/check.h"
#include "base/compiler.h"
#include "base/mem.h"

/*   pack    = size u32 | count u16 | element ... | 0xff        (little-endian; count 65535: unknown, to be counted)
 *   element = head | data | back length                        (back length: size of head and data, read backwards) */
enum {
    COUNT_AT = 4,
    HEADER_SIZE = 6,
    END = 0xff,
    COUNT_UNKNOWN = 65535,

    HEAD_STRING_12 = 0xe0,      /* 1110 hhhh, low byte */
    HEAD_STRING_32 = 0xf0,
    HEAD_INT_16 = 0xf1,
    HEAD_INT_24 = 0xf2,
    HEAD_INT_32 = 0xf3,
    HEAD_INT_64 = 0xf4,

    HEAD_SIZE_MAX = 9,          /* of an integer: its bytes are part of the head here */
    INT_TEXT_MAX = 20,
};

struct listpack {
    uint8_t bytes[HEADER_SIZE + 1];     /* the actual length is the size in the header */
};

/* An element that is about to be written. */
struct element {
    uint8_t head[HEAD_SIZE_MAX];
    size_t head_size;
    struct bytes data;
    size_t size;                /* head, data and back length */
};

/* A decoded element. */
struct view {
    bool is_int;
    int64_t number;
    struct bytes data;
};

static uint8_t *raw_of(struct listpack *pack)
{
    return (uint8_t *)pack;
}

static const uint8_t *bytes_at(const struct listpack *pack, size_t at)
{
    return (const uint8_t *)pack + at;
}

static uint64_t load_le(const uint8_t *from, size_t size)
{
    uint64_t word = 0;

    for (size_t i = 0; i < size; i++)
        word |= (uint64_t)from[i] << (8 * i);
    return word;
}

static void store_le(uint8_t *to, uint64_t word, size_t size)
{
    for (size_t i = 0; i < size; i++)
        to[i] = (uint8_t)(word >> (8 * i));
}

static int64_t sign_extend(uint64_t word, unsigned bits)
{
    return (int64_t)(word << (64 - bits)) >> (64 - bits);
}

/* The header: the size in four bytes and the count in two, little-endian as the machine is. */

static void size_set(struct listpack *pack, size_t size)
{
    uint32_t word = (uint32_t)size;

    memcpy(raw_of(pack), &word, sizeof(word));
}

static size_t count_header(const struct listpack *pack)
{
    uint16_t count;

    memcpy(&count, bytes_at(pack, COUNT_AT), sizeof(count));
    return count;
}

static void count_set(struct listpack *pack, size_t count)
{
    uint16_t word = (uint16_t)count;

    memcpy(raw_of(pack) + COUNT_AT, &word, sizeof(word));
}

static void count_add(struct listpack *pack, size_t more)
{
    size_t count = count_header(pack);

    if (count == COUNT_UNKNOWN)
        return;
    count += more;
    count_set(pack, count < COUNT_UNKNOWN ? count : COUNT_UNKNOWN);
}

/* An unknown count stays unknown: only counting could tell, and so large a pack will soon be converted. */
static void count_subtract(struct listpack *pack, size_t less)
{
    size_t count = count_header(pack);

    if (count == COUNT_UNKNOWN)
        return;
    CHECK(count >= less);
    count_set(pack, count - less);
}

/* The limits are those of Redis; each is one below what its seven-bit groups could represent. */
static size_t back_size(size_t size)
{
    if (size <= 127)
        return 1;
    if (size < 16383)
        return 2;
    if (size < 2097151)
        return 3;
    return size < 268435455 ? 4 : 5;
}

static void back_write(uint8_t *to, size_t size)
{
    size_t width = back_size(size);

    for (size_t i = width; i-- > 0; size >>= 7)
        to[i] = (uint8_t)((size & 127) | (i > 0 ? 128 : 0));
}

/* Reads the size of head and data; false if `left` bytes are too few to know it. */
static inline bool front_size(const uint8_t *from, size_t left, size_t *size)
{
    uint8_t head = from[0];

    if (head < 0x80) {
        *size = 1;
    } else if (head < 0xc0) {
        *size = 1 + (size_t)(head & 0x3f);
    } else if (head < 0xe0) {
        *size = 2;
    } else if (head < 0xf0) {
        if (left < 2)
            return false;
        *size = 2 + ((size_t)(head & 0x0f) << 8 | from[1]);
    } else {
        switch (head) {
        case HEAD_STRING_32:
            if (left < 5)
                return false;
            *size = 5 + load_le(from + 1, 4);
            break;
        case HEAD_INT_16: *size = 3; break;
        case HEAD_INT_24: *size = 4; break;
        case HEAD_INT_32: *size = 5; break;
        case HEAD_INT_64: *size = 9; break;
        default: return false;
        }
    }
    return true;
}

/* The size of a whole element of a valid pack. */
static inline size_t element_size(const uint8_t *from)
{
    size_t size = 0;

    CHECK(front_size(from, SIZE_MAX, &size));
    return size + back_size(size);
}

static inline struct view view_of_int(int64_t number)
{
    return (struct view){ .is_int = true, .number = number };
}

static inline struct view view_of_data(const uint8_t *from, size_t size)
{
    return (struct view){ .data = bytes_of(from, size) };
}

static inline struct view view_at(const struct listpack *pack, size_t at)
{
    const uint8_t *from = bytes_at(pack, at);
    uint8_t head = from[0];

    if (head < 0x80)
        return view_of_int(head);
    if (head < 0xc0)
        return view_of_data(from + 1, head & 0x3f);
    if (head < 0xe0)
        return view_of_int(sign_extend((uint64_t)(head & 0x1f) << 8 | from[1], 13));
    if (head < 0xf0)
        return view_of_data(from + 2, (size_t)(head & 0x0f) << 8 | from[1]);
    switch (head) {
    case HEAD_STRING_32: return view_of_data(from + 5, load_le(from + 1, 4));
    case HEAD_INT_16: return view_of_int(sign_extend(load_le(from + 1, 2), 16));
    case HEAD_INT_24: return view_of_int(sign_extend(load_le(from + 1, 3), 24));
    case HEAD_INT_32: return view_of_int(sign_extend(load_le(from + 1, 4), 32));
    case HEAD_INT_64: return view_of_int((int64_t)load_le(from + 1, 8));
    default: CHECK(!"a listpack element of no known kind");
    }
    return view_of_int(0);
}

/* Filled in place: a copy of what was just written in smaller pieces makes the CPU wait. */
static void element_set_int(struct element *element, int64_t number)
{
    uint64_t word = (uint64_t)number;

    element->data = bytes_of(NULL, 0);
    if (number >= 0 && number < 128) {
        element->head[0] = (uint8_t)number;
        element->head_size = 1;
    } else if (number >= -4096 && number < 4096) {
        element->head[0] = (uint8_t)(0xc0 | (word >> 8 & 0x1f));
        element->head[1] = (uint8_t)word;
        element->head_size = 2;
    } else {
        if (number == sign_extend(word, 16)) {
            element->head[0] = HEAD_INT_16;
            element->head_size = 3;
        } else if (number == sign_extend(word, 24)) {
            element->head[0] = HEAD_INT_24;
            element->head_size = 4;
        } else if (number == sign_extend(word, 32)) {
            element->head[0] = HEAD_INT_32;
            element->head_size = 5;
        } else {
            element->head[0] = HEAD_INT_64;
            element->head_size = 9;
        }
        store_le(element->head + 1, word, element->head_size - 1);
    }
    element->size = element->head_size + back_size(element->head_size);
}

/* Avoids the full parse of what cannot be a number. */
static inline bool may_be_int(struct bytes bytes)
{
    return bytes.size > 0 && bytes.size <= INT_TEXT_MAX &&
        ((bytes.data[0] >= '0' && bytes.data[0] <= '9') || bytes.data[0] == '-');
}

static void element_set_bytes(struct element *element, struct bytes bytes)
{
    int64_t number;

    if (may_be_int(bytes) && text_to_int(bytes, &number)) {
        element_set_int(element, number);
        return;
    }
    element->data = bytes;
    CHECK(bytes.size < LISTPACK_SIZE_MAX);
    if (bytes.size < 64) {
        element->head[0] = (uint8_t)(0x80 | bytes.size);
        element->head_size = 1;
    } else if (bytes.size < 4096) {
        element->head[0] = (uint8_t)(HEAD_STRING_12 | bytes.size >> 8);
        element->head[1] = (uint8_t)bytes.size;
        element->head_size = 2;
    } else {
        element->head[0] = HEAD_STRING_32;
        store_le(element->head + 1, bytes.size, 4);
        element->head_size = 5;
    }
    element->size = element->head_size + bytes.size;
    element->size += back_size(element->size);
}

static void element_write(uint8_t *to, const struct element *element)
{
    if (LIKELY(element->head_size == 1))
        *to = element->head[0];
    else
        memcpy(to, element->head, element->head_size);
    if (element->data.size > 0)
        memcpy(to + element->head_size, element->data.data, element->data.size);
    back_write(to + element->head_size + element->data.size, element->head_size + element->data.size);
}

/* A pack's block has the size class of its contents and of the gap before them, so most changes need no reallocation. */
static inline void block_resize(struct listpack **pack, size_t gap, size_t size, size_t size_after)
{
    if (mem_class(gap + size_after) != mem_class(gap + size))
        *pack = (struct listpack *)((char *)mem_realloc(raw_of(*pack) - gap, mem_class(gap + size_after)) + gap);
}

/* Replaces `old` bytes by `element`; NULL removes them. There is room. */
static inline void splice_in_place(struct listpack *pack, size_t at, size_t old, const struct element *element)
{
    size_t size = listpack_size(pack), new = element != NULL ? element->size : 0;
    uint8_t *raw = raw_of(pack);

    CHECK(at >= HEADER_SIZE && at + old < size);
    if (old != new)
        memmove(raw + at + new, raw + at + old, size - at - old);
    size_set(pack, size - old + new);
    if (element != NULL)
        element_write(raw + at, element);
}

/* The same in a block that gets the size it needs. */
static void splice_element(struct listpack **pack, size_t gap, size_t at, size_t old, const struct element *element)
{
    size_t size = listpack_size(*pack), size_after = size - old + (element != NULL ? element->size : 0);

    CHECK(size_after <= LISTPACK_SIZE_MAX);
    if (size_after > size)
        block_resize(pack, gap, size, size_after);
    splice_in_place(*pack, at, old, element);
    if (size_after < size)
        block_resize(pack, gap, size, size_after);
}

struct listpack *listpack_create(void)
{
    struct listpack *pack = mem_alloc(mem_class(LISTPACK_EMPTY_SIZE));

    listpack_place_empty(pack);
    return pack;
}

void listpack_destroy(struct listpack *pack)
{
    mem_free(pack);
}

struct listpack *listpack_copy(const struct listpack *pack)
{
    return listpack_of_bytes(listpack_bytes(pack));
}

struct listpack *listpack_of_bytes(struct bytes bytes)
{
    struct listpack *pack = mem_alloc(mem_class(bytes.size));

    CHECK(bytes.size > HEADER_SIZE);
    memcpy(raw_of(pack), bytes.data, bytes.size);
    return pack;
}

struct bytes listpack_bytes(const struct listpack *pack)
{
    return bytes_of(pack, listpack_size(pack));
}

size_t listpack_size(const struct listpack *pack)
{
    uint32_t size;

    memcpy(&size, bytes_at(pack, 0), sizeof(size));
    return size;
}

size_t listpack_memory(const struct listpack *pack)
{
    return mem_size(pack);
}

bool listpack_is_valid(struct bytes bytes)
{
    const uint8_t *raw = (const uint8_t *)bytes.data;
    size_t at = HEADER_SIZE, count = 0, announced;

    if (bytes.size <= HEADER_SIZE || bytes.size > LISTPACK_SIZE_MAX || load_le(raw, 4) != bytes.size ||
        raw[bytes.size - 1] != END)
        return false;
    while (raw[at] != END) {
        size_t left = bytes.size - 1 - at, size, width;
        uint8_t expected[5];

        if (!front_size(raw + at, left, &size) || size >= left)
            return false;
        width = back_size(size);
        if (width > left - size)
            return false;
        back_write(expected, size);
        if (memcmp(expected, raw + at + size, width) != 0)
            return false;
        at += size + width;
        count++;
    }
    announced = load_le(raw + COUNT_AT, 2);
    return at == bytes.size - 1 && (announced == COUNT_UNKNOWN || announced == count);
}

size_t listpack_count(const struct listpack *pack)
{
    size_t count = count_header(pack);

    if (count != COUNT_UNKNOWN)
        return count;
    count = 0;
    for (const uint8_t *at = bytes_at(pack, HEADER_SIZE); *at != END; at += element_size(at))
        count++;
    return count;
}

bool listpack_has_room(const struct listpack *pack, size_t elements, size_t bytes)
{
    size_t room = LISTPACK_SIZE_MAX - listpack_size(pack);

    return bytes <= room && elements <= (room - bytes) / LISTPACK_ELEMENT_OVERHEAD;
}

static inline size_t position_or_none(const struct listpack *pack, size_t at)
{
    return *bytes_at(pack, at) == END ? LISTPACK_NONE : at;
}

size_t listpack_first(const struct listpack *pack)
{
    return position_or_none(pack, HEADER_SIZE);
}

size_t listpack_last(const struct listpack *pack)
{
    return listpack_previous(pack, listpack_size(pack) - 1);
}

size_t listpack_next(const struct listpack *pack, size_t at)
{
    return position_or_none(pack, at + element_size(bytes_at(pack, at)));
}

size_t listpack_previous(const struct listpack *pack, size_t at)
{
    const uint8_t *from = bytes_at(pack, at);
    size_t size = 0;
    unsigned shift = 0;

    if (at == HEADER_SIZE)
        return LISTPACK_NONE;
    do {
        from--;
        size |= (size_t)(*from & 127) << shift;
        shift += 7;
    } while (*from & 128);
    return (size_t)(from - bytes_at(pack, 0)) - size;
}

size_t listpack_seek(const struct listpack *pack, int64_t index)
{
    size_t count = count_header(pack), at;

    /* Starts from the nearer end if the count is in the header. */
    if (count != COUNT_UNKNOWN) {
        if (index >= (int64_t)count || index < -(int64_t)count)
            return LISTPACK_NONE;
        if (index >= 0 && (size_t)index > count / 2)
            index -= (int64_t)count;
        else if (index < 0 && (size_t)-index > count / 2)
            index += (int64_t)count;
    }
    if (index < 0) {
        for (at = listpack_last(pack); at != LISTPACK_NONE && index < -1; index++)
            at = listpack_previous(pack, at);
        return at;
    }
    for (at = listpack_first(pack); at != LISTPACK_NONE && index > 0; index--)
        at = listpack_next(pack, at);
    return at;
}

struct bytes listpack_get(const struct listpack *pack, size_t at, char digits[TEXT_INT_SIZE])
{
    struct view view = view_at(pack, at);

    return view.is_int ? bytes_of(digits, text_of_int(view.number, digits)) : view.data;
}

bool listpack_get_int(const struct listpack *pack, size_t at, int64_t *number)
{
    struct view view = view_at(pack, at);

    if (view.is_int)
        *number = view.number;
    return view.is_int;
}

bool listpack_equals(const struct listpack *pack, size_t at, struct bytes bytes)
{
    struct view view = view_at(pack, at);
    int64_t number;

    if (!view.is_int)
        return bytes_equal(view.data, bytes);
    return may_be_int(bytes) && text_to_int(bytes, &number) && number == view.number;
}

size_t listpack_find(const struct listpack *pack, size_t at, struct bytes bytes, size_t skip)
{
    size_t to_skip = 0;
    int64_t number = 0;
    bool is_int = may_be_int(bytes) && text_to_int(bytes, &number);

    if (at == LISTPACK_NONE)
        return LISTPACK_NONE;
    for (; *bytes_at(pack, at) != END; at += element_size(bytes_at(pack, at))) {
        if (to_skip == 0) {
            struct view view = view_at(pack, at);

            if (view.is_int ? is_int && view.number == number : bytes_equal(view.data, bytes))
                return at;
            to_skip = skip + 1;
        }
        to_skip--;
    }
    return LISTPACK_NONE;
}

bool listpack_has_twins(const struct listpack *pack, size_t stride, const struct hash_seed *seed)
{
    uint32_t on_stack[512], *table = on_stack;
    size_t looked_at = listpack_count(pack) / stride + 1, room = 16, index = 0;
    bool found = false;

    while (room < looked_at * 2)
        room *= 2;
    if (room > sizeof(on_stack) / sizeof(on_stack[0]))
        table = mem_alloc(room * sizeof(table[0]));
    memset(table, 0, room * sizeof(table[0]));
    for (size_t at = listpack_first(pack); at != LISTPACK_NONE && !found; at = listpack_next(pack, at), index++) {
        char digits[TEXT_INT_SIZE];
        struct bytes bytes;
        size_t slot;

        if (index % stride != 0)
            continue;
        bytes = listpack_get(pack, at, digits);
        for (slot = hash_bytes(seed, bytes) & (room - 1); table[slot] != 0; slot = (slot + 1) & (room - 1)) {
            if (listpack_equals(pack, table[slot], bytes)) {
                found = true;
                break;
            }
        }
        table[slot] = (uint32_t)at;
    }
    if (table != on_stack)
        mem_free(table);
    return found;
}

static size_t element_insert(struct listpack **pack, size_t at, const struct element *element)
{
    if (at == LISTPACK_NONE)
        at = listpack_size(*pack) - 1;
    splice_element(pack, 0, at, 0, element);
    count_add(*pack, 1);
    return at;
}

void listpack_append(struct listpack **pack, struct bytes bytes)
{
    listpack_insert(pack, LISTPACK_NONE, bytes);
}

void listpack_append_int(struct listpack **pack, int64_t number)
{
    listpack_insert_int(pack, LISTPACK_NONE, number);
}

void listpack_gather_begin(struct listpack_gather *gather, struct listpack **pack)
{
    gather->pack = pack;
    gather->size = gather->count = 0;
}

void listpack_gather_end(struct listpack_gather *gather)
{
    struct listpack **pack = gather->pack;
    size_t size = listpack_size(*pack), size_after = size + gather->size;
    uint8_t *raw;

    CHECK(size_after <= LISTPACK_SIZE_MAX);
    block_resize(pack, 0, size, size_after);
    raw = raw_of(*pack);
    memcpy(raw + size - 1, gather->bytes, gather->size);
    raw[size_after - 1] = END;
    size_set(*pack, size_after);
    count_add(*pack, gather->count);
    gather->size = gather->count = 0;
}

static void gather_element(struct listpack_gather *gather, const struct element *element)
{
    if (element->size > sizeof(gather->bytes) - gather->size)
        listpack_gather_end(gather);
    if (element->size > sizeof(gather->bytes)) {
        element_insert(gather->pack, LISTPACK_NONE, element);
        return;
    }
    element_write(gather->bytes + gather->size, element);
    gather->size += element->size;
    gather->count++;
}

void listpack_gather(struct listpack_gather *gather, struct bytes bytes)
{
    struct element element;

    element_set_bytes(&element, bytes);
    gather_element(gather, &element);
}

void listpack_gather_int(struct listpack_gather *gather, int64_t number)
{
    struct element element;

    element_set_int(&element, number);
    gather_element(gather, &element);
}

size_t listpack_insert(struct listpack **pack, size_t at, struct bytes bytes)
{
    struct element element;

    element_set_bytes(&element, bytes);
    return element_insert(pack, at, &element);
}

size_t listpack_insert_int(struct listpack **pack, size_t at, int64_t number)
{
    struct element element;

    element_set_int(&element, number);
    return element_insert(pack, at, &element);
}

void listpack_replace(struct listpack **pack, size_t at, struct bytes bytes)
{
    struct element element;

    element_set_bytes(&element, bytes);
    splice_element(pack, 0, at, element_size(bytes_at(*pack, at)), &element);
}

void listpack_replace_int(struct listpack **pack, size_t at, int64_t number)
{
    struct element element;

    element_set_int(&element, number);
    splice_element(pack, 0, at, element_size(bytes_at(*pack, at)), &element);
}

size_t listpack_delete(struct listpack **pack, size_t at, size_t count)
{
    size_t end = at, gone = 0;

    while (gone < count && *bytes_at(*pack, end) != END) {
        end += element_size(bytes_at(*pack, end));
        gone++;
    }
    if (gone > 0) {
        splice_element(pack, 0, at, end - at, NULL);
        count_subtract(*pack, gone);
    }
    return position_or_none(*pack, at);
}

/* Packs in memory of the caller */

size_t listpack_element_size(struct bytes bytes)
{
    struct element element;

    element_set_bytes(&element, bytes);
    return element.size;
}

size_t listpack_size_between(const struct listpack *pack, size_t at, size_t count)
{
    size_t end = at;

    for (; count > 0; count--) {
        CHECK(*bytes_at(pack, end) != END);
        end += element_size(bytes_at(pack, end));
    }
    return end - at;
}

void listpack_place_empty(struct listpack *pack)
{
    size_set(pack, LISTPACK_EMPTY_SIZE);
    count_set(pack, 0);
    raw_of(pack)[HEADER_SIZE] = END;
}

void listpack_place(struct listpack *pack, size_t at, struct bytes bytes)
{
    struct element element;

    element_set_bytes(&element, bytes);
    splice_in_place(pack, at != LISTPACK_NONE ? at : listpack_size(pack) - 1, 0, &element);
    count_add(pack, 1);
}

void listpack_place_some(struct listpack *pack, const struct listpack *from, size_t at, size_t size, size_t count)
{
    size_t end = listpack_size(pack) - 1;

    CHECK(at >= HEADER_SIZE && at + size < listpack_size(from));
    memcpy(raw_of(pack) + end, bytes_at(from, at), size);
    raw_of(pack)[end + size] = END;
    size_set(pack, end + size + 1);
    count_add(pack, count);
}

size_t listpack_take_out(struct listpack *pack, size_t at, size_t count)
{
    splice_in_place(pack, at, listpack_size_between(pack, at, count), NULL);
    count_subtract(pack, count);
    return position_or_none(pack, at);
}

/* Packs with a gap */

/* Moves the header to where the pack begins from now on, `by` bytes further to the back. */
static void move_header(struct listpack **pack, ptrdiff_t by)
{
    uint8_t *raw = raw_of(*pack);

    memmove(raw + by, raw, HEADER_SIZE);
    *pack = (struct listpack *)(raw + by);
}

/* Moves the pack within its block, which gets the size that the pack needs then. */
static void gap_set(struct listpack **pack, size_t *gap, size_t gap_after)
{
    size_t size = listpack_size(*pack), class = mem_class(gap_after + size);
    uint8_t *block = raw_of(*pack) - *gap;

    if (gap_after > *gap)
        block = mem_realloc(block, class);
    memmove(block + gap_after, block + *gap, size);
    if (gap_after < *gap)
        block = mem_realloc(block, class);
    *pack = (struct listpack *)(block + gap_after);
    *gap = gap_after;
}

void listpack_gap_close(struct listpack **pack, size_t *gap)
{
    if (*gap > 0)
        gap_set(pack, gap, 0);
}

void listpack_gap_prepend(struct listpack **pack, size_t *gap, size_t size_max, struct bytes bytes)
{
    struct element element;
    size_t size = listpack_size(*pack), size_after;

    element_set_bytes(&element, bytes);
    size_after = size + element.size;
    CHECK(size_after <= LISTPACK_SIZE_MAX);
    if (element.size > *gap) {
        size_t room = size_after / 4;

        if (size_after + room > size_max)
            room = size_after < size_max ? size_max - size_after : 0;
        if (room > LISTPACK_GAP_MAX)
            room = LISTPACK_GAP_MAX;
        gap_set(pack, gap, mem_class(size_after + room) - size);
    }
    move_header(pack, -(ptrdiff_t)element.size);
    *gap -= element.size;
    size_set(*pack, size_after);
    element_write(raw_of(*pack) + HEADER_SIZE, &element);
    count_add(*pack, 1);
}

void listpack_gap_append(struct listpack **pack, size_t gap, struct bytes bytes)
{
    struct element element;

    element_set_bytes(&element, bytes);
    splice_element(pack, gap, listpack_size(*pack) - 1, 0, &element);
    count_add(*pack, 1);
}

void listpack_gap_delete_first(struct listpack **pack, size_t *gap, size_t count)
{
    size_t size = listpack_size(*pack), end = HEADER_SIZE, removed;

    for (size_t i = 0; i < count; i++)
        end += element_size(bytes_at(*pack, end));
    CHECK(end < size);
    removed = end - HEADER_SIZE;
    size_set(*pack, size - removed);
    count_subtract(*pack, count);
    move_header(pack, (ptrdiff_t)removed);
    *gap += removed;
    if (*gap > LISTPACK_GAP_MAX || *gap > (size - removed) / 2)
        gap_set(pack, gap, 0);
}

void listpack_gap_delete_last(struct listpack **pack, size_t gap, size_t count)
{
    size_t size = listpack_size(*pack), at = size - 1;

    for (size_t i = 0; i < count; i++)
        at = listpack_previous(*pack, at);
    splice_element(pack, gap, at, size - 1 - at, NULL);
    count_subtract(*pack, count);
}
