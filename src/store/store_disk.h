/* The C++ side of store_env.h: the leveldb::Env, and the conversion of errno to LevelDB's statuses and back. For the store's files only. */
#ifndef KELVIN_STORE_STORE_DISK_H
#define KELVIN_STORE_STORE_DISK_H

#include <leveldb/env.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "store/store_env.h"

extern "C" {
#include "base/disk.h"
#include "base/status.h"
#include "base/stream_sum.h"
#include "base/thread.h"
}

/* A leveldb::Status has a text, but no number: disk_status appends "errno N: meaning" to it, and status_of_leveldb parses that. */
leveldb::Status disk_status(const std::string &path, int error);
enum status status_of_leveldb(const leveldb::Status &status);

/* The directory of a path ("." if it has no '/'), and what is after its last '/'. */
std::string path_directory(const std::string &path);
std::string path_name(const std::string &path);

/* One directory, shared by the env and the directory's open files. */
struct disk_directory {
    std::atomic<int> broken { 0 };      /* errno of a failure that LevelDB did not notice; 0: not broken */
};

struct disk_counters {
    std::atomic<uint64_t> reads { 0 }, read_bytes { 0 }, writes { 0 }, written_bytes { 0 }, syncs { 0 };
};

struct store_env final : public leveldb::EnvWrapper {
    explicit store_env(const struct disk *its_disk);
    ~store_env() override;

    leveldb::Status NewSequentialFile(const std::string &path, leveldb::SequentialFile **file) override;
    leveldb::Status NewRandomAccessFile(const std::string &path, leveldb::RandomAccessFile **file) override;
    leveldb::Status NewWritableFile(const std::string &path, leveldb::WritableFile **file) override;
    leveldb::Status NewAppendableFile(const std::string &path, leveldb::WritableFile **file) override;
    bool FileExists(const std::string &path) override;
    leveldb::Status GetChildren(const std::string &directory, std::vector<std::string> *names) override;
    leveldb::Status RemoveFile(const std::string &path) override;
    leveldb::Status CreateDir(const std::string &path) override;
    leveldb::Status RemoveDir(const std::string &path) override;
    leveldb::Status GetFileSize(const std::string &path, uint64_t *size) override;
    leveldb::Status RenameFile(const std::string &from, const std::string &to) override;
    leveldb::Status LockFile(const std::string &path, leveldb::FileLock **lock) override;
    leveldb::Status UnlockFile(leveldb::FileLock *lock) override;
    void Schedule(void (*function)(void *), void *argument) override;
    leveldb::Status NewLogger(const std::string &path, leveldb::Logger **logger) override;

    leveldb::Status link_file(const std::string &from, const std::string &to);
    leveldb::Status sync_directory(const std::string &path);
    /* OK if a file of `size` bytes could be written and synced in the directory now. */
    leveldb::Status probe_space(const std::string &directory, uint64_t size);

    std::shared_ptr<disk_directory> directory(const std::string &path);
    void clear_broken(const std::string &path);                     /* the directory's store is being opened again */
    leveldb::Status directory_status(const std::string &path);      /* an error if the directory is broken */

    /* LevelDB's logs: a checksum of what was written to each, to check later that the file still has it. Watched logs are not synced when
     * they are closed. */
    void watch_logs(const std::string &directory);          /* watches the logs created in this directory from now on */
    bool log_begun(const std::string &path);                /* a log was created; returns whether it is watched */
    void log_written(const std::string &path, uint64_t offset, const char *bytes, size_t size);
    bool logs_are_intact(const std::string &directory);
    bool is_copy_of_log(const std::string &copy, const std::string &path);      /* true if the log is not watched */

    bool is_being_written(const std::string &path);
    void writing_ended(const std::string &path);

    /* Background work waits while it is held: for a store that is only read, and closed soon. */
    void hold_work();
    void release_work();
    void finish_work();                                     /* before a LevelDB is closed, which waits for its work: if it was held, and the system
                                                             * gives no thread, it is done here */
    bool has_work();                                        /* background work is running, or will run soon. Any thread */
    void schedule_own(void (*function)(void *), void *argument);    /* not LevelDB's work: no gate concerns it. The thread runs */
    void wait_for_work();                                   /* until all that is scheduled is done; not by the thread itself. At once without a thread */
    /* A gate for the background work of one LevelDB. It schedules compactions because of reads, too: they move nothing that has to be moved, and
     * write more than the reads have read. With a gate, work runs only if a log was begun (so there is a memtable to write), if it is
     * due, or while the gate is open. `is_due` is called on the background thread, without locks. `db` is known by its address. */
    void set_gate(void *db, const std::string &directory, std::function<bool()> is_due);
    void open_gate(void *db);                               /* nests; nothing if there is no gate */
    void close_gate(void *db);
    void remove_gate(void *db);                             /* after `db` was closed */
    int start(struct meter *meter);                         /* see store_env_start. Before any work is scheduled */
    void hold_removal();
    void release_removal();

    const struct disk *const disk;
    disk_counters counters;

private:
    struct work_item {
        void (*function)(void *);
        void *argument;                                     /* LevelDB's: a DB, which may have a gate */
        bool is_own;
    };

    int start_thread(struct meter *meter);
    static void compact_main(void *env);
    void run_work();
    void run_next(std::unique_lock<std::mutex> *lock);
    bool may_run(std::unique_lock<std::mutex> *lock, const struct work_item &item);
    void note_new_log(const std::string &path);

    struct log_content {
        uint64_t size = 0;
        struct stream_sum sum = { 0 };
    };

    std::mutex mutex;                                       /* guards the next six */
    std::set<std::string> logs_watched;
    std::map<std::string, log_content> logs;                /* watched logs written by this process and not removed yet */
    std::map<std::string, std::shared_ptr<disk_directory>> directories;
    std::multiset<std::string> being_written;
    std::set<std::string> held;                             /* to be removed when hold_count is 0; then, those that could not be */
    int hold_count = 0;

    std::mutex work_mutex;                                  /* guards all below */
    std::condition_variable work_there;
    std::deque<struct work_item> work;
    std::condition_variable work_done;
    struct thread thread {};
    bool is_ending = false, work_waits = false, is_working = false;

    struct gate {
        std::string directory;
        std::function<bool()> is_due;
        int open_count = 0;
        bool has_new_log = false;                           /* since its work last ran */
        void (*held)(void *) = nullptr;                     /* the work that waits at the gate: LevelDB schedules one at a time */
    };
    void release_held(void *db, struct gate *its_gate);
    std::map<void *, struct gate> gates;
};

#endif
