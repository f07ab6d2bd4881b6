#include "support/image_records.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/file.h"
#include "base/mem.h"
#include "keyspace/page_name.h"
#include "tier/tags.h"

static int by_tag(const void *a, const void *b)
{
    const struct image_tag *left = a, *right = b;

    if (left->incarnation != right->incarnation)
        return left->incarnation < right->incarnation ? -1 : 1;
    return left->tag < right->tag ? -1 : left->tag > right->tag;
}

static bool add_section(void *context, const struct tags_section *section)
{
    struct image_records *records = context;
    struct recordmap *map = tags_section_map(section);
    struct recordmap_record record;
    struct recordmap_walk walk;

    records->tag_shifts[incarnation_is_of_pages(section->incarnation)] = recordmap_tag_shift(map);
    recordmap_walk_begin(&walk, map, 0);
    while (recordmap_walk_next(&walk, &record)) {
        if (records->count == records->capacity) {
            records->capacity = records->capacity * 2 + 64;
            records->tags = mem_realloc(records->tags, records->capacity * sizeof(struct image_tag));
        }
        records->tags[records->count++] = (struct image_tag){ section->incarnation, record.tag, record.place };
    }
    recordmap_destroy(map);
    return true;
}

void image_records_open(struct image_records *records, const char *image, struct store *store)
{
    struct buffer file = { 0 };
    char path[500];
    uint32_t partitions;

    *records = (struct image_records){ .store = store };
    snprintf(path, sizeof(path), "%s/tags", image);
    CHECK(file_read_all(disk_system(), AT_FDCWD, path, SIZE_MAX / 4, &file) == STATUS_OK);
    CHECK(tags_walk_file(&(struct tags_file){ .bytes = buffer_bytes(&file), .dir = image }, &partitions, add_section, records, NULL) == STATUS_OK);
    if (records->count > 0)
        qsort(records->tags, records->count, sizeof(struct image_tag), by_tag);
    buffer_release(&file);
}

void image_records_close(struct image_records *records)
{
    mem_free(records->tags);
}

static enum status get_at(struct store *store, uint64_t place, uint32_t incarnation, struct bytes key, struct buffer *record)
{
    struct segment *segment = segments_pin(store_segments(store), place);
    struct segment_buffer scratch = { 0 };
    enum status status = segments_read(store_segments(store), segment, place, SEGMENT_BUFFERED, incarnation, key, &scratch, record, NULL);

    segments_unpin(segment);
    segment_buffer_release(&scratch);
    return status;
}

enum status image_records_get(const struct image_records *records, uint32_t incarnation, uint64_t hash, struct bytes key, struct buffer *record)
{
    struct image_tag wanted = { incarnation, recordmap_tag(hash, records->tag_shifts[incarnation_is_of_pages(incarnation)]), 0 };
    const struct image_tag *found = records->count == 0 ? NULL :
        bsearch(&wanted, records->tags, records->count, sizeof(wanted), by_tag);
    const struct image_tag *end = records->tags + records->count;
    enum status status = STATUS_NOT_FOUND;

    while (found != NULL && found > records->tags && by_tag(found - 1, &wanted) == 0)
        found--;
    for (; found != NULL && found < end && by_tag(found, &wanted) == 0 && status == STATUS_NOT_FOUND; found++)
        status = get_at(records->store, found->place, incarnation, key, record);
    return status;
}
