/* How much memory is used, and what happens when it is too much. */
#include <time.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/internal.h"
#include "engine/lazy_free.h"
#include "tier/image.h"

enum { EVICT_SAMPLES = 16, EVICT_KEYS_MAX = 1000, REPLAY_WAIT_MS_MAX = 10000, EXCESS_SHARE = 20, EXCESS_MAX_SHARE = 8, REPLY_SHARE = 4 };
/* A large value is there twice for a while when it is demoted, so twice its size has to be free before it comes. */
enum { LARGE_COPIES = 2, LARGE_PERCENT_MAX = 60 };

uint64_t engine_memory_used(const struct engine *engine)
{
    return meter_used(engine->meter) + segment_pool_used(engine->partitions->pool);
}

uint64_t engine_client_memory(const struct engine *engine)
{
    uint64_t sum = 0;

    for (int i = 0; i < engine->worker_count; i++)
        sum += atomic_load_explicit(&engine->workers[i]->buffer_bytes, memory_order_relaxed);
    return sum;
}

uint64_t engine_client_memory_max(const struct engine *engine)
{
    int64_t given = config_number(engine->config, CONFIG_MAXMEMORY_CLIENTS), limit = config_number(engine->config, CONFIG_MAXMEMORY);

    if (given > 0)
        return (uint64_t)given;
    return limit > 0 ? (uint64_t)limit / 2 : UINT64_MAX;
}

bool engine_admit_large(struct engine *engine, struct client *client, uint64_t size)
{
    uint64_t limit = (uint64_t)config_number(engine->config, CONFIG_MAXMEMORY), most = limit / 100 * LARGE_PERCENT_MAX;
    uint64_t wanted = size < most / LARGE_COPIES ? size * LARGE_COPIES : most;
    struct client *nobody = NULL;
    bool is_hopeless = wanted == most || !engine_may_wait_for_memory(engine);

    if (limit == 0 || engine->large_client == client)
        return true;
    if (engine_memory_used(engine) + wanted <= limit ||
        (is_hopeless && atomic_compare_exchange_strong(&engine->large_client, &nobody, client))) {
        engine->memory_wanted = 0;
        return true;
    }
    engine->memory_wanted = wanted;
    if (engine->tier != NULL && !tier_is_demoting(engine->tier))
        tier_nudge(engine->tier);
    return false;
}

void engine_end_large(struct engine *engine, struct client *client)
{
    struct client *holder = client;

    atomic_compare_exchange_strong(&engine->large_client, &holder, NULL);
}

bool engine_replies_are_full(const struct engine *engine)
{
    int64_t limit = config_number(engine->config, CONFIG_MAXMEMORY);

    return limit > 0 && engine->reply_held > (uint64_t)limit / REPLY_SHARE;
}

void engine_memory_watch(struct engine *engine)
{
    uint64_t used = engine_memory_used(engine), resident = meter_resident();
    uint64_t limit = (uint64_t)config_number(engine->config, CONFIG_MAXMEMORY);
    uint64_t allowed = used + engine->memory_base + limit / EXCESS_SHARE;

    engine->memory_excess = resident > allowed ? resident - allowed : 0;
    if (engine->memory_excess > limit / EXCESS_MAX_SHARE)
        engine->memory_excess = limit / EXCESS_MAX_SHARE;       /* else a tiny budget would be eaten up by it */
}

bool engine_memory_is_short(const struct engine *engine)
{
    int64_t limit = config_number(engine->config, CONFIG_MAXMEMORY);
    uint64_t used;

    if (limit <= 0)
        return false;
    used = engine_memory_used(engine);
    if (engine_may_wait_for_memory(engine))
        used += engine->memory_excess;
    return used > (uint64_t)limit;
}

bool engine_reserve_is_used_up(const struct engine *engine)
{
    return engine->partitions->sealing && engine->tier != NULL && tier_handed_is_full(engine->tier);
}

bool engine_may_wait_for_memory(const struct engine *engine)
{
    return engine->tier != NULL && !tier_is_blocked(engine->tier) &&
           (!tier_is_stuck(engine->tier) || lazy_free_pending(engine->lazy_free) > 0);
}

void engine_wait_for_memory(struct engine *engine)
{
    struct timespec pause = { 0, 1000000 };

    for (int i = 0; i < REPLAY_WAIT_MS_MAX && engine_memory_is_short(engine) && engine_may_wait_for_memory(engine); i++) {
        tier_nudge(engine->tier);
        nanosleep(&pause, NULL);
    }
}

void engine_end_big_call(struct engine *engine, struct client *client)
{
    if (__builtin_expect(engine->big_client != client, 1))
        return;
    engine->big_client = NULL;
    for (int i = 0; i < engine->worker_count; i++)
        worker_memory_came(engine->workers[i]);
}

/* Lower goes first. */
static int64_t eviction_rank(enum config_policy policy, const struct turn *turn, const struct entry *entry)
{
    switch (policy) {
    case CONFIG_POLICY_VOLATILE_LFU:
    case CONFIG_POLICY_ALLKEYS_LFU:
        return heat_now(&turn->heat, entry->heat, entry->heat_minutes, turn->minutes);
    case CONFIG_POLICY_VOLATILE_LRU:
    case CONFIG_POLICY_ALLKEYS_LRU:
        return -(int64_t)(uint16_t)(turn->minutes - entry->heat_minutes) * 256 + entry->heat;
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

struct victim {
    uint32_t handle;
    uint64_t hash;
    int64_t rank;
    int seen;
    struct keyspace *keyspace;
    enum config_policy policy;
    const struct turn *turn;
};

static void consider(void *context, uint64_t hash, uint32_t handle)
{
    struct victim *victim = context;
    struct entry *entry = keyspace_entry(victim->keyspace, handle);
    int64_t rank;

    if (entry->flags & ENTRY_PINNED || entry_is_held(victim->keyspace, entry) || (is_volatile(victim->policy) && !(entry->flags & ENTRY_EXPIRES)))
        return;
    rank = eviction_rank(victim->policy, victim->turn, entry);
    if (victim->seen++ > 0 && rank >= victim->rank)
        return;
    victim->handle = handle;
    victim->hash = hash;
    victim->rank = rank;
}

/* The best of a sample, from a random place of a random keyspace. */
static bool evict_one(struct engine *engine, struct worker *worker, enum config_policy policy)
{
    struct partitions *all = engine->partitions;
    uint64_t place = random_next(&worker->turn.random);
    int first_db = (int)random_below(&worker->turn.random, (uint64_t)all->db_count);
    bool evicted = false;

    for (uint32_t i = 0; i < all->count && !evicted; i++) {
        struct partition *partition = &all->partitions[(partition_index(all, place) + i) & (all->count - 1)];

        partition_lock(partition);
        for (int n = 0; n < all->db_count && !evicted; n++) {
            struct keyspace *keyspace = partition->keyspaces[(first_db + n) % all->db_count];
            struct victim victim = { .keyspace = keyspace, .policy = policy, .turn = &worker->turn };
            uint64_t from = i == 0 ? place : partition_first_hash(partition);
            struct table_cursor cursor;
            bool more;

            if (keyspace == NULL || keyspace->table.count == 0 || (is_volatile(policy) && keyspace->expiring_count == 0))
                continue;
            more = table_seek(&keyspace->table, from, &cursor);
            for (int round = 0; round < 64 && victim.seen < EVICT_SAMPLES && more; round++) {
                table_home_entries(&keyspace->table, &cursor, consider, &victim);
                more = table_next(&keyspace->table, &cursor);
            }
            if (victim.seen == 0)
                continue;
            engine_delete_key(engine, keyspace, victim.hash, victim.handle, "evicted");
            evicted = true;
        }
        partition_unlock(partition);
    }
    return evicted;
}

bool engine_evict(struct engine *engine, struct worker *worker, struct call *call)
{
    enum config_policy policy = (enum config_policy)config_number(engine->config, CONFIG_MAXMEMORY_POLICY);

    (void)call;
    if (policy == CONFIG_POLICY_NOEVICTION || engine_keeps_expired(engine))
        return false;
    for (int i = 0; i < EVICT_KEYS_MAX && engine_memory_is_short(engine); i++) {
        if (!evict_one(engine, worker, policy))
            return false;
        turn_count(&worker->turn, STAT_EVICTED_KEYS, 1);
    }
    return !engine_memory_is_short(engine);
}
