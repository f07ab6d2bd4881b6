/* Hot keys: the keys on which commands spent the most time, or that took the most bytes of requests and replies, while a session of
 * HOTKEYS runs. (What demotion goes by is kept all the time: keyspace/uses.h.)
 *
 * Each metric has a Space-Saving summary (Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in data
 * streams", 2005) of HOT_KEYS_TRACKED keys: a key that comes when all counters are taken gets the smallest one, and the weight that this had
 * is the error of its own. What is reported is the weight without the error: never more than was measured for the key.
 *
 * Threads: any; a leaf lock. Nothing but one flag is read while no session runs. Memory: HOT_KEYS_TRACKED names of at most
 * HOT_KEYS_NAME_SIZE_MAX bytes for each metric; longer names are not tracked.
 */
#ifndef KELVIN_STATS_HOT_KEYS_H
#define KELVIN_STATS_HOT_KEYS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/siphash.h"

enum { HOT_KEYS_TRACKED = 1024, HOT_KEYS_NAME_SIZE_MAX = 1024, HOT_KEYS_COUNT_MAX = 64 };
enum hot_metric { HOT_TIME, HOT_BYTES, HOT_METRICS };

struct hot_keys;

struct hot_keys_plan {
    bool metrics[HOT_METRICS];
    uint32_t count;                 /* keys to report: 1 to HOT_KEYS_COUNT_MAX */
    int64_t duration_ms;            /* 0: until it is stopped */
    int64_t started_ms;             /* wall clock; only shown */
    uint64_t sample;                /* one of this many calls is noted, and counts as this many */
};

struct hot_key {
    struct bytes name;
    uint64_t weight;                /* ns or bytes */
};

struct hot_keys_report {
    bool active;
    struct hot_keys_plan plan;
    int64_t duration_ms;                            /* how long it has run */
    uint64_t user_ms, system_ms;                    /* CPU time of the process in that time */
    uint64_t total[HOT_METRICS];                    /* of all calls */
    struct hot_key *keys[HOT_METRICS];              /* largest first */
    size_t key_count[HOT_METRICS];
};

struct hot_keys *hot_keys_create(const struct hash_seed *seed);
void hot_keys_destroy(struct hot_keys *keys);       /* NULL is fine */

/* `now_ms` is of the monotonic clock. Begins a session, in place of one that has ended. False: one is active. */
bool hot_keys_start(struct hot_keys *keys, const struct hot_keys_plan *plan, int64_t now_ms);
/* Ends it; what it has found stays. False: there is no session, not even one that has ended. */
bool hot_keys_stop(struct hot_keys *keys, int64_t now_ms);
/* Forgets a session that has ended. False: it is active. */
bool hot_keys_reset(struct hot_keys *keys, int64_t now_ms);
/* False: there is no session. The report is to be released. */
bool hot_keys_report(struct hot_keys *keys, int64_t now_ms, struct hot_keys_report *report);
void hot_keys_report_release(struct hot_keys_report *report);

/* A call has ended that took this long and this many bytes; in equal parts for its keys. */
void hot_keys_note(struct hot_keys *keys, int64_t now_ms, const struct bytes *names, size_t count, uint64_t ns, uint64_t bytes);

/* The first field of struct hot_keys, so that each call can ask inline. */
struct hot_keys_flag {
    _Atomic bool active;
};
static inline bool hot_keys_are_tracked(const struct hot_keys *keys)
{
    return keys != NULL && atomic_load_explicit(&((const struct hot_keys_flag *)keys)->active, memory_order_relaxed);
}

#endif
