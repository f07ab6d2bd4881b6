/* Archive: the files of an image (persist/checkpoint.h) in one stream of bytes, for a replica. docs/formats/archive.md has the bytes.
 *
 *     primary, any thread:    archive_open, then for each connection archive_reader_create, archive_read ..., archive_reader_destroy
 *     replica, one thread:    archive_receiver_create, archive_receive ..., archive_receiver_is_complete
 *
 * Nothing is copied on the primary: readers read the image's own files, each at its own pace, and the last reference removes the image.
 *
 * The receiver trusts nothing: names are from a fixed list, each file and the head have a checksum, and the sizes have to add up. It keeps
 * ARCHIVE_PART_MAX bytes in memory; files are synced when they are complete. That the files fit together is for checkpoint_databases and
 * store_open to find out.
 */
#ifndef KELVIN_PERSIST_ARCHIVE_H
#define KELVIN_PERSIST_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/bytes.h"
#include "base/message.h"
#include "base/status.h"

struct archive;
struct closer;
struct archive_reader;
struct archive_receiver;
struct disk;

enum {
    ARCHIVE_VERSION = 9,            /* of the bytes, and of all files in an image: raised with any of them */
    ARCHIVE_HEAD_SIZE = 40,
    ARCHIVE_NAME_MAX = 64,
    ARCHIVE_PART_MAX = ARCHIVE_NAME_MAX + 16,
    ARCHIVE_FILES_MAX = 1 << 20,
};

/* Facts that both servers have to agree on, besides the version. */
struct archive_facts {
    uint32_t partition_count, db_count;
};

/* Returns whether the name is that of a file in an image, as `store/meta`: nothing else is sent, or accepted. */
bool archive_name_is_valid(struct bytes name);

/* The image of which nothing changes any more; it is the archive's from now on, and is removed with it, also if this fails. One reference. */
enum status archive_open(const char *image, const struct archive_facts *facts, struct closer *closer, struct archive **archive,
    struct message *message);
void archive_release(struct archive *archive);          /* NULL is fine; removes the image by way of the closer, which may be NULL */
uint64_t archive_size(const struct archive *archive);   /* bytes of the stream */

/* Holds the archive. Owner: one thread at a time. */
struct archive_reader *archive_reader_create(struct archive *archive);
void archive_reader_destroy(struct archive_reader *reader);     /* NULL is fine */
/* The next bytes, up to `size`. 0: that was all. -1: errno. */
ssize_t archive_read(struct archive_reader *reader, void *to, size_t size);

/* `dir` must not exist; it is created with the first file, and is the caller's to remove. */
struct archive_receiver *archive_receiver_create(const struct disk *disk, const char *dir);
void archive_receiver_destroy(struct archive_receiver *receiver);       /* NULL is fine */
/* The next bytes, cut anywhere. After a failure, which `message` describes, no more are accepted. */
enum status archive_receive(struct archive_receiver *receiver, struct bytes bytes, struct message *message);
bool archive_receiver_is_complete(const struct archive_receiver *receiver);
/* Once the head was received. */
struct archive_facts archive_receiver_facts(const struct archive_receiver *receiver);

#endif
