#include "tier/tags.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/crc64.h"
#include "base/file.h"
#include "base/mem.h"
#include "tier/tier_private.h"

static const char magic[8] = "KTAGS1\n";

enum { HEAD_SIZE = 12, SECTION_SIZE = 16, END_SIZE = 12, REPORT_EVERY = 4096, REPORT_US = 2000000 };

static void save_keyspace(struct keyspace *keyspace, struct buffer *out)
{
    uint64_t count = recordmap_count(keyspace->tier->map);

    if (count == 0)
        return;
    buffer_append(out, &keyspace->incarnation, 4);
    buffer_append(out, &keyspace->partition->index, 4);
    buffer_append(out, &count, 8);
    recordmap_save(keyspace->tier->map, (uint8_t *)buffer_reserve(out, count * RECORDMAP_TAG_SIZE));
    out->size += count * RECORDMAP_TAG_SIZE;
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
    uint32_t end = 0;
    enum status status;
    int fd;

    snprintf(path, sizeof(path), "%s/tags", dir);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return status_of_errno(errno);
    buffer_append(&text, magic, sizeof(magic));
    buffer_append(&text, &tier->partitions->count, 4);
    status = flush(fd, &text, &crc);
    for (uint32_t i = 0; i < tier->partitions->count && status == STATUS_OK; i++) {
        struct partition *partition = &tier->partitions->partitions[i];

        partition_lock(partition);
        for (int db = 0; db < tier->partitions->db_count; db++) {
            if (partition->keyspaces[db] != NULL)
                save_keyspace(partition->keyspaces[db], &text);
        }
        for (struct keyspace *keyspace = partition->flushed; keyspace != NULL; keyspace = keyspace->next_flushed)
            save_keyspace(keyspace, &text);
        partition_unlock(partition);
        status = flush(fd, &text, &crc);
    }
    buffer_append(&text, &end, 4);
    buffer_append(&text, &crc, 8);
    if (status == STATUS_OK)
        status = file_write_all(disk_system(), fd, buffer_bytes(&text));
    if (status == STATUS_OK && fsync(fd) != 0)
        status = status_of_errno(errno);
    close(fd);
    buffer_release(&text);
    return status;
}

static int db_of(const struct partitions *partitions, uint32_t incarnation)
{
    for (int db = 0; db < partitions->db_count; db++) {
        if (partitions->incarnations[db] == incarnation)
            return db;
    }
    return -1;
}

static uint64_t number_at(const uint8_t *at, int size)
{
    uint64_t number = 0;

    memcpy(&number, at, (size_t)size);
    return number;
}

uint64_t tags_number(const uint8_t *tag)
{
    return number_at(tag, RECORDMAP_TAG_SIZE);
}

static bool are_tags(const uint8_t *tags, uint64_t count)
{
    uint64_t last = 0;

    for (uint64_t i = 0; i < count; i++) {
        uint64_t tag = tags_number(tags + i * RECORDMAP_TAG_SIZE);

        if (tag < last || tag >> RECORDMAP_TAG_BITS != 0)
            return false;
        last = tag;
    }
    return true;
}

static const char *check_sections(const uint8_t *data, size_t size, uint64_t partition_count)
{
    size_t at = HEAD_SIZE;
    uint64_t last = 0;

    while (size - at > END_SIZE) {
        uint64_t incarnation, index, count;

        if (size - at < SECTION_SIZE + END_SIZE)
            return "a section is cut short";
        incarnation = number_at(data + at, 4);
        index = number_at(data + at + 4, 4);
        count = number_at(data + at + 8, 8);
        if (incarnation == 0 || index >= partition_count || index < last)
            return "a section of no such partition";
        last = index;
        if (count > (size - at - SECTION_SIZE - END_SIZE) / RECORDMAP_TAG_SIZE)
            return "a section is longer than the file";
        if (!are_tags(data + at + SECTION_SIZE, count))
            return "tags are out of order";
        at += SECTION_SIZE + count * RECORDMAP_TAG_SIZE;
    }
    return size - at == END_SIZE && number_at(data + at, 4) == 0 ? NULL : "it does not end as it should";
}

enum status tags_walk(struct bytes file, uint32_t *partition_count, tags_section *section, void *context, const char **problem)
{
    const uint8_t *data = (const uint8_t *)file.data;
    const char *found = NULL;

    *partition_count = 0;
    if (file.size < HEAD_SIZE + END_SIZE || memcmp(data, magic, sizeof(magic)) != 0)
        found = "it does not begin as one";
    else if (number_at(data + file.size - 8, 8) != crc64(0, bytes_of(data, file.size - END_SIZE)))
        found = "its checksum is wrong";
    if (found == NULL) {
        *partition_count = (uint32_t)number_at(data + 8, 4);
        found = check_sections(data, file.size, *partition_count);
    }
    if (problem != NULL)
        *problem = found;
    if (found != NULL)
        return STATUS_CORRUPT;
    for (size_t at = HEAD_SIZE; section != NULL && file.size - at > END_SIZE;) {
        uint64_t count = number_at(data + at + 8, 8);

        if (!section(context, (uint32_t)number_at(data + at, 4), (uint32_t)number_at(data + at + 4, 4), data + at + SECTION_SIZE, count))
            return STATUS_INVALID;
        at += SECTION_SIZE + count * RECORDMAP_TAG_SIZE;
    }
    return STATUS_OK;
}

void tags_begin(struct buffer *file, uint32_t partition_count)
{
    buffer_append(file, magic, sizeof(magic));
    buffer_append(file, &partition_count, 4);
}

void tags_add(struct buffer *file, uint32_t incarnation, uint32_t partition, const uint8_t *tags, uint64_t count)
{
    buffer_append(file, &incarnation, 4);
    buffer_append(file, &partition, 4);
    buffer_append(file, &count, 8);
    buffer_append(file, tags, count * RECORDMAP_TAG_SIZE);
}

void tags_end(struct buffer *file)
{
    uint64_t crc = crc64(0, buffer_bytes(file));
    uint32_t end = 0;

    buffer_append(file, &end, 4);
    buffer_append(file, &crc, 8);
}

static bool load_section(void *context, uint32_t incarnation, uint32_t index, const uint8_t *tags, uint64_t count)
{
    struct partitions *partitions = context;
    struct partition *partition = &partitions->partitions[index];
    int db = db_of(partitions, incarnation);
    bool good;

    if (db < 0)
        return true;
    partition_lock(partition);
    good = recordmap_load(partition_keyspace(partition, db)->tier->map, tags, count);
    partition_unlock(partition);
    CHECK(good);                    /* tags_walk has checked it */
    return true;
}

enum status tags_load(struct tier *tier, struct partitions *partitions, const char *dir)
{
    struct buffer data = { 0 };
    char path[4096];
    uint32_t partition_count;
    enum status status;

    (void)tier;
    snprintf(path, sizeof(path), "%s/tags", dir);
    status = file_read_all(disk_system(), AT_FDCWD, path, SIZE_MAX, &data);
    if (status == STATUS_OK && (data.size < HEAD_SIZE || number_at((uint8_t *)data.data + 8, 4) != partitions->count))
        status = STATUS_CORRUPT;        /* or of a server with another number of partitions: a scan finds the same */
    if (status == STATUS_OK)
        status = tags_walk(buffer_bytes(&data), &partition_count, load_section, partitions, NULL);
    buffer_release(&data);
    return status;
}

static void report_progress(struct tier *tier, uint64_t count, int64_t *reported_us)
{
    int64_t now_us = clock_mono_us();
    char text[100];

    if (now_us - *reported_us < REPORT_US || tier->hooks.notice == NULL)
        return;
    *reported_us = now_us;
    snprintf(text, sizeof(text), "Reading the image's tags from its store: %llu keys so far", (unsigned long long)count);
    tier->hooks.notice(tier->hooks.context, text);
}

enum status tags_rebuild(struct tier *tier, struct partitions *partitions)
{
    int64_t reported_us = clock_mono_us();
    uint64_t count = 0;

    for (int db = 0; db < partitions->db_count; db++) {
        struct store_iterator *iterator = store_scan(tier->store, partitions->incarnations[db], 0);
        struct store_record record;
        enum status status;

        while ((status = store_next(iterator, &record)) == STATUS_OK) {
            struct partition *partition = &partitions->partitions[partition_index(partitions, record.hash)];

            if (++count % REPORT_EVERY == 0)
                report_progress(tier, count, &reported_us);
            partition_lock(partition);
            recordmap_add(partition_keyspace(partition, db)->tier->map, record.hash);
            partition_unlock(partition);
        }
        store_scan_close(iterator);
        if (status != STATUS_NOT_FOUND)
            return status;
    }
    return STATUS_OK;
}

enum status tags_counts(const char *dir, const uint32_t *incarnations, int count, uint64_t *counts)
{
    uint8_t head[SECTION_SIZE];
    char path[4096];
    off_t at = HEAD_SIZE;
    enum status status = STATUS_CORRUPT;
    int fd;

    snprintf(path, sizeof(path), "%s/tags", dir);
    memset(counts, 0, (size_t)count * sizeof(counts[0]));
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return status_of_errno(errno);
    if (pread(fd, head, HEAD_SIZE, 0) != HEAD_SIZE || memcmp(head, magic, sizeof(magic)) != 0)
        goto out;
    while (pread(fd, head, 4, at) == 4) {
        uint32_t incarnation = (uint32_t)number_at(head, 4);
        uint64_t section;

        if (incarnation == 0) {
            status = STATUS_OK;
            break;
        }
        if (pread(fd, head, SECTION_SIZE, at) != SECTION_SIZE)
            break;
        section = number_at(head + 8, 8);
        if (section > INT64_MAX / 2 / RECORDMAP_TAG_SIZE)
            break;
        for (int i = 0; i < count; i++)
            counts[i] += incarnations[i] == incarnation ? section : 0;
        at += SECTION_SIZE + (off_t)(section * RECORDMAP_TAG_SIZE);
        if (at < 0)
            break;
    }
out:
    close(fd);
    return status;
}
