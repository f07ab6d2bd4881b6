#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

/* A disk that interrupts every other call, moves at most `step` bytes at a time, and fails one kind of call with `error`. */
struct rig {
    char root[64];
    struct disk disk;
    size_t step;
    bool interrupts, interrupted;
    const char *fails;          /* name of the function, NULL: none */
    int error;                  /* 0: a write accepts no bytes */
    int syncs, opened;
};

static bool call_fails(struct rig *rig, const char *name)
{
    rig->interrupted = rig->interrupts && !rig->interrupted;
    if (rig->interrupted) {
        errno = EINTR;
        return true;
    }
    if (rig->fails == NULL || strcmp(rig->fails, name) != 0)
        return false;
    errno = rig->error;
    return true;
}

static size_t at_most(const struct rig *rig, size_t size)
{
    return rig->step > 0 && size > rig->step ? rig->step : size;
}

static int rig_open(void *context, int dir, const char *path, int flags, mode_t mode)
{
    struct rig *rig = context;
    int fd;

    if (call_fails(rig, "open"))
        return -1;
    assert_true(flags & O_CLOEXEC);
    fd = openat(dir, path, flags, mode);
    rig->opened += fd >= 0;
    return fd;
}

static int rig_close(void *context, int fd)
{
    struct rig *rig = context;

    rig->opened--;
    close(fd);
    errno = rig->error;         /* must not be taken for what went wrong before */
    return rig->fails != NULL && strcmp(rig->fails, "close") == 0 ? -1 : 0;
}

static ssize_t rig_read(void *context, int fd, void *data, size_t size)
{
    return call_fails(context, "read") ? -1 : read(fd, data, at_most(context, size));
}

static ssize_t rig_pread(void *context, int fd, void *data, size_t size, off_t offset)
{
    return call_fails(context, "pread") ? -1 : pread(fd, data, at_most(context, size), offset);
}

static ssize_t rig_write(void *context, int fd, const void *data, size_t size)
{
    struct rig *rig = context;

    if (!call_fails(rig, "write"))
        return write(fd, data, at_most(rig, size));
    return errno == 0 ? 0 : -1;
}

static int rig_fsync(void *context, int fd)
{
    struct rig *rig = context;

    rig->interrupts = false;    /* fsync is not interrupted */
    if (call_fails(rig, "fsync"))
        return -1;
    rig->syncs++;
    return 0;
}

static int rig_rename(void *context, int dir, const char *from, const char *to)
{
    struct rig *rig = context;

    return call_fails(rig, "rename") ? -1 : renameat(dir, from, dir, to);
}

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));

    strcpy(rig->root, "/tmp/kelvin-test-file-XXXXXX");
    rig->disk = *disk_system();
    rig->disk.context = rig;
    rig->disk.open = rig_open;
    rig->disk.close = rig_close;
    rig->disk.read = rig_read;
    rig->disk.pread = rig_pread;
    rig->disk.write = rig_write;
    rig->disk.fsync = rig_fsync;
    rig->disk.rename = rig_rename;
    *state = rig;
    return mkdtemp(rig->root) != NULL && chdir(rig->root) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    int opened = rig->opened;

    unlink("file");
    unlink("aside");
    rmdir(rig->root);
    free(rig);
    return opened == 0 ? 0 : -1;
}

static void assert_file(const char *path, struct bytes wanted)
{
    struct buffer text = { 0 };

    assert_int_equal(file_read_all(disk_system(), AT_FDCWD, path, 1 << 20, &text), STATUS_OK);
    assert_true(bytes_equal(buffer_bytes(&text), wanted));
    buffer_release(&text);
}

static void a_missing_file_is_not_found(void **state)
{
    struct buffer text = { 0 };

    (void)state;
    assert_int_equal(file_read_all(disk_system(), AT_FDCWD, "file", 100, &text), STATUS_NOT_FOUND);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(directory_sync(disk_system(), "file"), STATUS_NOT_FOUND);
}

static void interrupted_and_short_calls_are_continued(void **state)
{
    struct rig *rig = *state;
    struct buffer text = { 0 };
    char part[8];
    int fd;

    rig->step = 3;
    rig->interrupts = true;
    assert_int_equal(file_create(&rig->disk, AT_FDCWD, "file", BYTES("0123456789")), STATUS_OK);
    assert_file("file", BYTES("0123456789"));
    rig->interrupts = true;
    buffer_append_string(&text, "before ");
    assert_int_equal(file_read_all(&rig->disk, AT_FDCWD, "file", 10, &text), STATUS_OK);
    assert_true(bytes_equal(buffer_bytes(&text), BYTES("before 0123456789")));
    fd = file_open(&rig->disk, AT_FDCWD, "file", O_RDONLY);
    assert_int_equal(file_pread_all(&rig->disk, fd, part, 8, 1), 8);
    assert_memory_equal(part, "12345678", 8);
    assert_int_equal(file_pread_all(&rig->disk, fd, part, 8, 7), 3);
    assert_memory_equal(part, "789", 3);
    assert_int_equal(file_pread_all(&rig->disk, fd, part, 8, 10), 0);
    assert_int_equal(file_read(&rig->disk, fd, part, 8), 3);
    rig->disk.close(rig, fd);
    buffer_release(&text);
}

static void a_file_that_is_too_large_is_not_read(void **state)
{
    struct rig *rig = *state;
    struct buffer text = { 0 };

    assert_int_equal(file_create(&rig->disk, AT_FDCWD, "file", BYTES("0123456789")), STATUS_OK);
    buffer_append_string(&text, "before");
    assert_int_equal(file_read_all(&rig->disk, AT_FDCWD, "file", 9, &text), STATUS_TOO_LARGE);
    assert_int_equal(errno, EFBIG);
    assert_true(bytes_equal(buffer_bytes(&text), BYTES("before")));
    buffer_release(&text);
}

static void create_keeps_what_is_there_and_overwrite_does_not(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(file_overwrite(&rig->disk, AT_FDCWD, "file", BYTES("a long text")), STATUS_OK);
    assert_int_equal(file_create(&rig->disk, AT_FDCWD, "file", BYTES("new")), STATUS_IO);
    assert_int_equal(errno, EEXIST);
    assert_file("file", BYTES("a long text"));
    assert_int_equal(file_overwrite(&rig->disk, AT_FDCWD, "file", BYTES("new")), STATUS_OK);
    assert_file("file", BYTES("new"));
    assert_int_equal(rig->syncs, 2);
}

static void a_failure_leaves_no_file_and_its_errno(void **state)
{
    static const struct { const char *name; int error, errno_seen; enum status status; } cases[] = {
        { "open", EACCES, EACCES, STATUS_IO },
        { "write", ENOSPC, ENOSPC, STATUS_NO_SPACE },
        { "write", 0, ENOSPC, STATUS_NO_SPACE },
        { "fsync", EIO, EIO, STATUS_IO },
        { "close", EDQUOT, EDQUOT, STATUS_NO_SPACE },
    };
    struct rig *rig = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rig->fails = cases[i].name;
        rig->error = cases[i].error;
        assert_int_equal(file_create(&rig->disk, AT_FDCWD, "file", BYTES("text")), cases[i].status);
        assert_int_equal(errno, cases[i].errno_seen);
        assert_int_equal(access("file", F_OK), -1);
    }
}

static void a_replacement_is_whole_and_has_its_mode(void **state)
{
    struct rig *rig = *state;
    struct file_replacement place = { AT_FDCWD, "file", "aside", 0604 };
    struct stat info;
    bool renamed;

    assert_int_equal(file_create(&rig->disk, AT_FDCWD, "aside", BYTES("left by a crash")), STATUS_OK);
    assert_int_equal(file_create(&rig->disk, AT_FDCWD, "file", BYTES("old")), STATUS_OK);
    rig->syncs = 0;
    assert_int_equal(file_replace(&rig->disk, &place, BYTES("new"), &renamed), STATUS_OK);
    assert_true(renamed);
    assert_int_equal(rig->syncs, 2);                /* the file, then its directory */
    assert_file("file", BYTES("new"));
    assert_int_equal(stat("file", &info), 0);
    assert_int_equal(info.st_mode & 07777, 0604);
    assert_int_equal(access("aside", F_OK), -1);
}

static void a_refilled_file_has_the_new_bytes_only_and_keeps_its_mode(void **state)
{
    static const char *const names[] = { "open", "write", "fsync" };
    struct rig *rig = *state;
    struct stat before, after;

    assert_int_equal(file_create(&rig->disk, AT_FDCWD, "file", BYTES("an old text")), STATUS_OK);
    assert_int_equal(chmod("file", 0604), 0);
    assert_int_equal(stat("file", &before), 0);
    rig->syncs = 0;
    assert_int_equal(file_refill(&rig->disk, AT_FDCWD, "file", BYTES("new")), STATUS_OK);
    assert_int_equal(rig->syncs, 1);
    assert_file("file", BYTES("new"));
    assert_int_equal(stat("file", &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    assert_int_equal(after.st_mode & 07777, 0604);
    assert_int_equal(file_refill(&rig->disk, AT_FDCWD, "nosuch", BYTES("new")), STATUS_NOT_FOUND);
    rig->error = EIO;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        rig->fails = names[i];
        assert_int_equal(file_refill(&rig->disk, AT_FDCWD, "file", BYTES("newer")), STATUS_IO);
        assert_int_equal(errno, EIO);
    }
}

static void a_replacement_that_fails_leaves_the_old_file(void **state)
{
    struct rig *rig = *state;
    struct file_replacement place = { AT_FDCWD, "file", "aside", 0 };
    static const char *const names[] = { "open", "write", "fsync", "rename" };
    bool renamed;

    assert_int_equal(file_create(&rig->disk, AT_FDCWD, "file", BYTES("old")), STATUS_OK);
    rig->error = EIO;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        rig->fails = names[i];
        assert_int_equal(file_replace(&rig->disk, &place, BYTES("new"), &renamed), STATUS_IO);
        assert_int_equal(errno, EIO);
        assert_int_equal(renamed, strcmp(names[i], "rename") == 0);
        assert_file("file", BYTES("old"));
        assert_int_equal(access("aside", F_OK), -1);
    }
}

static void a_directory_descriptor_is_where_names_begin(void **state)
{
    struct rig *rig = *state;
    int dir = open(rig->root, O_RDONLY | O_DIRECTORY);
    struct file_replacement place = { dir, "file", "aside", 0 };
    bool renamed;

    assert_int_equal(chdir("/"), 0);
    assert_int_equal(file_replace(&rig->disk, &place, BYTES("new"), &renamed), STATUS_OK);
    assert_int_equal(rig->syncs, 2);
    assert_int_equal(chdir(rig->root), 0);
    assert_file("file", BYTES("new"));
    close(dir);
}

static int keep_path(void *context, int dir, const char *path, int flags, mode_t mode)
{
    (void)dir;
    assert_int_equal(flags, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(context, 100, "%s", path);
    errno = EIO;
    return -1;
}

static void the_parent_is_that_of_dirname(void **state)
{
    static const struct { const char *path, *parent; } cases[] = {
        { "a", "." }, { "a/", "." }, { "a/b", "a" }, { "a/b/", "a" }, { "a//b", "a" }, { "/a", "/" }, { "/", "/" }, { "/a/b/c", "/a/b" },
        { "./a", "." }, { "", "." },
    };
    struct disk disk = *disk_system();
    char parent[100];

    (void)state;
    disk.context = parent;
    disk.open = keep_path;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(directory_sync_parent(&disk, cases[i].path), STATUS_IO);
        assert_string_equal(parent, cases[i].parent);
    }
}

#define RIG_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(a_missing_file_is_not_found),
        RIG_TEST(interrupted_and_short_calls_are_continued),
        RIG_TEST(a_file_that_is_too_large_is_not_read),
        RIG_TEST(create_keeps_what_is_there_and_overwrite_does_not),
        RIG_TEST(a_failure_leaves_no_file_and_its_errno),
        RIG_TEST(a_replacement_is_whole_and_has_its_mode),
        RIG_TEST(a_refilled_file_has_the_new_bytes_only_and_keeps_its_mode),
        RIG_TEST(a_replacement_that_fails_leaves_the_old_file),
        RIG_TEST(a_directory_descriptor_is_where_names_begin),
        cmocka_unit_test(the_parent_is_that_of_dirname),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
