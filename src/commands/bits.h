/* Bits: counting, finding and changing bits in memory. Bit 0 is the highest one of the first byte. */
#ifndef KELVIN_COMMANDS_BITS_H
#define KELVIN_COMMANDS_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Counts the bits that are set from `first` to `last`, both included and within the memory; first <= last. */
uint64_t bits_count(const void *data, uint64_t first, uint64_t last);

/* The first bit from `first` to `last` that equals `set`, or -1. */
int64_t bits_find(const void *data, uint64_t first, uint64_t last, bool set);

/* `width` (1 to 64) bits from `offset` as an unsigned integer, highest bit first. Bits after `size` bytes read as 0. */
uint64_t bits_read(const void *data, size_t size, uint64_t offset, int width);
/* Writes them; all of them are within the memory. */
void bits_write(void *data, uint64_t offset, int width, uint64_t value);

#endif
