/* Records that are older than what is in RAM are garbage at once. */
#include "support/unit.h"

#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/tier_box.h"
#include "tier/collect.h"
#include "tier/image.h"
#include "tier/tags.h"

enum { KEYS = 200, PATIENCE_US = 30000000 };

struct rig {
    struct tier_box box;
    struct box_client *client;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new() };

    tier_box_create(&rig->box, &options);
    rig->box.tier->settings.space_target = 1;           /* nothing is collected unasked */
    rig->client = tier_box_open_client(&rig->box, 0);
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

static void say_all(struct rig *rig, const char *format, const char *wanted)
{
    char line[400];

    for (int i = 0; i < KEYS; i++) {
        snprintf(line, sizeof(line), format, i);
        assert_string_equal(tier_box_say(rig->client, line), wanted);
    }
}

static void make_cold(struct rig *rig)
{
    say_all(rig, "SET k%d old", "+OK\n");
    say_all(rig, "TIER DEMOTE k%d", ":1\n");
}

static uint64_t live_weight(struct rig *rig)
{
    return segments_live_weight(store_segments(rig->box.tier->store));
}

/* No key has bytes in a segment; each is in the map. */
static void assert_nowhere(struct rig *rig)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < rig->box.partitions->count; i++) {
        struct keyspace *keyspace = rig->box.partitions->partitions[i].keyspaces[0];

        count += keyspace != NULL ? recordmap_count(keyspace->tier->map) : 0;
    }
    assert_int_equal(count, KEYS);
    assert_int_equal(live_weight(rig), 0);
}

static void an_overwritten_record_is_given_up_when_it_is_known(void **state)
{
    struct rig *rig = *state;

    make_cold(rig);
    assert_true(live_weight(rig) > 0);
    say_all(rig, "SET k%d new", "+OK\n");
    tier_box_settle(&rig->box);                 /* nothing is unknown any more */
    assert_nowhere(rig);
    tier_box_verify(&rig->box);
    say_all(rig, "TIER DEMOTE k%d", ":1\n");
    say_all(rig, "GET k%d", "$3\nnew\n");
    say_all(rig, "DEL k%d", ":1\n");
    say_all(rig, "EXISTS k%d", ":0\n");
}

static void a_key_that_is_nowhere_can_be_deleted_and_come_back(void **state)
{
    struct rig *rig = *state;

    make_cold(rig);
    say_all(rig, "SET k%d new", "+OK\n");
    tier_box_settle(&rig->box);
    assert_nowhere(rig);
    tier_box_hold_writer(&rig->box);            /* the graves stay */
    say_all(rig, "DEL k%d", ":1\n");
    say_all(rig, "GET k%d", "$-1\n");
    say_all(rig, "SET k%d again", "+OK\n");
    tier_box_release_writer(&rig->box);
    tier_box_settle(&rig->box);
    tier_box_verify(&rig->box);
    say_all(rig, "DEL k%d", ":1\n");
    tier_box_settle(&rig->box);
    say_all(rig, "GET k%d", "$-1\n");
    assert_string_equal(tier_box_say(rig->client, "DBSIZE"), ":0\n");
}

static void collect_all(struct rig *rig)
{
    struct tier *tier = rig->box.tier;
    int64_t began_us = clock_mono_us();
    struct timespec moment = { 0, 1000000 };
    struct segments_stats stats;
    enum status status;

    tier_box_hold_writer(&rig->box);
    segments_seal(store_segments(tier->store));
    assert_int_equal(segments_write(store_segments(tier->store)), STATUS_OK);
    tier->settings.space_target = 90;
    do {
        BOX_DEMAND(&rig->box, clock_mono_us() - began_us < PATIENCE_US, "nothing is collected");
        (void)collect_step(tier, &status);
        assert_int_equal(status, STATUS_OK);
        nanosleep(&moment, NULL);
        segments_measure(store_segments(tier->store), &stats);
    } while (stats.count > 0 && tier->statistics.collected_bytes == 0);
    tier->settings.space_target = 1;
    tier_box_release_writer(&rig->box);
}

/* Read, so that they are clean, and then changed: nothing tells the writer. Some are deleted, so that there is garbage to collect. */
static void collection_does_not_move_what_is_stale(void **state)
{
    struct rig *rig = *state;
    char line[60];

    make_cold(rig);
    say_all(rig, "GET k%d", "$3\nold\n");
    say_all(rig, "APPEND k%d er", ":5\n");
    for (int i = 0; i < KEYS / 2; i++) {
        snprintf(line, sizeof(line), "DEL k%d", i);
        assert_string_equal(tier_box_say(rig->client, line), ":1\n");
    }
    tier_box_settle(&rig->box);
    assert_true(live_weight(rig) > 0);
    collect_all(rig);
    assert_int_equal(rig->box.tier->statistics.collected_bytes, 0);
    assert_int_equal(live_weight(rig), 0);
    tier_box_verify(&rig->box);
    assert_string_equal(tier_box_say(rig->client, "GET k199"), "$5\nolder\n");
    assert_string_equal(tier_box_say(rig->client, "DBSIZE"), ":100\n");
}

/* The image has the values of the cut, also of keys that were nowhere before, and of keys that are overwritten during it. */
static void an_image_has_every_key(void **state)
{
    struct rig *rig = *state;
    struct message message;
    uint64_t number, weight;
    char dir[300];

    make_cold(rig);
    say_all(rig, "SET k%d new", "+OK\n");
    tier_box_settle(&rig->box);
    assert_nowhere(rig);
    snprintf(dir, sizeof(dir), "%s/image", rig->box.root);
    tier_image_begin(rig->box.tier);
    partitions_lock_all(rig->box.partitions);
    tier_cut(rig->box.tier);
    partitions_unlock_all(rig->box.partitions);
    say_all(rig, "SET k%d newest", "+OK\n");
    assert_int_equal(tier_image(rig->box.tier, dir, &number, &message), STATUS_OK);
    weight = live_weight(rig);
    assert_true(weight > 0);                    /* the image's, until they are met */
    tier_image_end(rig->box.tier);
    tier_box_settle(&rig->box);
    tier_box_verify(&rig->box);
    say_all(rig, "GET k%d", "$6\nnewest\n");
}

/* It can't happen; if it does, the checkpoint fails, and the last one and the log stay. */
static void a_map_with_a_record_that_is_nowhere_is_not_saved(void **state)
{
    struct rig *rig = *state;
    struct tier_box *box = &rig->box;
    struct bytes key = bytes_of_string("k7");
    struct keyspace *keyspace;
    uint64_t hash, place;
    enum status status;
    bool is_there;

    make_cold(rig);
    tier_box_hold_writer(box);
    keyspace = tier_box_keyspace(box, 0, key, &hash);
    is_there = recordmap_find(keyspace->tier->map, hash, key, &place);
    recordmap_move(keyspace->tier->map, hash, key, place, PLACE_NOWHERE);
    status = tags_save(box->tier, box->root);
    recordmap_move(keyspace->tier->map, hash, key, PLACE_NOWHERE, place);
    tier_box_release_writer(box);
    assert_true(is_there);
    assert_int_equal(status, STATUS_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_overwritten_record_is_given_up_when_it_is_known, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_key_that_is_nowhere_can_be_deleted_and_come_back, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(collection_does_not_move_what_is_stale, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(an_image_has_every_key, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_map_with_a_record_that_is_nowhere_is_not_saved, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
