/* Sweep: demotion's way through the tables, as in src/tier/demotion.c: from above the high mark to the low one, window by window in the
 * order of the hashes, each window giving its share. */
#ifndef KELVIN_SIMULATE_SWEEP_H
#define KELVIN_SIMULATE_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"

enum { SWEEP_WINDOW_MAX = 576 };

struct sweep {
    bool *is_resident;
    uint32_t key_count, count;
    uint32_t high, low;         /* marks, keys */
    uint32_t next;              /* key */
    uint64_t share;             /* of 1024 */
    struct random random;
};

/* Demotes `quota` of the keys by sweep_remove. */
typedef void sweep_window(void *state, const uint32_t *keys, int count, int quota);

/* `capacity`: how many keys are in memory on average. */
void sweep_init(struct sweep *sweep, uint32_t key_count, uint32_t capacity);
void sweep_release(struct sweep *sweep);
void sweep_add(struct sweep *sweep, uint32_t key);
void sweep_remove(struct sweep *sweep, uint32_t key);
static inline bool sweep_has(const struct sweep *sweep, uint32_t key) { return sweep->is_resident[key]; }
/* Demotes, if it is time. */
void sweep_run(struct sweep *sweep, sweep_window *window, void *state);

#endif
