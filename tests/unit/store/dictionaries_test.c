#include "store/dictionaries.h"

#include "support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compress.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/tree.h"
#include "store/store.h"

struct rig {
    char dir[64];
    struct dictionaries *dictionaries;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));

    snprintf(rig->dir, sizeof(rig->dir), "/tmp/kelvin-dictionaries-XXXXXX");
    assert_non_null(mkdtemp(rig->dir));
    rig->dictionaries = dictionaries_open(rig->dir, disk_system());
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    dictionaries_close(rig->dictionaries);
    tree_remove(rig->dir);
    mem_free(rig);
    return 0;
}

static void reopen(struct rig *rig)
{
    dictionaries_close(rig->dictionaries);
    rig->dictionaries = dictionaries_open(rig->dir, disk_system());
}

static uint32_t add(struct rig *rig, int database, const char *bytes)
{
    struct dictionary dictionary = { .database = database, .trained_s = 1234567890123, .samples = 77, .ratio_permille = 3210 };
    struct message message;

    assert_int_equal(dictionaries_add(rig->dictionaries, &dictionary, bytes_of_string(bytes), &message), STATUS_OK);
    assert_non_null(dictionary.of);
    return dictionary.number;
}

static void file_path(const struct rig *rig, uint32_t number, char path[128])
{
    char name[DICTIONARY_NAME_SIZE];

    dictionary_name(number, name);
    snprintf(path, 128, "%s/%s", rig->dir, name);
}

static void what_is_added_is_there_after_a_restart(void **state)
{
    struct rig *rig = *state;
    uint32_t first = add(rig, 3, "the bytes of the first dictionary"), second = add(rig, 3, "and of the second"), third = add(rig, 4, "and of one more");

    for (int i = 0; i < 2; i++) {
        const struct dictionary *found = dictionaries_find(rig->dictionaries, first);

        assert_int_equal(dictionaries_count(rig->dictionaries), 3);
        assert_true(first != 0 && first < second && second < third);
        assert_true(found->database == 3 && found->trained_s == 1234567890123 && found->samples == 77 && found->ratio_permille == 3210);
        assert_ptr_equal(dictionaries_newest(rig->dictionaries, 3), dictionaries_find(rig->dictionaries, second));
        assert_ptr_equal(dictionaries_newest(rig->dictionaries, 4), dictionaries_find(rig->dictionaries, third));
        assert_null(dictionaries_newest(rig->dictionaries, 0));
        assert_null(dictionaries_find(rig->dictionaries, first + 1 == second ? second + 1 : first + 1));
        reopen(rig);
    }
}

/* Numbers are not used again as long as there is one that is higher; of a lost highest one, hardly ever. */
static void numbers_ascend_by_random_steps(void **state)
{
    struct rig *rig = *state;
    uint32_t numbers[8], steps_of_one = 0;

    for (int i = 0; i < 8; i++) {
        numbers[i] = add(rig, 0, "bytes");
        steps_of_one += i > 0 && numbers[i] == numbers[i - 1] + 1;
        assert_true(i == 0 || numbers[i] > numbers[i - 1]);
        reopen(rig);
    }
    assert_true(steps_of_one < 7);
}

static void each_damaged_byte_is_noticed(void **state)
{
    struct rig *rig = *state;
    uint32_t number = add(rig, 0, "some bytes");
    struct buffer file = { 0 };
    struct dictionary dictionary;
    struct bytes bytes;
    char path[128];
    uint32_t crc;

    file_path(rig, number, path);
    assert_int_equal(file_read_all(disk_system(), AT_FDCWD, path, 1 << 20, &file), STATUS_OK);
    assert_int_equal(dictionary_parse(buffer_bytes(&file), &dictionary, &bytes), STATUS_OK);
    assert_true(bytes_equal(bytes, BYTES("some bytes")) && dictionary.number == number);
    for (size_t size = 0; size < file.size; size++)
        assert_int_equal(dictionary_parse(bytes_of(file.data, size), &dictionary, &bytes), STATUS_CORRUPT);
    for (size_t at = 0; at < file.size * 8; at++) {
        file.data[at / 8] = (char)(file.data[at / 8] ^ 1 << at % 8);
        assert_int_equal(dictionary_parse(buffer_bytes(&file), &dictionary, &bytes), STATUS_CORRUPT);
        file.data[at / 8] = (char)(file.data[at / 8] ^ 1 << at % 8);
    }
    /* A later version has its checksum at the same place. */
    file.data[5] = '2';
    crc = crc32c(0, file.data, file.size - 4);
    memcpy(file.data + file.size - 4, &crc, 4);
    assert_int_equal(dictionary_parse(buffer_bytes(&file), &dictionary, &bytes), STATUS_VERSION);
    buffer_release(&file);
}

/* A file that can't be used keeps its number, so that no other dictionary gets it. */
static void a_damaged_file_is_known_and_not_used(void **state)
{
    struct rig *rig = *state;
    uint32_t first = add(rig, 0, "some bytes"), second = add(rig, 0, "more bytes");
    char path[128], other[128];

    file_path(rig, second, path);
    assert_int_equal(truncate(path, 20), 0);
    file_path(rig, second + 7, other);
    file_path(rig, first, path);
    assert_int_equal(link(path, other), 0);             /* the wrong name */
    reopen(rig);
    assert_int_equal(dictionaries_count(rig->dictionaries), 3);
    assert_non_null(dictionaries_find(rig->dictionaries, second));
    assert_null(dictionaries_find(rig->dictionaries, second)->of);
    assert_null(dictionaries_find(rig->dictionaries, second + 7)->of);
    assert_ptr_equal(dictionaries_newest(rig->dictionaries, 0), dictionaries_find(rig->dictionaries, first));
    assert_true(add(rig, 0, "bytes") > second + 7);
}

static void there_is_a_limit(void **state)
{
    struct rig *rig = *state;
    struct dictionary dictionary = { .database = 0 };
    struct message message;

    for (int i = 0; i < DICTIONARIES_MAX; i++)
        (void)add(rig, i, "bytes");
    assert_int_equal(dictionaries_add(rig->dictionaries, &dictionary, BYTES("bytes"), &message), STATUS_NO_SPACE);
    assert_int_equal(dictionaries_count(rig->dictionaries), DICTIONARIES_MAX);
    assert_null(dictionary.of);
}

static void one_that_is_removed_makes_room(void **state)
{
    struct rig *rig = *state;
    uint32_t numbers[DICTIONARIES_MAX], next;
    const struct dictionary *pinned;
    char path[128];

    for (int i = 0; i < DICTIONARIES_MAX; i++)
        numbers[i] = add(rig, i, "bytes");
    pinned = dictionaries_pin(rig->dictionaries, numbers[3]);
    assert_int_equal(pinned->number, numbers[3]);
    assert_int_equal(dictionaries_remove(rig->dictionaries, numbers[3]), STATUS_LOCKED);
    assert_true(dictionaries_have(rig->dictionaries, numbers[3]));
    dictionaries_unpin(rig->dictionaries, pinned);
    assert_int_equal(dictionaries_remove(rig->dictionaries, numbers[3]), STATUS_OK);
    assert_int_equal(dictionaries_remove(rig->dictionaries, numbers[DICTIONARIES_MAX - 1]), STATUS_OK);
    assert_int_equal(dictionaries_remove(rig->dictionaries, numbers[3]), STATUS_LOCKED);        /* there is none */
    assert_int_equal(dictionaries_count(rig->dictionaries), DICTIONARIES_MAX - 2);
    assert_null(dictionaries_pin(rig->dictionaries, numbers[3]));
    assert_null(dictionaries_newest(rig->dictionaries, 3));
    for (int i = 0; i < DICTIONARIES_MAX; i++) {
        bool is_there = i != 3 && i != DICTIONARIES_MAX - 1;

        file_path(rig, numbers[i], path);
        assert_int_equal(access(path, F_OK) == 0, is_there);
        assert_int_equal(dictionaries_have(rig->dictionaries, numbers[i]), is_there);
    }
    next = add(rig, 3, "bytes");
    assert_true(next > numbers[DICTIONARIES_MAX - 1]);
    assert_int_equal(dictionaries_newest(rig->dictionaries, 3)->number, next);
    reopen(rig);
    assert_int_equal(dictionaries_count(rig->dictionaries), DICTIONARIES_MAX - 1);
}

static void a_directory_that_can_not_be_written_is_an_error(void **state)
{
    struct rig *rig = *state;
    struct dictionary dictionary = { .database = 0 };
    struct message message;

    tree_remove(rig->dir);
    assert_int_equal(dictionaries_add(rig->dictionaries, &dictionary, BYTES("bytes"), &message), STATUS_NOT_FOUND);
    assert_non_null(strstr(message.text, "can't be written"));
    assert_int_equal(dictionaries_count(rig->dictionaries), 0);
}

static void only_their_names_are_theirs(void **state)
{
    uint32_t number = 0;

    (void)state;
    assert_true(dictionary_is_file("/a/00000017.dict", &number) && number == 17);
    assert_true(dictionary_is_file("4294967295.dict", &number) && number == UINT32_MAX);
    assert_false(dictionary_is_file("00000000.dict", NULL) || dictionary_is_file("4294967296.dict", NULL) || dictionary_is_file("17.dict", NULL) ||
        dictionary_is_file("00000017.dict2", NULL) || dictionary_is_file("x0000017.dict", NULL) || dictionary_is_file("00000017.seg", NULL) ||
        dictionary_is_file("dictionary.dbtmp", NULL) || dictionary_is_file("00000000017.dict", NULL));
    assert_true(store_is_table("x/store/00000017.dict"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_added_is_there_after_a_restart, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(numbers_ascend_by_random_steps, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(each_damaged_byte_is_noticed, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_damaged_file_is_known_and_not_used, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(there_is_a_limit, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(one_that_is_removed_makes_room, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_directory_that_can_not_be_written_is_an_error, open_rig, close_rig),
        cmocka_unit_test(only_their_names_are_theirs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
