/* Stream sum: a checksum of a range of bytes that may be added in pieces of any size. The result does not depend on the
 * pieces, so what was written in a thousand writes can be compared with what is read back in ten reads.
 *
 *   sum = sum over the 8-byte words at offset o of word * multiplier(o)   (mod 2^64, odd multipliers, missing bytes 0)
 *
 * It is linear, so the parts of a word may be added one by one. It detects pages that read back as zeros or with old
 * contents; it does not protect against deliberate changes. About 8 bytes per cycle.
 */
#ifndef KELVIN_BASE_STREAM_SUM_H
#define KELVIN_BASE_STREAM_SUM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

struct stream_sum {
    uint64_t value;
};

static inline uint64_t stream_sum_multiplier(uint64_t offset)
{
    uint64_t mixed = (offset >> 3) * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x2545f4914f6cdd1d);

    return (mixed ^ mixed >> 32) | 1;
}

/* `offset` is the position of the bytes in the range. */
static inline void stream_sum_add(struct stream_sum *sum, uint64_t offset, struct bytes bytes)
{
    const char *data = bytes.data, *end = bytes.data + bytes.size;
    uint64_t value = sum->value, word;

    while (data < end) {
        size_t inside = offset & 7, size = 8 - inside;

        if (inside == 0 && end - data >= 8) {
            memcpy(&word, data, 8);
            size = 8;
        } else {
            if (size > (size_t)(end - data))
                size = (size_t)(end - data);
            word = 0;
            memcpy((char *)&word + inside, data, size);
        }
        value += word * stream_sum_multiplier(offset);
        offset += size;
        data += size;
    }
    sum->value = value;
}

static inline bool stream_sum_equal(const struct stream_sum *a, const struct stream_sum *b)
{
    return a->value == b->value;
}

#endif
