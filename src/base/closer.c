#include "base/closer.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#include "base/disk.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "base/tree.h"

enum { PIECE_SIZE = 1 << 20, PAUSE_NS = 1000000 };

/* A file, or a directory. */
struct closing {
    struct closing *next;
    char *path;                     /* NULL: a file */
    const struct disk *disk;
    int fd;
    enum closer_file kind;
};

struct closer {
    struct meter *meter;
    _Atomic bool is_ending;
    struct mutex lock;              /* guards what follows */
    struct closing *first, *last;
    struct thread thread;
    bool is_running;                /* the thread has not seen yet that there is nothing more to do */
};

struct closer *closer_create(struct meter *meter)
{
    struct closer *closer = mem_zalloc(sizeof(*closer));

    closer->meter = meter;
    mutex_init(&closer->lock);
    return closer;
}

void closer_destroy(struct closer *closer)
{
    if (closer == NULL)
        return;
    closer->is_ending = true;
    thread_join(&closer->thread);
    mutex_release(&closer->lock);
    mem_free(closer);
}

/* Others may read the file still: then they read it from the disk. The pauses are for threads that wait for a CPU. */
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

static void finish_closing(struct closing *closing)
{
    if (closing->path != NULL)
        tree_remove(closing->path);
    else
        closing->disk->close(closing->disk->context, closing->fd);
    mem_free(closing->path);
}

/* NULL: there is nothing more, and the thread ends. */
static struct closing *take_closing(struct closer *closer)
{
    struct closing *closing;

    mutex_lock(&closer->lock);
    closing = closer->first;
    if (closing != NULL)
        closer->first = closing->next;
    if (closer->first == NULL)
        closer->last = NULL;
    closer->is_running = closing != NULL;
    mutex_unlock(&closer->lock);
    return closing;
}

static void closer_main(void *context)
{
    struct closer *closer = context;
    struct closing *closing;

    while ((closing = take_closing(closer)) != NULL) {
        if (closing->path == NULL && closing->kind == CLOSER_FILE_SYNCED)
            drop_cache(closer, closing->fd);
        finish_closing(closing);
        mem_free(closing);
    }
}

/* False: there is no thread. One that is not running has ended but for its last lines. */
static bool has_thread(struct closer *closer) REQUIRES(closer->lock);
static bool has_thread(struct closer *closer)
{
    if (closer->is_running)
        return true;
    thread_join(&closer->thread);
    closer->is_running = thread_start(&closer->thread, "kelvin-close", closer->meter, closer_main, closer) == 0;
    return closer->is_running;
}

/* False: it has to be done in place. */
static bool queue(struct closer *closer, const struct closing *closing)
{
    bool is_queued;

    if (closer == NULL)
        return false;
    mutex_lock(&closer->lock);
    is_queued = has_thread(closer);
    if (is_queued) {
        struct closing *kept = mem_alloc(sizeof(*kept));

        *kept = *closing;
        if (closer->last != NULL)
            closer->last->next = kept;
        else
            closer->first = kept;
        closer->last = kept;
    }
    mutex_unlock(&closer->lock);
    return is_queued;
}

static void close_apart(struct closer *closer, struct closing closing)
{
    if (!queue(closer, &closing))
        finish_closing(&closing);
}

void closer_close(struct closer *closer, const struct disk *disk, int fd, enum closer_file kind)
{
    close_apart(closer, (struct closing){ .disk = disk, .fd = fd, .kind = kind });
}

void closer_remove_take(struct closer *closer, char *path)
{
    close_apart(closer, (struct closing){ .path = path });
}
