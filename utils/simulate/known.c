/* The policies that others are measured by: the best static choice, LRU, LFU with exact counts of all keys, S3-FIFO. */
#include "base/mem.h"
#include "chain.h"
#include "policy.h"

enum { COUNTS = 1 << 16 };      /* LFU: higher counts share a list */
enum { SMALL, LARGE };          /* S3-FIFO's queues */
enum { SMALL_SHARE = 10, USES_MAX = 3 };

struct known {
    struct chain chain;
    const struct room *room;
    uint64_t used;              /* size of the residents */
    bool *is_resident;
    uint32_t *uses;
    /* LFU */
    uint32_t least;             /* no resident has a lower count */
    /* S3-FIFO */
    uint8_t *queue;
    uint64_t sizes[2];
    uint64_t *left_at, left;    /* the ghost: when the key left the small queue, by the size of all that did; 0: it has not */
};

static void *known_create(const struct room *room, uint32_t list_count)
{
    struct known *known = mem_zalloc(sizeof(*known));
    uint32_t key_count = room->key_count;

    chain_init(&known->chain, key_count, list_count);
    known->room = room;
    known->is_resident = mem_zalloc(key_count * sizeof(*known->is_resident));
    known->uses = mem_zalloc(key_count * sizeof(*known->uses));
    known->queue = mem_zalloc(key_count * sizeof(*known->queue));
    known->left_at = mem_zalloc(key_count * sizeof(*known->left_at));
    return known;
}

static void known_destroy(void *state)
{
    struct known *known = state;

    chain_release(&known->chain);
    mem_free(known->is_resident);
    mem_free(known->uses);
    mem_free(known->queue);
    mem_free(known->left_at);
    mem_free(known);
}

/* --- static: for keys of the size 1 --- */

static void *static_create(const struct room *room)
{
    struct known *known = mem_zalloc(sizeof(*known));

    known->room = room;
    return known;
}

static void static_destroy(void *state)
{
    mem_free(state);
}

static bool static_request(void *state, const struct request *request)
{
    struct known *known = state;

    return request->rank < known->room->capacity;
}

const struct policy_kind policy_static = { "static", static_create, static_destroy, static_request };

/* --- LRU --- */

static void *lru_create(const struct room *room)
{
    return known_create(room, 1);
}

static bool lru_request(void *state, const struct request *request)
{
    struct known *known = state;
    uint32_t key = request->key;
    bool was_resident = known->is_resident[key];

    if (was_resident)
        chain_remove(&known->chain, key);
    else
        known->used += known->room->sizes[key];
    while (known->used > known->room->capacity && chain_first(&known->chain, 0) != UINT32_MAX) {
        uint32_t victim = chain_first(&known->chain, 0);

        chain_remove(&known->chain, victim);
        known->is_resident[victim] = false;
        known->used -= known->room->sizes[victim];
    }
    known->is_resident[key] = true;
    chain_append(&known->chain, 0, key);
    return was_resident;
}

const struct policy_kind policy_lru = { "LRU", lru_create, known_destroy, lru_request };

/* --- LFU --- */

static void *lfu_create(const struct room *room)
{
    return known_create(room, COUNTS);
}

static void lfu_evict(struct known *known)
{
    uint32_t victim;

    while ((victim = chain_first(&known->chain, known->least)) == UINT32_MAX)
        known->least++;
    chain_remove(&known->chain, victim);
    known->is_resident[victim] = false;
    known->used -= known->room->sizes[victim];
}

/* The new key is among those that may leave: the one of the lowest count, of several the one used least recently. */
static bool lfu_request(void *state, const struct request *request)
{
    struct known *known = state;
    uint32_t key = request->key, uses = known->uses[key];
    bool was_resident = known->is_resident[key];

    if (was_resident)
        chain_remove(&known->chain, key);
    else
        known->used += known->room->sizes[key];
    known->is_resident[key] = true;
    if (uses < COUNTS - 1)
        uses = ++known->uses[key];
    chain_append(&known->chain, uses, key);
    if (uses < known->least)
        known->least = uses;
    while (known->used > known->room->capacity)
        lfu_evict(known);
    return was_resident;
}

const struct policy_kind policy_lfu = { "LFU", lfu_create, known_destroy, lfu_request };

/* --- S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction", 2023) --- */

static void *s3fifo_create(const struct room *room)
{
    return known_create(room, 2);
}

static void s3fifo_push(struct known *known, uint8_t queue, uint32_t key)
{
    chain_append(&known->chain, queue, key);
    known->queue[key] = queue;
    known->sizes[queue] += known->room->sizes[key];
}

static uint32_t s3fifo_pop(struct known *known, uint8_t queue)
{
    uint32_t key = chain_first(&known->chain, queue);

    chain_remove(&known->chain, key);
    known->sizes[queue] -= known->room->sizes[key];
    return key;
}

static void s3fifo_evict(struct known *known)
{
    while (known->sizes[SMALL] > 0 && known->sizes[SMALL] >= known->room->capacity / SMALL_SHARE) {
        uint32_t key = s3fifo_pop(known, SMALL);

        if (known->uses[key] > 1) {
            s3fifo_push(known, LARGE, key);
            known->uses[key] = 0;
            continue;
        }
        known->is_resident[key] = false;
        known->left += known->room->sizes[key];
        known->left_at[key] = known->left;
        return;
    }
    for (;;) {
        uint32_t key = s3fifo_pop(known, LARGE);

        if (known->uses[key] == 0) {
            known->is_resident[key] = false;
            return;
        }
        known->uses[key]--;
        s3fifo_push(known, LARGE, key);
    }
}

static bool s3fifo_request(void *state, const struct request *request)
{
    struct known *known = state;
    uint32_t key = request->key;
    uint64_t ghosts = known->room->capacity - known->room->capacity / SMALL_SHARE;
    bool is_ghost = known->left_at[key] > 0 && known->left - known->left_at[key] < ghosts;

    if (known->is_resident[key]) {
        if (known->uses[key] < USES_MAX)
            known->uses[key]++;
        return true;
    }
    while (known->sizes[SMALL] + known->sizes[LARGE] + known->room->sizes[key] > known->room->capacity)
        s3fifo_evict(known);
    known->is_resident[key] = true;
    known->uses[key] = 0;
    known->left_at[key] = 0;
    s3fifo_push(known, is_ghost ? LARGE : SMALL, key);
    return false;
}

const struct policy_kind policy_s3fifo = { "S3-FIFO", s3fifo_create, known_destroy, s3fifo_request };
