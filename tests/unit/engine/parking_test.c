/* Parked clients: a queue for each reason, and a worker that always leaves it. */
#include "engine/parking.h"

#include "support/unit.h"

#include <string.h>

#include "base/message.h"
#include "engine/cron.h"
#include "support/engine_box.h"

enum { CLIENTS = 4, RESUMED_MAX = 100 };

/* The worker's `loop`. What a client does when it is resumed: nothing, wait again, or take another client out of the queue first. */
struct rig {
    struct engine_box box;
    struct worker *worker;
    struct client clients[CLIENTS];
    bool waits_again[CLIENTS];
    struct client *victim[CLIENTS];
    char order[RESUMED_MAX + 1];        /* letters of the clients, as they were resumed */
    size_t count;
};

static void resume(struct client *client)
{
    struct rig *rig = client->worker->host.loop;
    size_t index = (size_t)(client - rig->clients);

    assert_true(rig->count < RESUMED_MAX);
    rig->order[rig->count++] = (char)('a' + index);
    if (rig->victim[index] != NULL)
        parking_remove(rig->worker, rig->victim[index]);
    if (rig->waits_again[index])
        parking_add(rig->worker, client, PARKED_FOR_PAUSE);
}

static int open_rig(void **state)
{
    static struct rig rig;

    memset(&rig, 0, sizeof(rig));
    engine_box_open(&rig.box, (const struct command *const[]){ NULL }, 1);
    rig.worker = &rig.box.workers[0];
    rig.worker->host.loop = &rig;
    rig.worker->host.resume = resume;
    for (int i = 0; i < CLIENTS; i++)
        engine_box_add(&rig.box, 0, &rig.clients[i], (uint64_t)i + 1, 0);
    *state = &rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    for (int i = 0; i < CLIENTS; i++)
        engine_box_remove(&rig->clients[i]);
    engine_box_close(&rig->box);
    return 0;
}

static void park_all(struct rig *rig, enum parking reason)
{
    for (int i = 0; i < CLIENTS; i++)
        parking_add(rig->worker, &rig->clients[i], reason);
}

static void clients_are_resumed_once_and_in_order(void **state)
{
    struct rig *rig = *state;

    park_all(rig, PARKED_FOR_PAUSE);
    parking_notify(&rig->box.engine, PARKED_FOR_PAUSE);
    worker_read_mail(rig->worker);
    assert_string_equal(rig->order, "abcd");
    worker_read_mail(rig->worker);
    assert_string_equal(rig->order, "abcd");
}

static void only_the_reason_that_ended_resumes(void **state)
{
    struct rig *rig = *state;

    parking_add(rig->worker, &rig->clients[0], PARKED_FOR_PAUSE);
    parking_add(rig->worker, &rig->clients[1], PARKED_FOR_WRITER);
    parking_notify(&rig->box.engine, PARKED_FOR_WRITER);
    worker_read_mail(rig->worker);
    assert_string_equal(rig->order, "b");
}

static void clients_that_wait_again_keep_the_worker_for_one_round_only(void **state)
{
    struct rig *rig = *state;

    park_all(rig, PARKED_FOR_PAUSE);
    rig->waits_again[1] = rig->waits_again[3] = true;
    assert_true(parking_resume(rig->worker, PARKED_FOR_PAUSE));
    assert_string_equal(rig->order, "abcd");
    assert_ptr_equal(rig->worker->parking.queues[PARKED_FOR_PAUSE].first, &rig->clients[1]);
    assert_ptr_equal(rig->worker->parking.queues[PARKED_FOR_PAUSE].last, &rig->clients[3]);
}

/* The last client of the queue is killed by the first one, and the others wait again: with a loop to the last one it never ended. */
static void a_client_that_leaves_meanwhile_does_not_keep_the_worker(void **state)
{
    struct rig *rig = *state;

    park_all(rig, PARKED_FOR_PAUSE);
    rig->victim[0] = &rig->clients[3];
    rig->waits_again[1] = rig->waits_again[2] = true;
    assert_true(parking_resume(rig->worker, PARKED_FOR_PAUSE));
    assert_true(rig->count <= CLIENTS);
    assert_memory_equal(rig->order, "abc", 3);
}

static void a_reason_that_holds_again_ends_the_round(void **state)
{
    struct rig *rig = *state;

    park_all(rig, PARKED_FOR_BIG_CALL);
    rig->box.engine.big_client = &rig->clients[0];
    assert_true(parking_resume(rig->worker, PARKED_FOR_BIG_CALL));
    assert_int_equal(rig->count, 0);
    rig->box.engine.big_client = NULL;
    assert_false(parking_resume(rig->worker, PARKED_FOR_BIG_CALL));
    assert_string_equal(rig->order, "abcd");
}

/* The cron looks for the end of a pause, not for clients that might go on. */
static void the_end_of_a_pause_resumes_what_it_held_back(void **state)
{
    struct rig *rig = *state;
    struct engine *engine = &rig->box.engine;

    park_all(rig, PARKED_FOR_PAUSE);
    engine->pause_until_us = rig->worker->turn.now_us + 1000;
    cron_tick(rig->worker);
    worker_read_mail(rig->worker);
    assert_int_equal(rig->count, 0);
    rig->worker->turn.now_us += 1000;
    cron_tick(rig->worker);
    assert_int_equal(engine->pause_until_us, 0);
    worker_read_mail(rig->worker);
    assert_string_equal(rig->order, "abcd");
}

/* A client that is closed, or a reply that is taken back, frees what it held without a notification. */
static void the_cron_looks_whether_replies_are_full(void **state)
{
    struct rig *rig = *state;
    struct memory *memory = &rig->box.engine.memory;
    struct bytes name = BYTES("maxmemory"), value = BYTES("4000000");
    struct message message;

    assert_true(config_set(rig->box.engine.config, &name, &value, 1, &message));
    park_all(rig, PARKED_FOR_REPLIES);
    assert_int_equal(memory->reply_waiters, CLIENTS);
    memory->reply_held = 1000001;
    cron_tick(rig->worker);
    assert_int_equal(rig->count, 0);
    memory->reply_held = 1000000;
    cron_tick(rig->worker);
    assert_string_equal(rig->order, "abcd");
    assert_int_equal(memory->reply_waiters, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(clients_are_resumed_once_and_in_order, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(only_the_reason_that_ended_resumes, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(clients_that_wait_again_keep_the_worker_for_one_round_only, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_client_that_leaves_meanwhile_does_not_keep_the_worker, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_reason_that_holds_again_ends_the_round, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(the_end_of_a_pause_resumes_what_it_held_back, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(the_cron_looks_whether_replies_are_full, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
