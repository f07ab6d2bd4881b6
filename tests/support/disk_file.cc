#include "support/disk_file.h"

#include "store/store_disk.h"

struct disk_file {
    leveldb::WritableFile *file;
};

enum status disk_file_create(struct store_env *env, const char *path, struct disk_file **file)
{
    leveldb::WritableFile *created;
    enum status status = status_of_leveldb(env->NewWritableFile(path, &created));

    *file = status == STATUS_OK ? new disk_file { created } : nullptr;
    return status;
}

enum status disk_file_append(struct disk_file *file, const void *data, size_t size)
{
    return status_of_leveldb(file->file->Append(leveldb::Slice(static_cast<const char *>(data), size)));
}

enum status disk_file_flush(struct disk_file *file)
{
    return status_of_leveldb(file->file->Flush());
}

enum status disk_file_sync(struct disk_file *file)
{
    return status_of_leveldb(file->file->Sync());
}

enum status disk_file_close(struct disk_file *file)
{
    return status_of_leveldb(file->file->Close());
}

void disk_file_destroy(struct disk_file *file)
{
    delete file->file;
    delete file;
}

enum status disk_remove(struct store_env *env, const char *path)
{
    return status_of_leveldb(env->RemoveFile(path));
}

enum status disk_rename(struct store_env *env, const char *from, const char *to)
{
    return status_of_leveldb(env->RenameFile(from, to));
}

enum status disk_sync_directory(struct store_env *env, const char *path)
{
    return status_of_leveldb(env->sync_directory(path));
}

void disk_clear_broken(struct store_env *env, const char *directory)
{
    env->clear_broken(directory);
}

void disk_schedule(struct store_env *env, void (*function)(void *), void *argument)
{
    env->Schedule(function, argument);
}
