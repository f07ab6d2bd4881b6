/* Hostile bytes for what a replica receives as an image (persist/archive.h): archives that are valid, or damaged, or any bytes, in random pieces.
 *
 * The disk is a table that writes nothing: it checks that only files of an image are created, in the given directory, each once, and
 * counts what is written. What was not damaged is accepted as a whole; of what was damaged nothing is accepted but what was before the
 * damage.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/crc64.h"
#include "base/disk.h"
#include "base/mem.h"
#include "persist/archive.h"
#include "support/fuzz.h"

#define DIR "dir"

enum { NAMES = 9, FILES_MAX = 5, SIZE_MAX_BYTES = 4096, FD = 77 };

static const char *const names[NAMES] = {
    "dataset", "tags", "hot", "functions", "store/meta", "store/000032.run", "store/00000009.dict", "store/000048.run", "store/00000001.seg",
};

struct void_disk {
    struct disk table;
    struct buffer created;          /* names, each with a NUL */
    uint64_t written;
    bool is_open;
};

static bool was_created(const struct void_disk *disk, const char *path)
{
    for (size_t at = 0; at < disk->created.size; at += strlen(disk->created.data + at) + 1) {
        if (strcmp(disk->created.data + at, path) == 0)
            return true;
    }
    return false;
}

static int void_open(void *context, int dir, const char *path, int flags, mode_t mode)
{
    struct void_disk *disk = context;

    (void)mode;
    CHECK(dir == AT_FDCWD && flags & O_EXCL && flags & O_CREAT && !disk->is_open);
    CHECK(strncmp(path, DIR "/", 4) == 0 && (archive_name_is_valid(bytes_of_string(path + 4)) || strcmp(path + 4, "dataset.copy") == 0));
    if (was_created(disk, path)) {
        errno = EEXIST;
        return -1;
    }
    buffer_append(&disk->created, path, strlen(path) + 1);
    disk->is_open = true;
    return FD;
}

static int void_close(void *context, int fd)
{
    struct void_disk *disk = context;

    CHECK(fd == FD && disk->is_open);
    disk->is_open = false;
    return 0;
}

static ssize_t void_write(void *context, int fd, const void *data, size_t size)
{
    struct void_disk *disk = context;

    (void)data;
    CHECK(fd == FD && disk->is_open);
    disk->written += size;
    return (ssize_t)size;
}

static int void_sync(void *context, int fd)
{
    (void)context;
    CHECK(fd == FD);
    return 0;
}

static int void_mkdir(void *context, int dir, const char *path, mode_t mode)
{
    (void)context;
    (void)mode;
    CHECK(dir == AT_FDCWD && (strcmp(path, DIR) == 0 || strcmp(path, DIR "/store") == 0));
    return 0;
}

static void add(struct buffer *bytes, const void *data, size_t size)
{
    buffer_append(bytes, data, size);
}

static void add_sum(struct buffer *bytes, size_t from)
{
    uint64_t sum = crc64(0, bytes_of(bytes->data + from, bytes->size - from));

    add(bytes, &sum, sizeof(sum));
}

static void add_file(struct fuzz_input *fuzz, struct buffer *bytes, const char *name)
{
    size_t from = bytes->size;
    char data[200];
    struct bytes text = fuzz_text(fuzz, data, sizeof(data));
    uint64_t size = text.size;

    buffer_append_u8(bytes, 'F');
    buffer_append_u8(bytes, (uint8_t)strlen(name));
    buffer_append_string(bytes, name);
    add(bytes, &size, sizeof(size));
    add_sum(bytes, from);
    from = bytes->size;
    buffer_append_bytes(bytes, text);
    add_sum(bytes, from);
}

static void make_archive(struct fuzz_input *fuzz, struct buffer *bytes)
{
    uint32_t files = (uint32_t)fuzz_below(fuzz, FILES_MAX), first = (uint32_t)fuzz_below(fuzz, NAMES);
    uint32_t numbers[] = { ARCHIVE_VERSION, 64, 16, files };
    uint64_t size = 0;
    struct buffer sealed = { 0 };
    size_t from;

    buffer_append_string(bytes, "KELVINIM");
    add(bytes, numbers, sizeof(numbers));
    add(bytes, &size, sizeof(size));
    add(bytes, &size, sizeof(size));
    for (uint32_t i = 0; i < files; i++)
        add_file(fuzz, bytes, names[(first + i) % NAMES]);
    from = bytes->size;
    buffer_append_u8(bytes, 'E');
    buffer_append_u8(bytes, 0);
    add(bytes, &files, sizeof(files));
    add_sum(bytes, from);
    size = bytes->size;
    memcpy(bytes->data + 24, &size, sizeof(size));
    add(&sealed, bytes->data, 32);
    add_sum(&sealed, 0);
    memcpy(bytes->data, sealed.data, ARCHIVE_HEAD_SIZE);
    buffer_release(&sealed);
}

/* Returns whether all of it was accepted as an archive. */
static bool receive(struct fuzz_input *fuzz, struct bytes bytes)
{
    struct void_disk disk = { .table = *disk_system() };
    struct archive_receiver *receiver;
    struct message message = { "" };
    bool good = true;

    disk.table = (struct disk){ .context = &disk, .open = void_open, .close = void_close, .write = void_write, .fdatasync = void_sync, .mkdir = void_mkdir };
    receiver = archive_receiver_create(&disk.table, DIR);
    for (size_t at = 0; at < bytes.size && good;) {
        size_t size = 1 + (size_t)fuzz_below(fuzz, bytes.size - at);
        struct bytes piece = fuzz_exact_copy(bytes_of(bytes.data + at, size));

        good = archive_receive(receiver, piece, &message) == STATUS_OK;
        CHECK(good == message_is_empty(&message));
        mem_free((void *)piece.data);
        at += size;
    }
    CHECK(disk.written <= 2 * bytes.size);      /* the list of databases is written twice */
    good = good && archive_receiver_is_complete(receiver);
    archive_receiver_destroy(receiver);
    CHECK(!disk.is_open);
    buffer_release(&disk.created);
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input fuzz;
    struct buffer bytes = { 0 };
    bool is_damaged;

    fuzz_begin(&fuzz, data, size);
    switch (fuzz_below(&fuzz, 4)) {
    case 0:
        fuzz_rest(&fuzz, &bytes);
        (void)receive(&fuzz, buffer_bytes(&bytes));
        break;
    default:
        make_archive(&fuzz, &bytes);
        is_damaged = fuzz_below(&fuzz, 4) != 0;
        if (is_damaged) {
            struct bytes before = fuzz_exact_copy(buffer_bytes(&bytes));

            (void)fuzz_damage(&fuzz, &bytes, BYTES("FE\x01"), 3, SIZE_MAX_BYTES);
            is_damaged = bytes.size != before.size || memcmp(bytes.data, before.data, before.size) != 0;
            mem_free((void *)before.data);
        }
        CHECK(receive(&fuzz, buffer_bytes(&bytes)) == !is_damaged);
    }
    buffer_release(&bytes);
    return 0;
}
