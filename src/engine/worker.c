#include "engine/worker.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/meter.h"
#include "engine/big_call.h"
#include "engine/blocking.h"
#include "engine/client_ids.h"
#include "engine/deadlines.h"
#include "engine/delivery.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "engine/monitor.h"
#include "engine/scripts.h"
#include "engine/transaction.h"
#include "engine/unit.h"
#include "engine/tracking.h"
#include "tier/reader.h"

/* Slices of scripts in a turn: clients with ready sockets come in between. */
enum { SLICES_A_TURN = 2 };

void worker_init(struct worker *worker, struct engine *engine, int index)
{
    uint64_t seed;

    *worker = (struct worker){ .engine = engine, .index = index, .allocated = &meter_nothing_allocated };
    mailbox_init(&worker->mailbox);
    arena_init(&worker->arena);
    ticks_init(&worker->clock.ticks);
    random_system(&seed, sizeof(seed));
    random_init(&worker->turn.random, seed);
    worker->turn.hooks = &engine->hooks;
    worker->turn.command_stats = command_stats_create(engine->commands != NULL ? command_row_count(engine->commands) : 0);
    fiber_pool_init(&worker->units.fibers, &engine->memory.stacks);
}

int worker_open_reader(struct worker *worker, bool without_ring)
{
    struct tier *tier = worker->engine->tier;

    if (tier == NULL)
        return -1;
    worker->reader = tier_open_reader(tier, worker, without_ring);
    return reader_descriptor(worker->reader);
}

void worker_close_reader(struct worker *worker)
{
    reader_close(worker->reader);
    worker->reader = NULL;
}

void worker_release(struct worker *worker)
{
    worker_close_reader(worker);
    command_stats_destroy(worker->turn.command_stats);
    blocking_drop_notes(&worker->noted);
    scripts_release(worker);
    delivery_stop(worker);
    event_list_release(&worker->events);
    mem_free(worker->deadlines);
    unit_free_spare(worker);
    fiber_pool_release(&worker->units.fibers);
    arena_release(&worker->arena);
    mailbox_release(&worker->mailbox);
}

void worker_begin_turn(struct worker *worker)
{
    struct engine *engine = worker->engine;
    struct turn *turn = &worker->turn;
    const struct config *config = engine->config;
    int64_t mono_ns = ticks_sync(&worker->clock.ticks), wall_us = clock_wall_us();

    turn->now_ms = wall_us / 1000;
    turn->now_us = mono_ns / 1000;
    worker->clock.wall_offset_ns = wall_us * 1000 - mono_ns;
    turn->minutes = heat_minutes(turn->now_ms);
    turn->heat.log_factor = (uint32_t)config_number(config, CONFIG_LFU_LOG_FACTOR);
    turn->heat.decay_minutes = (uint32_t)config_number(config, CONFIG_LFU_DECAY_TIME);
    engine_limits(engine, &turn->limits);
    turn->string_size_max = config_number(config, CONFIG_PROTO_MAX_BULK_LEN);
    turn->hll_sparse_size_max = (size_t)config_number(config, CONFIG_HLL_SPARSE_MAX_BYTES);
    turn->lsn_seen = 0;
    turn->over_reserve = memory_reserve_is_used_up(engine);
    pace_check(worker);
    /* A writer that can't make room looks again by itself; waking it in every turn would only cost CPU. */
    if (turn->memory_fill >= 0 && !tier_is_blocked(engine->tier) && !tier_is_demoting(engine->tier) && !tier_is_stuck(engine->tier))
        tier_nudge(engine->tier);
}

uint64_t worker_covered(const struct worker *worker)
{
    const struct engine *engine = worker->engine;
    struct aof *aof = engine->aof;

    if (aof == NULL)
        return UINT64_MAX;
    if (config_number(engine->config, CONFIG_APPENDFSYNC) == CONFIG_FSYNC_ALWAYS)
        return aof_durable(aof);
    return aof_written(aof);
}

uint64_t worker_end_turn(struct worker *worker)
{
    struct engine *engine = worker->engine;
    struct aof *aof = engine->aof;
    uint64_t seen = worker->turn.lsn_seen;

    reader_submit(worker->reader);
    if (aof != NULL && seen > 0) {
        aof_flush(aof, seen);
        if (config_number(engine->config, CONFIG_APPENDFSYNC) == CONFIG_FSYNC_ALWAYS && aof_durable(aof) < seen)
            aof_request_sync(aof, seen);
    } else if (aof == NULL && history_is_on(&engine->history)) {
        history_drain(&engine->history);
    }
    worker->turn.lsn_seen = 0;
    worker->clock.call_ns = 0;
    return worker_covered(worker);
}

/* Returns whether everything that the client was parked for has come. A wake-up may be left from a call that returned without waiting for
 * all it had asked for; the client may wait for something else by now. */
static bool is_ready(const struct client *client)
{
    return client->parked && worker_has_all(client) && (client->waiter == NULL || blocking_is_over(client->waiter));
}

#ifdef KELVIN_DEBUG
enum { FORGOTTEN_CHECKS = 5 };      /* in a row: what has come just now is not on its way for seconds */

static bool is_forgotten(struct worker *worker, const struct client *client)
{
    if (client->unit != NULL && client->unit->wait != UNIT_WAITS_FOR_CLIENT)
        return false;
    return is_ready(client) && client->owned.claim == NULL && !mailbox_refers_to(&worker->mailbox, client);
}

void worker_check_parked(struct client *client)
{
    client->forgotten_checks = is_forgotten(client->worker, client) ? client->forgotten_checks + 1 : 0;
    CHECK(client->forgotten_checks < FORGOTTEN_CHECKS);
}
#endif

/* All that a client has is given up, wherever it waits: the one place. Returns true if its memory may go now. */
static bool let_client_go(struct worker *worker, struct client *client)
{
    struct engine *engine = worker->engine;

    delivery_forget(client);        /* its unit may have subscribed after it was closed */
    parking_remove(worker, client);
    owners_forget(&engine->partitions->owners, &client->owned);
    deadline_remove(worker, &client->cold_wait.deadline);
    transaction_end(client);
    if (client->waiter != NULL)
        blocking_forget(client);
    if (client->parked)
        atomic_fetch_sub(&engine->clients.parked, 1);
    client->parked = false;
    if (client->paused)
        atomic_fetch_sub(&engine->clients.paused, 1);
    client->paused = false;
    if (client->loads.waits != NULL) {
        reader_submit(worker->reader);      /* a load that is not posted would never end */
        tier_release(engine->tier, client);
    }
    job_forget(engine->jobs, client);
    big_call_end(engine, client);
    return !mailbox_refers_to(&worker->mailbox, client);
}

static void discard_if_gone(struct worker *worker, struct client *client)
{
    if (let_client_go(worker, client))
        worker->host.discard(client);
}

/* Runs the client's parked request again. The client may have been closed while its unit was suspended: the unit goes on, and then the client's
 * memory is discarded. */
static void resume_client(struct worker *worker, struct client *client)
{
    if (LIKELY(!client->dead))
        worker->host.resume(client);
    else if (engine_run(worker, client, NULL, 0) == RUN_DONE)
        discard_if_gone(worker, client);
}

void worker_abandon_units(struct worker *worker)
{
    while (worker->units.suspended != NULL) {
        struct client *client = worker->units.suspended->client;

        unit_abandon(worker->units.suspended);
        if (client->dead)
            discard_if_gone(worker, client);
    }
}

void worker_read_mail(struct worker *worker)
{
    struct mail_delivery delivery;
    struct client *client;

    reader_collect(worker->reader);
    mailbox_empty(&worker->mailbox, &delivery);
    worker->slices = 0;
    while (worker->slices < SLICES_A_TURN && (client = mailbox_next_ready(&worker->mailbox, &delivery)) != NULL) {
        if (client->dead && client->unit == NULL)
            worker->host.discard(client);
        else if (is_ready(client))
            resume_client(worker, client);
    }
    mailbox_ring_for_rest(&worker->mailbox);
    while (delivery.mail != NULL) {
        struct mail *mail = delivery.mail;

        delivery.mail = mail->next;
        mail->run(mail, worker);
    }
    if (delivery.ended != 0)
        parking_resume_each(worker, delivery.ended);
    if (worker->synced_first != NULL)
        blocking_check_synced(worker);
}

void worker_measure_clients(struct worker *worker)
{
    uint64_t input_max = 0, output_max = 0;

    for (const struct client *client = worker->clients; client != NULL; client = client->next) {
        uint64_t input = client->buffers.query_room + client->buffers.arguments_size, output = client->reply.out.capacity;

        input_max = input > input_max ? input : input_max;
        output_max = output > output_max ? output : output_max;
    }
    worker->buffers.input_max = input_max;
    worker->buffers.output_max = output_max;
}

/* A partition that the client waits for has no owner any more. */
static void wake_owned(struct owner_waiter *waiter)
{
    struct client *client = (struct client *)((char *)waiter - offsetof(struct client, owned));

    client_wake(client);
}

void worker_add_client(struct worker *worker, struct client *client)
{
    client->worker = worker;
    client->owned.wake = wake_owned;
    client->prev = NULL;
    client->next = worker->clients;
    if (worker->clients != NULL)
        worker->clients->prev = client;
    worker->clients = client;
    worker->client_count++;
    if (worker->engine->client_ids != NULL)
        client_ids_add(worker->engine->client_ids, client);
}

bool worker_remove_client(struct worker *worker, struct client *client)
{
    if (client->prev != NULL)
        client->prev->next = client->next;
    else
        worker->clients = client->next;
    if (client->next != NULL)
        client->next->prev = client->prev;
    worker->client_count--;
    client_memory_forget(client);
    monitor_end(client);
    client->dead = true;
    tracking_forget(client);
    delivery_forget(client);
    if (client->worker->engine->client_ids != NULL)
        client_ids_remove(client->worker->engine->client_ids, client);
    if (client->unit != NULL && !unit_drop(client->unit))
        return false;           /* it goes on: resume_client */
    return let_client_go(worker, client);
}
