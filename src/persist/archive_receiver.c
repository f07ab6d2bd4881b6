/* The receiving side of an archive: a primary's bytes become files. */
#include "persist/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/check.h"
#include "base/buffer.h"
#include "base/crc64.h"
#include "base/file.h"
#include "base/mem.h"
#include "persist/archive_format.h"
#include "persist/dataset_file.h"

enum { DATASET_SIZE_MAX = 1 << 20 };     /* of the list of databases, which is kept in memory until it is written twice */

/* The part that is received next. */
enum receiver_step { RECEIVES_HEAD, RECEIVES_TAG, RECEIVES_FILE_HEAD, RECEIVES_BYTES, RECEIVES_SUM, RECEIVES_END, RECEIVES_NOTHING, RECEIVER_FAILED };

struct archive_receiver {
    const struct disk *disk;
    char *dir;
    enum receiver_step step;
    struct archive_facts facts;
    uint32_t file_count, files;     /* that the head names; that were begun */
    uint64_t size, received;        /* of the archive; of them up to the last complete part */
    char part[ARCHIVE_PART_MAX];    /* of a part that is not complete */
    size_t part_size;               /* bytes of it */
    size_t part_wanted;             /* bytes that it has when it is complete */
    int fd;                         /* of the file; -1: none */
    uint64_t left, sum;
    char name[ARCHIVE_NAME_MAX + 1];
    struct buffer dataset;          /* the list of databases, while it is received */
};

static void expect(struct archive_receiver *receiver, enum receiver_step step, size_t size)
{
    CHECK(size <= sizeof(receiver->part));
    receiver->step = step;
    receiver->part_size = 0;
    receiver->part_wanted = size;
}

struct archive_receiver *archive_receiver_create(const struct disk *disk, const char *dir)
{
    struct archive_receiver *receiver = mem_zalloc(sizeof(*receiver));

    receiver->disk = disk;
    receiver->dir = mem_string(bytes_of_string(dir));
    receiver->fd = -1;
    expect(receiver, RECEIVES_HEAD, ARCHIVE_HEAD_SIZE);
    return receiver;
}

static void close_file(struct archive_receiver *receiver)
{
    if (receiver->fd >= 0)
        (void)receiver->disk->close(receiver->disk->context, receiver->fd);
    receiver->fd = -1;
}

void archive_receiver_destroy(struct archive_receiver *receiver)
{
    if (receiver == NULL)
        return;
    close_file(receiver);
    buffer_release(&receiver->dataset);
    mem_free(receiver->dir);
    mem_free(receiver);
}

static enum status corrupt(struct message *message, const char *problem)
{
    message_set(message, "the image is damaged: %s", problem);
    return STATUS_CORRUPT;
}

static enum status fail_disk(struct archive_receiver *receiver, struct message *message)
{
    int error = errno;

    message_set(message, "the image can't be written to %.120s: %s", receiver->dir, strerror(error));
    return status_of_errno(error);
}

/* The last 8 bytes of the part are the sum of what is before them. */
static bool sum_is_right(const struct archive_receiver *receiver)
{
    size_t size = receiver->part_wanted - ARCHIVE_SUM_SIZE;

    return crc64(0, bytes_of(receiver->part, size)) == archive_u64(receiver->part + size);
}

static bool make_dir(struct archive_receiver *receiver, const char *name)
{
    char path[4096];

    snprintf(path, sizeof(path), "%.3900s%s", receiver->dir, name);
    return receiver->disk->mkdir(receiver->disk->context, AT_FDCWD, path, 0755) == 0;
}

static enum status take_head(struct archive_receiver *receiver, struct message *message)
{
    const char *part = receiver->part;

    if (memcmp(part, ARCHIVE_MAGIC, strlen(ARCHIVE_MAGIC)) != 0 || !sum_is_right(receiver))
        return corrupt(message, "it does not begin as one");
    if (archive_u32(part + 8) != ARCHIVE_VERSION) {
        message_set(message, "the image has version %u; this Kelvin supports %d", archive_u32(part + 8), ARCHIVE_VERSION);
        return STATUS_VERSION;
    }
    receiver->facts = (struct archive_facts){ archive_u32(part + 12), archive_u32(part + 16) };
    receiver->file_count = archive_u32(part + 20);
    receiver->size = archive_u64(part + 24);
    if (receiver->file_count >= ARCHIVE_FILES_MAX)
        return corrupt(message, "it has too many files");
    if (!make_dir(receiver, "") || !make_dir(receiver, "/store"))
        return fail_disk(receiver, message);
    expect(receiver, RECEIVES_TAG, ARCHIVE_TAG_SIZE);
    return STATUS_OK;
}

/* Tag and name are needed for the sums of what follows: they stay in `part`. */
static enum status take_tag(struct archive_receiver *receiver, struct message *message)
{
    uint8_t name_size = (uint8_t)receiver->part[1];

    switch (receiver->part[0]) {
    case ARCHIVE_TAG_FILE:
        if (name_size == 0 || name_size > ARCHIVE_NAME_MAX - ARCHIVE_TAG_SIZE)
            return corrupt(message, "the name of a file is not valid");
        receiver->step = RECEIVES_FILE_HEAD;
        receiver->part_wanted = ARCHIVE_TAG_SIZE + name_size + (size_t)ARCHIVE_FILE_REST;
        return STATUS_OK;
    case ARCHIVE_TAG_END:
        receiver->step = RECEIVES_END;
        receiver->part_wanted = ARCHIVE_TAG_SIZE + ARCHIVE_END_REST;
        return STATUS_OK;
    default:
        return corrupt(message, "what follows a file is not valid");
    }
}

static bool is_dataset(const struct archive_receiver *receiver)
{
    return strcmp(receiver->name, DATASET_FILE_NAME) == 0;
}

static enum status open_file(struct archive_receiver *receiver, const char *name, struct message *message)
{
    char path[4096];

    snprintf(path, sizeof(path), "%.3900s/%s", receiver->dir, name);
    receiver->fd = file_open(receiver->disk, AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL);
    if (receiver->fd < 0 && errno == EEXIST)
        return corrupt(message, "it has a file twice");
    return receiver->fd < 0 ? fail_disk(receiver, message) : STATUS_OK;
}

/* Bytes that can still come, if this part and the end of the archive are what it says. */
static uint64_t room_left(const struct archive_receiver *receiver)
{
    uint64_t used = receiver->received + ARCHIVE_SUM_SIZE + ARCHIVE_TAG_SIZE + ARCHIVE_END_REST;

    return receiver->size > used ? receiver->size - used : 0;
}

static enum status take_file_head(struct archive_receiver *receiver, struct message *message)
{
    size_t name_size = (uint8_t)receiver->part[1];
    struct bytes name = bytes_of(receiver->part + ARCHIVE_TAG_SIZE, name_size);

    if (!sum_is_right(receiver))
        return corrupt(message, "the checksum of a file's head is wrong");
    if (!archive_name_is_valid(name))
        return corrupt(message, "it has a file that is none of an image's");
    if (++receiver->files > receiver->file_count)
        return corrupt(message, "it has more files than it says");
    memcpy(receiver->name, name.data, name.size);
    receiver->name[name.size] = '\0';
    receiver->left = archive_u64(receiver->part + ARCHIVE_TAG_SIZE + name_size);
    receiver->sum = 0;
    if (receiver->left > room_left(receiver))
        return corrupt(message, "a file is larger than the whole");
    if (is_dataset(receiver) && receiver->left > DATASET_SIZE_MAX)
        return corrupt(message, "its list of databases is too large");
    receiver->step = RECEIVES_BYTES;
    return open_file(receiver, receiver->name, message);
}

static enum status end_file(struct archive_receiver *receiver, struct message *message)
{
    if (receiver->disk->fdatasync(receiver->disk->context, receiver->fd) != 0)
        return fail_disk(receiver, message);
    close_file(receiver);
    return STATUS_OK;
}

/* Writes the second list of databases that an image has. The archive does not have it. */
static enum status write_dataset_copy(struct archive_receiver *receiver, struct message *message)
{
    enum status status = open_file(receiver, DATASET_FILE_COPY, message);

    if (status == STATUS_OK && file_write_all(receiver->disk, receiver->fd, buffer_bytes(&receiver->dataset)) != STATUS_OK)
        status = fail_disk(receiver, message);
    if (status == STATUS_OK)
        status = end_file(receiver, message);
    buffer_release(&receiver->dataset);
    return status;
}

static enum status take_sum(struct archive_receiver *receiver, struct message *message)
{
    enum status status;

    if (archive_u64(receiver->part) != receiver->sum) {
        message_set(message, "the image is damaged: the checksum of '%s' is wrong", receiver->name);
        return STATUS_CORRUPT;
    }
    status = end_file(receiver, message);
    expect(receiver, RECEIVES_TAG, ARCHIVE_TAG_SIZE);
    return status == STATUS_OK && is_dataset(receiver) ? write_dataset_copy(receiver, message) : status;
}

static enum status take_end(struct archive_receiver *receiver, struct message *message)
{
    if (!sum_is_right(receiver) || archive_u32(receiver->part + ARCHIVE_TAG_SIZE) != receiver->files)
        return corrupt(message, "its end is not valid");
    if (receiver->files != receiver->file_count)
        return corrupt(message, "it has fewer files than it says");
    if (receiver->received != receiver->size)
        return corrupt(message, "it has another size than it says");
    receiver->step = RECEIVES_NOTHING;
    return STATUS_OK;
}

static enum status take_part(struct archive_receiver *receiver, struct message *message)
{
    switch (receiver->step) {
    case RECEIVES_HEAD: return take_head(receiver, message);
    case RECEIVES_TAG: return take_tag(receiver, message);
    case RECEIVES_FILE_HEAD: return take_file_head(receiver, message);
    case RECEIVES_SUM: return take_sum(receiver, message);
    case RECEIVES_END: return take_end(receiver, message);
    default: break;
    }
    return corrupt(message, "it goes on after its end");
}

static struct bytes take_bytes(struct bytes *in, uint64_t size)
{
    struct bytes taken = bytes_of(in->data, size < in->size ? (size_t)size : in->size);

    *in = bytes_of(in->data + taken.size, in->size - taken.size);
    return taken;
}

static enum status receive_part(struct archive_receiver *receiver, struct bytes *in, struct message *message)
{
    struct bytes taken = take_bytes(in, receiver->part_wanted - receiver->part_size);

    memcpy(receiver->part + receiver->part_size, taken.data, taken.size);
    receiver->part_size += taken.size;
    receiver->received += taken.size;
    return receiver->part_size == receiver->part_wanted ? take_part(receiver, message) : STATUS_OK;
}

static enum status receive_bytes(struct archive_receiver *receiver, struct bytes *in, struct message *message)
{
    struct bytes taken = take_bytes(in, receiver->left);

    if (taken.size > 0 && file_write_all(receiver->disk, receiver->fd, taken) != STATUS_OK)
        return fail_disk(receiver, message);
    if (is_dataset(receiver))
        buffer_append_bytes(&receiver->dataset, taken);
    receiver->sum = crc64(receiver->sum, taken);
    receiver->left -= taken.size;
    receiver->received += taken.size;
    return STATUS_OK;
}

static enum status receive_some(struct archive_receiver *receiver, struct bytes *in, struct message *message)
{
    if (receiver->step == RECEIVES_NOTHING || receiver->step == RECEIVER_FAILED)
        return corrupt(message, "it goes on after its end");
    if (receiver->step != RECEIVES_BYTES)
        return receive_part(receiver, in, message);
    return receive_bytes(receiver, in, message);
}

/* A file that is complete, also one without bytes, is followed by its sum. */
static void end_bytes(struct archive_receiver *receiver)
{
    if (receiver->step == RECEIVES_BYTES && receiver->left == 0)
        expect(receiver, RECEIVES_SUM, ARCHIVE_SUM_SIZE);
}

enum status archive_receive(struct archive_receiver *receiver, struct bytes bytes, struct message *message)
{
    enum status status = STATUS_OK;

    while (bytes.size > 0 && status == STATUS_OK) {
        status = receive_some(receiver, &bytes, message);
        end_bytes(receiver);
    }
    if (status != STATUS_OK)
        receiver->step = RECEIVER_FAILED;
    return status;
}

bool archive_receiver_is_complete(const struct archive_receiver *receiver)
{
    return receiver->step == RECEIVES_NOTHING;
}

struct archive_facts archive_receiver_facts(const struct archive_receiver *receiver)
{
    return receiver->facts;
}
