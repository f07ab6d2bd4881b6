/* Pause: how long the writer waits between two steps of a checkpoint, so that it takes of the CPUs what the workers leave, and clients do not
 * wait for it. The writer only.
 */
#ifndef KELVIN_TIER_PAUSE_H
#define KELVIN_TIER_PAUSE_H

#include <stdint.h>

struct tier_hooks;

struct pause {
    int64_t sampled_us;             /* when the workers were looked at, monotonic clock ... */
    uint64_t busy_us;               /* ... and how long they had been busy until then */
    int64_t free_percent;           /* of one CPU, that they left between the last two samples; of several CPUs, more than 100 */
    int64_t begun_ns;               /* CPU time of this thread when the step began */
};

void pause_init(struct pause *pause);

/* A step begins. */
void pause_begin_step(struct pause *pause);
/* It has ended. Returns how long to wait, in microseconds. */
int64_t pause_after_step(struct pause *pause, const struct tier_hooks *hooks);

/* The rule: what a step that took `worked_us` of CPU time is followed by. The writer gets what is free, but a seventh of the time at least, so
 * that the checkpoint ends, and two thirds at most. */
int64_t pause_length(int64_t worked_us, int64_t free_percent);

#endif
