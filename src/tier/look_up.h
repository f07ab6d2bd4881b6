/* Look up: whether keys have records, and when these expire. Many at a time, by a reader. */
#ifndef KELVIN_TIER_LOOK_UP_H
#define KELVIN_TIER_LOOK_UP_H

#include <pthread.h>
#include <stdbool.h>

#include "tier/key_list.h"

struct tier_reader;
struct tier;

/* For a thread that looks up many keys; closed by reader_close. */
struct tier_reader *look_up_open(struct tier *tier);

/* The writer's reader. Owner: the writer's thread, which sets `thread` last; other threads only compare it. */
struct look_up_owner {
    struct tier_reader *reader;
    _Atomic pthread_t thread;
};
/* Opens the reader of the calling thread, the writer, and closes it. */
void look_up_own(struct tier *tier);
void look_up_disown(struct tier *tier);
/* Returns the writer's reader on its thread; NULL on others. */
struct tier_reader *look_up_reader(const struct tier *tier);

/* Sets the status of all keys of the list: STATUS_OK, and the times; STATUS_NOT_FOUND: the key had no record at some instant during the call, or
 * its keyspace is gone; STATUS_CORRUPT, STATUS_VERSION: it has one that can't be used; otherwise that is not known. `reader` NULL: they are
 * read one after the other on the calling thread. No lock is held. */
void look_up(struct tier *tier, struct tier_reader *reader, struct key_list *list);
/* The same for one key, on the calling thread. */
void look_up_key(struct tier *tier, struct listed_key *listed, struct bytes key);

/* False: `listed->status` says why that is not known. */
static inline bool look_up_tells(const struct listed_key *listed, bool *has_record)
{
    *has_record = listed->status == STATUS_OK || listed->status == STATUS_CORRUPT || listed->status == STATUS_VERSION;
    return *has_record || listed->status == STATUS_NOT_FOUND;
}

#endif
