/* Commands that read all keys wait for the log as others do: what they show may be a change that the log does not cover yet. */
#include "support/unit.h"

#include "base/mem.h"
#include "base/text.h"
#include "commands/rows.h"
#include "engine/dataset.h"
#include "server/tier_commands.h"
#include "support/tier_box.h"

enum { KEYS = 100, LSN = 1000 };

struct rig {
    struct tier_box box;
    struct box_client *client;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new() };

    tier_box_create(&rig->box, &options);
    rig->client = tier_box_open_client(&rig->box, 0);
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    if (rig->box.writer_held)
        tier_box_release_writer(&rig->box);
    tier_box_close_client(rig->client);
    tier_box_turn(&rig->box.workers[0], BOX_NO_WAIT);
    tier_box_settle(&rig->box);
    tier_box_destroy(&rig->box);
    mem_free(rig);
    return 0;
}

static void say_all(struct rig *rig, const char *format, int from, int until)
{
    for (int i = from; i < until; i++) {
        char line[100];

        snprintf(line, sizeof(line), format, i);
        (void)tier_box_say(rig->client, line);
    }
}

/* As if the log ended at `lsn` after the last change of the first partition, and one byte later for each partition after it. */
static void set_lsns(struct rig *rig, uint64_t lsn)
{
    struct partitions *all = rig->box.partitions;

    for (uint32_t i = 0; i < all->count; i++) {
        partition_lock(&all->partitions[i]);
        all->partitions[i].last_lsn = lsn + i;
        partition_unlock(&all->partitions[i]);
    }
}

static void expect_needs(struct rig *rig, const char *line, uint64_t lsn)
{
    struct client *client = &rig->client->client;
    struct turn *turn = &rig->box.workers[0].worker.turn;

    client->lsn.needed = turn->lsn_seen = 0;
    assert_int_not_equal(tier_box_say(rig->client, line)[0], '-');
    assert_int_equal(client->lsn.needed, lsn);
    assert_int_equal(turn->lsn_seen, lsn);
}

static void expect_all_need(struct rig *rig, const char *const *lines, size_t count)
{
    uint64_t last = LSN + rig->box.partitions->count - 1;

    set_lsns(rig, LSN);
    for (size_t i = 0; i < count; i++)
        expect_needs(rig, lines[i], last);
}

static const char *const whole[] = { "SCAN 0 COUNT 1000", "KEYS *", "KEYS nothing", "DBSIZE" };

static void hot_keys_are_shown_when_the_log_has_them(void **state)
{
    struct rig *rig = *state;

    expect_all_need(rig, whole, 4);             /* nothing: the deletes may be what is seen */
    say_all(rig, "SET k%d hot", 0, KEYS);
    expect_all_need(rig, whole, 4);
}

static void cold_keys_are_shown_when_the_log_has_them(void **state)
{
    struct rig *rig = *state;

    say_all(rig, "SET k%d cold", 0, KEYS);
    say_all(rig, "TIER DEMOTE k%d", 0, KEYS);
    expect_all_need(rig, whole, 4);
    tier_box_hold_writer(&rig->box);
    say_all(rig, "SET k%d blind", 0, KEYS);
    assert_true(rig->box.partitions->partitions[0].keyspaces[0]->record_counts[RECORD_UNKNOWN] > 0);
    tier_box_release_writer(&rig->box);
    expect_all_need(rig, whole, 4);
}

static void a_count_that_reads_records_waits_for_the_log(void **state)
{
    struct rig *rig = *state;
    struct client *client = &rig->client->client;

    say_all(rig, "SET k%d cold", 0, KEYS);
    say_all(rig, "TIER DEMOTE k%d", 0, KEYS);
    tier_box_hold_writer(&rig->box);
    say_all(rig, "SET k%d blind", 0, KEYS);
    set_lsns(rig, LSN);
    client->lsn.needed = 0;
    assert_false(tier_box_begin(rig->client, "DBSIZE"));       /* a job: there are unknown records */
    assert_int_equal(client->lsn.needed, 0);
    tier_box_release_writer(&rig->box);
    assert_string_equal(tier_box_await(rig->client), ":100\n");
    assert_int_equal(client->lsn.needed, LSN + rig->box.partitions->count - 1);
}

static void a_page_waits_for_the_partitions_it_shows_only(void **state)
{
    struct rig *rig = *state;

    say_all(rig, "SET k%d hot", 0, KEYS);
    set_lsns(rig, LSN);
    expect_needs(rig, "SCAN 0 COUNT 1", LSN);
    say_all(rig, "TIER DEMOTE k%d", 0, KEYS);
    expect_needs(rig, "SCAN 0 COUNT 1", LSN);
}

static void a_random_key_is_shown_when_the_log_has_it(void **state)
{
    struct rig *rig = *state;
    struct client *client = &rig->client->client;

    say_all(rig, "SET k%d hot", 0, KEYS);
    for (int round = 0; round < 2; round++) {
        set_lsns(rig, LSN);
        client->lsn.needed = 0;
        assert_int_equal(tier_box_say(rig->client, "RANDOMKEY")[0], '$');
        assert_in_range(client->lsn.needed, LSN, LSN + rig->box.partitions->count - 1);
        say_all(rig, "TIER DEMOTE k%d", 0, KEYS);
    }
}

/* --- one slot --- */

static void slot_count(struct call *call)
{
    uint64_t count;

    if (dataset_slot_count(call, call->db, slot_of_key(call->args[1]), &count))
        reply_integer(call->reply, (int64_t)count);
}

static void slot_keys(struct call *call)
{
    struct scan_page *page;
    int64_t count = 0;

    CHECK(text_to_int(call->args[2], &count));
    if (!dataset_slot_keys(call, call->db, slot_of_key(call->args[1]), (size_t)count, &page))
        return;
    reply_array(call->reply, page->count);
    for (size_t i = 0; i < page->count; i++)
        reply_bulk(call->reply, scan_page_key(page, i));
}

static const struct command slot_commands[] = {
    COMMAND_ROW("slot-count", slot_count, 2, COMMAND_WHOLE | COMMAND_READONLY, 0, NO_KEYS, "test", "1", "", "", "")
    COMMAND_ROW("slot-keys", slot_keys, 3, COMMAND_WHOLE | COMMAND_READONLY, 0, NO_KEYS, "test", "1", "", "", "")
    { .name = NULL }
};

static int open_slotted(void **state)
{
    static const struct command *const families[] = { slot_commands, string_commands, keys_commands, transaction_commands, tier_commands, NULL };
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new(), .by_slot = true };

    tier_box_create(&rig->box, &options);
    command_table_destroy(rig->box.engine.commands);
    rig->box.engine.commands = command_table_create(families);
    rig->client = tier_box_open_client(&rig->box, 0);
    *state = rig;
    return 0;
}

static void the_keys_of_a_slot_are_counted_and_listed_in_both_tiers(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(tier_box_say(rig->client, "SLOT-COUNT {u}"), ":0\n");
    assert_string_equal(tier_box_say(rig->client, "SLOT-KEYS {u} 10"), "*0\n");
    tier_box_say(rig->client, "MSET {u}a 1 {u}b 1 other 1");
    assert_true(tier_box_begin(rig->client, "SLOT-KEYS {u} 10"));       /* in place */
    assert_memory_equal(tier_box_reply(rig->client), "*2\n", 3);
    tier_box_say(rig->client, "TIER DEMOTE {u}a other");
    assert_true(tier_box_begin(rig->client, "SLOT-COUNT {u}"));
    assert_string_equal(tier_box_reply(rig->client), ":2\n");
    assert_memory_equal(tier_box_say(rig->client, "SLOT-KEYS {u} 10"), "*2\n", 3);
    assert_memory_equal(tier_box_say(rig->client, "SLOT-KEYS {u} 1"), "*1\n", 3);
    tier_box_say(rig->client, "DEL {u}b");
    assert_string_equal(tier_box_say(rig->client, "SLOT-KEYS {u} 10"), "*1\n$4\n{u}a\n");
    tier_box_hold_writer(&rig->box);
    assert_string_equal(tier_box_say(rig->client, "SET {u}a 2"), "+OK\n");      /* it is not known whether it has a record */
    assert_false(tier_box_begin(rig->client, "SLOT-COUNT {u}"));
    tier_box_release_writer(&rig->box);
    assert_string_equal(tier_box_await(rig->client), ":1\n");
    assert_string_equal(tier_box_say(rig->client, "MULTI"), "+OK\n");
    tier_box_say(rig->client, "SET {u}n 1");
    tier_box_say(rig->client, "SLOT-COUNT {u}");
    tier_box_say(rig->client, "SLOT-KEYS {u} 10");
    assert_memory_equal(tier_box_say(rig->client, "EXEC"), "*3\n+OK\n:2\n*2\n", 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hot_keys_are_shown_when_the_log_has_them, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(cold_keys_are_shown_when_the_log_has_them, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_count_that_reads_records_waits_for_the_log, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_page_waits_for_the_partitions_it_shows_only, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_random_key_is_shown_when_the_log_has_it, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(the_keys_of_a_slot_are_counted_and_listed_in_both_tiers, open_slotted, close_rig),
    };

    cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
