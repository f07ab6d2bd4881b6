#include "base/message.h"
#include "persist/identity.h"

#include "support/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/random.h"
#include "support/seed.h"

#define DIR_NAME "log"
#define NAME "appendonly.aof"
#define FILE_NAME DIR_NAME "/" NAME ".id"
#define DIGITS "0123456789abcdef0123456789abcdef"

static int set_up(void **state)
{
    char *dir = strdup("/tmp/kelvin-identity-XXXXXX");

    *state = dir;
    return mkdtemp(dir) != NULL && chdir(dir) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[200];

    snprintf(command, sizeof(command), "rm -rf '%s'", (char *)*state);
    free(*state);
    return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

static void put(const char *path, const void *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), size);
    close(fd);
}

static int entries_of(const char *dir)
{
    DIR *list = opendir(dir);
    int count = 0;

    assert_non_null(list);
    while (readdir(list) != NULL)
        count++;
    closedir(list);
    return count - 2;
}

static void two_ids_differ_and_look_like_ids(void **state)
{
    char one[IDENTITY_SIZE], two[IDENTITY_SIZE];

    identity_make(one);
    identity_make(two);
    assert_true(identity_is(bytes_of_string(one)));
    assert_true(identity_is(bytes_of_string(two)));
    assert_string_not_equal(one, two);
    assert_false(identity_is(bytes_of_string("")));
    assert_false(identity_is(bytes_of_string("0123456789abcdef0123456789abcde")));
    assert_false(identity_is(bytes_of_string("0123456789ABCDEF0123456789abcdef")));
    assert_false(identity_is(bytes_of_string("0123456789abcdef0123456789abcdef0")));
}

static void a_kept_identity_is_read_again(void **state)
{
    struct identity identity = { .id = DIGITS, .has_known = true, .known_dump = 0xfedcba9876543210 }, again;
    struct message message = { "" };

    assert_int_equal(identity_read(DIR_NAME, NAME, &again, &message), STATUS_NOT_FOUND);
    assert_int_equal(identity_keep(DIR_NAME, NAME, &identity, &message), STATUS_OK);
    assert_int_equal(identity_read(DIR_NAME, NAME, &again, &message), STATUS_OK);
    assert_string_equal(again.id, DIGITS);
    assert_true(again.has_known);
    assert_true(again.known_dump == identity.known_dump);
    assert_int_equal(entries_of(DIR_NAME), 1);
    identity_forget(DIR_NAME, NAME);
    assert_int_equal(identity_read(DIR_NAME, NAME, &again, &message), STATUS_NOT_FOUND);
}

static void the_first_one_stays(void **state)
{
    struct identity first = { .id = DIGITS }, second;
    struct message message;

    assert_int_equal(identity_keep(DIR_NAME, NAME, &first, &message), STATUS_OK);
    second = (struct identity){ .has_known = true, .known_dump = 7 };
    identity_make(second.id);
    assert_int_equal(identity_keep(DIR_NAME, NAME, &second, &message), STATUS_OK);
    assert_string_equal(second.id, DIGITS);
    assert_false(second.has_known);
}

static void a_directory_that_can_not_be_written_is_an_error(void **state)
{
    struct identity identity = { .id = DIGITS };
    struct message message = { "" };

    put(DIR_NAME, "", 0);
    assert_int_not_equal(identity_keep(DIR_NAME, NAME, &identity, &message), STATUS_OK);
    assert_non_null(strstr(message.text, FILE_NAME));
    assert_int_not_equal(identity_keep("none/" DIR_NAME, NAME, &identity, &message), STATUS_OK);
}

static void a_damaged_file_is_reported_and_stays(void **state)
{
    static const char *const bad[] = {
        "", "kelvin-id 1\n", "kelvin-id x\nid " DIGITS "\n", "kelvin-id 1\nid " DIGITS, "kelvin-id 1\nid " DIGITS "0\n",
        "kelvin-id 1\nid 0123\n", "kelvin-id 1\nid " DIGITS "\nmore\n", "kelvin-id 1\nid " DIGITS "\nknown \n",
        "kelvin-id 1\nid " DIGITS "\nknown 12\nmore\n", "kelvin-id 1\nid 0123456789ABCDEF0123456789abcdef\n",
    };
    struct identity identity;
    char zeros[300] = { 0 };
    struct message message;

    assert_int_equal(mkdir(DIR_NAME, 0755), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        put(FILE_NAME, bad[i], strlen(bad[i]));
        assert_int_equal(identity_read(DIR_NAME, NAME, &identity, &message), STATUS_CORRUPT);
        assert_non_null(strstr(message.text, FILE_NAME));
        identity = (struct identity){ .id = DIGITS };
        assert_int_equal(identity_keep(DIR_NAME, NAME, &identity, &message), STATUS_CORRUPT);
    }
    put(FILE_NAME, "kelvin-id 2\nid " DIGITS "\n", sizeof("kelvin-id 2\nid " DIGITS "\n") - 1);
    assert_int_equal(identity_read(DIR_NAME, NAME, &identity, &message), STATUS_VERSION);
    put(FILE_NAME, zeros, sizeof(zeros));
    assert_int_equal(identity_read(DIR_NAME, NAME, &identity, &message), STATUS_CORRUPT);
    put(FILE_NAME, "kelvin-id 1\nid " DIGITS "\n\0\0\0", sizeof("kelvin-id 1\nid " DIGITS "\n") + 2);
    assert_int_equal(identity_read(DIR_NAME, NAME, &identity, &message), STATUS_CORRUPT);
}

static void random_bytes_are_not_an_identity(void **state)
{
    struct identity identity;
    struct random random;
    char text[256];
    struct message message;
    uint64_t seed = seed_new();

    random_init(&random, seed);
    assert_int_equal(mkdir(DIR_NAME, 0755), 0);
    for (int round = 0; round < 2000; round++) {
        size_t size = random_below(&random, sizeof(text));

        snprintf(text, sizeof(text), "kelvin-id 1\nid " DIGITS "\nknown 0123456789abcdef\n");
        for (int i = 0; i < 3; i++)
            text[random_below(&random, 80)] = (char)random_next(&random);
        put(FILE_NAME, text, size);
        if (identity_read(DIR_NAME, NAME, &identity, &message) == STATUS_OK)
            assert_true(identity_is(bytes_of_string(identity.id)));
    }
}

/* Aux fields of an RDB: 0xfa, and two strings with a length of one byte each. */
static void put_dump(const char *name, const char *value)
{
    char dump[300];
    size_t size = (size_t)snprintf(dump, sizeof(dump), "REDIS0010\xfa\x09redis-ver\x05" "7.2.0\xfa%c%s%c%s", (int)strlen(name), name,
        (int)strlen(value), value);

    put("dump.rdb", dump, size);
}

static void a_dump_has_its_id(void **state)
{
    char id[IDENTITY_SIZE];
    struct message message;

    assert_int_equal(identity_of_dump("dump.rdb", id, &message), STATUS_NOT_FOUND);
    put_dump("kelvin-id", DIGITS);
    assert_int_equal(identity_of_dump("dump.rdb", id, &message), STATUS_OK);
    assert_string_equal(id, DIGITS);
    put_dump("kelvin-id", "short");
    assert_int_equal(identity_of_dump("dump.rdb", id, &message), STATUS_NOT_FOUND);
    put_dump("another-id", DIGITS);
    assert_int_not_equal(identity_of_dump("dump.rdb", id, &message), STATUS_OK);
    put("dump.rdb", "REDIS0010\xff\0\0\0\0\0\0\0\0", 18);
    assert_int_equal(identity_of_dump("dump.rdb", id, &message), STATUS_NOT_FOUND);
    put("dump.rdb", "no dump", 7);
    assert_int_not_equal(identity_of_dump("dump.rdb", id, &message), STATUS_OK);
}

static void a_fingerprint_is_the_same_for_copies_and_changes_with_both_ends(void **state)
{
    size_t size = 300000;
    char *data = mem_zalloc(size);
    uint64_t one, two;

    assert_int_equal(identity_fingerprint("missing", &one), STATUS_NOT_FOUND);
    put("a", data, size);
    put("b", data, size);
    assert_int_equal(identity_fingerprint("a", &one), STATUS_OK);
    assert_int_equal(identity_fingerprint("b", &two), STATUS_OK);
    assert_true(one == two);
    data[size - 1] = 1;
    put("b", data, size);
    assert_int_equal(identity_fingerprint("b", &two), STATUS_OK);
    assert_true(one != two);
    data[size - 1] = 0;
    data[9] = 1;
    put("b", data, size);
    assert_int_equal(identity_fingerprint("b", &two), STATUS_OK);
    assert_true(one != two);
    data[9] = 0;
    put("b", data, size - 1);
    assert_int_equal(identity_fingerprint("b", &two), STATUS_OK);
    assert_true(one != two);
    put("b", data, 0);
    assert_int_equal(identity_fingerprint("b", &two), STATUS_OK);
    mem_free(data);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_ids_differ_and_look_like_ids),
        TEST(a_kept_identity_is_read_again),
        TEST(the_first_one_stays),
        TEST(a_directory_that_can_not_be_written_is_an_error),
        TEST(a_damaged_file_is_reported_and_stays),
        TEST(random_bytes_are_not_an_identity),
        TEST(a_dump_has_its_id),
        TEST(a_fingerprint_is_the_same_for_copies_and_changes_with_both_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
