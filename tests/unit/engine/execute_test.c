/* Debug and sanitizer builds stop at a handler that changes something and then replies an error, and at no other; and a handler that opens a
 * key which its row does not declare ends no process. */
#include "support/unit.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "call/key.h"
#include "commands/rows.h"
#include "support/engine_box.h"
#include "value/hash.h"

#ifdef KELVIN_DEBUG
enum { IS_CHECKED = true };
#else
enum { IS_CHECKED = false };
#endif

/* Commands that no server has. */

static void store_then_fail(struct call *call)
{
    struct key key;

    key_open(call, 1, KEY_FOR_OVERWRITING, &key);
    key_set_string(&key, BYTES("x"));
    key_changed(&key, EVENT_SET);
    reply_error(call, ERR_SYNTAX);
}

/* It counts no change, but there is one. */
static void store_uncounted_then_fail(struct call *call)
{
    store_then_fail(call);
    call->change_count = 0;
}

static void remove_then_fail(struct call *call)
{
    struct key key;

    key_open(call, 1, KEY_FOR_WRITING, &key);
    key_remove(&key, KEY_REMOVE_NOW, EVENT_DEL);
    reply_error(call, ERR_SYNTAX);
}

static void change_in_place_then_fail(struct call *call)
{
    struct key key;

    key_open(call, 1, KEY_FOR_WRITING, &key);
    hash_set(&key.value, &call->turn->limits, BYTES("f"), BYTES("w"));     /* in as many bytes: it does not move */
    reply_error(call, ERR_SYNTAX);
}

static void look_then_fail(struct call *call)
{
    struct key key;

    key_open(call, 1, KEY_FOR_WRITING, &key);
    key_open(call, 1, KEY_FOR_READING, &key);
    reply_error(call, ERR_SYNTAX);
}

static void store_and_succeed(struct call *call)
{
    struct key key;

    key_open(call, 1, KEY_FOR_OVERWRITING, &key);
    key_set_string(&key, BYTES("x"));
    key_changed(&key, EVENT_SET);
    reply_ok(call->reply);
}

static void store_undeclared(struct call *call)
{
    struct key key;

    CHECK(!key_open(call, 2, KEY_FOR_WRITING, &key));
    reply_integer(call->reply, 1);
    key_replace(&key, hash_create());
    hash_set(&key.value, &call->turn->limits, BYTES("f"), BYTES("w"));
    key_changed(&key, EVENT_HSET);
    for (int i = 0; i < 1000; i++)          /* its object moves */
        hash_set(&key.value, &call->turn->limits, call_integer(call, i), BYTES("a value"));
    key_changed(&key, EVENT_HSET);
    key_replace(&key, hash_create());
    key_changed(&key, EVENT_HSET);
    key_remove(&key, KEY_REMOVE_LAZILY, EVENT_DEL);
    CHECK(!key_open_in(call, 1, 2, KEY_FOR_LOOKING, &key) && call->failed);
    CHECK(!key_open_as(call, 2, KEY_FOR_READING, VALUE_HASH, &key));
}

#define ROW(name, run) COMMAND_ROW(name, run, 2, COMMAND_WRITE, 0, KEYS(KEY_RANGE(1, 0, 1, KEY_RW)), "test", "1", "", "", "key:key")

static const struct command odd_commands[] = {
    ROW("store-then-fail", store_then_fail)
    ROW("store-uncounted-then-fail", store_uncounted_then_fail)
    ROW("remove-then-fail", remove_then_fail)
    ROW("change-in-place-then-fail", change_in_place_then_fail)
    ROW("look-then-fail", look_then_fail)
    ROW("store-and-succeed", store_and_succeed)
    COMMAND_ROW("store-undeclared", store_undeclared, 3, COMMAND_WRITE, 0, KEYS(KEY_RANGE(1, 0, 1, KEY_RW)), "test", "1", "", "", "key:key")
    { .name = NULL }
};

struct box {
    struct engine_box base;
    struct client client;
};

static void note_nothing(void *context, const struct key *key, enum event event)
{
}

static int box_open(void **state)
{
    static const struct command *const families[] = { hash_commands, odd_commands, NULL };
    struct box *box = mem_zalloc(sizeof(*box));

    engine_box_open(&box->base, families, 1);
    box->base.engine.hooks.event = note_nothing;
    box->base.engine.log = log_create("/dev/null", LOG_LEVEL_WARNING, NULL, 0);
    engine_box_add(&box->base, 0, &box->client, 1, 0);
    *state = box;
    return 0;
}

static int box_close(void **state)
{
    struct box *box = *state;

    engine_box_remove(&box->client);
    log_destroy(box->base.engine.log);
    engine_box_close(&box->base);
    mem_free(box);
    return 0;
}

static void run(struct box *box, const struct bytes *args, int count)
{
    box->client.reply.out.size = 0;
    CHECK(engine_run(box->client.worker, &box->client, args, count) == RUN_DONE);
}

/* On a hash with one field. What the child says of the CHECK is read. */
static bool stops(struct box *box, const char *command)
{
    const struct bytes args[] = { bytes_of_string(command), BYTES("k") };
    char said[256] = { 0 };
    int status, ends[2];
    pid_t child;

    CHECK(pipe(ends) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct rlimit none = { 0, 0 };

        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        run(box, (struct bytes[]){ BYTES("hset"), BYTES("k"), BYTES("f"), BYTES("v") }, 4);
        run(box, args, 2);
        _exit(0);
    }
    close(ends[1]);
    CHECK(read(ends[0], said, sizeof(said) - 1) >= 0);
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return false;
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(said, "CHECK failed"));
    assert_non_null(strstr(said, command));
    return true;
}

static void what_fails_has_changed_nothing(void **state)
{
    if (!IS_CHECKED)
        skip();
    assert_true(stops(*state, "store-then-fail"));
    assert_true(stops(*state, "store-uncounted-then-fail"));
    assert_true(stops(*state, "remove-then-fail"));
    assert_true(stops(*state, "change-in-place-then-fail"));
}

static void what_succeeds_and_what_only_looks_may_go_on(void **state)
{
    assert_false(stops(*state, "look-then-fail"));
    assert_false(stops(*state, "store-and-succeed"));
}

static void a_key_that_the_row_does_not_declare_is_an_error_of_the_call(void **state)
{
    struct box *box = *state;
    const char error[] = "-ERR 'store-undeclared' used a key that its row does not declare";

    run(box, (struct bytes[]){ BYTES("hset"), BYTES("other"), BYTES("f"), BYTES("v") }, 4);
    run(box, (struct bytes[]){ BYTES("store-undeclared"), BYTES("k"), BYTES("other") }, 3);
    assert_memory_equal(box->client.reply.out.data, error, strlen(error));
    run(box, (struct bytes[]){ BYTES("hlen"), BYTES("other") }, 2);
    assert_memory_equal(box->client.reply.out.data, ":1\r\n", 4);
}

#define WITH_BOX(test) cmocka_unit_test_setup_teardown(test, box_open, box_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BOX(what_fails_has_changed_nothing),
        WITH_BOX(what_succeeds_and_what_only_looks_may_go_on),
        WITH_BOX(a_key_that_the_row_does_not_declare_is_an_error_of_the_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
