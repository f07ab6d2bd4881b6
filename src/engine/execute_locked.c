/* A call while its partitions are locked: its keys are found, the command runs, and what it changed goes into the log. */
#include "engine/execute_private.h"

#include <stdio.h>

#include "base/check.h"
#include "call/witness.h"
#include "engine/blocking.h"
#include "engine/event.h"
#include "engine/expiry.h"
#include "engine/memory.h"
#include "engine/own_expiry.h"
#include "engine/redirect.h"
#include "engine/role.h"
#include "engine/unit.h"
#include "engine/tracking.h"
#include "keyspace/pages.h"

/* The partitions a call needs, as a set; locked in ascending order. */
struct partition_set {
    struct partition_bits bits;
    bool wide;                      /* `bits` is in use: there may be more than one */
    uint32_t single;                /* when there is just one */
    uint32_t count;                 /* keys; 0: none, or the command is exclusive */
};

/* One key needs no set of words: the hot path does not touch them. */
static void set_init(struct partition_set *set, int key_count)
{
    set->count = 0;
    set->wide = key_count > 1;
    if (set->wide)
        memset(&set->bits, 0, sizeof(set->bits));
}

static void set_add(struct partition_set *set, const struct partitions *all, uint64_t hash)
{
    uint32_t index = partition_index(all, hash);

    if (set->count++ == 0)
        set->single = index;
    if (set->wide)
        partition_bits_add(&set->bits, index);
}

/* All partitions, or several of them in ascending order: the lock order. */
static void lock_several(struct call *call, const struct partition_set *set) UNCHECKED_LOCKS;
static void lock_several(struct call *call, const struct partition_set *set)
{
    struct partitions *all = call->partitions;

    if (call->command->flags & COMMAND_EXCLUSIVE)
        partitions_lock_all(all);
    for (uint32_t word = 0; set->count > 0 && word < (all->count + 63) / 64; word++) {
        for (uint64_t bits = set->bits.words[word]; bits != 0; bits &= bits - 1)
            partition_lock(&all->partitions[word * 64 + (uint32_t)__builtin_ctzll(bits)]);
    }
}

static void unlock_several(struct call *call, const struct partition_set *set) UNCHECKED_LOCKS;
static void unlock_several(struct call *call, const struct partition_set *set)
{
    struct partitions *all = call->partitions;

    if (call->command->flags & COMMAND_EXCLUSIVE)
        partitions_unlock_all(all);
    for (uint32_t word = 0; set->count > 0 && word < (all->count + 63) / 64; word++) {
        for (uint64_t bits = set->bits.words[word]; bits != 0; bits &= bits - 1)
            partition_unlock(&all->partitions[word * 64 + (uint32_t)__builtin_ctzll(bits)]);
    }
}

/* Adds those of call->homes, but for one that was asked for since the locks were taken. */
static void set_add_homes(struct partition_set *with, const struct partition_set *set, const struct call *call)
{
    int count = call->home_count - call->lacks_home;

    *with = *set;
    if (!set->wide) {
        with->wide = true;
        memset(&with->bits, 0, sizeof(with->bits));
        if (set->count > 0)
            partition_bits_add(&with->bits, set->single);
    }
    for (int i = 0; i < count; i++)
        partition_bits_add(&with->bits, call->homes[i]);
    with->count = set->count + (uint32_t)count;
}

static __attribute__((noinline)) void lock_with_homes(struct call *call, const struct partition_set *set) UNCHECKED_LOCKS;
static __attribute__((noinline)) void lock_with_homes(struct call *call, const struct partition_set *set)
{
    struct partition_set with;

    set_add_homes(&with, set, call);
    lock_several(call, &with);
}

static __attribute__((noinline)) void unlock_with_homes(struct call *call, const struct partition_set *set) UNCHECKED_LOCKS;
static __attribute__((noinline)) void unlock_with_homes(struct call *call, const struct partition_set *set)
{
    struct partition_set with;

    set_add_homes(&with, set, call);
    unlock_several(call, &with);
}

static inline void lock_keys(struct call *call, const struct partition_set *set) UNCHECKED_LOCKS;
static inline void lock_keys(struct call *call, const struct partition_set *set)
{
    if (UNLIKELY(call->home_count > 0))
        lock_with_homes(call, set);
    else if (LIKELY(set->count == 1))
        partition_lock(&call->partitions->partitions[set->single]);
    else
        lock_several(call, set);
}

static inline void unlock_keys(struct call *call, const struct partition_set *set) UNCHECKED_LOCKS;
static inline void unlock_keys(struct call *call, const struct partition_set *set)
{
    if (UNLIKELY(call->home_count > 0))
        unlock_with_homes(call, set);
    else if (LIKELY(set->count == 1))
        partition_unlock(&call->partitions->partitions[set->single]);
    else
        unlock_several(call, set);
}

/* Another worker's call has changed a key of these partitions, and a client that waits for it is still to be served. */
static bool is_promised(const struct call *call, const struct worker *worker, const struct partition_set *set)
{
    /* A worker that serves, or is going to serve what it has noted itself, must not wait for that. */
    if (call->client->caller & TRAIT_SERVES || worker->noted.first != NULL)
        return false;
    if (set->count == 1)
        return blocking_is_promised(call->engine, set->single);
    for (uint32_t i = 0; i < call->partitions->count && set->count > 0; i++) {
        if (partition_bits_has(&set->bits, i) && blocking_is_promised(call->engine, i))
            return true;
    }
    return false;
}

/* Returns whether it is overwritten, and neither a notification depends on the old value, nor where the call has to run; nor can that be in pages, which have to be dropped. */
static bool is_overwritten_blindly(const struct call *call, const struct keyspace *keyspace, const struct call_key *key)
    REQUIRES(keyspace->partition->lock);
static bool is_overwritten_blindly(const struct call *call, const struct keyspace *keyspace, const struct call_key *key)
{
    if (!call_key_is_overwritten(key) || (UNLIKELY(call->engine->redirect != NULL) && redirect_needs_existence(call->engine->redirect, key->hash)))
        return false;
    if (pages_may_be_in(keyspace))
        return false;
    return !event_needs_old_value(call->engine) || call->client->caller & TRAIT_BLIND;
}

static bool load_for_replay(struct tier *tier, struct keyspace *keyspace, const struct call_key *key, struct bytes name)
    REQUIRES(keyspace->partition->lock);
static bool load_for_replay(struct tier *tier, struct keyspace *keyspace, const struct call_key *key, struct bytes name)
{
    enum status status = tier_load_in_place(tier, keyspace, key->hash, name);

    if (status != STATUS_CORRUPT || call_key_is_overwritten(key))
        return status == STATUS_OK || status == STATUS_CORRUPT;
    return key->flags & KEY_RM && tier_discard_damaged(tier, keyspace, key->hash, name);
}

/* All other keys are there: the command runs now, and deletes the entries that are made here. Made before, they would be seen while it waits, and
 * stay if it ended with an error. */
static void discard_damaged(struct call *call, struct tier *tier)
{
    for (int i = 0; i < call->key_count; i++) {
        struct call_key *key = &call->keys[i];
        struct bytes name = call->args[key->arg];
        struct partition *partition = &call->partitions->partitions[partition_index(call->partitions, key->hash)];
        struct keyspace *keyspace;

        partition_assert_locked_debug(partition);
        keyspace = partition_keyspace_if(partition, call->db);
        if (key->handle == 0 && key->flags & KEY_RM && keyspace != NULL && tier_is_damaged(tier, keyspace, key->hash, name))
            (void)tier_discard_damaged(tier, keyspace, key->hash, name);
        if (keyspace != NULL)
            key->handle = keyspace_find(keyspace, key->hash, name);
    }
    call->handles_stale = true;         /* as in execute_make_resident */
}

/* For a key that was found, or not. */
static inline enum residency bring_pages(struct call *call, struct worker *worker, struct keyspace *keyspace, const struct call_key *key)
{
    keyspace_assert_locked(keyspace);
    if (LIKELY(key->handle == 0 || !entry_is_paged(keyspace_entry(keyspace, key->handle))))
        return RESIDENT;
    return execute_bring_pages(call, worker, keyspace, key);
}

/* With the partitions locked: finds each key's entry, and asks the tier for those that may be cold. A key that is only overwritten
 * need not be loaded. */
static enum residency look_up(struct call *call, struct worker *worker)
{
    enum residency result = RESIDENT, pages;
    bool has_damaged = false;
    struct tier *tier = call->engine->tier;

    for (int i = 0; i < call->key_count; i++) {
        struct call_key *key = &call->keys[i];
        struct partition *partition = &call->partitions->partitions[partition_index(call->partitions, key->hash)];
        struct keyspace *keyspace;

        partition_assert_locked_debug(partition);
        keyspace = partition_keyspace_if(partition, call->db);
        key->handle = 0;
        if (partition->last_lsn > call->turn->lsn_seen)
            call->turn->lsn_seen = partition->last_lsn;
        if (partition->last_lsn > call->client->lsn.needed)
            call->client->lsn.needed = partition->last_lsn;
        if (keyspace == NULL)
            continue;
        keyspace_assert_locked(keyspace);
        key->handle = keyspace_find(keyspace, key->hash, call->args[key->arg]);
        if (UNLIKELY(call->client->caller & TRAIT_LOADS_LOCKED)) {
            if (!execute_make_resident(call, keyspace, key))
                return UNREADABLE;
            pages = bring_pages(call, worker, keyspace, key);
            if (pages != RESIDENT)
                return pages == HOMELESS ? HOMELESS : UNREADABLE;
            continue;
        }
        if (key->handle != 0) {
            const struct entry *entry = keyspace_entry(keyspace, key->handle);

            if (__builtin_expect(entry_is_held(keyspace, entry), 0) && execute_is_held(call, keyspace, key))
                return HELD;
            pages = bring_pages(call, worker, keyspace, key);
            if (pages == WAITING)
                result = WAITING;
            else if (pages != RESIDENT)
                return pages;
            else if (__builtin_expect(entry_has_times(entry), 0) && execute_reap(call, keyspace, key))
                return REAPED;
            continue;
        }
        if (tier == NULL || key->flags & KEY_NOT_KEY || is_overwritten_blindly(call, keyspace, key))
            continue;
        if (call->client->caller & TRAIT_WAITS_IN_PLACE) {
            if (!load_for_replay(tier, keyspace, key, call->args[key->arg]))
                return UNREADABLE;
            key->handle = keyspace_find(keyspace, key->hash, call->args[key->arg]);
            call->handles_stale = true;         /* as in execute_make_resident */
            pages = bring_pages(call, worker, keyspace, key);
            if (pages != RESIDENT)
                return pages == HOMELESS ? HOMELESS : UNREADABLE;
            continue;
        }
        if (__builtin_expect(call->turn->memory_fill >= 0, 0) && execute_lacks_memory(call, keyspace, key))
            return SHORT;
        switch (tier_load(tier, keyspace, key->hash, call->args[key->arg], execute_purpose_of(call), call->requester, worker->reader)) {
        case TIER_ABSENT:
            break;
        case TIER_PROMOTED:
            pace_note_loads(worker, tier_load_size(tier, keyspace, key->hash, call->args[key->arg]));
            call->handles_stale = true;
            i--;                        /* once more, as one that is there */
            break;
        case TIER_WAIT:
            pace_note_loads(worker, tier_load_size(tier, keyspace, key->hash, call->args[key->arg]));
            result = WAITING;
            break;
        case TIER_FAILED:
            if (call_key_is_overwritten(key) && (!pages_may_be_in(keyspace) || tier_is_damaged(tier, keyspace, key->hash, call->args[key->arg])))
                break;                  /* blindly, after all */
            if (!(key->flags & KEY_RM) || !tier_is_damaged(tier, keyspace, key->hash, call->args[key->arg]))
                return UNREADABLE;
            has_damaged = true;
        }
    }
    if (UNLIKELY(has_damaged) && result == RESIDENT)
        discard_damaged(call, tier);
    return result;
}

/* The log has the rows' names, so that it can be replayed under other names. */
static const struct bytes *logged_args(struct call *call)
{
    struct bytes *args;

    if (LIKELY(!call->command->renamed))
        return call->args;
    args = arena_alloc(call->arena, (size_t)call->arg_count * sizeof(*args));
    memcpy(args, call->args, (size_t)call->arg_count * sizeof(*args));
    args[0] = command_own_name(call->command);
    return args;
}

static inline uint64_t log_one(struct call *call, struct history *history, int db, const struct bytes *args, int arg_count)
{
    if (__builtin_expect(call->client->large.count > 0, 0))
        return history_append_large(history, db, args, arg_count, call->client->large.list, call->client->large.count);
    return history_append(history, db, args, arg_count);
}

/* Several commands in place of one are replayed all or none. */
static uint64_t log_list(struct call *call, struct history *history, const struct propagation *list)
{
    struct history_group group;
    uint64_t lsn;

    if (list->next == NULL)
        return log_one(call, history, list->db, list->args, list->arg_count);
    history_group_init(&group);
    for (; list != NULL; list = list->next)
        history_group_add(&group, list->db, list->args, list->arg_count);
    lsn = history_append_group(history, &group);
    history_group_release(&group);
    return lsn;
}

static void add_to_group(struct history_group *group, const struct propagation *list)
{
    for (; list != NULL; list = list->next)
        history_group_add(group, list->db, list->args, list->arg_count);
}

/* A unit's changes are logged together, at its end. */
static void propagate_in_unit(struct call *call)
{
    struct history_group *group = &call->unit->group;

    if (!history_is_on(&call->engine->history) || call->client->caller & TRAIT_UNLOGGED)
        return;
    add_to_group(group, call->expired);
    if (call->change_count == 0 || call->propagate_nothing)
        return;
    if (call->first != NULL)
        add_to_group(group, call->first);
    else
        history_group_add(group, call->db, logged_args(call), call->arg_count);
}

/* A primary's call, as it came. */
static uint64_t append_raw(struct call *call)
{
    uint64_t lsn = history_append_raw(&call->engine->history, call->client->unlogged_raw, call->client->db);

    call->client->unlogged_raw = bytes_of(NULL, 0);
    return lsn;
}

/* With the partitions still locked, so that the log's order is an order of execution. What clients change on a replica is local: the history
 * refuses it. */
static void propagate(struct call *call, const struct partition_set *set, bool exclusive)
{
    struct partitions *all = call->partitions;
    uint64_t lsn = 0;

    if (!history_is_on(&call->engine->history))
        return;
    if (call->client->unlogged_raw.size == 0 && call->client->caller & TRAIT_UNLOGGED)
        return;
    if (UNLIKELY(call->client->unlogged_raw.size > 0))
        lsn = append_raw(call);
    else if (call->expired != NULL)
        lsn = log_list(call, &call->engine->history, call->expired);
    if (call->change_count > 0 && !call->propagate_nothing && !(call->client->caller & TRAIT_UNLOGGED)) {
        if (call->first != NULL)
            lsn = log_list(call, &call->engine->history, call->first);
        else
            lsn = log_one(call, &call->engine->history, call->db, logged_args(call), call->arg_count);
    }
    if (lsn == 0)
        return;
    call->turn->lsn_seen = lsn;
    call->client->lsn.needed = lsn;
    call->client->lsn.written = lsn;
    if (set->count == 1 && !exclusive) {
        all->partitions[set->single].last_lsn = lsn;
        return;
    }
    for (uint32_t i = 0; i < all->count; i++) {
        if (exclusive || (set->wide && partition_bits_has(&set->bits, i)))
            all->partitions[i].last_lsn = lsn;
    }
}

/* A handler that replies an error must not have changed anything, because a replay stops at a failing command. Expiry and loading do not
 * count. */
#ifdef KELVIN_DEBUG
static void check_failed_call(const struct call *call)
{
    char text[128];

    if (!call->failed || call->command->flags & COMMAND_OWNS_KEYS ||       /* it logs what it has done, not itself */
        (!call->changed && call->change_count == 0 && witness_agrees(call)))
        return;
    snprintf(text, sizeof(text), "'%s' has changed something and then replied an error", call->command->name);
    check_failed(__FILE__, __LINE__, text);
}
#else
static void check_failed_call(const struct call *call)
{
}
#endif

static void run_command(struct call *call)
{
    call->witnesses = NULL;
    call->hits = 0;
    call->unlogged = !history_is_on(&call->engine->history);     /* remains so while a partition is locked */
    call->command->run(call);
    check_failed_call(call);
}

/* Again, when the pages that its handler has asked for are there at once: others are waited for. */
static enum residency run_until_it_waits(struct call *call, struct worker *worker)
{
    enum residency residency = RESIDENT;

    for (run_command(call); UNLIKELY(call->lacks != NULL) && residency == RESIDENT; ) {
        residency = execute_bring_asked(call, worker);
        if (residency == RESIDENT)
            run_command(call);
    }
    if (UNLIKELY(call->random_before != NULL))
        call->turn->random = *call->random_before;
    call->random_before = NULL;
    if (residency == UNREADABLE)
        reply_error(call, ERR_TIER_READ);
    if (UNLIKELY(call->grown != NULL))
        execute_load_ahead(call, worker);
    return residency;
}

static void free_copies(struct call *call)
{
    for (struct call_copy *copy = call->copies; copy != NULL; copy = copy->next)
        call->turn->hooks->free_later(call->turn->hooks->context, copy->value);
    call->copies = NULL;
}

/* A defect of the command's row: see key_open. */
static void refuse_undeclared(struct call *call)
{
    reply_truncate(call->reply, call->reply_start);
    call->propagate_nothing = true;
    call->asks = false;
    call->wait = NULL;
    log_write(call->engine->log, LOG_LEVEL_WARNING, "Defect: '%s' used a key that its row does not declare", call->command->name);
    reply_errorf(call, "ERR '%s' used a key that its row does not declare, which is a defect of the server", call->command->name);
}

/* A reply that holds long strings while others hold enough has to wait, unless they are held already or nothing else is: what the call has
 * found is taken back, and it runs again. A call that has changed something goes on. */
static bool may_hold(struct call *call, uint64_t held_before)
{
    struct engine *engine = call->engine;

    if (held_before == 0 || call->unit != NULL || engine->memory.reply_held <= held_before || call->change_count > 0 || call->expired != NULL || !memory_replies_are_full(engine))
        return true;
    /* Set before the second look: who has sent a reply in between did not notify. */
    engine->memory.reply_wanted_ms = call->turn->now_us / 1000;
    if (!memory_replies_are_full(engine))
        return true;
    reply_truncate(call->reply, call->reply_start);
    return false;
}

/* The changes are in the log. A call that runs again reports the keys that it does not find when it does. The events of a unit are
 * published when its changes are in the log. */
static void publish_events(struct call *call, struct worker *worker, enum residency residency)
{
    if (residency != RESIDENT || call->asks || call->parked)
        event_list_forget_misses(&worker->events);
    if (call->events != NULL)
        event_list_move(call->events, &worker->events);
    else
        event_publish(call->engine, worker, &worker->events, call->client->lsn.needed);
}

/* Who keeps the call from this partition: another unit that owns it, or a promise that is held because of such a unit. NULL: none does. */
static struct claim *find_owner(const struct call *call, struct worker *worker, uint32_t index)
{
    struct partition *partition = &call->partitions->partitions[index];

    if (call->unit != NULL)
        return partition->owner != &call->unit->claim ? partition->owner : NULL;
    if (call->client->caller & TRAIT_SERVES) {
        if (partition->owner != NULL)
            blocking_note_owner(worker, partition);
        return partition->owner;
    }
    return partition->owner != NULL ? partition->owner : blocking_holder(call->engine, index);
}

/* The same for one of these partitions. */
static struct claim *find_owner_of_any(const struct call *call, struct worker *worker, const struct partition_set *set)
{
    struct claim *owner = NULL;

    if (set->count == 1)
        return find_owner(call, worker, set->single);
    for (uint32_t i = 0; i < call->partitions->count && set->count > 0 && owner == NULL; i++) {
        if (partition_bits_has(&set->bits, i))
            owner = find_owner(call, worker, i);
    }
    return owner;
}

/* The client is woken when the owner leaves, unless it is refused now. */
static enum residency wait_for_owner(struct call *call, struct claim *owner)
{
    if (unit_is_busy(owner) && !(call->client->caller & TRAIT_NEVER_BUSY) && !(call->command->flags & COMMAND_ALLOW_BUSY)) {
        execute_reply_busy(call, owner->busy == UNIT_BUSY_WITH_FUNCTION);
        return BUSY;
    }
    if (!(call->client->caller & TRAIT_NOT_PARKED))
        owners_await_claim(&call->partitions->owners, owner, &call->client->owned);
    return OWNED;
}

/* Waits until changes that other workers have made to these partitions have served the clients that wait for them. OWNED and BUSY:
 * a partition belongs to another unit. The partitions are locked in any case. */
static enum residency pass_obstacles(struct call *call, struct worker *worker, const struct partition_set *set)
{
    struct claim *owner;

    if (call->client->caller & TRAIT_OWNS)
        return RESIDENT;
    while (call->unit == NULL && is_promised(call, worker, set)) {
        unlock_keys(call, set);
        blocking_let_serve(call->engine);
        lock_keys(call, set);
    }
    owner = find_owner_of_any(call, worker, set);
    if (owner == NULL)
        return RESIDENT;
    CHECK(call->unit == NULL);          /* a unit owns what its calls need */
    return wait_for_owner(call, owner);
}

/* Between the check of a call and its locks the role may have changed. A unit's own partitions keep it as it is from then on, but a script that has
 * written nothing so far may have owned none. */
static bool is_writable(const struct call *call)
{
    if (!(role_bits(call->engine) & ROLE_READ_ONLY) || call->requester->caller & TRAIT_UNGATED)
        return true;
    return call->unit != NULL && call->unit->change_count > 0;
}

/* No load can end before the locks are given back, so the client is not woken too early. */
static enum residency make_resident(struct call *call, struct worker *worker)
{
    enum residency residency = RESIDENT;

    if (UNLIKELY(atomic_load_explicit(&call->engine->frozen, memory_order_relaxed) | (role_bits(call->engine) & ROLE_READ_ONLY)) &&
        call->command->flags & COMMAND_WRITE && !(call->client->caller & TRAIT_OWNS)) {
        if (call->unit == NULL && (call->engine->frozen || call->client->caller & TRAIT_NOT_PARKED))
            return FROZEN;
        if (!is_writable(call))
            return NOT_WRITABLE;
    }
    if (call->key_count >= BIG_CALL_COLD_KEYS && call->engine->tier != NULL && call->unit == NULL &&
        !(call->client->caller & TRAIT_UNGATED))
        residency = execute_weigh(call);
    if (call->key_count > 0 && residency == RESIDENT)
        residency = look_up(call, worker);
    if (UNLIKELY(call->engine->redirect != NULL) && residency == RESIDENT && !redirect_is_usual(call->engine->redirect, call)) {
        switch (redirect_judge_locked(call)) {
        case REDIRECT_RUNS: break;
        case REDIRECT_REPLIED: return REDIRECTED;
        case REDIRECT_WAITS: return FROZEN;
        }
    }
    /* Last: what it evicts is logged with the call, which runs now. */
    if (UNLIKELY(call->turn->memory_fill >= 0 || (call->turn->over_memory && call->client->loads.waits != NULL)) && residency == RESIDENT && call->command->flags & COMMAND_DENYOOM &&
        !(call->client->caller & (TRAIT_UNGATED | TRAIT_WAITS_IN_PLACE)))
        residency = execute_weigh_values(call);
    return residency;
}

static enum parking parking_of(enum residency residency)
{
    switch (residency) {
    case HELD: return PARKED_FOR_WRITER;
    case QUEUED: return PARKED_FOR_BIG_CALL;
    case SHORT: return PARKED_FOR_MEMORY;
    case FROZEN: return PARKED_FOR_PAUSE;
    case REPLIES_FULL: return PARKED_FOR_REPLIES;
    default: return PARKED_NOT;
    }
}

/* A unit's call waits in place: its client is woken as those are that wait for the same. */
static void wait_in_queue(struct call *call, struct worker *worker, enum parking reason)
{
    if (call->unit == NULL) {
        parking_add_call(worker, call, reason);
        return;
    }
    parking_add(worker, call->requester, reason);
    tier_nudge(call->engine->tier);
}

/* Without locks. True: the call has to start again from the top. */
static bool must_run_again(struct call *call, struct worker *worker, enum residency residency)
{
    struct client *client = call->client;
    enum parking parking = parking_of(residency);
    bool must_queue = parking != PARKED_NOT;

    if (UNLIKELY(client->cold_wait.is_bounded) && residency == WAITING && call->unit == NULL && execute_ends_cold_wait(call, worker))
        return false;
    if ((must_queue || residency == OWNED) && client->caller & TRAIT_NOT_PARKED)
        client->flags |= CLIENT_HELD_BACK;
    else if (residency == OWNED)
        parking_give_pins(worker, call->client);
    else if (must_queue && !(client->caller & TRAIT_WAITS_IN_PLACE))
        wait_in_queue(call, worker, parking);
    if (residency == SHORT)
        turn_count(call->turn, STAT_THROTTLED, 1);
    if (residency == REAPED) {
        parking_give_pins(worker, call->requester);         /* what was loaded for these fields may go */
        client_wake(call->requester);
    }
    return must_queue || residency == WAITING || residency == REAPED || residency == OWNED;
}

static inline __attribute__((always_inline)) enum run_result run_once(struct call *call, struct worker *worker)
{
    bool exclusive = call->command->flags & COMMAND_EXCLUSIVE;
    struct partition_set set;
    enum residency residency, lack = RESIDENT;
    size_t shares_before = call->client->reply.share_count;
    uint64_t held_before = call->engine->memory.reply_held;

    set_init(&set, call->key_count);
    for (int i = 0; i < call->key_count && !exclusive; i++)
        set_add(&set, call->partitions, call->keys[i].hash);
    lock_keys(call, &set);
    residency = RESIDENT;
    if (__builtin_expect(atomic_load_explicit(&call->partitions->obstacle_count, memory_order_relaxed) != 0, 0))
        residency = pass_obstacles(call, worker, &set);
    /* Calls that change something have been refused (execute_disks_allow), or have begun before the log was in error. Only now: the role does
     * not change while a partition is locked. */
    call->keeps_expired = !(call->command->flags & COMMAND_WRITE) && expiry_is_paused(call->engine);
    if (residency == RESIDENT)
        residency = make_resident(call, worker);
    if (residency == RESIDENT) {
        lack = run_until_it_waits(call, worker);
        if (UNLIKELY(call->undeclared))
            refuse_undeclared(call);
    } else if (residency == UNREADABLE) {
        reply_error(call, ERR_TIER_READ);
    } else if (residency == NOT_WRITABLE) {
        reply_errorf(call, "%s", execute_readonly_error);
    }
    if (__builtin_expect(call->client->reply.share_count > shares_before, 0) && !may_hold(call, held_before))
        residency = REPLIES_FULL;
    if (__builtin_expect(call->copies != NULL, 0))
        free_copies(call);
    if (residency == RESIDENT && (call->change_count > 0 || call->expired != NULL)) {
        if (call->unit == NULL)
            propagate(call, &set, exclusive);
        else
            propagate_in_unit(call);
        if (UNLIKELY(role_is_replica(call->engine)) && !(call->client->caller & TRAIT_UNLOGGED))
            own_expiry_note(call);
    }
    if (__builtin_expect(!event_list_is_empty(&worker->events), 0))
        publish_events(call, worker, residency == RESIDENT ? lack : residency);
    if (UNLIKELY(call->requester->flags & CLIENT_TRACKING) && residency == RESIDENT && lack == RESIDENT && !call->asks && !call->parked)
        tracking_remember(call);
    if (call->wait != NULL && !(call->client->caller & TRAIT_NOT_PARKED) && call->unit == NULL)
        blocking_register(call, worker);
    unlock_keys(call, &set);
    if (residency == RESIDENT)
        residency = lack;
    if (residency != RESIDENT && must_run_again(call, worker, residency))
        return RUN_PARKED;
    return call->parked || call->wait != NULL ? RUN_PARKED : RUN_DONE;
}

enum run_result execute_once(struct call *call, struct worker *worker)
{
    for (;;) {
        enum run_result result = run_once(call, worker);

        if (LIKELY(!call->lacks_home))
            return result;
        call->lacks_home = false;               /* nothing was done */
    }
}
