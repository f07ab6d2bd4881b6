#include "support/applier_box.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "call/command_stats.h"
#include "commands/rows.h"
#include "engine/lazy_free.h"
#include "engine/role.h"
#include "engine/running_scripts.h"
#include "replication/primary.h"
#include "script/registry.h"

static void open_engine(struct engine_box *box)
{
    static const struct command *const families[] = { string_commands, keys_commands, hash_commands, list_commands, set_commands, zset_commands,
        stream_commands, hyperloglog_commands, bitmap_commands, transaction_commands, connection_commands, scripting_commands, NULL };
    struct backlog_options output = { .memory_size = 64 << 20, .first = 0 };
    struct engine *engine = &box->engine;

    engine_box_open(box, families, 1);
    engine->lazy_free = lazy_free_create();
    CHECK(lazy_free_start(engine->lazy_free, engine->meter, &engine->waiting) == 0);
    engine->scripts = registry_create();
    engine->running_scripts = running_scripts_create();
    engine->replication.primary = primary_create(engine);
    engine->log = log_create("/dev/null", LOG_LEVEL_NOTHING, NULL, 0);
    engine->streamed.commands = command_stats_create(command_row_count(engine->commands));
    history_init(&engine->history);
    history_open_backlog(&engine->history, &output);
    history_set_foreign(&engine->history, true);
    role_set_replica(engine, true);
}

void applier_box_create(struct applier_box *box, uint64_t inbox)
{
    struct backlog_options options = { .memory_size = inbox };
    struct history *history;

    memset(box, 0, sizeof(*box));
    open_engine(&box->base);
    engine_box_add(&box->base, 0, &box->client, 1, 0);
    history = &box->base.engine.history;
    box->inbox = backlog_create(&options);
    box->output = backlog_attach(history_backlog(history), backlog_end(history_backlog(history)));
    CHECK(box->output != NULL);
}

void applier_box_destroy(struct applier_box *box)
{
    struct engine *engine = &box->base.engine;

    if (box->applier != NULL)
        applier_box_stop(box);
    backlog_detach(box->output);
    backlog_destroy(box->inbox);
    mem_free(box->text);
    engine_box_remove(&box->client);
    command_stats_destroy(engine->streamed.commands);
    primary_destroy(engine->replication.primary);
    history_release(&engine->history);
    log_destroy(engine->log);
    lazy_free_destroy(engine->lazy_free);
    engine_box_close(&box->base);
    running_scripts_destroy(engine->running_scripts);
    registry_destroy(engine->scripts);
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
    struct applier_options options = { .engine = &box->base.engine, .inbox = box->inbox, .offset = offset, .db = db, .address = "", .context = box, .ack = on_ack,
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

const char *applier_box_say(struct applier_box *box, const char *line)
{
    struct bytes words[ENGINE_BOX_WORDS];
    struct buffer *out = &box->client.reply.out, text = { 0 };
    int count = engine_box_split(line, words);

    worker_begin_turn(&box->base.workers[0]);
    while (engine_run(&box->base.workers[0], &box->client, words, count) != RUN_DONE)
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

    history_drain(&box->base.engine.history);
    do {
        CHECK(backlog_read(box->output, buffer_reserve(out, 1 << 16), 1 << 16, UINT64_MAX, &got) == BACKLOG_OK);
        out->size += got;
    } while (got > 0);
}

void applier_box_print(struct buffer *out, const char *line)
{
    struct bytes words[ENGINE_BOX_WORDS];
    int count = engine_box_split(line, words);

    buffer_append_format(out, "*%d\r\n", count);
    for (int i = 0; i < count; i++)
        buffer_append_format(out, "$%zu\r\n%.*s\r\n", words[i].size, (int)words[i].size, words[i].data);
}
