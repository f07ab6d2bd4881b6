/* The index of keys against a model: batches, flushes, merges, purges, images, readers that stay, and a disk that fails. Files of 64 KiB, so that
 * some hundred batches are merged over several levels. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "support/seed.h"
#include "support/store_box.h"
#include "support/store_image.h"

enum {
    KEYS = 12000,
    KEYS_A_HASH = 3,                /* with one hash */
    DATABASES = 3,
    CHANGES_MAX = 1500,             /* of a batch */
    STEPS = 700,
    FILES_MAX = 15 * 3 + 20 + 8,    /* of three levels, those that wait, and what is being written */
    BRAKE_MS = 20,
    PATIENCE_US = 60000000,
};

struct model {
    struct box box;
    struct random random;
    uint32_t incarnations[DATABASES], last_incarnation;
    uint8_t has[DATABASES][KEYS];
    size_t merges;                  /* how often there were fewer files than before */
};

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static uint64_t hash_of(int key)
{
    return (uint64_t)(key / KEYS_A_HASH) << 40 | 77;
}

/* Keys of one hash ascend with their numbers. */
static struct bytes name_of(int key, char *text)
{
    return bytes_of(text, (size_t)snprintf(text, 32, "key:%08d", key));
}

static size_t files_of(const char *dir, const char *end)
{
    static char paths[BOX_FILES_MAX][BOX_PATH_SIZE];

    return (size_t)box_files(dir, end, paths);
}

static int setup(void **state)
{
    struct model *model = mem_zalloc(sizeof(*model));

    box_create(&model->box, seed_new());
    random_init(&model->random, model->box.seed);
    assert_int_equal(box_open(&model->box), STATUS_OK);
    for (int db = 0; db < DATABASES; db++)
        model->incarnations[db] = ++model->last_incarnation;
    *state = model;
    return 0;
}

static int teardown(void **state)
{
    struct model *model = *state;

    box_destroy(&model->box);
    mem_free(model);
    return 0;
}

/* Each key of a store, in order, from `from` on, until `count` were compared. */
static void compare_from(struct model *model, struct store *store, int db, int from, int count)
{
    struct store_iterator *iterator = store_scan(store, model->incarnations[db], hash_of(from));
    struct store_record record;
    char text[32];
    int key = from - from % KEYS_A_HASH;

    for (; count > 0; count--, key++) {
        while (key < KEYS && !model->has[db][key])
            key++;
        if (key == KEYS)
            break;
        assert_int_equal(store_next(iterator, &record), STATUS_OK);
        assert_true(bytes_equal(record.key, name_of(key, text)));
        assert_true(record.hash == hash_of(key));
    }
    if (count > 0)
        assert_int_equal(store_next(iterator, &record), STATUS_NOT_FOUND);
    store_scan_close(iterator);
}

static void compare_all(struct model *model, struct store *store)
{
    for (int db = 0; db < DATABASES; db++)
        compare_from(model, store, db, 0, KEYS + 1);
}

static void compare_some(struct model *model)
{
    int db = (int)random_below(&model->random, DATABASES), key = (int)random_below(&model->random, KEYS);
    char text[32];

    compare_from(model, model->box.store, db, key, 20);
    assert_int_equal(store_has(model->box.store, model->incarnations[db], hash_of(key), name_of(key, text)),
        model->has[db][key] ? STATUS_OK : STATUS_NOT_FOUND);
}

/* Keys in order, as demotion writes them, or anywhere; about as many are deleted as added once half of them are there. */
static void change(struct model *model)
{
    struct store_batch *batch = store_batch_create();
    int count = 1 + (int)random_below(&model->random, CHANGES_MAX), db = (int)random_below(&model->random, DATABASES);
    int key = (int)random_below(&model->random, KEYS), step = random_below(&model->random, 2) == 0 ? 1 : 7919;
    struct message message;
    char text[32];

    for (int i = 0; i < count; i++, key = (key + step) % KEYS) {
        if (model->has[db][key])
            store_batch_delete(batch, model->incarnations[db], hash_of(key), name_of(key, text));
        else
            store_batch_index(batch, model->incarnations[db], hash_of(key), name_of(key, text));
        model->has[db][key] = !model->has[db][key];
    }
    for (int i = 0; i < BRAKE_MS && store_waiting_files(model->box.store) > 0; i++)
        usleep(1000);           /* as demotion does, so that merges follow on a busy machine */
    while (store_write(model->box.store, batch) != STATUS_OK) {
        while (store_retry(model->box.store, &message) != STATUS_OK)
            faulty_disk_set(model->box.disk, NULL);
    }
    store_batch_destroy(batch);
}

static void flush_database(struct model *model)
{
    int db = (int)random_below(&model->random, DATABASES);

    store_purge(model->box.store, model->incarnations[db]);
    model->incarnations[db] = ++model->last_incarnation;
    memset(model->has[db], 0, KEYS);
}

static void compare_incarnations(struct model *model)
{
    uint32_t found = 0, wanted[DATABASES];
    size_t count = 0;

    for (int db = 0; db < DATABASES; db++)
        if (memchr(model->has[db], 1, KEYS) != NULL)
            wanted[count++] = model->incarnations[db];
    qsort(wanted, count, sizeof(wanted[0]), by_number);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(store_incarnation(model->box.store, found + 1, &found), STATUS_OK);
        assert_int_equal(found, wanted[i]);
    }
    assert_int_equal(store_incarnation(model->box.store, found + 1, &found), STATUS_NOT_FOUND);
}

/* An image has what was there, and no other files; a store of it goes on by itself. */
static void take_image(struct model *model)
{
    struct message message;
    char path[128];
    struct store *image;
    struct store_options options = { .dir = path, .env = model->box.env, .is_read_only = true };

    snprintf(path, sizeof(path), "%s/image", model->box.root);
    if (store_snapshot(model->box.store, path, &message) != STATUS_OK) {
        assert_int_equal(access(path, F_OK), -1);
        faulty_disk_set(model->box.disk, NULL);
        assert_int_equal(store_retry(model->box.store, &message), STATUS_OK);
        return;
    }
    faulty_disk_set(model->box.disk, NULL);
    change(model);
    snprintf(path, sizeof(path), "%s/copy", model->box.root);
    assert_int_equal(store_snapshot(model->box.store, path, &message), STATUS_OK);
    assert_int_equal(store_open(&options, &image, &message), STATUS_OK);
    compare_all(model, image);
    store_close(image);
    assert_int_equal(store_remove(path, model->box.env), STATUS_OK);
    snprintf(path, sizeof(path), "%s/image", model->box.root);
    assert_int_equal(store_remove(path, model->box.env), STATUS_OK);
    assert_int_equal(access(path, F_OK), -1);
}

/* Merges may be slower than this thread, but they end. */
static void wait_for_merges(struct model *model)
{
    int64_t began_us = clock_mono_us();

    while (files_of(model->box.dir, ".run") > FILES_MAX)
        assert_true(clock_mono_us() - began_us < PATIENCE_US);
}

static void note_files(struct model *model, size_t *before)
{
    size_t files = files_of(model->box.dir, ".run");

    model->merges += files < *before;
    *before = files;
}

static void random_steps_match_a_model(void **state)
{
    struct model *model = *state;
    size_t files = 0;

    for (int i = 0; i < STEPS; i++) {
        change(model);
        compare_some(model);
        note_files(model, &files);
        if (random_below(&model->random, 60) == 0)
            compare_all(model, model->box.store);
        if (random_below(&model->random, 80) == 0)
            take_image(model);
        if (random_below(&model->random, 100) == 0)
            flush_database(model);
        if (random_below(&model->random, 50) == 0)
            compare_incarnations(model);
    }
    compare_all(model, model->box.store);
    wait_for_merges(model);
    note_files(model, &files);
    assert_true(model->merges > 0);
    compare_all(model, model->box.store);
}

/* Reads don't fail here: what can't be read is an error, and the model has nothing to compare. */
static void a_disk_that_fails_loses_no_key(void **state)
{
    struct model *model = *state;
    struct disk_faults faults = { .seed = model->box.seed, .write_error = 20, .write_no_space = 10, .write_short = 10, .sync_error = 20, .open_error = 5 };
    size_t files = 0;

    for (int i = 0; i < STEPS / 2; i++) {
        if (i % 10 == 0)
            faulty_disk_set(model->box.disk, &faults);
        change(model);
        if (random_below(&model->random, 30) == 0)
            take_image(model);
        faulty_disk_set(model->box.disk, NULL);
        compare_some(model);
        if (random_below(&model->random, 60) == 0)
            compare_all(model, model->box.store);
        note_files(model, &files);
    }
    compare_all(model, model->box.store);
}

/* Its keys stay as they were, whatever is merged, and files are removed only afterwards. */
static void an_iterator_keeps_its_keys(void **state)
{
    struct model *model = *state;
    struct store_iterator *iterator;
    struct store_record record;
    uint8_t before[KEYS];
    char text[32];

    for (int i = 0; i < 60; i++)
        change(model);
    memcpy(before, model->has[1], KEYS);
    iterator = store_scan(model->box.store, model->incarnations[1], 0);
    for (int i = 0; i < 100; i++)
        change(model);
    flush_database(model);
    for (int key = 0; key < KEYS; key++) {
        if (!before[key])
            continue;
        assert_int_equal(store_next(iterator, &record), STATUS_OK);
        assert_true(bytes_equal(record.key, name_of(key, text)));
        if (key % 500 == 0)
            change(model);
    }
    assert_int_equal(store_next(iterator, &record), STATUS_NOT_FOUND);
    store_scan_close(iterator);
    compare_all(model, model->box.store);
}

/* Databases that are gone take no room, without a write for each key. */
static void what_is_flushed_leaves_the_disk(void **state)
{
    struct model *model = *state;
    int64_t began_us = clock_mono_us();
    struct store_batch *batch = store_batch_create();
    char text[32];

    for (int i = 0; i < 40; i++) {
        for (int key = 0; key < KEYS; key++)
            store_batch_index(batch, 100, (uint64_t)(i * KEYS + key) << 20, name_of(key, text));
        assert_int_equal(store_write(model->box.store, batch), STATUS_OK);
        store_batch_clear(batch);
    }
    assert_true(files_of(model->box.dir, ".run") > 0);
    store_purge(model->box.store, 100);
    while (files_of(model->box.dir, ".run") > 0)
        assert_true(clock_mono_us() - began_us < PATIENCE_US);
    assert_true(store_memtable_memory(model->box.store) < 64 * 1024);
    store_batch_destroy(batch);
}

/* All keys are added and deleted again and again: what stays is not much more than what is there. */
static void deleted_keys_do_not_pile_up(void **state)
{
    struct model *model = *state;

    for (int i = 0; i < 1200; i++)
        change(model);
    wait_for_merges(model);
    compare_all(model, model->box.store);
}

/* A damaged block or file is an error, not a missing key. */
static void damage_is_an_error(void **state)
{
    struct model *model = *state;
    static char paths[BOX_FILES_MAX][BOX_PATH_SIZE];
    struct store_iterator *iterator;
    struct store_record record;
    struct message message;
    struct store *image;
    char path[128];
    struct store_options options = { .dir = path, .env = model->box.env, .is_read_only = true };
    enum status status;

    for (int i = 0; i < 20; i++)
        change(model);
    snprintf(path, sizeof(path), "%s/image", model->box.root);
    assert_int_equal(store_snapshot(model->box.store, path, &message), STATUS_OK);
    assert_true(box_files(path, ".run", paths) > 0);
    box_flip(paths[0], box_file_size(paths[0]) / 2, 3);
    assert_int_equal(store_open(&options, &image, &message), STATUS_OK);
    for (int db = 0; db < DATABASES; db++) {
        iterator = store_scan(image, model->incarnations[db], 0);
        while ((status = store_next(iterator, &record)) == STATUS_OK)
            ;
        store_scan_close(iterator);
        if (status == STATUS_CORRUPT)
            break;
    }
    assert_int_equal(status, STATUS_CORRUPT);
    store_close(image);
    assert_int_equal(truncate(paths[0], (off_t)box_file_size(paths[0]) - 1), 0);
    assert_int_equal(store_open(&options, &image, &message), STATUS_CORRUPT);
    assert_non_null(strstr(message.text, "key run"));
    assert_int_equal(unlink(paths[0]), 0);
    assert_int_not_equal(store_open(&options, &image, &message), STATUS_OK);
    assert_non_null(strstr(message.text, "key run"));
}

/* As a replica does with the image of its primary: another store in the same directory, with the same env, while files of the first one are merged and
 * removed. None of the second one's is. */
static void a_store_in_the_place_of_another_keeps_its_files(void **state)
{
    struct model *model = *state;
    struct box *box = &model->box;
    struct message message;
    char image[128];

    snprintf(image, sizeof(image), "%s/image", box->root);
    for (int i = 0; i < 30; i++)
        change(model);
    assert_int_equal(store_snapshot(box->store, image, &message), STATUS_OK);
    for (int round = 0; round < 25; round++) {
        uint8_t before[DATABASES][KEYS];
        uint32_t incarnations[DATABASES];
        char copy[128];

        memcpy(before, model->has, sizeof(before));
        memcpy(incarnations, model->incarnations, sizeof(incarnations));
        for (int i = 0; i < 60; i++)
            change(model);
        for (int db = 0; db < DATABASES; db++)
            store_purge(box->store, model->incarnations[db]);
        box_close(box);
        assert_int_equal(store_remove(box->dir, box->env), STATUS_OK);
        assert_int_equal(store_clone(image, box->dir, box->env, &message), STATUS_OK);
        assert_int_equal(box_open(box), STATUS_OK);
        memcpy(model->has, before, sizeof(before));
        memcpy(model->incarnations, incarnations, sizeof(incarnations));
        compare_all(model, box->store);
        snprintf(copy, sizeof(copy), "%s/copy", box->root);
        assert_int_equal(store_snapshot(box->store, copy, &message), STATUS_OK);
        assert_int_equal(store_remove(copy, box->env), STATUS_OK);
    }
}

/* Changes until files that should be gone are there. */
static void change_until_files_stay(struct model *model)
{
    int64_t began_us = clock_mono_us();

    while (files_of(model->box.dir, ".run") <= FILES_MAX + 20) {
        change(model);
        assert_true(clock_mono_us() - began_us < PATIENCE_US);
    }
}

static void change_until_files_are_gone(struct model *model)
{
    int64_t began_us = clock_mono_us();

    while (files_of(model->box.dir, ".run") > FILES_MAX) {
        change(model);
        assert_true(clock_mono_us() - began_us < PATIENCE_US);
    }
    compare_all(model, model->box.store);
}

static void a_removal_that_failed_is_tried_again(void **state)
{
    struct model *model = *state;
    struct disk_faults faults = { .only = ".run", .unlink_error = 1000 };

    faulty_disk_set(model->box.disk, &faults);
    change_until_files_stay(model);
    faulty_disk_set(model->box.disk, NULL);
    change_until_files_are_gone(model);
}

static void an_image_whose_name_can_not_be_synced_leaves_no_directory(void **state)
{
    struct model *model = *state;
    struct disk_faults faults = { .only = "/parent", .sync_error = 1000 };
    struct message message;
    char parent[128], image[160];

    change(model);
    snprintf(parent, sizeof(parent), "%s/parent", model->box.root);
    snprintf(image, sizeof(image), "%s/image", parent);
    assert_int_equal(mkdir(parent, 0755), 0);
    faulty_disk_set(model->box.disk, &faults);
    assert_int_equal(store_snapshot(model->box.store, image, &message), STATUS_IO);
    assert_non_null(strstr(message.text, "can't sync the directory of"));
    assert_int_equal(access(image, F_OK), -1);
    faulty_disk_set(model->box.disk, NULL);
    assert_int_equal(store_snapshot(model->box.store, image, &message), STATUS_OK);
    assert_int_equal(store_remove(image, model->box.env), STATUS_OK);
    assert_int_equal(rmdir(parent), 0);
}

static void an_image_without_all_of_its_runs_is_none(void **state)
{
    struct model *model = *state;
    static char paths[BOX_FILES_MAX][BOX_PATH_SIZE];
    struct message message;
    char image[128];

    snprintf(image, sizeof(image), "%s/image", model->box.root);
    for (int i = 0; i < 10; i++)
        change(model);
    assert_int_equal(store_flush(model->box.store), STATUS_OK);
    assert_true(box_files(model->box.dir, ".run", paths) > 0);
    assert_int_equal(unlink(paths[0]), 0);
    assert_int_equal(store_snapshot(model->box.store, image, &message), STATUS_CORRUPT);
    assert_non_null(strstr(message.text, "a key run is missing"));
    assert_int_equal(access(image, F_OK), -1);
}

/* As an image of another server may have it: the list is believed as far as no number of it can end the process. */
static void a_list_that_no_store_writes_is_refused(void **state)
{
    static const char *const lists[] = {
        "%llu 1 %llu\n", "%llu 0 %llu\n", "%llu 3 %llu 1:2\n", "%llu 0 %llu 1:18446744073709551615 2:1\n", "%llu 0 %llu 1:1000000000\n",
    };
    struct model *model = *state;
    static char paths[BOX_FILES_MAX][BOX_PATH_SIZE];
    struct message message;
    struct store *image;
    char path[128], text[200];
    struct store_options options = { .dir = path, .env = model->box.env, .is_read_only = true };

    change(model);
    snprintf(path, sizeof(path), "%s/image", model->box.root);
    assert_int_equal(store_snapshot(model->box.store, path, &message), STATUS_OK);
    assert_int_equal(box_files(path, ".run", paths), 1);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        snprintf(text, sizeof(text), lists[i], strtoull(strrchr(paths[0], '/') + 1, NULL, 10), (unsigned long long)box_file_size(paths[0]));
        store_image_set_runs(path, text);
        assert_int_equal(store_open(&options, &image, &message), STATUS_CORRUPT);
        assert_non_null(strstr(message.text, "key run"));
    }
}

/* More levels than a store gets to are in the numbers of the files. */
static void files_of_the_last_level_are_merged(void **state)
{
    enum { FILES = 16 };
    struct model *model = *state;
    static char paths[BOX_FILES_MAX][BOX_PATH_SIZE];
    int64_t began_us = clock_mono_us();
    struct message message;
    struct store *image;
    char path[128], other[192], text[FILES * 60] = "";
    struct store_options options = { .dir = path, .env = model->box.env };

    change(model);
    snprintf(path, sizeof(path), "%s/image", model->box.root);
    assert_int_equal(store_snapshot(model->box.store, path, &message), STATUS_OK);
    assert_int_equal(box_files(path, ".run", paths), 1);
    for (int i = 0; i < FILES; i++) {
        snprintf(other, sizeof(other), "%s/%06d.run", path, 1615 + 16 * i);     /* 15, and a multiple of 16 */
        assert_int_equal(link(paths[0], other), 0);
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d 0 %llu 1:1\n", 1615 + 16 * i, (unsigned long long)box_file_size(other));
    }
    assert_int_equal(unlink(paths[0]), 0);
    store_image_set_runs(path, text);
    assert_int_equal(store_open(&options, &image, &message), STATUS_OK);
    store_purge(image, 1000);
    while (files_of(path, ".run") > 1)
        assert_true(clock_mono_us() - began_us < PATIENCE_US);
    compare_all(model, image);
    store_close(image);
}

/* The others are merged, and the store says why one is not. */
static void a_damaged_file_does_not_end_merging(void **state)
{
    struct model *model = *state;
    static char paths[BOX_FILES_MAX][BOX_PATH_SIZE];
    int64_t began_us = clock_mono_us();
    enum status status;

    while (files_of(model->box.dir, ".run") < 2)
        change(model);
    assert_int_equal(store_flush(model->box.store), STATUS_OK);     /* none is being written */
    assert_true(box_files(model->box.dir, ".run", paths) >= 2);
    box_flip(paths[0], box_file_size(paths[0]) / 2, 3);
    do {
        assert_true(clock_mono_us() - began_us < PATIENCE_US);
        change(model);
        status = store_take_merge_status(model->box.store);
    } while (status == STATUS_OK);
    assert_int_equal(status, STATUS_CORRUPT);
    for (int i = 0; i < 1500; i++)
        change(model);
    while (files_of(model->box.dir, ".run") > FILES_MAX) {
        assert_true(clock_mono_us() - began_us < PATIENCE_US);
        change(model);
    }
}

/* A clone goes on where its image was made, also if nothing was in memory. */
static void a_clone_has_its_runs_again(void **state)
{
    struct model *model = *state;

    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 15; i++)
            change(model);
        if (round % 2 == 0)
            assert_int_equal(store_flush(model->box.store), STATUS_OK);
        box_restart(&model->box);
        compare_all(model, model->box.store);
    }
}

/* The list is gone: the numbers of the files say their order. */
static void without_the_list_the_order_of_the_files_is_known(void **state)
{
    struct model *model = *state;
    struct message message;
    char image[128], path[160];
    struct store_salvage salvage = { .seed = store_seed(model->box.store), .has_seed = true };
    struct store_options options = { .dir = image, .is_read_only = true, .salvage = &salvage };
    struct store *store;

    snprintf(image, sizeof(image), "%s/image", model->box.root);
    /* Merges take long: files are written meanwhile, and those of the second level begin after newer ones of the lowest level were written. */
    faulty_disk_set(model->box.disk, &(struct disk_faults){ .only = ".run", .read_delay_us = 200 });
    for (int i = 0; i < 1500; i++)
        change(model);
    faulty_disk_set(model->box.disk, NULL);
    assert_int_equal(store_snapshot(model->box.store, image, &message), STATUS_OK);
    snprintf(path, sizeof(path), "%s/meta", image);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(store_open(&options, &store, &message), STATUS_OK);
    assert_true(salvage.is_needed);
    compare_all(model, store);
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_steps_match_a_model, setup, teardown),
        cmocka_unit_test_setup_teardown(a_disk_that_fails_loses_no_key, setup, teardown),
        cmocka_unit_test_setup_teardown(an_iterator_keeps_its_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_flushed_leaves_the_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(deleted_keys_do_not_pile_up, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(a_store_in_the_place_of_another_keeps_its_files, setup, teardown),
        cmocka_unit_test_setup_teardown(a_removal_that_failed_is_tried_again, setup, teardown),
        cmocka_unit_test_setup_teardown(an_image_whose_name_can_not_be_synced_leaves_no_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(an_image_without_all_of_its_runs_is_none, setup, teardown),
        cmocka_unit_test_setup_teardown(a_list_that_no_store_writes_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(files_of_the_last_level_are_merged, setup, teardown),
        cmocka_unit_test_setup_teardown(a_damaged_file_does_not_end_merging, setup, teardown),
        cmocka_unit_test_setup_teardown(a_clone_has_its_runs_again, setup, teardown),
        cmocka_unit_test_setup_teardown(without_the_list_the_order_of_the_files_is_known, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
