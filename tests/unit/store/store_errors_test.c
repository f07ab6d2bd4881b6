/* The store on a disk that fails: it may return errors, but never wrong data. */
#include "support/unit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/random.h"
#include "support/scaled.h"
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

static void restart_and_verify(struct box *box)
{
    box_verify(box, box->store, STATUS_OK);
    box_restart(box);
    box_verify(box, box->store, STATUS_OK);
}

static void a_failed_flush_closes_for_writing_until_it_succeeds(void **state)
{
    struct box *box = *state;
    const struct {
        struct disk_faults faults;
        enum status status;
    } cases[] = {
        { { .only = ".run", .write_error = 1000 }, STATUS_IO },
        { { .only = ".run", .write_no_space = 1000 }, STATUS_NO_SPACE },
        { { .only = ".run", .write_short = 1000 }, STATUS_IO },
        { { .only = ".run", .sync_error = 1000 }, STATUS_IO },
        { { .only = ".run", .open_error = 1000 }, STATUS_IO },
    };

    for (int round = 0; round < 30; round++) {
        enum status expected = cases[round % 5].status;
        uint64_t number;

        box_write_many(box, 7);
        number = store_number(box->store);
        faulty_disk_set(box->disk, &cases[round % 5].faults);
        assert_int_equal(store_flush(box->store), expected);
        assert_false(store_is_writable(box->store));
        assert_int_equal(box_write(box), STATUS_CLOSED);
        assert_int_equal(store_flush(box->store), STATUS_CLOSED);
        assert_int_equal(store_retry(box->store, &box->message), expected);
        assert_true(strlen(box->message.text) > 10);
        assert_false(store_is_writable(box->store));
        assert_int_equal(box_write(box), STATUS_CLOSED);
        faulty_disk_set(box->disk, NULL);
        assert_int_equal(box_write(box), STATUS_CLOSED);    /* until it is tried again */
        assert_int_equal(store_number(box->store), number);
        box_verify(box, box->store, STATUS_OK);             /* reads continue */
        box_retry(box);
        assert_true(store_is_writable(box->store));
        assert_int_equal(store_number(box->store), number);
        box_write_many(box, 1);
        box_verify(box, box->store, STATUS_OK);
    }
    restart_and_verify(box);
}

/* While a flush fails, writing goes on until there is no room in memory. */
static void keys_in_memory_are_bounded_while_the_disk_is_full(void **state)
{
    struct box *box = *state;
    struct disk_faults faults = { .only = ".run", .write_no_space = 1000 };
    enum status status = STATUS_OK;

    box_write_many(box, 100);
    faulty_disk_set(box->disk, &faults);
    for (int i = 0; i < 10000 && (status = box_write(box)) == STATUS_OK; i++)
        ;
    assert_int_equal(status, STATUS_NO_SPACE);
    assert_true(store_memtable_memory(box->store) < 4 * box->options.write_buffer_size);
    box_verify(box, box->store, STATUS_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(store_retry(box->store, &box->message), STATUS_NO_SPACE);
        assert_non_null(strstr(box->message.text, "No space"));
        box_verify(box, box->store, STATUS_OK);
    }
    faulty_disk_set(box->disk, NULL);
    box_retry(box);
    box_write_many(box, 100);
    restart_and_verify(box);
}

static void a_failed_write_of_a_segment_can_be_repeated(void **state)
{
    struct box *box = *state;
    const struct disk_faults cases[] = {
        { .only = ".seg", .write_error = 1000 }, { .only = ".seg", .write_no_space = 1000 }, { .only = ".seg", .write_short = 1000 },
    };

    for (int round = 0; round < 30; round++) {
        uint64_t number;

        box_write_many(box, 7);
        number = store_number(box->store);
        faulty_disk_set(box->disk, &cases[round % 3]);
        assert_int_not_equal(box_write(box), STATUS_OK);
        faulty_disk_set(box->disk, NULL);
        assert_int_equal(store_number(box->store), number);
        box_verify(box, box->store, STATUS_OK);
        box_write_many(box, 1);
        box_verify(box, box->store, STATUS_OK);
    }
    restart_and_verify(box);
}

static void acknowledged_batches_survive_all_faults(void **state)
{
    uint64_t failures = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(60); seed++) {
        struct disk_faults faults = { .seed = seed };
        struct random random;
        struct box box;

        box_create(&box, seed);
        random_init(&random, seed);
        assert_int_equal(box_open(&box), STATUS_OK);
        if (seed % 2 != 0)
            faults.write_error = (int)random_below(&random, 8);
        if (seed % 3 != 0)
            faults.write_short = (int)random_below(&random, 8);
        if (seed % 5 != 0)
            faults.write_no_space = (int)random_below(&random, 8);
        faults.sync_error = (int)random_below(&random, 100);
        faults.open_error = (int)random_below(&random, 50);
        faulty_disk_set(box.disk, &faults);
        for (int i = 0; i < 250; i++) {
            enum status status = box_write(&box);

            if (random_below(&random, 20) == 0 && status == STATUS_OK)
                status = store_flush(box.store);
            if (status == STATUS_OK)
                continue;
            failures++;
            box_retry(&box);
        }
        faulty_disk_set(box.disk, NULL);
        restart_and_verify(&box);
        box_destroy(&box);
    }
    assert_true(failures > (uint64_t)scaled(100));
}

static void failed_reads_are_errors(void **state)
{
    struct box *box = *state;
    struct disk_faults faults = { .read_error = 300 };

    box->options.block_cache_size = 1;      /* nearly every look-up reads the disk */
    box_write_many(box, 300);
    box_restart(box);
    faulty_disk_set(box->disk, &faults);
    for (int round = 0; round < 10; round++)
        box_verify(box, box->store, STATUS_IO);
    faults = (struct disk_faults){ .seed = 5, .read_corrupt = 300 };
    faulty_disk_set(box->disk, &faults);
    for (int round = 0; round < 10; round++)
        box_verify(box, box->store, STATUS_CORRUPT);
    faulty_disk_set(box->disk, NULL);
    box_verify(box, box->store, STATUS_OK);     /* errors are not cached */
}

/* An image with one small key run. Returns its path in `path`. */
static void make_run(struct box *box, struct box *copy, char *path)
{
    static char paths[BOX_FILES_MAX][BOX_PATH_SIZE];

    box_write_many(box, 200);
    *copy = *box;
    copy->store = NULL;
    copy->options.is_read_only = true;
    snprintf(copy->dir, sizeof(copy->dir), "%s/image", box->root);
    assert_int_equal(store_snapshot(box->store, copy->dir, &box->message), STATUS_OK);
    assert_int_equal(box_files(copy->dir, ".run", paths), 1);
    strcpy(path, paths[0]);
}

static void a_flipped_bit_in_a_run_is_never_a_missing_record(void **state)
{
    struct box *box = *state, copy;
    char path[BOX_PATH_SIZE];
    int refused = 0, fine = 0;
    struct random random;
    uint64_t size;

    make_run(box, &copy, path);
    random_init(&random, 1);
    size = box_file_size(path);
    /* The last 1200 bytes are index and footer: flips every third byte of them, and some bytes of the data. */
    for (uint64_t i = size < 1200 ? 0 : size - 1200; i < size; i += 3) {
        uint64_t offset = random_below(&random, 4) != 0 ? i : random_below(&random, size);
        int bit = (int)random_below(&random, 8);

        box_flip(path, offset, bit);
        copy.seed = offset * 8 + (uint64_t)bit;
        if (box_open(&copy) == STATUS_OK) {
            assert_int_equal(store_number(copy.store), 200);
            box_verify(&copy, copy.store, STATUS_CORRUPT);
            fine++;
        } else {
            refused++;
        }
        box_close(&copy);
        box_flip(path, offset, bit);
    }
    assert_true(fine > 20 && refused > 20);
    assert_int_equal(box_open(&copy), STATUS_OK);
    box_verify(&copy, copy.store, STATUS_OK);
    box_close(&copy);
}

static void a_truncated_or_missing_run_is_never_a_missing_record(void **state)
{
    struct box *box = *state, copy;
    char path[BOX_PATH_SIZE];
    uint64_t size;

    make_run(box, &copy, path);
    size = box_file_size(path);
    for (uint64_t left = size - 1; left > size / 16; left = left * 7 / 8) {
        assert_int_equal(truncate(path, (off_t)left), 0);
        assert_int_equal(box_open(&copy), STATUS_CORRUPT);
        assert_non_null(strstr(copy.message.text, "key run"));
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(box_open(&copy), STATUS_IO);
    assert_non_null(strstr(copy.message.text, "key run"));
}

static void a_failed_snapshot_leaves_no_files_and_the_store_unchanged(void **state)
{
    struct box *box = *state, copy;
    char image[128];
    int failures = 0;

    snprintf(image, sizeof(image), "%s/image", box->root);
    box_write_many(box, 100);
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(60); seed++) {
        struct disk_faults faults = { .seed = seed, .only = "/image", .write_short = 300, .write_no_space = 200, .open_error = 300, .sync_error = 300 };
        enum status status;

        faulty_disk_set(box->disk, &faults);
        status = store_snapshot(box->store, image, &box->message);
        faulty_disk_set(box->disk, NULL);
        if (status != STATUS_OK) {
            failures++;
            assert_true(status == STATUS_IO || status == STATUS_NO_SPACE);
            assert_true(strlen(box->message.text) > 10);
            assert_int_not_equal(access(image, F_OK), 0);
        } else {
            copy = *box;
            copy.store = NULL;
            strcpy(copy.dir, image);
            assert_int_equal(box_open(&copy), STATUS_OK);
            box_verify(&copy, copy.store, STATUS_OK);
            box_close(&copy);
            assert_int_equal(store_remove(image, box->env), STATUS_OK);
        }
        assert_true(store_is_writable(box->store));
        box_write_many(box, 10);
    }
    assert_true(failures > scaled(20) && failures < scaled(60));
    restart_and_verify(box);
}

static void a_snapshot_survives_the_power_cut_after_it(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(40); seed++) {
        struct random random;
        struct box box, copy;
        uint64_t number;

        box_create(&box, seed);
        random_init(&random, seed);
        faulty_disk_track_power(box.disk);
        assert_int_equal(box_open(&box), STATUS_OK);
        box_write_many(&box, (int)random_below(&random, 200));
        number = store_number(box.store);
        copy = box;
        copy.store = NULL;
        snprintf(copy.dir, sizeof(copy.dir), "%s/image", box.root);
        assert_int_equal(store_snapshot(box.store, copy.dir, &box.message), STATUS_OK);
        box_write_many(&box, (int)random_below(&random, 200));
        faulty_disk_cut_power(box.disk);
        box_close(&box);
        faulty_disk_apply_power_cut(box.disk, random_next(&random));
        assert_int_equal(box_open(&copy), STATUS_OK);
        assert_int_equal(store_number(copy.store), number);
        box_verify(&copy, copy.store, STATUS_OK);
        box_close(&copy);
        box_destroy(&box);
    }
}

/* A disk that counts what changes it, and cuts the power before the call `left`. */
struct cutting {
    const struct disk *below;
    struct faulty_disk *faulty;
    int left;
};

static void *note_change(void *context)
{
    struct cutting *cutting = context;

    if (cutting->left-- == 0)
        faulty_disk_cut_power(cutting->faulty);
    return cutting->below->context;
}

static const struct disk *below(void *context)
{
    return ((struct cutting *)context)->below;
}

static int cut_open(void *c, int dir, const char *path, int flags, mode_t mode) { return below(c)->open(note_change(c), dir, path, flags, mode); }
static int cut_close(void *c, int fd) { return below(c)->close(below(c)->context, fd); }
static ssize_t cut_read(void *c, int fd, void *data, size_t size) { return below(c)->read(below(c)->context, fd, data, size); }
static ssize_t cut_pread(void *c, int fd, void *data, size_t size, off_t at) { return below(c)->pread(below(c)->context, fd, data, size, at); }
static ssize_t cut_write(void *c, int fd, const void *data, size_t size) { return below(c)->write(note_change(c), fd, data, size); }
static int cut_ftruncate(void *c, int fd, off_t size) { return below(c)->ftruncate(note_change(c), fd, size); }
static int cut_fdatasync(void *c, int fd) { return below(c)->fdatasync(note_change(c), fd); }
static int cut_fsync(void *c, int fd) { return below(c)->fsync(note_change(c), fd); }
static int cut_range(void *c, int fd, off_t at, off_t size, unsigned flags) { return below(c)->sync_file_range(below(c)->context, fd, at, size, flags); }
static int cut_rename(void *c, int dir, const char *from, const char *to) { return below(c)->rename(note_change(c), dir, from, to); }
static int cut_link(void *c, int dir, const char *from, const char *to) { return below(c)->link(note_change(c), dir, from, to); }
static int cut_unlink(void *c, int dir, const char *path) { return below(c)->unlink(note_change(c), dir, path); }
static int cut_mkdir(void *c, int dir, const char *path, mode_t mode) { return below(c)->mkdir(note_change(c), dir, path, mode); }
static int cut_rmdir(void *c, int dir, const char *path) { return below(c)->rmdir(note_change(c), dir, path); }

/* One image, with a power cut before the change `left`. Returns whether store_snapshot had made it. */
static bool take_image_until(struct box *box, int left, struct box *copy)
{
    struct cutting cutting = { faulty_disk_table(box->disk), box->disk, INT_MAX };
    const struct disk disk = { &cutting, cut_open, cut_close, cut_read, cut_pread, cut_write, cut_ftruncate, cut_fdatasync, cut_fsync, cut_range,
        cut_rename, cut_link, cut_unlink, cut_mkdir, cut_rmdir };
    struct store_env *env = store_env_create(&disk);
    bool is_made;

    faulty_disk_track_power(box->disk);
    box->options.env = env;
    assert_int_equal(box_open(box), STATUS_OK);
    box_write_many(box, 30);
    assert_int_equal(store_flush(box->store), STATUS_OK);      /* nothing is left to the background thread */
    box_write_many(box, 3);
    *copy = *box;
    copy->store = NULL;
    copy->options.env = NULL;
    copy->options.is_read_only = true;
    snprintf(copy->dir, sizeof(copy->dir), "%s/image", box->root);
    cutting.left = left;
    is_made = store_snapshot(box->store, copy->dir, &box->message) == STATUS_OK;
    cutting.left = INT_MAX;
    faulty_disk_cut_power(box->disk);
    box_close(box);
    store_env_destroy(env);
    return is_made;
}

/* What is left is the image, or none. */
static void a_power_cut_before_each_change_leaves_a_whole_image_or_none(void **state)
{
    bool is_made = false;
    int changes = 0;

    (void)state;
    for (; !is_made; changes++) {
        struct box box, copy;

        box_create(&box, (uint64_t)changes);
        is_made = take_image_until(&box, changes, &copy);
        faulty_disk_apply_power_cut(box.disk, (uint64_t)changes);
        if (box_open(&copy) == STATUS_OK) {
            assert_int_equal(store_number(copy.store), 33);
            box_verify(&copy, copy.store, STATUS_OK);
        } else {
            assert_false(is_made);
        }
        box_close(&copy);
        box_destroy(&box);
    }
    assert_true(changes > 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_failed_flush_closes_for_writing_until_it_succeeds, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_in_memory_are_bounded_while_the_disk_is_full, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_write_of_a_segment_can_be_repeated, setup, teardown),
        cmocka_unit_test(acknowledged_batches_survive_all_faults),
        cmocka_unit_test_setup_teardown(failed_reads_are_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(a_flipped_bit_in_a_run_is_never_a_missing_record, setup, teardown),
        cmocka_unit_test_setup_teardown(a_truncated_or_missing_run_is_never_a_missing_record, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_snapshot_leaves_no_files_and_the_store_unchanged, setup, teardown),
        cmocka_unit_test(a_snapshot_survives_the_power_cut_after_it),
        cmocka_unit_test(a_power_cut_before_each_change_leaves_a_whole_image_or_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
