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
#include "store/store.h"
#include "store/store_disk.h"
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

enum { STORE_INCARNATION_META = 0 };
constexpr uint32_t STORE_INCARNATION_EXPIRY = 0xffffffffu;

void key_append_u32(std::string *out, uint32_t number);
void key_append_u64(std::string *out, uint64_t number);
uint32_t key_u32(const char *bytes);
uint64_t key_u64(const char *bytes);

/* incarnation | hash: the first bytes of a store key. */
enum { STORE_KEY_PREFIX = 12, STORE_EXPIRY_PREFIX = 24 };
std::string key_prefix(uint32_t incarnation, uint64_t hash);

leveldb::ReadOptions read_options_get(void);
leveldb::ReadOptions read_options_scan(void);

/* Gives the batch the next number and writes it. On failure it closes the store for writing. */
enum status store_write_numbered(struct store *store, leveldb::WriteBatch *batch);
/* Writes the number to the store; for a store with `is_temporary`, whose batches do not write theirs. */
enum status store_write_number(struct store *store);

/* Sets `message`, which may be NULL. */
void store_set_message(struct message *message, const std::string &sentence);

#endif
