/* The warm-up: brings back what was hot, with its heat, and never an old value, whatever clients and the writer do meanwhile. */
#include "support/unit.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "keyspace/heat.h"
#include "support/tier_box.h"
#include "tier/hot.h"
#include "tier/warm.h"

enum { KEYS = 3000, WAIT_US = 60000000 };

struct rig {
    struct tier_box box;
    struct box_client *c;
    struct random random;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new() };

    tier_box_create(&rig->box, &options);
    rig->c = tier_box_open_client(&rig->box, 0);
    random_init(&rig->random, options.seed);
    tier_settings(rig->box.tier)->low_percent = 90;
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    tier_box_close_client(rig->c);
    tier_box_destroy(&rig->box);
    mem_free(rig);
    return 0;
}

static void key_name(int i, char key[32])
{
    snprintf(key, 32, "key%d", i);
}

static void set(struct rig *rig, int i, int value)
{
    char key[32], text[32];
    struct bytes words[3] = { BYTES("SET") };

    key_name(i, key);
    snprintf(text, sizeof(text), "value-%d", value);
    words[1] = bytes_of_string(key);
    words[2] = bytes_of_string(text);
    assert_true(tier_box_ask(rig->c, words, 3));
}

static void check_value(struct rig *rig, int i, int value)
{
    char line[64], key[32], expected[64] = "$-1\n", text[32];
    const char *answer;

    key_name(i, key);
    snprintf(line, sizeof(line), "GET %s", key);
    snprintf(text, sizeof(text), "value-%d", value);
    if (value >= 0)
        snprintf(expected, sizeof(expected), "$%zu\n%s\n", strlen(text), text);
    answer = tier_box_say(rig->c, line);
    BOX_DEMAND(&rig->box, strcmp(answer, expected) == 0, "%s is %s instead of %s", key, answer, expected);
}

static void demote(struct rig *rig, int i)
{
    char key[32];

    key_name(i, key);
    tier_demote(rig->box.tier, 0, bytes_of_string(key));
}

/* All keys hot, each with a heat of its own; an image is made; then all are cold. */
static void prepare(struct rig *rig, int count)
{
    char key[32];

    for (int i = 0; i < count; i++) {
        set(rig, i, 0);
        check_value(rig, i, 0);     /* a second use: no longer on probation */
        key_name(i, key);
        tier_box_entry(&rig->box, 0, key)->heat = (uint8_t)(i % 200);
        tier_box_entry(&rig->box, 0, key)->heat_minutes = heat_minutes(clock_wall_ms());
    }
    assert_int_equal(hot_save(rig->box.tier, rig->box.root, warm_pending(rig->box.tier->warm)), STATUS_OK);
    for (int i = 0; i < count; i++)
        demote(rig, i);
    assert_int_equal(tier_box_stats(&rig->box).hot_keys, 0);
}

static void await_end(struct rig *rig)
{
    int64_t began_us = clock_mono_us();

    while (tier_box_stats(&rig->box).warmup == TIER_WARMUP_RUNNING)
        BOX_DEMAND(&rig->box, clock_mono_us() - began_us < WAIT_US, "the warm-up does not end");
}

static void what_was_hot_comes_back_with_its_heat(void **state)
{
    struct rig *rig = *state;
    char key[32];

    prepare(rig, KEYS);
    tier_warm_up(rig->box.tier, rig->box.root);
    await_end(rig);
    assert_true(tier_box_stats(&rig->box).warmup == TIER_WARMUP_DONE && tier_box_stats(&rig->box).warmup_keys == KEYS && tier_box_stats(&rig->box).warmup_loaded == KEYS);
    for (int i = 0; i < KEYS; i++) {
        const struct entry *entry;

        key_name(i, key);
        entry = tier_box_entry(&rig->box, 0, key);
        BOX_DEMAND(&rig->box, entry != NULL, "%s is not back", key);
        BOX_DEMAND(&rig->box, entry->heat == i % 200, "%s has heat %d", key, entry->heat);
        BOX_DEMAND(&rig->box, entry_record(entry) == RECORD_CLEAN && !(entry->flags & (ENTRY_PROBATION | ENTRY_PINNED)), "%s", key);
    }
    assert_int_equal(tier_box_stats(&rig->box).false_maybes, 0);
    tier_box_verify(&rig->box);
}

static void keys_that_are_there_already_get_their_heat_back(void **state)
{
    struct rig *rig = *state;

    prepare(rig, 200);
    set(rig, 150, 1);
    check_value(rig, 120, 0);
    tier_warm_up(rig->box.tier, rig->box.root);
    await_end(rig);
    assert_int_equal(tier_box_entry(&rig->box, 0, "key150")->heat, 150);
    assert_true(tier_box_entry(&rig->box, 0, "key120")->heat >= 120);
    assert_int_equal(tier_box_stats(&rig->box).warmup_loaded, 200);
    check_value(rig, 150, 1);
}

static void what_was_cold_stays_cold(void **state)
{
    struct rig *rig = *state;

    for (int i = KEYS; i < 2 * KEYS; i++)
        set(rig, i, 0);
    for (int i = KEYS; i < 2 * KEYS; i++)
        demote(rig, i);
    prepare(rig, 500);
    tier_warm_up(rig->box.tier, rig->box.root);
    await_end(rig);
    assert_int_equal(tier_box_stats(&rig->box).hot_keys, 500);
    assert_int_equal(tier_box_stats(&rig->box).cold_keys, KEYS);
}

static void it_ends_at_the_low_mark(void **state)
{
    struct rig *rig = *state;
    uint64_t all;
    char key[32];
    int hot = 0;

    prepare(rig, 0);
    for (int i = 0; i < 400; i++) {
        struct bytes words[] = { BYTES("SET"), bytes_of(key, 0), bytes_of(NULL, 3000) };

        key_name(i, key);
        words[1] = bytes_of_string(key);
        words[2].data = mem_zalloc(3000);
        assert_true(tier_box_ask(rig->c, words, 3));
        mem_free((char *)words[2].data);
        tier_box_entry(&rig->box, 0, key)->heat = (uint8_t)(i / 2);
        tier_box_entry(&rig->box, 0, key)->heat_minutes = heat_minutes(clock_wall_ms());
    }
    all = segment_pool_used(rig->box.partitions->pool);
    assert_int_equal(hot_save(rig->box.tier, rig->box.root, warm_pending(rig->box.tier->warm)), STATUS_OK);
    for (int i = 0; i < 400; i++)
        demote(rig, i);
    tier_settings(rig->box.tier)->memory_max = (int64_t)all / 2;
    tier_settings(rig->box.tier)->high_percent = 95;
    tier_warm_up(rig->box.tier, rig->box.root);
    await_end(rig);
    assert_true(segment_pool_used(rig->box.partitions->pool) < all / 2);      /* heaps report in steps: not exactly the mark */
    for (int i = 0; i < 400; i++) {
        key_name(i, key);
        hot += tier_box_entry(&rig->box, 0, key) != NULL;
        if (i >= 300)
            BOX_DEMAND(&rig->box, tier_box_entry(&rig->box, 0, key) != NULL, "%s is hotter than most, but cold", key);
    }
    assert_true(hot >= 100 && hot < 200);
    assert_int_equal(tier_box_stats(&rig->box).demotions + tier_box_stats(&rig->box).clean_demotions, 400);     /* none for the warm-up's sake */
}

/* Old values would come back if what was read were installed after the store had changed. */
static void no_old_value_comes_back_whatever_happens_meanwhile(void **state)
{
    struct rig *rig = *state;
    int values[KEYS] = { 0 }, round = 0;
    bool running = true;

    prepare(rig, KEYS);
    tier_settings(rig->box.tier)->warmup_rate = 40000;
    tier_warm_up(rig->box.tier, rig->box.root);
    while (running) {
        int i = (int)random_below(&rig->random, KEYS);
        char line[64], key[32];

        running = tier_box_stats(&rig->box).warmup == TIER_WARMUP_RUNNING;
        key_name(i, key);
        switch (random_below(&rig->random, 6)) {
        case 0:
        case 1:
            set(rig, i, values[i] = ++round);
            demote(rig, i);
            break;
        case 2:
            set(rig, i, values[i] = ++round);
            break;
        case 3:
            snprintf(line, sizeof(line), "DEL %s", key);
            tier_box_say(rig->c, line);
            values[i] = -1;
            break;
        case 4:
            demote(rig, i);
            break;
        default:
            check_value(rig, i, values[i]);
        }
    }
    for (int i = 0; i < KEYS; i++)
        check_value(rig, i, values[i]);
    tier_box_settle(&rig->box);
    tier_box_verify(&rig->box);
    for (int i = 0; i < KEYS; i++)
        check_value(rig, i, values[i]);
}

static void a_flush_meanwhile_leaves_nothing(void **state)
{
    struct rig *rig = *state;

    prepare(rig, KEYS);
    tier_settings(rig->box.tier)->warmup_rate = 5000;
    tier_warm_up(rig->box.tier, rig->box.root);
    while (tier_box_stats(&rig->box).hot_keys == 0)
        assert_int_equal(tier_box_stats(&rig->box).warmup, TIER_WARMUP_RUNNING);
    assert_string_equal(tier_box_say(rig->c, "FLUSHALL"), "+OK\n");
    set(rig, 1, 7);
    tier_settings(rig->box.tier)->warmup_rate = 0;
    await_end(rig);
    assert_int_equal(tier_box_stats(&rig->box).hot_keys, 1);
    check_value(rig, 1, 7);
    tier_box_settle(&rig->box);
    tier_box_verify(&rig->box);
}

static void it_pauses_and_ends_with_the_tier(void **state)
{
    struct rig *rig = *state;

    prepare(rig, KEYS);
    tier_settings(rig->box.tier)->warmup = 0;
    tier_warm_up(rig->box.tier, rig->box.root);
    while (tier_box_stats(&rig->box).warmup != TIER_WARMUP_OFF)
        ;
    assert_int_equal(tier_box_stats(&rig->box).hot_keys, 0);
    tier_settings(rig->box.tier)->warmup_rate = 100;
    tier_settings(rig->box.tier)->warmup = 1;
    while (tier_box_stats(&rig->box).hot_keys == 0)
        ;
    assert_int_equal(tier_box_stats(&rig->box).warmup, TIER_WARMUP_RUNNING);    /* close_rig stops it */
}

static void an_image_made_meanwhile_forgets_nothing(void **state)
{
    struct hot_file file;
    struct rig *rig = *state;

    prepare(rig, KEYS);
    tier_settings(rig->box.tier)->warmup_rate = 10000;
    tier_warm_up(rig->box.tier, rig->box.root);
    while (tier_box_stats(&rig->box).hot_keys < KEYS / 4)
        assert_int_equal(tier_box_stats(&rig->box).warmup, TIER_WARMUP_RUNNING);
    tier_settings(rig->box.tier)->warmup = 0;
    while (tier_box_stats(&rig->box).warmup != TIER_WARMUP_OFF)
        ;
    assert_true(tier_box_stats(&rig->box).hot_keys < KEYS);
    assert_int_equal(hot_save(rig->box.tier, rig->box.dir, warm_pending(rig->box.tier->warm)), STATUS_OK);
    assert_int_equal(hot_open(rig->box.dir, rig->box.partitions->count, &file), STATUS_OK);
    assert_true(file.key_count >= KEYS && file.key_count < KEYS + KEYS / 8);    /* a band may be in it twice */
    hot_close(&file);
}

static void a_bad_file_is_reported_and_nothing_happens(void **state)
{
    struct rig *rig = *state;
    char path[300];
    int fd;

    prepare(rig, 10);
    snprintf(path, sizeof(path), "%s/hot", rig->box.root);
    fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, 30), 1);
    close(fd);
    tier_warm_up(rig->box.tier, rig->box.root);
    await_end(rig);
    assert_int_equal(tier_box_stats(&rig->box).warmup, TIER_WARMUP_IDLE);
    assert_true(rig->box.told_count == 1 && tier_box_stats(&rig->box).hot_keys == 0);
}

#define WARM(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WARM(what_was_hot_comes_back_with_its_heat),
        WARM(keys_that_are_there_already_get_their_heat_back),
        WARM(what_was_cold_stays_cold),
        WARM(it_ends_at_the_low_mark),
        WARM(no_old_value_comes_back_whatever_happens_meanwhile),
        WARM(a_flush_meanwhile_leaves_nothing),
        WARM(it_pauses_and_ends_with_the_tier),
        WARM(an_image_made_meanwhile_forgets_nothing),
        WARM(a_bad_file_is_reported_and_nothing_happens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
