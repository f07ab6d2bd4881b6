/* Pair: a key and its value as one run of bytes: the entry of a dict, and an element of a page.
 *
 *   pair = 2 * key size + 1 varint | value size varint | key | value, or, if the value is empty: 2 * key size varint | key
 *
 * In pages a pair may have a number, which is not 0; no other pair with a value size has 0 there:
 *
 *   pair = 2 * key size + 1 varint | 0 u8 | number u48 | value size varint | key | value
 */
#ifndef KELVIN_CONTAINERS_PAIR_H
#define KELVIN_CONTAINERS_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/varint.h"

/* A pair that is about to be written, or was read. */
struct pair {
    struct bytes key, value;
    uint64_t number;                    /* 0: it has none */
    size_t size;                        /* of the run */
};

enum { PAIR_HAS_VALUE = 1, PAIR_NUMBER_SIZE = 6 };
#define PAIR_NUMBER_MAX ((1ull << 48) - 1)

static inline uint8_t *pair_write_size(uint8_t *to, size_t size)
{
    for (; size > 127; size >>= 7)
        *to++ = (uint8_t)(size | 128);
    *to++ = (uint8_t)size;
    return to;
}

static inline const uint8_t *pair_read_size(const uint8_t *from, size_t *size)
{
    unsigned shift = 0;

    *size = *from & 127;
    while (*from++ & 128)
        *size |= (size_t)(*from & 127) << (shift += 7);
    return from;
}

/* The bytes of a pair whose sizes were read: those of the key begin at `at`. */
static inline void pair_place(struct pair *pair, const uint8_t *at_pair, size_t head, const uint8_t *at)
{
    pair->key = bytes_of(at, head >> 1);
    pair->value.data = pair->key.data + pair->key.size;
    pair->size = (size_t)(at - at_pair) + pair->key.size + pair->value.size;
}

static inline struct pair pair_of(const uint8_t *at_pair)
{
    struct pair pair = { .size = 0 };
    size_t head;
    const uint8_t *at = pair_read_size(at_pair, &head);

    if (head & PAIR_HAS_VALUE)
        at = pair_read_size(at, &pair.value.size);
    pair_place(&pair, at_pair, head, at);
    return pair;
}

static inline size_t pair_head(struct bytes key, struct bytes value)
{
    return key.size << 1 | (value.size > 0 ? PAIR_HAS_VALUE : 0);
}

/* The number of bytes before the key. */
static inline size_t pair_sizes_width(struct bytes key, struct bytes value)
{
    return varint_size(pair_head(key, value)) + (value.size > 0 ? varint_size(value.size) : 0);
}

static inline uint8_t *pair_write_sizes(uint8_t *to, struct bytes key, struct bytes value)
{
    to = pair_write_size(to, pair_head(key, value));
    return value.size > 0 ? pair_write_size(to, value.size) : to;
}

static inline size_t pair_size(struct bytes key, struct bytes value)
{
    return pair_sizes_width(key, value) + key.size + value.size;
}

/* Writes pair_size bytes, which neither key nor value is part of. */
static inline void pair_write(uint8_t *to, struct bytes key, struct bytes value)
{
    to = pair_write_sizes(to, key, value);
    if (key.size > 0)
        memcpy(to, key.data, key.size);
    if (value.size > 0)
        memcpy(to + key.size, value.data, value.size);
}

/* --- pairs of pages: the same with a number, or without one (0) --- */

/* The number is at `at`; also where it is in a page. */
static inline const uint8_t *pair_read_number(const uint8_t *at, uint64_t *number)
{
    *number = 0;
    memcpy(number, at, PAIR_NUMBER_SIZE);
    return at + PAIR_NUMBER_SIZE;
}

static inline uint8_t *pair_write_number(uint8_t *to, uint64_t number)
{
    memcpy(to, &number, PAIR_NUMBER_SIZE);          /* little-endian machines only */
    return to + PAIR_NUMBER_SIZE;
}

static inline struct pair pair_numbered_of(const uint8_t *at_pair)
{
    struct pair pair = { .size = 0 };
    size_t head;
    const uint8_t *at = pair_read_size(at_pair, &head);

    if (head & PAIR_HAS_VALUE) {
        at = pair_read_size(at, &pair.value.size);
        if (__builtin_expect(pair.value.size == 0, 0)) {
            at = pair_read_number(at, &pair.number);
            at = pair_read_size(at, &pair.value.size);
        }
    }
    pair_place(&pair, at_pair, head, at);
    return pair;
}

/* Where a pair that has a number has it. */
static inline const uint8_t *pair_number_at(const struct pair *pair)
{
    const uint8_t *begin = (const uint8_t *)pair->value.data + pair->value.size - pair->size;

    return begin + varint_size(pair->key.size << 1 | PAIR_HAS_VALUE) + 1;
}

static inline size_t pair_numbered_size(struct bytes key, struct bytes value, uint64_t number)
{
    if (__builtin_expect(number == 0, 1))
        return pair_size(key, value);
    return varint_size(key.size << 1 | PAIR_HAS_VALUE) + 1 + PAIR_NUMBER_SIZE + varint_size(value.size) + key.size + value.size;
}

static inline void pair_numbered_write(uint8_t *to, struct bytes key, struct bytes value, uint64_t number)
{
    if (__builtin_expect(number == 0, 1)) {
        pair_write(to, key, value);
        return;
    }
    to = pair_write_size(to, key.size << 1 | PAIR_HAS_VALUE);
    *to++ = 0;
    to = pair_write_size(pair_write_number(to, number), value.size);
    if (key.size > 0)
        memcpy(to, key.data, key.size);
    if (value.size > 0)
        memcpy(to + key.size, value.data, value.size);
}

/* Whether the bytes are one pair, all of them, as pair_numbered_write writes it. */
static inline bool pair_is_sound(struct bytes bytes)
{
    const char *at = bytes.data, *end = bytes.data + bytes.size;
    uint64_t head, value_size = 0, number = 0, left;

    if (!varint_take(&at, end, &head) || (head & PAIR_HAS_VALUE && !varint_take(&at, end, &value_size)))
        return false;
    if (head & PAIR_HAS_VALUE && value_size == 0) {
        if (end - at < PAIR_NUMBER_SIZE)
            return false;
        at = (const char *)pair_read_number((const uint8_t *)at, &number);
        if (number == 0 || !varint_take(&at, end, &value_size))
            return false;
    }
    left = (uint64_t)(end - at);
    if (head >> 1 > left || value_size != left - (head >> 1))
        return false;
    return left + (size_t)(at - bytes.data) == pair_numbered_size(bytes_of(at, head >> 1), bytes_of(at, value_size), number);
}

#endif
