/* The applier's thread: takes units from the inbox, one after the other. */
#include "replication/applier.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/message.h"
#include "replication/applier_private.h"
#include "stream/backlog.h"

enum {
    GROUP_KEPT_MAX = 4 << 20,       /* a larger group is not kept in memory until its EXEC comes */
    ROOM_MIN = 2 << 20,             /* with less of it the link adds nothing to the inbox */
    IDLE_MS = 100,
};

int64_t applier_offset(const struct applier *applier) { return applier->offset; }
uint64_t applier_errors(const struct applier *applier) { return applier->errors; }
bool applier_has_all(const struct applier *applier, uint64_t end) { return applier->looked >= end; }

void applier_view(const struct applier *applier, struct applier_view *view)
{
    *view = (struct applier_view){ applier->client.id, applier->db, applier->last_command, applier->client.created_us };
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

/* --- units --- */

static struct bytes text_from(const struct feed *feed, size_t from, size_t to)
{
    return bytes_of(feed->text.data + from, to - from);
}

static bool concerns_all(const struct applier *applier, const struct bytes *args, int arg_count)
{
    const struct command *command = applier_find(applier, args, arg_count);

    return command != NULL && command->flags & (COMMAND_EXCLUSIVE | COMMAND_UNIT | COMMAND_OWNS_KEYS);
}

/* Ends a group whose EXEC ends at `end` of the text. */
static bool end_group(struct applier *applier, size_t end)
{
    struct feed *feed = &applier->feed;
    uint64_t size = feed_position(feed) + (end - feed->at) - (uint64_t)applier->offset;

    if (!applier->group.is_large)
        return applier_group_run(applier, text_from(feed, feed->keep, end));
    if (applier_group_run_again(applier, (size_t)size))
        return true;
    if (!applier->has_failed)
        applier_fail(applier, "a large transaction can't be read a second time");
    return false;
}

/* The next command, of `size` bytes. In an open group. */
static bool take_in_group(struct applier *applier, size_t size)
{
    struct feed *feed = &applier->feed;
    const struct bytes *args = feed->parser.args;

    if (bytes_is(args[0], "exec"))
        return end_group(applier, feed->at + size);
    if (bytes_is(args[0], "multi")) {
        applier_fail(applier, "a MULTI inside a MULTI");
        return false;
    }
    applier_group_add(applier, args, feed->parser.arg_count);
    return true;
}

/* False: it was not applied, and nothing can be applied after it. */
static bool take_command(struct applier *applier, size_t size)
{
    struct feed *feed = &applier->feed;
    const struct bytes *args = feed->parser.args;
    int count = feed->parser.arg_count;

    if (applier->group.is_open)
        return take_in_group(applier, size);
    if (bytes_is(args[0], "exec")) {
        applier_fail(applier, "an EXEC without a MULTI");
        return false;
    }
    applier_group_begin(applier);
    if (bytes_is(args[0], "multi")) {
        applier->group.is_open = true;
        return true;
    }
    if (!concerns_all(applier, args, count))
        return applier_run_single(applier, args, count, text_from(feed, feed->at, feed->at + size));
    applier_group_add(applier, args, count);
    return applier_group_run(applier, text_from(feed, feed->at, feed->at + size));
}

/* Passes what was taken. The text of a group that is not large is kept. */
static void pass_bytes(struct applier *applier, size_t size)
{
    struct feed *feed = &applier->feed;

    feed_pass(feed, size);
    if (!applier->group.is_open || applier->group.is_large)
        feed->keep = feed->at;
    applier_note_ran(applier);
    applier_count_in_turn(applier);
}

static void apply_text(struct applier *applier)
{
    struct feed *feed = &applier->feed;

    while (!applier->stopping) {
        enum feed_result result;
        size_t size;

        if (!applier->group.is_large)       /* else it runs much later */
            applier_look_ahead(applier, feed);
        result = feed_next(feed, &size);
        if (result == FEED_BAD)
            applier_fail(applier, feed->problem);
        if (result != FEED_COMMAND || !take_command(applier, size))
            return;
        pass_bytes(applier, size);
    }
}

/* --- reading --- */

/* Acknowledges what was applied. Received bytes are kept from here on: an open group may be read a second time. */
static void acknowledge(struct applier *applier)
{
    struct feed *feed = &applier->feed;

    if (applier->group.is_open && !applier->group.is_large && feed->at - feed->keep > GROUP_KEPT_MAX) {
        applier->group.is_large = true;
        feed->keep = feed->at;
    }
    backlog_acknowledge(feed->reader, applier->group.is_open ? (uint64_t)applier->offset : backlog_position(feed->reader));
}

/* There is no more for now: will there be? Not if the inbox is full up with a group. */
static void check_room(struct applier *applier)
{
    uint64_t size = feed_position(&applier->feed) - (uint64_t)applier->offset;
    struct message reason = { "" };

    if (!applier->group.is_open || backlog_room(applier->options.inbox) >= ROOM_MIN)
        return;
    message_append(&reason, "a transaction of more than %" PRIu64 " bytes does not fit into repl-backlog-disk-size", size);
    applier_fail(applier, reason.text);
}

/* False: there is no more for now, or the applier has failed. */
static bool read_more(struct applier *applier)
{
    enum feed_result result;

    acknowledge(applier);
    result = feed_read(&applier->feed);
    if (result == FEED_BAD)
        applier_fail(applier, applier->feed.problem);
    if (result == FEED_MORE)
        check_room(applier);
    return result == FEED_COMMAND;
}

/* A promotion may wait for it. */
static void set_looked(struct applier *applier, uint64_t position)
{
    applier->looked = position;
    waiting_bump(&applier->engine->waiting);
}

static void applier_main(void *context)
{
    struct applier *applier = context;

    applier_begin_turn(applier);
    while (!applier->stopping && !applier->has_failed) {
        if (read_more(applier)) {
            apply_text(applier);
            continue;
        }
        if (applier->has_failed)
            break;
        applier_end_turn(applier);
        set_looked(applier, backlog_position(applier->feed.reader));
        wait_for_more(applier);
        applier_begin_turn(applier);
    }
    set_looked(applier, UINT64_MAX);
    applier_end_turn(applier);
}

/* --- start and end --- */

static void ignore_client(struct client *client)
{
    (void)client;
}

static void release(struct applier *applier)
{
    feed_close(&applier->feed);
    worker_remove_client(&applier->worker, &applier->client);
    reply_release(&applier->client.reply);
    mem_free(applier->client.address);
    applier->worker.turn.command_stats = NULL;      /* the engine's */
    worker_release(&applier->worker);
    ahead_destroy(applier->ahead);
    condition_release(&applier->woken);
    mutex_release(&applier->lock);
    mem_free(applier);
}

struct applier *applier_start(const struct applier_options *options)
{
    struct engine *engine = options->engine;
    struct applier *applier = mem_zalloc(sizeof(*applier));

    if (!feed_open(&applier->feed, options->inbox, (uint64_t)options->offset, UINT64_MAX)) {
        feed_close(&applier->feed);
        mem_free(applier);
        return NULL;
    }
    applier->options = *options;
    applier->engine = engine;
    applier->offset = options->offset;
    applier->db = options->db;
    applier->ahead = ahead_create(engine, AHEAD_COMMANDS_MIN);
    mutex_init(&applier->lock);
    condition_init(&applier->woken);
    worker_init(&applier->worker, engine, -1);
    command_stats_destroy(applier->worker.turn.command_stats);
    applier->worker.turn.command_stats = engine->streamed.commands;
    applier->worker.host.resume = applier->worker.host.discard = applier->worker.host.close = applier->worker.host.output_came = ignore_client;
    applier->client = (struct client){ .caller = CALLER_APPLIER, .authenticated = true, .worker = &applier->worker,
        .address = mem_string(bytes_of_string(options->address)), .db = options->db, .created_us = clock_mono_us(),
        .id = atomic_fetch_add(&engine->clients.last_id, 1) + 1 };
    reply_init(&applier->client.reply, 2);
    worker_add_client(&applier->worker, &applier->client);
    if (thread_start(&applier->thread, "kelvin-applier", engine->meter, applier_main, applier) == 0)
        return applier;
    release(applier);
    return NULL;
}

struct applier_end applier_stop(struct applier *applier)
{
    struct applier_end end;

    applier->stopping = true;
    applier_wake(applier);
    thread_join(&applier->thread);
    end = (struct applier_end){ applier->offset, applier->client.db };
    release(applier);
    return end;
}
