#include "base/read_ring.h"

#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/random.h"
#include "support/faulty_disk.h"
#include "support/seed.h"

enum { FILE_SIZE = 3 * 1024 * 1024 + 1000, READS_MAX = 300, ALIGNMENT = 4096 };

struct rig {
    char path[64];
    char *contents;
    int fd;
    struct ring_read reads[READS_MAX];
    char *buffers[READS_MAX];
    bool is_back[READS_MAX];
};

static struct rig *rig_create(void)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct random random;

    random_init(&random, 7);
    rig->contents = mem_alloc(FILE_SIZE);
    for (size_t i = 0; i < FILE_SIZE; i++)
        rig->contents[i] = (char)random_next(&random);
    strcpy(rig->path, "/tmp/kelvin-test-ring-XXXXXX");
    rig->fd = mkstemp(rig->path);
    CHECK(rig->fd >= 0 && write(rig->fd, rig->contents, FILE_SIZE) == FILE_SIZE && fsync(rig->fd) == 0);
    return rig;
}

static void rig_destroy(struct rig *rig)
{
    for (int i = 0; i < READS_MAX; i++)
        mem_free(rig->buffers[i]);
    close(rig->fd);
    unlink(rig->path);
    mem_free(rig->contents);
    mem_free(rig);
}

static struct read_ring *open_ring(unsigned depth)
{
    struct message why = { "" };
    struct read_ring *ring = read_ring_open(depth, disk_system(), &why);

    if (ring == NULL)
        print_message("no io_uring here: %s\n", why.text);
    return ring;
}

static void add(struct rig *rig, struct read_ring *ring, int index, int fd, uint64_t offset, uint32_t size)
{
    mem_free(rig->buffers[index]);
    rig->buffers[index] = mem_alloc_aligned(ALIGNMENT, (size + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
    rig->reads[index] = (struct ring_read){ .fd = fd, .offset = offset, .size = size, .data = rig->buffers[index] };
    rig->is_back[index] = false;
    read_ring_add(ring, &rig->reads[index]);
}

/* Until all have completed; the descriptor must show it if none has completed at once. */
static void collect(struct rig *rig, struct read_ring *ring)
{
    bool is_ready = read_ring_submit(ring);

    while (read_ring_count(ring) > 0) {
        struct pollfd poller = { .fd = read_ring_descriptor(ring), .events = POLLIN };
        struct ring_read *read;

        if (!is_ready)
            assert_int_equal(poll(&poller, 1, 10000), 1);
        while ((read = read_ring_completed(ring)) != NULL) {
            for (; read != NULL; read = read->next) {
                ptrdiff_t index = read - rig->reads;

                assert_in_range(index, 0, READS_MAX - 1);
                assert_false(rig->is_back[index]);
                rig->is_back[index] = true;
            }
        }
        is_ready = false;
    }
}

static void assert_contents(const struct rig *rig, int index)
{
    const struct ring_read *read = &rig->reads[index];
    int64_t expected = read->offset >= FILE_SIZE ? 0 : FILE_SIZE - (int64_t)read->offset;

    if (expected > read->size)
        expected = read->size;
    assert_true(rig->is_back[index]);
    assert_int_equal(read->result, expected);
    assert_memory_equal(read->data, rig->contents + (expected > 0 ? read->offset : 0), (size_t)expected);
}

/* Reads at random places, up to three times the depth at once, in several rounds. */
static void many_reads(struct rig *rig, struct read_ring *ring, int fd, unsigned alignment)
{
    struct random random;

    random_init(&random, seed_new());
    for (int round = 0; round < 30; round++) {
        int count = 1 + (int)random_below(&random, READS_MAX);

        for (int i = 0; i < count; i++) {
            uint64_t offset = random_below(&random, FILE_SIZE + 10000);
            uint32_t size = 1 + (uint32_t)random_below(&random, random_below(&random, 10) == 0 ? 200000 : 5000);

            add(rig, ring, i, fd, offset / alignment * alignment, (size + alignment - 1) / alignment * alignment);
        }
        collect(rig, ring);
        for (int i = 0; i < count; i++)
            assert_contents(rig, i);
        assert_null(read_ring_completed(ring));
    }
}

static void many_reads_of_all_sizes_return_what_is_in_the_file(void **state)
{
    struct rig *rig = rig_create();
    struct read_ring *ring = open_ring(100);

    if (ring != NULL)
        many_reads(rig, ring, rig->fd, 1);
    read_ring_close(ring);
    rig_destroy(rig);
}

static void direct_reads_with_aligned_buffers_do_too(void **state)
{
    struct rig *rig = rig_create();
    struct read_ring *ring = open_ring(100);
    int fd = open(rig->path, O_RDONLY | O_DIRECT | O_CLOEXEC);

    if (fd < 0)
        print_message("no O_DIRECT here\n");
    else if (ring != NULL)
        many_reads(rig, ring, fd, ALIGNMENT);
    if (fd >= 0)
        close(fd);
    read_ring_close(ring);
    rig_destroy(rig);
}

static void a_read_from_the_page_cache_is_marked(void **state)
{
    struct rig *rig = rig_create();
    struct read_ring *ring = open_ring(8);
    char byte;

    if (ring != NULL) {
        assert_int_equal(pread(rig->fd, &byte, 1, 0), 1);
        add(rig, ring, 0, rig->fd, 0, 100);
        collect(rig, ring);
        assert_true(rig->reads[0].was_cached);
        add(rig, ring, 1, -1, 0, 100);
        collect(rig, ring);
        assert_false(rig->reads[1].was_cached);
    }
    read_ring_close(ring);
    rig_destroy(rig);
}

static void errors_are_those_of_single_reads(void **state)
{
    struct rig *rig = rig_create();
    struct read_ring *ring = open_ring(4);
    int directory = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC), writer = open(rig->path, O_WRONLY | O_CLOEXEC);

    if (ring != NULL) {
        for (int i = 0; i < 40; i += 4) {
            add(rig, ring, i, -1, 0, 10);
            add(rig, ring, i + 1, directory, 0, 10);
            add(rig, ring, i + 2, writer, 0, 10);
            add(rig, ring, i + 3, rig->fd, (uint64_t)i * 1000, 10);
        }
        collect(rig, ring);
        for (int i = 0; i < 40; i += 4) {
            assert_int_equal(rig->reads[i].result, -EBADF);
            assert_int_equal(rig->reads[i + 1].result, -EISDIR);
            assert_int_equal(rig->reads[i + 2].result, -EBADF);
            assert_contents(rig, i + 3);
        }
    }
    close(directory);
    close(writer);
    read_ring_close(ring);
    rig_destroy(rig);
}

/* A pipe has what is missing only later, so that reads of it are short and reads are in flight for as long as the test wants. */
static void a_short_read_is_continued(void **state)
{
    struct rig *rig = rig_create();
    struct read_ring *ring = open_ring(2);
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    if (ring != NULL) {
        add(rig, ring, 0, ends[0], 0, 1000);
        assert_false(read_ring_submit(ring));
        assert_null(read_ring_completed(ring));
        for (int part = 0; part < 4; part++) {
            struct pollfd poller = { .fd = read_ring_descriptor(ring), .events = POLLIN };

            assert_int_equal(read_ring_count(ring), 1);
            assert_int_equal(write(ends[1], rig->contents + part * 250, 250), 250);
            assert_int_equal(poll(&poller, 1, 10000), 1);
            if (part < 3)
                assert_null(read_ring_completed(ring));
        }
        assert_ptr_equal(read_ring_completed(ring), &rig->reads[0]);
        assert_int_equal(rig->reads[0].result, 1000);
        assert_memory_equal(rig->buffers[0], rig->contents, 1000);
    }
    close(ends[0]);
    close(ends[1]);
    read_ring_close(ring);
    rig_destroy(rig);
}

static void close_waits_for_reads_in_flight_and_forgets_those_that_wait(void **state)
{
    struct rig *rig = rig_create();
    int fd = open(rig->path, O_RDONLY | O_DIRECT | O_CLOEXEC);

    for (int round = 0; round < 20; round++) {
        struct read_ring *ring = open_ring(32);

        for (int i = 0; i < 100 && ring != NULL; i++)
            add(rig, ring, i, fd >= 0 && i % 3 > 0 ? fd : rig->fd, (uint64_t)i * ALIGNMENT, 8 * ALIGNMENT);
        if (ring != NULL && round > 0)
            read_ring_submit(ring);
        read_ring_close(ring);
        for (int i = 0; i < 100; i++) {         /* nothing writes to them any more */
            mem_free(rig->buffers[i]);
            rig->buffers[i] = NULL;
        }
    }
    if (fd >= 0)
        close(fd);
    rig_destroy(rig);
}

struct elsewhere {
    struct rig *rig;
    struct read_ring *ring;
};

static void *read_elsewhere(void *context)
{
    struct elsewhere *elsewhere = context;

    many_reads(elsewhere->rig, elsewhere->ring, elsewhere->rig->fd, 1);
    return NULL;
}

static void another_thread_may_open_and_close_a_ring(void **state)
{
    struct rig *rig = rig_create();
    struct elsewhere elsewhere = { rig, open_ring(16) };
    pthread_t thread;

    if (elsewhere.ring != NULL) {
        assert_int_equal(pthread_create(&thread, NULL, read_elsewhere, &elsewhere), 0);
        pthread_join(thread, NULL);
    }
    read_ring_close(elsewhere.ring);
    rig_destroy(rig);
}

/* --- without io_uring --- */

/* The system call fails with `error` from now on, for this thread. */
static void forbid(long number, int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

struct refusal {
    long call;
    int error;
    const char *reason;
};

static void *open_where_it_is_refused(void *context)
{
    const struct refusal *refusal = context;
    struct message why = { "" };

    forbid(refusal->call, refusal->error);
    assert_null(read_ring_open(16, disk_system(), &why));
    assert_non_null(strstr(why.text, refusal->reason));
    return NULL;
}

static void a_ring_that_cannot_be_opened_has_a_reason(void **state)
{
    struct read_ring *ring = open_ring(16);
    struct refusal refusals[] = {
        { SYS_io_uring_setup, ENOSYS, "the kernel has no io_uring" },
        { SYS_io_uring_setup, EPERM, "forbidden" },
        { SYS_io_uring_setup, ENOMEM, "RLIMIT_MEMLOCK" },
        { SYS_io_uring_setup, EINVAL, "too old" },
        { SYS_io_uring_setup, EMFILE, "Too many open files" },
        { SYS_io_uring_enter, EPERM, "forbidden" },     /* it can be opened, but not used */
    };

    read_ring_close(ring);
    if (ring == NULL)
        return;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, open_where_it_is_refused, &refusals[i]), 0);
        pthread_join(thread, NULL);
    }
}

static void *read_where_the_kernel_takes_none(void *context)
{
    struct elsewhere *elsewhere = context;
    struct rig *rig = elsewhere->rig;
    struct read_ring *ring = elsewhere->ring;
    int ends[2];

    CHECK(pipe(ends) == 0);
    add(rig, ring, 0, ends[0], 0, 100);
    CHECK(!read_ring_submit(ring));
    forbid(SYS_io_uring_enter, EAGAIN);
    for (int i = 1; i < 20; i++)
        add(rig, ring, i, rig->fd, (uint64_t)i * 70000, 3000);
    CHECK(!read_ring_submit(ring) && read_ring_completed(ring) == NULL);       /* until the first one has completed */
    CHECK(write(ends[1], rig->contents, 100) == 100);
    collect(rig, ring);
    for (int i = 0; i < 20; i++)
        assert_contents(rig, i);
    close(ends[0]);
    close(ends[1]);
    for (int i = 0; i < 50; i++)
        add(rig, ring, i, rig->fd, (uint64_t)i * 70000, 3000);
    assert_true(read_ring_submit(ring));
    collect(rig, ring);
    for (int i = 0; i < 50; i++)
        assert_contents(rig, i);
    return NULL;
}

static void no_read_is_lost_if_the_kernel_takes_none(void **state)
{
    struct rig *rig = rig_create();
    struct elsewhere elsewhere = { rig, open_ring(8) };
    pthread_t thread;

    if (elsewhere.ring != NULL) {
        assert_int_equal(pthread_create(&thread, NULL, read_where_the_kernel_takes_none, &elsewhere), 0);
        pthread_join(thread, NULL);
    }
    read_ring_close(elsewhere.ring);
    rig_destroy(rig);
}

/* --- disks of tests --- */

static void a_disk_of_a_test_is_read_by_its_pread(void **state)
{
    struct rig *rig = rig_create();
    struct faulty_disk *disk = faulty_disk_create();
    const struct disk *table = faulty_disk_table(disk);
    struct disk_faults faults = { .seed = seed_new() };
    struct message why = { "" };
    struct read_ring *ring = read_ring_open(4, table, &why);
    int fd = table->open(table->context, AT_FDCWD, rig->path, O_RDONLY | O_CLOEXEC, 0), errors = 0, changed = 0;

    assert_non_null(ring);
    many_reads(rig, ring, fd, 1);
    faults.read_error = faults.read_corrupt = 300;
    faulty_disk_set(disk, &faults);
    for (int i = 0; i < READS_MAX; i++)
        add(rig, ring, i, fd, (uint64_t)i * 1000, 1000);
    collect(rig, ring);
    for (int i = 0; i < READS_MAX; i++) {
        const struct ring_read *read = &rig->reads[i];

        assert_true(read->result == 1000 || read->result == -EIO);
        errors += read->result < 0;
        changed += read->result == 1000 && memcmp(read->data, rig->contents + read->offset, 1000) != 0;
    }
    assert_in_range(errors, 1, READS_MAX - 1);
    assert_in_range(changed, 1, READS_MAX - 1);
    table->close(table->context, fd);
    read_ring_close(ring);
    faulty_disk_destroy(disk);
    rig_destroy(rig);
}

/* Reads 100 bytes at a time, after an EINTR; the alignment of direct reads is checked at the end of the file, too. */
struct short_disk {
    struct disk table;
    int interrupts;
};

static ssize_t short_pread(void *context, int fd, void *data, size_t size, off_t offset)
{
    struct short_disk *disk = context;

    if (disk->interrupts++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    if (offset == FILE_SIZE) {
        errno = EINVAL;
        return -1;
    }
    return pread(fd, data, size < 100 ? size : 100, offset);
}

static void short_and_interrupted_reads_are_continued(void **state)
{
    struct rig *rig = rig_create();
    struct short_disk disk = { *disk_system(), 0 };
    struct message why = { "" };
    struct read_ring *ring;

    disk.table.context = &disk;
    disk.table.pread = short_pread;
    ring = read_ring_open(4, &disk.table, &why);
    add(rig, ring, 0, rig->fd, 1000, 12345);
    add(rig, ring, 1, rig->fd, FILE_SIZE - 700, 4096);
    add(rig, ring, 2, rig->fd, 0, 1);
    collect(rig, ring);
    for (int i = 0; i < 3; i++)
        assert_contents(rig, i);
    read_ring_close(ring);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_reads_of_all_sizes_return_what_is_in_the_file),
        cmocka_unit_test(direct_reads_with_aligned_buffers_do_too),
        cmocka_unit_test(a_read_from_the_page_cache_is_marked),
        cmocka_unit_test(errors_are_those_of_single_reads),
        cmocka_unit_test(a_short_read_is_continued),
        cmocka_unit_test(close_waits_for_reads_in_flight_and_forgets_those_that_wait),
        cmocka_unit_test(another_thread_may_open_and_close_a_ring),
        cmocka_unit_test(a_ring_that_cannot_be_opened_has_a_reason),
        cmocka_unit_test(no_read_is_lost_if_the_kernel_takes_none),
        cmocka_unit_test(a_disk_of_a_test_is_read_by_its_pread),
        cmocka_unit_test(short_and_interrupted_reads_are_continued),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
