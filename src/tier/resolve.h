/* Resolve: finds out whether keys whose record is unknown have one (tier rule 2), by reads without a lock. By the writer, or under the
 * counting lock (tier/count.h).
 */
#ifndef KELVIN_TIER_RESOLVE_H
#define KELVIN_TIER_RESOLVE_H

#include "base/status.h"
#include "tier/key_list.h"

struct tier;
struct tier_reader;

/* The entry's record is known from now on. Its partition is locked. */
typedef void resolved_entry(void *context, struct keyspace *keyspace, uint64_t hash, uint32_t handle);

/* Looks up the records of the listed entries (by `reader` as in look_up), notes in each what was found and calls `resolved` (NULL: nothing) for it. Empties the list.
 * An error of the store is returned after all were tried; an entry that could not be looked up stays unknown. */
enum status resolve_entries(struct tier *tier, struct tier_reader **reader, struct key_list *list, resolved_entry *resolved, void *context);

#endif
