/* Loads: the cold keys of one turn are read by all threads of the pool at once, and a thread that is woken finds no lock held by its waker. */
#include "support/unit.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/tier_box.h"
#include "tier/load.h"
#include "tier/read_pool.h"

enum { THREADS = 4, KEYS = 8, VALUE_SIZE = 12000, DELAY_US = 100000, PATIENCE_US = 60000000 };

struct rig {
    struct tier_box box;
    struct box_client *client;
    void (*ring)(void *context);
    int rung, rung_under_lock;
};

static struct rig *make_rig(void)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new() };

    tier_box_create(&rig->box, &options);
    rig->client = tier_box_open_client(&rig->box, 0);
    return rig;
}

static int open_rig(void **state)
{
    *state = make_rig();
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    faulty_disk_set(rig->box.disk, NULL);
    tier_box_end(&rig->box, rig->client);
    mem_free(rig);
    return 0;
}

static const char *say(struct rig *rig, const char *line)
{
    return tier_box_say(rig->client, line);
}

static void await_idle_pool(struct rig *rig)
{
    struct tier *tier = rig->box.tier;
    int64_t began_us = clock_mono_us();

    while (read_pool_idle(tier) < THREADS) {
        BOX_DEMAND(&rig->box, clock_mono_us() - began_us < PATIENCE_US, "the threads do not start");
        tier_nudge(tier);
    }
}

/* Cold keys, in blocks of their own in a table that is open: reading one is one read of the disk. */
static void set_cold_keys(struct rig *rig, int count)
{
    char *value = mem_alloc(VALUE_SIZE), key[20], line[100];

    for (int i = 0; i < count; i++) {
        struct bytes words[3] = { BYTES("SET") };

        snprintf(key, sizeof(key), "k%d", i);
        memset(value, 'a' + i, VALUE_SIZE);
        words[1] = bytes_of_string(key);
        words[2] = bytes_of(value, VALUE_SIZE);
        assert_true(tier_box_ask(rig->client, words, 3));
        snprintf(line, sizeof(line), "TIER DEMOTE k%d", i);
        assert_string_equal(say(rig, line), ":1\n");
    }
    tier_box_hold_writer(&rig->box);
    assert_int_equal(store_flush(rig->box.tier->store), STATUS_OK);
    tier_box_release_writer(&rig->box);
    snprintf(line, sizeof(line), "STRLEN k%d", count - 1);
    assert_string_equal(say(rig, line), ":12000\n");
    mem_free(value);
}

static void the_cold_keys_of_one_turn_are_read_at_the_same_time(void **state)
{
    struct rig *rig = *state;
    struct disk_faults faults = { .only = ".seg", .read_delay_us = DELAY_US };
    int64_t began_us;

    tier_settings(rig->box.tier)->load_threads = THREADS;
    set_cold_keys(rig, KEYS + 1);
    await_idle_pool(rig);
    faulty_disk_set(rig->box.disk, &faults);
    began_us = clock_mono_us();
    assert_string_equal(say(rig, "EXISTS k0 k1 k2 k3 k4 k5 k6 k7"), ":8\n");
    /* One after the other it takes at least KEYS delays; at the same time two. */
    BOX_DEMAND(&rig->box, clock_mono_us() - began_us < (KEYS - 2) * DELAY_US, "%lld us", (long long)(clock_mono_us() - began_us));
}

/* On a thread of the pool. No other thread locks a partition at that time. */
static void look_at_locks(void *context)
{
    struct box_worker *worker = context;
    struct rig *rig = (struct rig *)worker->box;        /* its first field */

    for (uint32_t i = 0; i < rig->box.partitions->count; i++) {
        struct partition *partition = &rig->box.partitions->partitions[i];

        if (!partition_try_lock(partition))
            rig->rung_under_lock++;
        else
            partition_unlock(partition);
    }
    rig->rung++;
    rig->ring(context);
}

static void the_bell_is_rung_without_a_lock(void **state)
{
    struct rig *rig = *state;
    char line[20];

    set_cold_keys(rig, KEYS + 1);
    tier_box_hold_writer(&rig->box);
    rig->ring = rig->box.workers[0].worker.mailbox.ring;
    rig->box.workers[0].worker.mailbox.ring = look_at_locks;
    for (int i = 0; i < KEYS; i++) {
        snprintf(line, sizeof(line), "STRLEN k%d", i);
        assert_string_equal(say(rig, line), ":12000\n");
    }
    rig->box.workers[0].worker.mailbox.ring = rig->ring;
    tier_box_release_writer(&rig->box);
    assert_int_equal(rig->rung, KEYS);
    assert_int_equal(rig->rung_under_lock, 0);
}

static struct load *find_load(struct rig *rig, struct bytes key, bool *has_entry)
{
    struct partitions *all = rig->box.partitions;
    uint64_t hash = key_hash(&all->seed, key);
    struct partition *partition = &all->partitions[partition_index(all, hash)];
    struct keyspace *keyspace;
    struct load *load;

    partition_lock(partition);
    keyspace = partition_keyspace_if(partition, 0);
    load = load_find(keyspace, hash, key);
    *has_entry = keyspace_find(keyspace, hash, key) != 0;
    partition_unlock(partition);
    return load;
}

/* DEL of several keys of which one is damaged: that key is not an empty string while the others are read, nor afterwards if one can't be. */
static void a_damaged_key_is_discarded_when_the_command_runs(void **state)
{
    struct rig *rig = *state;
    struct disk_faults faults = { .only = ".seg", .read_error = 1000 };
    struct box_client *other = tier_box_open_client(&rig->box, 0);
    int64_t began_us = clock_mono_us();
    bool has_entry;

    assert_string_equal(say(rig, "MSET k1 v k2 w"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE k1 k2"), ":2\n");
    faulty_disk_set(rig->box.disk, &faults);
    tier_box_turn(&rig->box.workers[0], BOX_NO_WAIT);
    assert_false(tier_box_begin(other, "GET k1"));
    worker_end_turn(&rig->box.workers[0].worker);
    while (tier_loads_waiting(rig->box.tier) > 0)
        BOX_DEMAND(&rig->box, clock_mono_us() - began_us < PATIENCE_US, "the load does not end");
    worker_begin_turn(&rig->box.workers[0].worker);
    find_load(rig, BYTES("k1"), &has_entry)->is_damaged = true;     /* and not only unread */
    assert_false(tier_box_begin(rig->client, "DEL k1 k2"));
    (void)find_load(rig, BYTES("k1"), &has_entry);
    assert_false(has_entry);
    assert_non_null(strstr(tier_box_await(rig->client), "can't be read"));
    assert_non_null(strstr(tier_box_await(other), "can't be read"));
    faulty_disk_set(rig->box.disk, NULL);
    assert_string_equal(say(rig, "MGET k1 k2"), "*2\n$1\nv\n$1\nw\n");
    tier_box_close_client(other);
}

/* Begins a call for a cold key, and returns when the key has been loaded and the call has not run yet. */
static void begin_and_load(struct rig *rig, struct box_client *client, const char *line)
{
    struct worker *worker = &rig->box.workers[0].worker;
    int64_t began_us = clock_mono_us();

    tier_box_turn(&rig->box.workers[0], BOX_NO_WAIT);
    assert_false(tier_box_begin(client, line));
    worker_end_turn(worker);
    while (tier_loads_waiting(rig->box.tier) > 0)
        BOX_DEMAND(&rig->box, clock_mono_us() - began_us < PATIENCE_US, "the load does not end");
    worker_begin_turn(worker);
}

static void pin(struct rig *rig, struct bytes key)
{
    struct key_rules *rules = key_rules_create();

    assert_int_equal(key_rules_pin(rules, 0, key), KEY_RULES_PINNED);
    rulebook_replace(tier_rules(rig->box.tier), rules);
}

static void a_key_that_is_used_or_pinned_during_a_look_stays_hot(void **state)
{
    struct rig *rig = *state;
    struct box_client *other = tier_box_open_client(&rig->box, 0);

    assert_string_equal(say(rig, "MSET k1 v k2 v k3 v k4 v"), "+OK\n");
    assert_string_equal(say(rig, "TIER DEMOTE k1 k2 k3 k4"), ":4\n");
    begin_and_load(rig, other, "TTL k1");
    assert_string_equal(tier_box_await(other), ":-1\n");
    begin_and_load(rig, other, "TTL k2");
    assert_true(tier_box_begin(rig->client, "STRLEN k2"));
    assert_string_equal(tier_box_await(other), ":-1\n");
    begin_and_load(rig, other, "TTL k3");
    assert_true(tier_box_begin(rig->client, "GET k3"));
    assert_string_equal(tier_box_await(other), ":-1\n");
    begin_and_load(rig, other, "TTL k4");
    pin(rig, BYTES("k4"));
    assert_string_equal(tier_box_await(other), ":-1\n");
    assert_null(tier_box_entry(&rig->box, 0, "k1"));
    assert_null(tier_box_entry(&rig->box, 0, "k2"));
    assert_non_null(tier_box_entry(&rig->box, 0, "k3"));
    assert_non_null(tier_box_entry(&rig->box, 0, "k4"));
    assert_int_equal(tier_box_stats(&rig->box).looks, 2);
    tier_box_close_client(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_cold_keys_of_one_turn_are_read_at_the_same_time, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(the_bell_is_rung_without_a_lock, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_damaged_key_is_discarded_when_the_command_runs, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_key_that_is_used_or_pinned_during_a_look_stays_hot, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
