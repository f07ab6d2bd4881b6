/* Bulk: many records read together and installed, by threads for which no client waits: the look-ahead of a replay or an applier, and the
 * warm-up.
 *
 * The records are sorted by their places, so that a bulk of most of a segment's records costs few reads (tier/reader.h). What is read is
 * installed only if its key has still no entry, no grave and no load of its own, and the record map still has the same place for it: so
 * there are no placeholders as in tier/load.h, and clients do not wait for a bulk. It is a hint: a key that could not be read is loaded, or
 * its error reported, when a command needs it.
 *
 * Owner: one thread at a time. Memory: some dozen bytes for each record that was added, and the reader's.
 */
#ifndef KELVIN_TIER_BULK_H
#define KELVIN_TIER_BULK_H

#include <stdatomic.h>

#include "tier/reader.h"
#include "tier/tier.h"

enum {
    BULK_RECORD_MAX = 2 << 20,      /* larger records are left out */
    BULK_PART_SIZE = 256 << 10,     /* bytes of them */
};

struct record;

struct tier_bulk {
    struct tier *tier;
    struct tier_reader *reader;
    size_t part_max;                /* records that are read between two questions whether it goes on */
    const struct bulk_steps *steps; /* while it runs */
    struct bulk_record *records;
    size_t count, capacity;
    uint64_t bytes;                 /* of the records that were added, about */
    /* Since it was created. */
    _Atomic uint64_t installed;
    _Atomic uint64_t failed;        /* records that could not be read or used */
};

/* Adds the record of a key that has no entry. `key` without data: it is not known, and the record is that of the first key with its
 * tag. False: it has none, or none that a bulk can read. */
bool bulk_add(struct tier_bulk *bulk, const struct keyspace *keyspace, uint64_t hash, struct bytes key, uint32_t note)
    REQUIRES(keyspace->partition->lock);

/* Called without a lock by the owner; under the partition's lock by any thread. */
struct bulk_steps {
    void *context;
    /* Before each part, without a lock. False: no more is read. */
    bool (*goes_on)(void *context, uint64_t size);
    /* A record is about to be installed; false: it is not. NULL: all are. Under the partition's lock. */
    bool (*is_welcome)(void *context, const struct record *record);
    /* Called when an entry was installed; NULL is fine. Under the partition's lock. */
    void (*installed)(void *context, struct keyspace *keyspace, struct entry *entry, uint32_t note);
};
/* Reads and installs all that was added; the bulk is empty then. No lock is held. */
void bulk_run(struct tier_bulk *bulk, const struct bulk_steps *steps);

#endif
