/* What a replica, and a primary with too few replicas, refuses; and what time does on a replica. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "commands/rows.h"
#include "engine/blocking.h"
#include "engine/event.h"
#include "engine/expiry.h"
#include "engine/own_expiry.h"
#include "engine/role.h"
#include "stats/error_stats.h"
#include "stats/latency.h"
#include "stats/slowlog.h"
#include "stats/waits.h"

#define READONLY "-READONLY You can't write against a read only replica.\r\n"
#define MASTERDOWN "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n"
#define NOREPLICAS "-NOREPLICAS Not enough good replicas to write.\r\n"
#define UNBLOCKED "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n"

/* One worker on this thread, without log, tier or sockets: a client, one that waits, and the applier of a primary's stream. */
struct box {
    struct engine engine;
    struct worker worker;
    struct worker *workers[1];
    struct client client, waiter, applier;
    struct bytes waiter_args[8];
    int waiter_arg_count;
};

static void note(void *context, const struct key *key, enum event event)
{
    event_note(context, key->call, key->keyspace, key->hash, key->name, event);
}

static void free_at_once(void *context, struct value value)
{
    value_free(&value);
}

static void resume(struct client *client)
{
    struct box *box = (struct box *)((char *)client->worker->engine - offsetof(struct box, engine));

    engine_run(client->worker, client, box->waiter_args, box->waiter_arg_count);
}

static void set_alarm(void *loop, int64_t at_us)
{
}

static void client_open(struct box *box, struct client *client, uint64_t id, uint32_t flags)
{
    *client = (struct client){ .id = id, .authenticated = true, .address = "", .flags = flags };
    reply_init(&client->reply, 2);
    worker_add_client(&box->worker, client);
}

static int box_open(void **state)
{
    static const struct command *const families[] = { string_commands, keys_commands, hash_commands, list_commands, stream_commands,
        transaction_commands, hyperloglog_commands, NULL };
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
    engine->active_expire = true;
    engine->hooks = (struct key_hooks){ .context = engine, .event = note, .free_later = free_at_once };
    engine->workers = box->workers;
    engine->worker_count = 1;
    box->workers[0] = &box->worker;
    worker_init(&box->worker, engine, 0);
    box->worker.resume = resume;
    box->worker.set_alarm = set_alarm;
    worker_begin_turn(&box->worker);
    client_open(box, &box->client, 1, 0);
    client_open(box, &box->waiter, 2, 0);
    client_open(box, &box->applier, 3, CLIENT_REPLAY | CLIENT_PRIMARY);
    *state = box;
    return 0;
}

static int box_close(void **state)
{
    struct box *box = *state;
    struct engine *engine = &box->engine;
    struct client *clients[] = { &box->client, &box->waiter, &box->applier };

    for (int i = 0; i < 3; i++) {
        worker_remove_client(&box->worker, clients[i]);
        reply_release(&clients[i]->reply);
    }
    worker_release(&box->worker);
    blocking_destroy(engine->blocking);
    partitions_destroy(engine->partitions);
    command_table_destroy(engine->commands);
    slowlog_destroy(engine->slowlog);
    latency_destroy(engine->latency);
    error_stats_destroy(engine->errors);
    waits_destroy(engine->waits);
    config_destroy(engine->config);
    mem_free(box);
    return 0;
}

/* Words with single spaces between them. */
static int split(const char *line, struct bytes *args)
{
    int count = 0;

    for (;;) {
        size_t size = strcspn(line, " ");

        args[count++] = bytes_of(line, size);
        if (line[size] == '\0')
            return count;
        line += size + 1;
    }
}

static void say_as(struct box *box, struct client *client, const char *line, const char *reply)
{
    struct buffer *out = &client->reply.out;
    struct bytes args[8];
    int count = split(line, args);

    assert_int_equal(engine_run(&box->worker, client, args, count), RUN_DONE);
    if (!bytes_equal(buffer_bytes(out), bytes_of_string(reply)))
        fail_msg("%s: %.*s instead of %s", line, (int)out->size, out->data, reply);
    out->size = 0;
}

static void say(struct box *box, const char *line, const char *reply)
{
    say_as(box, &box->client, line, reply);
}

static void apply(struct box *box, const char *line, const char *reply)
{
    bool stopped = box->worker.turn.clock_stopped;

    box->worker.turn.clock_stopped = true;
    say_as(box, &box->applier, line, reply);
    box->worker.turn.clock_stopped = stopped;
}

static void configure(struct box *box, const char *name, const char *value)
{
    struct message message;
    struct bytes names = bytes_of_string(name), values = bytes_of_string(value);

    assert_true(config_set(box->engine.config, &names, &values, 1, &message));
    role_refresh(&box->engine);
}

static void a_primary_of_which_nothing_is_demanded_has_no_bits(void **state)
{
    struct box *box = *state;

    role_refresh(&box->engine);
    assert_int_equal(role_bits(&box->engine), 0);
    assert_int_equal(role_link_down_s(&box->engine), -1);
    say(box, "SET a 1", "+OK\r\n");
}

static void a_replica_refuses_writes_of_clients_only(void **state)
{
    struct box *box = *state;

    role_set_replica(&box->engine, true);
    say(box, "SET a 1", READONLY);
    apply(box, "SET a 1", "+OK\r\n");
    say(box, "GET a", "$1\r\n1\r\n");
    say(box, "GETEX a", READONLY);
    say(box, "BLPOP l 0", READONLY);
    say(box, "PFCOUNT h", ":0\r\n");
    configure(box, "replica-read-only", "no");
    say(box, "SET a 2", "+OK\r\n");
    configure(box, "replica-read-only", "yes");
    say(box, "SET a 3", READONLY);
    role_set_replica(&box->engine, false);
    say(box, "SET a 3", "+OK\r\n");
}

static void a_transaction_is_refused_at_its_write_and_at_exec(void **state)
{
    struct box *box = *state;

    role_set_replica(&box->engine, true);
    say(box, "MULTI", "+OK\r\n");
    say(box, "SET a 1", READONLY);
    say(box, "EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
    role_set_replica(&box->engine, false);
    say(box, "MULTI", "+OK\r\n");
    say(box, "SET a 1", "+QUEUED\r\n");
    role_set_replica(&box->engine, true);
    say(box, "EXEC", "-EXECABORT Transaction discarded because of: READONLY You can't write against a read only replica.\r\n");
    say(box, "EXEC", "-ERR EXEC without MULTI\r\n");
    say(box, "GET a", "$-1\r\n");
}

/* A command that is stale in a queue counts, though the others of the queue are not. */
static void without_a_link_data_is_refused_if_it_must_not_be_stale(void **state)
{
    struct box *box = *state;

    role_set_replica(&box->engine, true);
    say(box, "GET a", "$-1\r\n");
    say(box, "MULTI", "+OK\r\n");
    say(box, "GET a", "+QUEUED\r\n");
    configure(box, "replica-serve-stale-data", "no");
    say(box, "EXEC", "-EXECABORT Transaction discarded because of: MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n");
    say(box, "GET a", MASTERDOWN);
    say(box, "SET a 1", READONLY);
    say(box, "MULTI", "+OK\r\n");
    say(box, "DISCARD", "+OK\r\n");
    role_set_link(&box->engine, true);
    say(box, "GET a", "$-1\r\n");
    role_set_syncing(&box->engine, true);
    say(box, "GET a", "-LOADING Redis is loading the dataset in memory\r\n");
    say(box, "MULTI", "+OK\r\n");
    say(box, "DISCARD", "+OK\r\n");
    role_set_syncing(&box->engine, false);
    role_set_link(&box->engine, false);
    say(box, "GET a", MASTERDOWN);
    assert_true(role_link_down_s(&box->engine) >= 0);
}

static void a_primary_with_too_few_good_replicas_refuses_writes(void **state)
{
    struct box *box = *state;

    configure(box, "min-replicas-to-write", "2");
    say(box, "SET a 1", NOREPLICAS);
    say(box, "GET a", "$-1\r\n");
    role_set_good_replicas(&box->engine, 1);
    say(box, "SET a 1", NOREPLICAS);
    role_set_good_replicas(&box->engine, 2);
    say(box, "SET a 1", "+OK\r\n");
    role_set_good_replicas(&box->engine, 1);
    configure(box, "min-replicas-max-lag", "0");
    say(box, "SET a 1", "+OK\r\n");
    configure(box, "min-replicas-max-lag", "10");
    say(box, "SET a 1", NOREPLICAS);
    role_set_replica(&box->engine, true);
    configure(box, "replica-read-only", "no");
    say(box, "SET a 1", "+OK\r\n");
}

static void clients_that_wait_for_keys_are_closed_when_a_primary_becomes_a_replica(void **state)
{
    struct box *box = *state;

    box->waiter_arg_count = split("BLPOP l 0", box->waiter_args);
    assert_int_equal(engine_run(&box->worker, &box->waiter, box->waiter_args, box->waiter_arg_count), RUN_PARKED);
    role_set_replica(&box->engine, true);
    role_changed(&box->engine);
    apply(box, "RPUSH l x", ":1\r\n");
    blocking_deliver(&box->worker);
    worker_read_mail(&box->worker);
    assert_true(bytes_equal(buffer_bytes(&box->waiter.reply.out), BYTES(UNBLOCKED)));
    assert_true(box->waiter.flags & CLIENT_CLOSE_AFTER_REPLY);
    assert_int_equal(blocking_stats(&box->engine).waiters, 0);
    say(box, "LLEN l", ":1\r\n");
}

/* XREAD changes nothing, so it may wait on a replica. */
static void a_client_that_only_reads_waits_on_a_replica(void **state)
{
    struct box *box = *state;

    role_set_replica(&box->engine, true);
    box->waiter_arg_count = split("XREAD BLOCK 0 STREAMS x $", box->waiter_args);
    assert_int_equal(engine_run(&box->worker, &box->waiter, box->waiter_args, box->waiter_arg_count), RUN_PARKED);
    apply(box, "XADD x 1-1 f v", "$3\r\n1-1\r\n");
    worker_read_mail(&box->worker);
    blocking_deliver(&box->worker);
    worker_read_mail(&box->worker);
    assert_int_equal(blocking_stats(&box->engine).waiters, 0);
    assert_true(box->waiter.reply.out.size > 0 && box->waiter.reply.out.data[0] == '*');
    box->waiter.reply.out.size = 0;
    assert_int_equal(engine_run(&box->worker, &box->waiter, box->waiter_args, box->waiter_arg_count), RUN_PARKED);
    box->applier.flags |= CLIENT_OWNS_ALL;          /* in a group */
    apply(box, "XADD x 1-2 f v", "$3\r\n1-2\r\n");
    box->applier.flags &= ~(uint32_t)CLIENT_OWNS_ALL;
    worker_read_mail(&box->worker);
    blocking_deliver(&box->worker);
    worker_read_mail(&box->worker);
    assert_int_equal(blocking_stats(&box->engine).waiters, 0);
}

static void pass_time(struct box *box, int64_t until_ms)
{
    while (clock_wall_ms() <= until_ms)
        ;
    worker_begin_turn(&box->worker);
    box->worker.clock_ns = 0;
}

static void expect_there(struct box *box, bool is_there)
{
    say(box, "DBSIZE", is_there ? ":2\r\n" : ":0\r\n");
}

/* Two keys, one a hash with a field that expires. */
static int64_t fill(struct box *box)
{
    int64_t until_ms = clock_wall_ms() + 30;

    apply(box, "SET k v PX 20", "+OK\r\n");
    apply(box, "HSET h f v g w", ":2\r\n");
    apply(box, "HPEXPIRE h 20 FIELDS 1 f", "*1\r\n:1\r\n");
    return until_ms;
}

static void what_has_expired_reads_as_absent_and_stays_on_a_replica(void **state)
{
    struct box *box = *state;

    role_set_replica(&box->engine, true);
    pass_time(box, fill(box));
    say(box, "GET k", "$-1\r\n");
    say(box, "EXISTS k", ":0\r\n");
    say(box, "TTL k", ":-2\r\n");
    say(box, "TYPE k", "+none\r\n");
    say(box, "HGET h f", "$-1\r\n");
    say(box, "HLEN h", ":1\r\n");
    say(box, "HGETALL h", "*2\r\n$1\r\ng\r\n$1\r\nw\r\n");
    say(box, "HSCAN h 0", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\ng\r\n$1\r\nw\r\n");
    expiry_tick(&box->worker);
    expiry_continue(&box->worker);
    assert_int_equal(engine_stat(&box->engine, STAT_EXPIRED_KEYS), 0);
    assert_int_equal(engine_stat(&box->engine, STAT_EXPIRED_FIELDS), 0);
    expect_there(box, true);
    apply(box, "GET k", "$1\r\nv\r\n");             /* the primary's stream still finds it */
    apply(box, "APPEND k w", ":2\r\n");
    apply(box, "HSET h f x", ":0\r\n");
    apply(box, "PERSIST k", ":1\r\n");
    say(box, "GET k", "$2\r\nvw\r\n");
}

static void after_promotion_it_is_removed(void **state)
{
    struct box *box = *state;

    role_set_replica(&box->engine, true);
    pass_time(box, fill(box));
    say(box, "GET k", "$-1\r\n");
    role_set_replica(&box->engine, false);
    say(box, "GET k", "$-1\r\n");
    assert_int_equal(engine_stat(&box->engine, STAT_EXPIRED_KEYS), 1);
    say(box, "HLEN h", ":1\r\n");
    assert_int_equal(engine_stat(&box->engine, STAT_EXPIRED_FIELDS), 1);
}

/* As in Redis 7: a write finds that the key has expired and removes it. */
static void a_write_to_a_writable_replica_removes_what_has_expired(void **state)
{
    struct box *box = *state;

    role_set_replica(&box->engine, true);
    configure(box, "replica-read-only", "no");
    pass_time(box, fill(box));
    say(box, "GET k", "$-1\r\n");
    say(box, "DBSIZE", ":2\r\n");
    say(box, "APPEND k new", ":3\r\n");
    say(box, "TTL k", ":-1\r\n");
    say(box, "DEL h", ":1\r\n");
    say(box, "DBSIZE", ":1\r\n");
}

static void a_writable_replica_expires_the_keys_of_its_own_clients_only(void **state)
{
    struct box *box = *state;

    box->engine.own_expiry = own_expiry_create();
    role_set_replica(&box->engine, true);
    configure(box, "replica-read-only", "no");
    say(box, "SET mine v PX 20", "+OK\r\n");
    say(box, "HSET m f v g w", ":2\r\n");
    say(box, "HPEXPIRE m 20 FIELDS 1 f", "*1\r\n:1\r\n");
    say(box, "SET later v PX 100000", "+OK\r\n");
    say(box, "SET kept v PX 20", "+OK\r\n");
    say(box, "PERSIST kept", ":1\r\n");
    pass_time(box, fill(box));
    say(box, "DBSIZE", ":6\r\n");
    own_expiry_tick(&box->worker);
    say(box, "DBSIZE", ":5\r\n");                 /* `k` is the primary's, and stays */
    assert_int_equal(engine_stat(&box->engine, STAT_EXPIRED_KEYS), 1);
    assert_int_equal(engine_stat(&box->engine, STAT_EXPIRED_FIELDS), 1);
    role_set_replica(&box->engine, false);
    own_expiry_tick(&box->worker);
    say(box, "EXISTS later kept", ":2\r\n");
    own_expiry_destroy(box->engine.own_expiry);
}

#define WITH_BOX(test) cmocka_unit_test_setup_teardown(test, box_open, box_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BOX(a_primary_of_which_nothing_is_demanded_has_no_bits),
        WITH_BOX(a_replica_refuses_writes_of_clients_only),
        WITH_BOX(a_transaction_is_refused_at_its_write_and_at_exec),
        WITH_BOX(without_a_link_data_is_refused_if_it_must_not_be_stale),
        WITH_BOX(a_primary_with_too_few_good_replicas_refuses_writes),
        WITH_BOX(clients_that_wait_for_keys_are_closed_when_a_primary_becomes_a_replica),
        WITH_BOX(a_client_that_only_reads_waits_on_a_replica),
        WITH_BOX(what_has_expired_reads_as_absent_and_stays_on_a_replica),
        WITH_BOX(after_promotion_it_is_removed),
        WITH_BOX(a_write_to_a_writable_replica_removes_what_has_expired),
        WITH_BOX(a_writable_replica_expires_the_keys_of_its_own_clients_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
