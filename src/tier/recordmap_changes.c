#include "tier/recordmap_changes.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/varint.h"
#include "store/segments.h"
#include "tier/recordmap_private.h"

enum {
    RANGE_COUNT_MIN_BITS = 6,       /* a word of them */
    RANGE_COUNT_MAX_BITS = 28,
    RANGES_A_PART = 512,            /* written under one lock */
    NUMBER_BITS = 42,               /* more than two tags are apart, or a key has */
};

struct head {
    uint64_t count;
    uint32_t range_bits, place_size;
};

/* --- noting --- */

static void watch(struct recordmap *map, unsigned range_bits)
{
    recordmap_unwatch(map);
    map->watch = mem_zalloc(sizeof(*map->watch) + ((size_t)1 << (RECORDMAP_TAG_BITS - range_bits)) / 8);
    map->watch->range_bits = range_bits;
}

/* For a base with the map's records: about as many ranges. */
static unsigned range_bits_of(const struct recordmap *map)
{
    unsigned bits = RANGE_COUNT_MIN_BITS;

    while (bits < RANGE_COUNT_MAX_BITS && 1ull << bits < map->count)
        bits++;
    return RECORDMAP_TAG_BITS - bits;
}

void recordmap_watch(struct recordmap *map)
{
    CHECK(map->count > 0);
    watch(map, range_bits_of(map));
}

void recordmap_unwatch(struct recordmap *map)
{
    mem_free(map->watch);
    map->watch = NULL;
}

struct recordmap_base *recordmap_base(struct recordmap *map)
{
    return map->watch != NULL ? &map->watch->base : NULL;
}

uint64_t recordmap_changed_count(const struct recordmap *map)
{
    return map->watch->changed_count;
}

uint64_t recordmap_range_count(const struct recordmap *map)
{
    return 1ull << (RECORDMAP_TAG_BITS - map->watch->range_bits);
}

/* --- writing --- */

static void put_range(const struct recordmap *map, uint64_t range, uint32_t place_size, struct buffer *out)
{
    uint64_t last = range << map->watch->range_bits, end = (range + 1) << map->watch->range_bits;
    struct recordmap_record record;
    struct recordmap_walk walk;

    recordmap_walk_begin(&walk, map, last);
    while (recordmap_walk_next(&walk, &record) && record.tag < end) {
        varint_append(out, record.is_twin ? 2 : 2 * (record.tag - last) + 1);
        buffer_append(out, &record.place, place_size);
        if (record.is_twin) {
            varint_append(out, record.key.size);
            buffer_append_bytes(out, record.key);
        }
        last = record.tag;
    }
    varint_append(out, 0);
}

/* The first changed range from `range` on; the number of ranges if there is none. */
static uint64_t next_changed(const struct recordmap *map, uint64_t range)
{
    uint64_t count = recordmap_range_count(map), word;

    while (range < count) {
        word = map->watch->changed[range / 64] >> range % 64;
        if (word != 0)
            return range + (unsigned)__builtin_ctzll(word);
        range = (range / 64 + 1) * 64;
    }
    return count;
}

static void begin_changes(struct recordmap_changes *changes, struct buffer *out)
{
    const struct recordmap *map = changes->map;
    struct head head = { map->watch->changed_count, map->watch->range_bits, (recordmap_place_bits(map) + 7) / 8 };

    changes->place_size = head.place_size;
    changes->is_begun = true;
    buffer_append(out, &head, sizeof(head));
}

/* False: those were all. */
static bool put_ranges(struct recordmap_changes *changes, struct buffer *out)
{
    const struct recordmap *map = changes->map;
    uint64_t count = recordmap_range_count(map);

    for (int i = 0; i < RANGES_A_PART; i++) {
        uint64_t range = next_changed(map, changes->next);

        changes->next = range;
        if (range == count)
            return false;
        varint_append(out, range + 1 - changes->last);
        put_range(map, range, changes->place_size, out);
        changes->last = range + 1;
        changes->next = range + 1;
    }
    return true;
}

bool recordmap_changes_write(struct recordmap_changes *changes, struct buffer *out)
{
    static const char zeros[8];
    size_t before = out->size;
    bool more;

    if (!changes->is_begun)
        begin_changes(changes, out);
    more = put_ranges(changes, out);
    if (!more)
        buffer_append(out, zeros, (8 - (changes->size + out->size - before) % 8) % 8);
    changes->size += out->size - before;
    return more;
}

/* --- loading --- */

/* Changed ranges of one run, and the primaries that they have now. */
struct edited {
    uint64_t start, end;            /* tags */
    size_t first, count;            /* in the list of primaries */
};

struct loading {
    struct recordmap *map;
    const char *at, *end;
    uint32_t place_size;
    uint64_t base, run_end;         /* tags of the run */
    uint32_t run;
    struct edited *ranges;
    size_t range_count, range_room;
    struct recordmap_record *records;   /* primaries of the ranges */
    size_t count, room;
    uint64_t count_max;             /* of all records, after the changes */
    struct recordmap_record *merged;    /* primaries of the whole run */
    size_t merged_count, merged_room;
};

static void append_record(struct recordmap_record **list, size_t *count, size_t *room, uint64_t tag, uint64_t place)
{
    if (*count == *room) {
        *room = *room * 2 + 256;
        *list = mem_realloc(*list, *room * sizeof(**list));
    }
    (*list)[(*count)++] = (struct recordmap_record){ .tag = tag, .place = place };
}

static bool is_run_there(const struct loading *loading)
{
    return shelf_words(&loading->map->shelf, loading->run) > 0;
}

static void open_run(const struct loading *loading, struct tagrun_reader *reader)
{
    tagrun_reader_init(reader, shelf_at(&loading->map->shelf, loading->run), recordmap_run_width(loading->map, loading->run));
}

/* Sets the places of a range in which no tag has come or gone. False: some have, or a place needs more bits; places that were set are right. */
static bool move_in_place(struct loading *loading, const struct edited *range)
{
    uint64_t *block = shelf_at(&loading->map->shelf, loading->run);
    unsigned width = recordmap_run_width(loading->map, loading->run), bits = tagrun_place_bits(block);
    struct tagrun_reader reader;
    uint64_t number, place;
    size_t found = 0;

    open_run(loading, &reader);
    tagrun_seek(&reader, range->start - loading->base);
    while (tagrun_read(&reader, &number, &place)) {
        const struct recordmap_record *record = &loading->records[range->first + found];
        uint64_t tag = loading->base + number;

        if (tag < range->start)
            continue;
        if (tag >= range->end)
            break;
        if (found == range->count || record->tag != tag || tagrun_bits_of(record->place) > bits)
            return false;
        tagrun_set_place(block, width, reader.index - 1, record->place);
        found++;
    }
    return found == range->count;
}

static bool move_all_in_place(struct loading *loading)
{
    bool are_moved = is_run_there(loading);

    for (size_t i = 0; i < loading->range_count && are_moved; i++)
        are_moved = move_in_place(loading, &loading->ranges[i]);
    return are_moved;
}

/* Lists the run's primaries: those of the ranges, and the old ones outside of them. */
static void merge_run(struct loading *loading)
{
    struct tagrun_reader reader;
    uint64_t number, place, tag = 0;
    bool has_old = is_run_there(loading);

    loading->merged_count = 0;
    if (has_old) {
        open_run(loading, &reader);
        has_old = tagrun_read(&reader, &number, &place);
    }
    for (size_t i = 0; i <= loading->range_count; i++) {
        const struct edited *range = &loading->ranges[i];
        uint64_t start = i < loading->range_count ? range->start : loading->run_end;

        for (; has_old && (tag = loading->base + number) < start; has_old = tagrun_read(&reader, &number, &place))
            append_record(&loading->merged, &loading->merged_count, &loading->merged_room, tag, place);
        if (i == loading->range_count)
            break;
        while (has_old && loading->base + number < range->end)
            has_old = tagrun_read(&reader, &number, &place);
        for (size_t k = 0; k < range->count; k++)
            append_record(&loading->merged, &loading->merged_count, &loading->merged_room, loading->records[range->first + k].tag,
                loading->records[range->first + k].place);
    }
}

/* False: it would have more records than a run can have. */
static bool rewrite_run(struct loading *loading)
{
    struct recordmap *map = loading->map;
    struct tagrun_writer writer;
    uint64_t places = 0;

    merge_run(loading);
    if (loading->merged_count > TAGRUN_COUNT_MAX)
        return false;
    if (is_run_there(loading))
        map->count -= tagrun_count(shelf_at(&map->shelf, loading->run));
    for (size_t i = 0; i < loading->merged_count; i++)
        places |= loading->merged[i].place;
    recordmap_rewrite(map, loading->run, loading->merged_count, tagrun_bits_of(places), &writer);
    for (size_t i = 0; i < loading->merged_count; i++)
        tagrun_write(&writer, loading->merged[i].tag - loading->base, loading->merged[i].place);
    map->count += loading->merged_count;
    return true;
}

static bool finish_run(struct loading *loading)
{
    bool is_good = loading->range_count == 0 || move_all_in_place(loading) || rewrite_run(loading);

    loading->range_count = loading->count = 0;
    return is_good;
}

/* False: the bytes end, or it has more bits than a tag may. */
static bool get_number(struct loading *loading, uint64_t *number)
{
    return varint_take(&loading->at, loading->end, number) && *number < 1ull << NUMBER_BITS;
}

static bool get_bytes(struct loading *loading, uint64_t size, struct bytes *bytes)
{
    if (size > (uint64_t)(loading->end - loading->at))
        return false;
    *bytes = bytes_of(loading->at, size);
    loading->at += size;
    return true;
}

static void drop_twins(struct twins *twins, uint64_t start, uint64_t end)
{
    uint32_t index = twins->count > 0 ? twins_first(twins, start) : 0;

    while (index < twins->count && twins->list[index].tag < end)
        twins_remove(twins, index);
}

/* Reads the records of a range. */
static bool read_records(struct loading *loading, struct edited *range)
{
    uint64_t number, last = range->start, place, key_size;
    bool has_primary = false;
    struct bytes bytes, key;

    while (get_number(loading, &number)) {
        uint64_t tag = last + number / 2;

        if (number == 0)
            return true;
        if (!get_bytes(loading, loading->place_size, &bytes))
            return false;
        place = 0;
        memcpy(&place, bytes.data, bytes.size);
        if (tagrun_bits_of(place) > RECORDMAP_PLACE_BITS || place == PLACE_NOWHERE)
            return false;
        if (number % 2 == 0) {
            if (number != 2 || !has_primary || !get_number(loading, &key_size) || !get_bytes(loading, key_size, &key))
                return false;
            twins_add(&loading->map->twins, last, key, place);
            continue;
        }
        if (tag >= range->end || (has_primary && tag == last) || loading->count == loading->count_max)
            return false;
        append_record(&loading->records, &loading->count, &loading->room, tag, place);
        range->count++;
        has_primary = true;
        last = tag;
    }
    return false;
}

static bool read_range(struct loading *loading, uint64_t number, unsigned range_bits)
{
    uint64_t start = number << range_bits, end = (number + 1) << range_bits;
    struct spot spot;

    if (start >= loading->run_end) {
        if (!finish_run(loading))
            return false;
        spot = recordmap_spot(loading->map, start);
        loading->run = spot.index;
        loading->base = start - spot.number;
        loading->run_end = loading->base + (1ull << spot.width);
    }
    if (end > loading->run_end)
        return false;
    if (loading->range_count == loading->range_room) {
        loading->range_room = loading->range_room * 2 + 64;
        loading->ranges = mem_realloc(loading->ranges, loading->range_room * sizeof(loading->ranges[0]));
    }
    drop_twins(&loading->map->twins, start, end);
    loading->ranges[loading->range_count++] = (struct edited){ .start = start, .end = end, .first = loading->count };
    return read_records(loading, &loading->ranges[loading->range_count - 1]);
}

static bool read_ranges(struct loading *loading, const struct head *head, bool watches)
{
    uint64_t range_count = 1ull << (RECORDMAP_TAG_BITS - head->range_bits), next = 0, gap;

    for (uint64_t i = 0; i < head->count; i++) {
        if (!get_number(loading, &gap) || gap == 0 || gap > range_count - next)
            return false;
        next += gap;
        if (!read_range(loading, next - 1, head->range_bits))
            return false;
        if (watches)
            recordmap_note(loading->map, (next - 1) << head->range_bits);
    }
    if (!finish_run(loading))
        return false;
    while (loading->at < loading->end && *loading->at == 0)
        loading->at++;
    return loading->at == loading->end;
}

static void grow_or_shrink(struct recordmap *map)
{
    uint32_t before = 0;

    if (map->count == 0) {
        shelf_release(&map->shelf);
        map->place_bits = 0;
        return;
    }
    recordmap_grow(map);
    while (map->shelf.block_count != before) {
        before = map->shelf.block_count;
        recordmap_shrink(map);
    }
}

const char *recordmap_changes_load(struct bytes bytes, struct recordmap *map, uint64_t count_max, bool watches)
{
    struct loading loading = { .map = map, .count_max = count_max };
    struct head head;
    bool is_good;

    if (bytes.size < sizeof(head))
        return "changes of a map are cut short";
    memcpy(&head, bytes.data, sizeof(head));
    if (head.range_bits != range_bits_of(map) || head.place_size > (RECORDMAP_PLACE_BITS + 7) / 8 || map->shelf.block_count == 0)
        return "there are no such changes of a map";
    loading.at = bytes.data + sizeof(head);
    loading.end = bytes.data + bytes.size;
    loading.place_size = head.place_size;
    if (watches)
        watch(map, head.range_bits);
    is_good = read_ranges(&loading, &head, watches);
    mem_free(loading.ranges);
    mem_free(loading.records);
    mem_free(loading.merged);
    if (!is_good)
        return "changes of a map are damaged";
    grow_or_shrink(map);
    return NULL;
}
