/* Garbage collection of a store that is full, and of one whose index can't be written. */
#include "support/unit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/tier_box.h"
#include "tier/collect.h"
#include "tier/image.h"

enum {
    KEYS = 200,
    PATIENCE_US = 30000000,
    CALLS = 60,
    KEYS_A_CALL = 300,          /* together they take longer than one look of a step */
    BLOCK_SIZE = 60000,
    BLOCKS = 20,
};

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

/* "`head` k<first> `tail` k<first + 1> `tail` ..." */
static void say_many(struct box_client *client, const char *head, int first, const char *tail, const char *wanted)
{
    struct buffer line = { 0 };
    char word[40];

    buffer_append(&line, head, strlen(head));
    for (int i = first; i < first + KEYS_A_CALL; i++) {
        snprintf(word, sizeof(word), " k%d%s", i, tail);
        buffer_append(&line, word, strlen(word));
    }
    buffer_append(&line, "", 1);
    assert_string_equal(tier_box_say(client, line.data), wanted);
    buffer_release(&line);
}

/* Much was written since the last step, so the next one goes on for longer. No map has these records. */
static void write_garbage(struct tier_box *box)
{
    struct segments *segments = store_segments(box->tier->store);
    char *block = mem_zalloc(BLOCK_SIZE);

    for (int i = 0; i < BLOCKS; i++)
        segments_dead(segments, segments_put(segments, 0, UINT32_MAX, 0, BYTES("garbage"), bytes_of(block, BLOCK_SIZE), 0));
    segments_seal(segments);
    assert_int_equal(segments_write(segments), STATUS_OK);
    mem_free(block);
}

static bool has_failed(struct tier_box *box)
{
    return box->tier->state == TIER_ERROR;
}

/* The deletes of a step that has more to do: the batch that failed is kept as it is. */
static void deletes_that_cant_be_written_end_the_step(void **state)
{
    struct tier_box box;
    struct tier_box_options options = { .seed = seed_new() };
    struct disk_faults faults = { .seed = options.seed, .only = ".run", .write_error = 1000 };
    struct box_client *client;
    int64_t began_us = clock_mono_us();
    char wanted[20];

    (void)state;
    tier_box_create(&box, &options);
    box.tier->settings.space_target = 1;
    client = tier_box_open_client(&box, 0);
    snprintf(wanted, sizeof(wanted), ":%d\n", KEYS_A_CALL);
    for (int i = 0; i < CALLS; i++) {
        say_many(client, "MSET", i * KEYS_A_CALL, " v", "+OK\n");
        say_many(client, "TIER DEMOTE", i * KEYS_A_CALL, "", wanted);
    }
    tier_box_settle(&box);
    tier_box_hold_writer(&box);
    write_garbage(&box);
    box.tier->expire_cold = true;               /* it deletes keys by itself */
    box.tier->settings.full_policy = TIER_FULL_ALLKEYS_COLDEST;
    box.tier->settings.store_size_max = 1000;        /* far too much is there */
    faulty_disk_set(box.disk, &faults);
    collect_until(&box, has_failed);
    box.tier->settings.store_size_max = 0;
    faulty_disk_set(box.disk, NULL);
    tier_box_release_writer(&box);
    while (box.tier->state != TIER_OK) {
        tier_nudge(box.tier);
        BOX_DEMAND(&box, clock_mono_us() - began_us < PATIENCE_US, "the store stays in error");
    }
    tier_box_settle(&box);
    tier_box_verify(&box);
    snprintf(wanted, sizeof(wanted), ":%llu\n", (unsigned long long)(CALLS * KEYS_A_CALL - box.tier->statistics.evicted_cold));
    assert_true(box.tier->statistics.evicted_cold > 0);
    assert_string_equal(tier_box_say(client, "DBSIZE"), wanted);
    tier_box_close_client(client);
    tier_box_turn(&box.workers[0], BOX_NO_WAIT);
    tier_box_destroy(&box);
}

static uint32_t slot_of(struct tier_box *box, const char *format, int number)
{
    uint64_t hash, place = 0;
    struct keyspace *keyspace;
    char key[20];

    snprintf(key, sizeof(key), format, number);
    keyspace = tier_box_keyspace(box, 0, bytes_of_string(key), &hash);
    partition_lock(keyspace->partition);
    assert_true(recordmap_find(keyspace->tier->map, hash, bytes_of_string(key), &place));
    partition_unlock(keyspace->partition);
    return place_slot(place);
}

/* Of all keys of a kind; they are in one segment. */
static uint32_t slot_of_all(struct tier_box *box, const char *format, int first)
{
    uint32_t slot = slot_of(box, format, first);

    for (int i = first; i < KEYS; i++)
        assert_int_equal(slot_of(box, format, i), slot);
    return slot;
}

/* What expires soon, what expires later, what does not, and what was moved. */
static void records_that_die_together_share_segments(void **state)
{
    static const char *const kinds[] = { "soon%d", "later%d", "last%d", "never%d" };
    struct tier_box box;
    struct tier_box_options options = { .seed = seed_new() };
    struct box_client *client;
    uint32_t slots[4], moved;

    (void)state;
    tier_box_create(&box, &options);
    client = tier_box_open_client(&box, 0);
    for (int i = 0; i < KEYS; i++) {
        say_all(client, "SET soon%d %0*d EX 50", i, i + 1, "+OK\n");
        say_all(client, "SET later%d %0*d EX 5000", i, i + 1, "+OK\n");
        say_all(client, "SET last%d %0*d EX 100000000", i, i + 1, "+OK\n");
        say_all(client, "SET never%d %0*d", i, i + 1, "+OK\n");
        say_all(client, "TIER DEMOTE soon%d", i, i + 1, ":1\n");
        say_all(client, "TIER DEMOTE never%d", i, i + 1, ":1\n");
        say_all(client, "TIER DEMOTE last%d", i, i + 1, ":1\n");
        say_all(client, "TIER DEMOTE later%d", i, i + 1, ":1\n");
    }
    for (int kind = 0; kind < 4; kind++)
        slots[kind] = slot_of_all(&box, kinds[kind], 0);
    assert_int_not_equal(slots[0], slots[1]);
    assert_int_not_equal(slots[0], slots[3]);
    assert_int_not_equal(slots[1], slots[3]);
    assert_int_equal(slots[2], slots[3]);               /* that is years */
    take_image(&box, "image");
    say_all(client, "DEL never%d", 0, KEYS - 20, ":1\n");
    say_all(client, "DEL last%d", 0, KEYS - 20, ":1\n");
    say_all(client, "DEL later%d", 0, KEYS - 20, ":1\n");
    tier_box_settle(&box);
    tier_box_hold_writer(&box);
    collect_until(&box, has_removed_linked);
    tier_box_release_writer(&box);
    tier_box_settle(&box);
    moved = slot_of_all(&box, "never%d", KEYS - 20);
    assert_int_equal(slot_of_all(&box, "last%d", KEYS - 20), moved);
    say_all(client, "SET never%d %0*d", KEYS, KEYS + 1, "+OK\n");
    say_all(client, "TIER DEMOTE never%d", KEYS, KEYS + 1, ":1\n");
    assert_int_not_equal(slot_of(&box, "never%d", KEYS), moved);
    assert_int_not_equal(slot_of(&box, "later%d", KEYS - 1), moved);
    assert_int_equal(slot_of_all(&box, "soon%d", 0), slots[0]);
    tier_box_end(&box, client);
}

static bool has_no_segments(struct tier_box *box)
{
    return segments_next(store_segments(box->tier->store), NULL) == NULL;
}

static bool has_moved_all(struct tier_box *box)
{
    struct segments_stats stats;

    segments_measure(store_segments(box->tier->store), &stats);
    return stats.bytes < stats.live_bytes + stats.live_bytes / 2;
}

/* It would be garbage as long as nothing else is written. */
static void a_tail_that_dies_is_collected(void **state)
{
    enum { LARGE_KEYS = 60 };
    struct tier_box box;
    struct tier_box_options options = { .seed = seed_new() };
    struct box_client *client;

    (void)state;
    tier_box_create(&box, &options);
    client = tier_box_open_client(&box, 0);
    for (int i = 0; i < LARGE_KEYS; i++) {
        char *line = mem_zalloc(60000);

        snprintf(line, 60000, "SET k%d %050000d", i, i);
        assert_string_equal(tier_box_say(client, line), "+OK\n");
        mem_free(line);
    }
    say_all(client, "TIER DEMOTE k%d", 0, LARGE_KEYS, ":1\n");
    say_all(client, "DEL k%d", 0, LARGE_KEYS / 2, ":1\n");
    tier_box_settle(&box);
    tier_box_hold_writer(&box);
    box.tier->state = TIER_FULL;                        /* half of it is live, and room is needed */
    collect_until(&box, has_moved_all);
    box.tier->state = TIER_OK;
    tier_box_release_writer(&box);
    say_all(client, "DEL k%d", LARGE_KEYS / 2, LARGE_KEYS, ":1\n");
    tier_box_settle(&box);
    tier_box_hold_writer(&box);
    collect_until(&box, has_no_segments);
    tier_box_release_writer(&box);
    tier_box_end(&box, client);
}

static bool has_a_tenth(struct tier_box *box)
{
    struct segments_stats stats;

    segments_measure(store_segments(box->tier->store), &stats);
    return stats.bytes < 10 * 1024;
}

/* Tails that are much smaller than a segment may be all that tier-max-size has room for. */
static void small_tails_of_a_full_store_are_collected(void **state)
{
    enum { SMALL_KEYS = 100 };
    static const int seconds[] = { 50, 200, 900, 3600, 14000 };
    struct tier_box box;
    struct tier_box_options options = { .seed = seed_new() };
    struct box_client *client;
    char line[1200];

    (void)state;
    tier_box_create(&box, &options);
    client = tier_box_open_client(&box, 0);
    for (int i = 0; i < SMALL_KEYS; i++) {
        snprintf(line, sizeof(line), "SET k%d %01000d EX %d", i, i, seconds[i % 5]);
        assert_string_equal(tier_box_say(client, line), "+OK\n");
    }
    say_all(client, "TIER DEMOTE k%d", 0, SMALL_KEYS, ":1\n");
    say_all(client, "DEL k%d", 0, SMALL_KEYS - 5, ":1\n");
    tier_box_settle(&box);
    tier_box_hold_writer(&box);
    box.tier->state = TIER_FULL;
    collect_until(&box, has_a_tenth);
    box.tier->state = TIER_OK;
    tier_box_release_writer(&box);
    tier_box_settle(&box);
    say_all(client, "DEL k%d", SMALL_KEYS - 5, SMALL_KEYS, ":1\n");
    tier_box_end(&box, client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_store_without_a_log_is_collected_after_a_dump),
        cmocka_unit_test(deletes_that_cant_be_written_end_the_step),
        cmocka_unit_test(records_that_die_together_share_segments),
        cmocka_unit_test(a_tail_that_dies_is_collected),
        cmocka_unit_test(small_tails_of_a_full_store_are_collected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
