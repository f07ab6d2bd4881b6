/* Plan of a unit: what a request needs before it runs as one: the partitions of the keys that are known in advance, and those of these keys
 * that are cold. */
#include "base/mem.h"
#include "call/command_keys.h"
#include "engine/pace.h"
#include "engine/redirect.h"
#include "engine/transaction.h"
#include "engine/unit_private.h"
#include "engine/watch.h"

enum {
    KEYS_ON_STACK = 32,
    LOADS_A_ROUND = 64,             /* keys that are loaded together */
    PINNED_SHARE = 4,               /* of maxmemory that the keys of one transaction may take */
};

bool unit_may_exec(struct call *call)
{
    struct client *client = call->client;
    struct transaction *transaction = client->transaction;

    if (!(client->flags & CLIENT_MULTI)) {
        reply_errorf(call, "ERR EXEC without MULTI");
        return false;
    }
    if (transaction->has_failed) {
        reply_errorf(call, "EXECABORT Transaction discarded because of previous errors.");
    } else if (transaction->is_broken) {
        reply_null_array(call->reply);
    } else {
        return true;
    }
    transaction_end(client);
    return false;
}

static const struct transaction *transaction_of_call(const struct call *call)
{
    return call->command->flags & COMMAND_RUNS_QUEUE ? call->client->transaction : NULL;
}

uint32_t unit_flags(const struct call *call)
{
    const struct transaction *transaction = transaction_of_call(call);

    return transaction != NULL ? transaction->flags : call->command->flags;
}

bool unit_may_write(const struct unit *unit)
{
    const struct transaction *transaction = unit->command->flags & COMMAND_RUNS_QUEUE ? unit->client->transaction : NULL;
    uint32_t flags = transaction != NULL ? transaction->flags : unit->command->flags;

    return flags & (COMMAND_WRITE | COMMAND_MAY_REPLICATE) && !unit->start.reads_only;
}

/* The keys of one command. */
static bool visit_command(const struct partitions *all, const struct command *command, const struct bytes *args, int arg_count, int db,
    visit_key *visit, void *context)
{
    struct call_key on_stack[KEYS_ON_STACK], *keys = on_stack;
    int count, other_db = command_named_db(command, args, arg_count);
    bool goes_on = true, changes_db = other_db >= 0 && other_db != db;

    if (command->keys == NULL)
        return true;
    count = command_keys(command, args, arg_count, keys, KEYS_ON_STACK);
    if (count > KEYS_ON_STACK) {
        keys = mem_alloc((size_t)count * sizeof(*keys));
        count = command_keys(command, args, arg_count, keys, count);
    }
    for (int i = 0; i < count && goes_on; i++) {
        struct planned planned = { .db = db, .name = args[keys[i].arg], .flags = keys[i].flags, .is_hint = command->flags & COMMAND_UNIT,
            .changes_db = changes_db };

        planned.hash = key_hash(&all->seed, planned.name);
        goes_on = visit(context, &planned);
    }
    if (keys != on_stack)
        mem_free(keys);
    return goes_on;
}

/* The database that a queued SELECT goes to. One that fails changes nothing. */
static int selected_db(const struct partitions *all, const struct queued *queued, int db)
{
    int64_t number;

    if (strcmp(queued->command->name, "select") != 0 || queued->arg_count != 2 || !text_to_int(queued->args[1], &number))
        return db;
    return number >= 0 && number < all->db_count ? (int)number : db;
}

/* A script's declared keys are a hint: the first of them are loaded, the others when they are used. */
static bool needs_all_loaded(const struct call *call)
{
    return call->command->flags & (COMMAND_RUNS_QUEUE | COMMAND_OWNS_KEYS);
}

/* A script's request: its keys were found before. */
static void visit_found(const struct call *call, visit_key *visit, void *context)
{
    for (int i = 0; i < call->key_count; i++) {
        const struct call_key *key = &call->keys[i];
        struct planned planned = { call->client->db, call->args[key->arg], key->hash, key->flags, !needs_all_loaded(call), false };

        if (!visit(context, &planned))
            return;
    }
}

void unit_visit_keys(const struct call *call, visit_key *visit, void *context)
{
    const struct partitions *all = call->partitions;
    const struct transaction *transaction = transaction_of_call(call);
    int db = call->client->db;

    if (transaction == NULL) {
        visit_found(call, visit, context);
        return;
    }
    for (int i = 0; i < transaction->count; i++) {
        const struct queued *queued = &transaction->queue[i];

        if (!visit_command(all, queued->command, queued->args, queued->arg_count, db, visit, context))
            return;
        db = selected_db(all, queued, db);
    }
}

int unit_queued_db(const struct call *call)
{
    const struct transaction *transaction = call->client->transaction;
    int db = call->client->db;

    for (int i = 0; transaction != NULL && i < transaction->count; i++)
        db = selected_db(call->partitions, &transaction->queue[i], db);
    return db;
}

struct wanting {
    const struct partitions *all;
    struct partition_bits *bits;
};

static bool want_key(void *context, const struct planned *key)
{
    struct wanting *wanting = context;

    partition_bits_add(wanting->bits, partition_index(wanting->all, key->hash));
    return true;
}

/* Returns whether the calls of the unit may need keys that are not known in advance, or all of them. */
static bool needs_all(const struct call *call)
{
    return unit_flags(call) & (COMMAND_EXCLUSIVE | COMMAND_WHOLE) ||
           (call->command->flags & COMMAND_RUNS_QUEUE && unit_flags(call) & COMMAND_UNIT);
}

void unit_want(struct unit *unit, struct call *call)
{
    struct wanting wanting = { call->partitions, &unit->claim.wanted };

    if (call->client->caller & TRAIT_CLAIMS_NOTHING) {
        unit->owns_all = true;          /* by its thread: there is nothing to claim */
        return;
    }
    if (needs_all(call)) {
        partition_bits_fill(&unit->claim.wanted, call->partitions->count);
        unit->owns_all = true;
        return;
    }
    unit_visit_keys(call, want_key, &wanting);
    if (call->command->flags & COMMAND_RUNS_QUEUE)
        watch_add_partitions(call->client, &unit->claim.wanted);
    else if (call->command->flags & COMMAND_UNIT)       /* in a cluster the keys that it declares are all it may need */
        unit->claim.wants_token = !unit->start.reads_only && (call->engine->redirect == NULL || call->key_count == 0);
}

struct loading {
    struct call *call;
    struct worker *worker;
    int seen, posted, promoted;
    uint64_t posted_bytes, pinned_bytes, limit;     /* 0: no limit */
    enum tier_purpose purpose;
    enum unit_loading result;
};

/* Whether a key that can't be read is needed: not one that is only deleted, nor one that a script may never use. */
static bool is_needed(const struct loading *loading, struct keyspace *keyspace, const struct planned *key)
{
    keyspace_assert_locked(keyspace);
    return !key->is_hint && !(key->flags & KEY_RM && tier_is_damaged(loading->call->engine->tier, keyspace, key->hash, key->name));
}

static void note_pinned(struct loading *loading, const struct keyspace *keyspace, uint32_t handle)
{
    const struct entry *entry = keyspace_entry(keyspace, handle);
    struct value value = entry_value(entry);

    if (entry->flags & ENTRY_PINNED)
        loading->pinned_bytes += value_memory(&value, 5);
}

/* With the partition locked. */
static void load_key(struct loading *loading, struct keyspace *keyspace, const struct planned *key)
{
    struct call *call = loading->call;
    uint32_t handle = keyspace_find(keyspace, key->hash, key->name);
    uint64_t size;

    keyspace_assert_locked(keyspace);

    if (handle != 0) {
        note_pinned(loading, keyspace, handle);
        return;
    }
    size = tier_load_size(call->engine->tier, keyspace, key->hash, key->name);
    switch (tier_load(call->engine->tier, keyspace, key->hash, key->name, loading->purpose, call->client, loading->worker->reader)) {
    case TIER_ABSENT:
        return;
    case TIER_PROMOTED:
        loading->promoted++;
        note_pinned(loading, keyspace, keyspace_find(keyspace, key->hash, key->name));
        return;
    case TIER_WAIT:
        loading->posted++;
        loading->posted_bytes += size;
        loading->result = UNIT_IS_LOADING;
        return;
    case TIER_FAILED:
        if (is_needed(loading, keyspace, key))
            loading->result = UNIT_CANT_LOAD;
        return;
    }
}

static bool visit_load(void *context, const struct planned *key)
{
    struct loading *loading = context;
    struct call *call = loading->call;
    struct partitions *all = call->partitions;
    struct partition *partition = &all->partitions[partition_index(all, key->hash)];
    struct keyspace *keyspace;

    if (loading->seen++ >= LOADS_A_ROUND && !needs_all_loaded(loading->call))
        return false;
    if (key->flags & KEY_NOT_KEY)
        return true;
    if ((key->flags & (KEY_OW | KEY_RESIDENT)) == KEY_OW &&
        (call->engine->redirect == NULL || !redirect_needs_existence(call->engine->redirect, key->hash)))
        return true;
    partition_lock(partition);
    keyspace = partition_keyspace_if(partition, key->db);
    if (keyspace != NULL)
        load_key(loading, keyspace, key);
    partition_unlock(partition);
    if (loading->limit > 0 && loading->posted_bytes + loading->pinned_bytes > loading->limit && loading->posted + loading->promoted > 0)
        return false;
    return loading->posted < LOADS_A_ROUND && loading->result != UNIT_CANT_LOAD;
}

/* One key that is as large can be read by other commands, too. */
static bool is_too_much(const struct loading *loading)
{
    bool is_transaction = loading->call->command->flags & COMMAND_RUNS_QUEUE;

    return loading->limit > 0 && loading->pinned_bytes > loading->limit && needs_all_loaded(loading->call) &&
           (is_transaction || loading->seen > 1);
}

enum unit_loading unit_load(struct call *call, struct worker *worker)
{
    /* Keys that MIGRATE sends away are to stay cold here if they are not deleted. */
    enum tier_purpose purpose = call->command->flags & COMMAND_OWNS_KEYS ? TIER_TO_LOOK : TIER_TO_USE;
    struct loading loading = { .call = call, .worker = worker, .purpose = purpose, .result = UNIT_IS_RESIDENT };

    loading.limit = (uint64_t)config_number(call->engine->config, CONFIG_MAXMEMORY) / PINNED_SHARE;
    if (call->engine->tier == NULL || call->command->flags & COMMAND_EXCLUSIVE || call->client->caller & TRAIT_CLAIMS_NOTHING)
        return UNIT_IS_RESIDENT;        /* what a replay needs has been asked for ahead, or is loaded in place */
    unit_visit_keys(call, visit_load, &loading);
    pace_note_loads(worker, loading.posted_bytes);
    if (worker->turn.memory_fill >= 0)
        pace_charge(call->engine, loading.posted_bytes);
    if (loading.result == UNIT_CANT_LOAD) {
        reply_error(call, ERR_TIER_READ);
    } else if (is_too_much(&loading)) {
        loading.result = UNIT_CANT_LOAD;
        reply_errorf(call, "ERR the cold keys of this %s need more than a quarter of maxmemory at once",
            call->command->flags & COMMAND_RUNS_QUEUE ? "transaction" : "call");
    }
    return loading.result;
}
