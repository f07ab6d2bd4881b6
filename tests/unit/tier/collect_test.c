/* Garbage collection of a store that is full. */
#include "support/unit.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "support/tier_box.h"
#include "tier/collect.h"
#include "tier/image.h"

enum { KEYS = 200, PATIENCE_US = 30000000 };

static void say_all(struct box_client *client, const char *format, int first, int end, const char *wanted)
{
    char line[300];

    for (int i = first; i < end; i++) {
        snprintf(line, sizeof(line), format, i, 100, i);
        assert_string_equal(tier_box_say(client, line), wanted);
    }
}

static void take_image(struct tier_box *box, const char *name)
{
    char dir[300];
    struct message message;
    uint64_t number;

    snprintf(dir, sizeof(dir), "%s/%s", box->root, name);
    tier_image_begin(box->tier);
    partitions_lock_all(box->partitions);
    tier_cut(box->tier);
    partitions_unlock_all(box->partitions);
    assert_int_equal(tier_image(box->tier, dir, &number, &message), STATUS_OK);
    tier_image_end(box->tier);
}

static uint64_t linked_bytes(struct tier_box *box)
{
    struct segments_stats stats;

    segments_measure(store_segments(box->tier->store), &stats);
    return stats.linked_bytes;
}

/* With the writer held, as in its rounds; it looks every 50 ms. */
static void collect_until(struct tier_box *box, bool (*is_done)(struct tier_box *box))
{
    int64_t began_us = clock_mono_us();
    struct timespec moment = { 0, 1000000 };
    enum status status;

    while (!is_done(box)) {
        BOX_DEMAND(box, clock_mono_us() - began_us < PATIENCE_US, "nothing is collected");
        (void)collect_step(box->tier, &status);
        assert_int_equal(status, STATUS_OK);
        nanosleep(&moment, NULL);
    }
}

static bool has_removed_linked(struct tier_box *box)
{
    return linked_bytes(box) > 0;
}

static bool has_moved(struct tier_box *box)
{
    return box->tier->statistics.collected_bytes > 0;
}

/* A dump's image had what was removed. There is no log, so no checkpoint will ever count as the end of that. */
static void a_full_store_without_a_log_is_collected_after_a_dump(void **state)
{
    struct tier_box box;
    struct tier_box_options options = { .seed = seed_new() };
    struct box_client *client;

    (void)state;
    tier_box_create(&box, &options);
    box.tier->settings.space_target = 1;            /* nothing is collected before the store is full */
    client = tier_box_open_client(&box, 0);
    say_all(client, "SET k%d %0*d", 0, KEYS, "+OK\n");
    say_all(client, "TIER DEMOTE k%d", 0, KEYS, ":1\n");
    take_image(&box, "first");
    say_all(client, "SET k%d %0*d", KEYS, 2 * KEYS, "+OK\n");
    say_all(client, "TIER DEMOTE k%d", KEYS, 2 * KEYS, ":1\n");
    take_image(&box, "second");
    say_all(client, "DEL k%d", 0, KEYS, ":1\n");
    tier_box_settle(&box);
    tier_box_hold_writer(&box);
    collect_until(&box, has_removed_linked);
    tier_box_release_writer(&box);
    say_all(client, "DEL k%d", KEYS, 2 * KEYS - 100, ":1\n");
    tier_box_settle(&box);
    tier_box_hold_writer(&box);
    box.tier->settings.store_size_max = 10;         /* a tenth of it is less than what was removed */
    box.tier->state = TIER_FULL;
    collect_until(&box, has_moved);
    box.tier->settings.store_size_max = 0;
    tier_box_release_writer(&box);
    tier_box_settle(&box);
    say_all(client, "GET k%d", 0, KEYS, "$-1\n");
    tier_box_end(&box, client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_store_without_a_log_is_collected_after_a_dump),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
