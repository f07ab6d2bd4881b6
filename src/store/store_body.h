/* The store's private declarations (C++): for store.cc, store_scan.cc, store_snapshot.cc and store_walk.cc. */
#ifndef KELVIN_STORE_STORE_BODY_H
#define KELVIN_STORE_STORE_BODY_H

#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/write_batch.h>
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "base/message.h"
#include "store/key_runs.h"
#include "store/store.h"
#include "store/store_disk.h"
#include "store/store_key.h"
#include "store/store_overlay.h"

struct store {
    ~store();

    std::string dir;                        /* these are set by store_open, and not changed later except where noted */
    std::unique_ptr<struct store_env> env_owned;
    struct store_env *env = nullptr;
    std::unique_ptr<leveldb::Cache> cache;  /* replaced by store_reopen, while `db` is NULL */
    std::unique_ptr<leveldb::Logger> logger;
    leveldb::Options options;               /* changed by store_reopen, while `db` is NULL */
    struct store_tuning tuning {};          /* the writer's: applied by the next store_reopen */
    struct hash_seed seed {};
    bool is_by_slot = false;

    pthread_rwlock_t lock {};               /* held for reading while `db` is used, for writing by store_reopen */
    std::unique_ptr<struct store_overlay> overlay;      /* lock. What `db` writes to while the disk accepts no writes; else NULL */
    struct segments *segments = nullptr;    /* set by store_open */
    struct dictionaries *dictionaries = nullptr;        /* likewise */
    std::unique_ptr<leveldb::DB> db;        /* lock. NULL if the store could not be reopened, even for reading */
    enum status down_status = STATUS_OK;    /* lock. Why `db` is NULL */

    std::mutex users_mutex;                 /* guards the next two */
    int users = 0;                          /* iterators and compactions: they use `db` without holding `lock` */
    bool is_reopening = false;              /* new users wait */
    std::condition_variable users_changed;

    std::atomic<bool> is_writable { false };
    bool may_lack_current = false;      /* it is being salvaged */
    std::atomic<bool> merges_wait { false };    /* store_options.holds_merges */
    std::atomic<uint64_t> number { 0 };     /* changed by the writer */

    std::unique_ptr<leveldb::Cache> runs_cache;
    std::unique_ptr<class key_runs> runs;   /* set by store_open: the keys that were indexed */
    std::atomic<bool> has_db_keys { false };    /* `db` may have keys besides meta data: with records that it holds itself, or of older versions.
                                                 * A key that it has exists, whatever the runs say: what is indexed or deleted is deleted there */
    bool is_temporary = false;
    bool is_new = false;                    /* created by store_open */

    int64_t expiry_soonest = INT64_MAX;     /* the writer's: see store_expiry_soonest */
    uint32_t purge_incarnation = 0;         /* the writer's: the purge continues at key purge_last of it */
    std::string purge_last;
};

/* While it exists, store_reopen does not close `db`: for a use of `db` that is longer than one call. The constructor waits while the store
 * is being reopened. */
class store_user {
public:
    explicit store_user(struct store *its_store);
    ~store_user();
    store_user(const store_user &) = delete;
    store_user &operator=(const store_user &) = delete;

private:
    struct store *store;
};

/* The keys of the runs, and with `with_db` all keys of `db`, as one sequence without tombstones. `db` comes first: an index of a key is added to
 * the runs before it is deleted there. While there is one with `with_db`, store_reopen waits. */
class store_keys {
public:
    store_keys(struct store *store, bool with_db);
    void go_to(const leveldb::Slice &from);         /* the empty one: the first key */
    void go_on();
    bool has_key() const { return merge.is_valid(); }
    leveldb::Slice key() const { return merge.key(); }
    leveldb::Slice value() const { return has_db && merge.source() == 0 ? merge.value() : leveldb::Slice(); }
    /* STATUS_NOT_FOUND: there is no further key. Errors: what could not be read was left out, and there may be a key nevertheless. */
    enum status state() const;

private:
    void skip_tombstones();

    std::unique_ptr<class store_user> user;         /* declared first, so destroyed last */
    std::shared_ptr<const key_run_list> runs;
    bool has_db = false;
    enum status down_status = STATUS_OK;            /* `db` is closed */
    key_merge merge;
};

/* Gives the batch the next number and writes it. On failure it closes the store for writing. */
enum status store_write_numbered(struct store *store, leveldb::WriteBatch *batch);
/* Writes the number, the version and the list of key runs: what a snapshot says of itself. */
enum status store_write_meta(struct store *store, const std::string &runs);

/* Sets `message`, which may be NULL. */
void store_set_message(struct message *message, const std::string &sentence);

#endif
