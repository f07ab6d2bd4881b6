/* CPU: the few operations for which C has no words, for each kind of processor: x86-64 (SSE2), 64-bit ARM (NEON), and any other in plain C.
 * KELVIN_PLAIN chooses plain C on every processor, so that tests can run it (`make MODE=plain`).
 *
 * No other file of src/ has intrinsics or asks for the kind of processor, except for CPU_X86.
 */
#ifndef KELVIN_BASE_CPU_H
#define KELVIN_BASE_CPU_H

#include <stdint.h>

#if !defined(KELVIN_PLAIN) && defined(__x86_64__)
#define CPU_X86
#include <x86intrin.h>
#elif !defined(KELVIN_PLAIN) && defined(__aarch64__)
#define CPU_ARM
#include <arm_neon.h>
#endif

/* Numbers are in files and messages as they are in memory, and table.c keeps 16 more bits in the word of a pointer. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && sizeof(void *) == 8, "Kelvin needs a little-endian 64-bit processor");

#if defined(CPU_X86)

/* Compares 16 bytes, aligned to 16, with `byte`. Returns a bit for each, the first byte's lowest. */
static inline uint32_t cpu_match_16(const void *bytes, uint8_t byte)
{
    __m128i found = _mm_cmpeq_epi8(_mm_load_si128((const __m128i *)bytes), _mm_set1_epi8((char)byte));

    return (uint32_t)_mm_movemask_epi8(found);
}

/* Tells the processor that the thread waits in a loop. */
static inline void cpu_relax(void) { _mm_pause(); }

/* Returns a count of time, at a rate that has to be measured; 0: there is none. */
static inline uint64_t cpu_counter(void) { return __rdtsc(); }

/* Returns what the counter counts in some 10 us. */
static inline uint64_t cpu_counter_10us(void) { return 20000; }

#elif defined(CPU_ARM)

static inline uint32_t cpu_match_16(const void *bytes, uint8_t byte)
{
    static const uint8_t bits[16] = { 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128 };
    uint8x16_t found = vandq_u8(vceqq_u8(vld1q_u8(bytes), vdupq_n_u8(byte)), vld1q_u8(bits));

    return vaddv_u8(vget_low_u8(found)) | (uint32_t)vaddv_u8(vget_high_u8(found)) << 8;
}

static inline void cpu_relax(void) { __asm__ volatile("yield"); }

static inline uint64_t cpu_counter(void)
{
    uint64_t counter;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(counter));
    return counter;
}

static inline uint64_t cpu_counter_10us(void)
{
    uint64_t rate;

    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(rate));
    return rate / 100000;
}

#else

static inline uint32_t cpu_match_16(const void *bytes, uint8_t byte)
{
    uint32_t found = 0;

    for (int i = 0; i < 16; i++)
        found |= (uint32_t)(((const uint8_t *)bytes)[i] == byte) << i;
    return found;
}

static inline void cpu_relax(void) { }
static inline uint64_t cpu_counter(void) { return 0; }
static inline uint64_t cpu_counter_10us(void) { return 0; }

#endif

#endif
