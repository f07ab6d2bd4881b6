/* Notes on changed keys that may serve a waiter, and the promise that each note is until it is served. */
#include "base/mutex.h"
#include "engine/blocking_private.h"

#include <sched.h>

#include "base/mem.h"
#include "engine/unit.h"

static struct noted_key *noted_create(int db, uint64_t hash, struct bytes key)
{
    struct noted_key *noted = mem_alloc(sizeof(*noted) + key.size);

    *noted = (struct noted_key){ .hash = hash, .db = db, .size = key.size };
    memcpy(noted->key, key.data, key.size);
    return noted;
}

/* --- lists --- */

static bool is_of_key(const struct noted_key *noted, int db, uint64_t hash, struct bytes key)
{
    return noted != NULL && noted->hash == hash && noted->db == db && bytes_equal(bytes_of(noted->key, noted->size), key);
}

void noted_move(struct noted_list *to, struct noted_list *from)
{
    if (from->first == NULL)
        return;
    *(to->last != NULL ? &to->last->next : &to->first) = from->first;
    to->last = from->last;
    *from = (struct noted_list){ 0 };
}

static void append_note(struct noted_list *list, struct noted_key *noted)
{
    struct noted_list one = { noted, noted };

    noted->next = NULL;
    noted_move(list, &one);
}

struct noted_key *noted_add(struct noted_list *list, int db, uint64_t hash, struct bytes key)
{
    if (!is_of_key(list->last, db, hash, key))
        append_note(list, noted_create(db, hash, key));
    return list->last;
}

struct noted_key *noted_take(struct noted_list *list)
{
    struct noted_key *noted = list->first;

    if (noted != NULL)
        list->first = noted->next;
    if (list->first == NULL)
        list->last = NULL;
    return noted;
}

void blocking_drop_notes(struct noted_list *list)
{
    struct noted_key *noted;

    while ((noted = noted_take(list)) != NULL)
        mem_free(noted);
}

/* --- promises --- */

/* The key's partition is locked. */
static void set_promise(struct blocking *blocking, struct noted_key *noted, enum promise promise)
{
    struct waited_table *table = &blocking->tables[partition_of(blocking, noted->hash)->index];

    table->promises += (uint32_t)((promise == PROMISED) - (noted->promise == PROMISED));
    table->held += (uint32_t)((promise == PROMISE_HELD) - (noted->promise == PROMISE_HELD));
    blocking->engine->partitions->obstacle_count += (uint64_t)((promise != NOT_PROMISED) - (noted->promise != NOT_PROMISED));
    noted->promise = promise;
}

static void change_promise(struct blocking *blocking, struct noted_key *noted, enum promise promise)
{
    struct partition *partition = partition_of(blocking, noted->hash);

    partition_lock(partition);
    set_promise(blocking, noted, promise);
    partition_unlock(partition);
}

/* Until the note is served, other workers run no call on its partition, which is locked. */
static void make_promise(struct blocking *blocking, struct noted_key *noted)
{
    if (noted->promise == NOT_PROMISED)
        set_promise(blocking, noted, PROMISED);
}

/* A held note counts at the partition that it waits for, too. */
static void count_held_at(struct blocking *blocking, uint32_t at, int by)
{
    struct partitions *all = blocking->engine->partitions;

    partition_lock(&all->partitions[at]);
    blocking->tables[at].held += (uint32_t)by;
    all->obstacle_count += (uint64_t)by;
    partition_unlock(&all->partitions[at]);
}

void promise_end(struct blocking *blocking, struct noted_key *noted)
{
    bool was_held = noted->promise == PROMISE_HELD;

    if (noted->promise == NOT_PROMISED)
        return;
    change_promise(blocking, noted, NOT_PROMISED);
    if (!was_held)
        return;
    count_held_at(blocking, noted->held_at, -1);
    blocking->held_count--;
    owners_wake(&blocking->engine->partitions->owners, &blocking->held);
}

void promise_hold(struct blocking *blocking, struct noted_key *noted, uint32_t at)
{
    if (noted->promise == NOT_PROMISED)
        return;
    count_held_at(blocking, at, 1);
    if (noted->promise == PROMISE_HELD) {
        count_held_at(blocking, noted->held_at, -1);
    } else {
        blocking->held_count++;
        change_promise(blocking, noted, PROMISE_HELD);
    }
    noted->held_at = at;
}

/* A unit owns the key's partition until its end, and the waiters are served after that: the promise is made then. */
static void note(struct blocking *blocking, const struct call *call, int db, uint64_t hash, struct bytes key)
{
    struct noted_key *noted = noted_add(&call->requester->worker->noted, db, hash, key);

    if (call->unit == NULL)
        make_promise(blocking, noted);
}

void blocking_keep_notes(struct worker *worker, struct unit *unit)
{
    const struct noted_key *first = worker->noted.first;

    if (first == NULL)
        return;
    if (first == worker->noted.last && is_of_key(unit->noted.last, first->db, first->hash, bytes_of(first->key, first->size)))
        blocking_drop_notes(&worker->noted);        /* a script that pushes to one list many times */
    else
        noted_move(&unit->noted, &worker->noted);
}

void blocking_promise_noted(struct worker *worker, struct unit *unit)
{
    struct blocking *blocking = worker->engine->blocking;

    for (struct noted_key *noted = unit->noted.first; noted != NULL; noted = noted->next) {
        struct partition *partition = partition_of(blocking, noted->hash);

        partition_lock(partition);
        make_promise(blocking, noted);
        partition_unlock(partition);
    }
    noted_move(&worker->noted, &unit->noted);
}

bool blocking_is_promised(const struct engine *engine, uint32_t partition)
{
    return engine->blocking != NULL && engine->blocking->tables[partition].promises > 0;
}

struct claim *blocking_holder(const struct engine *engine, uint32_t partition)
{
    struct blocking *blocking = engine->blocking;

    return blocking != NULL && blocking->tables[partition].held > 0 ? &blocking->held : NULL;
}

void blocking_note_owner(struct worker *worker, const struct partition *partition)
{
    int busy = partition->owner->busy;

    worker->held_at = partition->index;
    if (busy != 0)
        worker->engine->blocking->held.busy = busy;
}

void blocking_let_serve(struct engine *engine)
{
    /* The worker that has promised is about to take the lock, or holds it. */
    mutex_lock(&engine->blocking->serving);
    mutex_unlock(&engine->blocking->serving);
    sched_yield();
}

void blocking_note(struct engine *engine, const struct call *call, const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct blocking *blocking = engine->blocking;

    if (blocking->key_count == 0 || waited_find(&blocking->tables[keyspace->partition->index], keyspace->db, hash, key) == NULL)
        return;
    note(blocking, call, keyspace->db, hash, key);
}

void noted_put_off(struct blocking *blocking, struct noted_key *noted)
{
    mutex_lock(&blocking->registry);
    append_note(&blocking->later, noted);
    mutex_unlock(&blocking->registry);
    blocking->any_later = true;
}

void blocking_note_applied(struct engine *engine, const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct blocking *blocking = engine->blocking;

    if (blocking == NULL || blocking->key_count == 0 ||
        waited_find(&blocking->tables[keyspace->partition->index], keyspace->db, hash, key) == NULL)
        return;
    noted_put_off(blocking, noted_create(keyspace->db, hash, key));
    if (atomic_exchange(&blocking->is_asked, true))
        return;
    blocking->soon = (struct mail){ .run = blocking_serve_applied };
    mailbox_post(&engine->workers[0]->mailbox, &blocking->soon);
}

void blocking_note_removed(struct engine *engine, const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct blocking *blocking = engine->blocking;
    const struct waited *waited;

    if (blocking == NULL || blocking->removal_key_count == 0)
        return;
    waited = waited_find(&blocking->tables[keyspace->partition->index], keyspace->db, hash, key);
    if (waited != NULL && waited->removal_waiter_count > 0)
        noted_put_off(blocking, noted_create(keyspace->db, hash, key));
}

void blocking_note_database(struct call *call, int db)
{
    struct blocking *blocking = call->engine->blocking;

    if (blocking == NULL || blocking->key_count == 0)
        return;
    for (uint32_t i = 0; i < call->partitions->count; i++) {
        const struct waited_table *table = &blocking->tables[i];

        for (uint32_t j = 0; j < table->capacity; j++) {
            for (const struct waited *waited = table->buckets[j]; waited != NULL; waited = waited->next) {
                if (waited->db == db)
                    note(blocking, call, db, waited->hash, waited->key);
            }
        }
    }
}
