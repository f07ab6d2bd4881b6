/* Entries of streams in replies. */
#ifndef KELVIN_COMMANDS_STREAM_RANGE_H
#define KELVIN_COMMANDS_STREAM_RANGE_H

#include "call/call.h"
#include "value/stream.h"

/* Replies an entry that stream_next has found: its ID, and its fields and values. */
void reply_stream_entry(struct call *call, struct stream_iterator *iterator, struct stream_id id, size_t pair_count);
/* The same with two more elements: for how long the entry was idle, and how often it had been delivered. */
void reply_stream_delivery(struct call *call, struct stream_iterator *iterator, struct stream_id id, size_t pair_count, int64_t idle_ms,
    uint64_t deliveries);
/* Replies an array of the entries of a range, `count_max` at most; 0: all. */
void reply_stream_range(struct call *call, const struct stream *stream, struct stream_id start, struct stream_id end, uint64_t count_max,
    enum stream_direction direction);
/* Replies one entry. False, and no reply, if it does not exist. */
bool reply_stream_entry_of(struct call *call, const struct stream *stream, struct stream_id id);

#endif
