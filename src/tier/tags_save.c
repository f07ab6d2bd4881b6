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
#include "tier/pause.h"
#include "tier/request.h"
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
        at = put_number(at, record->key.size + 1);
    out->size += (size_t)(at - begin);
    if (record->is_twin)
        buffer_append_bytes(out, record->key);
    *last = record->tag;
}

/* Returns where the section begins. */
static size_t put_section(struct buffer *out, uint32_t incarnation, uint32_t partition, uint64_t count, uint32_t place_size, struct bytes slots)
{
    size_t begin = out->size;
    uint64_t size = 0;

    buffer_append(out, &incarnation, 4);
    buffer_append(out, &partition, 4);
    buffer_append(out, &count, 8);
    buffer_append(out, &size, 8);
    buffer_append(out, &place_size, 4);
    buffer_append_bytes(out, slots);
    return begin;
}

static void end_section(struct buffer *out, size_t begin)
{
    uint64_t size = out->size - begin - TAGS_SECTION_SIZE;

    memcpy(out->data + begin + 16, &size, 8);
}

static void put_head(struct buffer *out, uint32_t partition_count, bool by_slot)
{
    buffer_append(out, by_slot ? tags_magic_by_slot : tags_magic, sizeof(tags_magic));
    buffer_append(out, &partition_count, 4);
}

static void put_end(struct buffer *out, uint64_t crc)
{
    uint32_t end = 0;

    buffer_append(out, &end, 4);
    buffer_append(out, &crc, 8);
}

void tags_begin(struct buffer *file, uint32_t partition_count, bool by_slot)
{
    put_head(file, partition_count, by_slot);
}

void tags_add(struct buffer *file, uint32_t incarnation, uint32_t partition, const struct recordmap_record *records, uint64_t count,
    struct bytes slots)
{
    uint64_t last = UINT64_MAX, places = 0;
    uint32_t place_size;
    size_t begin;

    for (uint64_t i = 0; i < count; i++)
        places |= records[i].place;
    place_size = (tagrun_bits_of(places) + 7) / 8;
    begin = put_section(file, incarnation, partition, count, place_size, slots);
    for (uint64_t i = 0; i < count; i++)
        put_record(file, &records[i], place_size, &last);
    end_section(file, begin);
}

void tags_end(struct buffer *file)
{
    put_end(file, crc64(0, buffer_bytes(file)));
}

/* --- the maps of all partitions --- */

enum { PART_RECORDS = 4096 };       /* read under one lock */

struct saving {
    struct tier *tier;
    int fd;
    uint64_t crc;
    struct buffer text;             /* not written yet */
    struct pause pause;
    bool is_wanted;                 /* the writer has other work, too: there are no more pauses */
    bool lacks_records;             /* the map has one that is nowhere: an image would lose its key */
};

/* A part of the keyspace's section: records from *from on, at least PART_RECORDS and all of the last tag. False: that was all. */
static bool save_part(struct saving *saving, struct keyspace *keyspace, uint32_t place_size, uint64_t *from, uint64_t *last)
{
    struct recordmap_walk walk;
    struct recordmap_record record;
    bool more;

    partition_lock(keyspace->partition);
    recordmap_walk_begin(&walk, keyspace->tier->map, *from);
    for (size_t count = 0; (more = recordmap_walk_next(&walk, &record)); count++) {
        if (count >= PART_RECORDS && record.tag != *last)
            break;
        put_record(&saving->text, &record, place_size, last);
        saving->lacks_records |= record.place == PLACE_NOWHERE;
    }
    partition_unlock(keyspace->partition);
    if (more)
        *from = record.tag;
    return more;
}

/* A pause, if one is due, unless another thread waits for this one. */
static void rest(struct saving *saving)
{
    struct tier *tier = saving->tier;
    int64_t pause_us = saving->is_wanted ? 0 : pause_due(&saving->pause, &tier->hooks);

    if (pause_us == 0)
        return;
    saving->is_wanted = requests_wait(tier, pause_us, WAIT_EXCEPT_IMAGE) || tier->counting.waiting > 0;
    pause_begin_step(&saving->pause);
}

static void save_keyspace(struct saving *saving, struct keyspace *keyspace)
{
    const struct recordmap *map = keyspace->tier->map;
    uint32_t place_size = (recordmap_place_bits(map) + 7) / 8;
    uint64_t last = UINT64_MAX, from = 0;
    struct buffer slots = { 0 };
    size_t begin;

    for (uint32_t i = 0; keyspace->slots != NULL && i < partition_slot_count(keyspace->partition->all); i++)
        buffer_append(&slots, &keyspace->slots[i].records, sizeof(keyspace->slots[i].records));
    begin = put_section(&saving->text, keyspace->incarnation, keyspace->partition->index, recordmap_count(map), place_size, buffer_bytes(&slots));
    buffer_release(&slots);
    while (save_part(saving, keyspace, place_size, &from, &last))
        rest(saving);
    end_section(&saving->text, begin);
}

static int compare_incarnations(const void *a, const void *b)
{
    const struct keyspace *first = *(struct keyspace *const *)a, *second = *(struct keyspace *const *)b;

    return first->incarnation < second->incarnation ? -1 : first->incarnation > second->incarnation;
}

/* Lists the partition's keyspaces that have records, in ascending order of incarnations; to be freed. */
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

/* The keyspaces stay: one that is flushed meanwhile is freed by this thread, later. */
static void save_partition(struct saving *saving, struct partition *partition)
{
    struct keyspace **list;
    size_t count;

    partition_lock(partition);
    list = list_keyspaces(partition, &count);
    partition_unlock(partition);
    for (size_t i = 0; i < count; i++)
        save_keyspace(saving, list[i]);
    mem_free(list);
}

/* Appends to the file and to its checksum. */
static enum status flush(struct saving *saving)
{
    enum status status = file_write_all(disk_system(), saving->fd, buffer_bytes(&saving->text));

    saving->crc = crc64(saving->crc, buffer_bytes(&saving->text));
    saving->text.size = 0;
    return status;
}

enum status tags_save(struct tier *tier, const char *dir)
{
    struct saving saving = { .tier = tier };
    char path[4096];
    enum status status;

    snprintf(path, sizeof(path), "%s/tags", dir);
    saving.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (saving.fd < 0)
        return status_of_errno(errno);
    pause_init(&saving.pause);
    pause_begin_step(&saving.pause);
    put_head(&saving.text, tier->partitions->count, tier->partitions->seed.by_slot);
    status = flush(&saving);
    for (uint32_t i = 0; i < tier->partitions->count && status == STATUS_OK; i++) {
        save_partition(&saving, &tier->partitions->partitions[i]);
        status = saving.lacks_records ? STATUS_CORRUPT : flush(&saving);
        rest(&saving);
    }
    put_end(&saving.text, saving.crc);
    if (status == STATUS_OK)
        status = flush(&saving);
    if (status == STATUS_OK && fsync(saving.fd) != 0)
        status = status_of_errno(errno);
    close(saving.fd);
    buffer_release(&saving.text);
    return status;
}
