#include "engine/evict.h"

#include "base/clock.h"
#include "engine/delete_key.h"
#include "engine/expiry.h"
#include "engine/memory.h"
#include "engine/redirect.h"
#include "engine/worker.h"

enum {
    SAMPLES = 16,
    FRUITLESS_MAX = 3,          /* passes that find no key */
    KEYS_AT_ONCE = 8,           /* that a call deletes whatever the time: more than it creates, mostly */
    TENACITY_LINEAR = 10, TENACITY_MAX = 100,       /* of maxmemory-eviction-tenacity */
};

/* Keys with a lower rank are evicted first. */
static int64_t eviction_rank(enum config_policy policy, const struct turn *turn, const struct entry *entry)
{
    switch (policy) {
    case CONFIG_POLICY_VOLATILE_LFU:
    case CONFIG_POLICY_ALLKEYS_LFU:
        return heat_now(&turn->heat, entry->heat, entry->heat_minutes, turn->minutes);
    case CONFIG_POLICY_VOLATILE_LRU:
    case CONFIG_POLICY_ALLKEYS_LRU:
        return -(int64_t)heat_idle(entry->heat_minutes, turn->minutes) * 256 + entry->heat;
    case CONFIG_POLICY_VOLATILE_TTL:
        return entry_expire_ms(entry);
    default:
        return 0;
    }
}

static bool is_volatile(enum config_policy policy)
{
    return policy == CONFIG_POLICY_VOLATILE_LRU || policy == CONFIG_POLICY_VOLATILE_LFU ||
           policy == CONFIG_POLICY_VOLATILE_RANDOM || policy == CONFIG_POLICY_VOLATILE_TTL;
}

/* Keys of a slot that is being received stay: changes by the owner of the slot, which come next, have to find them. */
static bool is_received(const struct redirect *redirect, uint64_t hash)
{
    return redirect_receives(redirect) && redirect_state(redirect, hash) == SLOT_RECEIVED;
}

struct victim {
    uint32_t handle;
    uint64_t hash;
    int64_t rank;
    int seen;
    bool can_write;             /* the writer will be done with what it holds: for a checkpoint, too, which writes without tier-enabled */
    bool in_use;                /* a key would be a candidate, but calls or the writer use it */
    struct keyspace *keyspace;
    enum config_policy policy;
    const struct turn *turn;
    const struct redirect *redirect;
};

static void consider_victim(void *context, uint64_t hash, uint32_t handle)
{
    struct victim *victim = context;
    struct entry *entry = keyspace_entry(victim->keyspace, handle);
    int64_t rank;

    if (is_received(victim->redirect, hash))
        return;
    if (is_volatile(victim->policy) && !(entry->flags & ENTRY_EXPIRES))
        return;
    if (entry->flags & ENTRY_PINNED || entry_is_held(victim->keyspace, entry)) {
        victim->in_use |= entry->flags & ENTRY_PINNED || victim->can_write;
        return;
    }
    rank = eviction_rank(victim->policy, victim->turn, entry);
    if (victim->seen++ > 0 && rank >= victim->rank)
        return;
    victim->handle = handle;
    victim->hash = hash;
    victim->rank = rank;
}

/* A replica's data is its primary's; replica-ignore-maxmemory no gives that up. With a partition locked the role stays as it is. */
static bool is_spared(const struct engine *engine)
{
    return role_is_replica(engine) && config_number(engine->config, CONFIG_REPLICA_IGNORE_MAXMEMORY);
}

bool evict_allows(const struct engine *engine, uint64_t hash, const struct entry *entry)
{
    enum config_policy policy = (enum config_policy)config_number(engine->config, CONFIG_MAXMEMORY_POLICY);

    if (policy == CONFIG_POLICY_NOEVICTION || (is_volatile(policy) && !(entry->flags & ENTRY_EXPIRES)))
        return false;
    return !is_received(engine->redirect, hash) && !expiry_is_suspended(engine) && !is_spared(engine);
}

/* Evicts the key with the lowest rank of a sample, from a random place of a random keyspace. */
static enum eviction evict_one(struct engine *engine, struct worker *worker, enum config_policy policy)
{
    struct partitions *all = engine->partitions;
    uint64_t place = random_next(&worker->turn.random);
    int first_db = (int)random_below(&worker->turn.random, (uint64_t)all->db_count);
    enum eviction result = EVICTION_NOTHING;

    for (uint32_t i = 0; i <= all->count && result != EVICTION_DONE; i++) {     /* the first one twice: from the place on, and from its beginning */
        struct partition *partition = &all->partitions[(partition_index(all, place) + i) & (all->count - 1)];

        partition_lock(partition);
        for (int n = 0; n < all->db_count && result != EVICTION_DONE && !is_spared(engine); n++) {
            struct keyspace *keyspace = partition->keyspaces[(first_db + n) % all->db_count];
            struct victim victim = { .keyspace = keyspace, .policy = policy, .turn = &worker->turn, .redirect = engine->redirect,
                .can_write = all->sealing || !tier_is_blocked(engine->tier) };
            uint64_t from = i == 0 ? place : partition_first_hash(partition);
            struct table_cursor cursor;
            bool more;

            if (keyspace == NULL || keyspace->table.count == 0 || (is_volatile(policy) && keyspace->expiring_count == 0))
                continue;
            if (partition->owner != NULL) {
                result = EVICTION_LATER;
                continue;
            }
            more = table_seek(&keyspace->table, from, &cursor);
            for (int round = 0; round < 64 && victim.seen < SAMPLES && more; more = table_next(&keyspace->table, &cursor)) {
                if (table_bucket_is_unused(cursor.bucket))
                    continue;
                table_home_entries(&keyspace->table, &cursor, consider_victim, &victim);
                round++;
            }
            if (victim.in_use)
                result = EVICTION_LATER;
            if (victim.seen == 0)
                continue;
            delete_key(engine, keyspace, victim.hash, victim.handle, EVENT_EVICTED);
            result = EVICTION_DONE;
        }
        partition_unlock(partition);
    }
    return result;
}

/* Redis' scale: 50 us a step up to 10, then 15 % more with each. */
static int64_t time_max_us(const struct engine *engine)
{
    int64_t tenacity = config_number(engine->config, CONFIG_MAXMEMORY_EVICTION_TENACITY);
    double time_us = 50.0 * (double)(tenacity < TENACITY_LINEAR ? tenacity : TENACITY_LINEAR);

    if (tenacity >= TENACITY_MAX)
        return INT64_MAX;
    for (; tenacity > TENACITY_LINEAR; tenacity--)
        time_us *= 1.15;
    return (int64_t)time_us;
}

enum eviction evict_keys(struct engine *engine, struct worker *worker)
{
    enum config_policy policy = (enum config_policy)config_number(engine->config, CONFIG_MAXMEMORY_POLICY);
    int64_t max_us = time_max_us(engine);
    enum memory_state state;
    int fruitless = 0;

    if (policy == CONFIG_POLICY_NOEVICTION || expiry_is_suspended(engine))
        return EVICTION_NOTHING;
    for (int i = 0; (state = memory_state(engine)) == MEMORY_OUT; i++) {
        enum eviction result;

        if (i > 0 && i % KEYS_AT_ONCE == 0 && clock_mono_us() - worker->turn.now_us >= max_us)
            return EVICTION_DONE;
        result = evict_one(engine, worker, policy);
        /* With other policies the keys that are loaded may never be candidates. */
        if (result == EVICTION_NOTHING && !is_volatile(policy) && engine->tier != NULL && tier_loads_waiting(engine->tier) > 0)
            return EVICTION_LATER;
        /* Other threads may have been making or evicting the last keys meanwhile: the locks have waited for them, so memory is looked at again. */
        if (result == EVICTION_NOTHING && ++fruitless < FRUITLESS_MAX)
            continue;
        if (result != EVICTION_DONE)
            return result;
        turn_count(&worker->turn, STAT_EVICTED_KEYS, 1);
    }
    return state == MEMORY_ENOUGH ? EVICTION_DONE : EVICTION_LATER;
}
