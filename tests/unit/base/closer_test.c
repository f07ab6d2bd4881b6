/* Files and directories are closed on a thread of their own, or in place where there is none. */
#include "support/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/disk.h"
#include "base/mem.h"
#include "base/thread.h"

enum { FILES = 50 };

/* A disk that counts what is closed, and by how many threads that is not the test's own. While the gate is locked nothing is closed. */
struct counting_disk {
    struct disk table;
    pthread_t test;
    pthread_mutex_t gate;
    atomic_int closed, closed_apart;
};

static int close_and_count(void *context, int fd)
{
    struct counting_disk *disk = context;
    bool is_apart = !pthread_equal(pthread_self(), disk->test);

    if (is_apart)
        pthread_mutex_lock(&disk->gate);
    disk->closed++;
    disk->closed_apart += is_apart;
    if (is_apart)
        pthread_mutex_unlock(&disk->gate);
    return close(fd);
}

static void disk_init(struct counting_disk *disk)
{
    *disk = (struct counting_disk){ .table = { .context = disk, .close = close_and_count }, .test = pthread_self(),
        .gate = PTHREAD_MUTEX_INITIALIZER };
}

static int open_temporary(void)
{
    FILE *file = tmpfile();
    int fd;

    assert_non_null(file);
    fd = dup(fileno(file));
    assert_true(fd >= 0);
    fclose(file);
    assert_int_equal(ftruncate(fd, 3 << 20), 0);
    return fd;
}

static void all_is_closed_apart_before_the_end(void **state)
{
    struct closer *closer = closer_create(NULL);
    struct counting_disk disk;
    int fds[FILES];

    (void)state;
    disk_init(&disk);
    pthread_mutex_lock(&disk.gate);
    for (int i = 0; i < FILES; i++) {
        fds[i] = open_temporary();
        closer_close(closer, &disk.table, fds[i], i % 2 == 0 ? CLOSER_FILE : CLOSER_FILE_SYNCED);
    }
    assert_int_equal(disk.closed, 0);           /* the caller has not waited */
    pthread_mutex_unlock(&disk.gate);
    closer_destroy(closer);
    assert_int_equal(disk.closed_apart, FILES);
    for (int i = 0; i < FILES; i++)
        assert_int_equal(fcntl(fds[i], F_GETFD), -1);
}

/* The thread ends when there is nothing to do, and another one is started for what comes then. */
static void a_closer_goes_on_after_a_pause(void **state)
{
    struct closer *closer = closer_create(NULL);
    struct counting_disk disk;

    (void)state;
    disk_init(&disk);
    for (int i = 0; i < FILES; i++) {
        closer_close(closer, &disk.table, open_temporary(), CLOSER_FILE);
        while (disk.closed <= i)
            ;
    }
    closer_destroy(closer);
    assert_int_equal(disk.closed_apart, FILES);
}

static char *make_tree(void)
{
    char *root = mem_string(bytes_of_string("/tmp/closer-XXXXXX")), path[64];

    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof(path), "%s/folder", root);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/folder/file", root);
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
    return root;
}

static void directories_are_removed(void **state)
{
    struct closer *closer = closer_create(NULL);
    char *root = make_tree(), *copy = mem_string(bytes_of_string(root)), *other = make_tree(), *other_copy = mem_string(bytes_of_string(other));

    (void)state;
    closer_remove_take(closer, root);
    closer_destroy(closer);
    assert_int_equal(access(copy, F_OK), -1);
    closer_remove_take(NULL, other);            /* in place */
    assert_int_equal(access(other_copy, F_OK), -1);
    mem_free(copy);
    mem_free(other_copy);
}

static void without_a_thread_the_caller_closes(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)state;
    skip();                         /* they need address space themselves */
#else
    struct closer *closer = closer_create(NULL);
    struct counting_disk disk;
    struct rlimit before, limit;
    int fd = open_temporary();

    (void)state;
    disk_init(&disk);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_AS, &(struct rlimit){ THREAD_STACK_SIZE / 2, before.rlim_max }), 0);
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    if (limit.rlim_cur != THREAD_STACK_SIZE / 2)
        skip();                     /* qemu-user ignores it */
    closer_close(closer, &disk.table, fd, CLOSER_FILE_SYNCED);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(disk.closed, 1);
    assert_int_equal(disk.closed_apart, 0);
    closer_close(closer, &disk.table, open_temporary(), CLOSER_FILE);
    closer_destroy(closer);
    closer_destroy(NULL);
    assert_int_equal(disk.closed_apart, 1);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_thread_the_caller_closes),
        cmocka_unit_test(all_is_closed_apart_before_the_end),
        cmocka_unit_test(a_closer_goes_on_after_a_pause),
        cmocka_unit_test(directories_are_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
