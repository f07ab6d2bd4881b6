#include "base/message.h"
#include "store/store.h"

#include <algorithm>

#include "store/store_body.h"

using leveldb::Slice;
using leveldb::Status;

namespace {

enum class file_kind { TABLE, LOG, MANIFEST, CURRENT, OTHER };

bool ends_with(const std::string &name, const std::string &end)
{
    return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

file_kind kind_of(const std::string &name)
{
    if (name == "CURRENT")
        return file_kind::CURRENT;
    if (name.compare(0, 9, "MANIFEST-") == 0)
        return file_kind::MANIFEST;
    if (ends_with(name, ".ldb") || ends_with(name, ".sst") || segment_is_file(name.c_str()) || key_run_is_file(name) ||
        dictionary_is_file(name.c_str(), nullptr))
        return file_kind::TABLE;
    return ends_with(name, ".log") ? file_kind::LOG : file_kind::OTHER;
}

Status file_copy(struct store_env *env, const std::string &from, const std::string &to)
{
    leveldb::SequentialFile *source;
    leveldb::WritableFile *target;
    std::string scratch(64 * 1024, '\0');
    Status status = env->NewSequentialFile(from, &source);
    Slice part;

    if (!status.ok())
        return status;
    std::unique_ptr<leveldb::SequentialFile> source_owned(source);
    status = env->NewWritableFile(to, &target);
    if (!status.ok())
        return status;
    std::unique_ptr<leveldb::WritableFile> target_owned(target);
    do {
        status = source->Read(scratch.size(), &part, scratch.data());
        if (status.ok())
            status = target->Append(part);
    } while (status.ok() && part.size() > 0);
    if (status.ok())
        status = target->Sync();
    Status closed = target->Close();
    return status.ok() ? closed : status;
}

/* Creates a hard link, or a copy if that fails (the file system has no links, or the file has too many). */
Status file_link(struct store_env *env, const std::string &from, const std::string &to)
{
    Status status = env->link_file(from, to);

    return status.ok() ? status : file_copy(env, from, to);
}

bool has_run(const key_run_list &runs, const std::string &name)
{
    return std::any_of(runs.begin(), runs.end(), [&name](const auto &run) { return key_run_name(run->facts.number) == name; });
}

/* `runs`: of the key runs only these are linked; NULL: all that are there. The caller holds removals. The MANIFEST is copied first: every table that it names is still there then, and so are the logs with the
 * batches that are not in its tables yet. LevelDB may append to it during the copy; the copy may then end with a part of a record, which
 * LevelDB ignores. */
Status image_fill(struct store_env *env, const std::string &from, const std::string &to, const key_run_list *runs)
{
    std::vector<std::string> names;
    Status status = env->GetChildren(from, &names);
    std::string manifest;
    size_t linked_runs = 0;

    if (!status.ok())
        return status;
    status = leveldb::ReadFileToString(env, from + "/CURRENT", &manifest);
    if (!status.ok())
        return status;
    if (kind_of(manifest) != file_kind::MANIFEST || manifest.back() != '\n')
        return Status::Corruption(from + "/CURRENT", "names no MANIFEST");
    manifest.pop_back();
    status = file_copy(env, from + "/" + manifest, to + "/" + manifest);
    if (!status.ok())
        return status;
    /* List the directory again: the MANIFEST may name tables that were finished after the first time. */
    status = env->GetChildren(from, &names);
    for (size_t i = 0; status.ok() && i < names.size(); i++) {
        const std::string source = from + "/" + names[i], target = to + "/" + names[i];

        switch (kind_of(names[i])) {
        case file_kind::TABLE:
            if (env->is_being_written(source) || (runs != nullptr && key_run_is_file(names[i]) && !has_run(*runs, names[i])))
                break;
            status = file_link(env, source, target);
            linked_runs += key_run_is_file(names[i]);
            break;
        case file_kind::LOG:
            status = file_copy(env, source, target);
            /* A watched log is not synced: the kernel may have failed to write it and dropped its pages, without an error for us. */
            if (status.ok() && !env->is_copy_of_log(target, source))
                status = Status::Corruption(source, "data that was written to it is lost");
            break;
        case file_kind::CURRENT:
            status = file_copy(env, source, target);
            break;
        case file_kind::MANIFEST:
        case file_kind::OTHER:
            break;
        }
    }
    if (status.ok() && runs != nullptr && linked_runs != runs->size())
        status = Status::Corruption(from, "a key run is missing");
    return status.ok() ? env->sync_directory(to) : status;
}

/* Returns whether LevelDB gives files such names. All other files are not part of the store. */
bool is_of_leveldb(const std::string &name)
{
    return kind_of(name) != file_kind::OTHER || name == "LOCK" || name == "LOG" || name == "LOG.old" || ends_with(name, ".dbtmp");
}

/* Removes LevelDB's files, and the directory if it has no other files. */
Status directory_remove(struct store_env *env, const std::string &dir)
{
    std::vector<std::string> names;
    Status status = env->GetChildren(dir, &names);
    bool shared = false;

    if (status.IsNotFound())
        return Status::OK();
    for (const std::string &name : names) {
        if (!is_of_leveldb(name))
            shared = true;
        else if (status.ok())
            status = env->RemoveFile(dir + "/" + name);
        if (!status.ok() && !env->FileExists(dir + "/" + name))
            status = Status::OK();          /* it was to be removed anyway */
    }
    return status.ok() && !shared ? env->RemoveDir(dir) : status;
}

bool has_store(struct store_env *env, const std::string &dir)
{
    std::vector<std::string> names;

    return !env->GetChildren(dir, &names).ok() || std::any_of(names.begin(), names.end(), is_of_leveldb);
}

enum class target { NEW, NEW_OR_WITHOUT_STORE };

enum status image_create(struct store_env *env, const std::string &from, const std::string &to, target kind, const key_run_list *runs,
    struct message *message)
{
    Status status;

    if (kind == target::NEW || !env->FileExists(to) || has_store(env, to))
        status = env->CreateDir(to);

    store_set_message(message, "");
    if (!status.ok()) {
        store_set_message(message, "can't create the image: " + status.ToString());
        return status_of_leveldb(status);
    }
    env->hold_removal();
    status = image_fill(env, from, to, runs);
    env->release_removal();
    if (!status.ok()) {
        enum status result = status_of_leveldb(status);

        store_set_message(message, "can't fill the image '" + to + "': " + status.ToString());
        env->clear_broken(to);
        (void)directory_remove(env, to).ok();   /* the first failure is reported */
        return result == STATUS_NOT_FOUND ? STATUS_CORRUPT : result;
    }
    return STATUS_OK;
}

}  // namespace

enum status store_snapshot(struct store *store, const char *dir, struct message *message)
{
    if (!store->is_writable.load()) {
        store_set_message(message, "store '" + store->dir + "' is closed for writing");
        return STATUS_CLOSED;
    }
    std::shared_ptr<const key_run_list> runs;
    std::string text;
    enum status written = status_of_leveldb(store->runs->save(&text, &runs));

    if (written != STATUS_OK)
        store->is_writable = false;
    else
        written = store_write_meta(store, text);
    if (written != STATUS_OK) {
        store_set_message(message, "store '" + store->dir + "' can't be written");
        return written;
    }
    segments_seal(store->segments);
    if (enum status status = segments_sync(store->segments); status != STATUS_OK) {
        store_set_message(message, "the segments of store '" + store->dir + "' can't be synced");
        return status;
    }
    return image_create(store->env, store->dir, dir, target::NEW, runs.get(), message);
}

enum status store_clone(const char *from_dir, const char *dir, struct store_env *env, struct message *message)
{
    std::unique_ptr<struct store_env> env_owned(env == nullptr ? store_env_create(disk_system()) : nullptr);
    struct store_env *used_env = env != nullptr ? env : env_owned.get();

    if (!used_env->FileExists(std::string(from_dir) + "/CURRENT")) {
        store_set_message(message, std::string("there is no store in '") + from_dir + "'");
        return STATUS_NOT_FOUND;
    }
    return image_create(used_env, from_dir, dir, target::NEW_OR_WITHOUT_STORE, nullptr, message);
}

bool store_is_table(const char *path)
{
    return kind_of(path_name(path)) == file_kind::TABLE;
}

enum status store_remove(const char *dir, struct store_env *env)
{
    std::unique_ptr<struct store_env> env_owned(env == nullptr ? store_env_create(disk_system()) : nullptr);
    struct store_env *used_env = env != nullptr ? env : env_owned.get();
    std::string lock_path = std::string(dir) + "/LOCK";
    leveldb::FileLock *lock;
    Status status;

    if (!used_env->FileExists(dir))
        return STATUS_OK;
    status = used_env->LockFile(lock_path, &lock);
    if (!status.ok())
        return status_of_leveldb(status);
    used_env->clear_broken(dir);
    status = directory_remove(used_env, dir);
    used_env->UnlockFile(lock);
    return status_of_leveldb(status);
}
