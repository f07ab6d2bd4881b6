/* Fetch: what a window names is loaded before its first command runs, however many windows there are, and a replay that ends early leaves
 * nothing. */
#include "support/unit.h"

#include <string.h>

#include "base/mem.h"
#include "lifecycle/ahead.h"
#include "lifecycle/fetch.h"
#include "support/tier_box.h"

enum { KEYS = 1200, WINDOW = 100, KEY_SIZE = 20 };

struct rig {
    struct tier_box box;
    struct box_client *c;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new() };
    struct bytes keys[KEYS];
    enum tier_move results[KEYS];
    char names[KEYS][KEY_SIZE];

    tier_box_create(&rig->box, &options);
    rig->c = tier_box_open_client(&rig->box, 0);
    for (int i = 0; i < KEYS; i++) {
        struct bytes words[] = { BYTES("SET"), bytes_of(names[i], (size_t)snprintf(names[i], KEY_SIZE, "k%d", i)), BYTES("1") };

        assert_true(tier_box_ask(rig->c, words, 3));
        keys[i] = words[1];
    }
    tier_demote_many(rig->box.tier, 0, keys, KEYS, results);
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    faulty_disk_set(rig->box.disk, NULL);
    tier_box_settle(&rig->box);
    tier_box_verify(&rig->box);
    tier_box_close_client(rig->c);
    tier_box_destroy(&rig->box);
    mem_free(rig);
    return 0;
}

static void name_of(int i, char key[KEY_SIZE])
{
    snprintf(key, KEY_SIZE, "k%d", i);
}

static void add(struct rig *rig, struct fetch *fetch, uint64_t number, int i)
{
    char key[KEY_SIZE];

    name_of(i, key);
    fetch_add(fetch, number, bytes_of_string(key), key_hash(&rig->box.partitions->seed, bytes_of_string(key)), 0);
}

/* The fetch's thread may be changing the tables. */
static bool is_hot(struct rig *rig, int i)
{
    char key[KEY_SIZE];
    uint64_t hash;
    struct keyspace *keyspace;
    bool found;

    name_of(i, key);
    keyspace = tier_box_keyspace(&rig->box, 0, bytes_of_string(key), &hash);
    partition_lock(keyspace->partition);
    found = keyspace_find(keyspace, hash, bytes_of_string(key)) != 0;
    partition_unlock(keyspace->partition);
    return found;
}

static void a_window_is_loaded_before_its_first_command_runs(void **state)
{
    struct rig *rig = *state;
    struct fetch *fetch = fetch_create(&rig->box.engine);
    struct disk_faults slow = { .seed = rig->box.seed, .read_delay_us = 500 };

    faulty_disk_set(rig->box.disk, &slow);
    for (int seen = 0, run = 0; run < KEYS; run++) {
        /* Up to three windows ahead, as the replay is. */
        for (; seen < KEYS && seen < run + 3 * WINDOW; seen++) {
            add(rig, fetch, (uint64_t)seen, seen);
            if (seen % WINDOW == WINDOW - 1)
                fetch_submit(fetch, (uint64_t)run);
        }
        fetch_submit(fetch, (uint64_t)run);
        BOX_DEMAND(&rig->box, is_hot(rig, run), "key %d", run);
    }
    fetch_destroy(fetch);
}

/* While this thread has the partition's lock, the window can't be loaded: to wait for it would be a deadlock. */
static void later_windows_are_not_waited_for(void **state)
{
    struct rig *rig = *state;
    struct fetch *fetch = fetch_create(&rig->box.engine);
    struct keyspace *keyspace;
    uint64_t hash;

    add(rig, fetch, 0, 0);
    fetch_submit(fetch, 0);
    keyspace = tier_box_keyspace(&rig->box, 0, BYTES("k1"), &hash);
    partition_lock(keyspace->partition);
    add(rig, fetch, 50, 1);
    fetch_submit(fetch, 49);
    assert_int_equal(keyspace_find(keyspace, hash, BYTES("k1")), 0);
    partition_unlock(keyspace->partition);
    fetch_submit(fetch, 50);
    assert_true(is_hot(rig, 1));
    fetch_destroy(fetch);
}

static void what_was_not_loaded_at_the_end_is_left(void **state)
{
    struct rig *rig = *state;
    struct disk_faults slow = { .seed = rig->box.seed, .read_delay_us = 20000 };

    faulty_disk_set(rig->box.disk, &slow);
    for (int round = 0; round < 3; round++) {
        struct fetch *fetch = fetch_create(&rig->box.engine);

        for (int i = 0; i < round; i++) {
            add(rig, fetch, (uint64_t)i + 1, i);
            fetch_submit(fetch, 0);
        }
        add(rig, fetch, 3, KEYS - 1);       /* not submitted */
        fetch_destroy(fetch);
    }
    assert_false(is_hot(rig, KEYS - 1));
}

static void long_keys_and_too_many_are_left_to_their_commands(void **state)
{
    struct rig *rig = *state;
    struct fetch *fetch = fetch_create(&rig->box.engine);
    char key[FETCH_KEY_SIZE_MAX + 1];

    memset(key, 'k', sizeof(key));
    fetch_add(fetch, 0, bytes_of(key, sizeof(key)), key_hash(&rig->box.partitions->seed, bytes_of(key, sizeof(key))), 0);
    for (int i = 0; i < FETCH_KEYS_MAX; i++)
        add(rig, fetch, 0, 0);
    add(rig, fetch, 0, 1);
    fetch_submit(fetch, 0);
    assert_true(is_hot(rig, 0));
    assert_false(is_hot(rig, 1));
    fetch_destroy(fetch);
}

static uint64_t see(struct ahead *ahead, const char *word, int i)
{
    char key[KEY_SIZE];
    struct bytes args[] = { bytes_of_string(word), BYTES(""), BYTES("1") };

    name_of(i, key);
    args[1] = bytes_of_string(key);
    return ahead_see(ahead, args, bytes_is(args[0], "SET") ? 3 : bytes_is(args[0], "MULTI") ? 1 : 2);
}

static void the_replay_fetches_what_commands_read_and_not_what_they_overwrite(void **state)
{
    struct rig *rig = *state;
    struct ahead *ahead = ahead_create(&rig->box.engine, 10000);

    see(ahead, "INCR", 0);
    see(ahead, "SET", 1);
    see(ahead, "GETDEL", 2);
    ahead_begin(ahead, 1);
    assert_true(is_hot(rig, 0) && is_hot(rig, 2));
    assert_false(is_hot(rig, 1));
    ahead_ran(ahead, 0);
    ahead_begin(ahead, 2);
    ahead_destroy(ahead);
}

/* MULTI and EXEC are seen, and do not run. The window of what follows them is waited for when its own number begins. */
static void numbers_that_do_not_run_are_left_out(void **state)
{
    struct rig *rig = *state;
    struct disk_faults slow = { .seed = rig->box.seed, .read_delay_us = 5000 };
    struct ahead *ahead = ahead_create(&rig->box.engine, 10000);
    uint64_t number = see(ahead, "SET", 0);

    faulty_disk_set(rig->box.disk, &slow);
    for (int i = 0; i < 8; i++)
        see(ahead, "MULTI", 0);
    ahead_begin(ahead, number);
    ahead_ran(ahead, 0);
    number = see(ahead, "INCR", 7);
    ahead_begin(ahead, number - 1);             /* hands the window over */
    ahead_begin(ahead, number);
    assert_true(is_hot(rig, 7));
    ahead_destroy(ahead);
}

static bool has_hash_of(const struct rig *rig, const struct ahead_key *found, int i)
{
    char key[KEY_SIZE];

    name_of(i, key);
    return found != NULL && found->arg == 1 && found->hash == key_hash(&rig->box.partitions->seed, bytes_of_string(key));
}

/* A transaction may have more commands than are remembered. */
static void a_command_gets_the_hash_of_its_own_key_or_none(void **state)
{
    enum { SEEN = 3 * AHEAD_COMMANDS_MIN };
    struct rig *rig = *state;
    struct ahead *ahead = ahead_create(&rig->box.engine, AHEAD_COMMANDS_MIN);

    for (int i = 0; i < SEEN; i++)
        assert_int_equal(see(ahead, i % 5 == 0 ? "MULTI" : "SET", i), i + 1);
    for (int i = 0; i < SEEN; i++) {
        const struct ahead_key *found;

        if (i % 5 == 0)
            continue;
        found = ahead_begin(ahead, (uint64_t)i + 1);
        assert_true(i < SEEN - AHEAD_COMMANDS_MIN ? found == NULL : has_hash_of(rig, found, i));
        ahead_ran(ahead, 0);
    }
    assert_null(ahead_begin(ahead, 0));
    ahead_destroy(ahead);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_window_is_loaded_before_its_first_command_runs, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(later_windows_are_not_waited_for, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(what_was_not_loaded_at_the_end_is_left, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(long_keys_and_too_many_are_left_to_their_commands, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(the_replay_fetches_what_commands_read_and_not_what_they_overwrite, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(numbers_that_do_not_run_are_left_out, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_command_gets_the_hash_of_its_own_key_or_none, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
