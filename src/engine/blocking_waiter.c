/* A waiter from beginning to end: it is registered, finished, delivered to its worker, and its client takes the reply or is freed. */
#include "base/mutex.h"
#include "engine/blocking_private.h"

#include "acl/acl.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "engine/deadlines.h"
#include "engine/redirect.h"
#include "engine/synced.h"
#include "engine/tracking.h"
#include "stats/error_stats.h"

static void registry_add(struct blocking *blocking, struct waiter *waiter)
{
    mutex_lock(&blocking->registry);
    waiter->next = blocking->waiters;
    if (waiter->next != NULL)
        waiter->next->prev = waiter;
    blocking->waiters = waiter;
    mutex_unlock(&blocking->registry);
    if (waiter->deadline.at_us > 0)
        blocking->with_deadline++;
    if (waiter->retry_ms != 0)
        blocking->with_retry++;
}

static void registry_remove(struct blocking *blocking, struct waiter *waiter)
{
    mutex_lock(&blocking->registry);
    if (waiter->prev != NULL)
        waiter->prev->next = waiter->next;
    else
        blocking->waiters = waiter->next;
    if (waiter->next != NULL)
        waiter->next->prev = waiter->prev;
    mutex_unlock(&blocking->registry);
    if (waiter->deadline.at_us > 0)
        blocking->with_deadline--;
    if (waiter->retry_ms != 0)
        blocking->with_retry--;
}

void waiter_free(struct waiter *waiter)
{
    registry_remove(waiter->engine->blocking, waiter);
    buffer_release(&waiter->reply);
    acl_user_release(waiter->user);
    mem_free(waiter->address);
    mem_free(waiter->places);
    mem_free(waiter->args);
    mem_free(waiter);
}

/* With `serving` held. */
void waiter_finish(struct blocking *blocking, struct waiter *waiter, enum blocking_end how)
{
    CHECK(!waiter->is_done);
    for (int i = 0; i < waiter->place_count; i++)
        queue_leave(blocking, &waiter->places[i]);
    waiter->how = how;
    waiter->is_done = true;
    blocking->waiting_count--;
}

/* The time of a waiter is up, or nothing more is to come for it: it is finished, and its client resumed, unless it was finished before. */
static void end_in_time(struct worker *worker, struct waiter *waiter)
{
    struct blocking *blocking = worker->engine->blocking;
    bool was_served;

    mutex_lock(&blocking->serving);
    was_served = waiter->is_done;           /* just before: the message is on its way */
    if (!was_served)
        waiter_finish(blocking, waiter, BLOCKING_TIMED_OUT);
    mutex_unlock(&blocking->serving);
    if (was_served)
        return;
    waiter->is_delivered = true;
    worker->host.resume(waiter->client);
}

static void pass_deadline(struct worker *worker, struct deadline *deadline)
{
    end_in_time(worker, (struct waiter *)((char *)deadline - offsetof(struct waiter, deadline)));
}

void blocking_register(struct call *call, struct worker *worker)
{
    struct blocking *blocking = call->engine->blocking;
    const struct call_wait *wait = call->wait;
    struct client *client = call->client;
    size_t args_size;
    struct waiter *waiter = mem_zalloc(sizeof(*waiter));

    CHECK(client->waiter == NULL);
    *waiter = (struct waiter){
        .engine = call->engine,
        .worker = worker,
        .client_id = client->id,
        .address = mem_string(bytes_of_string(client->address)),
        .flags = client->flags & CLIENT_NO_TOUCH,
        .db = call->db,
        .protocol = client->reply.protocol,
        .type = wait->type,
        .aim = { wait->end, wait->here, wait->there },
        .wakes_on_removal = wait->wakes_on_removal,
        .deadline = { .at_us = wait->deadline_us, .passed = pass_deadline },
        .user = client->user,
        .retry_ms = wait->retry_ms,
        .command = call->command,
        .args = mem_copy_array(wait->args, wait->arg_count, &args_size),
        .arg_count = wait->arg_count,
        .places = mem_alloc((size_t)wait->key_count * sizeof(struct place)),
        .client = client,
    };
    if (waiter->user != NULL)
        acl_user_hold(waiter->user);
    client->waiter = waiter;
    if (waiter->deadline.at_us > 0)
        deadline_add(worker, &waiter->deadline);
    synced_add(worker, waiter);
    waiter->size = sizeof(*waiter) + args_size;
    for (int i = 0; i < wait->key_count; i++) {
        struct bytes key = call->args[wait->key_first + i];

        waiter->size += sizeof(struct place) + sizeof(struct waited) + key.size;
        queue_join(blocking, waiter, &waiter->places[waiter->place_count], key_hash(&call->partitions->seed, key), key);
    }
    blocking->waiting_count++;
    registry_add(blocking, waiter);         /* now others may find it there; in its queues they do when the locks are given back */
}

/* From the beginning after each, as a client that goes on may close others. */
void blocking_check_synced(struct worker *worker)
{
    struct waiter *waiter;

    while ((waiter = synced_find_over(worker)) != NULL) {
        synced_remove(worker, waiter);
        end_in_time(worker, waiter);
    }
}

/* On the waiter's worker. */
static void run_delivery(struct mail *mail, struct worker *worker)
{
    struct waiter *waiter = (struct waiter *)mail;

    if (waiter->client == NULL) {
        waiter_free(waiter);
        return;
    }
    waiter->is_delivered = true;
    worker->host.resume(waiter->client);
}

/* `worker` is the one we are on, or NULL: its own clients get theirs at the end of the turn, without a bell. */
void waiter_deliver(struct worker *worker, struct waiter *waiter)
{
    waiter->mail = (struct mail){ .run = run_delivery };
    if (worker == NULL || waiter->worker != worker) {
        mailbox_post(&waiter->worker->mailbox, &waiter->mail);
        return;
    }
    if (worker->delivery_last != NULL)
        worker->delivery_last->next = &waiter->mail;
    else
        worker->delivery_first = &waiter->mail;
    worker->delivery_last = &waiter->mail;
}

void blocking_deliver(struct worker *worker)
{
    while (worker->delivery_first != NULL) {
        struct mail *mail = worker->delivery_first;

        worker->delivery_first = mail->next;
        if (worker->delivery_first == NULL)
            worker->delivery_last = NULL;
        mail->run(mail, worker);
    }
}

size_t blocking_memory(const struct client *client)
{
    return client->waiter != NULL ? client->waiter->size : 0;
}

bool blocking_is_over(const struct waiter *waiter)
{
    return waiter->is_delivered;
}

static const char unblocked_error[] = "UNBLOCKED client unblocked via CLIENT UNBLOCK";
static const char replica_error[] = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

/* The error with which it ends; NULL: it ends with another reply. */
static const char *error_of(const struct waiter *waiter)
{
    switch (waiter->how) {
    case BLOCKING_SERVED:
    case BLOCKING_BEGINS_AGAIN: return NULL;
    case BLOCKING_TIMED_OUT: return synced_error(waiter->engine, &waiter->aim);
    case BLOCKING_UNBLOCKED: return unblocked_error;
    case BLOCKING_BECAME_REPLICA: return replica_error;
    }
    return NULL;
}

static void note_end(struct worker *worker, const struct waiter *waiter, const char *error)
{
    struct command_stats *stats = engine_stats_of(waiter->engine, &worker->turn, waiter->command);

    if (waiter->how == BLOCKING_SERVED)
        return;                         /* the proxy's call was counted */
    command_stats_add(&stats->calls, 1);
    if (error == NULL)
        return;
    command_stats_add(&stats->failed, 1);
    turn_count(&worker->turn, STAT_ERROR_REPLIES, 1);
    error_stats_note(waiter->engine->stats.errors, bytes_of_string(error));
}

static void reply_in_time(struct client *client, const struct waiter *waiter)
{
    if (waiter->aim.end >= CALL_WAIT_REPLICAS)
        synced_reply(waiter->engine, client, waiter->aim.end, &client->reply);
    else
        reply_wait_end(&client->reply, waiter->aim.end);
}

static void take_served(struct worker *worker, struct client *client, const struct waiter *waiter)
{
    buffer_append_bytes(&client->reply.out, buffer_bytes(&waiter->reply));
    if (waiter->lsn > client->lsn.needed)
        client->lsn.needed = waiter->lsn;
    if (waiter->lsn_written > client->lsn.written)
        client->lsn.written = waiter->lsn_written;
    if (waiter->lsn > worker->turn.lsn_seen)
        worker->turn.lsn_seen = waiter->lsn;
    if (client->flags & CLIENT_TRACKING)
        tracking_disown(client, waiter->command, waiter->args, waiter->arg_count, waiter->lsn);
}

static void end_waiter(struct worker *worker, struct client *client)
{
    struct waiter *waiter = client->waiter;

    client->waiter = NULL;
    deadline_remove(worker, &waiter->deadline);
    synced_remove(worker, waiter);
    waiter_free(waiter);
}

void blocking_take_reply(struct worker *worker, struct client *client)
{
    struct waiter *waiter = client->waiter;
    const char *error = error_of(waiter);

    CHECK(waiter->is_delivered);
    if (error != NULL)
        reply_error_text(&client->reply, bytes_of_string(error));
    else if (waiter->how == BLOCKING_SERVED)
        take_served(worker, client, waiter);
    else
        reply_in_time(client, waiter);
    note_end(worker, waiter, error);
    if (waiter->how == BLOCKING_BECAME_REPLICA)
        client->flags |= CLIENT_CLOSE_AFTER_REPLY;
    end_waiter(worker, client);
}

bool blocking_begins_again(struct worker *worker, struct client *client)
{
    if (client->waiter->how != BLOCKING_BEGINS_AGAIN)
        return false;
    end_waiter(worker, client);
    return true;
}

void blocking_forget(struct client *client)
{
    struct waiter *waiter = client->waiter;
    struct blocking *blocking = waiter->engine->blocking;

    client->waiter = NULL;
    waiter->client = NULL;
    deadline_remove(waiter->worker, &waiter->deadline);
    synced_remove(waiter->worker, waiter);
    mutex_lock(&blocking->serving);
    if (!waiter->is_done) {
        waiter_finish(blocking, waiter, BLOCKING_TIMED_OUT);
        waiter->is_delivered = true;
    }
    mutex_unlock(&blocking->serving);
    if (waiter->is_delivered)
        waiter_free(waiter);            /* else the message is on its way, and frees it */
}

bool blocking_unblock(struct worker *worker, uint64_t client_id, enum blocking_end how)
{
    struct blocking *blocking = worker->engine->blocking;
    struct waiter *waiter;

    /* A waiter is freed by its worker, after it was done with under `serving`: one that is not done stays as long as that is held. */
    mutex_lock(&blocking->serving);
    mutex_lock(&blocking->registry);
    for (waiter = blocking->waiters; waiter != NULL; waiter = waiter->next) {
        if (waiter->client_id == client_id && !waiter->is_done)
            break;
    }
    mutex_unlock(&blocking->registry);
    if (waiter != NULL) {
        waiter_finish(blocking, waiter, how);
        waiter_deliver(worker, waiter);
    }
    mutex_unlock(&blocking->serving);
    return waiter != NULL;
}

/* The waiters that are not done: they stay as long as `serving` is held. The caller frees the array. */
static struct waiter **find_waiting(struct blocking *blocking, size_t *count)
{
    struct waiter **all;
    size_t room = 0;

    mutex_lock(&blocking->registry);
    for (struct waiter *waiter = blocking->waiters; waiter != NULL; waiter = waiter->next)
        room++;
    all = mem_alloc((room + 1) * sizeof(*all));
    *count = 0;
    for (struct waiter *waiter = blocking->waiters; waiter != NULL; waiter = waiter->next) {
        if (!waiter->is_done)
            all[(*count)++] = waiter;
    }
    mutex_unlock(&blocking->registry);
    return all;
}

/* Ends the waiting of clients that `is_meant` picks. */
static void unblock_some(struct engine *engine, bool (*is_meant)(const struct waiter *waiter), enum blocking_end how)
{
    struct blocking *blocking = engine->blocking;
    struct waiter **all;
    size_t count;

    if (blocking == NULL)
        return;
    mutex_lock(&blocking->serving);
    all = find_waiting(blocking, &count);
    for (size_t i = 0; i < count; i++) {
        if (!is_meant(all[i]))
            continue;
        waiter_finish(blocking, all[i], how);
        waiter_deliver(NULL, all[i]);
    }
    mutex_unlock(&blocking->serving);
    mem_free(all);
}

static bool is_any(const struct waiter *waiter)
{
    (void)waiter;
    return true;
}

/* The slots of all of its keys are one. A read that waits on a replica goes on: begun again, XREAD would miss what is added just then, and its time
 * would begin again as well. */
static bool is_not_served(const struct waiter *waiter)
{
    const struct redirect *redirect = waiter->engine->redirect;
    enum slot_state served = waiter->command->flags & COMMAND_WRITE ? SLOT_OWNED : SLOT_OF_PRIMARY;

    return waiter->place_count > 0 && (redirect->is_down || redirect_state(redirect, waiter->places[0].waited->hash) < served);
}

void blocking_unblock_all(struct engine *engine) { unblock_some(engine, is_any, BLOCKING_BECAME_REPLICA); }

void blocking_judge_again(struct engine *engine) { unblock_some(engine, is_not_served, BLOCKING_BEGINS_AGAIN); }
