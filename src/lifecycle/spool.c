#include "lifecycle/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

enum { CHUNK_SIZE = 16 << 10, PATH_SIZE = 4096 };

struct chunk {
    uint64_t offset;
    size_t size;
};

struct bucket {
    struct buffer filling;
    struct chunk *chunks;
    size_t count, capacity, taken;
};

struct spool {
    const struct disk *disk;
    int fd;
    uint64_t size;
    uint32_t bucket_count;
    struct bucket buckets[];
};

enum status spool_create(const struct disk *disk, const char *dir, uint32_t bucket_count, struct spool **spool)
{
    char path[PATH_SIZE];
    int fd;

    if (snprintf(path, sizeof(path), "%s/temp-%" PRId64 ".spool", dir, clock_mono_ns()) >= PATH_SIZE)
        return STATUS_INVALID;
    fd = disk->open(disk->context, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return status_of_errno(errno);
    (void)disk->unlink(disk->context, AT_FDCWD, path);
    *spool = mem_zalloc(sizeof(**spool) + bucket_count * sizeof((*spool)->buckets[0]));
    (*spool)->disk = disk;
    (*spool)->fd = fd;
    (*spool)->bucket_count = bucket_count;
    return STATUS_OK;
}

void spool_destroy(struct spool *spool)
{
    if (spool == NULL)
        return;
    for (uint32_t i = 0; i < spool->bucket_count; i++) {
        buffer_release(&spool->buckets[i].filling);
        mem_free(spool->buckets[i].chunks);
    }
    spool->disk->close(spool->disk->context, spool->fd);
    mem_free(spool);
}

static enum status write_chunk(struct spool *spool, struct bucket *bucket)
{
    enum status status = file_write_all(spool->disk, spool->fd, buffer_bytes(&bucket->filling));

    if (status != STATUS_OK)
        return status;
    if (bucket->count == bucket->capacity) {
        bucket->capacity = bucket->capacity * 2 + 1;
        bucket->chunks = mem_realloc(bucket->chunks, bucket->capacity * sizeof(bucket->chunks[0]));
    }
    bucket->chunks[bucket->count++] = (struct chunk){ spool->size, bucket->filling.size };
    spool->size += bucket->filling.size;
    bucket->filling.size = 0;
    buffer_shrink(&bucket->filling, CHUNK_SIZE);
    return STATUS_OK;
}

void spool_append(struct buffer *elements, struct bytes key, struct bytes data)
{
    uint32_t sizes[2] = { (uint32_t)key.size, (uint32_t)data.size };

    buffer_append(elements, sizes, sizeof(sizes));
    buffer_append_bytes(elements, key);
    buffer_append_bytes(elements, data);
}

enum status spool_add(struct spool *spool, uint32_t index, struct bytes key, struct bytes data)
{
    struct bucket *bucket = &spool->buckets[index];
    size_t size = 2 * sizeof(uint32_t) + key.size + data.size;
    enum status status = STATUS_OK;

    if (bucket->filling.size > 0 && bucket->filling.size + size > CHUNK_SIZE)
        status = write_chunk(spool, bucket);
    if (status != STATUS_OK)
        return status;
    spool_append(&bucket->filling, key, data);
    return bucket->filling.size >= CHUNK_SIZE ? write_chunk(spool, bucket) : STATUS_OK;        /* a large one does not wait in memory */
}

enum status spool_take(struct spool *spool, uint32_t index, size_t size, struct buffer *elements)
{
    struct bucket *bucket = &spool->buckets[index];

    elements->size = 0;
    while (elements->size < size && bucket->taken < bucket->count) {
        const struct chunk *chunk = &bucket->chunks[bucket->taken++];
        ssize_t got = file_pread_all(spool->disk, spool->fd, buffer_reserve(elements, chunk->size), chunk->size, chunk->offset);

        if (got < 0)
            return status_of_errno(errno);
        if ((size_t)got < chunk->size)
            return STATUS_TRUNCATED;
        elements->size += chunk->size;
    }
    if (elements->size < size) {            /* what has not been written */
        buffer_append_bytes(elements, buffer_bytes(&bucket->filling));
        buffer_release(&bucket->filling);
    }
    return STATUS_OK;
}

bool spool_next(struct bytes *elements, struct bytes *key, struct bytes *data)
{
    uint32_t sizes[2];

    if (elements->size == 0)
        return false;
    memcpy(sizes, elements->data, sizeof(sizes));
    *key = bytes_of(elements->data + sizeof(sizes), sizes[0]);
    *data = bytes_of(key->data + sizes[0], sizes[1]);
    *elements = bytes_of(data->data + sizes[1], elements->size - sizeof(sizes) - sizes[0] - sizes[1]);
    return true;
}
