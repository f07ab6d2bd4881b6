#include "tier/hot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc64.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/varint.h"
#include "keyspace/heat.h"
#include "tier/pause.h"
#include "tier/tier_private.h"

static const char magic[8] = "KHOT2\n";

enum {
    STEP_BUCKETS = 32,          /* looked at under a partition's lock at a time */
    HEAD_SIZE = 12, SECTION_SIZE = 12, GROUP_SIZE = 10, END_SIZE = 12,
    VERSION_AT = 4,             /* in the magic */
    HASH_BITS = 64, HASH_SIZE_MAX = 10,
    FLUSH_SIZE = 256 * 1024,
};

/* --- writing --- */

/* Keys, sorted by rank, hottest first, then hash. */
struct hot_key {
    uint64_t hash;
    uint16_t order;             /* 511 - rank */
};
struct hot_list {
    struct hot_key *keys;
    size_t count, capacity;
};

struct writer {
    struct tier *tier;
    int fd;
    uint64_t crc;
    enum status status;
    struct buffer text;         /* not written yet */
    struct hot_pending pending;
    struct hot_list list;       /* of the keyspace at hand */
    struct hot_key *sorted;     /* room for as many */
    size_t sorted_capacity;
    struct pause pause;
};

static void list_add(struct hot_list *list, uint64_t hash, uint16_t rank)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity * 2 + 1024;
        list->keys = mem_realloc(list->keys, list->capacity * sizeof(list->keys[0]));
    }
    list->keys[list->count++] = (struct hot_key){ hash, (uint16_t)(HOT_RANKS - 1 - rank) };
}

static void write_out(struct writer *writer)
{
    writer->crc = crc64(writer->crc, buffer_bytes(&writer->text));
    if (writer->status == STATUS_OK)
        writer->status = file_write_all(disk_system(), writer->fd, buffer_bytes(&writer->text));
    writer->text.size = 0;
}

static void list_bucket(struct writer *writer, struct keyspace *keyspace, const struct table_bucket *bucket, uint16_t minutes)
{
    const struct tier_settings *settings = &writer->tier->settings;
    struct heat_settings heat = { (uint32_t)settings->lfu_log_factor, (uint32_t)settings->lfu_decay_minutes };

    for (int slot = 0; slot < TABLE_BUCKET_SLOTS; slot++) {
        const struct entry *entry;
        uint16_t rank;

        if (bucket->handles[slot] == 0)
            continue;
        entry = keyspace_entry(keyspace, bucket->handles[slot]);
        rank = heat_now(&heat, entry->heat, entry->heat_minutes, minutes);
        if (!(entry->flags & ENTRY_PROBATION))
            rank += 256;
        list_add(&writer->list, keyspace_hash(keyspace, entry_key(entry)), rank);
    }
}

/* Inline: GCC drops calls of a function that only prefetches. */
static inline __attribute__((always_inline)) void prefetch_bucket(const struct keyspace *keyspace, const struct table_bucket *bucket)
{
    for (int slot = 0; slot < TABLE_BUCKET_SLOTS; slot++) {
        if (bucket->handles[slot] != 0)
            __builtin_prefetch(keyspace_entry(keyspace, bucket->handles[slot]));
    }
}

/* The keyspace may be flushed or swapped between two steps. */
static void list_keyspace(struct writer *writer, struct partition *partition, uint32_t incarnation)
{
    uint64_t from = partition_first_hash(partition);
    uint16_t minutes = heat_minutes(clock_wall_ms());
    bool more = true;

    writer->list.count = 0;
    while (more) {
        struct table_bucket *buckets[STEP_BUCKETS];
        struct keyspace *keyspace;
        struct table_cursor cursor;
        int count = 0;

        partition_lock(partition);
        keyspace = tier_keyspace_of(partition, incarnation);
        more = keyspace != NULL && table_seek(&keyspace->table, from, &cursor);
        while (more && count < STEP_BUCKETS) {
            prefetch_bucket(keyspace, cursor.bucket);
            buckets[count++] = cursor.bucket;
            from = cursor.last_hash + 1;
            more = table_next(&keyspace->table, &cursor);
        }
        for (int i = 0; i < count; i++)
            list_bucket(writer, keyspace, buckets[i], minutes);
        partition_unlock(partition);
        pause_if_due(&writer->pause, &writer->tier->hooks);
    }
}

static bool is_before(struct hot_key a, struct hot_key b)
{
    return a.order != b.order ? a.order < b.order : a.hash < b.hash;
}

/* By rank, then hash. The table is nearly in the order of the hashes, so that after dealing the keys out by rank little is left. */
static void sort_list(struct writer *writer, uint32_t counts[HOT_RANKS])
{
    struct hot_list *list = &writer->list;
    size_t starts[HOT_RANKS], at = 0;

    memset(counts, 0, HOT_RANKS * sizeof(counts[0]));
    if (writer->sorted_capacity < list->count) {
        writer->sorted_capacity = list->capacity;
        writer->sorted = mem_realloc(writer->sorted, writer->sorted_capacity * sizeof(writer->sorted[0]));
    }
    for (size_t i = 0; i < list->count; i++)
        counts[list->keys[i].order]++;
    for (int i = 0; i < HOT_RANKS; i++) {
        starts[i] = at;
        at += counts[i];
    }
    for (size_t i = 0; i < list->count; i++)
        writer->sorted[starts[list->keys[i].order]++] = list->keys[i];
    for (size_t i = 1; i < list->count; i++) {
        struct hot_key key = writer->sorted[i];
        size_t to = i;

        for (; to > 0 && is_before(key, writer->sorted[to - 1]); to--)
            writer->sorted[to] = writer->sorted[to - 1];
        writer->sorted[to] = key;
    }
}

static void write_section(struct writer *writer, const struct partition *partition, uint32_t incarnation)
{
    const uint64_t first = partition_first_hash(partition);
    struct buffer *text = &writer->text;
    uint32_t counts[HOT_RANKS], groups = 0;
    size_t head, at = 0;

    sort_list(writer, counts);
    for (int i = 0; i < HOT_RANKS; i++)
        groups += counts[i] > 0;
    buffer_append(text, &incarnation, 4);
    buffer_append(text, &partition->index, 4);
    buffer_append(text, &groups, 4);
    head = text->size;
    buffer_reserve(text, groups * GROUP_SIZE);
    text->size += groups * GROUP_SIZE;
    for (int i = 0; i < HOT_RANKS; i++) {
        size_t begin = text->size;
        uint16_t rank = (uint16_t)(HOT_RANKS - 1 - i);
        uint64_t before = first;
        uint32_t size;

        if (counts[i] == 0)
            continue;
        for (size_t end = at + counts[i]; at < end; at++) {
            varint_append(text, writer->sorted[at].hash - before);
            before = writer->sorted[at].hash;
        }
        size = (uint32_t)(text->size - begin);
        memcpy(text->data + head, &rank, 2);
        memcpy(text->data + head + 2, &counts[i], 4);
        memcpy(text->data + head + 6, &size, 4);
        head += GROUP_SIZE;
    }
    if (text->size >= FLUSH_SIZE)
        write_out(writer);
}

static int compare_keys(const void *left, const void *right)
{
    const struct hot_key *a = left, *b = right;

    return is_before(*a, *b) ? -1 : is_before(*b, *a);
}

/* Adds what was hot in the keyspace at an earlier image and is not loaded yet. */
static void list_pending(struct writer *writer, uint32_t incarnation, uint32_t partition)
{
    const struct hot_file *file = writer->pending.file;
    int below = file != NULL ? *writer->pending.below : 0;

    for (size_t i = 0; below > 0 && i < file->section_count; i++) {
        const struct hot_section *section = &file->sections[i];

        if (section->incarnation != incarnation || section->partition != partition)
            continue;
        for (uint32_t n = 0; n < section->group_count; n++) {
            const struct hot_group *group = &section->groups[n];
            uint64_t *hashes;

            if (group->rank >= below)
                continue;
            hashes = mem_alloc(group->count * sizeof(*hashes));
            if (hot_read(file, section, group, hashes) == STATUS_OK) {
                for (uint32_t at = 0; at < group->count; at++)
                    list_add(&writer->list, hashes[at], group->rank);
            }
            mem_free(hashes);
        }
    }
}

static void write_sections(struct writer *writer)
{
    struct partitions *all = writer->tier->partitions;

    for (uint32_t i = 0; i < all->count && writer->status == STATUS_OK; i++) {
        for (int space = 0; space < all->space_count; space++) {
            struct partition *partition = &all->partitions[i];
            uint32_t incarnation = 0;
            size_t listed;

            partition_lock(partition);
            if (partition->keyspaces[space] != NULL)
                incarnation = partition->keyspaces[space]->incarnation;
            partition_unlock(partition);
            if (incarnation == 0)
                continue;
            list_keyspace(writer, partition, incarnation);
            listed = writer->list.count;
            list_pending(writer, incarnation, i);
            if (writer->list.count > listed)        /* no longer nearly sorted */
                qsort(writer->list.keys, writer->list.count, sizeof(writer->list.keys[0]), compare_keys);
            if (writer->list.count > 0)
                write_section(writer, partition, incarnation);
            pause_if_due(&writer->pause, &writer->tier->hooks);
        }
    }
}

enum status hot_save(struct tier *tier, const char *dir, struct hot_pending pending)
{
    struct writer writer = { .tier = tier, .pending = pending };
    uint32_t end = 0;
    char path[4096];

    snprintf(path, sizeof(path), "%s/hot", dir);
    writer.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (writer.fd < 0)
        return status_of_errno(errno);
    pause_init(&writer.pause);
    pause_begin_step(&writer.pause);
    buffer_append(&writer.text, magic, sizeof(magic));
    buffer_append(&writer.text, &tier->partitions->count, 4);
    write_sections(&writer);
    buffer_append(&writer.text, &end, 4);
    write_out(&writer);
    buffer_append(&writer.text, &writer.crc, 8);
    write_out(&writer);
    if (writer.status == STATUS_OK && fsync(writer.fd) != 0)
        writer.status = status_of_errno(errno);
    close(writer.fd);
    if (writer.status != STATUS_OK)
        unlink(path);
    buffer_release(&writer.text);
    mem_free(writer.list.keys);
    mem_free(writer.sorted);
    return writer.status;
}

/* --- reading --- */

static enum status read_at(int fd, uint64_t at, void *data, size_t size)
{
    ssize_t got = file_pread_all(disk_system(), fd, data, size, at);

    if (got < 0)
        return status_of_errno(errno);
    return (size_t)got == size ? STATUS_OK : STATUS_CORRUPT;
}

static enum status check_sum(int fd, uint64_t size)
{
    char *data = mem_alloc(FLUSH_SIZE);
    uint64_t crc = 0, stored = 0;
    enum status status = STATUS_OK;

    for (uint64_t at = 0; at < size - 8 && status == STATUS_OK; ) {
        size_t part = size - 8 - at < FLUSH_SIZE ? (size_t)(size - 8 - at) : FLUSH_SIZE;

        status = read_at(fd, at, data, part);
        if (status == STATUS_OK)
            crc = crc64(crc, bytes_of(data, part));
        at += part;
    }
    if (status == STATUS_OK)
        status = read_at(fd, size - 8, &stored, 8);
    mem_free(data);
    return status == STATUS_OK && stored != crc ? STATUS_CORRUPT : status;
}

static uint32_t number_at(const uint8_t *at, size_t size)
{
    uint32_t number = 0;

    memcpy(&number, at, size);
    return number;
}

/* The section's groups, `room` bytes of file are left for it. *taken: its bytes. */
static enum status read_groups(struct hot_file *file, struct hot_section *section, uint64_t at, uint64_t room, uint64_t *taken)
{
    uint32_t count = section->group_count, rank_before = HOT_RANKS;
    uint8_t table[HOT_RANKS * GROUP_SIZE];
    enum status status;

    *taken = (uint64_t)count * GROUP_SIZE;
    if (count == 0 || count > HOT_RANKS || *taken > room)
        return STATUS_CORRUPT;
    status = read_at(file->fd, at, table, (size_t)*taken);
    if (status != STATUS_OK)
        return status;
    section->groups = mem_zalloc(count * sizeof(struct hot_group));
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *row = table + i * GROUP_SIZE;
        struct hot_group *group = &section->groups[i];

        *group = (struct hot_group){ (uint16_t)number_at(row, 2), number_at(row + 2, 4), number_at(row + 6, 4), at + *taken };
        if (group->rank >= rank_before || group->count == 0 || group->count > group->size ||
            group->size > (uint64_t)group->count * HASH_SIZE_MAX || group->size > room - *taken)
            return STATUS_CORRUPT;
        rank_before = group->rank;
        *taken += group->size;
        file->key_count += group->count;
    }
    return STATUS_OK;
}

static enum status read_sections(struct hot_file *file, uint64_t size)
{
    uint64_t at = HEAD_SIZE, taken;
    size_t capacity = 0;

    while (size - at > END_SIZE) {
        uint8_t head[SECTION_SIZE];
        struct hot_section *section;
        enum status status;

        if (size - at < SECTION_SIZE + END_SIZE)
            return STATUS_CORRUPT;
        status = read_at(file->fd, at, head, SECTION_SIZE);
        if (status != STATUS_OK)
            return status;
        if (file->section_count == capacity) {
            capacity = capacity * 2 + 64;
            file->sections = mem_realloc(file->sections, capacity * sizeof(struct hot_section));
        }
        section = &file->sections[file->section_count++];
        *section = (struct hot_section){ number_at(head, 4), number_at(head + 4, 4), number_at(head + 8, 4), NULL };
        if (section->incarnation == 0 || section->incarnation == UINT32_MAX || section->partition >= file->partition_count)
            return STATUS_CORRUPT;
        at += SECTION_SIZE;
        status = read_groups(file, section, at, size - at - END_SIZE, &taken);
        if (status != STATUS_OK)
            return status;
        at += taken;
    }
    return size - at == END_SIZE ? STATUS_OK : STATUS_CORRUPT;
}

/* The order of the store. */
static int compare_sections(const void *left, const void *right)
{
    const struct hot_section *a = left, *b = right;

    if (a->incarnation != b->incarnation)
        return a->incarnation < b->incarnation ? -1 : 1;
    return a->partition < b->partition ? -1 : a->partition > b->partition;
}

enum status hot_open(const char *dir, uint32_t partition_count, struct hot_file *file)
{
    char path[4096], head[HEAD_SIZE];
    struct stat info;
    enum status status = STATUS_OK;

    *file = (struct hot_file){ .partition_count = partition_count };
    snprintf(path, sizeof(path), "%s/hot", dir);
    file->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (file->fd < 0)
        return status_of_errno(errno);
    if (fstat(file->fd, &info) != 0)
        status = status_of_errno(errno);
    else if (!S_ISREG(info.st_mode) || info.st_size < HEAD_SIZE + END_SIZE)
        status = STATUS_CORRUPT;
    if (status == STATUS_OK)
        status = check_sum(file->fd, (uint64_t)info.st_size);
    if (status == STATUS_OK)
        status = read_at(file->fd, 0, head, HEAD_SIZE);
    if (status == STATUS_OK && memcmp(head, magic, VERSION_AT) == 0 && head[VERSION_AT] != magic[VERSION_AT])
        status = STATUS_VERSION;
    if (status == STATUS_OK && (memcmp(head, magic, sizeof(magic)) != 0 || number_at((uint8_t *)head + 8, 4) != partition_count))
        status = STATUS_CORRUPT;
    if (status == STATUS_OK)
        status = read_sections(file, (uint64_t)info.st_size);
    if (status != STATUS_OK)
        hot_close(file);
    else if (file->section_count > 0)
        qsort(file->sections, file->section_count, sizeof(struct hot_section), compare_sections);
    return status;
}

void hot_close(struct hot_file *file)
{
    for (size_t i = 0; i < file->section_count; i++)
        mem_free(file->sections[i].groups);
    mem_free(file->sections);
    if (file->fd >= 0)
        close(file->fd);
    *file = (struct hot_file){ .fd = -1 };
}

enum status hot_read(const struct hot_file *file, const struct hot_section *section, const struct hot_group *group, uint64_t *hashes)
{
    uint32_t bits = (uint32_t)__builtin_ctz(file->partition_count);
    uint64_t hash = bits == 0 ? 0 : (uint64_t)section->partition << (HASH_BITS - bits), last = hash + (UINT64_MAX >> bits);
    char *data = mem_alloc(group->size);
    const char *at = data, *end = data + group->size;
    enum status status = read_at(file->fd, group->at, data, group->size);

    for (uint32_t i = 0; i < group->count && status == STATUS_OK; i++) {
        uint64_t more;

        if (!varint_take(&at, end, &more) || more > last - hash)
            status = STATUS_CORRUPT;
        else
            hashes[i] = hash += more;
    }
    if (status == STATUS_OK && at != end)
        status = STATUS_CORRUPT;
    mem_free(data);
    return status;
}
