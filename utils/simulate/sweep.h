/* Sweep: demotion's way through the tables, as in src/tier/demotion.c: from above the high mark to the low one, window by window in the
 * order of the hashes, each window giving its share. */
#ifndef KELVIN_SIMULATE_SWEEP_H
#define KELVIN_SIMULATE_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "policy.h"

enum { SWEEP_WINDOW_MAX = 576 };

struct sweep {
    const struct room *room;
    bool *is_resident;
    uint32_t count;             /* residents */
    uint64_t used;              /* their size */
    uint64_t high, low;         /* marks, of `used` */
    uint32_t next;              /* key */
    struct random random;
};

/* Demotes `quota` of the keys by sweep_remove. */
typedef void sweep_window(void *state, const uint32_t *keys, int count, int quota);

/* The room's capacity is used on average. */
void sweep_init(struct sweep *sweep, const struct room *room);
void sweep_release(struct sweep *sweep);
void sweep_add(struct sweep *sweep, uint32_t key);
void sweep_remove(struct sweep *sweep, uint32_t key);
static inline bool sweep_has(const struct sweep *sweep, uint32_t key) { return sweep->is_resident[key]; }
/* Demotes, if it is time. */
void sweep_run(struct sweep *sweep, sweep_window *window, void *state);

#endif
