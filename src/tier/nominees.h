/* Nominees: keys whose expiry keys say that they may expire at a time, and what has to be done about each. The writer's.
 *
 * Each record with an expiry that is put gets an expiry key with its time, so the newest record of a key has one, and older records have left
 * theirs: an expiry key is *outdated* if the newest record has another time, or if there is none, or will be none.
 */
#ifndef KELVIN_TIER_NOMINEES_H
#define KELVIN_TIER_NOMINEES_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "keyspace/partition.h"

struct nominee {
    int64_t expire_ms;
    uint32_t incarnation;
    uint64_t hash;
    size_t key_at, key_size;
};

struct nominees {
    struct nominee *list;
    size_t count, capacity;
    struct buffer text;
};

/* A store_expiry_found, `context` is the list. */
void nominees_add(void *context, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key);
void nominees_release(struct nominees *nominees);
struct bytes nominees_key(const struct nominees *nominees, size_t index);

enum verdict {
    VERDICT_KEEP,           /* the expiry key may be that of the record: not now */
    VERDICT_OUTDATED,       /* the expiry key has to be deleted, and nothing else */
    VERDICT_READ,           /* the key is cold: it depends on its record, if there is one */
};

/* `keyspace` NULL: it was flushed. No record is being written. */
enum verdict nominee_judge(struct keyspace *keyspace, const struct nominee *nominee, struct bytes key);

#endif
