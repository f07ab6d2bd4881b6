/* Reading: the file as a whole, and a map from a section. tags_load.c fills a server's maps; tags_save.c writes. */
#include "tier/tags.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/crc64.h"
#include "base/file.h"
#include "base/mem.h"
#include "tier/recordmap_changes.h"
#include "tier/recordmap_image.h"
#include "tier/tags_private.h"

enum { PASSED_SIZE = 4 << 20, VERSION_AT = 5 };

static const char newer_version[] = "it was written by a newer Kelvin";

static uint64_t number_at(const void *at, size_t size)
{
    uint64_t number = 0;

    memcpy(&number, at, size);
    return number;
}

/* The contents of the file's head. */
struct facts {
    uint32_t partition_count;
    bool by_slot;
    size_t begin, end;              /* of the sections */
    struct bytes weights;
    bool has_weights;
};

static const char *read_head(struct bytes file, struct facts *facts)
{
    struct tags_head head;

    *facts = (struct facts){ .end = file.size - TAGS_END_SIZE };
    if (file.size < sizeof(head) + TAGS_END_SIZE)
        return "it is too short";
    memcpy(&head, file.data, sizeof(head));
    if (head.layout != TAGS_LAYOUT)
        return "it was written by a machine of another kind";
    facts->weights = bytes_of(file.data + sizeof(head), head.weight_count * sizeof(struct tags_weight));
    if (facts->weights.size > facts->end - sizeof(head))
        return "its list of segments is cut short";
    facts->partition_count = head.partition_count;
    facts->by_slot = head.flags & TAGS_BY_SLOT;
    facts->has_weights = head.flags & TAGS_HAS_WEIGHTS;
    facts->begin = sizeof(head) + facts->weights.size;
    return head.partition_count == 0 || head.partition_count > SLOT_COUNT ? "it has no such number of partitions" : NULL;
}

/* --- sections --- */

/* Reads a section. `left`: bytes after its head. */
static const char *read_section(const char *at, uint64_t left, size_t slots_size, struct tags_section *section)
{
    struct tags_section_head head;

    memcpy(&head, at, sizeof(head));
    *section = (struct tags_section){ .incarnation = head.incarnation, .partition = head.partition, .count = head.count,
        .base = head.base, .base_size = head.base_size, .base_sum = head.base_sum };
    at += sizeof(head);
    if (head.base > TAGS_MAP_NUMBER_MAX)
        return "there is no map file of such a number";
    if (head.size > left || head.size % 8 != 0)
        return "a section is longer than the file";
    if (head.size < tags_padded(slots_size))
        return "a section is too short for its counts by slot";
    section->slots = bytes_of(at, slots_size);
    section->body = bytes_of(at + tags_padded(slots_size), head.size - tags_padded(slots_size));
    return NULL;
}

/* The section at `*at`, which moves after it; NULL, or what is wrong. */
static const char *next_section(const struct tags_file *tags, const struct facts *facts, size_t *at, struct tags_section *section)
{
    struct bytes file = tags->bytes;
    size_t slots = tags_slots_size(facts->by_slot, facts->partition_count);
    size_t head = sizeof(struct tags_section_head);
    const char *problem;

    if (facts->end - *at < head)
        return "a section is cut short";
    problem = read_section(file.data + *at, facts->end - *at - head, slots, section);
    section->dir = tags->dir;
    if (problem == NULL)
        *at = (size_t)(section->body.data + section->body.size - file.data);
    return problem;
}

static const char *check_slots(const struct tags_section *section)
{
    uint64_t by_slot = 0;

    for (size_t at = 0; at < section->slots.size; at += 4)
        by_slot += number_at(section->slots.data + at, 4);
    return section->slots.size > 0 && by_slot != section->count ? "the counts by slot are not those of the records" : NULL;
}

/* Checks a map file against what the section says of it. NULL, or what is wrong. */
static const char *check_base(const struct tags_section *section, struct bytes file, struct bytes *image)
{
    struct tags_map_head head;
    uint64_t sum;

    if (file.size != section->base_size || file.size < sizeof(head) + sizeof(sum))
        return "a map file does not have the size it had";
    sum = number_at(file.data + file.size - sizeof(sum), sizeof(sum));
    if (sum != section->base_sum || sum != crc64(0, bytes_of(file.data, file.size - sizeof(sum))))
        return "the checksum of a map file is wrong";
    memcpy(&head, file.data, sizeof(head));
    if (memcmp(head.magic, tags_map_magic, sizeof(head.magic)) != 0 || head.layout != TAGS_LAYOUT || head.number != section->base ||
        head.incarnation != section->incarnation || head.partition != section->partition || head.size != file.size - sizeof(head) - sizeof(sum))
        return "a map file is another one's";
    *image = bytes_of(file.data + sizeof(head), head.size);
    return NULL;
}

static const char *load_base(const struct tags_section *section, struct recordmap *map)
{
    struct buffer file = { 0 };
    struct bytes image = { "", 0 };
    const char *problem;
    char path[4096];

    if (section->dir == NULL)
        return "a map file is missing";
    snprintf(path, sizeof(path), TAGS_MAP_NAME, section->dir, (unsigned long long)section->base);
    /* Read, not mapped into memory: a disk that can't read it is an error then, and not a signal that ends the process. */
    if (file_read_all(disk_system(), AT_FDCWD, path, section->base_size, &file) != STATUS_OK)
        problem = "a map file is missing or can't be read";
    else
        problem = check_base(section, buffer_bytes(&file), &image);
    if (problem == NULL)
        problem = recordmap_image_load(image, map);
    buffer_release(&file);
    return problem;
}

static const char *load_with_base(const struct tags_section *section, struct recordmap *map, bool watches)
{
    const char *problem = load_base(section, map);

    if (problem == NULL)
        problem = recordmap_changes_load(section->body, map, section->count, watches);
    if (problem == NULL && watches)
        *recordmap_base(map) = (struct recordmap_base){ section->base, section->base_size, section->base_sum, section->body.size };
    return problem;
}

const char *tags_load_map(const struct tags_section *section, struct recordmap *map, bool watches)
{
    const char *problem = section->base == 0 ? recordmap_image_load(section->body, map) : load_with_base(section, map, watches);

    if (problem == NULL && recordmap_count(map) != section->count)
        problem = "a section has more or fewer records than it says";
    return problem != NULL ? problem : check_slots(section);
}

struct recordmap *tags_section_map(const struct tags_section *section)
{
    struct recordmap *map = recordmap_create(0, 0);

    if (tags_load_map(section, map, false) == NULL)
        return map;
    recordmap_destroy(map);
    return NULL;
}

/* --- the file --- */

/* Bytes before `at` were read; those from *from on have not been passed yet. */
static void pass_read(const struct tags_file *file, size_t *from, size_t at)
{
    if (file->passed == NULL || at - *from < PASSED_SIZE)
        return;
    file->passed(bytes_of(file->bytes.data + *from, at - *from));
    *from = at;
}

static void check_section(void *context, const struct tags_section *section, const char **problem)
{
    struct recordmap *map = recordmap_create(0, 0);

    (void)context;
    *problem = tags_load_map(section, map, false);
    recordmap_destroy(map);
}

const char *tags_check_section(const struct tags_section *section)
{
    const char *problem;

    check_section(NULL, section, &problem);
    return problem;
}

static const char *read_sections(const struct tags_file *file, const struct facts *facts, tags_section_reader *read, void *context)
{
    size_t at = facts->begin, from = 0;
    struct tags_section section, last = { 0 };
    const char *problem;

    while (at < facts->end) {
        problem = next_section(file, facts, &at, &section);
        if (problem != NULL)
            return problem;
        if (section.incarnation == 0 || section.partition >= facts->partition_count || section.partition < last.partition)
            return "a section of no such partition";
        if (section.partition == last.partition && section.incarnation <= last.incarnation)
            return "sections are out of order";
        if (read != NULL)
            read(context, &section, &problem);
        if (problem != NULL)
            return problem;
        last = section;
        pass_read(file, &from, at);
    }
    return number_at(file->bytes.data + facts->end, 4) == 0 ? NULL : "it does not end as it should";
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

static bool is_of_known_version(struct bytes file)
{
    return memcmp(file.data, tags_magic, sizeof(tags_magic)) == 0 || memcmp(file.data, tags_magic_before, sizeof(tags_magic_before)) == 0;
}

/* The head and the checksum, then each section (`read` NULL: only where it is). */
static const char *read_file(const struct tags_file *file, struct facts *facts, tags_section_reader *read, void *context)
{
    struct bytes bytes = file->bytes;
    bool is_good;
    const char *problem;

    if (bytes.size < TAGS_HEAD_MIN + TAGS_END_SIZE)
        return "it is too short";
    if (memcmp(bytes.data, tags_magic, VERSION_AT) != 0)
        return "it does not begin as one";
    is_good = number_at(bytes.data + bytes.size - 8, 8) == checksum(file);
    if (!is_of_known_version(bytes))
        return is_good ? newer_version : "it does not begin as one";
    if (!is_good)
        return "its checksum is wrong";
    problem = read_head(bytes, facts);
    return problem != NULL ? problem : read_sections(file, facts, read, context);
}

static enum status status_of(const char *problem)
{
    if (problem == NULL)
        return STATUS_OK;
    return problem == newer_version ? STATUS_VERSION : STATUS_CORRUPT;
}

enum status tags_read(const struct tags_file *file, tags_section_reader *read, void *context)
{
    struct facts facts;

    return status_of(read_file(file, &facts, read, context));
}

static enum status walk_file(const struct tags_file *file, tags_section_reader *read, uint32_t *partition_count, tags_found *found, void *context,
    const char **problem)
{
    struct tags_section section;
    struct facts facts = { 0 };
    const char *wrong = read_file(file, &facts, read, NULL);
    size_t from = 0;

    *partition_count = facts.partition_count;
    if (problem != NULL)
        *problem = wrong;
    if (wrong != NULL)
        return status_of(wrong);
    for (size_t at = facts.begin; found != NULL && at < facts.end; pass_read(file, &from, at)) {
        wrong = next_section(file, &facts, &at, &section);
        CHECK(wrong == NULL);
        if (!found(context, &section))
            return STATUS_INVALID;
    }
    if (file->passed != NULL)
        file->passed(file->bytes);      /* the last part, too */
    return STATUS_OK;
}

enum status tags_walk_file(const struct tags_file *file, uint32_t *partition_count, tags_found *found, void *context, const char **problem)
{
    return walk_file(file, check_section, partition_count, found, context, problem);
}

enum status tags_walk(struct bytes file, uint32_t *partition_count, tags_found *found, void *context, const char **problem)
{
    return tags_walk_file(&(struct tags_file){ .bytes = file }, partition_count, found, context, problem);
}

enum status tags_list_file(const struct tags_file *file, uint32_t *partition_count, tags_found *found, void *context, const char **problem)
{
    return walk_file(file, NULL, partition_count, found, context, problem);
}

void tags_weights_of(struct bytes file, struct tags_weights *weights)
{
    struct facts facts;

    *weights = (struct tags_weights){ 0 };
    CHECK(read_head(file, &facts) == NULL);
    if (!facts.has_weights)
        return;
    weights->is_known = true;
    weights->count = (uint32_t)(facts.weights.size / sizeof(weights->list[0]));
    weights->list = mem_alloc(facts.weights.size + 1);
    memcpy(weights->list, facts.weights.data, facts.weights.size);
}

/* For the file of a server with another number of partitions, or without counts by slot, the store says the same. */
bool tags_is_of(const struct partitions *partitions, struct bytes file)
{
    struct facts facts;

    if (file.size < TAGS_HEAD_MIN + TAGS_END_SIZE)
        return false;
    if (!is_of_known_version(file))
        return true;                /* a newer one, perhaps */
    return read_head(file, &facts) == NULL && facts.partition_count == partitions->count && facts.by_slot == partitions->seed.by_slot;
}
