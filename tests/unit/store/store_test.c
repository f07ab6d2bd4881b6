/* The store on a disk without faults. */
#include "support/unit.h"

#include <fcntl.h>
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

static void put(struct box *box, uint32_t incarnation, uint64_t hash, const char *key)
{
    struct store_batch *batch = store_batch_create();

    store_batch_index(batch, incarnation, hash, bytes_of_string(key));
    assert_int_equal(store_write(box->store, batch), STATUS_OK);
    store_batch_destroy(batch);
}

static bool has(struct box *box, uint32_t incarnation, uint64_t hash, const char *key)
{
    enum status status = store_has(box->store, incarnation, hash, bytes_of_string(key));

    assert_true(status == STATUS_OK || status == STATUS_NOT_FOUND);
    return status == STATUS_OK;
}

static void a_key_is_found_until_it_is_deleted(void **state)
{
    struct box *box = *state;
    struct store_batch *batch = store_batch_create();

    assert_false(has(box, 1, 5, "a"));
    put(box, 1, 5, "a");
    assert_true(has(box, 1, 5, "a"));
    assert_false(has(box, 1, 5, "b") || has(box, 1, 6, "a") || has(box, 2, 5, "a"));
    put(box, 1, 5, "");
    assert_true(has(box, 1, 5, ""));

    store_batch_delete(batch, 1, 5, BYTES("a"));
    store_batch_index(batch, 1, 5, BYTES("b"));
    store_batch_index(batch, 1, 5, BYTES("c"));
    store_batch_delete(batch, 1, 5, BYTES("c"));
    assert_int_equal(store_batch_count(batch), 4);
    assert_true(store_batch_size(batch) > 4 * 12);
    assert_int_equal(store_write(box->store, batch), STATUS_OK);
    assert_true(has(box, 1, 5, "b"));
    assert_false(has(box, 1, 5, "a") || has(box, 1, 5, "c"));
    store_batch_clear(batch);
    assert_int_equal(store_batch_count(batch), 0);
    store_batch_destroy(batch);
}

static void keys_may_hold_any_bytes(void **state)
{
    struct box *box = *state;
    struct store_batch *batch = store_batch_create();
    char bytes[256], *large = mem_alloc(1 << 20);

    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    for (int i = 0; i < 1 << 20; i++)
        large[i] = (char)(i * 7 + (i >> 9));
    store_batch_index(batch, 0xfffffffeu, UINT64_MAX, bytes_of(bytes, 256));
    store_batch_index(batch, 1, 0, bytes_of(large, 1 << 20));
    assert_int_equal(store_write(box->store, batch), STATUS_OK);
    store_batch_destroy(batch);
    for (int round = 0; round < 2; round++, box_restart(box)) {
        assert_int_equal(store_has(box->store, 0xfffffffeu, UINT64_MAX, bytes_of(bytes, 256)), STATUS_OK);
        assert_int_equal(store_has(box->store, 1, 0, bytes_of(large, 1 << 20)), STATUS_OK);
        assert_int_equal(store_has(box->store, 1, 0, bytes_of(large, (1 << 20) - 1)), STATUS_NOT_FOUND);
    }
    mem_free(large);
}

static void a_clone_has_seed_number_and_records(void **state)
{
    struct box *box = *state;
    struct hash_seed seed = store_seed(box->store), again;

    assert_int_equal(store_number(box->store), 0);
    assert_true(seed.k0 != 0 || seed.k1 != 0);
    box_write_many(box, 300);
    assert_int_equal(store_number(box->store), 300);
    box_verify(box, box->store, STATUS_OK);
    box_restart(box);
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
        put(box, 2, hashes[i], "x");
        put(box, 1, hashes[i], "x");
        put(box, 3, hashes[i], "x");
    }
    put(box, 2, 255, "w");
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

    put(box, 1, 10, "old");
    iterator = store_scan(box->store, 1, 0);
    put(box, 1, 20, "new");
    put(box, 1, 10, "old");
    box_write_many(box, 200);
    while (store_next(iterator, &record) == STATUS_OK) {
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

    put(box, 0xfffffffeu, UINT64_MAX, "record");
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

static void a_purge_takes_one_incarnation(void **state)
{
    struct box *box = *state;
    struct store_record record;
    struct store_iterator *iterator;
    char key[16];

    for (uint64_t i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "k%d", (int)i);
        for (uint32_t incarnation = 4; incarnation <= 6; incarnation++)
            put(box, incarnation, i << 56 | i, key);
    }
    iterator = store_scan(box->store, 5, 0);            /* sees the store as it was */
    store_purge(box->store, 5);
    assert_int_equal(store_next(iterator, &record), STATUS_OK);
    store_scan_close(iterator);
    assert_int_equal(store_flush(box->store), STATUS_OK);
    for (uint64_t i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "k%d", (int)i);
        assert_true(has(box, 4, i << 56 | i, key) && has(box, 6, i << 56 | i, key));
        assert_false(has(box, 5, i << 56 | i, key));
    }
    iterator = store_scan(box->store, 5, 0);
    assert_int_equal(store_next(iterator, &record), STATUS_NOT_FOUND);
    store_scan_close(iterator);
    store_purge(box->store, 5);
    store_purge(box->store, 4);
    iterator = store_scan(box->store, 4, 0);
    assert_int_equal(store_next(iterator, &record), STATUS_NOT_FOUND);
    store_scan_close(iterator);
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
    put(box, 1, 1, "still");
    assert_true(has(box, 1, 1, "still"));
}

static void a_store_keeps_its_kind_of_hashes(void **state)
{
    struct box *box = *state;

    assert_false(store_is_by_slot(box->store));
    box->options.by_slot = true;
    box_restart(box);
    assert_false(store_is_by_slot(box->store));
    box_close(box);
    assert_int_equal(store_remove(box->dir, NULL), STATUS_OK);
    assert_int_equal(box_open(box), STATUS_OK);
    assert_true(store_is_by_slot(box->store));
    box->options.by_slot = false;
    box_restart(box);
    assert_true(store_is_by_slot(box->store));
}

/* A store that was written has no meta data on the disk: what is there is no image. */
static void a_store_can_not_be_opened_again(void **state)
{
    struct box *box = *state;

    box_write_many(box, 50);
    assert_int_equal(store_flush(box->store), STATUS_OK);
    box_restart(box);
    box_close(box);
    assert_int_equal(box_open(box), STATUS_CORRUPT);
    assert_non_null(strstr(box->message.text, "has no meta data"));
    box->options.is_read_only = true;
    assert_int_equal(box_open(box), STATUS_CORRUPT);
    box->options.is_read_only = false;
    assert_int_equal(store_remove(box->dir, box->env), STATUS_OK);
    assert_int_equal(box_open(box), STATUS_OK);
    assert_true(store_is_new(box->store));
}

static void an_image_is_read_as_it_is(void **state)
{
    static char before[BOX_FILES_MAX][BOX_PATH_SIZE], after[BOX_FILES_MAX][BOX_PATH_SIZE];
    struct box *box = *state, copy, other;
    int count;

    box_write_many(box, 300);
    copy = *box;
    copy.store = NULL;
    copy.options.is_read_only = true;
    copy.options.env = NULL;
    snprintf(copy.dir, sizeof(copy.dir), "%s/image", box->root);
    assert_int_equal(store_snapshot(box->store, copy.dir, &box->message), STATUS_OK);
    count = box_files(copy.dir, "", before);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(box_open(&copy), STATUS_OK);
        assert_int_equal(store_number(copy.store), 300);
        assert_false(store_is_writable(copy.store));
        box_verify(&copy, copy.store, STATUS_OK);
        other = copy;                                       /* two at a time */
        assert_int_equal(box_open(&other), STATUS_OK);
        box_close(&other);
        box_close(&copy);
    }
    assert_int_equal(box_files(copy.dir, "", after), count);
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
        /* Both, in turns, overwrite keys that they share, and write files. */
        for (int i = 0; i < 300; i++) {
            assert_int_equal(box_write(box), STATUS_OK);
            if (i % 2 == 0)
                assert_int_equal(box_write(&copy), STATUS_OK);
        }
        assert_int_equal(store_flush(copy.store), STATUS_OK);
        box_verify(box, box->store, STATUS_OK);
        box_verify(&copy, copy.store, STATUS_OK);
        box_restart(&copy);
        box_verify(&copy, copy.store, STATUS_OK);
        box_close(&copy);
        box_restart(box);
        box_verify(box, box->store, STATUS_OK);
    }
    assert_int_not_equal(store_snapshot(box->store, image, &box->message), STATUS_OK);  /* it exists already */
    assert_true(strlen(box->message.text) > 10);
}

static void a_snapshot_shares_its_files(void **state)
{
    struct box *box = *state;
    static char files[BOX_FILES_MAX][BOX_PATH_SIZE];
    char image[128];
    int count;

    box_write_many(box, 500);
    assert_int_equal(store_flush(box->store), STATUS_OK);
    snprintf(image, sizeof(image), "%s/image", box->root);
    assert_int_equal(store_snapshot(box->store, image, &box->message), STATUS_OK);
    count = box_files(image, "", files);
    assert_true(count > 2);
    for (int i = 0; i < count; i++) {
        bool is_shared = store_is_table(files[i]);
        struct stat file;

        assert_int_equal(is_shared, strcmp(strrchr(files[i], '/'), "/meta") != 0);
        assert_int_equal(stat(files[i], &file), 0);
        assert_int_equal(file.st_nlink, is_shared ? 2 : 1);
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

/* A store that is written merges files before there are too many; and all that is due when merges are released. */
static void held_merges_wait_until_they_are_released(void **state)
{
    struct box *box = *state;

    box->options.holds_merges = true;
    box_restart(box);
    for (int round = 0; round < 18; round++) {
        box_write_many(box, 5);
        assert_int_equal(store_flush(box->store), STATUS_OK);
    }
    assert_true(store_waiting_files(box->store) > 0);
    store_release_merges(box->store);
    while (store_waiting_files(box->store) > 0)
        usleep(1000);
    box_verify(box, box->store, STATUS_OK);
}

static void retrying_a_healthy_store_changes_nothing(void **state)
{
    struct box *box = *state;

    box_write_many(box, 100);
    assert_int_equal(store_retry(box->store, &box->message), STATUS_OK);
    assert_int_equal(store_number(box->store), 100);
    box_write_many(box, 100);
    box_verify(box, box->store, STATUS_OK);
}

/* A smaller buffer is full sooner. */
static void the_write_buffer_can_be_changed(void **state)
{
    static char files[BOX_FILES_MAX][BOX_PATH_SIZE];
    struct box *box = *state;
    int before;

    store_set_write_buffer(box->store, 1 << 20);
    box_write_many(box, 200);
    before = box_files(box->dir, ".run", files);
    store_set_write_buffer(box->store, 4096);
    box_write_many(box, 20);
    for (int i = 0; i < 20000 && box_files(box->dir, ".run", files) <= before; i++)
        usleep(1000);               /* another thread writes it */
    assert_true(box_files(box->dir, ".run", files) > before);
    box_verify(box, box->store, STATUS_OK);
}

static void sizes_are_plausible(void **state)
{
    struct box *box = *state;
    uint64_t memory = store_memory(box->store);

    box_write_many(box, 20);
    assert_true(store_memory(box->store) > memory);
    box_write_many(box, 1000);
    assert_int_equal(store_flush(box->store), STATUS_OK);
    assert_true(store_disk_size(box->store) > BOX_KEYS / 2 * box->record_size);
    assert_true(store_disk_size(box->store) < 2 * 1020 * 8 * box->record_size);        /* what was overwritten is still there */
}

struct reading {
    struct box *box;
    atomic_bool is_over;
    atomic_ulong gets;
};

static void *read_keys_thread(void *context)
{
    struct reading *reading = context;

    for (uint32_t i = 0; !atomic_load(&reading->is_over); i++) {
        uint32_t key = i * 7 % BOX_KEYS;
        struct bytes name;
        char text[32];
        uint64_t hash = box_hash(reading->box->store, key, text, &name);
        enum status status;

        status = store_has(reading->box->store, BOX_INCARNATION, hash, name);
        assert_true(status == STATUS_OK || status == STATUS_NOT_FOUND);
        if (i % 512 == 0) {
            struct store_iterator *iterator = store_scan(reading->box->store, BOX_INCARNATION, hash);
            struct store_record next;

            status = store_next(iterator, &next);
            assert_true(status == STATUS_OK || status == STATUS_NOT_FOUND);
            store_scan_close(iterator);
            (void)store_disk_size(reading->box->store);
            (void)store_memory(reading->box->store);
        }
        atomic_fetch_add(&reading->gets, 1);
    }
    return NULL;
}

static void readers_continue_during_writes_and_flushes(void **state)
{
    struct reading reading = { .box = *state };
    struct box *box = *state;
    pthread_t threads[3];

    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_keys_thread, &reading), 0);
    for (int round = 0; round < 8 || atomic_load(&reading.gets) < 1000; round++) {
        box_write_many(box, 60);
        assert_int_equal(store_flush(box->store), STATUS_OK);
    }
    atomic_store(&reading.is_over, true);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    box_verify(box, box->store, STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_key_is_found_until_it_is_deleted, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_may_hold_any_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_clone_has_seed_number_and_records, setup, teardown),
        cmocka_unit_test_setup_teardown(a_scan_returns_one_incarnation_in_hash_order, setup, teardown),
        cmocka_unit_test_setup_teardown(an_iterator_sees_the_store_as_it_was, setup, teardown),
        cmocka_unit_test_setup_teardown(expiry_keys_come_soonest_first, setup, teardown),
        cmocka_unit_test_setup_teardown(a_purge_takes_one_incarnation, setup, teardown),
        cmocka_unit_test_setup_teardown(a_second_open_fails_as_locked, setup, teardown),
        cmocka_unit_test_setup_teardown(a_store_keeps_its_kind_of_hashes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_store_can_not_be_opened_again, setup, teardown),
        cmocka_unit_test_setup_teardown(an_image_is_read_as_it_is, setup, teardown),
        cmocka_unit_test_setup_teardown(a_store_whose_parent_is_missing_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(a_removed_store_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(removing_a_store_keeps_other_files, setup, teardown),
        cmocka_unit_test_setup_teardown(a_snapshot_and_its_original_are_independent, setup, teardown),
        cmocka_unit_test_setup_teardown(a_snapshot_shares_its_files, setup, teardown),
        cmocka_unit_test_setup_teardown(cloning_an_image_does_not_change_it, setup, teardown),
        cmocka_unit_test_setup_teardown(held_merges_wait_until_they_are_released, setup, teardown),
        cmocka_unit_test_setup_teardown(retrying_a_healthy_store_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(the_write_buffer_can_be_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(sizes_are_plausible, setup, teardown),
        cmocka_unit_test_setup_teardown(readers_continue_during_writes_and_flushes, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
