/* Key list: keys noted under a partition's lock for work that is done without it: records to be looked up (tier/look_up.h), big values to be
 * written.
 *
 * A listed key may be gone, or changed, when its turn comes: the user finds it again by partition, incarnation, hash and key. A key may
 * be listed twice.
 */
#ifndef KELVIN_TIER_KEY_LIST_H
#define KELVIN_TIER_KEY_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "value/paged.h"

struct keyspace;
struct partition;

struct listed_key {
    struct partition *partition;
    uint32_t incarnation;
    uint64_t hash;
    size_t key_at, key_size;        /* in `text` */
    size_t note;                    /* the user's; 0 at first */
    /* By look_up, of its record. */
    enum status status;
    int64_t expire_ms;              /* -1: never */
    int64_t gone_ms;                /* by its own expiry or that of its last field; -1: never */
    struct paged_extent pages;
};

/* All zero is an empty list. */
struct key_list {
    struct listed_key *keys;
    size_t count, capacity;
    struct buffer text;
};

void key_list_release(struct key_list *list);
/* The new key; until the list is changed. */
struct listed_key *key_list_add(struct key_list *list, const struct keyspace *keyspace, uint64_t hash, struct bytes key);
/* The same for a keyspace that may be gone. */
struct listed_key *key_list_add_in(struct key_list *list, struct partition *partition, uint32_t incarnation, uint64_t hash, struct bytes key);
/* Empty again, with its memory kept for the next keys. */
void key_list_clear(struct key_list *list);

/* Borrowed until the list is changed. */
static inline struct bytes key_list_key(const struct key_list *list, size_t index)
{
    return bytes_of(list->text.data + list->keys[index].key_at, list->keys[index].key_size);
}

#endif
