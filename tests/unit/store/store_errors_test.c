/* The store on a disk that fails: it may return errors, but never wrong data. */
#include "support/unit.h"

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

static void reopen_and_verify_twice(struct box *box)
{
    box_verify(box, box->store, STATUS_OK);
    box_close(box);
    assert_int_equal(box_open(box), STATUS_OK);
    box_verify(box, box->store, STATUS_OK);
}

static void assert_closes(struct box *box, const struct disk_faults *faults, enum status expected)
{
    uint64_t number = store_number(box->store);

    faulty_disk_set(box->disk, faults);
    assert_int_equal(box_write(box), expected);
    assert_false(store_is_writable(box->store));
    assert_int_equal(box_write(box), STATUS_CLOSED);
    faulty_disk_set(box->disk, NULL);
    assert_int_equal(box_write(box), STATUS_CLOSED);    /* until it is reopened */
    assert_int_equal(store_number(box->store), number);
    box_verify(box, box->store, STATUS_OK);             /* reads continue */
}

static void a_failed_write_closes_for_writing_until_reopened(void **state)
{
    struct box *box = *state;
    const struct {
        struct disk_faults faults;
        enum status status;
    } cases[] = {
        { { .write_error = 1000 }, STATUS_IO },
        { { .write_no_space = 1000 }, STATUS_NO_SPACE },
        { { .write_short = 1000 }, STATUS_IO },
    };

    for (int round = 0; round < 30; round++) {
        const struct disk_faults *faults = &cases[round % 3].faults;
        uint64_t number;

        box_write_many(box, 7);
        number = store_number(box->store);
        assert_closes(box, faults, cases[round % 3].status);
        assert_false(box_reopen(box));
        assert_true(store_is_writable(box->store));
        assert_int_equal(store_number(box->store), number);
        box_write_many(box, 1);
        box_verify(box, box->store, STATUS_OK);
    }
    reopen_and_verify_twice(box);
}

static void a_failed_write_that_reached_the_log_is_applied(void **state)
{
    struct box *box = *state;
    struct disk_faults faults = { .only = ".log", .write_late = 1000 };
    int applied_count = 0;

    for (int round = 0; round < 20; round++) {
        uint64_t number = store_number(box->store);
        bool applied;

        assert_closes(box, &faults, STATUS_IO);
        applied = box_reopen(box);
        applied_count += applied;
        assert_int_equal(store_number(box->store), number + applied);
        box_verify(box, box->store, STATUS_OK);
    }
    assert_true(applied_count > 0);
    reopen_and_verify_twice(box);
}

static void a_failed_compaction_closes_for_writing_until_reopened(void **state)
{
    struct box *box = *state;
    struct disk_faults faults = { .only = ".ldb", .write_no_space = 1000 };
    enum status status;
    bool applied;

    box_write_many(box, 100);
    faulty_disk_set(box->disk, &faults);
    for (int i = 0; i < 1000 && (status = box_write(box)) == STATUS_OK; i++)
        ;
    assert_int_equal(status, STATUS_NO_SPACE);
    assert_int_equal(box_write(box), STATUS_CLOSED);
    box_verify(box, box->store, STATUS_OK);
    assert_int_equal(store_reopen(box->store, &applied, &box->message), STATUS_NO_SPACE);
    assert_non_null(strstr(box->message.text, "No space"));
    box_verify(box, box->store, STATUS_OK);         /* opened with the overlay: it can be read */
    faulty_disk_set(box->disk, NULL);
    assert_false(box_reopen(box));
    box_write_many(box, 100);
    reopen_and_verify_twice(box);
}

/* LevelDB can't be opened without writing, and store_reopen has closed it before that fails: the overlay is used then. */
static void a_store_that_cannot_be_reopened_can_be_read(void **state)
{
    struct box *box = *state;
    const struct disk_faults cases[] = {
        { .only = ".ldb", .write_no_space = 1000 }, { .only = ".ldb", .write_short = 1000 }, { .only = ".ldb", .sync_error = 1000 },
        { .only = "MANIFEST", .write_no_space = 1000 }, { .only = "MANIFEST", .sync_error = 1000 },
        { .only = ".dbtmp", .write_error = 1000 }, { .only = ".dbtmp", .sync_error = 1000 },
    };
    int refused = 0;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct disk_faults no_log = { .only = ".log", .write_no_space = 1000 };
        uint64_t number;
        bool applied;

        box_write_many(box, 60);
        number = store_number(box->store);
        faulty_disk_set(box->disk, &no_log);
        assert_int_equal(box_write(box), STATUS_NO_SPACE);
        faulty_disk_set(box->disk, &cases[i]);
        for (int attempt = 0; attempt < 3; attempt++) {
            /* If the log is empty, there is no table to write, and reopening succeeds. */
            if (store_reopen(box->store, &applied, &box->message) == STATUS_OK)
                break;
            refused++;
            assert_false(store_is_writable(box->store));
            assert_int_equal(store_number(box->store), number);
            box_verify(box, box->store, STATUS_OK);
            assert_int_equal(box_write(box), STATUS_CLOSED);
        }
        faulty_disk_set(box->disk, NULL);
        assert_false(box_reopen(box));
        box_verify(box, box->store, STATUS_OK);
    }
    assert_true(refused >= 4 * 3);      /* a MANIFEST and CURRENT are always written */
    reopen_and_verify_twice(box);
}

static void a_failed_compaction_is_reported_by_store_compact(void **state)
{
    struct box *box = *state;
    struct disk_faults faults = { .only = ".ldb", .sync_error = 1000 };

    box_write_many(box, 100);
    faulty_disk_set(box->disk, &faults);
    assert_int_equal(store_compact(box->store), STATUS_IO);
    assert_false(store_is_writable(box->store));
    assert_int_equal(store_compact(box->store), STATUS_CLOSED);
    faulty_disk_set(box->disk, NULL);
    assert_false(box_reopen(box));
    assert_int_equal(store_compact(box->store), STATUS_OK);
    reopen_and_verify_twice(box);
}

static void a_failed_purge_can_be_repeated(void **state)
{
    struct box *box = *state;
    struct disk_faults faults = { .write_short = 1000 };
    struct store_iterator *iterator;
    struct store_record record;
    bool done = true;

    box_write_many(box, 100);
    assert_int_equal(store_purge(box->store, BOX_INCARNATION, 10, &done), STATUS_OK);
    faulty_disk_set(box->disk, &faults);
    assert_int_equal(store_purge(box->store, BOX_INCARNATION, 10, &done), STATUS_IO);
    assert_false(done);
    faulty_disk_set(box->disk, NULL);
    assert_int_equal(store_purge(box->store, BOX_INCARNATION, 10, &done), STATUS_CLOSED);
    assert_false(box_reopen(box));
    while (!done)
        assert_int_equal(store_purge(box->store, BOX_INCARNATION, 10, &done), STATUS_OK);
    iterator = store_scan(box->store, BOX_INCARNATION, 0);
    assert_int_equal(store_next(iterator, &record), STATUS_NOT_FOUND);
    store_scan_close(iterator);
}

static void reads_continue_while_the_disk_is_full(void **state)
{
    struct box *box = *state;
    struct disk_faults faults = { .write_no_space = 1000 };
    bool applied;

    box_write_many(box, 300);
    faulty_disk_set(box->disk, &faults);
    assert_int_equal(box_write(box), STATUS_NO_SPACE);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(store_reopen(box->store, &applied, &box->message), STATUS_NO_SPACE);
        box_verify(box, box->store, STATUS_OK);
    }
    faulty_disk_set(box->disk, NULL);
    assert_false(box_reopen(box));
    box_write_many(box, 10);
    reopen_and_verify_twice(box);
}

static void no_write_is_acknowledged_after_a_log_was_closed_unsynced(void **state)
{
    struct box *box = *state;
    struct disk_faults faults = { .only = ".log", .sync_error = 1000 };
    enum status status = STATUS_OK;
    int count = 0;

    box_write_many(box, 3);
    faulty_disk_set(box->disk, &faults);
    while (count < 1000 && (status = box_write(box)) == STATUS_OK)
        count++;
    assert_int_equal(status, STATUS_IO);
    assert_true(count < 64 * 1024 / (8 / 2 * (int)box->record_size));      /* it fails when the first log is full */
    box_verify(box, box->store, STATUS_OK);
    faulty_disk_set(box->disk, NULL);
    assert_false(box_reopen(box));
    box_write_many(box, 50);
    reopen_and_verify_twice(box);
}

static void a_store_that_lost_batches_stays_closed(void **state)
{
    struct box *box = *state;
    struct disk_faults faults = { .write_error = 1000 };
    char logs[BOX_FILES_MAX][BOX_PATH_SIZE];
    struct buffer record;
    struct bytes name;
    char text[32];
    uint64_t hash;
    bool applied;
    int count;

    box_write_many(box, 20);
    assert_int_equal(store_reopen(box->store, &applied, &box->message), STATUS_OK);
    box_write_many(box, 3);
    faulty_disk_set(box->disk, &faults);
    assert_int_equal(box_write(box), STATUS_IO);
    faulty_disk_set(box->disk, NULL);
    count = box_files(box->dir, ".log", logs);
    assert_true(count > 0);
    for (int i = 0; i < count; i++)
        assert_int_equal(unlink(logs[i]), 0);
    assert_int_equal(store_reopen(box->store, &applied, &box->message), STATUS_CORRUPT);
    assert_non_null(strstr(box->message.text, "20 instead of 23"));
    assert_false(store_is_writable(box->store));
    assert_int_equal(box_write(box), STATUS_CLOSED);
    hash = box_hash(box->store, 1, text, &name);
    buffer_init(&record);
    assert_int_equal(store_get(box->store, BOX_INCARNATION, hash, name, &record), STATUS_CORRUPT);
    buffer_release(&record);
    box_verify(box, box->store, STATUS_CORRUPT);
    assert_int_equal(store_reopen(box->store, &applied, &box->message), STATUS_CORRUPT);
}

static void acknowledged_batches_survive_all_faults(void **state)
{
    uint64_t failures = 0, applied_count = 0;

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
        if (seed % 4 != 0)
            faults.write_late = (int)random_below(&random, 8);
        if (seed % 5 != 0)
            faults.write_no_space = (int)random_below(&random, 8);
        faults.sync_error = (int)random_below(&random, 100);
        faults.open_error = (int)random_below(&random, 50);
        faulty_disk_set(box.disk, &faults);
        for (int i = 0; i < 250; i++) {
            enum status status = box_write(&box);
            uint64_t number = store_number(box.store);

            if (random_below(&random, 10) == 0)
                for (uint32_t key = 0; key < BOX_KEYS; key += 17)
                    box_verify_key(&box, box.store, number, key, STATUS_IO);    /* a table may fail to open */
            if (random_below(&random, 40) == 0 && status == STATUS_OK)
                status = store_compact(box.store);
            if (status == STATUS_OK)
                continue;
            failures++;
            applied_count += box_reopen(&box);
        }
        faulty_disk_set(box.disk, NULL);
        if (!store_is_writable(box.store))
            box_reopen(&box);
        box_verify(&box, box.store, STATUS_OK);
        box_close(&box);
        assert_int_equal(box_open(&box), STATUS_OK);
        box_verify(&box, box.store, STATUS_OK);
        box_destroy(&box);
    }
    assert_true(failures > (uint64_t)scaled(100));
    assert_true(applied_count > (uint64_t)scaled(5));
}

static void failed_reads_are_errors(void **state)
{
    struct box *box = *state;
    struct disk_faults faults = { .read_error = 300 };

    box->options.block_cache_size = 1;      /* nearly every get reads the disk */
    box_write_many(box, 300);
    box_close(box);
    assert_int_equal(box_open(box), STATUS_OK);
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

/* Closes the store with all records in tables, and returns the number of tables. */
static int make_table(struct box *box, char tables[][BOX_PATH_SIZE])
{
    box_write_many(box, 200);
    assert_int_equal(store_compact(box->store), STATUS_OK);
    box_close(box);
    assert_int_equal(box_open(box), STATUS_OK);
    assert_int_equal(store_compact(box->store), STATUS_OK);
    box_close(box);
    return box_files(box->dir, ".ldb", tables);
}

static void a_flipped_bit_in_a_table_is_never_a_missing_record(void **state)
{
    struct box *box = *state;
    char tables[BOX_FILES_MAX][BOX_PATH_SIZE];
    int count, refused = 0, fine = 0;
    struct random random;

    box->record_size = 40;      /* one small table: index and filter are a large part of it */
    count = make_table(box, tables);
    assert_true(count > 0);
    random_init(&random, 1);
    for (int table = 0; table < count; table++) {
        uint64_t size = box_file_size(tables[table]);
        /* The last 1200 bytes are filter, index and footer: flips every third byte of them, and some bytes of the data. */
        for (uint64_t i = size < 1200 ? 0 : size - 1200; i < size; i += 3) {
            uint64_t offset = random_below(&random, 4) != 0 ? i : random_below(&random, size);
            int bit = (int)random_below(&random, 8);

            box_flip(tables[table], offset, bit);
            box->seed = offset * 8 + (uint64_t)bit;
            if (box_open(box) == STATUS_OK) {
                if (store_number(box->store) != 200)
                    fail_msg("number %d", (int)store_number(box->store));
                box_verify(box, box->store, STATUS_CORRUPT);
                fine++;
            } else {
                refused++;
            }
            box_close(box);
            box_flip(tables[table], offset, bit);
            /* Opening the store may have replaced the files. */
            if (access(tables[table], F_OK) != 0)
                break;
        }
    }
    assert_true(fine > 50 && refused > 50);
}

static void a_truncated_table_is_never_a_missing_record(void **state)
{
    struct box *box = *state;
    char tables[BOX_FILES_MAX][BOX_PATH_SIZE];
    struct random random;

    assert_true(make_table(box, tables) > 0);
    random_init(&random, 3);
    for (int i = 0; i < 10; i++) {
        uint64_t size = box_file_size(tables[0]);

        assert_int_equal(truncate(tables[0], (off_t)random_below(&random, size)), 0);
        if (box_open(box) == STATUS_OK)
            box_verify(box, box->store, STATUS_CORRUPT);
        box_close(box);
    }
}

static void a_missing_table_is_never_a_missing_record(void **state)
{
    struct box *box = *state;
    char tables[BOX_FILES_MAX][BOX_PATH_SIZE], aside[BOX_FILES_MAX][BOX_PATH_SIZE];
    struct buffer record;
    int count, errors = 0;

    box->record_size = 8000;    /* several tables, of which opening the store reads only the one with the meta keys */
    count = make_table(box, tables);
    assert_true(count > 1);
    assert_int_equal(box_open(box), STATUS_OK);
    for (int i = 0; i < count; i++) {
        snprintf(aside[i], BOX_PATH_SIZE, "%s/aside-%d", box->root, i);
        assert_int_equal(rename(tables[i], aside[i]), 0);
    }
    buffer_init(&record);
    for (uint32_t key = 0; key < BOX_KEYS; key++) {
        struct bytes name;
        char text[32];
        uint64_t hash = box_hash(box->store, key, text, &name);
        enum status status = store_get(box->store, BOX_INCARNATION, hash, name, &record);

        if (status == STATUS_NOT_FOUND)
            assert_int_equal(box_version(store_number(box->store), key), 0);
        errors += status == STATUS_IO;
    }
    buffer_release(&record);
    assert_true(errors > 0);
    box_close(box);
    assert_int_equal(box_open(box), STATUS_CORRUPT);
    for (int i = 0; i < count; i++)
        assert_int_equal(rename(aside[i], tables[i]), 0);
    assert_int_equal(box_open(box), STATUS_OK);
    box_verify(box, box->store, STATUS_OK);
}

static void a_flipped_bit_in_a_log_leaves_a_prefix_of_the_batches(void **state)
{
    struct random random;
    int refused = 0, shortened = 0;

    (void)state;
    random_init(&random, 11);
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(60); seed++) {
        char logs[BOX_FILES_MAX][BOX_PATH_SIZE];
        struct box box;
        int count;

        box_create(&box, seed);
        box.options.write_buffer_size = 1 << 20;
        assert_int_equal(box_open(&box), STATUS_OK);
        box_write_many(&box, 30);
        box_close(&box);
        count = box_files(box.dir, ".log", logs);
        assert_int_equal(count, 1);
        box_flip(logs[0], random_below(&random, box_file_size(logs[0])), (int)random_below(&random, 8));
        if (box_open(&box) == STATUS_OK) {
            shortened++;
            assert_true(store_number(box.store) <= 30);
            box_verify(&box, box.store, STATUS_OK);
        } else {
            refused++;
        }
        box_destroy(&box);
    }
    assert_true(refused > shortened);
}

static void a_truncated_log_leaves_a_prefix_of_the_batches(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, 12);
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(40); seed++) {
        char logs[BOX_FILES_MAX][BOX_PATH_SIZE];
        struct box box;

        box_create(&box, seed);
        box.options.write_buffer_size = 1 << 20;
        assert_int_equal(box_open(&box), STATUS_OK);
        box_write_many(&box, 30);
        box_close(&box);
        assert_int_equal(box_files(box.dir, ".log", logs), 1);
        /* Not within the first batch, which created the store. */
        assert_int_equal(truncate(logs[0], (off_t)(200 + random_below(&random, box_file_size(logs[0]) - 200))), 0);
        assert_int_equal(box_open(&box), STATUS_OK);
        assert_true(store_number(box.store) <= 30);
        box_verify(&box, box.store, STATUS_OK);
        box_write_many(&box, 30);
        reopen_and_verify_twice(&box);
        box_destroy(&box);
    }
}

static void a_failed_snapshot_leaves_no_files_and_the_store_unchanged(void **state)
{
    struct box *box = *state, copy;
    char image[128];
    int failures = 0;

    snprintf(image, sizeof(image), "%s/image", box->root);
    box_write_many(box, 100);
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(40); seed++) {
        struct disk_faults faults = { .seed = seed, .only = "/image/", .write_short = 100, .open_error = 100,
            .sync_error = 100 };
        enum status status;

        faulty_disk_set(box->disk, &faults);
        status = store_snapshot(box->store, image, &box->message);
        faulty_disk_set(box->disk, NULL);
        if (status != STATUS_OK) {
            failures++;
            assert_int_equal(status, STATUS_IO);
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
    assert_true(failures > scaled(5));
    reopen_and_verify_twice(box);
}

static void a_power_cut_leaves_a_prefix_of_the_batches(void **state)
{
    int older = 0, refused = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(80); seed++) {
        struct random random;
        struct box box;

        box_create(&box, seed);
        random_init(&random, seed);
        faulty_disk_track_power(box.disk);
        assert_int_equal(box_open(&box), STATUS_OK);
        for (int cuts = 0; cuts < 3; cuts++) {
            uint64_t number;

            box_write_many(&box, (int)random_below(&random, 120));
            if (seed % 4 == 0)
                assert_int_equal(store_compact(box.store), STATUS_OK);
            box_write_many(&box, (int)random_below(&random, 20));
            number = store_number(box.store);
            faulty_disk_cut_power(box.disk);
            assert_int_not_equal(box_write(&box), STATUS_OK);
            box_close(&box);
            faulty_disk_apply_power_cut(box.disk, random_next(&random));
            if (box_open(&box) != STATUS_OK) {
                refused++;
                break;
            }
            assert_true(store_number(box.store) <= number);
            older += store_number(box.store) < number;
            box_verify(&box, box.store, STATUS_OK);
        }
        box_destroy(&box);
    }
    assert_true(older > scaled(20));    /* otherwise the power cuts lost nothing */
    assert_int_equal(refused, 0);       /* a torn end of a log is not an error */
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

/* Temporary stores: only snapshots write the number to the store. */

static int setup_temporary(void **state)
{
    struct box *box = mem_zalloc(sizeof(*box));

    box_create(box, 0);
    box->options.is_temporary = true;
    assert_int_equal(box_open(box), STATUS_OK);
    *state = box;
    return 0;
}

static void a_failed_batch_of_a_temporary_store_is_written_again(void **state)
{
    struct box *box = *state;
    const struct disk_faults cases[] = {
        { .only = ".log", .write_late = 1000 }, { .write_error = 1000 }, { .write_no_space = 1000 }, { .write_short = 1000 },
    };

    for (int round = 0; round < 40; round++) {
        uint64_t number;

        box_write_many(box, 7);
        number = store_number(box->store);
        faulty_disk_set(box->disk, &cases[round % 4]);
        assert_int_not_equal(box_write(box), STATUS_OK);
        faulty_disk_set(box->disk, NULL);
        assert_false(box_reopen(box));
        assert_int_equal(store_number(box->store), number);
        box_write_many(box, 1);         /* the same batch: its content depends only on its number */
        box_verify(box, box->store, STATUS_OK);
    }
}

static void a_damaged_log_of_a_temporary_store_is_noticed(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, 21);
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(40); seed++) {
        struct disk_faults faults = { .write_error = 1000 };
        char logs[BOX_FILES_MAX][BOX_PATH_SIZE];
        struct box box;
        bool applied;
        uint64_t size;

        box_create(&box, seed);
        box.options.is_temporary = true;
        box.options.write_buffer_size = 1 << 20;
        assert_int_equal(box_open(&box), STATUS_OK);
        box_write_many(&box, 30);
        faulty_disk_set(box.disk, &faults);
        assert_int_not_equal(box_write(&box), STATUS_OK);
        faulty_disk_set(box.disk, NULL);
        assert_int_equal(box_files(box.dir, ".log", logs), 1);
        size = box_file_size(logs[0]);
        if (seed % 2 == 0)
            assert_int_equal(truncate(logs[0], (off_t)random_below(&random, size)), 0);
        else
            box_flip(logs[0], random_below(&random, size), (int)random_below(&random, 8));
        assert_int_equal(store_reopen(box.store, &applied, &box.message), STATUS_CORRUPT);
        assert_true(strlen(box.message.text) > 10);
        assert_false(store_is_writable(box.store));
        box_destroy(&box);
    }
}

static void an_image_of_a_temporary_store_has_its_number(void **state)
{
    struct box *box = *state, copy;
    char image[128];

    snprintf(image, sizeof(image), "%s/image", box->root);
    for (int round = 0; round < 10; round++) {
        box_write_many(box, round * 20);
        assert_int_equal(store_snapshot(box->store, image, &box->message), STATUS_OK);
        copy = *box;
        copy.store = NULL;
        strcpy(copy.dir, image);
        assert_int_equal(box_open(&copy), STATUS_OK);
        assert_int_equal(store_number(copy.store), store_number(box->store));
        box_verify(&copy, copy.store, STATUS_OK);
        box_close(&copy);
        assert_int_equal(store_remove(image, box->env), STATUS_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_failed_write_closes_for_writing_until_reopened, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_write_that_reached_the_log_is_applied, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_compaction_closes_for_writing_until_reopened, setup, teardown),
        cmocka_unit_test_setup_teardown(a_store_that_cannot_be_reopened_can_be_read, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_compaction_is_reported_by_store_compact, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_purge_can_be_repeated, setup, teardown),
        cmocka_unit_test_setup_teardown(reads_continue_while_the_disk_is_full, setup, teardown),
        cmocka_unit_test_setup_teardown(no_write_is_acknowledged_after_a_log_was_closed_unsynced, setup, teardown),
        cmocka_unit_test_setup_teardown(a_store_that_lost_batches_stays_closed, setup, teardown),
        cmocka_unit_test(acknowledged_batches_survive_all_faults),
        cmocka_unit_test_setup_teardown(failed_reads_are_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(a_flipped_bit_in_a_table_is_never_a_missing_record, setup, teardown),
        cmocka_unit_test_setup_teardown(a_truncated_table_is_never_a_missing_record, setup, teardown),
        cmocka_unit_test_setup_teardown(a_missing_table_is_never_a_missing_record, setup, teardown),
        cmocka_unit_test(a_flipped_bit_in_a_log_leaves_a_prefix_of_the_batches),
        cmocka_unit_test(a_truncated_log_leaves_a_prefix_of_the_batches),
        cmocka_unit_test_setup_teardown(a_failed_snapshot_leaves_no_files_and_the_store_unchanged, setup, teardown),
        cmocka_unit_test(a_power_cut_leaves_a_prefix_of_the_batches),
        cmocka_unit_test(a_snapshot_survives_the_power_cut_after_it),
        cmocka_unit_test_setup_teardown(a_failed_batch_of_a_temporary_store_is_written_again, setup_temporary, teardown),
        cmocka_unit_test(a_damaged_log_of_a_temporary_store_is_noticed),
        cmocka_unit_test_setup_teardown(an_image_of_a_temporary_store_has_its_number, setup_temporary, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
