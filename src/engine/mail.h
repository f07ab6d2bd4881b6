/* Mail: what other threads leave for a worker: clients to resume, functions to run, and what parked clients may not have to wait for any more
 * (engine/parking.h). The worker's loop is woken by a bell. The worker takes all the mail there is at once, and the clients that are ready one
 * by one, as many as it wants to resume.
 */
#ifndef KELVIN_ENGINE_MAIL_H
#define KELVIN_ENGINE_MAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mutex.h"

struct client;
struct worker;

/* Run on the worker's own thread, between requests. Freed by the function. */
struct mail {
    struct mail *next;
    void (*run)(struct mail *mail, struct worker *worker);
};

struct mailbox {
    char apart[64];                 /* other threads write here: not in the cache lines of the worker's own fields, nor next to them */
    struct mutex lock;              /* leaf */
    struct client *ready_first, *ready_last;        /* lock: clients to resume */
    struct mail *first, *last;      /* lock */
    uint32_t ended;                 /* lock: 1 << each reason of enum parking that may have ended */
    void (*ring)(void *context);    /* immutable: wakes the loop; any thread. NULL: there is none */
    void *ring_context;             /* immutable */
    char apart_too[64];
};

void mailbox_init(struct mailbox *mailbox);
void mailbox_release(struct mailbox *mailbox);

/* Resumes the client, in a turn of its worker, if what it waits for has come. Any thread, any lock. A client that is queued is queued once. */
void client_wake(struct client *client);
/* The same in two steps: queues the client, and returns the worker whose mailbox has to be rung, which should happen without a lock. Its worker
 * then ends after all threads that wake its clients. NULL: no ring is needed. */
struct worker *client_enqueue(struct client *client);
void mailbox_ring(struct mailbox *mailbox);

/* Any thread, any lock. */
void mailbox_post(struct mailbox *mailbox, struct mail *mail);
/* Reasons for parking may have ended, a bit 1 << reason each: the worker resumes clients that wait for them. Any thread. */
void mailbox_notify(struct mailbox *mailbox, uint32_t reasons);

/* The mail that was taken out of a mailbox. */
struct mail_delivery {
    struct client *ready_last;      /* the last one that is ready now; NULL: none is, or all have been taken */
    struct mail *mail;
    uint32_t ended;
};

/* On the worker, as all that follows. */
void mailbox_empty(struct mailbox *mailbox, struct mail_delivery *delivery);
/* Takes the next client of the delivery out; NULL: there is none. From then on it can be queued again. */
struct client *mailbox_next_ready(struct mailbox *mailbox, struct mail_delivery *delivery);
/* Rings if clients are left that are ready: none of those that queue more of them does. */
void mailbox_ring_for_rest(struct mailbox *mailbox);
/* A client that is to go is still queued, so that the next delivery refers to it. */
bool mailbox_refers_to(struct mailbox *mailbox, const struct client *client);

#endif
