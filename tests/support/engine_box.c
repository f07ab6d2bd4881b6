#include "support/engine_box.h"

#include <string.h>

#include "base/check.h"
#include "engine/blocking.h"
#include "engine/event.h"
#include "pubsub/hub.h"
#include "stats/error_stats.h"
#include "stats/latency.h"
#include "stats/slowlog.h"
#include "stats/waits.h"

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

static void open_workers(struct engine_box *box, int count)
{
    box->engine.workers = box->worker_list;
    box->engine.worker_count = count;
    for (int i = 0; i < count; i++) {
        struct worker *worker = box->worker_list[i] = &box->workers[i];

        worker_init(worker, &box->engine, i);
        worker->host.resume = worker->host.discard = worker->host.close = worker->host.output_came = ignore_client;
        worker->host.set_alarm = ignore_alarm;
        worker_begin_turn(worker);
    }
}

void engine_box_open(struct engine_box *box, const struct command *const *families, int worker_count)
{
    struct engine *engine = &box->engine;

    CHECK(worker_count <= ENGINE_BOX_WORKERS);
    memset(box, 0, sizeof(*box));
    engine->config = config_create();
    engine->meter = meter_create();
    engine->partitions = partitions_create(16, 4, (struct key_seed){ .sip = { 1, 2 } });
    engine->commands = command_table_create(families);
    engine->stats.slowlog = slowlog_create();
    engine->stats.latency = latency_create();
    engine->stats.errors = error_stats_create();
    engine->stats.waits = waits_create();
    engine->blocking = blocking_create(engine);
    engine->state = ENGINE_READY;
    engine->debug.active_expire = true;
    engine->hooks = (struct key_hooks){ .context = engine, .event = note, .free_later = free_at_once };
    open_workers(box, worker_count);
}

void engine_box_close(struct engine_box *box)
{
    struct engine *engine = &box->engine;

    for (int i = 0; i < engine->worker_count; i++)
        worker_release(&box->workers[i]);
    if (engine->hub != NULL)
        hub_destroy(engine->hub);       /* workers are subscribers of it */
    blocking_destroy(engine->blocking);
    partitions_destroy(engine->partitions);
    command_table_destroy(engine->commands);
    slowlog_destroy(engine->stats.slowlog);
    latency_destroy(engine->stats.latency);
    error_stats_destroy(engine->stats.errors);
    waits_destroy(engine->stats.waits);
    meter_release(engine->meter);
    config_destroy(engine->config);
}

void engine_box_add(struct engine_box *box, int worker, struct client *client, uint64_t id, uint32_t flags)
{
    *client = (struct client){ .id = id, .authenticated = true, .address = "", .flags = flags };
    reply_init(&client->reply, 2);
    worker_add_client(&box->workers[worker], client);
}

void engine_box_remove(struct client *client)
{
    if (!client->dead)
        worker_remove_client(client->worker, client);
    reply_release(&client->reply);
}

int engine_box_split(const char *line, struct bytes words[ENGINE_BOX_WORDS])
{
    int count = 0;

    for (;;) {
        size_t size = strcspn(line, " ");

        CHECK(count < ENGINE_BOX_WORDS);
        words[count++] = bytes_of(line, size);
        if (line[size] == '\0')
            return count;
        line += size + 1;
    }
}
