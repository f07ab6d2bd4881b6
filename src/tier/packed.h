/* Packed: records of cold keys that stay in memory, compressed (tier-packed-share). A key whose record is there is loaded without a read of the disk.
 *
 * A keyspace has a second one for them (struct tier_keyspace, `packed`), which no other file sees:
 *
 *   key: as in the keyspace | value: an inline string: ID u64 | record (tier/record.h), compressed
 *   ID = sequence of a segment 42 bits | unit of the record in it 22 bits          (store/segments.h)
 *
 * It is a cache of the store. An ID names one record for as long as the store lives, so what is found there is valid if the record map still has that
 * place: changes and deletions need not reach the cache. A key that is loaded from it leaves it when it needs the room: if
 * it is demoted before, unchanged, its record need not be made again.
 *
 * Each partition has the same share of the room. When it is full, a hand goes round the buckets and takes the keys without uses, which it counts
 * down (generalized CLOCK; A. J. Smith 1978).
 *
 * Owner: the partition's lock. Only the writer adds.
 */
#ifndef KELVIN_TIER_PACKED_H
#define KELVIN_TIER_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "keyspace/keyspace.h"

struct reading;
struct value_limits;
struct record;
struct tier;

/* Two segments of a heap. */
enum { PACKED_ROOM_MIN = 128 << 10 };

/* All zero: nothing is packed. */
struct packed {
    struct packed_room *rooms;          /* by partition; NULL: before tier_start */
    struct buffer record;               /* the writer's */
    uint64_t room_min;                  /* bytes of a partition: with less nothing is packed. PACKED_ROOM_MIN; in tests less */
    bool was_used;                      /* likewise: some may be there */
};

void packed_start(struct tier *tier);
void packed_release(struct tier *tier);         /* after packed_forget of all keyspaces */

/* The entry, which is about to be demoted, has this record at `place`. Nothing happens if it is not compressed, or too large. */
void packed_put(struct tier *tier, struct keyspace *keyspace, uint64_t hash, const struct entry *entry, uint64_t place, struct bytes record)
    REQUIRES(keyspace->partition->lock);
/* The same for a clean entry: its record is made again if it is not there. Returns the work that this was, as packing_pack. */
size_t packed_keep(struct tier *tier, struct keyspace *keyspace, uint64_t hash, const struct entry *entry) REQUIRES(keyspace->partition->lock);

/* The record that is to be read, decoded; its value may borrow from memory that is valid until the partition is unlocked. False: it has to be read. */
bool packed_find(struct tier *tier, struct keyspace *keyspace, const struct reading *reading, const struct value_limits *limits, struct record *record)
    REQUIRES(keyspace->partition->lock);

/* The keyspace ends, or its records do. */
void packed_forget(struct tier *tier, struct keyspace *keyspace) REQUIRES(keyspace->partition->lock);

/* By the writer, without a lock: gives back what is more than the share now. */
void packed_trim(struct tier *tier);
/* The same for about `bytes`, because nothing else can go. Returns how many. */
uint64_t packed_give(struct tier *tier, uint64_t bytes);
/* Bytes of all that are there. */
uint64_t packed_bytes(struct tier *tier);

#endif
