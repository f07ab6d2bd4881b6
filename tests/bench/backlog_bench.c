/* Cost of a backlog's append, of 100 bytes and of 256 KiB: with no reader; with a reader that follows; and with one that does not move, so
 * that all bytes go to a spool under /tmp. Then of reading what is in memory and on disk, in pieces of 16 and of 256 KiB; and of
 * detaching a reader that was the last one to need the spool's files.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "stream/backlog.h"

enum { MEMORY = 16 << 20, TOTAL = 1 << 30, PIECE = 256 << 10 };

struct bench {
    struct backlog *backlog;
    struct backlog_reader *reader;
    char *piece;
};

static void open_backlog(struct bench *bench, uint64_t memory_size, const char *dir)
{
    bench->backlog = backlog_create(&(struct backlog_options){ .memory_size = memory_size, .disk_size = 2 * (uint64_t)TOTAL, .dir = dir });
}

static void close_backlog(struct bench *bench)
{
    backlog_detach(bench->reader);
    bench->reader = NULL;
    backlog_destroy(bench->backlog);
}

/* Nanoseconds for each append. `follows`: the reader reads all after every 64 appends, or after each large one. */
static double append_all(struct bench *bench, size_t size, uint64_t total, int follows)
{
    int64_t began_ns = clock_mono_ns();
    uint64_t count = total / size;
    size_t got;

    for (uint64_t i = 0; i < count; i++) {
        backlog_append(bench->backlog, bytes_of(bench->piece, size));
        if (!follows || (i % 64 != 63 && size < PIECE))
            continue;
        do
            CHECK(backlog_read(bench->reader, bench->piece, PIECE, UINT64_MAX, &got) == BACKLOG_OK);
        while (got > 0);
    }
    return (double)(clock_mono_ns() - began_ns) / (double)count;
}

static void measure_appends(struct bench *bench, size_t size, const char *dir)
{
    double alone, followed, spooled;

    open_backlog(bench, MEMORY, dir);
    append_all(bench, size, 4 * MEMORY, 0);
    alone = append_all(bench, size, TOTAL, 0);
    bench->reader = backlog_attach(bench->backlog, backlog_end(bench->backlog));
    followed = append_all(bench, size, TOTAL, 1);
    close_backlog(bench);
    open_backlog(bench, MEMORY, dir);
    bench->reader = backlog_attach(bench->backlog, 0);
    spooled = append_all(bench, size, TOTAL, 0);
    close_backlog(bench);
    printf("append of %6zu bytes: %8.1f ns, with a reader %8.1f ns, to the spool %8.1f ns\n", size, alone, followed, spooled);
}

static double read_all(struct bench *bench, size_t size)
{
    int64_t began_ns = clock_mono_ns();
    uint64_t total = 0;
    size_t got;

    do {
        CHECK(backlog_read(bench->reader, bench->piece, size, UINT64_MAX, &got) == BACKLOG_OK);
        total += got;
    } while (got > 0);
    return (double)total * 1000 / (double)(clock_mono_ns() - began_ns);     /* MB/s */
}

static void measure_reads(struct bench *bench, size_t size, const char *dir)
{
    double memory, disk;

    open_backlog(bench, TOTAL / 2, dir);
    bench->reader = backlog_attach(bench->backlog, 0);
    append_all(bench, PIECE, TOTAL / 2, 0);
    memory = read_all(bench, size);
    close_backlog(bench);
    open_backlog(bench, 0, dir);
    bench->reader = backlog_attach(bench->backlog, 0);
    append_all(bench, PIECE, TOTAL / 2, 0);
    disk = read_all(bench, size);
    close_backlog(bench);
    printf("reads of %6zu bytes: memory %6.0f MB/s, spool (in the page cache) %6.0f MB/s\n", size, memory, disk);
}

static void measure_closing(struct bench *bench, const char *dir)
{
    struct backlog_stats stats;
    int64_t began_ns;

    open_backlog(bench, 0, dir);
    bench->reader = backlog_attach(bench->backlog, 0);
    append_all(bench, PIECE, TOTAL / 2, 0);
    backlog_stats(bench->backlog, &stats);
    began_ns = clock_mono_ns();
    backlog_detach(bench->reader);
    printf("detach from %d files of %d MiB: %.2f ms", stats.files, BACKLOG_SPOOL_FILE_SIZE >> 20, (double)(clock_mono_ns() - began_ns) / 1e6);
    bench->reader = NULL;
    close_backlog(bench);
    printf(", all are closed after %.2f ms\n", (double)(clock_mono_ns() - began_ns) / 1e6);
}

/* With one thread only, the C library would take locks without atomic instructions. */
static void *wait_for_end(void *context)
{
    char byte;

    CHECK(read(*(int *)context, &byte, 1) == 0);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    int ends[2];
    char dir[] = "/tmp/kelvin-backlog-XXXXXX";
    struct bench bench = { .piece = mem_zalloc(PIECE) };

    CHECK(mkdtemp(dir) != NULL && pipe(ends) == 0);
    CHECK(pthread_create(&thread, NULL, wait_for_end, &ends[0]) == 0);
    measure_appends(&bench, 100, dir);
    measure_appends(&bench, PIECE, dir);
    measure_reads(&bench, 16 << 10, dir);
    measure_reads(&bench, PIECE, dir);
    measure_closing(&bench, dir);
    mem_free(bench.piece);
    close(ends[1]);
    pthread_join(thread, NULL);
    CHECK(rmdir(dir) == 0);
    return 0;
}
