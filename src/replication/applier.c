#include "replication/applier.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "engine/role.h"
#include "lifecycle/ahead.h"
#include "resp/request.h"
#include "stream/backlog.h"

enum {
    READ_SIZE = 256 << 10,
    AHEAD_COMMANDS = 4096,
    TURN_COMMANDS = 64,             /* the log is written after this many, or when there are no more */
    IDLE_MS = 100,
    ERRORS_LOGGED_MS = 1000,
    DISKS_LOGGED_MS = 10000,
    ERROR_SHOWN_MAX = 256,
    NAME_SHOWN_MAX = 64,
};

struct applier {
    struct applier_options options;
    struct engine *engine;
    pthread_t thread;
    _Atomic bool stopping;
    _Atomic int64_t offset;
    _Atomic uint64_t errors;
    _Atomic int db;                 /* of the client, as others see it */
    const struct command *_Atomic last_command;
    struct mutex lock;              /* leaf */
    struct condition woken;
    bool has_more;                  /* lock */
    /* The thread's. */
    struct backlog_reader *reader;
    struct buffer text;             /* [run_at, size) is to be applied */
    size_t run_at, scout_at;        /* in `text`: the next command that runs, and the next that is looked at ahead */
    size_t group_at;                /* of the MULTI of an open group; SIZE_MAX: there is none */
    struct request_parser parser, scout;
    struct ahead *ahead;
    uint64_t seen, ran;             /* commands */
    struct worker worker;
    struct client client;
    int in_turn;
    int64_t logged_ms, disks_logged_ms;
    bool has_failed;
};

int64_t applier_offset(const struct applier *applier) { return applier->offset; }
uint64_t applier_errors(const struct applier *applier) { return applier->errors; }

void applier_view(const struct applier *applier, struct applier_view *view)
{
    *view = (struct applier_view){ applier->client.id, applier->db, applier->last_command, applier->client.created_ms };
}

void applier_wake(struct applier *applier)
{
    mutex_lock(&applier->lock);
    if (!applier->has_more)
        condition_signal(&applier->woken);
    applier->has_more = true;
    mutex_unlock(&applier->lock);
}

static void wait_for_more(struct applier *applier)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += IDLE_MS * 1000000L;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    mutex_lock(&applier->lock);
    while (!applier->has_more && !applier->stopping) {
        if (!condition_wait_until(&applier->woken, &applier->lock, &until))
            break;
    }
    applier->has_more = false;
    mutex_unlock(&applier->lock);
}

static void fail(struct applier *applier, const char *reason)
{
    applier->has_failed = true;
    applier->options.failed(applier->options.context, reason);
}

/* --- turns: as those of a worker's loop --- */

static void begin_turn(struct applier *applier)
{
    worker_begin_turn(&applier->worker);
    applier->worker.turn.clock_stopped = true;
}

/* What the turn has counted becomes the server's. */
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

static void end_turn(struct applier *applier)
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
    for (int i = 0; i < applier->engine->worker_count; i++)
        mailbox_ring(&applier->engine->workers[i]->mailbox);        /* replicas of this replica */
    begin_turn(applier);
}

/* --- running --- */

/* The process ends, without a dump: what is on its disk goes up to the last unit before. */
static void end_server(struct applier *applier)
{
    applier->has_failed = true;
    applier->engine->end(applier->engine->end_context, 1);
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

/* The call could not run: it waits for a load, an owner, a value that is just being written, or the last dump. */
static void wait_in_place(struct applier *applier, uint64_t loads_ended, int tries)
{
    struct tier *tier = applier->engine->tier;
    struct timespec pause = { 0, tries < 10 ? 50000 : 1000000 };

    if (tier != NULL && tier_loads_help(tier, loads_ended))
        return;
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

/* False: the applier is to stop. Then the command has not run, or has changed nothing. */
static bool run(struct applier *applier, const struct bytes *args, int arg_count)
{
    struct client *client = &applier->client;
    struct tier *tier = applier->engine->tier;
    struct buffer *out = &client->reply.out;

    if (!disks_allow(applier))
        return false;
    out->size = 0;
    ahead_submit(applier->ahead);
    for (int tries = 0; ; tries++) {
        uint64_t ended = tier != NULL ? tier_loads_ended(tier) : 0;

        if (engine_run(&applier->worker, client, args, arg_count) == RUN_DONE)
            break;
        if (applier->stopping && !(client->flags & CLIENT_OWNS_ALL))
            return false;       /* half a group is never left, also when the server ends: its calls wait on */
        wait_in_place(applier, ended, tries);
    }
    if (out->size > 0 && out->data[0] == '-')
        note_error(applier, args, out->data + 1, out->size - 3);
    reply_truncate(&client->reply, 0);
    return !applier->has_failed;
}

static const struct command *find(const struct applier *applier, const struct bytes *args, int arg_count)
{
    const struct command *command = command_find_logged(applier->engine->commands, args[0]);

    return command != NULL && command->children != NULL && arg_count > 1 ? command_find_child(command, args[1]) : command;
}

/* What no primary sends: it would change this server, not its data. */
static bool is_allowed(const struct applier *applier, const struct bytes *args, int arg_count)
{
    const struct command *command = find(applier, args, arg_count);

    return command != NULL && (command->flags & (COMMAND_WRITE | COMMAND_MAY_REPLICATE) || bytes_is(args[0], "select"));
}

static bool is_getack(const struct bytes *args, int arg_count)
{
    return arg_count >= 2 && bytes_is(args[0], "replconf") && bytes_is(args[1], "getack");
}

/* Not part of the data: counts as bytes only. */
static bool is_mere_sign(const struct bytes *args, int arg_count)
{
    return bytes_is(args[0], "ping") || (bytes_is(args[0], "replconf") && arg_count >= 2);
}

/* Parses the next command of `text`, which is complete there. */
static size_t next_command(struct applier *applier, size_t at, struct request_parser *parser)
{
    static const struct request_limits limits = { INT64_MAX, INT32_MAX, 64 << 10, true };
    size_t consumed = 0, wanted;

    CHECK(request_parse(parser, &limits, applier->text.data + at, applier->text.size - at, &consumed, &wanted) == REQUEST_COMPLETE);
    return consumed;
}

static void advance(struct applier *applier, size_t size)
{
    applier->run_at += size;
    applier->db = applier->client.db;
    applier->offset += (int64_t)size;
}

/* Of one that is not in a group. */
static bool run_one(struct applier *applier, const struct bytes *args, int arg_count)
{
    applier->last_command = find(applier, args, arg_count);
    if (is_mere_sign(args, arg_count))
        return true;
    if (!is_allowed(applier, args, arg_count)) {
        note_error(applier, args, "a primary does not send it", 26);
        return !applier->has_failed;
    }
    return run(applier, args, arg_count);
}

/* Appends what its call has not, as it has changed nothing. */
static void append_rest(struct applier *applier)
{
    struct client *client = &applier->client;

    if (client->unlogged_raw.size > 0 && history_is_on(&applier->engine->history))
        applier->worker.turn.lsn_seen = history_append_raw(&applier->engine->history, client->unlogged_raw, client->db);
    client->unlogged_raw = bytes_of(NULL, 0);
}

static bool apply_single(struct applier *applier, const struct bytes *args, int arg_count, struct bytes raw)
{
    bool asks = is_getack(args, arg_count);

    applier->client.flags |= CLIENT_PRIMARY;
    applier->client.unlogged_raw = raw;
    if (!run_one(applier, args, arg_count)) {
        applier->client.unlogged_raw = bytes_of(NULL, 0);
        return false;
    }
    append_rest(applier);
    advance(applier, raw.size);
    if (asks) {
        end_turn(applier);
        applier->options.ack(applier->options.context);
    }
    return true;
}

/* The commands of [from, from + size), which are complete, while no client reaches a key. False: the process ends. */
static bool apply_owned(struct applier *applier, size_t from, size_t size)
{
    struct partitions *all = applier->engine->partitions;
    struct bytes raw = bytes_of(applier->text.data + from, size);
    struct request_parser parser;
    struct claim claim;
    size_t at = from;

    request_init(&parser);
    partitions_lock_all_unowned(all, &claim);
    partitions_unlock_all_owned(all, &claim);
    applier->client.flags |= CLIENT_PRIMARY | CLIENT_OWNS_ALL;
    while (at < from + size && !applier->has_failed) {
        at += next_command(applier, at, &parser);
        if (parser.arg_count == 0 || bytes_is(parser.args[0], "multi") || bytes_is(parser.args[0], "exec"))
            continue;
        CHECK(run_one(applier, parser.args, parser.arg_count) || applier->has_failed);
    }
    applier->client.flags &= ~(uint32_t)CLIENT_OWNS_ALL;
    if (!applier->has_failed) {
        applier->client.unlogged_raw = raw;
        append_rest(applier);
    }
    partitions_give_all(all, &claim);
    request_release(&parser);
    if (!applier->has_failed)
        advance(applier, size);
    return !applier->has_failed;
}

static bool concerns_all(const struct applier *applier, const struct bytes *args, int arg_count)
{
    const struct command *command = find(applier, args, arg_count);

    return command != NULL && command->flags & (COMMAND_EXCLUSIVE | COMMAND_UNIT | COMMAND_OWNS_KEYS);
}

/* A command of `size` bytes at `run_at`, or after it in an open group. */
static bool take_command(struct applier *applier, size_t at, size_t size)
{
    const struct bytes *args = applier->parser.args;
    int count = applier->parser.arg_count;

    if (applier->group_at != SIZE_MAX) {
        if (count == 0 || !bytes_is(args[0], "exec"))
            return true;
        if (!apply_owned(applier, applier->group_at, at + size - applier->group_at))
            return false;
        applier->group_at = SIZE_MAX;
        return true;
    }
    if (count == 0) {
        advance(applier, size);
        return true;
    }
    if (bytes_is(args[0], "multi")) {
        applier->group_at = at;
        return true;
    }
    if (concerns_all(applier, args, count))
        return apply_owned(applier, at, size);
    return apply_single(applier, args, count, bytes_of(applier->text.data + at, size));
}

/* --- reading --- */

static void look_ahead(struct applier *applier)
{
    static const struct request_limits limits = { INT64_MAX, INT32_MAX, 64 << 10, true };
    size_t consumed, wanted;

    if (applier->scout_at < applier->run_at)
        applier->scout_at = applier->run_at;
    while (applier->seen - applier->ran < AHEAD_COMMANDS && applier->scout_at < applier->text.size) {
        if (request_parse(&applier->scout, &limits, applier->text.data + applier->scout_at, applier->text.size - applier->scout_at, &consumed,
                &wanted) != REQUEST_COMPLETE)
            return;
        applier->scout_at += consumed;
        applier->seen++;
        if (applier->scout.arg_count > 0)
            ahead_see(applier->ahead, applier->scout.args, applier->scout.arg_count);
    }
}

/* Drops what was applied, and reads more. False: there is nothing more for now, or the applier has failed. */
static bool read_more(struct applier *applier)
{
    size_t done = applier->group_at != SIZE_MAX ? applier->group_at : applier->run_at, got = 0;
    struct buffer *text = &applier->text;

    if (done > 0) {
        memmove(text->data, text->data + done, text->size - done);
        text->size -= done;
        applier->run_at -= done;
        applier->scout_at = applier->scout_at > done ? applier->scout_at - done : 0;
        if (applier->group_at != SIZE_MAX)
            applier->group_at = 0;
    }
    if (backlog_read(applier->reader, buffer_reserve(text, READ_SIZE), READ_SIZE, UINT64_MAX, &got) != BACKLOG_OK) {
        fail(applier, "what was received is not there any more: the disk is full, or can't be read");
        return false;
    }
    text->size += got;
    return got > 0;
}

/* Where the next command begins: in an open group after those that were parsed. */
static void apply_all(struct applier *applier, size_t *parse_at)
{
    static const struct request_limits limits = { INT64_MAX, INT32_MAX, 64 << 10, true };
    size_t consumed, wanted;

    while (!applier->stopping && *parse_at < applier->text.size) {
        enum request_result result;

        if (applier->seen - applier->ran <= AHEAD_COMMANDS / 2)
            look_ahead(applier);
        result = request_parse(&applier->parser, &limits, applier->text.data + *parse_at, applier->text.size - *parse_at, &consumed, &wanted);
        if (result == REQUEST_ERROR)
            fail(applier, applier->parser.error);
        if (result != REQUEST_COMPLETE)
            return;
        if (!take_command(applier, *parse_at, consumed))
            return;
        *parse_at += consumed;
        if (applier->ran < applier->seen)
            applier->ran++;
        ahead_ran(applier->ahead, applier->client.db);
        if (++applier->in_turn >= TURN_COMMANDS)
            end_turn(applier);
    }
}

static void *applier_main(void *context)
{
    struct applier *applier = context;
    size_t parse_at = 0;

    pthread_setname_np(pthread_self(), "kelvin-applier");
    meter_join(applier->engine->meter);
    begin_turn(applier);
    while (!applier->stopping && !applier->has_failed) {
        size_t before = applier->group_at != SIZE_MAX ? applier->group_at : applier->run_at;
        bool more = read_more(applier);

        parse_at -= before;
        apply_all(applier, &parse_at);
        if (more || applier->has_failed)
            continue;
        end_turn(applier);
        wait_for_more(applier);
        begin_turn(applier);
    }
    end_turn(applier);
    ahead_submit(applier->ahead);
    meter_leave(applier->engine->meter);
    return NULL;
}

/* --- start and end --- */

static void ignore_client(struct client *client)
{
    (void)client;
}

static void release(struct applier *applier)
{
    backlog_detach(applier->reader);
    worker_remove_client(&applier->worker, &applier->client);
    reply_release(&applier->client.reply);
    mem_free(applier->client.address);
    applier->worker.turn.command_stats = NULL;      /* the engine's */
    worker_release(&applier->worker);
    request_release(&applier->parser);
    request_release(&applier->scout);
    buffer_release(&applier->text);
    mem_free(applier->ahead);
    condition_release(&applier->woken);
    mutex_release(&applier->lock);
    mem_free(applier);
}

struct applier *applier_start(const struct applier_options *options)
{
    struct backlog_reader *reader = backlog_attach(options->inbox, (uint64_t)options->offset);
    struct engine *engine = options->engine;
    struct applier *applier;

    if (reader == NULL)
        return NULL;
    applier = mem_zalloc(sizeof(*applier));
    applier->options = *options;
    applier->engine = engine;
    applier->reader = reader;
    applier->offset = options->offset;
    applier->db = options->db;
    applier->group_at = SIZE_MAX;
    applier->ahead = ahead_create(engine);
    mutex_init(&applier->lock);
    condition_init(&applier->woken);
    request_init(&applier->parser);
    request_init(&applier->scout);
    worker_init(&applier->worker, engine, -1);
    command_stats_destroy(applier->worker.turn.command_stats);
    applier->worker.turn.command_stats = engine->streamed.commands;
    applier->worker.resume = applier->worker.discard = applier->worker.close = applier->worker.output_came = ignore_client;
    applier->client = (struct client){ .flags = CLIENT_REPLAY | CLIENT_NO_BLOCKING, .authenticated = true, .worker = &applier->worker,
        .address = mem_string(bytes_of_string(options->address)), .db = options->db, .created_ms = clock_wall_ms(), .id = atomic_fetch_add(&engine->client_last_id, 1) + 1 };
    reply_init(&applier->client.reply, 2);
    worker_add_client(&applier->worker, &applier->client);
    if (pthread_create(&applier->thread, NULL, applier_main, applier) == 0)
        return applier;
    release(applier);
    return NULL;
}

struct applier_end applier_stop(struct applier *applier)
{
    struct applier_end end;

    applier->stopping = true;
    applier_wake(applier);
    pthread_join(applier->thread, NULL);
    end = (struct applier_end){ applier->offset, applier->client.db };
    release(applier);
    return end;
}
