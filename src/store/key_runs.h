/* Key runs of a store (C++): which keys have a record, in the order of their hashes. A key is added when its first record is written, and a
 * tombstone when its last one is deleted; writing a record again, or moving it, changes nothing here.
 *
 * The list of runs is ordered by age; of equal keys, that in the newest run counts. Each batch becomes a run in memory. Eight of a level are
 * merged into one of the next level by the writer. When those in memory have `memory_max` bytes, the env's background thread writes them to
 * one file (a flush), and it merges 16 files of a level into one of the next. A merge drops what a newer entry hides, the keys of buried
 * incarnations, and, if the oldest run is among its inputs, tombstones. All files are merged into one when more than half of their entries
 * would be dropped.
 *
 * Threads: view() and the numbers may be called by any thread, everything else by the writer only. Nothing waits for readers: a view keeps
 * its runs.
 *
 * Errors: a failed flush leaves the runs in memory; room() then returns its status until retry() was called, and nothing is lost. A failed
 * merge leaves its inputs, and is tried again after some flushes, twice as many each time; a file that is damaged is not merged any more. The removal
 * of a file is tried again after each flush and merge.
 */
#ifndef KELVIN_STORE_KEY_RUNS_H
#define KELVIN_STORE_KEY_RUNS_H

#include <leveldb/status.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "store/key_merge.h"
#include "store/key_run.h"

typedef std::vector<std::shared_ptr<const key_run>> key_run_list;      /* the oldest first */

/* A key or a tombstone of a batch. */
struct key_change {
    leveldb::Slice key;
    bool is_tombstone;
};

class key_runs {
public:
    key_runs(struct store_env *env, std::string dir, const leveldb::Options &options, size_t memory_max);
    ~key_runs();                    /* waits until the background thread has done all that is scheduled; removed files are gone then */
    void end_work();                /* begins no further flush or merge, and waits for the step that runs. Reading and saving go on */

    /* Opens these files, the oldest first. With `keeps_rest` those that can't be opened are left out, and *is_partial is set. */
    leveldb::Status load_list(const std::vector<struct key_run_facts> &list, bool keeps_rest, bool *is_partial);
    /* Opens all files that are there, in the order of their numbers: for a store that has lost its list. */
    void load_all(bool *is_partial);

    /* Waits until there is room in memory for another batch. */
    leveldb::Status room();
    /* The changes of a batch, in its order; they are sorted by this. Of one key the last change counts. */
    void add_changes(std::vector<struct key_change> *changes);
    void flush_now();               /* begins to write what is in memory, if nothing is being written */
    void wait_for_flush();          /* any thread */
    leveldb::Status retry();        /* writes what could not be written, and waits for the end of that */
    /* Writes what is in memory to a file. Then all runs are files, and *view has them. */
    leveldb::Status save(std::shared_ptr<const key_run_list> *view);

    /* Nothing will be added to the incarnation any more, and no reader asks for its keys. */
    void bury(uint32_t incarnation);
    bool is_buried(uint32_t incarnation);

    void set_memory_max(size_t bytes) { memory_max = bytes; }
    void hold_merges() { merges_wait = true; }      /* there are merges only before the number of files would slow down reading */
    void release_merges();

    std::shared_ptr<const key_run_list> view();
    /* NotFound: the key has no record. Reads a block of each file: for keys whose record is damaged. */
    leveldb::Status find_key(const leveldb::Slice &key);
    uint64_t memory() const { return memory_size; }                     /* bytes of the runs in memory */
    leveldb::Status take_merge_status();                                /* of the last merge that failed since this was called; by the writer */
    bool is_flushing();
    int waiting_files();                                                /* of the lowest level, beyond those that wait for a merge */

private:
    struct merging;

    void replace(const key_run_list &inputs, const std::shared_ptr<const key_run> &output);
    void merge_in_memory();
    std::unique_ptr<struct merging> begin_merging(key_run_list inputs, std::unique_ptr<key_run_builder> builder);
    std::unique_ptr<struct merging> begin_flush();
    std::unique_ptr<struct merging> begin_merge();
    size_t find_merge(size_t *count);
    bool has_garbage(const key_run_list &runs);
    uint64_t new_number(unsigned level);
    void note_merge(const struct merging &job, const leveldb::Status &status);
    leveldb::Status run_to_end(struct merging *job);
    leveldb::Status step(struct merging *job, bool *is_done);
    void end_merging(std::unique_ptr<struct merging> *job);
    void drop_buried();
    void forget_buried();
    void schedule();
    static void work_main(void *runs);
    void work();
    void work_on(std::unique_ptr<struct merging> *job);
    uint64_t memory_not_taken();

    struct store_env *const env;
    const std::string dir;
    const std::shared_ptr<struct key_run_files> run_files;
    std::atomic<size_t> memory_max;
    std::atomic<uint64_t> memory_size { 0 }, next_sequence { 1 };
    std::atomic<bool> merges_wait { false };

    std::mutex mutex;                           /* guards all below */
    std::condition_variable changed;
    std::shared_ptr<const key_run_list> runs;   /* replaced as a whole */
    std::set<const key_run *> taken;            /* inputs of jobs */
    std::set<uint32_t> buried;
    std::unique_ptr<struct merging> flush, merge;   /* set and reset with the mutex; what they have is the background thread's */
    leveldb::Status flush_status;               /* of the last flush; failed: it is not tried again before retry() */
    leveldb::Status merge_status;
    std::set<const key_run *> damaged;          /* of the list; borders of merges */
    unsigned merge_pause = 0, flushes_to_wait = 0;      /* after a merge that failed */
    bool is_scheduled = false;
    std::atomic<bool> is_ending { false };
};

#endif
