#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "base/message.h"
#include "store/store_body.h"

extern "C" {
#include "base/file.h"
}

using leveldb::Status;

static const char IMPORT_NAME[] = "import.tmp";         /* a directory, see store_clone */

static bool ends_with(const std::string &name, const std::string &end)
{
    return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

/* A file that never changes: a copy may be a hard link. */
static bool is_immutable(const std::string &name)
{
    return segment_is_file(name.c_str()) || key_run_is_file(name) || dictionary_is_file(name.c_str(), nullptr);
}

static bool is_of_store(const std::string &name)
{
    return is_immutable(name) || name == META_NAME || meta_is_of_leveldb(name);
}

bool store_is_table(const char *path)
{
    const char *slash = strrchr(path, '/');

    return is_immutable(slash != nullptr ? slash + 1 : path);
}

bool store_is_there(const char *dir)
{
    std::vector<std::string> names;

    return directory_names(dir, &names).ok() && std::any_of(names.begin(), names.end(), is_of_store);
}

/* ---- the lock ---- */

enum status store_lock(const struct disk *disk, const char *dir, int *lock)
{
    std::string path = std::string(dir) + "/LOCK";
    struct flock range = {};
    int fd = file_open(disk, AT_FDCWD, path.c_str(), O_RDWR | O_CREAT);

    *lock = -1;
    if (fd < 0)
        return status_of_errno(errno);
    /* A lock of the open file, not of the process, so that a second store in the same process fails, too. */
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    if (fcntl(fd, F_OFD_SETLK, &range) == 0) {
        *lock = fd;
        return STATUS_OK;
    }
    int error = errno;
    disk->close(disk->context, fd);
    errno = error;
    return error == EACCES || error == EAGAIN ? STATUS_LOCKED : status_of_errno(error);
}

bool store_is_locked(const char *dir)
{
    struct flock lock = {};
    int fd = open((std::string(dir) + "/LOCK").c_str(), O_RDWR | O_CLOEXEC);
    bool locked;

    if (fd < 0)
        return false;
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    locked = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    close(fd);
    return locked;
}

/* ---- images ---- */

/* A hard link, or a copy if that fails (the file system has no links, or the file has too many). */
static Status link_or_copy(struct store_env *env, const std::string &from, const std::string &to)
{
    if (env->disk->link(env->disk->context, AT_FDCWD, from.c_str(), to.c_str()) == 0)
        return Status::OK();
    return file_copy(env, from, to);
}

static bool has_run(const key_run_list &runs, const std::string &name)
{
    return std::any_of(runs.begin(), runs.end(), [&name](const auto &run) { return key_run_name(run->facts.number) == name; });
}

/* `runs`: of the key runs only these are linked; NULL: all that are there. */
static enum status link_files(struct store_env *env, const std::string &from, const std::string &to, const key_run_list *runs, struct message *message)
{
    std::vector<std::string> names;
    Status status = directory_names(from, &names);
    size_t linked_runs = 0;

    for (const std::string &name : names) {
        if (!status.ok() || !is_immutable(name) || (runs != nullptr && key_run_is_file(name) && !has_run(*runs, name)))
            continue;
        status = link_or_copy(env, from + "/" + name, to + "/" + name);
        linked_runs += key_run_is_file(name);
    }
    if (status.ok() && runs != nullptr && linked_runs != runs->size())
        status = Status::Corruption(from, "a key run is missing");
    if (!status.ok())
        message_set(message, "can't fill the image '%.100s': %s", to.c_str(), status.ToString().c_str());
    return status_of_leveldb(status);
}

static enum status sync_names(const struct disk *disk, const std::string &dir, struct message *message)
{
    enum status status = directory_sync(disk, dir.c_str());

    if (status != STATUS_OK)
        message_set(message, "can't sync '%.150s': %s", dir.c_str(), strerror(errno));
    return status;
}

/* Durably. */
static enum status make_directory(const struct disk *disk, const std::string &dir, struct message *message)
{
    enum status status;

    if (disk->mkdir(disk->context, AT_FDCWD, dir.c_str(), 0755) != 0) {
        message_set(message, "can't create '%.150s': %s", dir.c_str(), strerror(errno));
        return status_of_errno(errno);
    }
    status = directory_sync_parent(disk, dir.c_str());
    if (status == STATUS_OK)
        return STATUS_OK;
    message_set(message, "can't sync the directory of '%.150s': %s", dir.c_str(), strerror(errno));
    disk->rmdir(disk->context, AT_FDCWD, dir.c_str());
    return status;
}

/* Removes a store's files, and the directory if it has no other files. */
static Status directory_remove(struct store_env *env, const std::string &dir)
{
    std::vector<std::string> names;
    Status status = directory_names(dir, &names);
    bool is_shared = false;

    if (status.IsNotFound())
        return Status::OK();
    for (const std::string &name : names) {
        if (name == IMPORT_NAME)
            meta_remove_scratch(dir + "/" + name);
        else if (!is_of_store(name) && name != "LOCK" && !ends_with(name, ".dbtmp"))
            is_shared = true;
        else if (status.ok())
            status = file_remove(env, dir + "/" + name);
    }
    if (!status.ok() || is_shared)
        return status;
    (void)directory_sync(env->disk, dir.c_str());
    if (env->disk->rmdir(env->disk->context, AT_FDCWD, dir.c_str()) != 0 || directory_sync_parent(env->disk, dir.c_str()) != STATUS_OK)
        return disk_status(dir, errno);
    return status;
}

struct store_meta store_meta_of(const struct store *store, const key_run_list &runs)
{
    struct store_meta meta;

    meta.seed = store->seed;
    meta.by_slot = store->is_by_slot;
    meta.number = store->number.load();
    for (const auto &run : runs)
        meta.runs.push_back(run->facts);
    return meta;
}

/* The meta data last: without it, it is no store. */
static enum status fill_image(struct store *store, const std::string &dir, const key_run_list &runs, struct message *message)
{
    const struct disk *disk = store->env->disk;
    enum status status = link_files(store->env, store->dir, dir, &runs, message);

    if (status == STATUS_OK)
        status = meta_write(disk, dir, store_meta_of(store, runs), message);
    return status == STATUS_OK ? sync_names(disk, dir, message) : status;
}

enum status store_snapshot(struct store *store, const char *dir, struct message *message)
{
    std::shared_ptr<const key_run_list> runs;       /* while it is there, their files are */
    enum status status = store->is_writable.load() ? status_of_leveldb(store->runs->save(&runs)) : STATUS_CLOSED;

    message_set(message, "%s", "");
    if (status != STATUS_OK) {
        store->is_writable = false;
        message_set(message, "store '%.150s' %s", store->dir.c_str(), status == STATUS_CLOSED ? "is closed for writing" : "can't be written");
        return status;
    }
    segments_seal(store->segments);
    status = segments_sync(store->segments);
    if (status != STATUS_OK) {
        message_set(message, "the segments of store '%.150s' can't be synced", store->dir.c_str());
        return status;
    }
    status = make_directory(store->env->disk, dir, message);
    if (status != STATUS_OK)
        return status;
    status = fill_image(store, dir, *runs, message);
    if (status != STATUS_OK)
        (void)directory_remove(store->env, dir).ok();       /* the first failure is reported */
    return status;
}

/* The meta data of an image, which may be of an older version. */
static enum status clone_meta(struct store_env *env, const std::string &from, const std::string &to, struct message *message)
{
    struct store_meta meta;
    enum status status = meta_read(env->disk, from, &meta, message);

    if (status == STATUS_NOT_FOUND)
        status = meta_import(env, from, to + "/" + IMPORT_NAME, &meta, message);
    return status == STATUS_OK ? meta_write(env->disk, to, meta, message) : status;
}

enum status store_clone(const char *from_dir, const char *dir, struct store_env *env, struct message *message)
{
    std::unique_ptr<struct store_env> env_owned(env == nullptr ? store_env_create(disk_system()) : nullptr);
    struct store_env *used_env = env != nullptr ? env : env_owned.get();
    std::string from = from_dir, to = dir;
    enum status status = STATUS_OK;

    message_set(message, "%s", "");
    if (access((from + "/" + META_NAME).c_str(), F_OK) != 0 && access((from + "/CURRENT").c_str(), F_OK) != 0) {
        message_set(message, "there is no store in '%.150s'", from_dir);
        return STATUS_NOT_FOUND;
    }
    if (access(dir, F_OK) != 0 || store_is_there(dir))
        status = make_directory(used_env->disk, to, message);
    if (status != STATUS_OK)
        return status;
    status = link_files(used_env, from, to, nullptr, message);
    if (status == STATUS_OK)
        status = clone_meta(used_env, from, to, message);
    if (status == STATUS_OK)
        status = sync_names(used_env->disk, to, message);
    if (status != STATUS_OK)
        (void)directory_remove(used_env, to).ok();          /* the first failure is reported */
    return status;
}

enum status store_import(const char *dir, struct message *message)
{
    std::unique_ptr<struct store_env> env(store_env_create(disk_system()));
    struct store_meta meta;
    enum status status = meta_import(env.get(), dir, std::string(dir) + "/" + IMPORT_NAME, &meta, message);

    return status == STATUS_OK ? meta_write(env->disk, dir, meta, message) : status;
}

enum status store_remove(const char *dir, struct store_env *env)
{
    std::unique_ptr<struct store_env> env_owned(env == nullptr ? store_env_create(disk_system()) : nullptr);
    struct store_env *used_env = env != nullptr ? env : env_owned.get();
    enum status status;
    int lock;

    if (access(dir, F_OK) != 0)
        return STATUS_OK;
    status = store_lock(used_env->disk, dir, &lock);
    if (status != STATUS_OK)
        return status;
    status = status_of_leveldb(directory_remove(used_env, dir));
    used_env->disk->close(used_env->disk->context, lock);
    return status;
}
