/* Random reads with O_DIRECT: CPU per read, and reads per second, by a read ring and by threads with pread.
 *
 *   read_ring_bench [folder [MiB [bytes per read [seconds]]]]      (/tmp 1024 4096 1)
 *
 * The file is written first, and removed at the end. A ring keeps `depth` reads in flight: it waits until some have completed, and submits
 * as many new ones in one system call. CPU is that of the whole process. Each line is measured in turn, three times; the medians are
 * printed. The reader does nothing with the bytes.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/disk.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/random.h"
#include "base/read_ring.h"

enum { ALIGNMENT = 4096, ROUNDS = 3, THREADS_MAX = 64, WRITE_SIZE = 1 << 20 };

struct bench {
    int fd;
    uint64_t file_size;
    uint32_t size;
    int64_t end_us;             /* of the measurement */
};

struct way {
    const char *text;
    unsigned depth;             /* of a ring; 0: threads */
    int threads;
    double cpu_us[ROUNDS], per_s[ROUNDS];
};

static double cpu_us(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static uint64_t somewhere(const struct bench *bench, struct random *random)
{
    return random_below(random, (uint32_t)((bench->file_size - bench->size) / ALIGNMENT + 1)) * (uint64_t)ALIGNMENT;
}

static void fill(struct bench *bench)
{
    char *data = mem_alloc_aligned(ALIGNMENT, WRITE_SIZE);
    struct random random;

    random_init(&random, 1);
    for (int i = 0; i < WRITE_SIZE; i++)
        data[i] = (char)random_next(&random);
    for (uint64_t at = 0; at < bench->file_size; at += WRITE_SIZE)
        CHECK(pwrite(bench->fd, data, WRITE_SIZE, (off_t)at) == WRITE_SIZE);
    CHECK(fsync(bench->fd) == 0);
    mem_free(data);
}

static uint64_t read_by_ring(const struct bench *bench, unsigned depth)
{
    struct message why;
    struct read_ring *ring = read_ring_open(depth, disk_system(), &why);
    struct ring_read *reads = mem_zalloc(depth * sizeof(*reads)), *back;
    char *memory = mem_alloc_aligned(ALIGNMENT, (size_t)depth * bench->size);
    struct random random;
    uint64_t count = 0;

    if (ring == NULL) {
        printf("no io_uring: %s\n", why.text);
        exit(1);
    }
    random_init(&random, 2);
    for (unsigned i = 0; i < depth; i++) {
        reads[i] = (struct ring_read){ .fd = bench->fd, .size = bench->size, .offset = somewhere(bench, &random), .data = memory + (size_t)i * bench->size };
        read_ring_add(ring, &reads[i]);
    }
    while (clock_mono_us() < bench->end_us) {
        struct pollfd poller = { .fd = read_ring_descriptor(ring), .events = POLLIN };

        if (!read_ring_submit(ring))
            poll(&poller, 1, -1);
        while ((back = read_ring_completed(ring)) != NULL) {
            while (back != NULL) {
                struct ring_read *read = back;

                back = read->next;
                CHECK(read->result == read->size);
                read->offset = somewhere(bench, &random);
                read_ring_add(ring, read);
                count++;
            }
        }
    }
    read_ring_close(ring);
    mem_free(reads);
    mem_free(memory);
    return count;
}

struct reader {
    const struct bench *bench;
    uint64_t seed, count;
    pthread_t thread;
};

static void *read_by_pread(void *context)
{
    struct reader *reader = context;
    const struct bench *bench = reader->bench;
    char *data = mem_alloc_aligned(ALIGNMENT, bench->size);
    struct random random;

    random_init(&random, reader->seed);
    while (clock_mono_us() < bench->end_us) {
        CHECK(pread(bench->fd, data, bench->size, (off_t)somewhere(bench, &random)) == (ssize_t)bench->size);
        reader->count++;
    }
    mem_free(data);
    return NULL;
}

static uint64_t read_by_threads(const struct bench *bench, int threads)
{
    struct reader readers[THREADS_MAX];
    uint64_t count = 0;

    for (int i = 0; i < threads; i++) {
        readers[i] = (struct reader){ .bench = bench, .seed = (uint64_t)i + 3 };
        CHECK(pthread_create(&readers[i].thread, NULL, read_by_pread, &readers[i]) == 0);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(readers[i].thread, NULL);
        count += readers[i].count;
    }
    return count;
}

static void measure(struct bench *bench, struct way *way, int round, double seconds)
{
    int64_t begin_us = clock_mono_us();
    double cpu = cpu_us();
    uint64_t count;

    bench->end_us = begin_us + (int64_t)(seconds * 1e6);
    count = way->depth > 0 ? read_by_ring(bench, way->depth) : read_by_threads(bench, way->threads);
    way->cpu_us[round] = (cpu_us() - cpu) / (double)count;
    way->per_s[round] = (double)count * 1e6 / (double)(clock_mono_us() - begin_us);
}

static int compare(const void *a, const void *b)
{
    const double *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

static double median(double values[ROUNDS])
{
    qsort(values, ROUNDS, sizeof(values[0]), compare);
    return values[ROUNDS / 2];
}

int main(int count, char **arguments)
{
    struct way ways[] = {
        { .text = "ring, depth 1", .depth = 1 },
        { .text = "ring, depth 16", .depth = 16 },
        { .text = "ring, depth 64", .depth = 64 },
        { .text = "1 thread, pread", .threads = 1 },
        { .text = "16 threads, pread", .threads = 16 },
    };
    struct bench bench = { .file_size = (uint64_t)(count > 2 ? atoi(arguments[2]) : 1024) << 20, .size = count > 3 ? (uint32_t)atoi(arguments[3]) : 4096 };
    double seconds = count > 4 ? atof(arguments[4]) : 1;
    char path[4096];

    snprintf(path, sizeof(path), "%s/kelvin-bench-XXXXXX", count > 1 ? arguments[1] : "/tmp");
    bench.fd = mkostemp(path, O_DIRECT | O_CLOEXEC);
    if (bench.fd < 0 || bench.size == 0 || bench.size % 512 != 0 || bench.file_size < WRITE_SIZE) {
        perror(path);
        return 1;
    }
    unlink(path);
    fill(&bench);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
            measure(&bench, &ways[i], round, seconds);
    }
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        printf("%-18s %6.2f us of CPU per read, %7.0f reads per second\n", ways[i].text, median(ways[i].cpu_us), median(ways[i].per_s));
    close(bench.fd);
    return 0;
}
