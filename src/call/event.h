/* Events: what happens to keys. Each has the name and the class that keyspace notifications have in Redis 7.2. The rows are in
 * events.def.
 *
 * Commands pass them to the functions of call/key.h; what the engine does with them is in engine/event.h.
 */
#ifndef KELVIN_CALL_EVENT_H
#define KELVIN_CALL_EVENT_H

#include <stdint.h>

enum event {
#define EVENT_ROW(id, name, class, effects) EVENT_##id,
#include "call/events.def"
#undef EVENT_ROW
    EVENT_COUNT
};

/* The letters of notify-keyspace-events, in the order of CONFIG_EVENT_LETTERS. */
enum event_class {
    EVENT_CLASS_NONE = 0,
    EVENT_CLASS_GENERIC = 1 << 0,
    EVENT_CLASS_STRING = 1 << 1,
    EVENT_CLASS_LIST = 1 << 2,
    EVENT_CLASS_SET = 1 << 3,
    EVENT_CLASS_HASH = 1 << 4,
    EVENT_CLASS_ZSET = 1 << 5,
    EVENT_CLASS_EXPIRED = 1 << 6,
    EVENT_CLASS_EVICTED = 1 << 7,
    EVENT_CLASS_STREAM = 1 << 8,
    EVENT_CLASS_MODULE = 1 << 9,
    EVENT_CLASS_NEW = 1 << 10,
    EVENT_TO_KEYSPACE = 1 << 11,        /* not a class: which channels get the events */
    EVENT_TO_KEYEVENT = 1 << 12,
    EVENT_CLASS_MISS = 1 << 13,
};

/* See events.def. */
enum event_effect { EVENT_NOTHING = 0, EVENT_TOUCHES = 1, EVENT_FEEDS = 2 };

struct event_kind {
    const char *name;           /* NULL: no client is notified of it */
    uint16_t class;             /* enum event_class */
    uint8_t effects;            /* enum event_effect */
};

const struct event_kind *event_kind(enum event event);

#endif
