/* Readers: workers read cold keys in batches. The ring is one over the box's disk (base/read_ring.h), which reads when the worker
 * submits; tests/spec/load_ring_test.py has the one over io_uring. */
#include "support/unit.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/random.h"
#include "support/tier_box.h"
#include "tier/reader.h"

enum { KEYS = 300, WORDS_MAX = KEYS + 1, LARGE = 100000, BETWEEN = 6000, MANY = 200 };

struct rig {
    struct tier_box box;
    struct box_client *a, *b;       /* of worker 0 */
    struct box_client *other;       /* of worker 1 */
    void (*ring)(void *context);
    int rung;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new(), .worker_count = 2, .reads_by_ring = true };

    tier_box_create(&rig->box, &options);
    rig->a = tier_box_open_client(&rig->box, 0);
    rig->b = tier_box_open_client(&rig->box, 0);
    rig->other = tier_box_open_client(&rig->box, 1);
    *state = rig;
    return 0;
}

static void turn_all(struct rig *rig)
{
    for (int i = 0; i < rig->box.engine.worker_count; i++)
        tier_box_turn(&rig->box.workers[i], BOX_NO_WAIT);
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    faulty_disk_set(rig->box.disk, NULL);
    tier_box_close_client(rig->a);
    tier_box_close_client(rig->b);
    tier_box_close_client(rig->other);
    for (int i = 0; i < 3; i++)
        turn_all(rig);
    tier_box_settle(&rig->box);
    tier_box_verify(&rig->box);
    tier_box_destroy(&rig->box);
    mem_free(rig);
    return 0;
}

static void make_cold(struct rig *rig, const char *key)
{
    assert_int_equal(tier_demote(rig->box.tier, 0, bytes_of_string(key)), TIER_MOVED);
}

static void set_cold(struct rig *rig, const char *key, const char *value)
{
    struct bytes words[] = { BYTES("SET"), bytes_of_string(key), bytes_of_string(value) };

    assert_true(tier_box_ask(rig->a, words, 3));
    make_cold(rig, key);
}

static void set_cold_keys(struct rig *rig, int count)
{
    char key[20], value[20];

    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        snprintf(value, sizeof(value), "value-%03d", i);
        set_cold(rig, key, value);
    }
}

/* MGET of all: the values as they were set, or NULL for an error. */
static bool read_all(struct rig *rig, struct box_client *client, int count)
{
    struct bytes words[WORDS_MAX] = { BYTES("MGET") };
    char keys[WORDS_MAX][20], *expected = mem_alloc(WORDS_MAX * 20);
    size_t at = (size_t)sprintf(expected, "*%d\n", count);
    bool is_right;

    for (int i = 0; i < count; i++) {
        snprintf(keys[i], sizeof(keys[i]), "k%d", i);
        words[i + 1] = bytes_of_string(keys[i]);
        at += (size_t)sprintf(expected + at, "$9\nvalue-%03d\n", i);
    }
    tier_box_ask(client, words, count + 1);
    is_right = strcmp(tier_box_await(client), expected) == 0;
    if (!is_right)
        assert_true(tier_box_reply(client)[0] == '-');
    mem_free(expected);
    return is_right;
}

static void the_cold_keys_of_a_turn_are_one_batch(void **state)
{
    struct rig *rig = *state;
    struct tier_stats stats;

    set_cold_keys(rig, 20);
    assert_false(tier_box_begin(rig->b, "GET k19"));
    assert_true(read_all(rig, rig->a, 19));
    assert_string_equal(tier_box_await(rig->b), "$9\nvalue-019\n");
    stats = tier_box_stats(&rig->box);
    assert_true(stats.reads_by_ring);
    assert_int_equal(stats.ring_reads, 20);
    assert_int_equal(stats.ring_batches, 1);
    assert_int_equal(stats.promotions, 20);
    assert_int_equal(stats.loads_waiting, 0);
}

static void count_ring(void *context)
{
    struct box_worker *worker = context;
    struct rig *rig = (struct rig *)worker->box;        /* its first field */

    rig->rung++;
    rig->ring(context);
}

static void clients_of_the_worker_go_on_in_the_turn_without_its_bell(void **state)
{
    struct rig *rig = *state;
    struct mailbox *mailbox = &rig->box.workers[0].worker.mailbox;

    set_cold_keys(rig, 2);
    rig->ring = mailbox->ring;
    mailbox->ring = count_ring;
    assert_false(tier_box_begin(rig->a, "GET k0"));
    assert_false(tier_box_begin(rig->b, "GET k1"));
    tier_box_turn(&rig->box.workers[0], BOX_NO_WAIT);
    assert_string_equal(tier_box_reply(rig->a), "$9\nvalue-000\n");
    assert_string_equal(tier_box_reply(rig->b), "$9\nvalue-001\n");
    mailbox->ring = rig->ring;
    assert_int_equal(rig->rung, 1);             /* by the ring, which has no descriptor that shows what was read */
}

static void a_client_of_another_worker_that_waits_for_the_same_key_is_woken(void **state)
{
    struct rig *rig = *state;

    set_cold(rig, "k", "v");
    assert_false(tier_box_begin(rig->a, "GET k"));
    assert_false(tier_box_begin(rig->other, "GET k"));
    tier_box_turn(&rig->box.workers[0], BOX_NO_WAIT);
    assert_string_equal(tier_box_reply(rig->a), "$1\nv\n");
    tier_box_turn(&rig->box.workers[1], BOX_WAIT);      /* fails if it is not rung */
    assert_string_equal(tier_box_reply(rig->other), "$1\nv\n");
    assert_int_equal(tier_box_stats(&rig->box).ring_reads, 1);
}

/* They are no neighbours: there is a larger record between any two. */
static void more_loads_than_the_ring_takes_wait_their_turn(void **state)
{
    struct rig *rig = *state;
    char key[20], value[20], *between = mem_alloc(BETWEEN + 1);

    memset(between, 'x', BETWEEN);
    between[BETWEEN] = '\0';
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        snprintf(value, sizeof(value), "value-%03d", i);
        set_cold(rig, key, value);
        snprintf(key, sizeof(key), "b%d", i);
        set_cold(rig, key, between);
    }
    mem_free(between);
    assert_true(read_all(rig, rig->a, KEYS));
    assert_int_equal(tier_box_stats(&rig->box).ring_reads, KEYS);
    assert_true(tier_box_stats(&rig->box).ring_batches >= KEYS / READER_DEPTH);
    assert_int_equal(tier_box_stats(&rig->box).loads_waiting, 0);
    assert_true(reader_reads(rig->box.workers[0].worker.reader) >= KEYS);
}

/* They are asked for in the other order. */
static void neighbours_are_one_read(void **state)
{
    struct rig *rig = *state;
    char key[20], value[20];

    for (int i = MANY - 1; i >= 0; i--) {
        snprintf(key, sizeof(key), "k%d", i);
        snprintf(value, sizeof(value), "value-%03d", i);
        set_cold(rig, key, value);
    }
    assert_true(read_all(rig, rig->a, MANY));
    assert_int_equal(reader_reads(rig->box.workers[0].worker.reader), 1);
    assert_int_equal(tier_box_stats(&rig->box).ring_reads, MANY);
    assert_int_equal(tier_box_stats(&rig->box).promotions, MANY);
}

static void large_records_are_left_to_the_pool(void **state)
{
    struct rig *rig = *state;
    char *value = mem_alloc(LARGE + 1);

    memset(value, 'x', LARGE);
    value[LARGE] = '\0';
    set_cold(rig, "large", value);
    set_cold(rig, "small", "v");
    assert_string_equal(tier_box_say(rig->a, "STRLEN large"), ":100000\n");
    assert_int_equal(tier_box_stats(&rig->box).ring_reads, 0);
    assert_string_equal(tier_box_say(rig->a, "STRLEN small"), ":1\n");
    assert_int_equal(tier_box_stats(&rig->box).ring_reads, 1);
    mem_free(value);
}

/* The record map has the place of another key's record, as if the tags were the same. */
static void a_false_maybe_is_absent(void **state)
{
    struct rig *rig = *state;
    struct keyspace *found, *missing;
    uint64_t found_hash, missing_hash, place = 0;

    tier_box_say(rig->a, "SET none 1");         /* so that its keyspace is there */
    tier_box_say(rig->a, "DEL none");
    set_cold(rig, "k", "v");
    found = tier_box_keyspace(&rig->box, 0, BYTES("k"), &found_hash);
    missing = tier_box_keyspace(&rig->box, 0, BYTES("none"), &missing_hash);
    partition_lock(found->partition);
    assert_true(recordmap_find(found->tier->map, found_hash, BYTES("k"), &place) && place != 0);
    partition_unlock(found->partition);
    partition_lock(missing->partition);
    recordmap_add(missing->tier->map, missing_hash, BYTES("none"), place);
    partition_unlock(missing->partition);
    assert_string_equal(tier_box_say(rig->a, "MGET none k"), "*2\n$-1\n$1\nv\n");
    assert_int_equal(tier_box_stats(&rig->box).false_maybes, 1);
    assert_int_equal(tier_box_stats(&rig->box).ring_reads, 2);
    partition_lock(missing->partition);
    recordmap_remove(missing->tier->map, missing_hash, BYTES("none"), place);
    partition_unlock(missing->partition);
}

static void what_is_written_or_flushed_meanwhile_is_not_overwritten(void **state)
{
    struct rig *rig = *state;

    set_cold(rig, "k", "old");
    assert_false(tier_box_begin(rig->a, "GET k"));
    worker_end_turn(&rig->box.workers[0].worker);       /* read, and not installed */
    assert_true(tier_box_begin(rig->other, "SET k new"));
    assert_string_equal(tier_box_await(rig->a), "$3\nnew\n");
    set_cold(rig, "k", "old");
    assert_false(tier_box_begin(rig->a, "GET k"));
    worker_end_turn(&rig->box.workers[0].worker);
    assert_true(tier_box_begin(rig->other, "FLUSHALL"));
    assert_string_equal(tier_box_await(rig->a), "$-1\n");
}

static void short_reads_are_continued(void **state)
{
    struct rig *rig = *state;
    struct disk_faults faults = { .seed = rig->box.seed, .read_short = 700 };

    set_cold_keys(rig, 50);
    faulty_disk_set(rig->box.disk, &faults);
    assert_true(read_all(rig, rig->a, 50));
    assert_int_equal(tier_box_stats(&rig->box).errors, 0);
}

static void make_all_cold(struct rig *rig, int count)
{
    char key[20];

    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        make_cold(rig, key);
    }
}

/* The ring leaves what it can't read to the pool, which reads again. */
static void errors_and_damage_are_never_values(void **state)
{
    struct rig *rig = *state;
    struct disk_faults faults = { .seed = rig->box.seed };
    bool has_failed = false;

    set_cold_keys(rig, 50);
    faults.read_error = 1000;
    faulty_disk_set(rig->box.disk, &faults);
    assert_false(read_all(rig, rig->a, 50));
    assert_true(tier_box_stats(&rig->box).errors > 0);
    faults.read_error = 0;
    faults.read_corrupt = 1000;
    /* One bit of each read is turned; at times it is of no record, or the record is right when it is read again. */
    for (int round = 0; round < 1000 && !has_failed; round++) {
        faults.seed++;
        faulty_disk_set(rig->box.disk, &faults);
        has_failed = !read_all(rig, rig->a, 50);
        faulty_disk_set(rig->box.disk, NULL);
        assert_true(read_all(rig, rig->a, 50));
        make_all_cold(rig, 50);
    }
    assert_true(has_failed);
    for (int round = 0; round < 20; round++) {
        faults.seed++;
        faults.read_error = faults.read_corrupt = faults.read_short = 100;
        faulty_disk_set(rig->box.disk, &faults);
        read_all(rig, rig->a, 50);
        faulty_disk_set(rig->box.disk, NULL);
        assert_true(read_all(rig, rig->a, 50));
        make_all_cold(rig, 50);
    }
    tier_box_settle(&rig->box);         /* a thread that has woken the client may not have counted its load yet */
}

static void a_reader_that_is_closed_leaves_no_load(void **state)
{
    struct rig *rig = *state;

    set_cold_keys(rig, KEYS);
    assert_false(tier_box_begin(rig->a, "GET k1"));
    assert_false(tier_box_begin(rig->b, "GET k2"));
    worker_end_turn(&rig->box.workers[0].worker);       /* read, and not installed */
    worker_close_reader(&rig->box.workers[0].worker);
    assert_int_equal(tier_box_stats(&rig->box).loads_waiting, 0);
    tier_box_turn(&rig->box.workers[0], BOX_NO_WAIT);
    assert_string_equal(tier_box_reply(rig->a), "$9\nvalue-001\n");
    assert_string_equal(tier_box_reply(rig->b), "$9\nvalue-002\n");
    assert_int_equal(worker_open_reader(&rig->box.workers[0].worker, true), -1);
    assert_string_equal(tier_box_say(rig->a, "GET k3"), "$9\nvalue-003\n");     /* by the pool */
    assert_int_equal(tier_box_stats(&rig->box).ring_reads, 2);
    worker_close_reader(&rig->box.workers[1].worker);
    assert_false(tier_box_stats(&rig->box).reads_by_ring);
}

static void a_client_that_is_closed_while_its_key_is_read_leaves_no_pin(void **state)
{
    struct rig *rig = *state;
    struct box_client *client = tier_box_open_client(&rig->box, 0);

    set_cold(rig, "k", "v");
    assert_false(tier_box_begin(client, "GET k"));
    worker_end_turn(&rig->box.workers[0].worker);
    tier_box_close_client(client);
    tier_box_turn(&rig->box.workers[0], BOX_NO_WAIT);
    assert_int_equal(tier_box_stats(&rig->box).loads_waiting, 0);
    assert_false(tier_box_entry(&rig->box, 0, "k")->flags & ENTRY_PINNED);
}

/* --- a reader that its owner waits for --- */

struct finding {
    struct tier_box *box;
    struct reading readings[KEYS + 2];
    char keys[KEYS + 2][20];
    _Atomic int found, absent, failed;
    _Atomic uint64_t bytes;
};

static void note_found(void *context, struct reading *reading, struct read_record *record)
{
    struct finding *finding = context;

    if (record->status == STATUS_OK) {
        CHECK(bytes_equal(record->key, reading->key));
        finding->found++;
        finding->bytes += record->bytes.size;
    } else if (record->status == STATUS_NOT_FOUND) {
        finding->absent++;
    } else {
        finding->failed++;
    }
    reading_end(reading);
}

static bool want(struct finding *finding, struct tier_reader *reader, int number, const char *name)
{
    struct partitions *all = finding->box->partitions;
    struct bytes key = bytes_of_string(strcpy(finding->keys[number], name));
    uint64_t hash = key_hash(&all->seed, key);

    if (!reading_begin_in(finding->box->tier, &all->partitions[partition_index(all, hash)], all->incarnations[0], hash, key, &finding->readings[number]))
        return false;
    reader_add(reader, &finding->readings[number]);
    return true;
}

/* Finds all, and a large one. */
static void find_all(struct rig *rig, struct tier_reader *reader, struct finding *finding)
{
    char key[20];

    finding->found = finding->absent = finding->failed = 0;
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        assert_true(want(finding, reader, i, key));
    }
    assert_true(want(finding, reader, KEYS, "large"));
    assert_false(want(finding, reader, KEYS + 1, "no such key"));
    reader_finish(reader);
    assert_int_equal(tier_box_stats(&rig->box).loads_waiting, 0);
}

static void finish_with(struct rig *rig, unsigned flight_max, bool without_ring)
{
    struct finding *finding = mem_zalloc(sizeof(*finding));
    struct disk_faults faults = { .seed = rig->box.seed, .only = ".seg", .read_error = 1000 };
    struct reader_options options = { .done = note_found, .context = finding, .record_max = READER_RECORD_MAX, .flight_max = flight_max,
        .without_ring = without_ring };
    struct tier_reader *reader = reader_open(rig->box.tier, &options);

    finding->box = &rig->box;
    reader_finish(reader);                      /* of nothing */
    find_all(rig, reader, finding);
    assert_int_equal(finding->found, KEYS + 1);
    assert_true(finding->bytes > LARGE + KEYS * sizeof("value"));
    faulty_disk_set(rig->box.disk, &faults);
    find_all(rig, reader, finding);
    assert_int_equal(finding->failed, KEYS + 1);
    for (int round = 0; round < 10; round++) {
        faults.seed++;
        faults.read_error = faults.read_corrupt = faults.read_short = 200;
        faulty_disk_set(rig->box.disk, &faults);
        find_all(rig, reader, finding);
        assert_int_equal(finding->found + finding->failed, KEYS + 1);
    }
    faulty_disk_set(rig->box.disk, NULL);
    find_all(rig, reader, finding);
    assert_int_equal(finding->found, KEYS + 1);
    for (int i = 0; i < 20; i++) {
        char key[20];

        snprintf(key, sizeof(key), "k%d", i);
        assert_true(want(finding, reader, i, key));
    }
    reader_close(reader);                       /* with readings that were not submitted */
    assert_int_equal(finding->found, KEYS + 21);
    mem_free(finding);
}

static void what_is_waited_for_is_found_by_ring_and_by_threads(void **state)
{
    struct rig *rig = *state;
    char *value = mem_alloc(LARGE + 1);

    memset(value, 'x', LARGE);
    value[LARGE] = '\0';
    set_cold_keys(rig, KEYS / 2);
    set_cold(rig, "large", value);
    mem_free(value);
    for (int i = KEYS / 2; i < KEYS; i++) {
        char key[20];

        snprintf(key, sizeof(key), "k%d", i);
        set_cold(rig, key, "value");
    }
    finish_with(rig, READER_DEPTH, false);
    finish_with(rig, 1, false);
    finish_with(rig, READER_DEPTH, true);
    finish_with(rig, 4, true);
    finish_with(rig, 1, true);
}

/* Most containers have no io_uring. Keys between which there is more than a gap, so that each is a read. */
static void without_a_ring_reads_of_a_batch_overlap(void **state)
{
    enum { FAR_KEYS = 8 };
    struct rig *rig = *state;
    struct finding *finding = mem_zalloc(sizeof(*finding));
    struct reader_options options = { .done = note_found, .context = finding, .record_max = READER_RECORD_MAX, .flight_max = READER_DEPTH,
        .without_ring = true };
    struct tier_reader *reader = reader_open(rig->box.tier, &options);
    char *between = mem_alloc(BETWEEN + 1), key[20];
    struct random random;

    random_init(&random, rig->box.seed);
    for (int i = 0; i < BETWEEN; i++)
        between[i] = (char)('!' + random_below(&random, 90));       /* is not compressed */
    between[BETWEEN] = '\0';
    for (int i = 0; i < FAR_KEYS; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        set_cold(rig, key, "value");
        set_cold(rig, "between", between);
    }
    faulty_disk_set(rig->box.disk, &(struct disk_faults){ .seed = rig->box.seed, .only = ".seg", .reads_together = 2 });       /* the box has two threads */
    finding->box = &rig->box;
    for (int i = 0; i < FAR_KEYS; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        assert_true(want(finding, reader, i, key));
    }
    reader_finish(reader);
    assert_int_equal(finding->found, FAR_KEYS);
    assert_true(faulty_disk_reads_together(rig->box.disk) >= 2);
    reader_close(reader);
    mem_free(between);
    mem_free(finding);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_cold_keys_of_a_turn_are_one_batch, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(clients_of_the_worker_go_on_in_the_turn_without_its_bell, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_client_of_another_worker_that_waits_for_the_same_key_is_woken, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(more_loads_than_the_ring_takes_wait_their_turn, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(neighbours_are_one_read, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(large_records_are_left_to_the_pool, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_false_maybe_is_absent, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(what_is_written_or_flushed_meanwhile_is_not_overwritten, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(short_reads_are_continued, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(errors_and_damage_are_never_values, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_reader_that_is_closed_leaves_no_load, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(what_is_waited_for_is_found_by_ring_and_by_threads, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(without_a_ring_reads_of_a_batch_overlap, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_client_that_is_closed_while_its_key_is_read_leaves_no_pin, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
