/* Bulk: many records read together, by threads for which no client waits: the replay's look-ahead and the warm-up.
 *
 * The records are sorted by their places; neighbours in a segment are read with one read of up to BULK_READ_SIZE bytes, so that a bulk of
 * most of a segment's records costs few reads. What is read is installed only if its key has still no entry, no grave and no load of its own,
 * and the record map still has the same place for it: so there are no placeholders as in tier/load.h, and clients do not wait for a bulk.
 * It is a hint: a key that could not be read is loaded, or its error reported, when a command needs it.
 *
 * Owner: one thread. Memory: some dozen bytes for each record that was added, and one read.
 */
#ifndef KELVIN_TIER_BULK_H
#define KELVIN_TIER_BULK_H

#include "tier/tier.h"

enum {
    BULK_READ_SIZE = 256 << 10,     /* bytes of one read; a larger record has one of its own */
    BULK_GAP = 4096,                /* bytes between two records that are read, too, to save a read */
    BULK_RECORD_MAX = 2 << 20,      /* larger records are left out */
};

struct record;

struct tier_bulk {
    struct tier *tier;
    struct bulk_record *records;
    size_t count, capacity;
    uint64_t bytes;                 /* of the records that were added, about */
    struct segment_buffer read;
    struct buffer scratch;
    /* Since it was created. */
    uint64_t reads, installed;
    uint64_t failed;                /* reads that failed, and records that are damaged */
};

/* A record that is to be read. */
struct bulk_record {
    uint64_t place, hash;
    struct segment *segment;        /* pinned */
    int db;
    uint32_t note;                  /* the caller's */
};

/* Adds the record of a key that has no entry. `key` without data: it is not known, and the record is that of the first key with its
 * tag. False: it has none, or none that a bulk can read. */
bool bulk_add(struct tier_bulk *bulk, const struct keyspace *keyspace, uint64_t hash, struct bytes key, uint32_t note)
    REQUIRES(keyspace->partition->lock);

struct bulk_steps {
    void *context;
    /* Before each read, without a lock. False: no more is read. */
    bool (*goes_on)(void *context, uint64_t size);
    /* A record is about to be installed; false: it is not. NULL: all are. Under the partition's lock. */
    bool (*is_welcome)(void *context, const struct record *record);
    /* It was installed; NULL is fine. Under the partition's lock. */
    void (*installed)(void *context, struct keyspace *keyspace, struct entry *entry, uint32_t note);
};
/* Reads and installs all that was added; the bulk is empty then. No lock is held. */
void bulk_run(struct tier_bulk *bulk, const struct bulk_steps *steps);

#endif
