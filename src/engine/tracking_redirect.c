/* Messages that are redirected to another client take two steps, because only its worker knows that client: mail to the worker, and from
 * there a push. If the receiver is gone, the tracker gets ">2 $21 tracking-redir-broken :id" in place of the message. */
#include "engine/tracking_private.h"

#include "base/mem.h"
#include "engine/client_ids.h"
#include "engine/delivery.h"
#include "resp/reply.h"

struct redirected {
    struct mail mail;
    struct tracker *tracker;        /* held */
    uint64_t receiver, lsn;
    struct buffer resp2, resp3;
};

/* The redirection is broken: the message to the tracker says so. */
static void write_broken(struct reply *resp3, uint64_t receiver)
{
    reply_init(resp3, 3);
    reply_push(resp3, 2);
    reply_bulk_string(resp3, "tracking-redir-broken");
    reply_integer(resp3, (int64_t)receiver);
}

static void collect_broken(struct publish_batch *batch, struct engine *engine, struct tracker *tracker, uint64_t receiver)
{
    uint64_t state = atomic_fetch_or(&tracker->state, TRACKING_BROKEN);
    struct push_target target = tracker_target(tracker, state);
    struct reply resp3;

    write_broken(&resp3, receiver);
    publish_collect_push(engine, batch, tracker->worker, &target, 1, bytes_of(NULL, 0), buffer_bytes(&resp3.out));
    reply_release(&resp3);
}

static void redirected_free(struct redirected *redirected)
{
    tracker_release(redirected->tracker);
    buffer_release(&redirected->resp2);
    buffer_release(&redirected->resp3);
    mem_free(redirected);
}

/* On the receiver's worker. */
static void run_redirected(struct mail *mail, struct worker *worker)
{
    struct redirected *redirected = (struct redirected *)mail;
    struct engine *engine = worker->engine;
    struct client *receiver = client_ids_find(engine->client_ids, worker, redirected->receiver);
    struct publish_batch batch = { .first = NULL };

    if (receiver == NULL) {
        collect_broken(&batch, engine, redirected->tracker, redirected->receiver);
    } else {
        struct push_target target = { receiver->id, receiver->push_generation };

        delivery_open(receiver);
        publish_collect_push(engine, &batch, worker->index, &target, 1, buffer_bytes(&redirected->resp2), buffer_bytes(&redirected->resp3));
    }
    publish_send(engine, worker, &batch, redirected->lsn);
    redirected_free(redirected);
}

struct mail *tracking_redirect_create(struct tracker *tracker, uint64_t receiver, struct bytes resp2, struct bytes resp3, uint64_t lsn)
{
    struct redirected *redirected = mem_zalloc(sizeof(*redirected));

    redirected->mail.run = run_redirected;
    redirected->tracker = tracker_hold(tracker);
    redirected->receiver = receiver;
    redirected->lsn = lsn;
    buffer_append_bytes(&redirected->resp2, resp2);
    buffer_append_bytes(&redirected->resp3, resp3);
    return &redirected->mail;
}

void tracking_redirect_post(struct engine *engine, struct mail *mail, struct publish_batch *batch)
{
    struct redirected *redirected = (struct redirected *)mail;
    int worker = client_ids_worker(engine->client_ids, redirected->receiver);

    if (worker >= 0) {
        mailbox_post(&engine->workers[worker]->mailbox, mail);
        return;
    }
    collect_broken(batch, engine, redirected->tracker, redirected->receiver);
    redirected_free(redirected);
}
