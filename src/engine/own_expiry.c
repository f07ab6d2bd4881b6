#include "engine/own_expiry.h"

#include "base/mem.h"
#include "base/mutex.h"
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

/* A heap: the key that is due first is at 0. */
struct own_expiry {
    struct mutex lock;          /* leaf */
    struct own_key **keys;      /* lock */
    size_t count, capacity;     /* lock */
};

struct own_expiry *own_expiry_create(void)
{
    struct own_expiry *own = mem_zalloc(sizeof(*own));

    mutex_init(&own->lock);
    return own;
}

static void forget_all(struct own_expiry *own)
{
    mutex_lock(&own->lock);
    for (size_t i = 0; i < own->count; i++)
        mem_free(own->keys[i]);
    mem_free(own->keys);
    own->keys = NULL;
    own->count = own->capacity = 0;
    mutex_unlock(&own->lock);
}

void own_expiry_destroy(struct own_expiry *own)
{
    if (own == NULL)
        return;
    forget_all(own);
    mutex_release(&own->lock);
    mem_free(own);
}

static void sift_up(struct own_key **keys, size_t at)
{
    struct own_key *key = keys[at];

    while (at > 0 && keys[(at - 1) / 2]->due_ms > key->due_ms) {
        keys[at] = keys[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    keys[at] = key;
}

static void sift_down(struct own_key **keys, size_t count, size_t at)
{
    struct own_key *key = keys[at];

    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && keys[child + 1]->due_ms < keys[child]->due_ms)
            child++;
        if (keys[child]->due_ms >= key->due_ms)
            break;
        keys[at] = keys[child];
    }
    keys[at] = key;
}

static void push(struct own_expiry *own, struct own_key *key)
{
    mutex_lock(&own->lock);
    if (own->count == OWN_EXPIRY_KEYS) {
        mem_free(key);
    } else {
        if (own->count == own->capacity) {
            own->capacity = own->capacity * 2 + 16;
            own->keys = mem_realloc(own->keys, own->capacity * sizeof(*own->keys));
        }
        own->keys[own->count++] = key;
        sift_up(own->keys, own->count - 1);
    }
    mutex_unlock(&own->lock);
}

/* The first key, if it is due; NULL: none is. */
static struct own_key *pop_due(struct own_expiry *own, int64_t now_ms)
{
    struct own_key *key = NULL;

    mutex_lock(&own->lock);
    if (own->count > 0 && own->keys[0]->due_ms <= now_ms) {
        key = own->keys[0];
        own->keys[0] = own->keys[--own->count];
        if (own->count > 0)
            sift_down(own->keys, own->count, 0);
    }
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
    push(call->engine->own_expiry, key);
}

void own_expiry_note(const struct call *call)
{
    if (call->engine->own_expiry == NULL)
        return;
    for (int i = 0; i < call->key_count; i++) {
        if (!(call->keys[i].flags & KEY_NOT_KEY) && (call->keys[i].flags & (KEY_RO | KEY_CHANGED)) != KEY_RO)
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
        turn_count(&worker->turn, STAT_EXPIRED_FIELDS, expiry_remove_fields(engine, keyspace, hash, handle, now_ms));
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
        struct own_key *key = pop_due(own, now_ms);
        int64_t again_ms;

        if (key == NULL)
            return;
        again_ms = look_at(worker, key, now_ms);
        key->due_ms = again_ms;
        if (again_ms >= 0)
            push(own, key);
        else
            mem_free(key);
    }
}
