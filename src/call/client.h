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
    char *name, *lib_name, *lib_version;    /* NULL: none. Freed with mem_free */
    size_t names_size;                      /* bytes of these three */
    char *address, *local_address;          /* "127.0.0.1:12345"; never NULL for a connection */
    int fd;
    int64_t created_us, active_us;          /* monotonic */
    const struct command *last_command;     /* also one that was refused or queued; NULL: none yet, or an unknown one */
    /* Bytes, updated by net: what it has sent and was not run yet, room for that, complete arguments of the next request; the memory of
     * replies that the socket does not take, their parts, the most that replies of a turn have taken lately. */
    uint64_t query_size, query_room, arguments_size, output_memory, output_parts, reply_peak;
    struct client_size size;                /* engine/client_memory.h */
    uint64_t net_input, net_output, commands;           /* totals */
    const struct request_large *large;      /* large arguments of the running request, which need not be copied. Set by net */
    int large_count;

    /* Waiting. A parked client's request is run again from the top when it is woken. */
    bool parked;
    bool paused;                            /* CLIENT PAUSE delays its request; counted in engine->clients.paused */
    struct tier_wait *waits;                /* list of the keys that it waits for or has pinned: see tier/load.c */
    _Atomic int pending;                    /* loads that have not finished */
    struct client *ready_next;              /* in its worker's list of clients to wake. Under that list's lock */
    bool ready_queued;                      /* under that list's lock */
    bool dead;                              /* closed, but still in that list. Owner: its worker */
    struct client *prev, *next;             /* in its worker's list of all clients */
    int parking;                            /* enum parking of engine/parking.h: the queue of its worker that it is in; 0: none */
    struct client *prev_parked, *next_parked;       /* in that queue */
    uint64_t lsn_written;                   /* of its own last change */
    uint64_t lsn_needed;                    /* its output is held until the log covers this */
    uint64_t lsn_delivered;                 /* of the messages it was sent (engine/delivery.h) */
    struct waiter *waiter;                  /* it waits for a key to be filled: engine/blocking.h; or NULL */
    struct unit *unit;                      /* its request runs as a unit and is suspended (engine/unit.h); or NULL */
    struct owner_waiter owned;              /* it waits until a partition's owner leaves */
    struct transaction *transaction;        /* after MULTI or WATCH: engine/transaction.h; or NULL */
    int64_t retry_ms;                       /* of the wait that its call has asked for: see call_wait */
    /* The waits of the request that is parked or runs: whether it has waited, when it was parked last and for what, and how long it has
     * waited. Not those of one that waits for a key to be filled. */
    bool has_waited;
    enum wait_reason parked_for;
    int64_t parked_us;                      /* monotonic clock */
    int64_t waited_us[WAIT_REASONS];
    int64_t began_us;                       /* monotonic clock: when the request that is parked or runs was run for the first time */
    void *job;                              /* struct job of engine/job.h: background work of the parked call */
    struct listener *listener;              /* it gets messages or pushes: engine/delivery.h; or NULL */
    uint32_t push_generation;               /* pushes for another one are dropped (engine/publish.h) */
    struct bytes unlogged_raw;              /* CALLER_APPLIER: what its call appends to the history in its own place, once, also if it changes
                                             * nothing then; empty when that was done */
    struct replica *replica;                /* it is a replica, or may become one: replication/primary.h; or NULL */
    struct client *next_replica;            /* in its worker's list of replicas */
    struct tracker *tracker;                /* it has turned tracking on: engine/tracking.h; or NULL */
    struct client *next_id;                 /* in engine/client_ids.h, under its lock */
};

#endif
