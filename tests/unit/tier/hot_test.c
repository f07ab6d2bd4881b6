/* The file of hot keys: what is written comes back; whatever is read instead is refused or harmless. */
#include "support/unit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc64.h"
#include "base/mem.h"
#include "base/random.h"
#include "keyspace/heat.h"
#include "support/tier_box.h"
#include "tier/hot.h"
#include "tier/warm.h"

enum { KEYS = 5000 };

struct rig {
    struct tier_box box;
    struct box_client *c;
    struct random random;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new() };

    tier_box_create(&rig->box, &options);
    rig->c = tier_box_open_client(&rig->box, 0);
    random_init(&rig->random, options.seed);
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    tier_box_close_client(rig->c);
    tier_box_destroy(&rig->box);
    mem_free(rig);
    return 0;
}

/* Keys of two databases, with heats of their own; some on probation. */
static void fill(struct rig *rig, int count)
{
    char line[64], key[32];

    for (int i = 0; i < count; i++) {
        struct entry *entry;
        struct keyspace *keyspace;
        uint64_t hash;
        int db = i % 3 == 0;

        rig->c->client.db = db;
        snprintf(key, sizeof(key), "key%d", i);
        snprintf(line, sizeof(line), "SET %s v", key);
        assert_string_equal(tier_box_say(rig->c, line), "+OK\n");
        keyspace = tier_box_keyspace(&rig->box, db, bytes_of_string(key), &hash);
        partition_lock(keyspace->partition);
        entry = keyspace_entry(keyspace, keyspace_find(keyspace, hash, bytes_of_string(key)));
        entry->heat = (uint8_t)(random_below(&rig->random, 8) * 30);
        entry->heat_minutes = heat_minutes(clock_wall_ms());
        keyspace_set_probation(keyspace, entry, random_below(&rig->random, 4) == 0);
        partition_unlock(keyspace->partition);
    }
}

static void save(struct rig *rig, struct hot_file *file)
{
    assert_int_equal(hot_save(rig->box.tier, rig->box.root, warm_pending(rig->box.tier->warm)), STATUS_OK);
    assert_int_equal(hot_open(rig->box.root, rig->box.partitions->count, file), STATUS_OK);
}

/* The rank the file has for a key; -1: none. */
static int rank_of(struct rig *rig, const struct hot_file *file, int db, const char *key)
{
    uint64_t hash = key_hash(&rig->box.partitions->seed, bytes_of_string(key));
    int rank = -1;

    for (size_t i = 0; i < file->section_count; i++) {
        const struct hot_section *section = &file->sections[i];

        if (section->incarnation != rig->box.partitions->incarnations[db] ||
            section->partition != partition_index(rig->box.partitions, hash))
            continue;
        for (uint32_t n = 0; n < section->group_count; n++) {
            uint64_t *hashes = mem_alloc(section->groups[n].count * sizeof(*hashes));

            assert_int_equal(hot_read(file, section, &section->groups[n], hashes), STATUS_OK);
            for (uint32_t at = 0; at < section->groups[n].count; at++) {
                assert_true(at == 0 || hashes[at] >= hashes[at - 1]);
                if (hashes[at] == hash)
                    rank = section->groups[n].rank;
            }
            mem_free(hashes);
        }
    }
    return rank;
}

static void every_hot_key_is_written_with_its_rank(void **state)
{
    struct rig *rig = *state;
    struct hot_file file;
    char key[32];

    fill(rig, KEYS);
    assert_int_equal(tier_demote(rig->box.tier, 0, BYTES("key1")), TIER_MOVED);
    save(rig, &file);
    assert_int_equal(file.key_count, KEYS - 1);
    for (int i = 0; i < KEYS; i += 17) {
        int db = i % 3 == 0, rank;
        struct entry *entry;

        snprintf(key, sizeof(key), "key%d", i);
        entry = tier_box_entry(&rig->box, db, key);
        rank = rank_of(rig, &file, db, key);
        assert_int_equal(rank & 255, entry->heat);
        assert_int_equal(rank >= 256, !(entry->flags & ENTRY_PROBATION));
        assert_int_equal(rank_of(rig, &file, !db, key), -1);
    }
    assert_int_equal(rank_of(rig, &file, 0, "key1"), -1);
    for (size_t i = 1; i < file.section_count; i++)
        assert_true(file.sections[i - 1].incarnation <= file.sections[i].incarnation);
    hot_close(&file);
}

static void nothing_hot_is_a_file_without_keys(void **state)
{
    struct rig *rig = *state;
    struct hot_file file;

    save(rig, &file);
    assert_true(file.key_count == 0 && file.section_count == 0);
    hot_close(&file);
    assert_int_equal(hot_open(rig->box.root, rig->box.partitions->count * 2, &file), STATUS_CORRUPT);
    assert_int_equal(hot_open("/nowhere", 4, &file), STATUS_NOT_FOUND);
    assert_int_not_equal(hot_save(rig->box.tier, "/nowhere", warm_pending(rig->box.tier->warm)), STATUS_OK);
}

struct text {
    char path[300];
    uint8_t *data;
    size_t size;
};

static void text_read(struct rig *rig, struct text *text)
{
    int fd;

    snprintf(text->path, sizeof(text->path), "%s/hot", rig->box.root);
    fd = open(text->path, O_RDONLY);
    text->size = (size_t)lseek(fd, 0, SEEK_END);
    text->data = mem_alloc(text->size);
    assert_int_equal(pread(fd, text->data, text->size, 0), text->size);
    close(fd);
}

static void text_write(const struct text *text, size_t size)
{
    int fd = open(text->path, O_WRONLY | O_TRUNC);

    assert_int_equal(write(fd, text->data, size), size);
    close(fd);
}

static void read_all(struct rig *rig, const struct text *text)
{
    struct hot_file file;
    uint64_t total = 0;

    if (hot_open(rig->box.root, rig->box.partitions->count, &file) != STATUS_OK)
        return;
    for (size_t i = 0; i < file.section_count; i++) {
        for (uint32_t n = 0; n < file.sections[i].group_count; n++) {
            const struct hot_group *group = &file.sections[i].groups[n];
            uint64_t *hashes = mem_alloc(group->count * sizeof(*hashes));

            BOX_DEMAND(&rig->box, group->count <= text->size, "more keys than bytes");
            if (hot_read(&file, &file.sections[i], group, hashes) == STATUS_OK) {
                for (uint32_t at = 0; at < group->count; at++)
                    BOX_DEMAND(&rig->box, hashes[at] >> 62 == file.sections[i].partition, "a hash of another partition");
            }
            mem_free(hashes);
            total += group->count;
        }
    }
    BOX_DEMAND(&rig->box, total == file.key_count && total <= text->size, "%" PRIu64 " keys", total);
    hot_close(&file);
}

static void a_file_that_is_cut_or_flipped_is_refused(void **state)
{
    struct rig *rig = *state;
    struct hot_file file;
    struct text text;

    fill(rig, 60);
    save(rig, &file);
    hot_close(&file);
    text_read(rig, &text);
    for (size_t size = 0; size < text.size; size++) {
        text_write(&text, size);
        assert_int_equal(hot_open(rig->box.root, rig->box.partitions->count, &file), STATUS_CORRUPT);
    }
    for (size_t at = 0; at < text.size; at++) {
        text.data[at] ^= 0x10;
        text_write(&text, text.size);
        assert_int_equal(hot_open(rig->box.root, rig->box.partitions->count, &file), STATUS_CORRUPT);
        text.data[at] ^= 0x10;
    }
    mem_free(text.data);
}

static void a_file_of_another_version_is_told_from_a_damaged_one(void **state)
{
    struct rig *rig = *state;
    struct hot_file file;
    struct text text;
    uint64_t crc;

    fill(rig, 60);
    save(rig, &file);
    hot_close(&file);
    text_read(rig, &text);
    assert_int_equal(text.data[4], '2');
    text.data[4] = '1';
    crc = crc64(0, bytes_of(text.data, text.size - 8));
    memcpy(text.data + text.size - 8, &crc, 8);
    text_write(&text, text.size);
    assert_int_equal(hot_open(rig->box.root, rig->box.partitions->count, &file), STATUS_VERSION);
    mem_free(text.data);
}

/* Damage under a checksum that is right: the reader is on its own. */
static void hostile_bytes_are_refused_or_harmless(void **state)
{
    struct rig *rig = *state;
    struct hot_file file;
    struct text text;

    fill(rig, 60);
    save(rig, &file);
    hot_close(&file);
    text_read(rig, &text);
    for (int round = 0; round < 3000; round++) {
        uint8_t *good = mem_alloc(text.size);
        size_t size = text.size - (random_below(&rig->random, 4) == 0 ? random_below(&rig->random, text.size - 24) : 0);
        uint64_t crc;

        memcpy(good, text.data, text.size);
        for (uint64_t i = random_below(&rig->random, 6); i > 0; i--)
            text.data[8 + random_below(&rig->random, size - 16)] =
                (uint8_t)(random_below(&rig->random, 2) ? random_next(&rig->random) : 255 * random_below(&rig->random, 2));
        crc = crc64(0, bytes_of(text.data, size - 8));
        memcpy(text.data + size - 8, &crc, 8);
        text_write(&text, size);
        read_all(rig, &text);
        memcpy(text.data, good, text.size);
        mem_free(good);
    }
    mem_free(text.data);
}

#define HOT(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HOT(every_hot_key_is_written_with_its_rank),
        HOT(nothing_hot_is_a_file_without_keys),
        HOT(a_file_that_is_cut_or_flipped_is_refused),
        HOT(a_file_of_another_version_is_told_from_a_damaged_one),
        HOT(hostile_bytes_are_refused_or_harmless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
