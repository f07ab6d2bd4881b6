#include "stream/closer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "base/disk.h"
#include "base/mem.h"

enum { CAPACITY_FIRST = 16, PIECE_SIZE = 1 << 20, PAUSE_NS = 1000000 };

void closer_init(struct closer *closer, const struct disk *disk, bool are_synced)
{
    *closer = (struct closer){ .disk = disk, .are_synced = are_synced };
    mutex_init(&closer->lock);
}

void closer_release(struct closer *closer)
{
    closer->is_ending = true;
    thread_join(&closer->thread);
    mem_free(closer->fds);
    mutex_release(&closer->lock);
}

/* -1: there is none, and the thread ends. */
static int take_file(struct closer *closer)
{
    int fd = -1;

    mutex_lock(&closer->lock);
    if (closer->count > 0)
        fd = closer->fds[--closer->count];
    else
        closer->is_running = false;
    mutex_unlock(&closer->lock);
    return fd;
}

/* Others may read the file still: then they read it from the disk. */
static void drop_cache(const struct closer *closer, int fd)
{
    const struct timespec pause = { 0, PAUSE_NS };
    struct stat info;

    if (fstat(fd, &info) != 0)
        return;
    for (off_t at = 0; at < info.st_size && !closer->is_ending; at += PIECE_SIZE) {
        (void)posix_fadvise(fd, at, PIECE_SIZE, POSIX_FADV_DONTNEED);
        nanosleep(&pause, NULL);
    }
}

/* Allocates nothing and frees nothing: no meter counts this thread. */
static void closer_main(void *context)
{
    struct closer *closer = context;
    int fd;

    while ((fd = take_file(closer)) >= 0) {
        if (closer->are_synced)
            drop_cache(closer, fd);
        closer->disk->close(closer->disk->context, fd);
    }
}

static void push(struct closer *closer, int fd) REQUIRES(closer->lock);
static void push(struct closer *closer, int fd)
{
    if (closer->count == closer->capacity) {
        closer->capacity = closer->capacity > 0 ? 2 * closer->capacity : CAPACITY_FIRST;
        closer->fds = mem_realloc(closer->fds, (size_t)closer->capacity * sizeof(closer->fds[0]));
    }
    closer->fds[closer->count++] = fd;
}

static void start_thread(struct closer *closer) REQUIRES(closer->lock);
static void start_thread(struct closer *closer)
{
    thread_join(&closer->thread);       /* it has ended, or is about to */
    closer->is_running = thread_start(&closer->thread, "kelvin-close", NULL, closer_main, closer) == 0;
}

void closer_add(struct closer *closer, int fd)
{
    bool is_apart;

    mutex_lock(&closer->lock);
    push(closer, fd);
    if (!closer->is_running)
        start_thread(closer);
    is_apart = closer->is_running;
    closer->count -= !is_apart;
    mutex_unlock(&closer->lock);
    if (!is_apart)
        closer->disk->close(closer->disk->context, fd);
}
