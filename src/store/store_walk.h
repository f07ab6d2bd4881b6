/* Store walk: all there is in a store's directory, for those who verify or mend it while no server has it. */
#ifndef KELVIN_STORE_STORE_WALK_H
#define KELVIN_STORE_STORE_WALK_H

#include "base/message.h"
#include "store/store.h"

#ifdef __cplusplus
extern "C" {
#endif

enum store_kind {
    STORE_META,         /* `key`: its name; `record`: its value */
    STORE_RECORD,       /* incarnation, hash, key, record */
    STORE_EXPIRY,       /* expire_ms, incarnation, hash, key */
    STORE_STRANGE,      /* a key that nobody writes: `key` has all of it */
};

struct store_item {
    enum store_kind kind;
    uint32_t incarnation;
    uint64_t hash;
    int64_t expire_ms;
    struct bytes key, record;       /* borrowed until the next */
};

/* Every key in order: meta, records by incarnation and hash, expiries. Blocks that can't be read are stepped over; the answer is the
 * first error then, at the end. False of `found` ends it: STATUS_OK. By one thread, as an iterator. */
typedef bool store_found(void *context, const struct store_item *item);
enum status store_walk(struct store *store, store_found *found, void *context);

/* A new store in `to` (must not exist), synced, with everything of the open store `from` that can be read and that `keep` wants (it is
 * not asked about meta data: seed and version are taken over, `number` is the new store's). On failure what was made is removed. */
enum status store_rewrite(struct store *from, const char *to, uint64_t number, store_found *keep, void *context, struct message *message);

#ifdef __cplusplus
}
#endif
#endif
