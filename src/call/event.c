#include "call/event.h"

#include <stddef.h>

#define NOTHING EVENT_NOTHING
#define TOUCHES EVENT_TOUCHES
#define FEEDS EVENT_FEEDS

static const struct event_kind kinds[EVENT_COUNT] = {
#define EVENT_ROW(id, name, class, effects) { name, EVENT_CLASS_##class, effects },
#include "call/events.def"
#undef EVENT_ROW
};

const struct event_kind *event_kind(enum event event)
{
    return &kinds[event];
}
