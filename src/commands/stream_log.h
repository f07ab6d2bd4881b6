/* How changes of consumer groups are logged. */
#ifndef KELVIN_COMMANDS_STREAM_LOG_H
#define KELVIN_COMMANDS_STREAM_LOG_H

#include "call/call.h"
#include "value/stream_group.h"

/* Logs deliveries as XCLAIMs with FORCE, each with all consecutive IDs that have the same time and count. */
struct claim_log {
    struct call *call;
    struct bytes key, group_name;
    const struct stream_group *group;
    struct bytes consumer;
    struct bytes *words;        /* NULL before the first ID */
    int id_count;
    int64_t delivered_ms;
    uint64_t deliveries;
};
void claim_log_begin(struct claim_log *log, struct call *call, int key_arg, const struct stream_group *group,
    const struct stream_consumer *consumer);
void claim_log_add(struct claim_log *log, struct stream_id id, const struct stream_pending *pending);
void claim_log_end(struct claim_log *log);
/* Other changes of groups. */
void log_group_position(struct call *call, int key_arg, const struct stream_group *group);
void log_consumer_created(struct call *call, int key_arg, const struct stream_group *group, const struct stream_consumer *consumer);

#endif
