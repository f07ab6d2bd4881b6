/* What has changed: notes on keys that may serve a waiter, and the promise that each note is until it is served. */
#include "base/mutex.h"
#include "engine/blocking_private.h"

#include <sched.h>

#include "base/mem.h"
#include "engine/unit.h"

struct noted_key *noted_add(struct worker *worker, int db, uint64_t hash, struct bytes key)
{
    struct noted_key *last = worker->noted_last, *noted;

    if (last != NULL && last->hash == hash && last->db == db && bytes_equal(bytes_of(last->key, last->size), key))
        return last;
    noted = mem_alloc(sizeof(*noted) + key.size);
    *noted = (struct noted_key){ .hash = hash, .db = db, .size = key.size };
    memcpy(noted->key, key.data, key.size);
    if (last != NULL)
        last->next = noted;
    else
        worker->noted_first = noted;
    worker->noted_last = noted;
    return noted;
}

/* The partition is locked. Until the note is served, other workers run no call on it. */
static void promise(struct blocking *blocking, struct noted_key *noted)
{
    if (noted->is_promised)
        return;
    noted->is_promised = true;
    blocking->tables[partition_of(blocking, noted->hash)->index].promises++;
    blocking->engine->partitions->obstacle_count++;
}

void promise_end(struct blocking *blocking, struct noted_key *noted)
{
    if (!noted->is_promised)
        return;
    noted->is_promised = false;
    blocking->tables[partition_of(blocking, noted->hash)->index].promises--;
    blocking->engine->partitions->obstacle_count--;
}

/* A unit owns the key's partition until its end, and the waiters are served after that: the promise is made then. */
static void note(struct blocking *blocking, const struct call *call, int db, uint64_t hash, struct bytes key)
{
    struct noted_key *noted = noted_add(call->requester->worker, db, hash, key);

    if (call->unit == NULL)
        promise(blocking, noted);
}

void blocking_keep_notes(struct worker *worker, struct unit *unit)
{
    if (worker->noted_first == NULL)
        return;
    if (unit->noted_last != NULL)
        unit->noted_last->next = worker->noted_first;
    else
        unit->noted_first = worker->noted_first;
    unit->noted_last = worker->noted_last;
    worker->noted_first = worker->noted_last = NULL;
}

void blocking_promise_noted(struct worker *worker, struct unit *unit)
{
    struct blocking *blocking = worker->engine->blocking;

    if (unit->noted_first == NULL)
        return;
    for (struct noted_key *noted = unit->noted_first; noted != NULL; noted = noted->next) {
        struct partition *partition = partition_of(blocking, noted->hash);

        partition_lock(partition);
        promise(blocking, noted);
        partition_unlock(partition);
    }
    if (worker->noted_last != NULL)
        worker->noted_last->next = unit->noted_first;
    else
        worker->noted_first = unit->noted_first;
    worker->noted_last = unit->noted_last;
    unit->noted_first = unit->noted_last = NULL;
}

bool blocking_is_promised(const struct engine *engine, uint32_t partition)
{
    return engine->blocking != NULL && engine->blocking->tables[partition].promises > 0;
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

/* To be served by blocking_retry. */
static void note_for_others(struct blocking *blocking, const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct noted_key *noted = mem_alloc(sizeof(*noted) + key.size);

    *noted = (struct noted_key){ .hash = hash, .db = keyspace->db, .size = key.size };
    memcpy(noted->key, key.data, key.size);
    mutex_lock(&blocking->registry);
    noted->next = blocking->removed;
    blocking->removed = noted;
    mutex_unlock(&blocking->registry);
    blocking->any_stalled = true;
}

static void serve_soon(struct mail *mail, struct worker *worker)
{
    worker->engine->blocking->is_asked = false;
    blocking_retry(worker);
}

void blocking_note_applied(struct engine *engine, const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct blocking *blocking = engine->blocking;

    if (blocking == NULL || blocking->key_count == 0 ||
        waited_find(&blocking->tables[keyspace->partition->index], keyspace->db, hash, key) == NULL)
        return;
    note_for_others(blocking, keyspace, hash, key);
    if (atomic_exchange(&blocking->is_asked, true))
        return;
    blocking->soon = (struct mail){ .run = serve_soon };
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
        note_for_others(blocking, keyspace, hash, key);
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

static void free_notes(struct noted_key *noted)
{
    while (noted != NULL) {
        struct noted_key *next = noted->next;

        mem_free(noted);
        noted = next;
    }
}

void blocking_drop_notes(struct worker *worker)
{
    free_notes(worker->noted_first);
    worker->noted_first = worker->noted_last = NULL;
}

void blocking_drop_kept_notes(struct unit *unit)
{
    free_notes(unit->noted_first);
    unit->noted_first = unit->noted_last = NULL;
}
