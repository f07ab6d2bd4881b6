/* The meta data of an image: damaged, hostile, of other versions, and imported from LevelDB. */
#include "support/unit.h"

#include <fcntl.h>
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "support/store_box.h"

enum { FLAGS_AT = 8, NUMBER_AT = 28, COUNT_AT = 36, PARTS_AT = 64, CRC_SIZE = 4 };

struct rig {
    struct box box, image;          /* an image of the box's store, not open */
    char path[160];                 /* of its meta data */
    struct buffer meta;
};

static int setup(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct box *box = &rig->box;

    box_create(box, 0);
    assert_int_equal(box_open(box), STATUS_OK);
    box_write_many(box, 60);
    rig->image = *box;
    rig->image.store = NULL;
    rig->image.options.is_read_only = true;
    snprintf(rig->image.dir, sizeof(rig->image.dir), "%s/image", box->root);
    assert_int_equal(store_snapshot(box->store, rig->image.dir, &box->message), STATUS_OK);
    snprintf(rig->path, sizeof(rig->path), "%s/meta", rig->image.dir);
    assert_int_equal(file_read_all(disk_system(), AT_FDCWD, rig->path, SIZE_MAX / 4, &rig->meta), STATUS_OK);
    *state = rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;

    buffer_release(&rig->meta);
    box_destroy(&rig->box);
    mem_free(rig);
    return 0;
}

/* Opens the image with these bytes as its meta data. */
static enum status open_with(struct rig *rig, const char *data, size_t size)
{
    enum status status;

    (void)unlink(rig->path);
    assert_int_equal(file_create(disk_system(), AT_FDCWD, rig->path, bytes_of(data, size)), STATUS_OK);
    status = box_open(&rig->image);
    if (status == STATUS_OK)
        box_verify(&rig->image, rig->image.store, STATUS_OK);
    else
        assert_true(strlen(rig->image.message.text) > 10);
    box_close(&rig->image);
    return status;
}

/* The same with a valid checksum. */
static enum status open_with_sum(struct rig *rig, const char *data, size_t size)
{
    struct buffer text = { 0 };
    uint32_t crc = crc32c(0, data, size);
    enum status status;

    buffer_append(&text, data, size);
    buffer_append(&text, &crc, CRC_SIZE);
    status = open_with(rig, text.data, text.size);
    buffer_release(&text);
    return status;
}

static void it_is_as_documented(void **state)
{
    struct rig *rig = *state;
    struct hash_seed seed = store_seed(rig->box.store);
    uint64_t number;
    uint32_t count;

    assert_memory_equal(rig->meta.data, "KSTORE6\n\0\0\0\0", 12);
    assert_memory_equal(rig->meta.data + 12, &seed, 16);
    memcpy(&number, rig->meta.data + NUMBER_AT, 8);
    memcpy(&count, rig->meta.data + COUNT_AT, 4);
    assert_int_equal(number, 60);
    assert_int_equal(count, 1);
    assert_int_equal(rig->meta.size, COUNT_AT + 4 + 28 + 12 + CRC_SIZE);
    assert_int_equal(open_with(rig, rig->meta.data, rig->meta.size), STATUS_OK);
}

static void it_is_refused_when_it_ends_early(void **state)
{
    struct rig *rig = *state;

    for (size_t size = 0; size < rig->meta.size; size++)
        assert_int_equal(open_with(rig, rig->meta.data, size), STATUS_CORRUPT);
    for (size_t size = 8; size < rig->meta.size - CRC_SIZE; size++)
        assert_int_equal(open_with_sum(rig, rig->meta.data, size), STATUS_CORRUPT);
    buffer_append(&rig->meta, "x", 1);
    assert_int_equal(open_with(rig, rig->meta.data, rig->meta.size), STATUS_CORRUPT);
    assert_int_equal(open_with_sum(rig, rig->meta.data, rig->meta.size - 1), STATUS_CORRUPT);
}

static void no_bit_of_it_can_be_flipped(void **state)
{
    struct rig *rig = *state;

    for (size_t i = 0; i < rig->meta.size * 8; i++) {
        rig->meta.data[i / 8] ^= (char)(1 << i % 8);
        assert_int_equal(open_with(rig, rig->meta.data, rig->meta.size), STATUS_CORRUPT);
        rig->meta.data[i / 8] ^= (char)(1 << i % 8);
    }
    assert_int_equal(open_with(rig, rig->meta.data, rig->meta.size), STATUS_OK);
}

/* With the right checksum, as another server may send it. */
static void no_number_of_it_is_trusted(void **state)
{
    static const uint32_t numbers[] = { 0, 2, 1u << 31, UINT32_MAX };
    struct rig *rig = *state;
    char saved[4];

    for (size_t at = COUNT_AT; at + 4 <= rig->meta.size - CRC_SIZE; at++) {
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
            enum status status;

            memcpy(saved, rig->meta.data + at, 4);
            memcpy(rig->meta.data + at, &numbers[i], 4);
            (void)unlink(rig->path);
            status = memcmp(saved, rig->meta.data + at, 4) == 0 ? STATUS_CORRUPT : STATUS_OK;
            if (status == STATUS_OK) {
                uint32_t crc = crc32c(0, rig->meta.data, rig->meta.size - CRC_SIZE);
                struct bytes body = bytes_of(rig->meta.data, rig->meta.size);

                memcpy(rig->meta.data + rig->meta.size - CRC_SIZE, &crc, CRC_SIZE);
                assert_int_equal(file_create(disk_system(), AT_FDCWD, rig->path, body), STATUS_OK);
                status = box_open(&rig->image);             /* it may be a harmless number: of tombstones, of an incarnation */
                box_close(&rig->image);
                assert_true(status == STATUS_OK || status == STATUS_CORRUPT || status == STATUS_IO);
            }
            memcpy(rig->meta.data + at, saved, 4);
        }
    }
    memcpy(rig->meta.data + COUNT_AT, &numbers[3], 4);
    assert_int_equal(open_with_sum(rig, rig->meta.data, rig->meta.size - CRC_SIZE), STATUS_CORRUPT);
    memcpy(rig->meta.data + COUNT_AT, "\1\0\0", 4);
    memcpy(rig->meta.data + PARTS_AT, &numbers[3], 4);
    assert_int_equal(open_with_sum(rig, rig->meta.data, rig->meta.size - CRC_SIZE), STATUS_CORRUPT);
}

static void a_newer_version_is_refused_by_name(void **state)
{
    struct rig *rig = *state;

    rig->meta.data[6] = '7';
    assert_int_equal(open_with_sum(rig, rig->meta.data, 20), STATUS_VERSION);
    assert_non_null(strstr(rig->image.message.text, "newer Kelvin"));
    memcpy(rig->meta.data, "KTAGS", 5);
    assert_int_equal(open_with_sum(rig, rig->meta.data, 20), STATUS_CORRUPT);
    rig->meta.data[FLAGS_AT] = 2;
    assert_int_equal(open_with_sum(rig, rig->meta.data, rig->meta.size - CRC_SIZE), STATUS_CORRUPT);
}

/* Without it, what kelvin-check knows from elsewhere is enough, if no key run is missing. */
static void what_is_lost_can_be_salvaged(void **state)
{
    struct rig *rig = *state;
    struct store_salvage salvage = { .seed = store_seed(rig->box.store), .number = 60, .has_seed = true };

    assert_int_equal(unlink(rig->path), 0);
    assert_int_equal(box_open(&rig->image), STATUS_CORRUPT);
    rig->image.options.salvage = &salvage;
    assert_int_equal(box_open(&rig->image), STATUS_OK);
    assert_true(salvage.is_needed);
    box_verify(&rig->image, rig->image.store, STATUS_OK);
    box_close(&rig->image);
    salvage.has_seed = false;
    assert_int_equal(box_open(&rig->image), STATUS_CORRUPT);
    rig->image.options.salvage = NULL;
}

/* ---- meta data in LevelDB ---- */

static void put(leveldb_t *db, const char *name, const void *value, size_t size)
{
    leveldb_writeoptions_t *options = leveldb_writeoptions_create();
    char *error = NULL, key[40] = { 0, 0, 0, 0 };

    strcpy(key + 4, name);
    leveldb_put(db, options, key, 4 + strlen(name), value, size, &error);
    assert_null(error);
    leveldb_writeoptions_destroy(options);
}

/* Makes an image of version 4 or 5, or what claims to be another, of the image. Opened several times, so that it has a table. */
static void make_old(struct rig *rig, uint8_t version, const char *record)
{
    struct hash_seed seed = store_seed(rig->box.store);
    leveldb_options_t *options = leveldb_options_create();
    uint64_t number, run, tombstones, bytes, entries;
    char *error = NULL, text[200], big[8] = { 0 };
    uint32_t incarnation;

    memcpy(&number, rig->meta.data + NUMBER_AT, 8);
    memcpy(&run, rig->meta.data + 40, 8);
    memcpy(&tombstones, rig->meta.data + 48, 8);
    memcpy(&bytes, rig->meta.data + 56, 8);
    memcpy(&incarnation, rig->meta.data + 68, 4);
    memcpy(&entries, rig->meta.data + 72, 8);
    snprintf(text, sizeof(text), "%llu %llu %llu %u:%llu\n", (unsigned long long)run, (unsigned long long)tombstones, (unsigned long long)bytes,
        (unsigned)incarnation, (unsigned long long)entries);
    (void)unlink(rig->path);
    leveldb_options_set_create_if_missing(options, 1);
    for (int round = 0; round < 2; round++) {
        leveldb_t *db = leveldb_open(options, rig->image.dir, &error);

        assert_null(error);
        big[3] = (char)version;
        put(db, "version", big, 4);
        big[3] = 0;
        put(db, "seed", &seed, sizeof(seed));
        big[7] = (char)(round == 0 ? 1 : number);
        put(db, "number", big, 8);
        big[7] = 0;
        put(db, "runs", round == 0 ? "" : text, round == 0 ? 0 : strlen(text));
        if (record != NULL) {
            leveldb_writeoptions_t *write_options = leveldb_writeoptions_create();

            leveldb_put(db, write_options, record, 13, "record", 6, &error);
            assert_null(error);
            leveldb_writeoptions_destroy(write_options);
        }
        leveldb_close(db);
    }
    leveldb_options_destroy(options);
}

static void make_clone(struct rig *rig, struct box *clone, enum status expected)
{
    *clone = rig->image;
    snprintf(clone->dir, sizeof(clone->dir), "%s/clone", rig->box.root);
    assert_int_equal(store_clone(rig->image.dir, clone->dir, clone->env, &clone->message), expected);
    if (expected != STATUS_OK)
        assert_int_not_equal(access(clone->dir, F_OK), 0);
}

static void an_image_of_versions_4_and_5_is_imported(void **state)
{
    struct rig *rig = *state;
    static char before[BOX_FILES_MAX][BOX_PATH_SIZE], after[BOX_FILES_MAX][BOX_PATH_SIZE];
    struct box clone;

    for (uint8_t version = 4; version <= 5; version++) {
        int count;

        make_old(rig, version, NULL);
        assert_int_equal(box_open(&rig->image), STATUS_CORRUPT);    /* not without being cloned */
        count = box_files(rig->image.dir, "", before);
        make_clone(rig, &clone, STATUS_OK);
        assert_int_equal(box_files(rig->image.dir, "", after), count);
        assert_int_equal(box_files(clone.dir, ".log", after) + box_files(clone.dir, ".ldb", after) + box_files(clone.dir, "CURRENT", after) +
            box_files(clone.dir, "import.tmp", after), 0);
        clone.options.is_read_only = false;
        assert_int_equal(box_open(&clone), STATUS_OK);
        assert_int_equal(store_is_by_slot(clone.store), version == 5);
        assert_int_equal(store_number(clone.store), 60);
        box_verify(&clone, clone.store, STATUS_OK);
        box_write_many(&clone, 10);
        box_restart(&clone);
        box_verify(&clone, clone.store, STATUS_OK);
        box_close(&clone);
        assert_int_equal(store_remove(clone.dir, clone.env), STATUS_OK);
    }
}

static void an_image_with_records_in_leveldb_is_refused(void **state)
{
    struct rig *rig = *state;
    struct box clone;

    for (uint8_t version = 1; version <= 3; version++) {
        make_old(rig, version, NULL);
        make_clone(rig, &clone, STATUS_INVALID);
        assert_non_null(strstr(clone.message.text, "dump.rdb"));
    }
    make_old(rig, 6, NULL);
    make_clone(rig, &clone, STATUS_VERSION);
    assert_non_null(strstr(clone.message.text, "newer Kelvin"));
    make_old(rig, 4, "\0\0\0\7" "12345678" "k");          /* version 4, made from version 2 */
    make_clone(rig, &clone, STATUS_INVALID);
    assert_non_null(strstr(clone.message.text, "dump.rdb"));
}

static void damaged_meta_data_in_leveldb_is_refused(void **state)
{
    static const char *const ends[] = { ".log", ".ldb", "CURRENT" };
    static char paths[BOX_FILES_MAX][BOX_PATH_SIZE];
    struct rig *rig = *state;
    struct box clone;

    make_old(rig, 4, NULL);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        assert_true(box_files(rig->image.dir, ends[i], paths) > 0);
        box_flip(paths[0], 3, 5);
        if (i == 1)
            box_flip(paths[0], box_file_size(paths[0]) - 1, 5);
        clone = rig->image;
        snprintf(clone.dir, sizeof(clone.dir), "%s/clone", rig->box.root);
        assert_int_not_equal(store_clone(rig->image.dir, clone.dir, clone.env, &clone.message), STATUS_OK);
        assert_non_null(strstr(clone.message.text, "can't be read"));
        assert_int_not_equal(access(clone.dir, F_OK), 0);
        box_flip(paths[0], 3, 5);
        if (i == 1)
            box_flip(paths[0], box_file_size(paths[0]) - 1, 5);
    }
    make_clone(rig, &clone, STATUS_OK);
    assert_int_equal(store_remove(clone.dir, clone.env), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_as_documented, setup, teardown),
        cmocka_unit_test_setup_teardown(it_is_refused_when_it_ends_early, setup, teardown),
        cmocka_unit_test_setup_teardown(no_bit_of_it_can_be_flipped, setup, teardown),
        cmocka_unit_test_setup_teardown(no_number_of_it_is_trusted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_newer_version_is_refused_by_name, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_lost_can_be_salvaged, setup, teardown),
        cmocka_unit_test_setup_teardown(an_image_of_versions_4_and_5_is_imported, setup, teardown),
        cmocka_unit_test_setup_teardown(an_image_with_records_in_leveldb_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_meta_data_in_leveldb_is_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
