#include "cluster/nodes_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/crc64.h"
#include "base/file.h"
#include "base/mem.h"
#include "cluster/nodes_file.h"

enum { LOCK_TRIES = 100, NEXT_HEADER_SIZE = 2 * 17 };

struct nodes_store {
    const struct disk *disk;
    char *path, *aside, *next;      /* whole paths: the working directory may change */
    int fd;                         /* the file that has the name; locked */
    uint64_t sum;                   /* of its contents */
    bool has_next;                  /* there may be a file `next` */
};

static enum status fail_errno(const struct nodes_store *store, const char *what, struct message *message)
{
    enum status status = status_of_errno(errno);

    message_set(message, "The cluster configuration file %.150s can't be %s: %s", store->path, what, strerror(errno));
    return status;
}

static void close_file(const struct nodes_store *store, int fd)
{
    int error = errno;

    if (fd >= 0)
        store->disk->close(store->disk->context, fd);
    errno = error;
}

static char *join_texts(const char *first, const char *second, const char *third)
{
    struct buffer text = { 0 };

    buffer_append_string(&text, first);
    buffer_append_string(&text, second);
    buffer_append_string(&text, third);
    buffer_append_u8(&text, 0);
    return text.data;
}

/* The path from the root; as it is if its directory does not exist, which opening it reports. */
static char *whole_path(const char *path)
{
    char *for_dir = mem_string(bytes_of_string(path)), *for_name = mem_string(bytes_of_string(path)), root[PATH_MAX];
    char *whole = realpath(dirname(for_dir), root) != NULL ? join_texts(root, "/", basename(for_name)) : mem_string(bytes_of_string(path));

    mem_free(for_dir);
    mem_free(for_name);
    return whole;
}

static struct nodes_store *create_store(const struct disk *disk, const char *path)
{
    struct nodes_store *store = mem_zalloc(sizeof(*store));

    store->disk = disk;
    store->path = whole_path(path);
    store->aside = join_texts(store->path, ".tmp", "");
    store->next = join_texts(store->path, ".next", "");
    store->fd = -1;
    return store;
}

/* The file may have been replaced since it was opened: then the lock is on one that has no name any more. */
static bool is_current(const struct nodes_store *store)
{
    struct stat opened, named;

    return fstat(store->fd, &opened) == 0 && stat(store->path, &named) == 0 && opened.st_ino == named.st_ino &&
        opened.st_dev == named.st_dev;
}

static enum status lock_file(struct nodes_store *store, struct message *message)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        store->fd = file_open(store->disk, AT_FDCWD, store->path, O_RDWR | O_CREAT);
        if (store->fd < 0)
            return fail_errno(store, "opened", message);
        if (flock(store->fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK)
                return fail_errno(store, "locked", message);
            break;
        }
        if (is_current(store))
            return STATUS_OK;
        close_file(store, store->fd);
        store->fd = -1;
    }
    message_set(message, "The cluster configuration file %.150s is in use by another process: each node needs a file of its own", store->path);
    return STATUS_LOCKED;
}

static int format_header(const struct nodes_store *store, struct bytes text, char header[NEXT_HEADER_SIZE + 1])
{
    return snprintf(header, NEXT_HEADER_SIZE + 1, "%016" PRIx64 " %016" PRIx64 "\n", store->sum, crc64(0, text));
}

/* Its text replaces that of nodes.conf, if the file counts. One that can't be read may have been the last to be written. */
static enum status read_next(struct nodes_store *store, struct buffer *text)
{
    char expected[NEXT_HEADER_SIZE + 1];
    struct buffer found = { 0 };
    enum status status = file_read_all(store->disk, AT_FDCWD, store->next, NODES_FILE_SIZE_MAX + NEXT_HEADER_SIZE, &found);

    store->has_next = status == STATUS_OK;
    if (status == STATUS_OK && found.size > NEXT_HEADER_SIZE) {
        struct bytes next = bytes_of(found.data + NEXT_HEADER_SIZE, found.size - NEXT_HEADER_SIZE);

        (void)format_header(store, next, expected);
        if (memcmp(expected, found.data, NEXT_HEADER_SIZE) == 0) {
            text->size = 0;
            buffer_append_bytes(text, next);
        }
    }
    buffer_release(&found);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

enum status nodes_store_open(const struct disk *disk, const char *path, struct nodes_store **opened, struct buffer *text, struct message *message)
{
    struct nodes_store *store = create_store(disk, path);
    enum status status = lock_file(store, message);

    if (status == STATUS_OK) {
        status = file_read_all(disk, AT_FDCWD, store->path, NODES_FILE_SIZE_MAX, text);
        store->sum = crc64(0, buffer_bytes(text));
        if (status == STATUS_OK)
            status = read_next(store, text);
        if (status != STATUS_OK)
            (void)fail_errno(store, "read", message);
    }
    if (status != STATUS_OK) {
        nodes_store_close(store);
        store = NULL;
    }
    *opened = store;
    return status;
}

void nodes_store_close(struct nodes_store *store)
{
    if (store == NULL)
        return;
    close_file(store, store->fd);
    mem_free(store->path);
    mem_free(store->aside);
    mem_free(store->next);
    mem_free(store);
}

/* A new file beside the old one, which takes the name `path`. Returns its descriptor, or -1 with errno. */
static int write_aside(const struct nodes_store *store, struct bytes header, struct bytes text, const char *path)
{
    const struct disk *disk = store->disk;
    bool syncs = path == store->path;           /* and has the lock */
    int fd = file_open(disk, AT_FDCWD, store->aside, O_WRONLY | O_CREAT | O_TRUNC);

    if (fd < 0)
        return -1;
    if (file_write_all(disk, fd, header) == STATUS_OK && file_write_all(disk, fd, text) == STATUS_OK &&
        (!syncs || (disk->fsync(disk->context, fd) == 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)) &&
        disk->rename(disk->context, AT_FDCWD, store->aside, path) == 0)
        return fd;
    close_file(store, fd);
    return -1;
}

static enum status fail_save(const struct nodes_store *store, struct message *message)
{
    enum status status = fail_errno(store, "saved", message);

    store->disk->unlink(store->disk->context, AT_FDCWD, store->aside);
    return status;
}

static enum status save_next(struct nodes_store *store, struct bytes text, struct message *message)
{
    char header[NEXT_HEADER_SIZE + 1];
    int size = format_header(store, text, header), fd = write_aside(store, bytes_of(header, (size_t)size), text, store->next);

    if (fd < 0)
        return fail_save(store, message);
    close_file(store, fd);
    store->has_next = true;
    return STATUS_OK;
}

enum status nodes_store_save(struct nodes_store *store, struct bytes text, enum nodes_store_durability durability, struct message *message)
{
    const struct disk *disk = store->disk;
    int fd;

    if (durability == NODES_STORE_WRITTEN)
        return save_next(store, text, message);
    fd = write_aside(store, bytes_of(NULL, 0), text, store->path);
    if (fd < 0)
        return fail_save(store, message);
    close_file(store, store->fd);
    store->fd = fd;
    store->sum = crc64(0, text);
    if (store->has_next)
        disk->unlink(disk->context, AT_FDCWD, store->next);
    store->has_next = false;
    return directory_sync_parent(disk, store->path) == STATUS_OK ? STATUS_OK : fail_errno(store, "synced", message);
}
