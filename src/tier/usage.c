#include "tier/usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "tier/tier_private.h"

/* A file with several links, of which others may be met. */
struct linked {
    dev_t device;
    ino_t inode;
    uint64_t size;
};

struct usage {
    uint64_t size;                      /* of files with one link */
    struct linked *linked;
    size_t count, capacity;
};

static void add_file(struct usage *usage, const struct stat *info)
{
    if (info->st_nlink < 2) {
        usage->size += (uint64_t)info->st_size;
        return;
    }
    if (usage->count == usage->capacity) {
        usage->capacity = usage->capacity * 2 + 256;
        usage->linked = mem_realloc(usage->linked, usage->capacity * sizeof(struct linked));
    }
    usage->linked[usage->count++] = (struct linked){ info->st_dev, info->st_ino, (uint64_t)info->st_size };
}

enum what { FILES_TOO, DIRECTORIES_ONLY };

/* `depth`: how many levels of directories below. */
static void add_directory(struct usage *usage, int parent_fd, const char *name, enum what what, int depth)
{
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    struct stat info;

    if (dir == NULL && fd >= 0)
        close(fd);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (S_ISREG(info.st_mode) && what == FILES_TOO)
            add_file(usage, &info);
        else if (S_ISDIR(info.st_mode) && depth > 0)
            add_directory(usage, fd, entry->d_name, FILES_TOO, depth - 1);
    }
    if (dir != NULL)
        closedir(dir);
}

static int compare_linked(const void *a, const void *b)
{
    const struct linked *first = a, *second = b;

    if (first->device != second->device)
        return first->device < second->device ? -1 : 1;
    return first->inode < second->inode ? -1 : first->inode > second->inode;
}

static uint64_t sum_linked(const struct usage *usage)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < usage->count; i++)
        sum += usage->linked[i].size;
    return sum;
}

uint64_t usage_measure(const char *store, const char *images, uint64_t *own)
{
    struct usage usage = { 0 };

    add_directory(&usage, AT_FDCWD, store, FILES_TOO, 0);
    *own = usage.size + sum_linked(&usage);
    if (images != NULL)
        add_directory(&usage, AT_FDCWD, images, DIRECTORIES_ONLY, 2);
    if (usage.count > 0)
        qsort(usage.linked, usage.count, sizeof(struct linked), compare_linked);
    for (size_t i = 0; i < usage.count; i++) {
        if (i == 0 || compare_linked(&usage.linked[i - 1], &usage.linked[i]) != 0)
            usage.size += usage.linked[i].size;
    }
    mem_free(usage.linked);
    return usage.size;
}

static int64_t changed_ns(const char *path)
{
    struct stat info;

    if (path == NULL || stat(path, &info) != 0)
        return 0;
    return (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
}

struct usage_times usage_times_of(const char *store, const char *images)
{
    return (struct usage_times){ changed_ns(store), changed_ns(images) };
}

static void measure(const struct tier *tier, struct segments_stats *stats)
{
    segments_measure(store_segments(tier->store), stats);
}

void usage_note_measured(struct tier *tier, uint64_t own)
{
    struct segments_stats stats;

    measure(tier, &stats);
    tier->size.own = own;
    tier->size.segments_then = stats.bytes;
    tier->size.linked_then = stats.linked_bytes;
}

bool usage_has_moved(const struct tier *tier)
{
    struct segments_stats stats;

    measure(tier, &stats);
    return stats.bytes != tier->size.segments_then || stats.linked_bytes != tier->size.linked_then;
}

/* Returns `size` with the difference of the two, which may be negative. */
static uint64_t add_growth(uint64_t size, uint64_t now, uint64_t then)
{
    return now >= then || then - now < size ? size + now - then : 0;
}

uint64_t usage_now(const struct tier *tier)
{
    const struct store_size *size = &tier->size;
    struct segments_stats stats;

    measure(tier, &stats);
    return add_growth(tier->statistics.store_bytes, stats.bytes + stats.linked_bytes, size->segments_then + size->linked_then);
}

uint64_t usage_own(const struct tier *tier)
{
    struct segments_stats stats;

    measure(tier, &stats);
    return add_growth(tier->size.own, stats.bytes, tier->size.segments_then);
}

uint64_t usage_linked(const struct tier *tier)
{
    struct segments_stats stats;

    measure(tier, &stats);
    return stats.linked_bytes;
}

uint64_t usage_held(const struct tier *tier)
{
    return usage_linked(tier) - tier->size.linked_at_base;
}
