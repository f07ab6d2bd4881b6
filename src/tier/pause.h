/* Pause: how long a thread that works for a checkpoint waits between two steps, so that it takes of the CPUs what the workers leave, and clients
 * do not wait for it. Each thread has its own.
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

enum {
    PAUSE_STEP_US = 200,            /* how long a step takes, about: clients may wait for the CPU meanwhile */
    PAUSE_STEP_US_MAX = 50000,
};

/* How long a step may take if the thread's other work, between this step and the one before it, took `other_us`: a fifth of the time of both,
 * PAUSE_STEP_US at least, PAUSE_STEP_US_MAX at most. So a checkpoint has its share of the time while demotion is continuous. */
int64_t pause_step_us(int64_t other_us);

/* A step begins. */
void pause_begin_step(struct pause *pause);
/* Ends a step. Returns how long to wait, in microseconds. */
int64_t pause_after_step(struct pause *pause, const struct tier_hooks *hooks);

/* Other work of the thread, in the middle of a step: its CPU time is left out. `pause_other_begin` returns what the end needs. */
int64_t pause_other_begin(void);
void pause_other_end(struct pause *pause, int64_t begun_ns);

/* The same if the step has taken PAUSE_STEP_US of CPU time, else 0: it goes on. */
int64_t pause_due(struct pause *pause, const struct tier_hooks *hooks);
/* The same, and waits; then the next step begins. The caller holds no lock. */
void pause_if_due(struct pause *pause, const struct tier_hooks *hooks);

/* The rule: what a step that took `worked_us` of CPU time is followed by. The writer gets what is free, but an eighth of the time at least, so
 * that the checkpoint ends, and two thirds at most. */
int64_t pause_length(int64_t worked_us, int64_t free_percent);

#endif
