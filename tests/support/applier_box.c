#include "support/applier_box.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "call/command_stats.h"
#include "commands/rows.h"
#include "engine/blocking.h"
#include "engine/event.h"
#include "engine/lazy_free.h"
#include "engine/role.h"
#include "replication/primary.h"
#include "stats/error_stats.h"
#include "stats/latency.h"
#include "stats/slowlog.h"
#include "stats/waits.h"

enum { WORDS_MAX = 64 };

static void note(void *context, const struct key *key, enum event event)
{
    event_note(context, key->call, key->keyspace, key->hash, key->name, event);
}

static void free_at_once(void *context, struct value value)
{
    value_free(&value);
}

static void ignore_client(struct client *client)
{
}

static void ignore_alarm(void *loop, int64_t at_us)
{
}

static void open_engine(struct engine *engine)
{
    static const struct command *const families[] = { string_commands, keys_commands, hash_commands, list_commands, set_commands, zset_commands,
        stream_commands, hyperloglog_commands, bitmap_commands, transaction_commands, connection_commands, NULL };
    struct backlog_options output = { .memory_size = 64 << 20, .first = 0 };

    engine->config = config_create();
    engine->meter = meter_create();
    engine->partitions = partitions_create(16, 4, (struct hash_seed){ 1, 2 });
    engine->commands = command_table_create(families);
    engine->slowlog = slowlog_create();
    engine->latency = latency_create();
    engine->errors = error_stats_create();
    engine->waits = waits_create();
    engine->blocking = blocking_create(engine);
    engine->lazy_free = lazy_free_create(engine->meter);
    engine->primary = primary_create(engine);
    engine->log = log_create("/dev/null", LOG_LEVEL_NOTHING, NULL, 0);
    engine->streamed.commands = command_stats_create(command_row_count(engine->commands));
    engine->state = ENGINE_READY;
    engine->active_expire = true;
    engine->hooks = (struct key_hooks){ .context = engine, .event = note, .free_later = free_at_once };
    history_init(&engine->history);
    history_open_backlog(&engine->history, &output);
    history_set_foreign(&engine->history, true);
    role_set_replica(engine, true);
}

void applier_box_create(struct applier_box *box, uint64_t inbox)
{
    struct backlog_options options = { .memory_size = inbox };
    struct engine *engine = &box->engine;

    memset(box, 0, sizeof(*box));
    open_engine(engine);
    engine->workers = box->workers;
    engine->worker_count = 1;
    box->workers[0] = &box->worker;
    worker_init(&box->worker, engine, 0);
    box->worker.resume = box->worker.discard = box->worker.close = box->worker.output_came = ignore_client;
    box->worker.set_alarm = ignore_alarm;
    worker_begin_turn(&box->worker);
    box->client = (struct client){ .id = 1, .authenticated = true, .address = "" };
    reply_init(&box->client.reply, 2);
    worker_add_client(&box->worker, &box->client);
    box->inbox = backlog_create(&options);
    box->output = backlog_attach(history_backlog(&engine->history), backlog_end(history_backlog(&engine->history)));
    CHECK(box->output != NULL);
}

void applier_box_destroy(struct applier_box *box)
{
    struct engine *engine = &box->engine;

    if (box->applier != NULL)
        applier_box_stop(box);
    backlog_detach(box->output);
    backlog_destroy(box->inbox);
    mem_free(box->text);
    worker_remove_client(&box->worker, &box->client);
    reply_release(&box->client.reply);
    worker_release(&box->worker);
    command_stats_destroy(engine->streamed.commands);
    primary_destroy(engine->primary);
    history_release(&engine->history);
    blocking_destroy(engine->blocking);
    lazy_free_destroy(engine->lazy_free);
    partitions_destroy(engine->partitions);
    command_table_destroy(engine->commands);
    slowlog_destroy(engine->slowlog);
    latency_destroy(engine->latency);
    error_stats_destroy(engine->errors);
    waits_destroy(engine->waits);
    log_destroy(engine->log);
    meter_destroy(engine->meter);
    config_destroy(engine->config);
}

static void on_ack(void *context)
{
    struct applier_box *box = context;

    while (box->applier == NULL)
        sched_yield();              /* it has just been started */
    box->acked = applier_offset(box->applier);
    box->acks++;
}

static void on_failed(void *context, const char *reason)
{
    struct applier_box *box = context;

    message_set(&box->reason, "%s", reason);
    box->failed = true;
}

void applier_box_start(struct applier_box *box, int64_t offset, int db)
{
    struct applier_options options = { .engine = &box->engine, .inbox = box->inbox, .offset = offset, .db = db, .address = "", .context = box, .ack = on_ack,
        .failed = on_failed };

    CHECK(box->applier == NULL);
    box->failed = false;
    box->applier = applier_start(&options);
    CHECK(box->applier != NULL);
}

struct applier_end applier_box_stop(struct applier_box *box)
{
    struct applier_end end = applier_stop(box->applier);

    box->applier = NULL;
    return end;
}

void applier_box_feed(struct applier_box *box, struct bytes bytes)
{
    backlog_append(box->inbox, bytes);
    if (box->applier != NULL)
        applier_wake(box->applier);
}

bool applier_box_await(struct applier_box *box, int64_t offset)
{
    while (!box->failed && applier_offset(box->applier) < offset)
        sched_yield();
    return !box->failed;
}

void applier_box_await_failure(struct applier_box *box)
{
    while (!box->failed)
        sched_yield();
}

static int split(const char *line, struct bytes *words)
{
    int count = 0;

    while (*line != '\0') {
        size_t size = strcspn(line, " ");

        CHECK(count < WORDS_MAX);
        words[count++] = bytes_of(line, size);
        line += size + (line[size] == ' ');
    }
    return count;
}

const char *applier_box_say(struct applier_box *box, const char *line)
{
    struct bytes words[WORDS_MAX];
    struct buffer *out = &box->client.reply.out, text = { 0 };
    int count = split(line, words);

    worker_begin_turn(&box->worker);
    while (engine_run(&box->worker, &box->client, words, count) != RUN_DONE)
        sched_yield();
    for (size_t i = 0; i < out->size; i++)
        if (out->data[i] != '\r')
            buffer_append(&text, &out->data[i], 1);
    buffer_append(&text, "", 1);
    reply_truncate(&box->client.reply, 0);
    mem_free(box->text);
    return box->text = text.data;
}

void applier_box_output(struct applier_box *box, struct buffer *out)
{
    size_t got;

    history_drain(&box->engine.history);
    do {
        CHECK(backlog_read(box->output, buffer_reserve(out, 1 << 16), 1 << 16, UINT64_MAX, &got) == BACKLOG_OK);
        out->size += got;
    } while (got > 0);
}

void applier_box_print(struct buffer *out, const char *line)
{
    struct bytes words[WORDS_MAX];
    int count = split(line, words);

    buffer_append_format(out, "*%d\r\n", count);
    for (int i = 0; i < count; i++)
        buffer_append_format(out, "$%zu\r\n%.*s\r\n", words[i].size, (int)words[i].size, words[i].data);
}
