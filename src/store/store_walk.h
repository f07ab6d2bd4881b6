/* Store walk: reads everything in a store, to verify or repair it while no server uses it. */
#ifndef KELVIN_STORE_STORE_WALK_H
#define KELVIN_STORE_STORE_WALK_H

#include "base/message.h"
#include "store/store.h"

#ifdef __cplusplus
extern "C" {
#endif

enum store_kind {
    STORE_RECORD,       /* incarnation, hash, key */
    STORE_EXPIRY,       /* expire_ms, incarnation, hash, key */
    STORE_STRANGE,      /* a key that no Kelvin writes: `key` is all of it */
};

struct store_item {
    enum store_kind kind;
    uint32_t incarnation;
    uint64_t hash;
    int64_t expire_ms;
    struct bytes key;               /* valid during the call of store_found */
};

/* Calls `found` for every key in order: records by incarnation and hash, expiries. Blocks that can't be read are skipped; the
 * walk then returns the first error at its end. If `found` returns false, the walk stops and returns STATUS_OK. Counts as an iterator while
 * it runs. */
typedef bool store_found(void *context, const struct store_item *item);
enum status store_walk(struct store *store, store_found *found, void *context);

/* Creates the index of an image in `to`, which must not exist, synced, with every key of the open store `from` that can be read and for which `keep`
 * returns true, and meta data with its seed and `number`. Then `more` (NULL: no more) sets an item that is added, a record or an expiry, as long as it
 * returns true. Segments are not copied. On failure `to` is removed. */
typedef bool store_more(void *context, struct store_item *item);
enum status store_rewrite(struct store *from, const char *to, uint64_t number, store_found *keep, store_more *more, void *context,
    struct message *message);

#ifdef __cplusplus
}
#endif
#endif
