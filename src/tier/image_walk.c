#include "tier/image_walk.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/segments.h"
#include "tier/damage.h"
#include "tier/tags.h"

enum {
    MEMORY_MAX = 128 << 20,
    UNITS_MAX = 1 << PLACE_UNIT_BITS,
    GROUP_MAX = 4096,               /* segments */
    NO_SEGMENT = 0, NOT_IN_GROUP = UINT16_MAX,
    KEYS_NAMED = 2,
};

/* A record as the tags file has it. */
struct tag_at {
    uint32_t partition, partition_count;
    unsigned tag_shift;
    uint64_t tag, place;
};

/* The live records of a segment: a bit for each unit at which one begins. */
struct live {
    struct segment *segment;
    uint64_t *bits;
    uint32_t unit_count;
};

struct walking {
    struct store *store;
    struct segments *segments;
    const struct tags_file *tags;
    uint32_t incarnation;
    size_t memory;
    image_item_found *found;
    void *context;
    struct message *message;
    uint64_t tag_count, passed;
    uint64_t missing_count;         /* tags of segments that are missing */
    struct tag_at missing;          /* the first of them */
    struct live group[GROUP_MAX];
    int group_count;
    uint16_t *by_slot;              /* NO_SEGMENT, NOT_IN_GROUP, or 1 + the index in the group */
};

/* --- which segments --- */

static void note_segments(struct walking *walking)
{
    struct segment *segment = NULL;

    walking->by_slot = mem_zalloc(sizeof(uint16_t) << PLACE_SLOT_BITS);
    while ((segment = segments_next(walking->segments, segment)) != NULL)
        walking->by_slot[segment_slot(segment)] = NOT_IN_GROUP;
}

static void release_group(struct walking *walking)
{
    for (int i = 0; i < walking->group_count; i++) {
        walking->by_slot[segment_slot(walking->group[i].segment)] = NOT_IN_GROUP;
        mem_free(walking->group[i].bits);
    }
    walking->group_count = 0;
}

static size_t bitmap_size(uint32_t unit_count)
{
    return ((size_t)unit_count + 63) / 64 * sizeof(uint64_t);
}

static uint32_t unit_count_of(const struct segment *segment)
{
    uint64_t count = segment_size(segment) / SEGMENT_UNIT + 1;

    return count < UNITS_MAX ? (uint32_t)count : UNITS_MAX;
}

/* The segments after `*last`, as many as the bitmaps have room. */
static void make_group(struct walking *walking, struct segment **last)
{
    struct segment *segment = *last;
    size_t size = 0;

    while (walking->group_count < GROUP_MAX && (segment = segments_next(walking->segments, segment)) != NULL) {
        struct live *live = &walking->group[walking->group_count];
        uint32_t unit_count = unit_count_of(segment);

        if (walking->group_count > 0 && size + bitmap_size(unit_count) > walking->memory)
            break;
        size += bitmap_size(unit_count);
        *live = (struct live){ segment, mem_zalloc(bitmap_size(unit_count)), unit_count };
        walking->by_slot[segment_slot(segment)] = (uint16_t)++walking->group_count;
        *last = segment;
    }
}

/* --- what is live --- */

/* False ends it, with the walk's status set. */
typedef bool tag_met(struct walking *walking, const struct tag_at *tag, void *context);

struct each {
    struct walking *walking;
    tag_met *found;
    void *context;
    uint32_t partition_count;
};

static bool read_section(void *context, const struct tags_section *section)
{
    struct each *each = context;
    struct recordmap_record record;
    struct recordmap_walk walk;
    struct recordmap *map;
    bool more = true;

    if (section->incarnation != each->walking->incarnation)
        return true;
    map = tags_section_map(section);
    if (map == NULL) {
        message_set(each->walking->message, "a record map of the image can't be read");
        return false;
    }
    recordmap_walk_begin(&walk, map, 0);
    while (more && recordmap_walk_next(&walk, &record)) {
        struct tag_at tag = { section->partition, each->partition_count, recordmap_tag_shift(map), record.tag, record.place };

        more = each->found(each->walking, &tag, each->context);
    }
    recordmap_destroy(map);
    return more;
}

static enum status each_tag(struct walking *walking, tag_met *found, void *context)
{
    struct each each = { walking, found, context, 0 };
    const char *problem = NULL;
    enum status status = tags_walk_file(walking->tags, &each.partition_count, read_section, &each, &problem);

    if (status == STATUS_CORRUPT)
        message_set(walking->message, "the image's tags are damaged: %s", problem);
    return status == STATUS_INVALID ? STATUS_CORRUPT : status;
}

static uint64_t partition_of(uint64_t hash, uint32_t partition_count)
{
    return partition_count == 1 ? 0 : hash >> (64 - __builtin_ctz(partition_count));
}

/* Appends the keys that the index has with this tag: one, if no other key has the same. */
static void append_keys(struct walking *walking, const struct tag_at *tag, struct buffer *text)
{
    uint64_t from = tag->partition == 0 ? 0 : (uint64_t)tag->partition << (64 - __builtin_ctz(tag->partition_count));
    struct store_iterator *iterator = store_scan(walking->store, walking->incarnation, from);
    struct store_record record;
    int count = 0;

    while (count < KEYS_NAMED && store_next(iterator, &record) == STATUS_OK &&
           partition_of(record.hash, tag->partition_count) == tag->partition) {
        if (recordmap_tag(record.hash, tag->tag_shift) == tag->tag) {
            buffer_append_format(text, "%s", count++ > 0 ? " or " : "");
            damage_key(text, walking->incarnation, record.key);
        }
    }
    store_scan_close(iterator);
    if (count == 0)
        buffer_append_bytes(text, BYTES("that is not in the index"));
}

/* NULL: there is none. */
static const struct segment *segment_of(const struct walking *walking, uint64_t place)
{
    struct segment *segment = NULL;

    while ((segment = segments_next(walking->segments, segment)) != NULL && segment_slot(segment) != place_slot(place))
        ;
    return segment;
}

static bool fail_place(struct walking *walking, const struct tag_at *tag, const char *what)
{
    struct buffer keys = { 0 };

    append_keys(walking, tag, &keys);
    damage_text(walking->message, buffer_bytes(&keys), what, segment_of(walking, tag->place), tag->place);
    buffer_release(&keys);
    return false;
}

/* A tag of the incarnation. */
static bool note_tag(struct walking *walking, const struct tag_at *tag, void *context)
{
    uint64_t place = tag->place, *word;
    bool *is_first_group = context;
    uint16_t index;
    struct live *live;

    walking->tag_count += *is_first_group;
    if (!place_is_in_segment(place))
        return fail_place(walking, tag, "its tag has no place");
    index = walking->by_slot[place_slot(place)];
    if (index == NO_SEGMENT && walking->missing_count++ == 0)
        walking->missing = *tag;
    if (index == NO_SEGMENT || index == NOT_IN_GROUP)
        return true;
    live = &walking->group[index - 1];
    if (place_unit(place) >= live->unit_count)
        return fail_place(walking, tag, "its segment ends before it");
    word = &live->bits[place_unit(place) / 64];
    if ((*word >> place_unit(place) % 64 & 1) != 0)
        return fail_place(walking, tag, "another key has the same place");
    *word |= 1ull << place_unit(place) % 64;
    return true;
}

/* --- the records --- */

struct wanted {
    uint32_t slot, unit;
};

static bool find_tag(struct walking *walking, const struct tag_at *tag, void *context)
{
    const struct wanted *wanted = context;

    if (place_slot(tag->place) != wanted->slot || place_unit(tag->place) != wanted->unit)
        return true;
    return fail_place(walking, tag, "it is damaged");
}

static enum status fail_record(struct walking *walking, const struct live *live, uint32_t unit)
{
    struct wanted wanted = { segment_slot(live->segment), unit };

    (void)each_tag(walking, find_tag, &wanted);
    return STATUS_CORRUPT;
}

static enum status pass_on(struct walking *walking, uint64_t place, struct bytes key, struct bytes record)
{
    struct image_item item = { place, key, record };

    walking->passed++;
    return walking->found(walking->context, &item);
}

static enum status read_record(struct walking *walking, const struct live *live, struct segment_walk *walk, uint32_t unit)
{
    struct segment_record record;
    uint64_t place;
    enum status status;

    segment_walk_seek(walk, unit);
    status = segment_walk_next(walk, &place, &record);
    if (status == STATUS_OK && (record.incarnation != walking->incarnation || place_unit(place) != unit))
        status = STATUS_CORRUPT;        /* another keyspace's, or not a record: marks are passed over */
    if (status == STATUS_CORRUPT || status == STATUS_NOT_FOUND)
        return fail_record(walking, live, unit);
    if (status != STATUS_OK) {
        message_set(walking->message, "a segment can't be read: %s", status_name(status));
        return status;
    }
    return pass_on(walking, place, record.key, record.value);
}

static enum status read_segment(struct walking *walking, const struct live *live)
{
    struct segment_walk walk;
    enum status status = STATUS_OK;

    segment_walk_begin(walking->segments, live->segment, &walk);
    for (uint32_t first = 0; first < live->unit_count && status == STATUS_OK; first += 64) {
        for (uint64_t bits = live->bits[first / 64]; bits != 0 && status == STATUS_OK; bits &= bits - 1)
            status = read_record(walking, live, &walk, first + (uint32_t)__builtin_ctzll(bits));
    }
    segment_walk_end(&walk);
    return status;
}

static enum status fail_missing(struct walking *walking)
{
    char what[100];

    snprintf(what, sizeof(what), "its segment is missing, with %llu keys that can't be read", (unsigned long long)walking->missing_count);
    (void)fail_place(walking, &walking->missing, what);
    return STATUS_CORRUPT;
}

static enum status read_group(struct walking *walking, bool is_first)
{
    enum status status = each_tag(walking, note_tag, &is_first);

    if (status == STATUS_OK && walking->missing_count > 0)
        return fail_missing(walking);
    for (int i = 0; i < walking->group_count && status == STATUS_OK; i++)
        status = read_segment(walking, &walking->group[i]);
    return status;
}

static enum status read_all(struct walking *walking)
{
    struct segment *last = NULL;
    enum status status;

    make_group(walking, &last);
    status = read_group(walking, true);
    release_group(walking);
    while (status == STATUS_OK && segments_next(walking->segments, last) != NULL) {
        make_group(walking, &last);
        status = read_group(walking, false);
        release_group(walking);
    }
    if (status != STATUS_OK || walking->passed == walking->tag_count)
        return status;
    message_set(walking->message, "the image has %llu records and %llu tags", (unsigned long long)walking->passed,
        (unsigned long long)walking->tag_count);
    return STATUS_CORRUPT;
}

enum status image_walk(struct store *store, const struct tags_file *tags, uint32_t incarnation, size_t memory, image_item_found *found,
    void *context, struct message *message)
{
    struct walking *walking = mem_zalloc(sizeof(*walking));
    enum status status;

    walking->store = store;
    walking->segments = store_segments(store);
    walking->tags = tags;
    walking->incarnation = incarnation;
    walking->memory = memory != 0 ? memory : MEMORY_MAX;
    walking->found = found;
    walking->context = context;
    walking->message = message;
    note_segments(walking);
    status = read_all(walking);
    mem_free(walking->by_slot);
    mem_free(walking);
    return status;
}
