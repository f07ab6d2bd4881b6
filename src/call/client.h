/* Client: the sender of calls. Embedded in a connection (net), or on its own for the replay of the log.
 *
 * Owner: its worker, except for fields that say otherwise.
 */
#ifndef KELVIN_CALL_CLIENT_H
#define KELVIN_CALL_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/random.h"
#include "call/caller.h"
#include "keyspace/owners.h"
#include "resp/reply.h"

struct acl_user;
struct command;
struct listener;
struct replica;
struct request_large;
struct tier_wait;
struct transaction;
struct unit;
struct tracker;
struct waiter;
struct worker;

enum client_flag {
    CLIENT_CLOSE_AFTER_REPLY = 1 << 0,
    CLIENT_CLOSE_NOW = 1 << 1,
    CLIENT_REPLY_OFF = 1 << 2,
    CLIENT_REPLY_SKIP_NEXT = 1 << 3,    /* CLIENT REPLY SKIP was just called */
    CLIENT_REPLY_SKIP = 1 << 4,         /* this command's reply is dropped */
    CLIENT_NO_EVICT = 1 << 5,
    CLIENT_NO_TOUCH = 1 << 6,
    CLIENT_UNIX_SOCKET = 1 << 8,
    CLIENT_TLS = 1 << 7,                /* it speaks TLS: addresses of other nodes are given with their TLS ports */
    CLIENT_READONLY_SLOTS = 1 << 10,    /* READONLY: a replica runs its reads (engine/redirect.h) */
    CLIENT_ASKING = 1 << 12,            /* ASKING: its next command may be for a slot that is on its way here */
    CLIENT_HELD_BACK = 1 << 11,         /* TRAIT_NOT_PARKED: it could not run now, and may try again */
    CLIENT_MONITOR = 1 << 13,           /* receives all commands (engine/monitor.h) */
    CLIENT_MULTI = 1 << 14,             /* its commands are queued (engine/transaction.h) */
    CLIENT_PRIMARY = 1 << 19,           /* the link to the primary, as CLIENT LIST shows it */
    CLIENT_REPLICA = 1 << 18,           /* it has called PSYNC or SYNC (replication/primary.h) */
    CLIENT_PROTECTED = 1 << 9,          /* was sent the error of protected mode and is about to be closed */
    CLIENT_SUBSCRIBED = 1 << 20,        /* to a channel, shard channel or pattern (engine/delivery.h) */
    CLIENT_LISTENS = 1 << 22,           /* has a listener: to be caught up before its calls */
    CLIENT_TRACKING = 1 << 24,          /* what it reads is remembered (engine/tracking.h): tracking is on, but not in broadcasting mode */
    CLIENT_CACHING = 1 << 25,           /* CLIENT CACHING was called: concerns its next command */
    CLIENT_DEBUGS = 1 << 23,            /* has asked for the debugger: its scripts must not run in earnest */
    CLIENT_PUSHES_HELD = 1 << 21,       /* its output is a part of a reply: messages wait (delivery_hold) */
};

/* Reasons why a call is parked. */
enum wait_reason {
    WAIT_COLD,                  /* keys that are loaded */
    WAIT_MEMORY,                /* memory, or a value that is held for a checkpoint */
    WAIT_OWNER,                 /* a transaction or script that owns its partitions; in a unit: to be run on */
    WAIT_PAUSE,                 /* CLIENT PAUSE */
    WAIT_JOB,                   /* work on other threads: a SCAN of cold keys, CLIENT LIST ... */
    WAIT_REASONS
};

/* Memory that a client takes (engine/client_memory.h). Owner: its worker. */
struct client_size {
    uint64_t all, held;                     /* bytes: of everything; of its buffers and its state */
    int class;                              /* 1 + the index of the list that it is in; 0: none */
    struct client *prev, *next;             /* in that list */
};

/* The names that a client has given itself, and their bytes. NULL: none. Freed with mem_free. */
struct client_names {
    char *name, *lib_name, *lib_version;
    size_t size;
};

/* Bytes, updated by net: what it has sent and was not run yet, room for that, complete arguments of the next request; the memory of
 * replies that the socket does not take, their parts, the most that replies of a turn have taken lately. */
struct client_buffers {
    uint64_t query_size, query_room, arguments_size, output_memory, output_parts, reply_peak;
};

/* Since it is connected: bytes received and sent, commands run. */
struct client_totals {
    uint64_t input, output, commands;
};

/* Large arguments of the running request, which need not be copied. Set by net. */
struct client_large {
    const struct request_large *list;
    int count;
};

/* The loads of cold keys that it waits for (tier/load.c). */
struct client_loads {
    struct tier_wait *waits;                /* list of the keys that it waits for or has pinned */
    _Atomic int pending;                    /* loads that have not finished */
    struct client *ready_next;              /* in its worker's list of clients to wake. Under that list's lock */
    bool ready_queued;                      /* under that list's lock */
};

/* The queue of its worker in which it is parked (engine/parking.h). */
struct client_parking {
    int queue;                              /* enum parking; 0: none */
    struct client *prev, *next;             /* in that queue */
};

/* A time at which its worker does something for a client (engine/deadlines.h). */
struct deadline {
    int64_t at_us;                          /* monotonic clock */
    void (*passed)(struct worker *worker, struct deadline *deadline);
    int place;                              /* in the worker's heap, from 1 on; 0: none */
};

/* CLIENT TIER-WAIT: how long its calls wait for cold keys, before they reply an error. */
struct client_cold_wait {
    bool is_bounded;
    int64_t max_ms;                         /* if it is bounded; 0: not at all */
    struct deadline deadline;               /* of the call that waits */
};

/* Positions in the history. */
struct client_lsns {
    uint64_t written;                       /* of its own last change */
    uint64_t needed;                        /* its output is held until the log covers this */
    uint64_t delivered;                     /* of the messages it was sent (engine/delivery.h) */
};

/* The waits of the request that is parked or runs. Not those of one that waits for a key to be filled. */
struct client_request {
    bool has_waited;
    bool draws_again;                       /* it runs again and has to draw the same numbers, from `random` on */
    enum wait_reason parked_for;            /* the last time */
    int64_t parked_us;                      /* monotonic clock: the last time */
    int64_t waited_us[WAIT_REASONS];
    int64_t began_us;                       /* monotonic clock: when it was run for the first time */
    struct random random;                   /* the call's own generator at its beginning, if it has opened a key in pages */
};

struct client {
    uint64_t id;
    struct worker *worker;
    struct reply reply;
    uint32_t flags;                         /* enum client_flag */
    uint32_t caller;                        /* enum caller: the set of its traits */
    int db;
    bool authenticated;
    bool checks_acl;                        /* it is not authenticated, or its user may not do everything: its calls are checked (engine/access.h) */
    struct acl_user *user;                  /* held; NULL: may do everything (the replay of the log, unit tests) */
    struct client_names names;
    char *address, *local_address;          /* "127.0.0.1:12345"; never NULL for a connection */
    int fd;
    int64_t created_us, active_us;          /* monotonic */
    const struct command *last_command;     /* also one that was refused or queued; NULL: none yet, or an unknown one */
    struct client_buffers buffers;
    struct client_size size;                /* engine/client_memory.h */
    struct client_totals totals;
    struct client_large large;

    /* Waiting. A parked client's request is run again from the top when it is woken. */
    bool parked;
    bool paused;                            /* CLIENT PAUSE delays its request; counted in engine->clients.paused */
    bool dead;                              /* closed; its unit, or its worker's mail, still refers to it. Owner: its worker */
    struct client_loads loads;
    struct client_cold_wait cold_wait;
    struct client *prev, *next;             /* in its worker's list of all clients */
    struct client_parking parking;
    struct client_lsns lsn;
    struct waiter *waiter;                  /* it waits for a key to be filled: engine/blocking.h; or NULL */
    struct unit *unit;                      /* its request runs as a unit and is suspended (engine/unit.h); or NULL */
    struct owner_waiter owned;              /* it waits until a partition's owner leaves */
    struct transaction *transaction;        /* after MULTI or WATCH: engine/transaction.h; or NULL */
    int64_t retry_ms;                       /* of the wait that its call has asked for: see call_wait */
    struct client_request request;
    void *job;                              /* struct job of engine/job.h: background work of the parked call */
    struct listener *listener;              /* it gets messages or pushes: engine/delivery.h; or NULL */
    uint32_t push_generation;               /* pushes for another one are dropped (engine/publish.h) */
    struct bytes unlogged_raw;              /* CALLER_APPLIER: what its call appends to the history in its own place, once, also if it changes
                                             * nothing then; empty when that was done */
    uint64_t receipt;                       /* of the slots that another node sends by this connection (cluster/bus.h); 0: none. Owner: its worker */
    struct replica *replica;                /* it is a replica, or may become one: replication/primary.h; or NULL */
    struct client *next_replica;            /* in its worker's list of replicas */
    struct tracker *tracker;                /* it has turned tracking on: engine/tracking.h; or NULL */
    struct client *next_id;                 /* in engine/client_ids.h, under its lock */
#ifdef KELVIN_DEBUG
    int forgotten_checks;                   /* worker_check_parked */
#endif
};

#endif
