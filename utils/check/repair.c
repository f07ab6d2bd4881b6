/* The log's repairs. Each is done in an order in which a crash at any point loses nothing that could be kept: first what is cut off is
 * saved elsewhere and synced, then one rename or one truncation completes the repair. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/message.h"
#include "base/tree.h"
#include "check.h"

bool repair_save_manifest(struct check *check)
{
    char manifest[CHECK_PATH_SIZE];
    bool replaced;

    snprintf(manifest, sizeof(manifest), "%s.manifest", check->name);
    if (aof_manifest_save(&check->manifest, check->dir_fd, manifest, disk_system(), &replaced) == STATUS_OK)
        return true;
    check_unrepaired(check, "the manifest can't be written: %s", strerror(errno));
    return false;
}

/* Copies the file from `where` on to a file of its own. */
static bool save_tail(struct check *check, const char *name, uint64_t where)
{
    char path[CHECK_PATH_SIZE], copy[CHECK_PATH_SIZE];
    struct message message = { "" };
    struct mapped mapped;
    bool good;

    snprintf(path, sizeof(path), "%s/%s", check->dir, name);
    snprintf(copy, sizeof(copy), "%s/%s.%s", check->dir, name, check->stamp);
    good = mapped_open(path, &mapped, &message);
    if (good) {
        good = where <= mapped.bytes.size &&
               tree_write_file(copy, bytes_of(mapped.bytes.data + where, mapped.bytes.size - where), &message) == STATUS_OK;
        mapped_close(&mapped);
    }
    good = good && tree_sync(check->dir, &message) == STATUS_OK;
    if (!good)
        check_unrepaired(check, "the part of %s that is to be cut off can't be saved: %s", name, message.text);
    return good;
}

static bool cut_file(struct check *check, const char *name, uint64_t where)
{
    int fd = openat(check->dir_fd, name, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && ftruncate(fd, (off_t)where) == 0 && fsync(fd) == 0;

    if (!good)
        check_unrepaired(check, "%s can't be truncated: %s", name, strerror(errno));
    if (fd >= 0)
        close(fd);
    return good;
}

static uint64_t size_of(const struct check *check, const char *name)
{
    struct stat info;

    return fstatat(check->dir_fd, name, &info, 0) == 0 ? (uint64_t)info.st_size : 0;
}

static bool add_increment(struct check *check, uint64_t seq)
{
    char name[CHECK_PATH_SIZE];
    struct message message;
    int fd;

    snprintf(name, sizeof(name), "%s.%" PRIu64 ".incr.aof", check->name, seq);
    fd = openat(check->dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || size_of(check, name) > 0 || fsync(fd) != 0) {
        check_unrepaired(check, "%s can't be created", name);
        if (fd >= 0)
            close(fd);
        return false;
    }
    close(fd);
    if (tree_sync(check->dir, &message) != STATUS_OK)
        return false;
    aof_manifest_add(&check->manifest, bytes_of_string(name), seq, AOF_FILE_INCREMENT);
    return true;
}

/* A mark that is none (persist/aof_mark.h) makes the position in the stream unknown. */
static bool append_bad_mark(struct check *check, const char *name)
{
    static const char line[] = "#STREAM: repaired\r\n";
    int fd = openat(check->dir_fd, name, O_WRONLY | O_APPEND | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, line, sizeof(line) - 1) == (ssize_t)sizeof(line) - 1 && fsync(fd) == 0;

    if (fd >= 0)
        close(fd);
    return good;
}

void repair_forget_stream(struct check *check)
{
    struct aof_manifest *manifest = &check->manifest;
    const struct aof_file *last = manifest->count > 0 ? &manifest->files[manifest->count - 1] : NULL;
    bool good = last != NULL && last->type == AOF_FILE_INCREMENT && last->valid_size == UINT64_MAX;

    if (!good)
        good = add_increment(check, aof_manifest_last_seq(manifest) + 1) && repair_save_manifest(check);
    if (!good || !append_bad_mark(check, manifest->files[manifest->count - 1].name))
        check_unrepaired(check, "the log can't be marked: replicas may continue without noticing what is left out");
}

/* Writes the manifest without the increments after `index`; then these are set aside. */
static void drop_later(struct check *check, int index, bool with_itself)
{
    struct aof_manifest *manifest = &check->manifest;
    struct aof_manifest dropped;
    uint64_t last = aof_manifest_last_seq(manifest);

    aof_manifest_init(&dropped);
    for (int i = manifest->count - 1; i > index || (with_itself && i == index); i--) {
        if (manifest->files[i].type != AOF_FILE_INCREMENT)
            continue;
        aof_manifest_add(&dropped, bytes_of_string(manifest->files[i].name), manifest->files[i].seq, AOF_FILE_HISTORY);
        aof_manifest_remove(manifest, i);
    }
    if (add_increment(check, last + 1) && repair_save_manifest(check)) {
        for (int i = dropped.count - 1; i >= 0; i--) {
            char aside[CHECK_PATH_SIZE];
            uint64_t size = size_of(check, dropped.files[i].name);

            snprintf(aside, sizeof(aside), "%s.%s", dropped.files[i].name, check->stamp);
            if (renameat(check->dir_fd, dropped.files[i].name, check->dir_fd, aside) == 0)
                check_repaired(check, "%s, which comes after what is lost, is not used any more: %llu bytes, kept as %s",
                    dropped.files[i].name, (unsigned long long)size, aside);
            else if (errno == ENOENT)
                check_repaired(check, "%s, which is missing, is not named by the manifest any more", dropped.files[i].name);
        }
        fsync(check->dir_fd);
    }
    aof_manifest_release(&dropped);
}

void repair_log(struct check *check, int index, enum trouble trouble, uint64_t where)
{
    struct aof_file *file = &check->manifest.files[index];
    bool more = false;
    uint64_t size = size_of(check, file->name);

    if (trouble == TROUBLE_MISSING) {
        drop_later(check, index, true);
        return;
    }
    for (int i = index + 1; i < check->manifest.count; i++)
        more = more || (check->manifest.files[i].type == AOF_FILE_INCREMENT && size_of(check, check->manifest.files[i].name) > 0);
    if (!save_tail(check, file->name, where))
        return;
    if (more || file->valid_size != UINT64_MAX) {
        file->valid_size = where;
        check_repaired(check, "%s counts up to offset %llu: %llu bytes are lost, kept as %s.%s", file->name, (unsigned long long)where,
            (unsigned long long)(size - where), file->name, check->stamp);
        drop_later(check, index, false);
        return;
    }
    if (cut_file(check, file->name, where))
        check_repaired(check, "%s is truncated to %llu bytes: %llu bytes are lost, kept as %s.%s", file->name, (unsigned long long)where,
            (unsigned long long)(size - where), file->name, check->stamp);
}

/* Takes a manifest that was written to its temporary name, if a crash prevented the rename. */
static bool take_temporary(struct check *check)
{
    char name[CHECK_PATH_SIZE];
    struct message message;

    snprintf(name, sizeof(name), "temp-%s.manifest", check->name);
    if (aof_manifest_load(&check->manifest, check->dir_fd, name, &message) != STATUS_OK)
        return false;
    for (int i = 0; i < check->manifest.count; i++) {
        if (check->manifest.files[i].type != AOF_FILE_HISTORY && faccessat(check->dir_fd, check->manifest.files[i].name, F_OK, 0) != 0) {
            aof_manifest_release(&check->manifest);
            return false;
        }
    }
    check_repaired(check, "the manifest is the one that was being written as %s", name);
    return true;
}

static int compare_files(const void *a, const void *b)
{
    const struct aof_file *first = a, *second = b;

    if (first->type != second->type)
        return first->type == AOF_FILE_BASE ? -1 : 1;
    return first->seq < second->seq ? -1 : first->seq > second->seq;
}

/* The number in "<name>.<number>.incr.aof", or 0. */
static uint64_t increment_number(const struct check *check, const char *name)
{
    size_t size = strlen(check->name);
    char *end;
    uint64_t number;

    if (strncmp(name, check->name, size) != 0 || name[size] != '.' || name[size + 1] < '0' || name[size + 1] > '9')
        return 0;
    number = strtoull(name + size + 1, &end, 10);
    return strcmp(end, ".incr.aof") == 0 ? number : 0;
}

/* Takes the files if they can form a log in only one way: a base and one increment (with a checkpoint that was not committed there are two
 * at least), or no base and increments from the first one on without a gap. */
static bool take_files(struct check *check)
{
    struct aof_manifest *manifest = &check->manifest;
    DIR *list;
    struct dirent *entry;
    int fd = openat(check->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), bases = 0;
    bool one;

    aof_manifest_init(manifest);
    list = fd >= 0 ? fdopendir(fd) : NULL;
    while (list != NULL && (entry = readdir(list)) != NULL) {
        const char *name = entry->d_name;
        uint64_t number = increment_number(check, name);

        if (strstr(name, ".bad-") != NULL)
            continue;
        if (number > 0)
            aof_manifest_add(manifest, bytes_of_string(name), number, AOF_FILE_INCREMENT);
        else if (strncmp(name, check->name, strlen(check->name)) == 0 && strstr(name, ".base.") != NULL && ++bases > 0)
            aof_manifest_add(manifest, bytes_of_string(name), 1, AOF_FILE_BASE);
    }
    if (list != NULL)
        closedir(list);
    if (manifest->count > 0)
        qsort(manifest->files, (size_t)manifest->count, sizeof(manifest->files[0]), compare_files);
    one = bases == 1 && manifest->count == 2;
    for (int i = 0; bases == 0 && i < manifest->count; i++)
        one = manifest->files[i].seq == (uint64_t)i + 1 && (i == 0 || one);
    if (one) {
        check_repaired(check, "a new manifest is written: these %d files can form a log in only one way", manifest->count);
        return true;
    }
    check_unrepaired(check, "the manifest: there are %d bases and %d increments, and it is not known which of them count", bases,
        manifest->count - bases);
    aof_manifest_release(manifest);
    return false;
}

bool repair_manifest(struct check *check)
{
    char old[CHECK_PATH_SIZE], aside[CHECK_PATH_SIZE + 64];

    if (!take_temporary(check) && !take_files(check))
        return false;
    snprintf(old, sizeof(old), "%s.manifest", check->name);
    snprintf(aside, sizeof(aside), "%s.%s", old, check->stamp);
    if (linkat(check->dir_fd, old, check->dir_fd, aside, 0) == 0)
        check_note(check, "the old manifest is kept as %s", aside);
    return repair_save_manifest(check);
}
