/* A key whose record is larger than the store takes stays in RAM, and is not tried again at cost; an image fails and names it. */
#include "support/unit.h"

#include <string.h>

#include "base/mem.h"
#include "base/message.h"
#include "base/tree.h"
#include "support/tier_box.h"
#include "tier/batch.h"
#include "tier/image.h"
#include "tier/demotion.h"

enum { LIMIT = 200 * 1024, LARGE = 300 * 1024, SMALL_LIMIT = 1000 };

struct rig {
    struct tier_box box;
    struct box_client *client;
    char dir[300];
    struct message message;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new() };

    tier_box_create(&rig->box, &options);
    rig->client = tier_box_open_client(&rig->box, 0);
    tier_settings(rig->box.tier)->record_size_max = LIMIT;
    snprintf(rig->dir, sizeof(rig->dir), "%s/image", rig->box.root);
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    tier_box_end(&rig->box, rig->client);
    mem_free(rig);
    return 0;
}

static const char *say(struct rig *rig, const char *line)
{
    return tier_box_say(rig->client, line);
}

static void set(struct rig *rig, const char *key, size_t size)
{
    char *value = mem_alloc(size + 1);
    struct bytes words[] = { BYTES("SET"), bytes_of_string(key), bytes_of(value, size) };

    memset(value, 'x', size);
    assert_true(tier_box_ask(rig->client, words, 3));
    assert_string_equal(tier_box_reply(rig->client), "+OK\n");
    mem_free(value);
}

/* The whole image, in the steps that persist takes. */
static enum status take_image(struct rig *rig, bool clean)
{
    struct tier *tier = rig->box.tier;
    enum status status = STATUS_OK;
    uint64_t number;

    rig->message.text[0] = '\0';
    tier_image_begin(tier);
    if (clean || !tier_may_cut(tier))
        status = tier_clean(tier, &rig->message);
    if (status == STATUS_OK) {
        partitions_lock_all(rig->box.partitions);
        tier_cut(tier);
        partitions_unlock_all(rig->box.partitions);
        status = tier_image(tier, rig->dir, &number, &rig->message);
    }
    tier_image_end(tier);
    tree_remove(rig->dir);
    return status;
}

static void assert_named(struct rig *rig)
{
    struct tier_stats stats;

    tier_stats(rig->box.tier, &stats);
    assert_non_null(strstr(rig->message.text, "'large'"));
    assert_non_null(strstr(stats.last_error, "'large'"));
}

/* What demotion would take of the key's keyspace if it had to take all: bytes. */
static uint64_t demotable(struct rig *rig, const char *key, size_t *big_count)
{
    struct batch batch;
    struct demote_targets targets = { .batch = &batch };
    struct random random;
    struct keyspace *keyspace;
    uint64_t hash, freed;

    random_init(&random, 1);
    tier_box_hold_writer(&rig->box);
    batch_init(&batch);
    keyspace = tier_box_keyspace(&rig->box, 0, bytes_of_string(key), &hash);
    partition_lock(keyspace->partition);
    freed = demotion_window(rig->box.tier, keyspace, DEMOTE_SHARE_ONE, DEMOTE_ALL, &targets, &random);
    partition_unlock(keyspace->partition);
    *big_count = targets.big.count;
    batch_release(&batch);
    key_list_release(&targets.unknown);
    key_list_release(&targets.big);
    tier_box_release_writer(&rig->box);
    return freed;
}

static void demotion_passes_it_over(void **state)
{
    struct rig *rig = *state;
    struct tier_stats stats;
    size_t big_count;

    set(rig, "large", LARGE);
    assert_true(demotable(rig, "large", &big_count) >= LARGE && big_count == 1);
    for (int i = 0; i < 3; i++)
        assert_non_null(strstr(say(rig, "TIER DEMOTE large"), "could not be written"));
    assert_int_equal(demotable(rig, "large", &big_count), 0);      /* else the writer would try it for ever */
    assert_int_equal(big_count, 0);
    assert_int_equal(rig->box.told_count, 1);
    tier_stats(rig->box.tier, &stats);
    assert_non_null(strstr(stats.last_error, "'large'"));
    assert_int_equal(stats.state, TIER_OK);
    assert_string_equal(say(rig, "STRLEN large"), ":307200\n");
    assert_string_equal(say(rig, "TIER WHERE large"), "$3\nhot\n");
}

static void what_becomes_small_enough_goes(void **state)
{
    struct rig *rig = *state;

    set(rig, "large", LARGE);
    assert_non_null(strstr(say(rig, "TIER DEMOTE large"), "could not be written"));
    set(rig, "large", LARGE / 2);
    assert_string_equal(say(rig, "TIER DEMOTE large"), ":1\n");
    assert_int_equal(rig->box.tier->oversized.count, 0);
    assert_string_equal(say(rig, "STRLEN large"), ":153600\n");
    set(rig, "large", LARGE);
    assert_non_null(strstr(say(rig, "TIER DEMOTE large"), "could not be written"));
}

static void it_is_not_encoded_again(void **state)
{
    struct rig *rig = *state;
    struct oversized_key *known = &rig->box.tier->oversized.keys[0];

    set(rig, "large", LARGE);
    assert_non_null(strstr(say(rig, "TIER DEMOTE large"), "could not be written"));
    assert_int_equal(rig->box.tier->oversized.count, 1);
    /* As if its record had been a little larger: building it would note the right size. */
    known->record_size += 1;
    assert_non_null(strstr(say(rig, "TIER DEMOTE large"), "could not be written"));
    assert_int_equal(known->record_size, LARGE + 4 + 5 + 6 + 1);
    /* As if it had been small enough by an estimate that is wrong: it is built again, and the size corrected. */
    known->record_size = LIMIT - 1;
    assert_non_null(strstr(say(rig, "TIER DEMOTE large"), "could not be written"));
    assert_int_equal(known->record_size, LARGE + 4 + 5 + 6);
}

static void an_image_fails_and_names_it(void **state)
{
    struct rig *rig = *state;

    set(rig, "other", 100);
    set(rig, "large", LARGE);
    assert_int_equal(take_image(rig, true), STATUS_TOO_LARGE);
    assert_named(rig);
    assert_int_equal(take_image(rig, false), STATUS_TOO_LARGE);
    assert_named(rig);
    assert_int_equal(take_image(rig, true), STATUS_TOO_LARGE);
    assert_named(rig);
    assert_string_equal(say(rig, "STRLEN large"), ":307200\n");
    set(rig, "large", 100);
    assert_int_equal(take_image(rig, true), STATUS_OK);
}

/* A value that is changed after the cut goes to the writer as it was. */
static void a_value_handed_over_fails_the_image(void **state)
{
    struct rig *rig = *state;
    enum status status;
    uint64_t number;

    tier_settings(rig->box.tier)->record_size_max = SMALL_LIMIT;
    set(rig, "large", SMALL_LIMIT * 2);
    set(rig, "gone", SMALL_LIMIT * 2);
    tier_image_begin(rig->box.tier);
    tier_box_hold_writer(&rig->box);
    partitions_lock_all(rig->box.partitions);
    tier_cut(rig->box.tier);
    partitions_unlock_all(rig->box.partitions);
    set(rig, "large", SMALL_LIMIT * 3);
    assert_string_equal(say(rig, "DEL gone"), ":1\n");
    tier_box_release_writer(&rig->box);
    status = tier_image(rig->box.tier, rig->dir, &number, &rig->message);
    tier_image_end(rig->box.tier);
    tree_remove(rig->dir);
    assert_int_equal(status, STATUS_TOO_LARGE);
    assert_named(rig);
    tier_box_settle(&rig->box);
    tier_box_verify(&rig->box);
    assert_string_equal(say(rig, "DBSIZE"), ":1\n");
    assert_string_equal(say(rig, "STRLEN large"), ":3000\n");
    assert_string_equal(say(rig, "GET gone"), "$-1\n");
    tier_settings(rig->box.tier)->record_size_max = LIMIT;
    assert_int_equal(take_image(rig, true), STATUS_OK);
    assert_string_equal(say(rig, "TIER DEMOTE large"), ":1\n");
    assert_string_equal(say(rig, "STRLEN large"), ":3000\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(demotion_passes_it_over, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(what_becomes_small_enough_goes, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(it_is_not_encoded_again, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(an_image_fails_and_names_it, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_value_handed_over_fails_the_image, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
