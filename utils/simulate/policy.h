/* Policy: what the simulator compares. A policy decides which keys are in memory; it is given every request. A key's first request creates it. */
#ifndef KELVIN_SIMULATE_POLICY_H
#define KELVIN_SIMULATE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* One request. Keys are numbered in the order of the hashes of the tables, which tells nothing about their popularity or age. */
struct request {
    uint32_t key;
    uint32_t rank;              /* 0: the most popular key at present; known to `static` only */
    uint16_t minute;            /* of the clock */
};

struct policy_kind {
    const char *name;
    void *(*create)(uint32_t key_count, uint32_t capacity);
    void (*destroy)(void *state);
    bool (*request)(void *state, const struct request *request);       /* true: the key was in memory */
};

/* Policies of others, and that of Kelvin. */
extern const struct policy_kind policy_static, policy_lru, policy_s3fifo, policy_lfu, policy_kelvin;

#endif
