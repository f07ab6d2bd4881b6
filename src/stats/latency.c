#include "stats/latency.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/mutex.h"

struct latency {
    struct mutex lock;
    struct latency_event *events[LATENCY_EVENTS_MAX];       /* lock; by name */
    size_t count;                                           /* lock */
};

struct latency *latency_create(void)
{
    struct latency *latency = mem_zalloc(sizeof(*latency));

    mutex_init(&latency->lock);
    return latency;
}

void latency_destroy(struct latency *latency)
{
    if (latency == NULL)
        return;
    latency_reset_all(latency);
    mutex_release(&latency->lock);
    mem_free(latency);
}

/* The index where the event is or has to be inserted. */
static size_t place_of(const struct latency *latency, const char *name)
{
    size_t at = 0;

    while (at < latency->count && strcmp(latency->events[at]->name, name) < 0)
        at++;
    return at;
}

static struct latency_event *event_of(struct latency *latency, const char *given)
{
    char name[LATENCY_NAME_SIZE_MAX + 1];
    size_t at;

    snprintf(name, sizeof(name), "%s", given);
    at = place_of(latency, name);
    if (at < latency->count && strcmp(latency->events[at]->name, name) == 0)
        return latency->events[at];
    if (latency->count == LATENCY_EVENTS_MAX)
        return NULL;
    memmove(&latency->events[at + 1], &latency->events[at], (latency->count - at) * sizeof(latency->events[0]));
    latency->events[at] = mem_zalloc(sizeof(struct latency_event));
    memcpy(latency->events[at]->name, name, sizeof(name));
    latency->count++;
    return latency->events[at];
}

void latency_note(struct latency *latency, const char *event, int64_t ms)
{
    latency_note_at(latency, event, ms, clock_wall_ms() / 1000);
}

static void add_sample(struct latency_event *event, int64_t ms, int64_t time_s)
{
    struct latency_sample *last = event->count > 0 ? &event->samples[event->count - 1] : NULL;

    if (ms > event->worst_ms)
        event->worst_ms = ms;
    if (last != NULL && last->time_s == time_s) {
        if (ms > last->ms)
            last->ms = ms;
        return;
    }
    if (event->count == LATENCY_SAMPLES) {
        memmove(&event->samples[0], &event->samples[1], (LATENCY_SAMPLES - 1) * sizeof(event->samples[0]));
        event->count--;
    }
    event->samples[event->count++] = (struct latency_sample){ time_s, ms };
}

void latency_note_at(struct latency *latency, const char *name, int64_t ms, int64_t time_s)
{
    struct latency_event *event;

    mutex_lock(&latency->lock);
    event = event_of(latency, name);
    if (event != NULL)
        add_sample(event, ms, time_s);
    mutex_unlock(&latency->lock);
}

size_t latency_events(struct latency *latency, struct latency_event **events)
{
    size_t count;

    mutex_lock(&latency->lock);
    count = latency->count;
    *events = count > 0 ? mem_alloc(count * sizeof(**events)) : NULL;
    for (size_t i = 0; i < count; i++)
        (*events)[i] = *latency->events[i];
    mutex_unlock(&latency->lock);
    return count;
}

/* Returns latency->count if there is none. */
static size_t find_event(const struct latency *latency, struct bytes name)
{
    for (size_t i = 0; i < latency->count; i++) {
        if (bytes_is(name, latency->events[i]->name))
            return i;
    }
    return latency->count;
}

bool latency_find(struct latency *latency, struct bytes name, struct latency_event *event)
{
    size_t at;
    bool found;

    mutex_lock(&latency->lock);
    at = find_event(latency, name);
    found = at < latency->count;
    if (found)
        *event = *latency->events[at];
    mutex_unlock(&latency->lock);
    return found;
}

size_t latency_reset(struct latency *latency, struct bytes name)
{
    size_t at, found = 0;

    mutex_lock(&latency->lock);
    at = find_event(latency, name);
    if (at < latency->count) {
        mem_free(latency->events[at]);
        latency->count--;
        memmove(&latency->events[at], &latency->events[at + 1], (latency->count - at) * sizeof(latency->events[0]));
        found = 1;
    }
    mutex_unlock(&latency->lock);
    return found;
}

size_t latency_reset_all(struct latency *latency)
{
    size_t count;

    mutex_lock(&latency->lock);
    count = latency->count;
    for (size_t i = 0; i < count; i++)
        mem_free(latency->events[i]);
    latency->count = 0;
    mutex_unlock(&latency->lock);
    return count;
}
