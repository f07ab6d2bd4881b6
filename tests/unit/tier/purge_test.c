/* Purging costs what was stored, not what was counted; giving the room back holds up neither demotion nor the end. */
#include "support/unit.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/message.h"
#include "support/tier_box.h"
#include "tier/image.h"
#include "tier/outdated.h"
#include "tier/purge.h"

enum { PATIENCE_US = 60000000, RECORD_SIZE = 1 << 20 };

struct rig {
    struct tier_box box;
    struct box_client *client;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new(), .partition_count = 16, .db_count = 16, .write_buffer_size = 4 << 20 };

    tier_box_create(&rig->box, &options);
    rig->client = tier_box_open_client(&rig->box, 0);
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    faulty_disk_set(rig->box.disk, NULL);
    tier_box_end(&rig->box, rig->client);
    mem_free(rig);
    return 0;
}

static const char *say(struct rig *rig, const char *line)
{
    return tier_box_say(rig->client, line);
}

/* Keys of an incarnation that no database has; the writer is held. */
static void store_records(struct rig *rig, uint32_t incarnation, int count)
{
    struct store_batch *batch = store_batch_create();

    for (int i = 0; i < count; i++) {
        char key[20];

        snprintf(key, sizeof(key), "k%d", i);
        store_batch_index(batch, incarnation, (uint64_t)i << 54, bytes_of_string(key));
        assert_int_equal(store_write(rig->box.tier->store, batch), STATUS_OK);
        store_batch_clear(batch);
    }
    store_batch_destroy(batch);
}

static bool has_records(struct rig *rig, uint32_t incarnation)
{
    uint32_t found;
    enum status status = store_incarnation(rig->box.tier->store, incarnation, &found);

    assert_true(status == STATUS_OK || status == STATUS_NOT_FOUND);
    return status == STATUS_OK && found == incarnation;
}

static void flushes_of_what_was_never_stored_cost_no_write(void **state)
{
    struct rig *rig = *state;
    uint64_t syncs = store_env_stats(rig->box.env).syncs, number = store_number(rig->box.tier->store);
    uint32_t last = rig->box.partitions->incarnation_last;

    for (int i = 0; i < 300; i++) {
        assert_string_equal(say(rig, "SET a 1"), "+OK\n");
        assert_string_equal(say(rig, "FLUSHALL"), "+OK\n");
        assert_string_equal(say(rig, "FLUSHALL"), "+OK\n");
        assert_int_equal(purge_count(rig->box.tier->purge), 0);
    }
    assert_int_equal(rig->box.partitions->incarnation_last, last + 300);    /* not 16 for each, and none for the second */
    tier_box_settle(&rig->box);
    assert_int_equal(store_env_stats(rig->box.env).syncs, syncs);
    assert_int_equal(store_number(rig->box.tier->store), number);
}

static void a_flush_purges_what_was_stored(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(say(rig, "MSET a 1 b 2"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE a b"), ":2\n");
    assert_true(has_records(rig, 1));
    assert_string_equal(say(rig, "FLUSHALL"), "+OK\n");
    tier_box_settle(&rig->box);
    assert_false(has_records(rig, 1));
}

static void a_start_looks_for_what_is_there(void **state)
{
    struct rig *rig = *state;
    struct tier *tier = rig->box.tier;

    assert_string_equal(say(rig, "SET live 1"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE live"), ":1\n");
    assert_string_equal(say(rig, "GET live"), "$1\n1\n");       /* an entry of the map, so that it stays as it is below */
    tier_box_hold_writer(&rig->box);
    store_records(rig, 1000, 10);
    store_records(rig, 2000000000, 10);
    rig->box.partitions->incarnation_last = 2000000001;         /* a count of two billion is not walked through */
    assert_int_equal(purge_find(tier), STATUS_OK);
    assert_int_equal(purge_count(tier->purge), 2);
    assert_true(purge_has(tier->purge, 1000) && purge_has(tier->purge, 2000000000));
    rig->box.partitions->incarnation_last = 2000;               /* tier_box_verify looks at each */
    tier_box_release_writer(&rig->box);
    tier_box_settle(&rig->box);
    assert_false(has_records(rig, 1000));
    assert_false(has_records(rig, 2000000000));
    assert_true(has_records(rig, 1));
}

static void a_flush_during_a_checkpoint_is_one_purge(void **state)
{
    struct rig *rig = *state;
    char key[20], dir[300];
    struct message message;
    uint64_t number;

    for (int i = 0; i < 1000; i++) {
        struct bytes words[] = { BYTES("SET"), { key, (size_t)snprintf(key, sizeof(key), "k%d", i) }, BYTES("v") };

        assert_true(tier_box_ask(rig->client, words, 3));
    }
    partitions_lock_all(rig->box.partitions);
    tier_cut(rig->box.tier);
    partitions_unlock_all(rig->box.partitions);
    assert_string_equal(say(rig, "FLUSHDB"), "+OK\n");
    assert_int_equal(purge_count(rig->box.tier->purge), 0);     /* the checkpoint needs them */
    assert_true(rig->box.partitions->watch.incarnation_is_taken(rig->box.tier, 1));
    snprintf(dir, sizeof(dir), "%s/image", rig->box.root);
    assert_int_equal(tier_image(rig->box.tier, dir, &number, &message), STATUS_OK);
    tier_box_hold_writer(&rig->box);
    assert_in_range(purge_count(rig->box.tier->purge), 0, 1);   /* the writer may have been at it already */
    tier_box_release_writer(&rig->box);
    tier_box_settle(&rig->box);
    assert_false(has_records(rig, 1));
    assert_false(rig->box.partitions->watch.incarnation_is_taken(rig->box.tier, 1));
}

static void the_set_keeps_each_number_once(void **state)
{
    struct purge *purge = purge_create();
    struct random random;
    uint64_t seed = seed_new();
    bool there[1000] = { 0 };
    size_t count = 0;

    (void)state;
    random_init(&random, seed);
    for (int i = 0; i < 3000; i++) {
        uint32_t number = (uint32_t)random_below(&random, 999) + 1;

        purge_add(purge, number);
        count += !there[number];
        there[number] = true;
    }
    if (purge_count(purge) != count)
        fail_msg("seed %llu", (unsigned long long)seed);
    for (uint32_t i = 1; i < 1000; i++)
        assert_int_equal(purge_has(purge, i), there[i]);
    purge_destroy(purge);
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_set_keeps_each_number_once),
        WITH_RIG(flushes_of_what_was_never_stored_cost_no_write),
        WITH_RIG(a_flush_purges_what_was_stored),
        WITH_RIG(a_start_looks_for_what_is_there),
        WITH_RIG(a_flush_during_a_checkpoint_is_one_purge),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
