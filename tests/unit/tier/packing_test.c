/* tier-compression zstd: which records are written packed, and that it is invisible to clients. */
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "support/tier_box.h"
#include "tier/demotion.h"
#include "tier/packing.h"
#include "tier/record.h"

enum { KEYS = 500, NOISE_SIZE = 300 };

struct rig {
    struct tier_box box;
    struct box_client *client;
    struct random random;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new(), .partition_count = 2 };

    tier_box_create(&rig->box, &options);
    rig->client = tier_box_open_client(&rig->box, 0);
    random_init(&rig->random, rig->box.seed);
    tier_settings(rig->box.tier)->compression = PACKING_ZSTD;
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    if (rig->box.writer_held)
        tier_box_release_writer(&rig->box);
    tier_box_end(&rig->box, rig->client);
    mem_free(rig);
    return 0;
}

static struct packing *packing(struct rig *rig)
{
    return &rig->box.tier->packing;
}

static void set(struct rig *rig, const char *key, struct bytes value)
{
    struct bytes words[] = { BYTES("SET"), bytes_of_string(key), value };

    assert_true(tier_box_ask(rig->client, words, 3));
    assert_string_equal(tier_box_reply(rig->client), "+OK\n");
}

static void order(int number, struct buffer *text)
{
    text->size = 0;
    for (int i = 0; i < 4; i++)
        buffer_append_format(text, "{\"order\":%d,\"customer\":\"customer-%d\",\"status\":\"delivered\",\"currency\":\"EUR\"}", number * 7 + i, number);
}

static void set_orders(struct rig *rig, int count)
{
    struct buffer text = { 0 };
    char key[30];

    for (int i = 0; i < count; i++) {
        order(i, &text);
        snprintf(key, sizeof(key), "order:%d", i);
        set(rig, key, buffer_bytes(&text));
    }
    buffer_release(&text);
}

static void check_orders(struct rig *rig, int count)
{
    struct buffer text = { 0 };
    char line[40];

    for (int i = 0; i < count; i++) {
        const char *reply;

        order(i, &text);
        snprintf(line, sizeof(line), "GET order:%d", i);
        reply = tier_box_say(rig->client, line);
        assert_non_null(strchr(reply, '\n'));
        assert_memory_equal(strchr(reply, '\n') + 1, text.data, text.size);
    }
    buffer_release(&text);
}

static void set_noise(struct rig *rig, const char *prefix, int count)
{
    char key[30], value[NOISE_SIZE];

    for (int i = 0; i < count; i++) {
        for (size_t at = 0; at < sizeof(value); at++)
            value[at] = (char)random_next(&rig->random);
        snprintf(key, sizeof(key), "%s:%d", prefix, i);
        set(rig, key, bytes_of(value, sizeof(value)));
    }
}

static void demote(struct rig *rig, const char *prefix, int count)
{
    struct bytes *names = mem_alloc((size_t)count * sizeof(*names));
    enum tier_move *results = mem_alloc((size_t)count * sizeof(*results));

    for (int i = 0; i < count; i++) {
        char key[30];

        snprintf(key, sizeof(key), "%s:%d", prefix, i);
        names[i] = bytes_of(mem_string(bytes_of_string(key)), strlen(key));
    }
    tier_demote_many(rig->box.tier, 0, names, (size_t)count, results);
    for (int i = 0; i < count; i++) {
        assert_int_equal(results[i], TIER_MOVED);
        mem_free((char *)(uintptr_t)names[i].data);
    }
    mem_free(names);
    mem_free(results);
}

static uint64_t live_bytes(struct rig *rig)
{
    return tier_box_stats(&rig->box).segment_live_bytes;
}

static void cold_values_are_smaller_and_the_same(void **state)
{
    struct rig *rig = *state;

    set_orders(rig, KEYS);
    demote(rig, "order", KEYS);
    assert_int_equal(packing(rig)->records, KEYS);
    assert_true(packing(rig)->saved_bytes > (uint64_t)KEYS * 150);
    check_orders(rig, KEYS);
    tier_box_settle(&rig->box);
    tier_box_verify(&rig->box);
}

static void expiry_type_and_existence_are_known_without_unpacking(void **state)
{
    struct rig *rig = *state;

    set_orders(rig, 3);
    assert_string_equal(tier_box_say(rig->client, "PEXPIREAT order:1 99999999999999"), ":1\n");
    demote(rig, "order", 3);
    assert_int_equal(packing(rig)->records, 3);
    assert_string_equal(tier_box_say(rig->client, "PEXPIRETIME order:1"), ":99999999999999\n");
    assert_string_equal(tier_box_say(rig->client, "TYPE order:0"), "+string\n");
    assert_string_equal(tier_box_say(rig->client, "DEL order:2"), ":1\n");
    assert_string_equal(tier_box_say(rig->client, "DBSIZE"), ":2\n");
    check_orders(rig, 2);
}

static void off_means_raw_and_what_is_packed_stays_readable(void **state)
{
    struct rig *rig = *state;

    set_orders(rig, KEYS);
    demote(rig, "order", KEYS);
    tier_settings(rig->box.tier)->compression = PACKING_NO;
    check_orders(rig, KEYS);
    set_orders(rig, 10);                        /* they are dirty again */
    demote(rig, "order", 10);
    assert_int_equal(packing(rig)->records, KEYS);
    check_orders(rig, KEYS);
}

static void noise_is_tried_now_and_then_only(void **state)
{
    struct rig *rig = *state;
    int first = (32 << 10) / NOISE_SIZE + 2;
    uint64_t tried;

    set_noise(rig, "first", first);
    demote(rig, "first", first);
    tried = packing(rig)->databases[0].ratio.before;
    assert_true(tried >= 32 << 10);
    set_noise(rig, "noise", 640);
    demote(rig, "noise", 640);
    assert_true(packing(rig)->databases[0].ratio.before - tried <= 10 * (NOISE_SIZE + 20));
    assert_true(packing(rig)->databases[0].ratio.before > tried);
    assert_int_equal(packing(rig)->records, 0);
    /* Texts come after that: tried now and then, then always. */
    set_orders(rig, KEYS * 20);
    demote(rig, "order", KEYS * 20);
    assert_true(packing(rig)->records > KEYS);
    check_orders(rig, KEYS);
}

static void while_memory_is_waited_for_nothing_is_packed(void **state)
{
    struct rig *rig = *state;

    set_orders(rig, KEYS);
    packing(rig)->is_hurried = true;
    demote(rig, "order", KEYS);
    assert_int_equal(packing(rig)->records, 0);
    check_orders(rig, KEYS);
}

/* The judgement itself: after a batch, by the memory that is used. */
static void a_batch_tells_whether_memory_is_waited_for(void **state)
{
    struct rig *rig = *state;

    set_orders(rig, KEYS);
    tier_box_hold_writer(&rig->box);
    tier_settings(rig->box.tier)->enabled = false;
    tier_settings(rig->box.tier)->memory_max = 1;
    packing_after_batch(rig->box.tier);
    assert_true(packing(rig)->is_hurried);
    tier_settings(rig->box.tier)->memory_max = 1 << 30;
    packing_after_batch(rig->box.tier);
    assert_false(packing(rig)->is_hurried);
    tier_settings(rig->box.tier)->memory_max = 0;
    packing_after_batch(rig->box.tier);
    assert_false(packing(rig)->is_hurried);
    tier_settings(rig->box.tier)->enabled = true;
    tier_box_release_writer(&rig->box);
}

/* Packing takes several times as long as encoding, so less of it is done under one hold of the lock. */
static void a_hold_is_shorter_when_values_are_packed(void **state)
{
    struct rig *rig = *state;
    struct batch batch;
    struct demote_targets targets = { .batch = &batch };
    struct keyspace *keyspace;
    uint64_t hash, freed;

    set_orders(rig, 3000);
    tier_box_hold_writer(&rig->box);
    batch_init(&batch);
    keyspace = tier_box_keyspace(&rig->box, 0, BYTES("order:0"), &hash);
    partition_lock(keyspace->partition);
    freed = demotion_window(rig->box.tier, keyspace, DEMOTE_SHARE_ONE, DEMOTE_ALL, &targets, &rig->random);
    partition_unlock(keyspace->partition);
    assert_true(freed > BATCH_HOLD_ENOUGH / PACKING_WORK / 2 && freed < BATCH_HOLD_ENOUGH / PACKING_WORK * 3 / 2);
    assert_true(store_batch_size(batch.store) < BATCH_HOLD_ENOUGH / 4);
    assert_int_equal(batch_commit(rig->box.tier, &batch), STATUS_OK);
    assert_int_equal(batch_work(&batch) - store_batch_size(batch.store), 0);
    tier_box_release_writer(&rig->box);
    batch_release(&batch);
    key_list_release(&targets.unknown);
    key_list_release(&targets.big);
}

static void big_values_are_packed_without_the_lock(void **state)
{
    struct rig *rig = *state;

    /* A hash of 300 fields is big, and its record has less than 64 KiB. */
    for (int i = 0; i < 300; i++) {
        char line[120];

        snprintf(line, sizeof(line), "HSET big:0 field-%d customer-%d-is-a-good-customer", i, i);
        assert_string_equal(tier_box_say(rig->client, line), ":1\n");
    }
    demote(rig, "big", 1);
    assert_int_equal(packing(rig)->records, 1);
    assert_string_equal(tier_box_say(rig->client, "HLEN big:0"), ":300\n");
    assert_string_equal(tier_box_say(rig->client, "HGET big:0 field-77"), "$30\ncustomer-77-is-a-good-customer\n");
}

static void packed_records_take_less_of_the_disk(void **state)
{
    struct rig *rig = *state;
    uint64_t packed;

    set_orders(rig, KEYS);
    demote(rig, "order", KEYS);
    packed = live_bytes(rig);
    check_orders(rig, KEYS);
    tier_settings(rig->box.tier)->compression = PACKING_NO;
    set_orders(rig, KEYS);
    demote(rig, "order", KEYS);
    assert_true(live_bytes(rig) > packed * 3 / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cold_values_are_smaller_and_the_same, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(expiry_type_and_existence_are_known_without_unpacking, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(off_means_raw_and_what_is_packed_stays_readable, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(noise_is_tried_now_and_then_only, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(while_memory_is_waited_for_nothing_is_packed, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_batch_tells_whether_memory_is_waited_for, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_hold_is_shorter_when_values_are_packed, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(big_values_are_packed_without_the_lock, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(packed_records_take_less_of_the_disk, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
