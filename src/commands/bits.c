#include "commands/bits.h"

#include <string.h>

#include "base/cpu.h"

static uint64_t word_at(const uint8_t *data)
{
    uint64_t word;

    memcpy(&word, data, sizeof(word));
    return word;
}

/* Inlined twice: as any compiler target does it, and with the instruction that most machines have. Four sums, so that an addition
 * does not wait for the one before. */
static inline __attribute__((always_inline)) uint64_t count_words(const uint8_t *data, size_t size)
{
    uint64_t sums[4] = { 0 };

    for (; size >= 32; size -= 32, data += 32)
        for (int i = 0; i < 4; i++)
            sums[i] += (uint64_t)__builtin_popcountll(word_at(data + i * 8));
    for (; size > 0; size--, data++)
        sums[0] += (uint64_t)__builtin_popcount(*data);
    return sums[0] + sums[1] + sums[2] + sums[3];
}

static uint64_t count_anywhere(const uint8_t *data, size_t size)
{
    return count_words(data, size);
}

#ifdef CPU_X86
__attribute__((target("popcnt"))) static uint64_t count_with_popcnt(const uint8_t *data, size_t size)
{
    return count_words(data, size);
}

static uint64_t count_bytes(const uint8_t *data, size_t size)
{
    return __builtin_cpu_supports("popcnt") ? count_with_popcnt(data, size) : count_anywhere(data, size);
}
#else
static uint64_t count_bytes(const uint8_t *data, size_t size)
{
    return count_anywhere(data, size);
}
#endif

/* The bits of a byte before bit `index`. */
static uint8_t mask_before(uint64_t index)
{
    return (uint8_t)~(0xff >> index % 8);
}

/* The bits of a byte after bit `index`. */
static uint8_t mask_after(uint64_t index)
{
    return (uint8_t)(0x7f >> index % 8);
}

uint64_t bits_count(const void *data, uint64_t first, uint64_t last)
{
    const uint8_t *bytes = data;
    uint64_t count = count_bytes(bytes + first / 8, (size_t)(last / 8 - first / 8 + 1));

    count -= (uint64_t)__builtin_popcount(bytes[first / 8] & mask_before(first));
    return count - (uint64_t)__builtin_popcount(bytes[last / 8] & mask_after(last));
}

int64_t bits_find(const void *data, uint64_t first, uint64_t last, bool set)
{
    const uint8_t *bytes = data;
    uint8_t flip = set ? 0 : 0xff;
    uint64_t dull = set ? 0 : UINT64_MAX;
    uint64_t index = first / 8, end = last / 8 + 1, found;
    uint8_t byte = (uint8_t)((bytes[index] ^ flip) & ~mask_before(first));

    if (byte == 0) {
        index++;
        while (end - index >= 8 && word_at(bytes + index) == dull)
            index += 8;
        while (index < end && (byte = bytes[index] ^ flip) == 0)
            index++;
        if (index == end)
            return -1;
    }
    found = index * 8 + (uint64_t)__builtin_clz(byte) - 24;
    return found <= last ? (int64_t)found : -1;
}

/* An integer of 64 bits that begins within a byte touches nine bytes. */
uint64_t bits_read(const void *data, size_t size, uint64_t offset, int width)
{
    const uint8_t *bytes = data;
    uint64_t last = offset + (uint64_t)width - 1;
    unsigned __int128 value = 0;

    for (uint64_t index = offset / 8; index <= last / 8; index++)
        value = value << 8 | (index < size ? bytes[index] : 0);
    return (uint64_t)(value >> (7 - last % 8)) & UINT64_MAX >> (64 - width);
}

void bits_write(void *data, uint64_t offset, int width, uint64_t value)
{
    uint8_t *bytes = data;
    uint64_t last = offset + (uint64_t)width - 1;
    unsigned __int128 mask = (unsigned __int128)(UINT64_MAX >> (64 - width)) << (7 - last % 8);
    unsigned __int128 shifted = (unsigned __int128)value << (7 - last % 8) & mask;

    for (uint64_t index = last / 8 + 1; index-- > offset / 8;) {
        bytes[index] = (uint8_t)((bytes[index] & ~(uint8_t)mask) | (uint8_t)shifted);
        mask >>= 8;
        shifted >>= 8;
    }
}
