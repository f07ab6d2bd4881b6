#include "support/faulty_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

extern "C" {
#include "base/check.h"
#include "base/random.h"
}

namespace {

std::string directory_of(const std::string &path)
{
    size_t slash = path.rfind('/');

    return slash == std::string::npos ? "." : path.substr(0, slash);
}

constexpr size_t BLOCK = 4096;

enum class write_fault { NONE, ERROR, NO_SPACE, SHORT, LATE };

/* Decides what fails. */
class fault_dice {
public:
    void set(const struct disk_faults *wanted)
    {
        std::lock_guard<std::mutex> guard(mutex);

        faults = wanted != nullptr ? *wanted : disk_faults {};
        only = faults.only != nullptr ? faults.only : "";
        faults.only = nullptr;
        random_init(&random, faults.seed);
        reads_most = 0;
        on.store(wanted != nullptr, std::memory_order_release);
    }

    write_fault on_write(const std::string &path)
    {
        std::lock_guard<std::mutex> guard(mutex);

        if (!concerns(path))
            return write_fault::NONE;
        if (roll(faults.write_error))
            return write_fault::ERROR;
        if (roll(faults.write_no_space))
            return write_fault::NO_SPACE;
        if (roll(faults.write_short))
            return write_fault::SHORT;
        return roll(faults.write_late) ? write_fault::LATE : write_fault::NONE;
    }

    bool sync_fails(const std::string &path)
    {
        std::lock_guard<std::mutex> guard(mutex);

        return concerns(path) && roll(faults.sync_error);
    }

    /* 0: it does not. */
    int write_back_fails(const std::string &path)
    {
        std::lock_guard<std::mutex> guard(mutex);

        return concerns(path) && roll(faults.write_back_error) ? faults.write_back_errno : 0;
    }

    bool unlink_fails(const std::string &path)
    {
        std::lock_guard<std::mutex> guard(mutex);

        return concerns(path) && roll(faults.unlink_error);
    }

    bool open_fails(const std::string &path)
    {
        std::lock_guard<std::mutex> guard(mutex);

        return concerns(path) && roll(faults.open_error);
    }

    bool read_is_short(const std::string &path)
    {
        std::lock_guard<std::mutex> guard(mutex);

        return concerns(path) && roll(faults.read_short);
    }

    /* Sleeps, too. */
    bool read_fails(const std::string &path)
    {
        int delay_us;
        bool fails;
        {
            std::unique_lock<std::mutex> guard(mutex);
            if (!concerns(path))
                return false;
            read_count++;
            delay_us = faults.read_delay_us;
            fails = roll(faults.read_error);
            if (faults.reads_together > 0)
                await_others(guard);
        }
        if (delay_us > 0)
            usleep(static_cast<useconds_t>(delay_us));
        return fails;
    }

    /* May turn a bit. */
    void on_bytes(const std::string &path, char *bytes, size_t size)
    {
        std::lock_guard<std::mutex> guard(mutex);

        if (size > 0 && concerns(path) && roll(faults.read_corrupt))
            bytes[random_below(&random, size)] ^= static_cast<char>(1u << random_below(&random, 8));
    }

    uint64_t reads()
    {
        std::lock_guard<std::mutex> guard(mutex);

        return read_count;
    }

    int most_reads()
    {
        std::lock_guard<std::mutex> guard(mutex);

        return reads_most;
    }

    bool is_on() const { return on.load(std::memory_order_acquire); }

private:
    void await_others(std::unique_lock<std::mutex> &guard)
    {
        auto until = std::chrono::system_clock::now() + std::chrono::seconds(10);

        reads_now++;
        reads_most = std::max(reads_most, reads_now);
        read_began.notify_all();
        if (!read_began.wait_until(guard, until, [this] { return reads_most >= faults.reads_together; }))
            faults.reads_together = 0;          /* the test has failed; it need not take longer */
        reads_now--;
    }

    /* Both with the mutex. */
    bool roll(int per_mille) { return per_mille > 0 && random_below(&random, 1000) < static_cast<uint64_t>(per_mille); }
    bool concerns(const std::string &path) const { return is_on() && (only.empty() || path.find(only) != std::string::npos); }

    std::atomic<bool> on { false };
    std::mutex mutex;               /* guards all below */
    struct disk_faults faults {};
    uint64_t read_count = 0;
    int reads_now = 0, reads_most = 0;          /* while faults.reads_together is set */
    std::condition_variable read_began;
    std::string only;
    struct random random {};
};

/* What a power cut would take away: the changes of names that no sync of the directory made durable, and the ends of files that no sync
 * of the file did. Keeps books once track() was called. All functions that change the disk return 0, or -1 and errno: EIO once power is
 * cut. */
class power_book {
public:
    ~power_book();

    void track();
    void cut() { is_cut.store(true); }
    void apply(uint64_t seed);
    bool off() const { return is_cut.load(std::memory_order_relaxed); }

    int remove(const std::string &path);
    int rename(const std::string &from, const std::string &to);
    int link(const std::string &from, const std::string &to);
    void created(const std::string &path);                      /* a new, empty file */
    void synced(const std::string &path, int fd);               /* all of it is durable */
    void directory_synced(const std::string &directory);

private:
    enum class change_kind { CREATED, REMOVED, RENAMED };
    struct change {
        change_kind kind;
        std::string path;       /* created or removed, or the old name */
        std::string to;         /* the new name */
        std::string aside;      /* where the removed or replaced file is kept; empty: there was none */
    };

    bool is_booking() const { return is_tracking.load() && !off(); }
    std::string aside_name() { return aside_directory + "/" + std::to_string(aside_count++); }
    void move_size(const std::string &from, const std::string &to);
    void undo(const change &done);
    void forget_aside(const change &done);

    std::atomic<bool> is_tracking { false };
    std::atomic<bool> is_cut { false };
    std::mutex mutex;                                           /* guards all below */
    std::string aside_directory;                                /* removed and replaced files */
    std::map<std::string, uint64_t> synced_sizes;               /* of files that were created since tracking began */
    std::map<std::string, std::vector<change>> changes;         /* by directory, oldest first; since its last sync */
    uint64_t aside_count = 0;
};

int fail(int error)
{
    errno = error;
    return -1;
}

power_book::~power_book()
{
    for (const auto &directory : changes)
        for (const change &done : directory.second)
            forget_aside(done);
    if (!aside_directory.empty())
        CHECK(::rmdir(aside_directory.c_str()) == 0);
}

void power_book::track()
{
    const char *temporary = getenv("TMPDIR");
    std::string name = std::string(temporary != nullptr ? temporary : "/tmp") + "/kelvin-disk-XXXXXX";

    CHECK(!is_tracking.load());
    CHECK(mkdtemp(&name[0]) != nullptr);
    aside_directory = name;
    is_tracking.store(true);
}

void power_book::move_size(const std::string &from, const std::string &to)
{
    auto size = synced_sizes.find(from);

    synced_sizes.erase(to);
    if (size == synced_sizes.end())
        return;
    synced_sizes[to] = size->second;
    synced_sizes.erase(from);
}

void power_book::forget_aside(const change &done)
{
    if (done.aside.empty())
        return;
    ::unlink(done.aside.c_str());
    synced_sizes.erase(done.aside);
}

int power_book::remove(const std::string &path)
{
    if (off())
        return fail(EIO);
    if (!is_tracking.load())
        return ::unlink(path.c_str());

    std::lock_guard<std::mutex> guard(mutex);
    std::string aside = aside_name();
    if (::rename(path.c_str(), aside.c_str()) != 0)
        return -1;
    move_size(path, aside);
    changes[directory_of(path)].push_back({ change_kind::REMOVED, path, "", aside });
    return 0;
}

int power_book::rename(const std::string &from, const std::string &to)
{
    if (off())
        return fail(EIO);
    if (!is_tracking.load())
        return ::rename(from.c_str(), to.c_str());

    std::lock_guard<std::mutex> guard(mutex);
    std::string aside = aside_name();
    if (::link(to.c_str(), aside.c_str()) != 0) {
        if (errno != ENOENT)
            return -1;
        aside.clear();
    }
    if (::rename(from.c_str(), to.c_str()) != 0) {
        int error = errno;
        if (!aside.empty())
            ::unlink(aside.c_str());
        return fail(error);
    }
    if (!aside.empty())
        move_size(to, aside);
    move_size(from, to);
    changes[directory_of(to)].push_back({ change_kind::RENAMED, from, to, aside });
    return 0;
}

int power_book::link(const std::string &from, const std::string &to)
{
    if (off())
        return fail(EIO);
    if (::link(from.c_str(), to.c_str()) != 0)
        return -1;
    if (!is_tracking.load())
        return 0;

    /* The link shares its bytes with the file, and so what is durable of them. */
    std::lock_guard<std::mutex> guard(mutex);
    auto size = synced_sizes.find(from);
    if (size != synced_sizes.end())
        synced_sizes[to] = size->second;
    changes[directory_of(to)].push_back({ change_kind::CREATED, to, "", "" });
    return 0;
}

void power_book::created(const std::string &path)
{
    if (!is_tracking.load())
        return;
    std::lock_guard<std::mutex> guard(mutex);
    synced_sizes[path] = 0;
    changes[directory_of(path)].push_back({ change_kind::CREATED, path, "", "" });
}

void power_book::synced(const std::string &path, int fd)
{
    struct stat stat;

    if (!is_booking())
        return;
    CHECK(::fstat(fd, &stat) == 0);
    std::lock_guard<std::mutex> guard(mutex);
    auto file = synced_sizes.find(path);
    if (file != synced_sizes.end())
        file->second = static_cast<uint64_t>(stat.st_size);
}

void power_book::directory_synced(const std::string &directory)
{
    if (!is_booking())
        return;
    std::lock_guard<std::mutex> guard(mutex);
    for (const change &done : changes[directory])
        forget_aside(done);
    changes.erase(directory);
}

void power_book::undo(const change &done)
{
    switch (done.kind) {
    case change_kind::CREATED:
        ::unlink(done.path.c_str());
        synced_sizes.erase(done.path);
        break;
    case change_kind::RENAMED:
        CHECK(::rename(done.to.c_str(), done.path.c_str()) == 0);
        move_size(done.to, done.path);
        if (done.aside.empty())
            break;
        CHECK(::rename(done.aside.c_str(), done.to.c_str()) == 0);
        move_size(done.aside, done.to);
        break;
    case change_kind::REMOVED:
        CHECK(::rename(done.aside.c_str(), done.path.c_str()) == 0);
        move_size(done.aside, done.path);
        break;
    }
}

void power_book::apply(uint64_t seed)
{
    std::lock_guard<std::mutex> guard(mutex);
    struct random random;

    CHECK(is_tracking.load() && is_cut.load());
    random_init(&random, seed);
    for (auto &directory : changes) {
        std::vector<change> &list = directory.second;
        size_t kept = random_below(&random, list.size() + 1);

        for (size_t i = list.size(); i > kept; i--)
            undo(list[i - 1]);
        for (size_t i = 0; i < kept; i++)
            forget_aside(list[i]);
    }
    changes.clear();
    for (const auto &file : synced_sizes) {
        struct stat stat;

        if (::stat(file.first.c_str(), &stat) != 0 || static_cast<uint64_t>(stat.st_size) <= file.second)
            continue;
        uint64_t rest = static_cast<uint64_t>(stat.st_size) - file.second;
        CHECK(truncate(file.first.c_str(), static_cast<off_t>(file.second + random_below(&random, rest + 1))) == 0);
    }
    /* What survived is durable now. */
    for (auto &file : synced_sizes) {
        struct stat stat;

        if (::stat(file.first.c_str(), &stat) == 0)
            file.second = static_cast<uint64_t>(stat.st_size);
    }
    is_cut.store(false);
}

/* An open file. */
struct open_file {
    std::string path;
    bool next_fails = false;        /* the rest of a short write */
    bool is_stuck = false;          /* can't be cut back */
};

}  // namespace

struct faulty_disk {
    struct disk table;
    fault_dice dice;
    power_book power;
    std::mutex mutex;               /* guards `files` */
    std::map<int, open_file> files;

    open_file file_of(int fd)
    {
        std::lock_guard<std::mutex> guard(mutex);
        auto found = files.find(fd);

        CHECK(found != files.end());
        return found->second;
    }

    void mark(int fd, bool next_fails, bool is_stuck)
    {
        std::lock_guard<std::mutex> guard(mutex);

        files[fd].next_fails = next_fails;
        files[fd].is_stuck |= is_stuck;
    }
};

namespace {

struct faulty_disk *of(void *context) { return static_cast<struct faulty_disk *>(context); }

/* The lock of a store is opened O_RDWR: no fault concerns it. */
bool is_for_content(int flags)
{
    return (flags & O_DIRECTORY) == 0 && ((flags & O_ACCMODE) == O_RDONLY || (flags & O_EXCL) != 0);
}

int disk_open(void *context, int dir, const char *path, int flags, mode_t mode)
{
    struct faulty_disk *disk = of(context);
    int fd;

    CHECK(dir == AT_FDCWD);
    if ((flags & O_CREAT) != 0 && disk->power.off())
        return fail(EIO);
    if (is_for_content(flags) && disk->dice.open_fails(path))
        return fail(EIO);
    fd = ::open(path, flags, mode);
    if (fd < 0)
        return -1;
    {
        std::lock_guard<std::mutex> guard(disk->mutex);
        disk->files[fd] = open_file { path };
    }
    if ((flags & O_EXCL) != 0)
        disk->power.created(path);
    return fd;
}

int disk_close(void *context, int fd)
{
    struct faulty_disk *disk = of(context);
    std::lock_guard<std::mutex> guard(disk->mutex);

    disk->files.erase(fd);
    return ::close(fd);
}

ssize_t disk_read(void *context, int fd, void *data, size_t size)
{
    struct faulty_disk *disk = of(context);
    ssize_t got;

    if (!disk->dice.is_on())
        return ::read(fd, data, size);
    const std::string path = disk->file_of(fd).path;
    if (disk->dice.read_fails(path))
        return fail(EIO);
    got = ::read(fd, data, size);
    if (got > 0)
        disk->dice.on_bytes(path, static_cast<char *>(data), static_cast<size_t>(got));
    return got;
}

ssize_t disk_pread(void *context, int fd, void *data, size_t size, off_t offset)
{
    struct faulty_disk *disk = of(context);
    ssize_t got;

    if (!disk->dice.is_on())
        return ::pread(fd, data, size, offset);
    const std::string path = disk->file_of(fd).path;
    if (disk->dice.read_fails(path))
        return fail(EIO);
    if (size > 1 && disk->dice.read_is_short(path))
        size /= 2;
    got = ::pread(fd, data, size, offset);
    if (got > 0)
        disk->dice.on_bytes(path, static_cast<char *>(data), static_cast<size_t>(got));
    return got;
}

ssize_t disk_write(void *context, int fd, const void *data, size_t size)
{
    struct faulty_disk *disk = of(context);
    const open_file file = disk->file_of(fd);

    if (disk->power.off())
        return fail(EIO);
    if (file.next_fails) {
        disk->mark(fd, false, false);
        return fail(EIO);
    }
    switch (disk->dice.on_write(file.path)) {
    case write_fault::NONE:
        break;
    case write_fault::ERROR:
        return fail(EIO);
    case write_fault::NO_SPACE:
        return fail(ENOSPC);
    case write_fault::SHORT:
        if (size < 2)
            return fail(EIO);
        disk->mark(fd, true, false);
        size = size >= 2 * BLOCK ? size / 2 / BLOCK * BLOCK : size / 2;      /* as a disk does it that is written to with O_DIRECT */
        break;
    case write_fault::LATE:
        disk->mark(fd, false, true);
        CHECK(::write(fd, data, size) == static_cast<ssize_t>(size));
        return fail(EIO);
    }
    return ::write(fd, data, size);
}

int disk_ftruncate(void *context, int fd, off_t size)
{
    struct faulty_disk *disk = of(context);

    if (disk->power.off() || disk->file_of(fd).is_stuck)
        return fail(EIO);
    return ::ftruncate(fd, size);
}

int disk_fdatasync(void *context, int fd)
{
    struct faulty_disk *disk = of(context);
    const std::string path = disk->file_of(fd).path;

    if (disk->power.off() || disk->dice.sync_fails(path))
        return fail(EIO);
    disk->power.synced(path, fd);       /* what is durable is only noted: the real disk would make the tests wait */
    return 0;
}

int disk_fsync(void *context, int fd)
{
    struct faulty_disk *disk = of(context);
    const std::string path = disk->file_of(fd).path;
    struct stat stat;

    if (disk->power.off() || disk->dice.sync_fails(path))
        return fail(EIO);
    if (::fstat(fd, &stat) != 0)
        return -1;
    if (S_ISDIR(stat.st_mode))
        disk->power.directory_synced(path);
    else
        disk->power.synced(path, fd);
    return 0;
}

int disk_sync_file_range(void *context, int fd, off_t offset, off_t size, unsigned flags)
{
    struct faulty_disk *disk = of(context);
    int error = (flags & SYNC_FILE_RANGE_WAIT_AFTER) ? disk->dice.write_back_fails(disk->file_of(fd).path) : 0;

    if (disk->power.off())
        return fail(EIO);
    return error != 0 ? fail(error) : 0;
}

int disk_rename(void *context, int dir, const char *from, const char *to)
{
    CHECK(dir == AT_FDCWD);
    return of(context)->power.rename(from, to);
}

int disk_link(void *context, int dir, const char *from, const char *to)
{
    CHECK(dir == AT_FDCWD);
    return of(context)->power.link(from, to);
}

int disk_unlink(void *context, int dir, const char *path)
{
    CHECK(dir == AT_FDCWD);
    if (::access(path, F_OK) == 0 && of(context)->dice.unlink_fails(path))
        return fail(EIO);
    return of(context)->power.remove(path);
}

int disk_mkdir(void *context, int dir, const char *path, mode_t mode)
{
    CHECK(dir == AT_FDCWD);
    return of(context)->power.off() ? fail(EIO) : ::mkdir(path, mode);
}

int disk_rmdir(void *context, int dir, const char *path)
{
    CHECK(dir == AT_FDCWD);
    return of(context)->power.off() ? fail(EIO) : ::rmdir(path);
}

}  // namespace

struct faulty_disk *faulty_disk_create(void)
{
    struct faulty_disk *disk = new struct faulty_disk;

    disk->table = { disk, disk_open, disk_close, disk_read, disk_pread, disk_write, disk_ftruncate, disk_fdatasync, disk_fsync,
        disk_sync_file_range, disk_rename, disk_link, disk_unlink, disk_mkdir, disk_rmdir };
    return disk;
}

void faulty_disk_destroy(struct faulty_disk *disk)
{
    CHECK(disk->files.empty());
    delete disk;
}

const struct disk *faulty_disk_table(struct faulty_disk *disk)
{
    return &disk->table;
}

void faulty_disk_set(struct faulty_disk *disk, const struct disk_faults *faults)
{
    disk->dice.set(faults);
}

uint64_t faulty_disk_reads(struct faulty_disk *disk)
{
    return disk->dice.reads();
}

int faulty_disk_reads_together(struct faulty_disk *disk)
{
    return disk->dice.most_reads();
}

void faulty_disk_track_power(struct faulty_disk *disk)
{
    disk->power.track();
}

void faulty_disk_cut_power(struct faulty_disk *disk)
{
    disk->power.cut();
}

void faulty_disk_apply_power_cut(struct faulty_disk *disk, uint64_t seed)
{
    disk->power.apply(seed);
}
