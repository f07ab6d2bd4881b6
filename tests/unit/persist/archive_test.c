#include "persist/archive.h"

#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/crc64.h"
#include "base/disk.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/tree.h"

enum { PATH_SIZE = 300, FILES = 6 };

static const char *const names[FILES] = { "dataset", "functions", "hot", "store/000032.run", "store/00000017.seg", "store/meta" };
static const struct archive_facts facts = { 64, 16 };

struct box {
    char dir[64], image[PATH_SIZE], received[PATH_SIZE];
    struct message message;
};

static int set_up(void **state)
{
    struct box *box = mem_zalloc(sizeof(*box));

    strcpy(box->dir, "/tmp/kelvin-archive-XXXXXX");
    assert_non_null(mkdtemp(box->dir));
    snprintf(box->image, sizeof(box->image), "%s/image", box->dir);
    snprintf(box->received, sizeof(box->received), "%s/received", box->dir);
    *state = box;
    return 0;
}

static int tear_down(void **state)
{
    struct box *box = *state;

    tree_remove(box->dir);
    mem_free(box);
    return 0;
}

static void path_of(const char *dir, const char *name, char path[2 * PATH_SIZE])
{
    snprintf(path, 2 * PATH_SIZE, "%s/%s", dir, name);
}

static void write_file(const struct box *box, const char *name, struct bytes data)
{
    char path[2 * PATH_SIZE];

    path_of(box->image, name, path);
    assert_int_equal(file_create(disk_system(), AT_FDCWD, path, data), STATUS_OK);
}

/* The second file is empty; the last one has `size` bytes. */
static void make_image(const struct box *box, size_t size)
{
    char path[2 * PATH_SIZE];
    struct buffer data = { 0 };

    assert_int_equal(mkdir(box->image, 0755), 0);
    path_of(box->image, "store", path);
    assert_int_equal(mkdir(path, 0755), 0);
    for (int i = 0; i < FILES; i++) {
        data.size = 0;
        for (size_t at = 0; i != 1 && at < (i == FILES - 1 ? size : (size_t)i + 3); at++)
            buffer_append_u8(&data, (uint8_t)(at * 7 + (size_t)i));
        write_file(box, names[i], buffer_bytes(&data));
    }
    write_file(box, "store/LOCK", BYTES("not of the image"));
    buffer_release(&data);
}

/* All bytes, read in pieces of up to `piece`. The image is gone afterwards. */
static void read_archive(struct box *box, size_t piece, struct buffer *out)
{
    struct archive *archive = NULL;
    struct archive_reader *reader;
    ssize_t got;

    assert_int_equal(archive_open(box->image, &facts, NULL, &archive, &box->message), STATUS_OK);
    reader = archive_reader_create(archive);
    while ((got = archive_read(reader, buffer_reserve(out, piece), piece)) > 0)
        out->size += (size_t)got;
    assert_int_equal(got, 0);
    assert_int_equal(out->size, archive_size(archive));
    archive_reader_destroy(reader);
    archive_release(archive);
}

static enum status receive_from(struct box *box, const struct disk *disk, struct bytes bytes, size_t piece, bool *complete)
{
    struct archive_receiver *receiver;
    enum status status = STATUS_OK;

    tree_remove(box->received);
    box->message = (struct message){ "" };
    receiver = archive_receiver_create(disk, box->received);
    for (size_t at = 0; at < bytes.size && status == STATUS_OK; at += piece)
        status = archive_receive(receiver, bytes_of(bytes.data + at, bytes.size - at < piece ? bytes.size - at : piece), &box->message);
    *complete = archive_receiver_is_complete(receiver);
    if (*complete)
        assert_int_equal(archive_receiver_facts(receiver).partition_count, facts.partition_count);
    archive_receiver_destroy(receiver);
    assert_int_equal(status != STATUS_OK, !message_is_empty(&box->message));
    return status;
}

static enum status receive(struct box *box, struct bytes bytes, bool *complete)
{
    return receive_from(box, disk_system(), bytes, 1 + bytes.size / 3, complete);
}

static void check_received(const struct box *box, size_t size)
{
    for (int i = 0; i < FILES; i++) {
        char path[2 * PATH_SIZE];
        struct buffer data = { 0 };

        path_of(box->received, names[i], path);
        assert_int_equal(file_read_all(disk_system(), AT_FDCWD, path, 1 << 30, &data), STATUS_OK);
        assert_int_equal(data.size, i == 1 ? 0 : i == FILES - 1 ? size : (size_t)i + 3);
        for (size_t at = 0; at < data.size; at++)
            assert_int_equal((uint8_t)data.data[at], (uint8_t)(at * 7 + (size_t)i));
        buffer_release(&data);
    }
}

/* An image has its list of databases twice, also one that was received. */
static void check_copy(const struct box *box)
{
    struct buffer first = { 0 }, copy = { 0 };
    char path[2 * PATH_SIZE];

    path_of(box->received, "dataset", path);
    assert_int_equal(file_read_all(disk_system(), AT_FDCWD, path, 1 << 30, &first), STATUS_OK);
    path_of(box->received, "dataset.copy", path);
    assert_int_equal(file_read_all(disk_system(), AT_FDCWD, path, 1 << 30, &copy), STATUS_OK);
    assert_true(bytes_equal(buffer_bytes(&first), buffer_bytes(&copy)));
    buffer_release(&first);
    buffer_release(&copy);
}

static void what_was_sent_is_received_however_it_is_cut(void **state)
{
    static const size_t pieces[] = { 1, 2, 7, 40, 1000, 1 << 20 };
    struct box *box = *state;
    struct buffer bytes = { 0 };
    bool complete;

    make_image(box, 70000);
    read_archive(box, 999, &bytes);
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        assert_int_equal(receive_from(box, disk_system(), buffer_bytes(&bytes), pieces[i], &complete), STATUS_OK);
        assert_true(complete);
        check_received(box, 70000);
        check_copy(box);
    }
    buffer_release(&bytes);
}

static void two_readers_read_at_their_own_pace_and_the_last_one_removes_the_image(void **state)
{
    struct box *box = *state;
    struct archive *archive = NULL;
    struct archive_reader *one, *two;
    char first[8192], second[8192], rest;
    ssize_t size;

    make_image(box, 5000);
    assert_int_equal(archive_open(box->image, &facts, NULL, &archive, &box->message), STATUS_OK);
    one = archive_reader_create(archive);
    two = archive_reader_create(archive);
    archive_release(archive);
    size = archive_read(one, first, sizeof(first));
    archive_reader_destroy(one);
    for (ssize_t at = 0; at < size; at++)
        assert_int_equal(archive_read(two, second + at, 1), 1);
    assert_int_equal(archive_read(two, &rest, 1), 0);
    assert_memory_equal(first, second, (size_t)size);
    assert_int_equal(access(box->image, F_OK), 0);
    archive_reader_destroy(two);
    for (int i = 0; i < 5000 && access(box->image, F_OK) == 0; i++)
        usleep(1000);
    assert_int_equal(access(box->image, F_OK), -1);
}

static void a_file_that_becomes_shorter_is_an_error(void **state)
{
    struct box *box = *state;
    struct archive *archive = NULL;
    struct archive_reader *reader;
    char path[2 * PATH_SIZE], piece[20000];

    make_image(box, 9000);
    assert_int_equal(archive_open(box->image, &facts, NULL, &archive, &box->message), STATUS_OK);
    reader = archive_reader_create(archive);
    path_of(box->image, names[FILES - 1], path);
    assert_int_equal(truncate(path, 10), 0);
    assert_int_equal(archive_read(reader, piece, sizeof(piece)), -1);
    archive_reader_destroy(reader);
    archive_release(archive);
}

/* The head's sum covers the version: it is set again. */
static void seal_head(struct buffer *bytes)
{
    uint64_t sum = crc64(0, bytes_of(bytes->data, ARCHIVE_HEAD_SIZE - 8));

    memcpy(bytes->data + ARCHIVE_HEAD_SIZE - 8, &sum, sizeof(sum));
}

static void every_changed_byte_is_found(void **state)
{
    struct box *box = *state;
    struct buffer bytes = { 0 };
    bool complete;

    make_image(box, 50);
    read_archive(box, 4096, &bytes);
    for (size_t at = 0; at < bytes.size; at++) {
        bytes.data[at] ^= 0x10;
        assert_true(receive(box, buffer_bytes(&bytes), &complete) != STATUS_OK || !complete);
        assert_false(complete);
        bytes.data[at] ^= 0x10;
    }
    assert_int_equal(receive(box, buffer_bytes(&bytes), &complete), STATUS_OK);
    assert_true(complete);
    buffer_release(&bytes);
}

static void one_that_ends_early_is_not_complete_and_one_that_goes_on_is_refused(void **state)
{
    struct box *box = *state;
    struct buffer bytes = { 0 };
    bool complete;

    make_image(box, 50);
    read_archive(box, 4096, &bytes);
    for (size_t size = 0; size < bytes.size; size++) {
        assert_int_equal(receive(box, bytes_of(bytes.data, size), &complete), STATUS_OK);
        assert_false(complete);
    }
    buffer_append_u8(&bytes, 0);
    assert_int_equal(receive(box, buffer_bytes(&bytes), &complete), STATUS_CORRUPT);
    buffer_release(&bytes);
}

static void another_version_is_named(void **state)
{
    struct box *box = *state;
    struct buffer bytes = { 0 };
    bool complete;

    make_image(box, 50);
    read_archive(box, 4096, &bytes);
    bytes.data[8] = 10;
    seal_head(&bytes);
    assert_int_equal(receive(box, buffer_bytes(&bytes), &complete), STATUS_VERSION);
    assert_non_null(strstr(box->message.text, "version 10"));
    buffer_release(&bytes);
}

/* --- archives made by hand, whose sums are right --- */

static void add(struct buffer *bytes, const void *data, size_t size)
{
    buffer_append(bytes, data, size);
}

static void begin(struct buffer *bytes, uint32_t files)
{
    uint32_t numbers[] = { ARCHIVE_VERSION, facts.partition_count, facts.db_count, files };
    uint64_t zeros[2] = { 0 };

    buffer_append_string(bytes, "KELVINIM");
    add(bytes, numbers, sizeof(numbers));
    add(bytes, zeros, sizeof(zeros));
}

static void add_file(struct buffer *bytes, struct bytes name, uint64_t size, struct bytes data)
{
    size_t from = bytes->size;
    uint64_t sum;

    buffer_append_u8(bytes, 'F');
    buffer_append_u8(bytes, (uint8_t)name.size);
    buffer_append_bytes(bytes, name);
    add(bytes, &size, sizeof(size));
    sum = crc64(0, bytes_of(bytes->data + from, bytes->size - from));
    add(bytes, &sum, sizeof(sum));
    buffer_append_bytes(bytes, data);
    sum = crc64(0, data);
    add(bytes, &sum, sizeof(sum));
}

static void end(struct buffer *bytes, uint32_t files)
{
    size_t from = bytes->size;
    uint64_t sum, size;

    buffer_append_u8(bytes, 'E');
    buffer_append_u8(bytes, 0);
    add(bytes, &files, sizeof(files));
    sum = crc64(0, bytes_of(bytes->data + from, bytes->size - from));
    add(bytes, &sum, sizeof(sum));
    size = bytes->size;
    memcpy(bytes->data + 24, &size, sizeof(size));
    seal_head(bytes);
}

static void a_name_that_is_none_of_an_images_is_refused(void **state)
{
    static const char *const bad[] = {
        "../x", "x", "/etc/passwd", "store/../x", "store/", "store/LOCK", "store/KELVIN", "store/x.run", "store/1.run/..", "store/.seg",
        "store/CURRENT", "store/MANIFEST-1", "store/1.ldb", "meta", "dataset/", "Dataset", "tags ", "store/00000000000000000000000000000000000000000000000000000000.seg",
    };
    struct box *box = *state;
    bool complete;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]) + 1; i++) {
        struct bytes name = i < sizeof(bad) / sizeof(bad[0]) ? bytes_of_string(bad[i]) : bytes_of("dataset\0", 8);
        struct buffer bytes = { 0 };
        bool is_long = name.size > 60;

        assert_true(is_long || !archive_name_is_valid(name));
        begin(&bytes, 1);
        add_file(&bytes, name, 3, BYTES("abc"));
        end(&bytes, 1);
        if (!is_long)
            assert_int_equal(receive(box, buffer_bytes(&bytes), &complete), STATUS_CORRUPT);
        buffer_release(&bytes);
    }
}

static void counts_and_sizes_have_to_add_up(void **state)
{
    struct box *box = *state;
    bool complete;

    for (int wrong = 0; wrong < 6; wrong++) {
        struct buffer bytes = { 0 };

        begin(&bytes, wrong == 1 ? 1 : wrong == 2 ? 3 : wrong == 3 ? 0xffffffff : 2);
        add_file(&bytes, BYTES("tags"), wrong == 4 ? UINT64_MAX / 2 : 3, BYTES("abc"));
        add_file(&bytes, wrong == 5 ? BYTES("tags") : BYTES("hot"), 3, BYTES("abc"));
        end(&bytes, wrong == 2 ? 3 : 2);
        assert_int_equal(receive(box, buffer_bytes(&bytes), &complete), wrong == 0 ? STATUS_OK : STATUS_CORRUPT);
        assert_int_equal(complete, wrong == 0);
        buffer_release(&bytes);
    }
}

/* --- disks --- */

struct full_disk {
    struct disk table;
    int left;                       /* operations that succeed */
};

static bool spend(struct full_disk *disk)
{
    errno = ENOSPC;
    return disk->left-- > 0;
}

static ssize_t full_write(void *context, int fd, const void *data, size_t size)
{
    return spend(context) ? disk_system()->write(disk_system()->context, fd, data, size) : -1;
}

static int full_sync(void *context, int fd)
{
    return spend(context) ? disk_system()->fdatasync(disk_system()->context, fd) : -1;
}

static int full_open(void *context, int dir, const char *path, int flags, mode_t mode)
{
    return spend(context) ? disk_system()->open(disk_system()->context, dir, path, flags, mode) : -1;
}

static int full_mkdir(void *context, int dir, const char *path, mode_t mode)
{
    return spend(context) ? disk_system()->mkdir(disk_system()->context, dir, path, mode) : -1;
}

static void a_full_disk_is_named_at_every_operation(void **state)
{
    struct box *box = *state;
    struct full_disk disk = { .table = *disk_system() };
    struct buffer bytes = { 0 };
    enum status status = STATUS_NO_SPACE;
    bool complete;
    int operations = 0;

    make_image(box, 50);
    read_archive(box, 4096, &bytes);
    disk.table.context = &disk;
    disk.table.write = full_write;
    disk.table.fdatasync = full_sync;
    disk.table.open = full_open;
    disk.table.mkdir = full_mkdir;
    for (; status != STATUS_OK; operations++) {
        disk.left = operations;
        status = receive_from(box, &disk.table, buffer_bytes(&bytes), 64, &complete);
        assert_true(status == STATUS_NO_SPACE || status == STATUS_OK);
        assert_int_equal(complete, status == STATUS_OK);
    }
    assert_true(operations > 3 * FILES);
    check_received(box, 50);
    buffer_release(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_sent_is_received_however_it_is_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_readers_read_at_their_own_pace_and_the_last_one_removes_the_image, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_becomes_shorter_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_changed_byte_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_ends_early_is_not_complete_and_one_that_goes_on_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_version_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_name_that_is_none_of_an_images_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(counts_and_sizes_have_to_add_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_is_named_at_every_operation, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
