/* The C++ side of store_env.h: the background thread, the files that LevelDB's tables are read from and written to, and the conversion of errno to
 * LevelDB's statuses and back. For the store's files only.
 *
 * Files are read with pread, never with mmap, which would count as RSS. A file with a failed or short write, or whose sync failed, accepts no
 * more writes: after a failed fsync the kernel may mark pages as clean that are not on the disk, so a later success would prove nothing.
 */
#ifndef KELVIN_STORE_STORE_DISK_H
#define KELVIN_STORE_STORE_DISK_H

#include <leveldb/env.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "store/store_env.h"

extern "C" {
#include "base/disk.h"
#include "base/status.h"
#include "base/thread.h"
}

/* A leveldb::Status has a text, but no number: disk_status appends "errno N: meaning" to it, and status_of_leveldb parses that. */
leveldb::Status disk_status(const std::string &path, int error);
enum status status_of_leveldb(const leveldb::Status &status);

struct disk_counters {
    std::atomic<uint64_t> reads { 0 }, read_bytes { 0 }, writes { 0 }, written_bytes { 0 }, syncs { 0 };
};

struct store_env {
    explicit store_env(const struct disk *its_disk);
    ~store_env();                                           /* does all work that is scheduled first */

    int start(struct meter *meter);                         /* see store_env_start. Before any work is scheduled */
    void schedule(void (*function)(void *), void *argument);    /* for the thread, which runs */
    void wait_for_work();                                   /* until all that is scheduled is done; not by the thread itself */

    const struct disk *const disk;
    disk_counters counters;

private:
    struct work_item {
        void (*function)(void *);
        void *argument;
    };

    static void compact_main(void *env);
    void run_work();

    std::mutex mutex;                                       /* guards all below */
    std::condition_variable work_there, work_done;
    std::deque<struct work_item> work;
    struct thread thread {};
    bool is_ending = false, is_working = false;
};

/* The caller's. A missing file is an I/O error: "not found" is a missing record. */
leveldb::Status file_open_random(struct store_env *env, const std::string &path, leveldb::RandomAccessFile **file);
/* A new file; one of that name, which may be a hard link of an image, is unlinked first. It has all its bytes after Sync(). */
leveldb::Status file_open_new(struct store_env *env, const std::string &path, leveldb::WritableFile **file);
leveldb::Status file_copy(struct store_env *env, const std::string &from, const std::string &to);       /* synced */
/* OK as well if there is none. */
leveldb::Status file_remove(struct store_env *env, const std::string &path);
leveldb::Status file_size(const std::string &path, uint64_t *size);
/* The names in a directory, but for `.` and `..`. */
leveldb::Status directory_names(const std::string &path, std::vector<std::string> *names);

#endif
