/* Batch: what the writer is about to write to the store, and what follows for entries and graves when it is written. The writer only.
 *
 * A batch that failed is kept as it is until the store is writable again; then it is either found in the store, or written again. So
 * no state is ever taken back.
 */
#ifndef KELVIN_TIER_BATCH_H
#define KELVIN_TIER_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "keyspace/partition.h"
#include "store/store.h"
#include "value/value.h"

struct demote_request;
struct grave;
struct handed;
struct tier;

/* Bytes that are encoded under one hold of a partition's lock, as batch_work counts them: enough is reached with the value that exceeds it. */
enum { BATCH_HOLD_ENOUGH = 64 * 1024 };

enum batch_kind { BATCH_DEMOTE, BATCH_CLEAN, BATCH_BURY, BATCH_HANDED };

struct batch_item {
    enum batch_kind kind;
    struct partition *partition;
    uint32_t incarnation;
    uint64_t hash;
    size_t key_at, key_size;        /* in `text` */
    uint64_t place;                 /* BATCH_HANDED: of the record */
    struct demote_request *request; /* its result is set when the batch is finished; or NULL */
};

struct batch {
    struct store_batch *store;
    struct batch_item *items;
    size_t count, capacity;
    struct buffer text;
    struct buffer record;           /* for encoding */
    uint64_t record_bytes;          /* what its puts take in RAM, about */
    uint64_t packing_work;          /* see packing_pack */
    bool failed;                    /* writing it failed: it waits until the store is writable again */
};

void batch_init(struct batch *batch);
void batch_release(struct batch *batch);

/* Grows by the bytes that are encoded, those that are packed counting several times. */
size_t batch_work(const struct batch *batch);
/* Other work was done, in the same measure. */
static inline void batch_note_work(struct batch *batch, size_t work)
{
    batch->packing_work += work;
}

/* Under the partition's lock. The entry's record is known (not RECORD_UNKNOWN); it is not pinned. BATCH_DEMOTE frees the entry
 * when its record is written and it is unchanged; BATCH_CLEAN keeps it. */
void batch_put(struct tier *tier, struct batch *batch, struct keyspace *keyspace, uint64_t hash, uint32_t handle, enum batch_kind kind,
    struct demote_request *request) REQUIRES(keyspace->partition->lock);
/* Under the partition's lock. A record is known to be there. */
void batch_bury(struct batch *batch, struct keyspace *keyspace, struct grave *grave) REQUIRES(keyspace->partition->lock);

/* Encodes a big value (tier rule 9) and puts it into the batch, which is empty, if nothing has changed meanwhile. No lock is held by
 * the caller. STATUS_TOO_LARGE: its record is larger than the store takes, or was not long ago (tier/oversized.h); the entry stays
 * as it is. STATUS_OK otherwise. */
enum status batch_put_big(struct tier *tier, struct batch *batch, struct partition *partition, uint32_t incarnation, uint64_t hash,
    struct bytes key, enum batch_kind kind, struct demote_request *request);
/* A value as of a checkpoint's cut. STATUS_TOO_LARGE: there must be no image. The key has a tag already, so it gets a record
 * nevertheless, an empty one: no thread reads it, since it is older than the entry, or has a grave. */
enum status batch_put_handed(struct tier *tier, struct batch *batch, const struct handed *handed);

/* Writes the batch and updates entries, graves and record maps under the partitions' locks. An empty batch is fine. On an error the batch
 * stays. */
enum status batch_commit(struct tier *tier, struct batch *batch);

/* An entry leaves RAM; its record is in the store. Under the lock. Freeing a big value takes long: the caller calls demoted_free for it
 * afterwards, without a lock. */
void demote_entry(struct tier *tier, struct keyspace *keyspace, uint64_t hash, uint32_t handle) REQUIRES(keyspace->partition->lock);
void demoted_free(struct tier *tier);

/* Big values that left RAM. All zero: none. */
struct demoted {
    struct value *values;
    size_t count, capacity;
};
void demoted_release(struct demoted *demoted);

#endif
