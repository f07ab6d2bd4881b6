/* The life of a call: find, check, pass the gate of memory, run under locks (execute_locked.c), account. */
#include <string.h>

#include "base/compiler.h"
#include "call/command_keys.h"
#include "engine/access.h"
#include "engine/big_call.h"
#include "engine/blocking.h"
#include "engine/deadlines.h"
#include "engine/delivery.h"
#include "engine/engine.h"
#include "engine/execute_private.h"
#include "engine/memory.h"
#include "engine/monitor.h"
#include "engine/prefetch.h"
#include "engine/redirect.h"
#include "engine/role.h"
#include "engine/script_run.h"
#include "engine/transaction.h"
#include "engine/unit_private.h"
#include "stats/hot_keys.h"

enum { MEMORY_CHECK_WRITES = 64, MEMORY_CHECK_PACED = 8 };

static inline __attribute__((always_inline)) bool find_command(struct call *call)
{
    const struct command_table *commands = call->engine->commands;
    const struct command *command = LIKELY(!(call->client->caller & TRAIT_LOGGED_NAMES))
        ? command_find_call(commands, call->args, call->arg_count) : command_find_logged_call(commands, call->args, call->arg_count);

    if (command == NULL) {
        execute_reply_unknown(call);
        return false;
    }
    call->command = command;
    if (!command_takes(command, call->arg_count) || command->run == NULL) {
        reply_wrong_arity(call);
        return false;
    }
    return true;
}

/* Makes the checks that need no look at data; what the user may do was checked before. */
static bool is_allowed(struct call *call)
{
    struct engine *engine = call->engine;
    struct aof *aof = engine->aof;
    uint32_t flags = call->command->flags;

    if (call->client->caller & TRAIT_UNGATED)
        return true;
    if (UNLIKELY((role_bits(engine) | engine->save_failed | engine->disk_is_full) != 0) && !execute_role_allows(call, flags, flags))
        return false;
    if (engine->state == ENGINE_LOADING && !(flags & COMMAND_LOADING)) {
        reply_error(call, ERR_NOT_LOADED);
        return false;
    }
    if (__builtin_expect(call->client->flags & (CLIENT_MONITOR | CLIENT_REPLICA | CLIENT_LISTENS), 0) && !execute_allows_listener(call))
        return false;
    if (__builtin_expect(engine->busy.count > 0, 0) && !(flags & COMMAND_ALLOW_BUSY)) {
        execute_reply_busy(call, engine->busy.with_function);
        return false;
    }
    if (__builtin_expect(aof != NULL && aof_error(aof) != STATUS_OK, 0))
        return execute_disks_allow(call, flags);
    return true;
}

static inline __attribute__((always_inline)) void find_keys(struct call *call, struct worker *worker, const struct request_hint *hint)
{
    const struct command *command = call->command;
    int count;

    /* A unit may be suspended with its call, while the worker runs others. */
    call->keys = LIKELY(call->unit == NULL) ? worker->keys : arena_alloc(call->arena, WORKER_KEYS * sizeof(struct call_key));
    if (LIKELY(command->only_key != 0 && command->only_key < call->arg_count)) {
        call->keys[0] = (struct call_key){ .arg = command->only_key, .flags = command->keys->flags };
        count = 1;
    } else {
        count = command_keys(command, call->args, call->arg_count, call->keys, WORKER_KEYS);
    }
    if (UNLIKELY(count > WORKER_KEYS)) {
        call->keys = arena_alloc(call->arena, (size_t)count * sizeof(struct call_key));
        count = command_keys(command, call->args, call->arg_count, call->keys, count);
    }
    /* Invalid arguments have no keys: the handler replies the error. */
    call->key_count = call->own_key_count = count > 0 ? count : 0;
    if (hint != NULL && LIKELY(call->key_count == 1 && call->keys[0].arg == 1)) {
        call->keys[0].hash = hint->hash;
        return;
    }
    for (int i = 0; i < count; i++)
        call->keys[i].hash = key_hash(&call->partitions->seed, call->args[call->keys[i].arg]);
}

/* Memory first, pins later (tier rule 7). True if the call may go on. */
static inline __attribute__((always_inline)) bool pass_memory_gate(struct call *call, struct worker *worker, uint32_t flags)
{
    struct engine *engine = call->engine;
    bool waits_in_place = call->client->caller & TRAIT_WAITS_IN_PLACE;

    if (call->client->caller & TRAIT_UNMETERED || (!(flags & (COMMAND_DENYOOM | COMMAND_WRITE)) && call->key_count == 0))
        return true;
    if (++worker->writes_since_check >= (waits_in_place || call->turn->memory_fill >= 0 ? MEMORY_CHECK_PACED : MEMORY_CHECK_WRITES) ||
        UNLIKELY(*worker->allocated - worker->allocated_at_check > worker->allocated_max)) {
        pace_check(worker);
        call->turn->over_reserve = memory_reserve_is_used_up(engine);
    }
    if (__builtin_expect(call->turn->over_reserve, 0) && !execute_wait_for_reserve(call, worker, flags))
        return false;
    if (__builtin_expect(call->turn->memory_fill < 0 && !call->turn->over_memory, 1) ||
        (!(flags & COMMAND_DENYOOM) && !waits_in_place))
        return true;
    return execute_make_room(call, worker);
}

static bool pause_concerns(const struct engine *engine, int64_t until_us, int64_t now_us, uint32_t flags)
{
    bool writes = flags & (COMMAND_WRITE | COMMAND_MAY_REPLICATE);

    return (engine->holds_writes && writes) || (now_us < until_us && (writes || !engine->pause_writes_only));
}

static inline __attribute__((always_inline)) bool is_paused(struct call *call, uint32_t flags)
{
    struct engine *engine = call->engine;
    int64_t until_us = engine->pause_until_us;

    if (__builtin_expect(until_us == 0 && !engine->holds_writes, 1))
        return false;
    if (call->client->caller & TRAIT_UNGATED || !pause_concerns(engine, until_us, call->turn->now_us, flags))
        return false;
    return bytes_of_string(call->command->name).size < 6 || memcmp(call->command->name, "client", 6) != 0;
}

/* Counted once, however often the request is looked at while the pause lasts. */
static void note_paused(struct client *client, struct engine *engine, bool paused)
{
    if (__builtin_expect(client->paused == paused, 1))
        return;
    client->paused = paused;
    atomic_fetch_add_explicit(&engine->clients.paused, paused ? 1 : -1, memory_order_relaxed);
}

/* A handler that asks for more keys is run again with them: tier rule 8, for nothing was changed yet. */
static enum run_result run_locked(struct call *call, struct worker *worker)
{
    enum run_result result = execute_once(call, worker);

    while (call->asks) {
        execute_take_asked(call);
        result = execute_once(call, worker);
    }
    return result;
}

static void count_changes(struct call *call)
{
    if (call->change_count > 0)
        command_stats_add(&call->turn->changes, call->change_count);
}

static inline __attribute__((always_inline)) void account(struct call *call, struct worker *worker, int64_t taken_ns)
{
    struct command_stats *stats = engine_stats_of(call->engine, call->turn, call->command);

    command_stats_note(stats, taken_ns);
    if (call->failed)
        command_stats_add(&stats->failed, 1);
    execute_note_call(call, taken_ns / 1000);
    if (UNLIKELY(hot_keys_are_tracked(call->engine->stats.hot_keys)))
        execute_note_keys(call, taken_ns);
    turn_count(&worker->turn, STAT_COMMANDS, 1);
    call->client->totals.commands++;
}

static void finish_call(struct call *call, struct worker *worker, int64_t started_ns)
{
    int64_t now_ns = UNLIKELY(call->ran_ns != 0) ? worker->clock.call_ns : ticks_now_ns(&worker->clock.ticks);      /* a unit has read the clock */

    worker->clock.call_ns = now_ns;
    account(call, worker, UNLIKELY(call->ran_ns != 0) ? call->ran_ns : now_ns - started_ns);
    if (UNLIKELY(call->client->request.has_waited))
        execute_note_waits(call);
    count_changes(call);
}

/* CLIENT REPLY OFF and SKIP. Pushes are sent even so, also as the reply of a command. */
static void drop_unwanted_reply(struct call *call)
{
    struct client *client = call->client;

    if (client->flags & (CLIENT_REPLY_OFF | CLIENT_REPLY_SKIP) && !call->replied_push && !call->keeps_reply)
        reply_truncate(&client->reply, call->reply_start);
    client->flags &= (uint32_t)~CLIENT_REPLY_SKIP;
    if (client->flags & CLIENT_REPLY_SKIP_NEXT) {
        client->flags &= (uint32_t)~CLIENT_REPLY_SKIP_NEXT;
        client->flags |= CLIENT_REPLY_SKIP;
    }
    delivery_end_hold(client);
}

/* A replica's connection has the stream and no replies: a client that has asked for one is closed, as in Redis. */
static void close_replied_replica(struct call *call)
{
    struct client *client = call->client;

    if (!(client->flags & CLIENT_REPLICA) || call->keeps_reply || client->reply.out.size == call->reply_start)
        return;
    reply_truncate(&client->reply, call->reply_start);
    client->flags |= CLIENT_CLOSE_NOW;
    log_write(call->engine->log, LOG_LEVEL_WARNING, "Replica generated a reply to command '%s', disconnecting it: id=%llu addr=%s",
        call->command != NULL ? call->command->name : "<unknown>", (unsigned long long)client->id, client->address);
}

static bool is_client_command(const struct command *command)
{
    return command != NULL && strncmp(command->name, "client", 6) == 0;
}

/* Ends the effect of CLIENT REPLY, CLIENT CACHING and ASKING on this call. CLIENT CACHING is about the next command that is not CLIENT, or about
 * the next transaction, and so is ASKING. */
static void end_client_options(struct call *call)
{
    struct client *client = call->client;

    if (LIKELY(!(client->flags & (CLIENT_REPLY_OFF | CLIENT_REPLY_SKIP | CLIENT_REPLY_SKIP_NEXT | CLIENT_CACHING | CLIENT_PUSHES_HELD | CLIENT_ASKING | CLIENT_REPLICA))))
        return;
    drop_unwanted_reply(call);
    close_replied_replica(call);
    if (client->flags & CLIENT_MULTI)
        return;
    if (!is_client_command(call->command))
        client->flags &= ~(uint32_t)CLIENT_CACHING;
    if (call->command == NULL || strcmp(call->command->name, "asking") != 0)
        client->flags &= ~(uint32_t)CLIENT_ASKING;
}

static inline void end_waiting(struct engine *engine, struct client *client)
{
    if (client->loads.waits != NULL)
        tier_release(engine->tier, client);
    if (client->job != NULL)
        job_forget(engine->jobs, client);
    big_call_end(engine, client);
}

/* However long it has waited, it is not idle: its reply is not sent yet, and may have to wait for the log. */
static void unpark(struct worker *worker, struct client *client)
{
    client->parked = false;
    client->active_us = worker->turn.now_us;
    atomic_fetch_sub_explicit(&worker->engine->clients.parked, 1, memory_order_relaxed);
}

/* The request of a client that waits for a key is run again: it has been served meanwhile, or its time is up. */
static enum run_result end_blocking(struct call *call, struct worker *worker)
{
    struct client *client = call->client;

    unpark(worker, client);
    blocking_take_reply(worker, client);
    client->totals.commands++;
    end_client_options(call);
    return RUN_DONE;
}

/* Monitors get what has run, or begins to wait for a key. */
void execute_notify_monitors(struct call *call, struct worker *worker)
{
    if (__builtin_expect(atomic_load_explicit(&call->engine->monitor_count, memory_order_relaxed) > 0, 0))
        monitor_notify(call, worker);
}

/* Serves those that wait for what the call changed, before anything else that its client has asked for. */
static void serve_waiters(struct worker *worker, const struct client *client)
{
    if (__builtin_expect(worker->noted.first != NULL, 0) && !(client->caller & TRAIT_SERVES))
        blocking_serve(worker);
}

/* Returns when the call began: the time of the call, not of the turn. A turn may be long, and a key must not expire early. */
static int64_t begin_call(struct worker *worker, struct client *client)
{
    int64_t started_ns = worker->clock.call_ns != 0 ? worker->clock.call_ns : ticks_now_ns(&worker->clock.ticks);

    if (client->parked) {
        unpark(worker, client);
        if (client->owned.claim != NULL)
            owners_forget(&worker->engine->partitions->owners, &client->owned);
        deadline_remove(worker, &client->cold_wait.deadline);
        execute_note_resumed(client, started_ns / 1000);
    } else {
        client->request.began_us = started_ns / 1000;
        client->request.has_waited = client->request.draws_again = false;
    }
    worker->turn.now_ms = (started_ns + worker->clock.wall_offset_ns) / 1000000;
    arena_reset(&worker->arena);
    return started_ns;
}

static enum attempt try_to_run(struct call *call, struct worker *worker)
{
    uint32_t flags = call->command->flags;
    /* The actions of a script are not known yet: script_pass_gates asks again. */
    bool paused = is_paused(call, flags & COMMAND_UNIT ? flags & ~(uint32_t)(COMMAND_WRITE | COMMAND_MAY_REPLICATE) : flags);

    note_paused(call->client, call->engine, paused);
    if (paused) {
        parking_add_call(worker, call, PARKED_FOR_PAUSE);
        return PARKED;
    }
    if (!pass_memory_gate(call, worker, call->command->flags))
        return call->parked ? PARKED : REFUSED;
    if (UNLIKELY(call->command->flags & (COMMAND_UNIT | COMMAND_EXCLUSIVE | COMMAND_OWNS_KEYS)) &&
        (!(call->client->caller & TRAIT_CLAIMS_NOTHING) || call->command->flags & COMMAND_UNIT))
        return execute_unit(call, worker);
    return run_locked(call, worker) == RUN_PARKED ? PARKED : RAN;
}

static void note_refused(struct call *call)
{
    execute_count_rejected(call);
    transaction_note_refused(call->client);
}

static enum run_result end_early(struct call *call)
{
    end_client_options(call);
    note_paused(call->client, call->engine, false);
    end_waiting(call->engine, call->client);
    return RUN_DONE;
}

/* Refused before anything was looked at. */
static enum run_result end_refused(struct call *call)
{
    note_refused(call);
    if (call->command != NULL && call->command->flags & COMMAND_RUNS_QUEUE)
        execute_discard(call);
    return end_early(call);
}

/* A transaction that is redirected has ended. */
static enum run_result end_redirected(struct call *call)
{
    note_refused(call);
    return end_early(call);
}

static enum run_result end_parked(struct call *call, struct worker *worker)
{
    struct client *client = call->client;

    /* Tier rule 8. A unit's reply is its own: what a monitor got meanwhile are lines about its own calls. */
    CHECK((client->reply.out.size == call->reply_start || (client->unit != NULL && client->flags & CLIENT_MONITOR)) &&
          (call->change_count == 0 || call->wait != NULL));
    count_changes(call);
    if (client->caller & TRAIT_NOT_PARKED)
        return RUN_PARKED;
    if (client->waiter != NULL) {
        end_waiting(call->engine, client);      /* what it has loaded is not kept in RAM while it waits for a key */
        execute_notify_monitors(call, worker);
    }
    client->parked = true;
    if (client->waiter == NULL)
        execute_note_parked(client);
    atomic_fetch_add_explicit(&call->engine->clients.parked, 1, memory_order_relaxed);
    serve_waiters(worker, client);      /* of a key that was found to have expired */
    return RUN_PARKED;
}

static inline __attribute__((always_inline)) enum run_result end_done(struct call *call, struct worker *worker, bool ran)
{
    end_client_options(call);
    end_waiting(call->engine, call->client);
    if (ran)
        execute_notify_monitors(call, worker);
    serve_waiters(worker, call->client);
    /* A waiter that could not be served because the unit owned a partition of its command. */
    if (ran && UNLIKELY(call->command->flags & (COMMAND_UNIT | COMMAND_EXCLUSIVE | COMMAND_OWNS_KEYS)))
        blocking_retry(worker);
    return RUN_DONE;
}

/* After MULTI: the command waits for EXEC. One that needs memory is refused now if there is none. */
static enum run_result end_queued(struct call *call, struct worker *worker)
{
    uint32_t flags = call->command->flags;

    if (!execute_may_queue(call, worker)) {
        if (call->parked)
            return end_parked(call, worker);
        return end_refused(call);
    }
    if (UNLIKELY(flags & COMMAND_UNIT)) {
        flags = script_call_flags(call);
        if (!execute_role_allows(call, flags, flags))
            return end_refused(call);
    }
    transaction_queue(call, flags);
    if (call->failed)
        execute_count_rejected(call);
    return end_done(call, worker, false);
}

static enum run_result run_request(struct worker *worker, struct client *client, const struct bytes *args, int arg_count, const struct request_hint *hint)
{
    struct engine *engine = worker->engine;
    struct call call = {
        .engine = engine,
        .partitions = engine->partitions,
        .turn = &worker->turn,
        .client = client,
        .requester = client,
        .reply = &client->reply,
        .args = args,
        .arg_count = arg_count,
        .db = client->db,
        .arena = &worker->arena,
        .reply_start = client->reply.out.size,
    };
    enum attempt attempt;
    int64_t started_ns;

    if (client->waiter != NULL && !blocking_is_over(client->waiter))
        return RUN_PARKED;
    if (client->waiter != NULL && !blocking_begins_again(worker, client))
        return end_blocking(&call, worker);
    started_ns = begin_call(worker, client);
    if (UNLIKELY(client->unit != NULL)) {
        attempt = unit_resume(&call, worker) == RUN_PARKED ? PARKED : RAN;
    } else {
        bool is_known = find_command(&call);

        client->last_command = call.command;            /* one that is refused, too: ACL LOG has it */
        if (!is_known)
            return end_refused(&call);
        if (call.command->keys != NULL && LIKELY(!transaction_queues(&call) || engine->redirect != NULL))
            find_keys(&call, worker, hint);
        if (UNLIKELY(client->checks_acl) && !access_allows(&call, ACCESS_TOP))
            return end_refused(&call);
        if (UNLIKELY(engine->redirect != NULL) && !redirect_is_usual(engine->redirect, &call) && !redirect_allows(&call))
            return end_redirected(&call);
        if (!is_allowed(&call))
            return end_refused(&call);
        if (UNLIKELY(transaction_queues(&call)))
            return end_queued(&call, worker);
        attempt = try_to_run(&call, worker);
    }
    if (attempt == PARKED)
        return end_parked(&call, worker);
    if (attempt == RAN)
        finish_call(&call, worker, started_ns);
    else
        note_refused(&call);
    return end_done(&call, worker, attempt == RAN);
}

enum run_result engine_run_hinted(struct worker *worker, struct client *client, const struct bytes *args, int arg_count,
    const struct request_hint *hint)
{
    enum run_result result;

    if (LIKELY(client->receipt == 0) || !redirect_is_receipt(worker->engine->redirect, client->receipt))
        return run_request(worker, client, args, arg_count, hint);
    worker->turn.clock_stopped = true;      /* the slots' owner decides what has expired, as a primary does for its replicas */
    result = run_request(worker, client, args, arg_count, hint);
    worker->turn.clock_stopped = false;
    return result;
}

enum run_result engine_run(struct worker *worker, struct client *client, const struct bytes *args, int arg_count)
{
    return engine_run_hinted(worker, client, args, arg_count, NULL);
}

/* The same for the other files of execute. */

void execute_find_keys(struct call *call, struct worker *worker) { find_keys(call, worker, NULL); }

bool execute_is_paused(struct call *call, uint32_t flags)
{
    bool paused = is_paused(call, flags);

    note_paused(call->client, call->engine, paused);
    return paused;
}

bool execute_pass_memory_gate(struct call *call, struct worker *worker, uint32_t flags)
{
    return pass_memory_gate(call, worker, flags);
}

void execute_account(struct call *call, struct worker *worker, int64_t taken_ns) { account(call, worker, taken_ns); }
