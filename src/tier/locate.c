#include "tier/locate.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "keyspace/page_name.h"
#include "store/segments.h"

enum {
    PLACE_BITS = PLACE_SLOT_BITS + PLACE_UNIT_BITS + SEGMENT_KIND_BITS + PLACE_CLASS_BITS,
    PROGRESS_KEYS = 4096,
};

/* A key of the index. `rest` has its place in the lower PLACE_BITS bits, 0 for none yet; above, some bits of a checksum of the key, as two keys
 * may have equal hashes. */
struct known {
    uint64_t hash, rest;
    uint64_t stamp;                 /* of its record */
};

/* Damaged bytes of a segment: where the last ones are, and a stamp that no record in any of them is above. */
struct damaged {
    uint64_t sequence, stamp;
    uint32_t unit;
};

/* Keys of one incarnation: they are next to each other. */
struct range {
    uint32_t incarnation;
    size_t first, end;
};

struct search {
    struct store *store;
    struct segments *segments;
    const struct locate_options *options;
    struct message *message;
    locate_found *found;
    void *context;
    struct key_seed seed;
    struct known *known;            /* of this pass, by range, ascending hashes */
    size_t count, capacity, keys_max;
    uint32_t *incarnations;         /* ascending */
    struct range *ranges;           /* likewise; as many as incarnations */
    int range_count;
    int next;                       /* the incarnation and the hash at which the next pass begins */
    uint64_t next_hash;
    struct damaged *damaged;        /* in the order of segments */
    size_t damaged_count;
    uint64_t reported;
};

static uint64_t check_of(struct bytes key)
{
    return (uint64_t)crc32c(0, key.data, key.size) << PLACE_BITS;
}

static uint64_t place_in(const struct known *known)
{
    return known->rest & ((1ull << PLACE_BITS) - 1);
}

static void add_known(struct search *search, const struct store_record *record)
{
    if (search->count == search->capacity) {
        search->capacity = search->capacity * 2 + 1024;
        search->known = mem_realloc(search->known, search->capacity * sizeof(search->known[0]));
    }
    search->known[search->count++] = (struct known){ record->hash, check_of(record->key), 0 };
}

static enum status fail_index(struct search *search, enum status status)
{
    message_set(search->message, "the index of the store can't be read: %s", status_name(status));
    return status;
}

/* Adds keys of the incarnation `next`. The pass is full when it has `keys_max` keys, and all that have the hash of the last one. */
static enum status fill_range(struct search *search, bool *is_full)
{
    struct range *range = &search->ranges[search->range_count++];
    uint32_t incarnation = search->incarnations[search->next];
    struct store_iterator *iterator = store_scan(search->store, incarnation, search->next_hash);
    struct store_record record;
    enum status status;

    *range = (struct range){ incarnation, search->count, search->count };
    while ((status = store_next(iterator, &record)) == STATUS_OK) {
        *is_full = search->count >= search->keys_max && search->known[search->count - 1].hash != record.hash;
        if (*is_full)
            break;
        add_known(search, &record);
    }
    if (*is_full)
        search->next_hash = record.hash;
    store_scan_close(iterator);
    range->end = search->count;
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

static enum status fill_pass(struct search *search)
{
    bool is_full = false;

    search->count = 0;
    search->range_count = 0;
    while (search->next < search->options->count) {
        enum status status = fill_range(search, &is_full);

        if (status != STATUS_OK)
            return fail_index(search, status);
        if (is_full)
            return STATUS_OK;
        search->next++;
        search->next_hash = 0;
    }
    return STATUS_OK;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct range *first = a, *second = b;

    return first->incarnation < second->incarnation ? -1 : first->incarnation > second->incarnation;
}

static const struct range *range_of(const struct search *search, uint32_t incarnation)
{
    struct range wanted = { .incarnation = incarnation };

    return bsearch(&wanted, search->ranges, (size_t)search->range_count, sizeof(wanted), compare_ranges);
}

/* The first key of the range with that hash or a greater one. */
static size_t lower_bound(const struct search *search, const struct range *range, uint64_t hash)
{
    size_t low = range->first, high = range->end;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (search->known[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The last one of a key stays. Those of one segment come in the order in which they were written. */
static void note_record(struct search *search, uint64_t place, uint64_t stamp, const struct segment_record *record)
{
    const struct range *range = range_of(search, record->incarnation);
    uint64_t hash, check;

    if (range == NULL)
        return;
    hash = name_hash(&search->seed, record->incarnation, record->key);
    check = check_of(record->key);
    for (size_t i = lower_bound(search, range, hash); i < range->end && search->known[i].hash == hash; i++) {
        struct known *known = &search->known[i];

        if (known->rest >> PLACE_BITS == check >> PLACE_BITS && stamp >= known->stamp) {
            known->rest = check | place;
            known->stamp = stamp;
        }
    }
}

static void note_damage(struct search *search, const struct damaged *damaged)
{
    search->damaged = mem_realloc(search->damaged, (search->damaged_count + 1) * sizeof(search->damaged[0]));
    search->damaged[search->damaged_count++] = *damaged;
}

/* Damaged bytes may have had marks: what was in them is above no stamp that comes later, and only the next mark that is read, or the end, is sure to be
 * one. Until then `damaged.stamp` is 0. A file without a footer was cut off. */
static enum status read_segment(struct search *search, struct segment *segment)
{
    struct damaged damaged = { .sequence = segment_sequence(segment) };
    struct segment_record record;
    struct segment_walk walk;
    uint64_t place, before;
    enum status status;

    segment_walk_begin(search->segments, segment, &walk);
    for (;;) {
        before = walk.stamp;
        status = segment_walk_next(&walk, &place, &record);
        if (damaged.stamp == 0 && walk.stamp != before)
            damaged.stamp = walk.stamp;
        if (status == STATUS_OK) {
            note_record(search, place, walk.stamp, &record);
        } else if (status == STATUS_CORRUPT) {
            damaged.unit = (uint32_t)((walk.at + walk.used) / SEGMENT_UNIT);
            damaged.stamp = 0;
        } else {
            break;
        }
    }
    if (walk.stamp == UINT64_MAX) {
        damaged.unit = (uint32_t)((walk.at + walk.used) / SEGMENT_UNIT);
        damaged.stamp = UINT64_MAX;
    }
    if (damaged.unit != 0) {
        damaged.stamp = damaged.stamp != 0 ? damaged.stamp : walk.stamp;
        note_damage(search, &damaged);
    }
    segment_walk_end(&walk);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    message_set(search->message, "the segment %llu can't be read: %s", (unsigned long long)segment_sequence(segment), status_name(status));
    return status;
}

static enum status read_segments(struct search *search)
{
    struct segment *segment = NULL;
    enum status status = STATUS_OK;

    search->damaged_count = 0;
    while (status == STATUS_OK && (segment = segments_next(search->segments, segment)) != NULL)
        status = read_segment(search, segment);
    if (segments_damaged_count(search->segments) > 0)
        note_damage(search, &(struct damaged){ .stamp = UINT64_MAX });      /* it is not known when they were written */
    return status;
}

/* Whether it was written after all that is damaged. */
static bool is_sure(const struct search *search, const struct known *known)
{
    struct segment *segment;
    uint64_t sequence;

    if (search->damaged_count == 0)
        return true;
    segment = segments_pin(search->segments, place_in(known));
    sequence = segment_sequence(segment);
    segments_unpin(segment);
    for (size_t i = 0; i < search->damaged_count; i++) {
        const struct damaged *damaged = &search->damaged[i];
        bool is_after = damaged->sequence == sequence ? place_unit(place_in(known)) >= damaged->unit : known->stamp > damaged->stamp;

        if (!is_after)
            return false;
    }
    return true;
}

static void report_found(struct search *search)
{
    if (search->options->progress != NULL && ++search->reported % PROGRESS_KEYS == 0)
        search->options->progress(search->context, search->reported);
}

static bool pass_on(struct search *search, uint32_t incarnation, const struct store_record *record, const struct known *known)
{
    uint64_t place = place_in(known);
    struct located_key key = { incarnation, record->hash, place, record->key, LOCATED };

    report_found(search);
    if (place == 0)
        key.state = LOCATED_NOWHERE;
    else if (!is_sure(search, known))
        key.state = LOCATED_UNSURE;
    return search->found(search->context, &key);
}

/* Reads the keys of a range again, which are in the same order. */
static enum status pass_range(struct search *search, const struct range *range)
{
    struct store_iterator *iterator;
    struct store_record record;
    enum status status = STATUS_OK;

    if (range->first == range->end)
        return STATUS_OK;
    iterator = store_scan(search->store, range->incarnation, search->known[range->first].hash);
    for (size_t i = range->first; i < range->end && status == STATUS_OK; i++) {
        status = store_next(iterator, &record);
        if (status == STATUS_NOT_FOUND)
            status = STATUS_CORRUPT;
        if (status != STATUS_OK)
            (void)fail_index(search, status);
        else if (!pass_on(search, range->incarnation, &record, &search->known[i]))
            status = STATUS_CANCELLED;
    }
    store_scan_close(iterator);
    return status;
}

static enum status search_pass(struct search *search)
{
    enum status status = fill_pass(search);

    if (status == STATUS_OK && search->count > 0)
        status = read_segments(search);
    for (int i = 0; i < search->range_count && status == STATUS_OK; i++)
        status = pass_range(search, &search->ranges[i]);
    return status;
}

static int compare_incarnations(const void *a, const void *b)
{
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;

    return first < second ? -1 : first > second;
}

enum status locate_all(struct store *store, const struct locate_options *options, locate_found *found, void *context,
    struct message *message)
{
    struct search search = {
        .store = store, .segments = store_segments(store), .options = options, .message = message, .found = found, .context = context,
        .seed = { store_seed(store), store_is_by_slot(store) }, .keys_max = options->keys_max != 0 ? options->keys_max : LOCATE_KEYS,
    };
    enum status status = STATUS_OK;

    message->text[0] = '\0';
    if (options->count == 0)
        return STATUS_OK;
    search.ranges = mem_alloc((size_t)options->count * sizeof(search.ranges[0]));
    search.incarnations = mem_alloc((size_t)options->count * sizeof(search.incarnations[0]));
    memcpy(search.incarnations, options->incarnations, (size_t)options->count * sizeof(search.incarnations[0]));
    qsort(search.incarnations, (size_t)options->count, sizeof(search.incarnations[0]), compare_incarnations);
    while (search.next < options->count && status == STATUS_OK)
        status = search_pass(&search);
    mem_free(search.incarnations);
    mem_free(search.ranges);
    mem_free(search.known);
    mem_free(search.damaged);
    return status;
}
