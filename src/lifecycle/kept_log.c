#include "lifecycle/kept_log.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/disk.h"
#include "base/file.h"
#include "persist/aof.h"

enum { NUMBER_MAX = 9999, NAME_ROOM = 32 };

static void pending_path(const char *dir, char path[TREE_PATH_SIZE])
{
    snprintf(path, TREE_PATH_SIZE, "%.*s.kept.incomplete", TREE_PATH_SIZE - NAME_ROOM, dir);
}

/* False: there are too many. */
static bool free_path(const char *dir, char path[TREE_PATH_SIZE])
{
    snprintf(path, TREE_PATH_SIZE, "%.*s.kept", TREE_PATH_SIZE - NAME_ROOM, dir);
    for (int number = 2; number <= NUMBER_MAX && access(path, F_OK) == 0; number++)
        snprintf(path, TREE_PATH_SIZE, "%.*s.kept.%d", TREE_PATH_SIZE - NAME_ROOM, dir, number);
    return access(path, F_OK) != 0;
}

/* A server that is started on the kept log may write manifest and id, and so may this one an increment that is still empty: it may be the one that
 * comes after the cut. */
static bool may_link(const char *path)
{
    const char *end = strrchr(path, '.');
    struct stat info;

    return (end == NULL || (strcmp(end, ".manifest") != 0 && strcmp(end, ".id") != 0)) && stat(path, &info) == 0 && info.st_size > 0;
}

bool kept_log_is_pending(const char *dir)
{
    char path[TREE_PATH_SIZE];

    pending_path(dir, path);
    return access(path, F_OK) == 0;
}

enum status kept_log_begin(const char *dir, struct message *message)
{
    struct tree_totals totals = { 0 };
    char path[TREE_PATH_SIZE], beside[TREE_PATH_SIZE];
    enum status status;

    pending_path(dir, path);
    memcpy(beside, path, sizeof(beside));
    if (!tree_is_one_mount(dir, dirname(beside))) {
        message_set(message, "'%.100s' is on another mount than what is beside it, where the kept log would be copied, not linked", dir);
        return STATUS_INVALID;
    }
    status = tree_clone(dir, path, may_link, NULL, &totals, message);
    if (status != STATUS_OK)
        return status;
    status = directory_sync_parent(disk_system(), path);
    if (status != STATUS_OK)
        message_set(message, "can't sync the directory of '%.100s': %.40s", path, strerror(errno));
    return status;
}

bool kept_log_settle(struct aof *aof, const char *dir, char kept[TREE_PATH_SIZE])
{
    char path[TREE_PATH_SIZE];
    enum status status;

    if (!kept_log_is_pending(dir))
        return false;
    pending_path(dir, path);
    status = aof_has_increments_of(aof, path);
    if (status == STATUS_OK)
        tree_remove(path);
    return status == STATUS_NOT_FOUND && free_path(dir, kept) && rename(path, kept) == 0 && directory_sync_parent(disk_system(), kept) == STATUS_OK;
}
