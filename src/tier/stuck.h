/* Stuck: whether demotion can still make room, and how often it tries when it can't.
 *
 * Demotion is stuck when passes over all hot keys free next to nothing, although memory is above the mark: what is left is the
 * server's own memory, or keys that can't be written. No client waits for memory then; maxmemory-policy decides. Next to nothing is less than
 * a growth step, and than what is needed: reads promote keys all the time, and to free these few again is no progress. A pass that
 * freed something, that passed over keys which are held for the moment (pinned, being written, waiting for a checkpoint), or that ended while
 * the newest keys of the index were being written to a file, proves nothing: then it takes STUCK_HELD_MS or STUCK_FLUSHING_MS of such passes.
 *
 * The state ends when memory is below maxmemory, or when demotion makes progress again. While it lasts, memory that has
 * grown by a step since the last pass is worth waiting for: so a replay goes on at full speed up to the next step, instead
 * of waiting for each key. So are heaps that have grown by a step, whatever the rest has given back: a value that was too large got into pages.
 *
 * Owner: the writer. tier_is_stuck (tier.h) reads it on any thread.
 */
#ifndef KELVIN_TIER_STUCK_H
#define KELVIN_TIER_STUCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tier;

enum {
    STUCK_HELD_MS = 2000,
    STUCK_FLUSHING_MS = 10000,      /* a memtable may hold a value of hundreds of megabytes */
    STUCK_SETTLE_MS = 20,           /* memory that is just being freed on other threads gets this time */
    STUCK_PAUSE_MS = 10,            /* between two passes without progress */
    STUCK_RETRY_MS = 100,           /* the same when stuck and memory has not grown */
    STUCK_PAUSE_SHARE = 10,         /* a pause is at least as many times the pass before it: bounds the CPU this takes */
};

struct stuck {
    _Atomic bool is_stuck;          /* nothing more could be demoted, though memory is over the mark */
    _Atomic uint64_t bytes;         /* memory that was used then */
    _Atomic uint64_t heap_bytes;    /* of it in heaps */
    /* The writer's. */
    uint64_t held_count;            /* entries held for the moment that demotion met since its last progress */
    int64_t since_us;               /* end of the first pass that freed next to nothing; 0: the last one freed more */
    int64_t pause_until_us;         /* no pass before */
    int64_t began_us;               /* of the current pass */
    uint64_t windows;               /* looked at in each keyspace in this pass */
    uint64_t freed;                 /* bytes in this pass */
    bool has_freed;                 /* a pass since since_us freed something */
};

/* Too early for another pass. */
bool stuck_pauses(struct tier *tier);
/* Memory is below the mark, there is nothing to demote. */
void stuck_end(struct tier *tier);
/* An entry was passed over that is held for the moment. */
static inline void stuck_note_held(struct stuck *stuck)
{
    stuck->held_count++;
}
/* A window has more that can go than is taken under one hold of a lock, so the pass has not seen all: of a large value in pages all are in one
 * partition. */
static inline void stuck_note_cut(struct stuck *stuck)
{
    stuck->windows = 0;
}
/* The last pass freed next to nothing, so the next one is to take every key that it can. */
static inline bool stuck_is_likely(const struct stuck *stuck)
{
    return stuck->since_us != 0;
}
/* A batch has freed `freed` bytes of the `need` that are over the low mark. `is_round`: it has looked at a window of each keyspace. True: the
 * second pass in sequence that freed next to nothing has ended, the writer should rest; the state, and the time of the next pass, are set, and
 * clients that wait for memory are woken if they do not have to wait any more. */
bool stuck_note_batch(struct tier *tier, uint64_t freed, uint64_t need, bool is_round);

#endif
