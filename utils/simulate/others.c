/* More policies that others are known for: SIEVE, W-TinyLFU, and Redis' allkeys-lfu. */
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "chain.h"
#include "policy.h"

/* --- SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi: "SIEVE is simpler than LRU", NSDI 2024) --- */

struct sieve {
    const struct room *room;
    struct chain chain;         /* one list, in the order in which keys came */
    bool *is_resident, *is_visited;
    uint64_t used;
    uint32_t hand;              /* a key, or the list's head */
};

static void *sieve_create(const struct room *room)
{
    struct sieve *sieve = mem_zalloc(sizeof(*sieve));

    sieve->room = room;
    chain_init(&sieve->chain, room->key_count, 1);
    sieve->is_resident = mem_zalloc(room->key_count * sizeof(bool));
    sieve->is_visited = mem_zalloc(room->key_count * sizeof(bool));
    sieve->hand = room->key_count;
    return sieve;
}

static void sieve_destroy(void *state)
{
    struct sieve *sieve = state;

    chain_release(&sieve->chain);
    mem_free(sieve->is_resident);
    mem_free(sieve->is_visited);
    mem_free(sieve);
}

/* The hand goes from the oldest to the newest key, and begins again. */
static void sieve_evict(struct sieve *sieve)
{
    uint32_t key = sieve->hand < sieve->room->key_count ? sieve->hand : chain_first(&sieve->chain, 0);

    while (sieve->is_visited[key]) {
        sieve->is_visited[key] = false;
        key = sieve->chain.next[key];
        if (key >= sieve->room->key_count)
            key = chain_first(&sieve->chain, 0);
    }
    sieve->hand = sieve->chain.next[key];
    chain_remove(&sieve->chain, key);
    sieve->is_resident[key] = false;
    sieve->used -= sieve->room->sizes[key];
}

static bool sieve_request(void *state, const struct request *request)
{
    struct sieve *sieve = state;
    uint32_t key = request->key;

    if (sieve->is_resident[key]) {
        sieve->is_visited[key] = true;
        return true;
    }
    while (sieve->used > 0 && sieve->used + sieve->room->sizes[key] > sieve->room->capacity)
        sieve_evict(sieve);
    sieve->is_resident[key] = true;
    sieve->is_visited[key] = false;
    sieve->used += sieve->room->sizes[key];
    chain_append(&sieve->chain, 0, key);
    return false;
}

const struct policy_kind policy_sieve = { "SIEVE", sieve_create, sieve_destroy, sieve_request };

/* --- W-TinyLFU (Einziger, Friedman, Manes: "TinyLFU: A highly efficient cache admission policy", 2017) ---
 *
 * A window of a hundredth, LRU; the rest an SLRU of which four fifths are protected. What leaves the window competes with the first of the
 * probation by how often both were requested lately, by a count-min sketch of 4-bit counters that are halved after ten requests per key. */

enum { WINDOW, PROBATION, PROTECTED, SEGMENTS, NOWHERE = SEGMENTS };
enum { SKETCH_ROWS = 4, COUNTER_MAX = 15, SKETCH_PERIOD = 10, WINDOW_SHARE = 100 };

struct tinylfu {
    const struct room *room;
    struct chain chain;
    uint8_t *segment;           /* by key */
    uint64_t used[SEGMENTS], limits[SEGMENTS];
    uint8_t *sketch;
    uint32_t sketch_size;       /* counters of a row, a power of two */
    uint64_t sketched, period;
};

static void *tinylfu_create(const struct room *room)
{
    struct tinylfu *tinylfu = mem_zalloc(sizeof(*tinylfu));
    uint64_t sum = 0, keys;

    for (uint32_t key = 0; key < room->key_count; key++)
        sum += room->sizes[key];
    keys = (uint64_t)((double)room->capacity / (double)sum * room->key_count) + 1;
    tinylfu->room = room;
    chain_init(&tinylfu->chain, room->key_count, SEGMENTS);
    tinylfu->segment = mem_alloc(room->key_count);
    memset(tinylfu->segment, NOWHERE, room->key_count);
    tinylfu->limits[WINDOW] = room->capacity / WINDOW_SHARE;
    tinylfu->limits[PROTECTED] = (room->capacity - tinylfu->limits[WINDOW]) / 5 * 4;
    for (tinylfu->sketch_size = 16; tinylfu->sketch_size < keys; )
        tinylfu->sketch_size *= 2;
    tinylfu->sketch = mem_zalloc((size_t)SKETCH_ROWS * tinylfu->sketch_size);
    tinylfu->period = SKETCH_PERIOD * keys;
    return tinylfu;
}

static void tinylfu_destroy(void *state)
{
    struct tinylfu *tinylfu = state;

    chain_release(&tinylfu->chain);
    mem_free(tinylfu->segment);
    mem_free(tinylfu->sketch);
    mem_free(tinylfu);
}

static uint8_t *counter_of(struct tinylfu *tinylfu, uint32_t key, uint64_t row)
{
    uint64_t mixed = (key + 1 + (row << 32)) * UINT64_C(0x9e3779b97f4a7c15);

    mixed ^= mixed >> 29;
    mixed *= UINT64_C(0xbf58476d1ce4e5b9);
    return &tinylfu->sketch[row * tinylfu->sketch_size + (mixed >> 33 & (tinylfu->sketch_size - 1))];
}

static unsigned requests_of(struct tinylfu *tinylfu, uint32_t key)
{
    unsigned least = COUNTER_MAX;

    for (uint64_t row = 0; row < SKETCH_ROWS; row++) {
        unsigned count = *counter_of(tinylfu, key, row);

        least = count < least ? count : least;
    }
    return least;
}

static void sketch(struct tinylfu *tinylfu, uint32_t key)
{
    unsigned least = requests_of(tinylfu, key);

    for (uint64_t row = 0; row < SKETCH_ROWS; row++) {
        uint8_t *counter = counter_of(tinylfu, key, row);

        if (*counter == least && *counter < COUNTER_MAX)
            ++*counter;
    }
    if (++tinylfu->sketched < tinylfu->period)
        return;
    tinylfu->sketched /= 2;
    for (size_t i = 0; i < (size_t)SKETCH_ROWS * tinylfu->sketch_size; i++)
        tinylfu->sketch[i] >>= 1;
}

static void tinylfu_move(struct tinylfu *tinylfu, uint32_t key, uint8_t to)
{
    uint32_t size = tinylfu->room->sizes[key];

    if (tinylfu->segment[key] != NOWHERE) {
        chain_remove(&tinylfu->chain, key);
        tinylfu->used[tinylfu->segment[key]] -= size;
    }
    tinylfu->segment[key] = to;
    if (to == NOWHERE)
        return;
    chain_append(&tinylfu->chain, to, key);
    tinylfu->used[to] += size;
}

/* The key has left the window: it or others leave the memory. */
static void tinylfu_admit(struct tinylfu *tinylfu, uint32_t key)
{
    uint64_t most = tinylfu->room->capacity - tinylfu->limits[WINDOW];

    tinylfu_move(tinylfu, key, PROBATION);
    while (tinylfu->used[PROBATION] + tinylfu->used[PROTECTED] > most) {
        uint32_t victim = chain_first(&tinylfu->chain, PROBATION);

        if (victim == key)
            victim = tinylfu->used[PROTECTED] > 0 ? chain_first(&tinylfu->chain, PROTECTED) : key;
        if (victim == key || requests_of(tinylfu, key) <= requests_of(tinylfu, victim)) {
            tinylfu_move(tinylfu, key, NOWHERE);
            return;
        }
        tinylfu_move(tinylfu, victim, NOWHERE);
    }
}

static bool tinylfu_request(void *state, const struct request *request)
{
    struct tinylfu *tinylfu = state;
    uint32_t key = request->key;
    uint8_t segment = tinylfu->segment[key];

    sketch(tinylfu, key);
    tinylfu_move(tinylfu, key, segment == PROBATION || segment == PROTECTED ? PROTECTED : WINDOW);
    while (tinylfu->used[PROTECTED] > tinylfu->limits[PROTECTED])
        tinylfu_move(tinylfu, chain_first(&tinylfu->chain, PROTECTED), PROBATION);
    while (tinylfu->used[WINDOW] > tinylfu->limits[WINDOW])
        tinylfu_admit(tinylfu, chain_first(&tinylfu->chain, WINDOW));
    return segment != NOWHERE;
}

const struct policy_kind policy_tinylfu = { "W-TinyLFU", tinylfu_create, tinylfu_destroy, tinylfu_request };

/* --- Redis' allkeys-lfu: a logarithmic counter that time decrements; of a pool of the coldest keys of samples the coldest leaves --- */

enum { SAMPLES = 5, POOL = 16, LOG_FACTOR = 10, COUNTER_NEW = 5, COUNTER_TOP = 255 };

struct redis_lfu {
    const struct room *room;
    uint32_t *residents, *places;       /* residents in no order; by key, where it is among them, or NEVER */
    uint8_t *counters;
    uint16_t *minutes;
    uint32_t count;
    uint64_t used;
    uint32_t pool[POOL];        /* the coldest last */
    uint8_t pool_counters[POOL];
    int pool_count;
    struct random random;
};

static void *redis_lfu_create(const struct room *room)
{
    struct redis_lfu *lfu = mem_zalloc(sizeof(*lfu));

    lfu->room = room;
    lfu->residents = mem_alloc(room->key_count * sizeof(uint32_t));
    lfu->places = mem_alloc(room->key_count * sizeof(uint32_t));
    memset(lfu->places, 0xff, room->key_count * sizeof(uint32_t));
    lfu->counters = mem_zalloc(room->key_count);
    lfu->minutes = mem_zalloc(room->key_count * sizeof(uint16_t));
    random_init(&lfu->random, 4);
    return lfu;
}

static void redis_lfu_destroy(void *state)
{
    struct redis_lfu *lfu = state;

    mem_free(lfu->residents);
    mem_free(lfu->places);
    mem_free(lfu->counters);
    mem_free(lfu->minutes);
    mem_free(lfu);
}

static uint8_t decayed(const struct redis_lfu *lfu, uint32_t key, uint16_t minute)
{
    uint16_t passed = (uint16_t)(minute - lfu->minutes[key]);

    return lfu->counters[key] > passed ? (uint8_t)(lfu->counters[key] - passed) : 0;
}

/* Sorted by counter; the hottest falls out if there is no room. */
static void pool_add(struct redis_lfu *lfu, uint32_t key, uint8_t counter)
{
    int at = 0;

    while (at < lfu->pool_count && lfu->pool_counters[at] > counter)
        at++;
    if (lfu->pool_count == POOL && at == 0)
        return;
    if (lfu->pool_count == POOL) {
        memmove(lfu->pool, lfu->pool + 1, (size_t)(--at) * sizeof(lfu->pool[0]));
        memmove(lfu->pool_counters, lfu->pool_counters + 1, (size_t)at);
    } else {
        memmove(lfu->pool + at + 1, lfu->pool + at, (size_t)(lfu->pool_count - at) * sizeof(lfu->pool[0]));
        memmove(lfu->pool_counters + at + 1, lfu->pool_counters + at, (size_t)(lfu->pool_count - at));
        lfu->pool_count++;
    }
    lfu->pool[at] = key;
    lfu->pool_counters[at] = counter;
}

static bool pool_has(const struct redis_lfu *lfu, uint32_t key)
{
    for (int i = 0; i < lfu->pool_count; i++) {
        if (lfu->pool[i] == key)
            return true;
    }
    return false;
}

static void redis_lfu_evict(struct redis_lfu *lfu, uint16_t minute)
{
    uint32_t victim = NEVER, last;

    while (victim == NEVER) {
        for (int i = 0; i < SAMPLES; i++) {
            uint32_t key = lfu->residents[random_below(&lfu->random, lfu->count)];

            if (!pool_has(lfu, key))
                pool_add(lfu, key, decayed(lfu, key, minute));
        }
        while (victim == NEVER && lfu->pool_count > 0) {
            victim = lfu->pool[--lfu->pool_count];
            if (lfu->places[victim] == NEVER)
                victim = NEVER;
        }
    }
    last = lfu->residents[--lfu->count];
    lfu->residents[lfu->places[victim]] = last;
    lfu->places[last] = lfu->places[victim];
    lfu->places[victim] = NEVER;
    lfu->used -= lfu->room->sizes[victim];
}

static bool redis_lfu_request(void *state, const struct request *request)
{
    struct redis_lfu *lfu = state;
    uint32_t key = request->key;
    unsigned above;

    if (lfu->places[key] == NEVER) {
        while (lfu->count > 0 && lfu->used + lfu->room->sizes[key] > lfu->room->capacity)
            redis_lfu_evict(lfu, request->minute);
        lfu->places[key] = lfu->count;
        lfu->residents[lfu->count++] = key;
        lfu->used += lfu->room->sizes[key];
        lfu->counters[key] = COUNTER_NEW;
        lfu->minutes[key] = request->minute;
        return false;
    }
    lfu->counters[key] = decayed(lfu, key, request->minute);
    lfu->minutes[key] = request->minute;
    above = lfu->counters[key] > COUNTER_NEW ? (unsigned)lfu->counters[key] - COUNTER_NEW : 0;
    if (lfu->counters[key] < COUNTER_TOP && random_below(&lfu->random, (uint64_t)above * LOG_FACTOR + 1) == 0)
        lfu->counters[key]++;
    return true;
}

const struct policy_kind policy_redis_lfu = { "Redis LFU", redis_lfu_create, redis_lfu_destroy, redis_lfu_request };
