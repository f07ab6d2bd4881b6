#include "stream/backlog.h"

#include "support/unit.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/disk.h"
#include "support/faulty_disk.h"

enum { BLOCK = 1 << 10, MEMORY = 8 * BLOCK, FILE_BYTES = 4 * BLOCK, DISK = 64 * BLOCK };
static const uint64_t FIRST = 1000003;

struct box {
    char dir[64];
    struct faulty_disk *disk;
    struct backlog *backlog;
};

/* The true stream. */
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
    box->backlog = backlog_create(&(struct backlog_options){ .memory_size = MEMORY, .disk_size = DISK, .file_size = FILE_BYTES,
        .block_size = BLOCK, .first = FIRST, .dir = box->dir, .disk = faulty_disk_table(box->disk) });
    *state = box;
    return 0;
}

static int drop(void **state)
{
    struct box *box = *state;

    backlog_destroy(box->backlog);
    faulty_disk_destroy(box->disk);
    assert_int_equal(rmdir(box->dir), 0);       /* empty */
    free(box);
    return 0;
}

static void append(struct box *box, size_t size)
{
    char *bytes = malloc(size + 1);
    uint64_t end = backlog_end(box->backlog);

    for (size_t i = 0; i < size; i++)
        bytes[i] = byte_at(end + i);
    backlog_append(box->backlog, bytes_of(bytes, size));
    free(bytes);
    assert_int_equal(backlog_end(box->backlog), end + size);
}

/* Returns how many bytes there were, all of them right; -1: the reader is lost. */
static ssize_t read_up_to(struct backlog_reader *reader, size_t max, uint64_t limit)
{
    char *bytes = malloc(max + 1);
    uint64_t position = backlog_position(reader);
    size_t got = 12345;
    enum backlog_result result = backlog_read(reader, bytes, max, limit, &got);

    if (result == BACKLOG_LOST) {
        assert_int_equal(got, 0);
        free(bytes);
        return -1;
    }
    assert_true(got <= max);
    for (size_t i = 0; i < got; i++)
        if (bytes[i] != byte_at(position + i))
            fail_msg("wrong byte at %lu", (unsigned long)(position + i));
    assert_int_equal(backlog_position(reader), position + got);
    free(bytes);
    return (ssize_t)got;
}

static void read_to_end(struct box *box, struct backlog_reader *reader)
{
    ssize_t got;

    while ((got = read_up_to(reader, 700, UINT64_MAX)) > 0)
        ;
    assert_int_equal(got, 0);
    assert_int_equal(backlog_position(reader), backlog_end(box->backlog));
}

static struct backlog_stats stats_of(struct box *box)
{
    struct backlog_stats stats;

    backlog_stats(box->backlog, &stats);
    return stats;
}

static void assert_lost(struct backlog_reader *reader, enum backlog_loss loss, int error)
{
    assert_int_equal(read_up_to(reader, 1, UINT64_MAX), -1);
    assert_int_equal(backlog_reason(reader).loss, loss);
    assert_int_equal(backlog_reason(reader).error, error);
    assert_true(strlen(backlog_loss_text(loss)) > 0);
}

static void an_empty_backlog_has_one_position(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader = backlog_attach(box->backlog, FIRST);

    assert_int_equal(backlog_begin(box->backlog), FIRST);
    assert_int_equal(backlog_end(box->backlog), FIRST);
    assert_null(backlog_attach(box->backlog, FIRST - 1));
    assert_null(backlog_attach(box->backlog, FIRST + 1));
    assert_int_equal(read_up_to(reader, 100, UINT64_MAX), 0);
    append(box, 0);
    append(box, 10);
    assert_int_equal(read_up_to(reader, 100, UINT64_MAX), 10);
    backlog_detach(reader);
    backlog_detach(NULL);
}

static void without_readers_exactly_the_last_bytes_are_there(void **state)
{
    struct box *box = *state;

    for (int i = 0; i < 300; i++) {
        uint64_t end, begin;
        struct backlog_reader *reader;

        append(box, (size_t)i);
        end = backlog_end(box->backlog);
        begin = end - FIRST > MEMORY ? end - MEMORY : FIRST;
        assert_int_equal(backlog_begin(box->backlog), begin);
        assert_null(backlog_attach(box->backlog, begin - 1));
        reader = backlog_attach(box->backlog, begin);
        assert_non_null(reader);
        read_to_end(box, reader);
        backlog_detach(reader);
    }
    assert_int_equal(stats_of(box).disk_written, 0);
    assert_true(stats_of(box).memory_used < MEMORY + 4 * BLOCK);
}

static void nothing_is_read_at_or_after_the_limit(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader = backlog_attach(box->backlog, FIRST);

    append(box, 3 * BLOCK);
    assert_int_equal(read_up_to(reader, 100, FIRST), 0);
    assert_int_equal(read_up_to(reader, 100, 0), 0);
    assert_int_equal(read_up_to(reader, 0, UINT64_MAX), 0);
    assert_int_equal(read_up_to(reader, 100, FIRST + 7), 7);
    assert_int_equal(read_up_to(reader, 4 * BLOCK, FIRST + 2 * BLOCK + 5), 2 * BLOCK - 2);
    append(box, 20 * BLOCK);
    assert_int_equal(read_up_to(reader, 4 * BLOCK, FIRST + 2 * BLOCK + 6), 1);      /* on disk */
    assert_int_equal(read_up_to(reader, 4 * BLOCK, FIRST + 2 * BLOCK + 6), 0);
    backlog_detach(reader);
}

static void a_reader_that_is_further_back_reads_from_disk(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader = backlog_attach(box->backlog, FIRST), *other;

    append(box, 40 * BLOCK + 77);
    assert_int_equal(backlog_begin(box->backlog), FIRST);
    assert_int_equal(stats_of(box).disk_used, 32 * BLOCK);
    assert_int_equal(stats_of(box).files, 8);
    other = backlog_attach(box->backlog, FIRST + 1);       /* a new reader has as much */
    read_to_end(box, other);
    read_to_end(box, reader);
    assert_int_equal(stats_of(box).lost_readers, 0);
    backlog_detach(other);
    backlog_detach(reader);
}

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

static void files_are_closed_when_no_reader_needs_them(void **state)
{
    struct box *box = *state;
    int before = open_descriptors();
    struct backlog_reader *slow = backlog_attach(box->backlog, FIRST), *fast = backlog_attach(box->backlog, FIRST);

    append(box, 48 * BLOCK);
    read_to_end(box, fast);
    assert_int_equal(stats_of(box).files, 10);
    assert_int_equal(open_descriptors(), before + 10);
    while (backlog_position(slow) < FIRST + 4 * BLOCK - 1)
        assert_int_equal(read_up_to(slow, 1, UINT64_MAX), 1);
    assert_int_equal(stats_of(box).files, 10);
    assert_int_equal(read_up_to(slow, 1, UINT64_MAX), 1);
    assert_int_equal(stats_of(box).files, 9);
    assert_int_equal(stats_of(box).disk_used, 36 * BLOCK);
    assert_int_equal(backlog_begin(box->backlog), FIRST + 4 * BLOCK);
    backlog_detach(slow);
    assert_int_equal(stats_of(box).files, 0);
    assert_int_equal(stats_of(box).disk_used, 0);
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(backlog_begin(box->backlog), backlog_end(box->backlog) - MEMORY);
    backlog_detach(fast);
}

static void no_file_has_a_name(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader = backlog_attach(box->backlog, FIRST);

    append(box, 20 * BLOCK);
    assert_int_equal(rmdir(box->dir), 0);
    read_to_end(box, reader);
    backlog_detach(reader);
    assert_int_equal(mkdir(box->dir, 0755), 0);
}

static void without_a_disk_a_reader_is_lost_with_the_memory(void **state)
{
    struct box *box = *state;
    struct backlog *backlog = backlog_create(&(struct backlog_options){ .memory_size = MEMORY, .disk_size = DISK, .block_size = BLOCK });
    struct box plain = { .backlog = backlog };
    struct backlog_reader *slow = backlog_attach(backlog, 0), *fast = backlog_attach(backlog, 0);

    (void)box;
    append(&plain, MEMORY + BLOCK - 1);
    assert_int_equal(read_up_to(fast, BLOCK, UINT64_MAX), BLOCK);
    assert_int_equal(read_up_to(slow, 1, UINT64_MAX), 1);
    append(&plain, 1);
    assert_lost(slow, BACKLOG_LOST_NO_DISK, 0);
    read_to_end(&plain, fast);
    backlog_detach(slow);
    backlog_detach(fast);
    backlog_destroy(backlog);
}

static void when_the_disk_is_full_the_reader_that_is_furthest_back_is_lost(void **state)
{
    struct box *box = *state;
    struct backlog_reader *first = backlog_attach(box->backlog, FIRST), *second, *third;

    append(box, 20 * BLOCK);
    second = backlog_attach(box->backlog, FIRST + 10 * BLOCK);
    third = backlog_attach(box->backlog, FIRST + 20 * BLOCK);
    append(box, 52 * BLOCK);                            /* 64 blocks on disk */
    assert_int_equal(stats_of(box).disk_used, DISK);
    assert_int_equal(stats_of(box).lost_readers, 0);
    append(box, BLOCK);
    assert_int_equal(stats_of(box).lost_readers, 1);
    assert_int_equal(stats_of(box).disk_used, DISK - 2 * FILE_BYTES + BLOCK);
    assert_lost(first, BACKLOG_LOST_BOUND, 0);
    append(box, 7 * BLOCK);
    assert_int_equal(stats_of(box).lost_readers, 1);
    append(box, BLOCK);
    assert_int_equal(stats_of(box).lost_readers, 2);
    assert_lost(second, BACKLOG_LOST_BOUND, 0);
    assert_int_equal(backlog_begin(box->backlog), FIRST + 20 * BLOCK);
    read_to_end(box, third);
    backlog_detach(first);
    backlog_detach(second);
    backlog_detach(third);
}

static void retained_positions_go_before_readers(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader;

    append(box, 100);
    assert_true(backlog_retain(box->backlog, FIRST + 50, INT64_MAX));
    assert_false(backlog_retain(box->backlog, FIRST + 101, INT64_MAX));
    assert_false(backlog_retain(box->backlog, FIRST - 1, INT64_MAX));
    reader = backlog_attach(box->backlog, FIRST + 50);
    assert_true(backlog_retain(box->backlog, FIRST + 100, INT64_MAX));
    append(box, DISK + MEMORY + BLOCK);
    assert_int_equal(stats_of(box).retained, 0);
    assert_int_equal(stats_of(box).lost_retained, 2);
    assert_int_equal(stats_of(box).lost_readers, 1);        /* they were all in the same file */
    backlog_detach(reader);
}

static void a_retained_position_goes_alone_if_that_is_enough(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader;

    assert_true(backlog_retain(box->backlog, FIRST, INT64_MAX));
    append(box, 6 * BLOCK);
    reader = backlog_attach(box->backlog, FIRST + 6 * BLOCK);
    append(box, DISK + MEMORY - 5 * BLOCK);
    assert_int_equal(stats_of(box).lost_retained, 1);
    read_to_end(box, reader);
    backlog_detach(reader);
}

static void retained_bytes_are_there_until_their_time(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader;

    append(box, 100);
    assert_true(backlog_retain(box->backlog, FIRST + 10, 5000));
    append(box, 30 * BLOCK);
    backlog_expire(box->backlog, 4999);
    assert_int_equal(backlog_begin(box->backlog), FIRST);
    reader = backlog_attach(box->backlog, FIRST + 10);
    read_to_end(box, reader);
    backlog_detach(reader);
    assert_int_equal(stats_of(box).retained, 1);
    backlog_expire(box->backlog, 5000);
    assert_int_equal(stats_of(box).retained, 0);
    assert_int_equal(stats_of(box).files, 0);
    assert_int_equal(stats_of(box).lost_retained, 0);
    assert_true(backlog_retain(box->backlog, backlog_end(box->backlog), INT64_MAX));
    backlog_expire(box->backlog, INT64_MAX);
    assert_int_equal(stats_of(box).retained, 1);
}

static void what_is_not_acknowledged_is_kept_for_the_return(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader = backlog_attach(box->backlog, FIRST);

    backlog_acknowledge(reader, FIRST);
    append(box, 30 * BLOCK);
    read_to_end(box, reader);
    assert_int_equal(backlog_begin(box->backlog), FIRST);
    backlog_acknowledge(reader, FIRST + 9 * BLOCK);
    backlog_acknowledge(reader, FIRST + 5 * BLOCK);
    assert_int_equal(backlog_begin(box->backlog), FIRST + 8 * BLOCK);
    backlog_leave(reader, INT64_MAX);
    append(box, 30 * BLOCK);
    assert_int_equal(stats_of(box).retained, 1);
    reader = backlog_resume(box->backlog, FIRST + 20 * BLOCK);
    assert_int_equal(stats_of(box).retained, 0);
    assert_int_equal(backlog_begin(box->backlog), FIRST + 20 * BLOCK);
    read_to_end(box, reader);
    backlog_acknowledge(reader, UINT64_MAX);                /* its own position at most */
    assert_int_equal(stats_of(box).lost_readers, 0);
    backlog_detach(reader);
}

static void a_full_disk_takes_what_is_not_acknowledged_first(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader = backlog_attach(box->backlog, FIRST);

    backlog_acknowledge(reader, FIRST);
    append(box, 40 * BLOCK);
    read_to_end(box, reader);
    append(box, 33 * BLOCK);
    assert_int_equal(backlog_begin(box->backlog), FIRST + 40 * BLOCK);
    read_to_end(box, reader);
    assert_int_equal(stats_of(box).lost_readers, 0);
    backlog_detach(reader);
}

static void a_returning_reader_drops_one_retained_position(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader;

    append(box, 1000);
    assert_true(backlog_retain(box->backlog, FIRST + 100, INT64_MAX));
    assert_true(backlog_retain(box->backlog, FIRST + 500, INT64_MAX));
    assert_true(backlog_retain(box->backlog, FIRST + 900, INT64_MAX));
    assert_null(backlog_resume(box->backlog, FIRST + 1001));
    reader = backlog_resume(box->backlog, FIRST + 700);
    assert_int_equal(stats_of(box).retained, 2);
    append(box, 20 * BLOCK);
    assert_int_equal(backlog_begin(box->backlog), FIRST);   /* for the first one */
    backlog_detach(reader);
    reader = backlog_resume(box->backlog, FIRST + 99);
    assert_int_equal(stats_of(box).retained, 2);
    backlog_detach(reader);
}

static void there_are_not_more_retained_positions_than_the_limit(void **state)
{
    struct box *box = *state;

    append(box, 10 * BLOCK);
    for (int i = 0; i < BACKLOG_RETAINED_MAX + 10; i++)
        assert_true(backlog_retain(box->backlog, FIRST + 4 * BLOCK + (uint64_t)i, INT64_MAX));
    assert_int_equal(stats_of(box).retained, BACKLOG_RETAINED_MAX);
    assert_int_equal(stats_of(box).lost_retained, 10);
}

static void memory_that_grows_keeps_more_and_loses_nothing(void **state)
{
    struct box *box = *state;
    uint64_t begin;
    struct backlog_reader *reader;

    append(box, 30 * BLOCK);
    begin = backlog_begin(box->backlog);
    backlog_resize(box->backlog, 4 * MEMORY);
    assert_int_equal(backlog_begin(box->backlog), begin);
    append(box, 3 * MEMORY);
    assert_int_equal(backlog_begin(box->backlog), begin);
    reader = backlog_attach(box->backlog, begin);
    append(box, 1);
    read_to_end(box, reader);
    assert_int_equal(stats_of(box).disk_written, 0);
    backlog_resize(box->backlog, UINT64_MAX);
    append(box, 100 * BLOCK);
    assert_int_equal(stats_of(box).disk_written, 0);
    assert_int_equal(backlog_room(box->backlog), UINT64_MAX - backlog_end(box->backlog) - 1);
    backlog_detach(reader);
}

static void memory_that_shrinks_keeps_what_readers_need(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader;

    append(box, 30 * BLOCK);
    reader = backlog_attach(box->backlog, backlog_begin(box->backlog) + 10);
    backlog_resize(box->backlog, BLOCK);
    assert_int_equal(stats_of(box).disk_written, 4 * BLOCK);        /* a few for each call */
    backlog_expire(box->backlog, 0);
    assert_int_equal(stats_of(box).disk_written, 7 * BLOCK);
    assert_true(stats_of(box).memory_used < 6 * BLOCK);
    read_to_end(box, reader);
    append(box, 20 * BLOCK);
    backlog_resize(box->backlog, 0);
    append(box, 3 * BLOCK);
    read_to_end(box, reader);
    backlog_detach(reader);
    assert_int_equal(backlog_begin(box->backlog), backlog_end(box->backlog));
    backlog_resize(box->backlog, MEMORY);
    append(box, 2 * MEMORY);
    assert_int_equal(backlog_begin(box->backlog), backlog_end(box->backlog) - MEMORY);
}

/* What is in memory and on disk, too, is not needed twice, nor does it leave a gap. */
static void memory_may_grow_over_what_is_on_disk(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader = backlog_attach(box->backlog, FIRST), *other;

    append(box, 30 * BLOCK);
    for (int i = 0; i < 20; i++) {
        backlog_resize(box->backlog, i % 2 == 0 ? 2 * MEMORY : MEMORY / 2);
        append(box, 5 * BLOCK / 2);
        assert_true(read_up_to(reader, 3 * BLOCK, UINT64_MAX) > 0);
        other = backlog_attach(box->backlog, backlog_begin(box->backlog));
        read_to_end(box, other);
        backlog_detach(other);
    }
    read_to_end(box, reader);
    backlog_detach(reader);
    assert_int_equal(stats_of(box).lost_readers, 0);
}

static void a_smaller_bound_is_kept_at_once(void **state)
{
    struct box *box = *state;
    struct backlog_reader *slow = backlog_attach(box->backlog, FIRST), *fast;

    append(box, 40 * BLOCK);
    fast = backlog_attach(box->backlog, FIRST + 20 * BLOCK);
    backlog_limit_disk(box->backlog, 20 * BLOCK);
    assert_int_equal(stats_of(box).disk_used, 12 * BLOCK);
    assert_lost(slow, BACKLOG_LOST_BOUND, 0);
    backlog_limit_disk(box->backlog, 0);
    assert_int_equal(stats_of(box).disk_used, 0);
    assert_lost(fast, BACKLOG_LOST_NO_DISK, 0);
    backlog_detach(slow);
    backlog_detach(fast);
    slow = backlog_attach(box->backlog, backlog_begin(box->backlog));
    backlog_limit_disk(box->backlog, DISK);
    append(box, 40 * BLOCK);
    read_to_end(box, slow);
    backlog_detach(slow);
}

static void room_is_what_can_be_appended_without_a_loss(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader;

    assert_int_equal(backlog_room(box->backlog), UINT64_MAX);
    append(box, 1234);
    reader = backlog_attach(box->backlog, FIRST + 3);
    for (uint64_t room; (room = backlog_room(box->backlog)) > 0;) {
        assert_true(room < MEMORY + DISK + BLOCK);
        append(box, (size_t)(room + 1) / 2);
        assert_int_equal(stats_of(box).lost_readers, 0);
    }
    assert_true(backlog_end(box->backlog) - FIRST >= MEMORY + DISK);
    append(box, 1);
    assert_int_equal(stats_of(box).lost_readers, 1);
    backlog_detach(reader);
}

/* An appender that waits for room gets it by what readers do. */
static void what_was_read_leaves_room_before_anything_is_appended(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader = backlog_attach(box->backlog, FIRST);

    backlog_limit_disk(box->backlog, 0);
    for (uint64_t room; (room = backlog_room(box->backlog)) > 0;)
        append(box, (size_t)room);
    read_to_end(box, reader);
    assert_true(backlog_room(box->backlog) >= MEMORY - BLOCK);
    append(box, MEMORY - BLOCK);
    read_to_end(box, reader);
    assert_int_equal(stats_of(box).lost_readers, 0);
    backlog_detach(reader);
}

static void what_readers_need_stays_in_memory_a_little_longer(void **state)
{
    struct box *box = *state;
    struct backlog *backlog = backlog_create(&(struct backlog_options){ .memory_size = MEMORY, .reader_memory = 3 * MEMORY, .disk_size = DISK,
        .block_size = BLOCK, .dir = box->dir, .name = "other" });
    struct box other = { .backlog = backlog };
    struct backlog_reader *reader = backlog_attach(backlog, 0);

    append(&other, 3 * MEMORY + BLOCK - 1);
    assert_int_equal(stats_of(&other).disk_written, 0);
    assert_int_equal(stats_of(&other).memory_begin, 2 * MEMORY + BLOCK - 1);
    append(&other, 1);
    assert_int_equal(stats_of(&other).disk_written, BLOCK);
    read_to_end(&other, reader);
    assert_int_equal(stats_of(&other).files, 0);
    append(&other, 1);
    assert_true(stats_of(&other).memory_used < MEMORY + 4 * BLOCK);
    for (uint64_t room; (room = backlog_room(backlog)) > 0;)
        append(&other, (size_t)room);
    assert_int_equal(stats_of(&other).lost_readers, 0);
    append(&other, 1);
    assert_int_equal(stats_of(&other).lost_readers, 1);
    backlog_detach(reader);
    backlog_destroy(backlog);
}

static void set_faults(struct box *box, struct disk_faults faults)
{
    faulty_disk_set(box->disk, &faults);
}

/* Two readers; the first write that fails costs the first reader, the next one the other. */
static void check_write_fault(struct box *box, struct disk_faults faults, int error)
{
    struct backlog_reader *slow = backlog_attach(box->backlog, backlog_end(box->backlog)), *fast;
    uint64_t errors = stats_of(box).write_errors;

    append(box, 12 * BLOCK);
    fast = backlog_attach(box->backlog, backlog_position(slow) + 1);
    set_faults(box, faults);
    append(box, BLOCK);
    assert_int_equal(stats_of(box).write_errors, errors + 2);
    assert_lost(slow, BACKLOG_LOST_WRITE, error);
    assert_lost(fast, BACKLOG_LOST_WRITE, error);
    assert_int_equal(stats_of(box).disk_used, 0);
    backlog_detach(fast);
    fast = backlog_attach(box->backlog, backlog_end(box->backlog) - 1);
    append(box, MEMORY - 2);
    read_to_end(box, fast);                 /* in memory: not affected */
    append(box, BLOCK);
    faulty_disk_set(box->disk, NULL);
    append(box, 20 * BLOCK);
    read_to_end(box, fast);
    backlog_detach(slow);
    backlog_detach(fast);
}

static void a_write_that_fails_costs_readers_of_the_disk(void **state)
{
    struct box *box = *state;

    check_write_fault(box, (struct disk_faults){ .write_no_space = 1000 }, ENOSPC);
    check_write_fault(box, (struct disk_faults){ .write_error = 1000 }, EIO);
    check_write_fault(box, (struct disk_faults){ .write_short = 1000 }, EIO);
    check_write_fault(box, (struct disk_faults){ .write_late = 1000 }, EIO);
}

static void a_file_that_cannot_be_opened_is_a_write_that_fails(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader = backlog_attach(box->backlog, FIRST);

    set_faults(box, (struct disk_faults){ .open_error = 1000 });
    append(box, 12 * BLOCK);
    assert_lost(reader, BACKLOG_LOST_WRITE, EIO);
    faulty_disk_set(box->disk, NULL);
    backlog_detach(reader);
}

/* A disk of which one write fails, after half of its bytes. */
struct one_fault {
    int writes_left;
    bool is_half_written;
};

static ssize_t write_with_one_fault(void *context, int fd, const void *data, size_t size)
{
    struct one_fault *fault = context;

    if (fault->is_half_written) {
        fault->is_half_written = false;
        errno = ENOSPC;
        return -1;
    }
    if (--fault->writes_left == 0) {
        fault->is_half_written = true;
        size /= 2;
    }
    return write(fd, data, size);
}

/* The bytes are written to a new file, and those before them are still there. */
static void one_failed_write_costs_one_reader(void **state)
{
    struct box *box = *state;
    struct one_fault fault = { .writes_left = 7 };
    struct disk disk = *disk_system();
    struct box other = { .backlog = NULL };
    struct backlog_reader *readers[3];

    disk.context = &fault;
    disk.write = write_with_one_fault;
    other.backlog = backlog_create(&(struct backlog_options){ .memory_size = MEMORY, .disk_size = DISK, .file_size = FILE_BYTES,
        .block_size = BLOCK, .dir = box->dir, .name = "other", .disk = &disk });
    append(&other, 100);
    for (int i = 0; i < 3; i++)
        readers[i] = backlog_attach(other.backlog, (uint64_t)i);
    append(&other, 40 * BLOCK);
    assert_int_equal(stats_of(&other).write_errors, 1);
    assert_int_equal(stats_of(&other).disk_used, 32 * BLOCK);
    assert_lost(readers[0], BACKLOG_LOST_WRITE, ENOSPC);
    read_to_end(&other, readers[2]);
    read_to_end(&other, readers[1]);
    assert_int_equal(stats_of(&other).files, 0);
    for (int i = 0; i < 3; i++)
        backlog_detach(readers[i]);
    backlog_destroy(other.backlog);
}

static void a_read_that_fails_costs_the_reader(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader = backlog_attach(box->backlog, FIRST), *other = backlog_attach(box->backlog, FIRST);

    append(box, 30 * BLOCK);
    set_faults(box, (struct disk_faults){ .read_short = 1000 });
    assert_true(read_up_to(other, 5000, UINT64_MAX) > 0);           /* a short read is continued */
    set_faults(box, (struct disk_faults){ .read_error = 1000 });
    assert_lost(reader, BACKLOG_LOST_READ, EIO);
    faulty_disk_set(box->disk, NULL);
    assert_lost(reader, BACKLOG_LOST_READ, EIO);
    read_to_end(box, other);
    assert_int_equal(stats_of(box).read_errors, 1);
    assert_int_equal(stats_of(box).lost_readers, 1);
    backlog_detach(reader);
    backlog_detach(other);
}

static void wrong_bytes_are_never_returned(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader = backlog_attach(box->backlog, FIRST);

    append(box, 30 * BLOCK);
    set_faults(box, (struct disk_faults){ .read_corrupt = 1000 });
    assert_lost(reader, BACKLOG_LOST_READ, 0);
    faulty_disk_set(box->disk, NULL);
    assert_int_equal(stats_of(box).files, 0);
    backlog_detach(reader);
}

static void a_reader_of_the_disk_has_one_block_of_memory_while_it_needs_it(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader = backlog_attach(box->backlog, FIRST);
    uint64_t before;

    append(box, 30 * BLOCK);
    before = stats_of(box).memory_used;
    assert_int_equal(read_up_to(reader, 10, UINT64_MAX), 10);
    assert_int_equal(stats_of(box).memory_used, before + BLOCK);
    assert_int_equal(stats_of(box).disk_read, BLOCK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(read_up_to(reader, 10, UINT64_MAX), 10);
    assert_int_equal(stats_of(box).disk_read, BLOCK);
    read_to_end(box, reader);
    assert_true(stats_of(box).memory_used <= before);
    backlog_detach(reader);
}

static void a_lost_reader_leaves_nothing(void **state)
{
    struct box *box = *state;
    struct backlog_reader *reader = backlog_attach(box->backlog, FIRST);

    append(box, DISK + MEMORY + BLOCK);
    assert_lost(reader, BACKLOG_LOST_BOUND, 0);
    backlog_leave(reader, INT64_MAX);
    assert_int_equal(stats_of(box).retained, 0);
}

/* Files of this size are closed by another thread. */
static void blocks_of_the_default_size_work_too(void **state)
{
    struct box *box = *state;
    int before = open_descriptors();
    struct backlog *backlog = backlog_create(&(struct backlog_options){ .memory_size = 1 << 20, .disk_size = 16 << 20, .dir = box->dir, .name = "other" });
    struct box large = { .backlog = backlog };
    struct backlog_reader *reader = backlog_attach(backlog, 0);

    append(&large, 5 << 20);
    assert_int_equal(stats_of(&large).disk_used, 4 << 20);
    assert_int_equal(stats_of(&large).files, 2);
    read_to_end(&large, reader);
    append(&large, 9 << 20);
    assert_int_equal(stats_of(&large).files, 4);
    backlog_detach(reader);
    assert_int_equal(stats_of(&large).files, 0);
    backlog_destroy(backlog);
    assert_int_equal(open_descriptors(), before);
}

/* A disk whose first write lasts until the appender has appended as much as it may. */
struct slow_disk {
    struct backlog *backlog;
    atomic_bool is_writing, is_over;
};

enum { APPENDED_MEANWHILE = 64 * BLOCK };

static ssize_t write_slowly(void *context, int fd, const void *data, size_t size)
{
    struct slow_disk *slow = context;

    slow->is_writing = true;
    while (backlog_end(slow->backlog) < APPENDED_MEANWHILE)
        sched_yield();
    for (int i = 0; i < 1000 && !slow->is_over; i++)
        sched_yield();
    slow->is_over = true;
    return write(fd, data, size);
}

static void *shrink(void *context)
{
    struct slow_disk *slow = context;

    backlog_resize(slow->backlog, 0);
    return NULL;
}

static void memory_does_not_grow_while_another_thread_writes(void **state)
{
    struct box *box = *state;
    struct slow_disk slow = { .backlog = NULL };
    struct disk disk = *disk_system();
    struct box other;
    struct backlog_reader *reader;
    pthread_t thread;

    disk.context = &slow;
    disk.write = write_slowly;
    slow.backlog = other.backlog = backlog_create(&(struct backlog_options){ .memory_size = 20 * BLOCK, .disk_size = 1 << 30, .block_size = BLOCK,
        .dir = box->dir, .name = "other", .disk = &disk });
    reader = backlog_attach(other.backlog, 0);
    append(&other, 19 * BLOCK);
    assert_int_equal(pthread_create(&thread, NULL, shrink, &slow), 0);
    while (!slow.is_writing)
        sched_yield();
    for (int i = 0; i < 300; i++) {
        append(&other, BLOCK);
        assert_true(stats_of(&other).memory_used < APPENDED_MEANWHILE + 16 * BLOCK);
    }
    pthread_join(thread, NULL);
    assert_true(slow.is_over);
    read_to_end(&other, reader);
    backlog_detach(reader);
    backlog_destroy(other.backlog);
}

/* Of a full synchronization: the image's place is held, and the replicas come later. */
static void what_is_held_in_memory_can_be_attached_to(void **state)
{
    struct box *box = *state, other = { .disk = box->disk };
    struct backlog_reader *hold, *reader;

    other.backlog = backlog_create(&(struct backlog_options){ .memory_size = MEMORY, .disk_size = DISK, .reader_memory = 4 * MEMORY,
        .block_size = BLOCK, .dir = box->dir, .name = "other", .disk = faulty_disk_table(box->disk) });
    append(&other, BLOCK + 100);
    hold = backlog_attach(other.backlog, BLOCK + 100);
    append(&other, 2 * MEMORY);
    assert_int_equal(stats_of(&other).disk_written, 0);
    assert_int_equal(backlog_begin(other.backlog), BLOCK + 100);
    assert_null(backlog_attach(other.backlog, BLOCK + 99));
    reader = backlog_attach(other.backlog, BLOCK + 110);
    assert_non_null(reader);
    backlog_leave(hold, INT64_MAX);
    hold = backlog_resume(other.backlog, BLOCK + 100);
    assert_non_null(hold);
    read_to_end(&other, hold);
    read_to_end(&other, reader);
    backlog_detach(hold);
    backlog_detach(reader);
    assert_int_equal(backlog_begin(other.backlog), backlog_end(other.backlog) - MEMORY);
    backlog_destroy(other.backlog);
}

int main(void)
{
#define BACKLOG_TEST(name) cmocka_unit_test_setup_teardown(name, make, drop)
    const struct CMUnitTest tests[] = {
        BACKLOG_TEST(an_empty_backlog_has_one_position),
        BACKLOG_TEST(without_readers_exactly_the_last_bytes_are_there),
        BACKLOG_TEST(nothing_is_read_at_or_after_the_limit),
        BACKLOG_TEST(a_reader_that_is_further_back_reads_from_disk),
        BACKLOG_TEST(files_are_closed_when_no_reader_needs_them),
        BACKLOG_TEST(no_file_has_a_name),
        BACKLOG_TEST(without_a_disk_a_reader_is_lost_with_the_memory),
        BACKLOG_TEST(when_the_disk_is_full_the_reader_that_is_furthest_back_is_lost),
        BACKLOG_TEST(retained_positions_go_before_readers),
        BACKLOG_TEST(a_retained_position_goes_alone_if_that_is_enough),
        BACKLOG_TEST(retained_bytes_are_there_until_their_time),
        BACKLOG_TEST(what_is_not_acknowledged_is_kept_for_the_return),
        BACKLOG_TEST(a_full_disk_takes_what_is_not_acknowledged_first),
        BACKLOG_TEST(a_returning_reader_drops_one_retained_position),
        BACKLOG_TEST(there_are_not_more_retained_positions_than_the_limit),
        BACKLOG_TEST(memory_that_grows_keeps_more_and_loses_nothing),
        BACKLOG_TEST(memory_that_shrinks_keeps_what_readers_need),
        BACKLOG_TEST(memory_may_grow_over_what_is_on_disk),
        BACKLOG_TEST(a_smaller_bound_is_kept_at_once),
        BACKLOG_TEST(room_is_what_can_be_appended_without_a_loss),
        BACKLOG_TEST(what_was_read_leaves_room_before_anything_is_appended),
        BACKLOG_TEST(what_readers_need_stays_in_memory_a_little_longer),
        BACKLOG_TEST(what_is_held_in_memory_can_be_attached_to),
        BACKLOG_TEST(a_write_that_fails_costs_readers_of_the_disk),
        BACKLOG_TEST(a_file_that_cannot_be_opened_is_a_write_that_fails),
        BACKLOG_TEST(one_failed_write_costs_one_reader),
        BACKLOG_TEST(a_read_that_fails_costs_the_reader),
        BACKLOG_TEST(wrong_bytes_are_never_returned),
        BACKLOG_TEST(a_reader_of_the_disk_has_one_block_of_memory_while_it_needs_it),
        BACKLOG_TEST(a_lost_reader_leaves_nothing),
        BACKLOG_TEST(blocks_of_the_default_size_work_too),
        BACKLOG_TEST(memory_does_not_grow_while_another_thread_writes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
