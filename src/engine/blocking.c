#include "engine/blocking.h"

#include <pthread.h>
#include <sched.h>

#include "admin/error_stats.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "engine/engine.h"

enum { BUCKETS_MIN = 4 };

/* A key that somebody waits for. Under its partition's lock. */
struct waited {
    struct waited *next;            /* in its bucket */
    struct place *first, *last;     /* the queue; never empty */
    uint32_t even_without;          /* waiters in it that the key's absence serves */
    uint64_t hash;
    int db;
    struct bytes key;               /* lies behind the struct */
};

/* Where a waiter stands in one queue. */
struct place {
    struct place *prev, *next;      /* the partition's lock */
    struct waited *waited;          /* immutable */
    struct waiter *waiter;          /* immutable */
};

struct waiter {
    struct message message;         /* brings the answer home */
    struct engine *engine;
    struct worker *worker;          /* the client's. Immutable, as all up to `places` */
    uint64_t client_id;
    char *address;
    uint32_t flags;
    int db, protocol;
    uint8_t type;                   /* enum value_type: of values that may serve it */
    enum call_wait_end end;
    bool even_without;              /* so may a key that is gone, or of another type */
    int64_t deadline_us;            /* monotonic clock; 0: none */
    const struct command *command;
    struct bytes *args;
    int arg_count;
    struct place *places;
    int place_count;

    bool is_done;                   /* `serving`; up to the message, then its worker */
    enum blocking_end how;
    struct buffer reply;            /* if it was served */
    uint64_t lsn, lsn_written;
    struct client *client;          /* its worker; NULL: gone */
    bool has_come_home;             /* its worker: the message has run, or is not needed */
    int deadline_at;                /* its worker: place in the heap, -1: none */
    struct waiter *prev, *next;     /* `registry` */
};

/* A key that has changed and may serve somebody: in a list of its worker, or of those that wait for better times. */
struct noted_key {
    struct noted_key *next;
    uint64_t hash;
    int db;
    bool is_promised;               /* counted in its partition's table */
    size_t size;
    char key[];
};

struct waited_table {
    struct waited **buckets;
    uint32_t capacity, count;       /* a power of two, or 0 */
    uint32_t promises;              /* notes on keys of the partition that are still to be served */
};

struct blocking {
    struct engine *engine;
    pthread_mutex_t serving;        /* before the partitions */
    pthread_mutex_t registry;       /* leaf */
    struct waiter *waiters;         /* `registry`: all that there are */
    struct waited_table *tables;    /* by partition, under its lock */
    struct noted_key *stalled;      /* `serving` */
    struct noted_key *removed;      /* `registry`: keys that no command removed */
    _Atomic bool any_stalled;
    _Atomic uint64_t key_count;     /* written under any partition's lock */
    _Atomic uint64_t even_without_count;    /* the same: keys with waiters that their absence serves */
    _Atomic uint64_t waiting_count;
    _Atomic uint64_t with_deadline;
};

/* The tables. */

static uint32_t bucket_of(const struct waited_table *table, int db, uint64_t hash)
{
    return (uint32_t)(hash ^ (uint64_t)db * 0x9e3779b97f4a7c15ull) & (table->capacity - 1);
}

static struct waited *waited_find(const struct waited_table *table, int db, uint64_t hash, struct bytes key)
{
    struct waited *waited;

    if (table->count == 0)
        return NULL;
    for (waited = table->buckets[bucket_of(table, db, hash)]; waited != NULL; waited = waited->next) {
        if (waited->hash == hash && waited->db == db && bytes_equal(waited->key, key))
            return waited;
    }
    return NULL;
}

static void waited_resize(struct waited_table *table, uint32_t capacity)
{
    struct waited_table old = *table;

    table->capacity = capacity;
    table->buckets = mem_zalloc(capacity * sizeof(*table->buckets));
    for (uint32_t i = 0; i < old.capacity; i++) {
        while (old.buckets[i] != NULL) {
            struct waited *waited = old.buckets[i], **bucket = &table->buckets[bucket_of(table, waited->db, waited->hash)];

            old.buckets[i] = waited->next;
            waited->next = *bucket;
            *bucket = waited;
        }
    }
    mem_free(old.buckets);
}

static struct waited *waited_add(struct waited_table *table, int db, uint64_t hash, struct bytes key)
{
    struct waited *waited = mem_zalloc(sizeof(*waited) + key.size), **bucket;

    if (table->count >= table->capacity)
        waited_resize(table, table->capacity > 0 ? table->capacity * 2 : BUCKETS_MIN);
    memcpy(waited + 1, key.data, key.size);
    waited->key = bytes_of(waited + 1, key.size);
    waited->hash = hash;
    waited->db = db;
    bucket = &table->buckets[bucket_of(table, db, hash)];
    waited->next = *bucket;
    *bucket = waited;
    table->count++;
    return waited;
}

static void waited_remove(struct waited_table *table, struct waited *waited)
{
    struct waited **at = &table->buckets[bucket_of(table, waited->db, waited->hash)];

    while (*at != waited)
        at = &(*at)->next;
    *at = waited->next;
    mem_free(waited);
    table->count--;
    if (table->count == 0) {
        mem_free(table->buckets);
        table->buckets = NULL;
        table->capacity = 0;
    }
}

static struct partition *partition_of(const struct blocking *blocking, uint64_t hash)
{
    const struct partitions *all = blocking->engine->partitions;

    return &all->partitions[partition_index(all, hash)];
}

/* Waiters. */

static void registry_add(struct blocking *blocking, struct waiter *waiter)
{
    pthread_mutex_lock(&blocking->registry);
    waiter->next = blocking->waiters;
    if (waiter->next != NULL)
        waiter->next->prev = waiter;
    blocking->waiters = waiter;
    pthread_mutex_unlock(&blocking->registry);
    if (waiter->deadline_us > 0)
        blocking->with_deadline++;
}

static void registry_remove(struct blocking *blocking, struct waiter *waiter)
{
    pthread_mutex_lock(&blocking->registry);
    if (waiter->prev != NULL)
        waiter->prev->next = waiter->next;
    else
        blocking->waiters = waiter->next;
    if (waiter->next != NULL)
        waiter->next->prev = waiter->prev;
    pthread_mutex_unlock(&blocking->registry);
    if (waiter->deadline_us > 0)
        blocking->with_deadline--;
}

static void waiter_free(struct waiter *waiter)
{
    registry_remove(waiter->engine->blocking, waiter);
    buffer_release(&waiter->reply);
    mem_free(waiter->address);
    mem_free(waiter->places);
    mem_free(waiter->args);
    mem_free(waiter);
}

/* In one block. */
static struct bytes *copy_args(const struct bytes *args, int arg_count)
{
    size_t size = (size_t)arg_count * sizeof(*args);
    struct bytes *copy;
    char *at;

    for (int i = 0; i < arg_count; i++)
        size += args[i].size;
    copy = mem_alloc(size);
    at = (char *)(copy + arg_count);
    for (int i = 0; i < arg_count; i++) {
        memcpy(at, args[i].data, args[i].size);
        copy[i] = bytes_of(at, args[i].size);
        at += args[i].size;
    }
    return copy;
}

/* A key that is named twice is waited for once: the waiter is then the last in the queue already. */
static void stand_in_queue(struct blocking *blocking, struct waiter *waiter, struct place *place, uint64_t hash, struct bytes key)
{
    struct partition *partition = partition_of(blocking, hash);
    struct waited_table *table = &blocking->tables[partition->index];
    struct waited *waited = waited_find(table, waiter->db, hash, key);

    ASSERT_LOCKED(partition);
    if (waited == NULL) {
        waited = waited_add(table, waiter->db, hash, key);
        blocking->key_count++;
    }
    if (waited->last != NULL && waited->last->waiter == waiter)
        return;
    *place = (struct place){ .prev = waited->last, .waited = waited, .waiter = waiter };
    if (waited->last != NULL)
        waited->last->next = place;
    else
        waited->first = place;
    waited->last = place;
    waiter->place_count++;
    if (waiter->even_without && waited->even_without++ == 0)
        blocking->even_without_count++;
}

static void leave_queue(struct blocking *blocking, struct place *place)
{
    struct waited *waited = place->waited;
    struct partition *partition = partition_of(blocking, waited->hash);

    partition_lock(partition);
    if (place->prev != NULL)
        place->prev->next = place->next;
    else
        waited->first = place->next;
    if (place->next != NULL)
        place->next->prev = place->prev;
    else
        waited->last = place->prev;
    if (place->waiter->even_without && --waited->even_without == 0)
        blocking->even_without_count--;
    if (waited->first == NULL) {
        waited_remove(&blocking->tables[partition->index], waited);
        blocking->key_count--;
    }
    partition_unlock(partition);
}

/* With `serving` held. */
static void finish(struct blocking *blocking, struct waiter *waiter, enum blocking_end how)
{
    CHECK(!waiter->is_done);
    for (int i = 0; i < waiter->place_count; i++)
        leave_queue(blocking, &waiter->places[i]);
    waiter->how = how;
    waiter->is_done = true;
    blocking->waiting_count--;
}

/* Deadlines: a heap for each worker, the next one on top. */

static void heap_put(struct worker *worker, int at, struct waiter *waiter)
{
    worker->deadlines[at] = waiter;
    waiter->deadline_at = at;
}

static void heap_up(struct worker *worker, int at, struct waiter *waiter)
{
    for (; at > 0 && worker->deadlines[(at - 1) / 2]->deadline_us > waiter->deadline_us; at = (at - 1) / 2)
        heap_put(worker, at, worker->deadlines[(at - 1) / 2]);
    heap_put(worker, at, waiter);
}

static void heap_down(struct worker *worker, int at, struct waiter *waiter)
{
    for (;;) {
        int child = 2 * at + 1;

        if (child + 1 < worker->deadline_count && worker->deadlines[child + 1]->deadline_us < worker->deadlines[child]->deadline_us)
            child++;
        if (child >= worker->deadline_count || worker->deadlines[child]->deadline_us >= waiter->deadline_us)
            break;
        heap_put(worker, at, worker->deadlines[child]);
        at = child;
    }
    heap_put(worker, at, waiter);
}

static void deadline_remove(struct worker *worker, struct waiter *waiter)
{
    int at = waiter->deadline_at;
    struct waiter *last;

    if (at < 0)
        return;
    waiter->deadline_at = -1;
    last = worker->deadlines[--worker->deadline_count];
    if (last == waiter)
        return;
    if (at > 0 && worker->deadlines[(at - 1) / 2]->deadline_us > last->deadline_us)
        heap_up(worker, at, last);
    else
        heap_down(worker, at, last);
}

static void set_alarm(struct worker *worker)
{
    if (worker->set_alarm != NULL && worker->deadline_count > 0)
        worker->set_alarm(worker->ring_context, worker->deadlines[0]->deadline_us);
}

static void deadline_add(struct worker *worker, struct waiter *waiter)
{
    waiter->deadline_at = -1;
    if (waiter->deadline_us == 0)
        return;
    if (worker->deadline_count == worker->deadline_capacity) {
        worker->deadline_capacity = worker->deadline_capacity > 0 ? worker->deadline_capacity * 2 : 16;
        worker->deadlines = mem_realloc(worker->deadlines, (size_t)worker->deadline_capacity * sizeof(*worker->deadlines));
    }
    heap_up(worker, worker->deadline_count++, waiter);
    if (waiter->deadline_at == 0)
        set_alarm(worker);
}

void blocking_alarm(struct worker *worker)
{
    struct blocking *blocking = worker->engine->blocking;
    int64_t now_us = clock_mono_us();

    while (worker->deadline_count > 0 && worker->deadlines[0]->deadline_us <= now_us) {
        struct waiter *waiter = worker->deadlines[0];
        bool was_served;

        deadline_remove(worker, waiter);
        pthread_mutex_lock(&blocking->serving);
        was_served = waiter->is_done;           /* just before: the message is on its way */
        if (!was_served)
            finish(blocking, waiter, BLOCKING_TIMED_OUT);
        pthread_mutex_unlock(&blocking->serving);
        if (was_served)
            continue;
        waiter->has_come_home = true;
        worker->resume(waiter->client);
    }
    set_alarm(worker);
}

/* Beginning to wait. */

void blocking_register(struct call *call, struct worker *worker)
{
    struct blocking *blocking = call->engine->blocking;
    const struct call_wait *wait = call->wait;
    struct client *client = call->client;
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
        .end = wait->end,
        .even_without = wait->even_without,
        .deadline_us = wait->deadline_us,
        .command = call->command,
        .args = copy_args(wait->args, wait->arg_count),
        .arg_count = wait->arg_count,
        .places = mem_alloc((size_t)wait->key_count * sizeof(struct place)),
        .client = client,
    };
    client->waiter = waiter;
    deadline_add(worker, waiter);
    for (int i = 0; i < wait->key_count; i++) {
        struct bytes key = call->args[wait->key_first + i];

        stand_in_queue(blocking, waiter, &waiter->places[waiter->place_count], hash_bytes(&call->partitions->seed, key), key);
    }
    blocking->waiting_count++;
    registry_add(blocking, waiter);         /* now others may find it there; in its queues they do when the locks are given back */
}

/* What has changed. */

static struct noted_key *note(struct worker *worker, int db, uint64_t hash, struct bytes key)
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

/* The partition is locked: until the note is served, others keep off. */
static void promise(struct blocking *blocking, struct noted_key *noted)
{
    if (noted->is_promised)
        return;
    noted->is_promised = true;
    blocking->tables[partition_of(blocking, noted->hash)->index].promises++;
    blocking->engine->promise_count++;
}

static void end_promise(struct blocking *blocking, struct noted_key *noted)
{
    if (!noted->is_promised)
        return;
    noted->is_promised = false;
    blocking->tables[partition_of(blocking, noted->hash)->index].promises--;
    blocking->engine->promise_count--;
}

bool blocking_is_promised(const struct engine *engine, uint32_t partition)
{
    return engine->blocking->tables[partition].promises > 0;
}

void blocking_let_serve(struct engine *engine)
{
    /* Who has promised is about to take the lock, or has it. */
    pthread_mutex_lock(&engine->blocking->serving);
    pthread_mutex_unlock(&engine->blocking->serving);
    sched_yield();
}

/* What is done to a stream's groups and to its old entries, and its time of expiry, brings a reader nothing. His command is not even tried: it
 * would make a consumer again that was just deleted. The end of a group is another matter. */
static bool is_no_news(const struct key *key, const char *event)
{
    if (!key->present || key->value.type != VALUE_STREAM)
        return false;
    if (event[0] == 'x')
        return strcmp(event, "xadd") != 0 && strcmp(event, "xgroup-destroy") != 0;
    return strcmp(event, "expire") == 0 || strcmp(event, "persist") == 0;
}

void blocking_note(struct engine *engine, const struct key *key, const char *event)
{
    struct blocking *blocking = engine->blocking;
    const struct keyspace *keyspace = key->keyspace;

    if (__builtin_expect(atomic_load_explicit(&blocking->key_count, memory_order_relaxed) == 0, 1))
        return;
    if (waited_find(&blocking->tables[keyspace->partition->index], keyspace->db, key->hash, key->name) == NULL || is_no_news(key, event))
        return;
    promise(blocking, note(key->call->client->worker, keyspace->db, key->hash, key->name));
}

void blocking_note_removed(struct engine *engine, const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct blocking *blocking = engine->blocking;
    const struct waited *waited;
    struct noted_key *noted;

    if (blocking == NULL || blocking->even_without_count == 0)
        return;
    waited = waited_find(&blocking->tables[keyspace->partition->index], keyspace->db, hash, key);
    if (waited == NULL || waited->even_without == 0)
        return;
    noted = mem_alloc(sizeof(*noted) + key.size);
    *noted = (struct noted_key){ .hash = hash, .db = keyspace->db, .size = key.size };
    memcpy(noted->key, key.data, key.size);
    pthread_mutex_lock(&blocking->registry);
    noted->next = blocking->removed;
    blocking->removed = noted;
    pthread_mutex_unlock(&blocking->registry);
    blocking->any_stalled = true;
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
                    promise(blocking, note(call->client->worker, db, waited->hash, waited->key));
            }
        }
    }
}

void blocking_drop_notes(struct worker *worker)
{
    while (worker->noted_first != NULL) {
        struct noted_key *noted = worker->noted_first;

        worker->noted_first = noted->next;
        mem_free(noted);
    }
    worker->noted_last = NULL;
}

/* Serving. All with `serving` held. */

enum presence { ABSENT, PRESENT, UNREADABLE };

/* Whether the key, which is brought into RAM if need be, is there, and the type of its value. */
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

/* Where one goes on in a queue. */
struct turn_in_queue {
    bool begun;
    struct place *next;
};

/* A key that can't be read serves everybody, with an error: that is what who asks for it anew is told. */
static bool may_be_served(const struct waiter *waiter, enum presence presence, uint8_t type)
{
    return presence == UNREADABLE || waiter->even_without || (presence == PRESENT && waiter->type == type);
}

/* The next waiter whom the key, as it is now, may serve; NULL if there is none, and then the promise is kept. */
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

        if (presence == ABSENT && waited->even_without == 0)
            turn->next = NULL;          /* a long queue is not walked for nothing */
        for (; turn->next != NULL && found == NULL; turn->next = turn->next->next) {
            if (may_be_served(turn->next->waiter, presence, type))
                found = turn->next->waiter;
        }
    }
    if (found == NULL)
        end_promise(blocking, noted);
    partition_unlock(partition);
    return found;
}

/* On the waiter's worker. */
static void come_home(struct message *message, struct worker *worker)
{
    struct waiter *waiter = (struct waiter *)message;

    if (waiter->client == NULL) {
        waiter_free(waiter);
        return;
    }
    waiter->has_come_home = true;
    worker->resume(waiter->client);
}

/* `worker` is the one we are on: its own clients get theirs at the end of the turn, without a bell. */
static void send_home(struct worker *worker, struct waiter *waiter)
{
    waiter->message = (struct message){ .run = come_home };
    if (waiter->worker != worker) {
        worker_post(waiter->worker, &waiter->message);
        return;
    }
    if (worker->home_last != NULL)
        worker->home_last->next = &waiter->message;
    else
        worker->home_first = &waiter->message;
    worker->home_last = &waiter->message;
}

void blocking_bring_home(struct worker *worker)
{
    while (worker->home_first != NULL) {
        struct message *message = worker->home_first;

        worker->home_first = message->next;
        if (worker->home_first == NULL)
            worker->home_last = NULL;
        message->run(message, worker);
    }
}

enum service { SERVED, NOT_SERVED, HELD_BACK };

/* Runs the waiter's command. */
static enum service serve(struct blocking *blocking, struct worker *worker, struct waiter *waiter)
{
    struct client proxy = {
        .id = waiter->client_id,
        .worker = worker,
        .flags = waiter->flags | CLIENT_PROXY,
        .db = waiter->db,
        .authenticated = true,
        .address = waiter->address,
        .fd = -1,
    };

    reply_init(&proxy.reply, waiter->protocol);
    if (engine_run(worker, &proxy, waiter->args, waiter->arg_count) == RUN_PARKED) {
        reply_release(&proxy.reply);
        return proxy.flags & CLIENT_HELD_BACK ? HELD_BACK : NOT_SERVED;
    }
    waiter->reply = proxy.reply.out;
    waiter->lsn = proxy.lsn_needed;
    waiter->lsn_written = proxy.lsn_written;
    finish(blocking, waiter, BLOCKING_SERVED);
    send_home(worker, waiter);
    return SERVED;
}

/* False if writes are held back: then it is to be tried again, and whoever only reads need not wait for that. */
static bool serve_key(struct blocking *blocking, struct worker *worker, struct noted_key *noted)
{
    struct partition *partition = partition_of(blocking, noted->hash);
    struct turn_in_queue turn = { 0 };
    struct waiter *waiter;

    while ((waiter = next_waiter(blocking, noted, &turn)) != NULL) {
        if (serve(blocking, worker, waiter) != HELD_BACK)
            continue;
        partition_lock(partition);
        end_promise(blocking, noted);
        partition_unlock(partition);
        return false;
    }
    return true;
}

static void serve_noted(struct blocking *blocking, struct worker *worker)
{
    while (worker->noted_first != NULL) {
        struct noted_key *noted = worker->noted_first;

        worker->noted_first = noted->next;
        if (worker->noted_first == NULL)
            worker->noted_last = NULL;
        if (serve_key(blocking, worker, noted)) {
            mem_free(noted);
        } else {
            noted->next = blocking->stalled;
            blocking->stalled = noted;
            blocking->any_stalled = true;
        }
    }
}

void blocking_serve(struct worker *worker)
{
    struct blocking *blocking = worker->engine->blocking;

    pthread_mutex_lock(&blocking->serving);
    serve_noted(blocking, worker);
    pthread_mutex_unlock(&blocking->serving);
}

static void renote(struct worker *worker, struct noted_key **list)
{
    while (*list != NULL) {
        struct noted_key *noted = *list;

        *list = noted->next;
        note(worker, noted->db, noted->hash, bytes_of(noted->key, noted->size));
        mem_free(noted);
    }
}

void blocking_retry(struct worker *worker)
{
    struct blocking *blocking = worker->engine->blocking;
    struct noted_key *removed;

    if (blocking == NULL || !blocking->any_stalled || worker->engine->frozen)
        return;
    pthread_mutex_lock(&blocking->serving);
    blocking->any_stalled = false;
    renote(worker, &blocking->stalled);
    pthread_mutex_lock(&blocking->registry);
    removed = blocking->removed;
    blocking->removed = NULL;
    pthread_mutex_unlock(&blocking->registry);
    renote(worker, &removed);
    serve_noted(blocking, worker);
    pthread_mutex_unlock(&blocking->serving);
}

/* The end of waiting. */

bool blocking_is_over(const struct waiter *waiter)
{
    return waiter->has_come_home;
}

static const char unblocked_error[] = "UNBLOCKED client unblocked via CLIENT UNBLOCK";

static void note_end(struct worker *worker, struct waiter *waiter)
{
    struct command_stats *stats = command_stats_of(waiter->engine->commands, waiter->command);

    if (waiter->how == BLOCKING_SERVED)
        return;                         /* the proxy's call was counted */
    atomic_fetch_add_explicit(&stats->calls, 1, memory_order_relaxed);
    if (waiter->how != BLOCKING_UNBLOCKED)
        return;
    atomic_fetch_add_explicit(&stats->failed, 1, memory_order_relaxed);
    turn_count(&worker->turn, STAT_ERROR_REPLIES, 1);
    error_stats_note(waiter->engine->errors, bytes_of_string(unblocked_error));
}

void blocking_take_reply(struct worker *worker, struct client *client)
{
    struct waiter *waiter = client->waiter;

    CHECK(waiter->has_come_home);
    switch (waiter->how) {
    case BLOCKING_SERVED:
        buffer_append_bytes(&client->reply.out, buffer_bytes(&waiter->reply));
        if (waiter->lsn > client->lsn_needed)
            client->lsn_needed = waiter->lsn;
        if (waiter->lsn_written > client->lsn_written)
            client->lsn_written = waiter->lsn_written;
        if (waiter->lsn > worker->turn.lsn_seen)
            worker->turn.lsn_seen = waiter->lsn;
        break;
    case BLOCKING_TIMED_OUT: reply_wait_end(&client->reply, waiter->end); break;
    case BLOCKING_UNBLOCKED: reply_error_text(&client->reply, bytes_of_string(unblocked_error)); break;
    }
    note_end(worker, waiter);
    client->waiter = NULL;
    deadline_remove(worker, waiter);
    waiter_free(waiter);
}

void blocking_forget(struct client *client)
{
    struct waiter *waiter = client->waiter;
    struct blocking *blocking = waiter->engine->blocking;

    client->waiter = NULL;
    waiter->client = NULL;
    deadline_remove(waiter->worker, waiter);
    pthread_mutex_lock(&blocking->serving);
    if (!waiter->is_done) {
        finish(blocking, waiter, BLOCKING_TIMED_OUT);
        waiter->has_come_home = true;
    }
    pthread_mutex_unlock(&blocking->serving);
    if (waiter->has_come_home)
        waiter_free(waiter);            /* else the message is on its way, and frees it */
}

bool blocking_unblock(struct worker *worker, uint64_t client_id, enum blocking_end how)
{
    struct blocking *blocking = worker->engine->blocking;
    struct waiter *waiter;

    /* A waiter is freed by its worker, after it was done with under `serving`: one that is not done stays as long as that is held. */
    pthread_mutex_lock(&blocking->serving);
    pthread_mutex_lock(&blocking->registry);
    for (waiter = blocking->waiters; waiter != NULL; waiter = waiter->next) {
        if (waiter->client_id == client_id && !waiter->is_done)
            break;
    }
    pthread_mutex_unlock(&blocking->registry);
    if (waiter != NULL) {
        finish(blocking, waiter, how);
        send_home(worker, waiter);
    }
    pthread_mutex_unlock(&blocking->serving);
    return waiter != NULL;
}

struct blocking_figures blocking_figures(const struct engine *engine)
{
    const struct blocking *blocking = engine->blocking;

    return (struct blocking_figures){ .waiters = blocking->waiting_count, .keys = blocking->key_count,
        .keys_even_without = blocking->even_without_count, .with_deadline = blocking->with_deadline };
}

struct blocking *blocking_create(struct engine *engine)
{
    struct blocking *blocking = mem_zalloc(sizeof(*blocking));

    blocking->engine = engine;
    pthread_mutex_init(&blocking->serving, NULL);
    pthread_mutex_init(&blocking->registry, NULL);
    blocking->tables = mem_zalloc(engine->partitions->count * sizeof(*blocking->tables));
    return blocking;
}

static void free_noted(struct noted_key *noted)
{
    while (noted != NULL) {
        struct noted_key *next = noted->next;

        mem_free(noted);
        noted = next;
    }
}

/* What is left are answers that nobody was there to take any more. */
void blocking_destroy(struct blocking *blocking)
{
    if (blocking == NULL)
        return;
    while (blocking->waiters != NULL) {
        CHECK(blocking->waiters->is_done);
        waiter_free(blocking->waiters);
    }
    free_noted(blocking->stalled);
    free_noted(blocking->removed);
    mem_free(blocking->tables);
    pthread_mutex_destroy(&blocking->serving);
    pthread_mutex_destroy(&blocking->registry);
    mem_free(blocking);
}
