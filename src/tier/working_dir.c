#include "tier/working_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/message.h"

/* The file that says that the directory is Kelvin's: only then may a damaged store be removed. It is created before anything else,
 * durably, and stays: a kill or a power cut at any later moment leaves a directory that is known to be Kelvin's. */
static void mark_path(const char *dir, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/KELVIN", dir);
}

static bool is_marked(const char *dir)
{
    char path[PATH_MAX];

    mark_path(dir, path);
    return access(path, F_OK) == 0;
}

static enum status mark(const char *dir, struct message *message)
{
    char path[PATH_MAX];
    enum status status;
    int fd;

    mark_path(dir, path);
    fd = file_open(disk_system(), AT_FDCWD, path, O_CREAT | O_WRONLY);
    status = fd < 0 ? status_of_errno(errno) : directory_sync(disk_system(), dir);
    if (status != STATUS_OK)
        message_set(message, "can't create '%.150s': %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return status;
}

static bool has_nothing(const char *dir)
{
    DIR *list = opendir(dir);
    struct dirent *entry;
    bool nothing = list != NULL;

    while (list != NULL && nothing && (entry = readdir(list)) != NULL)
        nothing = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (list != NULL)
        closedir(list);
    return nothing;
}

/* A directory that is created here, or is empty, gets the mark at once. Other problems with it are reported by store_open. */
static enum status adopt(const char *dir, struct message *message)
{
    int error = mkdir(dir, 0755) == 0 ? 0 : errno;

    if (error == 0 || (error == EEXIST && has_nothing(dir)))
        return mark(dir, message);
    if (error == EEXIST || access(dir, F_OK) == 0)
        return STATUS_OK;
    message_set(message, "can't create the directory '%.150s': %s", dir, strerror(error));
    return status_of_errno(error);
}

enum status working_dir_replace(const struct store_options *options, const char *image, struct store **store, struct message *message)
{
    char path[PATH_MAX];
    enum status status = store_remove(options->dir, options->env);

    *store = NULL;
    if (status == STATUS_LOCKED)
        message_set(message, "store '%.150s' is in use already", options->dir);
    else if (status != STATUS_OK)
        message_set(message, "can't remove the old store '%.150s': %s", options->dir, status_name(status));
    if (status != STATUS_OK)
        return status;
    if (image != NULL) {
        snprintf(path, sizeof(path), "%s/store", image);
        status = store_clone(path, options->dir, options->env, message);
        if (status != STATUS_OK)
            return status;
    }
    return store_open(options, store, message);
}

/* Files of a store without the mark may be another program's. */
static enum status check_mark(const char *dir, struct message *message)
{
    if (is_marked(dir))
        return STATUS_OK;
    if (!store_is_there(dir))
        return mark(dir, message);
    message_set(message, "'%.150s' has files of a store, but no file KELVIN: they may be another program's", dir);
    return STATUS_CORRUPT;
}

enum status working_dir_open(const struct store_options *options, const char *image, struct store **store, struct message *message)
{
    enum status status = adopt(options->dir, message);

    *store = NULL;
    if (status == STATUS_OK)
        status = check_mark(options->dir, message);
    return status == STATUS_OK ? working_dir_replace(options, image, store, message) : status;
}
