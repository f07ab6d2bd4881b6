/* Latency: when something took longer than latency-monitor-threshold: for each kind of event ("command", "fast-command",
 * "expire-cycle" ...) its last samples, at most one a second, the worst of that second.
 *
 * Threads: any; a leaf lock. Memory: at most LATENCY_EVENTS_MAX events of some 3 KB; a further kind is not kept.
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
    int64_t worst_ms;           /* of all since the last reset, whether or not its sample is still here */
    size_t count;               /* of samples, at least 1 */
    struct latency_sample samples[LATENCY_SAMPLES];     /* oldest first */
};

struct latency *latency_create(void);
void latency_destroy(struct latency *latency);          /* NULL is fine */

void latency_note(struct latency *latency, const char *event, int64_t ms);      /* now */
void latency_note_at(struct latency *latency, const char *event, int64_t ms, int64_t time_s);

/* Copies of the events, in alphabetical order. Returns how many there are; NULL if there are none. Freed with mem_free. */
size_t latency_events(struct latency *latency, struct latency_event **events);
/* One of them, in any case; false if there is none. */
bool latency_find(struct latency *latency, struct bytes name, struct latency_event *event);

/* Forgets one event, or all. Returns how many there were. */
size_t latency_reset(struct latency *latency, struct bytes name);
size_t latency_reset_all(struct latency *latency);

#endif
