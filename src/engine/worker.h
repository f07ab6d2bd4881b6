/* Worker: one event loop's worth of engine. Its loop (net) calls worker_begin_turn, engine_run for each request, worker_end_turn;
 * other threads reach it by its mailbox.
 */
#ifndef KELVIN_ENGINE_WORKER_H
#define KELVIN_ENGINE_WORKER_H

#include "base/arena.h"
#include "base/fiber.h"
#include "base/ticks.h"
#include "call/call.h"
#include "engine/blocking.h"
#include "engine/client_memory.h"
#include "engine/event_list.h"
#include "engine/job.h"
#include "engine/mail.h"
#include "engine/parking.h"
#include "tier/tier.h"

struct engine;
struct registry_view;
struct unit;
struct subscribers;

enum { WORKER_KEYS = 32 };

/* Each part belongs to the file that it names; all of them to this worker, but for what is atomic. */

/* Clients whose calls wait (engine/parking.h). The numbers are those of parking_waits. */
struct worker_parking {
    struct parking_queue queues[PARKING_REASONS];
    _Atomic uint64_t waiting;
    _Atomic int64_t waited_ms;
};

/* The time of calls (engine/execute.c). */
struct worker_clock {
    struct ticks ticks;             /* the monotonic clock, synced when a turn begins */
    int64_t wall_offset_ns;         /* wall clock less monotonic clock, as of this turn's begin */
    int64_t call_ns;                /* when the last call of this batch ended, 0: unknown; saves reading the clock twice */
};

/* The interpreter (engine/scripts.h), and the units with scripts (engine/script_queue.h). */
struct worker_scripts {
    struct registry_view *view;     /* NULL until an interpreter is needed */
    _Atomic uint64_t memory;        /* bytes of that interpreter */
    int running;                    /* units with scripts that have begun */
    struct unit *first, *last;      /* those that wait until there are fewer, in order */
};

/* Units (engine/unit.c). */
struct worker_units {
    struct fiber_pool fibers;
    struct unit *suspended;         /* on a fiber: a list */
    struct unit *spare;             /* memory for the next unit; or NULL */
};

/* Bytes, measured about once a second: the largest buffer of each kind (worker_measure_clients). */
struct worker_buffers {
    _Atomic uint64_t input_max, output_max;
};

/* Functions of the program that runs the worker, as net does. Immutable. */
struct worker_host {
    void *loop;                             /* of the first three */
    void (*pace_soon)(void *loop);          /* calls parking_resume for PARKED_FOR_MEMORY in about a millisecond, until none is left; NULL: the mail does it */
    void (*expire_soon)(void *loop, int64_t pause_ms);      /* calls expiry_continue then; NULL: the next tick goes on */
    void (*set_alarm)(void *loop, int64_t at_us);   /* calls deadlines_alarm then (monotonic clock); replaces an earlier one */
    /* Called on this worker. */
    void (*resume)(struct client *client);          /* run its parked request again */
    void (*discard)(struct client *client);         /* a dead client's memory may go */
    void (*close)(struct client *client);           /* CLIENT KILL, limits */
    void (*output_came)(struct client *client);     /* something was appended to its output that none of its own requests wrote */
};

struct worker {
    struct engine *engine;          /* immutable */
    int index;                      /* immutable */
    struct turn turn;               /* this worker */
    struct arena arena;             /* this worker */
    struct call_key keys[WORKER_KEYS];
    struct tier_reader *reader;          /* this worker: of its loads, which are begun at the end of the turn; NULL: it posts none */
    struct event_list events;       /* this worker: of the call that runs */
    struct client *clients;         /* this worker: all, newest first */
    int client_count;
    struct client *replicas;        /* this worker: those that are replicas (replication/primary.h) */
    struct worker_parking parking;
    uint32_t writes_since_check;        /* this worker: of memory (pace_check); so are the next two */
    const uint64_t *allocated;          /* this worker: meter_own_allocated of the thread that runs it */
    uint64_t allocated_at_check, allocated_max;         /* bytes; after allocated_max more, memory is looked at again */
    struct worker_clock clock;
    struct noted_list noted;        /* this worker: what its calls have changed (engine/blocking.h) */
    int slices;                     /* this worker: of scripts, that have run to their end since it began to read its mail */
    uint32_t held_at;               /* this worker: the partition that a waiter's command has found owned */
    struct mail *delivery_first, *delivery_last;            /* this worker: replies for its own clients that waited for keys */
    struct subscribers *subscribers;        /* this worker: of its clients (engine/delivery.h); NULL: there were none yet */
    struct deadline **deadlines;    /* this worker: a heap (engine/deadlines.h) */
    int deadline_count, deadline_capacity;
    struct waiter *synced_first;    /* this worker: those of its clients that wait for the log to be synced (WAITAOF) */
    struct worker_scripts scripts;
    struct worker_units units;
    uint32_t expire_next;           /* partition where the active expiry goes on */
    struct worker_buffers buffers;
    struct client_sizes sizes;      /* what its clients take: engine/client_memory.h */

    _Atomic int monitor_count;      /* of its clients: engine/monitor.h. Changed by this worker */

    struct mailbox mailbox;
    struct worker_host host;
};

void worker_init(struct worker *worker, struct engine *engine, int index);
void worker_release(struct worker *worker);

void worker_begin_turn(struct worker *worker);
/* Posts loads, brings the log up to what was touched. Returns the LSN that the log covers now: output of clients that need more
 * has to wait (aof_on_durable rings). */
uint64_t worker_end_turn(struct worker *worker);

/* The LSN the log covers now, as appendfsync counts. */
uint64_t worker_covered(const struct worker *worker);

/* Before the worker posts loads (tier/reader.h): by its thread, or before it runs. Returns the descriptor that is readable when
 * worker_read_mail has something to do; -1: there is no tier, or threads read. */
int worker_open_reader(struct worker *worker, bool without_ring);
/* When its clients are gone; waits for the loads under way. On the worker, or when its thread has ended. */
void worker_close_reader(struct worker *worker);

/* Installs keys that were read, empties the mailbox: resumes clients, runs mail. On the worker, when it was rung. */
void worker_read_mail(struct worker *worker);

/* Measures the clients' buffers. On the worker. */
void worker_measure_clients(struct worker *worker);

/* Whether the loads, the memory and the job that it was parked for have all come. On the worker. */
static inline bool worker_has_all(const struct client *client)
{
    const struct job *job = client->job;

    return client->loads.pending == 0 && client->parking.queue == PARKED_NOT && (job == NULL || job->done);
}

/* A witness in builds with KELVIN_DEBUG, about once a second: a parked client for which all has come is about to be woken, or waits for ever. On the worker. */
#ifdef KELVIN_DEBUG
void worker_check_parked(struct client *client);
#else
static inline void worker_check_parked(struct client *client)
{
    (void)client;
}
#endif

/* The server ends: units that are suspended end now. On the worker. */
void worker_abandon_units(struct worker *worker);

void worker_add_client(struct worker *worker, struct client *client);
/* Unpins, forgets its job. Returns true if the memory may go now; else `discard` is called later. */
bool worker_remove_client(struct worker *worker, struct client *client);
#endif
