#include "store/store_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

extern "C" {
#include "base/file.h"
}

using leveldb::Slice;
using leveldb::Status;

namespace {

class reader final : public leveldb::SequentialFile {
public:
    reader(struct store_env *its_env, const std::string &its_path, int its_fd)
        : env(its_env), path(its_path), fd(its_fd)
    {
    }
    ~reader() override { env->disk->close(env->disk->context, fd); }

    Status Read(size_t size, Slice *result, char *scratch) override
    {
        ssize_t got = file_read(env->disk, fd, scratch, size);

        *result = Slice(scratch, 0);
        if (got < 0)
            return disk_status(path, errno);
        env->counters.reads.fetch_add(1, std::memory_order_relaxed);
        env->counters.read_bytes.fetch_add(static_cast<uint64_t>(got), std::memory_order_relaxed);
        *result = Slice(scratch, static_cast<size_t>(got));
        return Status::OK();
    }

    Status Skip(uint64_t size) override
    {
        return lseek(fd, static_cast<off_t>(size), SEEK_CUR) < 0 ? disk_status(path, errno) : Status::OK();
    }

private:
    struct store_env *env;
    std::string path;
    int fd;
};

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

enum class file_kind {
    LOG,            /* batches. LevelDB flushes it after each fragment, and deletes it at its end without a sync or a status */
    MANIFEST,       /* names files, so the directory is synced before it */
    OTHER,          /* tables, CURRENT: not read before they are synced */
};

file_kind kind_of(const std::string &path)
{
    std::string name = path_name(path);

    if (name.compare(0, 8, "MANIFEST") == 0)
        return file_kind::MANIFEST;
    if (file_is_log(path))
        return file_kind::LOG;
    return file_kind::OTHER;
}

class writer final : public leveldb::WritableFile {
public:
    writer(struct store_env *its_env, const std::string &its_path, int its_fd,
        std::shared_ptr<disk_directory> its_directory)
        : env(its_env), path(its_path), kind(kind_of(its_path)), directory(std::move(its_directory)), fd(its_fd)
    {
        if (kind == file_kind::LOG)
            watched = env->log_begun(path);
    }

    ~writer() override
    {
        if (fd < 0)
            return;
        /* LevelDB 1.23 deletes the writer of a full log without closing it, with its mutex held, so that all reads wait. If the end of the
         * log can't be written now, nothing may be written to the next log: its batches would survive a crash that earlier ones do not.
         * A destructor can't return an error to LevelDB, so the directory becomes broken. */
        bool was_fine = failed == 0;
        Status status = Close();
        if (was_fine && !status.ok() && kind == file_kind::LOG) {
            int fine = 0;
            directory->broken.compare_exchange_strong(fine, failed);
        }
    }

    Status Append(const Slice &data) override
    {
        const char *from = data.data();
        size_t size = data.size();

        if (failed != 0)
            return disk_status(path, failed);
        if (used + size > sizeof(buffer)) {
            Status status = write_out(buffer, used);
            if (!status.ok())
                return status;
            used = 0;
            if (size >= sizeof(buffer))
                return write_out(from, size);
        }
        memcpy(buffer + used, from, size);
        used += size;
        return Status::OK();
    }

    /* LevelDB calls this after each block of a table, too. A table is not read before Sync, so only logs and manifests are flushed. */
    Status Flush() override
    {
        return kind == file_kind::OTHER && failed == 0 ? Status::OK() : flush_buffer();
    }

    Status Sync() override
    {
        Status status = flush_buffer();
        int error;

        if (!status.ok())
            return status;
        if (kind == file_kind::MANIFEST) {
            status = env->sync_directory(path_directory(path));
            if (!status.ok()) {
                failed = EIO;
                return status;
            }
        }
        error = directory->broken.load();
        if (error == 0 && env->disk->fdatasync(env->disk->context, fd) != 0)
            error = errno;
        if (error != 0) {
            /* After a failed fsync the kernel may mark pages as clean that are not on the disk: a later success would prove nothing. */
            failed = error;
            return disk_status(path, error);
        }
        env->counters.syncs.fetch_add(1, std::memory_order_relaxed);
        return Status::OK();
    }

    Status Close() override
    {
        /* A watched log is part of a temporary store, which no later start reads: it needs no sync. store_reopen and store_snapshot, which
         * read it, compare it with what was written to it. */
        Status status = kind == file_kind::LOG && !watched ? Sync() : flush_buffer();

        if (fd >= 0) {
            if (watched)
                (void)env->disk->sync_file_range(env->disk->context, fd, static_cast<off_t>(begun), 0, SYNC_FILE_RANGE_WRITE);
            if (env->disk->close(env->disk->context, fd) != 0 && status.ok()) {
                failed = errno;
                status = disk_status(path, failed);
            }
            fd = -1;
            env->writing_ended(path);
        }
        return status;
    }

private:
    Status flush_buffer()
    {
        if (failed != 0)
            return disk_status(path, failed);
        Status status = write_out(buffer, used);
        used = 0;
        return status;
    }

    Status set_failed(int error)
    {
        failed = error;
        used = 0;
        return disk_status(path, error);
    }

    /* Writes all of it. On failure the file keeps its former end, and accepts no more writes. */
    Status write_out(const char *from, size_t size)
    {
        int error = directory->broken.load();

        if (size == 0 && error == 0)
            return Status::OK();
        if (error != 0)
            return set_failed(error);
        if (file_write_all(env->disk, fd, bytes_of(from, size)) != STATUS_OK) {
            error = errno;
            /* If this fails as well, the file ends with a part of a record. Nothing is written after it, so readers take it for the end. */
            env->disk->ftruncate(env->disk->context, fd, static_cast<off_t>(written));
            return set_failed(error);
        }
        if (kind == file_kind::LOG)
            env->log_written(path, written, from, size);
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
    file_kind kind;
    bool watched = false;       /* a log whose content the env has a checksum of */
    std::shared_ptr<disk_directory> directory;
    int fd;
    int failed = 0;             /* errno of the failure after which it accepts no more writes */
    uint64_t written = 0;       /* bytes in the file */
    uint64_t begun = 0;         /* of them, what the disk has been asked to write */
    static constexpr uint64_t PAGE = 4096;
    size_t used = 0;            /* of the buffer */
    char buffer[64 * 1024];
};

}  // namespace

bool file_is_log(const std::string &path)
{
    return path.size() > 4 && path.compare(path.size() - 4, 4, ".log") == 0;
}

leveldb::SequentialFile *file_reader(struct store_env *env, const std::string &path, int fd)
{
    return new reader(env, path, fd);
}

leveldb::RandomAccessFile *file_random_reader(struct store_env *env, const std::string &path, int fd)
{
    return new random_reader(env, path, fd);
}

leveldb::WritableFile *file_writer(struct store_env *env, const std::string &path, int fd,
    std::shared_ptr<disk_directory> directory)
{
    return new writer(env, path, fd, std::move(directory));
}
