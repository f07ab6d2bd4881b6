/* Consumer groups of a stream: how far each has come, who its consumers are, and what was delivered but not acknowledged. What is pending
 * is kept by ID, once in the group with all there is to know, and once, as a bare ID, with its consumer.
 */
#ifndef KELVIN_VALUE_STREAM_GROUP_H
#define KELVIN_VALUE_STREAM_GROUP_H

#include "value/stream.h"

enum { ENTRIES_READ_UNKNOWN = -1 };
static const uint64_t DELIVERIES_MAX = INT64_MAX;       /* the count stays there: larger ones can be told to nobody, nor logged */

struct stream_consumer {
    struct bytes name;              /* owned, behind the struct */
    int64_t seen_ms;                /* when it last tried to read or claim, since 1970 */
    int64_t active_ms;              /* when it last got something; -1: never */
    struct idmap pending;           /* a set */
};

struct stream_group {
    struct bytes name;              /* owned, behind the struct */
    struct stream_id last_id;       /* last delivered */
    int64_t entries_read;           /* how many of the stream's entries were, ever; or ENTRIES_READ_UNKNOWN. Wraps, as in Redis */
    struct idmap pending;           /* ID -> struct stream_pending */
    struct stream_consumer **consumers;         /* in the order of their names */
    uint32_t consumer_count, consumer_room;
};

struct stream_pending {
    struct stream_consumer *consumer;
    int64_t delivered_ms;           /* since 1970; not negative */
    uint64_t deliveries;            /* up to DELIVERIES_MAX */
};

struct stream_group *stream_group_find(const struct stream *stream, struct bytes name);
/* NULL if there is one of that name. */
struct stream_group *stream_group_create(struct stream *stream, struct bytes name, struct stream_id last_id, int64_t entries_read);
bool stream_group_destroy(struct stream *stream, struct bytes name);

struct stream_consumer *stream_consumer_find(const struct stream_group *group, struct bytes name);
/* NULL if there is one of that name. */
struct stream_consumer *stream_consumer_create(struct stream_group *group, struct bytes name, int64_t now_ms);
/* What it had pending goes with it. */
void stream_consumer_destroy(struct stream_group *group, struct stream_consumer *consumer);

/* What is pending under an ID, now the consumer's, whoever had it. New ones have neither time nor deliveries. */
struct stream_pending *stream_pending_assign(struct stream_group *group, struct stream_id id, struct stream_consumer *consumer);
/* False if it was not pending. */
bool stream_pending_remove(struct stream_group *group, struct stream_id id);

/* How many entries there were, ever, up to an ID; ENTRIES_READ_UNKNOWN where deletions make that unknown. */
int64_t stream_entries_up_to(const struct stream *stream, struct stream_id id);
/* How many entries the group has still to read; false if that is unknown. */
bool stream_group_lag(const struct stream *stream, const struct stream_group *group, int64_t *lag);
/* The group gets an entry: its last_id and entries_read go on. */
void stream_group_advance(const struct stream *stream, struct stream_group *group, struct stream_id id);

/* All groups of a stream: private, for value/stream.c. */
void stream_groups_destroy(struct stream *stream);
void stream_groups_copy(struct stream *to, const struct stream *from);
size_t stream_groups_memory(const struct stream *stream);
size_t stream_groups_blocks(const struct stream *stream);
void stream_groups_verify(const struct stream *stream);

#endif
