/* Twins: the few records of a record map whose tag another record has taken, with their keys.
 *
 * A list sorted by tag; equal tags in the order in which they were added. Adding and removing move the rest of the list.
 * Owner: the struct that embeds it. All zero is an empty list, which holds no memory.
 */
#ifndef KELVIN_TIER_TWINS_H
#define KELVIN_TIER_TWINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct twin {
    uint64_t tag;
    uint64_t place;
    char *key;
    uint32_t key_size;
};

struct twins {
    struct twin *list;
    uint32_t count;
    uint32_t room;
    size_t key_bytes;       /* of all keys, allocator's rounding included */
};

void twins_release(struct twins *twins);            /* empty again */

/* The index of the first twin whose tag is not below `tag`; twins->count if there is none. */
uint32_t twins_first(const struct twins *twins, uint64_t tag);

/* Adds a twin after those with the same tag, with a copy of the key. */
void twins_add(struct twins *twins, uint64_t tag, struct bytes key, uint64_t place);
void twins_remove(struct twins *twins, uint32_t index);

bool twin_has_key(const struct twin *twin, struct bytes key);
struct bytes twin_key(const struct twin *twin);

size_t twins_size(const struct twins *twins);       /* bytes held, allocator's rounding included */

#endif
