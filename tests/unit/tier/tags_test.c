#include "tier/keyspaces.h"
#include "tier/tags.h"

#include "support/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc64.h"
#include "base/file.h"
#include "base/mapped.h"
#include "base/mem.h"
#include "base/meter.h"
#include "base/random.h"
#include "support/seed.h"
#include "store/segments.h"
#include "support/tier_box.h"
#include "tier/tags_private.h"

/* Sanitizers have memory of their own for each page that is touched. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { HAS_SANITIZER = 1 };
#else
enum { HAS_SANITIZER = 0 };
#endif

enum { PARTITIONS = 4 };

/* --- files in memory --- */

/* What a walk found, as text, so that two walks can be compared. */
static bool note_section(void *context, const struct tags_section *section)
{
    struct buffer *text = context;
    struct recordmap *map = tags_section_map(section);
    struct recordmap_record record;
    struct recordmap_walk walk;

    buffer_append_format(text, "%u/%u %llu:", section->incarnation, section->partition, (unsigned long long)section->count);
    recordmap_walk_begin(&walk, map, 0);
    while (recordmap_walk_next(&walk, &record))
        buffer_append_format(text, " %llx@%llx%s%.*s", (unsigned long long)record.tag, (unsigned long long)record.place, record.is_twin ? "+" : "",
            (int)record.key.size, record.key.data);
    assert_int_equal(recordmap_count(map), section->count);
    buffer_append_string(text, ";");
    recordmap_destroy(map);
    return true;
}

static enum status walk(struct bytes file, char text[2000])
{
    struct buffer found = { 0 };
    uint32_t partition_count;
    const char *problem = "";
    char *copy = mem_alloc(file.size > 0 ? file.size : 1);     /* of exactly its size, so that a sanitizer sees a step beyond it */
    enum status status;

    memcpy(copy, file.data, file.size);
    status = tags_walk(bytes_of(copy, file.size), &partition_count, note_section, &found, &problem);
    assert_int_equal(status == STATUS_OK, problem == NULL);
    if (status == STATUS_OK)
        assert_int_equal(partition_count, PARTITIONS);
    assert_true(found.size < 2000);
    snprintf(text, 2000, "%.*s", (int)found.size, found.data);
    buffer_release(&found);
    mem_free(copy);
    return status;
}

static void assert_walk(const struct buffer *file, const char *wanted)
{
    char text[2000];

    assert_int_equal(walk(buffer_bytes(file), text), STATUS_OK);
    assert_string_equal(text, wanted);
}

static void assert_refused(const struct buffer *file)
{
    char text[2000];

    assert_int_equal(walk(buffer_bytes(file), text), STATUS_CORRUPT);
    assert_string_equal(text, "");
}

static struct recordmap_record primary(uint64_t tag, uint64_t place)
{
    return (struct recordmap_record){ .tag = tag, .place = place };
}

static struct recordmap_record twin(uint64_t tag, uint64_t place, const char *key)
{
    return (struct recordmap_record){ .tag = tag, .place = place, .is_twin = true, .key = bytes_of(key, key == NULL ? 0 : strlen(key)) };
}

static void add_map(struct buffer *file, uint32_t incarnation, uint32_t partition, const struct recordmap_record *records, size_t count)
{
    struct recordmap *map = recordmap_create(0, 0);

    for (size_t i = 0; i < count; i++)
        recordmap_add(map, records[i].tag, records[i].key, records[i].place);
    tags_add(file, incarnation, partition, map, bytes_of(NULL, 0));
    recordmap_destroy(map);
}

static void make_sample(struct buffer *file)
{
    const struct recordmap_record first[] = { primary(0, 0), primary(1, 0x123456789ab), primary(0x3ffffffff, (1ull << RECORDMAP_PLACE_BITS) - 1) };
    const struct recordmap_record second[] = { primary(5, 0), twin(5, 0, NULL), twin(5, 7, "key"), twin(5, 0, ""), primary(600, 8) };
    const struct recordmap_record third[] = { primary(77, 0) };

    tags_begin(file, PARTITIONS, false);
    add_map(file, 3, 0, first, 3);
    add_map(file, 1, 2, second, 5);
    add_map(file, 2, 2, third, 1);
    tags_end(file);
}

/* Replaces the end. */
static void seal(struct buffer *file)
{
    uint64_t crc;

    file->size -= 8;
    crc = crc64(0, bytes_of(file->data, file->size - 4));
    buffer_append(file, &crc, 8);
}

static void a_file_holds_places_and_keys_of_twins(void **state)
{
    struct buffer file = { 0 };

    make_sample(&file);
    assert_walk(&file, "3/0 3: 0@0 1@123456789ab 3ffffffff@7fffffffffff;1/2 5: 5@0 5@0+ 5@7+key 5@0+ 258@8;2/2 1: 4d@0;");
    buffer_release(&file);
}

/* Of a Kelvin whose maps had no tag shift: zeros were in its place. */
static void a_file_of_the_version_before_is_read(void **state)
{
    struct buffer file = { 0 };

    make_sample(&file);
    assert_memory_equal(file.data, "KTAGS5\n", 8);
    file.data[5] = '4';
    seal(&file);
    assert_walk(&file, "3/0 3: 0@0 1@123456789ab 3ffffffff@7fffffffffff;1/2 5: 5@0 5@0+ 5@7+key 5@0+ 258@8;2/2 1: 4d@0;");
    buffer_release(&file);
}

static void a_changed_byte_is_refused(void **state)
{
    struct buffer file = { 0 };

    make_sample(&file);
    for (size_t i = 0; i < file.size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            file.data[i] = (char)(file.data[i] ^ 1 << bit);
            assert_refused(&file);
            file.data[i] = (char)(file.data[i] ^ 1 << bit);
        }
    }
    for (size_t size = file.size; size-- > 0; ) {
        file.size = size;
        assert_refused(&file);
    }
    buffer_release(&file);
}

/* As from a program with a bug: the checksum is right. Whatever is accepted can be loaded. */
static void a_changed_byte_with_a_right_checksum_does_no_harm(void **state)
{
    struct buffer sample = { 0 }, file = { 0 };
    struct random random;
    int refused = 0;
    char text[2000];

    make_sample(&sample);
    random_init(&random, 1);
    for (int round = 0; round < 20000; round++) {
        size_t at = 12 + random_below(&random, sample.size - 24);

        file.size = 0;
        buffer_append_bytes(&file, buffer_bytes(&sample));
        file.data[at] = (char)(round % 2 == 0 ? random_next(&random) : (uint64_t)file.data[at] ^ 1ull << random_below(&random, 8));
        if (round % 3 == 0)
            file.data[12 + random_below(&random, sample.size - 24)] = (char)random_next(&random);
        seal(&file);
        refused += walk(buffer_bytes(&file), text) != STATUS_OK;
    }
    assert_in_range(refused, 3000, 19999);
    buffer_release(&sample);
    buffer_release(&file);
}

/* Two sections of one record each. Returns where the second one begins. */
static size_t make_two(struct buffer *file, uint32_t incarnation, uint32_t partition)
{
    const struct recordmap_record record = primary(4, 0);
    size_t begin;

    tags_begin(file, PARTITIONS, false);
    add_map(file, 2, 1, &record, 1);
    begin = file->size;
    add_map(file, incarnation, partition, &record, 1);
    tags_end(file);
    return begin;
}

static void assert_section_refused(uint32_t incarnation, uint32_t partition, int more)
{
    struct buffer file = { 0 };
    size_t begin = make_two(&file, incarnation, partition);

    file.data[begin + offsetof(struct tags_section_head, count)] += (char)more;
    seal(&file);
    assert_refused(&file);
    buffer_release(&file);
}

static void what_cannot_be_in_a_map_is_refused(void **state)
{
    struct buffer file = { 0 };

    (void)make_two(&file, 3, 1);
    assert_walk(&file, "2/1 1: 4@0;3/1 1: 4@0;");
    buffer_release(&file);
    assert_section_refused(3, 0, 0);                /* partitions descend */
    assert_section_refused(2, 1, 0);                /* the same map again */
    assert_section_refused(1, 1, 0);
    assert_section_refused(3, PARTITIONS, 0);
    assert_section_refused(0, 1, 0);
    assert_section_refused(3, 1, 1);                /* fewer records than it says */
    assert_section_refused(3, 1, -1);               /* more */
}

/* --- a large file, mapped --- */

enum { LARGE_SECTIONS = 16, LARGE_RECORDS = 250000 };

struct large {
    struct bytes file;
    uint64_t resident;              /* before */
    uint64_t sum, count;
};

static bool sum_section(void *context, const struct tags_section *section)
{
    struct large *large = context;
    struct recordmap *map = tags_section_map(section);
    struct recordmap_record record;
    struct recordmap_walk walk;

    recordmap_walk_begin(&walk, map, 0);
    while (recordmap_walk_next(&walk, &record)) {
        large->sum = large->sum * 31 + record.place;
        large->count++;
    }
    recordmap_destroy(map);
    return true;
}

static void make_large(struct buffer *file)
{
    struct recordmap_record *records = mem_alloc(LARGE_RECORDS * sizeof(*records));

    tags_begin(file, PARTITIONS, false);
    for (uint32_t section = 0; section < LARGE_SECTIONS; section++) {
        for (uint64_t i = 0; i < LARGE_RECORDS; i++)
            records[i] = primary(i * 1000 + section, i * 7);
        add_map(file, section + 1, 0, records, LARGE_RECORDS);
    }
    tags_end(file);
    mem_free(records);
}

/* With its parts forgotten as they are read, not all of it is in memory at a time. */
static void a_large_file_is_read_part_by_part(void **state)
{
    char path[] = "/tmp/kelvin-tags-XXXXXX";
    int fd = mkstemp(path);
    struct buffer file = { 0 };
    struct large at_once = { .count = 0 }, parts = { 0 };
    struct tags_file tags = { .passed = mapped_forget };
    struct mapped mapped;
    struct message message;
    const char *problem;
    uint32_t count;

    make_large(&file);
    assert_int_equal(tags_walk(buffer_bytes(&file), &count, sum_section, &at_once, NULL), STATUS_OK);
    assert_int_equal(at_once.count, LARGE_SECTIONS * LARGE_RECORDS);
    assert_int_equal(file_write_all(disk_system(), fd, buffer_bytes(&file)), STATUS_OK);
    assert_true(mapped_open(path, &mapped, &message));
    tags.bytes = parts.file = mapped.bytes;
    parts.resident = meter_resident();
    assert_int_equal(tags_walk_file(&tags, &count, sum_section, &parts, &problem), STATUS_OK);
    assert_true(parts.sum == at_once.sum && parts.count == at_once.count);
    assert_true(HAS_SANITIZER || meter_resident() < parts.resident + parts.file.size / 4);
    assert_int_equal(pwrite(fd, "x", 1, (off_t)file.size / 2), 1);
    assert_int_equal(tags_walk_file(&tags, &count, sum_section, &parts, &problem), STATUS_CORRUPT);
    assert_string_equal(problem, "its checksum is wrong");
    mapped_close(&mapped);
    buffer_release(&file);
    close(fd);
    unlink(path);
}

/* --- into and out of maps --- */

static void open_box_of(struct tier_box *box, struct box_client **client, bool by_slot)
{
    struct tier_box_options options = { .seed = seed_new(), .partition_count = PARTITIONS, .by_slot = by_slot };

    tier_box_create(box, &options);
    *client = tier_box_open_client(box, 0);
}

static void open_box(struct tier_box *box, struct box_client **client)
{
    open_box_of(box, client, false);
}

static void close_box(struct tier_box *box, struct box_client *client)
{
    tier_box_close_client(client);
    tier_box_turn(&box->workers[0], BOX_NO_WAIT);
    tier_box_destroy(box);
}

/* Nothing else uses the maps: no command runs. */
static struct recordmap *map_of(struct tier_box *box, int db, uint32_t index)
{
    struct partition *partition = &box->partitions->partitions[index];
    struct recordmap *map;

    partition_lock(partition);
    map = partition_keyspace(partition, db)->tier->map;
    partition_unlock(partition);
    return map;
}

static void fill_maps(struct tier_box *box)
{
    struct random random;
    char key[20];

    random_init(&random, 9);
    for (int i = 0; i < 6000; i++) {
        uint32_t index = (uint32_t)random_below(&random, PARTITIONS - 1);       /* one stays empty */
        int db = (int)random_below(&random, 2);
        uint64_t tag = random_below(&random, db == 0 ? 1 << 12 : 1ull << 34);
        struct recordmap *map = map_of(box, db, index);

        snprintf(key, sizeof(key), "key%d", i);
        recordmap_add(map, tag << recordmap_tag_shift(map), bytes_of_string(key), random_below(&random, index == 0 ? 1 : 1ull << (14 * index + 12)));
    }
}

static bool record_equal(const struct recordmap_record *a, const struct recordmap_record *b)
{
    return a->tag == b->tag && a->place == b->place && a->is_twin == b->is_twin &&
           bytes_equal(a->key, b->key);
}

static void assert_maps_equal(struct tier_box *a, struct tier_box *b)
{
    for (uint32_t i = 0; i < PARTITIONS * 2; i++) {
        struct recordmap *first = map_of(a, (int)i % 2, i / 2), *second = map_of(b, (int)i % 2, i / 2);
        struct recordmap_walk walks[2];
        struct recordmap_record records[2];

        assert_int_equal(recordmap_count(first), recordmap_count(second));
        assert_int_equal(recordmap_twin_count(first), recordmap_twin_count(second));
        recordmap_walk_begin(&walks[0], first, 0);
        recordmap_walk_begin(&walks[1], second, 0);
        while (recordmap_walk_next(&walks[0], &records[0])) {
            assert_true(recordmap_walk_next(&walks[1], &records[1]));
            assert_true(record_equal(&records[0], &records[1]));
        }
    }
}

/* By slot: the records that fill_maps has not counted. */
static void count_by_slot(struct tier_box *box)
{
    for (uint32_t i = 0; i < PARTITIONS * 2; i++) {
        struct partition *partition = &box->partitions->partitions[i / 2];
        struct keyspace *keyspace;

        partition_lock(partition);
        keyspace = partition_keyspace(partition, (int)i % 2);
        for (uint64_t left = recordmap_count(keyspace->tier->map); left > 0; left--)
            keyspace_count_records(keyspace, partition_first_hash(partition) | (left * left % partition_slot_count(box->partitions)) << SLOT_SHIFT, 1);
        partition_unlock(partition);
    }
}

static void assert_slots_equal(struct tier_box *a, struct tier_box *b)
{
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        const struct slot_counts *first = a->partitions->partitions[i].keyspaces[0]->slots, *second = b->partitions->partitions[i].keyspaces[0]->slots;

        assert_memory_equal(first, second, partition_slot_count(a->partitions) * sizeof(*first));
    }
}

static void empty_maps(struct tier_box *box)
{
    for (uint32_t i = 0; i < box->partitions->count; i++) {
        struct partition *partition = &box->partitions->partitions[i];

        partition_lock(partition);
        for (int db = 0; db < box->partitions->db_count; db++) {
            if (partition_keyspace_if(partition, db) != NULL)
                keyspaces_empty_map(partition->keyspaces[db]);
        }
        partition_unlock(partition);
    }
}

static enum status load(struct tier_box *box, const char *dir)
{
    struct tags_weights weights;
    enum status status = tags_load(box->partitions, dir, NULL, &weights);

    mem_free(weights.list);
    return status;
}

static void counts_by_slot_are_saved_and_loaded(void **state)
{
    struct tier_box from, to, plain;
    struct box_client *client, *other, *third;

    open_box_of(&from, &client, true);
    open_box_of(&to, &other, true);
    open_box(&plain, &third);
    fill_maps(&from);
    count_by_slot(&from);
    assert_int_equal(tags_save(from.tier, from.root), STATUS_OK);
    assert_int_equal(load(&plain, from.root), STATUS_CORRUPT);       /* hashes of the other kind */
    assert_int_equal(load(&to, from.root), STATUS_OK);
    assert_maps_equal(&from, &to);
    assert_slots_equal(&from, &to);
    empty_maps(&to);
    partition_lock(&from.partitions->partitions[0]);
    keyspace_count_records(from.partitions->partitions[0].keyspaces[0], 0, 1);
    partition_unlock(&from.partitions->partitions[0]);
    assert_int_equal(tags_save(from.tier, from.root), STATUS_OK);
    assert_int_equal(load(&to, from.root), STATUS_CORRUPT);             /* one more than there are records */
    assert_int_equal(tags_save(plain.tier, plain.root), STATUS_OK);
    assert_int_equal(load(&to, plain.root), STATUS_CORRUPT);
    close_box(&from, client);
    close_box(&to, other);
    close_box(&plain, third);
}

static void what_is_saved_is_loaded(void **state)
{
    struct tier_box from, to;
    struct box_client *client, *other;

    open_box(&from, &client);
    open_box(&to, &other);
    fill_maps(&from);
    assert_int_equal(tags_save(from.tier, from.root), STATUS_OK);
    assert_int_equal(load(&to, from.root), STATUS_OK);
    assert_maps_equal(&from, &to);
    close_box(&from, client);
    close_box(&to, other);
}

static void path_of(struct tier_box *box, char path[300])
{
    snprintf(path, 300, "%s/tags", box->root);
}

/* The head, the list of segments, each chunk of each map. */
static void damage_anywhere_in_a_saved_file_is_noticed(void **state)
{
    enum { STEP = 1999 };
    struct tier_box from, to;
    struct box_client *client, *other;
    struct buffer file = { 0 };
    char path[300];
    int fd;

    open_box(&from, &client);
    open_box(&to, &other);
    fill_maps(&from);
    path_of(&from, path);
    assert_int_equal(tags_save(from.tier, from.root), STATUS_OK);
    assert_int_equal(file_read_all(disk_system(), AT_FDCWD, path, SIZE_MAX / 2, &file), STATUS_OK);
    assert_true(file.size > 10 * STEP);
    fd = open(path, O_WRONLY);
    for (size_t at = 0; at < file.size; at += STEP) {
        char byte = (char)(file.data[at] ^ 16);

        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
        assert_int_equal(load(&to, from.root), STATUS_CORRUPT);
        for (int db = 0; db < 2; db++)
            for (uint32_t i = 0; i < PARTITIONS; i++)
                assert_int_equal(recordmap_count(map_of(&to, db, i)), 0);
        assert_int_equal(pwrite(fd, &file.data[at], 1, (off_t)at), 1);
    }
    assert_int_equal(ftruncate(fd, (off_t)file.size - 8), 0);
    assert_int_equal(load(&to, from.root), STATUS_CORRUPT);
    assert_int_equal(pwrite(fd, file.data, file.size, 0), file.size);
    assert_int_equal(load(&to, from.root), STATUS_OK);
    assert_maps_equal(&from, &to);
    close(fd);
    buffer_release(&file);
    close_box(&from, client);
    close_box(&to, other);
}

/* A map is written in parts, of some chunks. */
static void twins_in_a_map_of_several_parts_are_saved_once(void **state)
{
    struct tier_box from, to;
    struct box_client *client, *other;
    struct recordmap *map;
    unsigned shift;

    open_box(&from, &client);
    open_box(&to, &other);
    fill_maps(&from);
    map = map_of(&from, 0, 0);
    shift = recordmap_tag_shift(map) + 10;
    for (uint64_t tag = 0; tag < 20000; tag++)
        if (!recordmap_maybe(map, tag << shift))
            recordmap_add(map, tag << shift, BYTES("first"), tag + 1);
    for (uint64_t tag = 2000; tag < 3200; tag++)
        for (int twin = 0; twin < 3; twin++)
            recordmap_add(map, tag << shift, bytes_of(&"twin"[twin], 4 - (size_t)twin), 100 + tag);
    assert_int_equal(tags_save(from.tier, from.root), STATUS_OK);
    assert_int_equal(load(&to, from.root), STATUS_OK);
    assert_maps_equal(&from, &to);
    assert_true(recordmap_count(map) >= 23600);
    close_box(&from, client);
    close_box(&to, other);
}

/* --- map files --- */

enum { IMAGES = 10 };

/* Two servers: one writes images, the other loads them. */
struct pair {
    struct tier_box from, to;
    struct box_client *clients[2];
    char dir[400];                  /* of the last image */
    int images;
    struct random random;
};

static void open_pair(struct pair *pair)
{
    open_box(&pair->from, &pair->clients[0]);
    open_box(&pair->to, &pair->clients[1]);
    pair->from.tier->map_file_min = 1;
    pair->to.tier->map_file_min = 1;
    pair->images = 0;
    random_init(&pair->random, 4);
    fill_maps(&pair->from);
}

static void close_pair(struct pair *pair)
{
    close_box(&pair->from, pair->clients[0]);
    close_box(&pair->to, pair->clients[1]);
}

static void save_image(struct pair *pair)
{
    snprintf(pair->dir, sizeof(pair->dir), "%s/image%d", pair->from.root, pair->images++);
    assert_int_equal(mkdir(pair->dir, 0755), 0);
    assert_int_equal(tags_save(pair->from.tier, pair->dir), STATUS_OK);
}

/* Moves some records of each map. */
static void move_some(struct tier_box *box, struct random *random, uint64_t one_in)
{
    for (uint32_t i = 0; i < PARTITIONS * 2; i++) {
        struct recordmap *map = map_of(box, (int)i % 2, i / 2);
        struct recordmap_record record;
        struct recordmap_walk walk;

        for (uint64_t from = 0; recordmap_count(map) > 0; from = record.tag + 1) {
            recordmap_walk_begin(&walk, map, from);
            if (!recordmap_walk_next(&walk, &record))
                break;
            if (random_below(random, one_in) == 0)
                recordmap_move(map, record.tag << recordmap_tag_shift(map), record.key, record.place, record.place + 2);
        }
    }
}

/* The map files of a directory, with the numbers of their inodes. */
static size_t list_maps(const char *dir, ino_t inodes[100])
{
    DIR *list = opendir(dir);
    struct dirent *entry;
    struct stat info;
    size_t count = 0;

    assert_non_null(list);
    while ((entry = readdir(list)) != NULL) {
        if (strstr(entry->d_name, ".map") == NULL)
            continue;
        assert_int_equal(fstatat(dirfd(list), entry->d_name, &info, 0), 0);
        assert_true(count < 100);
        inodes[count++] = info.st_ino;
    }
    closedir(list);
    return count;
}

static size_t common(const ino_t *first, size_t first_count, const ino_t *second, size_t second_count)
{
    size_t found = 0;

    for (size_t i = 0; i < first_count; i++)
        for (size_t k = 0; k < second_count; k++)
            found += first[i] == second[k];
    return found;
}

static void images_share_the_maps_that_have_changed_little(void **state)
{
    struct pair pair;
    ino_t before[100], now[100];
    size_t count, maps;

    open_pair(&pair);
    save_image(&pair);
    maps = list_maps(pair.dir, before);
    assert_int_equal(maps, 2 * (PARTITIONS - 1));
    move_some(&pair.from, &pair.random, 50);
    save_image(&pair);
    count = list_maps(pair.dir, now);
    assert_int_equal(common(before, maps, now, count), maps);               /* all of them */
    move_some(&pair.from, &pair.random, 2);
    save_image(&pair);
    count = list_maps(pair.dir, now);
    assert_in_range(common(before, maps, now, count), 0, PARTITIONS - 1);   /* those of database 0, whose tags are all in one range, may be the same */
    assert_int_equal(count, maps);
    assert_int_equal(list_maps(pair.from.tier->dir, before), maps);         /* the old ones are gone */
    assert_int_equal(load(&pair.to, pair.dir), STATUS_OK);
    assert_maps_equal(&pair.from, &pair.to);
    close_pair(&pair);
}

/* A server that started from an image shares its maps, too; what it changed is in its images. */
static void images_after_a_start_have_all_changes(void **state)
{
    struct pair pair;
    char dir[400];
    ino_t first[100], now[100];
    size_t maps, shared = 0;

    open_pair(&pair);
    save_image(&pair);
    for (int image = 0; image < IMAGES; image++) {
        maps = list_maps(pair.dir, first);
        empty_maps(&pair.to);
        assert_int_equal(load(&pair.to, pair.dir), STATUS_OK);
        tags_adopt_maps(pair.to.tier, pair.dir);
        move_some(&pair.to, &pair.random, 30);
        snprintf(dir, sizeof(dir), "%s/image%d", pair.to.root, image);
        assert_int_equal(mkdir(dir, 0755), 0);
        assert_int_equal(tags_save(pair.to.tier, dir), STATUS_OK);
        shared += common(first, maps, now, list_maps(dir, now));
        empty_maps(&pair.from);
        assert_int_equal(load(&pair.from, dir), STATUS_OK);
        assert_maps_equal(&pair.from, &pair.to);
        snprintf(pair.dir, sizeof(pair.dir), "%s", dir);
    }
    assert_in_range(shared, maps, IMAGES * maps - 1);
    close_pair(&pair);
}

/* From the kernel, in bytes: the most that was resident since forget_peak. False: the kernel does not say it. */
static bool forget_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    bool is_forgotten = fd >= 0 && write(fd, "5", 1) == 1;

    if (fd >= 0)
        close(fd);
    return is_forgotten;
}

static uint64_t peak_resident(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    unsigned long long kilobytes = 0;
    char line[200];

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL && sscanf(line, "VmHWM: %llu kB", &kilobytes) != 1)
        ;
    fclose(file);
    return kilobytes * 1024;
}

/* Changes of several MiB are written in parts; the sections before and after them are right, too. */
static void changes_are_not_gathered_in_memory(void **state)
{
    enum { RECORDS = 1500000, CHANGES_MIN = 4000000, MEMORY_MAX = 5 << 19 };
    struct pair pair;
    struct recordmap *map;
    struct stat info;
    char path[500];
    uint64_t before;

    open_pair(&pair);
    map = map_of(&pair.from, 1, 1);
    for (uint64_t i = 0; i < RECORDS; i++)
        recordmap_add(map, random_next(&pair.random), BYTES("key"), 1ull << 32 | i);
    save_image(&pair);
    move_some(&pair.from, &pair.random, 4);
    meter_purge();
    before = meter_resident();
    if (forget_peak())
        save_image(&pair);
    else
        skip();
    assert_true(HAS_SANITIZER || peak_resident() < before + MEMORY_MAX);
    snprintf(path, sizeof(path), "%s/tags", pair.dir);
    assert_int_equal(stat(path, &info), 0);
    assert_in_range(info.st_size, CHANGES_MIN, 2 * CHANGES_MIN);
    assert_int_equal(load(&pair.to, pair.dir), STATUS_OK);
    assert_maps_equal(&pair.from, &pair.to);
    close_pair(&pair);
}

static void assert_nothing_is_loaded(struct pair *pair)
{
    assert_int_equal(load(&pair->to, pair->dir), STATUS_CORRUPT);
    for (uint32_t i = 0; i < PARTITIONS * 2; i++)
        assert_int_equal(recordmap_count(map_of(&pair->to, (int)i % 2, i / 2)), 0);
}

static void a_map_file_that_is_damaged_missing_or_another_is_noticed(void **state)
{
    struct pair pair;
    char path[500], aside[500], next[500];
    struct stat info;
    int fd;

    open_pair(&pair);
    save_image(&pair);
    move_some(&pair.from, &pair.random, 50);
    save_image(&pair);
    for (int number = 1; number <= 2 * (PARTITIONS - 1); number++) {
        snprintf(path, sizeof(path), "%s/%08d.map", pair.dir, number);
        snprintf(aside, sizeof(aside), "%s/aside", pair.dir);
        snprintf(next, sizeof(next), "%s/%08d.map", pair.dir, number % (2 * (PARTITIONS - 1)) + 1);
        fd = open(path, O_RDWR);
        assert_true(fd >= 0 && fstat(fd, &info) == 0);
        for (off_t at = 0; at < info.st_size; at += 997) {
            char byte, changed;

            assert_int_equal(pread(fd, &byte, 1, at), 1);
            changed = (char)(byte ^ 4);
            assert_int_equal(pwrite(fd, &changed, 1, at), 1);
            assert_nothing_is_loaded(&pair);
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        }
        close(fd);
        assert_int_equal(rename(path, aside), 0);
        assert_nothing_is_loaded(&pair);
        assert_int_equal(link(next, path), 0);          /* another map's */
        assert_nothing_is_loaded(&pair);
        assert_int_equal(rename(aside, path), 0);
    }
    assert_int_equal(load(&pair.to, pair.dir), STATUS_OK);
    assert_maps_equal(&pair.from, &pair.to);
    close_pair(&pair);
}

/* An image that failed changes nothing: the next one has what changed before it, too. */
static void an_image_that_fails_leaves_the_changes(void **state)
{
    struct recordmap *last;
    struct pair pair;
    char dir[400];

    open_pair(&pair);
    save_image(&pair);
    last = map_of(&pair.from, 1, PARTITIONS - 2);
    for (int round = 0; round < 4; round++) {
        move_some(&pair.from, &pair.random, 60);
        recordmap_add(last, 1ull << 33 | 5, BYTES("nowhere"), PLACE_NOWHERE);
        snprintf(dir, sizeof(dir), "%s/failed%d", pair.from.root, round);
        assert_int_equal(mkdir(dir, 0755), 0);
        assert_int_equal(tags_save(pair.from.tier, dir), STATUS_CORRUPT);
        recordmap_remove(last, 1ull << 33 | 5, BYTES("nowhere"), PLACE_NOWHERE);
        move_some(&pair.from, &pair.random, 60);
        save_image(&pair);
        empty_maps(&pair.to);
        assert_int_equal(load(&pair.to, pair.dir), STATUS_OK);
        assert_maps_equal(&pair.from, &pair.to);
    }
    close_pair(&pair);
}

/* Where there are no hard links, an image has all of its maps in `tags`. */
static void without_links_the_maps_are_in_the_file(void **state)
{
    struct pair pair;
    ino_t inodes[100];
    char path[500];

    open_pair(&pair);
    save_image(&pair);
    snprintf(pair.dir, sizeof(pair.dir), "%s/image%d", pair.from.root, pair.images);
    assert_int_equal(mkdir(pair.dir, 0755), 0);
    for (int number = 1; number < 20; number++) {           /* the names are taken */
        snprintf(path, sizeof(path), "%s/%08d.map", pair.dir, number);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    move_some(&pair.from, &pair.random, 60);
    assert_int_equal(tags_save(pair.from.tier, pair.dir), STATUS_OK);
    assert_int_equal(load(&pair.to, pair.dir), STATUS_OK);
    assert_maps_equal(&pair.from, &pair.to);
    assert_int_equal(list_maps(pair.from.tier->dir, inodes), 0);
    pair.images++;
    save_image(&pair);
    assert_int_equal(list_maps(pair.dir, inodes), 2 * (PARTITIONS - 1));
    empty_maps(&pair.to);
    assert_int_equal(load(&pair.to, pair.dir), STATUS_OK);
    assert_maps_equal(&pair.from, &pair.to);
    close_pair(&pair);
}

static void write_file(struct tier_box *box, struct bytes text)
{
    char path[300];
    FILE *file;

    path_of(box, path);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text.data, 1, text.size, file), text.size);
    assert_int_equal(fclose(file), 0);
}

static void a_damaged_file_loads_nothing(void **state)
{
    struct tier_box box;
    struct box_client *client;
    struct buffer file = { 0 };
    char *count;

    open_box(&box, &client);
    make_sample(&file);
    assert_int_equal(load(&box, box.root), STATUS_NOT_FOUND);
    file.data[file.size - 20]++;
    write_file(&box, buffer_bytes(&file));
    assert_int_equal(load(&box, box.root), STATUS_CORRUPT);
    file.data[file.size - 20]--;
    count = memmem(file.data, file.size, "\2\0\0\0\2\0\0\0\1", 9);       /* the last section's incarnation, partition and records */
    assert_non_null(count);
    count[8]++;                                 /* a wrong number, with the right checksum */
    seal(&file);
    write_file(&box, buffer_bytes(&file));
    assert_int_equal(load(&box, box.root), STATUS_CORRUPT);
    assert_int_equal(recordmap_count(map_of(&box, 0, 2)), 0);
    count[8]--;
    seal(&file);
    write_file(&box, buffer_bytes(&file));
    assert_int_equal(load(&box, box.root), STATUS_OK);
    assert_int_equal(recordmap_count(map_of(&box, 0, 2)), 5);
    file.data[8]++;                             /* of a server with another number of partitions */
    seal(&file);
    write_file(&box, buffer_bytes(&file));
    assert_int_equal(load(&box, box.root), STATUS_CORRUPT);
    assert_int_equal(recordmap_count(map_of(&box, 0, 2)), 0);
    buffer_release(&file);
    close_box(&box, client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_holds_places_and_keys_of_twins),
        cmocka_unit_test(a_file_of_the_version_before_is_read),
        cmocka_unit_test(a_changed_byte_is_refused),
        cmocka_unit_test(a_changed_byte_with_a_right_checksum_does_no_harm),
        cmocka_unit_test(what_cannot_be_in_a_map_is_refused),
        cmocka_unit_test(a_large_file_is_read_part_by_part),
        cmocka_unit_test(what_is_saved_is_loaded),
        cmocka_unit_test(counts_by_slot_are_saved_and_loaded),
        cmocka_unit_test(damage_anywhere_in_a_saved_file_is_noticed),
        cmocka_unit_test(twins_in_a_map_of_several_parts_are_saved_once),
        cmocka_unit_test(images_share_the_maps_that_have_changed_little),
        cmocka_unit_test(changes_are_not_gathered_in_memory),
        cmocka_unit_test(images_after_a_start_have_all_changes),
        cmocka_unit_test(a_map_file_that_is_damaged_missing_or_another_is_noticed),
        cmocka_unit_test(an_image_that_fails_leaves_the_changes),
        cmocka_unit_test(without_links_the_maps_are_in_the_file),
        cmocka_unit_test(a_damaged_file_loads_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
