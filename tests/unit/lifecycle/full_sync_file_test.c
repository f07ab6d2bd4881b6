#include "lifecycle/full_sync_file.h"

#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/disk.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/random.h"
#include "support/seed.h"

enum { SIZE = 3000000, READERS = 4 };

static const struct message failure = { "the disk is full" };

static uint8_t byte_at(uint64_t offset)
{
    return (uint8_t)(offset * 7 + offset / 251);
}

static struct full_sync_file *file_open_new(int *fd)
{
    struct full_sync_file *file = full_sync_file_create(NULL);

    *fd = full_sync_file_open(file, "/tmp");
    assert_true(*fd >= 0);
    return file;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void only_complete_bytes_are_read(void **state)
{
    int fd;
    struct full_sync_file *file = file_open_new(&fd);
    char text[20];

    assert_int_equal(full_sync_file_read(file, text, sizeof(text), 0), 0);
    assert_int_equal(full_sync_file_descriptor(file), -1);
    assert_int_equal(write(fd, "abcdefgh", 8), 8);
    assert_int_equal(full_sync_file_read(file, text, sizeof(text), 0), 0);
    full_sync_file_grow(file, 5);
    assert_int_equal(full_sync_file_read(file, text, sizeof(text), 0), 5);
    assert_memory_equal(text, "abcde", 5);
    assert_int_equal(full_sync_file_read(file, text, 2, 1), 2);
    assert_memory_equal(text, "bc", 2);
    assert_int_equal(full_sync_file_read(file, text, sizeof(text), 5), 0);
    assert_int_equal(full_sync_file_read(file, text, sizeof(text), 1000), 0);
    assert_int_equal(full_sync_file_descriptor(file), fd);
    assert_int_equal(full_sync_file_look(file).state, FULL_SYNC_RUNNING);
    assert_int_equal(full_sync_file_look(file).size, 5);
    full_sync_file_grow(file, 8);
    full_sync_file_end(file, STATUS_OK, NULL);
    assert_int_equal(full_sync_file_look(file).state, FULL_SYNC_DONE);
    assert_int_equal(full_sync_file_look(file).size, 8);
    assert_int_equal(full_sync_file_read(file, text, sizeof(text), 5), 3);
    full_sync_file_release(file);
    full_sync_file_release(NULL);
}

static void a_failure_says_why(void **state)
{
    struct full_sync_file *file = full_sync_file_create(NULL);

    full_sync_file_end(file, STATUS_NO_SPACE, &failure);
    assert_int_equal(full_sync_file_look(file).state, FULL_SYNC_FAILED);
    assert_int_equal(full_sync_file_look(file).size, 0);
    assert_int_equal(full_sync_file_status(file), STATUS_NO_SPACE);
    assert_string_equal(full_sync_file_problem(file), failure.text);
    full_sync_file_release(file);
}

static void the_file_has_no_name_and_ends_with_its_last_reference(void **state)
{
    int fd;
    struct full_sync_file *file = file_open_new(&fd);
    struct stat info;

    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_nlink, 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_ptr_equal(full_sync_file_hold(file), file);
    full_sync_file_end(file, STATUS_OK, NULL);
    full_sync_file_release(file);
    assert_true(is_open(fd));
    full_sync_file_release(file);
    assert_false(is_open(fd));
}

/* By another thread, as that takes long. */
static void a_large_file_is_closed_too(void **state)
{
    int fd;
    struct full_sync_file *file = file_open_new(&fd);

    assert_int_equal(ftruncate(fd, 100 << 20), 0);
    full_sync_file_grow(file, 100 << 20);
    full_sync_file_end(file, STATUS_CANCELLED, &failure);
    full_sync_file_release(file);
    while (is_open(fd))
        sched_yield();
}

static void what_is_wrong_with_the_directory_or_the_file_is_known(void **state)
{
    struct full_sync_file *file = full_sync_file_create(NULL);
    int fd;
    char text[10];

    assert_int_equal(full_sync_file_open(file, "/tmp/not-there"), -1);
    assert_int_equal(errno, ENOENT);
    full_sync_file_release(file);
    file = file_open_new(&fd);
    assert_int_equal(write(fd, "abcdefgh", 8), 8);
    full_sync_file_grow(file, 8);
    assert_int_equal(ftruncate(fd, 2), 0);
    assert_int_equal(full_sync_file_read(file, text, sizeof(text), 4), -1);
    assert_int_equal(errno, EIO);
    full_sync_file_release(file);
}

/* Many at once, at their own pace. */
struct follower {
    pthread_t thread;
    struct full_sync_file *file;
    struct random random;
    uint64_t size;
    enum full_sync_state state;
};

static void *follow(void *context)
{
    struct follower *follower = context;
    struct full_sync_view view;
    uint8_t *piece = mem_alloc(100000);

    do {
        view = full_sync_file_look(follower->file);
        for (ssize_t got = 1; got > 0; follower->size += (uint64_t)got) {
            got = full_sync_file_read(follower->file, piece, 1 + random_below(&follower->random, 100000), follower->size);
            CHECK(got >= 0);
            for (ssize_t i = 0; i < got; i++)
                CHECK(piece[i] == byte_at(follower->size + (uint64_t)i));
        }
        sched_yield();
    } while (view.state == FULL_SYNC_RUNNING);
    CHECK(view.state != FULL_SYNC_DONE || follower->size == view.size);
    follower->state = view.state;
    full_sync_file_release(follower->file);
    mem_free(piece);
    return NULL;
}

static void write_all(int fd, struct full_sync_file *file, struct random *random, uint64_t until)
{
    uint8_t *all = mem_alloc(SIZE);

    for (uint64_t i = 0; i < SIZE; i++)
        all[i] = byte_at(i);
    for (uint64_t done = 0; done < until;) {
        uint64_t size = 1 + random_below(random, 50000);

        if (size > until - done)
            size = until - done;
        assert_int_equal(file_write_all(disk_system(), fd, bytes_of(all + done, size)), STATUS_OK);
        done += size;
        full_sync_file_grow(file, done);
    }
    mem_free(all);
}

static void readers_follow(enum status status, uint64_t until)
{
    struct follower followers[READERS];
    struct random random;
    int fd;
    struct full_sync_file *file = file_open_new(&fd);

    random_init(&random, seed_new());
    for (int i = 0; i < READERS; i++) {
        followers[i] = (struct follower){ .file = full_sync_file_hold(file) };
        random_init(&followers[i].random, random_below(&random, 1000000));
        assert_int_equal(pthread_create(&followers[i].thread, NULL, follow, &followers[i]), 0);
    }
    write_all(fd, file, &random, until);
    full_sync_file_end(file, status, &failure);
    full_sync_file_release(file);
    for (int i = 0; i < READERS; i++) {
        pthread_join(followers[i].thread, NULL);
        assert_int_equal(followers[i].state, status == STATUS_OK ? FULL_SYNC_DONE : FULL_SYNC_FAILED);
        assert_int_equal(followers[i].size, until);
    }
    assert_false(is_open(fd));
}

static void readers_follow_a_file_to_its_end(void **state)
{
    readers_follow(STATUS_OK, SIZE);
    readers_follow(STATUS_IO, SIZE / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_complete_bytes_are_read),
        cmocka_unit_test(a_failure_says_why),
        cmocka_unit_test(the_file_has_no_name_and_ends_with_its_last_reference),
        cmocka_unit_test(a_large_file_is_closed_too),
        cmocka_unit_test(what_is_wrong_with_the_directory_or_the_file_is_known),
        cmocka_unit_test(readers_follow_a_file_to_its_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
