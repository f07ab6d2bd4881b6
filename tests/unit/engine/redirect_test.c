/* Calls on slots that are this server's, another's, or on their way: hot and cold, alone, in transactions, and while they wait. */
#include "support/unit.h"

#include "base/mem.h"
#include "engine/redirect.h"
#include "engine/running_scripts.h"
#include "script/registry.h"
#include "support/tier_box.h"

struct rig {
    struct tier_box box;
    struct box_client *client;
    struct slot_states states;
    bool has_no_target, has_no_owner;       /* no other node than this one */
};

static bool append_address(void *context, unsigned slot, bool is_move, bool is_tls, struct buffer *out)
{
    const struct rig *rig = context;

    (void)slot;
    if (is_move ? rig->has_no_target : rig->has_no_owner)
        return false;
    buffer_append_format(out, "%s:%d", is_move ? "target" : "owner", is_tls ? 2 : 1);
    return true;
}

static const char *say(struct rig *rig, const char *line) { return tier_box_say(rig->client, line); }

static void set(struct rig *rig, const char *key, enum slot_state state)
{
    rig->states.states[slot_of_key(bytes_of_string(key))] = (uint8_t)state;
    redirect_set(&rig->box.engine, &rig->states);
}

static void set_down(struct rig *rig, bool is_down)
{
    rig->states.is_down = is_down;
    redirect_set(&rig->box.engine, &rig->states);
}

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new(), .by_slot = true, .partition_count = 16 };

    tier_box_create(&rig->box, &options);
    rig->box.engine.redirect = redirect_create(append_address, rig);
    memset(rig->states.states, SLOT_OWNED, sizeof(rig->states.states));
    redirect_set(&rig->box.engine, &rig->states);
    rig->box.engine.blocking = blocking_create(&rig->box.engine);
    rig->client = tier_box_open_client(&rig->box, 0);
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;
    struct redirect *redirect = rig->box.engine.redirect;

    tier_box_close_client(rig->client);
    tier_box_turn(&rig->box.workers[0], BOX_NO_WAIT);
    tier_box_settle(&rig->box);
    tier_box_verify(&rig->box);
    blocking_destroy(rig->box.engine.blocking);
    tier_box_destroy(&rig->box);
    redirect_destroy(redirect);
    mem_free(rig);
    return 0;
}

static void ask(struct rig *rig) { rig->client->client.flags |= CLIENT_ASKING; }

#define MOVED "-MOVED 15495 owner:1\n"
#define ASK "-ASK 15495 target:1\n"
#define TRYAGAIN "-TRYAGAIN Multiple keys request during rehashing of slot\n"

static void each_state_has_its_reply(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(say(rig, "SET a 1"), "+OK\n");
    assert_string_equal(say(rig, "MGET a b"), "-CROSSSLOT Keys in request don't hash to the same slot\n");
    set(rig, "a", SLOT_UNASSIGNED);
    assert_string_equal(say(rig, "GET a"), "-CLUSTERDOWN Hash slot not served\n");
    assert_string_equal(say(rig, "MGET a b"), "-CLUSTERDOWN Hash slot not served\n");
    set(rig, "a", SLOT_FOREIGN);
    assert_string_equal(say(rig, "GET a"), MOVED);
    assert_string_equal(say(rig, "PING"), "+PONG\n");
    ask(rig);
    assert_string_equal(say(rig, "GET a"), MOVED);
    rig->client->client.flags |= CLIENT_READONLY_SLOTS;
    assert_string_equal(say(rig, "GET a"), MOVED);
    set(rig, "a", SLOT_OF_PRIMARY);
    assert_string_equal(say(rig, "GET a"), "$1\n1\n");
    assert_string_equal(say(rig, "SET a 2"), MOVED);
    rig->client->client.flags &= ~(uint32_t)CLIENT_READONLY_SLOTS;
    assert_string_equal(say(rig, "GET a"), MOVED);
    rig->client->client.flags |= CLIENT_TLS;
    assert_string_equal(say(rig, "GET a"), "-MOVED 15495 owner:2\n");
}

static void a_cluster_that_is_down_refuses_as_it_is_told(void **state)
{
    struct rig *rig = *state;

    set_down(rig, true);
    assert_string_equal(say(rig, "GET a"), "-CLUSTERDOWN The cluster is down\n");
    assert_string_equal(say(rig, "CONFIG SET cluster-allow-reads-when-down yes"), "+OK\n");
    assert_string_equal(say(rig, "GET a"), "$-1\n");
    assert_string_equal(say(rig, "SET a 1"), "-CLUSTERDOWN The cluster is down and only accepts read commands\n");
    set(rig, "a", SLOT_FOREIGN);
    assert_string_equal(say(rig, "GET a"), MOVED);
    set_down(rig, false);
}

/* What decides is whether a key exists, not whether it is in RAM; also for a command that only overwrites. */
static void keys_of_a_slot_that_leaves_are_looked_for_on_disk(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(say(rig, "MSET {a}1 one {a}2 two"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE {a}1 {a}2"), ":2\n");
    set(rig, "a", SLOT_EXPORTING);
    assert_string_equal(say(rig, "GET {a}1"), "$3\none\n");
    assert_string_equal(say(rig, "GET {a}3"), ASK);
    assert_string_equal(say(rig, "MGET {a}1 {a}3"), TRYAGAIN);
    assert_string_equal(say(rig, "MGET {a}1 {a}2"), "*2\n$3\none\n$3\ntwo\n");
    assert_string_equal(say(rig, "TIER DEMOTE {a}2"), ":1\n");
    assert_string_equal(say(rig, "SET {a}2 2"), "+OK\n");
    assert_string_equal(say(rig, "SET {a}3 3"), ASK);
    assert_string_equal(say(rig, "MSET {a}2 2 {a}3 3"), TRYAGAIN);
    assert_string_equal(say(rig, "DEL {a}1 {a}2"), ":2\n");
    assert_string_equal(say(rig, "GET {a}1"), ASK);
    assert_string_equal(say(rig, "SET {a}1 1"), ASK);
}

static void a_slot_that_has_just_changed_is_tried_again(void **state)
{
    struct rig *rig = *state;

    set(rig, "a", SLOT_EXPORTING);
    rig->has_no_target = true;
    assert_string_equal(say(rig, "GET a"), MOVED);
    rig->has_no_owner = true;
    assert_string_equal(say(rig, "GET a"), "-TRYAGAIN The slot is changing its owner\n");
    set(rig, "a", SLOT_FOREIGN);
    assert_string_equal(say(rig, "GET a"), "-TRYAGAIN The slot is changing its owner\n");
}

static void a_slot_that_comes_is_served_to_who_asks(void **state)
{
    struct rig *rig = *state;

    set(rig, "a", SLOT_IMPORTING);
    assert_string_equal(say(rig, "SET {a}1 1"), MOVED);
    ask(rig);
    assert_string_equal(say(rig, "SET {a}1 1"), "+OK\n");
    assert_string_equal(say(rig, "GET {a}1"), MOVED);       /* for one command only */
    ask(rig);
    assert_string_equal(say(rig, "TIER DEMOTE {a}1"), ":1\n");
    ask(rig);
    assert_string_equal(say(rig, "MGET {a}1 {a}2"), TRYAGAIN);
    ask(rig);
    assert_string_equal(say(rig, "MGET {a}1 {a}1"), "*2\n$1\n1\n$1\n1\n");
    ask(rig);
    assert_string_equal(say(rig, "GET {a}2"), "$-1\n");     /* alone it would be created here */
}

/* Reads run; a write waits, alone and in a transaction. */
static void writes_of_a_slot_that_is_handed_over_wait(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(say(rig, "SET {a}1 1"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE {a}1"), ":1\n");
    set(rig, "a", SLOT_HANDED_OVER);
    assert_string_equal(say(rig, "GET {a}1"), "$1\n1\n");
    assert_string_equal(say(rig, "INCR b"), ":1\n");
    assert_false(tier_box_begin(rig->client, "INCR {a}1"));
    set(rig, "a", SLOT_OWNED);
    assert_string_equal(tier_box_await(rig->client), ":2\n");
    assert_string_equal(say(rig, "MULTI"), "+OK\n");
    assert_string_equal(say(rig, "INCR {a}1"), "+QUEUED\n");
    set(rig, "a", SLOT_HANDED_OVER);
    assert_false(tier_box_begin(rig->client, "EXEC"));
    set(rig, "a", SLOT_FOREIGN);
    assert_string_equal(tier_box_await(rig->client), MOVED);
}

/* A script without a shebang does not say whether it writes. */
static void scripts_of_a_slot_that_is_handed_over_wait(void **state)
{
    struct rig *rig = *state;
    struct engine *engine = &rig->box.engine;

    engine->scripts = registry_create();
    engine->running_scripts = running_scripts_create();
    set(rig, "a", SLOT_HANDED_OVER);
    assert_false(tier_box_begin(rig->client, "EVAL return(redis.call('INCR',KEYS[1])) 1 {a}1"));
    set(rig, "a", SLOT_OWNED);
    assert_string_equal(tier_box_await(rig->client), ":1\n");
    set(rig, "a", SLOT_HANDED_OVER);
    assert_string_equal(say(rig, "EVAL_RO return(redis.call('GET',KEYS[1])) 1 {a}1"), "$1\n1\n");
    assert_false(tier_box_begin(rig->client, "EVAL return(redis.call('INCR',KEYS[1])) 1 {a}1"));
    set(rig, "a", SLOT_FOREIGN);
    assert_string_equal(tier_box_await(rig->client), MOVED);
    running_scripts_destroy(engine->running_scripts);
    registry_destroy(engine->scripts);
    engine->running_scripts = NULL;
    engine->scripts = NULL;
}

/* What a migration waits for is the end of the script, not of one of its calls: it would be half done. */
static void a_script_that_has_begun_runs_to_its_end(void **state)
{
    static const enum slot_state states[] = { SLOT_HANDED_OVER, SLOT_EXPORTING };
    struct rig *rig = *state;
    struct engine *engine = &rig->box.engine;

    engine->scripts = registry_create();
    engine->running_scripts = running_scripts_create();
    assert_string_equal(say(rig, "SET {a}cold v"), "+OK\n");
    for (int i = 0; i < 3; i++) {
        bool goes_down = i == 2;

        assert_string_equal(say(rig, "SET {a}1 1"), "+OK\n");
        assert_int_equal(tier_demote(rig->box.tier, 0, BYTES("{a}cold")), TIER_MOVED);
        assert_false(tier_box_begin(rig->client,
            "EVAL redis.call('INCR',KEYS[1]);redis.call('GET','{a}cold');return(redis.call('INCR',KEYS[1])) 1 {a}1"));
        if (goes_down)
            set_down(rig, true);
        else
            set(rig, "a", states[i]);
        assert_string_equal(tier_box_await(rig->client), ":3\n");
        set_down(rig, false);
        set(rig, "a", SLOT_OWNED);
    }
    running_scripts_destroy(engine->running_scripts);
    registry_destroy(engine->scripts);
    engine->running_scripts = NULL;
    engine->scripts = NULL;
}

/* Another node may have it: what this one would reply may be old. */
static void all_calls_of_a_slot_in_doubt_wait(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(say(rig, "SET {a}1 1"), "+OK\n");
    set(rig, "a", SLOT_HANDED_OVER);
    assert_false(tier_box_begin(rig->client, "INCR {a}1"));
    set(rig, "a", SLOT_IN_DOUBT);
    tier_box_turn(&rig->box.workers[0], BOX_NO_WAIT);
    set(rig, "a", SLOT_OWNED);
    assert_string_equal(tier_box_await(rig->client), ":2\n");
    set(rig, "a", SLOT_IN_DOUBT);
    assert_string_equal(say(rig, "GET b"), "$-1\n");
    assert_false(tier_box_begin(rig->client, "GET {a}1"));
    set(rig, "a", SLOT_OWNED);
    assert_string_equal(tier_box_await(rig->client), "$1\n2\n");
    assert_string_equal(say(rig, "MULTI"), "+OK\n");
    assert_string_equal(say(rig, "GET {a}1"), "+QUEUED\n");
    set(rig, "a", SLOT_IN_DOUBT);
    assert_false(tier_box_begin(rig->client, "EXEC"));
    set(rig, "a", SLOT_FOREIGN);
    assert_string_equal(tier_box_await(rig->client), MOVED);
}

static void a_slot_that_is_received_is_for_the_connection_that_brings_it(void **state)
{
    struct rig *rig = *state;

    rig->states.receipt = 7;
    set(rig, "a", SLOT_RECEIVED);
    assert_string_equal(say(rig, "SET a 1"), MOVED);
    ask(rig);
    assert_string_equal(say(rig, "SET a 1"), MOVED);
    rig->client->client.receipt = 6;                        /* of the migration before */
    assert_string_equal(say(rig, "SET a 1"), MOVED);
    rig->client->client.receipt = 7;
    assert_string_equal(say(rig, "SET a 1 PXAT 1"), "+OK\n");      /* its sender says what has expired */
    assert_string_equal(say(rig, "INCR a"), ":2\n");
    assert_string_equal(say(rig, "SET {a}1 1"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE {a}1"), ":1\n");
    assert_string_equal(say(rig, "KEYS *"), "*0\n");               /* not shown until the slot is this node's */
    assert_string_equal(say(rig, "SCAN 0 COUNT 1000"), "*2\n$1\n0\n*0\n");
    assert_string_equal(say(rig, "RANDOMKEY"), "$-1\n");
    assert_string_equal(say(rig, "SET b 1 PXAT 1"), "+OK\n");
    assert_string_equal(say(rig, "FLUSHALL"), "+OK\n");
    assert_string_equal(say(rig, "SET a 1"), MOVED);
    rig->states.receipt = 0;
    set(rig, "a", SLOT_OWNED);
    assert_string_equal(say(rig, "SET a 1 PXAT 1"), "+OK\n");
    assert_string_equal(say(rig, "GET a"), "$-1\n");
}

static void a_transaction_is_judged_as_a_whole(void **state)
{
    struct rig *rig = *state;

    set(rig, "b", SLOT_FOREIGN);
    assert_string_equal(say(rig, "MULTI"), "+OK\n");
    assert_string_equal(say(rig, "SET a 1"), "+QUEUED\n");
    assert_string_equal(say(rig, "GET b"), "-MOVED 3300 owner:1\n");
    assert_string_equal(say(rig, "EXEC"), "-EXECABORT Transaction discarded because of previous errors.\n");

    assert_string_equal(say(rig, "MULTI"), "+OK\n");
    assert_string_equal(say(rig, "SET a 1"), "+QUEUED\n");
    set(rig, "a", SLOT_FOREIGN);
    assert_string_equal(say(rig, "EXEC"), MOVED);
    assert_string_equal(say(rig, "EXEC"), "-ERR EXEC without MULTI\n");

    set(rig, "a", SLOT_OWNED);
    assert_string_equal(say(rig, "MSET {a}1 1 {a}2 2"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE {a}1 {a}2"), ":2\n");
    set(rig, "a", SLOT_EXPORTING);
    assert_string_equal(say(rig, "MULTI"), "+OK\n");
    assert_string_equal(say(rig, "SET {a}1 new"), "+QUEUED\n");
    assert_string_equal(say(rig, "GET {a}2"), "+QUEUED\n");
    assert_string_equal(say(rig, "EXEC"), "*2\n+OK\n$1\n2\n");
    assert_string_equal(say(rig, "TIER DEMOTE {a}1 {a}2"), ":2\n");
    assert_string_equal(say(rig, "MULTI"), "+OK\n");
    assert_string_equal(say(rig, "MGET {a}1 {a}2"), "+QUEUED\n");
    assert_string_equal(say(rig, "GET {a}1"), "+QUEUED\n");
    assert_string_equal(say(rig, "MGET {a}1 {a}3"), TRYAGAIN);
    assert_string_equal(say(rig, "SET {a}3 3"), ASK);
    assert_string_equal(say(rig, "EXEC"), "-EXECABORT Transaction discarded because of previous errors.\n");

    set(rig, "a", SLOT_OWNED);
    assert_string_equal(say(rig, "MULTI"), "+OK\n");
    assert_string_equal(say(rig, "GET {a}1"), "+QUEUED\n");
    assert_string_equal(say(rig, "SET {a}3 3"), "+QUEUED\n");
    set(rig, "a", SLOT_EXPORTING);
    assert_string_equal(say(rig, "EXEC"), TRYAGAIN);
    assert_string_equal(say(rig, "EXEC"), "-ERR EXEC without MULTI\n");
}

static void a_call_that_waited_is_judged_again(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(say(rig, "SET a cold"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE a"), ":1\n");
    assert_false(tier_box_begin(rig->client, "GET a"));
    set(rig, "a", SLOT_FOREIGN);
    assert_string_equal(tier_box_await(rig->client), MOVED);
}

/* A call that has passed the early look, and waits in a queue only if the cluster is up when its partition is locked. */
static void a_cluster_that_goes_down_is_seen_under_the_locks(void **state)
{
    struct rig *rig = *state;
    struct partitions *all = rig->box.partitions;
    struct client *client = &rig->client->client;
    struct bytes args[] = { BYTES("BLPOP"), BYTES("a"), BYTES("0") };
    struct call_key key = { .arg = 1, .hash = key_hash(&all->seed, args[1]) };
    struct partition *partition = &all->partitions[partition_index(all, key.hash)];
    struct call call = { .engine = &rig->box.engine, .partitions = all, .turn = &rig->box.workers[0].worker.turn, .client = client, .requester = client,
        .reply = &client->reply, .args = args, .arg_count = 3, .keys = &key, .key_count = 1, .reply_start = client->reply.out.size };
    bool was_allowed, is_allowed;

    call.command = command_find_call(rig->box.engine.commands, args, 3);
    partition_lock(partition);
    was_allowed = redirect_judge_locked(&call) == REDIRECT_RUNS;
    partition_unlock(partition);
    set_down(rig, true);
    partition_lock(partition);
    is_allowed = redirect_judge_locked(&call) == REDIRECT_RUNS;
    partition_unlock(partition);
    reply_truncate(&client->reply, call.reply_start);
    set_down(rig, false);
    assert_true(was_allowed);
    assert_false(is_allowed);
}

static void a_client_that_waits_for_a_key_learns_where_it_is(void **state)
{
    struct rig *rig = *state;

    assert_false(tier_box_begin(rig->client, "BLPOP {a}1 {a}2 0"));
    set(rig, "b", SLOT_FOREIGN);
    assert_int_equal(blocking_stats(&rig->box.engine).waiters, 1);
    set(rig, "a", SLOT_FOREIGN);
    assert_string_equal(tier_box_await(rig->client), MOVED);
    set(rig, "a", SLOT_OWNED);
    assert_false(tier_box_begin(rig->client, "BLPOP a 0"));
    set_down(rig, true);
    assert_string_equal(tier_box_await(rig->client), "-CLUSTERDOWN The cluster is down\n");
    set_down(rig, false);
    assert_int_equal(blocking_stats(&rig->box.engine).waiters, 0);
}

static void a_read_waits_on_for_a_slot_of_the_primary(void **state)
{
    struct rig *rig = *state;

    rig->client->client.flags |= CLIENT_READONLY_SLOTS;
    set(rig, "a", SLOT_OF_PRIMARY);
    assert_false(tier_box_begin(rig->client, "XREAD BLOCK 0 STREAMS a $"));
    set(rig, "b", SLOT_FOREIGN);
    assert_int_equal(blocking_stats(&rig->box.engine).waiters, 1);
    set(rig, "a", SLOT_FOREIGN);
    assert_string_equal(tier_box_await(rig->client), MOVED);
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RIG(each_state_has_its_reply),
        WITH_RIG(a_cluster_that_is_down_refuses_as_it_is_told),
        WITH_RIG(keys_of_a_slot_that_leaves_are_looked_for_on_disk),
        WITH_RIG(a_slot_that_has_just_changed_is_tried_again),
        WITH_RIG(a_slot_that_comes_is_served_to_who_asks),
        WITH_RIG(writes_of_a_slot_that_is_handed_over_wait),
        WITH_RIG(scripts_of_a_slot_that_is_handed_over_wait),
        WITH_RIG(a_script_that_has_begun_runs_to_its_end),
        WITH_RIG(all_calls_of_a_slot_in_doubt_wait),
        WITH_RIG(a_slot_that_is_received_is_for_the_connection_that_brings_it),
        WITH_RIG(a_transaction_is_judged_as_a_whole),
        WITH_RIG(a_call_that_waited_is_judged_again),
        WITH_RIG(a_cluster_that_goes_down_is_seen_under_the_locks),
        WITH_RIG(a_client_that_waits_for_a_key_learns_where_it_is),
        WITH_RIG(a_read_waits_on_for_a_slot_of_the_primary),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
