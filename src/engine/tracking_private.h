/* Tracking, private: trackers, the table of a partition, and what the files of tracking share. tracking.h says what it is and why. */
#ifndef KELVIN_ENGINE_TRACKING_PRIVATE_H
#define KELVIN_ENGINE_TRACKING_PRIVATE_H

#include "base/mutex.h"
#include "base/random.h"
#include "engine/engine.h"
#include "engine/publish.h"
#include "engine/tracking.h"

enum { TRACKER_GENERATION_SHIFT = 32 };

struct tracker {
    _Atomic uint32_t holders;
    uint64_t client_id;             /* immutable */
    int worker;                     /* immutable: index of the client's */
    /* enum tracking_mode, and in the upper half the generation: how often tracking was turned off. Changed by the client's worker, except
     * for TRACKING_BROKEN. */
    _Atomic uint64_t state;
    _Atomic uint64_t redirect;      /* changed by the client's worker; 0: none */
    struct tracker *prev, *next;    /* in the list of those that are on: its lock */
    int prefix_count;               /* the client's worker */
    struct bytes *prefixes;         /* the same: ascending, each with memory of its own */
    uint64_t prefix_size;           /* the same: bytes of all prefixes */
};

static inline struct tracker *tracker_hold(struct tracker *tracker)
{
    atomic_fetch_add_explicit(&tracker->holders, 1, memory_order_relaxed);
    return tracker;
}

void tracker_release(struct tracker *tracker);

/* A push for the tracker itself. */
static inline struct push_target tracker_target(const struct tracker *tracker, uint64_t state)
{
    return (struct push_target){ tracker->client_id, (uint32_t)(state >> TRACKER_GENERATION_SHIFT) };
}

static inline bool tracker_is_gone(const struct tracker *tracker)
{
    return atomic_load_explicit(&tracker->state, memory_order_relaxed) & TRACKING_GONE;
}

/* A key with its trackers: in the table of its partition, or, taken out of it, in a list of changes. */
struct tracked_key {
    struct tracked_key *next;       /* in its bucket, or in the list */
    union {
        uint64_t hash;              /* in the table */
        uint64_t by;                /* in a list: the client that has changed it, 0: none */
    };
    union {
        struct tracker *one;        /* room is 1 */
        struct tracker **many;
    };
    uint32_t count, room;           /* trackers, each held and there once, ascending by address. In a list it may be 0 */
    uint32_t size;                  /* bytes of the key */
    bool is_all;                    /* in a list: not a key, but all there are */
    char key[];
};

static inline struct bytes tracked_name(const struct tracked_key *tracked)
{
    return bytes_of(tracked->key, tracked->size);
}

static inline struct tracker *tracked_tracker(const struct tracked_key *tracked, uint32_t index)
{
    return tracked->room == 1 ? tracked->one : tracked->many[index];
}

/* tracking_table.c. Under the lock of the table's partition, except for tracked_create and tracked_free. */

struct tracking_table {
    struct tracked_key **buckets;
    uint32_t capacity;              /* a power of two, or 0 */
    uint32_t count;                 /* keys */
};

/* A change of a table. */
struct tracking_change {
    int64_t keys, items, bytes;
};

/* Returns the bytes that a tracked key takes in a table. */
static inline int64_t tracked_bytes(const struct tracked_key *tracked)
{
    return (int64_t)(sizeof(*tracked) + sizeof(tracked) + tracked->size + tracked->count * sizeof(tracked->one));
}

/* With no trackers. */
struct tracked_key *tracked_create(struct bytes key);
void tracked_free(struct tracked_key *tracked);         /* releases the trackers */

/* The tracker has read the key. Trackers of clients that are gone make room for others. */
struct tracking_change tracking_table_add(struct tracking_table *table, uint64_t hash, struct bytes key, struct tracker *tracker);
/* Takes the key out; NULL: it is not there. */
struct tracked_key *tracking_table_take(struct tracking_table *table, uint64_t hash, struct bytes key);
/* Takes any key out; NULL: there is none. */
struct tracked_key *tracking_table_take_any(struct tracking_table *table, struct random *random);
/* Frees all keys. */
struct tracking_change tracking_table_clear(struct tracking_table *table);

/* tracking_prefixes.c: which trackers broadcast keys with which prefix. */

struct tracking_prefix {
    struct bytes name;              /* with memory of its own */
    struct tracker **trackers;      /* held */
    size_t count, room;
};

struct tracking_prefixes {
    struct mutex lock;              /* leaf */
    struct tracking_prefix *prefixes;       /* lock: ascending by name */
    size_t count, room;             /* lock */
};

void tracking_prefixes_init(struct tracking_prefixes *all);
void tracking_prefixes_release(struct tracking_prefixes *all);
/* The tracker gets keys with that prefix, too. */
void tracking_prefixes_add(struct tracking_prefixes *all, struct tracker *tracker, struct bytes name);
/* All its prefixes are removed. */
void tracking_prefixes_remove(struct tracking_prefixes *all, struct tracker *tracker);
/* Calls `found` for each prefix that some of `keys` (ascending, no key twice) begin with. With the lock held. */
typedef void tracking_prefix_found(void *context, const struct tracking_prefix *prefix, struct tracked_key *const *keys, size_t key_count);
void tracking_prefixes_match(struct tracking_prefixes *all, struct tracked_key *const *keys, size_t key_count, tracking_prefix_found *found,
    void *context);

/* tracking_send.c */

enum tracking_audience { TRACKING_TO_READERS, TRACKING_TO_ALL };

/* As tracking_send. TRACKING_TO_READERS: the keys have not changed, so nothing is broadcast. */
void tracking_send_to(struct engine *engine, const struct worker *worker, struct tracking_list *list, uint64_t lsn, enum tracking_audience audience);
/* Sends the broadcasts that were noted during the turn. */
void tracking_send_broadcasts(struct worker *worker);

/* tracking_list.c */

void tracking_list_append(struct tracking_list *list, struct tracked_key *tracked);
struct tracked_key *tracking_list_take(struct tracking_list *list);     /* the first; NULL: it is empty */

/* tracking_redirect.c. Any thread, any locks. */

/* A message of the tracker that goes to another client; `resp2` and `resp3` are copied. */
struct mail *tracking_redirect_create(struct tracker *tracker, uint64_t receiver, struct bytes resp2, struct bytes resp3, uint64_t lsn);
/* Sends it. If there is no such client, what the tracker gets instead is added to the batch. */
void tracking_redirect_post(struct engine *engine, struct mail *mail, struct publish_batch *batch);

struct tracking_broadcast {
    struct tracking_list list;
    uint64_t lsn;
};

struct tracking {
    struct tracking_table *tables;  /* by partition, under its lock */
    uint32_t table_count;           /* immutable, as `broadcasts` */
    struct tracking_prefixes prefixes;
    struct mutex lock;              /* leaf */
    struct tracker *trackers;       /* lock: those that are on */
    struct tracking_broadcast *broadcasts;  /* by worker, which owns it: changes to be broadcast at the end of its turn */
    uint32_t *efforts;              /* by worker, which owns it: turns in a row after which the tables still had too many keys */
    _Atomic uint64_t clients, broadcasters;         /* trackers that are on; those in broadcasting mode */
    _Atomic int64_t keys, items, bytes;     /* in the tables */
};

#endif
