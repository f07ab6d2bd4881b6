/* Spool: elements of one value that are put aside in a file, by bucket, so that those which belong together can be taken back together. Each is written once and read once, a
 * bucket's in the order in which they came.
 *
 *   file  = chunk ...               each of one bucket; where they are is known in memory
 *   chunk = element ...
 *   element = size of the key u32 | size of the data u32 | key | data                  (little-endian)
 *
 * The file has no name, so it is gone when the process ends. Memory: 16 KiB for each bucket that has elements, and 24 bytes for each chunk.
 *
 * Owner: one thread.
 */
#ifndef KELVIN_LIFECYCLE_SPOOL_H
#define KELVIN_LIFECYCLE_SPOOL_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/disk.h"
#include "base/status.h"

struct spool;

/* In the directory. STATUS_NO_SPACE, STATUS_IO: the file can't be made. */
enum status spool_create(const struct disk *disk, const char *dir, uint32_t bucket_count, struct spool **spool);
void spool_destroy(struct spool *spool);            /* NULL is fine */

/* STATUS_NO_SPACE, STATUS_IO: the file can't be written. */
enum status spool_add(struct spool *spool, uint32_t bucket, struct bytes key, struct bytes data);

/* Takes elements of a bucket back: chunks until there are `size` bytes, but one at least; nothing if there are no more. When the first is taken, all have been added.
 * STATUS_IO, STATUS_TRUNCATED: the file can't be read. */
enum status spool_take(struct spool *spool, uint32_t bucket, size_t size, struct buffer *elements);
/* Appends an element in the form in which they are taken. */
void spool_append(struct buffer *elements, struct bytes key, struct bytes data);
/* The first of the elements that were taken, whose bytes are borrowed; false: there is none. */
bool spool_next(struct bytes *elements, struct bytes *key, struct bytes *data);

#endif
