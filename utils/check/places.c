#include "places.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "segment_files.h"
#include "tier/tags.h"

/* By the tags */

enum { EQUAL_MAX = 64 };            /* records with one tag: more than a few are damage */

struct tagged_key {
    uint64_t tag;
    struct checked_key *key;
};

struct matching {
    struct checked_keys *keys;
    const struct dataset_file *dataset;
    const struct key_seed *seed;
    uint32_t incarnation, partition, partition_count;
    unsigned tag_shift;             /* of the section's map */
    struct lost_tags *lost;
    struct tagged_key *list;        /* of a section, by tag */
    size_t count, capacity;
};

static int compare_tags(const void *a, const void *b)
{
    const struct tagged_key *first = a, *second = b;

    return first->tag < second->tag ? -1 : first->tag > second->tag;
}

static void list_keys(struct matching *matching, uint32_t incarnation, uint32_t partition)
{
    struct checked_keys *keys = matching->keys;
    int shift = matching->partition_count == 1 ? 0 : 64 - __builtin_ctz(matching->partition_count);
    size_t at = keys_from_hash(keys, incarnation, shift == 0 ? 0 : (uint64_t)partition << shift);

    matching->count = 0;
    for (; at < keys->count && keys->list[at].incarnation == incarnation && (shift == 0 || keys->list[at].hash >> shift == partition); at++) {
        if (matching->count == matching->capacity) {
            matching->capacity = matching->capacity * 2 + 1024;
            matching->list = mem_realloc(matching->list, matching->capacity * sizeof(matching->list[0]));
        }
        matching->list[matching->count++] = (struct tagged_key){ recordmap_tag(keys->list[at].hash, matching->tag_shift), &keys->list[at] };
    }
    if (matching->count > 0)
        qsort(matching->list, matching->count, sizeof(matching->list[0]), compare_tags);
}

static void add_lost(struct matching *matching, const struct recordmap_record *record)
{
    struct lost_tags *lost = matching->lost;

    if (lost->count == lost->capacity) {
        lost->capacity = lost->capacity * 2 + 64;
        lost->list = mem_realloc(lost->list, lost->capacity * sizeof(lost->list[0]));
    }
    lost->list[lost->count++] = (struct lost_tag){ record->place, record->tag, matching->incarnation, matching->partition, matching->tag_shift };
}

static void give(struct checked_key *key, const struct recordmap_record *record)
{
    key->state |= KEY_HAS_TAG;
    key->place = record->place;
}

/* The key of a twin is known. NULL: it is none of these. */
static struct checked_key *key_of_twin(const struct matching *matching, const struct recordmap_record *record, const struct tagged_key *list,
    size_t count)
{
    uint64_t hash = name_hash(matching->seed, matching->incarnation, record->key);

    for (size_t i = 0; i < count; i++) {
        if (keys_is(list[i].key, list[i].key->incarnation, hash, record->key) && (list[i].key->state & KEY_HAS_TAG) == 0)
            return list[i].key;
    }
    return NULL;
}

/* Records and keys with one tag: twins have their keys, what is left belongs to what is left. */
static void match_equal(struct matching *matching, const struct recordmap_record *records, size_t record_count, const struct tagged_key *list,
    size_t count)
{
    size_t next = 0;

    for (size_t i = 0; i < record_count; i++) {
        struct checked_key *key = records[i].key.data != NULL ? key_of_twin(matching, &records[i], list, count) : NULL;

        if (key != NULL)
            give(key, &records[i]);
        else if (records[i].key.data != NULL)
            add_lost(matching, &records[i]);
    }
    for (size_t i = 0; i < record_count; i++) {
        if (records[i].key.data != NULL)
            continue;
        while (next < count && (list[next].key->state & KEY_HAS_TAG) != 0)
            next++;
        if (next < count)
            give(list[next++].key, &records[i]);
        else
            add_lost(matching, &records[i]);
    }
}

static bool match_section(void *context, const struct tags_section *section)
{
    struct matching *matching = context;
    struct recordmap_record records[EQUAL_MAX], record;
    struct recordmap_walk walk;
    struct recordmap *map;
    size_t at = 0;
    bool has_record;

    if (dataset_file_db_of(matching->dataset, section->incarnation) < 0)
        return true;
    matching->incarnation = section->incarnation;
    matching->partition = section->partition;
    map = tags_section_map(section);
    if (map == NULL)
        return false;
    matching->tag_shift = recordmap_tag_shift(map);
    list_keys(matching, section->incarnation, section->partition);
    recordmap_walk_begin(&walk, map, 0);
    has_record = recordmap_walk_next(&walk, &record);
    while (has_record) {
        uint64_t tag = record.tag;
        size_t count = 0, first;

        for (; has_record && record.tag == tag; has_record = recordmap_walk_next(&walk, &record)) {
            if (count < EQUAL_MAX)
                records[count++] = record;
            else
                add_lost(matching, &record);
        }
        while (at < matching->count && matching->list[at].tag < tag)
            at++;
        for (first = at; at < matching->count && matching->list[at].tag == tag;)
            at++;
        match_equal(matching, records, count, matching->list + first, at - first);
    }
    recordmap_destroy(map);
    return true;
}

static int compare_lost(const void *a, const void *b)
{
    const struct lost_tag *first = a, *second = b;

    return first->place < second->place ? -1 : first->place > second->place;
}

void lost_tags_release(struct lost_tags *lost)
{
    mem_free(lost->list);
    *lost = (struct lost_tags){ 0 };
}

bool lost_tags_has(const struct lost_tags *lost, uint64_t place, uint32_t incarnation, uint64_t hash, uint32_t partition_count)
{
    uint32_t partition = partition_count == 1 ? 0 : (uint32_t)(hash >> (64 - __builtin_ctz(partition_count)));
    struct lost_tag wanted = { .place = place };
    const struct lost_tag *tag = lost->count > 0 ? bsearch(&wanted, lost->list, lost->count, sizeof(wanted), compare_lost) : NULL;

    return tag != NULL && tag->incarnation == incarnation && tag->partition == partition && tag->tag == recordmap_tag(hash, tag->tag_shift);
}

void places_from_tags(struct checked_keys *keys, const struct dataset_file *dataset, const struct tags_file *tags, const struct key_seed *seed,
    struct lost_tags *lost)
{
    struct matching matching = { .keys = keys, .dataset = dataset, .seed = seed, .partition_count = dataset->partition_count, .lost = lost };
    uint32_t partition_count;

    (void)tags_walk_file(tags, &partition_count, match_section, &matching, NULL);
    if (lost->count > 0)
        qsort(lost->list, lost->count, sizeof(lost->list[0]), compare_lost);
    mem_free(matching.list);
}

/* By a search */

/* Damaged bytes of a file: where the last ones end, and a stamp that no record in any of them is above (see tier/locate.c). */
struct damaged {
    int ordinal;
    uint64_t end, stamp, before;    /* `before`: of the last record before them */
};

struct search {
    struct checked_keys *keys;
    const struct key_seed *seed;
    int *ordinals;                  /* by slot */
    uint64_t *stamps;               /* of the keys' records, by key */
    struct damaged *damaged;        /* ascending ordinals */
    size_t damaged_count;
};

/* Of the file that is read now. */
static struct damaged *damaged_of(struct search *search, int ordinal)
{
    struct damaged *last = search->damaged_count > 0 ? &search->damaged[search->damaged_count - 1] : NULL;

    return last != NULL && last->ordinal == ordinal ? last : NULL;
}

static void note_damage(struct search *search, const struct segment_piece *piece)
{
    if (damaged_of(search, piece->ordinal) == NULL) {
        search->damaged = mem_realloc(search->damaged, (search->damaged_count + 1) * sizeof(search->damaged[0]));
        search->damaged_count++;
    }
    search->damaged[search->damaged_count - 1] = (struct damaged){ piece->ordinal, piece->offset + piece->size, piece->last_stamp, piece->stamp };
}

/* The next mark after damaged bytes, which comes with a record, says what stamps they can have had. A file without a footer was cut off. */
static void end_damage(struct search *search, const struct segment_piece *piece)
{
    struct damaged *damaged = damaged_of(search, piece->ordinal);

    if (piece->last_stamp == UINT64_MAX)
        note_damage(search, piece);
    else if (damaged != NULL && piece->stamp > damaged->before && piece->stamp < damaged->stamp)
        damaged->stamp = piece->stamp;
}

static void on_piece(void *context, const struct segment_piece *piece)
{
    struct search *search = context;
    const struct segment_record *record = piece->record;
    struct checked_key *key;
    uint64_t hash;

    if (record == NULL) {
        note_damage(search, piece);
        return;
    }
    end_damage(search, piece);
    search->ordinals[piece->slot] = piece->ordinal;
    hash = name_hash(search->seed, record->incarnation, record->key);
    key = keys_find(search->keys, record->incarnation, hash, record->key);
    if (key == NULL || (key->state & KEY_HAS_TAG) != 0 || piece->stamp < search->stamps[key - search->keys->list])
        return;
    search->stamps[key - search->keys->list] = piece->stamp;
    key->place = place_make(piece->slot, piece->offset, record->kind, piece->size);
}

static bool is_outdated(const struct search *search, const struct checked_key *key)
{
    int ordinal = search->ordinals[place_slot(key->place)];
    uint64_t stamp = search->stamps[key - search->keys->list];

    for (size_t i = 0; i < search->damaged_count; i++) {
        const struct damaged *damaged = &search->damaged[i];

        if (damaged->ordinal == ordinal ? place_offset(key->place) < damaged->end : stamp <= damaged->stamp)
            return true;
    }
    return false;
}

void places_search(struct check *check, const char *dir, struct checked_keys *keys, const struct key_seed *seed)
{
    struct search search = { .keys = keys, .seed = seed, .ordinals = mem_zalloc(sizeof(int) << PLACE_SLOT_BITS),
        .stamps = mem_zalloc((keys->count + 1) * sizeof(uint64_t)) };
    struct segment_counts counts = { 0 };

    segment_files_walk(check, dir, on_piece, &search, &counts);
    for (size_t i = 0; i < keys->count; i++) {
        struct checked_key *key = &keys->list[i];

        if ((key->state & KEY_HAS_TAG) == 0 && (key->place == 0 || is_outdated(&search, key)))
            key->state |= KEY_IS_BAD;
    }
    mem_free(search.ordinals);
    mem_free(search.stamps);
    mem_free(search.damaged);
}
