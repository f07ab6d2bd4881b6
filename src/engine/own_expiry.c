#include "engine/own_expiry.h"

#include "base/mem.h"
#include "base/mutex.h"
#include "containers/idmap.h"
#include "engine/delete_key.h"
#include "engine/expiry.h"

enum { DUE_A_TICK = 1000, RETRY_MS = 100 };

struct own_key {
    int64_t due_ms;
    int db;
    uint64_t hash;
    size_t size;
    char name[];
};

/* Each key is in both maps, once, however often it is written: there are keys whose time is extended all the time. */
struct own_expiry {
    struct mutex lock;          /* leaf */
    struct idmap by_key;        /* lock; struct own_key * by hash and database */
    struct idmap by_time;       /* lock; the same by the time, then the hash */
};

struct own_expiry *own_expiry_create(void)
{
    struct own_expiry *own = mem_zalloc(sizeof(*own));

    mutex_init(&own->lock);
    idmap_init(&own->by_key, sizeof(struct own_key *));
    idmap_init(&own->by_time, sizeof(struct own_key *));
    return own;
}

static struct stream_id id_of(const struct own_key *key)
{
    return (struct stream_id){ key->hash, (uint64_t)key->db };
}

static struct own_key *find_key(const struct idmap *map, struct stream_id id)
{
    struct own_key **key = idmap_find(map, id);

    return key != NULL ? *key : NULL;
}

/* Two keys may have one time and one hash: then the later one is looked at a moment later. */
static void add_time(struct own_expiry *own, struct own_key *key)
{
    bool is_new = false;
    struct own_key **place;

    while (find_key(&own->by_time, (struct stream_id){ (uint64_t)key->due_ms, key->hash }) != NULL)
        key->due_ms++;
    place = idmap_put(&own->by_time, (struct stream_id){ (uint64_t)key->due_ms, key->hash }, &is_new);
    *place = key;
}

static void remove_key(struct own_expiry *own, struct own_key *key)
{
    idmap_remove(&own->by_time, (struct stream_id){ (uint64_t)key->due_ms, key->hash });
    idmap_remove(&own->by_key, id_of(key));
}

static struct own_key *first_key(const struct own_expiry *own)
{
    struct idmap_place place;

    return idmap_first(&own->by_time, &place) ? *(struct own_key **)idmap_value(&own->by_time, place) : NULL;
}

static void forget_all(struct own_expiry *own)
{
    struct own_key *key;

    mutex_lock(&own->lock);
    while ((key = first_key(own)) != NULL) {
        remove_key(own, key);
        mem_free(key);
    }
    mutex_unlock(&own->lock);
}

void own_expiry_destroy(struct own_expiry *own)
{
    if (own == NULL)
        return;
    forget_all(own);
    idmap_release(&own->by_key);
    idmap_release(&own->by_time);
    mutex_release(&own->lock);
    mem_free(own);
}

uint64_t own_expiry_count(struct own_expiry *own)
{
    uint64_t count;

    mutex_lock(&own->lock);
    count = own->by_key.count;
    mutex_unlock(&own->lock);
    return count;
}

/* Takes over the key. A time that is later than the one that is noted is found when that has come. */
static void add_key(struct own_expiry *own, struct own_key *key)
{
    struct own_key *noted;

    mutex_lock(&own->lock);
    noted = find_key(&own->by_key, id_of(key));
    if (noted != NULL ? noted->due_ms <= key->due_ms : own->by_key.count == OWN_EXPIRY_KEYS) {
        mem_free(key);
    } else {
        bool is_new = false;
        struct own_key **place;

        if (noted != NULL) {
            remove_key(own, noted);
            mem_free(noted);
        }
        place = idmap_put(&own->by_key, id_of(key), &is_new);
        *place = key;
        add_time(own, key);
    }
    mutex_unlock(&own->lock);
}

/* The first key, if it is due; NULL: none is. */
static struct own_key *take_due(struct own_expiry *own, int64_t now_ms)
{
    struct own_key *key;

    mutex_lock(&own->lock);
    key = first_key(own);
    if (key != NULL && key->due_ms <= now_ms)
        remove_key(own, key);
    else
        key = NULL;
    mutex_unlock(&own->lock);
    return key;
}

static void note_key(const struct call *call, const struct call_key *found)
{
    struct partition *partition = &call->partitions->partitions[partition_index(call->partitions, found->hash)];
    struct bytes name = call->args[found->arg];
    struct keyspace *keyspace;
    struct own_key *key;
    uint32_t handle = 0;

    ASSERT_LOCKED(partition);
    keyspace = partition_keyspace_if(partition, call->db);
    if (keyspace != NULL)
        handle = keyspace_find(keyspace, found->hash, name);
    if (handle == 0 || entry_due_ms(keyspace_entry(keyspace, handle)) < 0)
        return;
    key = mem_alloc(sizeof(*key) + name.size);
    *key = (struct own_key){ .due_ms = entry_due_ms(keyspace_entry(keyspace, handle)), .db = call->db, .hash = found->hash, .size = name.size };
    memcpy(key->name, name.data, name.size);
    add_key(call->engine->own_expiry, key);
}

void own_expiry_note(const struct call *call)
{
    if (call->engine->own_expiry == NULL)
        return;
    for (int i = 0; i < call->key_count; i++) {
        if (!(call->keys[i].flags & KEY_NOT_KEY) && !call_key_is_read(&call->keys[i]))
            note_key(call, &call->keys[i]);
    }
}

/* Removes what is due of a key. Returns when the key is to be looked at again; -1: never. */
static int64_t expire(struct worker *worker, struct keyspace *keyspace, uint64_t hash, struct bytes name, int64_t now_ms)
{
    struct engine *engine = worker->engine;
    uint32_t handle = keyspace_find(keyspace, hash, name);
    const struct entry *entry = handle != 0 ? keyspace_entry(keyspace, handle) : NULL;

    ASSERT_LOCKED(keyspace->partition);
    if (entry == NULL || entry_due_ms(entry) < 0 || entry_due_ms(entry) > now_ms)
        return entry != NULL ? entry_due_ms(entry) : -1;
    if (entry_is_held(keyspace, entry))
        return now_ms + RETRY_MS;
    if (entry_expire_ms(entry) < 0 || entry_expire_ms(entry) > now_ms) {
        size_t ready = expiry_ready(worker, keyspace, handle);

        if (ready == 0)
            return now_ms + RETRY_MS;
        turn_count(&worker->turn, STAT_EXPIRED_FIELDS, expiry_remove_fields(engine, &worker->turn, keyspace, hash, handle, ready));
        return now_ms;              /* there may be more */
    }
    delete_key(engine, keyspace, hash, handle, EVENT_EXPIRED);
    turn_count(&worker->turn, STAT_EXPIRED_KEYS, 1);
    return -1;
}

static int64_t look_at(struct worker *worker, const struct own_key *key, int64_t now_ms)
{
    struct partitions *all = worker->engine->partitions;
    struct partition *partition = &all->partitions[partition_index(all, key->hash)];
    struct keyspace *keyspace;
    int64_t again_ms = -1;

    partition_lock(partition);
    keyspace = partition_keyspace_if(partition, key->db);
    if (partition->owner != NULL)
        again_ms = now_ms + RETRY_MS;
    else if (keyspace != NULL)
        again_ms = expire(worker, keyspace, key->hash, bytes_of(key->name, key->size), now_ms);
    partition_unlock(partition);
    return again_ms;
}

void own_expiry_tick(struct worker *worker)
{
    struct engine *engine = worker->engine;
    struct own_expiry *own = engine->own_expiry;
    int64_t now_ms = worker->turn.now_ms;

    if (own == NULL)
        return;
    if (!role_is_replica(engine)) {
        forget_all(own);            /* they expire like all others now */
        return;
    }
    if (!engine->debug.active_expire || expiry_is_suspended(engine) || engine_is_paused(engine))
        return;
    for (int i = 0; i < DUE_A_TICK; i++) {
        struct own_key *key = take_due(own, now_ms);
        int64_t again_ms;

        if (key == NULL)
            return;
        again_ms = look_at(worker, key, now_ms);
        key->due_ms = again_ms;
        if (again_ms >= 0)
            add_key(own, key);
        else
            mem_free(key);
    }
}
