/* Stuck: whether demotion can still make room, and how often it tries when it can't.
 *
 * Demotion is stuck when a pass over all hot keys found nothing to move, although memory is above the mark: what is left is the
 * server's own memory, or keys that can't be written. No client waits for memory then; maxmemory-policy decides. A pass that passed over
 * keys which are held for the moment (pinned, being written, waiting for a checkpoint), or that ended while LevelDB was about
 * to give back a memtable, proves nothing: then it takes STUCK_HELD_MS or STUCK_FLUSHING_MS without progress.
 *
 * The state ends when memory is below maxmemory, or when demotion makes progress again. While it lasts, memory that has
 * grown by a step since the last pass is worth waiting for: so a replay goes on at full speed up to the next step, instead
 * of waiting for each key.
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
    /* The writer's. */
    uint64_t held_count;            /* entries held for the moment that demotion met since its last progress */
    int64_t since_us;               /* of the first pass without progress; 0: the last one made some */
    int64_t pause_until_us;         /* no pass before */
    int64_t began_us;               /* of the current pass */
    uint64_t windows;               /* looked at in each keyspace since the last progress */
};

/* Too early for another pass. */
bool stuck_pauses(struct tier *tier);
/* Memory is below the mark, there is nothing to demote. */
void stuck_end(struct tier *tier);
/* Something was demoted. */
void stuck_progress(struct tier *tier);
/* An entry was passed over that is held for the moment. */
static inline void stuck_note_held(struct stuck *stuck)
{
    stuck->held_count++;
}
/* One more window of each keyspace was looked at and nothing was demoted. True: that was a whole pass, the writer should rest; the state, and
 * the time of the next pass, are set, and clients that wait for memory are woken if they do not have to wait any more. */
bool stuck_fruitless(struct tier *tier);

#endif
