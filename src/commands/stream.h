/* Stream commands. stream.c adds and removes entries, stream_range.c and stream_read.c answer them, stream_group.c makes groups and
 * acknowledges, stream_claim.c moves what is pending, stream_info.c tells. stream_id.h reads and writes IDs.
 */
#ifndef KELVIN_COMMANDS_STREAM_H
#define KELVIN_COMMANDS_STREAM_H

#include "call/call.h"
#include "value/stream_group.h"

struct key;

/* The last row's name is NULL. */
extern const struct command stream_commands[];

/* Private from here on: what the files share. */

/* `count` arguments as IDs; NULL: the error was replied. */
struct stream_id *stream_read_ids(struct call *call, int first, int count);

/* Replies an entry that stream_next has found: its ID, and fields and values. */
void reply_stream_entry(struct call *call, struct stream_iterator *iterator, struct stream_id id, size_t pair_count);
/* Replies an array of the entries of a range, `count_max` at most; 0: all. */
void reply_stream_range(struct call *call, const struct stream *stream, struct stream_id start, struct stream_id end, uint64_t count_max,
    enum stream_direction direction);
/* Replies one entry; false, and nothing replied, if it is not there. */
bool reply_stream_entry_of(struct call *call, const struct stream *stream, struct stream_id id);

/* What deliveries are in the log: XCLAIMs that force them, each with many IDs where the rest is the same. */
struct claim_log {
    struct call *call;
    struct bytes key, group_name;
    const struct stream_group *group;
    struct bytes consumer;
    struct bytes *words;        /* NULL until there is an ID */
    int id_count;
    int64_t delivered_ms;
    uint64_t deliveries;
};
void claim_log_begin(struct claim_log *log, struct call *call, int key_arg, const struct stream_group *group,
    const struct stream_consumer *consumer);
void claim_log_add(struct claim_log *log, struct stream_id id, const struct stream_pending *pending);
void claim_log_end(struct claim_log *log);
/* Other changes of groups as they are logged. */
void log_group_position(struct call *call, int key_arg, const struct stream_group *group);
void log_consumer_created(struct call *call, int key_arg, const struct stream_group *group, const struct stream_consumer *consumer);

/* "NOGROUP No such key '%s' or consumer group '%s'", with the call's arguments. */
void reply_no_group(struct call *call, int key_arg, int group_arg);

/* The handlers of the rows. */
command_run xadd_command, xtrim_command, xlen_command, xdel_command, xsetid_command;
command_run xrange_command, xrevrange_command, xread_command, xreadgroup_command;
command_run xgroup_create_command, xgroup_setid_command, xgroup_destroy_command, xgroup_createconsumer_command, xgroup_delconsumer_command,
    xgroup_help_command, xack_command;
command_run xpending_command, xclaim_command, xautoclaim_command;
command_run xinfo_stream_command, xinfo_groups_command, xinfo_consumers_command, xinfo_help_command;

#endif
