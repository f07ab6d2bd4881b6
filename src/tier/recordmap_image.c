#include "tier/recordmap_image.h"

#include <string.h>

#include "base/check.h"
#include "store/segments.h"
#include "tier/recordmap_private.h"

enum { PART_CHUNKS = 16, WORD = sizeof(uint64_t) };

struct head {
    uint64_t primaries, twin_bytes;
    uint32_t runs, chunks, twins, tag_shift;
};

struct twin_head {
    uint64_t tag, place, key_size;
};

static uint64_t padded(uint64_t size)
{
    return (size + WORD - 1) / WORD * WORD;
}

static uint64_t twin_bytes(const struct twins *twins)
{
    uint64_t size = 0;

    for (uint32_t i = 0; i < twins->count; i++)
        size += sizeof(struct twin_head) + padded(twins->list[i].key_size);
    return size;
}

static uint64_t rows_size(uint64_t runs, uint64_t chunks)
{
    return padded((runs + chunks) * sizeof(uint32_t));
}

uint64_t recordmap_image_size(const struct recordmap *map)
{
    return sizeof(struct head) + rows_size(map->shelf.block_count, map->shelf.chunk_count) + map->shelf.used * WORD + twin_bytes(&map->twins);
}

/* --- writing --- */

static void append_padded(struct buffer *out, struct bytes bytes)
{
    static const char zeros[WORD];

    buffer_append_bytes(out, bytes);
    buffer_append(out, zeros, padded(bytes.size) - bytes.size);
}

static void append_head(const struct recordmap *map, struct buffer *out)
{
    const struct shelf *shelf = &map->shelf;
    struct head head = { map->count, twin_bytes(&map->twins), shelf->block_count, shelf->chunk_count, map->twins.count, map->tag_shift };
    size_t size = rows_size(head.runs, head.chunks);
    uint32_t *row;

    buffer_append(out, &head, sizeof(head));
    row = (uint32_t *)(void *)buffer_reserve(out, size);
    memset(row, 0, size);
    for (uint32_t i = 0; i < shelf->block_count; i++)
        *row++ = shelf->blocks[i].words;
    for (uint32_t i = 0; i < shelf->chunk_count; i++)
        *row++ = shelf->chunks[i].used;
    out->size += size;
}

static void append_twins(const struct twins *twins, struct buffer *out)
{
    for (uint32_t i = 0; i < twins->count; i++) {
        const struct twin *twin = &twins->list[i];
        struct twin_head head = { twin->tag, twin->place, twin->key_size };

        buffer_append(out, &head, sizeof(head));
        append_padded(out, twin_key(twin));
    }
}

bool recordmap_image_write(struct recordmap_image *image, struct buffer *out)
{
    const struct shelf *shelf = &image->map->shelf;

    if (!image->is_begun) {
        append_head(image->map, out);
        image->is_begun = true;
        return true;
    }
    for (int i = 0; i < PART_CHUNKS && image->chunk < shelf->chunk_count; i++, image->chunk++)
        buffer_append(out, shelf->chunks[image->chunk].words, shelf->chunks[image->chunk].used * WORD);
    if (image->chunk < shelf->chunk_count)
        return true;
    append_twins(&image->map->twins, out);
    return false;
}

/* --- loading --- */

/* Copies the chunks. The bytes begin after the rows. */
static const char *load_chunks(struct recordmap *map, const struct head *head, const uint32_t *row, struct bytes *bytes)
{
    const uint32_t *used = row + head->runs;

    for (uint32_t i = 0; i < head->chunks; i++) {
        uint64_t size = (uint64_t)used[i] * WORD, *words;

        if (size > bytes->size)
            return "a map's chunk is longer than its file";
        words = shelf_load_chunk(&map->shelf, used[i]);
        if (words == NULL)
            return "a map has an empty chunk";
        memcpy(words, bytes->data, size);
        *bytes = bytes_of(bytes->data + size, bytes->size - size);
        if (!shelf_load_places(&map->shelf, row))
            return "the runs of a map's chunk are not those of its list";
    }
    return NULL;
}

static const char *check_runs(struct recordmap *map, const struct head *head, const uint32_t *row)
{
    for (uint32_t i = 0; i < head->runs; i++) {
        uint32_t words = shelf_words(&map->shelf, i);
        const uint64_t *block;

        if (words != row[i])
            return "a run of a map is missing";
        if (words == 0)
            continue;
        block = shelf_at(&map->shelf, i);
        if (!tagrun_is_sound(block, words, recordmap_run_width(map, i)))
            return "a run of a map is none";
        map->count += tagrun_count(block);
        if (tagrun_place_bits(block) > map->place_bits)
            map->place_bits = tagrun_place_bits(block);
    }
    return map->count == head->primaries ? NULL : "a map has more or fewer records than it says";
}

static const char *load_twins(struct recordmap *map, uint32_t count, struct bytes bytes)
{
    uint64_t last = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct twin_head head;

        if (bytes.size < sizeof(head))
            return "a map's twins are cut short";
        memcpy(&head, bytes.data, sizeof(head));
        bytes = bytes_of(bytes.data + sizeof(head), bytes.size - sizeof(head));
        if (head.key_size > bytes.size || padded(head.key_size) > bytes.size)
            return "a twin's key is cut short";
        if (head.tag < last || head.tag >> RECORDMAP_TAG_BITS != 0 || tagrun_bits_of(head.place) > RECORDMAP_PLACE_BITS || head.place == PLACE_NOWHERE ||
            !recordmap_has_tag(map, head.tag))
            return "a map has a twin of nothing";
        twins_add(&map->twins, head.tag, bytes_of(bytes.data, head.key_size), head.place);
        bytes = bytes_of(bytes.data + padded(head.key_size), bytes.size - padded(head.key_size));
        last = head.tag;
    }
    return bytes.size == 0 ? NULL : "a map is longer than its records";
}

static const char *load(struct bytes image, struct recordmap *map)
{
    struct head head;
    const uint32_t *row;
    const char *problem;
    uint64_t rows;

    if (image.size < sizeof(head))
        return "a map is cut short";
    memcpy(&head, image.data, sizeof(head));
    if (head.tag_shift > RECORDMAP_TAG_SHIFT_MAX)
        return "a map has tags of no such bits";
    map->tag_shift = head.tag_shift;
    rows = rows_size(head.runs, head.chunks);
    if (head.runs > RUN_COUNT_MAX || rows > image.size - sizeof(head))
        return "a map is cut short";
    row = (const uint32_t *)(const void *)(image.data + sizeof(head));
    shelf_load_blocks(&map->shelf, head.runs);
    image = bytes_of(image.data + sizeof(head) + rows, image.size - sizeof(head) - rows);
    problem = load_chunks(map, &head, row, &image);
    if (problem == NULL)
        problem = check_runs(map, &head, row);
    if (problem == NULL && image.size != head.twin_bytes)
        problem = "a map is not as long as it says";
    return problem != NULL ? problem : load_twins(map, head.twins, image);
}

const char *recordmap_image_load(struct bytes image, struct recordmap *map)
{
    const char *problem;

    CHECK(map->count == 0 && map->shelf.block_count == 0 && (uintptr_t)image.data % WORD == 0);
    problem = load(image, map);
    if (problem != NULL) {
        shelf_release(&map->shelf);
        twins_release(&map->twins);
        map->count = 0;
        map->place_bits = 0;
    } else if (map->count == 0) {
        shelf_release(&map->shelf);
    } else {
        recordmap_grow(map);            /* the map's stagger may be another */
    }
    return problem;
}
