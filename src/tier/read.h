/* Read: the record of a key, by the place that the record map has for it, on the calling thread. For loads see tier/load.h. */
#ifndef KELVIN_TIER_READ_H
#define KELVIN_TIER_READ_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "keyspace/partition.h"
#include "tier/tier.h"

/* Where a record is, pinned so that it stays there; by reading_begin, until reading_end. */
struct reading_place {
    uint64_t place;                 /* 0: in LevelDB */
    struct segment *segment;        /* NULL with place 0, or if the segment is missing */
};

/* Under the partition's lock. False: the key certainly has no record. */
bool reading_is_possible(const struct keyspace *keyspace, uint64_t hash, struct bytes key) REQUIRES(keyspace->partition->lock);

/* Under the partition's lock. False: the key certainly has no record. */
bool reading_begin(struct tier *tier, const struct keyspace *keyspace, uint64_t hash, struct bytes key, struct reading_place *reading)
    REQUIRES(keyspace->partition->lock);
void reading_end(struct reading_place *reading);
/* No lock is needed. Appends to `record`. STATUS_NOT_FOUND: it is another key's record, so the key has none. */
enum status reading_record(struct tier *tier, const struct reading_place *reading, uint32_t incarnation, uint64_t hash, struct bytes key,
    struct buffer *record);

/* All of it. No lock is held by the caller. STATUS_NOT_FOUND: the key had no record at some instant during the call, or its keyspace is gone. */
enum status read_record(struct tier *tier, struct partition *partition, uint32_t incarnation, uint64_t hash, struct bytes key,
    struct buffer *record);

/* Whether the key has a record, if reading it returned `status`: STATUS_OK, STATUS_NOT_FOUND, or an error. A damaged record in a segment does not
 * say whose it is; the index does. No lock is needed. */
enum status reading_existence(struct tier *tier, uint32_t incarnation, uint64_t hash, struct bytes key, enum status status);

#endif
