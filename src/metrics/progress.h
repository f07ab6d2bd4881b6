/* Progress: what is under way that ends by itself, how far it has come, and how long it will still take.
 *
 * Owner: kelvin-page. What is left is estimated from what was done since a page first showed it.
 */
#ifndef KELVIN_METRICS_PROGRESS_H
#define KELVIN_METRICS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct document;
struct readings;

enum progress_kind { PROGRESS_LOADING, PROGRESS_SYNC, PROGRESS_WARMUP, PROGRESS_CHECKPOINT, PROGRESS_SAVE, PROGRESS_BACKUP, PROGRESS_KINDS };

/* All zero is ready for use. */
struct progress_list {
    struct progress {
        bool runs;
        int64_t since_us;           /* monotonic: when it was first seen to run ... */
        uint64_t first, last;       /* ... what was done then, and at the last look */
    } at[PROGRESS_KINDS];
};

/* Appends an array "progress" of objects: kind, what, unit ("bytes", "keys"), done, total, seconds_left. The last two are null as long as they are not known. */
void progress_write(struct document *json, struct progress_list *list, const struct readings *readings);

/* Seconds until `total`, from what was done before; below 0: not known yet. For tests. */
double progress_left(struct progress *progress, int64_t now_us, uint64_t done, uint64_t total);

#endif
