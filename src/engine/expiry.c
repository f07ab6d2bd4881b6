#include "engine/expiry.h"

#include "base/clock.h"
#include "engine/delete_key.h"
#include "engine/event.h"
#include "engine/worker.h"
#include "keyspace/pages.h"
#include "tier/tier.h"

enum {
    BUCKETS_A_STEP = 16,            /* under one hold of a lock: up to 200 keys may be deleted */
    STEPS_A_VISIT = 32,             /* of one partition, before the next one has its turn */
    VISITS_FREE = 32,               /* the number that any tick does: where few keys expire, each tick looks at all of them */
    TICK_BUDGET_US = 2000,          /* per tick; the next tick continues, or a slice before it */
    PAGES_SHARE = 16,               /* of maxmemory: pages that are loaded to remove fields of one hash */
    SLICE_US = 1000,                /* between two ticks, while many keys expire */
    SLICE_PAUSE_US = 50000,         /* after a slice in which few did, divided by active-expire-effort - 1 */
    SHARE_PERCENT = 25,             /* of the worker's time, at most, as in Redis: ... */
    SHARE_PERCENT_EFFORT = 2,       /* ... and this much more for each step of active-expire-effort */
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
    if (history_is_on(&engine->history))
        partition_note_change(keyspace->partition, history_append(&engine->history, keyspace->db, words, 2 + (int)dead->count));
}

size_t expiry_remove_fields(struct engine *engine, const struct turn *turn, struct keyspace *keyspace, uint64_t hash, uint32_t handle, size_t max)
{
    struct entry *entry = keyspace_entry(keyspace, handle);
    struct dead_fields dead = { .count = 0 };
    int64_t now_ms = turn->now_ms;
    struct pages_access access;
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
    if (value_is_paged(&value))
        pages_attach(&access, keyspace, &value, &turn->limits, now_ms);
    count = hash_remove_expired(&value, now_ms, max, collect_dead_field, &dead);
    if (count > 0) {
        log_dead_fields(engine, keyspace, entry_key(entry), &dead);
        keyspace_mark_dirty(keyspace, entry);
        atomic_fetch_add_explicit(&engine->dirty, count, memory_order_relaxed);
    }
    handle = keyspace_set_value(keyspace, hash, handle, &value);
    keyspace_note_times(keyspace, hash, handle, now_ms);
    if (hash_count(&value) == 0)
        delete_key(engine, keyspace, hash, handle, EVENT_HEXPIRED);
    else if (count > 0)                 /* else the time was only a bound */
        event_note(engine, NULL, keyspace, hash, entry_key(keyspace_entry(keyspace, handle)), EVENT_HEXPIRED);
    buffer_release(&dead.text);
    return count;
}

size_t expiry_ready(struct worker *worker, struct keyspace *keyspace, uint32_t handle)
{
    struct value value = entry_value(keyspace_entry(keyspace, handle));
    uint64_t limit = (uint64_t)config_number(worker->engine->config, CONFIG_MAXMEMORY), bytes = 0;
    int64_t now_ms = worker->turn.now_ms;
    struct tier *tier = worker->engine->tier;
    struct pages_access access;
    size_t ready;

    keyspace_assert_locked(keyspace);
    if (!value_is_paged(&value) || (hash_last_expiry(&value) >= 0 && hash_last_expiry(&value) <= now_ms))
        return EXPIRY_FIELDS_A_STEP;
    if (pages_are_elsewhere(keyspace, &value))
        return 0;                       /* that partition is not locked: calls that use the hash remove them */
    pages_attach(&access, keyspace, &value, &worker->turn.limits, now_ms);
    keyspace_assert_locked(access.pages.space);
    if (hash_has_expired(&value, now_ms, HASH_EXPIRED_IN_PAGES, &ready))
        return HASH_EXPIRED_IN_PAGES;
    for (uint32_t i = 0; i < access.paged.wanted_count && tier != NULL && worker->turn.memory_fill < 0 && bytes <= limit / PAGES_SHARE; i++) {
        char name[PAGE_NAME_SIZE];
        uint64_t hash = pages_name(access.pages.id, access.paged.wanted[i], name);

        if (limit > 0)
            bytes += tier_load_size(tier, access.pages.space, hash, bytes_of(name, sizeof(name)));
        tier_load_ahead(tier, access.pages.space, hash, bytes_of(name, sizeof(name)), worker->reader);
    }
    paged_forget_wanted(&access.paged);
    return ready;
}

struct expiry {
    struct worker *worker;
    uint64_t count, field_count;
    bool has_more;              /* fields that wait for pages, or for the next step */
};

/* The walk would not come back to the hash, which has fields that have expired still. */
static void look_again(struct expiry *expiry, struct keyspace *keyspace, uint64_t hash, uint32_t handle) REQUIRES(keyspace->partition->lock);
static void look_again(struct expiry *expiry, struct keyspace *keyspace, uint64_t hash, uint32_t handle)
{
    struct value value = entry_value(keyspace_entry(keyspace, handle));

    keyspace_note_times(keyspace, hash, handle, expiry->worker->turn.now_ms);
    expiry->has_more = expiry->has_more || (!pages_are_elsewhere(keyspace, &value) && expiry->worker->turn.memory_fill < 0);
}

static void expire_entry(void *context, struct keyspace *keyspace, uint64_t hash, uint32_t handle)
{
    struct expiry *expiry = context;
    struct worker *worker = expiry->worker;

    keyspace_assert_locked(keyspace);
    if (entry_is_held(keyspace, keyspace_entry(keyspace, handle)))
        return;                 /* the next round gets it */
    if (entry_has_times(keyspace_entry(keyspace, handle))) {
        int64_t expire_ms = entry_expire_ms(keyspace_entry(keyspace, handle));

        if (expire_ms < 0 || expire_ms > worker->turn.now_ms) {
            size_t ready = expiry_ready(worker, keyspace, handle);

            if (ready > 0) {
                size_t count = expiry_remove_fields(worker->engine, &worker->turn, keyspace, hash, handle, ready);

                expiry->field_count += count;
                expiry->has_more = expiry->has_more || (ready <= HASH_EXPIRED_IN_PAGES && count == ready);
            } else {
                look_again(expiry, keyspace, hash, handle);
            }
            return;
        }
    }
    delete_key(worker->engine, keyspace, hash, handle, EVENT_EXPIRED);
    expiry->count++;
}

/* Some steps of the walk through one keyspace, each under its own hold of the lock. Returns false if it ended before the keyspace did. */
static bool visit_keyspace(struct worker *worker, struct partition *partition, int db, int64_t until_us, struct expiry *expiry, uint32_t *visits)
{
    bool done = false;

    for (int step = 0; step < STEPS_A_VISIT && !done && (step == 0 || clock_mono_us() < until_us); step++) {
        struct keyspace *keyspace;

        done = true;
        partition_lock(partition);
        keyspace = partition_keyspace_if(partition, db);
        if (keyspace != NULL && partition->owner == NULL && !role_keeps_expired(worker->engine) && (keyspace->expiring_count > 0 || keyspace->may_have_times)) {
            keyspace_assert_locked(keyspace);
            *visits += step == 0;
            done = keyspace_expire_step(keyspace, worker->turn.now_ms, BUCKETS_A_STEP, expire_entry, expiry);
        }
        partition_unlock(partition);
    }
    return done;
}

/* Returns false if it will have to come back to this partition. */
static bool visit_partition(struct worker *worker, int64_t until_us, struct expiry *expiry, uint32_t *visits)
{
    struct partitions *all = worker->engine->partitions;
    struct partition *partition = &all->partitions[worker->expire_next];
    bool done = true;

    for (int db = 0; db < all->db_count; db++)
        done = visit_keyspace(worker, partition, db, until_us, expiry, visits) && done;
    if (done)
        worker->expire_next = (worker->expire_next + 1) % all->count;
    return done;
}

/* Looks at up to `share` partitions, or at all if few have keys that expire, until the time is up. Returns the number of keys and fields
 * that expired; `*more`: there was more to look at. */
static uint64_t expire_some(struct worker *worker, uint32_t share, int64_t budget_us, bool *more)
{
    struct partitions *all = worker->engine->partitions;
    struct expiry expiry = { .worker = worker };
    int64_t began_us = clock_mono_us(), now_us = began_us;
    uint32_t visits = 0;
    bool cut = false;

    *more = false;
    for (uint32_t i = 0; !cut && (i < share || (i < all->count && visits < VISITS_FREE)); i++) {
        *more = !visit_partition(worker, began_us + budget_us, &expiry, &visits) || *more;
        now_us = clock_mono_us();
        cut = now_us - began_us >= budget_us;
    }
    *more = *more || cut || expiry.has_more;
    if (cut)
        turn_count(&worker->turn, STAT_EXPIRE_CUT, 1);
    turn_count(&worker->turn, STAT_EXPIRE_US, (uint64_t)(now_us - began_us));
    if (expiry.count > 0)
        turn_count(&worker->turn, STAT_EXPIRED_KEYS, expiry.count);
    if (expiry.field_count > 0)
        turn_count(&worker->turn, STAT_EXPIRED_FIELDS, expiry.field_count);
    return expiry.count + expiry.field_count + (expiry.has_more ? HASH_EXPIRED_IN_PAGES : 0);
}

/* The pause until the next slice: what keeps slices within their share of the time while many keys expire; longer, the fewer do. */
static int64_t pause_of(uint64_t expired, int64_t effort)
{
    int64_t percent = SHARE_PERCENT + SHARE_PERCENT_EFFORT * (effort - 1), pause_us = SLICE_US * (100 - percent) / percent;
    int64_t pause_max_us = effort > 1 ? SLICE_PAUSE_US / (effort - 1) : INT64_MAX;

    if (expired < EXPIRY_MANY)
        pause_us = expired > 0 ? pause_us * EXPIRY_MANY / (int64_t)expired : INT64_MAX;
    return pause_us < pause_max_us ? pause_us : pause_max_us;
}

/* A walk through a table that shrinks may miss some keys: it is not the end if many were found. */
static void continue_soon(struct worker *worker, uint64_t expired, bool more)
{
    int64_t pause_us = pause_of(expired, config_number(worker->engine->config, CONFIG_ACTIVE_EXPIRE_EFFORT));

    if ((more || expired >= EXPIRY_MANY) && worker->host.expire_soon != NULL && pause_us < INT64_MAX)
        worker->host.expire_soon(worker->host.loop, (pause_us + 999) / 1000);
}

static bool may_expire(const struct engine *engine)
{
    return engine->state == ENGINE_READY && engine->debug.active_expire && !expiry_is_paused(engine);
}

void expiry_continue(struct worker *worker)
{
    bool more;
    uint64_t expired;

    if (!may_expire(worker->engine))
        return;
    expired = expire_some(worker, worker->engine->partitions->count, SLICE_US, &more);
    continue_soon(worker, expired, more);
}

/* Looks at each bucket about once a second, within a budget of time per tick; at all of them in each tick if they are few. */
static void expire_keys(struct worker *worker)
{
    struct engine *engine = worker->engine;
    int hz = (int)config_number(engine->config, CONFIG_HZ);
    uint32_t count = engine->partitions->count, share = count / (uint32_t)(hz > 0 ? hz : 10) + 1;
    bool more;
    uint64_t expired = expire_some(worker, share > count / 10 ? share : count / 10, TICK_BUDGET_US, &more);

    continue_soon(worker, expired, more);
}

void expiry_tick(struct worker *worker)
{
    struct engine *engine = worker->engine;
    bool expires = may_expire(engine);

    if (engine->tier != NULL)
        tier_set_expiry(engine->tier, expires);
    if (expires)
        expire_keys(worker);
}
