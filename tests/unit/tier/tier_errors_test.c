/* What the tier does when the disk does not: nothing is lost, nothing that can't be read is called absent, and it goes on. */
#include "support/unit.h"

#include <glob.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/tier_box.h"
#include "tier/image.h"

#define UNREADABLE "-ERR the key's record can't be read from the store (see the log and INFO tiering)\n"

struct rig {
    struct tier_box box;
    struct box_client *client;
    int image_count;
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

static void set_faults(struct rig *rig, struct disk_faults faults)
{
    faults.seed = rig->box.seed;
    faulty_disk_set(rig->box.disk, &faults);
}

static void clear_faults(struct rig *rig)
{
    faulty_disk_set(rig->box.disk, NULL);
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    clear_faults(rig);
    tier_box_end(&rig->box, rig->client);
    mem_free(rig);
    return 0;
}

static const char *say(struct rig *rig, const char *line)
{
    return tier_box_say(rig->client, line);
}

static enum tier_state state_of(struct rig *rig)
{
    struct tier_stats stats;

    tier_stats(rig->box.tier, &stats);
    return stats.state;
}

static void await_state(struct rig *rig, enum tier_state state)
{
    int64_t began_us = clock_mono_us();

    while (state_of(rig) != state) {
        tier_nudge(rig->box.tier);
        BOX_DEMAND(&rig->box, clock_mono_us() - began_us < 60000000, "the store's state stays %d", (int)state_of(rig));
    }
}

/* Out of LevelDB's memory, so that reading means reading the disk. */
static void write_out(struct rig *rig)
{
    tier_box_hold_writer(&rig->box);
    assert_int_equal(store_flush(rig->box.tier->store), STATUS_OK);
    tier_box_release_writer(&rig->box);
}

static void what_cant_be_read_is_an_error_and_not_nil(void **state)
{
    static const char *const requests[] = {
        "GET k", "MGET hot k", "DEL k", "EXISTS k", "APPEND k x", "TYPE k", "TTL k", "GETDEL k", "INCR k", "RENAME k l", "EXPIRE k 100",
        "SETNX k x", "TIER PROMOTE k", "TIER WHERE k", "SCAN 0 COUNT 100",
    };
    struct rig *rig = *state;

    assert_string_equal(say(rig, "SET hot 1"), "+OK\n");
    assert_string_equal(say(rig, "SET k 2"), "+OK\n");
    assert_string_equal(say(rig, "SET l 3"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE k l"), ":2\n");
    write_out(rig);
    set_faults(rig, (struct disk_faults){ .read_error = 1000 });
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        assert_string_equal(say(rig, requests[i]), UNREADABLE);
    assert_string_equal(say(rig, "GET hot"), "$1\n1\n");
    assert_string_equal(say(rig, "DBSIZE"), ":3\n");
    clear_faults(rig);
    assert_string_equal(say(rig, "MGET k l"), "*2\n$1\n2\n$1\n3\n");
}

static void a_count_that_needs_an_unreadable_record_is_an_error(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(say(rig, "SET k 2"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE k"), ":1\n");
    write_out(rig);
    set_faults(rig, (struct disk_faults){ .read_error = 1000 });
    assert_string_equal(say(rig, "SET k blind"), "+OK\n");
    assert_string_equal(say(rig, "DBSIZE"), UNREADABLE);
    assert_string_equal(say(rig, "TIER DEMOTE k"), "-ERR 1 of the keys could not be written to the store: see tier_status and tier_last_error "
        "in INFO tiering\n");
    assert_string_equal(say(rig, "GET k"), "$5\nblind\n");
    clear_faults(rig);
    assert_string_equal(say(rig, "DBSIZE"), ":1\n");
    assert_string_equal(say(rig, "TIER DEMOTE k"), ":1\n");
    assert_string_equal(say(rig, "GET k"), "$5\nblind\n");
}

static void put_record(struct rig *rig, const char *key, struct bytes record)
{
    struct store_batch *batch = store_batch_create();
    struct bytes name = bytes_of_string(key);
    uint64_t hash, place;
    struct keyspace *keyspace = tier_box_keyspace(&rig->box, 0, name, &hash);

    tier_box_hold_writer(&rig->box);
    partition_lock(keyspace->partition);
    assert_true(recordmap_find(keyspace->tier->map, hash, name, &place));
    recordmap_move(keyspace->tier->map, hash, name, place, store_batch_append(rig->box.tier->store, batch, 0, keyspace->incarnation, 0, name, record, 0));
    partition_unlock(keyspace->partition);
    segments_dead(store_segments(rig->box.tier->store), place);
    assert_int_equal(store_write(rig->box.tier->store, batch), STATUS_OK);
    tier_box_release_writer(&rig->box);
    store_batch_destroy(batch);
}

static void a_record_that_makes_no_sense_is_an_error_until_it_is_overwritten(void **state)
{
    static const struct bytes records[] = {
        { "", 0 }, { "\1", 1 }, { "\1\5\0\0", 4 }, { "\x81\5\0\0\1\2\3", 7 }, { "\2\5\0\0abcdefghij", 14 }, { "\0\5\0\0abcdefghij", 14 },
        { "\1\5\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 14 }, { "\x81\5\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\1x", 15 },
    };
    struct rig *rig = *state;

    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        assert_string_equal(say(rig, "SET k old"), "+OK\n");
        assert_string_equal(say(rig, "TIER DEMOTE k"), ":1\n");
        put_record(rig, "k", records[i]);
        assert_string_equal(say(rig, "GET k"), UNREADABLE);
        assert_string_equal(say(rig, "EXISTS k"), UNREADABLE);
        assert_string_equal(say(rig, "SCAN 0"), "*2\n$1\n0\n*1\n$1\nk\n");     /* which need not read it */
        assert_string_equal(say(rig, "SET k new"), "+OK\n");
        assert_string_equal(say(rig, "GET k"), "$3\nnew\n");
        assert_string_equal(say(rig, "DEL k"), ":1\n");
        tier_box_settle(&rig->box);
        assert_string_equal(say(rig, "SCAN 0"), "*2\n$1\n0\n*0\n");
    }
}

static void an_outage_loses_nothing_and_ends(void **state)
{
    static const struct disk_faults outages[] = {
        { .write_error = 1000 }, { .write_no_space = 1000 }, { .write_short = 1000 }, { .write_late = 1000 },
    };
    struct rig *rig = *state;

    for (size_t i = 0; i < sizeof(outages) / sizeof(outages[0]); i++) {
        int64_t began_us;

        assert_string_equal(say(rig, "MSET cold 1 clean 2 deleted 3 over 4"), "+OK\n");
        assert_string_equal(say(rig, "TIER DEMOTE cold clean deleted over"), ":4\n");
        assert_string_equal(say(rig, "MGET clean deleted"), "*2\n$1\n2\n$1\n3\n");
        assert_string_equal(say(rig, "SET dirty 5"), "+OK\n");
        set_faults(rig, outages[i]);
        assert_true(strncmp(say(rig, "TIER DEMOTE dirty"), "-ERR 1 of the keys", 18) == 0);
        assert_int_equal(state_of(rig), TIER_ERROR);
        assert_true(tier_is_blocked(rig->box.tier));
        assert_string_equal(say(rig, "TIER WHERE dirty"), "$3\nhot\n");
        assert_string_equal(say(rig, "TIER DEMOTE clean"), ":1\n");       /* is only dropped */
        assert_string_equal(say(rig, "GET cold"), "$1\n1\n");
        assert_string_equal(say(rig, "DEL deleted"), ":1\n");
        assert_string_equal(say(rig, "SET over 6"), "+OK\n");
        assert_string_equal(say(rig, "INCR dirty"), ":6\n");
        assert_string_equal(say(rig, "MGET cold clean deleted over dirty"), "*5\n$1\n1\n$1\n2\n$-1\n$1\n6\n$1\n6\n");
        clear_faults(rig);
        /* Further requests do not delay its end. */
        for (began_us = clock_mono_us(); strcmp(say(rig, "TIER DEMOTE dirty"), ":1\n") != 0;)
            BOX_DEMAND(&rig->box, clock_mono_us() - began_us < 30000000, "the outage does not end");
        tier_box_settle(&rig->box);
        assert_string_equal(say(rig, "DBSIZE"), ":4\n");
        assert_string_equal(say(rig, "MGET cold clean deleted over dirty"), "*5\n$1\n1\n$1\n2\n$-1\n$1\n6\n$1\n6\n");
        tier_box_verify(&rig->box);
        assert_string_equal(say(rig, "FLUSHDB"), "+OK\n");
    }
}

static void a_flush_in_an_outage_is_purged_after_it(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(say(rig, "MSET a 1 b 2 c 3"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE a b"), ":2\n");
    set_faults(rig, (struct disk_faults){ .write_error = 1000 });
    say(rig, "TIER DEMOTE c");
    assert_int_equal(state_of(rig), TIER_ERROR);
    assert_string_equal(say(rig, "FLUSHDB"), "+OK\n");
    assert_string_equal(say(rig, "MGET a b c"), "*3\n$-1\n$-1\n$-1\n");
    assert_string_equal(say(rig, "SET a new"), "+OK\n");
    clear_faults(rig);
    tier_box_settle(&rig->box);
    tier_box_verify(&rig->box);                 /* no record of the flushed incarnation is left */
    assert_string_equal(say(rig, "TIER DEMOTE a"), ":1\n");
    assert_string_equal(say(rig, "MGET a b c"), "*3\n$3\nnew\n$-1\n$-1\n");
}

static void a_full_store_takes_nothing_more_but_gives_back(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(say(rig, "MSET cold 1 clean 2 dirty 3"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE cold clean"), ":2\n");
    assert_string_equal(say(rig, "GET clean"), "$1\n2\n");
    tier_settings(rig->box.tier)->store_size_max = 1;
    await_state(rig, TIER_FULL);
    assert_true(tier_is_blocked(rig->box.tier));
    assert_true(strncmp(say(rig, "TIER DEMOTE dirty"), "-ERR 1 of the keys", 18) == 0);
    assert_string_equal(say(rig, "TIER DEMOTE clean"), ":1\n");
    assert_string_equal(say(rig, "MGET cold clean dirty"), "*3\n$1\n1\n$1\n2\n$1\n3\n");
    assert_string_equal(say(rig, "DEL cold"), ":1\n");
    tier_settings(rig->box.tier)->store_size_max = 0;
    await_state(rig, TIER_OK);
    assert_string_equal(say(rig, "TIER DEMOTE dirty"), ":1\n");
}

static enum status take_image(struct rig *rig)
{
    struct tier *tier = rig->box.tier;
    struct message message = { "" };
    char dir[300];
    uint64_t number;
    enum status status;

    snprintf(dir, sizeof(dir), "%s/image%d", rig->box.root, rig->image_count++);
    tier_image_begin(tier);
    status = tier_clean(tier, &message);
    partitions_lock_all(rig->box.partitions);
    if (status == STATUS_OK && !tier_may_cut(tier))
        status = STATUS_CLOSED;
    if (status == STATUS_OK)
        tier_cut(tier);
    partitions_unlock_all(rig->box.partitions);
    if (status == STATUS_OK)
        status = tier_image(tier, dir, &number, &message);
    tier_image_end(tier);
    return status;
}

/* With segments that can't be synced, and afterwards. */
static void fail_and_repeat_image(struct rig *rig)
{
    int64_t began_us = clock_mono_us();

    set_faults(rig, (struct disk_faults){ .only = ".seg", .sync_error = 1000 });
    assert_int_equal(take_image(rig), STATUS_IO);
    clear_faults(rig);
    while (take_image(rig) != STATUS_OK)
        BOX_DEMAND(&rig->box, clock_mono_us() - began_us < 60000000, "there is no image");
}

static void an_image_works_again_after_a_sync_that_failed(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(say(rig, "MSET a 1 b 2"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE a b"), ":2\n");
    fail_and_repeat_image(rig);
    assert_string_equal(say(rig, "TIER WHERE a"), "$4\ncold\n");
    assert_string_equal(say(rig, "MGET a b"), "*2\n$1\n1\n$1\n2\n");
}

/* Turns a bit of what the segments have from `text` on. */
static void damage(struct rig *rig, const char *text)
{
    char bytes[4096], pattern[300];
    glob_t found;
    bool is_done = false;

    snprintf(pattern, sizeof(pattern), "%s/*.seg", rig->box.dir);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *file = fopen(found.gl_pathv[i], "r+");
        size_t size = fread(bytes, 1, sizeof(bytes), file);
        char *at = memmem(bytes, size, text, strlen(text));

        if (at != NULL) {
            assert_int_equal(fseek(file, at - bytes, SEEK_SET), 0);
            assert_int_equal(fputc(*at ^ 1, file), *at ^ 1);
            is_done = true;
        }
        fclose(file);
    }
    globfree(&found);
    assert_true(is_done);
}

static void a_damaged_record_does_not_keep_a_segment_suspect(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(say(rig, "MSET a 1 damaged text-to-be-damaged b 2"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE a damaged b"), ":3\n");
    damage(rig, "text-to-be-damaged");
    fail_and_repeat_image(rig);
    assert_string_equal(say(rig, "MGET a b"), "*2\n$1\n1\n$1\n2\n");
    assert_string_equal(say(rig, "GET damaged"), UNREADABLE);
    assert_string_equal(say(rig, "FLUSHALL"), "+OK\n");
}

/* The record belongs to the key if the index says so; without that the new value would stay in memory for good. */
static void a_damaged_record_is_gone_when_its_key_is_overwritten(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(say(rig, "SET damaged text-to-be-damaged"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE damaged"), ":1\n");
    damage(rig, "text-to-be-damaged");
    assert_string_equal(say(rig, "GET damaged"), UNREADABLE);
    assert_string_equal(say(rig, "SET damaged new"), "+OK\n");
    assert_string_equal(say(rig, "DBSIZE"), ":1\n");
    assert_string_equal(say(rig, "TIER DEMOTE damaged"), ":1\n");
    assert_string_equal(say(rig, "GET damaged"), "$3\nnew\n");
}

static void an_overwritten_key_with_a_damaged_record_can_be_deleted(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(say(rig, "SET damaged text-to-be-damaged"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE damaged"), ":1\n");
    damage(rig, "text-to-be-damaged");
    assert_string_equal(say(rig, "SET damaged new"), "+OK\n");
    assert_string_equal(say(rig, "DEL damaged"), ":1\n");
    assert_string_equal(say(rig, "DBSIZE"), ":0\n");
    tier_box_settle(&rig->box);
    assert_int_equal(rig->box.tier->statistics.graves, 0);
    assert_string_equal(say(rig, "GET damaged"), "$-1\n");
}

/* Adds a tag of the key for this place, or removes it. */
static void change_tag(struct rig *rig, const char *key, uint64_t place, bool is_there)
{
    uint64_t hash;
    struct bytes name = bytes_of_string(key);
    struct keyspace *keyspace = tier_box_keyspace(&rig->box, 0, name, &hash);

    partition_lock(keyspace->partition);
    if (is_there)
        recordmap_remove(keyspace->tier->map, hash, name, place);
    else
        recordmap_add(keyspace->tier->map, hash, name, place);
    partition_unlock(keyspace->partition);
}

/* As if the tags of two keys were the same. The damaged record is not that of the other key: not for a load, DBSIZE, or a grave. */
static void a_damaged_record_is_not_that_of_another_key_with_its_tag(void **state)
{
    struct rig *rig = *state;
    struct keyspace *keyspace;
    uint64_t hash, place = 0;

    assert_string_equal(say(rig, "MSET damaged text-to-be-damaged other 1"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE damaged"), ":1\n");
    assert_string_equal(say(rig, "DEL other"), ":1\n");
    tier_box_settle(&rig->box);
    keyspace = tier_box_keyspace(&rig->box, 0, BYTES("damaged"), &hash);
    partition_lock(keyspace->partition);
    assert_true(recordmap_find(keyspace->tier->map, hash, BYTES("damaged"), &place) && place != 0);
    partition_unlock(keyspace->partition);
    change_tag(rig, "other", place, false);
    damage(rig, "text-to-be-damaged");
    assert_string_equal(say(rig, "GET other"), "$-1\n");
    assert_string_equal(say(rig, "SET other blind"), "+OK\n");
    assert_string_equal(say(rig, "DBSIZE"), ":3\n");         /* with the tag that was added */
    assert_string_equal(say(rig, "DEL other"), ":1\n");
    tier_box_settle(&rig->box);
    assert_string_equal(say(rig, "DBSIZE"), ":2\n");
    assert_string_equal(say(rig, "GET damaged"), UNREADABLE);
    change_tag(rig, "other", place, true);
    assert_string_equal(say(rig, "FLUSHALL"), "+OK\n");
}

static uint64_t always_used(void *context)
{
    (void)context;
    return 1000;
}

/* Else a client that waits for memory would wait as long as the disk can't be read. */
static void a_key_whose_record_cant_be_looked_up_is_no_progress_of_demotion(void **state)
{
    struct rig *rig = *state;
    int64_t began_us = clock_mono_us();

    assert_string_equal(say(rig, "SET k 2"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE k"), ":1\n");
    write_out(rig);
    set_faults(rig, (struct disk_faults){ .read_error = 1000 });
    assert_string_equal(say(rig, "SET k blind"), "+OK\n");
    tier_box_hold_writer(&rig->box);
    rig->box.tier->hooks.memory_used = always_used;
    rig->box.tier->settings.memory_max = 1;
    tier_box_release_writer(&rig->box);
    while (!tier_is_stuck(rig->box.tier)) {
        tier_nudge(rig->box.tier);
        BOX_DEMAND(&rig->box, clock_mono_us() - began_us < 20000000, "demotion goes on without an end");
    }
    rig->box.tier->settings.memory_max = 0;
    clear_faults(rig);
    assert_string_equal(say(rig, "GET k"), "$5\nblind\n");
}

/* Else clients that wait for memory would wait as long as others read cold keys. */
static void a_key_that_is_read_again_and_again_is_no_progress_of_demotion(void **state)
{
    struct rig *rig = *state;
    int64_t began_us = clock_mono_us();

    assert_string_equal(say(rig, "SET k 2"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE k"), ":1\n");
    tier_box_hold_writer(&rig->box);
    rig->box.tier->hooks.memory_used = always_used;
    rig->box.tier->settings.memory_max = 1;
    tier_box_release_writer(&rig->box);
    while (!tier_is_stuck(rig->box.tier)) {
        assert_string_equal(say(rig, "GET k"), "$1\n2\n");
        tier_nudge(rig->box.tier);
        BOX_DEMAND(&rig->box, clock_mono_us() - began_us < 20000000, "demotion of what is read goes on without an end");
    }
    rig->box.tier->settings.memory_max = 0;
}

static void a_cold_key_that_is_overwritten_keeps_its_uses(void **state)
{
    struct rig *rig = *state;
    unsigned uses;

    assert_string_equal(say(rig, "SET k 1"), "+OK\n");
    for (int i = 0; i < 3; i++)
        assert_string_equal(say(rig, "GET k"), "$1\n1\n");
    uses = tier_box_entry(&rig->box, 0, "k")->uses;
    assert_true(uses > 1);
    assert_string_equal(say(rig, "TIER DEMOTE k"), ":1\n");
    assert_string_equal(say(rig, "SET k 2"), "+OK\n");
    assert_int_equal(tier_box_entry(&rig->box, 0, "k")->uses, uses);
    assert_true(tier_box_entry(&rig->box, 0, "k")->flags & ENTRY_PROBATION);
}

static void an_outage_at_the_end_does_not_hold_up_the_stop(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(say(rig, "MSET a 1 b 2"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE a"), ":1\n");
    set_faults(rig, (struct disk_faults){ .write_error = 1000, .sync_error = 1000 });
    say(rig, "TIER DEMOTE b");
    assert_string_equal(say(rig, "DEL a"), ":1\n");
    assert_string_equal(say(rig, "FLUSHALL"), "+OK\n");
    tier_box_close_client(rig->client);
    tier_box_destroy(&rig->box);
    mem_free(rig);
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RIG(what_cant_be_read_is_an_error_and_not_nil),
        WITH_RIG(a_count_that_needs_an_unreadable_record_is_an_error),
        WITH_RIG(a_record_that_makes_no_sense_is_an_error_until_it_is_overwritten),
        WITH_RIG(an_outage_loses_nothing_and_ends),
        WITH_RIG(a_flush_in_an_outage_is_purged_after_it),
        WITH_RIG(a_full_store_takes_nothing_more_but_gives_back),
        WITH_RIG(an_image_works_again_after_a_sync_that_failed),
        WITH_RIG(a_damaged_record_does_not_keep_a_segment_suspect),
        WITH_RIG(a_damaged_record_is_gone_when_its_key_is_overwritten),
        WITH_RIG(an_overwritten_key_with_a_damaged_record_can_be_deleted),
        WITH_RIG(a_damaged_record_is_not_that_of_another_key_with_its_tag),
        WITH_RIG(a_cold_key_that_is_overwritten_keeps_its_uses),
        WITH_RIG(a_key_whose_record_cant_be_looked_up_is_no_progress_of_demotion),
        WITH_RIG(a_key_that_is_read_again_and_again_is_no_progress_of_demotion),
        cmocka_unit_test_setup(an_outage_at_the_end_does_not_hold_up_the_stop, open_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
