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
#include "tier/collect.h"
#include "tier/pause.h"
#include "tier/recordmap_image.h"
#include "tier/request.h"
#include "tier/tags_private.h"
#include "tier/tier_private.h"

static void put_head(struct buffer *out, uint32_t partition_count, bool by_slot, const struct tags_weights *weights)
{
    struct tags_head head = {
        .partition_count = partition_count,
        .flags = (by_slot ? TAGS_BY_SLOT : 0) | (weights->is_known ? TAGS_HAS_WEIGHTS : 0),
        .layout = TAGS_LAYOUT,
        .weight_count = weights->count,
    };

    memcpy(head.magic, tags_magic, sizeof(head.magic));
    buffer_append(out, &head, sizeof(head));
    buffer_append(out, weights->list, weights->count * sizeof(weights->list[0]));
}

static void put_end(struct buffer *out, uint64_t crc)
{
    uint32_t end = 0;

    buffer_append(out, &end, sizeof(end));
    buffer_append(out, &crc, sizeof(crc));
}

/* The head, and the counts by slot. */
static void put_section(struct buffer *out, uint32_t incarnation, uint32_t partition, const struct recordmap *map, struct bytes slots)
{
    static const char zeros[8];
    size_t size = tags_padded(slots.size);
    struct tags_section_head head = { incarnation, partition, recordmap_count(map), size + recordmap_image_size(map) };

    buffer_append(out, &head, sizeof(head));
    buffer_append_bytes(out, slots);
    buffer_append(out, zeros, size - slots.size);
}

void tags_begin(struct buffer *file, uint32_t partition_count, bool by_slot)
{
    put_head(file, partition_count, by_slot, &(struct tags_weights){ 0 });
}

void tags_add(struct buffer *file, uint32_t incarnation, uint32_t partition, const struct recordmap *map, struct bytes slots)
{
    struct recordmap_image image = { .map = map };

    put_section(file, incarnation, partition, map, slots);
    while (recordmap_image_write(&image, file))
        ;
}

void tags_end(struct buffer *file)
{
    uint64_t crc = crc64(0, buffer_bytes(file));

    put_end(file, crc);
}

/* --- the maps of all partitions --- */

enum { FLUSH_SIZE = 1 << 20 };

struct saving {
    struct tier *tier;
    int fd;
    struct buffer text;
    uint64_t crc;
    struct pause pause;
    bool is_wanted;                 /* another thread waits for the writer */
    enum status status;
};

/* Appends to the file and to its checksum. */
static void flush(struct saving *saving)
{
    if (saving->status == STATUS_OK)
        saving->status = file_write_all(disk_system(), saving->fd, buffer_bytes(&saving->text));
    saving->crc = crc64(saving->crc, buffer_bytes(&saving->text));
    saving->text.size = 0;
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

/* The chunks are copied under the lock, and written without it. */
static void save_map(struct saving *saving, struct keyspace *keyspace)
{
    struct recordmap_image image = { .map = keyspace->tier->map };
    bool more = true;

    while (more && saving->status == STATUS_OK) {
        partition_lock(keyspace->partition);
        more = recordmap_image_write(&image, &saving->text);
        partition_unlock(keyspace->partition);
        if (saving->text.size >= FLUSH_SIZE)
            flush(saving);
        rest(saving);
    }
}

static void save_keyspace(struct saving *saving, struct keyspace *keyspace)
{
    const struct recordmap *map = keyspace->tier->map;
    struct buffer slots = { 0 };

    for (uint32_t i = 0; keyspace->slots != NULL && i < partition_slot_count(keyspace->partition->all); i++)
        buffer_append(&slots, &keyspace->slots[i].records, sizeof(keyspace->slots[i].records));
    put_section(&saving->text, keyspace->incarnation, keyspace->partition->index, map, buffer_bytes(&slots));
    buffer_release(&slots);
    if (recordmap_nowhere_count(map) > 0)
        saving->status = STATUS_CORRUPT;
    save_map(saving, keyspace);
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

/* The counters have what the maps have, unless maps are about to be dropped, or something is lost: then the next start counts. */
static bool weights_are_exact(struct tier *tier)
{
    struct segments *segments = store_segments(tier->store);
    bool is_flushed = false;

    for (uint32_t i = 0; i < tier->partitions->count && !is_flushed; i++) {
        struct partition *partition = &tier->partitions->partitions[i];

        partition_lock(partition);
        is_flushed = partition->flushed != NULL;
        partition_unlock(partition);
    }
    return !is_flushed && collect_is_exact(tier) && !segments_have_lost(segments) && segments_damaged_count(segments) == 0;
}

static void list_weights(struct tier *tier, struct tags_weights *weights)
{
    struct segment *segment = NULL;
    size_t capacity = 0;

    *weights = (struct tags_weights){ .is_known = weights_are_exact(tier) };
    while (weights->is_known && (segment = segments_next(store_segments(tier->store), segment)) != NULL) {
        if (segment_live_weight(segment) == 0)
            continue;
        if (weights->count == capacity) {
            capacity = capacity * 2 + 64;
            weights->list = mem_realloc(weights->list, capacity * sizeof(weights->list[0]));
        }
        weights->list[weights->count++] = (struct tags_weight){ segment_sequence(segment), segment_live_weight(segment), segment_slot(segment), 0 };
    }
}

static void put_beginning(struct saving *saving)
{
    struct partitions *partitions = saving->tier->partitions;
    struct tags_weights weights;

    list_weights(saving->tier, &weights);
    put_head(&saving->text, partitions->count, partitions->seed.by_slot, &weights);
    mem_free(weights.list);
}

enum status tags_save(struct tier *tier, const char *dir)
{
    struct saving saving = { .tier = tier };
    char path[4096];

    snprintf(path, sizeof(path), "%s/tags", dir);
    saving.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (saving.fd < 0)
        return status_of_errno(errno);
    pause_init(&saving.pause);
    pause_begin_step(&saving.pause);
    put_beginning(&saving);
    for (uint32_t i = 0; i < tier->partitions->count && saving.status == STATUS_OK; i++) {
        save_partition(&saving, &tier->partitions->partitions[i]);
        flush(&saving);
        rest(&saving);
    }
    put_end(&saving.text, saving.crc);
    flush(&saving);
    if (saving.status == STATUS_OK && fsync(saving.fd) != 0)
        saving.status = status_of_errno(errno);
    close(saving.fd);
    buffer_release(&saving.text);
    return saving.status;
}
