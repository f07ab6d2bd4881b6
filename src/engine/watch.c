#include "engine/watch.h"

#include "base/clock.h"
#include "base/mem.h"
#include "engine/event.h"
#include "engine/transaction.h"
#include "keyspace/entry.h"
#include "value/hash.h"

struct watch {
    struct watch *of_client;        /* next of the client. Its worker */
    struct watch *prev, *next;      /* in the partition's list. Its lock */
    struct transaction *transaction;
    struct partition *partition;    /* immutable, as all that follows */
    struct watch_table *table;
    uint64_t hash;
    int db;
    bool present;
    int64_t expire_ms, field_ms;    /* of the key, and of the first field of its hash to expire; -1: never */
    size_t size;
    char key[];
};

struct watch_table {
    struct engine *engine;
    _Atomic uint64_t watch_count;
    uint32_t partition_count;
    struct watch *lists[];          /* by partition, under its lock */
};

struct watch_table *watch_table_create(struct engine *engine)
{
    uint32_t partition_count = engine->partitions->count;
    struct watch_table *table = mem_zalloc(sizeof(*table) + partition_count * sizeof(struct watch *));

    table->engine = engine;
    table->partition_count = partition_count;
    return table;
}

void watch_table_destroy(struct watch_table *table)
{
    mem_free(table);
}

static struct bytes key_of(const struct watch *watch)
{
    return bytes_of(watch->key, watch->size);
}

static bool is_watched_by(const struct transaction *transaction, int db, uint64_t hash, struct bytes key)
{
    for (const struct watch *watch = transaction->watches; watch != NULL; watch = watch->of_client) {
        if (watch->hash == hash && watch->db == db && bytes_equal(key_of(watch), key))
            return true;
    }
    return false;
}

/* Fields that have expired already are as good as gone. */
static void note_times(struct watch *watch, const struct key *key)
{
    int64_t now_ms = key->call->turn->now_ms;

    watch->present = key->present;
    watch->expire_ms = watch->field_ms = -1;
    if (!key->present)
        return;
    watch->expire_ms = key->expire_ms;
    if (key->value.type != VALUE_HASH)
        return;
    watch->field_ms = hash_next_expiry(&key->value);
    if (watch->field_ms >= 0 && watch->field_ms <= now_ms)      /* the executor has loaded what this needs */
        watch->field_ms = hash_next_expiry_after(&key->value, now_ms);
}

static void link_watch(struct watch *watch, struct watch **list)
{
    watch->next = *list;
    if (*list != NULL)
        (*list)->prev = watch;
    *list = watch;
}

void watch_add(struct call *call, struct transaction *transaction, const struct key *key)
{
    struct watch_table *table = call->engine->watches;
    struct partition *partition = key->keyspace->partition;
    struct watch *watch;

    if (is_watched_by(transaction, call->db, key->hash, key->name))
        return;
    watch = mem_alloc(sizeof(*watch) + key->name.size);
    *watch = (struct watch){ .of_client = transaction->watches, .transaction = transaction, .partition = partition, .table = table,
        .hash = key->hash, .db = call->db, .size = key->name.size };
    memcpy(watch->key, key->name.data, key->name.size);
    note_times(watch, key);
    transaction->watches = watch;
    transaction->watch_count++;
    transaction->watch_size += sizeof(*watch) + watch->size;
    table->watch_count++;
    link_watch(watch, &table->lists[partition->index]);
    interest_count(&call->engine->interest, 1);
}

static void unlink_watch(struct watch *watch)
{
    partition_lock(watch->partition);
    *(watch->prev != NULL ? &watch->prev->next : &watch->table->lists[watch->partition->index]) = watch->next;
    if (watch->next != NULL)
        watch->next->prev = watch->prev;
    interest_count(&watch->table->engine->interest, -1);
    partition_unlock(watch->partition);
}

void watch_end(struct client *client)
{
    struct transaction *transaction = client->transaction;

    if (transaction == NULL)
        return;
    while (transaction->watches != NULL) {
        struct watch *watch = transaction->watches;

        transaction->watches = watch->of_client;
        unlink_watch(watch);
        watch->table->watch_count--;
        mem_free(watch);
    }
    transaction->watch_count = 0;
    transaction->watch_size = 0;
    transaction->is_broken = false;
}

void watch_touch(struct engine *engine, const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct watch_table *table = engine->watches;

    if (table == NULL)
        return;
    for (struct watch *watch = table->lists[keyspace->partition->index]; watch != NULL; watch = watch->next) {
        if (watch->hash == hash && watch->db == keyspace->db && bytes_equal(key_of(watch), key))
            watch->transaction->is_broken = true;
    }
}

void watch_touch_database(struct engine *engine, int db)
{
    struct watch_table *table = engine->watches;

    if (table == NULL || table->watch_count == 0)
        return;
    for (uint32_t i = 0; i < table->partition_count; i++) {
        for (struct watch *watch = table->lists[i]; watch != NULL; watch = watch->next) {
            if (watch->db == db && watch->present)
                watch->transaction->is_broken = true;
        }
    }
}

void watch_touch_all(struct engine *engine)
{
    struct watch_table *table = engine->watches;

    if (table == NULL || table->watch_count == 0)
        return;
    for (uint32_t i = 0; i < table->partition_count; i++) {
        for (struct watch *watch = table->lists[i]; watch != NULL; watch = watch->next)
            watch->transaction->is_broken = true;
    }
}

static bool has_come(int64_t at_ms, int64_t now_ms)
{
    return at_ms >= 0 && at_ms <= now_ms;
}

/* Returns whether a watched key may exist. An expired one does not. The record map knows only that a key may exist: that counts as if it did. */
static bool may_exist(struct engine *engine, const struct watch *watch, int db)
{
    struct keyspace *keyspace;
    uint32_t handle;

    partition_assert_locked(watch->partition);
    keyspace = partition_keyspace_if(watch->partition, db);
    if (keyspace == NULL)
        return false;
    handle = keyspace_find(keyspace, watch->hash, key_of(watch));
    if (handle != 0)
        return !has_come(entry_death_ms(keyspace_entry(keyspace, handle)), clock_wall_ms());
    return engine->tier != NULL && tier_may_be_cold(engine->tier, keyspace, watch->hash, key_of(watch));
}

void watch_touch_swapped(struct engine *engine, int a, int b)
{
    struct watch_table *table = engine->watches;

    if (table == NULL || table->watch_count == 0)
        return;
    for (uint32_t i = 0; i < table->partition_count; i++) {
        for (struct watch *watch = table->lists[i]; watch != NULL; watch = watch->next) {
            if ((watch->db == a || watch->db == b) && (watch->present || may_exist(engine, watch, watch->db == a ? b : a)))
                watch->transaction->is_broken = true;
        }
    }
}

bool watch_is_broken(const struct client *client, int64_t now_ms)
{
    const struct transaction *transaction = client->transaction;

    if (transaction->is_broken)
        return true;
    for (const struct watch *watch = transaction->watches; watch != NULL; watch = watch->of_client) {
        if (has_come(watch->expire_ms, now_ms) || has_come(watch->field_ms, now_ms))
            return true;
    }
    return false;
}

void watch_add_partitions(const struct client *client, struct partition_bits *bits)
{
    if (client->transaction == NULL)
        return;
    for (const struct watch *watch = client->transaction->watches; watch != NULL; watch = watch->of_client)
        partition_bits_add(bits, watch->partition->index);
}
