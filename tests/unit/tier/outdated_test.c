/* Expiry keys of times that no record has any more are deleted long before these times, and no other is. */
#include "support/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <limits.h>

#include "base/mem.h"
#include "support/tier_box.h"
#include "tier/expiry.h"
#include "tier/image.h"
#include "tier/outdated.h"
#include "tier/writing.h"

enum { KEYS = 1200, ROUNDS = 8 };

#define FAR_MS 4000000000000ll

struct rig {
    struct tier_box box;
    struct box_client *client;
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

static int close_rig(void **state)
{
    struct rig *rig = *state;

    tier_box_end(&rig->box, rig->client);
    mem_free(rig);
    return 0;
}

static void count_one(void *context, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key)
{
    (void)expire_ms;
    (void)incarnation;
    (void)hash;
    (void)key;
    ++*(uint64_t *)context;
}

static uint64_t count_expiry_keys(struct rig *rig)
{
    struct buffer from = { 0 };
    uint64_t count = 0;

    assert_int_equal(store_expired(rig->box.tier->store, &from, INT64_MAX, INT_MAX, count_one, &count), STATUS_OK);
    buffer_release(&from);
    return count;
}

/* As the writer's rounds do, until nothing is due any more. */
static void walk(struct rig *rig)
{
    uint64_t steps = 0;

    tier_box_hold_writer(&rig->box);
    do {
        outdated_step(rig->box.tier);
        BOX_DEMAND(&rig->box, ++steps < 1000, "walks go on and on");
    } while (rig->box.tier->outdated.is_walking);
    tier_box_release_writer(&rig->box);
}

static void say_all(struct rig *rig, const char *format, long long time, const char *wanted)
{
    char line[100];

    for (int i = 0; i < KEYS; i++) {
        snprintf(line, sizeof(line), format, i, time);
        assert_string_equal(tier_box_say(rig->client, line), wanted);
    }
}

static void write_all(struct rig *rig)
{
    struct message message;

    assert_int_equal(tier_clean(rig->box.tier, &message), STATUS_OK);
}

/* One that is needed for each key, and fewer than the walks leave until the next one. */
static void assert_few(struct rig *rig)
{
    uint64_t count;

    walk(rig);
    count = count_expiry_keys(rig);
    BOX_DEMAND(&rig->box, count >= KEYS && count <= 3 * KEYS + 1000, "%llu expiry keys", (unsigned long long)count);
}

static void hot_keys_that_are_extended_do_not_pile_up(void **state)
{
    struct rig *rig = *state;

    for (int i = 0; i < ROUNDS; i++) {
        say_all(rig, "SET k%d value PXAT %lld", FAR_MS + i, "+OK\n");
        write_all(rig);
    }
    assert_few(rig);
}

static void cold_keys_that_are_extended_do_not_pile_up(void **state)
{
    struct rig *rig = *state;

    say_all(rig, "SET k%d value", 0, "+OK\n");
    for (int i = 0; i < ROUNDS; i++) {
        say_all(rig, "PEXPIREAT k%d %lld", FAR_MS + i, ":1\n");
        say_all(rig, "TIER DEMOTE k%d", 0, ":1\n");
    }
    assert_few(rig);
    say_all(rig, "PEXPIRETIME k%d", 0, ":4000000000007\n");
}

static void deleted_and_flushed_keys_leave_none(void **state)
{
    struct rig *rig = *state;

    say_all(rig, "SET k%d value PXAT %lld", FAR_MS, "+OK\n");
    write_all(rig);
    assert_string_equal(tier_box_say(rig->client, "SELECT 1"), "+OK\n");
    say_all(rig, "SET k%d value PXAT %lld", FAR_MS, "+OK\n");
    say_all(rig, "TIER DEMOTE k%d", 0, ":1\n");
    say_all(rig, "DEL k%d", 0, ":1\n");
    tier_box_settle(&rig->box);
    assert_string_equal(tier_box_say(rig->client, "SELECT 0"), "+OK\n");
    assert_string_equal(tier_box_say(rig->client, "FLUSHDB"), "+OK\n");
    tier_box_settle(&rig->box);
    outdated_note(&rig->box.tier->outdated, 10 * KEYS);        /* as much, in any case, as makes a walk due */
    walk(rig);
    assert_int_equal(count_expiry_keys(rig), 0);
}

/* What was extended is hot and equal to its record: the old time is no reason to look again. */
static void an_old_time_of_a_hot_key_is_settled_at_once(void **state)
{
    struct rig *rig = *state;
    struct tier *tier = rig->box.tier;
    bool more;

    assert_string_equal(tier_box_say(rig->client, "SET k value PXAT 4000000000000"), "+OK\n");
    write_all(rig);
    assert_string_equal(tier_box_say(rig->client, "PEXPIREAT k 4100000000000"), ":1\n");
    write_all(rig);
    tier_box_hold_writer(&rig->box);
    assert_int_equal(count_expiry_keys(rig), 2);
    tier->expire_cold = true;
    assert_int_equal(expiry_step(tier, FAR_MS + 1, 10, &tier->writing->batch, &more), 1);
    writing_commit(tier);
    tier->expire_cold = false;
    assert_true(tier->expiry.settled_ms >= FAR_MS);
    assert_int_equal(tier->expiry.again_ms, INT64_MAX);
    assert_int_equal(count_expiry_keys(rig), 1);
    tier_box_release_writer(&rig->box);
}

/* In each segment, as there is one. */
static void damage_at(const char *dir, uint64_t offset)
{
    DIR *list = opendir(dir);
    struct dirent *entry;

    assert_non_null(list);
    while ((entry = readdir(list)) != NULL) {
        if (segment_is_file(entry->d_name)) {
            int fd = openat(dirfd(list), entry->d_name, O_WRONLY);

            assert_int_equal(pwrite(fd, "damage", 6, (off_t)offset), 6);
            close(fd);
        }
    }
    closedir(list);
}

/* A record that is damaged says nothing about its time. What comes after it is not held up, and it is looked at later. */
static void a_damaged_record_is_looked_at_later(void **state)
{
    struct rig *rig = *state;
    struct tier *tier = rig->box.tier;
    struct keyspace *keyspace;
    uint64_t hash, place = 0;
    bool more;

    assert_string_equal(tier_box_say(rig->client, "SET k value PXAT 4000000000000"), "+OK\n");
    assert_string_equal(tier_box_say(rig->client, "TIER DEMOTE k"), ":1\n");
    tier_box_hold_writer(&rig->box);
    keyspace = tier_box_keyspace(&rig->box, 0, BYTES("k"), &hash);
    assert_true(recordmap_find(keyspace->tier->map, hash, BYTES("k"), &place));
    damage_at(rig->box.dir, place_offset(place));
    tier->expire_cold = true;
    expiry_step(tier, FAR_MS + 1, 10, &tier->writing->batch, &more);
    writing_commit(tier);
    tier->expire_cold = false;
    tier_box_release_writer(&rig->box);
    assert_true(tier->expiry.settled_ms > FAR_MS);
    assert_int_equal(tier->expiry.again_ms, INT64_MAX);
    assert_int_equal(count_expiry_keys(rig), 1);
    assert_string_equal(tier_box_say(rig->client, "SET k new"), "+OK\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hot_keys_that_are_extended_do_not_pile_up, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(cold_keys_that_are_extended_do_not_pile_up, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(deleted_and_flushed_keys_leave_none, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(an_old_time_of_a_hot_key_is_settled_at_once, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_damaged_record_is_looked_at_later, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
