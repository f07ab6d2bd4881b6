#include "containers/order_page.h"

#include <string.h>

#include "base/check.h"
#include "base/compiler.h"

enum { COUNT_SIZE = sizeof(uint32_t), SCORE_SIZE = sizeof(double), NARROW = 2, WIDE = 4, NARROW_MAX = 0xffff };

/* Where the parts of a page are. */
struct shape {
    size_t members_size;
    uint32_t count;
    unsigned width;                 /* of the ends */
    size_t ends, members;           /* where they begin */
};

static struct shape shape_with(size_t members_size, uint32_t count)
{
    struct shape shape = { members_size, count, members_size <= NARROW_MAX ? NARROW : WIDE, (size_t)count * SCORE_SIZE, 0 };

    shape.members = shape.ends + (size_t)count * shape.width;
    return shape;
}

static size_t size_of(const struct shape *shape)
{
    return shape->members + shape->members_size + COUNT_SIZE;
}

uint32_t order_page_count(struct bytes page)
{
    uint32_t count;

    memcpy(&count, page.data + page.size - COUNT_SIZE, COUNT_SIZE);
    return count;
}

/* Only one of the two sizes that the members could have has the width that goes with it. */
static struct shape shape_of(struct bytes page)
{
    uint32_t count = order_page_count(page);
    size_t members_size = page.size - COUNT_SIZE - (size_t)count * (SCORE_SIZE + NARROW);

    if (members_size > NARROW_MAX)
        members_size -= (size_t)count * (WIDE - NARROW);
    return shape_with(members_size, count);
}

static size_t end_get(const char *page, const struct shape *shape, uint32_t index)
{
    uint32_t wide;
    uint16_t narrow;

    if (LIKELY(shape->width == NARROW)) {
        memcpy(&narrow, page + shape->ends + (size_t)index * NARROW, NARROW);
        return narrow;
    }
    memcpy(&wide, page + shape->ends + (size_t)index * WIDE, WIDE);
    return wide;
}

static void end_set(char *page, const struct shape *shape, uint32_t index, size_t end)
{
    uint16_t narrow = (uint16_t)end;
    uint32_t wide = (uint32_t)end;

    memcpy(page + shape->ends + (size_t)index * shape->width, shape->width == NARROW ? (const void *)&narrow : &wide, shape->width);
}

static size_t begin_get(const char *page, const struct shape *shape, uint32_t index)
{
    return index == 0 ? 0 : end_get(page, shape, index - 1);
}

static double score_get(const char *page, uint32_t index)
{
    double score;

    memcpy(&score, page + (size_t)index * SCORE_SIZE, SCORE_SIZE);
    return score;
}

static struct bytes member_get(const char *page, const struct shape *shape, uint32_t index)
{
    size_t begin = begin_get(page, shape, index);

    return bytes_of(page + shape->members + begin, end_get(page, shape, index) - begin);
}

/* --- reading --- */

static int compare(const char *page, const struct shape *shape, uint32_t index, double score, struct bytes member)
{
    double own = score_get(page, index);

    if (own != score)
        return own < score ? -1 : 1;
    return bytes_compare(member_get(page, shape, index), member);
}

/* The ends are in the members, and the elements in order. */
static bool elements_are_sound(const char *page, const struct shape *shape)
{
    size_t begin = 0;

    for (uint32_t i = 0; i < shape->count; i++) {
        size_t end = end_get(page, shape, i);
        double score = score_get(page, i);

        if (end < begin || end > shape->members_size || score != score)
            return false;
        if (i > 0 && compare(page, shape, i - 1, score, bytes_of(page + shape->members + begin, end - begin)) >= 0)
            return false;
        begin = end;
    }
    return begin == shape->members_size;
}

bool order_page_is_sound(struct bytes page)
{
    struct shape shape;
    uint64_t count;
    size_t rest;

    if (page.size < COUNT_SIZE)
        return false;
    count = order_page_count(page);
    rest = page.size - COUNT_SIZE;
    if (count == 0 || count * (SCORE_SIZE + NARROW) > rest || (rest - count * (SCORE_SIZE + NARROW) > NARROW_MAX && count * (SCORE_SIZE + WIDE) > rest))
        return false;
    shape = shape_of(page);
    return size_of(&shape) == page.size && elements_are_sound(page.data, &shape);
}

struct order_element order_page_at(struct bytes page, uint32_t index)
{
    struct shape shape = shape_of(page);

    return (struct order_element){ score_get(page.data, index), member_get(page.data, &shape, index) };
}

uint32_t order_page_place(struct bytes page, double score, struct bytes member, bool *is_there)
{
    struct shape shape = shape_of(page);
    uint32_t low = 0, high = shape.count;

    *is_there = false;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = compare(page.data, &shape, middle, score, member);

        if (order == 0) {
            *is_there = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t order_page_count_by_score(struct bytes page, double score, enum order_border border)
{
    uint32_t low = 0, high = order_page_count(page);

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        double own = score_get(page.data, middle);

        if (own < score || (own == score && border == ORDER_NOT_ABOVE))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* --- writing --- */

static size_t members_size_of(const struct order_part *part)
{
    struct shape shape;

    if (part->page.data == NULL)
        return part->single.member.size;
    if (part->from == part->to)
        return 0;
    shape = shape_of(part->page);
    return end_get(part->page.data, &shape, part->to - 1) - begin_get(part->page.data, &shape, part->from);
}

static uint32_t count_of(const struct order_part *part)
{
    return part->page.data == NULL ? 1 : part->to - part->from;
}

static struct shape shape_of_parts(const struct order_part *parts, size_t count)
{
    size_t members_size = 0;
    uint32_t elements = 0;

    for (size_t i = 0; i < count; i++) {
        members_size += members_size_of(&parts[i]);
        elements += count_of(&parts[i]);
    }
    CHECK(elements > 0 && members_size <= UINT32_MAX);
    return shape_with(members_size, elements);
}

size_t order_page_size(const struct order_part *parts, size_t count, uint32_t *elements)
{
    struct shape shape = shape_of_parts(parts, count);

    if (elements != NULL)
        *elements = shape.count;
    return size_of(&shape);
}

static void copy(char *to, const char *from, size_t size)
{
    if (size > 0)
        memcpy(to, from, size);
}

/* The ends of `count` elements of a page, from one whose members begin at `begin` on, as those of elements that begin at `at`. */
static void copy_ends(char *page, const struct shape *to, uint32_t index, size_t at, const char *source, const struct shape *from, uint32_t first, uint32_t count, size_t begin)
{
    if (LIKELY(to->width == NARROW && from->width == NARROW)) {
        const char *read = source + from->ends + (size_t)first * NARROW;
        char *write = page + to->ends + (size_t)index * NARROW;

        for (uint32_t i = 0; i < count; i++) {
            uint16_t end;

            memcpy(&end, read + (size_t)i * NARROW, NARROW);
            end = (uint16_t)(end - begin + at);
            memcpy(write + (size_t)i * NARROW, &end, NARROW);
        }
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        end_set(page, to, index + i, end_get(source, from, first + i) - begin + at);
}

/* As the elements from `index` on, whose members begin at `at`. */
static void write_part(char *page, const struct shape *to, uint32_t index, size_t at, const struct order_part *part)
{
    struct shape from;
    size_t begin;

    if (part->page.data == NULL) {
        memcpy(page + (size_t)index * SCORE_SIZE, &part->single.score, SCORE_SIZE);
        end_set(page, to, index, at + part->single.member.size);
        copy(page + to->members + at, part->single.member.data, part->single.member.size);
        return;
    }
    if (part->from == part->to)
        return;
    from = shape_of(part->page);
    begin = begin_get(part->page.data, &from, part->from);
    copy(page + (size_t)index * SCORE_SIZE, part->page.data + (size_t)part->from * SCORE_SIZE, (size_t)(part->to - part->from) * SCORE_SIZE);
    copy_ends(page, to, index, at, part->page.data, &from, part->from, part->to - part->from, begin);
    copy(page + to->members + at, part->page.data + from.members + begin, members_size_of(part));
}

void order_page_write(const struct order_part *parts, size_t count, char *page)
{
    struct shape shape = shape_of_parts(parts, count);
    uint32_t index = 0;
    size_t at = 0;

    for (size_t i = 0; i < count; i++) {
        write_part(page, &shape, index, at, &parts[i]);
        index += count_of(&parts[i]);
        at += members_size_of(&parts[i]);
    }
    memcpy(page + size_of(&shape) - COUNT_SIZE, &shape.count, COUNT_SIZE);
}

static size_t member_size_at(const struct order_part *part, uint32_t index)
{
    return part->page.data == NULL ? part->single.member.size : order_page_at(part->page, part->from + index).member.size;
}

uint32_t order_page_middle(const struct order_part *parts, size_t count)
{
    struct shape shape = shape_of_parts(parts, count);
    size_t half = (shape.members_size + (size_t)shape.count * (SCORE_SIZE + NARROW)) / 2, size = 0;
    uint32_t taken = 0;

    CHECK(shape.count >= 2);
    for (size_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < count_of(&parts[i]) && taken + 1 < shape.count && (taken == 0 || size < half); k++) {
            size += member_size_at(&parts[i], k) + SCORE_SIZE + NARROW;
            taken++;
        }
    }
    return taken;
}
