/* Page name: what a page of a value is called in the page space of its database, and its hash.
 *
 *   name = value ID, 6 bytes | page number, 4 bytes        (big-endian)
 *
 * A page space is a keyspace beside that of a database, with keys that no client sees (keyspace/pages.h). Its incarnation is that of the database with one bit
 * more, so an incarnation says how the names of its keys are hashed.
 *
 * The highest 14 bits of an ID are those of the hash of the key whose value got it, and are those of its pages' hashes: all pages of a value are in one
 * partition, which stays right when the number of partitions changes, and in cluster mode in the range of hashes of the key's slot.
 */
#ifndef KELVIN_KEYSPACE_PAGE_NAME_H
#define KELVIN_KEYSPACE_PAGE_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "keyspace/slot.h"

enum {
    PAGE_NAME_SIZE = 10,
    PAGE_ID_BITS = 48,
    PAGE_ID_COUNT_BITS = PAGE_ID_BITS - SLOT_BITS,      /* of an ID below those of the hash */
};

/* Incarnations of databases are 1 .. INCARNATION_MAX. */
enum { INCARNATION_PAGES = 1 << 30, INCARNATION_MAX = INCARNATION_PAGES - 1 };

static inline bool incarnation_is_of_pages(uint32_t incarnation)
{
    return incarnation & INCARNATION_PAGES;
}

void page_name(char name[PAGE_NAME_SIZE], uint64_t id, uint32_t number);
/* False: no page is called that. */
bool page_name_parse(struct bytes name, uint64_t *id, uint32_t *number);

/* The hash of a page's name; 0 of anything else. */
uint64_t page_hash(struct bytes name);

/* The hash of a name in the keyspaces of the incarnation. */
static inline uint64_t name_hash(const struct key_seed *seed, uint32_t incarnation, struct bytes name)
{
    return UNLIKELY(incarnation_is_of_pages(incarnation)) ? page_hash(name) : key_hash(seed, name);
}

#endif
