/* Latency: events that took longer than latency-monitor-threshold. For each kind of event ("command", "fast-command",
 * "expire-cycle" ...) it has the last samples: at most one per second, the slowest of that second.
 *
 * Threads: any; a leaf lock. Memory: at most LATENCY_EVENTS_MAX events of about 3 KB; further kinds are not recorded.
 */
#ifndef KELVIN_STATS_LATENCY_H
#define KELVIN_STATS_LATENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum { LATENCY_SAMPLES = 160, LATENCY_EVENTS_MAX = 32, LATENCY_NAME_SIZE_MAX = 31 };

struct latency;

struct latency_sample {
    int64_t time_s;             /* wall clock */
    int64_t ms;
};

struct latency_event {
    char name[LATENCY_NAME_SIZE_MAX + 1];
    int64_t worst_ms;           /* of all samples since the last reset, including those dropped */
    size_t count;               /* number of samples, at least 1 */
    struct latency_sample samples[LATENCY_SAMPLES];     /* oldest first */
};

struct latency *latency_create(void);
void latency_destroy(struct latency *latency);          /* NULL is fine */

void latency_note(struct latency *latency, const char *event, int64_t ms);      /* now */
void latency_note_at(struct latency *latency, const char *event, int64_t ms, int64_t time_s);

/* Sets *events to copies of all events, in alphabetical order, to be freed with mem_free, and returns their number. NULL if
 * there are none. */
size_t latency_events(struct latency *latency, struct latency_event **events);
/* Copies the event with this name, case-insensitively; false if there is none. */
bool latency_find(struct latency *latency, struct bytes name, struct latency_event *event);

/* Deletes one event, or all. Returns the number of deleted events. */
size_t latency_reset(struct latency *latency, struct bytes name);
size_t latency_reset_all(struct latency *latency);

#endif
