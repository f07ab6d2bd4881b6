/* Oversized: keys whose record is larger than the store takes (tier_settings.record_size_max), remembered so that demotion passes
 * them over and nothing encodes them again just to find out.
 *
 * Remembered is how large record and value were when the record was built. From the value's size now follows, about, how large its
 * record would be now; a value that has become small enough is tried again. Only values that are big (entry_is_big) are looked at:
 * others are far below every sensible limit.
 *
 * Owner: the writer. `oversized_is` requires the lock of the key's partition too.
 */
#ifndef KELVIN_TIER_OVERSIZED_H
#define KELVIN_TIER_OVERSIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct tier;
struct keyspace;
struct entry;

enum { OVERSIZED_KEYS_MAX = 64, OVERSIZED_TEXT_SIZE = 240 };

struct oversized_key {
    uint32_t incarnation;
    uint64_t hash;
    size_t value_size;              /* oversized_value_size, when the record was built */
    size_t record_size;             /* bytes of record and key */
};
/* When it is full, the oldest is forgotten: that key is encoded once more. */
struct oversized {
    struct oversized_key keys[OVERSIZED_KEYS_MAX];
    uint32_t count, next;           /* keys that are remembered; which one is replaced next when all are in use */
};

/* The largest record with its key, bytes. */
size_t oversized_limit(const struct tier *tier);
/* Bytes of memory of a value, about: some elements are looked at. Under the partition's lock. */
size_t oversized_value_size(const struct entry *entry);

enum oversized_care {
    OVERSIZED_SURELY,               /* only if it is well above the limit: the size is an estimate, and an image must not fail without need */
    OVERSIZED_PROBABLY,
};
/* Whether the key's record would be too large, as far as is known. */
bool oversized_is(const struct tier *tier, const struct keyspace *keyspace, uint64_t hash, const struct entry *entry,
    enum oversized_care care);
/* A record was built and found too large. Logs it, the first time. */
void oversized_note(struct tier *tier, uint32_t incarnation, uint64_t hash, struct bytes key, size_t value_size, size_t record_size);
/* Forgets a key whose record was built, and fits. */
void oversized_forget(struct tier *tier, uint32_t incarnation, uint64_t hash);
/* A sentence that names the key, for the log and INFO; OVERSIZED_TEXT_SIZE bytes at most with its end. */
void oversized_text(const struct tier *tier, struct bytes key, char text[OVERSIZED_TEXT_SIZE]);

#endif
