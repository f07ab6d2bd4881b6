/* Key: how commands reach keys. The only door: dirty marks, the log, heat, expiry, notifications and WATCH hang off it.
 *
 *   struct key key;
 *   if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_STRING, &key))     replied WRONGTYPE
 *       return;
 *   if (key.present) ... key.value ...
 *   key_set_string(&key, bytes);  or  hash_set(&key.value, ...);
 *   key_changed(&key, EVENT_SET);
 *
 * The key's partition is locked by the executor for the whole call, because the command's row says which arguments are keys.
 * key.value's inline bytes are borrowed from the entry: they end at the next change of any key.
 */
#ifndef KELVIN_CALL_KEY_H
#define KELVIN_CALL_KEY_H

#include "base/compiler.h"
#include "call/call.h"
#include "call/event.h"
#include "keyspace/keyspace.h"

enum key_access {
    KEY_FOR_READING,        /* counts as a hit or miss, adds heat */
    KEY_FOR_LOOKING,        /* neither: DEBUG, DEL. (TTL and similar commands read; their rows say NO_TOUCH, so heat stays.) */
    KEY_FOR_WRITING,        /* its value is needed, and may be changed */
    KEY_FOR_OVERWRITING,    /* its value is not needed: for a cold key `present` and `value` are not reliable */
};

struct key {
    struct call *call;
    struct keyspace *keyspace;  /* NULL: undeclared */
    struct bytes name;          /* borrowed from the arguments */
    uint64_t hash;
    uint32_t handle;            /* private */
    bool present;               /* exists and has not expired */
    bool replaced;              /* private: `old` is to be freed */
    bool is_overwritten;        /* private: by its row it is only overwritten, so what is in it need not be there */
    struct value value;         /* the caller may change it (objects) or replace it (key_replace) */
    struct value old;
    int64_t expire_ms;          /* -1: never. The caller may change it; key_changed stores it */
};

/* Opens the key that is argument `arg`. Returns key->present.
 *
 * An argument that is no key by the command's row has no lock, and is never touched: it reads as absent, what is stored in it is dropped, and
 * in place of the handler's reply the executor replies an error (call->undeclared). That is a defect of the row, but a request must not end
 * the process. */
bool key_open(struct call *call, int arg, enum key_access access, struct key *key);
/* The same in another database of the server (MOVE, COPY ... DB), or for a key whose row says OW but whose old value is needed
 * after all. The executor has locked the key's partition, which is the same in all databases. False, too, if the record cannot be
 * read from the store: then ERR_TIER_READ was replied, call->failed is set, and the handler returns. */
bool key_open_in(struct call *call, int db, int arg, enum key_access access, struct key *key);
/* Counts a hit or a miss, and reports EVENT_KEYMISS. key_open does it for reading; a command that opens a key for writing may read
 * it, too (GETDEL). */
void key_count_read(const struct key *key);
/* False if it is present but of another type: WRONGTYPE was replied. False, too, if it is undeclared: the handler returns. */
bool key_open_as(struct call *call, int arg, enum key_access access, enum value_type type, struct key *key);

/* Sets another value; takes its object. Inline bytes are borrowed until key_changed. The expiry stays: set expire_ms to -1 to
 * drop it. */
static inline void key_replace(struct key *key, struct value value);
/* key_replace with the best encoding for the bytes. */
void key_set_string(struct key *key, struct bytes bytes);

/* Makes a copy of the value for another key, whose inline bytes live as long as the call. False: pages are missing: the handler, which has changed nothing, returns (key_ask). */
bool key_copy_value(const struct key *from, const struct key *to, struct value *copy);

/* Stores value and expiry, creating the entry if needed, marks it dirty and reports the event; if the key is new, EVENT_NEW before
 * it. Counts one change. */
void key_changed(struct key *key, enum event event);
/* Stores another encoding of the same value in a present key: no event, and nothing is logged. */
void key_recode(struct key *key);
/* Reports another event: SET ... EX is "set", then "expire". */
void key_event(const struct key *key, enum event event);
/* Removes the key (large values are freed in the background if removed lazily). The key is present, or was opened for
 * overwriting. */
enum key_removal { KEY_REMOVE_NOW, KEY_REMOVE_LAZILY };
void key_remove(struct key *key, enum key_removal removal, enum event event);
/* Removes a key before its call runs; logged as a DEL in front of what the call logs. For the executor: the partition is locked, the entry not held. */
void key_evict(struct call *call, struct keyspace *keyspace, const struct call_key *found, uint32_t handle);
/* Removes the present key and returns its value, for RENAME and MOVE to a key of the database `db`: an object becomes the caller's, inline bytes live as long
 * as the call. Pages stay where they are, if the database is the same. Counts no change: storing the value elsewhere does. Nor does it report an event, because "new" of the other key comes
 * first. */
struct value key_detach(struct key *key, int db);

/* Private: the value is about to be replaced. An object of the entry is freed when the other value is stored. */
static inline void key_leave_value(struct key *key)
{
    if (UNLIKELY(key->present && !key->replaced && value_is_object(&key->value))) {
        key->old = key->value;
        key->replaced = true;
    }
}

static inline void key_replace(struct key *key, struct value value)
{
    key_leave_value(key);
    key->value = value;
}

/* The string, which has at least `size` bytes when the call has changed it, or does not exist yet, is used in parts: a large one is kept in blocks from now on (value/string.h). It has
 * zeros up to that size then; a new one is stored by key_changed. */
void key_use_in_parts(struct key *key, uint64_t size);

/* A function of the value has said that elements are missing: the handler, which has changed nothing, returns. It runs again when they are there. */
void key_ask(const struct key *key);

/* Heat of a present key, decayed to now; seconds since it was last touched (in whole minutes). For OBJECT FREQ and IDLETIME. */
uint8_t key_heat(const struct key *key);
int64_t key_idle_s(const struct key *key);
void key_set_heat(struct key *key, uint8_t heat);
void key_set_idle(struct key *key, int64_t seconds);    /* at most HEAT_IDLE_MAX minutes are stored */

/* Functions of higher rooms that keys need. Set once at start; called under the partition's lock. */
struct key_hooks {
    void *context;
    void (*event)(void *context, const struct key *key, enum event event);      /* engine/event.h */
    void (*free_later)(void *context, struct value value);
    /* Tier rule 8: a key that no argument declares, or of another database, is not in RAM: makes it resident in place if it may
     * be cold. False: its record cannot be read. */
    bool (*load_in_place)(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key);
    /* Tier rule 9: such a key is latched and is to be changed: gives the entry an object of its own and ends the latch. */
    void (*unlatch)(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key);
    /* A key that calls wait for was used: it stays in RAM, though all they want may be a look at it. */
    void (*used)(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key);
};

#endif
