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
#include "tier/keyspaces.h"
#include "tier/tags_private.h"
#include "tier/tier_private.h"

enum { PASSED_SIZE = 4 << 20, VERSION_AT = 5 };

static const char newer_version[] = "it was written by a newer Kelvin";

static uint64_t number_at(const void *at, size_t size)
{
    uint64_t number = 0;

    memcpy(&number, at, size);
    return number;
}

bool tags_is_head(const void *head)
{
    return memcmp(head, tags_magic, sizeof(tags_magic)) == 0 || memcmp(head, tags_magic_by_slot, sizeof(tags_magic_by_slot)) == 0;
}

static bool is_by_slot(struct bytes file)
{
    return memcmp(file.data, tags_magic_by_slot, sizeof(tags_magic_by_slot)) == 0;
}

/* "KTAGS", with a version that this program does not know. */
static bool is_newer(struct bytes file)
{
    return file.size >= TAGS_HEAD_SIZE + TAGS_END_SIZE && !tags_is_head(file.data) && memcmp(file.data, tags_magic, VERSION_AT) == 0;
}

bool tags_section_read(const void *head, uint64_t left, struct tags_section *section)
{
    const uint8_t *at = head;

    *section = (struct tags_section){
        .incarnation = (uint32_t)number_at(at, 4),
        .partition = (uint32_t)number_at(at + 4, 4),
        .count = number_at(at + 8, 8),
        .size = number_at(at + 16, 8),
        .place_size = (uint32_t)number_at(at + 24, 4),
    };
    return section->count <= section->size && section->place_size <= (RECORDMAP_PLACE_BITS + 7) / 8 && section->size <= left;
}

void tags_reader_init(struct tags_reader *reader, const struct tags_section *section)
{
    *reader = (struct tags_reader){ .section = section, .tag = UINT64_MAX };
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

/* Reads the key of a twin. */
static bool read_key(struct tags_reader *reader, struct recordmap_record *record)
{
    struct bytes records = reader->section->records;
    uint64_t size;

    if (!read_number(reader, &size) || size == 0 || --size > records.size - reader->at)
        return false;
    record->key = bytes_of(records.data + reader->at, size);
    reader->at += size;
    return true;
}

static bool read_next(struct tags_reader *reader, struct recordmap_record *record)
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
    return !record->is_twin || read_key(reader, record);
}

bool tags_read(struct tags_reader *reader, struct recordmap_record *record)
{
    if (reader->index == reader->section->count || !read_next(reader, record))
        return false;
    reader->tag = record->tag;
    reader->index++;
    return true;
}

/* Checks the records, and adds them to a map (`fill` NULL: to none). */
static const char *read_records(const struct tags_section *section, struct recordmap_fill *fill)
{
    struct tags_reader reader;
    struct recordmap_record record;
    uint64_t by_slot = 0;

    tags_reader_init(&reader, section);
    while (tags_read(&reader, &record)) {
        if (fill != NULL)
            recordmap_fill(fill, &record);
    }
    if (reader.index < section->count)
        return "tags are out of order, or a record is not one";
    for (size_t at = 0; at < section->slots.size; at += 4)
        by_slot += number_at(section->slots.data + at, 4);
    if (section->slots.size > 0 && by_slot != section->count)
        return "the counts by slot are not those of the records";
    return reader.at == section->records.size ? NULL : "a section is longer than its records";
}

/* The section at `*at`, which moves after it; NULL, or what is wrong. The file's end begins at `end`. */
static const char *next_section(struct bytes file, size_t end, size_t *at, struct tags_section *section)
{
    size_t slots = tags_slots_size(is_by_slot(file), (uint32_t)number_at(file.data + 8, 4));

    if (end - *at < TAGS_SECTION_SIZE)
        return "a section is cut short";
    if (!tags_section_read(file.data + *at, end - *at - TAGS_SECTION_SIZE, section))
        return "a section is longer than the file";
    if (section->size < slots)
        return "a section is too short for its counts by slot";
    section->slots = bytes_of(file.data + *at + TAGS_SECTION_SIZE, slots);
    section->records = bytes_of(section->slots.data + slots, section->size - slots);
    *at += TAGS_SECTION_SIZE + section->size;
    return NULL;
}

/* Bytes before `at` were read; those from *from on have not been passed yet. */
static void pass_read(const struct tags_file *file, size_t *from, size_t at)
{
    if (file->passed == NULL || at - *from < PASSED_SIZE)
        return;
    file->passed(bytes_of(file->bytes.data + *from, at - *from));
    *from = at;
}

/* Sets `*problem` to what is wrong, or NULL. */
typedef void section_reader(void *context, const struct tags_section *section, const char **problem);

static void check_section(void *context, const struct tags_section *section, const char **problem)
{
    (void)context;
    *problem = read_records(section, NULL);
}

static const char *read_sections(const struct tags_file *file, uint64_t partition_count, section_reader *read, void *context)
{
    size_t at = TAGS_HEAD_SIZE, end = file->bytes.size - TAGS_END_SIZE, from = 0;
    struct tags_section section, last = { 0 };
    const char *problem;

    while (at < end) {
        problem = next_section(file->bytes, end, &at, &section);
        if (problem != NULL)
            return problem;
        if (section.incarnation == 0 || section.partition >= partition_count || section.partition < last.partition)
            return "a section of no such partition";
        if (section.partition == last.partition && section.incarnation <= last.incarnation)
            return "sections are out of order";
        read(context, &section, &problem);
        if (problem != NULL)
            return problem;
        last = section;
        pass_read(file, &from, at);
    }
    return number_at(file->bytes.data + end, 4) == 0 ? NULL : "it does not end as it should";
}

static uint64_t checksum(const struct tags_file *file)
{
    size_t size = file->bytes.size - TAGS_END_SIZE, from = 0;
    uint64_t crc = 0;

    for (size_t at = 0; at < size; pass_read(file, &from, at)) {
        size_t piece = size - at < PASSED_SIZE ? size - at : PASSED_SIZE;

        crc = crc64(crc, bytes_of(file->bytes.data + at, piece));
        at += piece;
    }
    return crc;
}

/* The head and the checksum, then each section. */
static const char *read_file(const struct tags_file *file, uint32_t *partition_count, section_reader *read, void *context)
{
    struct bytes bytes = file->bytes;

    if (is_newer(bytes) && number_at(bytes.data + bytes.size - 8, 8) == checksum(file))
        return newer_version;
    if (bytes.size < TAGS_HEAD_SIZE + TAGS_END_SIZE || !tags_is_head(bytes.data))
        return "it does not begin as one";
    if (number_at(bytes.data + bytes.size - 8, 8) != checksum(file))
        return "its checksum is wrong";
    *partition_count = (uint32_t)number_at(bytes.data + 8, 4);
    if (*partition_count == 0 || *partition_count > SLOT_COUNT)
        return "it has no such number of partitions";
    return read_sections(file, *partition_count, read, context);
}

static enum status status_of(const char *problem)
{
    if (problem == NULL)
        return STATUS_OK;
    return problem == newer_version ? STATUS_VERSION : STATUS_CORRUPT;
}

enum status tags_walk_file(const struct tags_file *file, uint32_t *partition_count, tags_found *found, void *context, const char **problem)
{
    struct bytes bytes = file->bytes;
    struct tags_section section;
    const char *wrong;
    size_t from = 0;

    *partition_count = 0;
    wrong = read_file(file, partition_count, check_section, NULL);
    if (problem != NULL)
        *problem = wrong;
    if (wrong != NULL)
        return status_of(wrong);
    for (size_t at = TAGS_HEAD_SIZE; found != NULL && at < bytes.size - TAGS_END_SIZE; pass_read(file, &from, at)) {
        wrong = next_section(bytes, bytes.size - TAGS_END_SIZE, &at, &section);
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

static void load_section(void *context, const struct tags_section *section, const char **problem)
{
    struct partitions *partitions = context;
    struct partition *partition = &partitions->partitions[section->partition];
    int db = db_of(partitions, section->incarnation);
    struct recordmap_fill fill;
    struct keyspace *keyspace;

    if (db < 0) {
        *problem = read_records(section, NULL);
        return;
    }
    partition_lock(partition);
    keyspace = partition_keyspace(partition, db);
    recordmap_fill_begin(&fill, keyspace->tier->map, section->count);
    *problem = read_records(section, &fill);
    recordmap_fill_end(&fill);
    for (size_t i = 0; i < section->slots.size / 4; i++)
        keyspace->slots[i].records = (uint32_t)number_at(section->slots.data + 4 * i, 4);
    partition_unlock(partition);
}

/* Empties the maps again, after something turned out to be wrong. */
static void unload(struct partitions *partitions)
{
    size_t slot_count = tags_slots_size(partitions->seed.by_slot, partitions->count) / sizeof(uint32_t);

    for (uint32_t i = 0; i < partitions->count; i++) {
        struct partition *partition = &partitions->partitions[i];

        partition_lock(partition);
        for (int db = 0; db < partitions->db_count; db++) {
            struct keyspace *keyspace = partition_keyspace_if(partition, db);

            if (keyspace == NULL)
                continue;
            keyspace_assert_locked(keyspace);
            keyspaces_empty_map(keyspace);
            for (size_t slot = 0; slot < slot_count; slot++)
                keyspace->slots[slot].records = 0;
        }
        partition_unlock(partition);
    }
}

enum status tags_load(struct partitions *partitions, const char *dir)
{
    struct message message;
    struct mapped mapped;
    char path[4096];
    uint32_t partition_count;
    enum status status = STATUS_CORRUPT;

    snprintf(path, sizeof(path), "%s/tags", dir);
    if (!mapped_open(path, &mapped, &message))
        return STATUS_NOT_FOUND;
    /* For the file of a server with another number of partitions, or without counts by slot, a scan finds the same. With many keys the file is as large as the maps: it
     * must not be in memory beside them. */
    if (mapped.bytes.size >= TAGS_HEAD_SIZE && number_at(mapped.bytes.data + 8, 4) == partitions->count &&
        is_by_slot(mapped.bytes) == partitions->seed.by_slot)
        status = status_of(read_file(&(struct tags_file){ mapped.bytes, mapped_forget }, &partition_count, load_section, partitions));
    if (status != STATUS_OK)
        unload(partitions);
    mapped_close(&mapped);
    return status;
}
