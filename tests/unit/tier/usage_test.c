/* What the store and its images take: each file once, however many links it has. */
#include "support/unit.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tier/usage.h"

static char root[200];

static const char *path_of(const char *name)
{
    static char paths[4][300];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, 300, "%s/%s", root, name);
    return path;
}

static void make_file(const char *name, long size)
{
    FILE *file = fopen(path_of(name), "w");

    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), size), 0);
    fclose(file);
}

static int open_root(void **state)
{
    const char *temporary = getenv("TMPDIR");
    static const char *const names[] = { "store", "log", "log/1.base.image", "log/1.base.image/store", "log/2.base.image",
        "log/2.base.image/store" };

    (void)state;
    snprintf(root, sizeof(root), "%s/usage-XXXXXX", temporary != NULL ? temporary : "/tmp");
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(mkdir(path_of(names[i]), 0755), 0);
    return 0;
}

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat, (void)type, (void)ftw;
    return remove(path);
}

static int close_root(void **state)
{
    (void)state;
    return nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void each_file_counts_once(void **state)
{
    uint64_t own;

    (void)state;
    make_file("store/1.ldb", 1000);             /* of the store and both images */
    assert_int_equal(link(path_of("store/1.ldb"), path_of("log/1.base.image/store/1.ldb")), 0);
    assert_int_equal(link(path_of("store/1.ldb"), path_of("log/2.base.image/store/1.ldb")), 0);
    make_file("store/2.log", 200);              /* of the store alone */
    make_file("log/1.base.image/store/3.ldb", 30000);       /* of an image alone */
    make_file("log/1.base.image/store/4.ldb", 400000);      /* of both images, but not of the store any more */
    assert_int_equal(link(path_of("log/1.base.image/store/4.ldb"), path_of("log/2.base.image/store/4.ldb")), 0);
    make_file("log/1.base.image/tags", 5000000);
    make_file("log/1.incr.aof", 60000000);      /* the log is not the tier's */
    assert_int_equal(usage_measure(path_of("store"), path_of("log"), &own), 5431200);
    assert_int_equal(own, 1200);
    assert_int_equal(usage_measure(path_of("store"), NULL, &own), 1200);
    assert_int_equal(own, 1200);
    assert_int_equal(usage_measure(path_of("none"), path_of("neither"), &own), 0);
    assert_int_equal(own, 0);
}

static void set_old(const char *name)
{
    struct timespec times[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };

    assert_int_equal(utimensat(AT_FDCWD, path_of(name), times, 0), 0);
}

static bool has_changed(struct usage_times *before)
{
    struct usage_times now = usage_times_of(path_of("store"), path_of("log"));
    bool changed = now.store_ns != before->store_ns || now.images_ns != before->images_ns;

    set_old("store");
    set_old("log");
    *before = usage_times_of(path_of("store"), path_of("log"));
    return changed;
}

static void files_that_come_and_go_show_without_a_look_at_each(void **state)
{
    struct usage_times times = usage_times_of(path_of("none"), NULL);

    (void)state;
    assert_int_equal(times.store_ns, 0);
    assert_int_equal(times.images_ns, 0);
    (void)has_changed(&times);
    assert_false(has_changed(&times));
    make_file("store/7.ldb", 1000);
    assert_true(has_changed(&times));
    make_file("store/7.ldb", 2000);             /* it grows */
    assert_false(has_changed(&times));
    assert_int_equal(remove(path_of("store/7.ldb")), 0);
    assert_true(has_changed(&times));
    assert_int_equal(rename(path_of("log/2.base.image"), path_of("log/3.base.image")), 0);
    assert_true(has_changed(&times));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_file_counts_once, open_root, close_root),
        cmocka_unit_test_setup_teardown(files_that_come_and_go_show_without_a_look_at_each, open_root, close_root),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
