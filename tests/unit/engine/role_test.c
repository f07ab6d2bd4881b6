/* What a replica, and a primary with too few replicas, refuses; and what time does on a replica. */
#include "support/unit.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "commands/rows.h"
#include "engine/blocking.h"
#include "engine/evict.h"
#include "engine/expiry.h"
#include "engine/own_expiry.h"
#include "engine/role.h"
#include "support/engine_box.h"

#define READONLY "-READONLY You can't write against a read only replica.\r\n"
#define MASTERDOWN "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n"
#define NOREPLICAS "-NOREPLICAS Not enough good replicas to write.\r\n"
#define UNBLOCKED "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n"

/* A client, one that waits, and the applier of a primary's stream. */
struct box {
    struct engine_box base;
    struct client client, waiter, applier;
    struct bytes waiter_args[ENGINE_BOX_WORDS];
    int waiter_arg_count;
};

static void resume(struct client *client)
{
    struct box *box = (struct box *)((char *)client->worker->engine - offsetof(struct box, base.engine));

    engine_run(client->worker, client, box->waiter_args, box->waiter_arg_count);
}

static int box_open(void **state)
{
    static const struct command *const families[] = { string_commands, keys_commands, hash_commands, list_commands, stream_commands,
        transaction_commands, hyperloglog_commands, NULL };
    struct box *box = mem_zalloc(sizeof(*box));

    engine_box_open(&box->base, families, 1);
    box->base.workers[0].host.resume = resume;
    engine_box_add(&box->base, 0, &box->client, 1, 0);
    engine_box_add(&box->base, 0, &box->waiter, 2, 0);
    engine_box_add(&box->base, 0, &box->applier, 3, 0);
    box->applier.caller = CALLER_APPLIER;
    *state = box;
    return 0;
}

static int box_close(void **state)
{
    struct box *box = *state;

    engine_box_remove(&box->client);
    engine_box_remove(&box->waiter);
    engine_box_remove(&box->applier);
    engine_box_close(&box->base);
    mem_free(box);
    return 0;
}

static void say_as(struct box *box, struct client *client, const char *line, const char *reply)
{
    struct buffer *out = &client->reply.out;
    struct bytes args[ENGINE_BOX_WORDS];
    int count = engine_box_split(line, args);

    assert_int_equal(engine_run(&box->base.workers[0], client, args, count), RUN_DONE);
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
    bool stopped = box->base.workers[0].turn.clock_stopped;

    box->base.workers[0].turn.clock_stopped = true;
    say_as(box, &box->applier, line, reply);
    box->base.workers[0].turn.clock_stopped = stopped;
}

static void configure(struct box *box, const char *name, const char *value)
{
    struct message message;
    struct bytes names = bytes_of_string(name), values = bytes_of_string(value);

    assert_true(config_set(box->base.engine.config, &names, &values, 1, &message));
    role_refresh(&box->base.engine);
}

static void a_primary_of_which_nothing_is_demanded_has_no_bits(void **state)
{
    struct box *box = *state;

    role_refresh(&box->base.engine);
    assert_int_equal(role_bits(&box->base.engine), 0);
    assert_int_equal(role_link_down_s(&box->base.engine), -1);
    say(box, "SET a 1", "+OK\r\n");
}

static void a_replica_refuses_writes_of_clients_only(void **state)
{
    struct box *box = *state;

    role_set_replica(&box->base.engine, true);
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
    role_set_replica(&box->base.engine, false);
    say(box, "SET a 3", "+OK\r\n");
}

static void a_transaction_is_refused_at_its_write_and_at_exec(void **state)
{
    struct box *box = *state;

    role_set_replica(&box->base.engine, true);
    say(box, "MULTI", "+OK\r\n");
    say(box, "SET a 1", READONLY);
    say(box, "EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
    role_set_replica(&box->base.engine, false);
    say(box, "MULTI", "+OK\r\n");
    say(box, "SET a 1", "+QUEUED\r\n");
    role_set_replica(&box->base.engine, true);
    say(box, "EXEC", "-EXECABORT Transaction discarded because of: READONLY You can't write against a read only replica.\r\n");
    say(box, "EXEC", "-ERR EXEC without MULTI\r\n");
    say(box, "GET a", "$-1\r\n");
}

/* A command that is stale in a queue counts, though the others of the queue are not. */
static void without_a_link_data_is_refused_if_it_must_not_be_stale(void **state)
{
    struct box *box = *state;

    role_set_replica(&box->base.engine, true);
    say(box, "GET a", "$-1\r\n");
    say(box, "MULTI", "+OK\r\n");
    say(box, "GET a", "+QUEUED\r\n");
    configure(box, "replica-serve-stale-data", "no");
    say(box, "EXEC", "-EXECABORT Transaction discarded because of: MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n");
    say(box, "GET a", MASTERDOWN);
    say(box, "SET a 1", READONLY);
    say(box, "MULTI", "+OK\r\n");
    say(box, "DISCARD", "+OK\r\n");
    role_set_link(&box->base.engine, true);
    say(box, "GET a", "$-1\r\n");
    role_set_syncing(&box->base.engine, true);
    say(box, "GET a", "-LOADING Redis is loading the dataset in memory\r\n");
    say(box, "MULTI", "+OK\r\n");
    say(box, "DISCARD", "+OK\r\n");
    role_set_syncing(&box->base.engine, false);
    role_set_link(&box->base.engine, false);
    say(box, "GET a", MASTERDOWN);
    assert_true(role_link_down_s(&box->base.engine) >= 0);
}

static void a_primary_with_too_few_good_replicas_refuses_writes(void **state)
{
    struct box *box = *state;

    configure(box, "min-replicas-to-write", "2");
    say(box, "SET a 1", NOREPLICAS);
    say(box, "GET a", "$-1\r\n");
    role_set_good_replicas(&box->base.engine, 1);
    say(box, "SET a 1", NOREPLICAS);
    role_set_good_replicas(&box->base.engine, 2);
    say(box, "SET a 1", "+OK\r\n");
    role_set_good_replicas(&box->base.engine, 1);
    configure(box, "min-replicas-max-lag", "0");
    say(box, "SET a 1", "+OK\r\n");
    configure(box, "min-replicas-max-lag", "10");
    say(box, "SET a 1", NOREPLICAS);
    role_set_replica(&box->base.engine, true);
    configure(box, "replica-read-only", "no");
    say(box, "SET a 1", "+OK\r\n");
}

static void clients_that_wait_for_keys_are_closed_when_a_primary_becomes_a_replica(void **state)
{
    struct box *box = *state;

    box->waiter_arg_count = engine_box_split("BLPOP l 0", box->waiter_args);
    assert_int_equal(engine_run(&box->base.workers[0], &box->waiter, box->waiter_args, box->waiter_arg_count), RUN_PARKED);
    role_set_replica(&box->base.engine, true);
    blocking_unblock_all(&box->base.engine);
    apply(box, "RPUSH l x", ":1\r\n");
    blocking_deliver(&box->base.workers[0]);
    worker_read_mail(&box->base.workers[0]);
    assert_true(bytes_equal(buffer_bytes(&box->waiter.reply.out), BYTES(UNBLOCKED)));
    assert_true(box->waiter.flags & CLIENT_CLOSE_AFTER_REPLY);
    assert_int_equal(blocking_stats(&box->base.engine).waiters, 0);
    say(box, "LLEN l", ":1\r\n");
}

/* XREAD changes nothing, so it may wait on a replica. */
static void a_client_that_only_reads_waits_on_a_replica(void **state)
{
    struct box *box = *state;

    role_set_replica(&box->base.engine, true);
    box->waiter_arg_count = engine_box_split("XREAD BLOCK 0 STREAMS x $", box->waiter_args);
    assert_int_equal(engine_run(&box->base.workers[0], &box->waiter, box->waiter_args, box->waiter_arg_count), RUN_PARKED);
    apply(box, "XADD x 1-1 f v", "$3\r\n1-1\r\n");
    worker_read_mail(&box->base.workers[0]);
    blocking_deliver(&box->base.workers[0]);
    worker_read_mail(&box->base.workers[0]);
    assert_int_equal(blocking_stats(&box->base.engine).waiters, 0);
    assert_true(box->waiter.reply.out.size > 0 && box->waiter.reply.out.data[0] == '*');
    box->waiter.reply.out.size = 0;
    assert_int_equal(engine_run(&box->base.workers[0], &box->waiter, box->waiter_args, box->waiter_arg_count), RUN_PARKED);
    box->applier.caller = CALLER_APPLIER_GROUP;          /* in a group */
    apply(box, "XADD x 1-2 f v", "$3\r\n1-2\r\n");
    box->applier.caller = CALLER_APPLIER;
    worker_read_mail(&box->base.workers[0]);
    blocking_deliver(&box->base.workers[0]);
    worker_read_mail(&box->base.workers[0]);
    assert_int_equal(blocking_stats(&box->base.engine).waiters, 0);
}

static void pass_time(struct box *box, int64_t until_ms)
{
    while (clock_wall_ms() <= until_ms)
        ;
    worker_begin_turn(&box->base.workers[0]);
    box->base.workers[0].clock.call_ns = 0;
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

    role_set_replica(&box->base.engine, true);
    pass_time(box, fill(box));
    say(box, "GET k", "$-1\r\n");
    say(box, "EXISTS k", ":0\r\n");
    say(box, "TTL k", ":-2\r\n");
    say(box, "TYPE k", "+none\r\n");
    say(box, "HGET h f", "$-1\r\n");
    say(box, "HLEN h", ":1\r\n");
    say(box, "HGETALL h", "*2\r\n$1\r\ng\r\n$1\r\nw\r\n");
    say(box, "HSCAN h 0", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\ng\r\n$1\r\nw\r\n");
    expiry_tick(&box->base.workers[0]);
    expiry_continue(&box->base.workers[0]);
    assert_int_equal(engine_stat(&box->base.engine, STAT_EXPIRED_KEYS), 0);
    assert_int_equal(engine_stat(&box->base.engine, STAT_EXPIRED_FIELDS), 0);
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

    role_set_replica(&box->base.engine, true);
    pass_time(box, fill(box));
    say(box, "GET k", "$-1\r\n");
    role_set_replica(&box->base.engine, false);
    say(box, "GET k", "$-1\r\n");
    assert_int_equal(engine_stat(&box->base.engine, STAT_EXPIRED_KEYS), 1);
    say(box, "HLEN h", ":1\r\n");
    assert_int_equal(engine_stat(&box->base.engine, STAT_EXPIRED_FIELDS), 1);
}

/* As in Redis 7: a write finds that the key has expired and removes it. */
static void a_write_to_a_writable_replica_removes_what_has_expired(void **state)
{
    struct box *box = *state;

    role_set_replica(&box->base.engine, true);
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

    box->base.engine.own_expiry = own_expiry_create();
    role_set_replica(&box->base.engine, true);
    configure(box, "replica-read-only", "no");
    say(box, "SET mine v PX 20", "+OK\r\n");
    say(box, "HSET m f v g w", ":2\r\n");
    say(box, "HPEXPIRE m 20 FIELDS 1 f", "*1\r\n:1\r\n");
    say(box, "SET later v PX 100000", "+OK\r\n");
    say(box, "SET kept v PX 20", "+OK\r\n");
    say(box, "PERSIST kept", ":1\r\n");
    pass_time(box, fill(box));
    say(box, "DBSIZE", ":6\r\n");
    own_expiry_tick(&box->base.workers[0]);
    say(box, "DBSIZE", ":5\r\n");                 /* `k` is the primary's, and stays */
    assert_int_equal(engine_stat(&box->base.engine, STAT_EXPIRED_KEYS), 1);
    assert_int_equal(engine_stat(&box->base.engine, STAT_EXPIRED_FIELDS), 1);
    role_set_replica(&box->base.engine, false);
    own_expiry_tick(&box->base.workers[0]);
    say(box, "EXISTS later kept", ":2\r\n");
    own_expiry_destroy(box->base.engine.own_expiry);
}

static void become_replica(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum record_state record)
{
    role_set_replica(context, true);
}

/* Evictions of one call are many, and each of them looks at the role. */
static void evictions_end_when_a_primary_becomes_a_replica(void **state)
{
    struct box *box = *state;
    struct engine *engine = &box->base.engine;

    for (char line[] = "SET a v"; line[4] <= 'e'; line[4]++)
        say(box, line, "+OK\r\n");
    configure(box, "maxmemory", "1");
    configure(box, "maxmemory-policy", "allkeys-random");
    engine->partitions->watch.removed = become_replica;
    engine->partitions->watch.context = engine;
    engine->memory.stacks = 1000;               /* counts as used memory */
    assert_int_equal(evict_keys(engine, &box->base.workers[0]), EVICTION_NOTHING);
    assert_int_equal(engine_stat(engine, STAT_EVICTED_KEYS), 1);
    say(box, "DBSIZE", ":4\r\n");
}

/* A time that is set again and again is one key to remember, and the time that holds decides. */
static void a_key_whose_time_is_extended_is_remembered_once(void **state)
{
    struct box *box = *state;
    struct own_expiry *own = box->base.engine.own_expiry = own_expiry_create();
    uint64_t before;

    role_set_replica(&box->base.engine, true);
    configure(box, "replica-read-only", "no");
    for (int i = 0; i < 100; i++) {
        say(box, "SET extended v PX 1", "+OK\r\n");
        say(box, "SET extended v PX 100000", "+OK\r\n");
        say(box, "SET shortened v PX 100000", "+OK\r\n");
    }
    say(box, "PEXPIRE shortened 1", ":1\r\n");
    assert_int_equal(own_expiry_count(own), 2);
    pass_time(box, fill(box));
    before = engine_stat(&box->base.engine, STAT_EXPIRED_KEYS);         /* SET over a key that has expired counts, too */
    own_expiry_tick(&box->base.workers[0]);
    assert_int_equal(own_expiry_count(own), 1);
    say(box, "EXISTS extended", ":1\r\n");
    assert_int_equal(engine_stat(&box->base.engine, STAT_EXPIRED_KEYS) - before, 1);
    say(box, "PERSIST extended", ":1\r\n");
    own_expiry_destroy(own);
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
        WITH_BOX(evictions_end_when_a_primary_becomes_a_replica),
        WITH_BOX(a_key_whose_time_is_extended_is_remembered_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
