/* The checkpoint's half in the tier: an image has all that was there at the cut, and nothing else; what happens beside it, or after
 * one that failed, loses nothing and brings nothing back. */
#include "support/unit.h"

#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/message.h"
#include "support/image_records.h"
#include "support/tier_box.h"
#include "tier/batch.h"
#include "tier/demotion.h"
#include "tier/grave.h"
#include "tier/image.h"
#include "tier/pause.h"
#include "tier/seal.h"
#include "tier/sweep.h"
#include "tier/tier_private.h"

enum { KEYS = 200, PATIENCE_US = 60000000 };

struct rig {
    struct tier_box box;
    struct box_client *client;
    int images;
    char image[300];                /* the last one's directory */
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

    faulty_disk_set(rig->box.disk, NULL);
    tier_box_end(&rig->box, rig->client);
    mem_free(rig);
    return 0;
}

static const char *say(struct rig *rig, const char *line)
{
    return tier_box_say(rig->client, line);
}

static const char *say_key(struct rig *rig, const char *format, int number)
{
    char line[100];

    snprintf(line, sizeof(line), format, number);
    return say(rig, line);
}

static void say_all(struct rig *rig, const char *format, const char *wanted)
{
    for (int i = 0; i < KEYS; i++)
        assert_string_equal(say_key(rig, format, i), wanted);
}

static void cut(struct rig *rig)
{
    bool may;

    partitions_lock_all(rig->box.partitions);
    may = tier_may_cut(rig->box.tier);
    if (may)
        tier_cut(rig->box.tier);
    partitions_unlock_all(rig->box.partitions);
    assert_true(may);
}

static enum status take_image(struct rig *rig)
{
    struct message message;
    uint64_t number;

    snprintf(rig->image, sizeof(rig->image), "%s/image%d", rig->box.root, rig->images++);
    return tier_image(rig->box.tier, rig->image, &number, &message);
}

static struct store *open_image(struct rig *rig)
{
    char dir[400];
    struct message message;
    struct store_options options = { .dir = dir, .env = rig->box.env, .is_read_only = true };
    struct store *store;

    snprintf(dir, sizeof(dir), "%s/store", rig->image);
    assert_int_equal(store_open(&options, &store, &message), STATUS_OK);
    return store;
}

/* Whether the image has a record of the key in the database's first life, and that it holds the value. */
static bool has(struct rig *rig, struct store *store, const char *key, const char *value)
{
    struct bytes name = bytes_of_string(key);
    struct buffer record = { 0 };
    struct image_records records;
    enum status status;
    bool found;

    image_records_open(&records, rig->image, store);
    status = image_records_get(&records, 1, key_hash(&rig->box.partitions->seed, name), name, &record);
    image_records_close(&records);
    found = status == STATUS_OK && memmem(record.data, record.size, value, strlen(value)) != NULL;

    buffer_release(&record);
    assert_true(status == STATUS_OK || status == STATUS_NOT_FOUND);
    return found;
}

static void await_state(struct rig *rig, enum tier_state state)
{
    int64_t began_us = clock_mono_us();
    struct tier_stats stats;

    do {
        tier_nudge(rig->box.tier);
        tier_stats(rig->box.tier, &stats);
        BOX_DEMAND(&rig->box, clock_mono_us() - began_us < PATIENCE_US, "the store's state stays %d", (int)stats.state);
    } while (stats.state != state);
}

/* A checkpoint that fails before it has looked at anything. */
static void fail_image(struct rig *rig)
{
    rig->box.tier->image_cancelled = true;
    assert_int_equal(take_image(rig), STATUS_CANCELLED);
    rig->box.tier->image_cancelled = false;
}

/* As of a client that waits for the key. */
static void pin_all(struct rig *rig, bool pinned)
{
    for (int i = 0; i < KEYS; i++) {
        char key[20];
        struct entry *entry;

        snprintf(key, sizeof(key), "k%d", i);
        entry = tier_box_entry(&rig->box, 0, key);
        entry->flags = (uint8_t)(pinned ? entry->flags | ENTRY_PINNED : entry->flags & ~ENTRY_PINNED);
    }
}

static void an_image_after_one_that_failed_has_everything(void **state)
{
    struct rig *rig = *state;
    struct message message;
    struct store *store;
    int missing = 0;

    tier_image_begin(rig->box.tier);
    tier_box_hold_writer(&rig->box);
    say_all(rig, "SET k%d value", "+OK\n");
    pin_all(rig, true);             /* the clean pass leaves them to the checkpoint */
    tier_box_release_writer(&rig->box);
    cut(rig);
    fail_image(rig);
    assert_int_equal(tier_clean(rig->box.tier, &message), STATUS_OK);
    cut(rig);
    assert_int_equal(take_image(rig), STATUS_OK);
    tier_image_end(rig->box.tier);
    pin_all(rig, false);
    store = open_image(rig);
    for (int i = 0; i < KEYS; i++) {
        char key[20];

        snprintf(key, sizeof(key), "k%d", i);
        missing += !has(rig, store, key, "value");
    }
    store_close(store);
    BOX_DEMAND(&rig->box, missing == 0, "%d of %d keys are not in the image", missing, KEYS);
}

/* As after a write of the writer that failed, with nothing in its batch. */
static void break_store(struct rig *rig)
{
    struct store_batch *batch = store_batch_create();

    faulty_disk_set(rig->box.disk, &(struct disk_faults){ .write_error = 1000, .open_error = 1000 });
    /* A record that no map has. */
    segments_dead(store_segments(rig->box.tier->store), store_batch_append(rig->box.tier->store, batch, 0, UINT32_MAX, 0, BYTES("none"), BYTES("none"), 0));
    assert_int_not_equal(store_write(rig->box.tier->store, batch), STATUS_OK);
    store_batch_destroy(batch);
    rig->box.tier->state = TIER_ERROR;
}

static void a_key_set_again_over_a_pending_delete_survives_a_checkpoint_that_fails(void **state)
{
    struct rig *rig = *state;

    say_all(rig, "SET k%d old", "+OK\n");
    say_all(rig, "TIER DEMOTE k%d", ":1\n");
    tier_box_hold_writer(&rig->box);
    say_all(rig, "DEL k%d", ":1\n");
    cut(rig);
    say_all(rig, "SETRANGE k%d 4000 new", ":4003\n");
    break_store(rig);
    rig->box.tier->settings.memory_max = 1000;      /* everything is to go, as soon as the store is back */
    rig->box.tier->settings.high_percent = rig->box.tier->settings.low_percent = 1;
    tier_box_release_writer(&rig->box);
    assert_int_equal(take_image(rig), STATUS_CLOSED);
    faulty_disk_set(rig->box.disk, NULL);
    await_state(rig, TIER_OK);
    tier_box_settle(&rig->box);
    say_all(rig, "STRLEN k%d", ":4003\n");
    rig->box.tier->settings.memory_max = 0;
}

/* Who sees that the image failed, and no error of the store, may ask for the next one. */
static void a_store_that_fails_at_an_image_is_in_error_at_once(void **state)
{
    static const char *const files[] = { ".run", ".seg" };     /* the index, when the image is made; records, before */
    struct rig *rig = *state;
    struct tier_stats stats;
    struct message message;

    for (int i = 0; i < 2; i++) {
        say_all(rig, "SET k%d v", "+OK\n");
        say_all(rig, "TIER DEMOTE k%d", ":1\n");
        say_all(rig, "SET hot:k%d v", "+OK\n");
        cut(rig);
        faulty_disk_set(rig->box.disk, &(struct disk_faults){ .only = files[i], .write_error = 1000 });
        assert_int_not_equal(take_image(rig), STATUS_OK);
        tier_stats(rig->box.tier, &stats);
        assert_int_equal(stats.state, TIER_ERROR);
        faulty_disk_set(rig->box.disk, NULL);
        await_state(rig, TIER_OK);
        assert_int_equal(tier_clean(rig->box.tier, &message), STATUS_OK);      /* looks at what the failed image had not */
        cut(rig);
        assert_int_equal(take_image(rig), STATUS_OK);
    }
}

static void a_key_deleted_after_the_cut_does_not_come_back(void **state)
{
    struct rig *rig = *state;

    say_all(rig, "SETRANGE k%d 5000 old", ":5003\n");      /* a block each */
    say_all(rig, "TIER DEMOTE k%d", ":1\n");
    tier_box_hold_writer(&rig->box);
    assert_int_equal(store_flush(rig->box.tier->store), STATUS_OK);
    say_all(rig, "SET k%d blind", "+OK\n");
    say_all(rig, "DEL k%d", ":1\n");                /* whether there are records is unknown */
    faulty_disk_set(rig->box.disk, &(struct disk_faults){ .only = ".seg", .read_delay_us = 20000 });
    tier_box_release_writer(&rig->box);
    while (faulty_disk_reads(rig->box.disk) == 0)
        tier_nudge(rig->box.tier);                  /* until the writer is looking the first one up */
    say_all(rig, "SET k%d cut", "+OK\n");
    cut(rig);
    say_all(rig, "DEL k%d", ":1\n");
    faulty_disk_set(rig->box.disk, NULL);
    assert_int_equal(take_image(rig), STATUS_OK);
    say_all(rig, "GET k%d", "$-1\n");
    tier_box_settle(&rig->box);
    say_all(rig, "GET k%d", "$-1\n");
}

static uint64_t lone_reads(struct rig *rig)
{
    struct segments_stats stats;

    segments_measure(store_segments(rig->box.tier->store), &stats);
    return stats.reads;
}

/* Whether they have records is unknown; to read one after the other takes the writer a second for some thousands. */
static void values_that_are_handed_over_are_looked_up_together(void **state)
{
    struct rig *rig = *state;
    struct store *store;
    uint64_t before;

    say_all(rig, "SET k%d old", "+OK\n");
    say_all(rig, "TIER DEMOTE k%d", ":1\n");
    tier_box_hold_writer(&rig->box);
    say_all(rig, "SET k%d cut", "+OK\n");
    cut(rig);
    say_all(rig, "SET k%d younger", "+OK\n");
    before = lone_reads(rig);
    tier_box_release_writer(&rig->box);
    assert_int_equal(take_image(rig), STATUS_OK);
    assert_int_equal(lone_reads(rig) - before, 0);
    store = open_image(rig);
    assert_true(has(rig, store, "k0", "cut") && has(rig, store, "k199", "cut"));
    store_close(store);
    say_all(rig, "GET k%d", "$7\nyounger\n");
}

static void what_was_deleted_before_a_flush_is_not_in_the_image(void **state)
{
    struct rig *rig = *state;
    struct store *store;
    int there = 0;

    say_all(rig, "SET k%d old", "+OK\n");
    say_all(rig, "TIER DEMOTE k%d", ":1\n");
    assert_string_equal(say(rig, "SET stays here"), "+OK\n");
    tier_box_hold_writer(&rig->box);
    say_all(rig, "DEL k%d", ":1\n");
    cut(rig);
    assert_string_equal(say(rig, "FLUSHDB"), "+OK\n");
    tier_box_release_writer(&rig->box);
    assert_int_equal(take_image(rig), STATUS_OK);
    store = open_image(rig);
    assert_true(has(rig, store, "stays", "here"));
    for (int i = 0; i < KEYS; i++) {
        char key[20];

        snprintf(key, sizeof(key), "k%d", i);
        there += has(rig, store, key, "old");
    }
    store_close(store);
    BOX_DEMAND(&rig->box, there == 0, "%d of %d deleted keys are in the image", there, KEYS);
}

/* The first 100 keys are deleted before the cut, the others after it. This thread does what the writer does in a round. */
static void deletes_since_the_cut_are_not_walked_in_each_round(void **state)
{
    struct rig *rig = *state;
    struct tier *tier = rig->box.tier;
    struct batch *batch = mem_zalloc(sizeof(*batch));
    uint32_t next = 0;
    size_t buried = 0;
    uint64_t seen;

    say_all(rig, "SET k%d old", "+OK\n");
    say_all(rig, "TIER DEMOTE k%d", ":1\n");
    tier_box_hold_writer(&rig->box);
    for (int i = 0; i < KEYS / 2; i++)
        assert_string_equal(say_key(rig, "DEL k%d", i), ":1\n");
    cut(rig);
    for (int i = KEYS / 2; i < KEYS; i++)
        assert_string_equal(say_key(rig, "DEL k%d", i), ":1\n");
    batch_init(batch);
    for (uint32_t i = 0; i < tier->partitions->count; i++)
        buried += sweep_graves(tier, KEYS, batch, &next);
    assert_int_equal(buried, KEYS / 2);
    assert_int_equal(batch_commit(tier, batch), STATUS_OK);
    seen = tier->statistics.graves_seen;
    assert_int_equal(sweep_graves(tier, KEYS, batch, &next), 0);
    seen = tier->statistics.graves_seen - seen;
    BOX_DEMAND(&rig->box, seen <= tier->partitions->count && seen < KEYS / 4, "%d of %d deletes were looked at", (int)seen, KEYS / 2);
    batch_release(batch);
    mem_free(batch);
    tier_box_release_writer(&rig->box);
    assert_int_equal(take_image(rig), STATUS_OK);
    tier_box_settle(&rig->box);
    assert_int_equal(tier->statistics.graves, 0);
    say_all(rig, "GET k%d", "$-1\n");
}

/* The delete of an old record is under way at the cut. */
static void a_value_over_a_delete_under_way_may_be_deleted_after_the_cut(void **state)
{
    struct rig *rig = *state;
    struct store *store;
    struct batch *batch;
    struct keyspace *keyspace;
    uint64_t hash;

    say(rig, "SET k old");
    say(rig, "SET l old");
    say(rig, "TIER DEMOTE k l");
    tier_box_hold_writer(&rig->box);
    assert_string_equal(say(rig, "DEL k l"), ":2\n");
    batch = mem_zalloc(sizeof(*batch));
    batch_init(batch);
    for (const char *key = "k"; key != NULL; key = *key == 'k' ? "l" : NULL) {
        keyspace = tier_box_keyspace(&rig->box, 0, bytes_of_string(key), &hash);
        partition_lock(keyspace->partition);
        batch_bury(batch, keyspace, grave_find(keyspace, hash, bytes_of_string(key)));
        partition_unlock(keyspace->partition);
    }
    assert_string_equal(say(rig, "MSET k cut l cut"), "+OK\n");
    cut(rig);
    assert_string_equal(say(rig, "DEL k"), ":1\n");
    assert_string_equal(say(rig, "DEL l"), ":1\n");
    assert_string_equal(say(rig, "SET l after"), "+OK\n");
    assert_int_equal(batch_commit(rig->box.tier, batch), STATUS_OK);
    batch_release(batch);
    mem_free(batch);
    tier_box_release_writer(&rig->box);
    assert_int_equal(take_image(rig), STATUS_OK);
    store = open_image(rig);
    assert_true(has(rig, store, "k", "cut"));
    assert_true(has(rig, store, "l", "cut"));
    store_close(store);
    assert_string_equal(say(rig, "GET k"), "$-1\n");
    assert_string_equal(say(rig, "TIER DEMOTE l"), ":1\n");
    tier_box_settle(&rig->box);
    assert_string_equal(say(rig, "GET k"), "$-1\n");
    assert_string_equal(say(rig, "GET l"), "$5\nafter\n");
}

static void *clean(void *context)
{
    struct rig *rig = context;
    struct message message;

    (void)tier_clean(rig->box.tier, &message);
    return NULL;
}

/* Clients change every key after each step. */
static void dirty_all(void *context)
{
    struct rig *rig = context;

    for (int i = 0; i < KEYS; i++) {
        struct keyspace *keyspace;
        char key[20];
        uint64_t hash;
        uint32_t handle;

        snprintf(key, sizeof(key), "k%d", i);
        keyspace = tier_box_keyspace(&rig->box, 0, bytes_of_string(key), &hash);
        partition_lock(keyspace->partition);
        handle = keyspace_find(keyspace, hash, bytes_of_string(key));
        if (entry_record(keyspace_entry(keyspace, handle)) == RECORD_CLEAN)
            keyspace_set_record(keyspace, keyspace_entry(keyspace, handle), RECORD_STALE);
        partition_unlock(keyspace->partition);
    }
}

static void before_the_cut_each_key_is_written_once_however_many_change(void **state)
{
    struct rig *rig = *state;
    uint64_t before;

    tier_box_hold_writer(&rig->box);
    say_all(rig, "SET k%d value", "+OK\n");
    before = rig->box.tier->statistics.record_count;
    rig->box.memory_freed_context = rig;
    rig->box.memory_freed = dirty_all;
    tier_box_release_writer(&rig->box);
    clean(rig);
    tier_box_hold_writer(&rig->box);
    rig->box.memory_freed = NULL;
    BOX_DEMAND(&rig->box, rig->box.tier->statistics.record_count - before == KEYS, "%llu keys were written",
        (unsigned long long)(rig->box.tier->statistics.record_count - before));
    tier_box_release_writer(&rig->box);
}

static void await_image_request(struct tier *tier)
{
    bool asked = false;

    while (!asked) {
        mutex_lock(&tier->requests.lock);
        asked = tier->requests.image != NULL;
        mutex_unlock(&tier->requests.lock);
    }
}

struct full_memory {
    struct tier *tier;
    struct batch batch;
    bool was_demoting;
};

/* Too much until there is demotion; then there is a step of the checkpoint, and memory is free. */
static uint64_t use_memory(void *context)
{
    struct full_memory *memory = context;

    if (!tier_is_demoting(memory->tier))
        return memory->was_demoting ? 0 : 1000;
    if (!memory->was_demoting)
        seal_step(memory->tier, &memory->batch, 0);
    memory->was_demoting = true;
    return 0;
}

static void forget(void *context)
{
    (void)context;
}

static void while_keys_are_demoted_the_cut_waits_for_no_pass(void **state)
{
    struct rig *rig = *state;
    struct tier *tier = rig->box.tier;
    struct tier_hooks hooks = tier->hooks;
    struct full_memory memory = { .tier = tier };
    pthread_t thread;

    tier_box_hold_writer(&rig->box);
    batch_init(&memory.batch);
    say_all(rig, "SET k%d value", "+OK\n");
    assert_int_equal(pthread_create(&thread, NULL, clean, rig), 0);
    await_image_request(tier);
    seal_step(tier, &memory.batch, 0);
    assert_true(tier_is_sealing(tier));     /* a step in which nothing could be done */
    tier->settings.memory_max = 100;
    tier->hooks.context = &memory;
    tier->hooks.memory_used = use_memory;
    tier->hooks.memory_freed = forget;
    assert_false(demotion_run(tier));
    assert_true(memory.was_demoting);
    assert_false(tier_is_sealing(tier));    /* the same, with demotion under way */
    tier->settings.memory_max = 0;
    tier->hooks = hooks;
    tier_box_release_writer(&rig->box);
    pthread_join(thread, NULL);
    batch_release(&memory.batch);
}

static void older_values_are_written_before_the_next_clean_pass(void **state)
{
    struct rig *rig = *state;
    struct tier *tier = rig->box.tier;
    struct batch batch;
    pthread_t thread;

    tier_box_hold_writer(&rig->box);
    batch_init(&batch);
    say_all(rig, "SET k%d cut", "+OK\n");
    cut(rig);
    say_all(rig, "SET k%d younger", "+OK\n");
    seal_stop(tier);
    assert_int_equal(pthread_create(&thread, NULL, clean, rig), 0);
    await_image_request(tier);
    seal_step(tier, &batch, PAUSE_STEP_US);
    assert_int_equal(batch.count, 0);
    tier_box_release_writer(&rig->box);
    pthread_join(thread, NULL);
    batch_release(&batch);          /* the clean pass has gone on with it */
    tier_box_settle(&rig->box);
    tier_box_verify(&rig->box);
    say_all(rig, "TIER DEMOTE k%d", ":1\n");
    say_all(rig, "GET k%d", "$7\nyounger\n");
}

struct changer {
    struct keyspace *keyspace;
    uint64_t hash;
};

static void *change(void *context)
{
    struct changer *changer = context;

    partition_lock(changer->keyspace->partition);
    partition_changing(changer->keyspace, changer->hash, keyspace_find(changer->keyspace, changer->hash, BYTES("k")));
    partition_unlock(changer->keyspace->partition);
    return NULL;
}

static void *stop(void *context)
{
    seal_stop(context);
    return NULL;
}

static void what_is_being_handed_over_as_a_checkpoint_fails_is_not_left_for_the_next(void **state)
{
    struct rig *rig = *state;
    struct tier *tier = rig->box.tier;
    struct changer changer = { 0 };
    struct batch batch;
    pthread_t thread, stopper;

    tier_box_hold_writer(&rig->box);
    batch_init(&batch);
    say(rig, "SET k cut");
    cut(rig);
    changer.keyspace = tier_box_keyspace(&rig->box, 0, BYTES("k"), &changer.hash);
    mutex_lock(&tier->handover.lock);
    assert_int_equal(pthread_create(&thread, NULL, change, &changer), 0);
    while (tier->handover.bytes == 0)
        ;                                   /* until it is about to hand over */
    assert_int_equal(pthread_create(&stopper, NULL, stop, tier), 0);
    mutex_unlock(&tier->handover.lock);
    pthread_join(stopper, NULL);
    seal_end(tier, &batch);
    pthread_join(thread, NULL);
    assert_int_equal(tier->epoch.phase, CHECKPOINT_NONE);
    assert_null(tier->handover.first);
    assert_int_equal(tier->handover.bytes, 0);
    batch_release(&batch);
}

static void a_record_that_cant_be_read_does_not_keep_a_failed_checkpoint(void **state)
{
    struct rig *rig = *state;
    int64_t began_us;

    say_all(rig, "SETRANGE k%d 5000 old", ":5003\n");
    say_all(rig, "TIER DEMOTE k%d", ":1\n");
    tier_box_hold_writer(&rig->box);
    assert_int_equal(store_flush(rig->box.tier->store), STATUS_OK);
    faulty_disk_set(rig->box.disk, &(struct disk_faults){ .read_error = 1000 });
    say_all(rig, "SET k%d blind", "+OK\n");
    cut(rig);
    say_all(rig, "DEL k%d", ":1\n");
    tier_box_release_writer(&rig->box);
    assert_int_not_equal(take_image(rig), STATUS_OK);
    began_us = clock_mono_us();
    while (rig->box.tier->epoch.phase)
        BOX_DEMAND(&rig->box, clock_mono_us() - began_us < PATIENCE_US / 10, "the checkpoint does not end");
    faulty_disk_set(rig->box.disk, NULL);
    say_all(rig, "GET k%d", "$-1\n");
    tier_box_settle(&rig->box);
    say_all(rig, "GET k%d", "$-1\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_image_after_one_that_failed_has_everything, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_key_set_again_over_a_pending_delete_survives_a_checkpoint_that_fails, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_store_that_fails_at_an_image_is_in_error_at_once, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_key_deleted_after_the_cut_does_not_come_back, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(values_that_are_handed_over_are_looked_up_together, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(what_was_deleted_before_a_flush_is_not_in_the_image, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(deletes_since_the_cut_are_not_walked_in_each_round, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_value_over_a_delete_under_way_may_be_deleted_after_the_cut, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(older_values_are_written_before_the_next_clean_pass, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(before_the_cut_each_key_is_written_once_however_many_change, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(while_keys_are_demoted_the_cut_waits_for_no_pass, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(what_is_being_handed_over_as_a_checkpoint_fails_is_not_left_for_the_next, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_record_that_cant_be_read_does_not_keep_a_failed_checkpoint, open_rig, close_rig),
    };

    cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
