#include "persist/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/closer.h"
#include "base/crc64.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/tree.h"
#include "persist/archive_format.h"

struct archive_file {
    char name[ARCHIVE_NAME_MAX + 1];
    uint64_t size;
};

struct archive {
    _Atomic int references;
    struct closer *closer;
    char *dir;
    struct archive_file *files;
    uint32_t count, capacity;
    uint64_t size;
    struct buffer head;
};

/* --- names --- */

static bool is_digits(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    }
    return text.size > 0;
}

static bool take_start(struct bytes *text, const char *start)
{
    size_t size = strlen(start);

    if (text->size < size || memcmp(text->data, start, size) != 0)
        return false;
    *text = bytes_of(text->data + size, text->size - size);
    return true;
}

static bool is_number_with(struct bytes name, const char *end)
{
    size_t size = strlen(end);

    return name.size > size && memcmp(name.data + name.size - size, end, size) == 0 && is_digits(bytes_of(name.data, name.size - size));
}

static bool is_one_of(struct bytes name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes_equal(name, bytes_of_string(names[i])))
            return true;
    }
    return false;
}

bool archive_name_is_valid(struct bytes name)
{
    static const char *const files[] = { "dataset", "tags", "hot", "functions", "store/meta" };

    if (name.size > ARCHIVE_NAME_MAX)
        return false;
    if (is_one_of(name, files, sizeof(files) / sizeof(files[0])))
        return true;
    if (is_number_with(name, ".map"))
        return true;
    if (!take_start(&name, "store/"))
        return false;
    return is_number_with(name, ".seg") || is_number_with(name, ".run") || is_number_with(name, ".dict");
}

/* --- the list of files --- */

static void add_file(struct archive *archive, struct bytes name, uint64_t size)
{
    struct archive_file *file;

    if (archive->count == archive->capacity) {
        archive->capacity = archive->capacity * 2 + 16;
        archive->files = mem_realloc(archive->files, archive->capacity * sizeof(archive->files[0]));
    }
    file = &archive->files[archive->count++];
    *file = (struct archive_file){ .size = size };
    memcpy(file->name, name.data, name.size);
    archive->size += ARCHIVE_TAG_SIZE + name.size + ARCHIVE_FILE_REST + size + ARCHIVE_SUM_SIZE;
}

/* Files that are none of an image's are left out: the image itself does not need them. */
static bool found_file(void *context, const char *path, const struct stat *info)
{
    struct archive *archive = context;
    struct bytes name = bytes_of_string(path);

    if (archive_name_is_valid(name))
        add_file(archive, name, (uint64_t)info->st_size);
    return archive->count < ARCHIVE_FILES_MAX;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct archive_file *)a)->name, ((const struct archive_file *)b)->name);
}

static void append_u32(struct buffer *to, uint32_t number)
{
    buffer_append(to, &number, sizeof(number));
}

static void append_u64(struct buffer *to, uint64_t number)
{
    buffer_append(to, &number, sizeof(number));
}

/* Appends the checksum of all that is in the buffer. */
static void append_sum(struct buffer *to)
{
    append_u64(to, crc64(0, buffer_bytes(to)));
}

static void make_head(struct archive *archive, const struct archive_facts *facts)
{
    struct buffer *head = &archive->head;

    archive->size += ARCHIVE_HEAD_SIZE + ARCHIVE_TAG_SIZE + ARCHIVE_END_REST;
    buffer_append_string(head, ARCHIVE_MAGIC);
    append_u32(head, ARCHIVE_VERSION);
    append_u32(head, facts->partition_count);
    append_u32(head, facts->db_count);
    append_u32(head, archive->count);
    append_u64(head, archive->size);
    append_sum(head);
    CHECK(head->size == ARCHIVE_HEAD_SIZE);
}

enum status archive_open(const char *image, const struct archive_facts *facts, struct closer *closer, struct archive **opened,
    struct message *message)
{
    struct archive *archive = mem_zalloc(sizeof(*archive));
    enum status status;

    archive->references = 1;
    archive->closer = closer;
    archive->dir = mem_string(bytes_of_string(image));
    status = tree_walk(image, found_file, archive, message);
    if (status == STATUS_OK && archive->count >= ARCHIVE_FILES_MAX) {
        message_set(message, "the image has too many files to be sent");
        status = STATUS_TOO_LARGE;
    }
    *opened = status == STATUS_OK ? archive : NULL;
    if (status != STATUS_OK) {
        archive_release(archive);
        return status;
    }
    qsort(archive->files, archive->count, sizeof(archive->files[0]), by_name);
    make_head(archive, facts);
    return STATUS_OK;
}

static struct archive *archive_hold(struct archive *archive)
{
    CHECK(atomic_fetch_add(&archive->references, 1) > 0);
    return archive;
}

/* There may be many files, and the store may have given them up: then the last links go here, and the caller may be a worker. */
void archive_release(struct archive *archive)
{
    if (archive == NULL || atomic_fetch_sub(&archive->references, 1) > 1)
        return;
    closer_remove_take(archive->closer, archive->dir);
    buffer_release(&archive->head);
    mem_free(archive->files);
    mem_free(archive);
}

uint64_t archive_size(const struct archive *archive)
{
    return archive->size;
}

/* --- reading --- */

struct archive_reader {
    struct archive *archive;
    struct buffer part;             /* heads and sums that are next, before anything of `fd` */
    size_t part_at;
    uint32_t index;                 /* of the next file */
    bool has_ended;                 /* the end is in `part` */
    int fd;                         /* of the file whose bytes follow `part`; -1: none */
    uint64_t left;                  /* bytes of it */
    uint64_t sum;
};

struct archive_reader *archive_reader_create(struct archive *archive)
{
    struct archive_reader *reader = mem_zalloc(sizeof(*reader));

    reader->archive = archive_hold(archive);
    reader->fd = -1;
    buffer_append_bytes(&reader->part, buffer_bytes(&archive->head));
    return reader;
}

void archive_reader_destroy(struct archive_reader *reader)
{
    if (reader == NULL)
        return;
    if (reader->fd >= 0)
        (void)close(reader->fd);
    buffer_release(&reader->part);
    archive_release(reader->archive);
    mem_free(reader);
}

static void begin_end(struct archive_reader *reader)
{
    buffer_append_u8(&reader->part, ARCHIVE_TAG_END);
    buffer_append_u8(&reader->part, 0);
    append_u32(&reader->part, reader->archive->count);
    append_sum(&reader->part);
    reader->has_ended = true;
}

static bool begin_file(struct archive_reader *reader)
{
    const struct archive_file *file = &reader->archive->files[reader->index];
    char path[TREE_PATH_SIZE + ARCHIVE_NAME_MAX];

    snprintf(path, sizeof(path), "%s/%s", reader->archive->dir, file->name);
    reader->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (reader->fd < 0)
        return false;
    buffer_append_u8(&reader->part, ARCHIVE_TAG_FILE);
    buffer_append_u8(&reader->part, (uint8_t)strlen(file->name));
    buffer_append_string(&reader->part, file->name);
    append_u64(&reader->part, file->size);
    append_sum(&reader->part);
    file_read_ahead(reader->fd, 0, 0);
    reader->left = file->size;
    reader->sum = 0;
    reader->index++;
    return true;
}

static void end_file(struct archive_reader *reader)
{
    (void)close(reader->fd);
    reader->fd = -1;
    append_u64(&reader->part, reader->sum);
}

/* `part` has been read, and so has the file. False: errno. */
static bool make_part(struct archive_reader *reader)
{
    reader->part.size = reader->part_at = 0;
    if (reader->fd >= 0)
        end_file(reader);
    else if (reader->index < reader->archive->count)
        return begin_file(reader);
    else if (!reader->has_ended)
        begin_end(reader);
    return true;
}

static size_t take_part(struct archive_reader *reader, char *to, size_t size)
{
    size_t left = reader->part.size - reader->part_at, count = size < left ? size : left;

    memcpy(to, reader->part.data + reader->part_at, count);
    reader->part_at += count;
    return count;
}

static ssize_t take_file(struct archive_reader *reader, char *to, size_t size)
{
    uint64_t at = reader->archive->files[reader->index - 1].size - reader->left;
    ssize_t got;

    do
        got = read(reader->fd, to, size < reader->left ? size : (size_t)reader->left);
    while (got < 0 && errno == EINTR);
    if (got == 0)
        errno = EIO;                /* it is shorter than it was */
    if (got <= 0)
        return -1;
    reader->sum = crc64(reader->sum, bytes_of(to, (size_t)got));
    reader->left -= (uint64_t)got;
    file_read_ahead(reader->fd, at, at + (uint64_t)got);
    return got;
}

ssize_t archive_read(struct archive_reader *reader, void *to, size_t size)
{
    size_t done = 0;

    while (done < size) {
        char *at = (char *)to + done;
        ssize_t got;

        if (reader->part_at < reader->part.size) {
            done += take_part(reader, at, size - done);
        } else if (reader->fd >= 0 && reader->left > 0) {
            got = take_file(reader, at, size - done);
            if (got < 0)
                return -1;
            done += (size_t)got;
        } else if (!make_part(reader)) {
            return -1;
        } else if (reader->part.size == 0) {
            break;
        }
    }
    return (ssize_t)done;
}
