/* Call: one command being run for one client. It is on the executor's stack; its arena lives as long.
 *
 * A handler checks its arguments, opens its keys (call/key.h), replies exactly once, and returns. It may be run again from the
 * top as long as it has changed nothing (a key was cold, memory was short): so first read, then change.
 */
#ifndef KELVIN_CALL_CALL_H
#define KELVIN_CALL_CALL_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/text.h"
#include "call/client.h"
#include "call/command.h"
#include "call/turn.h"
#include "keyspace/partition.h"
#include "resp/reply.h"
#include "value/value.h"

struct engine;
struct key;
struct unit;
struct event_list;
struct pages_access;
struct witness;

/* A key argument, found by the executor. */
struct call_key {
    int arg;                    /* index in args */
    uint32_t flags;             /* enum key_flag */
    uint64_t hash;
    uint32_t handle;            /* its entry when the call began; 0: none */
};

/* Whether the key's value is not changed. */
static inline bool call_key_is_read(const struct call_key *key)
{
    return (key->flags & (KEY_RO | KEY_CHANGED)) == KEY_RO;
}

/* Whether the key is only overwritten, so that the old value does not matter. */
static inline bool call_key_is_overwritten(const struct call_key *key)
{
    return (key->flags & (KEY_OW | KEY_RESIDENT)) == KEY_OW;
}

/* A value that lives as long as the call: a copy, or what was put into an undeclared key. */
struct call_copy {
    struct call_copy *next;
    struct value value;
    const struct key *key;      /* undeclared; or NULL */
};

struct propagation {
    struct propagation *next;
    int db;
    struct bytes *args;
    int arg_count;
};

/* The reply when the time is up. The last two are WAIT's and WAITAOF's (engine/synced.h): what has been reached by then. */
enum call_wait_end { CALL_WAIT_NULL_ARRAY, CALL_WAIT_ZERO, CALL_WAIT_REPLICAS, CALL_WAIT_SYNCED };

/* Reasons why a call that cannot be served now has to wait: see call_wait. */
struct call_wait {
    uint8_t type;                   /* enum value_type of the keys that may serve it */
    int key_first, key_count;       /* arguments that are keys by the command's row; none: only the deadline ends the wait */
    enum call_wait_end end;
    int64_t here, there;            /* CALL_WAIT_REPLICAS, CALL_WAIT_SYNCED: disks of this server (0 or 1), replicas or their disks */
    bool wakes_on_removal;          /* run again also when a key was removed or has another type */
    int64_t deadline_us;            /* monotonic clock; 0: none */
    int64_t retry_ms;               /* wall clock: run again then, too, although no key has changed; within 100 ms. 0: never */
    const struct bytes *args;       /* run then in place of the call's own arguments */
    int arg_count;
};

struct call {
    struct engine *engine;
    struct partitions *partitions;
    struct turn *turn;
    struct client *client;          /* as which it runs: in a script, the script's */
    struct client *requester;       /* that waits for it, and has its loads, its job and its place in a queue: the connection's client */
    struct unit *unit;              /* whose call it is (engine/unit.h); NULL: none */
    const struct command *command;
    struct reply *reply;
    const struct bytes *args;
    int arg_count;
    int db;
    struct call_key *keys;
    int key_count;
    int key_next;               /* where key_open looks first: handlers open keys in order */
    int own_key_count;          /* how many of them the command's row names; they come first */
    const struct bytes *asked;  /* see call_ask_for_keys */
    int asked_count;
    bool asks;                  /* this run has asked for keys */
    uint32_t *homes;            /* partitions that are locked, too: they have the pages of values that were renamed (keyspace/pages.h). No unit has to own them */
    int home_count;
    bool lacks_home;            /* the last of them is not locked yet */
    uint32_t hits;              /* keyspace_hits that it has counted */
    bool handles_stale;         /* a key was changed: call_key.handle is no longer valid */
    struct pages_access *grown;         /* of a value in pages that was changed; NULL: of none */
    struct random *random_before;       /* the worker's generator, which the executor restores: the call has one of its own; NULL: it has not */
    struct pages_access *lacks;         /* see key_ask; NULL: this run has all it needs */
    bool keeps_expired;         /* expired keys are not deleted, as the log cannot take a DEL now, or by CLIENT PAUSE: they only read as absent */
    struct call_copy *copies;   /* of hashes, without their expired fields, and what undeclared keys were given; the executor frees them */
    bool undeclared;            /* the handler has opened an argument that is no key by the command's row: see key_open */
    struct arena *arena;
    struct event_list *events;  /* of its unit, which publishes them; NULL: they are published after the call (engine/event.h) */

    /* Effects of the call. */
    uint64_t change_count;              /* number of changes; what INFO calls dirty */
    bool changed;                       /* it changed a key, even if the change is not counted; not by expiry */
    struct witness *witnesses;          /* call/witness.h */
    bool propagate_nothing;
    bool unlogged;                      /* there is no log: call_propagate does nothing */
    struct propagation *first, *last;   /* logged in place of the call's own arguments, if any */
    struct propagation *expired, *expired_last;     /* DELs of expired keys: logged first */
    size_t reply_start;                 /* offset in the client's output where this call's reply begins */
    bool failed;                        /* it replied an error */
    bool error_counted;                 /* ... of a command that it ran, in whose name it was counted */
    bool keeps_reply;                   /* its reply is sent in any case: it contains CLIENT REPLY OFF, or the client has become a replica */
    bool replied_push;                  /* its reply is a push, or several */
    bool parked;                        /* it has not replied: it will be run again */
    const struct call_wait *wait;       /* it waits for keys; or NULL */
    int64_t ran_ns;                     /* of a unit's request: how long it has run, without the time it waited */
};

enum error {
    ERR_SYNTAX, ERR_WRONG_TYPE, ERR_NOT_INTEGER, ERR_NOT_FLOAT, ERR_OVERFLOW, ERR_OUT_OF_RANGE, ERR_NO_SUCH_KEY,
    ERR_NO_SUCH_KEY_NIL, ERR_VALUE_TOO_LARGE, ERR_DB_INDEX, ERR_OOM, ERR_NOT_POSITIVE, ERR_INVALID_CURSOR, ERR_TIER_READ,
    ERR_SAME_OBJECT, ERR_BUSY_KEY, ERR_NOT_LOADED,
    ERR_COUNT
};

/* Error replies. The text begins with its code ("ERR ...", "WRONGTYPE ..."). They are counted by code for INFO errorstats. */
void reply_error(struct call *call, enum error error);
void reply_errorf(struct call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "ERR wrong number of arguments for 'x' command" */
void reply_wrong_arity(struct call *call);

/* The command's name as the client has sent it, in upper case. */
struct bytes call_upper_name(struct call *call);

/* Replies the lines of a container's HELP, which end with NULL. */
void reply_help(struct call *call, const char *const *lines);

/* Logs (and sends to replicas) these arguments in place of the call's own; may be called several times. The bytes are copied.
 * Nothing is logged if the call changed nothing. */
void call_propagate(struct call *call, const struct bytes *args, int arg_count);
void call_propagate_nothing(struct call *call);

/* Returns whether the executor has locked the partition, for one of the call's keys or for pages. */
bool call_has_locked(const struct call *call, uint32_t partition);

/* Asks for keys that the row does not name, because they are known only after others have been read (SORT's BY and GET). The
 * handler has changed and replied nothing, and returns after this. It is called again from the top, with its own keys and these
 * locked and in RAM; key_open takes call->arg_count + i for the i-th of these. Keys asked for before are forgotten. The handler
 * determines again what it needs, because its own keys may have changed meanwhile, and asks again if these are not the right
 * ones. The names are borrowed. */
void call_ask_for_keys(struct call *call, const struct bytes *names, int count);

/* Makes the client wait until one of the keys changes and has a value of that type. Then the command runs again, with wait->args,
 * for the client and on any worker, and may call this again. When the time is up, wait->end is replied. The handler has replied
 * nothing, and returns; what it has changed (XREADGROUP creates a consumer) is logged. If it must not wait
 * (call_may_wait), wait->end is replied at once. */
void call_wait(struct call *call, const struct call_wait *wait);
/* False in transactions and scripts, and for callers whose thread would wait. */
static inline bool call_may_wait(const struct call *call) { return call->unit == NULL && !(call->client->caller & TRAIT_WAITS_IN_PLACE); }
void reply_wait_end(struct reply *reply, enum call_wait_end end);       /* not for CALL_WAIT_SYNCED ... */
/* The argument as seconds after the time at which the request first ran: a deadline for call_wait. */
bool arg_timeout(struct call *call, int index, int64_t *deadline_us);
bool arg_timeout_ms(struct call *call, int index, int64_t *deadline_us);        /* in whole milliseconds */

/* Arguments. False: the error was replied. */
bool arg_integer(struct call *call, int index, int64_t *number);                /* ERR_NOT_INTEGER */
bool arg_integer_between(struct call *call, int index, int64_t low, int64_t high, const char *error, int64_t *number);
bool arg_double(struct call *call, int index, double *number);                  /* ERR_NOT_FLOAT */
static inline bool arg_is(const struct call *call, int index, const char *word) { return bytes_is(call->args[index], word); }

/* Text that lives as long as the call. */
struct bytes call_format(struct call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct bytes call_integer(struct call *call, int64_t number);

#endif
