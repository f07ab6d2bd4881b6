#include "base/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

enum { COPY_SIZE = 1 << 20 };

static enum status fail_with_errno(struct message *message, const char *what, const char *path)
{
    int error = errno;

    message_set(message, "%s '%.150s': %.60s", what, path, strerror(error));
    return status_of_errno(error);
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* False: the two together are longer than any path. */
static bool join(char *path, const char *dir, const char *name)
{
    return snprintf(path, TREE_PATH_SIZE, "%s%s%s", dir, dir[0] != '\0' ? "/" : "", name) < TREE_PATH_SIZE;
}

struct walk {
    const char *root;
    tree_found *found;
    void *context;
    struct message *message;
};

static enum status walk_level(const struct walk *walk, const char *inner, int depth, bool *go_on)
{
    char path[TREE_PATH_SIZE], child[TREE_PATH_SIZE];
    enum status status = STATUS_OK;
    struct dirent *entry;
    struct stat info;
    DIR *list;

    if (!join(path, walk->root, inner))
        return STATUS_INVALID;
    list = opendir(path);
    if (list == NULL)
        return fail_with_errno(walk->message, "can't list", path);
    while (status == STATUS_OK && *go_on && (entry = readdir(list)) != NULL) {
        if (is_dots(entry->d_name))
            continue;
        if (!join(child, inner, entry->d_name) || !join(path, walk->root, child) || lstat(path, &info) != 0)
            status = fail_with_errno(walk->message, "can't look at", child);
        else if (S_ISREG(info.st_mode))
            *go_on = walk->found(walk->context, child, &info);
        else if (S_ISDIR(info.st_mode) && depth > 0)
            status = walk_level(walk, child, depth - 1, go_on);
        else {
            message_set(walk->message, "'%.150s' does not belong there: it is no file", path);
            status = STATUS_INVALID;
        }
    }
    closedir(list);
    return status;
}

enum status tree_walk(const char *dir, tree_found *found, void *context, struct message *message)
{
    struct walk walk = { dir, found, context, message };
    bool go_on = true;

    return walk_level(&walk, "", TREE_DEPTH, &go_on);
}

enum status tree_sync(const char *dir, struct message *message)
{
    return directory_sync(disk_system(), dir) == STATUS_OK ? STATUS_OK : fail_with_errno(message, "can't sync", dir);
}

enum status tree_write_file(const char *path, struct bytes data, struct message *message)
{
    return file_create(disk_system(), AT_FDCWD, path, data) == STATUS_OK ? STATUS_OK : fail_with_errno(message, "can't write", path);
}

static enum status copy_bytes(int source, int target, const char *from, const char *to, const _Atomic bool *stop, struct message *message)
{
    char *block = mem_alloc(COPY_SIZE);
    enum status status = STATUS_OK;

    while (status == STATUS_OK) {
        ssize_t got = file_read(disk_system(), source, block, COPY_SIZE);

        if (got == 0)
            break;
        if (got < 0)
            status = fail_with_errno(message, "can't read", from);
        else if (file_write_all(disk_system(), target, bytes_of(block, (size_t)got)) != STATUS_OK)
            status = fail_with_errno(message, "can't write", to);
        if (status == STATUS_OK && stop != NULL && *stop) {
            message_set(message, "the server stops");
            status = STATUS_CLOSED;
        }
    }
    mem_free(block);
    return status;
}

enum status tree_copy_file(const char *from, const char *to, const _Atomic bool *stop, struct message *message)
{
    int source = file_open(disk_system(), AT_FDCWD, from, O_RDONLY | O_NOFOLLOW), target = -1;
    enum status status;

    if (source < 0)
        return fail_with_errno(message, "can't open", from);
    target = file_open(disk_system(), AT_FDCWD, to, O_WRONLY | O_CREAT | O_EXCL);
    if (target < 0) {
        status = fail_with_errno(message, "can't create", to);
        close(source);
        return status;
    }
    status = copy_bytes(source, target, from, to, stop, message);
    close(source);
    if (status == STATUS_OK && fsync(target) != 0)
        status = fail_with_errno(message, "can't sync", to);
    if (close(target) != 0 && status == STATUS_OK)
        status = fail_with_errno(message, "can't close", to);
    if (status != STATUS_OK)
        unlink(to);
    return status;
}

struct clone {
    tree_may_link *may_link;
    const _Atomic bool *stop;
    struct tree_totals *totals;
    struct message *message;
};

static enum status clone_file(const struct clone *clone, const char *from, const char *to, const struct stat *info)
{
    struct tree_totals *totals = clone->totals;
    enum status status = STATUS_OK;

    if (!clone->may_link(from) || link(from, to) != 0) {
        totals->copied_bytes += (uint64_t)info->st_size;
        status = tree_copy_file(from, to, clone->stop, clone->message);
    }
    totals->files++;
    totals->bytes += (uint64_t)info->st_size;
    if (totals->progress != NULL)
        totals->progress(totals->progress_context, totals->bytes);
    return status;
}

static enum status clone_level(const struct clone *clone, const char *from, const char *to, int depth)
{
    char source[TREE_PATH_SIZE], target[TREE_PATH_SIZE];
    enum status status = STATUS_OK;
    struct dirent *entry;
    struct stat info;
    DIR *list = opendir(from);

    if (list == NULL)
        return fail_with_errno(clone->message, "can't list", from);
    if (mkdir(to, 0755) != 0) {
        status = fail_with_errno(clone->message, "can't create", to);
        closedir(list);
        return status;
    }
    while (status == STATUS_OK && (entry = readdir(list)) != NULL) {
        if (is_dots(entry->d_name))
            continue;
        if (!join(source, from, entry->d_name) || !join(target, to, entry->d_name) || lstat(source, &info) != 0)
            status = fail_with_errno(clone->message, "can't look at", entry->d_name);
        else if (S_ISREG(info.st_mode))
            status = clone_file(clone, source, target, &info);
        else if (S_ISDIR(info.st_mode) && depth > 0)
            status = clone_level(clone, source, target, depth - 1);
        else {
            message_set(clone->message, "'%.150s' does not belong there: it is no file", source);
            status = STATUS_INVALID;
        }
    }
    closedir(list);
    return status == STATUS_OK ? tree_sync(to, clone->message) : status;
}

enum status tree_clone(const char *from, const char *to, tree_may_link *may_link, const _Atomic bool *stop, struct tree_totals *totals,
    struct message *message)
{
    struct clone clone = { may_link, stop, totals, message };
    enum status status;

    if (access(to, F_OK) == 0) {
        message_set(message, "'%.150s' is there already", to);
        return STATUS_INVALID;
    }
    status = clone_level(&clone, from, to, TREE_DEPTH);
    if (status != STATUS_OK)
        tree_remove(to);
    return status;
}

static void remove_level(const char *dir, int depth)
{
    DIR *list = opendir(dir);
    struct dirent *entry;

    while (list != NULL && (entry = readdir(list)) != NULL) {
        char inner[TREE_PATH_SIZE];

        if (is_dots(entry->d_name) || !join(inner, dir, entry->d_name))
            continue;
        if (unlink(inner) != 0 && depth > 0)
            remove_level(inner, depth - 1);
    }
    if (list != NULL)
        closedir(list);
    rmdir(dir);
}

void tree_remove(const char *dir)
{
    if (unlink(dir) != 0)
        remove_level(dir, TREE_DEPTH);
}

bool tree_is_one_mount(const char *one, const char *other)
{
    struct statx first, second;

    if (statx(AT_FDCWD, one, 0, STATX_MNT_ID, &first) != 0 || statx(AT_FDCWD, other, 0, STATX_MNT_ID, &second) != 0)
        return true;
    if (first.stx_dev_major != second.stx_dev_major || first.stx_dev_minor != second.stx_dev_minor)
        return false;
    return (first.stx_mask & second.stx_mask & STATX_MNT_ID) == 0 || first.stx_mnt_id == second.stx_mnt_id;
}

bool tree_has_links(const char *dir)
{
    char path[TREE_PATH_SIZE], other[TREE_PATH_SIZE], name[32];
    bool has_links;
    int fd;

    snprintf(name, sizeof(name), "temp-%d.links", (int)getpid());
    if (!join(path, dir, name) || snprintf(other, sizeof(other), "%s.2", path) >= TREE_PATH_SIZE)
        return true;
    fd = file_open(disk_system(), AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC);
    if (fd < 0)
        return true;
    close(fd);
    has_links = link(path, other) == 0 || (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EMLINK);
    unlink(other);
    unlink(path);
    return has_links;
}
