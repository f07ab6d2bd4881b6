#include "persist/aof_map.h"

#include "support/unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/disk.h"

#define FIRST "1111111111111111111111111111111111111111"
#define SECOND "2222222222222222222222222222222222222222"

static struct history_point point_of(const char *id, int64_t offset, int db)
{
    struct history_point point;

    history_point_make(&point, id, offset, db);
    return point;
}

/* `id`, which was `before` up to here. */
static struct history_point renamed(const char *id, const char *before, int64_t offset)
{
    struct history_point point = point_of(id, offset, -1);

    memcpy(point.identity.second_id, before, HISTORY_ID_SIZE);
    point.identity.second_offset = offset + 1;
    return point;
}

/* A file without a name. */
static int file_of(const char *text)
{
    char name[] = "/tmp/kelvin-map-XXXXXX";
    int fd = mkstemp(name);

    assert_true(fd >= 0);
    unlink(name);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    return fd;
}

static void add_file(struct aof_map *map, uint64_t seq, const char *text)
{
    int fd = file_of(text);

    aof_map_add_file(map, seq, fd);
    close(fd);
}

static void expect_past(struct aof_map *map, int64_t from, int64_t until, const char *wanted)
{
    struct aof_past *past = aof_past_open(map, from, until);
    char text[64];
    size_t size = 0, got;

    if (wanted == NULL) {
        assert_null(past);
        return;
    }
    assert_non_null(past);
    do {
        assert_true(aof_past_read(past, disk_system(), text + size, 3, &got));
        size += got;
    } while (got > 0);
    assert_int_equal(until - from, size);
    assert_int_equal(size, strlen(wanted));
    assert_memory_equal(text, wanted, size);
    aof_past_close(past);
}

static void a_gap_in_the_text_is_none_in_the_stream(void **state)
{
    struct aof_map map;
    struct history_point first = point_of(FIRST, 100, 0), next = point_of(FIRST, 105, 0);

    (void)state;
    aof_map_init(&map, NULL);
    add_file(&map, 1, "##abcLLLde");
    add_file(&map, 2, "#fghi");
    aof_map_begin(&map, 1, 2, &first);
    aof_map_skip(&map, 1, 5, 8);
    aof_map_begin(&map, 2, 1, &next);
    expect_past(&map, 100, 109, "abcdefghi");
    expect_past(&map, 102, 106, "cdef");
    expect_past(&map, 105, 105, "");
    expect_past(&map, 99, 105, NULL);
    aof_map_drop_before(&map, 2);
    expect_past(&map, 105, 109, "fghi");
    expect_past(&map, 104, 109, NULL);
    aof_map_release(&map);
}

static void a_reader_keeps_a_file_that_is_dropped(void **state)
{
    struct aof_map map;
    struct history_point first = point_of(FIRST, 0, 0), next = point_of(FIRST, 5, 0);
    struct aof_past *past;
    char text[8];
    size_t got;

    (void)state;
    aof_map_init(&map, NULL);
    add_file(&map, 1, "abcde");
    add_file(&map, 2, "fgh");
    aof_map_begin(&map, 1, 0, &first);
    aof_map_begin(&map, 2, 0, &next);
    past = aof_past_open(&map, 1, 7);
    aof_map_drop_before(&map, 3);
    expect_past(&map, 1, 7, NULL);
    assert_true(aof_past_read(past, disk_system(), text, sizeof(text), &got));
    assert_int_equal(got, 4);
    assert_true(aof_past_read(past, disk_system(), text, sizeof(text), &got));
    assert_int_equal(got, 2);
    assert_memory_equal(text, "fg", 2);
    aof_past_close(past);
    aof_map_release(&map);
}

static void a_file_that_became_shorter_is_no_end(void **state)
{
    struct aof_map map;
    struct history_point first = point_of(FIRST, 0, 0);
    int fd = file_of("abcde");
    struct aof_past *past;
    char text[8];
    size_t got;

    (void)state;
    aof_map_init(&map, NULL);
    aof_map_add_file(&map, 1, fd);
    aof_map_begin(&map, 1, 0, &first);
    past = aof_past_open(&map, 0, 5);
    assert_int_equal(ftruncate(fd, 3), 0);
    close(fd);
    assert_false(aof_past_read(past, disk_system(), text, sizeof(text), &got));
    aof_past_close(past);
    aof_map_release(&map);
}

static void another_stream_is_not_continued(void **state)
{
    struct aof_map map;
    struct history_point first = point_of(FIRST, 0, 0), good = renamed(SECOND, FIRST, 3), other = point_of(SECOND, 5, 0), gap = point_of(SECOND, 9, 0);

    (void)state;
    aof_map_init(&map, NULL);
    add_file(&map, 1, "abcdefghijkl");
    aof_map_begin(&map, 1, 0, &first);
    aof_map_begin(&map, 1, 3, &good);
    expect_past(&map, 0, 5, "abcde");
    aof_map_close(&map, 1, 5, -1);
    aof_map_begin(&map, 1, 5, &other);
    expect_past(&map, 0, 6, "abcdef");
    aof_map_close(&map, 1, 7, -1);
    aof_map_begin(&map, 1, 7, &gap);
    expect_past(&map, 8, 10, NULL);
    expect_past(&map, 9, 11, "hi");
    other = point_of(FIRST, 12, 0);
    aof_map_close(&map, 1, 10, -1);
    aof_map_begin(&map, 1, 10, &other);
    expect_past(&map, 9, 12, NULL);
    aof_map_release(&map);
}

static void the_end_is_where_the_last_file_counts(void **state)
{
    struct aof_map map;
    struct history_point base = point_of(FIRST, 7, 3), point = point_of(FIRST, 10, 4), end;

    (void)state;
    aof_map_init(&map, NULL);
    assert_false(aof_map_end(&map, &end));
    aof_map_begin_at(&map, &base);
    assert_true(aof_map_end(&map, &end));
    assert_int_equal(end.offset, 7);
    aof_map_begin(&map, 5, 100, &point);
    aof_map_skip(&map, 5, 150, 180);            /* local bytes */
    aof_map_skip(&map, 5, 300, 310);
    aof_map_skip(&map, 5, 300, 310);            /* an annotation may be read twice */
    aof_map_close(&map, 5, 200, -1);
    assert_true(aof_map_end(&map, &end));
    assert_int_equal(end.offset, 10 + 50 + 20);
    assert_int_equal(end.db, 4);
    aof_map_close(&map, 5, 200, 9);
    assert_true(aof_map_end(&map, &end));
    assert_int_equal(end.db, 9);
    aof_map_close(&map, 5, 160, -1);            /* in the local bytes */
    assert_true(aof_map_end(&map, &end));
    assert_int_equal(end.offset, 60);
    aof_map_close(&map, 5, 99, -1);             /* before the mark */
    assert_false(aof_map_end(&map, &end));
    aof_map_release(&map);
}

static void what_was_copied_is_read_from_the_copy(void **state)
{
    struct aof_map map;
    struct history_point first = point_of(FIRST, 0, 0), later = renamed(SECOND, FIRST, 5), at = point_of(FIRST, 2, 0);

    (void)state;
    aof_map_init(&map, NULL);
    add_file(&map, 1, "abXXX");
    aof_map_begin(&map, 1, 0, &first);
    aof_map_begin(&map, 1, 8, &later);
    aof_map_move(&map, 1, 2, 2, 4, &at);
    add_file(&map, 2, "HEADcdeMMMfgh");
    expect_past(&map, 0, 8, "abcdefgh");
    aof_map_release(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gap_in_the_text_is_none_in_the_stream),
        cmocka_unit_test(a_reader_keeps_a_file_that_is_dropped),
        cmocka_unit_test(a_file_that_became_shorter_is_no_end),
        cmocka_unit_test(another_stream_is_not_continued),
        cmocka_unit_test(the_end_is_where_the_last_file_counts),
        cmocka_unit_test(what_was_copied_is_read_from_the_copy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
