/* Look up: whether keys have records, and when these expire. Many at a time, by a reader. */
#ifndef KELVIN_TIER_LOOK_UP_H
#define KELVIN_TIER_LOOK_UP_H

#include <stdbool.h>

#include "tier/key_list.h"

struct tier_reader;
struct tier;

/* Sets the status of all keys of the list: STATUS_OK, and the times; STATUS_NOT_FOUND: the key had no record at some instant during the call, or
 * its keyspace is gone; STATUS_CORRUPT, STATUS_VERSION: it has one that can't be used; otherwise that is not known. `*reader` is the calling
 * thread's, which closes it (reader_close); NULL before its first use. No lock of a partition is held. */
void look_up(struct tier *tier, struct tier_reader **reader, struct key_list *list);
/* The same for one key, on the calling thread. */
void look_up_key(struct tier *tier, struct listed_key *listed, struct bytes key);

/* For a loop that locks the partitions of the list's keys one after another: asks the CPU for what it will read of those after this one. No lock
 * of a partition is held. */
void look_up_fetch_after(const struct key_list *list, size_t index);

/* False: `listed->status` says why that is not known. */
static inline bool look_up_tells(const struct listed_key *listed, bool *has_record)
{
    *has_record = listed->status == STATUS_OK || listed->status == STATUS_CORRUPT || listed->status == STATUS_VERSION;
    return *has_record || listed->status == STATUS_NOT_FOUND;
}

#endif
