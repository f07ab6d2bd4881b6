/* Consumer groups of a stream: how far each has read, its consumers, and the pending entries, which were delivered but
 * not acknowledged. Pending entries are stored by ID: with all data in the group, and as a mere ID in their consumer.
 */
#ifndef KELVIN_VALUE_STREAM_GROUP_H
#define KELVIN_VALUE_STREAM_GROUP_H

#include "value/stream.h"

enum { STREAM_ENTRIES_READ_UNKNOWN = -1 };
static const uint64_t STREAM_DELIVERIES_MAX = INT64_MAX;    /* the counter stops here: clients and the log have int64 */

struct stream_consumer {
    struct bytes name;              /* owned, after the struct */
    int64_t seen_ms;                /* when it last tried to read or claim, since 1970 */
    int64_t active_ms;              /* when it last received an entry; -1: never */
    struct idmap pending;           /* a set */
};

struct stream_group {
    struct bytes name;              /* owned, after the struct */
    struct stream_id last_id;       /* last delivered */
    /* How many entries the stream had had up to last_id; or STREAM_ENTRIES_READ_UNKNOWN. Wraps, as in Redis. */
    int64_t entries_read;
    int64_t oldest_ms;              /* no pending entry was delivered before this time, so a search for older ones may be skipped */
    struct idmap pending;           /* ID -> struct stream_pending */
    struct stream_consumer **consumers;         /* ordered by name */
    uint32_t consumer_count, consumer_room;
};

struct stream_pending {
    struct stream_consumer *consumer;
    int64_t delivered_ms;           /* since 1970; not negative */
    uint64_t deliveries;            /* up to STREAM_DELIVERIES_MAX */
};

struct stream_group *stream_group_find(const struct stream *stream, struct bytes name);
/* NULL if the name exists. */
struct stream_group *stream_group_create(struct stream *stream, struct bytes name, struct stream_id last_id, int64_t entries_read);
bool stream_group_destroy(struct stream *stream, struct bytes name);

struct stream_consumer *stream_consumer_find(const struct stream_group *group, struct bytes name);
/* NULL if the name exists. */
struct stream_consumer *stream_consumer_create(struct stream_group *group, struct bytes name, int64_t now_ms);
/* Destroys a consumer and its pending entries. */
void stream_consumer_destroy(struct stream_group *group, struct stream_consumer *consumer);

/* Assigns a pending entry to the consumer, whichever had it before. A new one has no deliveries. */
struct stream_pending *stream_pending_assign(struct stream_group *group, struct stream_id id, struct stream_consumer *consumer,
    int64_t delivered_ms);
/* False if it was not pending. */
bool stream_pending_remove(struct stream_group *group, struct stream_id id);

/* How many entries the stream had had up to an ID; STREAM_ENTRIES_READ_UNKNOWN if deletions make that unknown. */
int64_t stream_entries_up_to(const struct stream *stream, struct stream_id id);
/* How many entries the group has still to read; false if that is unknown. */
bool stream_group_lag(const struct stream *stream, const struct stream_group *group, int64_t *lag);
/* Delivers the next entry to the group: advances its last_id and entries_read. */
void stream_group_advance(const struct stream *stream, struct stream_group *group, struct stream_id id);

/* Frees all groups of a stream: private, for value/stream.c. */
void stream_groups_destroy(struct stream *stream);
void stream_groups_copy(struct stream *to, const struct stream *from);
size_t stream_groups_memory(const struct stream *stream);
size_t stream_groups_blocks(const struct stream *stream);
void stream_groups_verify(const struct stream *stream);

#endif
