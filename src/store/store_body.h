/* The store's private declarations (C++): for store.cc, store_batch.cc, store_scan.cc, store_snapshot.cc and store_walk.cc. */
#ifndef KELVIN_STORE_STORE_BODY_H
#define KELVIN_STORE_STORE_BODY_H

#include <leveldb/cache.h>

#include <atomic>
#include <memory>
#include <string>

#include "base/message.h"
#include "store/key_runs.h"
#include "store/store.h"
#include "store/store_disk.h"
#include "store/store_key.h"
#include "store/store_meta.h"

struct store {
    ~store();

    std::string dir;                        /* these are set by store_open, and not changed later */
    std::unique_ptr<struct store_env> env_owned;
    struct store_env *env = nullptr;
    int lock = -1;                          /* the file LOCK; -1: it is only read */
    struct hash_seed seed {};
    bool is_by_slot = false;
    bool is_new = false;                    /* created by store_open */
    struct segments *segments = nullptr;
    struct dictionaries *dictionaries = nullptr;
    std::unique_ptr<leveldb::Cache> cache;  /* of the runs' blocks */
    std::unique_ptr<class key_runs> runs;

    std::atomic<bool> is_writable { false };
    std::atomic<uint64_t> number { 0 };     /* changed by the writer */
    int64_t expiry_soonest = INT64_MAX;     /* the writer's: see store_expiry_soonest */
};

/* The keys of the runs as one sequence without tombstones, as they were when it was made. That takes the list of runs, and reads nothing. */
class store_keys {
public:
    explicit store_keys(struct store *store);
    void go_to(const leveldb::Slice &from);         /* the empty one: the first key */
    void go_on();
    bool has_key() const { return merge.is_valid(); }
    leveldb::Slice key() const { return merge.key(); }
    /* STATUS_NOT_FOUND: there is no further key. Errors: what could not be read was left out, and there may be a key nevertheless. */
    enum status state() const;

private:
    void skip_tombstones();

    std::shared_ptr<const key_run_list> runs;       /* declared first, so destroyed last */
    bool is_open = false;                           /* `merge` has them */
    key_merge merge;
};

/* STATUS_LOCKED, or another error with errno. Closing the file releases the lock. */
enum status store_lock(const struct disk *disk, const char *dir, int *lock);

/* The meta data of an image with these runs. */
struct store_meta store_meta_of(const struct store *store, const key_run_list &runs);

#endif
