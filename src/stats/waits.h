/* Waits: how long calls have waited before they could run, by what they waited for. Blocking commands that wait for an element are not
 * among them: they are meant to wait.
 *
 * Threads: any; relaxed atomics. Memory: fixed.
 */
#ifndef KELVIN_STATS_WAITS_H
#define KELVIN_STATS_WAITS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/bytes.h"
#include "call/client.h"
#include "call/command_stats.h"

struct waits;

struct waits *waits_create(void);
void waits_destroy(struct waits *waits);            /* NULL is fine */

/* A call has ended that waited this long in all. */
void waits_note(struct waits *waits, enum wait_reason reason, int64_t us);
void waits_reset(struct waits *waits);

/* LATENCY_BUCKETS counters by nanoseconds, as those of commands (call/command_stats.h). */
const _Atomic uint64_t *waits_histogram(const struct waits *waits, enum wait_reason reason);
uint64_t waits_sum_us(const struct waits *waits, enum wait_reason reason);      /* of all that are in it */

struct waits_summary {
    uint64_t calls, p50_us, p99_us;                 /* 0: there were none */
};
struct waits_summary waits_summarize(const struct waits *waits, enum wait_reason reason);

/* "cold-wait" ...: the event in LATENCY. */
const char *wait_name(enum wait_reason reason);
/* WAIT_REASONS: no reason has this name. Case does not matter. */
enum wait_reason wait_find(struct bytes name);

#endif
