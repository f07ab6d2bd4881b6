/* Event list: notifications of events that are yet to be published. Owner: a worker (of the call that runs) or a unit. */
#ifndef KELVIN_ENGINE_EVENT_LIST_H
#define KELVIN_ENGINE_EVENT_LIST_H

#include <stdbool.h>

#include "base/buffer.h"
#include "call/event.h"
#include "engine/tracking.h"

/* All zero: empty. */
struct event_list {
    struct buffer records;          /* one after the other: struct event_head, key */
    struct tracking_list changed;   /* keys that clients may have a copy of */
};

struct event_record {
    enum event event;
    uint32_t targets;               /* EVENT_TO_KEYSPACE, EVENT_TO_KEYEVENT or both */
    int db;
    struct bytes key;               /* copied by event_list_add; borrowed from the list by event_list_next */
};

void event_list_add(struct event_list *list, const struct event_record *record);
/* The record at `*at` (0: the first), and moves on. False at the end. */
bool event_list_next(const struct event_list *list, size_t *at, struct event_record *record);
/* Moves all of `from` to the end of `to`. */
void event_list_move(struct event_list *to, struct event_list *from);
/* Drops the notifications; `changed` has been sent. Keeps some memory for the next. */
void event_list_clear(struct event_list *list);
void event_list_release(struct event_list *list);

static inline bool event_list_is_empty(const struct event_list *list)
{
    return list->records.size == 0 && list->changed.first == NULL;
}

/* The call (the unit) is to run again from its beginning: the keys that it did not find are forgotten. Those that it has removed because they had
 * expired are not. */
void event_list_forget_misses(struct event_list *list);

#endif
