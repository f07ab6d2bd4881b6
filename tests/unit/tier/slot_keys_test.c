/* Counting and listing the keys of a slot over both tiers, while keys are set, deleted, demoted, loaded, flushed and swapped. */
#include "support/unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "keyspace/owners.h"
#include "support/tier_box.h"

enum { TAGS = 6, KEYS = 900, DATABASES = 2, STEPS = 6000, NAME_SIZE = 24 };

struct rig {
    struct tier_box box;
    struct box_client *client;
    struct random random;
    int db;                                     /* the client's */
    bool exists[DATABASES][KEYS];               /* the oracle */
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new(), .db_count = DATABASES, .by_slot = true };

    tier_box_create(&rig->box, &options);
    rig->client = tier_box_open_client(&rig->box, 0);
    random_init(&rig->random, options.seed);
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

/* Two of three keys are in one of few slots, the others anywhere. */
static struct bytes name_of(int key, char text[NAME_SIZE])
{
    if (key % 3 == 0)
        return bytes_of(text, (size_t)snprintf(text, NAME_SIZE, "plain:%d", key));
    return bytes_of(text, (size_t)snprintf(text, NAME_SIZE, "{%d}:%d", key % TAGS, key));
}

static uint16_t slot_of(int key)
{
    char text[NAME_SIZE];

    return slot_of_key(name_of(key, text));
}

static void say(struct rig *rig, const char *format, int key)
{
    char text[NAME_SIZE], line[80];
    struct bytes name = name_of(key, text);

    snprintf(line, sizeof(line), format, (int)name.size, name.data);
    BOX_DEMAND(&rig->box, tier_box_say(rig->client, line)[0] != '-', "%s: %s", line, tier_box_reply(rig->client));
}

static void flush(struct rig *rig)
{
    tier_box_say(rig->client, "FLUSHDB");
    memset(rig->exists[rig->db], 0, sizeof(rig->exists[0]));
}

static void swap(struct rig *rig)
{
    bool kept[KEYS];

    tier_box_say(rig->client, "SWAPDB 0 1");
    memcpy(kept, rig->exists[0], sizeof(kept));
    memcpy(rig->exists[0], rig->exists[1], sizeof(kept));
    memcpy(rig->exists[1], kept, sizeof(kept));
}

static void select_other(struct rig *rig)
{
    rig->db = !rig->db;
    tier_box_say(rig->client, rig->db ? "SELECT 1" : "SELECT 0");
}

/* A slot's keys as counted, and as listed, all or some. */
static void check_slot(struct rig *rig, int db, uint16_t slot)
{
    struct partitions *all = rig->box.partitions;
    const struct reader reader = { .may_block = true };
    struct scan_page page = { 0 }, part = { 0 };
    uint64_t count, wanted = 0, now;
    size_t some;

    for (int key = 0; key < KEYS; key++)
        wanted += rig->exists[db][key] && slot_of(key) == slot;
    assert_int_equal(tier_slot_count(rig->box.tier, &reader, db, slot, &count), STATUS_OK);
    BOX_DEMAND(&rig->box, count == wanted, "slot %u of database %d: %llu keys instead of %llu", slot, db, (unsigned long long)count,
        (unsigned long long)wanted);
    BOX_DEMAND(&rig->box, !tier_slot_count_now(all, &reader, db, slot, &now) || now == wanted, "at once: %llu", (unsigned long long)now);
    tier_slot_list(rig->box.tier, all, &reader, db, slot, SIZE_MAX, &page);
    assert_int_equal(page.status, STATUS_OK);
    BOX_DEMAND(&rig->box, page.count == wanted, "%zu keys listed instead of %llu", page.count, (unsigned long long)wanted);
    for (size_t i = 0; i < page.count; i++) {
        struct bytes name = scan_page_key(&page, i);
        const char *colon = memchr(name.data, ':', name.size);
        char digits[NAME_SIZE];
        int key;

        snprintf(digits, sizeof(digits), "%.*s", (int)(name.data + name.size - colon - 1), colon + 1);
        key = atoi(digits);
        assert_int_equal(slot_of(key), slot);
        BOX_DEMAND(&rig->box, rig->exists[db][key], "key %d is listed", key);
        for (size_t j = 0; j < i; j++)
            BOX_DEMAND(&rig->box, !bytes_equal(scan_page_key(&page, j), name), "key %d is listed twice", key);
    }
    some = (size_t)random_below(&rig->random, wanted + 2);
    tier_slot_list(rig->box.tier, all, &reader, db, slot, some, &part);
    BOX_DEMAND(&rig->box, part.count == (some < wanted ? some : wanted), "%zu keys listed, of %zu wanted and %llu", part.count, some,
        (unsigned long long)wanted);
    scan_page_release(&page);
    scan_page_release(&part);
}

static void counts_are_those_of_a_recount_after_any_work(void **state)
{
    struct rig *rig = *state;

    for (int step = 0; step < STEPS; step++) {
        int key = (int)random_below(&rig->random, KEYS);

        switch (random_below(&rig->random, 100)) {
        default: say(rig, "SET %.*s value", key); rig->exists[rig->db][key] = true; break;
        case 0 ... 19: say(rig, "DEL %.*s", key); rig->exists[rig->db][key] = false; break;
        case 20 ... 49: say(rig, "TIER DEMOTE %.*s", key); break;
        case 50 ... 59: say(rig, "GET %.*s", key); break;
        case 60 ... 64: say(rig, "APPEND %.*s more", key); rig->exists[rig->db][key] = true; break;
        case 65: select_other(rig); break;
        case 66: if (random_below(&rig->random, 8) == 0) flush(rig); break;
        case 67: if (random_below(&rig->random, 4) == 0) swap(rig); break;
        case 68: tier_box_verify(&rig->box); break;
        case 69 ... 73: check_slot(rig, (int)random_below(&rig->random, DATABASES), slot_of(key)); break;
        }
    }
    for (int slot = 0; slot < SLOT_COUNT; slot += slot < 64 ? 1 : 101)      /* most are empty */
        check_slot(rig, 0, (uint16_t)slot);
    for (int key = 0; key < KEYS; key++)
        check_slot(rig, key % 2, slot_of(key));
}

/* A deleted and a blindly overwritten key, and one that never had a record, while the writer does nothing: none of them is known for certain. */
static void unknown_records_are_looked_up(void **state)
{
    struct rig *rig = *state;
    uint16_t slot = slot_of_key(BYTES("{u}"));
    const struct reader reader = { 0 };
    uint64_t count;

    tier_box_say(rig->client, "MSET {u}a 1 {u}b 1 {u}c 1 {u}d 1");
    tier_box_say(rig->client, "TIER DEMOTE {u}a {u}b {u}c {u}d");
    tier_box_hold_writer(&rig->box);
    assert_string_equal(tier_box_say(rig->client, "SET {u}a 2"), "+OK\n");
    assert_string_equal(tier_box_say(rig->client, "SET {u}b 2"), "+OK\n");
    assert_string_equal(tier_box_say(rig->client, "DEL {u}b"), ":1\n");
    assert_string_equal(tier_box_say(rig->client, "SET {u}e 2"), "+OK\n");
    assert_false(tier_slot_count_now(rig->box.partitions, &reader, 0, slot, &count));
    tier_box_release_writer(&rig->box);
    assert_int_equal(tier_slot_count(rig->box.tier, &(struct reader){ .may_block = true }, 0, slot, &count), STATUS_OK);
    assert_int_equal(count, 4);
    tier_box_settle(&rig->box);
    assert_true(tier_slot_count_now(rig->box.partitions, &reader, 0, slot, &count));
    assert_int_equal(count, 4);
    assert_true(tier_slot_has_cold(rig->box.partitions, 0, slot));
    assert_string_equal(tier_box_say(rig->client, "MGET {u}c {u}d"), "*2\n$1\n1\n$1\n1\n");
    assert_false(tier_slot_has_cold(rig->box.partitions, 0, slot));
    assert_false(tier_slot_has_cold(rig->box.partitions, 1, slot));
}

/* Deleted without their values being read, or anything else that waits for the disk under the lock. */
static void cold_keys_are_deleted_unread(void **state)
{
    struct rig *rig = *state;
    struct partitions *all = rig->box.partitions;
    uint16_t slot = slot_of_key(BYTES("{u}"));
    struct partition *partition = &all->partitions[partition_index(all, slot_first_hash(slot))];
    uint64_t count, reads;
    char line[60];

    for (int i = 0; i < 200; i++) {
        snprintf(line, sizeof(line), "SET {u}%d value", i);
        tier_box_say(rig->client, line);
        snprintf(line, sizeof(line), "TIER DEMOTE {u}%d", i);
        assert_string_equal(tier_box_say(rig->client, line), ":1\n");
    }
    reads = tier_box_stats(&rig->box).unplanned_reads;
    partition_lock(partition);
    for (int i = 0; i < 300; i++) {
        struct bytes name = bytes_of(line, (size_t)snprintf(line, sizeof(line), "{u}%d", i));
        struct keyspace *keyspace = partition_keyspace(partition, 0);
        uint64_t hash = key_hash(&all->seed, name);
        struct value value;

        keyspace_assert_locked(keyspace);
        if (!tier_discard_unread(rig->box.tier, keyspace, hash, name)) {
            assert_true(i >= 200);
            continue;
        }
        keyspace_remove(keyspace, hash, keyspace_find(keyspace, hash, name), &value);
        all->watch.removed(all->watch.context, keyspace, hash, name, RECORD_UNKNOWN);
        assert_false(tier_discard_unread(rig->box.tier, keyspace, hash, name));         /* it is deleted already */
    }
    partition_unlock(partition);
    assert_int_equal(tier_box_stats(&rig->box).unplanned_reads, reads);
    assert_int_equal(tier_slot_count(rig->box.tier, &(struct reader){ .may_block = true }, 0, slot, &count), STATUS_OK);
    assert_int_equal(count, 0);
    tier_box_settle(&rig->box);
    assert_true(tier_slot_count_now(all, &(struct reader){ 0 }, 0, slot, &count));
    assert_int_equal(count, 0);
    assert_false(tier_slot_has_cold(all, 0, slot));
    assert_string_equal(tier_box_say(rig->client, "EXISTS {u}0 {u}199"), ":0\n");
}

struct counting_thread {
    struct rig *rig;
    uint16_t slot;
    uint64_t count;
    _Atomic bool done;
};

static void *count_slot(void *context)
{
    struct counting_thread *counting = context;

    assert_int_equal(tier_slot_count(counting->rig->box.tier, &(struct reader){ .may_block = true }, 0, counting->slot, &counting->count), STATUS_OK);
    counting->done = true;
    return NULL;
}

/* While a unit owns the slot's partition it is waited for, without keeping the writer from the unit. */
static void a_count_waits_for_the_unit_that_owns_the_slot(void **state)
{
    struct rig *rig = *state;
    struct partitions *all = rig->box.partitions;
    struct counting_thread counting = { .rig = rig, .slot = slot_of_key(BYTES("{u}")) };
    struct partition_bits wanted = { 0 };
    struct claim unit = { 0 };
    pthread_t thread;
    uint64_t count;

    tier_box_say(rig->client, "MSET {u}a 1 {u}b 1");
    partition_bits_add(&wanted, partition_index(all, slot_first_hash(counting.slot)));
    partitions_own(all, &unit, &wanted);
    assert_false(tier_slot_count_now(all, &(struct reader){ 0 }, 0, counting.slot, &count));
    assert_true(tier_slot_count_now(all, &(struct reader){ .as = &unit }, 0, counting.slot, &count));
    assert_int_equal(count, 2);
    assert_int_equal(tier_slot_count(rig->box.tier, &(struct reader){ .as = &unit }, 0, counting.slot, &count), STATUS_OK);
    assert_int_equal(count, 2);
    assert_int_equal(pthread_create(&thread, NULL, count_slot, &counting), 0);
    for (int i = 0; i < 20; i++) {
        tier_box_hold_writer(&rig->box);
        tier_box_release_writer(&rig->box);
        assert_false(counting.done);
    }
    partitions_give(all, &unit, 0);
    pthread_join(thread, NULL);
    assert_int_equal(counting.count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(counts_are_those_of_a_recount_after_any_work, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(unknown_records_are_looked_up, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(cold_keys_are_deleted_unread, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_count_waits_for_the_unit_that_owns_the_slot, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
