#include "persist/rdb_writer.h"

#include "support/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/crc64.h"
#include "base/mem.h"
#include "value/codec.h"

static int file_make(void)
{
    char path[] = "/tmp/kelvin-rdb-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    unlink(path);
    return fd;
}

static void file_read(int fd, struct buffer *text)
{
    ssize_t size;

    text->size = 0;
    while ((size = pread(fd, buffer_reserve(text, 1 << 16), 1 << 16, (off_t)text->size)) > 0)
        text->size += (size_t)size;
    assert_int_equal(size, 0);
}

static struct rdb_writer *writer_on(int fd)
{
    return rdb_writer_create(&(struct rdb_writer_options){ .fd = fd });
}

static void assert_checksum(const struct buffer *text)
{
    uint64_t crc;

    memcpy(&crc, text->data + text->size - 8, 8);
    assert_true(crc == crc64(0, bytes_of(text->data, text->size - 8)));
}

static void the_bytes_are_those_of_the_format(void **state)
{
    static const char expected[] = "REDIS0010" "\xfa\x01" "a\xc0\x07" "\xfe\x02\xfb\x03\x01"
        "\xfc\x01\x02\x00\x00\x00\x00\x00\x00\xf9\x09\x00\x01k\x01v" "\x00\xc1\x34\x12\x02xy" "\xff";
    int fd = file_make();
    struct rdb_writer *writer = writer_on(fd);
    struct buffer text = { 0 };

    assert_int_equal(rdb_write_aux(writer, BYTES("a"), BYTES("7")), STATUS_OK);
    assert_int_equal(rdb_write_db(writer, 2, 3, 1), STATUS_OK);
    assert_int_equal(rdb_write_key(writer, &(struct rdb_key){ BYTES("k"), 513, 9, BYTES("\0\1v") }), STATUS_OK);
    assert_int_equal(rdb_write_key(writer, &(struct rdb_key){ BYTES("4660"), -1, -1, BYTES("\0\2xy") }), STATUS_OK);
    assert_int_equal(rdb_writer_end(writer), STATUS_OK);
    assert_int_equal(rdb_writer_size(writer), sizeof(expected) - 1 + 8);
    file_read(fd, &text);
    assert_int_equal(text.size, sizeof(expected) - 1 + 8);
    assert_memory_equal(text.data, expected, sizeof(expected) - 1);
    assert_checksum(&text);
    rdb_writer_destroy(writer);
    buffer_release(&text);
    close(fd);
}

static void a_checksum_that_is_switched_off_is_zero(void **state)
{
    int fd = file_make();
    struct rdb_writer *writer = rdb_writer_create(&(struct rdb_writer_options){ .fd = fd, .without_checksum = true });
    struct buffer text = { 0 };

    assert_int_equal(rdb_write_key(writer, &(struct rdb_key){ BYTES("k"), -1, -1, BYTES("\0\1v") }), STATUS_OK);
    assert_int_equal(rdb_writer_end(writer), STATUS_OK);
    file_read(fd, &text);
    assert_memory_equal(text.data + text.size - 9, "\xff\0\0\0\0\0\0\0\0", 9);
    rdb_writer_destroy(writer);
    buffer_release(&text);
    close(fd);
}

/* Bodies of about the buffer's size, and much larger ones. */
static void large_values_are_written_completely(void **state)
{
    static const size_t sizes[] = { 0, 1, 63, 64, 65, 131071, 131072, 131073, 262143, 262144, 262145, 3000000 };
    int fd = file_make();
    struct rdb_writer *writer = writer_on(fd);
    struct buffer text = { 0 }, expected = { 0 };

    buffer_append_string(&expected, "REDIS0010");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct buffer payload = { 0 };
        char *value = mem_alloc(sizes[i] + 1);

        memset(value, 'a' + (int)i, sizes[i]);
        buffer_append_u8(&payload, 0);
        codec_write_length(&payload, sizes[i]);
        buffer_append(&payload, value, sizes[i]);
        assert_int_equal(rdb_write_key(writer, &(struct rdb_key){ bytes_of(value, sizes[i]), -1, -1, buffer_bytes(&payload) }), STATUS_OK);
        buffer_append_u8(&expected, 0);
        codec_write_length(&expected, sizes[i]);
        buffer_append(&expected, value, sizes[i]);
        buffer_append(&expected, payload.data + 1, payload.size - 1);
        mem_free(value);
        buffer_release(&payload);
    }
    assert_int_equal(rdb_writer_end(writer), STATUS_OK);
    file_read(fd, &text);
    assert_int_equal(text.size, expected.size + 9);
    assert_memory_equal(text.data, expected.data, expected.size);
    assert_checksum(&text);
    rdb_writer_destroy(writer);
    buffer_release(&text);
    buffer_release(&expected);
    close(fd);
}

static void a_newer_type_raises_the_version_and_the_checksum_stays_right(void **state)
{
    static const struct { char type; const char *version; } cases[] = {
        { 19, "REDIS0010" }, { 20, "REDIS0011" }, { 21, "REDIS0011" }, { 24, "REDIS0012" }, { 25, "REDIS0012" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char payload[3] = { cases[i].type, 1, 'v' };
        int fd = file_make();
        struct rdb_writer *writer = writer_on(fd);
        struct buffer text = { 0 };

        for (int key = 0; key < 100000; key++)
            assert_int_equal(rdb_write_key(writer, &(struct rdb_key){ BYTES("key"), -1, -1,
                key == 50000 ? bytes_of(payload, 3) : BYTES("\0\1v") }), STATUS_OK);
        assert_int_equal(rdb_writer_end(writer), STATUS_OK);
        file_read(fd, &text);
        assert_memory_equal(text.data, cases[i].version, 9);
        assert_checksum(&text);
        rdb_writer_destroy(writer);
        buffer_release(&text);
        close(fd);
    }
}

static void a_newer_type_into_a_pipe_is_an_error(void **state)
{
    int ends[2];
    struct rdb_writer *writer;

    assert_int_equal(pipe(ends), 0);
    writer = writer_on(ends[1]);
    assert_int_equal(rdb_write_key(writer, &(struct rdb_key){ BYTES("key"), -1, -1, BYTES("\x14\1v") }), STATUS_OK);
    assert_int_equal(rdb_writer_end(writer), STATUS_INVALID);
    rdb_writer_destroy(writer);
    close(ends[0]);
    close(ends[1]);
}

static void a_fixed_version_is_there_from_the_beginning(void **state)
{
    static const struct { int version; const char *header; char refused; } cases[] = {
        { 10, "REDIS0010", 20 }, { 11, "REDIS0011", 24 }, { 12, "REDIS0012", 0 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int fd = file_make();
        struct rdb_writer *writer = rdb_writer_create(&(struct rdb_writer_options){ .fd = fd, .version = cases[i].version });
        char payload[3] = { cases[i].refused, 1, 'v' };
        struct buffer text = { 0 };

        assert_int_equal(rdb_writer_flush(writer), STATUS_OK);
        file_read(fd, &text);
        assert_int_equal(text.size, 9);
        assert_memory_equal(text.data, cases[i].header, 9);
        assert_int_equal(rdb_write_key(writer, &(struct rdb_key){ BYTES("key"), 5, 1, bytes_of(payload, 3) }),
            cases[i].refused == 0 ? STATUS_OK : STATUS_VERSION);
        assert_int_equal(rdb_write_key(writer, &(struct rdb_key){ BYTES("key"), -1, -1, BYTES("\x13\1v") }), STATUS_OK);
        assert_int_equal(rdb_writer_end(writer), STATUS_OK);
        file_read(fd, &text);
        assert_memory_equal(text.data, cases[i].header, 9);
        assert_int_equal(text.size, 9 + (cases[i].refused == 0 ? 11 + 7 : 0) + 7 + 9);
        assert_checksum(&text);
        rdb_writer_destroy(writer);
        buffer_release(&text);
        close(fd);
    }
}

struct watcher {
    int fd;
    uint64_t size, step_max, size_max;      /* it cancels at size_max */
    unsigned count;
};

static bool watch(void *context, uint64_t size)
{
    struct watcher *watcher = context;
    char byte;

    assert_true(size > watcher->size);
    if (size - watcher->size > watcher->step_max)
        watcher->step_max = size - watcher->size;
    watcher->size = size;
    watcher->count++;
    assert_int_equal(pread(watcher->fd, &byte, 1, (off_t)size - 1), 1);
    assert_int_equal(pread(watcher->fd, &byte, 1, (off_t)size), 0);
    return size < watcher->size_max;
}

static void a_file_that_grows_is_reported_in_pieces(void **state)
{
    enum { SIZE = 10000000 };
    struct watcher watcher = { .fd = file_make(), .size_max = UINT64_MAX };
    struct rdb_writer_options options = { .fd = watcher.fd, .version = 10, .wrote = watch, .context = &watcher };
    struct rdb_writer *writer = rdb_writer_create(&options);
    struct buffer payload = { 0 };

    buffer_append_u8(&payload, 0);
    codec_write_length(&payload, SIZE);
    memset(buffer_reserve(&payload, SIZE), 'x', SIZE);
    payload.size += SIZE;
    assert_int_equal(rdb_write_key(writer, &(struct rdb_key){ BYTES("key"), -1, -1, buffer_bytes(&payload) }), STATUS_OK);
    assert_int_equal(rdb_writer_end(writer), STATUS_OK);
    assert_int_equal(watcher.size, rdb_writer_size(writer));
    assert_in_range(watcher.step_max, 1 << 20, 1 << 20);
    assert_in_range(watcher.count, 10, 20);
    rdb_writer_destroy(writer);
    /* Within a value, too, it can be cancelled. */
    assert_int_equal(ftruncate(watcher.fd, 0), 0);
    assert_int_equal(lseek(watcher.fd, 0, SEEK_SET), 0);
    watcher.size = 0;
    watcher.size_max = 3 << 20;
    writer = rdb_writer_create(&options);
    assert_int_equal(rdb_write_key(writer, &(struct rdb_key){ BYTES("key"), -1, -1, buffer_bytes(&payload) }), STATUS_CANCELLED);
    assert_int_equal(rdb_writer_end(writer), STATUS_CANCELLED);
    assert_in_range(watcher.size, 3 << 20, 4 << 20);
    assert_int_equal(lseek(watcher.fd, 0, SEEK_END), watcher.size);
    rdb_writer_destroy(writer);
    buffer_release(&payload);
    close(watcher.fd);
}

/* A disk that accepts `room` bytes, at most `step` at once, and then fails with `error` (0: its writes return 0). */
struct small_disk {
    size_t room, step;
    int error;
    struct buffer taken;
    struct disk table;
};

static ssize_t disk_write(void *context, int fd, const void *data, size_t size)
{
    struct small_disk *disk = context;

    if (disk->taken.size == disk->room) {
        errno = disk->error;
        return disk->error == 0 ? 0 : -1;
    }
    if (size > disk->step)
        size = disk->step;
    if (size > disk->room - disk->taken.size)
        size = disk->room - disk->taken.size;
    buffer_append(&disk->taken, data, size);
    return (ssize_t)size;
}

static struct rdb_writer *writer_on_disk(struct small_disk *disk)
{
    disk->table = *disk_system();
    disk->table.context = disk;
    disk->table.write = disk_write;
    return rdb_writer_create(&(struct rdb_writer_options){ .fd = -1, .disk = &disk->table });
}

static void short_writes_are_continued(void **state)
{
    struct small_disk disk = { .room = 1 << 30, .step = 7 };
    struct rdb_writer *writer = writer_on_disk(&disk);

    for (int key = 0; key < 100; key++)
        assert_int_equal(rdb_write_key(writer, &(struct rdb_key){ BYTES("key"), -1, -1, BYTES("\0\1v") }), STATUS_OK);
    assert_int_equal(rdb_writer_end(writer), STATUS_OK);
    assert_int_equal(disk.taken.size, 9 + 100 * 7 + 9);
    assert_checksum(&disk.taken);
    rdb_writer_destroy(writer);
    buffer_release(&disk.taken);
}

static void a_failure_is_sticky_and_has_its_errno(void **state)
{
    static const struct { int error; enum status status; } cases[] = { { ENOSPC, STATUS_NO_SPACE }, { EIO, STATUS_IO }, { 0, STATUS_NO_SPACE } };
    char *value = mem_zalloc(300000);
    struct buffer payload = { 0 };

    buffer_append_u8(&payload, 0);
    codec_write_length(&payload, 300000);
    buffer_append(&payload, value, 300000);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct small_disk disk = { .room = 100000, .step = 1 << 30, .error = cases[i].error };
        struct rdb_writer *writer = writer_on_disk(&disk);
        size_t taken;

        assert_int_equal(rdb_write_key(writer, &(struct rdb_key){ BYTES("key"), -1, -1, buffer_bytes(&payload) }), cases[i].status);
        taken = disk.taken.size;
        disk.room = 1 << 30;
        assert_int_equal(rdb_write_aux(writer, BYTES("a"), BYTES("b")), cases[i].status);
        assert_int_equal(rdb_writer_end(writer), cases[i].status);
        assert_int_equal(rdb_writer_error(writer), cases[i].error == 0 ? ENOSPC : cases[i].error);
        assert_int_equal(disk.taken.size, taken);
        rdb_writer_destroy(writer);
        buffer_release(&disk.taken);
    }
    mem_free(value);
    buffer_release(&payload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_are_those_of_the_format),
        cmocka_unit_test(a_checksum_that_is_switched_off_is_zero),
        cmocka_unit_test(large_values_are_written_completely),
        cmocka_unit_test(a_newer_type_raises_the_version_and_the_checksum_stays_right),
        cmocka_unit_test(a_newer_type_into_a_pipe_is_an_error),
        cmocka_unit_test(a_fixed_version_is_there_from_the_beginning),
        cmocka_unit_test(a_file_that_grows_is_reported_in_pieces),
        cmocka_unit_test(short_writes_are_continued),
        cmocka_unit_test(a_failure_is_sticky_and_has_its_errno),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
