/* The rules of the tier (docs/architecture.md), each attacked. The writer is held where it matters, and the test does its work step
 * by step; loads do not begin before the worker ends its turn. */
#include "support/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/message.h"
#include "engine/cron.h"
#include "engine/memory.h"
#include "support/tier_box.h"
#include "tier/batch.h"
#include "tier/demotion.h"
#include "tier/expiry.h"
#include "tier/grave.h"
#include "tier/read_pool.h"

enum { HOUR_MS = 3600 * 1000 };

struct rig {
    uint64_t other_place;           /* make_other */
    struct tier_box box;
    struct box_client *a, *b, *c;       /* of the one worker */
    struct batch batch;                 /* the test's, as the writer */
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new() };

    tier_box_create(&rig->box, &options);
    rig->a = tier_box_open_client(&rig->box, 0);
    rig->b = tier_box_open_client(&rig->box, 0);
    rig->c = tier_box_open_client(&rig->box, 0);
    batch_init(&rig->batch);
    tier_box_turn(&rig->box.workers[0], BOX_NO_WAIT);
    *state = rig;
    return 0;
}

/* Whatever a test did, the invariants hold in the end. */
static int close_rig(void **state)
{
    struct rig *rig = *state;

    if (rig->box.writer_held)               /* the test failed on the way */
        tier_box_release_writer(&rig->box);
    tier_box_close_client(rig->a);
    tier_box_close_client(rig->b);
    tier_box_close_client(rig->c);
    tier_box_turn(&rig->box.workers[0], BOX_NO_WAIT);
    tier_box_settle(&rig->box);
    tier_box_verify(&rig->box);
    batch_release(&rig->batch);
    tier_box_destroy(&rig->box);
    mem_free(rig);
    return 0;
}

/* The loads that were posted are done; the workers of the clients that waited have mail, but have not read it. */
static void await_loads(struct rig *rig)
{
    int64_t began_us = clock_mono_us();

    worker_end_turn(&rig->box.workers[0].worker);
    while (tier_box_stats(&rig->box).loads_waiting > 0)
        BOX_DEMAND(&rig->box, clock_mono_us() - began_us < 60000000, "a load does not end");
}

static void make_cold(struct rig *rig, int db, const char *key)
{
    assert_int_equal(tier_demote(rig->box.tier, db, bytes_of_string(key)), TIER_MOVED);
    assert_null(tier_box_entry(&rig->box, db, key));
}

static void set_cold(struct rig *rig, int db, const char *key, const char *value)
{
    struct bytes words[] = { BYTES("SET"), bytes_of_string(key), bytes_of_string(value) };

    rig->c->client.db = db;
    assert_true(tier_box_ask(rig->c, words, 3));
    make_cold(rig, db, key);
}

/* The writer's steps, under the key's lock. */

static struct keyspace *lock_key(struct rig *rig, const char *key, uint64_t *hash)
{
    *hash = key_hash(&rig->box.partitions->seed, bytes_of_string(key));
    partition_lock(&rig->box.partitions->partitions[partition_index(rig->box.partitions, *hash)]);
    return tier_box_keyspace(&rig->box, 0, bytes_of_string(key), hash);
}

static void put_into_batch(struct rig *rig, const char *key)
{
    uint64_t hash;
    struct keyspace *keyspace = lock_key(rig, key, &hash);

    batch_put(rig->box.tier, &rig->batch, keyspace, hash, keyspace_find(keyspace, hash, bytes_of_string(key)), BATCH_DEMOTE, NULL);
    partition_unlock(keyspace->partition);
}

static void bury_in_batch(struct rig *rig, const char *key)
{
    uint64_t hash;
    struct keyspace *keyspace = lock_key(rig, key, &hash);

    batch_bury(&rig->batch, keyspace, grave_find(keyspace, hash, bytes_of_string(key)));
    partition_unlock(keyspace->partition);
}

static void commit(struct rig *rig)
{
    assert_int_equal(batch_commit(rig->box.tier, &rig->batch), STATUS_OK);
}

/* A record of another key, in another database. */
static void make_other(struct rig *rig)
{
    struct bytes key = BYTES("other");
    struct keyspace *keyspace;
    uint64_t hash;

    set_cold(rig, 1, "other", "1");
    keyspace = tier_box_keyspace(&rig->box, 1, key, &hash);
    partition_lock(keyspace->partition);
    assert_true(recordmap_find(keyspace->tier->map, hash, key, &rig->other_place));
    partition_unlock(keyspace->partition);
}

/* A tag that leads to that record: as if the other key's hash were the same. */
static void change_tag(struct rig *rig, const char *key, void change(struct recordmap *map, uint64_t hash, struct bytes key, uint64_t place))
{
    uint64_t hash;
    struct keyspace *keyspace = lock_key(rig, key, &hash);

    change(keyspace->tier->map, hash, bytes_of_string(key), rig->other_place);
    partition_unlock(keyspace->partition);
}

static bool has_record(struct rig *rig, int db, const char *key)
{
    uint64_t hash = key_hash(&rig->box.partitions->seed, bytes_of_string(key));

    return store_has(rig->box.tier->store, rig->box.partitions->incarnations[db], hash, bytes_of_string(key)) == STATUS_OK;
}

static uint64_t tags(struct rig *rig, const char *key)
{
    uint64_t hash;

    return recordmap_count(tier_box_keyspace(&rig->box, 0, bytes_of_string(key), &hash)->tier->map);
}

static enum record_state record_of(struct rig *rig, const char *key)
{
    return entry_record(tier_box_entry(&rig->box, 0, key));
}

static uint64_t count_now(struct rig *rig, bool *exact)
{
    uint64_t count;

    *exact = tier_count_now(rig->box.tier, NULL, 0, &count);
    return count;
}

/* Rule 1. */

static void rule_1_a_tag_is_there_before_its_record_and_goes_after_it(void **state)
{
    struct rig *rig = *state;

    tier_box_hold_writer(&rig->box);
    tier_box_say(rig->a, "SET k v");
    assert_int_equal(tags(rig, "k"), 0);
    put_into_batch(rig, "k");
    assert_true(tags(rig, "k") == 1 && !has_record(rig, 0, "k"));
    commit(rig);
    assert_true(tags(rig, "k") == 1 && has_record(rig, 0, "k"));
    assert_string_equal(tier_box_say(rig->a, "DEL k"), ":1\n");
    bury_in_batch(rig, "k");
    assert_true(tags(rig, "k") == 1 && has_record(rig, 0, "k"));
    commit(rig);
    assert_true(tags(rig, "k") == 0 && !has_record(rig, 0, "k"));
    tier_box_release_writer(&rig->box);
}

static void rule_1_a_key_that_comes_back_while_it_is_buried_has_no_record(void **state)
{
    struct rig *rig = *state;
    bool exact;

    set_cold(rig, 0, "other", "1");
    set_cold(rig, 0, "k", "old");
    assert_string_equal(tier_box_say(rig->a, "GET k"), "$3\nold\n");
    tier_box_hold_writer(&rig->box);
    assert_string_equal(tier_box_say(rig->a, "DEL k"), ":1\n");
    bury_in_batch(rig, "k");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(count_now(rig, &exact), 1);
        assert_string_equal(tier_box_say(rig->a, "SET k new"), "+OK\n");
        assert_int_equal(count_now(rig, &exact), 2);
        assert_true(exact && tier_has_cold(rig->box.tier, 0));
        assert_string_equal(tier_box_say(rig->a, "GET k"), "$3\nnew\n");
        if (i < 2)
            assert_string_equal(tier_box_say(rig->a, "DEL k"), ":1\n");
        if (i < 2)
            assert_string_equal(tier_box_say(rig->a, "GET k"), "$-1\n");
    }
    commit(rig);
    assert_int_equal(record_of(rig, "k"), RECORD_NONE);
    assert_int_equal(count_now(rig, &exact), 2);
    tier_box_release_writer(&rig->box);
    make_cold(rig, 0, "k");
    assert_string_equal(tier_box_say(rig->a, "GET k"), "$3\nnew\n");
}

/* Rule 2. */

static void rule_2_a_blind_overwrite_reads_nothing_and_is_counted_once(void **state)
{
    struct rig *rig = *state;
    uint64_t reads;
    bool exact;

    for (int i = 0; i < 5; i++) {
        char key[] = "key0";

        key[3] = (char)('0' + i);
        set_cold(rig, 0, key, "v");
    }
    tier_box_hold_writer(&rig->box);
    reads = store_env_stats(rig->box.env).reads;
    assert_string_equal(tier_box_say(rig->a, "SET key0 x"), "+OK\n");
    assert_string_equal(tier_box_say(rig->a, "SET key1 x"), "+OK\n");
    assert_string_equal(tier_box_say(rig->a, "SET fresh x"), "+OK\n");
    assert_int_equal(store_env_stats(rig->box.env).reads, reads);
    assert_true(record_of(rig, "key0") == RECORD_UNKNOWN && record_of(rig, "fresh") == RECORD_NONE);
    assert_string_equal(tier_box_say(rig->a, "DEL key1"), ":1\n");
    count_now(rig, &exact);
    assert_false(exact);
    assert_string_equal(tier_box_say(rig->a, "GET key1"), "$-1\n");
    tier_box_begin(rig->a, "DBSIZE");
    tier_box_release_writer(&rig->box);
    assert_string_equal(tier_box_await(rig->a), ":5\n");
    tier_box_settle(&rig->box);
    assert_int_equal(record_of(rig, "key0"), RECORD_STALE);
    assert_string_equal(tier_box_say(rig->a, "DBSIZE"), ":5\n");
}

static void rule_2_a_false_maybe_is_distinguished_from_a_record(void **state)
{
    struct rig *rig = *state;

    make_other(rig);
    assert_string_equal(tier_box_say(rig->a, "SET x 1"), "+OK\n");      /* so that the keyspace is there */
    assert_string_equal(tier_box_say(rig->a, "DEL x"), ":1\n");
    change_tag(rig, "x", recordmap_add);
    assert_string_equal(tier_box_say(rig->a, "GET x"), "$-1\n");
    assert_int_equal(tier_box_stats(&rig->box).false_maybes, 1);
    tier_box_hold_writer(&rig->box);
    assert_string_equal(tier_box_say(rig->a, "SET x 2"), "+OK\n");
    assert_int_equal(record_of(rig, "x"), RECORD_UNKNOWN);
    tier_box_release_writer(&rig->box);
    tier_box_settle(&rig->box);
    assert_int_equal(record_of(rig, "x"), RECORD_NONE);
    assert_string_equal(tier_box_say(rig->a, "DEL x"), ":1\n");
    tier_box_hold_writer(&rig->box);
    assert_string_equal(tier_box_say(rig->a, "SET x 3"), "+OK\n");
    assert_string_equal(tier_box_say(rig->a, "DEL x"), ":1\n");         /* a grave without a record */
    tier_box_release_writer(&rig->box);
    tier_box_settle(&rig->box);
    assert_string_equal(tier_box_say(rig->a, "DBSIZE"), ":1\n");        /* the false tag alone, as it is taken for a record */
    change_tag(rig, "x", recordmap_remove);
}

static void rule_2_what_a_load_found_ends_with_a_new_value(void **state)
{
    struct rig *rig = *state;

    make_other(rig);
    set_cold(rig, 0, "y", "1");
    assert_string_equal(tier_box_say(rig->a, "SET x 1"), "+OK\n");
    assert_string_equal(tier_box_say(rig->a, "DEL x"), ":1\n");
    change_tag(rig, "x", recordmap_add);
    assert_false(tier_box_begin(rig->a, "MGET x y"));
    await_loads(rig);                           /* x is absent, for sure, as long as A has not read its mail */
    assert_true(tier_box_begin(rig->b, "SET x new"));
    assert_int_equal(record_of(rig, "x"), RECORD_NONE);
    make_cold(rig, 0, "x");
    tier_box_begin(rig->b, "GET x");
    assert_string_equal(tier_box_await(rig->b), "$3\nnew\n");
    assert_string_equal(tier_box_await(rig->a), "*2\n$3\nnew\n$1\n1\n");
    change_tag(rig, "x", recordmap_remove);
}

/* Rule 3. */

static void rule_3_a_deleted_key_stays_absent_while_its_record_is_there(void **state)
{
    struct rig *rig = *state;

    make_other(rig);
    set_cold(rig, 0, "k", "old");
    assert_string_equal(tier_box_say(rig->a, "EXISTS k"), ":1\n");
    tier_box_hold_writer(&rig->box);
    assert_string_equal(tier_box_say(rig->a, "DEL k"), ":1\n");
    assert_true(has_record(rig, 0, "k"));
    change_tag(rig, "k", recordmap_add);        /* another key's, too */
    assert_true(tier_box_begin(rig->a, "GET k"));
    assert_string_equal(tier_box_reply(rig->a), "$-1\n");
    assert_string_equal(tier_box_say(rig->a, "EXISTS k"), ":0\n");
    assert_string_equal(tier_box_say(rig->a, "TIER WHERE k"), "$-1\n");
    assert_string_equal(tier_box_say(rig->a, "SCAN 0 COUNT 100"), "*2\n$1\n0\n*0\n");
    assert_string_equal(tier_box_say(rig->a, "RANDOMKEY"), "$-1\n");
    change_tag(rig, "k", recordmap_remove);
    assert_string_equal(tier_box_say(rig->a, "APPEND k x"), ":1\n");
    assert_int_equal(record_of(rig, "k"), RECORD_STALE);
    tier_box_release_writer(&rig->box);
    tier_box_settle(&rig->box);
    assert_string_equal(tier_box_say(rig->a, "GET k"), "$1\nx\n");
}

/* Rule 4. */

static void rule_4_an_overwritten_load_brings_nothing_back(void **state)
{
    struct rig *rig = *state;

    set_cold(rig, 0, "k", "old");
    assert_false(tier_box_begin(rig->a, "GET k"));
    assert_true(tier_box_begin(rig->b, "SET k new"));
    await_loads(rig);
    assert_string_equal(tier_box_await(rig->a), "$3\nnew\n");
    assert_string_equal(tier_box_say(rig->b, "GET k"), "$3\nnew\n");
    assert_int_equal(tier_box_stats(&rig->box).promotions, 0);
}

static void rule_4_a_flushed_load_brings_nothing_back(void **state)
{
    struct rig *rig = *state;

    set_cold(rig, 0, "k", "old");
    assert_false(tier_box_begin(rig->a, "GET k"));
    assert_true(tier_box_begin(rig->b, "FLUSHDB"));
    assert_string_equal(tier_box_await(rig->a), "$-1\n");
    assert_false(tier_box_begin(rig->b, "SET k2 x") && rig->b->busy);
    await_loads(rig);
    assert_null(tier_box_entry(&rig->box, 0, "k"));
    assert_string_equal(tier_box_say(rig->a, "DBSIZE"), ":1\n");
}

static void rule_4_a_load_follows_its_keys_into_another_database(void **state)
{
    struct rig *rig = *state;

    set_cold(rig, 0, "k", "zero");
    set_cold(rig, 1, "k", "one");
    assert_false(tier_box_begin(rig->a, "GET k"));
    assert_true(tier_box_begin(rig->b, "SWAPDB 0 1"));
    assert_string_equal(tier_box_await(rig->a), "$3\none\n");
    rig->a->client.db = 1;
    assert_string_equal(tier_box_say(rig->a, "GET k"), "$4\nzero\n");
}

static void rule_4_an_older_read_installs_nothing_for_a_newer_wish(void **state)
{
    struct rig *rig = *state;

    set_cold(rig, 0, "k", "old");
    assert_false(tier_box_begin(rig->a, "GET k"));          /* ticket 1, on its way */
    assert_true(tier_box_begin(rig->b, "SET k new"));       /* void */
    make_cold(rig, 0, "k");
    assert_false(tier_box_begin(rig->b, "GET k"));          /* waits for the older read to end */
    assert_string_equal(tier_box_await(rig->b), "$3\nnew\n");
    assert_string_equal(tier_box_await(rig->a), "$3\nnew\n");
    assert_int_equal(tier_box_stats(&rig->box).promotions, 1);
}

/* The loader has the old record in hand while the key is overwritten, demoted and wished for again. The disk is slow, so that there is
 * time for that; were it not enough, the test would only be weaker. */
static void rule_4_an_old_record_is_not_installed_over_a_new_one(void **state)
{
    struct rig *rig = *state;
    struct disk_faults slow = { .seed = 1, .read_delay_us = 300000 };

    set_cold(rig, 0, "k", "old");
    tier_box_hold_writer(&rig->box);
    assert_int_equal(store_flush(rig->box.tier->store), STATUS_OK);
    tier_box_release_writer(&rig->box);
    faulty_disk_set(rig->box.disk, &slow);
    assert_false(tier_box_begin(rig->a, "GET k"));
    worker_end_turn(&rig->box.workers[0].worker);
    while (read_pool_queued(rig->box.tier) > 0)
        ;
    tier_box_hold_writer(&rig->box);
    assert_true(tier_box_begin(rig->b, "SET k new"));
    {
        uint64_t hash;
        struct keyspace *keyspace = lock_key(rig, "k", &hash);

        /* Known to have a record, without the Get that would take its time. */
        keyspace_set_record(keyspace, tier_box_entry(&rig->box, 0, "k"), RECORD_STALE);
        partition_unlock(keyspace->partition);
    }
    put_into_batch(rig, "k");
    commit(rig);
    assert_null(tier_box_entry(&rig->box, 0, "k"));
    assert_false(tier_box_begin(rig->b, "GET k"));
    assert_string_equal(tier_box_await(rig->b), "$3\nnew\n");
    assert_string_equal(tier_box_await(rig->a), "$3\nnew\n");
    faulty_disk_set(rig->box.disk, NULL);
    tier_box_release_writer(&rig->box);
    assert_string_equal(tier_box_say(rig->a, "GET k"), "$3\nnew\n");
}

static void rule_4_a_key_read_in_place_is_not_installed_twice(void **state)
{
    struct rig *rig = *state;

    set_cold(rig, 0, "k", "old");
    rig->b->client.db = 1;
    assert_true(tier_box_begin(rig->b, "SET source x"));
    assert_false(tier_box_begin(rig->a, "GET k"));
    assert_true(tier_box_begin(rig->b, "COPY source k DB 0"));
    assert_string_equal(tier_box_reply(rig->b), ":0\n");
    await_loads(rig);
    assert_string_equal(tier_box_await(rig->a), "$3\nold\n");
    assert_true(tier_box_stats(&rig->box).promotions == 1 && tier_box_stats(&rig->box).unplanned_reads == 1);
}

/* Rule 5. */

static void rule_5_a_key_is_pinned_until_all_clients_that_waited_have_run(void **state)
{
    struct rig *rig = *state;

    set_cold(rig, 0, "k", "v");
    assert_false(tier_box_begin(rig->a, "GET k"));
    assert_false(tier_box_begin(rig->b, "STRLEN k"));
    await_loads(rig);
    assert_true(tier_box_entry(&rig->box, 0, "k")->flags & ENTRY_PINNED);
    assert_int_equal(tier_demote(rig->box.tier, 0, BYTES("k")), TIER_BUSY);
    tier_box_close_client(rig->a);
    assert_int_equal(tier_demote(rig->box.tier, 0, BYTES("k")), TIER_BUSY);
    assert_string_equal(tier_box_await(rig->b), ":1\n");
    assert_false(tier_box_entry(&rig->box, 0, "k")->flags & ENTRY_PINNED);
    make_cold(rig, 0, "k");
    rig->a = tier_box_open_client(&rig->box, 0);
}

static void rule_5_a_client_that_is_closed_before_its_load_leaves_no_pin(void **state)
{
    struct rig *rig = *state;

    set_cold(rig, 0, "k", "v");
    set_cold(rig, 0, "j", "w");
    assert_false(tier_box_begin(rig->a, "MGET k j k"));
    tier_box_close_client(rig->a);
    rig->a = tier_box_open_client(&rig->box, 0);
    await_loads(rig);
    assert_int_equal(rig->box.engine.clients.parked, 0);
    if (tier_box_entry(&rig->box, 0, "k") != NULL)
        make_cold(rig, 0, "k");
    assert_string_equal(tier_box_say(rig->a, "GET k"), "$1\nv\n");
}

static void rule_5_the_sweep_leaves_pinned_keys_alone(void **state)
{
    struct rig *rig = *state;
    struct demote_targets targets = { .batch = &rig->batch };
    struct random random;
    struct keyspace *keyspace;
    uint64_t hash;

    random_init(&random, rig->box.seed);
    set_cold(rig, 0, "k", "v");
    assert_false(tier_box_begin(rig->a, "GET k"));
    await_loads(rig);
    tier_box_hold_writer(&rig->box);
    for (int i = 0; i < 10; i++) {
        keyspace = lock_key(rig, "k", &hash);
        demotion_window(rig->box.tier, keyspace, DEMOTE_SHARE_ONE, DEMOTE_ALL, &targets, &random);
        partition_unlock(keyspace->partition);
    }
    assert_non_null(tier_box_entry(&rig->box, 0, "k"));
    assert_int_equal(rig->batch.count, 0);
    assert_string_equal(tier_box_await(rig->a), "$1\nv\n");
    keyspace = lock_key(rig, "k", &hash);
    for (int i = 0; i < 10; i++)
        demotion_window(rig->box.tier, keyspace, DEMOTE_SHARE_ONE, DEMOTE_ALL, &targets, &random);
    partition_unlock(keyspace->partition);
    assert_null(tier_box_entry(&rig->box, 0, "k"));         /* clean: dropped at once */
    tier_box_release_writer(&rig->box);
    key_list_release(&targets.unknown);
    key_list_release(&targets.big);
}

/* Rule 6. */

static void rule_6_what_was_changed_after_it_was_encoded_stays(void **state)
{
    static const char *const changes[][2] = {
        { "SET k new", "$3\nnew\n" }, { "APPEND k !", "$2\nv!\n" }, { "PEXPIREAT k 9999999999999", "$1\nv\n" }, { "RENAME k other", "$-1\n" },
        { "DEL k", "$-1\n" }, { "GETDEL k", "$-1\n" }, { "SETRANGE k 1 x", "$2\nvx\n" },
    };
    struct rig *rig = *state;

    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        assert_string_equal(tier_box_say(rig->a, "FLUSHALL"), "+OK\n");
        assert_string_equal(tier_box_say(rig->a, "SET k v"), "+OK\n");
        tier_box_hold_writer(&rig->box);
        put_into_batch(rig, "k");
        assert_true(tier_box_entry(&rig->box, 0, "k")->flags & ENTRY_WRITING);
        tier_box_say(rig->a, changes[i][0]);
        commit(rig);
        if (tier_box_entry(&rig->box, 0, "k") != NULL)
            assert_int_equal(record_of(rig, "k"), RECORD_STALE);
        tier_box_release_writer(&rig->box);
        tier_box_settle(&rig->box);
        assert_string_equal(tier_box_say(rig->a, "GET k"), changes[i][1]);
    }
    assert_string_equal(tier_box_say(rig->a, "DEL k other"), ":1\n");
    assert_string_equal(tier_box_say(rig->a, "SET k v"), "+OK\n");
    tier_box_hold_writer(&rig->box);
    put_into_batch(rig, "k");
    tier_box_say(rig->a, "DEL k");
    tier_box_say(rig->a, "SET k v");            /* equal, but another one */
    commit(rig);
    assert_int_equal(record_of(rig, "k"), RECORD_STALE);
    put_into_batch(rig, "k");
    tier_box_say(rig->a, "GET k");              /* a look is no change */
    commit(rig);
    assert_null(tier_box_entry(&rig->box, 0, "k"));
    tier_box_release_writer(&rig->box);
}

static void rule_6_a_flush_between_encoding_and_writing_leaves_nothing(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(tier_box_say(rig->a, "SET k v"), "+OK\n");
    tier_box_hold_writer(&rig->box);
    put_into_batch(rig, "k");
    assert_string_equal(tier_box_say(rig->a, "FLUSHDB"), "+OK\n");
    assert_string_equal(tier_box_say(rig->a, "SET k new"), "+OK\n");
    commit(rig);
    assert_int_equal(record_of(rig, "k"), RECORD_NONE);
    tier_box_release_writer(&rig->box);
    tier_box_settle(&rig->box);
    assert_string_equal(tier_box_say(rig->a, "GET k"), "$3\nnew\n");
}

/* Rule 7. */

/* So that more than a byte is in use, wherever memory is counted. */
static void fill(struct rig *rig)
{
    char value[4001], key[] = "fill0";

    memset(value, 'x', sizeof(value) - 1);
    value[4000] = 0;
    for (int i = 0; i < 12; i++) {          /* three in one partition, as heaps report what they use in steps */
        struct bytes words[] = { BYTES("SET"), bytes_of_string(key), bytes_of_string(value) };

        key[4] = (char)('a' + i);
        assert_true(tier_box_ask(rig->c, words, 3));
    }
}

static void set_memory_max(struct rig *rig, const char *value)
{
    struct message message = { "" };
    struct bytes name = BYTES("maxmemory"), bytes = bytes_of_string(value);

    assert_true(config_set(rig->box.engine.config, &name, &bytes, 1, &message));
}

/* The client has waited before it loaded. If it waited again, what it has loaded would have to go, for ever. */
static void rule_7_a_client_that_has_loaded_its_key_does_not_wait_for_memory_again(void **state)
{
    struct rig *rig = *state;
    struct box_worker *worker = &rig->box.workers[0];

    fill(rig);
    set_cold(rig, 0, "k", "v");
    assert_false(tier_box_begin(rig->a, "APPEND k !"));
    await_loads(rig);
    set_memory_max(rig, "1");
    tier_box_turn(worker, BOX_WAIT);
    assert_string_equal(tier_box_await(rig->a), ":2\n");
    assert_false(tier_box_entry(&rig->box, 0, "k")->flags & ENTRY_PINNED);
    tier_box_turn(worker, BOX_NO_WAIT);
    assert_false(tier_box_begin(rig->a, "APPEND k !"));
    assert_true(rig->a->busy && rig->a->client.parking.queue == PARKED_FOR_MEMORY && rig->a->client.loads.waits == NULL);
    make_cold(rig, 0, "k");                     /* so what it had can make room */
    set_memory_max(rig, "0");
    cron_tick(&worker->worker);
    assert_string_equal(tier_box_await(rig->a), ":3\n");
    assert_true(worker->worker.parking.queues[PARKED_FOR_MEMORY].first == NULL);
}

/* The writer measures it once a round. */
static void await_room(struct tier *tier, uint64_t full)
{
    for (int i = 0; i < 5000 && tier_memtable_room(tier) != full - store_memtable_memory(tier->store); i++)
        usleep(1000);
    assert_int_equal(tier_memtable_room(tier), full - store_memtable_memory(tier->store));
}

/* The first memtable is counted before it is there; what it takes is counted once. */
static void rule_7_memory_of_the_memtable_is_counted_before_it_is_taken(void **state)
{
    struct rig *rig = *state;
    struct tier *tier = rig->box.tier;
    uint64_t full = (uint64_t)tier_settings(tier)->write_buffer_size * 5 / 4, before;

    before = store_memtable_memory(tier->store);
    await_room(tier, full);
    assert_int_equal(memory_set_aside(&rig->box.engine), rig->box.engine.memory.excess + full - before);
    for (int i = 0; i < 300; i++) {
        char key[20];

        snprintf(key, sizeof(key), "key%d", i);
        set_cold(rig, 0, key, "v");
    }
    assert_true(store_memtable_memory(tier->store) > before);
    await_room(tier, full);
}

static void rule_7_an_old_wake_up_changes_nothing(void **state)
{
    struct rig *rig = *state;
    struct box_worker *worker = &rig->box.workers[0];

    fill(rig);
    set_memory_max(rig, "1");
    tier_box_turn(worker, BOX_NO_WAIT);
    assert_false(tier_box_begin(rig->a, "SET k v"));
    assert_false(tier_box_begin(rig->b, "SET k w"));
    for (int i = 0; i < 3; i++) {
        client_wake(&rig->a->client);
        tier_box_turn(worker, BOX_WAIT);
        assert_true(rig->a->busy && worker->worker.parking.queues[PARKED_FOR_MEMORY].first == &rig->a->client &&
            worker->worker.parking.queues[PARKED_FOR_MEMORY].last == &rig->b->client);
    }
    set_memory_max(rig, "0");
    cron_tick(&worker->worker);
    assert_string_equal(tier_box_await(rig->b), "+OK\n");
    assert_false(rig->a->busy);
    tier_box_hold_writer(&rig->box);
    assert_false(tier_box_begin(rig->a, "TIER DEMOTE k"));
    for (int i = 0; i < 3; i++) {
        client_wake(&rig->a->client);
        tier_box_turn(worker, BOX_WAIT);
        assert_true(rig->a->busy);
    }
    tier_box_release_writer(&rig->box);
    assert_string_equal(tier_box_await(rig->a), ":1\n");
    assert_int_equal(rig->box.engine.clients.parked, 0);
}

static void rule_7_a_client_that_waits_for_memory_may_be_closed(void **state)
{
    struct rig *rig = *state;
    struct box_worker *worker = &rig->box.workers[0];

    fill(rig);
    set_memory_max(rig, "1");
    tier_box_turn(worker, BOX_NO_WAIT);
    assert_false(tier_box_begin(rig->a, "SET k 1"));
    assert_false(tier_box_begin(rig->b, "SET k 2"));
    assert_false(tier_box_begin(rig->c, "SET k 3"));
    tier_box_close_client(rig->b);
    set_memory_max(rig, "0");
    cron_tick(&worker->worker);
    assert_string_equal(tier_box_await(rig->c), "+OK\n");
    assert_string_equal(tier_box_say(rig->a, "GET k"), "$1\n3\n");
    rig->b = tier_box_open_client(&rig->box, 0);
}

/* Rule 8. */

static void rule_8_an_undeclared_cold_key_is_read_in_place(void **state)
{
    struct rig *rig = *state;

    set_cold(rig, 1, "target", "old");
    assert_string_equal(tier_box_say(rig->a, "SET source new"), "+OK\n");
    assert_string_equal(tier_box_say(rig->a, "COPY source target DB 1"), ":0\n");
    assert_int_equal(tier_box_stats(&rig->box).unplanned_reads, 1);
    make_cold(rig, 1, "target");
    assert_string_equal(tier_box_say(rig->a, "COPY source target DB 1 REPLACE"), ":1\n");       /* blind */
    assert_int_equal(tier_box_stats(&rig->box).unplanned_reads, 1);
    rig->b->client.db = 1;
    assert_string_equal(tier_box_say(rig->b, "GET target"), "$3\nnew\n");
}

/* Rule 9. */

/* As the writer does before it encodes without a lock. */
static void latch(struct rig *rig, const char *key)
{
    uint64_t hash;
    struct keyspace *keyspace = lock_key(rig, key, &hash);

    keyspace_entry(keyspace, keyspace_find(keyspace, hash, bytes_of_string(key)))->flags |= ENTRY_LATCHED;
    rig->box.tier->latch = (struct latch){ keyspace, hash, bytes_of_string(key), false };
    partition_unlock(keyspace->partition);
}

/* As the writer does afterwards; false: the object is not the entry's any more. */
static bool unlatch(struct rig *rig, const char *key)
{
    uint64_t hash;
    struct keyspace *keyspace = lock_key(rig, key, &hash);
    bool orphaned = rig->box.tier->latch.is_orphaned;

    if (!orphaned)
        keyspace_entry(keyspace, keyspace_find(keyspace, hash, bytes_of_string(key)))->flags &= (uint8_t)~ENTRY_LATCHED;
    rig->box.tier->latch = (struct latch){ 0 };
    partition_unlock(&rig->box.partitions->partitions[partition_index(rig->box.partitions, hash)]);
    rig->box.tier->hooks.memory_freed(rig->box.tier->hooks.context);
    return !orphaned;
}

static struct value object_of(struct rig *rig, const char *key)
{
    return entry_value(tier_box_entry(&rig->box, 0, key));
}

static void rule_9_readers_go_on_and_writers_wait_while_a_value_is_encoded(void **state)
{
    static const char *const writes[][2] = {
        { "HSET h f 2", ":0\n" }, { "HDEL h nothing", ":0\n" }, { "PEXPIREAT h 9999999999999", ":1\n" }, { "RENAME h h", "+OK\n" },
        { "SET h x", "+OK\n" }, { "DEL h", ":1\n" },
    };
    struct rig *rig = *state;

    for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
        assert_string_equal(tier_box_say(rig->a, "HSET h f 1"), ":1\n");
        tier_box_hold_writer(&rig->box);
        latch(rig, "h");
        assert_string_equal(tier_box_say(rig->a, "HGET h f"), "$1\n1\n");
        assert_string_equal(tier_box_say(rig->a, "COPY h elsewhere"), ":1\n");
        tier_box_turn(&rig->box.workers[0], BOX_NO_WAIT);
        assert_false(tier_box_begin(rig->b, writes[i][0]));
        client_wake(&rig->b->client);
        tier_box_turn(&rig->box.workers[0], BOX_WAIT);
        assert_true(rig->b->busy);
        assert_true(unlatch(rig, "h"));
        assert_string_equal(tier_box_await(rig->b), writes[i][1]);
        tier_box_release_writer(&rig->box);
        assert_string_equal(tier_box_say(rig->a, "FLUSHDB"), "+OK\n");
    }
}

static void rule_9_a_flush_or_an_undeclared_write_leaves_the_object_to_the_writer(void **state)
{
    struct rig *rig = *state;
    struct value object;

    assert_string_equal(tier_box_say(rig->a, "HSET h f 1"), ":1\n");
    tier_box_hold_writer(&rig->box);
    object = object_of(rig, "h");
    latch(rig, "h");
    assert_string_equal(tier_box_say(rig->a, "FLUSHALL"), "+OK\n");
    assert_string_equal(tier_box_say(rig->a, "HSET h f 2"), ":1\n");
    assert_false(unlatch(rig, "h"));
    value_free(&object);

    object = object_of(rig, "h");
    latch(rig, "h");
    rig->b->client.db = 1;
    assert_string_equal(tier_box_say(rig->b, "SET s x"), "+OK\n");
    assert_string_equal(tier_box_say(rig->b, "COPY s h DB 0 REPLACE"), ":1\n");
    assert_string_equal(tier_box_say(rig->a, "GET h"), "$1\nx\n");
    assert_false(unlatch(rig, "h"));
    value_free(&object);
    tier_box_release_writer(&rig->box);
}

static void rule_9_what_expires_while_it_is_encoded_goes_afterwards(void **state)
{
    struct rig *rig = *state;
    struct worker *worker = &rig->box.workers[0].worker;
    int64_t due_ms = clock_wall_ms() + HOUR_MS;
    char line[100];

    assert_string_equal(tier_box_say(rig->a, "HSET h f 1"), ":1\n");
    assert_string_equal(tier_box_say(rig->a, "HSET later f 1"), ":1\n");
    snprintf(line, sizeof(line), "PEXPIREAT h %lld", (long long)due_ms);
    assert_string_equal(tier_box_say(rig->a, line), ":1\n");
    tier_box_hold_writer(&rig->box);
    latch(rig, "h");
    worker->clock.wall_offset_ns += (HOUR_MS + 1000) * 1000000ll;     /* an hour passes */
    worker->turn.now_ms = due_ms + 1000;
    tier_box_begin(rig->a, "HGET h f");
    assert_string_equal(tier_box_reply(rig->a), "$-1\n");
    assert_non_null(tier_box_entry(&rig->box, 0, "h"));
    for (int i = 0; i < 100; i++)
        cron_tick(worker);
    assert_non_null(tier_box_entry(&rig->box, 0, "h"));
    assert_true(unlatch(rig, "h"));
    for (int i = 0; i < 100; i++)
        cron_tick(worker);
    assert_null(tier_box_entry(&rig->box, 0, "h"));
    assert_non_null(tier_box_entry(&rig->box, 0, "later"));
    tier_box_release_writer(&rig->box);
}

static void set_big_hash(struct rig *rig, const char *key, int fields)
{
    char line[100];

    for (int i = 0; i < fields; i++) {
        snprintf(line, sizeof(line), "HSET %s field:%d value", key, i);
        assert_string_equal(tier_box_say(rig->a, line), ":1\n");
    }
}

/* Freeing a value of a hundred megabytes takes tens of milliseconds. */
static void rule_9_a_big_value_is_freed_when_the_lock_is_given_back(void **state)
{
    struct rig *rig = *state;
    struct tier *tier = rig->box.tier;
    struct keyspace *keyspace;
    uint64_t hash;

    set_big_hash(rig, "big", 1000);
    assert_string_equal(tier_box_say(rig->a, "HSET small f 1"), ":1\n");
    make_cold(rig, 0, "big");
    make_cold(rig, 0, "small");
    assert_string_equal(tier_box_say(rig->a, "EXISTS big small"), ":2\n");
    tier_box_hold_writer(&rig->box);
    keyspace = lock_key(rig, "small", &hash);
    demote_entry(tier, keyspace, hash, keyspace_find(keyspace, hash, BYTES("small")));
    assert_int_equal(tier->demoted.count, 0);
    partition_unlock(keyspace->partition);
    keyspace = lock_key(rig, "big", &hash);
    demote_entry(tier, keyspace, hash, keyspace_find(keyspace, hash, BYTES("big")));
    assert_int_equal(tier->demoted.count, 1);
    partition_unlock(keyspace->partition);
    demoted_free(tier);
    assert_int_equal(tier->demoted.count, 0);
    tier_box_release_writer(&rig->box);
    assert_string_equal(tier_box_say(rig->a, "HLEN big"), ":1000\n");
}

/* A batch with others in it, and a big one in between: each gets its record. */
static void rule_9_a_big_value_among_others_is_written(void **state)
{
    struct rig *rig = *state;
    struct bytes keys[] = { BYTES("a"), BYTES("big"), BYTES("b"), BYTES("large"), BYTES("c") };
    enum tier_move moves[5];

    assert_string_equal(tier_box_say(rig->a, "SET a 1"), "+OK\n");
    assert_string_equal(tier_box_say(rig->a, "SET b 2"), "+OK\n");
    assert_string_equal(tier_box_say(rig->a, "SET c 3"), "+OK\n");
    set_big_hash(rig, "big", 1000);
    set_big_hash(rig, "large", 1200);
    tier_demote_many(rig->box.tier, 0, keys, 5, moves);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(moves[i], TIER_MOVED);
        assert_int_equal(tier_where(rig->box.tier, 0, keys[i]), TIER_COLD);
    }
    assert_string_equal(tier_box_say(rig->a, "HLEN large"), ":1200\n");
    assert_string_equal(tier_box_say(rig->a, "HGET big field:999"), "$5\nvalue\n");
    assert_string_equal(tier_box_say(rig->a, "GET b"), "$1\n2\n");
}

/* Rule 10. */

/* As the writer would some time later. */
static size_t sweep_later(struct rig *rig, int64_t now_ms)
{
    bool more;
    size_t looked;

    tier_set_expiry(rig->box.tier, true);
    looked = expiry_step(rig->box.tier, now_ms, 100, &rig->batch, &more);
    tier_set_expiry(rig->box.tier, false);
    commit(rig);
    return looked;
}

static void rule_10_the_expirer_only_nominates(void **state)
{
    struct rig *rig = *state;
    int64_t now_ms = clock_wall_ms();
    char line[100];

    const char *const keys[] = { "gone", "persists", "later", "hot", "awaited", "deleted", "overwritten" };
    const size_t count = sizeof(keys) / sizeof(keys[0]);

    for (size_t i = 0; i < count; i++) {
        snprintf(line, sizeof(line), "SET %s v PXAT %lld", keys[i], (long long)now_ms + HOUR_MS);
        assert_string_equal(tier_box_say(rig->a, line), "+OK\n");
        make_cold(rig, 0, keys[i]);
    }
    assert_string_equal(tier_box_say(rig->a, "PERSIST persists"), ":1\n");
    make_cold(rig, 0, "persists");
    snprintf(line, sizeof(line), "PEXPIREAT later %lld", (long long)now_ms + 3ll * HOUR_MS);
    assert_string_equal(tier_box_say(rig->a, line), ":1\n");
    make_cold(rig, 0, "later");
    assert_string_equal(tier_box_say(rig->a, "GET hot"), "$1\nv\n");
    tier_box_hold_writer(&rig->box);
    assert_string_equal(tier_box_say(rig->a, "DEL deleted"), ":1\n");
    assert_string_equal(tier_box_say(rig->a, "SET overwritten w"), "+OK\n");
    assert_false(tier_box_begin(rig->b, "GET awaited"));
    assert_int_equal(sweep_later(rig, now_ms + 2 * HOUR_MS), count - 2);     /* the hot and the awaited come again */
    assert_int_equal(rig->box.expired_count, 1);
    assert_false(has_record(rig, 0, "gone"));
    assert_string_equal(tier_box_say(rig->a, "EXISTS gone"), ":0\n");
    assert_string_equal(tier_box_await(rig->b), "$1\nv\n");
    for (int i = 0; i < 3; i++)
        sweep_later(rig, now_ms + 2 * HOUR_MS);
    tier_box_release_writer(&rig->box);
    assert_string_equal(tier_box_say(rig->a, "MGET persists later hot awaited overwritten deleted"),
        "*6\n$1\nv\n$1\nv\n$1\nv\n$1\nv\n$1\nw\n$-1\n");
    assert_int_equal(rig->box.expired_count, 1);
}

static void rule_10_a_key_that_was_hot_as_it_was_nominated_is_nominated_again(void **state)
{
    struct rig *rig = *state;
    int64_t now_ms = clock_wall_ms();
    char line[100];

    snprintf(line, sizeof(line), "SET k v PXAT %lld", (long long)now_ms + HOUR_MS);
    assert_string_equal(tier_box_say(rig->a, line), "+OK\n");
    make_cold(rig, 0, "k");
    assert_string_equal(tier_box_say(rig->a, "GET k"), "$1\nv\n");
    tier_box_hold_writer(&rig->box);
    sweep_later(rig, now_ms + 2 * HOUR_MS);
    tier_box_release_writer(&rig->box);
    make_cold(rig, 0, "k");                     /* clean: nothing is written */
    tier_box_hold_writer(&rig->box);
    sweep_later(rig, now_ms + 3 * HOUR_MS);
    tier_box_release_writer(&rig->box);
    assert_int_equal(rig->box.expired_count, 1);
    assert_string_equal(tier_box_say(rig->a, "DBSIZE"), ":0\n");
}

/* Rule 11, beside tier_scan_test.c. */

/* More of them than are looked at in a round, and all due before the one that can be dealt with. */
static void rule_10_what_cant_be_read_does_not_hold_up_others(void **state)
{
    enum { DAMAGED = 250 };
    struct rig *rig = *state;
    uint64_t places[DAMAGED];
    struct store_batch *batch = store_batch_create();
    int64_t now_ms = clock_wall_ms();
    struct keyspace *keyspace;
    uint64_t hash;
    char line[100];

    snprintf(line, sizeof(line), "SET k v PXAT %lld", (long long)now_ms + HOUR_MS);
    assert_string_equal(tier_box_say(rig->a, line), "+OK\n");
    make_cold(rig, 0, "k");
    tier_box_hold_writer(&rig->box);
    keyspace = tier_box_keyspace(&rig->box, 0, BYTES("k"), &hash);
    partition_lock(keyspace->partition);
    for (uint64_t i = 1; i <= DAMAGED; i++) {
        store_batch_index(batch, 1, hash ^ i, BYTES("damaged"));
        places[i - 1] = store_batch_append(rig->box.tier->store, batch, 0, 1, 0, BYTES("damaged"), BYTES("\xff\xff\xff"), 0);
        store_batch_put_expiry(batch, now_ms + HOUR_MS / 2, 1, hash ^ i, BYTES("damaged"));
        recordmap_add(keyspace->tier->map, hash ^ i, BYTES("damaged"), places[i - 1]);
    }
    partition_unlock(keyspace->partition);
    assert_int_equal(store_write(rig->box.tier->store, batch), STATUS_OK);
    for (int i = 0; i < DAMAGED / 100 + 1; i++)
        sweep_later(rig, now_ms + 2 * HOUR_MS);
    assert_int_equal(rig->box.expired_count, 1);
    assert_false(has_record(rig, 0, "k"));
    assert_int_equal(sweep_later(rig, now_ms + 2 * HOUR_MS), 0);
    /* They can be dealt with at last: these are found again. */
    store_batch_clear(batch);
    for (uint64_t i = 1; i <= DAMAGED; i++)
        store_batch_delete(batch, 1, hash ^ i, BYTES("damaged"));
    assert_int_equal(store_write(rig->box.tier->store, batch), STATUS_OK);
    assert_int_equal(sweep_later(rig, now_ms + 3 * HOUR_MS), 100);
    assert_int_equal(sweep_later(rig, now_ms + 3 * HOUR_MS), 100);
    assert_int_equal(sweep_later(rig, now_ms + 3 * HOUR_MS), 50);
    partition_lock(keyspace->partition);
    for (uint64_t i = 1; i <= DAMAGED; i++) {
        recordmap_remove(keyspace->tier->map, hash ^ i, BYTES("damaged"), places[i - 1]);
        segments_dead(store_segments(rig->box.tier->store), places[i - 1]);
    }
    partition_unlock(keyspace->partition);
    tier_box_release_writer(&rig->box);
    store_batch_destroy(batch);
}

static void rule_11_the_record_of_a_live_key_is_never_deleted(void **state)
{
    struct rig *rig = *state;

    set_cold(rig, 0, "k", "1");
    assert_string_equal(tier_box_say(rig->a, "INCR k"), ":2\n");
    for (int i = 0; i < 5; i++) {
        tier_box_settle(&rig->box);
        assert_true(has_record(rig, 0, "k"));
        assert_string_equal(tier_box_say(rig->a, "SET k 7"), "+OK\n");
    }
    assert_int_equal(record_of(rig, "k"), RECORD_STALE);
}

#define RULE(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(rule_1_a_tag_is_there_before_its_record_and_goes_after_it),
        RULE(rule_1_a_key_that_comes_back_while_it_is_buried_has_no_record),
        RULE(rule_2_a_blind_overwrite_reads_nothing_and_is_counted_once),
        RULE(rule_2_a_false_maybe_is_distinguished_from_a_record),
        RULE(rule_2_what_a_load_found_ends_with_a_new_value),
        RULE(rule_3_a_deleted_key_stays_absent_while_its_record_is_there),
        RULE(rule_4_an_overwritten_load_brings_nothing_back),
        RULE(rule_4_a_flushed_load_brings_nothing_back),
        RULE(rule_4_a_load_follows_its_keys_into_another_database),
        RULE(rule_4_an_older_read_installs_nothing_for_a_newer_wish),
        RULE(rule_4_an_old_record_is_not_installed_over_a_new_one),
        RULE(rule_4_a_key_read_in_place_is_not_installed_twice),
        RULE(rule_5_a_key_is_pinned_until_all_clients_that_waited_have_run),
        RULE(rule_5_a_client_that_is_closed_before_its_load_leaves_no_pin),
        RULE(rule_5_the_sweep_leaves_pinned_keys_alone),
        RULE(rule_6_what_was_changed_after_it_was_encoded_stays),
        RULE(rule_6_a_flush_between_encoding_and_writing_leaves_nothing),
        RULE(rule_7_a_client_that_has_loaded_its_key_does_not_wait_for_memory_again),
        RULE(rule_7_memory_of_the_memtable_is_counted_before_it_is_taken),
        RULE(rule_7_an_old_wake_up_changes_nothing),
        RULE(rule_7_a_client_that_waits_for_memory_may_be_closed),
        RULE(rule_8_an_undeclared_cold_key_is_read_in_place),
        RULE(rule_9_readers_go_on_and_writers_wait_while_a_value_is_encoded),
        RULE(rule_9_a_flush_or_an_undeclared_write_leaves_the_object_to_the_writer),
        RULE(rule_9_what_expires_while_it_is_encoded_goes_afterwards),
        RULE(rule_9_a_big_value_is_freed_when_the_lock_is_given_back),
        RULE(rule_9_a_big_value_among_others_is_written),
        RULE(rule_10_the_expirer_only_nominates),
        RULE(rule_10_a_key_that_was_hot_as_it_was_nominated_is_nominated_again),
        RULE(rule_10_what_cant_be_read_does_not_hold_up_others),
        RULE(rule_11_the_record_of_a_live_key_is_never_deleted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
