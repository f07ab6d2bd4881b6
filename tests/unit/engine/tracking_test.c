#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "commands/rows.h"
#include "engine/blocking.h"
#include "engine/client_ids.h"
#include "engine/delivery.h"
#include "engine/engine.h"
#include "engine/event.h"
#include "engine/tracking.h"
#include "pubsub/hub.h"
#include "stats/error_stats.h"
#include "stats/latency.h"
#include "stats/slowlog.h"
#include "stats/waits.h"

#define PUSH_OF_K ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"

/* A reader on the first worker, which speaks RESP3, and a writer on the second one; without log, tier or sockets. */
struct box {
    struct engine engine;
    struct worker workers[2];
    struct worker *worker_list[2];
    struct client reader, writer;
};

static void ring(void *context, int worker)
{
    (void)context;
    (void)worker;
}

static void note_event(void *context, const struct key *key, enum event event)
{
    event_note(context, key->call, key->keyspace, key->hash, key->name, event);
}

static void free_at_once(void *context, struct value value)
{
    (void)context;
    value_free(&value);
}

static void output_came(struct client *client)
{
    (void)client;
}

static void add_client(struct box *box, struct client *client, int worker, int protocol)
{
    *client = (struct client){ .id = (uint64_t)worker + 1, .authenticated = true, .address = "" };
    reply_init(&client->reply, protocol);
    worker_add_client(&box->workers[worker], client);
}

static struct box *box_create(void)
{
    static const struct command *const families[] = { string_commands, keys_commands, client_commands, NULL };
    struct box *box = mem_zalloc(sizeof(*box));
    struct engine *engine = &box->engine;

    engine->config = config_create();
    engine->partitions = partitions_create(4, 2, (struct hash_seed){ 1, 2 });
    engine->commands = command_table_create(families);
    engine->slowlog = slowlog_create();
    engine->latency = latency_create();
    engine->errors = error_stats_create();
    engine->waits = waits_create();
    engine->blocking = blocking_create(engine);
    engine->state = ENGINE_READY;
    engine->hooks = (struct key_hooks){ .context = engine, .event = note_event, .free_later = free_at_once };
    engine->workers = box->worker_list;
    engine->worker_count = 2;
    engine->hub = hub_create(2, &engine->partitions->seed, ring, engine);
    engine->client_ids = client_ids_create();
    engine->tracking = tracking_create(engine);
    for (int i = 0; i < 2; i++) {
        box->worker_list[i] = &box->workers[i];
        worker_init(&box->workers[i], engine, i);
        box->workers[i].output_came = output_came;
        worker_begin_turn(&box->workers[i]);
    }
    add_client(box, &box->reader, 0, 3);
    add_client(box, &box->writer, 1, 2);
    return box;
}

static void remove_client(struct client *client)
{
    if (client->dead)
        return;
    worker_remove_client(client->worker, client);
    reply_release(&client->reply);
}

static void box_destroy(struct box *box)
{
    struct engine *engine = &box->engine;

    remove_client(&box->reader);
    remove_client(&box->writer);
    assert_int_equal(tracking_count(engine).clients, 0);
    for (int i = 0; i < 2; i++)
        worker_release(&box->workers[i]);
    tracking_destroy(engine->tracking, 2);
    client_ids_destroy(engine->client_ids);
    hub_destroy(engine->hub);
    blocking_destroy(engine->blocking);
    error_stats_destroy(engine->errors);
    waits_destroy(engine->waits);
    latency_destroy(engine->latency);
    slowlog_destroy(engine->slowlog);
    command_table_destroy(engine->commands);
    partitions_destroy(engine->partitions);
    config_destroy(engine->config);
    mem_free(box);
}

/* Words with single spaces between them. */
static void run(struct client *client, const char *line)
{
    struct bytes args[16];
    int count = 0;

    while (*line != '\0') {
        size_t size = strcspn(line, " ");

        args[count++] = bytes_of(line, size);
        line += size + (line[size] == ' ');
    }
    assert_int_equal(engine_run(client->worker, client, args, count), RUN_DONE);
}

static void end_turn(struct worker *worker)
{
    tracking_end_turn(worker);
    delivery_run(worker);
}

static void expect_output(struct client *client, const char *wanted)
{
    buffer_append_u8(&client->reply.out, '\0');
    assert_string_equal(client->reply.out.data, wanted);
    reply_truncate(&client->reply, 0);
}

static void a_message_waits_for_the_end_of_the_turn_or_the_next_call(void **state)
{
    struct box *box = box_create();

    run(&box->reader, "CLIENT TRACKING ON");
    run(&box->reader, "GET k");
    run(&box->writer, "SET k 1");
    expect_output(&box->reader, "+OK\r\n_\r\n");
    run(&box->reader, "GET k");
    expect_output(&box->reader, PUSH_OF_K "$1\r\n1\r\n");
    run(&box->writer, "SET k 2");
    end_turn(&box->workers[0]);
    expect_output(&box->reader, PUSH_OF_K);
    box_destroy(box);
}

static void a_message_that_is_under_way_is_dropped_when_tracking_is_turned_off(void **state)
{
    struct box *box = box_create();

    run(&box->reader, "CLIENT TRACKING ON");
    run(&box->reader, "GET k");
    run(&box->writer, "SET k 1");
    tracking_turn_off(&box->reader);            /* as if the message had come during the call */
    end_turn(&box->workers[0]);
    expect_output(&box->reader, "+OK\r\n_\r\n");
    run(&box->reader, "CLIENT TRACKING ON");
    end_turn(&box->workers[0]);
    expect_output(&box->reader, "+OK\r\n");
    box_destroy(box);
}

static void keys_of_a_closed_client_stay_until_they_change(void **state)
{
    struct box *box = box_create();

    run(&box->reader, "CLIENT TRACKING ON");
    run(&box->reader, "GET k");
    run(&box->reader, "GET k2");
    remove_client(&box->reader);
    assert_int_equal(tracking_count(&box->engine).keys, 2);
    run(&box->writer, "SET k 1");
    assert_int_equal(tracking_count(&box->engine).keys, 1);
    end_turn(&box->workers[0]);
    assert_int_equal(box->engine.event_listeners, 1);
    run(&box->writer, "SET k2 1");
    assert_int_equal(box->engine.event_listeners, 0);
    box_destroy(box);
}

/* Both threads run one call a round; they begin at the same time. */
struct race {
    struct box *box;
    _Atomic int round, done;
    int rounds;
};

static void *race_writer(void *context)
{
    struct race *race = context;
    char line[32];

    for (int i = 1; i <= race->rounds; i++) {
        snprintf(line, sizeof(line), "SET k %d", i);
        while (race->round < i)
            ;
        run(&race->box->writer, line);
        reply_truncate(&race->box->writer.reply, 0);
        race->done = i;
    }
    return NULL;
}

/* A read and the remembering of its key are one step: the key is in the table afterwards if and only if the read came after the change. */
static void no_change_comes_between_a_read_and_the_table(void **state)
{
    struct race race = { .box = box_create(), .rounds = 4000 };
    struct client *reader = &race.box->reader;
    pthread_t thread;
    int before = 0;

    run(&race.box->writer, "SET k 0");
    run(reader, "CLIENT TRACKING ON");
    assert_int_equal(pthread_create(&thread, NULL, race_writer, &race), 0);
    for (int i = 1; i <= race.rounds; i++) {
        char newest[32];
        bool is_new;

        delivery_catch_up(reader);
        reply_truncate(&reader->reply, 0);
        snprintf(newest, sizeof(newest), "\r\n%d\r\n", i);
        race.round = i;
        for (int spin = 0; spin < i % 300; spin++)
            before += spin;
        run(reader, "GET k");
        buffer_append_u8(&reader->reply.out, '\0');
        is_new = strstr(reader->reply.out.data, newest) != NULL;
        while (race.done < i)
            ;
        assert_int_equal(tracking_count(&race.box->engine).keys, is_new);
    }
    pthread_join(thread, NULL);
    assert_true(before > 0);
    box_destroy(race.box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_waits_for_the_end_of_the_turn_or_the_next_call),
        cmocka_unit_test(a_message_that_is_under_way_is_dropped_when_tracking_is_turned_off),
        cmocka_unit_test(keys_of_a_closed_client_stay_until_they_change),
        cmocka_unit_test(no_change_comes_between_a_read_and_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
