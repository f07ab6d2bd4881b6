/* Writing: a file in memory, and the maps of all partitions beside an image. */
#include "tier/tags.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc64.h"
#include "base/file.h"
#include "base/mem.h"
#include "tier/tags_private.h"
#include "tier/tier_private.h"

static char *put_number(char *at, uint64_t number)
{
    for (; number >= 128; number >>= 7)
        *at++ = (char)(number | 128);
    *at++ = (char)number;
    return at;
}

/* `*last` is the tag of the record before, all bits set for none. */
static void put_record(struct buffer *out, const struct recordmap_record *record, uint32_t place_size, uint64_t *last)
{
    char *begin = buffer_reserve(out, 32), *at = put_number(begin, record->tag - *last);

    memcpy(at, &record->place, 8);
    at += place_size;
    if (record->is_twin)
        at = put_number(at, record->key.data == NULL ? TAGS_KEY_UNKNOWN : record->key.size + 1);
    out->size += (size_t)(at - begin);
    if (record->is_twin && record->key.data != NULL)
        buffer_append_bytes(out, record->key);
    *last = record->tag;
}

/* Returns where the section begins. */
static size_t put_section(struct buffer *out, uint32_t incarnation, uint32_t partition, uint64_t count, uint32_t place_size)
{
    size_t begin = out->size;
    uint64_t size = 0;

    buffer_append(out, &incarnation, 4);
    buffer_append(out, &partition, 4);
    buffer_append(out, &count, 8);
    buffer_append(out, &size, 8);
    buffer_append(out, &place_size, 4);
    return begin;
}

static void end_section(struct buffer *out, size_t begin)
{
    uint64_t size = out->size - begin - tags_section_size(TAGS_VERSION);

    memcpy(out->data + begin + 16, &size, 8);
}

static void put_head(struct buffer *out, uint32_t partition_count)
{
    buffer_append(out, tags_magics[TAGS_VERSION - 1], sizeof(tags_magics[0]));
    buffer_append(out, &partition_count, 4);
}

static void put_end(struct buffer *out, uint64_t crc)
{
    uint32_t end = 0;

    buffer_append(out, &end, 4);
    buffer_append(out, &crc, 8);
}

void tags_begin(struct buffer *file, uint32_t partition_count)
{
    put_head(file, partition_count);
}

void tags_add(struct buffer *file, uint32_t incarnation, uint32_t partition, const struct recordmap_record *records, uint64_t count)
{
    uint64_t last = UINT64_MAX, places = 0;
    uint32_t place_size;
    size_t begin;

    for (uint64_t i = 0; i < count; i++)
        places |= records[i].place;
    place_size = (tagrun_bits_of(places) + 7) / 8;
    begin = put_section(file, incarnation, partition, count, place_size);
    for (uint64_t i = 0; i < count; i++)
        put_record(file, &records[i], place_size, &last);
    end_section(file, begin);
}

void tags_end(struct buffer *file)
{
    put_end(file, crc64(0, buffer_bytes(file)));
}

static void save_keyspace(struct keyspace *keyspace, struct buffer *out)
{
    const struct recordmap *map = keyspace->tier->map;
    uint32_t place_size = (recordmap_place_bits(map) + 7) / 8;
    uint64_t last = UINT64_MAX;
    struct recordmap_walk walk;
    struct recordmap_record record;
    size_t begin = put_section(out, keyspace->incarnation, keyspace->partition->index, recordmap_count(map), place_size);

    recordmap_walk_begin(&walk, map, 0);
    while (recordmap_walk_next(&walk, &record))
        put_record(out, &record, place_size, &last);
    end_section(out, begin);
}

static int compare_incarnations(const void *a, const void *b)
{
    const struct keyspace *first = *(struct keyspace *const *)a, *second = *(struct keyspace *const *)b;

    return first->incarnation < second->incarnation ? -1 : first->incarnation > second->incarnation;
}

/* Those of the partition that have records, in ascending order of incarnations; to be freed. */
static struct keyspace **list_keyspaces(struct partition *partition, size_t *count) REQUIRES(partition->lock);
static struct keyspace **list_keyspaces(struct partition *partition, size_t *count)
{
    int db_count = partition->all->db_count;
    size_t room = (size_t)db_count;
    struct keyspace **list;

    for (struct keyspace *keyspace = partition->flushed; keyspace != NULL; keyspace = keyspace->next_flushed)
        room++;
    list = mem_alloc((room + 1) * sizeof(struct keyspace *));
    *count = 0;
    for (int db = 0; db < db_count; db++)
        if (partition->keyspaces[db] != NULL && recordmap_count(partition->keyspaces[db]->tier->map) > 0)
            list[(*count)++] = partition->keyspaces[db];
    for (struct keyspace *keyspace = partition->flushed; keyspace != NULL; keyspace = keyspace->next_flushed)
        if (recordmap_count(keyspace->tier->map) > 0)
            list[(*count)++] = keyspace;
    qsort(list, *count, sizeof(struct keyspace *), compare_incarnations);
    return list;
}

static void save_partition(struct partition *partition, struct buffer *out)
{
    struct keyspace **list;
    size_t count;

    partition_lock(partition);
    list = list_keyspaces(partition, &count);
    for (size_t i = 0; i < count; i++)
        save_keyspace(list[i], out);
    partition_unlock(partition);
    mem_free(list);
}

/* Appends to the file and to its checksum. */
static enum status flush(int fd, struct buffer *text, uint64_t *crc)
{
    enum status status = file_write_all(disk_system(), fd, buffer_bytes(text));

    *crc = crc64(*crc, buffer_bytes(text));
    text->size = 0;
    return status;
}

enum status tags_save(struct tier *tier, const char *dir)
{
    struct buffer text = { 0 };
    char path[4096];
    uint64_t crc = 0;
    enum status status;
    int fd;

    snprintf(path, sizeof(path), "%s/tags", dir);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return status_of_errno(errno);
    put_head(&text, tier->partitions->count);
    status = flush(fd, &text, &crc);
    for (uint32_t i = 0; i < tier->partitions->count && status == STATUS_OK; i++) {
        save_partition(&tier->partitions->partitions[i], &text);
        status = flush(fd, &text, &crc);
    }
    put_end(&text, crc);
    if (status == STATUS_OK)
        status = file_write_all(disk_system(), fd, buffer_bytes(&text));
    if (status == STATUS_OK && fsync(fd) != 0)
        status = status_of_errno(errno);
    close(fd);
    buffer_release(&text);
    return status;
}
