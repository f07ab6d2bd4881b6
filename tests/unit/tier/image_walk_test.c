/* tier/image_walk, tier/locate, tier/tags_rebuild: images made by hand. */
#include "support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/random.h"
#include "store/store.h"
#include "support/seed.h"
#include "support/store_image.h"
#include "tier/image_walk.h"
#include "tier/locate.h"
#include "tier/tags.h"
#include "tier/tags_rebuild.h"

enum { PARTITIONS = 16, KEYS = 300, DB = 5, OTHER = 7, KIND = 2, SEGMENT_BYTES = 16 * 1024 };

struct known {
    char key[32];
    uint32_t incarnation;
    uint64_t hash, place;
    struct buffer record;
    bool is_deleted;
    int seen;
};

struct fixture {
    char dir[64];
    struct store *store;
    struct store_batch *batch;
    struct known *known;
    size_t count;
    unsigned tail;                  /* of what is appended */
    struct buffer tags;
    struct message message;
};

static void open_store(struct fixture *fixture)
{
    struct store_options options = { .dir = fixture->dir, .segment_size = SEGMENT_BYTES };

    assert_int_equal(store_open(&options, &fixture->store, &fixture->message), STATUS_OK);
}

static int set_up(void **state)
{
    struct fixture *fixture = mem_zalloc(sizeof(*fixture));

    strcpy(fixture->dir, "/tmp/kelvin-test-XXXXXX");
    assert_non_null(mkdtemp(fixture->dir));
    fixture->batch = store_batch_create();
    fixture->known = mem_zalloc(4096 * sizeof(struct known));
    open_store(fixture);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    char command[100];

    store_close(fixture->store);
    store_batch_destroy(fixture->batch);
    for (size_t i = 0; i < fixture->count; i++)
        buffer_release(&fixture->known[i].record);
    mem_free(fixture->known);
    buffer_release(&fixture->tags);
    snprintf(command, sizeof(command), "rm -rf '%s'", fixture->dir);
    assert_int_equal(system(command), 0);
    mem_free(fixture);
    return 0;
}

static void fill(struct buffer *record, uint64_t number, size_t size)
{
    record->size = 0;
    buffer_reserve(record, size);
    for (size_t i = 0; i < size; i++)
        record->data[i] = (char)(number * 31 + i * 7 + (i >> 8));
    record->size = size;
}

static void append(struct fixture *fixture, struct known *known, uint64_t number, size_t size)
{
    struct bytes key = bytes_of_string(known->key);

    fill(&known->record, number, size);
    known->place = store_batch_append(fixture->store, fixture->batch, fixture->tail, known->incarnation, KIND, key, buffer_bytes(&known->record), 0);
}

static struct known *add(struct fixture *fixture, uint32_t incarnation, size_t size)
{
    struct known *known = &fixture->known[fixture->count++];
    struct bytes key;
    struct hash_seed seed = store_seed(fixture->store);

    snprintf(known->key, sizeof(known->key), "key:%zu", fixture->count);
    key = bytes_of_string(known->key);
    known->incarnation = incarnation;
    known->hash = hash_bytes(&seed, key);
    append(fixture, known, fixture->count, size);
    store_batch_index(fixture->batch, incarnation, known->hash, key);
    return known;
}

static void delete(struct fixture *fixture, struct known *known)
{
    store_batch_delete(fixture->batch, known->incarnation, known->hash, bytes_of_string(known->key));
    known->is_deleted = true;
}

static void write_all(struct fixture *fixture)
{
    segments_seal(store_segments(fixture->store));
    assert_int_equal(store_write(fixture->store, fixture->batch), STATUS_OK);
    store_batch_clear(fixture->batch);
}

static int by_hash(const void *a, const void *b)
{
    const struct known *first = *(struct known *const *)a, *second = *(struct known *const *)b;

    if (first->incarnation != second->incarnation)
        return first->incarnation < second->incarnation ? -1 : 1;
    return first->hash < second->hash ? -1 : first->hash > second->hash;
}

/* The tags file of all keys that are not deleted. */
static void make_tags(struct fixture *fixture)
{
    struct tags_builder *builder = tags_builder_create(PARTITIONS, false);
    struct known **sorted = mem_alloc(fixture->count * sizeof(sorted[0]));

    for (size_t i = 0; i < fixture->count; i++)
        sorted[i] = &fixture->known[i];
    qsort(sorted, fixture->count, sizeof(sorted[0]), by_hash);
    for (size_t i = 0; i < fixture->count; i++) {
        if (!sorted[i]->is_deleted)
            tags_builder_add(builder, sorted[i]->incarnation, sorted[i]->hash, bytes_of_string(sorted[i]->key), sorted[i]->place);
    }
    fixture->tags.size = 0;
    tags_builder_print(builder, &fixture->tags);
    tags_builder_destroy(builder);
    mem_free(sorted);
}

static struct known *find(struct fixture *fixture, uint32_t incarnation, struct bytes key)
{
    for (size_t i = 0; i < fixture->count; i++) {
        if (fixture->known[i].incarnation == incarnation && bytes_equal(bytes_of_string(fixture->known[i].key), key))
            return &fixture->known[i];
    }
    return NULL;
}

static enum status on_item(void *context, const struct image_item *item)
{
    struct fixture *fixture = context;
    struct known *known = find(fixture, DB, item->key);

    assert_non_null(known);
    assert_false(known->is_deleted);
    assert_int_equal(item->place, known->place);
    assert_true(bytes_equal(item->record, buffer_bytes(&known->record)));
    known->seen++;
    return STATUS_OK;
}

static enum status walk_with(struct fixture *fixture, size_t memory)
{
    for (size_t i = 0; i < fixture->count; i++)
        fixture->known[i].seen = 0;
    fixture->message.text[0] = '\0';
    return image_walk(fixture->store, &(struct tags_file){ .bytes = buffer_bytes(&fixture->tags) }, DB, memory, on_item, fixture, &fixture->message);
}

static enum status walk(struct fixture *fixture)
{
    return walk_with(fixture, 0);
}

static void expect_all_with(struct fixture *fixture, size_t memory)
{
    assert_int_equal(walk_with(fixture, memory), STATUS_OK);
    for (size_t i = 0; i < fixture->count; i++)
        assert_int_equal(fixture->known[i].seen, fixture->known[i].incarnation == DB && !fixture->known[i].is_deleted);
}

static void expect_all(struct fixture *fixture)
{
    expect_all_with(fixture, 0);
}

/* Many small segments: live, overwritten and deleted records, and those of another database. */
static void fill_store(struct fixture *fixture)
{
    for (size_t i = 0; i < KEYS; i++)
        (void)add(fixture, i % 5 == 4 ? OTHER : DB, (i * 37) % 900);
    write_all(fixture);
    for (size_t i = 0; i < fixture->count; i++) {
        if (i % 3 == 0)
            append(fixture, &fixture->known[i], i + 1000, (i * 53) % 700);
        else if (i % 7 == 1)
            delete(fixture, &fixture->known[i]);
    }
    write_all(fixture);
    make_tags(fixture);
}

static void test_live_records(void **state)
{
    struct fixture *fixture = *state;

    fill_store(fixture);
    expect_all(fixture);
    store_image_close(fixture->store);
    open_store(fixture);
    expect_all(fixture);
}

/* A few segments at a time; with too little memory, one. */
static void test_groups_of_segments(void **state)
{
    static const size_t memories[] = { 1, 400, 1000, 100000 };
    struct fixture *fixture = *state;

    fill_store(fixture);
    for (size_t i = 0; i < sizeof(memories) / sizeof(memories[0]); i++)
        expect_all_with(fixture, memories[i]);
}

static void test_empty(void **state)
{
    struct fixture *fixture = *state;

    make_tags(fixture);
    expect_all(fixture);
}

/* A record of more than a segment's size, and one of more than the place's classes. */
static void test_huge(void **state)
{
    struct fixture *fixture = *state;

    (void)add(fixture, DB, 10);
    (void)add(fixture, DB, 5 << 20);
    (void)add(fixture, DB, 300 * 1024);
    (void)add(fixture, DB, 10);
    write_all(fixture);
    make_tags(fixture);
    expect_all(fixture);
}

/* Two keys of a partition whose hashes have the same tag: the hashes are made up, the walk does not verify them. */
static void test_twins(void **state)
{
    struct fixture *fixture = *state;
    struct known *known = fixture->known;

    for (int i = 0; i < 3; i++) {
        snprintf(known[i].key, sizeof(known[i].key), "twin:%d", i);
        known[i].incarnation = DB;
        known[i].hash = 0x1000000012345678 + ((uint64_t)i << 40);
        append(fixture, &known[i], (uint64_t)i, 100);
        store_batch_index(fixture->batch, DB, known[i].hash, bytes_of_string(known[i].key));
    }
    fixture->count = 3;
    write_all(fixture);
    make_tags(fixture);
    expect_all(fixture);
}

/* --- damage --- */

/* Changes a byte of a record, `at` bytes after its beginning. */
static void damage(struct fixture *fixture, uint64_t place, uint64_t at)
{
    struct segment *segment = segments_pin(store_segments(fixture->store), place);
    char path[128], byte;
    off_t offset = (off_t)(place_unit(place) * (uint64_t)SEGMENT_UNIT + at);
    int fd;

    snprintf(path, sizeof(path), "%s/%08llu.seg", fixture->dir, (unsigned long long)segment_sequence(segment));
    segments_unpin(segment);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, offset), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
    close(fd);
}

/* Some bytes of a file, not of its head. */
static void damage_anywhere(struct fixture *fixture, struct random *random)
{
    struct segments *segments = store_segments(fixture->store);
    struct segment *segment = segments_next(segments, NULL);
    uint64_t at;

    while (random_below(random, 4) != 0 && segments_next(segments, segment) != NULL)
        segment = segments_next(segments, segment);
    at = SEGMENT_HEAD_SIZE + random_below(random, segment_size(segment) - SEGMENT_HEAD_SIZE);
    damage(fixture, place_make(segment_slot(segment), at, 0, 1), at % SEGMENT_UNIT);
}

static void test_a_damaged_record_is_named(void **state)
{
    static const uint64_t offsets[] = { 0, 5, 9, 17, 21, 26, 60 };     /* each part of a record */

    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        struct fixture *fixture = *state;
        struct known *known;

        fill_store(fixture);
        known = add(fixture, DB, 200);
        (void)add(fixture, DB, 200);
        write_all(fixture);
        make_tags(fixture);
        damage(fixture, known->place, offsets[i]);
        assert_int_equal(walk(fixture), STATUS_CORRUPT);
        assert_non_null(strstr(fixture->message.text, known->key));
        assert_non_null(strstr(fixture->message.text, "it is damaged"));
        (void)tear_down(state);
        (void)set_up(state);
    }
}

static void test_a_damaged_dead_record_does_no_harm(void **state)
{
    struct fixture *fixture = *state;
    uint64_t place;

    fill_store(fixture);
    place = fixture->known[6].place;
    append(fixture, &fixture->known[6], 5, 50);
    write_all(fixture);
    make_tags(fixture);
    damage(fixture, place, 20);
    expect_all(fixture);
}

static void test_a_missing_segment(void **state)
{
    struct fixture *fixture = *state;
    struct known *known;
    struct segment *segment;
    char path[128];

    fill_store(fixture);
    known = add(fixture, DB, 100);
    write_all(fixture);
    make_tags(fixture);
    segment = segments_pin(store_segments(fixture->store), known->place);
    snprintf(path, sizeof(path), "%s/%08llu.seg", fixture->dir, (unsigned long long)segment_sequence(segment));
    segments_unpin(segment);
    assert_int_equal(unlink(path), 0);
    store_image_close(fixture->store);
    open_store(fixture);
    assert_int_equal(walk(fixture), STATUS_CORRUPT);
    assert_non_null(strstr(fixture->message.text, known->key));
    assert_non_null(strstr(fixture->message.text, "segment is missing"));
}

static void test_tags_that_are_wrong(void **state)
{
    struct fixture *fixture = *state;
    uint64_t place;

    fill_store(fixture);
    place = fixture->known[0].place;
    fixture->known[0].place = fixture->known[2].place;      /* two keys at one place */
    make_tags(fixture);
    fixture->known[0].place = place;
    assert_int_equal(walk(fixture), STATUS_CORRUPT);
    assert_non_null(strstr(fixture->message.text, "the same place"));
    make_tags(fixture);
    fixture->tags.data[fixture->tags.size / 2] ^= 1;
    assert_int_equal(walk(fixture), STATUS_CORRUPT);
    assert_non_null(strstr(fixture->message.text, "tags are damaged"));
}

/* Tags at a mark, which is before the record of another key. */
static void test_tags_at_marks(void **state)
{
    struct fixture *fixture = *state;
    struct known *known[3];

    for (unsigned i = 0; i < 3; i++) {
        fixture->tail = i % 2;
        known[i] = add(fixture, DB, 20);
        assert_int_equal(store_write(fixture->store, fixture->batch), STATUS_OK);
        store_batch_clear(fixture->batch);
    }
    write_all(fixture);
    make_tags(fixture);
    expect_all(fixture);
    known[1]->place = known[2]->place - (1ull << (SEGMENT_KIND_BITS + PLACE_CLASS_BITS));
    make_tags(fixture);
    assert_int_equal(walk(fixture), STATUS_CORRUPT);
    assert_non_null(strstr(fixture->message.text, known[1]->key));
}

/* --- without a tags file --- */

struct locating {
    struct fixture *fixture;
    uint64_t counts[3];
    uint64_t last_hash;
};

static bool on_located(void *context, const struct located_key *key)
{
    struct locating *located = context;
    struct known *known = find(located->fixture, key->incarnation, key->key);

    assert_non_null(known);
    assert_false(known->is_deleted);
    if (key->state == LOCATED)
        assert_int_equal(key->place, known->place);
    if (key->incarnation == DB) {
        assert_true(key->hash > located->last_hash);
        located->last_hash = key->hash;
    }
    located->counts[key->state]++;
    known->seen++;
    return true;
}

static void locate(struct fixture *fixture, size_t keys_max, struct locating *located)
{
    static const uint32_t incarnations[] = { OTHER, 6, DB };
    struct locate_options options = { .incarnations = incarnations, .count = 3, .keys_max = keys_max };

    *located = (struct locating){ .fixture = fixture };
    for (size_t i = 0; i < fixture->count; i++)
        fixture->known[i].seen = 0;
    assert_int_equal(locate_all(fixture->store, &options, on_located, located, &fixture->message), STATUS_OK);
    for (size_t i = 0; i < fixture->count; i++)
        assert_int_equal(fixture->known[i].seen, !fixture->known[i].is_deleted);
}

static void test_the_newest_record_is_located(void **state)
{
    static const size_t passes[] = { 0, 1, 7, 100, 10000 };
    struct fixture *fixture = *state;
    struct locating located;

    fill_store(fixture);
    for (size_t i = 0; i < sizeof(passes) / sizeof(passes[0]); i++) {
        locate(fixture, passes[i], &located);
        assert_int_equal(located.counts[LOCATED_UNSURE] + located.counts[LOCATED_NOWHERE], 0);
    }
}

/* What is older than the damage may be outdated; what was written later is not. */
static void test_damage_makes_older_records_unsure(void **state)
{
    struct fixture *fixture = *state;
    struct locating located;
    struct known *known;
    uint64_t before;

    fill_store(fixture);
    locate(fixture, 0, &located);
    before = located.counts[LOCATED];
    known = add(fixture, DB, 100);
    write_all(fixture);
    (void)add(fixture, DB, 100);
    (void)add(fixture, DB, 100);
    write_all(fixture);
    damage(fixture, known->place, 30);
    locate(fixture, 0, &located);
    assert_int_equal(located.counts[LOCATED_NOWHERE], 1);
    assert_true(located.counts[LOCATED] >= 2);
    assert_int_equal(located.counts[LOCATED_UNSURE] + located.counts[LOCATED], before + 2);
    assert_true(located.counts[LOCATED_UNSURE] > 0);
}

static void write_next(struct fixture *fixture)
{
    assert_int_equal(store_write(fixture->store, fixture->batch), STATUS_OK);
    store_batch_clear(fixture->batch);
}

/* The older record seems to be the newer one then. */
static void test_a_damaged_mark_makes_others_unsure(void **state)
{
    struct fixture *fixture = *state;
    struct known *first = add(fixture, DB, 20), *key;
    struct locating located;

    write_next(fixture);
    fixture->tail = 1;
    key = add(fixture, DB, 20);
    write_next(fixture);
    fixture->tail = 0;
    append(fixture, key, 99, 20);
    write_all(fixture);
    assert_int_equal(place_unit(key->place), place_unit(first->place) + 4);         /* a record of three units, and the mark */
    damage(fixture, first->place, 3 * SEGMENT_UNIT + 8);
    locate(fixture, 0, &located);
    assert_int_equal(located.counts[LOCATED_UNSURE], 2);
}

/* What was written after the next mark of the damaged file is sure, although that file was written later, too. */
static void test_damage_ends_with_the_next_mark(void **state)
{
    struct fixture *fixture = *state;
    struct known *first = add(fixture, DB, 20);
    struct locating located;

    for (unsigned i = 0; i < 5; i++) {
        (void)add(fixture, DB, 20);
        write_next(fixture);
        fixture->tail = i % 2 == 0;
    }
    write_all(fixture);
    locate(fixture, 0, &located);
    assert_int_equal(located.counts[LOCATED], 6);
    damage(fixture, first->place, 20);
    locate(fixture, 0, &located);
    assert_int_equal(located.counts[LOCATED_NOWHERE], 1);
    assert_int_equal(located.counts[LOCATED_UNSURE], 1);        /* the first one in the other tail */
    assert_int_equal(located.counts[LOCATED], 4);
}

/* A file that ends between two records: newer records of all keys may have been after it. */
static void test_a_file_that_was_cut_off_makes_others_unsure(void **state)
{
    struct fixture *fixture = *state;
    struct known *known = add(fixture, DB, 20);
    struct segment *segment;
    struct locating located;
    char path[128];

    (void)add(fixture, DB, 20);
    write_all(fixture);
    append(fixture, known, 99, 20);
    write_all(fixture);
    segment = segments_pin(store_segments(fixture->store), known->place);
    snprintf(path, sizeof(path), "%s/%08llu.seg", fixture->dir, (unsigned long long)segment_sequence(segment));
    segments_unpin(segment);
    assert_int_equal(truncate(path, (off_t)place_offset(known->place)), 0);
    locate(fixture, 0, &located);
    assert_int_equal(located.counts[LOCATED_UNSURE], 2);
}

/* Segments that were written at the same time, with marks in between. Whatever is damaged, marks and footers too, what is sure is right. */
static void test_damage_in_several_tails(void **state)
{
    enum { ROUNDS = 40, WRITES = 60 };
    struct fixture *fixture = *state;
    uint64_t sure = 0, unsure = 0;
    struct random random;

    random_init(&random, seed_new());
    for (int round = 0; round < ROUNDS; round++) {
        struct locating located;

        for (int i = 0; i < WRITES; i++) {
            size_t first = random_below(&random, 20);

            for (size_t j = first; j < first + 5; j++) {
                fixture->tail = (unsigned)random_below(&random, 3);
                if (j < fixture->count)
                    append(fixture, &fixture->known[j], random_below(&random, 1000), random_below(&random, 100));
                else
                    (void)add(fixture, DB, random_below(&random, 100));
            }
            write_next(fixture);
        }
        write_all(fixture);
        locate(fixture, 0, &located);
        assert_int_equal(located.counts[LOCATED], fixture->count);
        for (uint64_t i = random_below(&random, 3); i < 3; i++)
            damage_anywhere(fixture, &random);
        locate(fixture, 0, &located);
        sure += located.counts[LOCATED];
        unsure += located.counts[LOCATED_UNSURE];
        assert_int_equal(tear_down(state) + set_up(state), 0);
        fixture = *state;
    }
    assert_true(sure > 0 && unsure > 0);
}

static bool list_section(void *context, const struct tags_section *section)
{
    struct recordmap *map = tags_section_map(section);
    struct recordmap_record record;
    struct recordmap_walk walk;

    recordmap_walk_begin(&walk, map, 0);
    while (recordmap_walk_next(&walk, &record))
        buffer_append_format(context, "%u/%u %llx@%llx%.*s\n", section->incarnation, section->partition, (unsigned long long)record.tag,
            (unsigned long long)record.place, (int)record.key.size, record.key.data);
    recordmap_destroy(map);
    return true;
}

static void list_tags(const struct buffer *file, struct buffer *text)
{
    uint32_t partition_count;

    assert_int_equal(tags_walk(buffer_bytes(file), &partition_count, list_section, text, NULL), STATUS_OK);
    assert_int_equal(partition_count, PARTITIONS);
}

static void test_a_tags_file_is_made(void **state)
{
    static const uint32_t incarnations[] = { DB, OTHER };
    struct fixture *fixture = *state;
    struct buffer made = { 0 }, found = { 0 }, wanted = { 0 };

    fill_store(fixture);
    assert_int_equal(tags_make(fixture->store, incarnations, 2, PARTITIONS, &made, &fixture->message), STATUS_OK);
    list_tags(&made, &found);
    list_tags(&fixture->tags, &wanted);
    assert_true(found.size > 1000 && bytes_equal(buffer_bytes(&found), buffer_bytes(&wanted)));
    buffer_release(&made);
    buffer_release(&found);
    buffer_release(&wanted);
    damage(fixture, fixture->known[0].place, 26);
    assert_int_equal(tags_make(fixture->store, incarnations, 2, PARTITIONS, &made, &fixture->message), STATUS_CORRUPT);
    assert_non_null(strstr(fixture->message.text, "of the key '"));
    buffer_release(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_live_records, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_groups_of_segments, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_empty, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_huge, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_twins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_damaged_record_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_damaged_dead_record_does_no_harm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_missing_segment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tags_that_are_wrong, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_newest_record_is_located, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage_makes_older_records_unsure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_damaged_mark_makes_others_unsure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage_ends_with_the_next_mark, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_that_was_cut_off_makes_others_unsure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tags_at_marks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage_in_several_tails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_tags_file_is_made, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
