/* Memory: how much is used, as maxmemory counts it, and what may still be taken. Any thread unless said otherwise. */
#ifndef KELVIN_ENGINE_MEMORY_H
#define KELVIN_ENGINE_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct client;
struct engine;

/* All zero is ready for use. Any thread, unless said otherwise. */
struct memory {
    _Atomic uint64_t stacks;        /* bytes of the stacks of units (base/fiber.h) */
    uint64_t startup;               /* bytes in use before there was any data. Immutable after the start, as the next */
    uint64_t base;                  /* bytes resident beyond what was used as the server became ready: program, stacks */
    _Atomic uint64_t peak;          /* the most that was used, as far as it was looked at */
    _Atomic uint64_t excess;        /* see memory_watch_excess */
    uint64_t watched_used;          /* the first worker's cron: what was used at the last look, ... */
    int64_t watched_us;             /* ... and when that was, by the monotonic clock */
    /* Microseconds over maxmemory, as the first worker's cron sees it: in all, and when it began (0: it is not). */
    _Atomic int64_t over_us, over_since_us;
    bool long_waits_logged;         /* the first worker's cron: clients have waited for memory for long, and the log says so */
    struct client *_Atomic large_client;    /* its request is being received although it does not fit into maxmemory; NULL: none */
    _Atomic uint64_t wanted;        /* bytes of a request that is received as soon as there is room (memory_wanted) ... */
    _Atomic int64_t wanted_us;      /* ... and when its client has asked last, by the monotonic clock; 0: none has */
    _Atomic uint64_t reply_held;    /* bytes of long strings that replies hold until they are sent */
    _Atomic int64_t reply_wanted_ms;        /* monotonic clock: when a client last had to wait because they are too many; 0: never */
    _Atomic uint32_t reply_waiters; /* clients that wait for them (PARKED_FOR_REPLIES) */
};

/* Bytes used: everything the allocator gave out, and entries; free space inside the heaps does not count. */
uint64_t memory_used(const struct engine *engine);
/* Bytes that count as used while demotion can make room: memory.excess, and what the store will take as it is written. */
uint64_t memory_set_aside(const struct engine *engine);

/* The memory gate has one predicate: a client waits for memory if, and as long as, the state is MEMORY_COMES. */
enum memory_state {
    MEMORY_ENOUGH,          /* what counts is within maxmemory */
    MEMORY_COMES,           /* it is not, and something is under way that may change this */
    MEMORY_OUT,             /* it is not, and nothing will change this: maxmemory-policy decides, and no client waits */
};

/* Numbers that the state depends on. */
struct memory_view {
    uint64_t limit;         /* maxmemory; 0: there is none */
    uint64_t used;          /* memory_used */
    uint64_t set_aside;     /* memory_set_aside; counts while can_demote */
    uint64_t leaving;       /* bytes of `used` that another thread is about to free; UINT64_MAX: some, it is not known how many */
    bool can_demote;        /* there is a tier that can write, and it has not found that there is nothing left to demote (tier/stuck.h) */
};

/* The bytes that are compared with maxmemory. */
uint64_t memory_counted(const struct memory_view *view);
/* The same for displays: `used` (memory_used) when there is no limit, as memory_look reads nothing then. */
uint64_t memory_counted_or_used(const struct memory_view *view, uint64_t used);
enum memory_state memory_judge(const struct memory_view *view);

/* `leaving` is only set where the state depends on it. */
void memory_look(const struct engine *engine, struct memory_view *view);
enum memory_state memory_state(const struct engine *engine);
/* Memory is over maxmemory: the state is not MEMORY_ENOUGH. */
bool memory_is_short(const struct engine *engine);
/* Blocks the caller while the state is MEMORY_COMES, up to 10 seconds. For threads that serve no clients: the replay, a job. */
void memory_wait(struct engine *engine);
/* Waits until some may have been freed since the version of engine->waiting was read, a few milliseconds at most. For the same threads. */
void memory_await_change(struct engine *engine, uint32_t version);
/* Too many old values wait to be written by a running checkpoint: changes have to wait. */
bool memory_reserve_is_used_up(const struct engine *engine);

/* A request of `size` bytes and more may be received: it fits into maxmemory, or it is the only one for which no room can be made. False:
 * ask again within LARGE_ASK_MS; room is being made. On the client's worker. memory_end_large when the request has run or its client is gone. */
enum { LARGE_ASK_MS = 100 };
bool memory_admit_large(struct engine *engine, struct client *client, uint64_t size);
void memory_end_large(struct engine *engine, struct client *client);
/* A client waits to be admitted: it has asked within LARGE_ASK_MS. */
bool memory_large_is_awaited(const struct engine *engine);
/* Bytes that are to become free so that it can be: demotion makes them. 0: none waits. */
uint64_t memory_wanted(const struct engine *engine);

/* Replies hold as much of the memory as they may: one more long string has to wait until others have been sent. */
bool memory_replies_are_full(const struct engine *engine);

/* Notes the peak, and the time over maxmemory. A few times a second, by one worker. */
void memory_note_use(struct engine *engine, int64_t now_us);

/* Measures how much more is resident than is used, beyond the base and a twentieth of maxmemory (memory.excess). The tier counts it
 * as used, so that RSS stays near maxmemory whatever fragments. What the allocator is about to give back is no excess, nor what a memtable has just
 * freed and the next one will take. A few times a second, by one worker. While hardly anything is taken or given back it looks once a second:
 * the statistics of allocator and kernel are the most that an idle server does. */
void memory_watch_excess(struct engine *engine, int64_t now_us);

#endif
