/* Client memory: what each client takes, and which are closed when all of them take too much (maxmemory-clients).
 *
 * A client counts with its buffers for requests and replies, its arguments, and its state: the queue of MULTI, watches, subscriptions,
 * tracking prefixes, names, and the command with which it waits for a key. Bytes that no other holder shares count; replies that wait for the log's fsync do not, for the client can't
 * do anything about them. net reports the buffers (client_memory_set) whenever they may have changed.
 *
 * Each worker keeps its clients in lists, by the power of two of what they take, and publishes the largest list that is not empty. So the
 * largest clients of the server are found without looking at the others, and each is closed by its own worker.
 *
 * maxmemory-clients given: the clients with most memory are closed until all together are within it, as in Redis. 0: the bound is half
 * of maxmemory, but at least 128 KiB, and buffers and state count; clients wait before their buffers reach it (net/connection_input.c).
 */
#ifndef KELVIN_ENGINE_CLIENT_MEMORY_H
#define KELVIN_ENGINE_CLIENT_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct client;
struct engine;
struct worker;

enum { CLIENT_SIZE_CLASSES = 32 };

/* A worker's part. Owner: the worker; the atomics are read by all. */
struct client_sizes {
    struct client *lists[CLIENT_SIZE_CLASSES];      /* those that may be closed */
    _Atomic uint64_t all, held;                     /* bytes of all its clients: sums of their sizes */
    _Atomic int largest;                            /* 1 + the index of the largest list that is not empty; 0: all are */
    _Atomic bool asked;                             /* it was sent mail to close clients, and has not read it yet */
};

/* Bytes that all clients take. Any thread. */
uint64_t client_memory_used(const struct engine *engine);
/* maxmemory-clients; 0: not given. */
uint64_t client_memory_limit(const struct engine *engine);
/* The most that all clients together may take, given or not; UINT64_MAX: there is no bound. */
uint64_t client_memory_max(const struct engine *engine);

/* The client's connection takes `bytes`, `buffers` of them for its buffers, besides the client's state. If the client has grown and all together take too much, clients
 * are closed: this one among them, perhaps. On the client's worker, not while it runs a call. */
void client_memory_set(struct client *client, uint64_t bytes, uint64_t buffers);
/* CLIENT_NO_EVICT has changed. On the client's worker. */
void client_memory_note_exempt(struct client *client);
/* Forgets a client that is closed. */
void client_memory_forget(struct client *client);

/* The same on all workers: a limit has changed. Any thread. */
void client_memory_relieve_all(struct engine *engine);

#endif
