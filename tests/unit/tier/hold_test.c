/* How much is done under one hold of a partition's lock has a limit in bytes, not only in keys. */
#include "support/unit.h"

#include <string.h>

#include "base/mem.h"
#include "base/message.h"
#include "engine/memory.h"
#include "support/image_box.h"
#include "support/tier_box.h"
#include "tier/batch.h"
#include "tier/demotion.h"

/* Just not big: encoded under the lock. */
enum { KEYS = 200, VALUE_SIZE = 12 * 1024, ALL_SIZE = KEYS * VALUE_SIZE };

struct rig {
    struct tier_box box;
    struct box_client *client;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new(), .partition_count = 1, .db_count = 1 };

    tier_box_create(&rig->box, &options);
    rig->client = tier_box_open_client(&rig->box, 0);
    tier_settings(rig->box.tier)->batch_size = 64 << 20;        /* so that batches show the holds */
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

static void set_keys(struct rig *rig)
{
    char *value = mem_alloc(VALUE_SIZE), key[20];

    memset(value, 'x', VALUE_SIZE);
    for (int i = 0; i < KEYS; i++) {
        struct bytes words[3] = { BYTES("SET") };

        snprintf(key, sizeof(key), "k%d", i);
        words[1] = bytes_of_string(key);
        words[2] = bytes_of(value, VALUE_SIZE);
        assert_true(tier_box_ask(rig->client, words, 3));
        assert_false(entry_is_big(tier_box_entry(&rig->box, 0, key)));
    }
    mem_free(value);
}

static uint64_t batches(struct rig *rig)
{
    struct tier_stats stats;

    tier_stats(rig->box.tier, &stats);
    return stats.batches;
}

/* An image is complete, and each piece of it was a batch. */
static void check_sealing(struct rig *rig, bool clean)
{
    uint64_t before = batches(rig);
    char dir[300];

    snprintf(dir, sizeof(dir), "%s/image", rig->box.root);
    assert_int_equal(image_box_take(&rig->box, dir, clean), STATUS_OK);
    assert_true(batches(rig) - before >= ALL_SIZE / (BATCH_HOLD_ENOUGH + VALUE_SIZE + 1000));
}

static void sealing_after_the_cut_releases_the_lock(void **state)
{
    set_keys(*state);
    check_sealing(*state, false);
}

static void the_clean_pass_gives_the_lock_back(void **state)
{
    set_keys(*state);
    check_sealing(*state, true);
}

static void demotion_releases_the_lock(void **state)
{
    struct rig *rig = *state;
    struct batch batch;
    struct demote_targets targets = { .batch = &batch };
    struct random random;
    struct keyspace *keyspace;
    uint64_t hash, all = 0;
    int rounds = 0;

    random_init(&random, rig->box.seed);
    set_keys(rig);
    tier_box_hold_writer(&rig->box);
    batch_init(&batch);
    keyspace = tier_box_keyspace(&rig->box, 0, BYTES("k0"), &hash);
    while (keyspace->table.count > 0 && rounds++ < 1000) {
        uint64_t freed;

        partition_lock(keyspace->partition);
        freed = demotion_window(rig->box.tier, keyspace, DEMOTE_SHARE_ONE, DEMOTE_ALL, &targets, &random);
        partition_unlock(keyspace->partition);
        assert_true(store_batch_size(batch.store) < BATCH_HOLD_ENOUGH + VALUE_SIZE + 1000);
        assert_true(freed < BATCH_HOLD_ENOUGH + 3 * VALUE_SIZE);
        all += freed;
        assert_int_equal(batch_commit(rig->box.tier, &batch), STATUS_OK);
    }
    tier_box_release_writer(&rig->box);
    assert_int_equal(targets.big.count, 0);
    assert_true(all >= ALL_SIZE);
    assert_int_equal(keyspace->table.count, 0);        /* all of them, in the end */
    batch_release(&batch);
    key_list_release(&targets.unknown);
    key_list_release(&targets.big);
}

/* A big value that is in a batch, though its key is gone: writes wait for that memory, with tier-enabled or (for a checkpoint) without, but not for a store that can't be
 * written. */
static void what_a_batch_holds_is_waited_for(void **state)
{
    struct rig *rig = *state;
    struct engine *engine = &rig->box.engine;
    struct tier *tier = rig->box.tier;
    struct bytes names[] = { BYTES("maxmemory") }, limits[] = { BYTES("1"), BYTES("0") }, words[3] = { BYTES("SET"), BYTES("big") };
    struct message message = { "" };
    struct batch batch;
    uint64_t hash;
    struct keyspace *keyspace;

    words[2] = bytes_of(mem_zalloc(100000), 100000);
    assert_true(tier_box_ask(rig->client, words, 3));
    mem_free((char *)words[2].data);
    keyspace = tier_box_keyspace(&rig->box, 0, words[1], &hash);
    tier_box_hold_writer(&rig->box);
    batch_init(&batch);
    assert_true(config_set(engine->config, names, limits, 1, &message));
    engine->memory.stacks = 1000;               /* counts as used */
    tier->settings.enabled = false;
    assert_int_equal(memory_state(engine), MEMORY_OUT);
    assert_int_equal(batch_put_big(tier, &batch, keyspace->partition, keyspace->incarnation, hash, words[1], BATCH_CLEAN, NULL), STATUS_OK);
    assert_int_equal(memory_state(engine), MEMORY_COMES);
    tier->state = TIER_ERROR;
    assert_int_equal(memory_state(engine), MEMORY_OUT);
    tier->state = TIER_OK;
    assert_int_equal(batch_commit(tier, &batch), STATUS_OK);
    assert_int_equal(memory_state(engine), MEMORY_OUT);
    tier->settings.enabled = true;
    engine->memory.stacks = 0;
    assert_true(config_set(engine->config, names, &limits[1], 1, &message));
    batch_release(&batch);
    tier_box_release_writer(&rig->box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sealing_after_the_cut_releases_the_lock, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(the_clean_pass_gives_the_lock_back, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(demotion_releases_the_lock, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(what_a_batch_holds_is_waited_for, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
