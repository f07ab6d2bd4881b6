/* The logs of a temporary store are not synced, because LevelDB would sync them while all reads wait. Instead each reader of a log checks
 * that it has what was written to it. */
#include "support/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/random.h"
#include "support/seed.h"
#include "support/store_box.h"

static int setup(void **state)
{
    struct box *box = mem_zalloc(sizeof(*box));

    box_create(box, seed_new());
    box->options.is_temporary = true;
    assert_int_equal(box_open(box), STATUS_OK);
    *state = box;
    return 0;
}

static int teardown(void **state)
{
    struct box *box = *state;

    faulty_disk_set(box->disk, NULL);
    box_destroy(box);
    mem_free(box);
    return 0;
}

static void full_logs_are_closed_without_a_sync(void **state)
{
    struct box *box = *state;
    struct disk_faults faults = { .only = ".log", .sync_error = 1000 };
    char tables[BOX_FILES_MAX][BOX_PATH_SIZE];

    faulty_disk_set(box->disk, &faults);
    for (int i = 0; i < 500; i++)
        assert_int_equal(box_write(box), STATUS_OK);
    assert_true(box_files(box->dir, ".ldb", tables) > 0);      /* so it has closed a full log */
    faulty_disk_set(box->disk, NULL);
    box_verify(box, box->store, STATUS_OK);
    assert_false(box_reopen(box));
    box_verify(box, box->store, STATUS_OK);
}

static void a_large_batch_is_not_synced(void **state)
{
    struct box *box = *state;
    struct store_batch *batch = store_batch_create();
    struct buffer record = { 0 };
    uint64_t before = store_env_stats(box->env).syncs;

    memset(buffer_reserve(&record, 8 << 20), 'x', 8 << 20);
    record.size = 8 << 20;
    store_batch_put(batch, BOX_INCARNATION + 1, 1, BYTES("large"), buffer_bytes(&record));
    assert_int_equal(store_write(box->store, batch), STATUS_OK);
    assert_int_equal(store_env_stats(box->env).syncs, before);
    store_batch_destroy(batch);
    buffer_release(&record);
}

/* As after a failed writeback: the log has lost bytes, and no call has returned an error. */
static void damage_log(struct box *box, struct random *random)
{
    char logs[BOX_FILES_MAX][BOX_PATH_SIZE];
    int count = box_files(box->dir, ".log", logs);
    uint64_t size;

    assert_true(count > 0);
    size = box_file_size(logs[0]);
    if (random_below(random, 2) == 0)
        assert_int_equal(truncate(logs[0], (off_t)random_below(random, size)), 0);
    else
        box_flip(logs[0], random_below(random, size), (int)random_below(random, 8));
}

static void an_image_does_not_copy_a_damaged_log(void **state)
{
    struct box *box = *state, copy;
    struct random random;
    char image[128];

    random_init(&random, box->seed);
    snprintf(image, sizeof(image), "%s/image", box->root);
    for (int round = 0; round < 20; round++) {
        box_write_many(box, 1 + (int)random_below(&random, 5));
        assert_int_equal(store_snapshot(box->store, image, &box->message), STATUS_OK);
        assert_int_equal(store_remove(image, box->env), STATUS_OK);
        damage_log(box, &random);
        assert_int_equal(store_snapshot(box->store, image, &box->message), STATUS_CORRUPT);
        assert_non_null(strstr(box->message.text, "lost"));
        assert_int_not_equal(access(image, F_OK), 0);
        /* The batches of the log are still in the memtable, which is written to a table: nothing is lost. */
        box_verify(box, box->store, STATUS_OK);
        assert_int_equal(store_compact(box->store), STATUS_OK);
        box_write_many(box, 1);
        assert_int_equal(store_snapshot(box->store, image, &box->message), STATUS_OK);
        copy = *box;
        copy.store = NULL;
        strcpy(copy.dir, image);
        assert_int_equal(box_open(&copy), STATUS_OK);
        box_verify(&copy, copy.store, STATUS_OK);
        box_close(&copy);
        assert_int_equal(store_remove(image, box->env), STATUS_OK);
    }
}

/* A log that is removed while an image is made is compared, too. */
static void a_removed_log_is_compared_while_removals_are_held(void **state)
{
    struct box *box = *state;
    struct random random;
    char image[128];

    random_init(&random, box->seed);
    snprintf(image, sizeof(image), "%s/image", box->root);
    box_write_many(box, 5);
    store_env_hold_removal(box->env);
    assert_int_equal(store_compact(box->store), STATUS_OK);       /* LevelDB removes the log */
    box_write_many(box, 1);
    damage_log(box, &random);
    assert_int_equal(store_snapshot(box->store, image, &box->message), STATUS_CORRUPT);
    store_env_release_removal(box->env);
    if (store_snapshot(box->store, image, &box->message) == STATUS_OK)
        assert_int_equal(store_remove(image, box->env), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(full_logs_are_closed_without_a_sync, setup, teardown),
        cmocka_unit_test_setup_teardown(a_large_batch_is_not_synced, setup, teardown),
        cmocka_unit_test_setup_teardown(an_image_does_not_copy_a_damaged_log, setup, teardown),
        cmocka_unit_test_setup_teardown(a_removed_log_is_compared_while_removals_are_held, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
