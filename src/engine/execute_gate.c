/* At the memory gate: what is done for a call when memory is short (tier rule 7). */
#include "engine/execute_private.h"

#include "engine/delete_key.h"
#include "engine/evict.h"
#include "engine/memory.h"
#include "engine/parking.h"
#include "engine/role.h"
#include "tier/demotion.h"

enum { KEY_WEIGHT = 32, WEIGHT_MAX = 64 * 1024 };

/* Bytes of memory that the request may take, about. A large argument was received only when there was room for it (memory_admit_large). */
static uint64_t request_weight(const struct call *call)
{
    uint64_t size = (uint64_t)call->key_count * KEY_WEIGHT;

    for (int i = 1; i < call->arg_count && size < WEIGHT_MAX; i++)
        size += call->args[i].size;
    return size < WEIGHT_MAX ? size : WEIGHT_MAX;
}

/* Old values that a checkpoint still has to write take memory, too: changes wait until some are written. */
bool execute_wait_for_reserve(struct call *call, struct worker *worker, uint32_t flags)
{
    struct engine *engine = call->engine;

    if (!(flags & COMMAND_WRITE) || flags & COMMAND_EXCLUSIVE || call->client->caller & TRAIT_WAITS_IN_PLACE)
        return true;
    call->turn->over_reserve = memory_reserve_is_used_up(engine);
    if (!call->turn->over_reserve)
        return true;
    turn_count(call->turn, STAT_THROTTLED, 1);
    parking_add_call(worker, call, PARKED_FOR_WRITER);
    tier_nudge(engine->tier);
    return false;
}

/* Its pins are given up, so that what it has loaded can be demoted or evicted. */
static bool wait_for_memory(struct call *call, struct worker *worker)
{
    turn_count(call->turn, STAT_THROTTLED, 1);
    parking_add_call(worker, call, PARKED_FOR_MEMORY);
    return false;
}

bool execute_make_room(struct call *call, struct worker *worker)
{
    struct engine *engine = call->engine;

    if (call->client->caller & TRAIT_WAITS_IN_PLACE) {
        memory_wait(engine);         /* whatever it is: its keys may have to be loaded */
        if (role_is_replica(engine) && memory_state(engine) == MEMORY_OUT)
            (void)evict_keys(engine, worker);       /* replica-ignore-maxmemory no */
        return true;
    }
    if (call->turn->memory_fill >= 0 && call->client->loads.waits != NULL) {
        /* The client has waited before it loaded. Waiting again, without its pins, could go on for ever: what it has loaded would be what has to go. */
        pace_charge(engine, request_weight(call));
        return true;
    }
    if (call->turn->memory_fill >= 0)
        return pace_take(engine, call->turn->memory_fill, request_weight(call)) || wait_for_memory(call, worker);
    if (!call->turn->over_memory || engine->holds_writes)
        return true;                /* nothing is evicted during FAILOVER; what takes memory waits */
    switch (evict_keys(engine, worker)) {
    case EVICTION_DONE:
        call->turn->over_memory = memory_is_short(engine);
        return true;
    case EVICTION_LATER:
        return wait_for_memory(call, worker);
    case EVICTION_NOTHING:
        break;
    }
    reply_error(call, ERR_OOM);
    return false;
}

/* The value that the call has found for the key, and changes; NULL: there is none, or it is small. */
static struct entry *large_entry(const struct call *call, const struct call_key *key, struct keyspace **keyspace)
{
    const struct partition *partition = &call->partitions->partitions[partition_index(call->partitions, key->hash)];
    struct entry *entry;
    uint32_t handle;

    partition_assert_locked_debug(partition);
    *keyspace = partition_keyspace_if(partition, call->db);
    if (*keyspace == NULL || key->handle == 0 || key->flags & (KEY_OW | KEY_NOT_KEY) || (key->flags & (KEY_RO | KEY_CHANGED)) == KEY_RO)
        return NULL;
    handle = keyspace_find(*keyspace, key->hash, call->args[key->arg]);     /* it may be another argument, too, and have been evicted */
    if (handle == 0)
        return NULL;
    entry = keyspace_entry(*keyspace, handle);
    return entry_is_inline(entry) ? NULL : entry;
}

static uint64_t large_bytes(const struct call *call)
{
    struct keyspace *keyspace;
    uint64_t size = 0, outside;

    for (int i = 0; i < call->key_count; i++) {
        const struct entry *entry = large_entry(call, &call->keys[i], &keyspace);

        if (entry != NULL)
            size += demotion_entry_size(entry, &outside);
    }
    return size;
}

static void evict_large(struct call *call)
{
    for (int i = 0; i < call->key_count; i++) {
        struct call_key *key = &call->keys[i];
        struct keyspace *keyspace;
        const struct entry *entry = large_entry(call, key, &keyspace);

        if (entry == NULL || !evict_allows(call->engine, entry))
            continue;
        delete_key(call->engine, keyspace, key->hash, keyspace_find(keyspace, key->hash, call->args[key->arg]), EVENT_EVICTED);
        turn_count(call->turn, STAT_EVICTED_KEYS, 1);
        call->handles_stale = true;
    }
}

enum residency execute_weigh_values(struct call *call)
{
    struct engine *engine = call->engine;
    uint64_t size = large_bytes(call), base;
    struct memory_view view;

    if (size == 0)
        return RESIDENT;
    memory_look(engine, &view);
    base = engine->memory.startup + view.set_aside;
    if (base + size <= view.limit / 100 * (uint64_t)config_number(engine->config, CONFIG_TIER_HIGH_WATERMARK))
        return RESIDENT;
    evict_large(call);
    if (base + large_bytes(call) <= view.limit)
        return RESIDENT;
    reply_error(call, ERR_OOM);
    return TOO_BIG;
}
