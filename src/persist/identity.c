#include "persist/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc64.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/random.h"
#include "persist/rdb_reader.h"

enum { PATH_SIZE = 4096, TEXT_SIZE = 256, EDGE_SIZE = 64 << 10 };

void identity_make(char id[IDENTITY_SIZE])
{
    uint8_t bytes[(IDENTITY_SIZE - 1) / 2];

    random_system(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
}

bool identity_is(struct bytes text)
{
    if (text.size != IDENTITY_SIZE - 1)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (memchr("0123456789abcdef", text.data[i], 16) == NULL)
            return false;
    }
    return true;
}

static void make_path(const char *dir, const char *name, const char *end, char *path)
{
    snprintf(path, PATH_SIZE, "%s/%s.id%s", dir, name, end);
}

static int print_text(const struct identity *identity, char text[TEXT_SIZE])
{
    int size = snprintf(text, TEXT_SIZE, "kelvin-id 1\nid %s\n", identity->id);

    if (identity->has_known)
        size += snprintf(text + size, TEXT_SIZE - (size_t)size, "known %016" PRIx64 "\n", identity->known_dump);
    return size;
}

/* Exactly as it was printed, or damaged. */
static bool parse_text(struct bytes bytes, struct identity *identity)
{
    char text[TEXT_SIZE], again[TEXT_SIZE];
    int found;

    memcpy(text, bytes.data, bytes.size);
    text[bytes.size] = '\0';

    *identity = (struct identity){ .id = "" };
    found = sscanf(text, "kelvin-id 1 id %32[0-9a-f] known %16" SCNx64, identity->id, &identity->known_dump);
    identity->has_known = found == 2;
    print_text(identity, again);
    return found >= 1 && identity_is(bytes_of_string(identity->id)) && bytes_equal(bytes, bytes_of_string(again));
}

/* "kelvin-id ", another number, and the end of the line. */
static bool is_newer(struct bytes bytes)
{
    static const char start[] = "kelvin-id ";
    size_t digits = sizeof(start) - 1;

    if (bytes.size < digits || memcmp(bytes.data, start, digits) != 0)
        return false;
    while (digits < bytes.size && bytes.data[digits] >= '0' && bytes.data[digits] <= '9')
        digits++;
    return digits > sizeof(start) - 1 && digits < bytes.size && bytes.data[digits] == '\n' && memcmp(bytes.data, "kelvin-id 1\n", 12) != 0;
}

enum status identity_read(const char *dir, const char *name, struct identity *identity, struct message *message)
{
    char path[PATH_SIZE];
    struct buffer text = { 0 };
    enum status status;

    make_path(dir, name, "", path);
    status = file_read_all(disk_system(), AT_FDCWD, path, TEXT_SIZE - 1, &text);
    if (status == STATUS_OK && is_newer(buffer_bytes(&text)))
        status = STATUS_VERSION;
    else if (status == STATUS_OK && !parse_text(buffer_bytes(&text), identity))
        status = STATUS_CORRUPT;
    if (status == STATUS_CORRUPT || status == STATUS_TOO_LARGE) {
        status = STATUS_CORRUPT;
        message_set(message, "%.150s is damaged: it does not hold the id of a data set", path);
    } else if (status == STATUS_VERSION) {
        message_set(message, "%.150s was written by a newer Kelvin", path);
    } else if (status != STATUS_OK && status != STATUS_NOT_FOUND) {
        message_set(message, "Can't read %.150s: %s", path, strerror(errno));
    }
    buffer_release(&text);
    return status;
}

static enum status make_directory(const char *dir)
{
    if (mkdir(dir, 0755) != 0)
        return errno == EEXIST ? STATUS_OK : status_of_errno(errno);
    return directory_sync_parent(disk_system(), dir);
}

static enum status write_file(const char *path, const struct identity *identity)
{
    char text[TEXT_SIZE];
    int size = print_text(identity, text);

    return file_overwrite(disk_system(), AT_FDCWD, path, bytes_of(text, (size_t)size));
}

/* With link(2): unlike rename(2) it does not replace a file that another process has created first. Not every file system has it. */
static int give_name(const char *temporary, const char *path)
{
    if (link(temporary, path) == 0)
        return 0;
    if (errno == EEXIST || (errno != EPERM && errno != EOPNOTSUPP))
        return errno;
    return rename(temporary, path) == 0 ? 0 : errno;
}

enum status identity_keep(const char *dir, const char *name, struct identity *identity, struct message *message)
{
    char path[PATH_SIZE], temporary[PATH_SIZE], end[32];
    enum status status = identity_read(dir, name, identity, message);
    int error = 0;

    if (status != STATUS_NOT_FOUND)
        return status;
    snprintf(end, sizeof(end), ".temp-%d", (int)getpid());
    make_path(dir, name, "", path);
    make_path(dir, name, end, temporary);
    status = make_directory(dir);
    if (status == STATUS_OK)
        status = write_file(temporary, identity);
    if (status == STATUS_OK)
        error = give_name(temporary, path);
    if (error != 0)
        status = error == EEXIST ? identity_read(dir, name, identity, message) : status_of_errno(error);
    unlink(temporary);
    if (status == STATUS_OK)
        status = directory_sync(disk_system(), dir);
    if (status != STATUS_OK)
        message_set(message, "Can't write %.150s: %s", path, status_name(status));
    return status;
}

void identity_forget(const char *dir, const char *name)
{
    char path[PATH_SIZE];

    make_path(dir, name, "", path);
    unlink(path);
}

enum status identity_of_dump(const char *path, char id[IDENTITY_SIZE], struct message *message)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct rdb_reader *reader;
    struct rdb_part part;
    enum status status;

    if (fd < 0) {
        message_set(message, "Can't open %.150s: %s", path, strerror(errno));
        return status_of_errno(errno);
    }
    reader = rdb_reader_create_file(fd);
    do {
        status = rdb_read(reader, &part, message);
    } while (status == STATUS_OK && part.kind == RDB_PART_AUX && !bytes_is(part.name, "kelvin-id"));
    if (status == STATUS_OK && part.kind == RDB_PART_AUX && identity_is(part.value)) {
        memcpy(id, part.value.data, part.value.size);
        id[part.value.size] = '\0';
    } else if (status == STATUS_OK) {
        status = STATUS_NOT_FOUND;
        message_set(message, "%.150s has no kelvin-id", path);
    }
    rdb_reader_destroy(reader);
    close(fd);
    return status;
}

enum status identity_fingerprint(const char *path, uint64_t *fingerprint)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *edge = mem_alloc(EDGE_SIZE);
    enum status status = STATUS_OK;
    struct stat info;
    ssize_t size = 0;
    uint64_t file_size = 0;

    if (fd < 0 || fstat(fd, &info) != 0) {
        status = status_of_errno(errno);
    } else {
        file_size = (uint64_t)info.st_size;
        *fingerprint = crc64(0, bytes_of((const char *)&file_size, sizeof(file_size)));
    }
    for (int side = 0; side < 2 && status == STATUS_OK; side++) {
        off_t from = side == 0 || info.st_size < EDGE_SIZE ? 0 : info.st_size - EDGE_SIZE;

        size = pread(fd, edge, EDGE_SIZE, from);
        if (size < 0)
            status = status_of_errno(errno);
        else
            *fingerprint = crc64(*fingerprint, bytes_of(edge, (size_t)size));
    }
    if (fd >= 0)
        close(fd);
    mem_free(edge);
    return status;
}
