/* Commands that read all keys wait for the log as others do: what they show may be a change that the log does not cover yet. */
#include "support/unit.h"

#include "base/mem.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hot_keys_are_shown_when_the_log_has_them, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(cold_keys_are_shown_when_the_log_has_them, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_count_that_reads_records_waits_for_the_log, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_page_waits_for_the_partitions_it_shows_only, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_random_key_is_shown_when_the_log_has_it, open_rig, close_rig),
    };

    cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
