/* Demotion: which keys go, when the writer decides by itself. */
#include "support/unit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "keyspace/uses.h"
#include "support/tier_box.h"

enum { PARTITIONS = 4, VALUE_SIZE = 2000, HOT = 2700, COLD = 300, RUNS = 60, RUNS_BEFORE = 6, NAME_SIZE = 20, HIGH = 95, LOW = 92 };

struct rig {
    struct tier_box box;
    struct box_client *client;
    int next_name;
    char hot[HOT][NAME_SIZE];
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new(), .partition_count = PARTITIONS, .db_count = 1 };

    tier_box_create(&rig->box, &options);
    rig->client = tier_box_open_client(&rig->box, 0);
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    tier_settings(rig->box.tier)->memory_max = 0;
    tier_box_end(&rig->box, rig->client);
    mem_free(rig);
    return 0;
}

/* A new key, in any partition but the last. */
static void set_new(struct rig *rig, char name[NAME_SIZE])
{
    char value[VALUE_SIZE];
    struct bytes words[] = { BYTES("SET"), { 0 }, bytes_of(value, sizeof(value)) };

    do {
        words[1] = bytes_of(name, (size_t)snprintf(name, NAME_SIZE, "k%d", rig->next_name++));
    } while (partition_index(rig->box.partitions, key_hash(&rig->box.partitions->seed, words[1])) == PARTITIONS - 1);
    memset(value, 'x', sizeof(value));
    assert_true(tier_box_ask(rig->client, words, 3));
}

static uint64_t used(struct rig *rig)
{
    return segment_pool_used(rig->box.partitions->pool);
}

static bool is_over(struct rig *rig, int64_t percent)
{
    return used(rig) > (uint64_t)tier_settings(rig->box.tier)->memory_max / 100 * (uint64_t)percent;
}

/* The run that has begun above the high mark has ended. */
static void await_run(struct rig *rig)
{
    const struct timespec moment = { .tv_nsec = 100000 };
    int64_t began_us = clock_mono_us();
    bool is_done = false;

    while (!is_done) {
        tier_nudge(rig->box.tier);
        nanosleep(&moment, NULL);
        tier_box_hold_writer(&rig->box);
        is_done = !is_over(rig, HIGH) && !tier_is_demoting(rig->box.tier);
        tier_box_release_writer(&rig->box);
        BOX_DEMAND(&rig->box, clock_mono_us() - began_us < 60000000, "%llu bytes are used", (unsigned long long)used(rig));
    }
}

static void use_all_hot(struct rig *rig)
{
    char line[NAME_SIZE + 10];

    for (int i = 0; i < HOT; i++) {
        snprintf(line, sizeof(line), "GET %s", rig->hot[i]);
        for (int uses = 0; uses <= USES_MAX; uses++)
            (void)tier_box_say(rig->client, line);
    }
}

static int count_hot(struct rig *rig)
{
    int count = 0;

    tier_box_hold_writer(&rig->box);
    for (int i = 0; i < HOT; i++)
        count += tier_box_entry(&rig->box, 0, rig->hot[i]) != NULL;
    tier_box_release_writer(&rig->box);
    return count;
}

/* The last partition has no keys: a batch that begins there frees none, but the round that it ends has. If more were taken then, keys that are used would go
 * although others are not used. */
static void only_a_round_without_any_is_fruitless(void **state)
{
    struct rig *rig = *state;
    char name[NAME_SIZE];
    int before = HOT;

    for (int i = 0; i < HOT; i++)
        set_new(rig, rig->hot[i]);
    use_all_hot(rig);
    for (int i = 0; i < COLD; i++)
        set_new(rig, name);
    tier_settings(rig->box.tier)->high_percent = HIGH;
    tier_settings(rig->box.tier)->low_percent = LOW;
    tier_settings(rig->box.tier)->memory_max = (int64_t)used(rig) * 100 / LOW;
    for (int run = 0; run < RUNS; run++) {
        if (run == RUNS_BEFORE) {               /* the first count is finished */
            use_all_hot(rig);
            before = count_hot(rig);
        }
        tier_box_hold_writer(&rig->box);
        while (!is_over(rig, HIGH))
            set_new(rig, name);
        tier_box_release_writer(&rig->box);
        await_run(rig);
    }
    assert_int_equal(count_hot(rig), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_a_round_without_any_is_fruitless, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
