/* Sections of version 2: records one by one, coded by gaps. They are only read. */
#include <string.h>

#include "base/varint.h"
#include "tier/tags_private.h"

enum { NUMBER_BITS = 35 };          /* a gap between two tags, or a size: five bytes */

/* Reads the records in the order of recordmap_walk. Keys point into the file. */
struct old_reader {
    const struct tags_section *section;
    uint64_t at;                /* offset in the records */
    uint64_t index;             /* of the next record */
    uint64_t tag;               /* of the last one; all bits set before the first */
};

static uint64_t number_at(const void *at, size_t size)
{
    uint64_t number = 0;

    memcpy(&number, at, size);
    return number;
}

bool tags_old_section(const char *at, uint64_t left, size_t slots_size, struct tags_section *section)
{
    uint64_t size = number_at(at + 16, 8);

    *section = (struct tags_section){
        .incarnation = (uint32_t)number_at(at, 4),
        .partition = (uint32_t)number_at(at + 4, 4),
        .count = number_at(at + 8, 8),
        .place_size = (uint32_t)number_at(at + 24, 4),
        .version = TAGS_VERSION_OLD,
    };
    at += TAGS_OLD_SECTION_SIZE;
    if (section->count > size || section->place_size > (RECORDMAP_PLACE_BITS + 7) / 8 || size > left || size < slots_size)
        return false;
    section->slots = bytes_of(at, slots_size);
    section->body = bytes_of(at + slots_size, size - slots_size);
    return true;
}

static bool read_number(struct old_reader *reader, uint64_t *number)
{
    struct bytes records = reader->section->body;
    const char *at = records.data + reader->at;
    bool is_good = varint_take(&at, records.data + records.size, number) && *number < 1ull << NUMBER_BITS;

    reader->at = (size_t)(at - records.data);
    return is_good;
}

/* Reads the key of a twin. */
static bool read_key(struct old_reader *reader, struct recordmap_record *record)
{
    struct bytes records = reader->section->body;
    uint64_t size;

    if (!read_number(reader, &size) || size == 0 || --size > records.size - reader->at)
        return false;
    record->key = bytes_of(records.data + reader->at, size);
    reader->at += size;
    return true;
}

static bool read_record(struct old_reader *reader, struct recordmap_record *record)
{
    struct bytes records = reader->section->body;
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

/* False: that was all, or it is damaged. */
static bool read_next(struct old_reader *reader, struct recordmap_record *record)
{
    if (reader->index == reader->section->count || !read_record(reader, record))
        return false;
    reader->tag = record->tag;
    reader->index++;
    return true;
}

const char *tags_old_load(const struct tags_section *section, struct recordmap *map)
{
    struct old_reader reader = { .section = section, .tag = UINT64_MAX };
    struct recordmap_record record;
    struct recordmap_fill fill;

    if (map != NULL)
        recordmap_fill_begin(&fill, map, section->count);
    while (read_next(&reader, &record)) {
        if (map != NULL)
            recordmap_fill(&fill, &record);
    }
    if (map != NULL)
        recordmap_fill_end(&fill);
    if (reader.index < section->count)
        return "tags are out of order, or a record is not one";
    return reader.at == section->body.size ? NULL : "a section is longer than its records";
}
