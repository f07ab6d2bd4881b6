#include "containers/intset.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

struct intset {
    uint32_t width, count;
    char numbers[];
};

enum { WIDTH_MIN = 2, WIDTH_MAX = 8 };

static size_t size_of(size_t width, size_t count)
{
    return sizeof(struct intset) + width * count;
}

static uint32_t width_of(int64_t number)
{
    if (number == (int16_t)number)
        return 2;
    return number == (int32_t)number ? 4 : 8;
}

static inline int64_t number_at(const char *numbers, uint32_t width, size_t index)
{
    const char *at = numbers + index * width;
    int16_t number_16;
    int32_t number_32;
    int64_t number_64;

    switch (width) {
    case 2: memcpy(&number_16, at, 2); return number_16;
    case 4: memcpy(&number_32, at, 4); return number_32;
    default: memcpy(&number_64, at, 8); return number_64;
    }
}

/* The low bytes of a number are the number in a smaller width: little-endian machines only. */
static void number_put(struct intset *set, size_t index, int64_t number)
{
    memcpy(set->numbers + index * set->width, &number, set->width);
}

/* The index of the number, or where it would have to be inserted. */
static size_t index_of(const struct intset *set, int64_t number, bool *found)
{
    size_t low = 0, high = set->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int64_t there = number_at(set->numbers, set->width, middle);

        if (there == number) {
            *found = true;
            return middle;
        }
        if (there < number)
            low = middle + 1;
        else
            high = middle;
    }
    *found = false;
    return low;
}

struct intset *intset_create(void)
{
    struct intset *set = mem_alloc(sizeof(*set));

    *set = (struct intset){ .width = WIDTH_MIN };
    return set;
}

void intset_destroy(struct intset *set)
{
    mem_free(set);
}

struct intset *intset_copy(const struct intset *set)
{
    return intset_of_bytes(intset_bytes(set));
}

struct bytes intset_bytes(const struct intset *set)
{
    return bytes_of(set, size_of(set->width, set->count));
}

size_t intset_memory(const struct intset *set)
{
    return mem_size(set);
}

bool intset_is_valid(struct bytes bytes)
{
    struct intset head;

    if (bytes.size < sizeof(head))
        return false;
    memcpy(&head, bytes.data, sizeof(head));
    if ((head.width != 2 && head.width != 4 && head.width != 8) || head.count > INTSET_COUNT_MAX ||
        bytes.size != size_of(head.width, head.count))
        return false;
    for (size_t i = 1; i < head.count; i++) {
        if (number_at(bytes.data + sizeof(head), head.width, i - 1) >= number_at(bytes.data + sizeof(head), head.width, i))
            return false;
    }
    return true;
}

struct intset *intset_of_bytes(struct bytes bytes)
{
    struct intset *set = mem_alloc(bytes.size);

    memcpy(set, bytes.data, bytes.size);
    return set;
}

size_t intset_count(const struct intset *set)
{
    return set->count;
}

int64_t intset_get(const struct intset *set, size_t index)
{
    CHECK(index < set->count);
    return number_at(set->numbers, set->width, index);
}

bool intset_has(const struct intset *set, int64_t number)
{
    bool found = false;

    if (width_of(number) <= set->width)
        index_of(set, number, &found);
    return found;
}

/* A number that is wider than all others is the first or the last. */
static struct intset *widened_with(struct intset *set, int64_t number)
{
    uint32_t old_width = set->width, shift = number < 0;

    set = mem_realloc(set, size_of(width_of(number), (size_t)set->count + 1));
    set->width = width_of(number);
    for (size_t i = set->count; i-- > 0;)
        number_put(set, i + shift, number_at(set->numbers, old_width, i));
    number_put(set, shift ? 0 : set->count, number);
    set->count++;
    return set;
}

bool intset_add(struct intset **set, int64_t number)
{
    struct intset *to = *set;
    size_t index;
    bool found;

    CHECK(to->count < INTSET_COUNT_MAX);
    if (width_of(number) > to->width) {
        *set = widened_with(to, number);
        return true;
    }
    index = index_of(to, number, &found);
    if (found)
        return false;
    *set = to = mem_realloc(to, size_of(to->width, (size_t)to->count + 1));
    memmove(to->numbers + (index + 1) * to->width, to->numbers + index * to->width, (to->count - index) * to->width);
    number_put(to, index, number);
    to->count++;
    return true;
}

bool intset_remove(struct intset **set, int64_t number)
{
    struct intset *from = *set;
    size_t index;
    bool found;

    if (width_of(number) > from->width)
        return false;
    index = index_of(from, number, &found);
    if (!found)
        return false;
    from->count--;
    memmove(from->numbers + index * from->width, from->numbers + (index + 1) * from->width,
        (from->count - index) * from->width);
    *set = mem_realloc(from, size_of(from->width, from->count));
    return true;
}
