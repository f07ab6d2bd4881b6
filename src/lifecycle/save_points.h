/* Save points: after how many seconds with how many changes a dump is due. `save 3600 1 300 100` is two of them. */
#ifndef KELVIN_LIFECYCLE_SAVE_POINTS_H
#define KELVIN_LIFECYCLE_SAVE_POINTS_H

#include <stdbool.h>
#include <stdint.h>

struct save_point {
    int64_t seconds;
    uint64_t changes;
};

/* `text` is the configuration's: pairs of numbers; "" has none. */
bool save_points_are(const char *text);

/* The first point that is reached by `changes` and `idle_ms` since the last dump: more than its seconds, at least its changes. False:
 * none is. */
bool save_points_due(const char *text, uint64_t changes, int64_t idle_ms, struct save_point *due);

#endif
