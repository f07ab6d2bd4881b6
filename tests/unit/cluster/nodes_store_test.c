#include "cluster/nodes_store.h"

#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "cluster/nodes_file.h"
#include "support/faulty_disk.h"

/* A folder with a file, and a disk that notes the calls that make the file durable, and ends the process at one of them. */
struct rig {
    char dir[64], path[80], aside[90], next[90];
    struct disk disk;
    char calls[4000];
    const char *dies_at, *fails_at;
    struct nodes_store *store;
    struct buffer text;
    struct message message;
};

/* -1: it fails. */
static int note_call(struct rig *rig, const char *name)
{
    if (rig->dies_at != NULL && strcmp(rig->dies_at, name) == 0)
        _exit(0);
    strcat(strcat(rig->calls, name), " ");
    errno = EIO;
    return rig->fails_at != NULL && strcmp(rig->fails_at, name) == 0 ? -1 : 0;
}

static ssize_t rig_write(void *context, int fd, const void *data, size_t size)
{
    return note_call(context, "write") != 0 ? -1 : write(fd, data, size);
}

static int rig_fsync(void *context, int fd)
{
    struct stat info;

    CHECK(fstat(fd, &info) == 0);
    return note_call(context, S_ISDIR(info.st_mode) ? "sync-directory" : "sync") != 0 ? -1 : fsync(fd);
}

static int rig_rename(void *context, int dir, const char *from, const char *to)
{
    return note_call(context, "rename") != 0 ? -1 : renameat(dir, from, dir, to);
}

static void setup(struct rig *rig)
{
    *rig = (struct rig){ .dir = "/tmp/kelvin-test-XXXXXX", .disk = *disk_system() };
    CHECK(mkdtemp(rig->dir) != NULL);
    snprintf(rig->path, sizeof(rig->path), "%s/nodes.conf", rig->dir);
    snprintf(rig->aside, sizeof(rig->aside), "%s.tmp", rig->path);
    snprintf(rig->next, sizeof(rig->next), "%s.next", rig->path);
    rig->disk.context = rig;
    rig->disk.write = rig_write;
    rig->disk.fsync = rig_fsync;
    rig->disk.rename = rig_rename;
}

static void teardown(struct rig *rig)
{
    nodes_store_close(rig->store);
    buffer_release(&rig->text);
    unlink(rig->path);
    CHECK(rmdir(rig->dir) == 0);            /* nothing else is there */
}

static enum status open_with(struct rig *rig, const struct disk *disk)
{
    rig->text.size = 0;
    return nodes_store_open(disk, rig->path, &rig->store, &rig->text, &rig->message);
}

static enum status open_again(struct rig *rig)
{
    nodes_store_close(rig->store);
    rig->store = NULL;
    return open_with(rig, &rig->disk);
}

static enum status save(struct rig *rig, const char *text, enum nodes_store_durability durability)
{
    return nodes_store_save(rig->store, bytes_of_string(text), durability, &rig->message);
}

static bool file_is(struct rig *rig, const char *text)
{
    struct buffer found = { 0 };
    bool same;

    CHECK(file_read_all(disk_system(), AT_FDCWD, rig->path, 1000, &found) == STATUS_OK);
    same = bytes_equal(buffer_bytes(&found), bytes_of_string(text));
    buffer_release(&found);
    return same;
}

/* Whether another process could have it. */
static bool is_locked(struct rig *rig)
{
    int fd = open(rig->path, O_RDONLY);
    bool locked = flock(fd, LOCK_EX | LOCK_NB) != 0;

    CHECK(fd >= 0);
    close(fd);
    return locked;
}

static void a_missing_file_is_created_empty_and_what_is_saved_is_read_again(void **state)
{
    struct rig rig;

    setup(&rig);
    assert_int_equal(open_again(&rig), STATUS_OK);
    assert_int_equal(rig.text.size, 0);
    assert_true(file_is(&rig, ""));
    assert_int_equal(save(&rig, "first\n", NODES_STORE_SYNCED), STATUS_OK);
    assert_int_equal(save(&rig, "second, longer\n", NODES_STORE_SYNCED), STATUS_OK);
    assert_int_equal(save(&rig, "third\n", NODES_STORE_SYNCED), STATUS_OK);
    assert_int_equal(open_again(&rig), STATUS_OK);
    assert_true(bytes_equal(buffer_bytes(&rig.text), BYTES("third\n")));
    teardown(&rig);
}

static void new_contents_are_synced_before_they_have_the_name_and_so_is_the_name(void **state)
{
    struct rig rig;

    setup(&rig);
    assert_int_equal(open_again(&rig), STATUS_OK);
    assert_int_equal(save(&rig, "now", NODES_STORE_SYNCED), STATUS_OK);
    assert_string_equal(rig.calls, "write sync rename sync-directory ");
    teardown(&rig);
}

static bool is_read_again(struct rig *rig, const char *text)
{
    assert_int_equal(open_again(rig), STATUS_OK);
    return bytes_equal(buffer_bytes(&rig->text), bytes_of_string(text));
}

static void what_is_only_written_is_not_synced_and_is_read_again(void **state)
{
    struct rig rig;

    setup(&rig);
    assert_int_equal(open_again(&rig), STATUS_OK);
    assert_int_equal(save(&rig, "old", NODES_STORE_SYNCED), STATUS_OK);
    rig.calls[0] = '\0';
    assert_int_equal(save(&rig, "written", NODES_STORE_WRITTEN), STATUS_OK);
    assert_string_equal(rig.calls, "write write rename ");
    assert_true(file_is(&rig, "old"));
    assert_true(is_locked(&rig));
    assert_true(is_read_again(&rig, "written"));
    assert_int_equal(save(&rig, "again", NODES_STORE_WRITTEN), STATUS_OK);      /* of the same nodes.conf */
    assert_true(is_read_again(&rig, "again"));
    assert_int_equal(save(&rig, "synced", NODES_STORE_SYNCED), STATUS_OK);
    assert_int_equal(access(rig.next, F_OK), -1);
    assert_true(is_read_again(&rig, "synced"));
    rig.fails_at = "rename";
    assert_int_equal(save(&rig, "new", NODES_STORE_WRITTEN), STATUS_IO);
    assert_int_equal(access(rig.aside, F_OK), -1);
    assert_true(is_read_again(&rig, "synced"));
    teardown(&rig);
}

static void change_file(const char *path, size_t at, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0644);

    CHECK(fd >= 0 && pwrite(fd, text, strlen(text), (off_t)at) == (ssize_t)strlen(text) && close(fd) == 0);
}

static void what_was_written_is_void_once_either_file_has_changed(void **state)
{
    struct rig rig;

    setup(&rig);
    assert_int_equal(open_again(&rig), STATUS_OK);
    assert_int_equal(save(&rig, "old", NODES_STORE_SYNCED), STATUS_OK);
    for (size_t at = 0; at < 41; at++) {
        assert_int_equal(save(&rig, "written", NODES_STORE_WRITTEN), STATUS_OK);
        change_file(rig.next, at, "?");
        assert_true(is_read_again(&rig, "old"));
        assert_int_equal(truncate(rig.next, (off_t)at), 0);
        assert_true(is_read_again(&rig, "old"));
    }
    assert_int_equal(save(&rig, "written", NODES_STORE_WRITTEN), STATUS_OK);
    assert_true(is_read_again(&rig, "written"));
    change_file(rig.path, 0, "by another program");
    assert_true(is_read_again(&rig, "by another program"));
    assert_int_equal(truncate(rig.path, 0), 0);
    assert_true(is_read_again(&rig, ""));
    unlink(rig.next);
    teardown(&rig);
}

static void a_second_process_is_refused_also_after_saves(void **state)
{
    struct rig rig, other;
    char message[MESSAGE_SIZE];

    setup(&rig);
    snprintf(message, sizeof(message), "The cluster configuration file %s is in use by another process: each node needs a file of its own", rig.path);
    assert_int_equal(open_again(&rig), STATUS_OK);
    for (int i = 0; i < 3; i++) {
        other = rig;
        other.text = (struct buffer){ 0 };
        assert_true(is_locked(&rig));
        assert_int_equal(open_with(&other, disk_system()), STATUS_LOCKED);
        assert_null(other.store);
        assert_string_equal(other.message.text, message);
        assert_int_equal(save(&rig, "text", NODES_STORE_SYNCED), STATUS_OK);
    }
    nodes_store_close(rig.store);
    rig.store = NULL;
    assert_false(is_locked(&rig));
    teardown(&rig);
}

/* An opener whose file is replaced, and unlocked, between its open and its lock. */
struct overtaken {
    struct rig rig;
    struct nodes_store *first;
    int opened;
};

static int overtaken_open(void *context, int dir, const char *path, int flags, mode_t mode)
{
    struct overtaken *overtaken = context;
    int fd = openat(dir, path, flags, mode);

    if (strcmp(path, overtaken->rig.path) == 0 && overtaken->opened++ == 0)
        assert_int_equal(nodes_store_save(overtaken->first, BYTES("newer"), NODES_STORE_SYNCED, NULL), STATUS_OK);
    return fd;
}

static void a_lock_on_a_file_that_was_replaced_meanwhile_does_not_count(void **state)
{
    struct overtaken overtaken = { .opened = 0 };
    struct disk disk = *disk_system();

    setup(&overtaken.rig);
    disk.context = &overtaken;
    disk.open = overtaken_open;
    assert_int_equal(nodes_store_open(disk_system(), overtaken.rig.path, &overtaken.first, &overtaken.rig.text, NULL), STATUS_OK);
    assert_int_equal(open_with(&overtaken.rig, &disk), STATUS_LOCKED);
    assert_true(overtaken.opened > 1);
    nodes_store_close(overtaken.first);
    teardown(&overtaken.rig);
}

static void a_failed_save_leaves_the_old_contents_and_the_next_one_succeeds(void **state)
{
    const struct disk_faults faults[] = {
        { .write_error = 1000 }, { .write_no_space = 1000 }, { .write_short = 1000 }, { .write_late = 1000 }, { .sync_error = 1000 },
    };
    struct faulty_disk *disk = faulty_disk_create();
    struct rig rig;

    setup(&rig);
    assert_int_equal(open_with(&rig, faulty_disk_table(disk)), STATUS_OK);
    assert_int_equal(save(&rig, "old", NODES_STORE_SYNCED), STATUS_OK);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        rig.message.text[0] = '\0';
        faulty_disk_set(disk, &faults[i]);
        assert_int_equal(save(&rig, "new", NODES_STORE_SYNCED), faults[i].write_no_space > 0 ? STATUS_NO_SPACE : STATUS_IO);
        assert_non_null(strstr(rig.message.text, "nodes.conf can't be saved: "));
        assert_true(file_is(&rig, "old"));
        assert_int_equal(access(rig.aside, F_OK), -1);
        assert_true(is_locked(&rig));
        faulty_disk_set(disk, NULL);
        assert_int_equal(save(&rig, "new", NODES_STORE_SYNCED), STATUS_OK);
        assert_true(file_is(&rig, "new"));
        assert_int_equal(save(&rig, "old", NODES_STORE_SYNCED), STATUS_OK);
    }
    faulty_disk_set(disk, &(struct disk_faults){ .read_error = 1000 });
    nodes_store_close(rig.store);
    rig.store = NULL;
    assert_int_equal(open_with(&rig, faulty_disk_table(disk)), STATUS_IO);
    assert_non_null(strstr(rig.message.text, "nodes.conf can't be read: "));
    teardown(&rig);
    faulty_disk_destroy(disk);
}

static void a_rename_that_fails_keeps_the_old_contents_and_the_lock(void **state)
{
    struct rig rig;

    setup(&rig);
    assert_int_equal(open_again(&rig), STATUS_OK);
    assert_int_equal(save(&rig, "old", NODES_STORE_SYNCED), STATUS_OK);
    rig.fails_at = "rename";
    assert_int_equal(save(&rig, "new", NODES_STORE_SYNCED), STATUS_IO);
    assert_true(file_is(&rig, "old"));
    assert_true(is_locked(&rig));
    teardown(&rig);
}

static void a_directory_that_can_not_be_synced_fails_a_promise(void **state)
{
    struct rig rig;

    setup(&rig);
    assert_int_equal(open_again(&rig), STATUS_OK);
    rig.fails_at = "sync-directory";
    assert_int_equal(save(&rig, "new", NODES_STORE_SYNCED), STATUS_IO);
    assert_true(is_locked(&rig));
    assert_int_equal(save(&rig, "newer", NODES_STORE_WRITTEN), STATUS_OK);
    assert_true(is_read_again(&rig, "newer"));
    unlink(rig.next);
    teardown(&rig);
}

static void a_process_killed_at_any_step_of_a_save_leaves_the_old_or_the_new_contents(void **state)
{
    static const char *const steps[] = { "write", "sync", "rename", "sync-directory" };
    struct rig rig;

    setup(&rig);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        int result;
        pid_t child;

        assert_int_equal(open_again(&rig), STATUS_OK);
        assert_int_equal(save(&rig, "old", NODES_STORE_SYNCED), STATUS_OK);
        nodes_store_close(rig.store);
        rig.store = NULL;
        child = fork();
        if (child == 0) {
            CHECK(open_again(&rig) == STATUS_OK);
            rig.dies_at = steps[i];
            (void)save(&rig, "new, and longer", NODES_STORE_SYNCED);
            _exit(1);
        }
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_int_equal(result, 0);
        assert_int_equal(open_again(&rig), STATUS_OK);          /* the lock has ended with the process */
        assert_true(bytes_equal(buffer_bytes(&rig.text), i < 3 ? BYTES("old") : BYTES("new, and longer")));
        rig.calls[0] = '\0';
        assert_int_equal(save(&rig, "x", NODES_STORE_SYNCED), STATUS_OK);
        assert_true(file_is(&rig, "x"));
    }
    assert_int_equal(access(rig.aside, F_OK), -1);
    teardown(&rig);
}

static void a_power_cut_leaves_a_promise_or_what_came_after_it(void **state)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct faulty_disk *disk = faulty_disk_create();
        struct rig rig;

        setup(&rig);
        faulty_disk_track_power(disk);
        assert_int_equal(open_with(&rig, faulty_disk_table(disk)), STATUS_OK);
        assert_int_equal(save(&rig, "before", NODES_STORE_SYNCED), STATUS_OK);
        assert_int_equal(save(&rig, "written before", NODES_STORE_WRITTEN), STATUS_OK);
        assert_int_equal(save(&rig, "promised", NODES_STORE_SYNCED), STATUS_OK);
        assert_int_equal(save(&rig, "after", seed % 3 == 0 ? NODES_STORE_WRITTEN : NODES_STORE_SYNCED), STATUS_OK);
        if (seed % 3 == 1)
            assert_int_equal(save(&rig, "after", NODES_STORE_WRITTEN), STATUS_OK);
        faulty_disk_cut_power(disk);
        nodes_store_close(rig.store);
        rig.store = NULL;
        faulty_disk_apply_power_cut(disk, seed);
        assert_int_equal(open_again(&rig), STATUS_OK);
        assert_true(bytes_equal(buffer_bytes(&rig.text), BYTES("promised")) || bytes_equal(buffer_bytes(&rig.text), BYTES("after")));
        faulty_disk_destroy(disk);
        unlink(rig.aside);
        unlink(rig.next);
        teardown(&rig);
    }
}

static void a_file_that_is_too_large_is_refused(void **state)
{
    struct rig rig;

    setup(&rig);
    assert_int_equal(open_again(&rig), STATUS_OK);
    assert_int_equal(truncate(rig.path, NODES_FILE_SIZE_MAX + 1), 0);
    assert_int_equal(open_again(&rig), STATUS_TOO_LARGE);
    assert_non_null(strstr(rig.message.text, "nodes.conf can't be read: File too large"));
    teardown(&rig);
}

static void a_name_without_a_folder_is_in_the_working_directory(void **state)
{
    char before[200];
    struct rig rig;

    setup(&rig);
    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(rig.dir), 0);
    assert_int_equal(nodes_store_open(disk_system(), "nodes.conf", &rig.store, &rig.text, &rig.message), STATUS_OK);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(save(&rig, "text", NODES_STORE_SYNCED), STATUS_OK);       /* also if that is another one by now */
    assert_true(file_is(&rig, "text"));
    teardown(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_file_is_created_empty_and_what_is_saved_is_read_again),
        cmocka_unit_test(new_contents_are_synced_before_they_have_the_name_and_so_is_the_name),
        cmocka_unit_test(what_is_only_written_is_not_synced_and_is_read_again),
        cmocka_unit_test(what_was_written_is_void_once_either_file_has_changed),
        cmocka_unit_test(a_second_process_is_refused_also_after_saves),
        cmocka_unit_test(a_lock_on_a_file_that_was_replaced_meanwhile_does_not_count),
        cmocka_unit_test(a_failed_save_leaves_the_old_contents_and_the_next_one_succeeds),
        cmocka_unit_test(a_rename_that_fails_keeps_the_old_contents_and_the_lock),
        cmocka_unit_test(a_directory_that_can_not_be_synced_fails_a_promise),
        cmocka_unit_test(a_process_killed_at_any_step_of_a_save_leaves_the_old_or_the_new_contents),
        cmocka_unit_test(a_power_cut_leaves_a_promise_or_what_came_after_it),
        cmocka_unit_test(a_file_that_is_too_large_is_refused),
        cmocka_unit_test(a_name_without_a_folder_is_in_the_working_directory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
