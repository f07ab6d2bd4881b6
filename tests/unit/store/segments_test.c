/* store/segments: what is put can be read at its place, in memory of the same process and after the files were opened again. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/segments.h"
#include "support/faulty_disk.h"
#include "support/seed.h"

enum { INCARNATION = 3, SMALL_SEGMENT = 64 * 1024 };

struct fixture {
    char dir[64];
    struct faulty_disk *disk;
    struct segments *segments;
    struct segment_buffer scratch;
    bool is_lazy, is_direct;
};

static void open_segments(struct fixture *fixture)
{
    struct segments_options options = {
        .dir = fixture->dir, .disk = faulty_disk_table(fixture->disk), .size_max = SMALL_SEGMENT, .is_lazy = fixture->is_lazy,
    };
    struct message message = { "" };

    assert_int_equal(segments_open(&options, &fixture->segments, &message), STATUS_OK);
    segments_prefer_direct(fixture->segments, fixture->is_direct);
}

static int begin(void **state, bool is_direct)
{
    struct fixture *fixture = mem_zalloc(sizeof(*fixture));

    strcpy(fixture->dir, "/tmp/kelvin-test-XXXXXX");
    assert_non_null(mkdtemp(fixture->dir));
    fixture->disk = faulty_disk_create();
    fixture->is_direct = is_direct;
    open_segments(fixture);
    *state = fixture;
    return 0;
}

static int set_up(void **state)
{
    return begin(state, false);
}

static int set_up_direct(void **state)
{
    return begin(state, true);
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    char command[100];

    segments_close(fixture->segments);
    faulty_disk_destroy(fixture->disk);
    segment_buffer_release(&fixture->scratch);
    snprintf(command, sizeof(command), "rm -rf '%s'", fixture->dir);
    assert_int_equal(system(command), 0);
    mem_free(fixture);
    return 0;
}

/* Key and value number `number`; a value has `size` bytes. */
static struct bytes key_of(uint64_t number, char text[32])
{
    snprintf(text, 32, "key:%llu", (unsigned long long)number);
    return bytes_of_string(text);
}

static uint64_t hash_of(uint64_t number)
{
    return number * 0x9e3779b97f4a7c15ull;
}

static void fill_value(struct buffer *value, uint64_t number, size_t size)
{
    value->size = 0;
    buffer_reserve(value, size);
    for (size_t i = 0; i < size; i++)
        value->data[i] = (char)(number * 31 + i * 7 + (i >> 8));
    value->size = size;
}

static uint64_t put(struct fixture *fixture, uint64_t number, size_t size)
{
    struct buffer value = { 0 };
    char text[32];
    uint64_t place;

    fill_value(&value, number, size);
    place = segments_put(fixture->segments, INCARNATION, hash_of(number), number % 8, key_of(number, text), buffer_bytes(&value));
    buffer_release(&value);
    return place;
}

static enum status read_at(struct fixture *fixture, uint64_t place, uint64_t number, enum segment_access access, struct buffer *value)
{
    struct segment *segment = segments_pin(fixture->segments, place);
    char text[32];
    enum status status;

    if (segment == NULL)
        return STATUS_CORRUPT;
    value->size = 0;
    status = segments_read(fixture->segments, segment, place, access, INCARNATION, hash_of(number), key_of(number, text),
        &fixture->scratch, value, NULL);
    segments_unpin(segment);
    return status;
}

static void expect(struct fixture *fixture, uint64_t place, uint64_t number, size_t size, enum segment_access access)
{
    struct buffer wanted = { 0 }, value = { 0 };

    fill_value(&wanted, number, size);
    assert_int_equal(read_at(fixture, place, number, access, &value), STATUS_OK);
    assert_int_equal(value.size, size);
    assert_true(size == 0 || memcmp(value.data, wanted.data, size) == 0);
    buffer_release(&wanted);
    buffer_release(&value);
}

struct walked {
    int records, damaged;
};

static struct walked walk_all(struct fixture *fixture, const uint64_t *places)
{
    struct walked walked = { 0, 0 };

    for (struct segment *segment = segments_next(fixture->segments, NULL); segment != NULL; segment = segments_next(fixture->segments, segment)) {
        struct segment_walk walk;
        struct segment_record record;
        uint64_t place;
        enum status status;

        segment_walk_begin(fixture->segments, segment, &walk);
        while ((status = segment_walk_next(&walk, &place, &record)) != STATUS_NOT_FOUND) {
            if (status == STATUS_OK)
                assert_int_equal(place, places[walked.records + walked.damaged]);
            walked.records += status == STATUS_OK;
            walked.damaged += status == STATUS_CORRUPT && walked.damaged == 0;
        }
        segment_walk_end(&walk);
    }
    return walked;
}

static void test_sizes(void **state)
{
    static const size_t sizes[] = { 0, 1, 90, 100, 128, 200, 500, 1000, 4000, 4096, 65536, 100000, 1 << 20, 3 << 20, 5000000 };
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    struct fixture *fixture = *state;
    uint64_t places[COUNT];

    for (int i = 0; i < COUNT; i++)
        places[i] = put(fixture, (uint64_t)i, sizes[i]);
    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    assert_int_equal(segments_pending(fixture->segments), 0);
    for (int i = 0; i < COUNT; i++)
        expect(fixture, places[i], (uint64_t)i, sizes[i], SEGMENT_BUFFERED);
    segments_seal(fixture->segments);
    assert_int_equal(segments_sync(fixture->segments), STATUS_OK);
    for (int i = 0; i < COUNT; i++)
        expect(fixture, places[i], (uint64_t)i, sizes[i], SEGMENT_DIRECT);
    segments_close(fixture->segments);
    open_segments(fixture);
    for (int i = 0; i < COUNT; i++) {
        expect(fixture, places[i], (uint64_t)i, sizes[i], SEGMENT_DIRECT);
        assert_true(segments_alive(fixture->segments, places[i]));
    }
}

/* What was just written is read, from the same block and page as what was read before. */
static void test_reads_between_writes(void **state)
{
    enum { COUNT = 1000 };
    struct fixture *fixture = *state;
    uint64_t places[COUNT];

    for (int i = 0; i < COUNT; i++) {
        enum segment_access access = i % 2 == 0 ? SEGMENT_BUFFERED : SEGMENT_DIRECT;

        places[i] = put(fixture, (uint64_t)i, (size_t)i % 300);
        assert_int_equal(segments_write(fixture->segments), STATUS_OK);
        expect(fixture, places[i], (uint64_t)i, (size_t)i % 300, access);
        expect(fixture, places[i / 2], (uint64_t)(i / 2), (size_t)(i / 2) % 300, access);
    }
    segments_seal(fixture->segments);
    assert_int_equal(segments_sync(fixture->segments), STATUS_OK);
    assert_int_equal(walk_all(fixture, places).records, COUNT);
    assert_int_equal(walk_all(fixture, places).damaged, 0);
}

/* Of a file that was written past the page cache nothing is in there. */
static void test_direct_writes_are_not_cached(void **state)
{
    struct fixture *fixture = *state;
    uint64_t place = put(fixture, 1, 30000);
    struct segment_span span;
    struct segment *segment;
    unsigned char pages[16] = { 0 };
    void *mapped;
    int cached = 0;

    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    segment = segments_pin(fixture->segments, place);
    segment_span_of(segment, place, SEGMENT_BUFFERED, &span);
    if (fixture->is_direct && !span.is_direct)
        skip();                     /* the file system has no O_DIRECT */
    mapped = mmap(NULL, 32768, PROT_READ, MAP_SHARED, span.fd, 0);
    assert_ptr_not_equal(mapped, MAP_FAILED);
    assert_int_equal(mincore(mapped, 28672, pages), 0);
    for (int i = 0; i < 7; i++)
        cached += pages[i] & 1;
    assert_int_equal(munmap(mapped, 32768), 0);
    segments_unpin(segment);
    assert_int_equal(cached, fixture->is_direct ? 0 : 7);
}

static void test_another_key(void **state)
{
    struct fixture *fixture = *state;
    uint64_t place = put(fixture, 1, 50);
    struct buffer value = { 0 };

    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    assert_int_equal(read_at(fixture, place, 2, SEGMENT_BUFFERED, &value), STATUS_NOT_FOUND);
    buffer_release(&value);
}

static void test_take_back(void **state)
{
    struct fixture *fixture = *state;
    uint64_t first = put(fixture, 1, 50), second = put(fixture, 2, 5000), third;
    size_t before = segments_pending(fixture->segments);

    segments_take_back(fixture->segments, second);
    assert_true(segments_pending(fixture->segments) < before - 5000);
    third = put(fixture, 3, 70);
    assert_int_equal(third >> 7, second >> 7);      /* without kind and class */
    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    expect(fixture, first, 1, 50, SEGMENT_BUFFERED);
    expect(fixture, third, 3, 70, SEGMENT_BUFFERED);
}

/* Whatever fails and however often: what is written at last is at the places that were returned. */
static void test_failing_writes(void **state)
{
    enum { ROUNDS = 60, RECORDS = 20 };
    struct fixture *fixture = *state;
    uint64_t seed = seed_new(), places[ROUNDS * RECORDS];
    struct disk_faults faults = { .seed = seed, .write_error = 200, .write_no_space = 100, .write_short = 200, .write_late = 100, .open_error = 200 };
    int failures = 0;

    for (int round = 0; round < ROUNDS; round++) {
        faults.seed = seed + (uint64_t)round;
        faulty_disk_set(fixture->disk, &faults);
        for (int i = 0; i < RECORDS; i++)
            places[round * RECORDS + i] = put(fixture, (uint64_t)(round * RECORDS + i), 100 + (size_t)(round * i));
        for (int i = 0; i < 5 && segments_write(fixture->segments) != STATUS_OK; i++)
            failures++;
        faulty_disk_set(fixture->disk, NULL);
        assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    }
    assert_true(failures > 0);
    for (int i = 0; i < ROUNDS * RECORDS; i++)
        expect(fixture, places[i], (uint64_t)i, 100 + (size_t)((i / RECORDS) * (i % RECORDS)), SEGMENT_BUFFERED);
}

/* A segment whose sync failed is never taken for settled, until it was collected. */
static void test_failed_sync(void **state)
{
    struct fixture *fixture = *state;
    struct disk_faults faults = { .sync_error = 1000 };
    uint64_t place = put(fixture, 1, 100);

    segments_seal(fixture->segments);
    faulty_disk_set(fixture->disk, &faults);
    assert_int_equal(segments_sync(fixture->segments), STATUS_IO);
    faulty_disk_set(fixture->disk, NULL);
    assert_int_equal(segments_sync(fixture->segments), STATUS_IO);
    assert_ptr_equal(segments_victim(fixture->segments, 60), segments_next(fixture->segments, NULL));
    segments_dead(fixture->segments, place);
    assert_int_equal(segments_tidy(fixture->segments), STATUS_OK);
    assert_int_equal(segments_sync(fixture->segments), STATUS_OK);
}

/* What could not be collected of it can't be read anyway. */
static void test_failed_sync_of_what_cant_be_read(void **state)
{
    struct fixture *fixture = *state;
    struct disk_faults faults = { .sync_error = 1000 };
    struct segment *segment;

    (void)put(fixture, 1, 100);
    segments_seal(fixture->segments);
    segment = segments_next(fixture->segments, NULL);
    segment_spare(segment);
    faulty_disk_set(fixture->disk, &faults);
    assert_int_equal(segments_sync(fixture->segments), STATUS_IO);
    faulty_disk_set(fixture->disk, NULL);
    assert_true(segment_is_suspect(segment));
    assert_ptr_equal(segments_victim(fixture->segments, 60), segment);      /* once more */
    assert_int_equal(segments_sync(fixture->segments), STATUS_IO);
    segment_spare(segment);
    assert_null(segments_victim(fixture->segments, 60));
    assert_int_equal(segments_sync(fixture->segments), STATUS_OK);
}

/* A damaged byte of a record is an error for its key, never another value. */
static void test_damage(void **state)
{
    struct fixture *fixture = *state;
    struct disk_faults faults = { .seed = 7, .read_corrupt = 1000 };
    uint64_t place = put(fixture, 1, 60);
    struct buffer wanted = { 0 }, value = { 0 };
    int errors = 0;

    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    fill_value(&wanted, 1, 60);
    for (int i = 0; i < 2000; i++) {
        enum status status;

        faults.seed = (uint64_t)i;
        faulty_disk_set(fixture->disk, &faults);
        status = read_at(fixture, place, 1, SEGMENT_BUFFERED, &value);
        if (status == STATUS_OK)
            assert_true(value.size == 60 && memcmp(value.data, wanted.data, 60) == 0);
        else
            errors++;
    }
    assert_true(errors > 100);
    faulty_disk_set(fixture->disk, NULL);
    buffer_release(&wanted);
    buffer_release(&value);
}

static int open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

/* Of many segments that are only read, none stays open. */
static void test_lazy(void **state)
{
    enum { COUNT = 3000 };
    struct fixture *fixture = *state;
    uint64_t places[COUNT];
    struct segments_stats stats;
    struct buffer value = { 0 };
    char path[100];
    int before;

    for (int i = 0; i < COUNT; i++)
        places[i] = put(fixture, (uint64_t)i, 300);
    segments_seal(fixture->segments);
    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    segments_close(fixture->segments);
    before = open_files();
    fixture->is_lazy = true;
    open_segments(fixture);
    segments_measure(fixture->segments, &stats);
    assert_true(stats.count > 10);
    for (int i = 0; i < COUNT; i++)
        expect(fixture, places[i], (uint64_t)i, 300, SEGMENT_DIRECT);
    assert_int_equal(walk_all(fixture, places).records, COUNT);
    assert_int_equal(open_files(), before);
    snprintf(path, sizeof(path), "%s/00000001.seg", fixture->dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(read_at(fixture, places[0], 0, SEGMENT_BUFFERED, &value), STATUS_IO);        /* not: there is no such key */
    buffer_release(&value);
}

static void test_walk(void **state)
{
    enum { COUNT = 3000 };
    struct fixture *fixture = *state;
    uint64_t places[COUNT];
    struct walked walked;
    char path[100];
    FILE *file;

    for (int i = 0; i < COUNT; i++) {
        places[i] = put(fixture, (uint64_t)i, (size_t)i % 700);
        if (i % 10 == 0)
            assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    }
    segments_seal(fixture->segments);
    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    walked = walk_all(fixture, places);
    assert_int_equal(walked.records, COUNT);
    assert_int_equal(walked.damaged, 0);
    /* One byte of the second record: all others are found. */
    snprintf(path, sizeof(path), "%s/00000001.seg", fixture->dir);
    file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, 32 + 32 + 26, SEEK_SET);
    fputc('!', file);
    fclose(file);
    walked = walk_all(fixture, places);
    assert_int_equal(walked.records, COUNT - 1);
    assert_int_equal(walked.damaged, 1);
}

/* Slots and files are given back when nothing is live, not before the last reader is done. */
static void test_retire(void **state)
{
    enum { COUNT = 2000 };
    struct fixture *fixture = *state;
    uint64_t places[COUNT];
    struct segment *pinned;
    struct segments_stats stats;
    struct buffer value = { 0 };
    char text[32];

    for (int i = 0; i < COUNT; i++)
        places[i] = put(fixture, (uint64_t)i, 300);
    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    segments_measure(fixture->segments, &stats);
    assert_true(stats.count > 5);
    pinned = segments_pin(fixture->segments, places[0]);
    for (int i = 0; i < COUNT; i++)
        segments_dead(fixture->segments, places[i]);
    assert_int_equal(segments_tidy(fixture->segments), STATUS_OK);
    segments_measure(fixture->segments, &stats);
    assert_int_equal(stats.count, 1);           /* the tail */
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(segments_read(fixture->segments, pinned, places[0], SEGMENT_BUFFERED, INCARNATION, hash_of(0), key_of(0, text),
        &fixture->scratch, &value, NULL), STATUS_OK);
    segments_unpin(pinned);
    assert_int_equal(segments_tidy(fixture->segments), STATUS_OK);
    assert_null(segments_pin(fixture->segments, places[0]));
    buffer_release(&value);
}

static void test_victim(void **state)
{
    enum { COUNT = 2000 };
    struct fixture *fixture = *state;
    uint64_t places[COUNT];
    struct segment *second;

    for (int i = 0; i < COUNT; i++)
        places[i] = put(fixture, (uint64_t)i, 300);
    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    assert_null(segments_victim(fixture->segments, 60));
    second = segments_next(fixture->segments, segments_next(fixture->segments, NULL));
    for (int i = 0; i < COUNT; i++) {
        struct segment *segment = segments_pin(fixture->segments, places[i]);

        if (segment == second ? i % 10 != 0 : i % 2 != 0)
            segments_dead(fixture->segments, places[i]);
        segments_unpin(segment);
    }
    assert_ptr_equal(segments_victim(fixture->segments, 60), second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sizes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sizes, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_reads_between_writes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reads_between_writes, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_direct_writes_are_not_cached, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_direct_writes_are_not_cached, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_lazy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lazy, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_another_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_another_key, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_take_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_take_back, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_failing_writes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failing_writes, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_sync, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_sync, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_sync_of_what_cant_be_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_sync_of_what_cant_be_read, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_walk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_walk, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_retire, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_retire, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_victim, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_victim, set_up_direct, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
