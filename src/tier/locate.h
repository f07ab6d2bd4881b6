/* Locate: where the records of a store are, found without its tags file: the index has the keys, and of the records that the segments have
 * for a key, the one that was written last is live.
 *
 * It reads all segments once for each LOCATE_KEYS keys, which take 24 bytes of memory each.
 */
#ifndef KELVIN_TIER_LOCATE_H
#define KELVIN_TIER_LOCATE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/message.h"
#include "base/status.h"
#include "store/store.h"

enum { LOCATE_KEYS = 16 << 20 };

enum located {
    LOCATED,                /* `place` has the record */
    LOCATED_UNSURE,         /* the same, but bytes that were written later are damaged and may have been a newer record */
    LOCATED_NOWHERE,
};
struct located_key {
    uint32_t incarnation;
    uint64_t hash, place;
    struct bytes key;
    enum located state;
};
/* False ends the search. */
typedef bool locate_found(void *context, const struct located_key *key);

struct locate_options {
    const uint32_t *incarnations;   /* in any order; keys of others are passed over */
    int count;
    size_t keys_max;                /* 0: LOCATE_KEYS */
    void (*progress)(void *context, uint64_t keys);     /* called often. NULL: not */
};

/* Calls `found` for each key, by ascending incarnations, then hashes. `store` is not written. STATUS_CANCELLED: `found` returned false. Damaged records are no error; what can't be read is. */
enum status locate_all(struct store *store, const struct locate_options *options, locate_found *found, void *context,
    struct message *message);

#endif
