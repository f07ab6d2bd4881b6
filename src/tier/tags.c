/* Reading: the format, and the maps from a file. tags_save.c writes. */
#include "tier/tags.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/crc64.h"
#include "base/file.h"
#include "base/mapped.h"
#include "base/mem.h"
#include "tier/tags_private.h"
#include "tier/tier_private.h"

enum { VERSION_1_TAG_SIZE = 5, PASSED_SIZE = 4 << 20, VERSION_AT = 5 };

static const char newer_version[] = "it was written by a newer Kelvin";

static uint64_t number_at(const void *at, size_t size)
{
    uint64_t number = 0;

    memcpy(&number, at, size);
    return number;
}

uint32_t tags_version(const void *head)
{
    for (uint32_t i = 0; i < 2; i++)
        if (memcmp(head, tags_magics[i], sizeof(tags_magics[i])) == 0)
            return i + 1;
    return 0;
}

/* "KTAGS", with a version that this program does not know. */
static bool is_newer(struct bytes file)
{
    return file.size >= TAGS_HEAD_SIZE + TAGS_END_SIZE && tags_version(file.data) == 0 && memcmp(file.data, tags_magics[0], VERSION_AT) == 0;
}

uint32_t tags_section_size(uint32_t version)
{
    return version == 1 ? 16 : TAGS_SECTION_SIZE_MAX;
}

bool tags_section_read(uint32_t version, const void *head, uint64_t left, struct tags_section *section)
{
    const uint8_t *at = head;

    *section = (struct tags_section){
        .incarnation = (uint32_t)number_at(at, 4),
        .partition = (uint32_t)number_at(at + 4, 4),
        .count = number_at(at + 8, 8),
        .version = version,
    };
    if (version == 1) {
        if (section->count > left / VERSION_1_TAG_SIZE)
            return false;
        section->size = section->count * VERSION_1_TAG_SIZE;
    } else {
        section->size = number_at(at + 16, 8);
        section->place_size = (uint32_t)number_at(at + 24, 4);
        if (section->count > section->size || section->place_size > (RECORDMAP_PLACE_BITS + 7) / 8)
            return false;
    }
    return section->size <= left;
}

void tags_reader_init(struct tags_reader *reader, const struct tags_section *section)
{
    *reader = (struct tags_reader){ .section = section, .tag = UINT64_MAX };
}

static bool read_version_1(struct tags_reader *reader, struct recordmap_record *record)
{
    uint64_t tag = number_at(reader->section->records.data + reader->at, VERSION_1_TAG_SIZE);

    if (tag >> RECORDMAP_TAG_BITS != 0 || (reader->index > 0 && tag < reader->tag))
        return false;
    *record = (struct recordmap_record){ .tag = tag, .is_twin = reader->index > 0 && tag == reader->tag };
    reader->at += VERSION_1_TAG_SIZE;
    return true;
}

/* Seven bits a byte, the lowest first; the top bit says that more follow. */
static bool read_number(struct tags_reader *reader, uint64_t *number)
{
    struct bytes records = reader->section->records;

    *number = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        uint8_t byte;

        if (reader->at == records.size)
            return false;
        byte = (uint8_t)records.data[reader->at++];
        *number |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

/* The key of a twin. One that is not known, and all before it with the tag, have place 0. */
static bool read_key(struct tags_reader *reader, struct recordmap_record *record)
{
    struct bytes records = reader->section->records;
    uint64_t size;

    if (!read_number(reader, &size))
        return false;
    if (size == TAGS_KEY_UNKNOWN)
        return reader->is_unknown && record->place == 0;
    reader->is_unknown = false;
    if (--size > records.size - reader->at)
        return false;
    record->key = bytes_of(records.data + reader->at, size);
    reader->at += size;
    return true;
}

static bool read_version_2(struct tags_reader *reader, struct recordmap_record *record)
{
    struct bytes records = reader->section->records;
    uint32_t place_size = reader->section->place_size;
    uint64_t gap;

    if (!read_number(reader, &gap) || records.size - reader->at < place_size)
        return false;
    *record = (struct recordmap_record){
        .tag = reader->tag + gap,
        .place = number_at(records.data + reader->at, place_size),
        .is_twin = gap == 0,
    };
    reader->at += place_size;
    if (record->tag >> RECORDMAP_TAG_BITS != 0 || tagrun_bits_of(record->place) > RECORDMAP_PLACE_BITS)
        return false;
    if (record->is_twin)
        return read_key(reader, record);
    reader->is_unknown = record->place == 0;
    return true;
}

bool tags_read(struct tags_reader *reader, struct recordmap_record *record)
{
    if (reader->index == reader->section->count)
        return false;
    if (!(reader->section->version == 1 ? read_version_1(reader, record) : read_version_2(reader, record)))
        return false;
    reader->tag = record->tag;
    reader->index++;
    return true;
}

static const char *check_records(const struct tags_section *section)
{
    struct tags_reader reader;
    struct recordmap_record record;

    tags_reader_init(&reader, section);
    while (tags_read(&reader, &record))
        ;
    if (reader.index < section->count)
        return "tags are out of order, or a record is not one";
    return reader.at == section->size ? NULL : "a section is longer than its records";
}

/* The section at `*at`, which moves after it; NULL, or what is wrong. The file's end begins at `end`. */
static const char *next_section(struct bytes file, size_t end, uint32_t version, size_t *at, struct tags_section *section)
{
    uint32_t head_size = tags_section_size(version);

    if (end - *at < head_size)
        return "a section is cut short";
    if (!tags_section_read(version, file.data + *at, end - *at - head_size, section))
        return "a section is longer than the file";
    section->records = bytes_of(file.data + *at + head_size, section->size);
    *at += head_size + section->size;
    return NULL;
}

/* Bytes before `at` were read; those from *from on have not been passed yet. */
static void pass(const struct tags_file *file, size_t *from, size_t at)
{
    if (file->passed == NULL || at - *from < PASSED_SIZE)
        return;
    file->passed(bytes_of(file->bytes.data + *from, at - *from));
    *from = at;
}

static const char *check_sections(const struct tags_file *file, uint32_t version, uint64_t partition_count)
{
    size_t at = TAGS_HEAD_SIZE, end = file->bytes.size - TAGS_END_SIZE, from = 0;
    struct tags_section section, last = { 0 };
    const char *problem;

    while (at < end) {
        problem = next_section(file->bytes, end, version, &at, &section);
        if (problem != NULL)
            return problem;
        if (section.incarnation == 0 || section.partition >= partition_count || section.partition < last.partition)
            return "a section of no such partition";
        if (version > 1 && section.partition == last.partition && section.incarnation <= last.incarnation)
            return "sections are out of order";
        problem = check_records(&section);
        if (problem != NULL)
            return problem;
        last = section;
        pass(file, &from, at);
    }
    return number_at(file->bytes.data + end, 4) == 0 ? NULL : "it does not end as it should";
}

static uint64_t checksum(const struct tags_file *file)
{
    size_t size = file->bytes.size - TAGS_END_SIZE, from = 0;
    uint64_t crc = 0;

    for (size_t at = 0; at < size; pass(file, &from, at)) {
        size_t piece = size - at < PASSED_SIZE ? size - at : PASSED_SIZE;

        crc = crc64(crc, bytes_of(file->bytes.data + at, piece));
        at += piece;
    }
    return crc;
}

static const char *check_file(const struct tags_file *file, uint32_t version, uint32_t *partition_count)
{
    struct bytes bytes = file->bytes;

    if (is_newer(bytes) && number_at(bytes.data + bytes.size - 8, 8) == checksum(file))
        return newer_version;
    if (version == 0)
        return "it does not begin as one";
    if (number_at(bytes.data + bytes.size - 8, 8) != checksum(file))
        return "its checksum is wrong";
    *partition_count = (uint32_t)number_at(bytes.data + 8, 4);
    return check_sections(file, version, *partition_count);
}

enum status tags_walk_file(const struct tags_file *file, uint32_t *partition_count, tags_found *found, void *context, const char **problem)
{
    struct bytes bytes = file->bytes;
    uint32_t version = bytes.size < TAGS_HEAD_SIZE + TAGS_END_SIZE ? 0 : tags_version(bytes.data);
    struct tags_section section;
    const char *wrong;
    size_t from = 0;

    *partition_count = 0;
    wrong = check_file(file, version, partition_count);
    if (problem != NULL)
        *problem = wrong;
    if (wrong != NULL)
        return wrong == newer_version ? STATUS_VERSION : STATUS_CORRUPT;
    for (size_t at = TAGS_HEAD_SIZE; found != NULL && at < bytes.size - TAGS_END_SIZE; pass(file, &from, at)) {
        wrong = next_section(bytes, bytes.size - TAGS_END_SIZE, version, &at, &section);
        CHECK(wrong == NULL);
        if (!found(context, &section))
            return STATUS_INVALID;
    }
    if (file->passed != NULL)
        file->passed(bytes);            /* the last part, too */
    return STATUS_OK;
}

enum status tags_walk(struct bytes file, uint32_t *partition_count, tags_found *found, void *context, const char **problem)
{
    return tags_walk_file(&(struct tags_file){ file, NULL }, partition_count, found, context, problem);
}

static int db_of(const struct partitions *partitions, uint32_t incarnation)
{
    for (int db = 0; db < partitions->db_count; db++) {
        if (partitions->incarnations[db] == incarnation)
            return db;
    }
    return -1;
}

/* A second section of version 1 for the same keyspace. Kelvin never wrote one. */
static void add_section(struct recordmap *map, const struct tags_section *section)
{
    struct tags_reader reader;
    struct recordmap_record record;

    tags_reader_init(&reader, section);
    while (tags_read(&reader, &record))
        recordmap_add(map, record.tag, bytes_of(NULL, 0), 0);
}

static void fill_map(struct recordmap *map, const struct tags_section *section)
{
    struct tags_reader reader;
    struct recordmap_record record;
    struct recordmap_fill fill;

    recordmap_fill_begin(&fill, map, section->count);
    tags_reader_init(&reader, section);
    while (tags_read(&reader, &record))
        recordmap_fill(&fill, &record);
    recordmap_fill_end(&fill);
}

static bool load_section(void *context, const struct tags_section *section)
{
    struct partitions *partitions = context;
    struct partition *partition = &partitions->partitions[section->partition];
    int db = db_of(partitions, section->incarnation);
    struct recordmap *map;

    if (db < 0)
        return true;
    partition_lock(partition);
    map = partition_keyspace(partition, db)->tier->map;
    if (recordmap_count(map) == 0)
        fill_map(map, section);
    else
        add_section(map, section);
    partition_unlock(partition);
    return true;
}

enum status tags_load(struct tier *tier, struct partitions *partitions, const char *dir)
{
    struct message message;
    struct mapped mapped;
    char path[4096];
    uint32_t partition_count;
    enum status status = STATUS_CORRUPT;

    (void)tier;
    snprintf(path, sizeof(path), "%s/tags", dir);
    if (!mapped_open(path, &mapped, &message))
        return STATUS_NOT_FOUND;
    /* Of a server with another number of partitions a scan finds the same. With many keys the file is as large as the maps: it must not be
     * in memory beside them. */
    if (mapped.bytes.size >= TAGS_HEAD_SIZE && number_at(mapped.bytes.data + 8, 4) == partitions->count)
        status = tags_walk_file(&(struct tags_file){ mapped.bytes, mapped_forget }, &partition_count, load_section, partitions, NULL);
    mapped_close(&mapped);
    return status;
}

enum status tags_counts(const char *dir, const uint32_t *incarnations, int count, uint64_t *counts)
{
    uint8_t head[TAGS_SECTION_SIZE_MAX];
    char path[4096];
    off_t at = TAGS_HEAD_SIZE;
    enum status status = STATUS_CORRUPT;
    struct tags_section section;
    uint32_t version = 0, size;
    int fd;

    snprintf(path, sizeof(path), "%s/tags", dir);
    memset(counts, 0, (size_t)count * sizeof(counts[0]));
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return status_of_errno(errno);
    if (pread(fd, head, TAGS_HEAD_SIZE, 0) == TAGS_HEAD_SIZE)
        version = tags_version(head);
    size = tags_section_size(version);
    while (version != 0 && pread(fd, head, 4, at) == 4) {
        if (number_at(head, 4) == 0) {
            status = STATUS_OK;
            break;
        }
        if (pread(fd, head, size, at) != (ssize_t)size || !tags_section_read(version, head, INT64_MAX / 2 - (uint64_t)at, &section))
            break;
        for (int i = 0; i < count; i++)
            counts[i] += incarnations[i] == section.incarnation ? section.count : 0;
        at += (off_t)(size + section.size);
        if (at > INT64_MAX / 4)
            break;
    }
    close(fd);
    return status;
}
