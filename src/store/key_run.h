/* Key runs (C++): immutable sorted sets of store keys, in memory or in a file. Together, the newest first, they say which keys have a record
 * (store/key_runs.h).
 *
 *   key   = incarnation u32 | hash u64 | key bytes          (big-endian)
 *   value = empty: the key has a record; 01: a tombstone, the record was deleted
 *   file  = one of LevelDB's tables (`<number>.run`), blocks of 8 KiB, not compressed, without a filter
 *   in memory: varint of (size of key * 2 + 1 for a tombstone) | key, one after the other
 *
 * A run may be read by any number of threads. Its iterators are leveldb::Iterators; they can't go backwards, and have to be destroyed before
 * the run.
 */
#ifndef KELVIN_STORE_KEY_RUN_H
#define KELVIN_STORE_KEY_RUN_H

#include <leveldb/iterator.h>
#include <leveldb/options.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/store_disk.h"

/* The facts of a run that are known without reading it. */
struct key_run_facts {
    uint64_t number = 0;                                        /* names the file; 0: in memory */
    unsigned level = 0;                                         /* how often its keys were merged, in memory or on disk */
    uint64_t entries = 0, tombstones = 0;                       /* tombstones are entries, too */
    uint64_t bytes = 0;
    std::vector<std::pair<uint32_t, uint64_t>> incarnations;    /* entries of each, ascending */

    void note_key(const leveldb::Slice &key, bool is_tombstone);   /* in the order of keys */
    /* Takes level and entries from the other facts, which were read. False: these facts are of no run. */
    bool complete();
};

class key_run {
public:
    virtual ~key_run() = default;
    virtual leveldb::Iterator *scan(bool fills_cache) const = 0;    /* the caller's */
    virtual void set_obsolete() const {}                            /* its file is removed when no list and no reader has the run any more */
    bool is_in_memory() const { return facts.number == 0; }

    struct key_run_facts facts;
};

/* Takes keys in ascending order, each once. */
class key_run_builder {
public:
    virtual ~key_run_builder() = default;
    virtual leveldb::Status add(const leveldb::Slice &key, bool is_tombstone) = 0;
    /* The run; null if nothing was added, or on an error. The builder can't be used any more. */
    virtual leveldb::Status finish(std::shared_ptr<const key_run> *run) = 0;
};

extern const leveldb::Slice KEY_RUN_TOMBSTONE;      /* the value of one */

/* The files of a store's runs; shared with the runs. */
struct key_run_files {
    key_run_files(struct store_env *its_env, std::string its_dir, const leveldb::Options &its_options)
        : env(its_env), dir(std::move(its_dir)), options(its_options)
    {
    }

    std::string path_of(uint64_t number) const;
    /* By the env's background thread. A file that can't be removed is kept in mind, and tried again by the second function, called now and then. */
    void remove(uint64_t number);
    void remove_again();

    struct store_env *const env;
    const std::string dir;
    const leveldb::Options options;         /* for reading them */

private:
    std::vector<uint64_t> not_removed;
};

/* `size`: bytes that it will have at most, about. */
std::unique_ptr<key_run_builder> key_run_in_memory(unsigned level, size_t size);
/* Writes the file of that number; `finish` syncs it. What was not finished is removed. */
std::unique_ptr<key_run_builder> key_run_in_file(const std::shared_ptr<struct key_run_files> &files, uint64_t number, unsigned level);

enum { KEY_RUN_LEVELS = 16 };           /* more than there are: the number of a file is 16 times a sequence number, plus the level */
const uint64_t KEY_RUN_NUMBER_MAX = UINT64_MAX / 2;     /* of a file that is read: the next ones have room */

std::string key_run_name(uint64_t number);
bool key_run_is_file(const std::string &name);
leveldb::Status key_run_open(const std::shared_ptr<struct key_run_files> &files, const struct key_run_facts &facts, std::shared_ptr<const key_run> *run);

#endif
