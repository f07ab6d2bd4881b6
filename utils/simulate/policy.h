/* Policy: what the simulator compares. A policy decides which keys are in memory; it is given every request. A key's first request creates it. */
#ifndef KELVIN_SIMULATE_POLICY_H
#define KELVIN_SIMULATE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

enum { NEVER = 0xffffffff };

/* One request. Keys are numbered in the order of the hashes of the tables, which tells nothing about their popularity or age. */
struct request {
    uint32_t key;
    uint32_t rank;              /* 0: the most popular key at present; known to `static` only */
    uint32_t now, next;         /* the number of this request, and of the next one of the key, or NEVER; known to `Belady` only */
    uint16_t minute;            /* of the clock */
};

/* The keys, and the memory for them. */
struct room {
    uint32_t key_count;
    const uint32_t *sizes;      /* by key */
    uint64_t capacity;          /* in the unit of the sizes */
};

struct policy_kind {
    const char *name;
    void *(*create)(const struct room *room);       /* `room` lives longer */
    void (*destroy)(void *state);
    bool (*request)(void *state, const struct request *request);       /* true: the key was in memory */
};

/* Policies of others, and that of Kelvin. */
extern const struct policy_kind policy_belady, policy_static, policy_lru, policy_redis_lfu, policy_s3fifo, policy_sieve, policy_tinylfu, policy_lfu,
    policy_kelvin;

#endif
