/* References to entries: an entry that was delivered to a group and not acknowledged is in the group's pending entries. Commands that
 * remove entries have an option about them (Redis 8.2). */
#ifndef KELVIN_COMMANDS_STREAM_REFS_H
#define KELVIN_COMMANDS_STREAM_REFS_H

#include "call/call.h"
#include "value/stream_group.h"

enum stream_refs {
    REFS_KEPT,          /* KEEPREF: entries are removed, and may stay pending */
    REFS_REMOVED,       /* DELREF: they are not pending any more in any group */
    REFS_RESPECTED,     /* ACKED: entries that a group has not read, or has not acknowledged, are not removed */
};

/* KEEPREF, DELREF or ACKED. False, and no reply, if the argument is none of them. */
bool arg_stream_refs(const struct call *call, int arg, enum stream_refs *refs);

/* A group has not read it, or has not acknowledged it. */
bool stream_entry_is_needed(const struct stream *stream, struct stream_id id);

/* Removes these IDs from the pending entries of all groups, and logs that as XACK. Returns how many there were. */
size_t stream_refs_remove(struct call *call, int key_arg, struct stream *stream, const struct stream_id *ids, size_t count);

/* Trims without removing entries that are needed; those in between stay. Logs that as XDEL. Returns how many were removed. */
uint64_t stream_trim_respecting(struct call *call, int key_arg, struct stream *stream, const struct stream_trim *trim);
/* Trims, and removes the references to what was removed; the log gets these, but not the trim itself. */
uint64_t stream_trim_with_refs(struct call *call, int key_arg, struct stream *stream, const struct stream_trim *trim);

/* Logs a command that ends with IDs; none if there are no IDs. */
void log_stream_ids(struct call *call, const struct bytes *head, int head_count, const struct stream_id *ids, size_t count);

#endif
