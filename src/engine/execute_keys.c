/* The keys of a call that are not simply there: held, cold, too many, or asked for by its handler (tier rules 7 to 9). */
#include "engine/execute_private.h"

#include <stddef.h>

#include "base/clock.h"
#include "engine/big_call.h"
#include "engine/deadlines.h"
#include "engine/expiry.h"
#include "engine/parking.h"
#include "keyspace/pages.h"
#include "tier/image.h"

enum { BIG_CALL_SHARE = 4 };

/* A call that adds no heat makes no key hot either. */
enum tier_purpose execute_purpose_of(const struct call *call)
{
    uint32_t flags = call->command->flags;
    bool adds_no_heat = flags & COMMAND_NO_TOUCH || (call->client->flags & CLIENT_NO_TOUCH && !(flags & COMMAND_TOUCHES));

    return adds_no_heat && flags & COMMAND_READONLY ? TIER_TO_LOOK : TIER_TO_USE;
}

/* Notifies the writer that a call waits. */
bool execute_is_held(struct call *call, struct keyspace *keyspace, const struct call_key *key)
{
    const struct entry *entry = keyspace_entry(keyspace, key->handle);

    /* Reading changes a hash with dead fields: they go first. */
    if (call_key_is_read(key) &&
        (!entry_has_times(entry) || call->turn->clock_stopped || call->keeps_expired || entry_due_ms(entry) > call->turn->now_ms))
        return false;
    tier_write_soon(call->engine->tier, keyspace, key->hash, call->args[key->arg]);
    return true;
}

/* A command that opens a hash removes its dead fields first, all in one step under the lock. With very many that takes long, so they are
 * removed a step at a time, and the partition is unlocked in between. A hash with no field alive is deleted as a whole. */
bool execute_reap(struct call *call, struct keyspace *keyspace, const struct call_key *key)
{
    const struct entry *entry = keyspace_entry(keyspace, key->handle);
    int64_t death_ms, now_ms = call->turn->now_ms;
    struct pages_access access;
    struct value value;
    size_t step, ready;

    keyspace_assert_locked(keyspace);
    if (call->turn->clock_stopped || call->keeps_expired || entry_due_ms(entry) > now_ms || key->flags & KEY_RM || call_key_is_overwritten(key))
        return false;
    value = entry_value(entry);
    death_ms = entry_death_ms(entry);
    step = expiry_fields_a_step(&value);
    if (death_ms >= 0 && death_ms <= now_ms)
        return false;
    ready = step;
    if (value_is_paged(&value)) {
        if (call_key_is_read(key))
            return false;               /* those that are many are hidden */
        pages_attach(&access, keyspace, &value, &call->turn->limits, now_ms);
        if (hash_has_expired(&value, now_ms, step + 1, &ready) && ready <= step)
            return false;
        paged_forget_wanted(&access.paged);
        if (ready == 0)
            return false;
    } else if (!hash_has_many_expired(&value, now_ms, step)) {
        return false;
    }
    turn_count(call->turn, STAT_EXPIRED_FIELDS, expiry_remove_fields(call->engine, call->turn, keyspace, key->hash, key->handle, ready < step ? ready : step));
    return true;
}

/* Tier rule 7: a call may pin a small share of the budget. One that needs more takes the one big-call token first, and one that
 * needs too much gets an error, before anything is pinned. */
enum residency execute_weigh(struct call *call)
{
    struct engine *engine = call->engine;
    int64_t limit = config_number(engine->config, CONFIG_MAXMEMORY);
    uint64_t cold = 0, needed = 0;

    for (int i = 0; i < call->key_count; i++) {
        const struct call_key *key = &call->keys[i];
        const struct partition *partition = &call->partitions->partitions[partition_index(call->partitions, key->hash)];
        struct keyspace *keyspace;

        partition_assert_locked_debug(partition);
        keyspace = partition_keyspace_if(partition, call->db);
        if (keyspace != NULL && !(key->flags & (KEY_OW | KEY_NOT_KEY)) &&
            keyspace_find(keyspace, key->hash, call->args[key->arg]) == 0 &&
            tier_may_be_cold(engine->tier, keyspace, key->hash, call->args[key->arg])) {
            cold++;
            keyspace_assert_locked(keyspace);
            needed += tier_load_size(engine->tier, keyspace, key->hash, call->args[key->arg]);
        }
    }
    if (cold < BIG_CALL_COLD_KEYS || engine->big_client == call->client)
        return RESIDENT;
    if (limit > 0 && needed > (uint64_t)limit / BIG_CALL_SHARE) {
        reply_errorf(call, "ERR this call needs about %llu bytes of cold keys in RAM at once, more than a quarter of maxmemory; "
            "ask for fewer keys", (unsigned long long)needed);
        return TOO_BIG;
    }
    return big_call_take(engine, call->client) ? RESIDENT : QUEUED;
}

bool execute_lacks_memory(struct call *call, struct keyspace *keyspace, const struct call_key *key)
{
    keyspace_assert_locked(keyspace);
    return tier_may_be_cold(call->engine->tier, keyspace, key->hash, call->args[key->arg]) &&
           !execute_may_load(call, tier_load_size(call->engine->tier, keyspace, key->hash, call->args[key->arg]));
}

/* A proxy waits for nothing: what is cold is loaded in place (tier rule 8), what is latched is copied (rule 9). False: it can't be read.
 * The key may be another argument, too, which was looked up before and only overwrites it: what was found for that holds no longer. */
bool execute_make_resident(struct call *call, struct keyspace *keyspace, struct call_key *key)
{
    const struct key_hooks *hooks = call->turn->hooks;
    struct bytes name = call->args[key->arg];

    if (key->handle == 0) {
        if (!hooks->load_in_place(hooks->context, keyspace, key->hash, name))
            return false;
        key->handle = keyspace_find(keyspace, key->hash, name);
        call->handles_stale = true;
    }
    if (key->handle != 0 && !call_key_is_read(key) && keyspace_entry(keyspace, key->handle)->flags & ENTRY_LATCHED) {
        hooks->unlatch(hooks->context, keyspace, key->hash, name);
        key->handle = keyspace_find(keyspace, key->hash, name);
        call->handles_stale = true;
    }
    return true;
}

/* The keys that the handler asked for come after its own arguments and keys from now on. */
void execute_take_asked(struct call *call)
{
    int own = call->own_key_count, first = call->arg_count;
    struct bytes *args = arena_alloc(call->arena, ((size_t)first + (size_t)call->asked_count) * sizeof(*args));
    struct call_key *keys = arena_alloc(call->arena, ((size_t)own + (size_t)call->asked_count) * sizeof(*keys));

    memcpy(args, call->args, (size_t)first * sizeof(*args));
    memcpy(args + first, call->asked, (size_t)call->asked_count * sizeof(*args));
    memcpy(keys, call->keys, (size_t)own * sizeof(*keys));
    for (int i = 0; i < call->asked_count; i++)
        keys[own + i] = (struct call_key){ .arg = first + i, .flags = KEY_RO | KEY_ACCESS,
            .hash = key_hash(&call->partitions->seed, args[first + i]) };
    call->args = args;
    call->keys = keys;
    call->key_count = own + call->asked_count;
    call->key_next = 0;
    call->handles_stale = false;
    call->expired = call->expired_last = NULL;      /* they are in the log */
    call->asks = false;
}

static void resume_cold(struct worker *worker, struct deadline *deadline)
{
    struct client *client = (struct client *)((char *)deadline - offsetof(struct client, cold_wait.deadline));

    worker->host.resume(client);
}

bool execute_ends_cold_wait(struct call *call, struct worker *worker)
{
    struct client *client = call->client;
    struct client_cold_wait *wait = &client->cold_wait;
    int64_t waited_us = client->request.has_waited ? client->request.waited_us[WAIT_COLD] : 0;

    if (waited_us >= wait->max_ms * 1000) {
        parking_give_pins(worker, client);
        reply_errorf(call, "COLD a key of this call is not in memory; it is being loaded");
        return true;
    }
    wait->deadline.at_us = clock_mono_us() + wait->max_ms * 1000 - waited_us;
    wait->deadline.passed = resume_cold;
    deadline_add(worker, &wait->deadline);
    return false;
}
