#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/message.h"
#include "check.h"
#include "persist/aof_name.h"
#include "persist/aof_replay.h"
#include "persist/identity.h"
#include "persist/rdb_reader.h"

struct counting {
    struct check *check;
    uint64_t commands;
};

static void show_progress(void *context, uint64_t done, uint64_t total)
{
    struct check *check = ((struct counting *)context)->check;

    check->report.progress.total = total;
    check_progress(check, done);
}

static bool count_command(void *context, const struct bytes *args, int arg_count, uint64_t number)
{
    (void)args;
    (void)arg_count;
    ((struct counting *)context)->commands++;
    return true;
}

/* Checks one file of commands with the server's own reader. */
static enum trouble check_commands(struct check *check, const struct aof_file *file, bool may_be_torn, uint64_t *where, uint64_t *commands,
    uint64_t *size)
{
    struct aof_manifest one;
    struct counting counting = { .check = check };
    char path[CHECK_PATH_SIZE];
    struct message message = { "" };
    struct mapped mapped;
    enum status status;

    *where = 0;
    snprintf(path, sizeof(path), "%s/%s", check->dir, file->name);
    if (!mapped_open(path, &mapped, &message)) {
        check_damage(check, file->name, "named by the manifest, but it can't be read: %s", message.text);
        return TROUBLE_MISSING;
    }
    *size = mapped.bytes.size;
    aof_manifest_init(&one);
    aof_manifest_add(&one, bytes_of_string(file->name), 1, file->type);
    one.files[0].valid_size = file->valid_size;
    check_progress_begin(check, file->name, PROGRESS_BYTES, *size);
    status = aof_replay_files(&(struct aof_replay){ .dir_fd = check->dir_fd, .manifest = &one, .run = count_command, .context = &counting,
        .progress = show_progress, .damaged_at = where }, &message);
    aof_manifest_release(&one);
    *commands += counting.commands;
    if (status == STATUS_OK) {
        mapped_close(&mapped);
        return TROUBLE_NONE;
    }
    if (status == STATUS_CORRUPT && file->valid_size != UINT64_MAX && mapped.bytes.size < file->valid_size)
        *where = mapped.bytes.size;
    if (status == STATUS_TRUNCATED && may_be_torn)
        check_damage(check, file->name, "offset %llu: torn: the last %llu bytes are a part of a command. The server cuts them off "
            "(aof-load-truncated yes)",
            (unsigned long long)*where, (unsigned long long)(mapped.bytes.size - *where));
    else if (status == STATUS_TRUNCATED)
        check_damage(check, file->name, "offset %llu: it ends early, within a command, and other files follow it",
            (unsigned long long)*where);
    else
        check_damage(check, file->name, "offset %llu: %s", (unsigned long long)*where, message.text);
    mapped_close(&mapped);
    return status == STATUS_TRUNCATED ? TROUBLE_TORN : TROUBLE_BAD;
}

static bool is_played(const struct aof_file *file)
{
    return file->type == AOF_FILE_INCREMENT;
}

static uint64_t size_of(const struct check *check, const char *name)
{
    struct stat info;

    return fstatat(check->dir_fd, name, &info, 0) == 0 ? (uint64_t)info.st_size : 0;
}

static void check_increments(struct check *check)
{
    const struct aof_manifest *manifest = &check->manifest;
    uint64_t before = check->damages, commands = 0, bytes = 0, first_where = 0;
    enum trouble first_trouble = TROUBLE_NONE;
    int last = -1, first = -1, count = 0;

    for (int i = 0; i < manifest->count; i++) {
        if (is_played(&manifest->files[i]) && size_of(check, manifest->files[i].name) > 0)
            last = i;
    }
    for (int i = 0; i < manifest->count; i++) {
        uint64_t where, size = 0;
        enum trouble trouble;

        if (!is_played(&manifest->files[i]))
            continue;
        count++;
        trouble = check_commands(check, &manifest->files[i], i == last && manifest->files[i].valid_size == UINT64_MAX, &where, &commands,
            &size);
        bytes += size;
        if (trouble != TROUBLE_NONE && first < 0) {
            first = i;
            first_trouble = trouble;
            first_where = where;
        }
    }
    check_part(check, "increments", before, "%d files, %llu commands, %llu bytes", count, (unsigned long long)commands,
        (unsigned long long)bytes);
    if (first >= 0 && check->repair)
        repair_log(check, first, first_trouble, first_where);
}

static bool is_rdb(const struct check *check, const char *name)
{
    char head[5];
    int fd = openat(check->dir_fd, name, O_RDONLY | O_CLOEXEC);
    bool is = fd >= 0 && read(fd, head, sizeof(head)) == (ssize_t)sizeof(head) && rdb_is_one(bytes_of(head, sizeof(head)));

    if (fd >= 0)
        close(fd);
    return is;
}

static void check_base(struct check *check)
{
    char path[CHECK_PATH_SIZE];
    uint64_t before = check->damages, where, commands = 0, size = 0;

    for (int i = 0; i < check->manifest.count; i++) {
        const struct aof_file *file = &check->manifest.files[i];

        if (file->type != AOF_FILE_BASE)
            continue;
        if (aof_name_is_image(file->name)) {
            image_check(check, i);
            return;
        }
        snprintf(path, sizeof(path), "%s/%s", check->dir, file->name);
        if (is_rdb(check, file->name)) {
            rdb_check(check, path);
            return;
        }
        if (check_commands(check, file, false, &where, &commands, &size) != TROUBLE_NONE)
            check_unrepaired(check, "a base of commands");
        check_part(check, "base", before, "%s: %llu commands, %llu bytes", file->name, (unsigned long long)commands,
            (unsigned long long)size);
        return;
    }
    check_part(check, "base", before, "there is none: the log begins with an empty data set");
}

static bool is_named(const struct check *check, const char *name)
{
    for (int i = 0; i < check->manifest.count; i++) {
        if (strcmp(check->manifest.files[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Reports other files in the directory. A server removes images that its manifest does not name, and leaves all else alone. */
static void note_unnamed_files(struct check *check)
{
    int fd = openat(check->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    char manifest[CHECK_PATH_SIZE], identity[CHECK_PATH_SIZE];

    snprintf(manifest, sizeof(manifest), "%s.manifest", check->name);
    snprintf(identity, sizeof(identity), "%s.id", check->name);
    while (list != NULL && (entry = readdir(list)) != NULL) {
        const char *name = entry->d_name;

        if (name[0] == '.' || strcmp(name, manifest) == 0 || strcmp(name, identity) == 0 || is_named(check, name))
            continue;
        if (aof_name_is_image(name))
            check_note(check, "%s is an image that the manifest does not name: a server removes it when it starts", name);
        else
            check_note(check, "%s is not named by the manifest: it is ignored", name);
    }
    if (list != NULL)
        closedir(list);
    else if (fd >= 0)
        close(fd);
}

/* A server that finds no id gives the data set a new one. */
static void check_identity(struct check *check)
{
    uint64_t before = check->damages;
    struct message message = { "" };
    struct identity identity;
    enum status status = identity_read(check->dir, check->name, &identity, &message);
    char name[CHECK_PATH_SIZE], aside[CHECK_PATH_SIZE + 64];

    if (status == STATUS_OK || status == STATUS_NOT_FOUND)
        return;
    snprintf(name, sizeof(name), "%s.id", check->name);
    if (status == STATUS_VERSION) {
        check_newer(check, name);
        return;
    }
    snprintf(aside, sizeof(aside), "%s.%s", name, check->stamp);
    check_damage(check, name, "%s", message.text);
    check_part(check, "id", before, "which data set this is");
    if (check->repair && renameat(check->dir_fd, name, check->dir_fd, aside) == 0)
        check_repaired(check, "%s is kept as %s: the next start makes a new id. Nothing is lost", name, aside);
    else if (check->repair)
        check_unrepaired(check, "%s can't be renamed: %s", name, strerror(errno));
}

void logs_check(struct check *check)
{
    char manifest[CHECK_PATH_SIZE];
    struct message message = { "" };
    uint64_t before = check->damages;
    enum status status;

    snprintf(manifest, sizeof(manifest), "%s.manifest", check->name);
    status = aof_manifest_load(&check->manifest, check->dir_fd, manifest, &message);
    if (status != STATUS_OK) {
        check_damage(check, manifest, "%s", status == STATUS_NOT_FOUND ? "there is none: it is not known which files count" : message.text);
        check_part(check, "manifest", before, "%s/%s", check->dir, manifest);
        if (!check->repair || !repair_manifest(check))
            return;
    } else {
        check_part(check, "manifest", before, "%d files", check->manifest.count);
    }
    note_unnamed_files(check);
    check_identity(check);
    check_base(check);
    check_increments(check);
    if (check->left_out)
        repair_forget_stream(check);
}
