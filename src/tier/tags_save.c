/* Writing: a file in memory, and the maps of all partitions beside an image. */
#include "tier/tags.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc64.h"
#include "base/file.h"
#include "base/mem.h"
#include "tier/collect.h"
#include "tier/pause.h"
#include "tier/recordmap_changes.h"
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

/* The head, and the counts by slot. `base` NULL: the map follows. */
static void put_section(struct buffer *out, uint32_t incarnation, uint32_t partition, const struct recordmap *map, struct bytes slots,
    const struct recordmap_base *base)
{
    static const char zeros[8];
    size_t size = tags_padded(slots.size);
    struct tags_section_head head = { .incarnation = incarnation, .partition = partition, .count = recordmap_count(map), .size = size };

    if (base != NULL) {
        head.base = base->number;
        head.base_size = base->size;
        head.base_sum = base->sum;
    } else {
        head.size += recordmap_image_size(map);
    }
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

    put_section(file, incarnation, partition, map, slots, NULL);
    while (recordmap_image_write(&image, file))
        ;
}

void tags_end(struct buffer *file)
{
    uint64_t crc = crc64(0, buffer_bytes(file));

    put_end(file, crc);
}

/* --- the maps of all partitions --- */

enum {
    PATH_SIZE = 4096,
    FLUSH_SIZE = 1 << 20,
    CHANGE_SIZE = 14,               /* bytes of a changed range, about */
};

/* A file that is written, and the checksum of what was written so far. */
struct output {
    int fd;
    struct buffer text;
    uint64_t crc, size;
    enum status status;
};

struct saving {
    struct tier *tier;
    const char *dir;
    struct output tags;
    struct pause pause;
    uint64_t map_number;            /* of the last map file */
    bool is_wanted;                 /* another thread waits for the writer */
};

/* Appends to the file and to its checksum. */
static void flush(struct output *output)
{
    if (output->status == STATUS_OK)
        output->status = file_write_all(disk_system(), output->fd, buffer_bytes(&output->text));
    output->crc = crc64(output->crc, buffer_bytes(&output->text));
    output->size += output->text.size;
    output->text.size = 0;
}

/* Changes a number that was appended as `old`, `at` bytes after the beginning of the file. It is in the file already, or will be. The checksum has no
 * inversion, so that of the difference is added to it. */
static void change_number(struct output *output, uint64_t at, uint64_t old, uint64_t number)
{
    uint64_t difference = old ^ number;

    if (at >= output->size) {
        memcpy(output->text.data + (at - output->size), &number, sizeof(number));
        return;
    }
    output->crc ^= crc64_zeros(crc64(0, bytes_of((const char *)&difference, sizeof(difference))), output->size - at - sizeof(number));
    if (output->status == STATUS_OK && pwrite(output->fd, &number, sizeof(number), (off_t)at) != (ssize_t)sizeof(number))
        output->status = STATUS_IO;
}

/* Returns whether all of it was written. */
static enum status close_output(struct output *output)
{
    if (output->status == STATUS_OK && fsync(output->fd) != 0)
        output->status = status_of_errno(errno);
    close(output->fd);
    buffer_release(&output->text);
    return output->status;
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
static void save_map(struct saving *saving, struct keyspace *keyspace, struct output *output)
{
    struct recordmap_image image = { .map = keyspace->tier->map };
    bool more = true;

    while (more && output->status == STATUS_OK) {
        partition_lock(keyspace->partition);
        more = recordmap_image_write(&image, &output->text);
        partition_unlock(keyspace->partition);
        if (output->text.size >= FLUSH_SIZE)
            flush(output);
        rest(saving);
    }
}

/* --- map files --- */

static void put_map_head(const struct keyspace *keyspace, uint64_t number, struct buffer *out)
{
    struct tags_map_head head = {
        .layout = TAGS_LAYOUT,
        .incarnation = keyspace->incarnation,
        .partition = keyspace->partition->index,
        .number = number,
        .size = recordmap_image_size(keyspace->tier->map),
    };

    memcpy(head.magic, tags_map_magic, sizeof(head.magic));
    buffer_append(out, &head, sizeof(head));
}

static void name_map(const char *dir, uint64_t number, char path[PATH_SIZE])
{
    snprintf(path, PATH_SIZE, TAGS_MAP_NAME, dir, (unsigned long long)number);
}

static bool link_map(struct saving *saving, uint64_t number)
{
    char from[PATH_SIZE], to[PATH_SIZE];

    name_map(saving->tier->dir, number, from);
    name_map(saving->dir, number, to);
    return link(from, to) == 0;
}

static void set_base(struct keyspace *keyspace, const struct recordmap_base *base)
{
    partition_lock(keyspace->partition);
    *recordmap_base(keyspace->tier->map) = *base;
    partition_unlock(keyspace->partition);
}

static void forget_base(struct keyspace *keyspace)
{
    partition_lock(keyspace->partition);
    recordmap_unwatch(keyspace->tier->map);
    partition_unlock(keyspace->partition);
}

/* Writes the map to a file of its own, which the image has, too. False: it can't be, and its room is free again, which the map needs elsewhere. */
static bool write_base(struct saving *saving, struct keyspace *keyspace)
{
    struct recordmap_base base = { .number = ++saving->map_number };
    struct output file = { 0 };
    char path[PATH_SIZE];
    bool is_linked;

    name_map(saving->tier->dir, base.number, path);
    (void)unlink(path);             /* an earlier process' file may be an image's, too */
    file.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file.fd < 0)
        return false;
    is_linked = link_map(saving, base.number);          /* before all is written: some file systems can't */
    if (!is_linked)
        file.status = STATUS_IO;
    partition_lock(keyspace->partition);
    recordmap_watch(keyspace->tier->map);
    partition_unlock(keyspace->partition);
    put_map_head(keyspace, base.number, &file.text);
    save_map(saving, keyspace, &file);
    flush(&file);
    base.sum = file.crc;
    buffer_append(&file.text, &base.sum, sizeof(base.sum));
    flush(&file);
    base.size = file.size;
    if (close_output(&file) == STATUS_OK) {
        set_base(keyspace, &base);
        return true;
    }
    (void)unlink(path);
    if (is_linked) {
        name_map(saving->dir, base.number, path);
        (void)unlink(path);
    }
    return false;
}

/* Whether the changes since the base have cost as much as a new one, or are a quarter of it: then all that is written is at most twice the least that could
 * have been. Bases have different limits, so that not all maps are written by one image. */
static bool base_is_due(struct recordmap *map)
{
    const struct recordmap_base *base = recordmap_base(map);
    uint64_t changed, limit;

    if (base == NULL)
        return true;
    changed = recordmap_changed_count(map);
    limit = base->size / 2 + base->size * (base->number * 157 % 256) / 256;
    return changed > recordmap_range_count(map) / 4 || base->spent + changed * CHANGE_SIZE > limit;
}

/* The changes may have 0.8 of the bytes of the map, before it is written as a whole again: they are written as they come, and their size after them. */
static void save_changes(struct saving *saving, struct keyspace *keyspace, struct bytes slots)
{
    struct recordmap *map = keyspace->tier->map;
    struct recordmap_changes changes = { .map = map };
    struct output *output = &saving->tags;
    uint64_t size_at = output->size + output->text.size + offsetof(struct tags_section_head, size), slots_size = tags_padded(slots.size);
    bool more = true;

    put_section(&output->text, keyspace->incarnation, keyspace->partition->index, map, slots, recordmap_base(map));
    while (more) {
        partition_lock(keyspace->partition);
        more = recordmap_changes_write(&changes, &output->text);
        partition_unlock(keyspace->partition);
        if (output->text.size >= FLUSH_SIZE)
            flush(output);
        rest(saving);
    }
    change_number(output, size_at, slots_size, slots_size + changes.size);
    recordmap_base(map)->spent += changes.size;
}

/* The image gets the map's base, a new one or that of earlier images. False: it has none. */
static bool give_base(struct saving *saving, struct keyspace *keyspace)
{
    struct recordmap *map = keyspace->tier->map;
    bool is_given = recordmap_image_size(map) >= saving->tier->map_file_min &&
                    (base_is_due(map) ? write_base(saving, keyspace) : link_map(saving, recordmap_base(map)->number));

    if (!is_given)
        forget_base(keyspace);
    return is_given;
}

static void save_keyspace(struct saving *saving, struct keyspace *keyspace)
{
    struct recordmap *map = keyspace->tier->map;
    struct buffer slots = { 0 };

    for (uint32_t i = 0; keyspace->slots != NULL && i < partition_slot_count(keyspace->partition->all); i++)
        buffer_append(&slots, &keyspace->slots[i].records, sizeof(keyspace->slots[i].records));
    if (recordmap_nowhere_count(map) > 0) {
        saving->tags.status = STATUS_CORRUPT;
    } else if (give_base(saving, keyspace)) {
        save_changes(saving, keyspace, buffer_bytes(&slots));
    } else {
        put_section(&saving->tags.text, keyspace->incarnation, keyspace->partition->index, map, buffer_bytes(&slots), NULL);
        save_map(saving, keyspace, &saving->tags);
    }
    buffer_release(&slots);
}

/* Calls `found` for the base of each map, empty and flushed ones included. */
typedef void base_found(void *context, struct recordmap *map);
static void each_base(struct tier *tier, base_found *found, void *context)
{
    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];

        partition_lock(partition);
        for (int space = 0; space < tier->partitions->space_count; space++)
            if (partition->keyspaces[space] != NULL && recordmap_base(partition->keyspaces[space]->tier->map) != NULL)
                found(context, partition->keyspaces[space]->tier->map);
        for (struct keyspace *keyspace = partition->flushed; keyspace != NULL; keyspace = keyspace->next_flushed)
            if (recordmap_base(keyspace->tier->map) != NULL)
                found(context, keyspace->tier->map);
        partition_unlock(partition);
    }
}

struct numbers {
    uint64_t *list;
    size_t count, capacity;
};

static void add_number(void *context, struct recordmap *map)
{
    struct numbers *numbers = context;

    if (numbers->count == numbers->capacity) {
        numbers->capacity = numbers->capacity * 2 + 64;
        numbers->list = mem_realloc(numbers->list, numbers->capacity * sizeof(numbers->list[0]));
    }
    numbers->list[numbers->count++] = recordmap_base(map)->number;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

    return first < second ? -1 : first > second;
}

static bool is_map_file(const char *name, uint64_t *number)
{
    char *end;

    *number = strtoull(name, &end, 10);
    return end != name && strcmp(end, ".map") == 0;
}

/* `kept`: ascending. */
static void remove_maps_but(const char *path, const struct numbers *kept)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    uint64_t number;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (is_map_file(entry->d_name, &number) &&
            (kept->count == 0 || bsearch(&number, kept->list, kept->count, sizeof(number), compare_numbers) == NULL))
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir != NULL)
        closedir(dir);
}

void tags_remove_maps(const char *image)
{
    remove_maps_but(image, &(struct numbers){ 0 });
}

/* Removes the map files that are no map's base. */
static void remove_old_maps(struct tier *tier)
{
    struct numbers numbers = { 0 };

    each_base(tier, add_number, &numbers);
    if (numbers.count > 0)
        qsort(numbers.list, numbers.count, sizeof(numbers.list[0]), compare_numbers);
    remove_maps_but(tier->dir, &numbers);
    mem_free(numbers.list);
}

static void note_last_number(void *context, struct recordmap *map)
{
    uint64_t *last = context;

    if (recordmap_base(map)->number > *last)
        *last = recordmap_base(map)->number;
}

struct adopting {
    struct tier *tier;
    const char *image;
};

/* Without a link the map is written again with the next image. Nothing is synced: the file was when its image was made or received, and the name in the
 * store's directory is not needed after a crash. */
static void adopt_map(void *context, struct recordmap *map)
{
    const struct adopting *adopting = context;
    uint64_t number = recordmap_base(map)->number;
    char from[PATH_SIZE], to[PATH_SIZE];

    name_map(adopting->image, number, from);
    name_map(adopting->tier->dir, number, to);
    (void)unlink(to);
    if (link(from, to) != 0)
        recordmap_unwatch(map);
}

void tags_adopt_maps(struct tier *tier, const char *image)
{
    each_base(tier, adopt_map, &(struct adopting){ tier, image });
    remove_old_maps(tier);
}

/* --- the file as a whole --- */

static int compare_incarnations(const void *a, const void *b)
{
    const struct keyspace *first = *(struct keyspace *const *)a, *second = *(struct keyspace *const *)b;

    return first->incarnation < second->incarnation ? -1 : first->incarnation > second->incarnation;
}

/* Lists the partition's keyspaces that have records, in ascending order of incarnations; to be freed. */
static struct keyspace **list_keyspaces(struct partition *partition, size_t *count) REQUIRES(partition->lock);
static struct keyspace **list_keyspaces(struct partition *partition, size_t *count)
{
    int space_count = partition->all->space_count;
    size_t room = (size_t)space_count;
    struct keyspace **list;

    for (struct keyspace *keyspace = partition->flushed; keyspace != NULL; keyspace = keyspace->next_flushed)
        room++;
    list = mem_alloc((room + 1) * sizeof(struct keyspace *));
    *count = 0;
    for (int space = 0; space < space_count; space++)
        if (partition->keyspaces[space] != NULL && recordmap_count(partition->keyspaces[space]->tier->map) > 0)
            list[(*count)++] = partition->keyspaces[space];
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
    for (size_t i = 0; i < count && saving->tags.status == STATUS_OK; i++)
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
    put_head(&saving->tags.text, partitions->count, partitions->seed.by_slot, &weights);
    mem_free(weights.list);
}

enum status tags_save(struct tier *tier, const char *dir)
{
    struct saving saving = { .tier = tier, .dir = dir };
    enum status status;
    char path[PATH_SIZE];

    snprintf(path, sizeof(path), "%s/tags", dir);
    saving.tags.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (saving.tags.fd < 0)
        return status_of_errno(errno);
    each_base(tier, note_last_number, &saving.map_number);
    pause_init(&saving.pause);
    pause_begin_step(&saving.pause);
    put_beginning(&saving);
    for (uint32_t i = 0; i < tier->partitions->count && saving.tags.status == STATUS_OK; i++) {
        save_partition(&saving, &tier->partitions->partitions[i]);
        flush(&saving.tags);
        rest(&saving);
    }
    put_end(&saving.tags.text, saving.tags.crc);
    flush(&saving.tags);
    status = close_output(&saving.tags);
    remove_old_maps(tier);
    return status;
}
