/* Tail: what is left of a string that is hashed in words of eight bytes. */
#ifndef KELVIN_BASE_TAIL_H
#define KELVIN_BASE_TAIL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The last `left` bytes, 1 to 7, of `size` in all, as a number; little-endian machines only, as for the store's formats. Loads of a fixed size
 * are much cheaper than a memcpy of any, so they overlap what was read before, or each other. */
static inline uint64_t tail_load(const char *at, size_t left, size_t size)
{
    uint64_t word;
    uint32_t low, high;

    if (size >= 8) {
        memcpy(&word, at + left - 8, 8);
        return word >> (8 - left) * 8;
    }
    if (left >= 4) {
        memcpy(&low, at, 4);
        memcpy(&high, at + left - 4, 4);
        return (uint64_t)high << (left - 4) * 8 | low;
    }
    return (uint64_t)(unsigned char)at[0] | (uint64_t)(unsigned char)at[left / 2] << left / 2 * 8 |
        (uint64_t)(unsigned char)at[left - 1] << (left - 1) * 8;
}

#endif
