/* A unit from its claim to its end. unit_call.c has what its calls need. */
#include "engine/unit.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "engine/access.h"
#include "engine/blocking.h"
#include "engine/delivery.h"
#include "engine/event.h"
#include "engine/execute_private.h"
#include "engine/redirect.h"
#include "engine/role.h"
#include "engine/running_scripts.h"
#include "engine/script_queue.h"
#include "engine/script_run.h"
#include "engine/transaction.h"
#include "engine/unit_private.h"

enum { BUFFERS_KEPT = 64 * 1024 };

/* The claim was granted: its client's worker goes on with it. Under the owners' lock. */
static void wake_claimant(struct claim *claim)
{
    struct unit *unit = claim->context;

    client_wake(unit->client);
}

static struct unit *create_unit(struct call *call, struct worker *worker)
{
    struct unit *unit = worker->units.spare;

    if (unit == NULL) {
        unit = mem_zalloc(sizeof(*unit));
        arena_init(&unit->arena);
        history_group_init(&unit->group);
        reply_init(&unit->reply, 2);
    }
    worker->units.spare = NULL;
    memset((char *)unit + offsetof(struct unit, worker), 0, sizeof(*unit) - offsetof(struct unit, worker));
    unit->worker = worker;
    unit->client = call->client;
    unit->command = call->command;
    unit->reply.protocol = call->client->reply.protocol;
    claim_reuse(&unit->claim, wake_claimant, unit);
    unit->releases_pins = !(call->command->flags & COMMAND_EXCLUSIVE) && call->client->transaction == NULL;
    call->client->unit = unit;
    return unit;
}

static void free_unit(struct unit *unit)
{
    arena_release(&unit->arena);
    history_group_release(&unit->group);
    event_list_release(&unit->events);
    reply_release(&unit->reply);
    mem_free(unit);
}

/* One is kept, with its buffers unless they are large. It may want partitions still, if it was dropped. */
static void destroy_unit(struct unit *unit)
{
    struct worker *worker = unit->worker;
    struct client *client = unit->client;

    client->unit = NULL;
    script_start_release(&unit->start);
    partition_bits_clear(&unit->claim.wanted, worker->engine->partitions->count);
    if (unit->has_script)
        script_queue_next(worker);
    if (worker->units.spare != NULL || unit->group.text.capacity + unit->reply.out.capacity > BUFFERS_KEPT) {
        free_unit(unit);
        return;
    }
    arena_reset(&unit->arena);
    history_group_clear(&unit->group);
    reply_truncate(&unit->reply, 0);
    worker->units.spare = unit;
}

void unit_free_spare(struct worker *worker)
{
    if (worker->units.spare != NULL)
        free_unit(worker->units.spare);
    worker->units.spare = NULL;
}

/* The partition has no promise to keep any more that others are about to keep, and is locked. */
static void lock_when_served(struct worker *worker, struct partition *partition) ACQUIRE(partition->lock) UNCHECKED_LOCKS;
static void lock_when_served(struct worker *worker, struct partition *partition)
{
    partition_lock(partition);
    while (blocking_is_promised(worker->engine, partition->index)) {
        partition_unlock(partition);
        CHECK(worker->noted.first == NULL);     /* it would wait for itself */
        blocking_let_serve(worker->engine);
        partition_lock(partition);
    }
}

bool unit_take_partitions(struct unit *unit)
{
    struct partitions *all = unit->worker->engine->partitions;
    struct claim *holder = NULL;

    for (uint32_t i = 0; (i = partition_bits_next(&unit->claim.wanted, i, all->count)) < all->count && holder == NULL; i++) {
        struct partition *partition = &all->partitions[i];

        all->obstacle_count++;
        lock_when_served(unit->worker, partition);
        if (unit->fiber == NULL)
            holder = blocking_holder(unit->worker->engine, i);
        if (holder != NULL) {
            owners_await_claim(&all->owners, holder, &unit->client->owned);
            all->obstacle_count--;
            partition_unlock(partition);
            break;
        }
        CHECK(partition->owner == NULL || partition->owner == &unit->claim);
        if (partition->owner == &unit->claim)
            all->obstacle_count--;
        partition->owner = &unit->claim;
        partition_unlock(partition);
    }
    partition_bits_clear(&unit->claim.wanted, all->count);
    unit->claim.wants_token = false;
    return holder == NULL;
}

static void give_partitions(struct unit *unit, uint64_t lsn)
{
    struct partitions *all = unit->worker->engine->partitions;

    for (uint32_t i = 0; (i = partition_bits_next(&unit->claim.owned, i, all->count)) < all->count; i++) {
        struct partition *partition = &all->partitions[i];

        partition_lock(partition);
        partition_note_change(partition, lsn);
        if (LIKELY(partition->owner == &unit->claim)) {     /* not if it was abandoned before it took what it was granted */
            partition->owner = NULL;
            all->obstacle_count--;
        }
        partition_unlock(partition);
    }
    if (unit->counts_as_busy)
        unit->worker->engine->busy.count--;
    unit->counts_as_busy = unit->owns_all = false;
    owners_give(&all->owners, &unit->claim);
}

void unit_note_busy(struct unit *unit, int64_t ran_ns)
{
    struct engine *engine = unit->worker->engine;

    if (ran_ns / 1000000 < config_number(engine->config, CONFIG_BUSY_REPLY_THRESHOLD))
        return;
    if (!unit->claim.busy) {
        unit->claim.busy = running_script_is_function(unit) ? UNIT_BUSY_WITH_FUNCTION : UNIT_BUSY_WITH_SCRIPT;
        owners_wake(&engine->partitions->owners, &unit->claim);
    }
    if (unit->owns_all && !unit->counts_as_busy) {
        unit->counts_as_busy = true;
        engine->busy.with_function = unit->claim.busy == UNIT_BUSY_WITH_FUNCTION;
        engine->busy.count++;
    }
}

static void send_messages(struct unit *unit)
{
    struct engine *engine = unit->worker->engine;
    uint64_t lsn = unit->client->lsn.needed;

    if (event_list_is_empty(&unit->events) && unit->messages.first == NULL)
        return;
    tracking_send(engine, unit->worker, &unit->events.changed, lsn);
    event_collect(engine, &unit->events, &unit->messages);
    publish_send(engine, unit->worker, &unit->messages, lsn);
}

/* The arena is emptied after each call of a script. */
void unit_keep_message(struct unit *unit, enum topic_kind kind, struct bytes channel, struct bytes text)
{
    struct unit_message *message = mem_alloc(sizeof(*message) + channel.size + text.size);
    char *bytes = (char *)(message + 1);

    *message = (struct unit_message){ .kind = kind, .channel = bytes_of(bytes, channel.size), .text = bytes_of(bytes + channel.size, text.size) };
    memcpy(bytes, channel.data, channel.size);
    memcpy(bytes + channel.size, text.data, text.size);
    if (unit->last_message != NULL)
        unit->last_message->next = message;
    else
        unit->first_message = message;
    unit->last_message = message;
}

static void drop_messages(struct unit *unit)
{
    struct unit_message *next;

    for (struct unit_message *message = unit->first_message; message != NULL; message = next) {
        next = message->next;
        mem_free(message);
    }
    unit->first_message = unit->last_message = NULL;
}

static void send_to_nodes(struct unit *unit)
{
    struct engine *engine = unit->worker->engine;

    for (const struct unit_message *message = unit->first_message; message != NULL; message = message->next)
        engine->upper.publish(engine, message->channel, message->text, message->kind == TOPIC_SHARD);
    drop_messages(unit);
}

/* The unit's changes go into the log, in one piece, while no other unit can see them. */
static void commit(struct unit *unit)
{
    struct worker *worker = unit->worker;
    struct engine *engine = worker->engine;
    struct history *history = &engine->history;
    struct client *client = unit->client;
    uint64_t lsn = 0;

    if (history_is_on(history) && unit->group.count > 0)
        lsn = history_append_group(history, &unit->group);
    if (lsn > 0)
        client->lsn.needed = client->lsn.written = lsn;
    if (client->lsn.needed > worker->turn.lsn_seen)
        worker->turn.lsn_seen = client->lsn.needed;
    send_messages(unit);
    send_to_nodes(unit);
    blocking_promise_noted(worker, unit);
    give_partitions(unit, lsn);
    if (unit->change_count > 0)
        atomic_fetch_add_explicit(&engine->dirty, unit->change_count, memory_order_relaxed);
}

/* A call that goes on has not looked for its keys. */
static void find_keys(struct unit *unit, struct call *call)
{
    if (call->key_count == 0 && call->command->keys != NULL && call->arg_count > 0)
        execute_find_keys(call, unit->worker);
}

/* The attempt has changed nothing but what had expired: all the unit has is given up. The next attempt begins when the worker has served the
 * clients that waited for what had expired. */
static void start_over(struct unit *unit, struct call *call)
{
    CHECK(unit->change_count == 0 && unit->messages.first == NULL);
    event_list_forget_misses(&unit->events);
    drop_messages(unit);
    commit(unit);
    history_group_clear(&unit->group);
    arena_reset(&unit->arena);
    reply_truncate(&unit->reply, 0);
    unit->failed = false;
    unit->stop = UNIT_GOES_ON;
    unit->restarts++;
    unit->worker->turn.random = unit->random;
    turn_count(&unit->worker->turn, STAT_UNIT_RESTARTS, 1);
    find_keys(unit, call);
    unit_want(unit, call);
    unit->claim.wants_token = true;
    unit->wait = UNIT_WAITS_FOR_TURN;
    client_wake(unit->client);
}

/* Copies the arguments of a unit that is suspended in the middle of the call: its client may go meanwhile. */
static void keep_args(struct unit *unit, struct call *call)
{
    struct bytes *args = arena_alloc(&unit->arena, (size_t)unit->arg_count * sizeof(*args));

    for (int i = 0; i < unit->arg_count; i++)
        args[i] = arena_copy(&unit->arena, unit->args[i]);
    call->args = args;
}

/* The fiber's function: runs the request's command. */
static void main_of_unit(void *context)
{
    struct unit *unit = context;
    struct call call = unit_new_call(unit, unit->client, &unit->reply, unit->args, unit->arg_count);

    if (unit->command->flags & COMMAND_OWNS_KEYS)
        keep_args(unit, &call);
    call.command = unit->command;
    if (unit->command->flags & COMMAND_UNIT)
        unit->command->run(&call);
    else
        unit_call_uncounted(unit, &call);
    unit->failed = call.failed;
    unit->error_counted = call.error_counted;
}

static void link_unit(struct unit *unit)
{
    struct worker *worker = unit->worker;

    unit->prev = NULL;
    unit->next = worker->units.suspended;
    if (unit->next != NULL)
        unit->next->prev = unit;
    worker->units.suspended = unit;
}

/* False: there is no memory for its stack. */
static bool begin_unit(struct unit *unit)
{
    struct worker *worker = unit->worker;

    unit->fiber = fiber_create(&worker->units.fibers, main_of_unit, unit);
    if (unit->fiber == NULL)
        return false;
    unit->now_us = clock_wall_us();
    unit->now_ms = unit->now_us / 1000;
    link_unit(unit);
    worker->scripts.running += unit->has_script;
    if (unit->restarts == 0)
        unit->random = worker->turn.random;
    return true;
}

static void unlink_unit(struct unit *unit)
{
    *(unit->prev != NULL ? &unit->prev->next : &unit->worker->units.suspended) = unit->next;
    if (unit->next != NULL)
        unit->next->prev = unit->prev;
}

/* Runs the fiber. False: it is suspended. */
static bool enter(struct unit *unit)
{
    struct worker *worker = unit->worker;
    bool has_ended;

    unit->wait = UNIT_RUNS;
    unit->entered_ns = unit->clock_ns = clock_mono_ns();
    has_ended = !fiber_enter(&worker->units.fibers, unit->fiber);
    worker->clock.call_ns = clock_mono_ns();
    unit->ran_ns += worker->clock.call_ns - unit->entered_ns;
    if (has_ended) {
        unlink_unit(unit);
        unit->fiber = NULL;
        worker->scripts.running -= unit->has_script;
    }
    return has_ended;
}

/* Returns whether everything that the unit waits for has come. */
static bool may_enter(const struct unit *unit)
{
    switch (unit->wait) {
    case UNIT_WAITS_FOR_OWNERS: return !unit->claim.is_waiting;
    case UNIT_WAITS_FOR_SCRIPTS: return false;
    default: return worker_has_all(unit->client);
    }
}

/* Hands the unit's reply to its client. */
static void deliver_reply(struct unit *unit)
{
    struct client *client = unit->client;

    client->reply.protocol = unit->reply.protocol;
    reply_append(&client->reply, &unit->reply);
}

static enum run_result finish_unit(struct unit *unit, struct call *call)
{
    commit(unit);
    call->failed = unit->failed;
    call->error_counted = unit->error_counted;
    deliver_reply(unit);
    call->keeps_reply = unit->keeps_reply;
    call->ran_ns = unit->ran_ns;
    destroy_unit(unit);
    return RUN_DONE;
}

/* Claims what the unit wants to begin with. False: it waits. */
static bool claim(struct unit *unit, struct worker *worker)
{
    if (owners_claim(&worker->engine->partitions->owners, &unit->claim) == CLAIM_GRANTED)
        return true;
    unit->wait = UNIT_WAITS_FOR_OWNERS;
    script_queue_next(worker);
    return false;
}

/* Nothing was done; the error has been replied. */
static enum run_result refuse(struct unit *unit, struct call *call)
{
    give_partitions(unit, 0);
    destroy_unit(unit);
    return RUN_DONE;
}

static enum run_result refuse_without_memory(struct unit *unit, struct call *call)
{
    reply_errorf(call, UNIT_NO_STACK);
    if (call->command->flags & COMMAND_RUNS_QUEUE)
        execute_discard(call);
    return refuse(unit, call);
}

/* The last dump before the end is being taken: what comes after its cut would be lost. */
static bool must_not_write(const struct unit *unit)
{
    return atomic_load_explicit(&unit->worker->engine->frozen, memory_order_relaxed) && unit_may_write(unit);
}

/* This server has become a replica, or its lease has ended. A script's writes are refused one by one. */
static bool is_read_only(const struct call *call)
{
    uint32_t bits = role_bits(call->engine);

    if (LIKELY(!(bits & (ROLE_READ_ONLY | ROLE_LEASED))) || !(unit_flags(call) & COMMAND_WRITE))
        return false;
    return bits & ROLE_READ_ONLY || role_lease_has_ended(call->engine);
}

/* A pause has begun, or the last dump, since the unit was checked. */
static bool must_pause(const struct unit *unit, struct call *call)
{
    return must_not_write(unit) || execute_is_paused(call, unit_may_write(unit) ? COMMAND_WRITE : 0);
}

/* The role of this server, or the rules of the unit's user, have changed since it was checked: it is checked again, from the top. */
static bool must_be_checked_again(struct call *call, bool has_waited)
{
    return is_read_only(call) || (has_waited && call->client->checks_acl && !access_would_allow(call));
}

/* The request runs again from the top when its client is resumed. */
static void put_off(struct unit *unit, struct worker *worker)
{
    parking_give_pins(worker, unit->client);
    give_partitions(unit, 0);
    destroy_unit(unit);
}

/* A client that gets messages gets them after the reply, which comes in one piece. */
static void hold_pushes(struct unit *unit, const struct call *call)
{
    struct client *client = unit->client;

    if (client->flags & CLIENT_PUSHES_HELD)
        return;
    if (client->listener != NULL || unit_flags(call) & COMMAND_PUBSUB)
        delivery_hold(client);
}

static enum run_result go_on(struct unit *unit, struct call *call, struct worker *worker)
{
    if (unit->fiber == NULL) {
        bool has_waited = unit->was_queued || unit->wait != UNIT_RUNS;

        if (unit->wait != UNIT_WAITS_FOR_OWNERS && (!script_queue_pass(unit) || !claim(unit, worker))) {
            parking_give_pins(worker, unit->client);
            return RUN_PARKED;
        }
        if (!unit_take_partitions(unit)) {
            put_off(unit, worker);
            return RUN_PARKED;
        }
        if (!(call->client->caller & TRAIT_UNGATED) && must_be_checked_again(call, has_waited)) {
            put_off(unit, worker);
            client_wake(call->client);
            return RUN_PARKED;
        }
        if (!(call->client->caller & TRAIT_UNGATED) && must_pause(unit, call)) {
            put_off(unit, worker);
            parking_add_call(worker, call, PARKED_FOR_PAUSE);
            return RUN_PARKED;
        }
        if (UNLIKELY(call->engine->redirect != NULL)) {
            find_keys(unit, call);
            switch (redirect_judge_unit(call, &unit->slot_judged)) {
            case REDIRECT_RUNS: break;
            case REDIRECT_REPLIED: return refuse(unit, call);
            case REDIRECT_WAITS:
                put_off(unit, worker);
                parking_add_call(worker, call, PARKED_FOR_PAUSE);
                return RUN_PARKED;
            }
        }
        if (!begin_unit(unit))
            return refuse_without_memory(unit, call);
        hold_pushes(unit, call);
    }
    if (!enter(unit))
        return RUN_PARKED;
    if (unit->stop != UNIT_RESTARTS)
        return finish_unit(unit, call);
    if (unit->client->dead) {           /* its request is no longer there to be run again */
        start_over(unit, call);
        destroy_unit(unit);
        return RUN_DONE;
    }
    start_over(unit, call);
    return RUN_PARKED;
}

enum run_result unit_run(struct call *call, struct worker *worker, const struct script_start *start)
{
    struct unit *unit = create_unit(call, worker);

    if (start != NULL)
        unit->start = *start;

    unit->args = call->args;
    unit->arg_count = call->arg_count;
    unit->has_script = unit_flags(call) & COMMAND_UNIT;
    unit_want(unit, call);
    return go_on(unit, call, worker);
}

bool unit_drop(struct unit *unit)
{
    struct owners *owners = &unit->worker->engine->partitions->owners;

    if (unit->fiber != NULL)
        return false;
    script_queue_remove(unit);
    owners_withdraw(owners, &unit->claim);
    owners_give(owners, &unit->claim);
    destroy_unit(unit);
    return true;
}

void unit_abandon(struct unit *unit)
{
    struct owners *owners = &unit->worker->engine->partitions->owners;

    unit->stop = UNIT_ABANDONED;
    owners_withdraw(owners, &unit->claim);
    while (!enter(unit))
        ;
    publish_drop(&unit->messages);
    drop_messages(unit);
    event_list_clear(&unit->events);
    blocking_drop_notes(&unit->noted);
    give_partitions(unit, 0);
    destroy_unit(unit);
}

enum run_result unit_resume(struct call *call, struct worker *worker)
{
    struct unit *unit = call->client->unit;

    unit->args = call->args;
    unit->arg_count = call->arg_count;
    call->command = unit->command;
    if (!may_enter(unit))
        return RUN_PARKED;
    return go_on(unit, call, worker);
}
