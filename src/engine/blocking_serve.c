/* Serving: a proxy runs the waiters' commands for the keys that were noted. All with `serving` held. */
#include "base/mutex.h"
#include "engine/blocking_private.h"

#include "base/mem.h"
#include "engine/access.h"
#include "engine/redirect.h"
#include "engine/role.h"

enum presence { ABSENT, PRESENT, UNREADABLE };

/* Whether the key exists, and the type of its value. A cold key is loaded. */
static enum presence look_at_key(struct engine *engine, struct keyspace *keyspace, const struct noted_key *noted, uint8_t *type)
{
    const struct key_hooks *hooks = &engine->hooks;
    struct bytes key = bytes_of(noted->key, noted->size);
    uint32_t handle;
    struct value value;

    if (keyspace == NULL)
        return ABSENT;
    handle = keyspace_find(keyspace, noted->hash, key);
    if (handle == 0) {
        if (!hooks->load_in_place(hooks->context, keyspace, noted->hash, key))
            return UNREADABLE;
        handle = keyspace_find(keyspace, noted->hash, key);
    }
    if (handle == 0)
        return ABSENT;
    value = entry_value(keyspace_entry(keyspace, handle));
    *type = value.type;
    return PRESENT;
}

/* Where to go on in a queue. */
struct turn_in_queue {
    bool begun;
    struct place *next;
};

/* A key that can't be read serves every waiter with an error: the same as a client gets that asks for it now. */
static bool may_be_served(const struct waiter *waiter, enum presence presence, uint8_t type)
{
    return presence == UNREADABLE || waiter->wakes_on_removal || (presence == PRESENT && waiter->type == type);
}

/* The next waiter that the key, as it is now, may serve; NULL if there is none. */
static struct waiter *next_waiter(struct blocking *blocking, struct noted_key *noted, struct turn_in_queue *turn)
{
    struct partition *partition = partition_of(blocking, noted->hash);
    struct waiter *found = NULL;
    struct waited *waited;
    uint8_t type = 0;

    partition_lock(partition);
    waited = waited_find(&blocking->tables[partition->index], noted->db, noted->hash, bytes_of(noted->key, noted->size));
    if (waited != NULL && !turn->begun)
        turn->next = waited->first;
    turn->begun = true;
    if (waited != NULL && turn->next != NULL) {
        enum presence presence = look_at_key(blocking->engine, partition_keyspace_if(partition, noted->db), noted, &type);

        if (presence == ABSENT && waited->removal_waiter_count == 0)
            turn->next = NULL;          /* a long queue is not walked for nothing */
        for (; turn->next != NULL && found == NULL; turn->next = turn->next->next) {
            if (may_be_served(turn->next->waiter, presence, type))
                found = turn->next->waiter;
        }
    }
    partition_unlock(partition);
    return found;
}

enum service { SERVED, NOT_SERVED, HELD_BACK };

/* Runs the waiter's command. */
static enum service serve(struct blocking *blocking, struct worker *worker, struct waiter *waiter)
{
    struct client proxy = {
        .id = waiter->client_id,
        .worker = worker,
        .flags = waiter->flags,
        .caller = CALLER_PROXY,
        .db = waiter->db,
        .authenticated = true,
        .user = waiter->user,
        .address = waiter->address,
        .fd = -1,
    };

    proxy.checks_acl = access_is_limited(&proxy);
    reply_init(&proxy.reply, waiter->protocol);
    if (engine_run(worker, &proxy, waiter->args, waiter->arg_count) == RUN_PARKED) {
        reply_release(&proxy.reply);
        if (waiter->retry_ms != 0 && proxy.retry_ms != 0)
            waiter->retry_ms = proxy.retry_ms;
        return proxy.flags & CLIENT_HELD_BACK ? HELD_BACK : NOT_SERVED;
    }
    waiter->reply = proxy.reply.out;
    waiter->lsn = proxy.lsn.needed;
    waiter->lsn_written = proxy.lsn.written;
    waiter_finish(blocking, waiter, BLOCKING_SERVED);
    waiter_deliver(worker, waiter);
    return SERVED;
}

/* No client may write this key now, so no newcomer takes what is there; and calls that only read need not wait for the end of that. */
static bool writes_are_held(const struct engine *engine, uint64_t hash)
{
    return engine->frozen || engine->holds_writes || role_bits(engine) & ROLE_READ_ONLY ||
        redirect_is_held(engine->redirect, hash);
}

/* False: it is to be tried again. */
static bool serve_key(struct blocking *blocking, struct worker *worker, struct noted_key *noted)
{
    struct turn_in_queue turn = { 0 };
    struct waiter *waiter;

    while ((waiter = next_waiter(blocking, noted, &turn)) != NULL) {
        worker->held_at = partition_of(blocking, noted->hash)->index;
        if (serve(blocking, worker, waiter) != HELD_BACK)
            continue;
        if (writes_are_held(worker->engine, noted->hash))
            promise_end(blocking, noted);
        else
            promise_hold(blocking, noted, worker->held_at);
        return false;
    }
    promise_end(blocking, noted);
    return true;
}

static void serve_noted(struct blocking *blocking, struct worker *worker)
{
    struct noted_key *noted;

    while ((noted = noted_take(&worker->noted)) != NULL) {
        if (serve_key(blocking, worker, noted))
            mem_free(noted);
        else
            noted_put_off(blocking, noted);
    }
}

void blocking_serve(struct worker *worker)
{
    struct blocking *blocking = worker->engine->blocking;

    mutex_lock(&blocking->serving);
    serve_noted(blocking, worker);
    mutex_unlock(&blocking->serving);
}

/* Takes the keys that were to be served later: they are next. */
static void take_later(struct blocking *blocking, struct worker *worker)
{
    blocking->any_later = false;
    mutex_lock(&blocking->registry);
    noted_move(&worker->noted, &blocking->later);
    mutex_unlock(&blocking->registry);
}

/* Writes are held: the notes stay where they are, without their promises. */
static void end_held_promises(struct blocking *blocking)
{
    mutex_lock(&blocking->serving);         /* notes with promises leave the list under it */
    mutex_lock(&blocking->registry);
    for (struct noted_key *noted = blocking->later.first; noted != NULL; noted = noted->next) {
        if (noted->promise != PROMISE_HELD)
            continue;
        mutex_unlock(&blocking->registry);
        promise_end(blocking, noted);
        mutex_lock(&blocking->registry);
    }
    mutex_unlock(&blocking->registry);
    mutex_unlock(&blocking->serving);
}

/* The keys of waiters whose commands are to be run again now. */
static void note_retries(struct blocking *blocking, struct worker *worker)
{
    if (blocking->with_retry == 0)
        return;
    mutex_lock(&blocking->registry);
    for (const struct waiter *waiter = blocking->waiters; waiter != NULL; waiter = waiter->next) {
        if (waiter->is_done || waiter->retry_ms == 0 || waiter->retry_ms > worker->turn.now_ms)
            continue;
        for (int i = 0; i < waiter->place_count; i++) {
            const struct waited *waited = waiter->places[i].waited;

            noted_add(&worker->noted, waited->db, waited->hash, waited->key);
        }
    }
    mutex_unlock(&blocking->registry);
}

void blocking_retry(struct worker *worker)
{
    struct engine *engine = worker->engine;
    struct blocking *blocking = engine->blocking;

    if (blocking == NULL || (!blocking->any_later && blocking->with_retry == 0))
        return;
    if (engine->frozen || engine->holds_writes) {
        if (blocking->held_count > 0)
            end_held_promises(blocking);
        return;
    }
    mutex_lock(&blocking->serving);
    blocking->held.busy = 0;
    note_retries(blocking, worker);
    take_later(blocking, worker);
    serve_noted(blocking, worker);
    mutex_unlock(&blocking->serving);
    if (blocking->held.busy)                /* those that wait are refused now */
        owners_wake(&engine->partitions->owners, &blocking->held);
}

void blocking_serve_applied(struct mail *mail, struct worker *worker)
{
    (void)mail;
    worker->engine->blocking->is_asked = false;
    blocking_retry(worker);
}
