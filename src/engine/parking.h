/* Parking: a worker's clients that wait for something other than a key, a load, a job or an owner: a queue for each reason, in order of arrival.
 * All on the worker.
 *
 * What ends a reason calls parking_notify, on any thread, after it has ended; the worker then resumes the clients of that queue, in a later turn
 * than the one in which they were parked, so none is missed. For memory, which also comes without a notification, the cron looks, too;
 * and for replies, as those of a client that is closed, and those that are taken back, do not notify. A client that finds again that it
 * has to wait is parked again. Each client is resumed at most once for a notification, so clients that wait again, or that leave the queue meanwhile,
 * never keep the worker in it.
 */
#ifndef KELVIN_ENGINE_PARKING_H
#define KELVIN_ENGINE_PARKING_H

#include <stdbool.h>
#include <stdint.h>

struct call;
struct client;
struct engine;
struct worker;

enum parking {
    PARKED_NOT,
    PARKED_FOR_MEMORY,          /* the memory gate and its pace (engine/pace.h) */
    PARKED_FOR_WRITER,          /* the tier's writer has to write or free something: a latched key, old values of a checkpoint */
    PARKED_FOR_BIG_CALL,        /* another call has the big-call token (engine/big_call.h) */
    PARKED_FOR_REPLIES,         /* replies hold as many long strings as they may (memory_replies_are_full) */
    PARKED_FOR_DELIVERY,        /* too many messages are on their way to subscribers (engine/publish.h) */
    PARKED_FOR_PAUSE,           /* CLIENT PAUSE, FAILOVER, the last dump before the end */
    PARKING_REASONS
};

/* 1 << reason for each of them. */
#define PARKED_FOR_ANY ((UINT32_C(1) << PARKING_REASONS) - 2)

/* Owner: the worker. */
struct parking_queue {
    struct client *first, *last;
    uint32_t count;
};

/* The client waits for `reason`; it is resumed when that has ended. */
void parking_add(struct worker *worker, struct client *client, enum parking reason);
/* The same for a call, which runs again from the top then: its client gives its pins back, so that no client waits with keys pinned (tier
 * rule 7). On its worker, without locks. */
void parking_add_call(struct worker *worker, struct call *call, enum parking reason);
/* The client's loads end, and its keys may be demoted again. Without locks. */
void parking_give_pins(struct worker *worker, struct client *client);
/* The client is the first of its queue from now on. */
void parking_move_to_front(struct worker *worker, struct client *client);
/* Removes a client that may be in a queue. */
void parking_remove(struct worker *worker, struct client *client);

/* `reason` may have ended, on all workers. Any thread. */
void parking_notify(struct engine *engine, enum parking reason);

/* parking_resume.c. Resumes clients, in order, until `reason` holds again or each of them had its turn. Returns whether any are left. */
bool parking_resume(struct worker *worker, enum parking reason);
/* The same for each of these reasons: a bit 1 << reason each. */
void parking_resume_each(struct worker *worker, uint32_t reasons);

/* Clients that wait for memory, and how long the one has waited that has waited longest. */
struct parking_waits {
    uint64_t clients;
    int64_t longest_ms;
};
/* Publishes those of the worker. A few times a second. */
void parking_note_waits(struct worker *worker);
/* Returns the waits of all workers, as published. Any thread. */
struct parking_waits parking_waits(const struct engine *engine);
/* So long that the log and tier_status say so. */
enum { PARKING_LONG_MS = 5000 };

#endif
