#include "support/unit.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "commands/rows.h"
#include "engine/blocking.h"
#include "engine/deadlines.h"
#include "engine/event.h"
#include "engine/unit.h"
#include "support/engine_box.h"

enum { CLIENTS = 4 };

/* Two workers. */
struct box {
    struct engine_box base;
    struct client clients[CLIENTS];     /* the even ones on the first worker */
    struct bytes args[CLIENTS][ENGINE_BOX_WORDS];     /* what each has asked */
    int arg_counts[CLIENTS];
    bool freeze_after_change;
    bool latch_after_change;            /* a writer begins to encode the value (tier rule 9) */
    int unlatched;                      /* values that were copied for that */
    bool is_unreadable;                 /* what is not in RAM */
    uint64_t promised_in_change;        /* the most promises seen */
    int64_t alarm_us;
};

static void note(void *context, const struct key *key, enum event event)
{
    struct box *box = context;

    event_note(&box->base.engine, key->call, key->keyspace, key->hash, key->name, event);
    if (box->base.engine.partitions->obstacle_count > box->promised_in_change)
        box->promised_in_change = box->base.engine.partitions->obstacle_count;
    if (box->latch_after_change && key->present)
        keyspace_entry(key->keyspace, key->handle)->flags |= ENTRY_LATCHED;
    if (box->freeze_after_change)
        box->base.engine.frozen = true;
}

static void unlatch(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct box *box = context;

    keyspace_entry(keyspace, keyspace_find(keyspace, hash, key))->flags &= (uint8_t)~ENTRY_LATCHED;
    box->unlatched++;
}

/* There is nothing to load, or no way to know. */
static bool load_nothing(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    return !((struct box *)context)->is_unreadable;
}

static struct box *the_box(struct client *client)
{
    return (struct box *)((char *)client->worker->engine - offsetof(struct box, base.engine));
}

/* As a connection does: the same request again. */
static void resume(struct client *client)
{
    struct box *box = the_box(client);
    size_t index = (size_t)(client - box->clients);

    engine_run(client->worker, client, box->args[index], box->arg_counts[index]);
}

static void set_alarm(void *context, int64_t at_us)
{
    ((struct box *)context)->alarm_us = at_us;
}

static struct box *box_create(void)
{
    static const struct command *const families[] = { keys_commands, list_commands, stream_commands, NULL };
    struct box *box = mem_zalloc(sizeof(*box));

    engine_box_open(&box->base, families, 2);
    box->base.engine.hooks.context = box;
    box->base.engine.hooks.event = note;
    box->base.engine.hooks.load_in_place = load_nothing;
    box->base.engine.hooks.unlatch = unlatch;
    for (int i = 0; i < 2; i++) {
        box->base.workers[i].host.resume = resume;
        box->base.workers[i].host.set_alarm = set_alarm;
        box->base.workers[i].host.loop = box;
    }
    for (int i = 0; i < CLIENTS; i++)
        engine_box_add(&box->base, i % 2, &box->clients[i], (uint64_t)i + 1, 0);
    return box;
}

static void box_destroy(struct box *box)
{
    for (int i = 0; i < CLIENTS; i++)
        engine_box_remove(&box->clients[i]);
    engine_box_close(&box->base);
    mem_free(box);
}

static enum run_result say(struct box *box, int index, const char *line)
{
    int count = box->arg_counts[index] = engine_box_split(line, box->args[index]);

    return engine_run(box->clients[index].worker, &box->clients[index], box->args[index], count);
}

/* What has been replied since the last time. */
static void expect(struct box *box, int index, const char *reply)
{
    struct buffer *out = &box->clients[index].reply.out;

    if (!bytes_equal(buffer_bytes(out), bytes_of_string(reply)))
        fail_msg("client %d: %.*s instead of %s", index, (int)out->size, out->data, reply);
    out->size = 0;
}

static void read_mail(struct box *box)
{
    for (int i = 0; i < 2; i++) {
        blocking_deliver(&box->base.workers[i]);
        worker_read_mail(&box->base.workers[i]);
    }
}

static void assert_nobody_waits(struct box *box)
{
    struct blocking_stats stats = blocking_stats(&box->base.engine);

    assert_int_equal(stats.waiters, 0);
    assert_int_equal(stats.keys, 0);
    assert_int_equal(stats.with_deadline, 0);
    assert_int_equal(box->base.engine.clients.parked, 0);
}

static void the_first_who_waits_is_served_first_on_any_worker(void **state)
{
    struct box *box = box_create();

    assert_int_equal(say(box, 0, "BLPOP a b 0"), RUN_PARKED);
    assert_int_equal(say(box, 1, "BLPOP b a a 0"), RUN_PARKED);
    assert_int_equal(say(box, 3, "BRPOP b 0"), RUN_PARKED);
    assert_int_equal(blocking_stats(&box->base.engine).keys, 2);
    assert_int_equal(say(box, 2, "RPUSH b 1 2"), RUN_DONE);
    expect(box, 2, ":2\r\n");
    expect(box, 0, "");                     /* it is on its way */
    read_mail(box);
    expect(box, 0, "*2\r\n$1\r\nb\r\n$1\r\n1\r\n");
    expect(box, 1, "*2\r\n$1\r\nb\r\n$1\r\n2\r\n");
    expect(box, 3, "");
    say(box, 2, "RPUSH b 3");
    read_mail(box);
    expect(box, 3, "*2\r\n$1\r\nb\r\n$1\r\n3\r\n");
    assert_nobody_waits(box);
    box_destroy(box);
}

/* It has waited for longer than `timeout` allows, and its reply is not sent yet: that may have to wait for the log. */
static void who_is_served_is_not_idle(void **state)
{
    struct box *box = box_create();

    say(box, 0, "BLPOP a 0");
    box->clients[0].active_us = 5;
    box->base.workers[0].turn.now_us = 1000;
    say(box, 1, "RPUSH a 1");
    assert_int_equal(box->clients[0].active_us, 5);
    read_mail(box);
    expect(box, 0, "*2\r\n$1\r\na\r\n$1\r\n1\r\n");
    assert_true(box->clients[0].active_us >= 1000);
    box_destroy(box);
}

static void whose_time_is_up_leaves_and_the_alarm_is_set_for_the_next(void **state)
{
    struct box *box = box_create();
    int64_t now_us = clock_mono_us();

    say(box, 0, "BLPOP a 1000");
    assert_true(box->alarm_us >= now_us + 999000000);
    say(box, 2, "BLPOP a 0.001");
    assert_true(box->alarm_us < now_us + 999000000);
    while (clock_mono_us() < box->alarm_us)
        ;
    deadlines_alarm(&box->base.workers[0]);
    expect(box, 2, "*-1\r\n");
    expect(box, 0, "");
    assert_true(box->alarm_us >= now_us + 999000000);
    say(box, 2, "LPUSH a x");
    read_mail(box);
    expect(box, 0, "*2\r\n$1\r\na\r\n$1\r\nx\r\n");
    assert_nobody_waits(box);
    box_destroy(box);
}

static void who_dies_or_is_unblocked_gets_nothing(void **state)
{
    struct box *box = box_create();

    say(box, 0, "BLPOP a 0");
    say(box, 1, "BLPOP a 0");
    say(box, 3, "BLPOP a 0");
    worker_remove_client(&box->base.workers[0], &box->clients[0]);
    assert_true(blocking_unblock(&box->base.workers[0], box->clients[1].id, BLOCKING_UNBLOCKED));
    assert_false(blocking_unblock(&box->base.workers[0], box->clients[1].id, BLOCKING_UNBLOCKED));
    assert_false(blocking_unblock(&box->base.workers[0], 77, BLOCKING_TIMED_OUT));
    say(box, 2, "RPUSH a 1 2");
    read_mail(box);
    expect(box, 1, "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n");
    expect(box, 3, "*2\r\n$1\r\na\r\n$1\r\n1\r\n");
    say(box, 2, "LLEN a");
    expect(box, 2, ":2\r\n:1\r\n");
    assert_nobody_waits(box);
    box_destroy(box);
}

static void who_dies_with_the_answer_on_its_way_leaves_nothing_behind(void **state)
{
    struct box *box = box_create();

    say(box, 0, "BLPOP a 0");
    say(box, 1, "BLPOP a 0");
    say(box, 2, "RPUSH a 1 2 3");
    worker_remove_client(&box->base.workers[0], &box->clients[0]);
    worker_remove_client(&box->base.workers[1], &box->clients[1]);
    read_mail(box);
    say(box, 2, "LRANGE a 0 -1");
    expect(box, 2, ":3\r\n*1\r\n$1\r\n3\r\n");
    assert_nobody_waits(box);
    box_destroy(box);
}

static void replies_that_are_not_taken_are_freed_with_the_engine(void **state)
{
    struct box *box = box_create();

    say(box, 0, "BLPOP a 0");
    say(box, 1, "BLPOP a 0");
    say(box, 2, "RPUSH a 1 2 3");
    box_destroy(box);
}

static void what_moves_on_serves_others_in_the_same_step(void **state)
{
    struct box *box = box_create();

    say(box, 1, "BLPOP c 0");
    say(box, 3, "BLMOVE b c LEFT LEFT 0");
    say(box, 0, "BRPOPLPUSH a b 0");
    say(box, 2, "RPUSH a x");
    assert_int_equal(blocking_stats(&box->base.engine).waiters, 0);
    read_mail(box);
    expect(box, 0, "$1\r\nx\r\n");
    expect(box, 3, "$1\r\nx\r\n");
    expect(box, 1, "*2\r\n$1\r\nc\r\n$1\r\nx\r\n");
    assert_nobody_waits(box);
    box_destroy(box);
}

/* The last dump before the end begins between a push and the serving, and fails. */
static void who_can_not_be_served_while_writes_are_held_back_is_served_afterwards(void **state)
{
    struct box *box = box_create();

    say(box, 0, "BLPOP a 0");
    say(box, 1, "BLPOP a 0");
    box->freeze_after_change = true;
    say(box, 2, "RPUSH a 1 2");
    read_mail(box);
    expect(box, 0, "");
    assert_int_equal(blocking_stats(&box->base.engine).waiters, 2);
    blocking_retry(&box->base.workers[0]);       /* still */
    assert_int_equal(blocking_stats(&box->base.engine).waiters, 2);
    box->freeze_after_change = false;
    box->base.engine.frozen = false;
    blocking_retry(&box->base.workers[0]);
    read_mail(box);
    expect(box, 0, "*2\r\n$1\r\na\r\n$1\r\n1\r\n");
    expect(box, 1, "*2\r\n$1\r\na\r\n$1\r\n2\r\n");
    assert_nobody_waits(box);
    box_destroy(box);
}

/* The first one takes all there is, and then it is not known whether there is more in the store. */
static void who_waits_for_a_key_that_can_not_be_read_is_told(void **state)
{
    struct box *box = box_create();

    say(box, 0, "BLPOP a 0");
    say(box, 1, "BRPOP a 0");
    box->is_unreadable = true;
    say(box, 2, "RPUSH a x");
    read_mail(box);
    expect(box, 0, "*2\r\n$1\r\na\r\n$1\r\nx\r\n");
    expect(box, 1, "-ERR the key's record can't be read from the store (see the log and INFO tiering)\r\n");
    assert_nobody_waits(box);
    box_destroy(box);
}

static void what_is_being_encoded_is_not_changed_in_place(void **state)
{
    static const char *const waiting[] = { "BLPOP a 0", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "XREAD BLOCK 0 STREAMS s $" };
    static const char *const changing[] = { "RPUSH a 1 2", "XADD s 1-1 f v", "XADD s 1-1 f v" };
    static const int copies[] = { 1, 1, 0 };

    for (int i = 0; i < 3; i++) {
        struct box *box = box_create();

        say(box, 1, "XGROUP CREATE s g $ MKSTREAM");
        say(box, 0, waiting[i]);
        assert_int_equal(blocking_stats(&box->base.engine).waiters, 1);
        box->latch_after_change = true;
        say(box, 2, changing[i]);
        assert_int_equal(blocking_stats(&box->base.engine).waiters, 0);
        assert_int_equal(box->unlatched, copies[i]);
        read_mail(box);
        box_destroy(box);
    }
}

static void a_promise_lasts_until_it_is_kept_or_writes_are_held_back(void **state)
{
    struct box *box = box_create();

    assert_int_equal(blocking_memory(&box->clients[0]), 0);
    say(box, 0, "BLPOP a 0");
    assert_true(blocking_memory(&box->clients[0]) > 0);
    say(box, 2, "RPUSH b 1");               /* no client waits for that */
    assert_int_equal(box->base.engine.partitions->obstacle_count, 0);
    assert_int_equal(box->promised_in_change, 0);
    say(box, 2, "RPUSH a 1");
    assert_true(box->promised_in_change > 0);
    assert_int_equal(box->base.engine.partitions->obstacle_count, 0);
    read_mail(box);
    say(box, 0, "BLPOP a 0");
    box->freeze_after_change = true;
    say(box, 2, "RPUSH a 2");
    assert_int_equal(box->base.engine.partitions->obstacle_count, 0);
    for (uint32_t i = 0; i < box->base.engine.partitions->count; i++)
        assert_false(blocking_is_promised(&box->base.engine, i));
    box_destroy(box);
}

static uint32_t partition_of_key(const struct box *box, const char *key)
{
    const struct partitions *all = box->base.engine.partitions;

    return partition_index(all, key_hash(&all->seed, bytes_of_string(key)));
}

/* The claim comes to own the partition of the key. */
static void own(struct box *box, struct claim *claim, const char *key)
{
    struct partition_bits bits = { { 0 } };

    claim_init(claim, NULL, NULL);
    partition_bits_add(&bits, partition_of_key(box, key));
    partitions_own(box->base.engine.partitions, claim, &bits);
}

static void give(struct box *box, struct claim *claim)
{
    partitions_give(box->base.engine.partitions, claim, 0);
}

static void assert_no_obstacles(struct box *box)
{
    assert_int_equal(box->base.engine.partitions->obstacle_count, 0);
    for (uint32_t i = 0; i < box->base.engine.partitions->count; i++) {
        assert_false(blocking_is_promised(&box->base.engine, i));
        assert_null(blocking_holder(&box->base.engine, i));
    }
}

static void an_element_is_kept_for_the_waiter_while_another_partition_that_it_needs_is_owned(void **state)
{
    static const char *const waiting[] = { "BLMOVE k there LEFT LEFT 0", "BLPOP k there 0", "BLMPOP 0 2 there k LEFT" };
    static const char *const replies[] = { "$1\r\na\r\n", "*2\r\n$1\r\nk\r\n$1\r\na\r\n", "*2\r\n$1\r\nk\r\n*1\r\n$1\r\na\r\n" };

    for (int i = 0; i < 3; i++) {
        struct claim owner, next;
        struct box *box = box_create();

        say(box, 0, waiting[i]);
        own(box, &owner, "there");
        say(box, 2, "RPUSH k a");
        expect(box, 2, ":1\r\n");
        assert_int_equal(say(box, 1, "LPOP k"), RUN_PARKED);
        assert_int_equal(say(box, 3, "EXISTS k there"), RUN_PARKED);
        blocking_retry(&box->base.workers[1]);
        read_mail(box);
        expect(box, 1, "");
        give(box, &owner);
        own(box, &next, "k");               /* has the key's partition, too, for a moment: nothing changes */
        blocking_retry(&box->base.workers[1]);
        give(box, &next);
        read_mail(box);
        expect(box, 1, "");
        blocking_retry(&box->base.workers[1]);
        read_mail(box);
        expect(box, 0, replies[i]);
        expect(box, 1, "$-1\r\n");
        expect(box, 3, i == 0 ? ":1\r\n" : ":0\r\n");
        assert_no_obstacles(box);
        assert_nobody_waits(box);
        box_destroy(box);
    }
}

static void a_key_is_kept_only_as_long_as_its_waiter_waits(void **state)
{
    for (int way = 0; way < 3; way++) {
        struct claim owner;
        struct box *box = box_create();

        say(box, 0, way == 1 ? "BLMOVE k there LEFT LEFT 0.001" : "BLMOVE k there LEFT LEFT 0");
        own(box, &owner, "there");
        say(box, 2, "RPUSH k a");
        assert_int_equal(say(box, 1, "LPOP k"), RUN_PARKED);
        if (way == 0) {
            worker_remove_client(&box->base.workers[0], &box->clients[0]);
        } else if (way == 1) {
            while (clock_mono_us() < box->alarm_us)
                ;
            deadlines_alarm(&box->base.workers[0]);
        } else {
            blocking_unblock(&box->base.workers[1], box->clients[0].id, BLOCKING_TIMED_OUT);
        }
        blocking_retry(&box->base.workers[0]);
        read_mail(box);
        expect(box, 1, "$1\r\na\r\n");
        give(box, &owner);
        assert_no_obstacles(box);
        assert_nobody_waits(box);
        box_destroy(box);
    }
}

static void calls_on_a_key_that_is_kept_are_refused_when_the_owner_is_busy(void **state)
{
    struct claim owner;
    struct box *box = box_create();

    say(box, 0, "BLMOVE k there LEFT LEFT 0");
    own(box, &owner, "there");
    say(box, 2, "RPUSH k a");
    expect(box, 2, ":1\r\n");
    assert_int_equal(say(box, 1, "LPOP k"), RUN_PARKED);
    owner.busy = UNIT_BUSY_WITH_SCRIPT;
    blocking_retry(&box->base.workers[0]);
    read_mail(box);
    assert_int_equal(memcmp(box->clients[1].reply.out.data, "-BUSY ", 6), 0);
    assert_int_equal(say(box, 3, "LPOP k"), RUN_DONE);
    assert_int_equal(memcmp(box->clients[3].reply.out.data, "-BUSY ", 6), 0);
    give(box, &owner);
    blocking_retry(&box->base.workers[0]);
    read_mail(box);
    expect(box, 0, "$1\r\na\r\n");
    assert_no_obstacles(box);
    box_destroy(box);
}

static void a_key_is_not_kept_while_writes_are_held_back(void **state)
{
    struct claim owner;
    struct box *box = box_create();

    say(box, 0, "BLMOVE k there LEFT LEFT 0");
    own(box, &owner, "there");
    say(box, 2, "RPUSH k a");
    assert_int_equal(say(box, 1, "LRANGE k 0 -1"), RUN_PARKED);
    box->base.engine.holds_writes = true;
    blocking_retry(&box->base.workers[0]);
    read_mail(box);
    expect(box, 1, "*1\r\n$1\r\na\r\n");
    give(box, &owner);
    assert_no_obstacles(box);
    box->base.engine.holds_writes = false;
    blocking_retry(&box->base.workers[0]);
    read_mail(box);
    expect(box, 0, "$1\r\na\r\n");
    assert_nobody_waits(box);
    box_destroy(box);
}

enum { SLICES_MAX = 100 };

/* A unit that only reads. */
struct reading {
    struct claim owner;             /* of the token, and of "there" until the unit has found that */
    struct box *box;
    int attempts;
};

static bool read_key(struct unit *unit, const char *command, const char *key)
{
    struct bytes args[] = { bytes_of_string(command), bytes_of_string(key) };
    struct call call = unit_new_call(unit, unit->client, &unit->reply, args, 2);

    call.command = command_find(call.engine->commands, args[0]);
    return unit_call(unit, &call);
}

static struct reading *the_reading(const struct unit *unit)
{
    return (struct reading *)(uintptr_t)unit->args[0].data;
}

static void run_reading(struct call *call)
{
    struct reading *reading = the_reading(call->unit);

    reading->attempts++;
    if (!read_key(call->unit, "xlen", "s") || !read_key(call->unit, "llen", "there")) {
        assert_int_equal(call->unit->stop, UNIT_RESTARTS);
        owners_give(&call->partitions->owners, &reading->owner);        /* before the unit claims again */
    }
}

/* It finds that a key has expired which is waited for, and starts again: the waiter is served before that. */
static void a_unit_that_starts_again_does_not_wait_for_what_its_own_worker_has_promised(void **state)
{
    static const struct command reads = { .name = "reads", .run = run_reading, .flags = COMMAND_UNIT | COMMAND_READONLY };
    const struct script_start start = { .reads_only = true };
    struct reading reading = { .attempts = 0 };
    struct box *box = reading.box = box_create();
    struct engine *engine = &box->base.engine;
    struct worker *worker = &box->base.workers[0];
    struct client *client = &box->clients[0];
    struct bytes args[] = { bytes_of(&reading, sizeof(reading)), BYTES("s") };
    struct call_key key = { .arg = 1, .hash = key_hash(&engine->partitions->seed, args[1]) };
    struct call call = { .engine = engine, .partitions = engine->partitions, .turn = &worker->turn, .client = client, .requester = client,
        .command = &reads, .reply = &client->reply, .args = args, .arg_count = 2, .arena = &worker->arena, .keys = &key, .key_count = 1 };
    int64_t now_us;

    assert_int_not_equal(partition_of_key(box, "s"), partition_of_key(box, "there"));
    engine->debug.active_expire = false;
    say(box, 2, "XGROUP CREATE s g $ MKSTREAM");
    say(box, 3, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >");
    say(box, 2, "PEXPIRE s 1");
    for (now_us = clock_wall_us(); clock_wall_us() < now_us + 2000; )
        ;
    claim_init(&reading.owner, NULL, NULL);
    reading.owner.wants_token = true;
    partition_bits_add(&reading.owner.wanted, partition_of_key(box, "there"));
    assert_int_equal(owners_claim(&engine->partitions->owners, &reading.owner), CLAIM_GRANTED);

    assert_int_equal(unit_run(&call, worker, &start), RUN_PARKED);
    client->parked = true;
    engine->clients.parked++;
    box->args[0][0] = args[0];
    box->args[0][1] = args[1];
    box->arg_counts[0] = 2;
    /* Where the machine is busy a slice of the unit may end after its first read. */
    for (int i = 0; i < SLICES_MAX && worker->noted.first == NULL && reading.attempts < 2; i++)
        worker_read_mail(worker);
    assert_true(worker->noted.first != NULL || reading.attempts == 2);
    blocking_serve(worker);
    read_mail(box);
    assert_int_equal(reading.attempts, 2);
    assert_int_equal(memcmp(box->clients[3].reply.out.data, "-NOGROUP ", 9), 0);
    assert_no_obstacles(box);
    assert_nobody_waits(box);
    box_destroy(box);
}

static void where_nobody_may_wait_the_answer_is_null(void **state)
{
    struct box *box = box_create();

    box->clients[0].caller = TRAIT_WAITS_IN_PLACE;
    assert_int_equal(say(box, 0, "BLPOP a 0"), RUN_DONE);
    expect(box, 0, "*-1\r\n");
    assert_int_equal(say(box, 0, "BLMOVE a b LEFT LEFT 0"), RUN_DONE);
    expect(box, 0, "$-1\r\n");
    assert_nobody_waits(box);
    box_destroy(box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_who_waits_is_served_first_on_any_worker),
        cmocka_unit_test(who_is_served_is_not_idle),
        cmocka_unit_test(whose_time_is_up_leaves_and_the_alarm_is_set_for_the_next),
        cmocka_unit_test(who_dies_or_is_unblocked_gets_nothing),
        cmocka_unit_test(who_dies_with_the_answer_on_its_way_leaves_nothing_behind),
        cmocka_unit_test(replies_that_are_not_taken_are_freed_with_the_engine),
        cmocka_unit_test(what_moves_on_serves_others_in_the_same_step),
        cmocka_unit_test(who_can_not_be_served_while_writes_are_held_back_is_served_afterwards),
        cmocka_unit_test(who_waits_for_a_key_that_can_not_be_read_is_told),
        cmocka_unit_test(what_is_being_encoded_is_not_changed_in_place),
        cmocka_unit_test(a_promise_lasts_until_it_is_kept_or_writes_are_held_back),
        cmocka_unit_test(an_element_is_kept_for_the_waiter_while_another_partition_that_it_needs_is_owned),
        cmocka_unit_test(a_key_is_kept_only_as_long_as_its_waiter_waits),
        cmocka_unit_test(calls_on_a_key_that_is_kept_are_refused_when_the_owner_is_busy),
        cmocka_unit_test(a_key_is_not_kept_while_writes_are_held_back),
        cmocka_unit_test(a_unit_that_starts_again_does_not_wait_for_what_its_own_worker_has_promised),
        cmocka_unit_test(where_nobody_may_wait_the_answer_is_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
