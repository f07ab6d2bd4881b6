/* Idle entries: what XREADGROUP with CLAIM takes from the pending entries of a group before it delivers new ones. The entry that was
 * delivered longest ago comes first. */
#ifndef KELVIN_COMMANDS_STREAM_IDLE_H
#define KELVIN_COMMANDS_STREAM_IDLE_H

#include "call/call.h"
#include "value/stream_group.h"

struct stream_idle_entry {
    struct stream_id id;
    int64_t delivered_ms;
};

struct stream_idle {
    struct stream_idle_entry *entries;  /* in the call's arena, in the order of the reply */
    size_t count;
    bool dropped;                       /* pending entries were removed that had been deleted from the stream */
};

/* Finds those that are pending for at least `idle_min_ms`; `count_max` at most, 0: all. Those that were deleted from the stream are not
 * pending afterwards, and the log has that. Takes time for all pending entries, unless none is idle. */
struct stream_idle stream_idle_find(struct call *call, int key_arg, const struct stream *stream, struct stream_group *group,
    int64_t idle_min_ms, uint64_t count_max);

/* Whether the entries are there that this will look at. False: the call asks for them (key_ask). */
bool stream_idle_is_here(struct call *call, const struct stream *stream, struct stream_group *group, int64_t idle_min_ms, uint64_t count_max);

/* Assigns them to the consumer, logs that, and replies each as an element of an array that the caller has begun. */
void stream_idle_claim(struct call *call, int key_arg, const struct stream *stream, struct stream_group *group,
    struct stream_consumer *consumer, const struct stream_idle *idle);

/* When an entry may be idle at the earliest, if nothing is delivered meanwhile: one that is pending, or one that another consumer gets from
 * now on. */
int64_t stream_idle_next_ms(const struct stream_group *group, int64_t idle_min_ms, int64_t now_ms);

#endif
