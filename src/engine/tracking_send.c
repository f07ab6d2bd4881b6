/* Invalidation messages: from lists of changed keys to pushes.
 *
 *   RESP3    >2 $10 invalidate *1 $3 key                               _ in place of the array: all keys
 *   RESP2    *3 $7 message $20 __redis__:invalidate *1 $3 key          $-1; only if redirected, to a client that has subscribed */
#include "engine/tracking_private.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "resp/reply.h"

#define HEAD_RESP2 "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"
#define HEAD_RESP3 ">2\r\n$10\r\ninvalidate\r\n"

/* The message that is being sent, and its trackers. */
struct sending {
    struct engine *engine;
    uint64_t lsn;
    struct reply resp2, resp3;      /* the message */
    bool is_all, is_broadcast;
    struct tracked_key *const *keys;        /* that it is about, if it is about keys */
    size_t key_count;
    struct publish_batch batch;
    struct mail *first, *last;      /* redirected messages */
    struct push_target *targets;
    size_t target_room;
};

static void redirect(struct sending *sending, struct tracker *tracker, uint64_t receiver)
{
    struct mail *mail = tracking_redirect_create(tracker, receiver, buffer_bytes(&sending->resp2.out), buffer_bytes(&sending->resp3.out),
        sending->lsn);

    if (sending->last != NULL)
        sending->last->next = mail;
    else
        sending->first = mail;
    sending->last = mail;
}

static bool is_by(const struct sending *sending, const struct tracker *tracker)
{
    for (size_t i = 0; i < sending->key_count; i++) {
        if (sending->keys[i]->by == tracker->client_id)
            return true;
    }
    return false;
}

/* A message about keys that the tracker has changed itself may not be for it as it is: NOLOOP. */
static bool is_for(const struct sending *sending, const struct tracker *tracker, uint64_t state)
{
    if (!(state & TRACKING_ON))
        return false;
    if (sending->is_all)
        return true;
    if (!(state & TRACKING_BCAST) == sending->is_broadcast)
        return false;
    return !(state & TRACKING_NOLOOP) || !is_by(sending, tracker);
}

static void send_to(struct sending *sending, struct tracker *const *trackers, size_t count)
{
    struct engine *engine = sending->engine;

    if (count > sending->target_room) {
        sending->target_room = count;
        sending->targets = mem_realloc(sending->targets, count * sizeof(*sending->targets));
    }
    for (int worker = 0; worker < engine->worker_count; worker++) {
        size_t target_count = 0;

        for (size_t i = 0; i < count; i++) {
            uint64_t state = trackers[i]->state, receiver = trackers[i]->redirect;

            if (trackers[i]->worker != worker || !is_for(sending, trackers[i], state))
                continue;
            if (receiver != 0)
                redirect(sending, trackers[i], receiver);
            else
                sending->targets[target_count++] = tracker_target(trackers[i], state);
        }
        if (target_count > 0)
            publish_collect_push(engine, &sending->batch, worker, sending->targets, target_count, bytes_of(NULL, 0),
                buffer_bytes(&sending->resp3.out));
    }
}

static void begin_sending(struct sending *sending, struct engine *engine, uint64_t lsn)
{
    *sending = (struct sending){ .engine = engine, .lsn = lsn };
    reply_init(&sending->resp2, 2);
    reply_init(&sending->resp3, 3);
}

static void finish_sending(struct sending *sending, const struct worker *worker)
{
    while (sending->first != NULL) {
        struct mail *mail = sending->first;

        sending->first = mail->next;
        tracking_redirect_post(sending->engine, mail, &sending->batch);
    }
    publish_send(sending->engine, worker, &sending->batch, sending->lsn);
    reply_release(&sending->resp2);
    reply_release(&sending->resp3);
    mem_free(sending->targets);
}

static void write_heads(struct sending *sending)
{
    reply_truncate(&sending->resp2, 0);
    reply_truncate(&sending->resp3, 0);
    buffer_append_string(&sending->resp2.out, HEAD_RESP2);
    buffer_append_string(&sending->resp3.out, HEAD_RESP3);
}

/* About those keys that `but_by` has not changed. Returns their number. */
static size_t write_keys(struct sending *sending, uint64_t but_by)
{
    size_t count = 0, start;
    struct reply *resp3 = &sending->resp3;

    for (size_t i = 0; i < sending->key_count; i++)
        count += but_by == 0 || sending->keys[i]->by != but_by;
    write_heads(sending);
    start = resp3->out.size;
    reply_array(resp3, count);
    for (size_t i = 0; i < sending->key_count; i++) {
        if (but_by == 0 || sending->keys[i]->by != but_by)
            reply_bulk(resp3, tracked_name(sending->keys[i]));
    }
    buffer_append(&sending->resp2.out, resp3->out.data + start, resp3->out.size - start);
    return count;
}

/* To all trackers. */
static void send_all(struct sending *sending, struct tracking *tracking)
{
    struct tracker **trackers;
    size_t count = 0;

    write_heads(sending);
    reply_null(&sending->resp2);
    reply_null(&sending->resp3);
    sending->is_all = true;
    mutex_lock(&tracking->lock);
    for (const struct tracker *tracker = tracking->trackers; tracker != NULL; tracker = tracker->next)
        count++;
    trackers = mem_alloc((count + 1) * sizeof(struct tracker *));
    count = 0;
    for (struct tracker *tracker = tracking->trackers; tracker != NULL; tracker = tracker->next)
        trackers[count++] = tracker;
    send_to(sending, trackers, count);
    mutex_unlock(&tracking->lock);
    mem_free(trackers);
    sending->is_all = false;
}

/* To those that have read it. */
static void send_key(struct sending *sending, struct tracked_key *tracked)
{
    if (tracked->count == 0)
        return;
    sending->keys = &tracked;
    sending->key_count = 1;
    write_keys(sending, 0);
    send_to(sending, tracked->room == 1 ? &tracked->one : tracked->many, tracked->count);
}

static void drop_trackers(struct tracked_key *tracked)
{
    for (uint32_t i = 0; i < tracked->count; i++)
        tracker_release(tracked_tracker(tracked, i));
    if (tracked->room > 1)
        mem_free(tracked->many);
    tracked->count = 0;
    tracked->room = 1;
}

/* Changes of a thread that is no worker: the first one broadcasts them. */
struct list_mail {
    struct mail mail;
    struct tracking_list list;
    uint64_t lsn;
};

static void broadcast_later(const struct worker *worker, struct tracking_list *list, uint64_t lsn)
{
    struct tracking_broadcast *broadcast = &worker->engine->tracking->broadcasts[worker->index];
    struct tracked_key *tracked;

    while ((tracked = tracking_list_take(list)) != NULL)
        tracking_list_append(&broadcast->list, tracked);
    if (lsn > broadcast->lsn)
        broadcast->lsn = lsn;
}

static void run_list(struct mail *mail, struct worker *worker)
{
    struct list_mail *list = (struct list_mail *)mail;

    broadcast_later(worker, &list->list, list->lsn);
    mem_free(list);
}

static void post_list(struct worker *worker, struct tracking_list *list, uint64_t lsn)
{
    struct list_mail *mail = mem_zalloc(sizeof(*mail));

    mail->mail.run = run_list;
    mail->list = *list;
    mail->lsn = lsn;
    mailbox_post(&worker->mailbox, &mail->mail);
}

void tracking_send_to(struct engine *engine, const struct worker *worker, struct tracking_list *list, uint64_t lsn, enum tracking_audience audience)
{
    bool broadcasts = audience == TRACKING_TO_ALL && engine->tracking->broadcasters > 0;
    struct tracking_list later = { 0 };
    struct tracked_key *tracked;
    struct sending sending;

    begin_sending(&sending, engine, lsn);
    while ((tracked = tracking_list_take(list)) != NULL) {
        if (tracked->is_all)
            send_all(&sending, engine->tracking);
        else
            send_key(&sending, tracked);
        if (broadcasts && !tracked->is_all) {
            drop_trackers(tracked);
            tracking_list_append(&later, tracked);
        } else {
            tracked_free(tracked);
        }
    }
    finish_sending(&sending, worker);
    if (later.first == NULL)
        return;
    if (worker != NULL)
        broadcast_later(worker, &later, lsn);
    else
        post_list(engine->workers[0], &later, lsn);
}

void tracking_send(struct engine *engine, const struct worker *worker, struct tracking_list *list, uint64_t lsn)
{
    if (list->first != NULL)
        tracking_send_to(engine, worker, list, lsn, TRACKING_TO_ALL);
}

/* The keys of a turn, sorted. */

struct changed_key {
    struct tracked_key *tracked;
    size_t at;                      /* in the order of the changes */
};

static int compare_changed(const void *a, const void *b)
{
    const struct changed_key *left = a, *right = b;
    int order = bytes_compare(tracked_name(left->tracked), tracked_name(right->tracked));

    return order != 0 ? order : (left->at > right->at) - (left->at < right->at);
}

/* In ascending order, each key once: its last change. NULL: there are none. The caller frees the array; the keys stay in the list. */
static struct tracked_key **sort_keys(const struct tracking_list *list, size_t *count)
{
    size_t all = 0, kept = 0;
    struct changed_key *changed;
    struct tracked_key **keys;

    for (const struct tracked_key *tracked = list->first; tracked != NULL; tracked = tracked->next)
        all++;
    changed = mem_alloc(all * sizeof(*changed));
    keys = mem_alloc(all * sizeof(struct tracked_key *));
    all = 0;
    for (struct tracked_key *tracked = list->first; tracked != NULL; tracked = tracked->next) {
        changed[all] = (struct changed_key){ tracked, all };
        all++;
    }
    qsort(changed, all, sizeof(*changed), compare_changed);
    for (size_t i = 0; i < all; i++) {
        if (kept > 0 && bytes_equal(tracked_name(keys[kept - 1]), tracked_name(changed[i].tracked)))
            kept--;
        keys[kept++] = changed[i].tracked;
    }
    mem_free(changed);
    *count = kept;
    return keys;
}

/* With NOLOOP, a tracker that has changed some of the keys gets the others. */
static void send_others(struct sending *sending, struct tracker *tracker)
{
    uint64_t state = tracker->state;

    if (!(state & TRACKING_NOLOOP) || !is_by(sending, tracker) || write_keys(sending, tracker->client_id) == 0)
        return;
    sending->key_count = 0;         /* the message is now for it */
    send_to(sending, &tracker, 1);
}

static void send_prefix(void *context, const struct tracking_prefix *prefix, struct tracked_key *const *keys, size_t key_count)
{
    struct sending *sending = context;

    sending->keys = keys;
    sending->key_count = key_count;
    write_keys(sending, 0);
    send_to(sending, prefix->trackers, prefix->count);
    for (size_t i = 0; i < prefix->count; i++) {
        sending->key_count = key_count;
        send_others(sending, prefix->trackers[i]);
    }
}

void tracking_send_broadcasts(struct worker *worker)
{
    struct tracking *tracking = worker->engine->tracking;
    struct tracking_broadcast *broadcast = &tracking->broadcasts[worker->index];
    struct sending sending;
    struct tracked_key **keys, *tracked;
    size_t count;

    keys = sort_keys(&broadcast->list, &count);
    begin_sending(&sending, worker->engine, broadcast->lsn);
    sending.is_broadcast = true;
    tracking_prefixes_match(&tracking->prefixes, keys, count, send_prefix, &sending);
    finish_sending(&sending, worker);
    while ((tracked = tracking_list_take(&broadcast->list)) != NULL)
        tracked_free(tracked);
    broadcast->lsn = 0;
    mem_free(keys);
}
