/* store/segments: what is put can be read at its place, in memory of the same process and after the files were opened again. */
#include "support/unit.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/varint.h"
#include "store/segment_body.h"
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
    place = segments_put(fixture->segments, 0, INCARNATION, number % 8, key_of(number, text), buffer_bytes(&value), 0);
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
    status = segments_read(fixture->segments, segment, place, access, INCARNATION, key_of(number, text),
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
        assert_true(segments_alive(fixture->segments, place_slot(places[i]), place_weight(places[i])));
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
    assert_ptr_equal(segments_victim(fixture->segments, 60, 0), segments_next(fixture->segments, NULL));
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
    assert_ptr_equal(segments_victim(fixture->segments, 60, 0), segment);      /* once more */
    assert_int_equal(segments_sync(fixture->segments), STATUS_IO);
    segment_spare(segment);
    assert_null(segments_victim(fixture->segments, 60, 0));
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
    assert_int_equal(segments_read(fixture->segments, pinned, places[0], SEGMENT_BUFFERED, INCARNATION, key_of(0, text),
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
    assert_null(segments_victim(fixture->segments, 60, 0));
    second = segments_next(fixture->segments, segments_next(fixture->segments, NULL));
    for (int i = 0; i < COUNT; i++) {
        struct segment *segment = segments_pin(fixture->segments, places[i]);

        if (segment == second ? i % 10 != 0 : i % 2 != 0)
            segments_dead(fixture->segments, places[i]);
        segments_unpin(segment);
    }
    assert_ptr_equal(segments_victim(fixture->segments, 60, 0), second);
}

/* Where blocks are allocated as pages are written back, the disk is full only then, and the kernel says so once. */
static void test_failed_write_back(void **state)
{
    static const int errors[] = { ENOSPC, EDQUOT, EIO, ENXIO };
    static const int harmless[] = { EINVAL, ENOSYS, ESPIPE, EOPNOTSUPP };
    struct fixture *fixture = *state;

    for (size_t i = 0; i < 8; i++) {
        struct disk_faults faults = { .write_back_error = 1000, .write_back_errno = i < 4 ? errors[i] : harmless[i - 4] };
        struct segment *segment;
        uint64_t place = put(fixture, i, 100);

        segments_seal(fixture->segments);
        assert_int_equal(segments_write(fixture->segments), STATUS_OK);
        segment = fixture->segments->last;
        segment->sealed_ms -= SETTLE_MS;
        faulty_disk_set(fixture->disk, &faults);
        assert_int_equal(segments_settle(fixture->segments), i < 4 ? status_of_errno(errors[i]) : STATUS_OK);
        faulty_disk_set(fixture->disk, NULL);
        assert_int_equal(segment_is_suspect(segment), i < 4);
        assert_int_equal(segments_sync(fixture->segments), i < 4 ? STATUS_IO : STATUS_OK);      /* an image needs it */
        segments_dead(fixture->segments, place);
        assert_int_equal(segments_tidy(fixture->segments), STATUS_OK);
    }
}

/* A place is in a map as soon as the record is put. A key that asks for it meanwhile is another one: it has no record. */
static void test_pending_places(void **state)
{
    struct fixture *fixture = *state;
    struct disk_faults faults = { .write_no_space = 1000 };
    struct buffer value = { 0 };
    uint64_t place = put(fixture, 1, 100);

    for (int i = 0; i < 2; i++) {
        assert_int_equal(read_at(fixture, place, 2, SEGMENT_BUFFERED, &value), STATUS_NOT_FOUND);
        assert_int_equal(read_at(fixture, place, 2, SEGMENT_DIRECT, &value), STATUS_NOT_FOUND);
        faulty_disk_set(fixture->disk, &faults);
        assert_int_equal(segments_write(fixture->segments), STATUS_NO_SPACE);
        faulty_disk_set(fixture->disk, NULL);
        assert_int_equal(read_at(fixture, place, 2, SEGMENT_BUFFERED, &value), STATUS_NOT_FOUND);
        assert_int_equal(segments_write(fixture->segments), STATUS_OK);
        expect(fixture, place, 1, i == 0 ? 100 : 200, SEGMENT_BUFFERED);
        place = put(fixture, 1, 200);           /* in a tail that has a file */
    }
    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    buffer_release(&value);
}

/* A file that ends too early is damaged: that is no "not yet". */
static void test_cut_off(void **state)
{
    struct fixture *fixture = *state;
    struct buffer value = { 0 };
    uint64_t places[2];
    char path[100];

    places[0] = put(fixture, 0, 100);
    places[1] = put(fixture, 1, 100);
    segments_seal(fixture->segments);
    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    segments_close(fixture->segments);
    snprintf(path, sizeof(path), "%s/00000001.seg", fixture->dir);
    assert_int_equal(truncate(path, (off_t)place_offset(places[1])), 0);
    open_segments(fixture);
    expect(fixture, places[0], 0, 100, SEGMENT_BUFFERED);
    assert_int_equal(read_at(fixture, places[1], 1, SEGMENT_BUFFERED, &value), STATUS_CORRUPT);
    buffer_release(&value);
}

static void damage_head(struct fixture *fixture, int number)
{
    char path[100];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%08d.seg", fixture->dir, number);
    file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, 9, SEEK_SET);
    fputc('!', file);
    fclose(file);
}

static bool has_file(struct fixture *fixture, int number)
{
    char path[100];

    snprintf(path, sizeof(path), "%s/%08d.seg", fixture->dir, number);
    return access(path, F_OK) == 0;
}

/* The slot of a segment that is missing is not given to another one as long as a map has a place in it, and what is left of its file is kept. */
static void test_lost_slots(void **state)
{
    enum { COUNT = 600 };
    struct fixture *fixture = *state;
    uint64_t places[COUNT];
    struct buffer value = { 0 };
    uint32_t lost_slot;

    for (int i = 0; i < COUNT; i++)
        places[i] = put(fixture, (uint64_t)i, 300);
    segments_seal(fixture->segments);
    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    segments_close(fixture->segments);
    damage_head(fixture, 1);
    open_segments(fixture);
    lost_slot = place_slot(places[0]);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(segments_alive(fixture->segments, place_slot(places[i]), place_weight(places[i])), place_slot(places[i]) != lost_slot);
    for (int i = 0; i < COUNT; i++) {           /* enough for all free slots that come first */
        assert_true(place_slot(put(fixture, (uint64_t)i, 300)) != lost_slot);
        assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    }
    assert_int_equal(segments_tidy(fixture->segments), STATUS_OK);
    assert_int_equal(read_at(fixture, places[0], 0, SEGMENT_BUFFERED, &value), STATUS_CORRUPT);
    assert_null(segments_victim(fixture->segments, 60, 0));
    assert_int_equal(segments_sync(fixture->segments), STATUS_OK);
    assert_true(has_file(fixture, 1));
    /* All its keys were deleted or overwritten. */
    for (int i = 0; i < COUNT; i++) {
        if (place_slot(places[i]) == lost_slot)
            segments_dead(fixture->segments, places[i]);
    }
    assert_int_equal(segments_tidy(fixture->segments), STATUS_OK);
    assert_false(has_file(fixture, 1));
    assert_null(segments_pin(fixture->segments, places[0]));
    buffer_release(&value);
}

/* While the file with a damaged head is kept, and when it is removed, no other file has its name. */
static void test_names_of_damaged_files(void **state)
{
    struct fixture *fixture = *state;
    uint64_t place;

    for (uint64_t i = 0; i < 2; i++) {
        place = put(fixture, i, 300);
        segments_seal(fixture->segments);
        assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    }
    segments_close(fixture->segments);
    damage_head(fixture, 2);
    open_segments(fixture);
    assert_false(segments_alive(fixture->segments, place_slot(place), place_weight(place)));
    (void)put(fixture, 2, 300);
    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    assert_true(segments_next_sequence(fixture->segments) > 2 + STAMPS_LOST);
    segments_dead(fixture->segments, place);
    assert_true(has_file(fixture, 2));
    assert_int_equal(segments_tidy(fixture->segments), STATUS_OK);
    assert_false(has_file(fixture, 2));
    assert_true(has_file(fixture, 2 + STAMPS_LOST + 1));
}

static void move_all(struct fixture *fixture, struct segment *victim, uint64_t *places, const bool *live, int count, const size_t *sizes)
{
    for (int i = 0; i < count; i++) {
        struct segment *segment = live[i] ? segments_pin(fixture->segments, places[i]) : NULL;
        uint64_t from = places[i];

        if (segment != NULL)
            segments_unpin(segment);
        if (segment != victim)
            continue;
        places[i] = put(fixture, (uint64_t)i, sizes[i]);
        segments_dead(fixture->segments, from);
    }
    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    assert_int_equal(segments_tidy(fixture->segments), STATUS_OK);
}

/* Collection ends by itself, and has written no more than what it freed allows. */
static void test_collection_is_bounded(void **state)
{
    enum { COUNT = 6000, TARGET = 60 };
    struct fixture *fixture = *state;
    struct random random;
    uint64_t places[COUNT], garbage = 0, before;
    size_t sizes[COUNT];
    bool live[COUNT];
    struct segments_stats stats;
    struct segment *victim;

    random_init(&random, seed_new());
    for (int i = 0; i < COUNT; i++) {
        sizes[i] = random_below(&random, 600);
        places[i] = put(fixture, (uint64_t)i, sizes[i]);
        live[i] = true;
        if (random_below(&random, 20) == 0)     /* an image */
            segments_seal(fixture->segments);
        assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    }
    /* All segments with much garbage are spared: the others are not rewritten in their place. */
    for (int i = 0; i < COUNT; i++) {
        struct segment *segment = segments_pin(fixture->segments, places[i]);
        bool is_bad = segment->sequence % 3 == 0;

        segments_unpin(segment);
        live[i] = random_below(&random, 100) >= (is_bad ? 95u : 30u);
        if (!live[i]) {
            segments_dead(fixture->segments, places[i]);
            garbage += sizes[i] + 50;
        }
        if (is_bad && segment->state != SEGMENT_TAIL)
            segment_spare(segment);
    }
    assert_int_equal(segments_tidy(fixture->segments), STATUS_OK);
    segments_measure(fixture->segments, &stats);
    before = stats.written_bytes;
    for (int i = 0; (victim = segments_victim(fixture->segments, TARGET, 0)) != NULL; i++) {
        assert_true(i < COUNT);
        move_all(fixture, victim, places, live, COUNT, sizes);
    }
    segments_measure(fixture->segments, &stats);
    assert_true(stats.written_bytes - before <= garbage * TARGET / (100 - TARGET) + (SMALL_MAX + 1) * SMALL_SEGMENT);
    for (int i = 0; i < COUNT; i += 7) {
        if (live[i])
            expect(fixture, places[i], (uint64_t)i, sizes[i], SEGMENT_BUFFERED);
    }
}

/* A segment that is small because its one record is huge is not collected: it would be written again as it is. And others are. */
static void test_huge_records_stay(void **state)
{
    enum { HUGE = 90, COUNT = 3000 };
    struct fixture *fixture = *state;
    struct segments_options options = { .dir = fixture->dir, .disk = faulty_disk_table(fixture->disk) };
    uint64_t places[COUNT];
    struct message message = { "" };
    struct buffer value = { 0 };
    struct segment *victim;
    char text[32];

    segments_close(fixture->segments);
    assert_int_equal(segments_open(&options, &fixture->segments, &message), STATUS_OK);
    for (int i = 0; i < COUNT; i++)
        places[i] = put(fixture, (uint64_t)i, 3000);
    fill_value(&value, 1, 2 << 20);
    for (int i = 0; i < HUGE; i++) {
        (void)segments_put(fixture->segments, 0, INCARNATION, 0, key_of((uint64_t)i, text), buffer_bytes(&value), 0);
        assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    }
    buffer_release(&value);
    for (int reopened = 0; reopened < 2; reopened++) {
        assert_null(segments_victim(fixture->segments, 1, 0));
        if (reopened > 0)
            break;
        for (int i = 0; i < COUNT * 9 / 10; i++)
            segments_dead(fixture->segments, places[i]);
        victim = segments_victim(fixture->segments, 99, 0);
        assert_true(victim != NULL && !victim->is_huge);
        segments_close(fixture->segments);
        assert_int_equal(segments_open(&options, &fixture->segments, &message), STATUS_OK);
        for (struct segment *segment = fixture->segments->first; segment != NULL; segment = segment->next) {
            segment->live = segment->weight;        /* as after a start */
            if (segment->weight == place_weight(SEGMENT_CLASS_HUGE))
                assert_true(segment->is_huge);
        }
    }
}

/* --- hostile bytes --- */

enum { HOSTILE_RECORDS = 9, HOSTILE_SLOT = 11, HOSTILE_SEQUENCE = 3 };

/* A small file, where each of its records begins and ends, and where the footer does. */
struct hostile {
    struct buffer file;
    uint64_t places[HOSTILE_RECORDS], begins[HOSTILE_RECORDS + 1], ends[HOSTILE_RECORDS + 1];   /* `ends`: without the zeros */
    size_t value_size;
};

static void hostile_path(const struct fixture *fixture, char path[100])
{
    snprintf(path, 100, "%s/%08d.seg", fixture->dir, HOSTILE_SEQUENCE);
}

static void write_bytes(const struct fixture *fixture, struct bytes bytes)
{
    char path[100];
    FILE *out;

    hostile_path(fixture, path);
    out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes.data, 1, bytes.size, out), bytes.size);
    assert_int_equal(fclose(out), 0);
}

static void read_bytes(const struct fixture *fixture, struct buffer *bytes)
{
    char path[100];
    FILE *in;

    hostile_path(fixture, path);
    in = fopen(path, "r");
    assert_non_null(in);
    bytes->size = fread(buffer_reserve(bytes, SMALL_SEGMENT), 1, SMALL_SEGMENT, in);
    assert_int_equal(fclose(in), 0);
}

static void write_hostile(const struct fixture *fixture, struct hostile *hostile)
{
    struct buffer file = { 0 }, value = { 0 };
    uint64_t weight = 0;
    char text[32];

    segment_head_append(&file, HOSTILE_SEQUENCE, HOSTILE_SLOT);
    for (int i = 0; i < HOSTILE_RECORDS; i++) {
        uint64_t begin = file.size;

        fill_value(&value, (uint64_t)i, hostile->value_size);
        (void)segment_record_append(&file, INCARNATION, (unsigned)i % 8, key_of((uint64_t)i, text), buffer_bytes(&value));
        hostile->places[i] = place_make(HOSTILE_SLOT, begin, (unsigned)i % 8, file.size - begin);
        weight += place_weight(hostile->places[i]);
    }
    segment_footer_append(&file, &(struct segment_footer){ weight, HOSTILE_RECORDS, HOSTILE_SEQUENCE }, NULL);
    write_bytes(fixture, buffer_bytes(&file));
    buffer_release(&file);
    buffer_release(&value);
}

static void hostile_init(const struct fixture *fixture, size_t value_size, struct hostile *hostile)
{
    *hostile = (struct hostile){ .value_size = value_size };
    write_hostile(fixture, hostile);
    read_bytes(fixture, &hostile->file);
    hostile->begins[HOSTILE_RECORDS] = hostile->file.size - segment_footer_size();
    for (int i = 0; i < HOSTILE_RECORDS; i++)
        hostile->begins[i] = place_offset(hostile->places[i]);
    for (int i = 0; i <= HOSTILE_RECORDS; i++) {
        struct segment_record record;
        uint64_t size;

        assert_int_equal(segment_record_parse(bytes_of(hostile->file.data + hostile->begins[i], hostile->file.size - hostile->begins[i]), &record, &size), STATUS_OK);
        hostile->ends[i] = (uint64_t)(record.value.data + record.value.size - hostile->file.data);
    }
}

/* Of the changed file: which records are whole. Each of these, and no other, is read and walked over. */
static void expect_whole(struct fixture *fixture, const struct hostile *hostile, const bool whole[HOSTILE_RECORDS])
{
    struct segment *segment = segments_next(fixture->segments, NULL);
    struct buffer value = { 0 };
    struct segment_record record;
    struct segment_walk walk;
    uint64_t place;
    enum status status;
    int next = 0;

    for (int i = 0; i < HOSTILE_RECORDS; i++) {
        if (whole[i])
            expect(fixture, hostile->places[i], (uint64_t)i, hostile->value_size, SEGMENT_BUFFERED);
        else
            assert_int_equal(read_at(fixture, hostile->places[i], (uint64_t)i, SEGMENT_BUFFERED, &value), STATUS_CORRUPT);
        /* A class that is not the record's, as a place has it that was damaged. */
        status = read_at(fixture, hostile->places[i] | SEGMENT_CLASS_HUGE, (uint64_t)i, SEGMENT_BUFFERED, &value);
        assert_int_equal(status, whole[i] ? STATUS_OK : STATUS_CORRUPT);
    }
    segment_walk_begin(fixture->segments, segment, &walk);
    while ((status = segment_walk_next(&walk, &place, &record)) != STATUS_NOT_FOUND) {
        while (next < HOSTILE_RECORDS && !whole[next])
            next++;
        assert_true(status == STATUS_CORRUPT || (next < HOSTILE_RECORDS && place == hostile->places[next++]));
    }
    segment_walk_end(&walk);
    while (next < HOSTILE_RECORDS && !whole[next])
        next++;
    assert_int_equal(next, HOSTILE_RECORDS);
    buffer_release(&value);
}

/* Opens the changed file. False: its head is damaged. */
static bool open_hostile(struct fixture *fixture, struct bytes bytes)
{
    write_bytes(fixture, bytes);
    open_segments(fixture);
    if (segments_damaged_count(fixture->segments) == 0)
        return true;
    assert_null(segments_next(fixture->segments, NULL));
    return false;
}

static void change_every_byte(struct fixture *fixture, size_t value_size)
{
    static const uint8_t changes[] = { 0x01, 0x80, 0xff };
    bool whole[HOSTILE_RECORDS];
    struct hostile hostile;

    hostile_init(fixture, value_size, &hostile);
    for (size_t at = 0; at < hostile.file.size; at++) {
        for (size_t change = 0; change < sizeof(changes); change++) {
            for (int i = 0; i < HOSTILE_RECORDS; i++)
                whole[i] = at < hostile.begins[i] || at >= hostile.ends[i];
            hostile.file.data[at] = (char)(hostile.file.data[at] ^ changes[change]);
            if (open_hostile(fixture, buffer_bytes(&hostile.file)))
                expect_whole(fixture, &hostile, whole);
            else
                assert_true(at < 24);           /* the rest of the head is zeros */
            segments_close(fixture->segments);
            hostile.file.data[at] = (char)(hostile.file.data[at] ^ changes[change]);
        }
    }
    buffer_release(&hostile.file);
}

/* Any one byte: the record that has it can't be read, all others can. */
static void test_every_byte(void **state)
{
    struct fixture *fixture = *state;

    segments_close(fixture->segments);
    change_every_byte(fixture, 20);
    change_every_byte(fixture, 90);
    open_segments(fixture);
}

/* A file that ends anywhere. */
static void test_every_length(void **state)
{
    struct fixture *fixture = *state;
    bool whole[HOSTILE_RECORDS];
    struct hostile hostile;

    segments_close(fixture->segments);
    hostile_init(fixture, 90, &hostile);
    for (size_t size = 0; size < hostile.file.size; size++) {
        for (int i = 0; i < HOSTILE_RECORDS; i++)
            whole[i] = size >= hostile.ends[i];
        if (open_hostile(fixture, bytes_of(hostile.file.data, size)))
            expect_whole(fixture, &hostile, whole);
        else
            assert_true(size < SEGMENT_HEAD_SIZE);
        segments_close(fixture->segments);
    }
    buffer_release(&hostile.file);
    open_segments(fixture);
}

/* Sizes that a record of the file says it has, up to the largest numbers: no read of it reserves memory for them. */
static void test_sizes_that_no_record_has(void **state)
{
    enum { CASES = 400 };
    struct fixture *fixture = *state;
    struct random random;

    segments_close(fixture->segments);
    random_init(&random, seed_new());
    for (int i = 0; i < CASES; i++) {
        bool whole[HOSTILE_RECORDS];
        struct buffer head = { 0 };
        struct hostile hostile;
        uint64_t value_size = UINT64_MAX >> random_below(&random, 64);
        uint32_t key_size = UINT32_MAX >> random_below(&random, 32), crc = (uint32_t)random_next(&random);
        size_t record = (size_t)random_below(&random, HOSTILE_RECORDS);

        hostile_init(fixture, 90, &hostile);
        buffer_append(&head, &crc, 4);
        varint_append(&head, value_size);
        varint_append(&head, INCARNATION);
        varint_append(&head, key_size);
        memcpy(hostile.file.data + hostile.begins[record], head.data, head.size);
        for (size_t k = 0; k < HOSTILE_RECORDS; k++)
            whole[k] = k != record;
        assert_true(open_hostile(fixture, buffer_bytes(&hostile.file)));
        expect_whole(fixture, &hostile, whole);
        segments_close(fixture->segments);
        buffer_release(&head);
        buffer_release(&hostile.file);
    }
    open_segments(fixture);
}

/* What damaged bytes say of sizes must not make the search for the next record read the rest of the file for each unit. */
static void test_only_the_first_record_is_huge(void **state)
{
    enum { HUGE_SIZE = SEGMENT_RECORD_MAX + 100 };
    struct fixture *fixture = *state;
    struct hostile hostile = { .value_size = 0 };
    struct buffer value = { 0 }, *file = &hostile.file;
    struct segment_record record;
    struct segment_walk walk;
    int corrupt = 0;
    uint64_t place, end;
    enum status status;

    segments_close(fixture->segments);
    fill_value(&value, 1, HUGE_SIZE);
    segment_head_append(file, HOSTILE_SEQUENCE, HOSTILE_SLOT);
    (void)segment_record_append(file, INCARNATION, 0, BYTES("first"), BYTES("1"));
    end = file->size;
    (void)segment_record_append(file, INCARNATION, 0, BYTES("second"), buffer_bytes(&value));
    (void)segment_record_append(file, INCARNATION, 0, BYTES("third"), bytes_of(value.data, SEGMENT_RECORD_MAX - 16));
    segment_footer_append(file, &(struct segment_footer){ 1, 3, HOSTILE_SEQUENCE }, NULL);
    assert_true(open_hostile(fixture, buffer_bytes(file)));
    segment_walk_begin(fixture->segments, segments_next(fixture->segments, NULL), &walk);
    assert_int_equal(segment_walk_next(&walk, &place, &record), STATUS_OK);
    assert_true(bytes_equal(record.key, BYTES("first")));
    while ((status = segment_walk_next(&walk, &place, &record)) == STATUS_CORRUPT)
        corrupt++;
    assert_int_equal(status, STATUS_OK);
    assert_true(bytes_equal(record.key, BYTES("third")));
    assert_int_equal(place_offset(place), end + (uint64_t)corrupt * SEGMENT_UNIT);
    assert_int_equal(segment_walk_next(&walk, &place, &record), STATUS_NOT_FOUND);
    segment_walk_end(&walk);
    buffer_release(&value);
    buffer_release(file);
}

/* If that one is damaged, there is nothing to search in its file. */
static void test_damage_in_a_huge_record(void **state)
{
    enum { HUGE_SIZE = 3 << 20, DAMAGED_AT = 100000 };
    struct fixture *fixture = *state;
    uint64_t place = put(fixture, 1, HUGE_SIZE), found, offset;
    struct segment *segment = segments_next(fixture->segments, NULL);
    struct segment_record record;
    struct segment_walk walk;
    struct bytes damaged;
    char path[100];
    FILE *file;

    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    snprintf(path, sizeof(path), "%s/%08llu.seg", fixture->dir, (unsigned long long)segment_sequence(segment));
    segments_close(fixture->segments);
    file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, DAMAGED_AT, SEEK_SET), 0);
    assert_int_equal(fputc(0, file), 0);
    assert_int_equal(fclose(file), 0);
    open_segments(fixture);
    segment_walk_begin(fixture->segments, segments_next(fixture->segments, NULL), &walk);
    assert_int_equal(segment_walk_next(&walk, &found, &record), STATUS_CORRUPT);
    damaged = segment_walk_damaged(&walk, &offset);
    assert_int_equal(offset, place_offset(place));
    assert_true(damaged.size > HUGE_SIZE);
    assert_int_equal(segment_walk_next(&walk, &found, &record), STATUS_NOT_FOUND);
    segment_walk_end(&walk);
}

/* Every head of a record that ends too early, and heads of every size. */
static void test_record_heads(void **state)
{
    static const struct { uint32_t incarnation; size_t key_size, value_size, size; } cases[] = {
        { 1, 0, 0, 16 }, { 1, 4, 5, 16 }, { 1, 4, 6, 32 }, { 127, 16, 38, 64 }, { 128, 16, 38, 64 }, { UINT32_MAX, 16, 38, 80 },
        { 1, 200, 16, 240 }, { 1, 16, 231, 256 }, { 1, 16, 2048, 2080 }, { 1, 300, 300000, 300320 },
    };
    struct buffer text = { 0 }, out = { 0 };

    (void)state;
    fill_value(&text, 1, 300000);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes key = bytes_of(text.data, cases[i].key_size), value = bytes_of(text.data, cases[i].value_size);
        struct segment_record record;
        uint64_t size;

        out.size = 0;
        assert_int_equal(segment_record_append(&out, cases[i].incarnation, (unsigned)i % 8, key, value), cases[i].size);
        assert_int_equal(out.size, cases[i].size);
        assert_int_equal(segment_record_size(cases[i].incarnation, (unsigned)i % 8, key.size, value.size), cases[i].size);
        assert_int_equal(segment_record_parse(buffer_bytes(&out), &record, &size), STATUS_OK);
        assert_int_equal(size, cases[i].size);
        assert_int_equal(record.incarnation, cases[i].incarnation);
        assert_int_equal(record.kind, i % 8);
        assert_true(bytes_equal(record.key, key) && bytes_equal(record.value, value));
        for (size_t cut = 0; cut < 24 && cut < out.size - SEGMENT_UNIT; cut++) {
            assert_int_equal(segment_record_parse(bytes_of(out.data, cut), &record, &size), STATUS_TRUNCATED);
            assert_true(size > cut);
        }
        out.data[5] ^= 1;
        assert_int_not_equal(segment_record_parse(buffer_bytes(&out), &record, &size), STATUS_OK);
    }
    memset(out.data, 0, 64);
    for (size_t size = 0; size <= 64; size++) {     /* zeros are no record */
        struct segment_record record;
        uint64_t needed;

        assert_int_not_equal(segment_record_parse(bytes_of(out.data, size), &record, &needed), STATUS_OK);
    }
    memset(out.data, 0xff, 64);                     /* nor is a number without an end, or of a size that no file has */
    for (size_t size = 32; size <= 64; size++) {
        struct segment_record record;
        uint64_t needed;

        assert_int_equal(segment_record_parse(bytes_of(out.data, size), &record, &needed), STATUS_CORRUPT);
    }
    memset(out.data, 1, 64);
    memset(out.data + 4, 0xff, 8);
    out.data[12] = 0x7f;
    assert_int_equal(segment_record_parse(bytes_of(out.data, 64), &(struct segment_record){ 0 }, &(uint64_t){ 0 }), STATUS_TRUNCATED);
    buffer_release(&text);
    buffer_release(&out);
}

/* Segments that an image has are passed over on a full disk. */
static void test_victim_from_a_sequence_on(void **state)
{
    struct fixture *fixture = *state;
    uint64_t places[4];
    struct segment *first, *second;

    for (uint64_t i = 0; i < 4; i++) {
        places[i] = put(fixture, i, 200);
        if (i % 2 == 1)
            segments_seal(fixture->segments);
    }
    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    first = segments_next(fixture->segments, NULL);
    second = segments_next(fixture->segments, first);
    segments_dead(fixture->segments, places[0]);
    assert_ptr_equal(segments_victim(fixture->segments, 90, 0), first);
    assert_null(segments_victim(fixture->segments, 90, segment_sequence(second)));
    segments_dead(fixture->segments, places[2]);
    segments_dead(fixture->segments, places[1]);
    assert_ptr_equal(segments_victim(fixture->segments, 90, 0), first);
    assert_ptr_equal(segments_victim(fixture->segments, 90, segment_sequence(second)), second);
}

/* A read that failed may succeed later. */
static void test_put_off(void **state)
{
    struct fixture *fixture = *state;
    uint64_t places[2];
    struct segment *segment;

    places[0] = put(fixture, 0, 200);
    places[1] = put(fixture, 1, 200);
    segments_seal(fixture->segments);
    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    segments_dead(fixture->segments, places[0]);
    segment = segments_victim(fixture->segments, 90, 0);
    assert_non_null(segment);
    segment_put_off(segment);
    assert_null(segments_victim(fixture->segments, 90, 0));
    segment->put_off_until_ms -= PUT_OFF_MS;        /* a second later */
    assert_ptr_equal(segments_victim(fixture->segments, 90, 0), segment);
    for (int i = 0; i < 100; i++)
        segment_put_off(segment);
    assert_int_equal(segment->put_off_ms, PUT_OFF_MAX_MS);
}

/* Bytes that removing files did not free, because an image has them. */
static void test_linked_bytes(void **state)
{
    struct fixture *fixture = *state;
    struct segments_stats stats;
    char from[100], to[100];

    for (uint64_t i = 0; i < 2; i++) {
        uint64_t place = put(fixture, i, 1000), size;

        segments_seal(fixture->segments);
        assert_int_equal(segments_write(fixture->segments), STATUS_OK);
        size = segment_size(fixture->segments->last);
        if (i == 1) {
            snprintf(from, sizeof(from), "%s/00000002.seg", fixture->dir);
            snprintf(to, sizeof(to), "%s/image", fixture->dir);
            assert_int_equal(link(from, to), 0);
        }
        segments_dead(fixture->segments, place);
        assert_int_equal(segments_tidy(fixture->segments), STATUS_OK);
        segments_measure(fixture->segments, &stats);
        assert_int_equal(stats.linked_bytes, i == 0 ? 0 : size);
    }
}

/* Numbers near the end of the range: no later file gets a number that was used. */
static void test_sequences_dont_overflow(void **state)
{
    struct fixture *fixture = *state;
    struct hostile hostile;
    struct segment_footer footer = { 1, HOSTILE_RECORDS, UINT64_MAX };
    struct segment_head head;
    uint32_t crc;

    hostile_init(fixture, 100, &hostile);
    hostile.file.size -= segment_footer_size();
    segment_footer_append(&hostile.file, &footer, NULL);
    segments_close(fixture->segments);
    assert_true(open_hostile(fixture, buffer_bytes(&hostile.file)));
    assert_int_equal(segments_next_sequence(fixture->segments), HOSTILE_SEQUENCE + STAMPS_LOST + 1);
    segments_close(fixture->segments);
    memset(hostile.file.data + 8, 0xff, 8);
    crc = crc32c(0, hostile.file.data, 20);
    memcpy(hostile.file.data + 20, &crc, 4);
    assert_int_equal(segment_head_parse(buffer_bytes(&hostile.file), &head), STATUS_OK);
    assert_false(open_hostile(fixture, buffer_bytes(&hostile.file)));
    assert_int_equal(segments_next_sequence(fixture->segments), HOSTILE_SEQUENCE + STAMPS_LOST + 1);
    buffer_release(&hostile.file);
}

/* --- several tails --- */

enum { TAIL_KEYS = 40, TAIL_ROUNDS = 800 };

struct newest {
    uint64_t place;                 /* as put */
    uint64_t stamp, found;          /* of the latest record that walks have met */
};

static void note_stamps(struct fixture *fixture, struct newest *newest)
{
    struct segment *segment = NULL;
    char text[32];

    while ((segment = segments_next(fixture->segments, segment)) != NULL) {
        struct segment_walk walk;
        struct segment_record record;
        uint64_t place;

        segment_walk_begin(fixture->segments, segment, &walk);
        while (segment_walk_next(&walk, &place, &record) == STATUS_OK) {
            int key = 0;

            while (!bytes_equal(record.key, key_of((uint64_t)key, text)))
                assert_true(++key < TAIL_KEYS);
            if (walk.stamp < newest[key].stamp)
                continue;
            newest[key].stamp = walk.stamp;
            newest[key].found = place;
        }
        assert_int_not_equal(walk.stamp, UINT64_MAX);
        segment_walk_end(&walk);
    }
}

/* The stamps say which record of a key was put last, whatever tails it was in, whichever writes failed, and wherever the process was started again. */
static void test_stamps(void **state)
{
    struct fixture *fixture = *state;
    uint64_t seed = seed_new();
    struct disk_faults faults = { .seed = seed, .write_error = 100, .write_short = 100, .open_error = 50 };
    struct newest newest[TAIL_KEYS] = { 0 };
    struct random random;
    char text[32];

    random_init(&random, seed);
    for (int round = 0; round < TAIL_ROUNDS; round++) {
        unsigned tails = round / 50 % 2 == 0 ? SEGMENT_TAILS : 2;
        uint64_t first = random_below(&random, TAIL_KEYS), count = 1 + random_below(&random, TAIL_KEYS);

        for (uint64_t i = 0; i < count; i++) {
            uint64_t key = (first + i) % TAIL_KEYS;

            newest[key].place = segments_put(fixture->segments, (unsigned)random_below(&random, tails), INCARNATION, 0, key_of(key, text),
                bytes_of("0123456789", 10), 0);
        }
        faults.seed++;
        faulty_disk_set(fixture->disk, &faults);
        (void)segments_write(fixture->segments);
        faulty_disk_set(fixture->disk, NULL);
        if (random_below(&random, 40) == 0)
            segments_seal(fixture->segments);
        if (random_below(&random, 80) != 0 && round + 1 < TAIL_ROUNDS)
            continue;
        segments_seal(fixture->segments);
        assert_int_equal(segments_write(fixture->segments), STATUS_OK);
        segments_close(fixture->segments);
        open_segments(fixture);
    }
    note_stamps(fixture, newest);
    for (int key = 0; key < TAIL_KEYS; key++) {
        if (newest[key].place == 0)
            continue;
        assert_int_equal(newest[key].found, newest[key].place);
    }
}

/* Marks are only where something was put elsewhere meanwhile: one for each tail and write. */
static void test_marks_take_little(void **state)
{
    struct fixture *fixture = *state;
    uint64_t record = segment_record_size(INCARNATION, 0, 1, 100), none = SEGMENT_HEAD_SIZE + segment_uses_size() + segment_footer_size();
    struct buffer mark = { 0 };

    segment_mark_append(&mark, 1ull << 40);
    for (unsigned tails = 1; tails <= 2; tails++) {
        for (int i = 0; i < 60; i++) {
            (void)segments_put(fixture->segments, (unsigned)i % tails, INCARNATION, 0, BYTES("k"), bytes_of(memset((char[100]){ 0 }, 'x', 100), 100), 0);
            if (i % 6 == 5)
                assert_int_equal(segments_write(fixture->segments), STATUS_OK);
        }
        segments_seal(fixture->segments);
        assert_int_equal(segments_write(fixture->segments), STATUS_OK);
        assert_int_equal(segment_size(fixture->segments->last), none + 60 / tails * record + (tails - 1) * 9 * mark.size);
    }
    assert_int_equal(fixture->segments->count, 3);
    buffer_release(&mark);
}

/* A place of it would be one in another segment. */
static void test_a_record_after_the_end_is_none(void **state)
{
    struct fixture *fixture = *state;
    struct buffer file = { 0 }, value = { 0 };
    struct segment_record record;
    struct segment_walk walk;
    uint64_t place;

    memset(buffer_reserve(&value, SEGMENT_SIZE_MAX), 0, SEGMENT_SIZE_MAX);
    value.size = SEGMENT_SIZE_MAX;
    segments_close(fixture->segments);
    segment_head_append(&file, HOSTILE_SEQUENCE, HOSTILE_SLOT - 1);
    (void)segment_record_append(&file, INCARNATION, 0, BYTES("first"), buffer_bytes(&value));
    (void)segment_record_append(&file, INCARNATION, 0, BYTES("second"), BYTES(""));
    segment_footer_append(&file, &(struct segment_footer){ 1, 2, HOSTILE_SEQUENCE }, NULL);
    assert_true(open_hostile(fixture, buffer_bytes(&file)));
    segment_walk_begin(fixture->segments, fixture->segments->last, &walk);
    assert_int_equal(segment_walk_next(&walk, &place, &record), STATUS_OK);
    assert_int_equal(place_slot(place), HOSTILE_SLOT - 1);
    assert_int_equal(segment_walk_next(&walk, &place, &record), STATUS_CORRUPT);
    assert_int_equal(segment_walk_next(&walk, &place, &record), STATUS_NOT_FOUND);
    segment_walk_end(&walk);
    buffer_release(&file);
    buffer_release(&value);
}

/* A mark that is written before it moves no record to where no record may begin: the unit of a place would not have room. */
static void test_no_record_begins_after_the_end(void **state)
{
    struct fixture *fixture = *state;
    uint64_t last = SMALL_SEGMENT - SEGMENT_MARK_SIZE, place;
    struct buffer value = { 0 };

    place = segments_put(fixture->segments, 0, INCARNATION, 0, BYTES("k"), BYTES(""), 0);
    fill_value(&value, 0, last - place_offset(place) - 2 * SEGMENT_UNIT);
    (void)segments_put(fixture->segments, 0, INCARNATION, 0, BYTES("k"), bytes_of(value.data, value.size), 0);
    assert_int_equal(fixture->segments->last->size, last);
    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    (void)segments_put(fixture->segments, 1, INCARNATION, 0, BYTES("k"), BYTES(""), 0);
    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
    place = segments_put(fixture->segments, 0, INCARNATION, 0, BYTES("k"), BYTES(""), 0);
    assert_true(place_offset(place) < SMALL_SEGMENT);
    buffer_release(&value);
}

/* A file of version 2 has no marks, and no stamp in its footer. */
static void test_version_2(void **state)
{
    struct fixture *fixture = *state;
    struct hostile hostile;
    uint64_t numbers[2] = { 0, HOSTILE_RECORDS };
    struct segment_footer footer;
    struct segment_record record;
    uint64_t size, footer_at;
    uint32_t crc;
    bool whole[HOSTILE_RECORDS];

    hostile_init(fixture, 100, &hostile);
    footer_at = hostile.file.size - segment_footer_size();
    assert_int_equal(segment_record_parse(bytes_of(hostile.file.data + footer_at, segment_footer_size()), &record, &size), STATUS_OK);
    assert_true(segment_footer_parse(&record, &footer));
    numbers[0] = footer.weight;
    hostile.file.data[4] = '2';
    crc = crc32c(0, hostile.file.data, 20);
    memcpy(hostile.file.data + 20, &crc, 4);
    hostile.file.size = footer_at;
    (void)segment_record_append(&hostile.file, 0, 0, bytes_of("", 0), bytes_of((const char *)numbers, sizeof(numbers)));
    segments_close(fixture->segments);
    assert_true(open_hostile(fixture, buffer_bytes(&hostile.file)));
    memset(whole, true, sizeof(whole));
    expect_whole(fixture, &hostile, whole);
    assert_int_equal(fixture->segments->last->weight, footer.weight);
    assert_int_equal(segments_next_sequence(fixture->segments), HOSTILE_SEQUENCE + 1);
    buffer_release(&hostile.file);
}

static uint64_t put_using(struct fixture *fixture, uint64_t number, uint32_t dictionary)
{
    char text[32];

    return segments_put(fixture->segments, 0, INCARNATION, 0, key_of(number, text), BYTES("value"), dictionary);
}

static void write_and_seal(struct fixture *fixture)
{
    segments_seal(fixture->segments);
    assert_int_equal(segments_write(fixture->segments), STATUS_OK);
}

/* Which dictionaries may be needed: as long as the bytes are there, whether a record is live or not, and after a restart as well. */
static void test_uses(void **state)
{
    struct fixture *fixture = *state;
    struct segment_record record;
    struct segment_walk walk;
    struct segment *pinned;
    uint64_t places[3], place;

    assert_false(segments_may_need(fixture->segments, 5));
    (void)put(fixture, 0, 100);
    places[0] = put_using(fixture, 1, 5);
    places[1] = put_using(fixture, 2, 7);
    places[2] = put_using(fixture, 3, 5);
    write_and_seal(fixture);
    (void)put(fixture, 4, 100);                 /* another one, which needs none */
    write_and_seal(fixture);
    for (int i = 0; i < 2; i++) {
        int count = 0;

        assert_true(segments_may_need(fixture->segments, 5) && segments_may_need(fixture->segments, 7));
        assert_false(segments_may_need(fixture->segments, 6) || segments_may_need(fixture->segments, 1));
        segment_walk_begin(fixture->segments, segments_next(fixture->segments, NULL), &walk);
        while (segment_walk_next(&walk, &place, &record) == STATUS_OK)
            count++;
        segment_walk_end(&walk);
        assert_int_equal(count, 4);
        segments_close(fixture->segments);
        open_segments(fixture);
    }
    (void)segments_alive(fixture->segments, place_slot(places[1]), place_weight(places[1]));
    pinned = segments_pin(fixture->segments, places[1]);
    segments_dead(fixture->segments, places[1]);
    assert_int_equal(segments_tidy(fixture->segments), STATUS_OK);
    assert_true(segments_may_need(fixture->segments, 7));       /* it may be read */
    segments_unpin(pinned);
    assert_int_equal(segments_tidy(fixture->segments), STATUS_OK);
    assert_false(segments_may_need(fixture->segments, 7) || segments_may_need(fixture->segments, 5));
}

static void test_too_many_uses_are_any(void **state)
{
    struct fixture *fixture = *state;

    for (uint32_t i = 1; i <= SEGMENT_USES_MAX; i++)
        (void)put_using(fixture, i, i * 100);
    assert_true(segments_may_need(fixture->segments, 100 * SEGMENT_USES_MAX));
    assert_false(segments_may_need(fixture->segments, 99));
    (void)put_using(fixture, 99, 99);
    for (int i = 0; i < 2; i++) {
        assert_true(segments_may_need(fixture->segments, 99) && segments_may_need(fixture->segments, 12345));
        write_and_seal(fixture);
        segments_close(fixture->segments);
        open_segments(fixture);
    }
}

/* What older versions have written, also if a value looks like what they did not write; and damage. */
static void test_uses_that_are_not_known(void **state)
{
    struct fixture *fixture = *state;
    struct segment_uses none = { .are_known = true };
    struct segment_footer footer = { 1, 1, HOSTILE_SEQUENCE };
    struct buffer file = { 0 }, forged = { 0 };
    char text[32];

    segment_footer_append(&forged, &footer, &none);
    forged.size -= segment_footer_size();
    for (int i = 0; i < 4; i++) {
        segments_close(fixture->segments);
        file.size = 0;
        segment_head_append(&file, HOSTILE_SEQUENCE, HOSTILE_SLOT);
        if (i == 1)             /* bytes of a value, right before a footer of an older version */
            buffer_append_bytes(&file, buffer_bytes(&forged));
        else
            (void)segment_record_append(&file, INCARNATION, 0, key_of(1, text), BYTES("value"));
        segment_footer_append(&file, &footer, i < 2 ? NULL : &none);
        if (i == 2)
            file.data[file.size - segment_footer_size() - 20] ^= 1;
        write_bytes(fixture, buffer_bytes(&file));
        open_segments(fixture);
        assert_int_equal(segments_may_need(fixture->segments, 5), i < 3);
    }
    segments_close(fixture->segments);
    file.data[0] ^= 1;          /* the head: the file is left out, but images have it */
    write_bytes(fixture, buffer_bytes(&file));
    open_segments(fixture);
    assert_true(segments_may_need(fixture->segments, 5));
    buffer_release(&file);
    buffer_release(&forged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_uses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_uses, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_too_many_uses_are_any, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_uses_that_are_not_known, set_up, tear_down),
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
        cmocka_unit_test_setup_teardown(test_victim_from_a_sequence_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_walk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_walk, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_retire, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_retire, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_write_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_write_back, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_pending_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pending_places, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_cut_off, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names_of_damaged_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sequences_dont_overflow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_record_begins_after_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_record_after_the_end_is_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost_slots, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost_slots, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_collection_is_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_huge_records_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_every_byte, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_every_length, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sizes_that_no_record_has, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_only_the_first_record_is_huge, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage_in_a_huge_record, set_up, tear_down),
        cmocka_unit_test(test_record_heads),
        cmocka_unit_test_setup_teardown(test_put_off, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stamps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stamps, set_up_direct, tear_down),
        cmocka_unit_test_setup_teardown(test_marks_take_little, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_version_2, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_linked_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_victim, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_victim, set_up_direct, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
