#include "engine/redirect.h"

#include "base/mem.h"
#include "call/command_keys.h"
#include "engine/blocking.h"
#include "engine/delivery.h"
#include "engine/engine.h"
#include "engine/parking.h"
#include "engine/script_run.h"
#include "engine/transaction.h"
#include "engine/unit_private.h"

struct redirect *redirect_create(redirect_address *address, void *context)
{
    struct redirect *redirect = mem_zalloc(sizeof(*redirect));

    redirect->address = address;
    redirect->context = context;
    redirect->is_down = true;
    return redirect;
}

void redirect_destroy(struct redirect *redirect) { mem_free(redirect); }

static bool is_channel_served(void *context, struct bytes name)
{
    const struct engine *engine = context;

    return redirect_state(engine->redirect, key_hash(&engine->partitions->seed, name)) >= SLOT_OF_PRIMARY;
}

/* On each worker. */
static void end_shard_channels(struct mail *mail, struct worker *worker)
{
    mem_free(mail);
    for (struct client *client = worker->clients, *next; client != NULL; client = next) {
        next = client->next;
        delivery_end_shards(client, is_channel_served, worker->engine);
    }
}

static void post_to_all(struct engine *engine, void (*run)(struct mail *mail, struct worker *worker))
{
    for (int i = 0; i < engine->worker_count; i++) {
        struct mail *mail = mem_alloc(sizeof(*mail));

        *mail = (struct mail){ .run = run };
        mailbox_post(&engine->workers[i]->mailbox, mail);
    }
}

struct state_changes {
    bool has_lost, was_held;
};

/* The first place in [place, end) whose state is another one; none: `end`. States are set by this thread only. */
static unsigned next_change(const struct redirect *redirect, const struct slot_states *states, unsigned place, unsigned end)
{
    while (place < end && redirect_state(redirect, (uint64_t)place << SLOT_SHIFT) == states->states[slot_reverse((uint16_t)place)])
        place++;
    return place;
}

/* With their partition locked. */
static void set_places(struct redirect *redirect, const struct slot_states *states, unsigned first, unsigned end, struct state_changes *changes)
{
    for (unsigned place = next_change(redirect, states, first, end); place < end; place = next_change(redirect, states, place + 1, end)) {
        enum slot_state was = redirect_state(redirect, (uint64_t)place << SLOT_SHIFT);
        enum slot_state now = (enum slot_state)states->states[slot_reverse((uint16_t)place)];

        changes->has_lost |= now < SLOT_OWNED && was >= SLOT_OF_PRIMARY;
        changes->was_held |= slot_state_is_held(was);       /* also if it still is: reads go on when it is known that the slot was not taken */
        redirect->states[place] = (uint8_t)now;
    }
}

/* Down is said before any slot changes, and up after all have. Then all partitions are locked, one after the other: a call that still finds the cluster up under its locks
 * waits in a queue by the end. Else only those with a slot that changes are. */
void redirect_set(struct engine *engine, const struct slot_states *states)
{
    struct redirect *redirect = engine->redirect;
    struct partitions *all = engine->partitions;
    bool goes_down = states->is_down && !redirect->is_down, locks_all = goes_down || redirect->receipt != states->receipt;
    struct state_changes changes = { .has_lost = goes_down };
    unsigned count = partition_slot_count(all);

    redirect->receipt = states->receipt;
    if (goes_down)
        redirect->is_down = true;
    for (uint32_t i = 0; i < all->count; i++) {
        unsigned first = i * count, end = first + count, changed = next_change(redirect, states, first, end);

        if (changed == end && !locks_all)
            continue;
        partition_lock(&all->partitions[i]);
        set_places(redirect, states, changed, end, &changes);
        partition_unlock(&all->partitions[i]);
    }
    redirect->is_down = states->is_down;
    if (changes.was_held)
        parking_notify(engine, PARKED_FOR_PAUSE);
    if (!changes.has_lost)
        return;
    blocking_judge_again(engine);
    post_to_all(engine, end_shard_channels);
}

enum verdict { RUNS, WAITS, UNBOUND, CROSSES, DOWN, DOWN_FOR_WRITES, UNSTABLE, ASK, MOVED };

/* The keys of a call, or of all calls of a transaction. */
struct look {
    const struct redirect *redirect;
    int count;
    uint64_t hash;                      /* of the first one */
    struct bytes name;                  /* the same */
    bool crosses, is_channel, has_others;       /* has_others: than the first */
    bool changes_db;                    /* of a transaction: one of its commands does */
    int here, missing;                  /* if it was looked for them */
};

static void look_at(struct look *look, uint64_t hash, struct bytes name, uint32_t flags)
{
    if (look->count++ == 0) {
        look->hash = hash;
        look->name = name;
        look->is_channel = flags & KEY_NOT_KEY;
        return;
    }
    look->crosses |= (look->hash ^ hash) >> SLOT_SHIFT != 0;
    look->has_others |= !bytes_equal(look->name, name);
}

static bool is_migrate(const struct call *call) { return call->command->flags & COMMAND_OWNS_KEYS; }

static bool runs_queue(const struct call *call) { return call->command->flags & COMMAND_RUNS_QUEUE; }

/* Returns the flags of all that the call runs; scripts by what they declare. */
static uint32_t flags_of(const struct call *call)
{
    uint32_t flags = call->command->flags;

    if (runs_queue(call))
        return unit_flags(call);
    return flags & COMMAND_UNIT ? script_call_flags(call) : flags;
}

/* Whether it may change something, as Redis judges. */
static bool is_write(const struct call *call) { return flags_of(call) & COMMAND_WRITE; }

/* The same, and scripts that do not say what they do. */
static bool may_write(const struct call *call) { return flags_of(call) & (COMMAND_WRITE | COMMAND_MAY_REPLICATE); }

/* Whether a key goes from one database to another one: where it is in each of them would have to be known. */
static bool changes_db(const struct call *call, const struct look *look)
{
    int db = command_named_db(call->command, call->args, call->arg_count);

    return look->changes_db || (db >= 0 && db != call->db);
}

static enum verdict judge_moving(const struct call *call, const struct look *look, enum slot_state state, bool has_looked)
{
    if (is_migrate(call))
        return RUNS;
    if (state == SLOT_EXPORTING) {
        if (changes_db(call, look))
            return UNSTABLE;
        if (!has_looked || look->missing == 0 || look->is_channel)
            return RUNS;
        return look->here > 0 ? UNSTABLE : ASK;
    }
    if (!(call->client->flags & CLIENT_ASKING) && !(call->command->flags & COMMAND_ASKING))
        return MOVED;
    return changes_db(call, look) || (has_looked && look->has_others && look->missing > 0) ? UNSTABLE : RUNS;
}

static enum verdict judge_down(const struct call *call, const struct look *look, bool writes)
{
    const struct config *config = call->engine->config;

    if (look->is_channel)
        return config_number(config, CONFIG_CLUSTER_ALLOW_PUBSUBSHARD_WHEN_DOWN) ? RUNS : DOWN;
    if (!config_number(config, CONFIG_CLUSTER_ALLOW_READS_WHEN_DOWN))
        return DOWN;
    return writes ? DOWN_FOR_WRITES : RUNS;
}

static enum verdict judge(const struct call *call, const struct look *look, bool writes, bool has_looked)
{
    enum slot_state state;
    enum verdict verdict = RUNS;

    if (look->count == 0)
        return RUNS;
    state = redirect_state(look->redirect, look->hash);
    if (state == SLOT_UNASSIGNED)
        return UNBOUND;
    if (look->crosses)
        return CROSSES;
    if (UNLIKELY(look->redirect->is_down))
        verdict = judge_down(call, look, writes);
    if (verdict != RUNS || state == SLOT_OWNED)
        return verdict;
    if (state >= SLOT_EXPORTING)
        return judge_moving(call, look, state, has_looked);
    if (state == SLOT_IN_DOUBT)
        return look->is_channel ? RUNS : WAITS;
    if (state == SLOT_HANDED_OVER)
        return may_write(call) && !look->is_channel ? WAITS : RUNS;
    if (state == SLOT_RECEIVED && redirect_is_receipt(look->redirect, call->client->receipt))
        return RUNS;
    if (state == SLOT_OF_PRIMARY && (look->is_channel || (call->client->flags & CLIENT_READONLY_SLOTS && !writes)))
        return RUNS;
    return MOVED;
}

static bool reply_address(struct call *call, const struct look *look, const char *word, bool is_move)
{
    unsigned slot = slot_of_hash(look->hash);
    struct buffer address = { 0 };
    bool has_address = look->redirect->address(look->redirect->context, slot, is_move, call->client->flags & CLIENT_TLS, &address);

    if (has_address)
        reply_errorf(call, "%s %u %.*s", word, slot, (int)address.size, address.data);
    buffer_release(&address);
    return has_address;
}

/* The address may be of a later picture of the cluster than the state: then the client gets TRYAGAIN. */
static void reply_elsewhere(struct call *call, const struct look *look, enum verdict verdict)
{
    if (verdict == ASK && reply_address(call, look, "ASK", true))
        return;
    if (!reply_address(call, look, "MOVED", false))
        reply_errorf(call, "TRYAGAIN The slot is changing its owner");
}

static void reply_verdict(struct call *call, const struct look *look, enum verdict verdict)
{
    switch (verdict) {
    case RUNS:
    case WAITS: break;
    case UNBOUND: reply_errorf(call, "CLUSTERDOWN Hash slot not served"); break;
    case CROSSES: reply_errorf(call, "CROSSSLOT Keys in request don't hash to the same slot"); break;
    case DOWN: reply_errorf(call, "CLUSTERDOWN The cluster is down"); break;
    case DOWN_FOR_WRITES: reply_errorf(call, "CLUSTERDOWN The cluster is down and only accepts read commands"); break;
    case UNSTABLE: reply_errorf(call, "TRYAGAIN Multiple keys request during rehashing of slot"); break;
    case ASK:
    case MOVED: reply_elsewhere(call, look, verdict); break;
    }
}

static void reply_redirected(struct call *call, const struct look *look, enum verdict verdict)
{
    if (call->command->flags & COMMAND_RUNS_QUEUE)
        transaction_end(call->client);
    reply_verdict(call, look, verdict);
}

static bool visit_look(void *context, const struct planned *key)
{
    struct look *look = context;

    look_at(look, key->hash, key->name, key->flags);
    look->changes_db |= key->changes_db;
    return true;
}

/* Shard channels, which have slots as keys have. */
static void look_at_channels(const struct call *call, const struct key_spec *spec, struct look *look)
{
    int last = spec->last < 0 ? call->arg_count + spec->last : spec->index + spec->last;

    for (int arg = spec->index; arg <= last && arg < call->arg_count; arg += spec->step)
        look_at(look, key_hash(&call->partitions->seed, call->args[arg]), call->args[arg], spec->flags);
}

static void look_at_keys(const struct call *call, struct look *look)
{
    if (call->command->keys != NULL && call->command->keys->flags & KEY_NOT_KEY)
        look_at_channels(call, call->command->keys, look);
    for (int i = 0; i < call->key_count; i++)
        look_at(look, call->keys[i].hash, call->args[call->keys[i].arg], call->keys[i].flags);
}

/* A key that has expired counts as missing, whether it was removed or not. */
static bool is_here(const struct call *call, const struct keyspace *keyspace, uint32_t handle)
{
    const struct entry *entry = handle != 0 ? keyspace_entry(keyspace, handle) : NULL;

    return entry != NULL && !(entry->flags & ENTRY_EXPIRES && entry_expire_ms(entry) <= call->turn->now_ms);
}

struct unit_look {
    struct look look;
    const struct call *call;
};

/* Whether the key is here, for calls that have not locked their partitions. A cold key that was not loaded, as a script need not have all of its keys in RAM
 * at once, is loaded in place: slots move seldom. */
static bool visit_look_for(void *context, const struct planned *key)
{
    struct unit_look *unit_look = context;
    const struct call *call = unit_look->call;
    struct partition *partition = &call->partitions->partitions[partition_index(call->partitions, key->hash)];
    const struct key_hooks *hooks = call->turn->hooks;
    struct keyspace *keyspace;
    bool here = false;

    visit_look(&unit_look->look, key);
    partition_lock(partition);
    keyspace = partition_keyspace_if(partition, key->db);
    if (keyspace != NULL) {
        if (keyspace_find(keyspace, key->hash, key->name) == 0 && !hooks->load_in_place(hooks->context, keyspace, key->hash, key->name))
            here = true;                /* it can't be read: the call gets that error when it needs it */
        here = here || is_here(call, keyspace, keyspace_find(keyspace, key->hash, key->name));
    }
    partition_unlock(partition);
    if (here)
        unit_look->look.here++;
    else
        unit_look->look.missing++;
    return true;
}

/* A queued command runs with EXEC, which is judged for all keys again. */
static void look_for_queued_keys(const struct call *call, struct look *look)
{
    struct unit_look looked = { .look = { .redirect = look->redirect }, .call = call };
    int db = unit_queued_db(call);

    for (int i = 0; i < call->key_count; i++) {
        const struct call_key *key = &call->keys[i];

        visit_look_for(&looked, &(struct planned){ .hash = key->hash, .name = call->args[key->arg], .flags = key->flags, .db = db });
    }
    *look = looked.look;
}

bool redirect_allows(struct call *call)
{
    struct look look = { .redirect = call->engine->redirect };
    enum verdict verdict;
    bool looks;

    if (call->client->caller & TRAIT_UNGATED)
        return true;
    if (!runs_queue(call))
        look_at_keys(call, &look);
    else if (call->client->flags & CLIENT_MULTI)
        unit_visit_keys(call, visit_look, &look);
    if (look.count == 0 || LIKELY(!look.crosses && !look.redirect->is_down && redirect_state(look.redirect, look.hash) == SLOT_OWNED))
        return true;
    looks = transaction_queues(call) && !look.is_channel && redirect_state(look.redirect, look.hash) >= SLOT_EXPORTING;
    if (looks)
        look_for_queued_keys(call, &look);
    verdict = judge(call, &look, is_write(call), looks);
    if (verdict == RUNS || verdict == WAITS)        /* it waits once its keys are locked: until then it may come to run */
        return true;
    reply_redirected(call, &look, verdict);
    return false;
}

static void look_for_keys(const struct call *call, struct look *look)
{
    for (int i = 0; i < call->key_count; i++) {
        struct partition *partition = &call->partitions->partitions[partition_index(call->partitions, call->keys[i].hash)];
        const struct keyspace *keyspace;

        partition_assert_locked_debug(partition);
        keyspace = partition_keyspace_if(partition, call->db);
        if (keyspace != NULL && is_here(call, keyspace, keyspace_find(keyspace, call->keys[i].hash, call->args[call->keys[i].arg])))
            look->here++;
        else
            look->missing++;
    }
}

/* Whether it was judged with its unit: a transaction's keys all were, a script need not have named its. */
static bool was_judged(const struct call *call, const struct look *look)
{
    return !(call->client->caller & TRAIT_IN_SCRIPT) || call->unit->slot_judged == slot_of_hash(look->hash);
}

/* Calls that are not asked where they may run: a client that waits for a key is not served what has been handed over. */
static enum redirect_result judge_ungated(const struct call *call, const struct redirect *redirect)
{
    bool is_held = call->client->caller & TRAIT_NOT_PARKED && call->command->flags & COMMAND_WRITE &&
        redirect_is_held(redirect, call->keys[0].hash);

    return is_held ? REDIRECT_WAITS : REDIRECT_RUNS;
}

enum redirect_result redirect_judge_locked(struct call *call)
{
    struct look look = { .redirect = call->engine->redirect };
    enum verdict verdict;
    bool looks;

    if (call->key_count == 0)
        return REDIRECT_RUNS;
    if (call->client->caller & TRAIT_UNGATED)
        return judge_ungated(call, look.redirect);
    look_at_keys(call, &look);
    if (LIKELY(redirect_state(look.redirect, look.hash) == SLOT_OWNED)) {
        if (call->unit != NULL && call->unit->slot_judged < 0)
            call->unit->slot_judged = slot_of_hash(look.hash);
        if (LIKELY(!look.redirect->is_down) || call->unit != NULL)
            return REDIRECT_RUNS;       /* whether keys are of one slot does not change while a call waits */
    }
    if (call->unit != NULL && redirect_state(look.redirect, look.hash) >= SLOT_OWNED && was_judged(call, &look))
        return REDIRECT_RUNS;
    looks = redirect_state(look.redirect, look.hash) >= SLOT_EXPORTING;
    if (looks)
        look_for_keys(call, &look);
    verdict = judge(call, &look, call->command->flags & COMMAND_WRITE, looks);
    if (verdict == RUNS)
        return REDIRECT_RUNS;
    if (verdict == WAITS && call->unit == NULL)
        return REDIRECT_WAITS;
    if (call->client->caller & TRAIT_IN_SCRIPT)
        reply_errorf(call, "ERR Script attempted to access a non local key in a cluster node");
    else
        reply_verdict(call, &look, verdict);
    return REDIRECT_REPLIED;
}

enum redirect_result redirect_judge_unit(struct call *call, int *slot_judged)
{
    struct unit_look looked = { .look = { .redirect = call->engine->redirect }, .call = call };
    struct look *look = &looked.look, first = { .redirect = call->engine->redirect };
    enum verdict verdict;
    bool looks;

    *slot_judged = -1;
    if (call->client->caller & TRAIT_UNGATED)
        return REDIRECT_RUNS;
    unit_visit_keys(call, visit_look, &first);
    if (first.count == 0)
        return REDIRECT_RUNS;
    if (redirect_state(first.redirect, first.hash) == SLOT_OWNED && LIKELY(!first.redirect->is_down)) {
        *slot_judged = slot_of_hash(first.hash);
        return REDIRECT_RUNS;
    }
    looks = redirect_state(first.redirect, first.hash) >= SLOT_EXPORTING;
    unit_visit_keys(call, looks ? visit_look_for : visit_look, looks ? (void *)&looked : look);
    verdict = judge(call, look, is_write(call), looks);
    if (verdict == RUNS)
        return REDIRECT_RUNS;
    if (verdict == WAITS)
        return REDIRECT_WAITS;
    reply_redirected(call, look, verdict);
    return REDIRECT_REPLIED;
}

const char *redirect_refuses_in_script(const struct call *call, int *slot)
{
    struct look look = { .redirect = call->engine->redirect };
    bool is_judged;

    if (call->client->caller & TRAIT_UNGATED || call->key_count == 0)
        return NULL;
    look_at_keys(call, &look);
    /* Where it was found to run it runs to its end. */
    is_judged = !look.crosses && redirect_state(look.redirect, look.hash) >= SLOT_OWNED && call->unit->slot_judged == slot_of_hash(look.hash);
    switch (is_judged ? RUNS : judge(call, &look, call->command->flags & COMMAND_WRITE, false)) {
    case RUNS: break;
    case DOWN: return "ERR Script attempted to execute a command while the cluster is down";
    case DOWN_FOR_WRITES: return "ERR Script attempted to execute a write command while the cluster is down and readonly";
    default: return "ERR Script attempted to access a non local key in a cluster node";
    }
    if (slot == NULL)
        return NULL;
    if (*slot < 0)
        *slot = slot_of_hash(look.hash);
    return *slot == slot_of_hash(look.hash) ? NULL : "ERR Script attempted to access keys that do not hash to the same slot";
}
