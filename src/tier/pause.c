#include "tier/pause.h"

#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "tier/tier.h"

enum {
    SAMPLE_US = 20000,              /* the workers are looked at so often */
    SHARE_MIN = 12,                 /* percent */
    SHARE_MAX = 67,
    PAUSE_MAX_US = 20000,
    OTHER_SHARE = 4,                /* of the other work's time, a quarter */
};

static int64_t thread_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* A worker that waits for a CPU in its turn counts as busy: that is the writer's fault, perhaps. */
static void sample(struct pause *pause, const struct tier_hooks *hooks)
{
    int64_t now_us = clock_mono_us(), elapsed_us = now_us - pause->sampled_us;
    uint64_t busy_us;

    if (elapsed_us < SAMPLE_US)
        return;
    busy_us = hooks->busy_us != NULL ? hooks->busy_us(hooks->context) : 0;
    if (busy_us >= pause->busy_us)          /* CONFIG RESETSTAT sets it to 0 */
        pause->free_percent = 100 * thread_cpus() - (int64_t)((double)(busy_us - pause->busy_us) * 100 / (double)elapsed_us);
    pause->busy_us = busy_us;
    pause->sampled_us = now_us;
}

void pause_init(struct pause *pause)
{
    *pause = (struct pause){ .free_percent = 100 };
}

void pause_begin_step(struct pause *pause)
{
    pause->begun_ns = thread_ns();
}

int64_t pause_after_step(struct pause *pause, const struct tier_hooks *hooks)
{
    sample(pause, hooks);
    return pause_length((thread_ns() - pause->begun_ns) / 1000, pause->free_percent);
}

int64_t pause_step_us(int64_t other_us)
{
    int64_t step_us = other_us / OTHER_SHARE;

    if (step_us < PAUSE_STEP_US)
        return PAUSE_STEP_US;
    return step_us < PAUSE_STEP_US_MAX ? step_us : PAUSE_STEP_US_MAX;
}

int64_t pause_other_begin(void)
{
    return thread_ns();
}

void pause_other_end(struct pause *pause, int64_t begun_ns)
{
    pause->begun_ns += thread_ns() - begun_ns;
}

int64_t pause_due(struct pause *pause, const struct tier_hooks *hooks)
{
    return thread_ns() - pause->begun_ns < PAUSE_STEP_US * 1000 ? 0 : pause_after_step(pause, hooks);
}

void pause_if_due(struct pause *pause, const struct tier_hooks *hooks)
{
    struct timespec time = { 0, 1000 * pause_due(pause, hooks) };

    if (time.tv_nsec == 0)
        return;
    nanosleep(&time, NULL);
    pause_begin_step(pause);
}

int64_t pause_length(int64_t worked_us, int64_t free_percent)
{
    int64_t share = free_percent, pause_us;

    if (share < SHARE_MIN)
        share = SHARE_MIN;
    if (share > SHARE_MAX)
        share = SHARE_MAX;
    pause_us = worked_us * (100 - share) / share;
    return pause_us < PAUSE_MAX_US ? pause_us : PAUSE_MAX_US;
}
