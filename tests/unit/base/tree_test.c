#include "base/message.h"
#include "base/tree.h"

#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct place {
    char root[64], from[96], to[96];
    struct message message;
    struct tree_totals totals;
};

static void put(const char *dir, const char *name, const char *content)
{
    char path[256];
    struct message message;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(tree_write_file(path, bytes_of_string(content), &message), STATUS_OK);
}

static int make(void **state)
{
    struct place *place = calloc(1, sizeof(*place));
    char inner[128];

    snprintf(place->root, sizeof(place->root), "/tmp/kelvin-tree-XXXXXX");
    assert_non_null(mkdtemp(place->root));
    snprintf(place->from, sizeof(place->from), "%s/from", place->root);
    snprintf(place->to, sizeof(place->to), "%s/to", place->root);
    snprintf(inner, sizeof(inner), "%s/store", place->from);
    assert_int_equal(mkdir(place->from, 0755), 0);
    assert_int_equal(mkdir(inner, 0755), 0);
    put(place->from, "dataset", "text");
    put(inner, "000001.ldb", "a table");
    put(inner, "000002.log", "a log");
    *state = place;
    return 0;
}

static int drop(void **state)
{
    struct place *place = *state;

    tree_remove(place->root);
    assert_int_not_equal(access(place->root, F_OK), 0);
    free(place);
    return 0;
}

static ino_t inode_of(const char *dir, const char *name)
{
    char path[256];
    struct stat info;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(stat(path, &info), 0);
    return info.st_ino;
}

static bool is_table(const char *path)
{
    return strcmp(path + strlen(path) - 4, ".ldb") == 0;
}

static void tables_are_linked_and_all_else_is_copied(void **state)
{
    struct place *place = *state;

    assert_int_equal(tree_clone(place->from, place->to, is_table, NULL, &place->totals, &place->message), STATUS_OK);
    assert_true(inode_of(place->from, "store/000001.ldb") == inode_of(place->to, "store/000001.ldb"));
    assert_true(inode_of(place->from, "store/000002.log") != inode_of(place->to, "store/000002.log"));
    assert_true(inode_of(place->from, "dataset") != inode_of(place->to, "dataset"));
    assert_int_equal(place->totals.files, 3);
    assert_int_equal(place->totals.bytes, 16);
    assert_int_equal(place->totals.copied_bytes, 9);
}

static void what_is_there_is_not_written_over(void **state)
{
    struct place *place = *state;

    assert_int_equal(mkdir(place->to, 0755), 0);
    put(place->to, "precious", "mine");
    assert_int_equal(tree_clone(place->from, place->to, is_table, NULL, &place->totals, &place->message), STATUS_INVALID);
    assert_int_not_equal(inode_of(place->to, "precious"), 0);
    assert_int_not_equal(tree_write_file(place->to, BYTES("x"), &place->message), STATUS_OK);
}

static void a_clone_that_fails_leaves_nothing(void **state)
{
    struct place *place = *state;
    _Atomic bool stop = true;
    char path[256];

    assert_int_equal(tree_clone(place->from, place->to, is_table, &stop, &place->totals, &place->message), STATUS_CLOSED);
    assert_int_not_equal(access(place->to, F_OK), 0);
    snprintf(path, sizeof(path), "%s/store/link", place->from);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(tree_clone(place->from, place->to, is_table, NULL, &place->totals, &place->message), STATUS_INVALID);
    assert_non_null(strstr(place->message.text, "link"));
    assert_int_not_equal(access(place->to, F_OK), 0);
}

static void removing_follows_no_link(void **state)
{
    struct place *place = *state;
    char path[256];

    assert_int_equal(mkdir(place->to, 0755), 0);
    snprintf(path, sizeof(path), "%s/away", place->to);
    assert_int_equal(symlink(place->from, path), 0);
    tree_remove(place->to);
    assert_int_not_equal(access(place->to, F_OK), 0);
    assert_int_not_equal(inode_of(place->from, "dataset"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tables_are_linked_and_all_else_is_copied, make, drop),
        cmocka_unit_test_setup_teardown(what_is_there_is_not_written_over, make, drop),
        cmocka_unit_test_setup_teardown(a_clone_that_fails_leaves_nothing, make, drop),
        cmocka_unit_test_setup_teardown(removing_follows_no_link, make, drop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
