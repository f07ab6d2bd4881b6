/* Client: who asks. Embedded in a connection (net), or stands alone for the log's replay.
 *
 * Owner: its worker, but for what is marked.
 */
#ifndef KELVIN_CALL_CLIENT_H
#define KELVIN_CALL_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "resp/reply.h"

struct command;
struct request_large;
struct tier_wait;
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
    CLIENT_REPLAY = 1 << 7,             /* the log's own: may do everything, waits in place, is not logged again */
    CLIENT_UNIX_SOCKET = 1 << 8,
    CLIENT_PROXY = 1 << 10,             /* runs the command of a client that waits (engine/blocking.h); is never parked for long */
    CLIENT_HELD_BACK = 1 << 11,         /* of a proxy: writes are held back, it may try again */
    CLIENT_NO_BLOCKING = 1 << 12,       /* what would wait for a key is answered as if its time were up: transactions, scripts */
    CLIENT_MONITOR = 1 << 13,           /* is told of all commands (engine/monitor.h) */
    CLIENT_PROTECTED = 1 << 9,          /* told that protected mode is on, about to go */
};

struct client {
    uint64_t id;
    struct worker *worker;
    struct reply reply;
    uint32_t flags;
    int db;
    bool authenticated;
    char *name, *lib_name, *lib_version;    /* NULL: none. Freed with mem_free */
    char *address, *local_address;          /* "127.0.0.1:12345"; never NULL for a connection */
    int fd;
    int64_t created_ms, active_ms;          /* wall clock */
    const struct command *last_command;
    uint64_t query_size, query_room, arguments_size;    /* bytes, kept up to date by net for CLIENT LIST */
    uint64_t net_input, net_output, commands;           /* totals */
    const struct request_large *large;      /* large arguments of the request that runs: they need not be copied. Set by net */
    int large_count;

    /* Waiting. A parked client's request is run again from the top when it is woken. */
    bool parked;
    bool paused;                            /* CLIENT PAUSE holds its request back; counted in engine->paused_count */
    struct tier_wait *waits;                /* keys it waits for or has pinned: list; see tier/load.c */
    _Atomic int pending;                    /* loads still to come */
    struct client *ready_next;              /* in its worker's list of those to wake. Under that list's lock */
    bool ready_queued;                      /* under that list's lock */
    bool dead;                              /* closed, but still in that list. Its worker */
    struct client *prev, *next;             /* in its worker's list of all */
    struct client *prev_waiting, *next_waiting;     /* in its worker's list of those who wait for memory */
    bool waits_for_memory;
    bool waits_for_replies;                 /* and others' replies have to be sent first */
    bool waits_for_pace;                    /* and it is the pace (engine/pace.h) that holds it back, nothing else */
    uint64_t lsn_written;                   /* of its own last change */
    uint64_t lsn_needed;                    /* its output waits until the log covers this */
    struct waiter *waiter;                  /* it waits for a key to be filled: engine/blocking.h; or NULL */
    int64_t began_us;                       /* monotonic clock: when the request that is parked, or runs, ran for the first time */
    void *job;                              /* struct job of engine/job.h: background work of the call that is parked */
};

#endif
