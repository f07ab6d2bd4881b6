#include "support/unit.h"

#include "base/mem.h"
#include "engine/script_queue.h"
#include "engine/unit.h"
#include "engine/worker.h"

static struct unit *unit_of(struct worker *worker, struct client *client)
{
    struct unit *unit = mem_zalloc(sizeof(*unit));

    *client = (struct client){ .worker = worker };
    unit->worker = worker;
    unit->client = client;
    unit->has_script = true;
    return unit;
}

/* As many as may be in progress all start again while others wait: if they joined these, no unit would be left that wakes them. */
static void a_unit_that_starts_again_does_not_queue(void **state)
{
    struct worker *worker = mem_zalloc(sizeof(*worker));
    struct client clients[2];
    struct unit *first = unit_of(worker, &clients[0]), *second = unit_of(worker, &clients[1]);

    mailbox_init(&worker->mailbox);
    assert_true(script_queue_pass(first));
    worker->scripts.running = SCRIPTS_MAX;
    assert_false(script_queue_pass(second));
    worker->scripts.running = 0;
    first->restarts = 1;
    assert_true(script_queue_pass(first));
    script_queue_next(worker);          /* the first has ended, or waits for its claim */
    assert_true(mailbox_refers_to(&worker->mailbox, &clients[1]));
    assert_true(script_queue_pass(second));
    assert_null(worker->scripts.first);
    mailbox_release(&worker->mailbox);
    mem_free(first);
    mem_free(second);
    mem_free(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_unit_that_starts_again_does_not_queue),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
