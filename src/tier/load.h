/* Load: how a cold key comes back (tier rules 4 and 5).
 *
 * A key that is asked for gets a placeholder, the load, with a ticket. Its reader, the worker (tier/load_ring.h) or a loader (tier/loader.h),
 * reads its record without any lock, decodes it, and installs it under the partition's lock if the ticket is still the newest one.
 * Overwriting the key voids the load. A load is freed when no client has pinned it and no reader refers to it.
 */
#ifndef KELVIN_TIER_LOAD_H
#define KELVIN_TIER_LOAD_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/buffer.h"
#include "tier/read.h"
#include "tier/record.h"
#include "tier/tier.h"

enum load_state {
    LOAD_READING,       /* a reader has it, or will */
    LOAD_DONE,          /* installed, overwritten meanwhile, or voided: the clients that waited look again */
    LOAD_ABSENT,        /* a false maybe: there is no such record */
    LOAD_FAILED,
};

/* Fields under the partition's lock. */
struct load {
    struct keyed_node node;         /* in its keyspace's `loads` while keyspace != NULL */
    struct partition *partition;    /* immutable */
    struct keyspace *keyspace;      /* NULL: it was flushed */
    uint32_t incarnation;           /* immutable, for the reader */
    enum load_state state;
    bool is_damaged;                /* LOAD_FAILED: it is not the disk that failed */
    uint32_t ticket;                /* goes up with each time the load is posted */
    int in_flight;                  /* readers (or batches) that still refer to it */
    int pins;                       /* waits that refer to it */
    struct tier_wait *waits;
    struct load *batch_next;
    uint32_t batch_ticket;
    int64_t posted_us;
    struct reading_place reading;   /* of the record: set when the load is posted, until it has ended */
};

/* One client's interest in one load. */
struct tier_wait {
    struct tier_wait *of_client;    /* next in the client's list. Client's worker */
    struct tier_wait *of_load;      /* next in the load's list. Partition's lock */
    struct load *load;
    struct client *client;
    bool waiting;                   /* counted in client->pending. Partition's lock */
};

/* All loads of a tier. */
struct loads {
    _Atomic uint64_t waiting;       /* posted and not ended */
    _Atomic uint64_t ended;
    _Atomic int ring_count;         /* open load rings */
    _Atomic int ring_refused;       /* that could not be opened */
};

static inline void load_batch_add(struct load_batch *batch, struct load *load)
{
    load->batch_next = NULL;
    if (batch->last != NULL)
        batch->last->batch_next = load;
    else
        batch->first = load;
    batch->last = load;
}

/* The first load of a batch that is not empty. */
static inline struct load *load_batch_take(struct load_batch *batch)
{
    struct load *load = batch->first;

    batch->first = load->batch_next;
    if (batch->first == NULL)
        batch->last = NULL;
    return load;
}

/* The key's load; NULL: none. The partition is locked. */
static inline struct load *load_find(const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    return (struct load *)keyed_find(&keyspace->tier->loads, hash, key);
}

/* What it brings is not installed; wakes all that wait. The partition is locked. */
void load_void(struct tier *tier, struct load *load) REQUIRES(load->partition->lock);
/* Voids all loads of a keyspace that is being flushed, and takes them out of it. The partition is locked. */
void loads_void_all(struct tier *tier, struct keyspace *keyspace) REQUIRES(keyspace->partition->lock);

/* What its reader knows of a load between taking it and installing it. */
struct loading {
    struct load *load;
    uint32_t ticket;
    enum status status;
    struct buffer bytes;
    struct buffer scratch;
    struct segment_buffer aligned;
    struct record record;
    size_t record_size;             /* bytes */
};
void loading_release(struct loading *loading);
/* Frees buffers of more than `size_max` bytes. */
void loading_shrink(struct loading *loading, size_t size_max);

/* Reads and decodes the record. No lock is held. */
void load_read(struct tier *tier, struct loading *loading);
/* Decodes a record that was read. Its bytes are kept until load_finish. */
void load_decode(struct tier *tier, struct loading *loading, const struct value_limits *limits, struct bytes bytes);
/* Installs it if its ticket is still the newest, wakes those that wait, and may free the load. Locks the partition. `self` is the worker that
 * calls and reads its mail next, so that it is not rung; NULL: a loader. */
void load_finish(struct tier *tier, struct loading *loading, const struct worker *self);

/* Makes a clean entry of a record, on probation, and takes the record's value. The key has no entry; the partition is locked. */
struct entry *load_install(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key, const struct record *record) REQUIRES(keyspace->partition->lock);

/* The limits of encodings, for decoding a record. */
struct value_limits tier_limits(const struct tier *tier);

#endif
