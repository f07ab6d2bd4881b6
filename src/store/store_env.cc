#include "store/store_env.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "store/store_disk.h"
#include "store/store_file.h"

extern "C" {
#include "base/check.h"
#include "base/file.h"
}

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
        enum status result = status_of_errno(error);

        if (error == EAGAIN)        /* only LockFile sets it */
            return STATUS_LOCKED;
        /* Never STATUS_NOT_FOUND: a missing file is not a missing record. */
        return result == STATUS_NO_SPACE ? result : STATUS_IO;
    }
    return STATUS_INVALID;
}

std::string path_directory(const std::string &path)
{
    size_t slash = path.rfind('/');

    return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string path_name(const std::string &path)
{
    size_t slash = path.rfind('/');

    return slash == std::string::npos ? path : path.substr(slash + 1);
}

namespace {

enum { COMPACTION_NICE = 5 };

struct file_lock final : public leveldb::FileLock {
    int fd;
};

struct no_logger final : public leveldb::Logger {
    void Logv(const char *, std::va_list) override {}
};

}  // namespace

store_env::store_env(const struct disk *its_disk) : leveldb::EnvWrapper(leveldb::Env::Default()), disk(its_disk) {}

store_env::~store_env()
{
    {
        std::lock_guard<std::mutex> guard(work_mutex);
        is_ending = true;
        work_there.notify_all();
    }
    thread_join(&thread);
    CHECK(hold_count == 0);
    CHECK(being_written.empty());
}

Status store_env::NewSequentialFile(const std::string &path, leveldb::SequentialFile **file)
{
    int fd = file_open(disk, AT_FDCWD, path.c_str(), O_RDONLY);

    *file = nullptr;
    if (fd < 0)
        return errno == ENOENT ? Status::NotFound(path, "no such file") : disk_status(path, errno);
    *file = file_reader(this, path, fd);
    return Status::OK();
}

Status store_env::NewRandomAccessFile(const std::string &path, leveldb::RandomAccessFile **file)
{
    int fd = file_open(disk, AT_FDCWD, path.c_str(), O_RDONLY);

    *file = nullptr;
    /* Never NotFound: Get would return it, and there it means that there is no such record. */
    if (fd < 0)
        return disk_status(path, errno);
    *file = file_random_reader(this, path, fd);
    return Status::OK();
}

Status store_env::NewWritableFile(const std::string &path, leveldb::WritableFile **file)
{
    std::shared_ptr<disk_directory> parent = directory(path_directory(path));
    int error = parent->broken.load();
    int fd;

    *file = nullptr;
    if (error != 0)
        return disk_status(path, error);
    {
        std::lock_guard<std::mutex> guard(mutex);
        held.erase(path);
    }
    /* The old file may have a hard link in a snapshot: never truncate it. */
    if (disk->unlink(disk->context, AT_FDCWD, path.c_str()) != 0 && errno != ENOENT)
        return disk_status(path, errno);
    fd = file_open(disk, AT_FDCWD, path.c_str(), O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        return disk_status(path, errno);
    {
        std::lock_guard<std::mutex> guard(mutex);
        being_written.insert(path);
    }
    *file = file_writer(this, path, fd, std::move(parent));
    if (file_is_log(path))
        note_new_log(path);
    return Status::OK();
}

Status store_env::NewAppendableFile(const std::string &path, leveldb::WritableFile **file)
{
    *file = nullptr;
    return Status::NotSupported(path, "can't be appended to");
}

bool store_env::FileExists(const std::string &path)
{
    return access(path.c_str(), F_OK) == 0;
}

Status store_env::GetChildren(const std::string &directory_path, std::vector<std::string> *names)
{
    struct dirent *entry;
    DIR *stream;

    names->clear();
    stream = opendir(directory_path.c_str());
    if (stream == nullptr)
        return errno == ENOENT ? Status::NotFound(directory_path, "no such directory")
                               : disk_status(directory_path, errno);
    for (errno = 0; (entry = readdir(stream)) != nullptr; errno = 0) {
        std::string name = entry->d_name;
        if (name != "." && name != "..")
            names->push_back(name);
    }
    int error = errno;
    closedir(stream);
    return error != 0 ? disk_status(directory_path, error) : Status::OK();
}

Status store_env::RemoveFile(const std::string &path)
{
    int error = directory(path_directory(path))->broken.load();

    if (error != 0)
        return disk_status(path, error);
    std::lock_guard<std::mutex> guard(mutex);
    if (hold_count > 0) {
        held.insert(path);
        return Status::OK();
    }
    held.erase(path);
    logs.erase(path);
    return disk->unlink(disk->context, AT_FDCWD, path.c_str()) != 0 ? disk_status(path, errno) : Status::OK();
}

Status store_env::CreateDir(const std::string &path)
{
    Status status;

    if (disk->mkdir(disk->context, AT_FDCWD, path.c_str(), 0755) != 0)
        return disk_status(path, errno);
    status = sync_directory(path_directory(path));
    if (!status.ok())
        disk->rmdir(disk->context, AT_FDCWD, path.c_str());
    return status;
}

Status store_env::RemoveDir(const std::string &path)
{
    Status status = sync_directory(path);

    if (!status.ok())
        return status;
    if (disk->rmdir(disk->context, AT_FDCWD, path.c_str()) != 0)
        return disk_status(path, errno);
    {
        std::lock_guard<std::mutex> guard(mutex);
        directories.erase(path);
    }
    return sync_directory(path_directory(path));
}

Status store_env::GetFileSize(const std::string &path, uint64_t *size)
{
    struct stat stat;

    *size = 0;
    if (::stat(path.c_str(), &stat) != 0)
        return disk_status(path, errno);
    *size = static_cast<uint64_t>(stat.st_size);
    return Status::OK();
}

Status store_env::RenameFile(const std::string &from, const std::string &to)
{
    std::shared_ptr<disk_directory> parent = directory(path_directory(to));
    int error = parent->broken.load();

    if (error != 0)
        return disk_status(to, error);
    if (disk->rename(disk->context, AT_FDCWD, from.c_str(), to.c_str()) != 0)
        return disk_status(to, errno);
    /* LevelDB renames only CURRENT, and soon afterwards removes the files that the old CURRENT named, so the rename must be durable. If the
     * sync fails, don't return the error: LevelDB would remove the MANIFEST that CURRENT now names. The directory is broken instead. */
    Status status = sync_directory(path_directory(to));
    if (!status.ok()) {
        int fine = 0;
        parent->broken.compare_exchange_strong(fine, EIO);
    }
    return Status::OK();
}

Status store_env::LockFile(const std::string &path, leveldb::FileLock **lock)
{
    struct flock range = {};
    int fd;

    *lock = nullptr;
    fd = file_open(disk, AT_FDCWD, path.c_str(), O_RDWR | O_CREAT);
    if (fd < 0)
        return disk_status(path, errno);
    /* A lock of the open file, not of the process, so that a second store in the same process fails, too. */
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    if (fcntl(fd, F_OFD_SETLK, &range) != 0) {
        int error = errno == EACCES ? EAGAIN : errno;
        disk->close(disk->context, fd);
        return disk_status(path, error);
    }
    file_lock *taken = new file_lock;
    taken->fd = fd;
    *lock = taken;
    return Status::OK();
}

Status store_env::UnlockFile(leveldb::FileLock *lock)
{
    file_lock *taken = static_cast<file_lock *>(lock);

    disk->close(disk->context, taken->fd);
    delete taken;
    return Status::OK();
}

Status store_env::NewLogger(const std::string &, leveldb::Logger **logger)
{
    *logger = new no_logger;
    return Status::OK();
}

Status store_env::link_file(const std::string &from, const std::string &to)
{
    int error = directory(path_directory(to))->broken.load();

    if (error == 0 && disk->link(disk->context, AT_FDCWD, from.c_str(), to.c_str()) != 0)
        error = errno;
    if (error != 0)
        return disk_status(to, error);
    std::lock_guard<std::mutex> guard(mutex);
    held.erase(to);
    return Status::OK();
}

Status store_env::sync_directory(const std::string &path)
{
    if (directory_sync(disk, path.c_str()) != STATUS_OK)
        return disk_status(path, errno);
    counters.syncs.fetch_add(1, std::memory_order_relaxed);
    return Status::OK();
}

Status store_env::probe_space(const std::string &directory_path, uint64_t size)
{
    std::string path = directory_path + "/probe.tmp";
    leveldb::WritableFile *file;
    Status status = NewWritableFile(path, &file);

    if (!status.ok())
        return status;
    status = file->Append(std::string(4096, 'p'));
    if (status.ok())
        status = file->Sync();
    if (status.ok()) {
        int fd = file_open(disk, AT_FDCWD, path.c_str(), O_WRONLY);
        if (fd < 0 || (fallocate(fd, 0, 0, static_cast<off_t>(size)) != 0 && errno != EOPNOTSUPP))
            status = disk_status(path, errno);
        if (fd >= 0)
            disk->close(disk->context, fd);
    }
    Status closed = file->Close();
    delete file;
    disk->unlink(disk->context, AT_FDCWD, path.c_str());
    return status.ok() ? closed : status;
}

std::shared_ptr<disk_directory> store_env::directory(const std::string &path)
{
    std::lock_guard<std::mutex> guard(mutex);
    std::shared_ptr<disk_directory> &found = directories[path];

    if (found == nullptr)
        found = std::make_shared<disk_directory>();
    return found;
}

void store_env::clear_broken(const std::string &path)
{
    directory(path)->broken = 0;
}

Status store_env::directory_status(const std::string &path)
{
    int error = directory(path)->broken.load();

    return error != 0 ? disk_status(path, error) : Status::OK();
}

void store_env::watch_logs(const std::string &directory_path)
{
    std::lock_guard<std::mutex> guard(mutex);

    logs_watched.insert(directory_path);
}

bool store_env::log_begun(const std::string &path)
{
    std::lock_guard<std::mutex> guard(mutex);

    if (logs_watched.count(path_directory(path)) == 0)
        return false;
    logs[path] = log_content();
    return true;
}

void store_env::log_written(const std::string &path, uint64_t offset, const char *bytes, size_t size)
{
    std::lock_guard<std::mutex> guard(mutex);
    auto found = logs.find(path);

    if (found == logs.end())
        return;
    stream_sum_add(&found->second.sum, offset, bytes_of(bytes, size));
    found->second.size = offset + size;
}

/* Returns whether a file begins with `size` bytes of this checksum. It reads from the system's disk, not from a test's: what counts is what
 * is really in the file. */
static bool log_is_intact(const std::string &path, uint64_t size, const struct stream_sum &wanted)
{
    std::vector<char> block(256 * 1024);
    struct stream_sum sum = { 0 };
    int fd = file_open(disk_system(), AT_FDCWD, path.c_str(), O_RDONLY);
    uint64_t done = 0;

    while (fd >= 0 && done < size) {
        ssize_t part = file_read(disk_system(), fd, block.data(), std::min<uint64_t>(block.size(), size - done));
        if (part <= 0)
            break;
        stream_sum_add(&sum, done, bytes_of(block.data(), static_cast<size_t>(part)));
        done += static_cast<uint64_t>(part);
    }
    if (fd >= 0)
        close(fd);
    return fd >= 0 && done == size && stream_sum_equal(&sum, &wanted);
}

bool store_env::logs_are_intact(const std::string &directory_path)
{
    std::map<std::string, log_content> copy;

    {
        std::lock_guard<std::mutex> guard(mutex);
        copy = logs;
    }
    for (const auto &log : copy)
        if (path_directory(log.first) == directory_path && !log_is_intact(log.first, log.second.size, log.second.sum))
            return false;
    return true;
}

bool store_env::is_copy_of_log(const std::string &copy, const std::string &path)
{
    log_content wanted;

    {
        std::lock_guard<std::mutex> guard(mutex);
        auto found = logs.find(path);
        if (found == logs.end())
            return true;
        wanted = found->second;
    }
    return log_is_intact(copy, wanted.size, wanted.sum);
}

bool store_env::is_being_written(const std::string &path)
{
    std::lock_guard<std::mutex> guard(mutex);

    return being_written.count(path) > 0;
}

void store_env::writing_ended(const std::string &path)
{
    std::lock_guard<std::mutex> guard(mutex);
    auto found = being_written.find(path);

    CHECK(found != being_written.end());
    being_written.erase(found);
}

void store_env::hold_removal()
{
    std::lock_guard<std::mutex> guard(mutex);

    hold_count++;
}

void store_env::release_removal()
{
    std::lock_guard<std::mutex> guard(mutex);

    CHECK(hold_count > 0);
    if (--hold_count > 0)
        return;
    for (auto path = held.begin(); path != held.end();) {
        auto found = directories.find(path_directory(*path));
        bool is_broken = found != directories.end() && found->second->broken.load() != 0;

        logs.erase(*path);
        if (is_broken || disk->unlink(disk->context, AT_FDCWD, path->c_str()) == 0 || errno == ENOENT)
            path = held.erase(path);
        else
            ++path;                 /* by the next release */
    }
}

void store_env::hold_work()
{
    std::lock_guard<std::mutex> guard(work_mutex);

    work_waits = true;
}

void store_env::release_work()
{
    std::lock_guard<std::mutex> guard(work_mutex);

    work_waits = false;
    work_there.notify_one();
}

bool store_env::has_work()
{
    std::lock_guard<std::mutex> guard(work_mutex);

    return is_working || !work.empty();
}

/* Holds work_mutex. */
void store_env::release_held(void *db, struct gate *its_gate)
{
    if (its_gate->held == nullptr)
        return;
    work.push_back({ its_gate->held, db, false });
    its_gate->held = nullptr;
    work_there.notify_one();
}

void store_env::set_gate(void *db, const std::string &directory_path, std::function<bool()> is_due)
{
    std::lock_guard<std::mutex> guard(work_mutex);
    struct gate &entry = gates[db];

    entry.directory = directory_path;
    entry.is_due = std::move(is_due);
}

void store_env::open_gate(void *db)
{
    std::lock_guard<std::mutex> guard(work_mutex);
    auto found = gates.find(db);

    if (found == gates.end())
        return;
    found->second.open_count++;
    release_held(db, &found->second);
}

void store_env::close_gate(void *db)
{
    std::lock_guard<std::mutex> guard(work_mutex);
    auto found = gates.find(db);

    if (found == gates.end())
        return;
    CHECK(found->second.open_count > 0);
    found->second.open_count--;
}

void store_env::remove_gate(void *db)
{
    std::lock_guard<std::mutex> guard(work_mutex);
    auto found = gates.find(db);

    if (found == gates.end())
        return;
    CHECK(found->second.held == nullptr);
    gates.erase(found);
}

void store_env::note_new_log(const std::string &path)
{
    std::lock_guard<std::mutex> guard(work_mutex);

    for (auto &entry : gates) {
        if (entry.second.directory != path_directory(path))
            continue;
        entry.second.has_new_log = true;
        release_held(entry.first, &entry.second);
    }
}

/* Holds work_mutex. */
int store_env::start_thread(struct meter *meter)
{
    return thread.has_started ? 0 : thread_start(&thread, "kelvin-compact", meter, compact_main, this);
}

/* Not in Schedule, which could not report that there is no thread. */
int store_env::start(struct meter *meter)
{
    std::lock_guard<std::mutex> guard(work_mutex);

    return start_thread(meter);
}

void store_env::Schedule(void (*function)(void *), void *argument)
{
    std::lock_guard<std::mutex> guard(work_mutex);

    CHECK(thread.has_started || work_waits || is_working);
    work.push_back({ function, argument, false });
    work_there.notify_one();
}

void store_env::schedule_own(void (*function)(void *), void *argument)
{
    std::lock_guard<std::mutex> guard(work_mutex);

    CHECK(thread.has_started);
    work.push_back({ function, argument, true });
    work_there.notify_one();
}

void store_env::wait_for_work()
{
    std::unique_lock<std::mutex> lock(work_mutex);

    work_done.wait(lock, [this] { return !thread.has_started || work_waits || (work.empty() && !is_working); });
}

void store_env::compact_main(void *env)
{
    struct store_env *self = static_cast<struct store_env *>(env);

    /* Compactions can wait, clients can't: when there are too few cores, this thread gets a smaller share. On Linux each thread has its own
     * nice value. */
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), COMPACTION_NICE);
    self->run_work();
}

/* False: the work waits at its gate. Only work changes whether work is due, so it can wait until one of the other reasons comes. */
bool store_env::may_run(std::unique_lock<std::mutex> *lock, const struct work_item &item)
{
    void *db = item.argument;
    auto found = item.is_own ? gates.end() : gates.find(db);
    std::function<bool()> is_due;
    bool due = found == gates.end() || found->second.open_count > 0 || found->second.has_new_log;

    if (!due) {
        is_due = found->second.is_due;
        lock->unlock();             /* LevelDB calls Schedule with its mutex held, which `is_due` needs */
        due = is_due();
        lock->lock();
        found = gates.find(db);
    }
    if (found == gates.end())
        return true;
    if (due || found->second.open_count > 0 || found->second.has_new_log) {
        found->second.has_new_log = false;
        return true;
    }
    found->second.held = item.function;
    return false;
}

void store_env::run_next(std::unique_lock<std::mutex> *lock)
{
    struct work_item item = work.front();

    work.pop_front();
    if (may_run(lock, item)) {
        is_working = true;
        lock->unlock();
        item.function(item.argument);
        lock->lock();
        is_working = false;
    }
    work_done.notify_all();
}

void store_env::run_work()
{
    std::unique_lock<std::mutex> lock(work_mutex);

    for (;;) {
        work_there.wait(lock, [this] { return is_ending || (!work.empty() && !work_waits); });
        if (work.empty())
            return;
        run_next(&lock);
    }
}

void store_env::finish_work()
{
    std::unique_lock<std::mutex> lock(work_mutex);

    work_waits = false;
    if (work.empty() || start_thread(nullptr) == 0)
        return;
    while (!work.empty())
        run_next(&lock);
}

struct store_env *store_env_create(const struct disk *disk)
{
    return new store_env(disk);
}

void store_env_destroy(struct store_env *env)
{
    delete env;
}

int store_env_start(struct store_env *env, struct meter *meter)
{
    return env->start(meter);
}

void store_env_hold_removal(struct store_env *env)
{
    env->hold_removal();
}

void store_env_release_removal(struct store_env *env)
{
    env->release_removal();
}

struct store_env_stats store_env_stats(struct store_env *env)
{
    struct store_env_stats stats;

    stats.reads = env->counters.reads.load(std::memory_order_relaxed);
    stats.read_bytes = env->counters.read_bytes.load(std::memory_order_relaxed);
    stats.writes = env->counters.writes.load(std::memory_order_relaxed);
    stats.written_bytes = env->counters.written_bytes.load(std::memory_order_relaxed);
    stats.syncs = env->counters.syncs.load(std::memory_order_relaxed);
    return stats;
}
