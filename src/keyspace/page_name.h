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
#include <string.h>

#include "keyspace/slot.h"

enum {
    PAGE_NAME_SIZE = 10,
    PAGE_NUMBER_AT = 6,         /* in a name */
    PAGE_ID_BITS = 48,
    PAGE_ID_COUNT_BITS = PAGE_ID_BITS - SLOT_BITS,      /* of an ID below those of the hash */
};

/* Incarnations of databases are 1 .. INCARNATION_MAX. */
enum { INCARNATION_PAGES = 1 << 30, INCARNATION_MAX = INCARNATION_PAGES - 1 };

static inline bool incarnation_is_of_pages(uint32_t incarnation)
{
    return incarnation & INCARNATION_PAGES;
}

static inline void page_name(char name[PAGE_NAME_SIZE], uint64_t id, uint32_t number)
{
    uint64_t high = __builtin_bswap64(id << 16);            /* little-endian machines only */
    uint32_t low = __builtin_bswap32(number);

    memcpy(name, &high, sizeof(high));
    memcpy(name + PAGE_NUMBER_AT, &low, sizeof(low));
}

/* False: no page is called that. */
static inline bool page_name_parse(struct bytes name, uint64_t *id, uint32_t *number)
{
    uint64_t high;
    uint32_t low;

    if (name.size != PAGE_NAME_SIZE)
        return false;
    memcpy(&high, name.data, sizeof(high));
    memcpy(&low, name.data + PAGE_NUMBER_AT, sizeof(low));
    *id = __builtin_bswap64(high) >> 16;
    *number = __builtin_bswap32(low);
    return true;
}

/* The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): a permutation in which each bit of the result depends
 * on all bits. */
static inline uint64_t page_scramble(uint64_t word)
{
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
    word = (word ^ word >> 27) * 0x94d049bb133111eb;
    return word ^ word >> 31;
}

/* The hash of the page's name. */
static inline uint64_t page_hash_of(uint64_t id, uint32_t number)
{
    return id >> PAGE_ID_COUNT_BITS << SLOT_SHIFT | page_scramble(page_scramble(id) + number) >> SLOT_BITS;
}

/* The same of a name; 0 of anything else. */
static inline uint64_t page_hash(struct bytes name)
{
    uint64_t id;
    uint32_t number;

    return page_name_parse(name, &id, &number) ? page_hash_of(id, number) : 0;
}

/* The hash of a name in the keyspaces of the incarnation. */
static inline uint64_t name_hash(const struct key_seed *seed, uint32_t incarnation, struct bytes name)
{
    return UNLIKELY(incarnation_is_of_pages(incarnation)) ? page_hash(name) : key_hash(seed, name);
}

#endif
