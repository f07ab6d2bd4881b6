/* The life of a call: find, check, lock, make resident, run, log. */
#include "base/clock.h"
#include "base/mem.h"
#include "engine/blocking.h"
#include "engine/engine.h"
#include "engine/internal.h"
#include "engine/keys.h"
#include "engine/monitor.h"
#include "engine/save.h"
#include "tier/checkpoint.h"

enum {
    PARTITION_WORDS = 64,
    MEMORY_CHECK_WRITES = 64, MEMORY_CHECK_REPLAYED = 8,
    ARGS_SHOWN_MAX = 128,
    BIG_CALL_COLD_KEYS = 512, BIG_CALL_SHARE = 4,
};

/* The partitions a call needs, as a set; locked in ascending order. */
struct partition_set {
    uint64_t words[PARTITION_WORDS];
    bool wide;                      /* `words` is in use: there may be more than one */
    uint32_t single;                /* when there is just one */
    uint32_t count;                 /* keys; 0: none */
};

static void reply_unknown_command(struct call *call)
{
    struct buffer text = { 0 };
    size_t begin;

    buffer_append_format(&text, "ERR unknown command '%.*s', with args beginning with: ",
        (int)(call->args[0].size < ARGS_SHOWN_MAX ? call->args[0].size : ARGS_SHOWN_MAX), call->args[0].data);
    begin = text.size;
    for (int i = 1; i < call->arg_count && text.size - begin < ARGS_SHOWN_MAX; i++) {
        int left = ARGS_SHOWN_MAX - (int)(text.size - begin);

        buffer_append_format(&text, "'%.*s' ", (int)call->args[i].size < left ? (int)call->args[i].size : left, call->args[i].data);
    }
    call->failed = true;
    reply_error_text(call->reply, buffer_bytes(&text));
    buffer_release(&text);
}

static const struct command *find_command(struct call *call)
{
    struct engine *engine = call->engine;
    const struct command *command = command_find(engine->commands, call->args[0]);

    if (command == NULL) {
        reply_unknown_command(call);
        return NULL;
    }
    call->command = command;
    if (command->children != NULL && call->arg_count > 1) {
        const struct command *child = command_find_child(command, call->args[1]);

        if (child == NULL) {
            reply_errorf(call, "ERR unknown subcommand '%.128s'. Try %s HELP.", call_format(call, "%.*s",
                (int)call->args[1].size, call->args[1].data).data, command_upper_name(call, command));
            return NULL;
        }
        call->command = child;
    }
    if ((call->command->arity > 0 && call->command->arity != call->arg_count) || call->arg_count < -call->command->arity ||
        call->command->run == NULL) {
        reply_wrong_arity(call);
        return NULL;
    }
    return call->command;
}

/* A disk does not take what it should: nothing is written, and PING tells it to whoever watches. */
static bool disks_allow(struct call *call, struct aof *aof)
{
    struct engine *engine = call->engine;

    if (!(call->command->flags & COMMAND_WRITE) && strcmp(call->command->name, "ping") != 0)
        return true;
    if (engine->save_failed && save_denies_writes(engine->save)) {
        reply_errorf(call, "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. "
            "Commands that may modify the data set are disabled, because this instance is configured to report errors during "
            "writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details "
            "about the RDB error.");
        return false;
    }
    if (aof != NULL && aof_error(aof) != STATUS_OK) {
        reply_errorf(call, "MISCONF Errors writing to the AOF file: %s", strerror(aof_error_number(aof)));
        return false;
    }
    return true;
}

/* What can be refused before anything is looked at. */
static bool is_allowed(struct call *call)
{
    struct engine *engine = call->engine;
    struct aof *aof = engine->aof;
    uint32_t flags = call->command->flags;

    if (call->client->flags & (CLIENT_REPLAY | CLIENT_PROXY))
        return true;
    if (!call->client->authenticated && !(flags & COMMAND_NO_AUTH)) {
        reply_errorf(call, "NOAUTH Authentication required.");
        return false;
    }
    if (engine->state == ENGINE_LOADING && !(flags & COMMAND_LOADING)) {
        reply_error(call, ERR_NOT_LOADED);
        return false;
    }
    if (__builtin_expect(call->client->flags & CLIENT_MONITOR, 0) && flags & (COMMAND_READONLY | COMMAND_WRITE)) {
        reply_errorf(call, "ERR Replica can't interact with the keyspace");     /* as Redis says it: a monitor is a kind of replica there */
        return false;
    }
    if (__builtin_expect(engine->save_failed || (aof != NULL && aof_error(aof) != STATUS_OK), 0))
        return disks_allow(call, aof);
    return true;
}

/* One key needs no set of words: the hot path does not touch them. */
static void set_init(struct partition_set *set, int key_count)
{
    set->count = 0;
    set->wide = key_count > 1;
    if (set->wide)
        memset(set->words, 0, sizeof(set->words));
}

static void set_add(struct partition_set *set, const struct partitions *all, uint64_t hash)
{
    uint32_t index = partition_index(all, hash);

    if (set->count++ == 0)
        set->single = index;
    if (set->wide)
        set->words[index / 64] |= 1ull << (index % 64);
}

static void set_lock(const struct partition_set *set, struct partitions *all, bool lock)
{
    if (set->count == 1) {
        if (lock)
            partition_lock(&all->partitions[set->single]);
        else
            partition_unlock(&all->partitions[set->single]);
        return;
    }
    for (uint32_t word = 0; word < (all->count + 63) / 64; word++) {
        for (uint64_t bits = set->words[word]; bits != 0; bits &= bits - 1) {
            struct partition *partition = &all->partitions[word * 64 + (uint32_t)__builtin_ctzll(bits)];

            if (lock)
                partition_lock(partition);
            else
                partition_unlock(partition);
        }
    }
}

static bool find_keys(struct call *call, struct worker *worker)
{
    int count;

    call->keys = worker->keys;
    count = command_keys(call->command, call->args, call->arg_count, call->keys, WORKER_KEYS);
    if (count > WORKER_KEYS) {
        call->keys = arena_alloc(call->arena, (size_t)count * sizeof(struct call_key));
        count = command_keys(call->command, call->args, call->arg_count, call->keys, count);
    }
    /* Words that make no sense have no keys: the handler says what is wrong with them. */
    call->key_count = call->own_key_count = count > 0 ? count : 0;
    for (int i = 0; i < call->key_count; i++)
        call->keys[i].hash = hash_bytes(&call->partitions->seed, call->args[call->keys[i].arg]);
    return true;
}

enum residency {
    RESIDENT,
    WAITING,        /* for loads */
    UNREADABLE,
    REAPED,         /* some of a hash's many dead fields were removed: the call starts again from the top, others come in between */
    HELD,           /* a key that is to be changed is needed as it is, and too big to be copied (tier rule 9) */
    QUEUED,         /* another call that needs many cold keys is running (tier rule 7) */
    TOO_BIG,        /* it would need too much memory at once */
    SHORT,          /* a key is to be loaded, and there is no memory for it just now (tier rule 7) */
    FROZEN,         /* the last dump before the end is being taken: no write may come after it */
};

/* The writer is told that somebody waits. */
static bool is_held(struct call *call, struct keyspace *keyspace, const struct call_key *key)
{
    const struct entry *entry = keyspace_entry(keyspace, key->handle);

    if (__builtin_expect(!entry_is_held(keyspace, entry), 1))
        return false;
    /* Reading changes a hash with dead fields: they go first. */
    if ((key->flags & (KEY_RO | KEY_CHANGED)) == KEY_RO &&
        (!entry_has_times(entry) || call->turn->clock_stopped || entry_due_ms(entry) > call->turn->now_ms))
        return false;
    tier_hurry(call->engine->tier, keyspace, key->hash, call->args[key->arg]);
    return true;
}

/* Whoever opens a hash removes its dead fields first, all in one step under the lock. Of very many that takes long, so that they go a
 * step at a time, with the lock given back in between. A hash that is dead as a whole goes as such. */
static bool reap(struct call *call, struct keyspace *keyspace, const struct call_key *key)
{
    const struct entry *entry = keyspace_entry(keyspace, key->handle);
    int64_t death_ms, now_ms = call->turn->now_ms;
    struct value value;

    if (__builtin_expect(!entry_has_times(entry), 1) || call->turn->clock_stopped)
        return false;
    value = entry_value(entry);
    death_ms = entry_death_ms(entry);
    if (!hash_has_many_dead(&value, now_ms, EXPIRE_FIELDS_A_STEP) || (death_ms >= 0 && death_ms <= now_ms))
        return false;
    turn_count(call->turn, STAT_EXPIRED_FIELDS, engine_expire_fields(call->engine, keyspace, key->hash, key->handle, now_ms));
    return true;
}

/* Tier rule 7: a call may pin a small share of the budget. One that needs more takes the one big-call token first, and one that
 * needs too much is told so, before anything is pinned. */
static enum residency weigh(struct call *call)
{
    struct engine *engine = call->engine;
    int64_t limit = config_number(engine->config, CONFIG_MAXMEMORY);
    uint64_t cold = 0, needed;
    struct client *free_token = NULL;

    for (int i = 0; i < call->key_count; i++) {
        const struct call_key *key = &call->keys[i];
        struct keyspace *keyspace =
            partition_keyspace_if(&call->partitions->partitions[partition_index(call->partitions, key->hash)], call->db);

        if (keyspace != NULL && !(key->flags & (KEY_OW | KEY_NOT_KEY)) &&
            keyspace_find(keyspace, key->hash, call->args[key->arg]) == 0 &&
            tier_may_be_cold(engine->tier, keyspace, key->hash, call->args[key->arg]))
            cold++;
    }
    if (cold < BIG_CALL_COLD_KEYS || engine->big_client == call->client)
        return RESIDENT;
    needed = cold * tier_record_size(engine->tier);
    if (limit > 0 && needed > (uint64_t)limit / BIG_CALL_SHARE) {
        reply_errorf(call, "ERR this call needs about %llu bytes of cold keys in RAM at once, more than a quarter of maxmemory; "
            "ask for fewer keys", (unsigned long long)needed);
        return TOO_BIG;
    }
    return atomic_compare_exchange_strong(&engine->big_client, &free_token, call->client) ? RESIDENT : QUEUED;
}

/* A load needs memory, too. Whoever has pins already goes on: nobody waits for memory while holding them. */
static bool lacks_memory(struct call *call, struct keyspace *keyspace, const struct call_key *key)
{
    struct engine *engine = call->engine;

    if (__builtin_expect(!call->turn->over_memory, 1) || call->client->waits != NULL)
        return false;
    if (!tier_may_be_cold(engine->tier, keyspace, key->hash, call->args[key->arg]))
        return false;
    call->turn->over_memory = engine_memory_is_short(engine);
    return call->turn->over_memory && engine_may_wait_for_memory(engine);
}

/* A proxy waits for nothing: what is cold is loaded in place (tier rule 8), what is latched is copied (rule 9). False: it can't be read.
 * The key may be another argument, too, which was looked up before and only overwrites it: what was found for that holds no longer. */
static bool make_resident(struct call *call, struct keyspace *keyspace, struct call_key *key)
{
    const struct key_hooks *hooks = call->turn->hooks;
    struct bytes name = call->args[key->arg];

    if (key->handle == 0) {
        if (!hooks->load_in_place(hooks->context, keyspace, key->hash, name))
            return false;
        key->handle = keyspace_find(keyspace, key->hash, name);
        call->handles_stale = true;
    }
    if (key->handle != 0 && (key->flags & (KEY_RO | KEY_CHANGED)) != KEY_RO && keyspace_entry(keyspace, key->handle)->flags & ENTRY_LATCHED) {
        hooks->unlatch(hooks->context, keyspace, key->hash, name);
        key->handle = keyspace_find(keyspace, key->hash, name);
        call->handles_stale = true;
    }
    return true;
}

/* With the partitions locked: finds each key's entry, and asks the tier for those that may be away. A key that is only
 * overwritten needs nothing from there. */
static enum residency look_up(struct call *call, struct worker *worker)
{
    enum residency result = RESIDENT;
    struct tier *tier = call->engine->tier;

    for (int i = 0; i < call->key_count; i++) {
        struct call_key *key = &call->keys[i];
        struct partition *partition = &call->partitions->partitions[partition_index(call->partitions, key->hash)];
        struct keyspace *keyspace = partition_keyspace_if(partition, call->db);

        key->handle = 0;
        if (partition->last_lsn > call->turn->lsn_seen)
            call->turn->lsn_seen = partition->last_lsn;
        if (partition->last_lsn > call->client->lsn_needed)
            call->client->lsn_needed = partition->last_lsn;
        if (keyspace == NULL)
            continue;
        key->handle = keyspace_find(keyspace, key->hash, call->args[key->arg]);
        if (__builtin_expect(call->client->flags & CLIENT_PROXY, 0)) {
            if (!make_resident(call, keyspace, key))
                return UNREADABLE;
            continue;
        }
        if (key->handle != 0 && is_held(call, keyspace, key))
            return HELD;
        if (key->handle != 0 && reap(call, keyspace, key))
            return REAPED;
        if (key->handle != 0 || tier == NULL || key->flags & KEY_NOT_KEY || (key->flags & (KEY_OW | KEY_RESIDENT)) == KEY_OW)
            continue;
        if (call->client->flags & CLIENT_REPLAY) {
            if (tier_is_loading(tier, keyspace, key->hash, call->args[key->arg])) {
                result = WAITING;       /* it was seen ahead (replay.c), and is on its way */
                continue;
            }
            if (tier_load_in_place(tier, keyspace, key->hash, call->args[key->arg]) != STATUS_OK)
                return UNREADABLE;
            key->handle = keyspace_find(keyspace, key->hash, call->args[key->arg]);
            call->handles_stale = true;         /* as in make_resident */
            continue;
        }
        if (lacks_memory(call, keyspace, key))
            return SHORT;
        switch (tier_want(tier, keyspace, key->hash, call->args[key->arg], call->client, &worker->loads)) {
        case TIER_ABSENT:
            break;
        case TIER_WAIT:
            result = WAITING;
            break;
        case TIER_FAILED:
            return UNREADABLE;
        }
    }
    return result;
}

/* Several commands in place of one are replayed all or none. */
static uint64_t log_list(struct aof *aof, const struct propagation *list)
{
    struct aof_group group;
    uint64_t lsn;

    if (list->next == NULL)
        return aof_append(aof, list->db, list->args, list->arg_count);
    aof_group_init(&group);
    for (; list != NULL; list = list->next)
        aof_group_add(&group, list->db, list->args, list->arg_count);
    lsn = aof_append_group(aof, &group);
    aof_group_release(&group);
    return lsn;
}

/* With the partitions still locked, so that the log's order is an order of execution. */
static void propagate(struct call *call, const struct partition_set *set, bool exclusive)
{
    struct partitions *all = call->partitions;
    uint64_t lsn = 0;

    if (call->engine->aof == NULL || call->client->flags & CLIENT_REPLAY)
        return;
    if (call->expired != NULL)
        lsn = log_list(call->engine->aof, call->expired);
    if (call->change_count > 0 && !call->propagate_nothing) {
        if (call->first != NULL)
            lsn = log_list(call->engine->aof, call->first);
        else
            lsn = aof_append(call->engine->aof, call->db, call->args, call->arg_count);
    }
    if (lsn == 0)
        return;
    call->turn->lsn_seen = lsn;
    call->client->lsn_needed = lsn;
    call->client->lsn_written = lsn;
    if (set->count == 1 && !exclusive) {
        all->partitions[set->single].last_lsn = lsn;
        return;
    }
    for (uint32_t i = 0; i < all->count; i++) {
        if (exclusive || (set->wide && set->words[i / 64] >> (i % 64) & 1))
            all->partitions[i].last_lsn = lsn;
    }
}

/* Nobody holds pins while he waits here: he starts from the top, and loads again what has gone by then (tier rule 7). */
static void park_for_memory(struct call *call, struct worker *worker)
{
    if (call->client->waits != NULL) {
        tier_submit(call->engine->tier, &worker->loads);
        tier_release(call->engine->tier, call->client);
    }
    worker_park_for_memory(worker, call->client);
    call->parked = true;
}

/* Old values that a checkpoint still has to write take memory, too: changes wait until some are written. */
static bool wait_for_reserve(struct call *call, struct worker *worker)
{
    struct engine *engine = call->engine;

    if (!(call->command->flags & COMMAND_WRITE) || call->command->flags & COMMAND_EXCLUSIVE || call->client->flags & CLIENT_REPLAY)
        return true;
    call->turn->over_reserve = engine_reserve_is_used_up(engine);
    if (!call->turn->over_reserve)
        return true;
    turn_count(call->turn, STAT_THROTTLED, 1);
    park_for_memory(call, worker);
    tier_nudge(engine->tier);
    return false;
}

/* Memory first, pins later (tier rule 7). True if the call may go on. */
static bool pass_memory_gate(struct call *call, struct worker *worker)
{
    struct engine *engine = call->engine;
    bool is_replay = call->client->flags & CLIENT_REPLAY;

    if (call->client->flags & CLIENT_PROXY || (!(call->command->flags & (COMMAND_DENYOOM | COMMAND_WRITE)) && call->key_count == 0))
        return true;
    if (++worker->writes_since_check >= (is_replay ? MEMORY_CHECK_REPLAYED : MEMORY_CHECK_WRITES)) {
        worker->writes_since_check = 0;
        call->turn->over_memory = engine_memory_is_short(engine);
        call->turn->over_reserve = engine_reserve_is_used_up(engine);
    }
    if (__builtin_expect(call->turn->over_reserve, 0) && !wait_for_reserve(call, worker))
        return false;
    if (__builtin_expect(!call->turn->over_memory, 1) || (!(call->command->flags & COMMAND_DENYOOM) && !is_replay))
        return true;
    call->turn->over_memory = engine_memory_is_short(engine);
    if (!call->turn->over_memory)
        return true;
    if (is_replay) {
        engine_wait_for_memory(engine);     /* whatever it is: its keys may have to be loaded */
        return true;
    }
    if (engine_may_wait_for_memory(engine)) {
        turn_count(call->turn, STAT_THROTTLED, 1);
        park_for_memory(call, worker);
        tier_nudge(engine->tier);
        return false;
    }
    if (engine_evict(engine, worker, call)) {
        call->turn->over_memory = false;
        return true;
    }
    reply_error(call, ERR_OOM);
    return false;
}

static bool is_paused(struct call *call)
{
    struct engine *engine = call->engine;
    int64_t until = engine->pause_until_ms;

    if (__builtin_expect(until == 0, 1))
        return false;
    if (call->turn->now_ms >= until || call->client->flags & (CLIENT_REPLAY | CLIENT_PROXY))
        return false;
    if (engine->pause_writes_only && !(call->command->flags & COMMAND_WRITE))
        return false;
    return bytes_of_string(call->command->name).size < 6 || memcmp(call->command->name, "client", 6) != 0;
}

/* What the handler asked for stands behind its own arguments and keys from now on. */
static void take_asked_keys(struct call *call)
{
    int own = call->own_key_count, first = call->arg_count;
    struct bytes *args = arena_alloc(call->arena, ((size_t)first + (size_t)call->asked_count) * sizeof(*args));
    struct call_key *keys = arena_alloc(call->arena, ((size_t)own + (size_t)call->asked_count) * sizeof(*keys));

    memcpy(args, call->args, (size_t)first * sizeof(*args));
    memcpy(args + first, call->asked, (size_t)call->asked_count * sizeof(*args));
    memcpy(keys, call->keys, (size_t)own * sizeof(*keys));
    for (int i = 0; i < call->asked_count; i++)
        keys[own + i] = (struct call_key){ .arg = first + i, .flags = KEY_RO | KEY_ACCESS,
            .hash = hash_bytes(&call->partitions->seed, args[first + i]) };
    call->args = args;
    call->keys = keys;
    call->key_count = own + call->asked_count;
    call->key_next = 0;
    call->handles_stale = false;
    call->expired = call->expired_last = NULL;      /* they are in the log */
    call->asks = false;
}

static void lock_keys(struct call *call, const struct partition_set *set, bool lock)
{
    bool exclusive = call->command->flags & COMMAND_EXCLUSIVE;

    if (exclusive && lock)
        partitions_lock_all(call->partitions);
    else if (exclusive)
        partitions_unlock_all(call->partitions);
    else if (call->key_count > 0)
        set_lock(set, call->partitions, lock);
}

/* Another worker's call has changed a key hereabouts that somebody waits for, who is still to be served. */
static bool is_promised(const struct call *call, const struct worker *worker, const struct partition_set *set)
{
    if (__builtin_expect(atomic_load_explicit(&call->engine->promise_count, memory_order_relaxed) == 0, 1))
        return false;
    /* Who serves, or will serve what it has noted itself, must not wait for it. */
    if (call->client->flags & CLIENT_PROXY || worker->noted_first != NULL)
        return false;
    if (call->command->flags & COMMAND_EXCLUSIVE)
        return true;
    if (set->count == 1)
        return blocking_is_promised(call->engine, set->single);
    for (uint32_t i = 0; i < call->partitions->count && set->count > 0; i++) {
        if (set->words[i / 64] >> (i % 64) & 1 && blocking_is_promised(call->engine, i))
            return true;
    }
    return false;
}

static void run_once(struct call *call, struct worker *worker, bool *parked)
{
    bool exclusive = call->command->flags & COMMAND_EXCLUSIVE;
    struct partition_set set;
    enum residency residency = RESIDENT;
    bool must_queue;

    set_init(&set, call->key_count);
    for (int i = 0; i < call->key_count && !exclusive; i++)
        set_add(&set, call->partitions, call->keys[i].hash);
    lock_keys(call, &set, true);
    while (is_promised(call, worker, &set)) {
        lock_keys(call, &set, false);
        blocking_let_serve(call->engine);
        lock_keys(call, &set, true);
    }
    if (__builtin_expect(atomic_load_explicit(&call->engine->frozen, memory_order_relaxed), 0) &&
        call->command->flags & COMMAND_WRITE && !(call->client->flags & CLIENT_REPLAY))
        residency = FROZEN;
    if (residency == RESIDENT && call->key_count >= BIG_CALL_COLD_KEYS && call->engine->tier != NULL &&
        !(call->client->flags & (CLIENT_REPLAY | CLIENT_PROXY)))
        residency = weigh(call);
    /* No load can end before the locks are given back, so nobody is woken too early. */
    if (call->key_count > 0 && residency == RESIDENT)
        residency = look_up(call, worker);
    if (residency == RESIDENT)
        call->command->run(call);
    else if (residency == UNREADABLE)
        reply_error(call, ERR_TIER_READ);
    if (residency == RESIDENT && (call->change_count > 0 || call->expired != NULL))
        propagate(call, &set, exclusive);
    if (call->wait != NULL && !(call->client->flags & CLIENT_PROXY))
        blocking_register(call, worker);
    lock_keys(call, &set, false);
    must_queue = residency == HELD || residency == QUEUED || residency == SHORT || residency == FROZEN;
    if (must_queue && call->client->flags & CLIENT_PROXY)
        call->client->flags |= CLIENT_HELD_BACK;
    else if (must_queue && !(call->client->flags & CLIENT_REPLAY))
        park_for_memory(call, worker);
    if (residency == SHORT) {
        turn_count(call->turn, STAT_THROTTLED, 1);
        tier_nudge(call->engine->tier);
    }
    if (residency == REAPED)
        worker_wake(worker, call->client);
    *parked = call->parked || must_queue || residency == WAITING || residency == REAPED || call->wait != NULL;
}

/* A handler that asks for more keys is run again with them: tier rule 8, for nothing was changed yet. */
static void run_locked(struct call *call, struct worker *worker, bool *parked)
{
    run_once(call, worker, parked);
    while (call->asks) {
        take_asked_keys(call);
        run_once(call, worker, parked);
    }
}

static void finish_call(struct call *call, struct worker *worker, int64_t started_ns)
{
    struct command_stats *stats = command_stats_of(call->engine->commands, call->command);
    int64_t now_ns = clock_mono_ns(), taken_ns = now_ns - started_ns;

    worker->clock_ns = now_ns;
    atomic_fetch_add_explicit(&stats->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&stats->nsec, (uint64_t)taken_ns, memory_order_relaxed);
    command_note_latency(stats, taken_ns);
    if (call->failed)
        atomic_fetch_add_explicit(&stats->failed, 1, memory_order_relaxed);
    engine_note_call(call, taken_ns / 1000);
}

static void note_rejected(struct call *call)
{
    if (call->command != NULL)
        atomic_fetch_add_explicit(&command_stats_of(call->engine->commands, call->command)->rejected, 1, memory_order_relaxed);
    engine_note_error(call);
}

/* CLIENT REPLY OFF and SKIP. */
static void drop_unwanted_reply(struct call *call)
{
    struct client *client = call->client;

    if (client->flags & (CLIENT_REPLY_OFF | CLIENT_REPLY_SKIP))
        client->reply.out.size = call->reply_start;
    client->flags &= (uint32_t)~CLIENT_REPLY_SKIP;
    if (client->flags & CLIENT_REPLY_SKIP_NEXT) {
        client->flags &= (uint32_t)~CLIENT_REPLY_SKIP_NEXT;
        client->flags |= CLIENT_REPLY_SKIP;
    }
}

static void end_waiting(struct engine *engine, struct client *client)
{
    if (client->waits != NULL)
        tier_release(engine->tier, client);
    if (client->job != NULL)
        job_forget(engine->jobs, client);
    engine_end_big_call(engine, client);
}

/* The request of a client that waits for a key is run again: it has been served meanwhile, or its time is up. */
static enum run_result end_blocking(struct call *call, struct worker *worker)
{
    struct client *client = call->client;

    if (!blocking_is_over(client->waiter))
        return RUN_PARKED;
    client->parked = false;
    atomic_fetch_sub_explicit(&call->engine->blocked_count, 1, memory_order_relaxed);
    blocking_take_reply(worker, client);
    client->commands++;
    drop_unwanted_reply(call);
    return RUN_DONE;
}

/* What has run, or begins to wait for a key, is told. */
static void tell_monitors(struct call *call, struct worker *worker)
{
    if (__builtin_expect(atomic_load_explicit(&call->engine->monitor_count, memory_order_relaxed) > 0, 0))
        monitor_tell(call, worker);
}

/* What the call changed is served now, before anything else that its client has asked for. */
static void serve_waiters(struct worker *worker, const struct client *client)
{
    if (__builtin_expect(worker->noted_first != NULL, 0) && !(client->flags & CLIENT_PROXY))
        blocking_serve(worker);
}

enum run_result engine_run(struct worker *worker, struct client *client, const struct bytes *args, int arg_count)
{
    struct engine *engine = worker->engine;
    struct call call = {
        .engine = engine,
        .partitions = engine->partitions,
        .turn = &worker->turn,
        .client = client,
        .reply = &client->reply,
        .args = args,
        .arg_count = arg_count,
        .db = client->db,
        .arena = &worker->arena,
        .reply_start = client->reply.out.size,
    };
    int64_t started_ns;
    bool parked = false, ran = false, was_parked = client->parked;

    if (client->waiter != NULL)
        return end_blocking(&call, worker);
    if (was_parked) {
        client->parked = false;
        atomic_fetch_sub_explicit(&engine->blocked_count, 1, memory_order_relaxed);
    }
    /* The time of the call, not of the turn: a turn may be long, and a key must not expire early. */
    started_ns = worker->clock_ns != 0 ? worker->clock_ns : clock_mono_ns();
    if (!was_parked)
        client->began_us = started_ns / 1000;
    worker->turn.now_ms = (started_ns + worker->wall_offset_ns) / 1000000;
    arena_reset(&worker->arena);
    if (find_command(&call) == NULL || !is_allowed(&call)) {
        note_rejected(&call);
        drop_unwanted_reply(&call);
        end_waiting(engine, client);
        return RUN_DONE;
    }
    client->last_command = call.command;
    if (call.command->keys != NULL)
        find_keys(&call, worker);
    if (is_paused(&call)) {
        park_for_memory(&call, worker);     /* the cron lets them go on */
        parked = true;
    } else if (!pass_memory_gate(&call, worker)) {
        parked = call.parked;
        if (!parked)
            note_rejected(&call);
    } else {
        run_locked(&call, worker, &parked);
        ran = !parked;
        if (ran) {
            finish_call(&call, worker, started_ns);
            turn_count(&worker->turn, STAT_COMMANDS, 1);
            client->commands++;
            if (call.change_count > 0)
                atomic_fetch_add_explicit(&engine->dirty, call.change_count, memory_order_relaxed);
        }
    }
    if (parked) {
        CHECK(client->reply.out.size == call.reply_start && (call.change_count == 0 || call.wait != NULL));    /* tier rule 8 */
        if (call.change_count > 0)
            atomic_fetch_add_explicit(&engine->dirty, call.change_count, memory_order_relaxed);
        if (client->flags & CLIENT_PROXY)
            return RUN_PARKED;
        if (client->waiter != NULL)
            end_waiting(engine, client);        /* what it had loaded need not stay until somebody comes */
        if (client->waiter != NULL)
            tell_monitors(&call, worker);
        client->parked = true;
        atomic_fetch_add_explicit(&engine->blocked_count, 1, memory_order_relaxed);
        serve_waiters(worker, client);      /* of a key that was found to have expired */
        return RUN_PARKED;
    }
    drop_unwanted_reply(&call);
    end_waiting(engine, client);
    if (ran)
        tell_monitors(&call, worker);
    serve_waiters(worker, client);
    return RUN_DONE;
}

void engine_prefetch(struct worker *worker, const struct client *client, const struct bytes *args, int arg_count, int stage)
{
    struct engine *engine = worker->engine;
    struct partition *partition;
    struct keyspace *keyspace;
    uint64_t hash;

    if (arg_count < 2)
        return;
    hash = hash_bytes(&engine->partitions->seed, args[1]);
    partition = &engine->partitions->partitions[partition_index(engine->partitions, hash)];
    partition_lock(partition);
    keyspace = partition_keyspace_if(partition, client->db);
    if (keyspace != NULL) {
        if (stage == 0)
            table_prefetch_bucket(&keyspace->table, hash);
        else
            table_prefetch_entry(&keyspace->table, hash);
    }
    partition_unlock(partition);
}
