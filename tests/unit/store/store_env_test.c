/* The store's Env keeps the promises of store_env.h, with and without faults of the disk. */
#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/check.h"
#include "support/disk_file.h"
#include "support/store_box.h"

struct place {
    struct box box;
    char a[128], b[128], log[128];      /* paths in box.root */
};

static int setup(void **state)
{
    struct place *place = mem_zalloc(sizeof(*place));

    box_create(&place->box, 0);
    snprintf(place->a, sizeof(place->a), "%s/a", place->box.root);
    snprintf(place->b, sizeof(place->b), "%s/b", place->box.root);
    snprintf(place->log, sizeof(place->log), "%s/1.log", place->box.root);
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;

    box_destroy(&place->box);
    mem_free(place);
    return 0;
}

static void write_file(struct store_env *env, const char *path, const char *text, bool synced)
{
    struct disk_file *file;

    assert_int_equal(disk_file_create(env, path, &file), STATUS_OK);
    assert_int_equal(disk_file_append(file, text, strlen(text)), STATUS_OK);
    if (synced)
        assert_int_equal(disk_file_sync(file), STATUS_OK);
    assert_int_equal(disk_file_close(file), STATUS_OK);
    disk_file_destroy(file);
}

static void assert_file(const char *path, const char *text)
{
    char found[256];
    FILE *file = fopen(path, "r");
    size_t size;

    if (text == NULL) {
        assert_null(file);
        return;
    }
    assert_non_null(file);
    size = fread(found, 1, sizeof(found) - 1, file);
    found[size] = 0;
    fclose(file);
    assert_string_equal(found, text);
}

static void a_large_file_is_written_in_order(void **state)
{
    struct place *place = *state;
    struct disk_file *file;
    uint32_t word = 0, sizes[] = { 1, 100, 16383, 16384, 16385, 40000, 3, 0, 5 };
    uint32_t *words = mem_alloc(40000 * sizeof(word));
    FILE *in;

    assert_int_equal(disk_file_create(place->box.env, place->a, &file), STATUS_OK);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (uint32_t j = 0; j < sizes[i]; j++)
            words[j] = word++;
        assert_int_equal(disk_file_append(file, words, sizes[i] * sizeof(word)), STATUS_OK);
    }
    assert_int_equal(disk_file_close(file), STATUS_OK);
    disk_file_destroy(file);
    assert_int_equal(box_file_size(place->a), word * sizeof(word));
    in = fopen(place->a, "r");
    assert_non_null(in);
    for (uint32_t i = 0, found; i < word; i++) {
        assert_int_equal(fread(&found, sizeof(found), 1, in), 1);
        assert_int_equal(found, i);
    }
    fclose(in);
    mem_free(words);
}

static void a_short_write_is_truncated_and_the_file_accepts_no_more_writes(void **state)
{
    struct place *place = *state;
    struct disk_faults faults = { .write_short = 1000 };
    struct disk_file *file;

    assert_int_equal(disk_file_create(place->box.env, place->log, &file), STATUS_OK);
    assert_int_equal(disk_file_append(file, "whole ", 6), STATUS_OK);
    assert_int_equal(disk_file_flush(file), STATUS_OK);
    assert_int_equal(disk_file_append(file, "torn record", 11), STATUS_OK);
    faulty_disk_set(place->box.disk, &faults);
    assert_int_equal(disk_file_flush(file), STATUS_IO);
    faulty_disk_set(place->box.disk, NULL);
    assert_file(place->log, "whole ");
    assert_int_equal(disk_file_append(file, "later", 5), STATUS_IO);
    assert_int_equal(disk_file_flush(file), STATUS_IO);
    assert_int_equal(disk_file_sync(file), STATUS_IO);
    assert_int_equal(disk_file_close(file), STATUS_IO);
    disk_file_destroy(file);
    assert_file(place->log, "whole ");
}

static void a_full_disk_and_a_broken_disk_have_different_errors(void **state)
{
    struct place *place = *state;
    struct disk_faults faults = { .only = "/a", .write_no_space = 1000 };
    struct disk_file *file;

    faulty_disk_set(place->box.disk, &faults);
    assert_int_equal(disk_file_create(place->box.env, place->a, &file), STATUS_OK);
    assert_int_equal(disk_file_append(file, "x", 1), STATUS_OK);
    assert_int_equal(disk_file_sync(file), STATUS_NO_SPACE);
    disk_file_destroy(file);
    write_file(place->box.env, place->b, "is not concerned", true);
    faults = (struct disk_faults){ .open_error = 1000 };
    faulty_disk_set(place->box.disk, &faults);
    assert_int_equal(disk_file_create(place->box.env, place->a, &file), STATUS_IO);
}

static void a_file_whose_sync_failed_accepts_no_more_writes(void **state)
{
    struct place *place = *state;
    struct disk_faults faults = { .sync_error = 1000 };
    struct disk_file *file;

    assert_int_equal(disk_file_create(place->box.env, place->a, &file), STATUS_OK);
    assert_int_equal(disk_file_append(file, "x", 1), STATUS_OK);
    faulty_disk_set(place->box.disk, &faults);
    assert_int_equal(disk_file_sync(file), STATUS_IO);
    faulty_disk_set(place->box.disk, NULL);
    assert_int_equal(disk_file_append(file, "y", 1), STATUS_IO);
    assert_int_equal(disk_file_sync(file), STATUS_IO);
    disk_file_destroy(file);
}

static void a_log_is_synced_when_it_is_destroyed(void **state)
{
    struct place *place = *state;
    struct disk_faults faults = { .only = ".log", .sync_error = 1000 };
    uint64_t before = store_env_stats(place->box.env).syncs;
    struct disk_file *file;

    assert_int_equal(disk_file_create(place->box.env, place->log, &file), STATUS_OK);
    assert_int_equal(disk_file_append(file, "x", 1), STATUS_OK);
    disk_file_destroy(file);
    assert_int_equal(store_env_stats(place->box.env).syncs, before + 1);

    /* If that sync fails, the directory is broken: nothing in it can be changed until its store is opened again. */
    write_file(place->box.env, place->b, "stays", true);
    assert_int_equal(disk_file_create(place->box.env, place->log, &file), STATUS_OK);
    assert_int_equal(disk_file_append(file, "x", 1), STATUS_OK);
    faulty_disk_set(place->box.disk, &faults);
    disk_file_destroy(file);
    faulty_disk_set(place->box.disk, NULL);
    assert_int_equal(disk_file_create(place->box.env, place->a, &file), STATUS_IO);
    assert_int_equal(disk_remove(place->box.env, place->b), STATUS_IO);
    assert_int_equal(disk_rename(place->box.env, place->b, place->a), STATUS_IO);
    assert_file(place->b, "stays");
    disk_clear_broken(place->box.env, place->box.root);
    assert_int_equal(disk_rename(place->box.env, place->b, place->a), STATUS_OK);
    assert_file(place->a, "stays");
}

static void creating_a_file_does_not_change_its_other_link(void **state)
{
    struct place *place = *state;

    write_file(place->box.env, place->a, "old", true);
    assert_int_equal(link(place->a, place->b), 0);
    write_file(place->box.env, place->a, "new", true);
    assert_file(place->a, "new");
    assert_file(place->b, "old");
}

static void removed_files_stay_until_the_last_hold_is_released(void **state)
{
    struct place *place = *state;

    write_file(place->box.env, place->a, "a", true);
    write_file(place->box.env, place->b, "b", true);
    store_env_hold_removal(place->box.env);
    store_env_hold_removal(place->box.env);
    assert_int_equal(disk_remove(place->box.env, place->a), STATUS_OK);
    assert_int_equal(disk_remove(place->box.env, place->b), STATUS_OK);
    assert_int_equal(disk_remove(place->box.env, place->b), STATUS_OK);
    write_file(place->box.env, place->b, "created again", true);    /* the new file must not be removed */
    store_env_release_removal(place->box.env);
    assert_file(place->a, "a");
    store_env_release_removal(place->box.env);
    assert_file(place->a, NULL);
    assert_file(place->b, "created again");
    assert_int_equal(disk_remove(place->box.env, place->b), STATUS_OK);
    assert_file(place->b, NULL);
}

static void a_power_cut_loses_only_what_was_not_synced(void **state)
{
    int shorter = 0, whole = 0, unnamed = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct place *place;
        struct disk_file *file;
        struct faulty_disk *disk;
        struct store_env *env;
        void *made;
        uint64_t size;

        setup(&made);
        place = made;
        env = place->box.env;
        disk = place->box.disk;
        faulty_disk_track_power(disk);
        assert_int_equal(disk_file_create(env, place->a, &file), STATUS_OK);
        assert_int_equal(disk_file_append(file, "synced", 6), STATUS_OK);
        assert_int_equal(disk_file_sync(file), STATUS_OK);
        assert_int_equal(disk_sync_directory(env, place->box.root), STATUS_OK);
        assert_int_equal(disk_file_append(file, "unsynced", 8), STATUS_OK);
        assert_int_equal(disk_file_close(file), STATUS_OK);
        disk_file_destroy(file);
        write_file(env, place->b, "b", true);       /* its bytes are durable, its name is not */

        assert_int_equal(disk_file_create(env, place->log, &file), STATUS_OK);
        assert_int_equal(disk_file_append(file, "late", 4), STATUS_OK);
        faulty_disk_cut_power(disk);
        assert_int_equal(disk_file_flush(file), STATUS_IO);
        assert_int_equal(disk_remove(env, place->a), STATUS_IO);
        disk_file_destroy(file);
        faulty_disk_apply_power_cut(disk, seed);

        size = box_file_size(place->a);
        assert_in_range(size, 6, 14);
        shorter += size < 14;
        whole += size == 14;
        if (access(place->b, F_OK) != 0) {
            unnamed++;
            assert_file(place->log, NULL);          /* it was created after b */
        } else {
            assert_file(place->b, "b");
        }
        disk_clear_broken(env, place->box.root);
        write_file(env, place->b, "power is back", true);
        made = place;
        teardown(&made);
    }
    assert_true(shorter > 5 && whole > 0 && unnamed > 5);
}

static void a_power_cut_can_restore_removed_and_replaced_files(void **state)
{
    struct disk_faults faults = { .sync_error = 1000 };
    int back = 0, gone = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct place *place;
        struct faulty_disk *disk;
        struct store_env *env;
        void *made;

        setup(&made);
        place = made;
        env = place->box.env;
        disk = place->box.disk;
        faulty_disk_track_power(disk);
        write_file(env, place->a, "a", true);
        write_file(env, place->b, "b", true);
        write_file(env, place->log, "log", true);
        assert_int_equal(disk_sync_directory(env, place->box.root), STATUS_OK);
        assert_int_equal(disk_remove(env, place->log), STATUS_OK);
        faulty_disk_set(disk, &faults);     /* otherwise the rename would be synced */
        assert_int_equal(disk_rename(env, place->a, place->b), STATUS_OK);
        faulty_disk_set(disk, NULL);
        assert_file(place->a, NULL);
        assert_file(place->b, "a");
        faulty_disk_cut_power(disk);
        faulty_disk_apply_power_cut(disk, seed);
        if (access(place->log, F_OK) == 0) {
            assert_file(place->log, "log");
            assert_file(place->a, "a");         /* the removal is undone, so the later rename is undone, too */
            assert_file(place->b, "b");
            back++;
        } else if (access(place->a, F_OK) == 0) {
            assert_file(place->b, "b");
        } else {
            assert_file(place->b, "a");
            gone++;
        }
        made = place;
        teardown(&made);
    }
    assert_true(back > 5 && gone > 5);
}

static void count_up(void *counter)
{
    char name[16];

    pthread_getname_np(pthread_self(), name, sizeof(name));
    CHECK(strcmp(name, "kelvin-compact") == 0);
    atomic_fetch_add((atomic_int *)counter, 1);
}

static void the_thread_finishes_all_work_before_it_is_joined(void **state)
{
    struct place *place = *state;
    atomic_int counter = 0;

    (void)place;
    for (int round = 0; round < 20; round++) {
        struct store_env *env = store_env_create(disk_system());

        assert_int_equal(store_env_start(env, NULL), 0);
        for (int i = 0; i < 100; i++)
            disk_schedule(env, count_up, &counter);
        store_env_destroy(env);
        assert_int_equal(atomic_load(&counter), (round + 1) * 100);
    }
}

struct file_use {
    struct place *place;
    int number;
};

static void *use_files_thread(void *context)
{
    struct file_use *file_use = context;
    struct store_env *env = file_use->place->box.env;
    struct disk_faults none = { .seed = 1 };
    char path[160], other[160];

    snprintf(path, sizeof(path), "%s/%d.log", file_use->place->box.root, file_use->number);
    snprintf(other, sizeof(other), "%s/%d.tmp", file_use->place->box.root, file_use->number);
    for (int i = 0; i < 30; i++) {
        store_env_hold_removal(env);
        write_file(env, path, "x", i % 2 == 0);
        faulty_disk_set(file_use->place->box.disk, i % 3 == 0 ? &none : NULL);
        assert_int_equal(disk_rename(env, path, other), STATUS_OK);
        assert_int_equal(disk_remove(env, other), STATUS_OK);
        store_env_release_removal(env);
        assert_true(store_env_stats(env).syncs > 0);
    }
    return NULL;
}

static void many_threads_may_use_one_env(void **state)
{
    struct file_use uses[4];
    pthread_t threads[4];
    struct place *place = *state;

    faulty_disk_track_power(place->box.disk);
    for (int i = 0; i < 4; i++) {
        uses[i] = (struct file_use){ place, i };
        assert_int_equal(pthread_create(&threads[i], NULL, use_files_thread, &uses[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void tables_are_never_mapped_into_memory(void **state)
{
    struct place *place = *state;
    char line[512];
    FILE *maps;

    assert_int_equal(box_open(&place->box), STATUS_OK);
    box_write_many(&place->box, 300);
    assert_int_equal(store_compact(place->box.store), STATUS_OK);
    box_verify(&place->box, place->box.store, STATUS_OK);
    maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL)
        assert_null(strstr(line, place->box.root));
    fclose(maps);
    assert_true(store_env_stats(place->box.env).reads > 0);
    assert_true(store_env_stats(place->box.env).written_bytes > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_large_file_is_written_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(a_short_write_is_truncated_and_the_file_accepts_no_more_writes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_and_a_broken_disk_have_different_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_whose_sync_failed_accepts_no_more_writes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_log_is_synced_when_it_is_destroyed, setup, teardown),
        cmocka_unit_test_setup_teardown(creating_a_file_does_not_change_its_other_link, setup, teardown),
        cmocka_unit_test_setup_teardown(removed_files_stay_until_the_last_hold_is_released, setup, teardown),
        cmocka_unit_test(a_power_cut_loses_only_what_was_not_synced),
        cmocka_unit_test(a_power_cut_can_restore_removed_and_replaced_files),
        cmocka_unit_test_setup_teardown(the_thread_finishes_all_work_before_it_is_joined, setup, teardown),
        cmocka_unit_test_setup_teardown(many_threads_may_use_one_env, setup, teardown),
        cmocka_unit_test_setup_teardown(tables_are_never_mapped_into_memory, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
