#include "cluster/slots.h"

#include <string.h>

#include "base/check.h"
#include "base/text.h"

void slots_add_range(struct slots *slots, struct slot_range range)
{
    CHECK(range.first <= range.last && range.last < SLOT_COUNT);
    for (unsigned slot = range.first; slot <= range.last; slot++)
        slots_add(slots, slot);
}

unsigned slots_count(const struct slots *slots)
{
    unsigned count = 0;

    for (unsigned i = 0; i < SLOTS_WORDS; i++)
        count += (unsigned)__builtin_popcountll(slots_word(slots, i));
    return count;
}

bool slots_equal(const struct slots *a, const struct slots *b)
{
    return memcmp(a->bits, b->bits, SLOTS_SIZE) == 0;
}

/* The first slot not below `from` whose bit is not that of `inverted`: all ones look for a slot that is not in the set. SLOT_COUNT: none. */
static unsigned find(const struct slots *slots, unsigned from, uint64_t inverted)
{
    uint64_t mask = UINT64_MAX << from % SLOTS_WORD_BITS;

    for (unsigned i = from / SLOTS_WORD_BITS; i < SLOTS_WORDS; i++) {
        uint64_t word = (slots_word(slots, i) ^ inverted) & mask;

        if (word != 0)
            return i * SLOTS_WORD_BITS + (unsigned)__builtin_ctzll(word);
        mask = UINT64_MAX;
    }
    return SLOT_COUNT;
}

bool slots_next(const struct slots *slots, unsigned from, struct slot_range *range)
{
    unsigned first = find(slots, from, 0);

    if (first == SLOT_COUNT)
        return false;
    range->first = (uint16_t)first;
    range->last = (uint16_t)(find(slots, first, UINT64_MAX) - 1);
    return true;
}

void slots_add_all(struct slots *slots, const struct slots *more)
{
    for (size_t i = 0; i < SLOTS_SIZE; i++)
        slots->bits[i] |= more->bits[i];
}

bool slots_overlap(const struct slots *a, const struct slots *b)
{
    for (size_t i = 0; i < SLOTS_SIZE; i++) {
        if (a->bits[i] & b->bits[i])
            return true;
    }
    return false;
}

void slots_append_ranges(const struct slots *slots, struct buffer *text)
{
    struct slot_range range;
    bool is_first = true;

    for (unsigned at = 0; slots_next(slots, at, &range); at = range.last + 1U) {
        buffer_append_format(text, "%s%u-%u", is_first ? "" : " ", range.first, range.last);
        is_first = false;
    }
}

void slots_write(const struct slots *slots, struct buffer *out)
{
    const char *before = "";
    struct slot_range range;

    for (unsigned at = 0; slots_next(slots, at, &range); at = range.last + 1U) {
        buffer_append_format(out, range.first == range.last ? "%s%u" : "%s%u-%u", before, range.first, range.last);
        before = ",";
    }
}

static bool read_slot(struct bytes text, unsigned *slot)
{
    int64_t number;

    if (!text_to_int(text, &number) || number < 0 || number >= SLOT_COUNT)
        return false;
    *slot = (unsigned)number;
    return true;
}

/* "0-99", "200" */
static bool read_range(struct bytes text, struct slots *slots)
{
    const char *dash = memchr(text.data, '-', text.size);
    struct bytes begin = bytes_of(text.data, dash != NULL ? (size_t)(dash - text.data) : text.size);
    struct bytes end = dash != NULL ? bytes_of(dash + 1, text.size - begin.size - 1) : begin;
    unsigned first, last;

    if (!read_slot(begin, &first) || !read_slot(end, &last) || first > last)
        return false;
    slots_add_range(slots, (struct slot_range){ (uint16_t)first, (uint16_t)last });
    return true;
}

bool slots_read(struct bytes text, struct slots *slots)
{
    while (text.size > 0) {
        const char *comma = memchr(text.data, ',', text.size);
        size_t size = comma != NULL ? (size_t)(comma - text.data) : text.size, passed = size + (comma != NULL);

        if (size == 0 || !read_range(bytes_of(text.data, size), slots))
            return false;
        text = bytes_of(text.data + passed, text.size - passed);
    }
    return true;
}
