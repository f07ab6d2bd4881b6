/* Waking, mail and jobs: from other threads, for clients that go. */
#include "engine/worker.h"

#include "support/unit.h"

#include "base/mem.h"
#include "commands/rows.h"
#include "engine/running_scripts.h"
#include "script/registry.h"
#include "support/engine_box.h"
#include "support/tier_box.h"

enum { THREADS = 4, MESSAGES = 2000, ROUNDS = 300 };

static int open_box(void **state)
{
    struct tier_box *box = mem_zalloc(sizeof(*box));
    struct tier_box_options options = { .seed = seed_new() };

    tier_box_create(box, &options);
    *state = box;
    return 0;
}

static int close_box(void **state)
{
    struct tier_box *box = *state;

    tier_box_settle(box);
    tier_box_verify(box);
    tier_box_destroy(box);
    mem_free(box);
    return 0;
}

struct counted_message {
    struct mail message;
    int *count;             /* the worker's alone */
};

static void count_message(struct mail *message, struct worker *worker)
{
    ++*((struct counted_message *)message)->count;
    mem_free(message);
}

struct sender {
    struct worker *worker;
    int *count;
};

static void *send_messages(void *context)
{
    struct sender *sender = context;

    for (int i = 0; i < MESSAGES; i++) {
        struct counted_message *message = mem_alloc(sizeof(*message));

        *message = (struct counted_message){ { NULL, count_message }, sender->count };
        mailbox_post(&sender->worker->mailbox, &message->message);
    }
    return NULL;
}

static void every_message_is_run_once(void **state)
{
    struct tier_box *box = *state;
    pthread_t threads[THREADS];
    int count = 0;
    struct sender sender = { &box->workers[0].worker, &count };

    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, send_messages, &sender) == 0);
    while (count < THREADS * MESSAGES)
        tier_box_turn(&box->workers[0], BOX_WAIT);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    tier_box_turn(&box->workers[0], BOX_NO_WAIT);
    assert_int_equal(count, THREADS * MESSAGES);
}

/* A job's end, and its client's, at about the same time. */
static void a_client_may_go_while_its_job_runs(void **state)
{
    struct tier_box *box = *state;
    struct box_client *client = tier_box_open_client(box, 0);

    tier_box_say(client, "SET k v");
    for (int i = 0; i < ROUNDS; i++) {
        struct box_client *gone = tier_box_open_client(box, 0);

        tier_box_begin(gone, i % 2 ? "TIER DEMOTE k" : "TIER WHERE k");
        assert_true(gone->busy);
        if (i % 3 == 0)
            tier_box_say(client, "GET k");
        tier_box_close_client(gone);
        tier_box_turn(&box->workers[0], BOX_NO_WAIT);
    }
    assert_string_equal(tier_box_say(client, "GET k"), "$1\nv\n");
    tier_box_close_client(client);
}

static void *wake_often(void *context)
{
    struct client *client = context;

    for (int i = 0; i < ROUNDS; i++)
        client_wake(client);
    return NULL;
}

static void wake_ups_for_nothing_answer_nothing(void **state)
{
    struct tier_box *box = *state;
    struct box_client *client = tier_box_open_client(box, 0);
    pthread_t thread;

    for (int i = 0; i < 10; i++) {
        CHECK(pthread_create(&thread, NULL, wake_often, client) == 0);
        for (int j = 0; j < 20; j++) {
            assert_string_equal(tier_box_say(client, "SET k v"), "+OK\n");
            assert_string_equal(tier_box_say(client, "TIER DEMOTE k"), ":1\n");
            assert_string_equal(tier_box_say(client, "GET k"), "$1\nv\n");
        }
        pthread_join(thread, NULL);
    }
    tier_box_turn(&box->workers[0], BOX_NO_WAIT);
    tier_box_close_client(client);
}

enum { SCRIPTS = 5 };

/* Clients whose scripts are busy: each takes a slice whenever it is resumed, and is ready again. */
struct busy_box {
    struct engine_box base;
    struct client clients[SCRIPTS];
    int resumed[2 * SCRIPTS], resumed_count, rung_count, done_count;
};

static void take_a_slice(struct client *client)
{
    struct busy_box *box = client->worker->host.loop;

    box->resumed[box->resumed_count++] = (int)(client - box->clients);
    client->worker->slices++;
    client_wake(client);
}

static void count_ring(void *context)
{
    ((struct busy_box *)context)->rung_count++;
}

static void busy_scripts_have_a_few_slices_a_turn_each_in_its_order(void **state)
{
    static const struct command *const families[] = { NULL };
    struct busy_box *box = mem_zalloc(sizeof(*box));
    struct worker *worker = &box->base.workers[0];
    int message_count = 0, rung_before;

    engine_box_open(&box->base, families, 1);
    worker->host.loop = box;
    worker->host.resume = take_a_slice;
    worker->mailbox.ring = count_ring;
    worker->mailbox.ring_context = box;
    for (int i = 0; i < SCRIPTS; i++) {
        engine_box_add(&box->base, 0, &box->clients[i], (uint64_t)i + 1, 0);
        box->clients[i].parked = true;
        client_wake(&box->clients[i]);
    }
    for (int turn = 1; turn <= SCRIPTS; turn++) {
        struct counted_message *message = mem_alloc(sizeof(*message));

        *message = (struct counted_message){ { NULL, count_message }, &message_count };
        mailbox_post(&worker->mailbox, &message->message);
        rung_before = box->rung_count;
        worker_read_mail(worker);
        assert_int_equal(message_count, turn);
        assert_int_equal(box->resumed_count, 2 * turn);
        assert_int_equal(box->rung_count, rung_before + 1);         /* for the next turn */
    }
    for (int i = 0; i < 2 * SCRIPTS; i++)
        assert_int_equal(box->resumed[i], i % SCRIPTS);
    for (int i = 0; i < SCRIPTS; i++) {
        box->clients[i].parked = false;
        engine_box_remove(&box->clients[i]);
    }
    engine_box_close(&box->base);
    mem_free(box);
}

static const struct bytes busy_request[] = { BYTES("EVAL_RO"), BYTES("for i = 1, 30000000 do end return 7"), BYTES("0") };

static bool run_busy(struct client *client)
{
    struct busy_box *box = client->worker->host.loop;

    if (engine_run(client->worker, client, busy_request, 3) == RUN_PARKED)
        return false;
    box->done_count++;
    return true;
}

static void resume_busy(struct client *client)
{
    struct busy_box *box = client->worker->host.loop;

    box->resumed_count++;
    run_busy(client);
}

static void slices_of_scripts_are_counted(void **state)
{
    static const struct command *const families[] = { scripting_commands, NULL };
    struct busy_box *box = mem_zalloc(sizeof(*box));
    struct engine *engine = &box->base.engine;
    struct worker *worker = &box->base.workers[0];

    (void)state;
    engine_box_open(&box->base, families, 1);
    engine->scripts = registry_create();
    engine->running_scripts = running_scripts_create();
    history_init(&engine->history);
    worker->host.loop = box;
    worker->host.resume = resume_busy;
    for (int i = 0; i < 3; i++) {
        engine_box_add(&box->base, 0, &box->clients[i], (uint64_t)i + 1, 0);
        assert_false(run_busy(&box->clients[i]));
        assert_int_equal(worker->slices, i + 1);
    }
    worker_read_mail(worker);
    assert_int_equal(box->resumed_count, 2);        /* the third is the next turn's */
    assert_int_equal(worker->slices, 2);
    while (box->done_count < 3) {
        worker_begin_turn(worker);
        worker_read_mail(worker);
    }
    for (int i = 0; i < 3; i++) {
        assert_true(bytes_is(buffer_bytes(&box->clients[i].reply.out), ":7\r\n"));
        engine_box_remove(&box->clients[i]);
    }
    history_release(&engine->history);
    engine_box_close(&box->base);
    running_scripts_destroy(engine->running_scripts);
    registry_destroy(engine->scripts);
    mem_free(box);
}

#define WITH_BOX(test) cmocka_unit_test_setup_teardown(test, open_box, close_box)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BOX(every_message_is_run_once),
        WITH_BOX(a_client_may_go_while_its_job_runs),
        WITH_BOX(wake_ups_for_nothing_answer_nothing),
        cmocka_unit_test(busy_scripts_have_a_few_slices_a_turn_each_in_its_order),
        cmocka_unit_test(slices_of_scripts_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
