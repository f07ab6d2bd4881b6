/* The calls of a unit. On its fiber: what is not there is waited for in place. */
#include "base/check.h"
#include "base/clock.h"
#include "engine/blocking.h"
#include "engine/execute_private.h"
#include "engine/memory.h"
#include "engine/running_scripts.h"
#include "engine/unit_private.h"
#include "tier/reader.h"

enum {
    SLICE_NS = 5 * 1000 * 1000,         /* others on the worker have their turn after that */
    SLOW_NS = 50 * 1000 * 1000,         /* claims that wait for it do not keep others waiting from then on */
};

/* Gives the thread back until what it waits for has come. */
static void suspend(struct unit *unit, enum unit_wait wait)
{
    if (unit->script != NULL)
        running_script_publish(unit);           /* from now on others may ask what runs */
    unit->wait = wait;
    fiber_suspend(&unit->worker->units.fibers);
}

struct call unit_new_call(struct unit *unit, struct client *client, struct reply *reply, const struct bytes *args, int arg_count)
{
    struct engine *engine = unit->worker->engine;

    return (struct call){
        .engine = engine,
        .partitions = engine->partitions,
        .turn = &unit->worker->turn,
        .client = client,
        .requester = unit->client,
        .unit = unit,
        .events = &unit->events,
        .reply = reply,
        .args = args,
        .arg_count = arg_count,
        .db = client->db,
        .arena = &unit->arena,
        .reply_start = reply->out.size,
    };
}

/* Adds the partitions of the call's keys that the unit does not own to its claim. */
static bool wants_more(struct unit *unit, const struct call *call)
{
    const struct partitions *all = call->partitions;
    bool wants = false;

    if (unit->owns_all)
        return false;
    if (call->command->flags & (COMMAND_EXCLUSIVE | COMMAND_WHOLE)) {
        partition_bits_fill(&unit->claim.wanted, all->count);
        unit->owns_all = true;
        return true;
    }
    for (int i = 0; i < call->key_count; i++) {
        uint32_t index = partition_index(all, call->keys[i].hash);

        if (partition_bits_has(&unit->claim.owned, index))
            continue;
        partition_bits_add(&unit->claim.wanted, index);
        wants = true;
    }
    return wants;
}

/* In a cluster a script that declares keys has no token, so that scripts of different slots run side by side. One that then uses keys of other slots, which
 * those without "#!lua" may, and has changed something, can neither wait nor start again. */
static void refuse_other_slot(struct unit *unit, struct call *call)
{
    partition_bits_clear(&unit->claim.wanted, call->partitions->count);
    reply_errorf(call, "ERR a script that has changed something needs a key of a slot that it has not declared, and which is in use: try again, or use keys of one slot");
}

/* Comes to own the partitions of the call's keys. False: it has to start again (unit->stop), or the call was refused. */
static bool own_keys(struct unit *unit, struct call *call)
{
    if (!wants_more(unit, call))
        return true;
    turn_count(call->turn, STAT_UNIT_ESCAPES, 1);
    switch (owners_claim(&call->partitions->owners, &unit->claim)) {
    case CLAIM_GRANTED:
        break;
    case CLAIM_WAITS:
        suspend(unit, UNIT_WAITS_FOR_OWNERS);
        if (unit->stop != UNIT_GOES_ON)
            return false;
        break;
    case CLAIM_MUST_RESTART:
        unit->owns_all = false;
        if (unit->change_count > 0 || unit->messages.first != NULL)
            refuse_other_slot(unit, call);
        else
            unit->stop = UNIT_RESTARTS;
        return false;
    }
    CHECK(unit_take_partitions(unit));
    return true;
}

/* As it was before the attempt. */
static void reset_call(struct call *call)
{
    call->key_next = 0;
    call->handles_stale = call->asks = call->parked = false;
    call->lacks = NULL;
    call->expired = call->expired_last = NULL;
}

/* Suspends the unit until its client is woken by whatever the call has asked for. */
static void wait_for_client(struct unit *unit)
{
    struct worker *worker = unit->worker;

    reader_submit(worker->reader);
    suspend(unit, UNIT_WAITS_FOR_CLIENT);
}

static bool waits_in_place(const struct unit *unit)
{
    return unit->client->caller & TRAIT_WAITS_IN_PLACE;
}

/* For what its call lacks. A replay's thread does not know when that comes, and tries again. */
static void wait_for_more(struct unit *unit)
{
    if (waits_in_place(unit))
        suspend(unit, UNIT_WAITS_FOR_TURN);
    while (!worker_has_all(unit->client) && unit->stop == UNIT_GOES_ON)
        wait_for_client(unit);
}

static void forget_job(struct unit *unit)
{
    if (unit->client->job != NULL)
        job_forget(unit->worker->engine->jobs, unit->client);
}

/* A script may touch more than there is memory for: demotion makes room while it waits, as that tests no owner. It waits for nothing else: the lazy free is
 * about to end, and the script keeps others from its keys. */
static void wait_for_memory(struct unit *unit)
{
    struct worker *worker = unit->worker;
    struct tier *tier = worker->engine->tier;

    if (waits_in_place(unit)) {
        if (worker->turn.over_memory)
            memory_wait(worker->engine);
        return;
    }
    while (!tier_is_blocked(tier) && worker->turn.over_memory && memory_state(worker->engine) == MEMORY_COMES &&
           unit->stop == UNIT_GOES_ON) {
        parking_add(worker, unit->client, PARKED_FOR_WRITER);
        tier_nudge(tier);
        suspend(unit, UNIT_WAITS_FOR_CLIENT);
        pace_check(worker);
    }
}

static bool go_on(struct unit *unit)
{
    int64_t ran_ns = unit->clock_ns - unit->entered_ns;

    if (unit->stop == UNIT_GOES_ON && ran_ns > SLICE_NS) {
        if (unit->ran_ns + ran_ns > SLOW_NS)
            unit->claim.slow = true;
        unit_note_busy(unit, unit->ran_ns + ran_ns);
        unit->worker->slices++;
        client_wake(unit->client);
        suspend(unit, UNIT_WAITS_FOR_TURN);
    }
    if (unit->script_fate == SCRIPT_IS_KILLED && unit->stop == UNIT_GOES_ON)
        unit->stop = UNIT_KILLED;
    return unit->stop == UNIT_GOES_ON;
}

static bool run_call(struct unit *unit, struct call *call)
{
    struct worker *worker = unit->worker;

    for (;;) {
        enum run_result result;

        if (!own_keys(unit, call))
            return unit->stop == UNIT_GOES_ON;
        worker->turn.now_ms = unit->now_ms;
        result = execute_once(call, worker);
        blocking_keep_notes(worker, unit);      /* before others have their turn */
        if (call->asks) {
            execute_take_asked(call);
            continue;
        }
        if (result == RUN_DONE)
            return true;
        wait_for_more(unit);
        unit->clock_ns = clock_mono_ns();
        if (!go_on(unit))
            return false;
        if (unit->client->loads.waits == NULL)      /* it has given its pins back, to go on a step at a time */
            wait_for_memory(unit);
        if (unit->stop != UNIT_GOES_ON)
            return false;
        reset_call(call);
    }
}

bool unit_go_on(struct unit *unit)
{
    unit->clock_ns = clock_mono_ns();
    return go_on(unit);
}

void unit_run_inner(struct unit *unit, struct call *call)
{
    int64_t began_ns = clock_mono_ns();

    call->command->run(call);
    execute_account(call, unit->worker, clock_mono_ns() - began_ns);
}

bool unit_call(struct unit *unit, struct call *call)
{
    struct arena_mark mark;
    int64_t began_ns;
    bool done;

    if (!go_on(unit))
        return false;
    if (unit->releases_pins || waits_in_place(unit))
        wait_for_memory(unit);
    began_ns = unit->clock_ns;
    mark = arena_mark(&unit->arena);
    done = unit_call_uncounted(unit, call);
    if (done) {
        unit->clock_ns = clock_mono_ns();
        execute_account(call, unit->worker, unit->clock_ns - began_ns);
        execute_notify_monitors(call, unit->worker);
    }
    arena_rewind(&unit->arena, mark);
    return done;
}

bool unit_call_uncounted(struct unit *unit, struct call *call)
{
    struct worker *worker = unit->worker;

    if (call->command->keys != NULL && call->keys == NULL)
        execute_find_keys(call, worker);
    if (!run_call(unit, call))
        return false;
    forget_job(unit);
    if (unit->releases_pins && unit->client->loads.waits != NULL)
        tier_release(worker->engine->tier, unit->client);
    unit->change_count += call->change_count;
    return true;
}
