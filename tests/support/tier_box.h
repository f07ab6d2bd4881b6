/* A tier box: engine, tier and workers over a store in a directory of its own, without sockets, log and server. Commands run as
 * they do in the server (engine_run), for clients that have no connection; what a connection does with parked requests is done
 * here. For unit tests of the tier and of the engine; failures print the seed and abort.
 *
 * Threads: a worker and its clients belong to the thread that uses them. The hooks count and keep nothing else.
 */
#ifndef KELVIN_SUPPORT_TIER_BOX_H
#define KELVIN_SUPPORT_TIER_BOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "engine/engine.h"
#include "store/store_env.h"
#include "support/faulty_disk.h"
#include "support/seed.h"
#include "tier/tier.h"
#include "tier/tier_private.h"

enum { TIER_BOX_WORDS = 640, TIER_BOX_WORKERS_MAX = 8 };

struct tier_box;

struct box_client {
    struct client client;               /* first */
    struct tier_box *box;
    struct buffer text;                 /* the request's words */
    struct bytes words[TIER_BOX_WORDS];
    int word_count;
    bool busy;                          /* a request waits: it is parked */
    void (*answered)(struct box_client *client);    /* or NULL; the reply is in client.reply.out */
    void *context;                      /* the test's */
    struct buffer line;                 /* tier_box_say's answer */
};

struct box_worker {
    struct worker worker;               /* first */
    struct tier_box *box;
    pthread_mutex_t lock;
    pthread_cond_t rung;
    bool ringing;                       /* lock */
};

struct tier_box {
    uint64_t seed;
    char root[200], dir[256];
    struct faulty_disk *disk;           /* under the env */
    struct store_env *env;
    struct engine engine;
    struct tier *tier;
    struct partitions *partitions;
    struct box_worker workers[TIER_BOX_WORKERS_MAX];
    bool writer_held;                               /* by tier_box_hold_writer; under the writer's lock */
    _Atomic bool memory_is_real;                    /* the tier gets all memory in use, else the bytes of the entries */
    _Atomic uint64_t expired_count;     /* cold keys that expired */
    _Atomic uint64_t told_count;        /* sentences for the operator */
    void (*memory_freed)(void *context);            /* the test's: called with the tier's hook. Set while the writer is held; or NULL */
    void *memory_freed_context;
};

struct tier_box_options {
    uint64_t seed;
    int worker_count, partition_count, db_count;    /* 0: 1, 4, 2 */
    size_t write_buffer_size;                       /* 0: 64 KiB */
    bool by_slot;                                   /* hashes, as in cluster mode */
    bool reads_by_ring;                             /* workers read cold keys themselves (tier/reader.h), by the box's disk; else the pool does */
};

#define BOX_DEMAND(box, cond, ...) \
    do { \
        if (!(cond)) { \
            fprintf(stderr, "%s:%d: seed %llu: %s: ", __FILE__, __LINE__, (unsigned long long)(box)->seed, #cond); \
            fprintf(stderr, __VA_ARGS__); \
            fprintf(stderr, "\n"); \
            abort(); \
        } \
    } while (0)

void tier_box_create(struct tier_box *box, const struct tier_box_options *options);
void tier_box_destroy(struct tier_box *box);        /* all clients were closed */

/* Closes the last client, of worker 0, waits until nothing is left to do, verifies and destroys the box. */
void tier_box_end(struct tier_box *box, struct box_client *client);

struct box_client *tier_box_open_client(struct tier_box *box, int worker);
/* As if its connection had gone: it may wait for something. */
void tier_box_close_client(struct box_client *client);

/* Gives the client a request. True if it was replied to at once. */
bool tier_box_ask(struct box_client *client, const struct bytes *words, int count);
/* Reads the worker's mail, waiting for it if `wait` says so (BOX_TICK: some milliseconds at most, as a loop with a timer does);
 * requests that waited run again. */
enum box_wait { BOX_NO_WAIT, BOX_TICK, BOX_WAIT };
void tier_box_turn(struct box_worker *worker, enum box_wait wait);

/* Asks, waits and returns the reply, CRs left out. Words are separated by single spaces. */
const char *tier_box_say(struct box_client *client, const char *line);
/* Asks. True if it was replied to at once, else it is parked. */
bool tier_box_begin(struct box_client *client, const char *line);
/* The reply to the last request, CRs left out. */
const char *tier_box_reply(struct box_client *client);
/* Waits until a request of tier_box_begin is replied to. */
const char *tier_box_await(struct box_client *client);

/* The writer's place: while it is held the writer does nothing, and its functions may be called. */
void tier_box_hold_writer(struct tier_box *box);
void tier_box_release_writer(struct tier_box *box);

/* Until nothing is left to do for the writer and the readers: no graves, unknown records, purges, errors. */
void tier_box_settle(struct tier_box *box);
/* The invariants, settled or not; no other thread changes anything meanwhile. */
void tier_box_verify(struct tier_box *box);
struct tier_stats tier_box_stats(struct tier_box *box);

struct keyspace *tier_box_keyspace(struct tier_box *box, int db, struct bytes key, uint64_t *hash);
/* 0: no entry. */
struct entry *tier_box_entry(struct tier_box *box, int db, const char *key);

#endif
