#include "containers/hll.h"

#include <math.h>

#include "base/check.h"
#include "base/tail.h"

enum {
    INDEX_BITS = 14,
    RANK_BITS = 64 - INDEX_BITS,    /* of the hash, in which zeros are counted */
    RANK_MAX = RANK_BITS + 1,

    ENCODING_AT = 4,
    COUNT_AT = 8,
    DENSE = 0,
    SPARSE = 1,

    /* Runs take 1 byte, long ones of zeros 2: 00cccccc; 01cccccc cccccccc; 1vvvvvcc: c + 1 registers of value v + 1. */
    ZEROS_LONG = 0x40,
    VALUES = 0x80,
    ZEROS_SHORT_MAX = 64,
    VALUES_COUNT_MAX = 4,
    VALUES_VALUE_MAX = 32,
    RUN_SIZE_MAX = 2,
    RUNS_LOOKED_AT = 5,             /* after a change, checked for neighbours that can be merged */
    GROUP_SIZE = 6,                 /* bytes of GROUP_COUNT registers */
    GROUP_COUNT = 8,
};

static const uint64_t COUNT_UNKNOWN = 1ull << 63;
static const uint64_t HASH_SEED = 0xadc83b19;

static inline uint8_t *bytes_in(struct buffer *hll)
{
    return (uint8_t *)hll->data;
}

static inline uint64_t load_word(const char *from)
{
    uint64_t word;

    memcpy(&word, from, sizeof(word));      /* little-endian machines only */
    return word;
}

static uint64_t hash_of(struct bytes element)
{
    const uint64_t multiplier = 0xc6a4a7935bd1e995ull;
    uint64_t hash = HASH_SEED ^ element.size * multiplier;
    size_t at = 0;

    for (; at + 8 <= element.size; at += 8) {
        uint64_t word = load_word(element.data + at) * multiplier;

        hash = (hash ^ (word ^ word >> 47) * multiplier) * multiplier;
    }
    if (at < element.size)
        hash = (hash ^ tail_load(element.data + at, element.size - at, element.size)) * multiplier;
    hash = (hash ^ hash >> 47) * multiplier;
    return hash ^ hash >> 47;
}

bool hll_is_one(struct bytes hll)
{
    if (hll.size < HLL_HEADER_SIZE || memcmp(hll.data, "HYLL", 4) != 0)
        return false;
    return hll.data[ENCODING_AT] == SPARSE || (hll.data[ENCODING_AT] == DENSE && hll.size == HLL_DENSE_SIZE);
}

bool hll_is_sparse(struct bytes hll)
{
    return hll.data[ENCODING_AT] == SPARSE;
}

bool hll_kept_count(struct bytes hll, uint64_t *count)
{
    *count = load_word(hll.data + COUNT_AT);
    return !(*count & COUNT_UNKNOWN);
}

void hll_keep_count(char *hll, uint64_t count)
{
    memcpy(hll + COUNT_AT, &count, 8);
}

void hll_forget_count(char *hll)
{
    hll_keep_count(hll, load_word(hll + COUNT_AT) | COUNT_UNKNOWN);
}

/* Dense: register i is the 6 bits from bit 6 * i on, the lowest bit first. Eight registers are six bytes, or a word
 * with one byte each: the fields are moved apart in three steps, each by half the distance of the one before. */

static inline uint64_t group_unpack(const uint8_t *group)
{
    uint64_t word;
    uint32_t low;
    uint16_t high;

    /* Two reads instead of one of six bytes: a read that spans several recent writes has to wait for them. */
    memcpy(&low, group, sizeof(low));
    memcpy(&high, group + sizeof(low), sizeof(high));
    word = low | (uint64_t)high << 32;
    word = (word & 0xffffff) | (word & 0xffffff000000) << 8;
    word = (word & 0x00000fff00000fff) | (word & 0x00fff00000fff000) << 4;
    return (word & 0x003f003f003f003f) | (word & 0x0fc00fc00fc00fc0) << 2;
}

static inline void group_pack(uint8_t *group, uint64_t word)
{
    uint32_t low;
    uint16_t high;

    word = (word & 0x003f003f003f003f) | (word & 0x3f003f003f003f00) >> 2;
    word = (word & 0x00000fff00000fff) | (word & 0x0fff00000fff0000) >> 4;
    word = (word & 0xffffff) | (word & 0x00ffffff00000000) >> 8;
    low = (uint32_t)word;
    high = (uint16_t)(word >> 32);
    memcpy(group, &low, sizeof(low));
    memcpy(group + sizeof(low), &high, sizeof(high));
}

/* The larger value in each byte; all are below 128. */
static inline uint64_t group_max(uint64_t a, uint64_t b)
{
    const uint64_t high = 0x8080808080808080;
    uint64_t at_least = ((a | high) - b) & high;        /* where a >= b */
    uint64_t mask = (at_least >> 7) * 0xff;

    return (a & mask) | (b & ~mask);
}

static inline uint64_t load_registers(const uint8_t *registers)
{
    uint64_t word;

    memcpy(&word, registers, sizeof(word));
    return word;
}

static inline uint8_t *group_of(uint8_t *hll, size_t index)
{
    return hll + HLL_HEADER_SIZE + index / GROUP_COUNT * GROUP_SIZE;
}

static enum hll_result dense_raise(uint8_t *hll, size_t index, uint8_t value)
{
    uint8_t *group = group_of(hll, index);
    unsigned shift = 8 * (index % GROUP_COUNT);
    uint64_t word = group_unpack(group);

    if ((word >> shift & 63) >= value)
        return HLL_SAME;
    group_pack(group, (word & ~(63ull << shift)) | (uint64_t)value << shift);
    return HLL_CHANGED;
}

static enum hll_result dense_raise_all(uint8_t *hll, const uint8_t registers[HLL_REGISTERS])
{
    uint64_t changed = 0;

    for (size_t i = 0; i < HLL_REGISTERS; i += GROUP_COUNT) {
        uint8_t *group = group_of(hll, i);
        uint64_t before = group_unpack(group), after = group_max(before, load_registers(registers + i));

        changed |= before ^ after;
        group_pack(group, after);
    }
    return changed != 0 ? HLL_CHANGED : HLL_SAME;
}

/* Sparse */

struct run {
    size_t size;            /* bytes; 0: cut off */
    size_t count;
    uint8_t value;          /* 0: zeros */
};

static struct run run_at(const uint8_t *at, size_t left)
{
    if (at[0] & VALUES)
        return (struct run){ 1, (at[0] & 3) + 1u, (uint8_t)((at[0] >> 2 & 31) + 1) };
    if (!(at[0] & ZEROS_LONG))
        return (struct run){ 1, at[0] + 1u, 0 };
    if (left < 2)
        return (struct run){ 0, 0, 0 };
    return (struct run){ 2, ((at[0] & 63u) << 8 | at[1]) + 1u, 0 };
}

/* Writes nothing for no registers. Returns the size. */
static size_t run_write(uint8_t *to, uint8_t value, size_t count)
{
    if (count == 0)
        return 0;
    if (value > 0) {
        to[0] = (uint8_t)(VALUES | (value - 1) << 2 | (count - 1));
    } else if (count <= ZEROS_SHORT_MAX) {
        to[0] = (uint8_t)(count - 1);
    } else {
        to[0] = (uint8_t)(ZEROS_LONG | (count - 1) >> 8);
        to[1] = (uint8_t)(count - 1);
        return 2;
    }
    return 1;
}

void hll_create(struct buffer *hll)
{
    char *to = buffer_reserve(hll, HLL_HEADER_SIZE + RUN_SIZE_MAX);

    CHECK(hll->size == 0);
    memset(to, 0, HLL_HEADER_SIZE);
    memcpy(to, "HYLL", 4);
    to[ENCODING_AT] = SPARSE;
    hll->size = HLL_HEADER_SIZE + run_write((uint8_t *)to + HLL_HEADER_SIZE, 0, HLL_REGISTERS);
}

/* Reads all runs, which must have the right number of registers in total. */
static bool sparse_read(struct bytes hll, uint8_t registers[HLL_REGISTERS])
{
    const uint8_t *bytes = (const uint8_t *)hll.data;
    size_t index = 0;
    struct run run;

    for (size_t at = HLL_HEADER_SIZE; at < hll.size; at += run.size) {
        run = run_at(bytes + at, hll.size - at);
        if (run.size == 0 || run.count > HLL_REGISTERS - index)
            return false;
        for (size_t end = index + run.count; index < end; index++) {
            if (registers[index] < run.value)
                registers[index] = run.value;
        }
    }
    return index == HLL_REGISTERS;
}

static void dense_read(struct bytes hll, uint8_t registers[HLL_REGISTERS])
{
    const uint8_t *group = (const uint8_t *)hll.data + HLL_HEADER_SIZE;

    for (size_t i = 0; i < HLL_REGISTERS; i += GROUP_COUNT, group += GROUP_SIZE) {
        uint64_t word = group_max(group_unpack(group), load_registers(registers + i));

        memcpy(registers + i, &word, sizeof(word));
    }
}

bool hll_read(struct bytes hll, uint8_t registers[HLL_REGISTERS])
{
    if (hll_is_sparse(hll))
        return sparse_read(hll, registers);
    dense_read(hll, registers);
    return true;
}

enum hll_result hll_to_dense(struct buffer *hll)
{
    uint8_t registers[HLL_REGISTERS] = { 0 };

    if (!hll_is_sparse(buffer_bytes(hll)))
        return HLL_SAME;
    if (!sparse_read(buffer_bytes(hll), registers))
        return HLL_CORRUPT;
    if (hll->size < HLL_DENSE_SIZE)
        buffer_reserve(hll, HLL_DENSE_SIZE - hll->size);
    hll->size = HLL_DENSE_SIZE;
    hll->data[ENCODING_AT] = DENSE;
    for (size_t i = 0; i < HLL_REGISTERS; i += GROUP_COUNT)
        group_pack(group_of(bytes_in(hll), i), load_registers(registers + i));
    return HLL_CHANGED;
}

/* Merges neighbours with the same value that fit into one run; only the first few runs from `at` on, as in Redis, so
 * that the bytes are the same. */
static void join_runs(struct buffer *hll, size_t at)
{
    uint8_t *bytes = bytes_in(hll);

    for (int i = 0; i < RUNS_LOOKED_AT && at < hll->size; i++) {
        struct run run = run_at(bytes + at, hll->size - at), next = { 0, 0, 0 };

        if (run.size == 0)
            return;
        if (run.value > 0 && at + 1 < hll->size)
            next = run_at(bytes + at + 1, hll->size - at - 1);
        if (run.value > 0 && next.value == run.value && run.count + next.count <= VALUES_COUNT_MAX) {
            run_write(bytes + at + 1, run.value, run.count + next.count);
            memmove(bytes + at, bytes + at + 1, hll->size - at - 1);
            hll->size--;
        } else {
            at += run.size;
        }
    }
}

/* The run to be changed and its position. */
struct place {
    struct run run;
    size_t at, before;      /* offsets of the run and of the one before, or of itself if it is the first */
    size_t first;           /* its first register */
};

static bool find_run(const struct buffer *hll, size_t index, struct place *place)
{
    *place = (struct place){ .at = HLL_HEADER_SIZE, .before = HLL_HEADER_SIZE };
    while (place->at < hll->size) {
        place->run = run_at((const uint8_t *)hll->data + place->at, hll->size - place->at);
        if (place->run.size == 0)
            return false;
        if (place->first + place->run.count > index)
            return true;
        place->first += place->run.count;
        place->before = place->at;
        place->at += place->run.size;
    }
    return false;
}

/* Gives one register of a run its own value: the run is divided into what is before it, itself, and what is after it.
 * False if that would be too large. */
static bool split_run(struct buffer *hll, const struct place *place, size_t index, uint8_t value, size_t size_max)
{
    uint8_t runs[3 * RUN_SIZE_MAX];
    size_t left = index - place->first, size, old_size = place->run.size;

    size = run_write(runs, place->run.value, left);
    size += run_write(runs + size, value, 1);
    size += run_write(runs + size, place->run.value, place->run.count - left - 1);
    if (size > old_size && hll->size + size - old_size > size_max)
        return false;
    if (size > old_size)
        buffer_reserve(hll, size - old_size);
    memmove(hll->data + place->at + size, hll->data + place->at + old_size, hll->size - place->at - old_size);
    memcpy(hll->data + place->at, runs, size);
    hll->size = hll->size + size - old_size;
    join_runs(hll, place->before);
    return true;
}

static enum hll_result sparse_raise(struct buffer *hll, size_t index, uint8_t value, size_t size_max)
{
    struct place place;

    if (value <= VALUES_VALUE_MAX) {
        if (!find_run(hll, index, &place))
            return HLL_CORRUPT;
        if (place.run.value >= value)
            return HLL_SAME;
        if (split_run(hll, &place, index, value, size_max))
            return HLL_CHANGED;
    }
    if (hll_to_dense(hll) == HLL_CORRUPT)
        return HLL_CORRUPT;
    return dense_raise(bytes_in(hll), index, value);
}

static enum hll_result raise_one(struct buffer *hll, size_t index, uint8_t value, size_t sparse_size_max)
{
    if (hll_is_sparse(buffer_bytes(hll)))
        return sparse_raise(hll, index, value, sparse_size_max);
    return dense_raise(bytes_in(hll), index, value);
}

enum hll_result hll_add(struct buffer *hll, struct bytes element, size_t sparse_size_max)
{
    uint64_t hash = hash_of(element), rest = hash >> INDEX_BITS | 1ull << RANK_BITS;
    uint8_t rank = (uint8_t)(__builtin_ctzll(rest) + 1);
    enum hll_result result = raise_one(hll, hash & (HLL_REGISTERS - 1), rank, sparse_size_max);

    if (result == HLL_CHANGED)
        hll_forget_count(hll->data);
    return result;
}

enum hll_result hll_raise(struct buffer *hll, const uint8_t registers[HLL_REGISTERS], size_t sparse_size_max)
{
    enum hll_result result = HLL_SAME;

    for (size_t i = 0; i < HLL_REGISTERS && hll_is_sparse(buffer_bytes(hll)); i++) {
        enum hll_result one = registers[i] > 0 ? sparse_raise(hll, i, registers[i], sparse_size_max) : HLL_SAME;

        if (one == HLL_CORRUPT)
            return one;
        if (one == HLL_CHANGED)
            result = one;
    }
    if (!hll_is_sparse(buffer_bytes(hll)) && dense_raise_all(bytes_in(hll), registers) == HLL_CHANGED)
        result = HLL_CHANGED;
    if (result == HLL_CHANGED)
        hll_forget_count(hll->data);
    return result;
}

/* Ertl's estimator. counts[k]: the number of registers with value k */

static double sigma(double x)
{
    double y = 1, z = x, before;

    if (x == 1)
        return INFINITY;
    do {
        x *= x;
        before = z;
        z += x * y;
        y += y;
    } while (z != before);
    return z;
}

static double tau(double x)
{
    double y = 1, z = 1 - x, before;

    if (x == 0 || x == 1)
        return 0;
    do {
        x = sqrt(x);
        before = z;
        y *= 0.5;
        z -= (1 - x) * (1 - x) * y;
    } while (z != before);
    return z / 3;
}

static uint64_t estimate_of(const uint32_t counts[64])
{
    const double alpha = 0.721347520444481703680;       /* 1 / (2 ln 2) */
    const double m = HLL_REGISTERS;
    double z = m * tau((m - counts[RANK_MAX]) / m);

    for (int k = RANK_BITS; k >= 1; k--) {
        z += counts[k];
        z *= 0.5;
    }
    z += m * sigma(counts[0] / m);
    return (uint64_t)llroundl(alpha * m * m / z);
}

uint64_t hll_count_registers(const uint8_t registers[HLL_REGISTERS])
{
    /* Adjacent registers are often equal: with a single counter the second increment would wait for the first. */
    uint32_t counts[4][64] = { { 0 } };

    for (size_t i = 0; i < HLL_REGISTERS; i += 4) {
        for (size_t j = 0; j < 4; j++)
            counts[j][registers[i + j] & 63]++;
    }
    for (size_t i = 0; i < 64; i++)
        counts[0][i] += counts[1][i] + counts[2][i] + counts[3][i];
    return estimate_of(counts[0]);
}

bool hll_count(struct bytes hll, uint64_t *count)
{
    uint8_t registers[HLL_REGISTERS] = { 0 };

    if (!hll_read(hll, registers))
        return false;
    *count = hll_count_registers(registers);
    return true;
}

void hll_describe(struct bytes hll, struct buffer *out)
{
    const uint8_t *bytes = (const uint8_t *)hll.data;
    struct run run;

    for (size_t at = HLL_HEADER_SIZE; at < hll.size; at += run.size) {
        run = run_at(bytes + at, hll.size - at);
        if (run.size == 0)
            break;
        if (at > HLL_HEADER_SIZE)
            buffer_append_u8(out, ' ');
        if (bytes[at] & VALUES)
            buffer_append_format(out, "v:%u,%zu", run.value, run.count);
        else
            buffer_append_format(out, bytes[at] & ZEROS_LONG ? "Z:%zu" : "z:%zu", run.count);
    }
}
