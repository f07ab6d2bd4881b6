#include "store/store_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

extern "C" {
#include "base/file.h"
}

using leveldb::Slice;
using leveldb::Status;

static const char errno_mark[] = "errno ";

Status disk_status(const std::string &path, int error)
{
    char text[128];

    return Status::IOError(path, errno_mark + std::to_string(error) + ": " + strerror_r(error, text, sizeof(text)));
}

enum status status_of_leveldb(const Status &status)
{
    if (status.ok())
        return STATUS_OK;
    if (status.IsNotFound())
        return STATUS_NOT_FOUND;
    if (status.IsCorruption())
        return STATUS_CORRUPT;
    if (status.IsIOError()) {
        std::string text = status.ToString();
        size_t mark = text.rfind(errno_mark);
        int error = mark == std::string::npos ? EIO : atoi(text.c_str() + mark + sizeof(errno_mark) - 1);

        /* Never STATUS_NOT_FOUND: a missing file is not a missing record. */
        return status_of_errno(error) == STATUS_NO_SPACE ? STATUS_NO_SPACE : STATUS_IO;
    }
    return STATUS_INVALID;
}

namespace {

class random_reader final : public leveldb::RandomAccessFile {
public:
    random_reader(struct store_env *its_env, const std::string &its_path, int its_fd)
        : env(its_env), path(its_path), fd(its_fd)
    {
    }
    ~random_reader() override { env->disk->close(env->disk->context, fd); }

    Status Read(uint64_t offset, size_t size, Slice *result, char *scratch) const override
    {
        ssize_t got = file_pread_all(env->disk, fd, scratch, size, offset);

        *result = Slice(scratch, 0);
        if (got < 0)
            return disk_status(path, errno);
        env->counters.reads.fetch_add(1, std::memory_order_relaxed);
        env->counters.read_bytes.fetch_add(static_cast<uint64_t>(got), std::memory_order_relaxed);
        *result = Slice(scratch, static_cast<size_t>(got));     /* less at the end of the file, which LevelDB detects */
        return Status::OK();
    }

private:
    struct store_env *env;
    std::string path;
    int fd;
};

class writer final : public leveldb::WritableFile {
public:
    writer(struct store_env *its_env, const std::string &its_path, int its_fd) : env(its_env), path(its_path), fd(its_fd) {}

    ~writer() override { (void)Close().ok(); }      /* the result counts only when Sync() was called before */

    Status Append(const Slice &data) override
    {
        const char *from = data.data();
        size_t size = data.size();

        if (failed != 0)
            return disk_status(path, failed);
        if (pending.size() + size > PENDING_MAX) {
            Status status = flush_pending();
            if (!status.ok())
                return status;
            if (size >= PENDING_MAX)
                return write_out(from, size);
        }
        pending.append(from, size);
        return Status::OK();
    }

    /* LevelDB calls this after each block. A table is not read before Sync. */
    Status Flush() override { return failed != 0 ? disk_status(path, failed) : Status::OK(); }

    Status Sync() override
    {
        Status status = flush_pending();

        if (!status.ok())
            return status;
        if (env->disk->fdatasync(env->disk->context, fd) != 0)
            return set_failed(errno);
        env->counters.syncs.fetch_add(1, std::memory_order_relaxed);
        return Status::OK();
    }

    Status Close() override
    {
        Status status;

        if (fd < 0)
            return status;
        status = flush_pending();
        if (env->disk->close(env->disk->context, fd) != 0 && status.ok())
            status = set_failed(errno);
        fd = -1;
        return status;
    }

private:
    Status flush_pending()
    {
        Status status = failed != 0 ? disk_status(path, failed) : write_out(pending.data(), pending.size());

        pending.clear();
        return status;
    }

    Status set_failed(int error)
    {
        failed = error;
        pending.clear();
        return disk_status(path, error);
    }

    Status write_out(const char *from, size_t size)
    {
        if (size == 0)
            return Status::OK();
        if (file_write_all(env->disk, fd, bytes_of(from, size)) != STATUS_OK)
            return set_failed(errno);
        written += size;
        begin_writeback();
        env->counters.writes.fetch_add(1, std::memory_order_relaxed);
        env->counters.written_bytes.fetch_add(size, std::memory_order_relaxed);
        return Status::OK();
    }

    /* The disk begins to write what was written: in a memory cgroup a thread that needs a page, and finds only dirty ones that are not being
     * written, waits for 100 ms. Whole pages, so that none is written twice. A hint, errors show at the sync. */
    void begin_writeback()
    {
        uint64_t end = written / PAGE * PAGE;

        if (end > begun)
            (void)env->disk->sync_file_range(env->disk->context, fd, static_cast<off_t>(begun), static_cast<off_t>(end - begun), SYNC_FILE_RANGE_WRITE);
        begun = end;
    }

    struct store_env *env;
    std::string path;
    int fd;
    int failed = 0;             /* errno of the failure after which it accepts no more writes */
    uint64_t written = 0;       /* bytes in the file */
    uint64_t begun = 0;         /* of them, what the disk has been asked to write */
    static constexpr uint64_t PAGE = 4096;
    static constexpr size_t PENDING_MAX = 64 * 1024;
    std::string pending;        /* not written yet */
};

}  // namespace

Status file_open_random(struct store_env *env, const std::string &path, leveldb::RandomAccessFile **file)
{
    int fd = file_open(env->disk, AT_FDCWD, path.c_str(), O_RDONLY);

    *file = nullptr;
    if (fd < 0)
        return disk_status(path, errno);
    *file = new random_reader(env, path, fd);
    return Status::OK();
}

Status file_remove(struct store_env *env, const std::string &path)
{
    if (env->disk->unlink(env->disk->context, AT_FDCWD, path.c_str()) == 0 || errno == ENOENT)
        return Status::OK();
    return disk_status(path, errno);
}

Status file_open_new(struct store_env *env, const std::string &path, leveldb::WritableFile **file)
{
    Status status = file_remove(env, path);
    int fd;

    *file = nullptr;
    if (!status.ok())
        return status;
    fd = file_open(env->disk, AT_FDCWD, path.c_str(), O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        return disk_status(path, errno);
    *file = new writer(env, path, fd);
    return Status::OK();
}

Status file_copy(struct store_env *env, const std::string &from, const std::string &to)
{
    std::string scratch(64 * 1024, '\0');
    leveldb::WritableFile *target = nullptr;
    int fd = file_open(env->disk, AT_FDCWD, from.c_str(), O_RDONLY);
    ssize_t part = 1;
    Status status;

    if (fd < 0)
        return disk_status(from, errno);
    status = file_open_new(env, to, &target);
    while (status.ok() && part > 0) {
        part = file_read(env->disk, fd, scratch.data(), scratch.size());
        status = part < 0 ? disk_status(from, errno) : target->Append(Slice(scratch.data(), static_cast<size_t>(part)));
    }
    if (status.ok())
        status = target->Sync();
    delete target;
    env->disk->close(env->disk->context, fd);
    return status;
}

Status file_size(const std::string &path, uint64_t *size)
{
    struct stat info;

    *size = 0;
    if (stat(path.c_str(), &info) != 0)
        return disk_status(path, errno);
    *size = static_cast<uint64_t>(info.st_size);
    return Status::OK();
}

Status directory_names(const std::string &path, std::vector<std::string> *names)
{
    struct dirent *entry;
    DIR *stream;
    int error;

    names->clear();
    stream = opendir(path.c_str());
    if (stream == nullptr)
        return errno == ENOENT ? Status::NotFound(path, "no such directory") : disk_status(path, errno);
    for (errno = 0; (entry = readdir(stream)) != nullptr; errno = 0)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            names->push_back(entry->d_name);
    error = errno;
    closedir(stream);
    return error != 0 ? disk_status(path, error) : Status::OK();
}
