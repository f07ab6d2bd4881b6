/* At the memory gate: what is done for a call when memory is short (tier rule 7). */
#include "engine/execute_private.h"

#include "engine/evict.h"
#include "engine/memory.h"
#include "engine/parking.h"
#include "engine/role.h"
#include "engine/unit.h"
#include "keyspace/pages.h"
#include "value/string.h"

enum { KEY_WEIGHT = 32, WEIGHT_MAX = 64 * 1024, VALUE_SAMPLES = 5 };

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
    if (call->client->loads.waits != NULL) {
        /* The client has passed this gate before it loaded. If it waited again, without its pins, that could go on for ever, as what it has loaded would be what has to go; nor is that a reason to
         * refuse the call. Values that are too large are found when all keys are there (execute_weigh_values). */
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

bool execute_may_load(struct call *call, uint64_t bytes)
{
    if (call->turn->memory_fill < 0)
        return true;
    if (call->unit == NULL && call->client->loads.waits == NULL && !(call->command->flags & COMMAND_DENYOOM))
        return pace_take(call->engine, call->turn->memory_fill, bytes);
    pace_charge(call->engine, bytes);
    return true;
}

/* A key whose value the call changes. */
struct changed {
    struct keyspace *keyspace;
    const struct entry *entry;      /* NULL: there is none, or it is small */
    uint32_t handle;
};

static struct changed large_value(const struct call *call, const struct call_key *key)
{
    const struct partition *partition = &call->partitions->partitions[partition_index(call->partitions, key->hash)];
    struct changed changed = { 0 };

    partition_assert_locked_debug(partition);
    changed.keyspace = partition_keyspace_if(partition, call->db);
    if (changed.keyspace == NULL || key->handle == 0 || key->flags & (KEY_OW | KEY_NOT_KEY) || call_key_is_read(key))
        return changed;
    changed.handle = call->handles_stale ? keyspace_find(changed.keyspace, key->hash, call->args[key->arg]) : key->handle;
    if (changed.handle != 0 && !entry_is_inline(keyspace_entry(changed.keyspace, changed.handle)))
        changed.entry = keyspace_entry(changed.keyspace, changed.handle);
    return changed;
}

/* A value from before there was a maxmemory, or a threshold: it gets into pages before the call changes it, and these can be demoted. */
static bool is_for_pages(const struct call *call, const struct value *value)
{
    const struct value_limits *limits = &call->turn->limits;

    return pages_takes(value, limits) || (value->type == VALUE_STRING && pages_takes_string(string_size(value), limits));
}

struct weight {
    uint64_t all, evictable, largest;       /* bytes; of all values, of those that may be evicted, and of the largest of these */
    int largest_key;
};

/* Adds up the values that the call changes, each once. `samples`: as for value_memory. */
static struct weight weigh_values(const struct call *call, size_t samples)
{
    struct weight weight = { 0 };

    for (int i = 0; i < call->key_count; i++) {
        struct changed changed = large_value(call, &call->keys[i]);
        struct value value;
        uint64_t size;
        int same = 0;

        if (changed.entry == NULL)
            continue;
        while (same < i && large_value(call, &call->keys[same]).entry != changed.entry)
            same++;
        if (same < i)
            continue;
        value = entry_value(changed.entry);
        if (is_for_pages(call, &value))
            continue;
        size = value_memory(&value, samples);
        weight.all += size;
        if (!evict_allows(call->engine, call->keys[i].hash, changed.entry))
            continue;
        weight.evictable += size;
        if (size >= weight.largest) {
            weight.largest = size;
            weight.largest_key = i;
        }
    }
    return weight;
}

enum residency execute_weigh_values(struct call *call)
{
    struct engine *engine = call->engine;
    uint64_t limit = (uint64_t)config_number(engine->config, CONFIG_MAXMEMORY), base = engine->memory.startup + tier_memtable_room(engine->tier);
    uint64_t mark = limit / 100 * (uint64_t)config_number(engine->config, CONFIG_TIER_HIGH_WATERMARK);
    struct weight weight;

    /* As in Redis a unit is not stopped any more, nor loses a value, when it has changed something. */
    if (limit == 0 || call->client->receipt != 0 || (call->unit != NULL && call->unit->change_count > 0))
        return RESIDENT;
    weight = weigh_values(call, VALUE_SAMPLES);
    if (weight.all == 0 || base + weight.all <= mark)
        return RESIDENT;
    weight = weigh_values(call, 0);         /* some elements are no measure of all */
    if (base + weight.all - weight.evictable > limit) {
        reply_error(call, ERR_OOM);
        return TOO_BIG;
    }
    for (; base + weight.all > mark && weight.evictable > 0; weight = weigh_values(call, 0)) {
        const struct call_key *key = &call->keys[weight.largest_key];
        struct changed changed = large_value(call, key);

        key_evict(call, changed.keyspace, key, changed.handle);
    }
    return RESIDENT;
}
