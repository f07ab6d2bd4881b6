/* Load: how a cold key comes back (tier rules 4 and 5).
 *
 * A key that is asked for gets a placeholder, the load, with a ticket. The worker's reader (tier/reader.h) reads its record without any lock;
 * then it is decoded, and installed under the partition's lock if the ticket is still the newest one. Overwriting the key voids the load. A
 * load is freed when no client has pinned it and it is not being read.
 */
#ifndef KELVIN_TIER_LOAD_H
#define KELVIN_TIER_LOAD_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/buffer.h"
#include "tier/reading.h"
#include "tier/record.h"
#include "tier/tier.h"

enum load_state {
    LOAD_READING,       /* its reader has it, or an older read of it */
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
    uint32_t ticket;                /* goes up when the load is posted, and when it is voided */
    uint32_t posted_ticket;
    bool in_flight;                 /* a reader has `reading`, which is immutable then */
    int pins;                       /* waits that refer to it */
    bool is_used;                   /* a client has asked for it to use it, or has used it */
    bool is_looked_at;              /* none had when it was installed: unless one does, it is cold again when the pins have gone */
    struct tier_wait *waits;
    int64_t posted_us;
    struct reading reading;
};

/* One client's interest in one load. */
struct tier_wait {
    struct tier_wait *of_client;    /* next in the client's list. Client's worker */
    struct tier_wait *of_load;      /* next in the load's list. Partition's lock */
    struct load *load;
    struct client *client;
    bool waiting;                   /* counted in client->loads.pending. Partition's lock */
};

/* The key's load; NULL: none. The partition is locked. */
static inline struct load *load_find(const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    return (struct load *)keyed_find(&keyspace->tier->loads, hash, key);
}

/* Voids a load: what it reads is not installed. Wakes all that wait. The partition is locked. */
void load_void(struct tier *tier, struct load *load) REQUIRES(load->partition->lock);
/* Voids all loads of a keyspace that is being flushed, and takes them out of it. The partition is locked. */
void loads_void_all(struct tier *tier, struct keyspace *keyspace) REQUIRES(keyspace->partition->lock);

/* Decodes a record that was read; its value borrows from that. Otherwise the status is as of a failed reading. No lock is needed. */
enum status load_decode(struct tier *tier, const struct reading *reading, const struct read_record *read, struct record *record);

/* Makes a clean entry of a record, on probation, and takes the record's value. The caller counts it as a promotion, if it is one. The key has no entry; the partition is locked. */
struct entry *load_install(struct keyspace *keyspace, uint64_t hash, struct bytes key, const struct record *record) REQUIRES(keyspace->partition->lock);

/* The limits of encodings, for decoding a record. */
struct value_limits tier_limits(const struct tier *tier);

#endif
