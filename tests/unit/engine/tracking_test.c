#include "support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "commands/rows.h"
#include "engine/client_ids.h"
#include "engine/delivery.h"
#include "engine/tracking_private.h"
#include "pubsub/hub.h"
#include "support/engine_box.h"

#define PUSH_OF_K ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"

/* A reader on the first worker, which speaks RESP3, and a writer on the second one; without log, tier or sockets. */
struct box {
    struct engine_box base;
    struct client reader, writer;
};

static void ring(void *context, int worker)
{
    (void)context;
    (void)worker;
}

static struct box *box_create(void)
{
    static const struct command *const families[] = { string_commands, keys_commands, client_commands, NULL };
    struct box *box = mem_zalloc(sizeof(*box));
    struct engine *engine = &box->base.engine;

    engine_box_open(&box->base, families, 2);
    engine->hub = hub_create(2, &engine->partitions->seed.sip, ring, engine);
    engine->client_ids = client_ids_create();
    engine->tracking = tracking_create(engine);
    engine_box_add(&box->base, 0, &box->reader, 1, 0);
    box->reader.reply.protocol = 3;
    engine_box_add(&box->base, 1, &box->writer, 2, 0);
    return box;
}

static void box_destroy(struct box *box)
{
    struct engine *engine = &box->base.engine;

    engine_box_remove(&box->reader);
    engine_box_remove(&box->writer);
    assert_int_equal(tracking_count(engine).clients, 0);
    tracking_destroy(engine->tracking, 2);
    client_ids_destroy(engine->client_ids);
    engine_box_close(&box->base);
    mem_free(box);
}

static void run(struct client *client, const char *line)
{
    struct bytes args[ENGINE_BOX_WORDS];
    int count = engine_box_split(line, args);

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
    end_turn(&box->base.workers[0]);
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
    end_turn(&box->base.workers[0]);
    expect_output(&box->reader, "+OK\r\n_\r\n");
    run(&box->reader, "CLIENT TRACKING ON");
    end_turn(&box->base.workers[0]);
    expect_output(&box->reader, "+OK\r\n");
    box_destroy(box);
}

static void keys_of_a_closed_client_stay_until_they_change(void **state)
{
    struct box *box = box_create();

    run(&box->reader, "CLIENT TRACKING ON");
    run(&box->reader, "GET k");
    run(&box->reader, "GET k2");
    engine_box_remove(&box->reader);
    assert_int_equal(tracking_count(&box->base.engine).keys, 2);
    run(&box->writer, "SET k 1");
    assert_int_equal(tracking_count(&box->base.engine).keys, 1);
    end_turn(&box->base.workers[0]);
    assert_int_equal(box->base.engine.interest.count, 1);
    run(&box->writer, "SET k2 1");
    assert_int_equal(box->base.engine.interest.count, 0);
    box_destroy(box);
}

static void keys_with_long_names_are_tracked_as_long_as_all_take_an_eighth_of_maxmemory(void **state)
{
    struct box *box = box_create();
    struct bytes name = BYTES("maxmemory"), value = BYTES("1mb");
    struct message message;
    char line[2100] = "";

    assert_true(config_set(box->base.engine.config, &name, &value, 1, &message));
    run(&box->reader, "CLIENT TRACKING ON");
    for (int i = 0; i < 100; i++) {
        snprintf(line, sizeof(line), "GET %02000d", i);
        run(&box->reader, line);
        end_turn(&box->base.workers[0]);
        assert_true(tracking_count(&box->base.engine).keys * 2000 <= (1 << 20) / 8);
    }
    assert_true(tracking_count(&box->base.engine).keys * 2000 > (1 << 20) / 16);
    for (int i = 0; i < 100; i++) {
        snprintf(line, sizeof(line), "SET %02000d 1", i);
        run(&box->writer, line);
    }
    assert_int_equal(box->base.engine.tracking->bytes, 0);
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
        assert_int_equal(tracking_count(&race.box->base.engine).keys, is_new);
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
        cmocka_unit_test(keys_with_long_names_are_tracked_as_long_as_all_take_an_eighth_of_maxmemory),
        cmocka_unit_test(no_change_comes_between_a_read_and_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
