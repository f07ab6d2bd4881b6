#include "containers/pair_page.h"

#include "base/check.h"
#include "base/compiler.h"
#include "base/mem.h"

enum { COUNT_SIZE = sizeof(uint32_t), NARROW = 2, WIDE = 4, NARROW_MAX = 0xffff, GROUP = sizeof(uint64_t) };

/* Where the parts of a page are. */
struct shape {
    size_t pairs_size;
    uint32_t count;
    unsigned width;                 /* of the ends */
    size_t ends, fingerprints;      /* where they begin */
};

static unsigned width_of(size_t pairs_size)
{
    return pairs_size <= NARROW_MAX ? NARROW : WIDE;
}

static struct shape shape_with(size_t pairs_size, uint32_t count)
{
    struct shape shape = { pairs_size, count, width_of(pairs_size), pairs_size, 0 };

    shape.fingerprints = pairs_size + (size_t)count * shape.width;
    return shape;
}

size_t pair_page_size(size_t pairs_size, uint32_t count)
{
    return pairs_size + (size_t)count * (width_of(pairs_size) + 1) + COUNT_SIZE;
}

uint32_t pair_page_count(struct bytes page)
{
    uint32_t count;

    memcpy(&count, page.data + page.size - COUNT_SIZE, COUNT_SIZE);
    return count;
}

/* Only one of the two sizes that the pairs could have has the width that goes with it. */
static struct shape shape_of(struct bytes page)
{
    uint32_t count = pair_page_count(page);
    size_t pairs_size = page.size - COUNT_SIZE - (size_t)count * (NARROW + 1);

    if (pairs_size > NARROW_MAX)
        pairs_size -= (size_t)count * (WIDE - NARROW);
    return shape_with(pairs_size, count);
}

static size_t end_get(const char *page, const struct shape *shape, uint32_t index)
{
    uint32_t end = 0;

    if (LIKELY(shape->width == NARROW)) {
        uint16_t narrow;

        memcpy(&narrow, page + shape->ends + (size_t)index * NARROW, NARROW);
        return narrow;
    }
    memcpy(&end, page + shape->ends + (size_t)index * WIDE, WIDE);
    return end;
}

static void end_set(char *page, const struct shape *shape, uint32_t index, size_t end)
{
    uint16_t narrow = (uint16_t)end;
    uint32_t wide = (uint32_t)end;

    CHECK(end <= UINT32_MAX);
    memcpy(page + shape->ends + (size_t)index * shape->width, shape->width == NARROW ? (const void *)&narrow : &wide, shape->width);
}

static size_t begin_get(const char *page, const struct shape *shape, uint32_t index)
{
    return index == 0 ? 0 : end_get(page, shape, index - 1);
}

static void count_set(char *page, size_t size, uint32_t count)
{
    memcpy(page + size - COUNT_SIZE, &count, COUNT_SIZE);
}

/* --- reading --- */

size_t pair_page_pairs_size(struct bytes page)
{
    return shape_of(page).pairs_size;
}

bool pair_page_is_sound(struct bytes page)
{
    struct shape shape;
    size_t begin = 0;
    uint64_t count;

    if (page.size < COUNT_SIZE)
        return false;
    count = pair_page_count(page);
    if (count * (NARROW + 1) > page.size - COUNT_SIZE ||
        (page.size - COUNT_SIZE - count * (NARROW + 1) > NARROW_MAX && count * (WIDE + 1) > page.size - COUNT_SIZE))
        return false;
    shape = shape_of(page);
    if (pair_page_size(shape.pairs_size, shape.count) != page.size)
        return false;
    for (uint32_t i = 0; i < shape.count; i++) {
        size_t end = end_get(page.data, &shape, i);

        if (end < begin || end > shape.pairs_size || !pair_is_sound(bytes_of(page.data + begin, end - begin)))
            return false;
        begin = end;
    }
    return begin == shape.pairs_size;
}

static struct pair pair_get(struct bytes page, const struct shape *shape, uint32_t index)
{
    return pair_numbered_of((const uint8_t *)page.data + begin_get(page.data, shape, index));
}

struct pair pair_page_at(struct bytes page, uint32_t index)
{
    struct shape shape = shape_of(page);

    return pair_get(page, &shape, index);
}

uint8_t pair_page_fingerprint(struct bytes page, uint32_t index)
{
    return (uint8_t)page.data[shape_of(page).fingerprints + index];
}

/* A bit 7 for each byte of the word that is 0; bytes above one of these may have one, too. */
static uint64_t zero_bytes(uint64_t word)
{
    return (word - 0x0101010101010101ull) & ~word & 0x8080808080808080ull;
}

bool pair_page_find(struct bytes page, uint8_t fingerprint, struct bytes key, uint32_t *index)
{
    struct shape shape = shape_of(page);
    const char *fingerprints = page.data + shape.fingerprints;
    uint64_t pattern = fingerprint * 0x0101010101010101ull;

    for (uint32_t first = 0; first < shape.count; first += GROUP) {
        uint32_t here = shape.count - first < GROUP ? shape.count - first : GROUP;
        uint64_t word = 0, found;

        memcpy(&word, fingerprints + first, here == GROUP ? GROUP : here);
        found = zero_bytes(word ^ pattern);
        for (; found != 0; found &= found - 1) {
            uint32_t at = first + (unsigned)__builtin_ctzll(found) / 8;

            if (at < shape.count && bytes_equal_inline(pair_get(page, &shape, at).key, key)) {
                *index = at;
                return true;
            }
        }
    }
    return false;
}

/* --- writing --- */

void pair_page_begin(struct pair_page_writer *writer, char *page, size_t pairs_size, uint32_t count)
{
    *writer = (struct pair_page_writer){ .page = page, .size = pair_page_size(pairs_size, count), .pairs_size = pairs_size, .count = count };
    count_set(page, writer->size, count);
}

void pair_page_write(struct pair_page_writer *writer, uint8_t fingerprint, struct bytes pair)
{
    struct shape shape = shape_with(writer->pairs_size, writer->count);

    CHECK(writer->index < writer->count && pair.size <= writer->pairs_size - writer->at);
    memcpy(writer->page + writer->at, pair.data, pair.size);
    writer->at += pair.size;
    end_set(writer->page, &shape, writer->index, writer->at);
    writer->page[shape.fingerprints + writer->index] = (char)fingerprint;
    writer->index++;
}

/* The pairs have become too many or few bytes for the width of the ends: writes the page again. The bytes of its pairs are those of `to` already. */
static void write_again(char *page, const struct shape *from, const struct shape *to)
{
    size_t kept_size = (size_t)from->count * (from->width + 1);
    char *kept = mem_alloc(kept_size + 1), *fingerprints = kept + (size_t)from->count * from->width;
    struct shape old = *from;

    memcpy(kept, page + from->ends, kept_size);
    old.ends = 0;
    for (uint32_t i = 0; i < from->count && i < to->count; i++) {
        end_set(page, to, i, end_get(kept, &old, i));
        page[to->fingerprints + i] = fingerprints[i];
    }
    mem_free(kept);
}

size_t pair_page_add(char *page, size_t size, uint8_t fingerprint, struct bytes key, struct bytes value, uint64_t number)
{
    struct shape from = shape_of(bytes_of(page, size)), to = shape_with(from.pairs_size + pair_numbered_size(key, value, number), from.count + 1);
    size_t new_size = pair_page_size(to.pairs_size, to.count);

    CHECK(to.count > 0);
    if (from.width == to.width) {
        memmove(page + to.fingerprints, page + from.fingerprints, from.count);
        memmove(page + to.ends, page + from.ends, (size_t)from.count * from.width);
    } else {
        write_again(page, &from, &to);
    }
    end_set(page, &to, from.count, to.pairs_size);
    page[to.fingerprints + from.count] = (char)fingerprint;
    count_set(page, new_size, to.count);
    pair_numbered_write((uint8_t *)page + from.pairs_size, key, value, number);
    return new_size;
}

size_t pair_page_remove(char *page, size_t size, uint32_t index)
{
    struct shape from = shape_of(bytes_of(page, size)), to;
    size_t begin = begin_get(page, &from, index), end = end_get(page, &from, index);

    to = shape_with(from.pairs_size - (end - begin), from.count - 1);
    memmove(page + begin, page + end, from.pairs_size - end);
    for (uint32_t i = index; i < to.count; i++)
        end_set(page, &from, i, end_get(page, &from, i + 1) - (end - begin));
    memmove(page + from.fingerprints + index, page + from.fingerprints + index + 1, to.count - index);
    if (from.width == to.width) {
        memmove(page + to.ends, page + from.ends, (size_t)to.count * to.width);
        memmove(page + to.fingerprints, page + from.fingerprints, to.count);
    } else {
        write_again(page, &from, &to);
    }
    count_set(page, pair_page_size(to.pairs_size, to.count), to.count);
    return pair_page_size(to.pairs_size, to.count);
}
