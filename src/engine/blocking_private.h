/* Blocking, private: the waiters, what they wait for, and what the files of blocking share. blocking.h says what it is and why. */
#ifndef KELVIN_ENGINE_BLOCKING_PRIVATE_H
#define KELVIN_ENGINE_BLOCKING_PRIVATE_H

#include <stdatomic.h>

#include "base/buffer.h"
#include "base/mutex.h"
#include "engine/blocking.h"
#include "engine/engine.h"
#include "engine/synced.h"
#include "keyspace/owners.h"

/* A key with waiters. Under its partition's lock. */
struct waited {
    struct waited *next;            /* in its bucket */
    struct place *first, *last;     /* the queue; never empty */
    uint32_t removal_waiter_count;  /* waiters in it that are served, too, when the key is removed */
    uint64_t hash;
    int db;
    struct bytes key;               /* after the struct */
};

/* A waiter's place in one queue. */
struct place {
    struct place *prev, *next;      /* the partition's lock */
    struct waited *waited;          /* immutable */
    struct waiter *waiter;          /* immutable */
};

struct waiter {
    struct mail mail;               /* brings the reply to its worker */
    struct engine *engine;
    struct worker *worker;          /* the client's. Immutable, as all up to `places` */
    uint64_t client_id;
    struct acl_user *user;          /* held, or NULL */
    char *address;
    uint32_t flags;
    int db, protocol;
    uint8_t type;                   /* enum value_type: of values that may serve it */
    struct synced_aim aim;          /* how it ends when the time is up */
    bool wakes_on_removal;          /* so may the key's removal, or a value of another type */
    struct deadline deadline;       /* its worker. Its time is immutable; 0: it has none */
    const struct command *command;
    struct bytes *args;
    int arg_count;
    struct place *places;
    int place_count;
    size_t size;                    /* bytes, with the copies of the names of its keys */

    int64_t retry_ms;               /* `serving`: its command is run again at this time; 0: only when a key changes, for good */
    bool is_done;                   /* `serving`; up to the message, then its worker */
    enum blocking_end how;
    struct buffer reply;            /* if it was served */
    uint64_t lsn, lsn_written;
    struct client *client;          /* its worker; NULL: gone */
    bool is_delivered;             /* its worker: the message has run, or is not needed */
    struct waiter *prev, *next;     /* `registry` */
    struct waiter *synced_prev, *synced_next;       /* its worker: in worker->synced_first, if `end` is one of WAITAOF's */
};

/* The effect of a note on calls on the partition of its key until the key is served. */
enum promise {
    NOT_PROMISED,                   /* they run */
    PROMISED,                       /* they wait on the spot: a worker is about to serve it */
    PROMISE_HELD,                   /* they are parked: a partition that is needed for serving it is owned by a unit, which may take long */
};

/* A key that has changed and may serve a waiter: in a noted_list. */
struct noted_key {
    struct noted_key *next;
    uint64_t hash;
    int db;
    enum promise promise;           /* counted in its partition's table */
    uint32_t held_at;               /* PROMISE_HELD: the partition that was owned. Counted there, too: the next unit does not get it first */
    size_t size;
    char key[];
};

struct waited_table {
    struct waited **buckets;
    uint32_t capacity, count;       /* a power of two, or 0 */
    uint32_t promises;              /* PROMISED notes on keys of the partition */
    uint32_t held;                  /* PROMISE_HELD notes that concern the partition */
};

struct blocking {
    struct engine *engine;
    struct mutex serving;        /* before the partitions */
    struct mutex registry;       /* leaf */
    struct waiter *waiters;         /* `registry`: all that there are */
    struct waited_table *tables;    /* by partition, under its lock */
    /* `registry`: served by blocking_retry, in this order. Keys that could not be served yet, that no command removed, or that the primary's
     * stream has changed. */
    struct noted_list later;
    struct mail soon;               /* asks the first worker to serve these */
    _Atomic bool is_asked;          /* it is on its way */
    _Atomic bool any_later;
    struct claim held;              /* owns nothing: calls that are parked until a held promise ends wait for it */
    _Atomic uint64_t held_count;
    _Atomic uint64_t with_retry;    /* waiters with a retry_ms */
    _Atomic uint64_t key_count;     /* written under any partition's lock */
    _Atomic uint64_t removal_key_count;    /* the same: keys with waiters that their absence serves */
    _Atomic uint64_t waiting_count;
    _Atomic uint64_t with_deadline;
};

static inline struct partition *partition_of(const struct blocking *blocking, uint64_t hash)
{
    const struct partitions *all = blocking->engine->partitions;

    return &all->partitions[partition_index(all, hash)];
}

/* blocking_queues.c */

/* Under the lock of the table's partition. NULL: no waiter. */
struct waited *waited_find(const struct waited_table *table, int db, uint64_t hash, struct bytes key);
/* Appends the waiter to the key's queue, at `place`, which is one of its own. The key's partition is locked. */
void queue_join(struct blocking *blocking, struct waiter *waiter, struct place *place, uint64_t hash, struct bytes key);
/* With `serving` held; locks the partition. */
void queue_leave(struct blocking *blocking, struct place *place);

/* blocking_synced.c. On the waiter's worker. For others than WAITAOF's waiters they do nothing. */
void synced_add(struct worker *worker, struct waiter *waiter);
void synced_remove(struct worker *worker, struct waiter *waiter);
/* One that has what it waits for, or can't get it; NULL: none. */
struct waiter *synced_find_over(const struct worker *worker);

/* blocking_notes.c */

/* Appends a note to a list, unless the last one is of the same key; returns it. */
struct noted_key *noted_add(struct noted_list *list, int db, uint64_t hash, struct bytes key);
/* Appends all of `from`, which is empty then. */
void noted_move(struct noted_list *to, struct noted_list *from);
/* Takes the first one out; NULL: there is none. */
struct noted_key *noted_take(struct noted_list *list);
/* The note was served, or other calls may run on the key first: those that wait for it go on. Without locks, as the next. */
void promise_end(struct blocking *blocking, struct noted_key *noted);
/* Holds a promise that can't be served before the owner of the partition `at` leaves. Nothing happens if it is not promised. */
void promise_hold(struct blocking *blocking, struct noted_key *noted, uint32_t at);
/* Appends a note to the list of those that are served later. */
void noted_put_off(struct blocking *blocking, struct noted_key *noted);

/* blocking_serve.c. The mail that asks the first worker to serve the keys that the primary's stream has changed. */
void blocking_serve_applied(struct mail *mail, struct worker *worker);

/* blocking_waiter.c */

/* Ends the wait of a waiter, which leaves its queues. */
void waiter_finish(struct blocking *blocking, struct waiter *waiter, enum blocking_end how);
/* Delivers a finished waiter to its worker. `worker` is the one that the caller runs on; NULL: none. */
void waiter_deliver(struct worker *worker, struct waiter *waiter);
/* One that only the registry refers to; it is removed there. */
void waiter_free(struct waiter *waiter);

#endif
