/* Slots: a set of slots, in the form in which it is on the cluster's bus.
 *
 *   bit s = byte s / 8, bit s % 8, the lowest first
 *
 * Owner: the struct or the message that has it. All zero is the empty set.
 */
#ifndef KELVIN_CLUSTER_SLOTS_H
#define KELVIN_CLUSTER_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "keyspace/slot.h"

enum { SLOTS_SIZE = SLOT_COUNT / 8 };

struct slots {
    uint8_t bits[SLOTS_SIZE];
};

/* Both ends belong to it. */
struct slot_range {
    uint16_t first, last;
};

static inline bool slots_has(const struct slots *slots, unsigned slot)
{
    return slots->bits[slot / 8] >> slot % 8 & 1;
}

static inline void slots_add(struct slots *slots, unsigned slot)
{
    slots->bits[slot / 8] |= (uint8_t)(1 << slot % 8);
}

static inline void slots_remove(struct slots *slots, unsigned slot)
{
    slots->bits[slot / 8] &= (uint8_t)~(1 << slot % 8);
}

/* The set as words, little-endian: bit s is bit s % 64 of word s / 64. */
enum { SLOTS_WORD_BITS = 64, SLOTS_WORDS = SLOT_COUNT / SLOTS_WORD_BITS };
static inline uint64_t slots_word(const struct slots *slots, unsigned index)
{
    return bytes_word((const char *)slots->bits + index * sizeof(uint64_t));
}

/* `range.first` is not above `range.last`, which is below SLOT_COUNT. */
void slots_add_range(struct slots *slots, struct slot_range range);

void slots_add_all(struct slots *slots, const struct slots *more);
bool slots_overlap(const struct slots *a, const struct slots *b);
unsigned slots_count(const struct slots *slots);
bool slots_equal(const struct slots *a, const struct slots *b);

/* The first range with a slot not below `from`, which may be SLOT_COUNT; false if there is none. The ranges of a set, in order:
 *
 *   for (unsigned at = 0; slots_next(&slots, at, &range); at = range.last + 1U)
 */
bool slots_next(const struct slots *slots, unsigned from, struct slot_range *range);

/* Appends the ranges as text: "0-99 200-200". */
void slots_append_ranges(const struct slots *slots, struct buffer *text);

/* As text: "0-99,200", at most 48 KiB; empty for none. slots_read adds; false: it is no such text, and some may have been added. */
void slots_write(const struct slots *slots, struct buffer *out);
bool slots_read(struct bytes text, struct slots *slots);

#endif
