/* Transaction: what a client has queued after MULTI, and the keys that it watches.
 *
 * Owner: the client's worker, except for `is_broken`, which any thread sets under the lock of a watched key's partition.
 */
#ifndef KELVIN_ENGINE_TRANSACTION_H
#define KELVIN_ENGINE_TRANSACTION_H

#include "call/call.h"

struct watch;

struct queued {
    const struct command *command;
    struct bytes *args;             /* copies, in one block that begins at `args` */
    int arg_count;
};

struct transaction {
    struct queued *queue;
    int count, capacity;
    size_t size;                    /* bytes of the queue */
    uint32_t flags;                 /* enum command_flag: of all queued commands together, */
    uint32_t lacking;               /* ... and those that a queued command does not have */
    bool has_failed;                /* a command was refused: EXEC will be, too */
    bool lacks_memory;              /* its scripts without "#!lua" are refused at their first write that needs memory. Set as EXEC begins */
    struct watch *watches;          /* engine/watch.h */
    int watch_count;
    size_t watch_size;              /* bytes of the watches */
    _Atomic bool is_broken;         /* a watched key has changed */
};

/* The client's, made if there is none. */
struct transaction *transaction_of(struct client *client);

/* The client has called MULTI, and the command is one that runs with EXEC. */
static inline bool transaction_queues(const struct call *call)
{
    return call->client->flags & CLIENT_MULTI && !(call->command->flags & COMMAND_NOT_QUEUED);
}

/* MULTI. */
void transaction_begin(struct client *client);
/* Queues the call's command and replies QUEUED; or replies an error, and the transaction has failed. `flags`: what it will do, enum command_flag. */
void transaction_queue(struct call *call, uint32_t flags);
/* A command was refused. Nothing happens if the client has not called MULTI. */
void transaction_note_refused(struct client *client);
/* Drops the queue and the watches: DISCARD, the end of EXEC, RESET, a client that is freed. Locks the watched keys' partitions. */
void transaction_end(struct client *client);

/* Number of queued commands, -1: not in MULTI. For CLIENT LIST. */
static inline int transaction_count(const struct client *client)
{
    return client->flags & CLIENT_MULTI ? client->transaction->count : -1;
}

/* Bytes that its queue takes. */
static inline size_t transaction_size(const struct client *client)
{
    return client->transaction != NULL ? client->transaction->size : 0;
}

/* Bytes that its queue and its watches take. */
static inline size_t transaction_memory(const struct client *client)
{
    return client->transaction != NULL ? sizeof(*client->transaction) + client->transaction->size + client->transaction->watch_size : 0;
}

#endif
