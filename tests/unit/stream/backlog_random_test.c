/* A backlog under random appends, reads, resizes and faults of the disk, and with threads: what readers get is compared with the true stream. */
#include "stream/backlog.h"

#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/random.h"
#include "support/faulty_disk.h"
#include "support/seed.h"

enum { BLOCK = 1 << 10, READERS = 6, STEPS = 20000, READ_MAX = 5 * BLOCK, APPEND_MAX = 4 * BLOCK };

struct box {
    char dir[64];
    struct faulty_disk *disk;
    struct backlog *backlog;
    struct random random;
    uint64_t memory_size, disk_size;
    struct backlog_reader *readers[READERS];
    uint64_t acknowledged[READERS];         /* 0: it does not acknowledge */
    int lost;
};

static char byte_at(uint64_t position)
{
    return (char)((position * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

static int make(void **state)
{
    struct box *box = calloc(1, sizeof(*box));

    snprintf(box->dir, sizeof(box->dir), "/tmp/kelvin-backlog-XXXXXX");
    assert_non_null(mkdtemp(box->dir));
    box->disk = faulty_disk_create();
    random_init(&box->random, seed_new());
    box->memory_size = 10 * BLOCK;
    box->disk_size = 100 * BLOCK;
    box->backlog = backlog_create(&(struct backlog_options){ .memory_size = box->memory_size, .disk_size = box->disk_size,
        .reader_memory = random_below(&box->random, 2) * 15 * BLOCK,
        .file_size = 4 * BLOCK, .block_size = BLOCK, .first = random_below(&box->random, 1 << 20), .dir = box->dir,
        .disk = faulty_disk_table(box->disk) });
    *state = box;
    return 0;
}

static int drop(void **state)
{
    struct box *box = *state;

    for (int i = 0; i < READERS; i++)
        backlog_detach(box->readers[i]);
    backlog_destroy(box->backlog);
    faulty_disk_destroy(box->disk);
    assert_int_equal(rmdir(box->dir), 0);
    free(box);
    return 0;
}

static void append(struct backlog *backlog, size_t size)
{
    char bytes[APPEND_MAX];
    uint64_t end = backlog_end(backlog);

    for (size_t i = 0; i < size; i++)
        bytes[i] = byte_at(end + i);
    backlog_append(backlog, bytes_of(bytes, size));
}

/* False: the reader is lost. By any thread, so that it can't use cmocka. */
static bool read_some(struct backlog_reader *reader, size_t max, uint64_t limit, size_t *got)
{
    char bytes[READ_MAX];
    uint64_t position = backlog_position(reader);

    if (backlog_read(reader, bytes, max, limit, got) == BACKLOG_LOST)
        return false;
    CHECK(*got <= max && (*got == 0 || position + *got <= limit));
    for (size_t i = 0; i < *got; i++)
        CHECK(bytes[i] == byte_at(position + i));
    CHECK(backlog_position(reader) == position + *got);
    return true;
}

static void let_one_go(struct box *box, int i)
{
    if (random_below(&box->random, 2) == 0)
        backlog_leave(box->readers[i], (int64_t)random_below(&box->random, 2 * STEPS));
    else
        backlog_detach(box->readers[i]);
    box->readers[i] = NULL;
}

static void attach_one(struct box *box, int i)
{
    uint64_t begin = backlog_begin(box->backlog), end = backlog_end(box->backlog);
    uint64_t position = begin + random_below(&box->random, end - begin + 1);

    assert_null(backlog_attach(box->backlog, end + 1));
    if (begin > 0)
        assert_null(backlog_attach(box->backlog, begin - 1));
    box->readers[i] = random_below(&box->random, 2) == 0 ? backlog_attach(box->backlog, position) : backlog_resume(box->backlog, position);
    assert_non_null(box->readers[i]);
    box->acknowledged[i] = 0;
    if (random_below(&box->random, 2) != 0)
        return;
    backlog_acknowledge(box->readers[i], position);
    box->acknowledged[i] = position;
}

static void use_one(struct box *box, int i)
{
    struct backlog_reader *reader = box->readers[i];
    uint64_t limit = random_below(&box->random, 4) != 0 ? UINT64_MAX : backlog_position(reader) + random_below(&box->random, 3000);
    size_t max = random_below(&box->random, 3) == 0 ? READ_MAX : random_below(&box->random, READ_MAX), got;

    if (!read_some(reader, max, limit, &got)) {
        assert_int_not_equal(backlog_reason(reader).loss, BACKLOG_NOT_LOST);
        box->lost++;
        let_one_go(box, i);
        return;
    }
    if (got == 0 && max > 0 && limit > backlog_position(reader))
        assert_int_equal(backlog_position(reader), backlog_end(box->backlog));
    if (box->acknowledged[i] > 0 && random_below(&box->random, 2) == 0) {
        box->acknowledged[i] += random_below(&box->random, backlog_position(reader) - box->acknowledged[i] + 1);
        backlog_acknowledge(reader, box->acknowledged[i]);
    }
}

static void step_reader(struct box *box, int i)
{
    if (box->readers[i] == NULL)
        attach_one(box, i);
    else if (random_below(&box->random, 400) == 0)
        let_one_go(box, i);
    else
        use_one(box, i);
}

static void check_statistics(struct box *box)
{
    struct backlog_stats stats;
    uint64_t in_memory;

    backlog_stats(box->backlog, &stats);
    in_memory = stats.end - stats.memory_begin;
    assert_true(stats.begin <= stats.memory_begin && in_memory <= box->memory_size);
    assert_true(stats.disk_used <= box->disk_size);
    assert_int_equal(stats.files > 0, stats.disk_used > 0);
    if (stats.readers + stats.retained == 0)
        assert_int_equal(stats.disk_used, 0);
}

/* `slowness`: how many steps are appends for one of a reader. */
static void run(struct box *box, int slowness, bool resizes, bool checks_memory)
{
    for (int i = 0; i < STEPS; i++) {
        if (random_below(&box->random, 10) < (uint64_t)slowness)
            append(box->backlog, random_below(&box->random, 20) == 0 ? random_below(&box->random, APPEND_MAX) : random_below(&box->random, 300));
        else
            step_reader(box, (int)random_below(&box->random, READERS));
        if (resizes && random_below(&box->random, 100) == 0) {
            box->memory_size = random_below(&box->random, 30 * BLOCK);
            backlog_resize(box->backlog, box->memory_size);
        }
        if (random_below(&box->random, 100) == 0)
            backlog_expire(box->backlog, i);
        if (checks_memory)
            check_statistics(box);
    }
}

static void readers_get_the_stream(void **state)
{
    struct box *box = *state;

    run(box, 4, false, true);
}

static void readers_get_the_stream_while_memory_is_resized(void **state)
{
    struct box *box = *state;

    run(box, 6, true, true);
}

static void no_reader_is_lost_while_the_disk_has_room(void **state)
{
    struct box *box = *state;

    box->disk_size = UINT64_MAX;
    backlog_limit_disk(box->backlog, box->disk_size);
    run(box, 7, true, true);
    assert_int_equal(box->lost, 0);
}

static void readers_that_are_too_slow_are_lost_and_no_other_byte_is_wrong(void **state)
{
    struct box *box = *state;

    box->disk_size = 30 * BLOCK;
    backlog_limit_disk(box->backlog, box->disk_size);
    run(box, 9, true, true);
    assert_true(box->lost > 0);
}

static void set_faults(struct box *box, struct disk_faults faults)
{
    faults.seed = random_next(&box->random);
    faulty_disk_set(box->disk, &faults);
}

static void a_bad_disk_costs_readers_and_no_byte_is_wrong(void **state)
{
    struct box *box = *state;
    struct backlog_stats stats;

    set_faults(box, (struct disk_faults){ .write_error = 30, .write_no_space = 30, .write_short = 30, .write_late = 30, .read_error = 10,
        .read_corrupt = 10, .read_short = 100, .open_error = 30 });
    run(box, 7, true, true);
    backlog_stats(box->backlog, &stats);
    assert_true(box->lost > 0 && stats.write_errors > 0 && stats.read_errors > 0);
}

static void the_bound_may_change_at_any_time(void **state)
{
    struct box *box = *state;

    for (int i = 0; i < 10; i++) {
        box->disk_size = random_below(&box->random, 3) == 0 ? 0 : random_below(&box->random, 100 * BLOCK);
        backlog_limit_disk(box->backlog, box->disk_size);
        check_statistics(box);
        run(box, 7, true, true);
    }
}

/* --- threads --- */

enum { THREADS = 3, TOTAL = 6 << 20 };

struct crew {
    struct backlog *backlog;
    uint64_t first;
    atomic_bool is_over;
    _Atomic int lost;
    struct member { struct crew *crew; uint64_t seed; } members[THREADS + 1];
};

static void *read_all(void *context)
{
    struct member *member = context;
    struct crew *crew = member->crew;
    uint64_t stop = crew->first + TOTAL;
    struct backlog_reader *reader = NULL;
    struct random random;
    size_t got;

    random_init(&random, member->seed);
    while (reader == NULL || backlog_position(reader) < stop) {
        if (reader == NULL) {
            reader = backlog_resume(crew->backlog, backlog_begin(crew->backlog));       /* NULL: it has moved meanwhile */
            continue;
        }
        if (!read_some(reader, random_below(&random, READ_MAX), UINT64_MAX, &got)) {
            atomic_fetch_add(&crew->lost, 1);
            backlog_leave(reader, INT64_MAX);
            reader = NULL;
        } else if (random_below(&random, 500) == 0) {
            backlog_leave(reader, 1000);
            reader = NULL;
        } else if (random_below(&random, 100) == 0) {
            usleep(200);
        }
    }
    backlog_detach(reader);
    return NULL;
}

static void *change_settings(void *context)
{
    struct member *member = context;
    struct crew *crew = member->crew;
    struct backlog_stats stats;
    struct random random;

    random_init(&random, member->seed);
    for (int64_t i = 0; !atomic_load(&crew->is_over); i++) {
        backlog_resize(crew->backlog, random_below(&random, 40 * BLOCK));
        if (random_below(&random, 10) == 0)
            backlog_limit_disk(crew->backlog, random_below(&random, 300 * BLOCK));
        backlog_expire(crew->backlog, i % 1200);
        backlog_stats(crew->backlog, &stats);
        (void)backlog_room(crew->backlog);
        (void)backlog_retain(crew->backlog, stats.begin, i % 1200);
        usleep(500);
    }
    return NULL;
}

static void readers_in_threads_get_the_stream(void **state)
{
    struct box *box = *state;
    struct crew crew = { .backlog = box->backlog, .first = backlog_end(box->backlog) };
    pthread_t threads[THREADS + 1];

    for (int i = 0; i <= THREADS; i++) {
        crew.members[i] = (struct member){ &crew, random_next(&box->random) };
        assert_int_equal(pthread_create(&threads[i], NULL, i < THREADS ? read_all : change_settings, &crew.members[i]), 0);
    }
    while (backlog_end(box->backlog) < crew.first + TOTAL) {
        uint64_t left = crew.first + TOTAL - backlog_end(box->backlog), size = random_below(&box->random, 600);

        append(box->backlog, size < left ? size : left);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    crew.is_over = true;
    pthread_join(threads[THREADS], NULL);
}

int main(void)
{
#define BACKLOG_TEST(name) cmocka_unit_test_setup_teardown(name, make, drop)
    const struct CMUnitTest tests[] = {
        BACKLOG_TEST(readers_get_the_stream),
        BACKLOG_TEST(readers_get_the_stream_while_memory_is_resized),
        BACKLOG_TEST(no_reader_is_lost_while_the_disk_has_room),
        BACKLOG_TEST(readers_that_are_too_slow_are_lost_and_no_other_byte_is_wrong),
        BACKLOG_TEST(a_bad_disk_costs_readers_and_no_byte_is_wrong),
        BACKLOG_TEST(the_bound_may_change_at_any_time),
        BACKLOG_TEST(readers_in_threads_get_the_stream),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
