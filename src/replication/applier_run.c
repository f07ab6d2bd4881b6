/* How the applier runs a command: as a client that waits in place. */
#include "replication/applier_private.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "call/streamed.h"
#include "engine/role.h"
#include "engine/script_run.h"
#include "replication/primary.h"

enum {
    TURN_COMMANDS = 64,             /* the log is written after this many, or when there are no more */
    ERRORS_LOGGED_MS = 1000,
    DISKS_LOGGED_MS = 10000,
    ERROR_SHOWN_MAX = 256,
    NAME_SHOWN_MAX = 64,
};

void applier_fail(struct applier *applier, const char *reason)
{
    applier->has_failed = true;
    applier->options.failed(applier->options.context, reason);
}

/* --- turns: as those of a worker's loop --- */

void applier_begin_turn(struct applier *applier)
{
    worker_begin_turn(&applier->worker);
    applier->worker.turn.clock_stopped = true;
}

/* Adds what the turn has counted to the server's counts. */
static void give_counts(struct applier *applier)
{
    struct stream_counts *streamed = &applier->engine->streamed;
    struct turn *turn = &applier->worker.turn;

    for (int stat = 0; stat < STAT_COUNT; stat++) {
        if (turn->stats[stat] != 0)
            atomic_fetch_add(&streamed->stats[stat], atomic_exchange(&turn->stats[stat], 0));
    }
    atomic_fetch_add(&applier->engine->dirty, atomic_exchange(&turn->changes, 0));
}

void applier_end_turn(struct applier *applier)
{
    struct mail_delivery delivery;

    if (applier->in_turn == 0)
        return;
    applier->in_turn = 0;
    worker_end_turn(&applier->worker);
    give_counts(applier);
    mailbox_empty(&applier->worker.mailbox, &delivery);     /* it is woken when an owner leaves, and looks by itself */
    while (mailbox_next_ready(&applier->worker.mailbox, &delivery) != NULL)
        ;
    primary_end_turn(&applier->worker);        /* wakes the workers of this server's own replicas */
    applier_begin_turn(applier);
}

void applier_count_in_turn(struct applier *applier)
{
    if (++applier->in_turn >= TURN_COMMANDS)
        applier_end_turn(applier);
}

/* --- looking ahead --- */

void applier_look_ahead(struct applier *applier, struct feed *feed)
{
    if (applier->seen - applier->ran > AHEAD_COMMANDS_MIN / 2)
        return;
    while (applier->seen - applier->ran < AHEAD_COMMANDS_MIN && feed_scout(feed)) {
        applier->seen++;
        ahead_see(applier->ahead, feed->scout.args, feed->scout.arg_count);
    }
}

void applier_note_ran(struct applier *applier)
{
    if (applier->ran == applier->seen)
        return;
    applier->ran++;
    ahead_ran(applier->ahead, applier->client.db);
}

/* --- running --- */

/* The process ends, without a dump. */
static void end_server(struct applier *applier)
{
    applier->has_failed = applier->ends_server = true;
    applier->engine->process.end(applier->engine->process.end_context, 1);
}

static void end_after_error(struct applier *applier, const struct bytes *args, const char *why, size_t why_size)
{
    log_write(applier->engine->log, LOG_LEVEL_WARNING, "This replica panicked sending an error to its master: '%.*s' after processing the command '%.*s'",
        (int)(why_size < ERROR_SHOWN_MAX ? why_size : ERROR_SHOWN_MAX), why, (int)(args[0].size < NAME_SHOWN_MAX ? args[0].size : NAME_SHOWN_MAX),
        args[0].data);
    end_server(applier);
}

static void note_error(struct applier *applier, const struct bytes *args, const char *why, size_t why_size)
{
    int64_t now_ms = clock_mono_us() / 1000;

    atomic_fetch_add(&applier->errors, 1);
    if (config_number(applier->engine->config, CONFIG_PROPAGATION_ERROR_BEHAVIOR) != CONFIG_STREAM_ERROR_IGNORED) {
        end_after_error(applier, args, why, why_size);
        return;
    }
    if (now_ms - applier->logged_ms < ERRORS_LOGGED_MS)
        return;
    applier->logged_ms = now_ms;
    log_write(applier->engine->log, LOG_LEVEL_WARNING, "The primary's stream has a command that failed here: '%.*s': %.*s",
        (int)(args[0].size < NAME_SHOWN_MAX ? args[0].size : NAME_SHOWN_MAX), args[0].data, (int)why_size, why);
}

/* The call could not run: it waits for an owner, a value that is just being written, or the last dump. */
static void wait_in_place(int tries)
{
    struct timespec pause = { 0, tries < 10 ? 50000 : 1000000 };

    nanosleep(&pause, NULL);
}

/* The log or the last dump is in error: replica-ignore-disk-write-errors. False: the process ends. */
static bool disks_allow(struct applier *applier)
{
    struct engine *engine = applier->engine;
    int64_t now_ms = clock_mono_us() / 1000;
    int number;

    if (!engine_disks_fail(engine, &number))
        return true;
    if (!(role_bits(engine) & ROLE_IGNORES_DISKS)) {
        log_write(engine->log, LOG_LEVEL_WARNING, "Replica was unable to write command to disk.");
        end_server(applier);
        return false;
    }
    if (now_ms - applier->disks_logged_ms >= DISKS_LOGGED_MS) {
        applier->disks_logged_ms = now_ms;
        log_write(engine->log, LOG_LEVEL_WARNING, "Replica is applying a command even though it is unable to write to disk.");
    }
    return true;
}

/* The server ends, and a script of the stream may never do. Its group is not in the log. */
static void abandon_script(struct applier *applier)
{
    worker_abandon_units(&applier->worker);
    applier->has_failed = applier->ends_server = true;
}

/* False: the applier is to stop. Then the command has not run, or has changed nothing, or the applier has failed. */
static bool run_call(struct applier *applier, const struct bytes *args, int arg_count)
{
    struct client *client = &applier->client;
    struct buffer *out = &client->reply.out;

    if (!disks_allow(applier))
        return false;
    out->size = 0;
    applier->worker.turn.met_unreadable = false;
    ahead_begin(applier->ahead, applier->ran < applier->seen ? applier->ran + 1 : 0);
    for (int tries = 0; ; tries++) {
        if (engine_run(&applier->worker, client, args, arg_count) == RUN_DONE)
            break;
        if (applier->stopping && !(client->caller & TRAIT_OWNS))
            return false;       /* half a group is never left, also when the server ends: its calls wait on */
        if (client->unit != NULL && applier->engine->state == ENGINE_STOPPING) {
            abandon_script(applier);
            return false;
        }
        wait_in_place(tries);
    }
    if (applier->worker.turn.met_unreadable)
        applier_fail(applier, "a record of a key that it changes can't be read here");
    else if (script_was_missing(buffer_bytes(out)))
        applier_fail(applier, "it runs a script that is not known here");
    else if (out->size > 0 && out->data[0] == '-')
        note_error(applier, args, out->data + 1, out->size - 3);
    reply_truncate(&client->reply, 0);
    return !applier->has_failed;
}

const struct command *applier_find(const struct applier *applier, const struct bytes *args, int arg_count)
{
    return command_find_logged_call(applier->engine->commands, args, arg_count);
}

void applier_advance(struct applier *applier, size_t size)
{
    applier->db = applier->client.db;
    applier->offset += (int64_t)size;
}

void applier_ack(struct applier *applier)
{
    applier_end_turn(applier);
    applier->options.ack(applier->options.context);
}

bool applier_run(struct applier *applier, const struct bytes *args, int arg_count)
{
    applier->last_command = applier_find(applier, args, arg_count);
    switch (streamed_kind(applier->last_command, args, arg_count)) {
    case STREAMED_CHANGE:
        return run_call(applier, args, arg_count);
    case STREAMED_SIGN:
        if (applier->engine->upper.heard_sign != NULL)
            applier->engine->upper.heard_sign(applier->engine, args, arg_count);
        return true;
    default:                /* MULTI in a group, EXEC outside of one, and what would change this server, not its data */
        note_error(applier, args, STREAMED_FOREIGN_TEXT, strlen(STREAMED_FOREIGN_TEXT));
        return !applier->has_failed;
    }
}

uint64_t applier_append(struct applier *applier, struct bytes raw)
{
    if (raw.size == 0 || !history_is_on(&applier->engine->history))
        return 0;
    return applier->worker.turn.lsn_seen = history_append_raw(&applier->engine->history, raw, applier->client.db);
}

bool applier_run_single(struct applier *applier, const struct bytes *args, int arg_count, struct bytes raw)
{
    struct client *client = &applier->client;
    bool asks = streamed_is_getack(args, arg_count), has_run;

    client->unlogged_raw = raw;
    has_run = applier_run(applier, args, arg_count);
    if (has_run)
        applier_append(applier, client->unlogged_raw);      /* if its call has not, as it has changed nothing */
    client->unlogged_raw = bytes_of(NULL, 0);
    if (!has_run)
        return false;
    applier_advance(applier, raw.size);
    if (asks)
        applier_ack(applier);
    return true;
}
