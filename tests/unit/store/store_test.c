/* The store on a disk without faults. */
#include "support/unit.h"

#include <fcntl.h>
#include <leveldb/c.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/message.h"
#include "support/store_box.h"
#include "support/store_hold.h"

static int setup(void **state)
{
    struct box *box = mem_zalloc(sizeof(*box));

    box_create(box, 0);
    assert_int_equal(box_open(box), STATUS_OK);
    *state = box;
    return 0;
}

static int teardown(void **state)
{
    box_destroy(*state);
    mem_free(*state);
    return 0;
}

static void put(struct box *box, uint32_t incarnation, uint64_t hash, const char *key, const char *record)
{
    struct store_batch *batch = store_batch_create();

    store_batch_put(batch, incarnation, hash, bytes_of_string(key), bytes_of_string(record));
    assert_int_equal(store_write(box->store, batch), STATUS_OK);
    store_batch_destroy(batch);
}

static void assert_record(struct box *box, uint32_t incarnation, uint64_t hash, const char *key, const char *expected)
{
    struct buffer record;
    enum status status;

    buffer_init(&record);
    buffer_append_string(&record, "before");
    status = store_get(box->store, incarnation, hash, bytes_of_string(key), &record);
    if (expected == NULL) {
        assert_int_equal(status, STATUS_NOT_FOUND);
        assert_int_equal(record.size, 6);
    } else {
        assert_int_equal(status, STATUS_OK);
        assert_int_equal(record.size, 6 + strlen(expected));
        assert_memory_equal(record.data + 6, expected, strlen(expected));
    }
    buffer_release(&record);
}

static void a_record_is_found_until_it_is_deleted(void **state)
{
    struct box *box = *state;
    struct store_batch *batch = store_batch_create();

    assert_record(box, 1, 5, "a", NULL);
    put(box, 1, 5, "a", "record of a");
    assert_record(box, 1, 5, "a", "record of a");
    assert_record(box, 1, 5, "b", NULL);
    assert_record(box, 1, 6, "a", NULL);
    put(box, 1, 5, "a", "");
    assert_record(box, 1, 5, "a", "");
    put(box, 1, 5, "", "of the empty key");
    assert_record(box, 1, 5, "", "of the empty key");

    store_batch_delete(batch, 1, 5, BYTES("a"));
    store_batch_put(batch, 1, 5, BYTES("b"), BYTES("first"));
    store_batch_put(batch, 1, 5, BYTES("b"), BYTES("second"));
    store_batch_put(batch, 1, 5, BYTES("c"), BYTES("gone"));
    store_batch_delete(batch, 1, 5, BYTES("c"));
    assert_int_equal(store_batch_count(batch), 5);
    assert_true(store_batch_size(batch) > 5 * 13);
    assert_int_equal(store_write(box->store, batch), STATUS_OK);
    assert_record(box, 1, 5, "a", NULL);
    assert_record(box, 1, 5, "b", "second");
    assert_record(box, 1, 5, "c", NULL);
    store_batch_clear(batch);
    assert_int_equal(store_batch_count(batch), 0);
    store_batch_destroy(batch);
}

static uint64_t syncs_of(struct box *box)
{
    return store_env_stats(box->env).syncs;
}

/* Otherwise it would be synced when the log is full, while all reads wait. */
static void a_big_record_is_synced_at_once_and_its_batch_can_be_reused(void **state)
{
    struct box *box = *state;
    struct store_batch *batch = store_batch_create();
    struct buffer big = { 0 }, found = { 0 };
    uint64_t syncs = syncs_of(box);

    for (int i = 0; i < 700000; i++)
        buffer_append_format(&big, "%08d", i);
    store_batch_put(batch, 1, 5, BYTES("a"), BYTES("small"));
    assert_int_equal(store_write(box->store, batch), STATUS_OK);
    assert_int_equal(syncs_of(box), syncs);
    store_batch_clear(batch);
    store_batch_put(batch, 1, 6, BYTES("big"), buffer_bytes(&big));
    assert_int_equal(store_write(box->store, batch), STATUS_OK);
    assert_true(syncs_of(box) > syncs);
    store_batch_clear(batch);
    assert_int_equal(store_batch_count(batch), 0);
    assert_true(store_batch_size(batch) < 100);
    store_batch_put(batch, 1, 5, BYTES("b"), BYTES("after"));
    assert_int_equal(store_write(box->store, batch), STATUS_OK);
    assert_record(box, 1, 5, "a", "small");
    assert_record(box, 1, 5, "b", "after");
    assert_int_equal(store_get(box->store, 1, 6, BYTES("big"), &found), STATUS_OK);
    assert_true(bytes_equal(buffer_bytes(&found), buffer_bytes(&big)));
    buffer_release(&big);
    buffer_release(&found);
    store_batch_destroy(batch);
}

static void keys_and_records_may_hold_any_bytes(void **state)
{
    struct box *box = *state;
    struct store_batch *batch = store_batch_create();
    struct buffer record;
    char bytes[256], *large = mem_alloc(3 << 20);

    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    for (int i = 0; i < 3 << 20; i++)
        large[i] = (char)(i * 7 + (i >> 9));
    store_batch_put(batch, 0xfffffffeu, UINT64_MAX, bytes_of(bytes, 256), bytes_of(large, 3 << 20));
    store_batch_put(batch, 1, 0, bytes_of(large, 1 << 20), bytes_of(bytes, 256));
    assert_int_equal(store_write(box->store, batch), STATUS_OK);
    store_batch_destroy(batch);
    buffer_init(&record);
    assert_int_equal(store_get(box->store, 0xfffffffeu, UINT64_MAX, bytes_of(bytes, 256), &record), STATUS_OK);
    assert_true(bytes_equal(buffer_bytes(&record), bytes_of(large, 3 << 20)));
    record.size = 0;
    assert_int_equal(store_get(box->store, 1, 0, bytes_of(large, 1 << 20), &record), STATUS_OK);
    assert_true(bytes_equal(buffer_bytes(&record), bytes_of(bytes, 256)));
    buffer_release(&record);
    mem_free(large);
}

static void a_reopened_store_has_seed_number_and_records(void **state)
{
    struct box *box = *state;
    struct hash_seed seed = store_seed(box->store), again;

    assert_int_equal(store_number(box->store), 0);
    assert_true(seed.k0 != 0 || seed.k1 != 0);
    box_write_many(box, 300);
    assert_int_equal(store_number(box->store), 300);
    box_verify(box, box->store, STATUS_OK);
    box_close(box);
    assert_int_equal(box_open(box), STATUS_OK);
    again = store_seed(box->store);
    assert_memory_equal(&seed, &again, sizeof(seed));
    assert_int_equal(store_number(box->store), 300);
    box_verify(box, box->store, STATUS_OK);
}

static void a_scan_returns_one_incarnation_in_hash_order(void **state)
{
    static const uint64_t hashes[] = { 0, 1, 255, 256, 1ull << 32, 1ull << 63, UINT64_MAX };
    struct box *box = *state;
    struct store_iterator *iterator;
    struct store_record record;
    enum { COUNT = sizeof(hashes) / sizeof(hashes[0]) };

    for (int i = COUNT - 1; i >= 0; i--) {
        put(box, 2, hashes[i], "x", "of 2");
        put(box, 1, hashes[i], "x", "of 1");
        put(box, 3, hashes[i], "x", "of 3");
    }
    put(box, 2, 255, "w", "of 2");
    for (int from = 0; from < COUNT; from++) {
        iterator = store_scan(box->store, 2, hashes[from]);
        for (int i = from; i < COUNT; i++) {
            if (hashes[i] == 255) {     /* two keys have this hash: they come in the order of the keys */
                assert_int_equal(store_next(iterator, &record), STATUS_OK);
                assert_true(bytes_equal(record.key, BYTES("w")));
                assert_true(record.hash == 255);
            }
            assert_int_equal(store_next(iterator, &record), STATUS_OK);
            assert_true(record.hash == hashes[i]);
            assert_true(bytes_equal(record.key, BYTES("x")));
            assert_true(bytes_equal(record.record, BYTES("of 2")));
        }
        assert_int_equal(store_next(iterator, &record), STATUS_NOT_FOUND);
        assert_int_equal(store_next(iterator, &record), STATUS_NOT_FOUND);
        store_scan_close(iterator);
    }
    iterator = store_scan(box->store, 4, 0);
    assert_int_equal(store_next(iterator, &record), STATUS_NOT_FOUND);
    store_scan_close(iterator);
}

static void an_iterator_sees_the_store_as_it_was(void **state)
{
    struct box *box = *state;
    struct store_iterator *iterator;
    struct store_record record;
    int count = 0;

    put(box, 1, 10, "old", "1");
    iterator = store_scan(box->store, 1, 0);
    put(box, 1, 20, "new", "1");
    put(box, 1, 10, "old", "2");
    box_write_many(box, 200);
    while (store_next(iterator, &record) == STATUS_OK) {
        assert_true(bytes_equal(record.record, BYTES("1")));
        count++;
    }
    assert_int_equal(count, 1);
    store_scan_close(iterator);
}

struct expired {
    int count;
    int64_t expire_ms[16];
    uint32_t incarnation[16];
    uint64_t hash[16];
    char key[16][16];
};

static void expired_found(void *context, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key)
{
    struct expired *expired = context;
    int i = expired->count++;

    assert_true(i < 16 && key.size < 16);
    expired->expire_ms[i] = expire_ms;
    expired->incarnation[i] = incarnation;
    expired->hash[i] = hash;
    snprintf(expired->key[i], 16, "%.*s", (int)key.size, key.data);
}

static void expiry_keys_come_soonest_first(void **state)
{
    struct box *box = *state;
    struct store_batch *batch = store_batch_create();
    struct expired expired = { 0 };
    struct buffer from = { 0 };

    put(box, 0xfffffffeu, UINT64_MAX, "record", "is no expiry key");
    store_batch_put_expiry(batch, 70000, 1, 3, BYTES("third"));
    store_batch_put_expiry(batch, 255, 2, 9, BYTES("first"));
    store_batch_put_expiry(batch, 256, 1, 1, BYTES("second"));
    store_batch_put_expiry(batch, 80000, 1, 1, BYTES("fourth"));
    store_batch_put_expiry(batch, -5, 1, 1, BYTES("past"));
    assert_int_equal(store_write(box->store, batch), STATUS_OK);
    assert_int_equal(store_expired(box->store, &from, 70000, 100, expired_found, &expired), STATUS_OK);
    assert_int_equal(expired.count, 4);
    assert_string_equal(expired.key[0], "past");
    assert_int_equal(expired.expire_ms[0], 0);
    assert_string_equal(expired.key[1], "first");
    assert_int_equal(expired.expire_ms[1], 255);
    assert_int_equal(expired.incarnation[1], 2);
    assert_int_equal(expired.hash[1], 9);
    assert_string_equal(expired.key[2], "second");
    assert_string_equal(expired.key[3], "third");

    expired.count = 0;
    from.size = 0;
    assert_int_equal(store_expired(box->store, &from, INT64_MAX, 2, expired_found, &expired), STATUS_OK);
    assert_int_equal(expired.count, 2);
    assert_int_equal(store_expired(box->store, &from, INT64_MAX, 2, expired_found, &expired), STATUS_OK);
    assert_int_equal(expired.count, 4);
    assert_string_equal(expired.key[2], "second");
    assert_string_equal(expired.key[3], "third");
    store_expiry_seek(&from, 256);
    assert_int_equal(store_expired(box->store, &from, INT64_MAX, 1, expired_found, &expired), STATUS_OK);
    assert_string_equal(expired.key[4], "second");
    assert_int_equal(store_expiry_soonest(box->store), -5);
    assert_true(store_expiry_soonest(box->store) == INT64_MAX);

    store_batch_clear(batch);
    store_batch_delete_expiry(batch, 255, 2, 9, BYTES("first"));
    store_batch_delete_expiry(batch, -5, 1, 1, BYTES("past"));
    assert_int_equal(store_write(box->store, batch), STATUS_OK);
    expired.count = 0;
    from.size = 0;
    assert_int_equal(store_expired(box->store, &from, 300, 100, expired_found, &expired), STATUS_OK);
    assert_int_equal(expired.count, 1);
    assert_string_equal(expired.key[0], "second");
    store_batch_destroy(batch);
    buffer_release(&from);
}

static void a_purge_takes_one_incarnation_in_steps(void **state)
{
    struct box *box = *state;
    struct store_record record;
    struct store_iterator *iterator;
    char key[16];
    bool done = false;
    int steps = 0;

    for (uint64_t i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "k%d", (int)i);
        put(box, 4, i << 56 | i, key, "stays");
        put(box, 5, i << 56 | i, key, "goes");
        put(box, 6, i << 56 | i, key, "stays");
    }
    while (!done) {
        assert_int_equal(store_purge(box->store, 5, 30, &done), STATUS_OK);
        steps++;
        assert_true(steps < 10);
    }
    assert_int_equal(steps, 4);
    assert_int_equal(store_compact(box->store), STATUS_OK);
    for (uint64_t i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "k%d", (int)i);
        assert_record(box, 4, i << 56 | i, key, "stays");
        assert_record(box, 5, i << 56 | i, key, NULL);
        assert_record(box, 6, i << 56 | i, key, "stays");
    }
    iterator = store_scan(box->store, 5, 0);
    assert_int_equal(store_next(iterator, &record), STATUS_NOT_FOUND);
    store_scan_close(iterator);
    assert_int_equal(store_purge(box->store, 5, 30, &done), STATUS_OK);
    assert_true(done);
    assert_int_equal(store_purge(box->store, 4, 1000, &done), STATUS_OK);
    assert_true(done);
    assert_record(box, 4, 0, "k0", NULL);
}

static void compacting_after_a_purge_frees_disk_space(void **state)
{
    struct box *box = *state;
    uint64_t before;
    bool done;

    box_write_many(box, 2000);
    assert_int_equal(store_compact(box->store), STATUS_OK);
    before = store_disk_size(box->store);
    do
        assert_int_equal(store_purge(box->store, BOX_INCARNATION, 1000, &done), STATUS_OK);
    while (!done);
    assert_int_equal(store_compact(box->store), STATUS_OK);
    assert_true(before > BOX_KEYS / 2 * box->record_size);
    assert_true(store_disk_size(box->store) < before / 2);
}

static void *do_nothing(void *context)
{
    return context;
}

/* Whether a child of this process, which has threads, can start a thread: not in qemu-user, which takes the child's thread for one of the parent's
 * and ends with a failed assertion of its own. */
static bool children_start_threads(void)
{
    pid_t child = fork();
    pthread_t thread;
    int exit_status;

    assert_true(child >= 0);
    if (child == 0)
        _exit(pthread_create(&thread, NULL, do_nothing, NULL) == 0 && pthread_join(thread, NULL) == 0 ? 0 : 1);
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    return exit_status == 0;
}

static void a_second_open_fails_as_locked(void **state)
{
    struct box *box = *state;
    struct store_options options = box->options;
    struct store *second;
    struct message message;
    int exit_status;
    pid_t child;

    assert_int_equal(store_open(&options, &second, &message), STATUS_LOCKED);
    assert_null(second);
    assert_non_null(strstr(message.text, "in use"));
    options.env = NULL;
    assert_int_equal(store_open(&options, &second, &message), STATUS_LOCKED);
    assert_int_equal(store_remove(box->dir, box->env), STATUS_LOCKED);
    if (!children_start_threads())
        skip();
    child = fork();
    assert_true(child >= 0);
    if (child == 0)     /* with an env of its own: a child has no threads of its parent */
        _exit(store_open(&options, &second, &message) == STATUS_LOCKED ? 0 : 1);
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    assert_int_equal(exit_status, 0);
    put(box, 1, 1, "still", "works");
    assert_record(box, 1, 1, "still", "works");
}

static void raw_put(const char *dir, const char *key, size_t key_size, const char *value, size_t size)
{
    leveldb_options_t *options = leveldb_options_create();
    leveldb_writeoptions_t *write_options = leveldb_writeoptions_create();
    char *error = NULL;
    leveldb_t *db = leveldb_open(options, dir, &error);

    assert_null(error);
    leveldb_put(db, write_options, key, key_size, value, size, &error);
    assert_null(error);
    leveldb_close(db);
    leveldb_writeoptions_destroy(write_options);
    leveldb_options_destroy(options);
}

/* An older Kelvin, which would look for keys under other hashes, refuses version 3. */
static void a_store_keeps_its_kind_of_hashes(void **state)
{
    struct box *box = *state;

    assert_false(store_is_by_slot(box->store));
    box_close(box);
    box->options.by_slot = true;
    assert_int_equal(box_open(box), STATUS_OK);
    assert_false(store_is_by_slot(box->store));
    box_close(box);
    assert_int_equal(store_remove(box->dir, NULL), STATUS_OK);
    assert_int_equal(box_open(box), STATUS_OK);
    assert_true(store_is_by_slot(box->store));
    box_close(box);
    box->options.by_slot = false;
    assert_int_equal(box_open(box), STATUS_OK);
    assert_true(store_is_by_slot(box->store));
    box_close(box);
    raw_put(box->dir, "\0\0\0\0version", 11, "\0\0\0\2", 4);     /* that is where it is kept */
    assert_int_equal(box_open(box), STATUS_OK);
    assert_false(store_is_by_slot(box->store));
}

static void a_newer_version_is_refused(void **state)
{
    struct box *box = *state;

    put(box, 1, 1, "a", "1");
    box_close(box);
    raw_put(box->dir, "\0\0\0\0version", 11, "\0\0\0\6", 4);
    assert_int_equal(box_open(box), STATUS_VERSION);
    assert_null(box->store);
    assert_non_null(strstr(box->message.text, "version 6"));
    raw_put(box->dir, "\0\0\0\0version", 11, "\0\0\0\2", 4);
    assert_int_equal(box_open(box), STATUS_OK);
    assert_record(box, 1, 1, "a", "1");
}

static void a_database_of_another_program_is_refused(void **state)
{
    struct box *box = *state;
    leveldb_options_t *options = leveldb_options_create();
    char *error = NULL;

    box_close(box);
    assert_int_equal(store_remove(box->dir, box->env), STATUS_OK);
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_close(leveldb_open(options, box->dir, &error));
    leveldb_options_destroy(options);
    raw_put(box->dir, "unknown", 7, "value", 5);
    assert_int_equal(box_open(box), STATUS_CORRUPT);
    assert_non_null(strstr(box->message.text, "version"));
}

static void a_store_whose_parent_is_missing_is_an_error(void **state)
{
    struct box *box = *state;
    struct store_options options = box->options;
    struct store *store;
    char dir[128];

    snprintf(dir, sizeof(dir), "%s/not/there", box->root);
    options.dir = dir;
    assert_int_not_equal(store_open(&options, &store, &box->message), STATUS_OK);
    assert_null(store);
    assert_true(strlen(box->message.text) > 10);
}

static void a_removed_store_is_gone(void **state)
{
    struct box *box = *state;

    box_write_many(box, 100);
    box_close(box);
    assert_int_equal(store_remove(box->dir, box->env), STATUS_OK);
    assert_int_not_equal(access(box->dir, F_OK), 0);
    assert_int_equal(store_remove(box->dir, NULL), STATUS_OK);
    assert_int_equal(box_open(box), STATUS_OK);
    assert_int_equal(store_number(box->store), 0);
}

static void removing_a_store_keeps_other_files(void **state)
{
    struct box *box = *state;
    char path[160];
    FILE *file;

    box_write_many(box, 100);
    box_close(box);
    snprintf(path, sizeof(path), "%s/letter.txt", box->dir);
    file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(store_remove(box->dir, box->env), STATUS_OK);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(box_open(box), STATUS_OK);
    assert_int_equal(store_number(box->store), 0);
    box_close(box);
    assert_int_equal(store_remove(box->dir, box->env), STATUS_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(box->dir), 0);
    assert_int_equal(box_open(box), STATUS_OK);
}

static void a_snapshot_and_its_original_are_independent(void **state)
{
    struct box *box = *state, copy;
    char image[128];

    for (int round = 0; round < 3; round++) {
        box_write_many(box, 150 + round * 7);
        snprintf(image, sizeof(image), "%s/image-%d", box->root, round);
        assert_int_equal(store_snapshot(box->store, image, &box->message), STATUS_OK);
        copy = *box;
        copy.store = NULL;
        strcpy(copy.dir, image);
        assert_int_equal(box_open(&copy), STATUS_OK);
        assert_int_equal(store_number(copy.store), store_number(box->store));
        box_verify(&copy, copy.store, STATUS_OK);
        /* Both, in turns, overwrite records that they share, and compact. */
        for (int i = 0; i < 300; i++) {
            assert_int_equal(box_write(box), STATUS_OK);
            if (i % 2 == 0)
                assert_int_equal(box_write(&copy), STATUS_OK);
        }
        assert_int_equal(store_compact(copy.store), STATUS_OK);
        box_verify(box, box->store, STATUS_OK);
        box_verify(&copy, copy.store, STATUS_OK);
        box_close(&copy);
        assert_int_equal(box_open(&copy), STATUS_OK);
        box_verify(&copy, copy.store, STATUS_OK);
        box_close(&copy);
        box_close(box);
        assert_int_equal(box_open(box), STATUS_OK);
        box_verify(box, box->store, STATUS_OK);
    }
    assert_int_not_equal(store_snapshot(box->store, image, &box->message), STATUS_OK);  /* it exists already */
    assert_true(strlen(box->message.text) > 10);
}

static void a_snapshot_shares_its_tables(void **state)
{
    struct box *box = *state;
    char tables[BOX_FILES_MAX][BOX_PATH_SIZE];
    char image[128];
    int count;

    box_write_many(box, 500);
    assert_int_equal(store_compact(box->store), STATUS_OK);
    snprintf(image, sizeof(image), "%s/image", box->root);
    assert_int_equal(store_snapshot(box->store, image, &box->message), STATUS_OK);
    count = box_files(image, ".ldb", tables);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        struct stat file;
        assert_int_equal(stat(tables[i], &file), 0);
        assert_int_equal(file.st_nlink, 2);
    }
}

static void cloning_an_image_does_not_change_it(void **state)
{
    struct box *box = *state, copy;
    char image[128], other[256];

    box_write_many(box, 200);
    snprintf(image, sizeof(image), "%s/image", box->root);
    assert_int_equal(store_snapshot(box->store, image, &box->message), STATUS_OK);
    for (int round = 0; round < 3; round++) {
        copy = *box;
        copy.store = NULL;
        snprintf(copy.dir, sizeof(copy.dir), "%s/clone-%d", box->root, round);
        assert_int_equal(store_clone(image, copy.dir, NULL, &box->message), STATUS_OK);
        assert_int_equal(box_open(&copy), STATUS_OK);
        assert_int_equal(store_number(copy.store), 200);    /* not changed by earlier clones */
        box_verify(&copy, copy.store, STATUS_OK);
        box_write_many(&copy, 300);
        box_close(&copy);
    }
    snprintf(copy.dir, sizeof(copy.dir), "%s/clone-x", box->root);
    assert_int_equal(store_clone("/nowhere", copy.dir, NULL, &box->message), STATUS_NOT_FOUND);
    assert_int_not_equal(access(copy.dir, F_OK), 0);
    /* The directory may exist, and other files in it stay; but there must not be a store in it. */
    assert_int_equal(mkdir(copy.dir, 0755), 0);
    snprintf(other, sizeof(other), "%s/other", copy.dir);
    close(open(other, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    assert_int_equal(store_clone(image, copy.dir, NULL, &box->message), STATUS_OK);
    assert_int_not_equal(store_clone(image, copy.dir, NULL, &box->message), STATUS_OK);
    assert_int_equal(box_open(&copy), STATUS_OK);
    assert_int_equal(store_number(copy.store), 200);
    box_close(&copy);
    assert_int_equal(access(other, F_OK), 0);
}

/* Each opening writes the log as a table; without an option, four tables would be merged. The processes exit without closing the store,
 * because LevelDB may start a compaction just before it notices that it is being closed. */
static void write_tables(struct box *box, int rounds)
{
    char tables[BOX_FILES_MAX][BOX_PATH_SIZE];

    for (int round = 0; round < rounds; round++) {
        pid_t child = fork();
        int status;

        assert_true(child >= 0);
        if (child == 0) {
            if (box_open(box) != STATUS_OK || box_files(box->dir, ".ldb", tables) != round)
                _exit(1);
            box_write_many(box, 5);
            _exit(box_files(box->dir, ".ldb", tables) == round ? 0 : 2);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

static void without_merging_tables_stay_as_they_are(void **state)
{
    struct box *box = *state, other = *box;

    snprintf(other.dir, sizeof(other.dir), "%s/unmerged", box->root);
    other.options.env = NULL;
    other.options.without_merging = true;
    other.store = NULL;
    write_tables(&other, 10);
    assert_int_equal(box_open(&other), STATUS_OK);
    assert_int_equal(store_number(other.store), 50);
    box_verify(&other, other.store, STATUS_OK);
    box_close(&other);              /* must not wait forever for the work that LevelDB has scheduled */
}

/* The same while merges are held, but a store that is written merges before LevelDB stops its writes; and all that is due when they are
 * released. */
static void held_merges_wait_until_they_are_released_or_writes_would(void **state)
{
    struct box *box = *state, other = *box;

    if (!children_start_threads())
        skip();
    snprintf(other.dir, sizeof(other.dir), "%s/held", box->root);
    other.options.env = NULL;
    other.options.holds_merges = true;
    other.store = NULL;
    write_tables(&other, 7);
    assert_int_equal(box_open(&other), STATUS_OK);
    box_write_many(&other, 1000);
    box_verify(&other, other.store, STATUS_OK);
    store_release_merges(other.store);
    while (store_level0_count(other.store) >= 4)
        usleep(1000);
    box_verify(&other, other.store, STATUS_OK);
    box_close(&other);
    assert_int_equal(box_open(&other), STATUS_OK);
    box_close(&other);              /* must not wait forever for what is held */
}

static void a_store_without_current_is_not_taken_for_a_new_one(void **state)
{
    struct box *box = *state;
    char path[128], aside[128];

    box_write_many(box, 200);
    box_close(box);
    snprintf(path, sizeof(path), "%s/CURRENT", box->dir);
    snprintf(aside, sizeof(aside), "%s/current-aside", box->root);
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(box_open(box), STATUS_CORRUPT);
    assert_int_equal(rename(aside, path), 0);
    assert_int_equal(box_open(box), STATUS_OK);
    box_verify(box, box->store, STATUS_OK);
}

static void reopening_a_healthy_store_changes_nothing(void **state)
{
    struct box *box = *state;
    bool applied = true;

    box_write_many(box, 100);
    assert_int_equal(store_reopen(box->store, &applied, &box->message), STATUS_OK);
    assert_false(applied);
    assert_int_equal(store_number(box->store), 100);
    box_write_many(box, 100);
    box_verify(box, box->store, STATUS_OK);
}

static void sizes_are_plausible(void **state)
{
    struct box *box = *state;
    uint64_t memory = store_memory(box->store);

    box_write_many(box, 20);    /* 20 x 8 x 600 bytes, less for deletes: at most twice the memtable */
    assert_true(store_memory(box->store) > memory);
    box_write_many(box, 1000);
    assert_int_equal(store_compact(box->store), STATUS_OK);
    assert_true(store_disk_size(box->store) > BOX_KEYS / 2 * box->record_size);
    assert_true(store_disk_size(box->store) < 20 * BOX_KEYS * box->record_size);
}

struct reading {
    struct box *box;
    atomic_bool is_over;
    atomic_ulong gets;
};

static void *read_keys_thread(void *context)
{
    struct reading *reading = context;
    struct buffer record;

    buffer_init(&record);
    for (uint32_t i = 0; !atomic_load(&reading->is_over); i++) {
        uint32_t key = i * 7 % BOX_KEYS;
        struct bytes name;
        char text[32], start[48];
        uint64_t hash = box_hash(reading->box->store, key, text, &name);
        enum status status;

        record.size = 0;
        status = store_get(reading->box->store, BOX_INCARNATION, hash, name, &record);
        if (status != STATUS_NOT_FOUND) {
            assert_int_equal(status, STATUS_OK);
            snprintf(start, sizeof(start), "key %u version ", key);
            assert_memory_equal(record.data, start, strlen(start));
        }
        if (i % 512 == 0) {
            struct store_iterator *iterator = store_scan(reading->box->store, BOX_INCARNATION, hash);
            struct store_record next;

            status = store_next(iterator, &next);
            assert_true(status == STATUS_OK || status == STATUS_NOT_FOUND);
            store_scan_close(iterator);
            assert_true(store_disk_size(reading->box->store) > 0);
            assert_true(store_memory(reading->box->store) > 0);
        }
        atomic_fetch_add(&reading->gets, 1);
    }
    buffer_release(&record);
    return NULL;
}

static void readers_continue_during_writes_and_reopenings(void **state)
{
    struct reading reading = { .box = *state };
    struct box *box = *state;
    pthread_t threads[3];
    bool applied;

    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_keys_thread, &reading), 0);
    for (int round = 0; round < 8 || atomic_load(&reading.gets) < 1000; round++) {
        box_write_many(box, 60);
        assert_int_equal(store_reopen(box->store, &applied, &box->message), STATUS_OK);
        assert_false(applied);
    }
    atomic_store(&reading.is_over, true);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    box_verify(box, box->store, STATUS_OK);
}

/* LevelDB counts the reads that look into several tables, and merges such tables, which would write while nothing was changed. */
static void reads_write_nothing(void **state)
{
    struct box *box = *state;
    uint64_t written;

    box_write_many(box, 400);
    assert_int_equal(store_compact(box->store), STATUS_OK);
    box_write_many(box, 30);        /* in tables above the others */
    while (store_is_flushing(box->store))
        usleep(1000);
    written = store_env_stats(box->env).written_bytes;
    for (int round = 0; round < 200; round++)
        box_verify(box, box->store, STATUS_OK);
    usleep(100 * 1000);             /* what might run on the background thread */
    assert_int_equal(store_env_stats(box->env).written_bytes, written);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_record_is_found_until_it_is_deleted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_big_record_is_synced_at_once_and_its_batch_can_be_reused, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_and_records_may_hold_any_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reopened_store_has_seed_number_and_records, setup, teardown),
        cmocka_unit_test_setup_teardown(a_scan_returns_one_incarnation_in_hash_order, setup, teardown),
        cmocka_unit_test_setup_teardown(an_iterator_sees_the_store_as_it_was, setup, teardown),
        cmocka_unit_test_setup_teardown(expiry_keys_come_soonest_first, setup, teardown),
        cmocka_unit_test_setup_teardown(a_purge_takes_one_incarnation_in_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(compacting_after_a_purge_frees_disk_space, setup, teardown),
        cmocka_unit_test_setup_teardown(a_second_open_fails_as_locked, setup, teardown),
        cmocka_unit_test_setup_teardown(a_store_keeps_its_kind_of_hashes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_newer_version_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_database_of_another_program_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_store_whose_parent_is_missing_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(a_removed_store_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(removing_a_store_keeps_other_files, setup, teardown),
        cmocka_unit_test_setup_teardown(a_snapshot_and_its_original_are_independent, setup, teardown),
        cmocka_unit_test_setup_teardown(a_snapshot_shares_its_tables, setup, teardown),
        cmocka_unit_test_setup_teardown(cloning_an_image_does_not_change_it, setup, teardown),
        cmocka_unit_test_setup_teardown(without_merging_tables_stay_as_they_are, setup, teardown),
        cmocka_unit_test_setup_teardown(held_merges_wait_until_they_are_released_or_writes_would, setup, teardown),
        cmocka_unit_test_setup_teardown(a_store_without_current_is_not_taken_for_a_new_one, setup, teardown),
        cmocka_unit_test_setup_teardown(reopening_a_healthy_store_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(reads_write_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(sizes_are_plausible, setup, teardown),
        cmocka_unit_test_setup_teardown(readers_continue_during_writes_and_reopenings, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
