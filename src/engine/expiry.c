#include "engine/expiry.h"

#include "base/clock.h"
#include "engine/delete_key.h"
#include "engine/event.h"
#include "engine/worker.h"
#include "tier/tier.h"

enum {
    BUCKETS_A_STEP = 512,
    STEPS_FREE = 32,                /* the number that any tick does: where few keys expire, each tick looks at all of them */
    TICK_BUDGET_US = 2000,          /* per tick, times active-expire-effort; the next tick continues */
};

/* The words of an HDEL. */
struct dead_fields {
    struct buffer text;
    size_t sizes[EXPIRY_FIELDS_A_STEP];
    size_t count;
};

static void collect_dead_field(void *context, struct bytes field)
{
    struct dead_fields *dead = context;

    buffer_append_bytes(&dead->text, field);
    dead->sizes[dead->count++] = field.size;
}

static void log_dead_fields(struct engine *engine, struct keyspace *keyspace, struct bytes key, const struct dead_fields *dead)
{
    struct bytes words[2 + EXPIRY_FIELDS_A_STEP] = { BYTES("HDEL"), key };
    size_t at = 0;

    for (size_t i = 0; i < dead->count; i++) {
        words[2 + i] = bytes_of(dead->text.data + at, dead->sizes[i]);
        at += dead->sizes[i];
    }
    if (engine->aof != NULL)
        keyspace->partition->last_lsn = aof_append(engine->aof, keyspace->db, words, 2 + (int)dead->count);
}

size_t expiry_remove_fields(struct engine *engine, struct keyspace *keyspace, uint64_t hash, uint32_t handle, int64_t now_ms)
{
    struct entry *entry = keyspace_entry(keyspace, handle);
    struct dead_fields dead = { .count = 0 };
    struct value value;
    size_t count;

    value = entry_value(entry);
    if (entry_death_ms(entry) <= now_ms && entry_death_ms(entry) >= 0) {
        count = hash_count(&value);
        delete_key(engine, keyspace, hash, handle, EVENT_HEXPIRED);
        return count;
    }
    keyspace_assert_locked(keyspace);
    partition_changing(keyspace, hash, handle);
    count = hash_remove_expired(&value, now_ms, EXPIRY_FIELDS_A_STEP, collect_dead_field, &dead);
    log_dead_fields(engine, keyspace, entry_key(entry), &dead);
    keyspace_mark_dirty(keyspace, entry);
    handle = keyspace_set_value(keyspace, hash, handle, &value);
    keyspace_note_times(keyspace, hash, handle, now_ms);
    event_note(engine, NULL, keyspace, hash, entry_key(keyspace_entry(keyspace, handle)), EVENT_HEXPIRED);
    buffer_release(&dead.text);
    atomic_fetch_add_explicit(&engine->dirty, count, memory_order_relaxed);
    return count;
}

struct expiry {
    struct engine *engine;
    int64_t now_ms;
    uint64_t count, field_count;
};

static void expire_entry(void *context, struct keyspace *keyspace, uint64_t hash, uint32_t handle)
{
    struct expiry *expiry = context;

    if (entry_is_held(keyspace, keyspace_entry(keyspace, handle)))
        return;                 /* the next round gets it */
    if (entry_has_times(keyspace_entry(keyspace, handle))) {
        int64_t expire_ms = entry_expire_ms(keyspace_entry(keyspace, handle));

        if (expire_ms < 0 || expire_ms > expiry->now_ms) {
            expiry->field_count += expiry_remove_fields(expiry->engine, keyspace, hash, handle, expiry->now_ms);
            return;
        }
    }
    delete_key(expiry->engine, keyspace, hash, handle, EVENT_EXPIRED);
    expiry->count++;
}

/* Looks at each bucket about once a second, within a budget of time per tick; at all of them in each tick if they are few. */
static void expire_keys(struct worker *worker)
{
    struct engine *engine = worker->engine;
    struct partitions *all = engine->partitions;
    struct expiry expiry = { engine, worker->turn.now_ms, 0, 0 };
    int64_t began_us = clock_mono_us();
    int64_t effort = config_number(engine->config, CONFIG_ACTIVE_EXPIRE_EFFORT);
    int hz = (int)config_number(engine->config, CONFIG_HZ);
    uint32_t share = all->count / (uint32_t)(hz > 0 ? hz : 10) + 1, steps = 0;

    for (uint32_t i = 0; i < share || i < all->count / 10 || (i < all->count && steps < STEPS_FREE); i++) {
        struct partition *partition = &all->partitions[worker->expire_next];
        bool done = true;

        for (int db = 0; db < all->db_count; db++) {
            struct keyspace *keyspace;
            bool round = true;

            partition_lock(partition);
            keyspace = partition_keyspace_if(partition, db);
            if (keyspace != NULL && partition->owner == NULL && (keyspace->expiring_count > 0 || keyspace->may_have_times)) {
                keyspace_assert_locked(keyspace);
                steps++;
                round = keyspace_expire_step(keyspace, worker->turn.now_ms, BUCKETS_A_STEP, expire_entry, &expiry);
            }
            partition_unlock(partition);
            done = done && round;
        }
        if (done)
            worker->expire_next = (worker->expire_next + 1) % all->count;
        if (clock_mono_us() - began_us > TICK_BUDGET_US * effort) {
            turn_count(&worker->turn, STAT_EXPIRE_CUT, 1);
            break;
        }
    }
    turn_count(&worker->turn, STAT_EXPIRE_US, (uint64_t)(clock_mono_us() - began_us));
    if (expiry.count > 0)
        turn_count(&worker->turn, STAT_EXPIRED_KEYS, expiry.count);
    if (expiry.field_count > 0)
        turn_count(&worker->turn, STAT_EXPIRED_FIELDS, expiry.field_count);
}

void expiry_tick(struct worker *worker)
{
    struct engine *engine = worker->engine;
    bool expires = engine->active_expire && !expiry_is_paused(engine);

    if (engine->tier != NULL)
        tier_set_expiry(engine->tier, expires);
    if (expires)
        expire_keys(worker);
}
