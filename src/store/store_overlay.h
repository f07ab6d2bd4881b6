/* An Env that reads from the disk and writes to memory, so that a store can be read while its disk accepts no writes. LevelDB can't be
 * opened without writing: it writes the logs as tables, and a new MANIFEST. The overlay keeps these files in memory (about as many bytes as
 * the logs have), and only hides the files that LevelDB removes. It never changes the disk: a later opening finds the directory as it was.
 *
 * Background work is held until release_work. That is called when the store is about to be closed, so the work then ends at once.
 * Thread-safe. One overlay serves one opening of one store.
 */
#ifndef KELVIN_STORE_STORE_OVERLAY_H
#define KELVIN_STORE_STORE_OVERLAY_H

#include <leveldb/env.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

/* A file in memory: first one thread writes it, then any thread may read it. */
struct memory_file {
    std::mutex mutex;
    std::string bytes;      /* mutex */
};

struct store_overlay final : public leveldb::EnvWrapper {
    explicit store_overlay(leveldb::Env *disk);
    ~store_overlay() override;

    leveldb::Status NewSequentialFile(const std::string &path, leveldb::SequentialFile **file) override;
    leveldb::Status NewRandomAccessFile(const std::string &path, leveldb::RandomAccessFile **file) override;
    leveldb::Status NewWritableFile(const std::string &path, leveldb::WritableFile **file) override;
    leveldb::Status NewAppendableFile(const std::string &path, leveldb::WritableFile **file) override;
    bool FileExists(const std::string &path) override;
    leveldb::Status GetChildren(const std::string &directory, std::vector<std::string> *names) override;
    leveldb::Status RemoveFile(const std::string &path) override;
    leveldb::Status CreateDir(const std::string &path) override;
    leveldb::Status GetFileSize(const std::string &path, uint64_t *size) override;
    leveldb::Status RenameFile(const std::string &from, const std::string &to) override;
    void Schedule(void (*function)(void *), void *argument) override;

    void release_work();

private:
    std::shared_ptr<memory_file> find_file(const std::string &path, bool *is_hidden);

    std::mutex mutex;                                               /* guards all below */
    std::map<std::string, std::shared_ptr<memory_file>> files;      /* by path */
    std::set<std::string> hidden;                                   /* paths of removed files that may still be on the disk */
    std::vector<std::pair<void (*)(void *), void *>> work;
    bool work_waits = true;
};

#endif
