/* Advising: what the tier tells tier/advise.h: uses of sampled keys, its own measures, and where the sample is kept over a restart.
 *
 * tier_advise_is_due, tier_advise_tick and tier_advise_look are in tier/tier.h.
 */
#ifndef KELVIN_TIER_ADVISING_H
#define KELVIN_TIER_ADVISING_H

#include "keyspace/partition.h"

struct tier;

/* keyspace_watch.used. The partition is locked. */
void advising_used(void *context, struct keyspace *keyspace, uint64_t hash, const struct entry *entry, enum key_use use);

/* All data are about to be replaced by others: the sample becomes empty. */
void advising_forget(struct tier *tier);

/* Writes `dir`/advise, synced; the directory is the caller's to sync. On failure there is no file. */
enum status advising_save(struct tier *tier, const char *dir);
/* The sample of an image; before there are clients. A file that is missing or can't be used, which the log says, leaves it empty. */
void advising_load(struct tier *tier, const char *dir);

#endif
