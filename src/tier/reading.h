/* Reading: a cold record that is to be read. Its place is looked up and pinned under the partition's lock; it is read without a lock, by a
 * reader (tier/reader.h) or on the calling thread; then it is unpinned.
 *
 * What a read can find is the same for all: STATUS_OK; STATUS_NOT_FOUND: the key has no record, the place is another key's; STATUS_CORRUPT or
 * STATUS_VERSION: it has one that can't be used; anything else: it can't be read now. Errors have been reported (tier/damage.h).
 */
#ifndef KELVIN_TIER_READING_H
#define KELVIN_TIER_READING_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "keyspace/partition.h"
#include "store/segments.h"

struct tier_reader;
struct tier;
struct worker;

/* Memory of its user. */
struct reading {
    uint64_t place;
    uint64_t hash;
    struct bytes key;               /* borrowed. Without data it is not known: the record is that of any key with this hash */
    struct segment *segment;        /* pinned, while it is being read */
    uint32_t incarnation;
    /* The reader's, until the reading is done. */
    struct tier_reader *reader;
    struct reading *next;           /* of those that wait, or that one read has */
    struct reading *next_group;     /* of the pool's queue */
};

/* A record that was read. Borrowed until the callback returns, or until the buffers are used again. */
struct read_record {
    enum status status;
    struct bytes key, bytes;        /* with STATUS_OK: the record's key, and its bytes (tier/record.h) */
    struct buffer *scratch;         /* for decoding it */
    const struct worker *worker;    /* that has read it, and reads its mail next; NULL: another thread */
};

/* A thread's memory for reads. All zero: none. */
struct read_buffers {
    struct segment_buffer aligned;
    struct buffer bytes, scratch;
};
void read_buffers_release(struct read_buffers *buffers);
/* Frees buffers of more than `size_max` bytes. */
void read_buffers_shrink(struct read_buffers *buffers, size_t size_max);

/* Under the partition's lock. False: the key certainly has no record that could be read. */
bool reading_find(const struct keyspace *keyspace, uint64_t hash, struct bytes key, uint64_t *place) REQUIRES(keyspace->partition->lock);
bool reading_is_possible(const struct keyspace *keyspace, uint64_t hash, struct bytes key) REQUIRES(keyspace->partition->lock);

/* Under the partition's lock. False: the key certainly has no record. */
bool reading_begin(struct tier *tier, const struct keyspace *keyspace, uint64_t hash, struct bytes key, struct reading *reading)
    REQUIRES(keyspace->partition->lock);
/* The same for a keyspace that may be gone; takes the lock. */
bool reading_begin_in(struct tier *tier, struct partition *partition, uint32_t incarnation, uint64_t hash, struct bytes key, struct reading *reading);
void reading_end(struct reading *reading);

/* Reads it on the calling thread. */
void reading_now(struct tier *tier, const struct reading *reading, struct read_buffers *buffers, struct read_record *record);
/* Where its record begins in `bytes`, which were read for it. What can't be used is not reported, as it will be read again. */
void reading_parse(const struct tier *tier, const struct reading *reading, struct bytes bytes, struct read_record *record);
/* Reports a read that failed, or whose record could not be decoded. Returns STATUS_NOT_FOUND if the index shows that the record is not this key's. */
enum status reading_failed(struct tier *tier, const struct reading *reading, enum status status);
/* The same for a record that was read and can't be decoded. */
enum status reading_failed_decoding(struct tier *tier, const struct reading *reading, struct bytes bytes, enum status status);

#endif
