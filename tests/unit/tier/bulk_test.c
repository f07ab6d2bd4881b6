/* Bulk loads: cold keys come back with few reads, and never with an old value, whatever happens between the look-up and the read. */
#include "support/unit.h"

#include <string.h>

#include "base/mem.h"
#include "support/tier_box.h"
#include "tier/bulk.h"

enum { KEYS = 2000, KEY_SIZE = 20, LARGE = 3 << 20 };

struct rig {
    struct tier_box box;
    struct box_client *c;
    struct tier_bulk *bulk;
    struct tier_wanted wanted[KEYS + 10];
    size_t count;
    struct buffer keys;
    void (*meanwhile)(struct rig *rig);     /* before the first read */
    uint64_t reads_allowed;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new() };

    tier_box_create(&rig->box, &options);
    rig->c = tier_box_open_client(&rig->box, 0);
    rig->bulk = tier_bulk_create(rig->box.tier, 64);
    rig->reads_allowed = UINT64_MAX;
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    faulty_disk_set(rig->box.disk, NULL);
    tier_bulk_destroy(rig->bulk);
    buffer_release(&rig->keys);
    tier_box_settle(&rig->box);
    tier_box_verify(&rig->box);
    tier_box_close_client(rig->c);
    tier_box_destroy(&rig->box);
    mem_free(rig);
    return 0;
}

static void set_cold(struct rig *rig, const char *key, const char *value)
{
    struct bytes words[] = { BYTES("SET"), bytes_of_string(key), bytes_of_string(value) };

    assert_true(tier_box_ask(rig->c, words, 3));
    assert_int_equal(tier_demote(rig->box.tier, 0, bytes_of_string(key)), TIER_MOVED);
}

static void set_many_cold(struct rig *rig)
{
    struct bytes keys[KEYS];
    enum tier_move results[KEYS];
    char names[KEYS][KEY_SIZE], value[KEY_SIZE];

    for (int i = 0; i < KEYS; i++) {
        struct bytes words[] = { BYTES("SET"), bytes_of(names[i], (size_t)snprintf(names[i], KEY_SIZE, "k%d", i)),
            bytes_of(value, (size_t)snprintf(value, sizeof(value), "value-%d", i)) };

        assert_true(tier_box_ask(rig->c, words, 3));
        keys[i] = words[1];
    }
    tier_demote_many(rig->box.tier, 0, keys, KEYS, results);
    assert_int_equal(tier_box_stats(&rig->box).hot_keys, 0);
}

static void want(struct rig *rig, const char *key)
{
    struct bytes bytes = bytes_of_string(key);

    rig->wanted[rig->count++] = (struct tier_wanted){ key_hash(&rig->box.partitions->seed, bytes), (uint32_t)rig->keys.size,
        (uint32_t)bytes.size, 0 };
    buffer_append_bytes(&rig->keys, bytes);
}

static void want_many(struct rig *rig)
{
    char key[KEY_SIZE];

    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        want(rig, key);
    }
}

static bool goes_on(void *context, uint64_t size)
{
    struct rig *rig = context;
    void (*meanwhile)(struct rig *rig) = rig->meanwhile;

    assert_true(size > 0);
    rig->meanwhile = NULL;
    if (meanwhile != NULL)
        meanwhile(rig);
    return rig->reads_allowed-- > 0;
}

static void load_up_to(struct rig *rig, uint64_t bytes_max)
{
    tier_bulk_load(rig->bulk, rig->wanted, rig->count, rig->keys.data, bytes_max, goes_on, rig);
    rig->count = 0;
    rig->keys.size = 0;
    assert_int_equal(rig->bulk->count, 0);
}

static void load(struct rig *rig)
{
    load_up_to(rig, UINT64_MAX);
}

static bool is_hot(struct rig *rig, const char *key)
{
    return tier_box_entry(&rig->box, 0, key) != NULL;
}

static void cold_keys_come_back_with_few_reads(void **state)
{
    struct rig *rig = *state;
    char key[KEY_SIZE], line[64], expected[64];

    set_many_cold(rig);
    want_many(rig);
    load(rig);
    assert_int_equal(rig->bulk->installed, KEYS);
    assert_true(reader_reads(rig->bulk->reader) <= 10);
    for (int i = 0; i < KEYS; i++) {
        const struct entry *entry;

        snprintf(key, sizeof(key), "k%d", i);
        entry = tier_box_entry(&rig->box, 0, key);
        BOX_DEMAND(&rig->box, entry != NULL && entry_record(entry) == RECORD_CLEAN && !(entry->flags & ENTRY_PINNED), "%s", key);
        snprintf(line, sizeof(line), "GET k%d", i);
        snprintf(expected, sizeof(expected), "$%d\nvalue-%d\n", snprintf(NULL, 0, "value-%d", i), i);
        assert_string_equal(tier_box_say(rig->c, line), expected);
    }
    assert_int_equal(tier_box_stats(&rig->box).promotions, KEYS);
}

static void a_key_is_read_once_and_only_if_it_is_cold(void **state)
{
    struct rig *rig = *state;

    set_cold(rig, "cold", "1");
    tier_box_say(rig->c, "SET hot 1");
    set_cold(rig, "changed", "1");
    tier_box_say(rig->c, "SET changed 2");
    for (int i = 0; i < 3; i++)
        want(rig, "cold");
    want(rig, "hot");
    want(rig, "changed");
    want(rig, "none");
    load(rig);
    assert_int_equal(rig->bulk->installed, 1);
    assert_int_equal(reader_reads(rig->bulk->reader), 1);
    assert_true(is_hot(rig, "cold"));
    assert_string_equal(tier_box_say(rig->c, "GET changed"), "$1\n2\n");
    load(rig);                              /* of nothing */
    assert_int_equal(reader_reads(rig->bulk->reader), 1);
}

/* Also before there was any: no key of a hot list is in the store any more, for example. */
static void a_run_without_records_reads_nothing(void **state)
{
    struct rig *rig = *state;
    struct bulk_steps steps = { .context = rig, .goes_on = goes_on };

    bulk_run(rig->bulk, &steps);
    want(rig, "none");
    load(rig);
    assert_int_equal(reader_reads(rig->bulk->reader), 0);
}

static void change_all(struct rig *rig)
{
    tier_box_say(rig->c, "SET set new");
    tier_box_say(rig->c, "DEL deleted");
    tier_box_say(rig->c, "APPEND appended +");
    set_cold(rig, "moved", "new");
}

static void what_changes_between_look_up_and_read_is_not_overwritten(void **state)
{
    struct rig *rig = *state;
    const char *keys[] = { "set", "deleted", "appended", "moved", "same" };

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        set_cold(rig, keys[i], "old");
        want(rig, keys[i]);
    }
    rig->meanwhile = change_all;
    load(rig);
    assert_true(rig->meanwhile == NULL);
    assert_int_equal(rig->bulk->installed, 1);
    assert_false(is_hot(rig, "deleted") || is_hot(rig, "moved"));
    assert_string_equal(tier_box_say(rig->c, "MGET set deleted appended moved same"), "*5\n$3\nnew\n$-1\n$4\nold+\n$3\nnew\n$3\nold\n");
}

static void flush(struct rig *rig)
{
    tier_box_say(rig->c, "FLUSHALL");
    tier_box_say(rig->c, "SET other 1");        /* so that the keyspaces may be there again */
}

static void swap(struct rig *rig)
{
    tier_box_say(rig->c, "SWAPDB 0 1");
}

static void flushed_databases_get_nothing_and_swapped_ones_what_is_theirs(void **state)
{
    struct rig *rig = *state;

    set_many_cold(rig);
    want_many(rig);
    rig->meanwhile = flush;
    load(rig);
    assert_int_equal(rig->bulk->installed, 0);
    assert_string_equal(tier_box_say(rig->c, "DBSIZE"), ":1\n");
    set_cold(rig, "k", "of 0");
    want(rig, "k");
    rig->meanwhile = swap;
    load(rig);
    assert_int_equal(rig->bulk->installed, 1);
    assert_string_equal(tier_box_say(rig->c, "GET k"), "$-1\n");
    tier_box_say(rig->c, "SWAPDB 0 1");
    assert_true(is_hot(rig, "k"));
    assert_string_equal(tier_box_say(rig->c, "GET k"), "$4\nof 0\n");
}

static void begin_load(struct rig *rig)
{
    tier_box_begin(rig->c, "GET k");
}

static void a_client_that_waits_for_the_key_gets_it(void **state)
{
    struct rig *rig = *state;
    struct disk_faults slow = { .seed = rig->box.seed, .read_delay_us = 1000 };

    set_cold(rig, "k", "v");
    want(rig, "k");
    faulty_disk_set(rig->box.disk, &slow);
    rig->meanwhile = begin_load;
    load(rig);
    assert_string_equal(tier_box_await(rig->c), "$1\nv\n");
}

static void it_ends_when_it_is_told_to_and_at_its_bound(void **state)
{
    struct rig *rig = *state;

    set_many_cold(rig);
    want_many(rig);
    rig->reads_allowed = 0;
    load(rig);
    assert_int_equal(tier_box_stats(&rig->box).hot_keys, 0);
    rig->reads_allowed = UINT64_MAX;
    want_many(rig);
    load_up_to(rig, 96 * 100);
    assert_int_equal(tier_box_stats(&rig->box).hot_keys, 100);
}

static void large_records_and_those_without_a_place_are_left_out(void **state)
{
    struct rig *rig = *state;
    char *value = mem_alloc(LARGE + 1);
    struct keyspace *keyspace;
    uint64_t hash, place;

    memset(value, 'x', LARGE);
    value[LARGE] = '\0';
    set_cold(rig, "large", value);
    mem_free(value);
    keyspace = tier_box_keyspace(&rig->box, 0, BYTES("large"), &hash);
    partition_lock(keyspace->partition);
    assert_true(recordmap_find(keyspace->tier->map, hash, BYTES("large"), &place));
    partition_unlock(keyspace->partition);
    want(rig, "large");
    tier_box_say(rig->c, "SET none 1");
    keyspace = tier_box_keyspace(&rig->box, 0, BYTES("none"), &hash);
    tier_box_say(rig->c, "DEL none");
    tier_box_settle(&rig->box);
    partition_lock(keyspace->partition);
    recordmap_add(keyspace->tier->map, hash, BYTES("none"), place);
    partition_unlock(keyspace->partition);
    want(rig, "none");
    load(rig);
    partition_lock(keyspace->partition);
    recordmap_remove(keyspace->tier->map, hash, BYTES("none"), place);
    partition_unlock(keyspace->partition);
    assert_int_equal(reader_reads(rig->bulk->reader), 0);
    assert_string_equal(tier_box_say(rig->c, "STRLEN large"), ":3145728\n");
}

/* What could not be read is read again, and reported, when a client asks for it. */
static void errors_and_damage_are_never_values(void **state)
{
    struct rig *rig = *state;
    struct disk_faults faults = { .seed = rig->box.seed, .read_error = 1000 };
    uint64_t installed = 0, failed;

    set_many_cold(rig);
    want_many(rig);
    faulty_disk_set(rig->box.disk, &faults);
    load(rig);
    faulty_disk_set(rig->box.disk, NULL);
    assert_int_equal(tier_box_stats(&rig->box).hot_keys, 0);
    /* One bit of each read is turned; at times it is of no record. */
    for (int round = 0; round < 50 && tier_box_stats(&rig->box).hot_keys % KEYS == 0; round++) {
        set_many_cold(rig);
        want_many(rig);
        faults = (struct disk_faults){ .seed = rig->box.seed + (uint64_t)round, .read_corrupt = 1000 };
        installed = rig->bulk->installed;
        failed = rig->bulk->failed;
        faulty_disk_set(rig->box.disk, &faults);
        load(rig);
        faulty_disk_set(rig->box.disk, NULL);
        assert_int_equal(rig->bulk->installed - installed + rig->bulk->failed - failed, KEYS);
    }
    assert_true(rig->bulk->installed - installed < KEYS);
    want_many(rig);
    load(rig);
    assert_int_equal(tier_box_stats(&rig->box).hot_keys, KEYS);
    assert_string_equal(tier_box_say(rig->c, "MGET k0 k1000 k1999"), "*3\n$7\nvalue-0\n$10\nvalue-1000\n$10\nvalue-1999\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cold_keys_come_back_with_few_reads, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_key_is_read_once_and_only_if_it_is_cold, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_run_without_records_reads_nothing, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(what_changes_between_look_up_and_read_is_not_overwritten, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(flushed_databases_get_nothing_and_swapped_ones_what_is_theirs, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_client_that_waits_for_the_key_gets_it, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(it_ends_when_it_is_told_to_and_at_its_bound, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(large_records_and_those_without_a_place_are_left_out, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(errors_and_damage_are_never_values, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
