#include "lifecycle/replay.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/message.h"
#include "base/progress.h"
#include "call/streamed.h"
#include "engine/engine.h"
#include "engine/prefetch.h"
#include "engine/script_run.h"
#include "lifecycle/ahead.h"

enum { PROGRESS_LOG_MS = 2000, REPLAY_RETRIES = 60000 };

struct replay {
    struct engine *engine;
    struct worker *worker;
    struct client client;
    struct ahead *ahead;
    int64_t logged_ms;
    struct progress progress;
    bool is_of_replica;             /* the log has a primary's stream, as it came */
    uint64_t passed_over;           /* commands of it that could not run here */
    char error[256];
};

enum {
    PASSED_OVER_LOGGED = 10,
    SHOWN_MAX = 100,                /* bytes of a name or an error in a message */
    AHEAD_SIZE_MAX = 8 << 20, AHEAD_SIZE_MIN = 256 << 10,      /* bytes of the log that are read before they are run, and of maxmemory ... */
    AHEAD_SHARE = 64,                                           /* ... this share */
    COMMAND_SIZE = 64,                                          /* of a short command; so there are not more commands than that */
};

static int shown(struct bytes text)
{
    return (int)(text.size < SHOWN_MAX ? text.size : SHOWN_MAX);
}

/* key-load-delay: for tests that want to look at a server that is loading. */
static void delay(const struct engine *engine)
{
    int64_t us = config_number(engine->config, CONFIG_KEY_LOAD_DELAY);
    struct timespec pause = { us / 1000000, us % 1000000 * 1000 };

    if (us > 0)
        nanosleep(&pause, NULL);
}

/* Passes over a command that the applier did not run either (replication/applier.h): it is in the log because it is part of the stream.
 * False: this log has to be right. */
static bool pass_over(struct replay *replay, const struct bytes *args, const char *why, size_t why_size)
{
    if (!replay->is_of_replica)
        return false;
    if (replay->passed_over++ < PASSED_OVER_LOGGED)
        log_write(replay->engine->log, LOG_LEVEL_WARNING, "The primary's stream in the log has a command that failed here: '%.*s': %.*s",
            shown(args[0]), args[0].data, shown(bytes_of(why, why_size)), why);
    return true;
}

/* False: it is passed, and *good says whether the replay goes on. What is no change of data is not run, as for an applier: this client's
 * subscriptions, its user or a shutdown would be this server's. */
static bool is_run(struct replay *replay, const struct bytes *args, int arg_count, bool *good)
{
    const struct command *command = command_find_logged_call(replay->engine->commands, args, arg_count);
    enum streamed_kind kind = streamed_kind(command, args, arg_count);

    if (kind == STREAMED_CHANGE || kind == STREAMED_BRACKET || (command == NULL && !replay->is_of_replica))
        return true;
    *good = kind == STREAMED_SIGN || (command != NULL && command->flags & COMMAND_READONLY) ||
            pass_over(replay, args, STREAMED_FOREIGN_TEXT, strlen(STREAMED_FOREIGN_TEXT));
    if (!*good)
        snprintf(replay->error, sizeof(replay->error), "'%.*s' in the log is not a change of data", shown(args[0]), args[0].data);
    return false;
}

static bool give_up(struct replay *replay)
{
    worker_abandon_units(replay->worker);
    snprintf(replay->error, sizeof(replay->error), "the server is to end");
    return false;
}

/* A script may have failed when it ran first, too, after it had changed something: that is why it was logged, with its error. */
static bool is_failed_script(const struct replay *replay, const struct bytes *args, int arg_count, struct bytes reply)
{
    const struct command *command = command_find_logged_call(replay->engine->commands, args, arg_count);

    return command != NULL && (command->flags & (COMMAND_UNIT | COMMAND_RUNS_QUEUE)) == COMMAND_UNIT && !script_was_missing(reply);
}

/* Passes over a command that met an unreadable record. That says nothing about the command, which was not run. A replica starts, and asks
 * for all data. */
static bool pass_unreadable(struct replay *replay, const struct bytes *args)
{
    if (replay->is_of_replica) {
        log_write(replay->engine->log, LOG_LEVEL_WARNING, "'%.*s' in the log was not run, as a record of a key that it changes can't be read: the history is "
            "not continued", shown(args[0]), args[0].data);
        replay->engine->imported_in_part = true;
        return true;
    }
    snprintf(replay->error, sizeof(replay->error), "'%.*s' in the log failed: a record of a key that it changes can't be read", shown(args[0]), args[0].data);
    return false;
}

/* The reply is an error. False: the log can't be loaded. */
static bool pass_error(struct replay *replay, const struct bytes *args, int arg_count, struct bytes reply)
{
    struct bytes error = bytes_of(reply.data + 1, reply.size - 3);

    if (is_failed_script(replay, args, arg_count, reply)) {
        log_write(replay->engine->log, LOG_LEVEL_WARNING, "A script in the log ended with an error, as it may have when it was logged: '%.*s': %.*s",
            shown(args[0]), args[0].data, shown(error), error.data);
        return true;
    }
    if (pass_over(replay, args, error.data, error.size))
        return true;
    snprintf(replay->error, sizeof(replay->error), "'%.*s' in the log failed: '%.*s'", shown(args[0]), args[0].data, shown(error), error.data);
    return false;
}

/* The hash that the look-ahead has computed, if the command has one key at most. */
static const struct request_hint *hint_of(const struct ahead_key *key, struct request_hint *hint)
{
    if (key == NULL || key->arg != 1)
        return NULL;
    *hint = (struct request_hint){ .hash = key->hash, .db = key->db };
    return hint;
}

static bool replay_run(void *context, const struct bytes *args, int arg_count, uint64_t number)
{
    struct replay *replay = context;
    const struct request_hint *hint;
    struct request_hint space;
    struct buffer *out = &replay->client.reply.out;
    struct timespec pause = { 0, 1000000 };
    enum run_result result = RUN_PARKED;
    bool good;

    if (replay->engine->state == ENGINE_STOPPING)
        return give_up(replay);
    if (!is_run(replay, args, arg_count, &good)) {
        ahead_ran(replay->ahead, replay->client.db);
        return good;
    }
    out->size = 0;
    replay->worker->turn.met_unreadable = false;
    delay(replay->engine);
    hint = hint_of(ahead_begin(replay->ahead, number), &space);
    /* The command may have to wait for a value that is just being encoded for its demotion. A script may take longer than any limit. */
    for (int i = 0; i < REPLAY_RETRIES || replay->client.unit != NULL; i++) {
        result = engine_run_hinted(replay->worker, &replay->client, args, arg_count, hint);
        if (result == RUN_DONE)
            break;
        if (replay->engine->state == ENGINE_STOPPING)
            return give_up(replay);
        nanosleep(&pause, NULL);
    }
    ahead_ran(replay->ahead, replay->client.db);
    if (result != RUN_DONE) {
        snprintf(replay->error, sizeof(replay->error), "a command that has to wait is in the log: '%.*s'", shown(args[0]), args[0].data);
        return false;
    }
    if (replay->worker->turn.met_unreadable)
        return pass_unreadable(replay, args);
    return out->size == 0 || out->data[0] != '-' || pass_error(replay, args, arg_count, buffer_bytes(out));
}

static uint64_t replay_see(void *context, const struct bytes *args, int arg_count)
{
    struct replay *replay = context;

    return ahead_see(replay->ahead, args, arg_count);
}

static void replay_progress(void *context, uint64_t done, uint64_t total)
{
    struct replay *replay = context;
    int64_t now = clock_mono_us() / 1000;
    struct buffer rest = { 0 };

    worker_begin_turn(replay->worker);
    replay->worker->turn.clock_stopped = true;
    replay->engine->loading_total = total;
    replay->engine->loading_done = done;
    if (replay->logged_ms == 0) {
        replay->logged_ms = now;
        progress_begin(&replay->progress, PROGRESS_BYTES, total, now * 1000);
    }
    if (now - replay->logged_ms < PROGRESS_LOG_MS)
        return;
    replay->logged_ms = now;
    progress_note(&replay->progress, done, now * 1000);
    progress_rest(&replay->progress, &rest);
    log_write(replay->engine->log, LOG_LEVEL_NOTICE, "Replaying the AOF: %.1f %% of %.1f MB%.*s",
        total > 0 ? 100.0 * (double)done / (double)total : 100.0,
        (double)total / 1e6, (int)rest.size, rest.size > 0 ? rest.data : "");
    buffer_release(&rest);
}

static bool is_replica(const struct engine *engine)
{
    struct buffer host = { 0 };
    bool found;
    int port;

    found = config_replicaof(engine->config, &host, &port);
    buffer_release(&host);
    return found;
}

/* How far reading may be ahead of running. What is remembered of a command takes more memory than a short command. */
static struct aof_ahead_limits limits_of(const struct engine *engine)
{
    int64_t memory_max = config_number(engine->config, CONFIG_MAXMEMORY);
    uint64_t size = AHEAD_SIZE_MAX;

    if (memory_max > 0 && (uint64_t)memory_max / AHEAD_SHARE < size)
        size = (uint64_t)memory_max / AHEAD_SHARE;
    if (size < AHEAD_SIZE_MIN)
        size = AHEAD_SIZE_MIN;
    return (struct aof_ahead_limits){ size / COMMAND_SIZE, size };
}

typedef enum status replay_from(struct aof *aof, aof_run *run, aof_progress *progress, void *context, struct message *message);

static enum status replay_all(struct engine *engine, replay_from *from, struct message *message)
{
    struct worker worker;
    struct aof_ahead_limits limits = limits_of(engine);
    struct replay replay = { .engine = engine, .worker = &worker, .ahead = ahead_create(engine, limits.commands) };
    enum status status;

    replay.is_of_replica = is_replica(engine);
    replay.client = (struct client){ .caller = CALLER_REPLAY, .authenticated = true, .worker = replay.worker, .address = "" };
    reply_init(&replay.client.reply, 2);
    worker_init(&worker, engine, -1);       /* not one of those that serve clients: they reply LOADING meanwhile */
    engine->loading_since_ms = clock_wall_ms();
    engine->loading_since_us = clock_mono_us();
    worker_begin_turn(replay.worker);
    replay.worker->turn.clock_stopped = true;
    aof_on_ahead(engine->aof, replay_see, limits);
    status = from(engine->aof, replay_run, replay_progress, &replay, message);
    if (status == STATUS_INVALID && replay.error[0] != '\0')
        message_append(message, "%s%s", message_is_empty(message) ? "" : ": ", replay.error);
    ahead_destroy(replay.ahead);
    reply_release(&replay.client.reply);
    worker_release(&worker);
    engine->dirty = 0;
    return status;
}

enum status replay_log(struct engine *engine, struct message *message)
{
    return replay_all(engine, aof_replay, message);
}

enum status replay_log_again(struct engine *engine, struct message *message)
{
    return replay_all(engine, aof_replay_again, message);
}
