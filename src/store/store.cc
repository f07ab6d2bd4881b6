#include "store/store.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "base/message.h"
#include "store/store_body.h"

extern "C" {
#include "base/check.h"
#include "base/random.h"
}

using leveldb::Slice;
using leveldb::Status;

enum {
    STORE_VERSION = 4,              /* keys are in runs */
    STORE_VERSION_BY_SLOT = 5,      /* the same, with other hashes */
    STORE_VERSION_DB_KEYS = 2,      /* all keys are in LevelDB. Such a store is opened, and has the newer version from the first snapshot on */
    STORE_VERSION_DB_KEYS_BY_SLOT = 3,
    SEGMENTS_SHARE = 2,             /* of tables_open_max, for descriptors of segments */
    LEVELDB_OTHER_FILES = 10,       /* of max_open_files: those that LevelDB does not use for tables */
};
static const size_t size_mib = 1 << 20;
static const char META_RUNS[] = "runs";             /* of the last snapshot: key_runs::save */
static const size_t SYNCED_MIN = 4 << 20;           /* bytes: a batch of this size or more is synced when it is written */
/* In a smaller cache a lookup hardly ever finds its block, and each of the 16 shards keeps the block inserted last, however large. */
static const size_t CACHE_USEFUL_MIN = 16 << 20;
static const size_t BATCH_EMPTY_SIZE = 12;          /* bytes of a batch without operations: its head */

#ifdef __SANITIZE_THREAD__
/* LevelDB's library is not instrumented: the sanitizer sees its memcpy into a memtable, but not the atomics that order it. This also
 * suppresses races in our Env when LevelDB calls it; store_env_test therefore calls the Env directly. (called_from_lib would suppress less,
 * but with it the sanitizer misses operations on mutexes.) It applies to every program that links the store. */
extern "C" const char *__tsan_default_suppressions(void);
extern "C" const char *__tsan_default_suppressions(void)
{
    return "race:libleveldb.so\n";
}
#endif

/* ---- open and close ---- */

void store_set_message(struct message *message, const std::string &sentence)
{
    if (message != nullptr)
        message_set(message, "%s", sentence.c_str());
}

/* LevelDB's destructor waits for the work that it has scheduled, so work that is held must be released first. It then ends at once. */
static void db_close(struct store *store)
{
    leveldb::DB *db = store->db.get();

    if (store->overlay != nullptr)
        store->overlay->release_work();
    store->env->open_gate(db);
    store->env->finish_work();
    store->db.reset();
    store->env->remove_gate(db);
    store->overlay.reset();
}

/* From here on LevelDB delays writes, and soon stops them. */
enum { TABLES_THAT_SLOW_WRITES = 8 };

static int level_0_tables(leveldb::DB *db)
{
    std::string text;

    return db->GetProperty("leveldb.num-files-at-level0", &text) ? atoi(text.c_str()) : INT_MAX;
}

/* Whether a level has so much data that LevelDB moves some of it to the next one. The limits are those of LevelDB (it has no option for them); the
 * sizes in its statistics are in MiB, rounded. */
static bool merge_is_due(leveldb::DB *db)
{
    enum { TABLES_OF_LEVEL_0 = 4, MIB_OF_LEVEL_1 = 10, GROWTH = 10, LEVEL_LAST = 6 };
    std::string text;
    double limit = MIB_OF_LEVEL_1;

    if (level_0_tables(db) >= TABLES_OF_LEVEL_0)
        return true;
    if (!db->GetProperty("leveldb.stats", &text))
        return true;
    for (int level = 1; level < LEVEL_LAST; level++, limit *= GROWTH) {
        std::string mark = "\n  " + std::to_string(level) + " ";
        size_t at = text.find(mark);
        int tables;
        double mib;

        if (at != std::string::npos && sscanf(text.c_str() + at + mark.size(), "%d %lf", &tables, &mib) == 2 && mib >= limit)
            return true;
    }
    return false;
}

/* Whether background work that LevelDB has scheduled is to be done now. */
static bool work_is_due(const struct store *store, leveldb::DB *db)
{
    return store->merges_wait ? level_0_tables(db) >= TABLES_THAT_SLOW_WRITES : merge_is_due(db);
}

store::~store()
{
    runs.reset();
    db_close(this);                 /* before the cache and the env that it uses */
    segments_close(segments);
    dictionaries_close(dictionaries);
    pthread_rwlock_destroy(&lock);
}

static void lock_init(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t attributes;

    /* By default readers have priority: if there always is one, store_reopen would wait forever. */
    CHECK(pthread_rwlockattr_init(&attributes) == 0);
    CHECK(pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) == 0);
    CHECK(pthread_rwlock_init(lock, &attributes) == 0);
    pthread_rwlockattr_destroy(&attributes);
}

static enum status report_error(const struct store *store, const Status &status, const char *what, struct message *message)
{
    enum status result = status_of_leveldb(status);

    if (result == STATUS_NOT_FOUND || result == STATUS_INVALID)     /* a file that LevelDB needs is missing, or all are */
        result = STATUS_CORRUPT;
    if (result == STATUS_LOCKED)
        store_set_message(message, "store '" + store->dir + "' is in use already");
    else
        store_set_message(message, "store '" + store->dir + "': " + what + ": " + status.ToString());
    return result;
}

static bool name_ends(const std::string &name, const char *end)
{
    size_t size = strlen(end);

    return name.size() > size && name.compare(name.size() - size, size, end) == 0;
}

/* Returns whether there are tables or logs, but no CURRENT. LevelDB would take the directory for a new one and remove its tables. */
static bool has_lost_current(struct store *store)
{
    std::vector<std::string> names;

    if (store->env->FileExists(store->dir + "/CURRENT") || !store->env->GetChildren(store->dir, &names).ok())
        return false;
    for (const std::string &name : names)
        if (name_ends(name, ".ldb") || name_ends(name, ".sst") || name_ends(name, ".log") || segment_is_file(name.c_str()))
            return true;
    return false;
}

void store_release_merges(struct store *store)
{
    store_user user(store);

    store->merges_wait = false;
    store->runs->release_merges();
    if (store->db == nullptr)
        return;
    store->env->open_gate(store->db.get());
    store->env->close_gate(store->db.get());
}

static enum status db_open(struct store *store, bool create, struct message *message)
{
    bool holds_merges = store->merges_wait;
    leveldb::DB *db = nullptr;
    Status status;

    if (!store->may_lack_current && has_lost_current(store)) {
        store_set_message(message, "store '" + store->dir + "' has tables but no CURRENT file: it is damaged");
        return STATUS_CORRUPT;
    }
    store->env->clear_broken(store->dir);
    store->options.create_if_missing = create;
    if (holds_merges)
        store->env->hold_work();        /* DB::Open schedules a merge before there is a gate */
    status = leveldb::DB::Open(store->options, store->dir, &db);
    store->db.reset(db);
    if (status.ok())
        status = store->env->directory_status(store->dir);      /* LevelDB does not notice every failure */
    if (status.ok())
        store->env->set_gate(db, store->dir, [store, db] { return work_is_due(store, db); });
    if (holds_merges)
        store->env->release_work();
    if (status.ok())
        return STATUS_OK;
    db_close(store);
    return report_error(store, status, "can't be opened", message);
}

/* Removes all files of LevelDB. */
static void remove_database(struct store *store)
{
    std::vector<std::string> names;

    (void)store->env->GetChildren(store->dir, &names);
    for (const std::string &name : names)
        if (name[0] != '.' && !segment_is_file(name.c_str()) && !key_run_is_file(name) && !dictionary_is_file(name.c_str(), nullptr))
            (void)store->env->RemoveFile(store->dir + "/" + name);
}

/* Keeps what LevelDB can read of its files; if that is nothing, an empty database. */
static enum status db_salvage(struct store *store, struct store_salvage *salvage, struct message *message)
{
    enum status status;

    salvage->is_needed = store->may_lack_current = true;
    (void)leveldb::RepairDB(store->dir, store->options);
    status = db_open(store, true, message);
    if (status == STATUS_OK)
        return status;
    remove_database(store);
    return db_open(store, true, message);
}

static enum status meta_get(struct store *store, const char *name, size_t size, std::string *value, struct message *message)
{
    Status status = store->db->Get(read_options_get(), key_meta(name), value);

    if (status.IsNotFound()) {
        store_set_message(message, "store '" + store->dir + "' has no " + name + ": it is damaged, or not a store of Kelvin");
        return STATUS_NOT_FOUND;
    }
    if (!status.ok())
        return report_error(store, status, name, message);
    if (value->size() != size) {
        store_set_message(message, "store '" + store->dir + "': " + name + " has the wrong size");
        return STATUS_CORRUPT;
    }
    return STATUS_OK;
}

static bool is_empty(struct store *store)
{
    std::unique_ptr<leveldb::Iterator> iterator(store->db->NewIterator(read_options_scan()));

    iterator->SeekToFirst();
    return !iterator->Valid() && iterator->status().ok();
}

static void append_version(std::string *value, bool by_slot)
{
    key_append_u32(value, by_slot ? STORE_VERSION_BY_SLOT : STORE_VERSION);
}

/* `known` is NULL, or the seed. */
static enum status meta_create(struct store *store, const struct hash_seed *known, bool by_slot, struct message *message)
{
    leveldb::WriteBatch batch;
    leveldb::WriteOptions options;
    std::string version, number, seed(sizeof(store->seed), '\0');
    Status status;

    if (known != nullptr)
        memcpy(seed.data(), known, seed.size());
    else
        random_system(seed.data(), seed.size());
    append_version(&version, by_slot);
    key_append_u64(&number, 0);
    batch.Put(key_meta("version"), version);
    batch.Put(key_meta("seed"), seed);
    batch.Put(key_meta("number"), number);
    options.sync = true;
    status = store->db->Write(options, &batch);
    store->is_new = status.ok();
    return status.ok() ? STATUS_OK : report_error(store, status, "can't be created", message);
}

static bool has_meta(struct store *store)
{
    struct message message;
    std::string value;

    return meta_get(store, "version", 4, &value, &message) == STATUS_OK && meta_get(store, "seed", sizeof(store->seed), &value, &message) == STATUS_OK &&
           meta_get(store, "number", 8, &value, &message) == STATUS_OK;
}

static enum status meta_load(struct store *store, struct store_salvage *salvage, bool by_slot, struct message *message)
{
    std::string value;
    /* LevelDB salvages the records of a log without comparing them with their checksums. */
    bool must_create = salvage != nullptr && salvage->has_seed && (salvage->is_needed || !has_meta(store));
    enum status status = must_create ? STATUS_NOT_FOUND : meta_get(store, "version", 4, &value, message);

    if (must_create)
        salvage->is_needed = true;
    if (status == STATUS_NOT_FOUND && (must_create || (salvage == nullptr && is_empty(store)))) {
        status = meta_create(store, must_create ? &salvage->seed : nullptr, must_create ? salvage->by_slot : by_slot, message);
        if (status == STATUS_OK)
            status = meta_get(store, "version", 4, &value, message);
    }
    if (status == STATUS_OK)
        store->is_by_slot = key_u32(value.data()) == STORE_VERSION_BY_SLOT || key_u32(value.data()) == STORE_VERSION_DB_KEYS_BY_SLOT;
    if (status == STATUS_OK && !store->is_by_slot && key_u32(value.data()) != STORE_VERSION && key_u32(value.data()) != STORE_VERSION_DB_KEYS) {
        store_set_message(message, "store '" + store->dir + "' has version " + std::to_string(key_u32(value.data())) +
            "; this Kelvin supports " + std::to_string(STORE_VERSION_BY_SLOT));
        return STATUS_VERSION;
    }
    if (status == STATUS_OK)
        status = meta_get(store, "seed", sizeof(store->seed), &value, message);
    if (status == STATUS_OK)
        memcpy(&store->seed, value.data(), sizeof(store->seed));
    if (status == STATUS_OK)
        status = meta_get(store, "number", 8, &value, message);
    if (status == STATUS_OK)
        store->number = key_u64(value.data());
    return status == STATUS_NOT_FOUND ? STATUS_CORRUPT : status;
}

static size_t or_default(size_t value, size_t fallback)
{
    return value != 0 ? value : fallback;
}

static bool find_db_keys(struct store *store)
{
    std::unique_ptr<leveldb::Iterator> iterator(store->db->NewIterator(read_options_scan()));

    iterator->Seek(key_prefix(STORE_INCARNATION_FIRST, 0));
    return !iterator->status().ok() || iterator->Valid();       /* what can't be read counts, too */
}

/* The runs that the last snapshot had. */
static enum status runs_load(struct store *store, const struct store_options *options, struct message *message)
{
    leveldb::Options run_options = store->options;
    std::string text;
    bool is_partial = false;
    Status status;

    store->runs_cache.reset(leveldb::NewLRUCache(or_default(options->block_cache_size, size_mib)));
    run_options.block_cache = store->runs_cache.get();
    run_options.compression = leveldb::kNoCompression;
    run_options.filter_policy = nullptr;
    store->runs = std::make_unique<class key_runs>(store->env, store->dir, run_options, store->options.write_buffer_size);
    if (options->holds_merges)
        store->runs->hold_merges();
    status = store->db->Get(read_options_get(), key_meta(META_RUNS), &text);
    if (options->salvage != nullptr && (options->salvage->is_needed || !status.ok()))
        store->runs->load_all(&is_partial), status = Status::OK();
    else if (status.ok())
        status = store->runs->load_list(text, options->salvage != nullptr, &is_partial);
    else if (status.IsNotFound())
        status = Status::OK();
    if (is_partial)
        options->salvage->is_needed = true;
    store->has_db_keys = find_db_keys(store);
    return status.ok() ? STATUS_OK : report_error(store, status, "a key run can't be opened", message);
}

/* The number of open files that LevelDB may use. If it can't open a table, a client's command fails; so the default leaves half of
 * RLIMIT_NOFILE to sockets and other files. */
static int open_files(int tables)
{
    struct rlimit limit;
    int count = tables != 0 ? tables - tables / SEGMENTS_SHARE : 10000;

    if (tables == 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 2 < static_cast<rlim_t>(count))
        count = static_cast<int>(limit.rlim_cur / 2);
    return count + LEVELDB_OTHER_FILES;
}

static enum status segments_load(struct store *store, uint64_t size_max, uint64_t descriptors_max, bool is_lazy, struct message *message)
{
    struct segments_options options = { store->dir.c_str(), store->env->disk, size_max, descriptors_max, is_lazy };

    return segments_open(&options, &store->segments, message);
}

enum status store_open(const struct store_options *options, struct store **store, struct message *message)
{
    auto opened = std::make_unique<struct store>();
    leveldb::Options &db_options = opened->options;
    enum status status;
    int error;

    *store = nullptr;
    store_set_message(message, "");
    lock_init(&opened->lock);
    opened->dir = options->dir;
    while (opened->dir.size() > 1 && opened->dir.back() == '/')
        opened->dir.pop_back();
    if (options->env == nullptr)
        opened->env_owned.reset(store_env_create(disk_system()));
    CHECK(!options->without_merging || options->env == nullptr);
    if (options->without_merging)
        opened->env_owned->hold_work();
    opened->env = options->env != nullptr ? options->env : opened->env_owned.get();
    opened->is_temporary = options->is_temporary;
    opened->merges_wait = options->holds_merges;
    if (opened->is_temporary)
        opened->env->watch_logs(opened->dir);
    opened->cache.reset(leveldb::NewLRUCache(or_default(options->block_cache_size, size_mib)));
    opened->env->NewLogger("", &db_options.info_log);
    opened->logger.reset(db_options.info_log);
    db_options.env = opened->env;
    db_options.block_cache = opened->cache.get();
    db_options.block_size = or_default(options->block_size, 8 * 1024);
    db_options.write_buffer_size = or_default(options->write_buffer_size, 16 * size_mib);
    db_options.max_file_size = or_default(options->file_size_max, 32 * size_mib);
    db_options.max_open_files = open_files(options->tables_open_max);
    db_options.compression = leveldb::kNoCompression;
    opened->tuning = { db_options.write_buffer_size, or_default(options->block_cache_size, size_mib) };
    db_options.paranoid_checks = true;      /* see the header */

    if (options->salvage != nullptr)
        options->salvage->is_needed = false;
    error = options->without_merging ? 0 : opened->env->start(nullptr);
    if (error != 0) {
        store_set_message(message, "store '" + opened->dir + "': no thread: " + strerror(error));
        return STATUS_IO;
    }
    status = db_open(opened.get(), true, message);
    if (status == STATUS_CORRUPT && options->salvage != nullptr)
        status = db_salvage(opened.get(), options->salvage, message);
    if (status == STATUS_OK)
        status = meta_load(opened.get(), options->salvage, options->by_slot, message);
    if (status == STATUS_OK)
        status = runs_load(opened.get(), options, message);
    if (status == STATUS_OK)
        status = segments_load(opened.get(), options->segment_size, static_cast<uint64_t>(options->tables_open_max) / SEGMENTS_SHARE,
            options->without_merging, message);
    if (status != STATUS_OK)
        return status;
    opened->dictionaries = dictionaries_open(opened->dir.c_str(), opened->env->disk);
    opened->is_writable = true;
    *store = opened.release();
    return STATUS_OK;
}

void store_close(struct store *store)
{
    if (store == nullptr)
        return;
    CHECK(store->users == 0);
    if (!store->is_temporary && store->is_writable) {
        std::shared_ptr<const key_run_list> runs;
        std::string text, before;

        store->runs->end_work();
        if (store->runs->save(&text, &runs).ok()) {
            (void)store->db->Get(read_options_get(), key_meta(META_RUNS), &before).ok();    /* none: it stays empty */
            if (text != before)
                (void)store_write_meta(store, text);
        }
    }
    delete store;
}

bool store_is_locked(const char *dir)
{
    struct flock lock = {};
    int fd = open((std::string(dir) + "/LOCK").c_str(), O_RDWR | O_CLOEXEC);
    bool locked;

    if (fd < 0)
        return false;
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    locked = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    close(fd);
    return locked;
}

struct hash_seed store_seed(const struct store *store)
{
    return store->seed;
}

bool store_is_by_slot(const struct store *store)
{
    return store->is_by_slot;
}

bool store_is_new(const struct store *store)
{
    return store->is_new;
}

/* ---- reading ---- */

enum status store_get(struct store *store, uint32_t incarnation, uint64_t hash, struct bytes key, struct buffer *record)
{
    enum status result;
    std::string name, value;
    leveldb::ReadOptions options = read_options_get();

    CHECK(key_is_of_database(incarnation));
    name.reserve(STORE_KEY_PREFIX + key.size);
    key_append_u32(&name, incarnation);
    key_append_u64(&name, hash);
    name.append(key.data, key.size);
    if (store->has_db_keys) {
        pthread_rwlock_rdlock(&store->lock);
        options.fill_cache = store->tuning.block_cache_size >= CACHE_USEFUL_MIN;
        result = store->db == nullptr ? store->down_status : status_of_leveldb(store->db->Get(options, name, &value));
        pthread_rwlock_unlock(&store->lock);
        if (result == STATUS_OK)
            buffer_append(record, value.data(), value.size());
        if (result != STATUS_NOT_FOUND)
            return result;
    }
    return status_of_leveldb(store->runs->find_key(name));
}

const struct disk *store_disk(const struct store *store)
{
    return store->env->disk;
}

struct segments *store_segments(struct store *store)
{
    return store->segments;
}

struct dictionaries *store_dictionaries(struct store *store)
{
    return store->dictionaries;
}

enum status store_get_at(struct store *store, uint64_t place, struct segment *segment, enum segment_access access, uint32_t incarnation,
    uint64_t hash, struct bytes key, struct segment_buffer *scratch, struct buffer *record, bool *was_cached)
{
    if (place == 0)
        return store_get(store, incarnation, hash, key, record);
    if (segment == nullptr)
        return STATUS_CORRUPT;
    return segments_read(store->segments, segment, place, access, incarnation, key, scratch, record, was_cached);
}

/* ---- writing ---- */

static void put_number(leveldb::WriteBatch *batch, uint64_t number)
{
    std::string value;

    key_append_u64(&value, number);
    batch->Put(key_meta("number"), value);
}

static enum status write_batch(struct store *store, leveldb::WriteBatch *batch, uint64_t number)
{
    leveldb::WriteOptions options;
    Status status;

    if (!store->is_writable.load())
        return STATUS_CLOSED;
    /* LevelDB closes a full log with its mutex held, and closing syncs what is not on the disk yet (store_file.cc) while all reads wait.
     * So a large batch is synced here, where only the writer waits. The logs of a temporary store are never synced. */
    if (batch->ApproximateSize() <= BATCH_EMPTY_SIZE) {     /* LevelDB has no part of it */
        store->number = number;
        return STATUS_OK;
    }
    options.sync = !store->is_temporary && batch->ApproximateSize() >= SYNCED_MIN;
    /* No lock: only the writer replaces `db`, and this is the writer. */
    status = store->db->Write(options, batch);
    if (!status.ok()) {
        /* LevelDB 1.23 might accept the next batch and lose it: no more writes until it is opened again. */
        store->is_writable = false;
        return status_of_leveldb(status);
    }
    store->number = number;
    return STATUS_OK;
}

enum status store_write_numbered(struct store *store, leveldb::WriteBatch *batch)
{
    uint64_t number = store->number.load() + 1;

    if (!store->is_temporary)
        put_number(batch, number);
    return write_batch(store, batch, number);
}

enum status store_write_meta(struct store *store, const std::string &runs)
{
    leveldb::WriteBatch batch;
    std::string version;

    append_version(&version, store->is_by_slot);
    batch.Put(key_meta("version"), version);
    batch.Put(key_meta(META_RUNS), runs);
    put_number(&batch, store->number.load());
    return write_batch(store, &batch, store->number.load());
}

uint64_t store_number(const struct store *store)
{
    return store->number.load();
}

bool store_is_writable(const struct store *store)
{
    return store->is_writable.load();
}

/* ---- reopening ---- */

store_user::store_user(struct store *its_store) : store(its_store)
{
    std::unique_lock<std::mutex> guard(store->users_mutex);

    store->users_changed.wait(guard, [this] { return !store->is_reopening; });
    store->users++;
}

store_user::~store_user()
{
    std::lock_guard<std::mutex> guard(store->users_mutex);

    store->users--;
    store->users_changed.notify_all();
}

/* The bytes that LevelDB writes when it is opened, approximately: the logs as tables, and a new MANIFEST. */
static uint64_t open_size(struct store *store)
{
    std::vector<std::string> names;
    uint64_t total = size_mib;

    if (!store->env->GetChildren(store->dir, &names).ok())
        return total;
    for (const std::string &name : names) {
        uint64_t size = 0;

        if (name_ends(name, ".log") && store->env->GetFileSize(store->dir + "/" + name, &size).ok())
            total += size;
    }
    return total;
}

void store_tune(struct store *store, const struct store_tuning *tuning)
{
    store->tuning = *tuning;
}

/* While `db` is NULL: the cache is not in use. */
static void apply_tuning(struct store *store)
{
    store->options.write_buffer_size = store->tuning.write_buffer_size;
    store->runs->set_memory_max(store->tuning.write_buffer_size);
    store->cache.reset(leveldb::NewLRUCache(store->tuning.block_cache_size));
    store->options.block_cache = store->cache.get();
}

/* Checks that the reopened store has the last batch that was written. Sets `*applied` to whether it also has the failed one. */
static enum status number_check(struct store *store, bool *applied, struct message *message)
{
    uint64_t number, expected = store->number.load();
    std::string value;
    enum status status = meta_get(store, "number", 8, &value, message);

    if (status != STATUS_OK)
        return status == STATUS_NOT_FOUND ? STATUS_CORRUPT : status;
    number = key_u64(value.data());
    if (store->is_temporary ? number > expected : number != expected && number != expected + 1) {
        store_set_message(message, "store '" + store->dir + "' was reopened with batch " + std::to_string(number) + " instead of " +
            std::to_string(expected) + ": batches that were written are lost");
        return STATUS_CORRUPT;
    }
    *applied = !store->is_temporary && number == expected + 1;
    return STATUS_OK;
}

/* For a disk that accepts no writes: opens LevelDB with an overlay, which writes to memory, so that the store can be read. `db` stays NULL
 * if that fails. */
static void open_for_reading(struct store *store)
{
    leveldb::Options options = store->options;
    leveldb::DB *db = nullptr;
    bool applied;

    store->overlay = std::make_unique<struct store_overlay>(store->env);
    options.env = store->overlay.get();
    options.create_if_missing = false;
    if (!has_lost_current(store) && leveldb::DB::Open(options, store->dir, &db).ok())
        store->db.reset(db);
    if (store->db == nullptr || number_check(store, &applied, nullptr) != STATUS_OK)
        db_close(store);
}

/* Holds `lock` for writing. */
static enum status reopen_locked(struct store *store, bool *applied, struct message *message)
{
    enum status status = STATUS_OK;

    db_close(store);
    store->down_status = STATUS_CLOSED;
    apply_tuning(store);
    if (store->is_temporary && !store->env->logs_are_intact(store->dir)) {
        store_set_message(message, "store '" + store->dir + "' has lost data that was written to its logs");
        status = STATUS_CORRUPT;
    }
    if (status == STATUS_OK)
        status = db_open(store, false, message);
    if (status == STATUS_OK)
        status = number_check(store, applied, message);
    if (status == STATUS_OK) {
        if (*applied)
            store->number++;
        return STATUS_OK;
    }
    db_close(store);
    if (status == STATUS_CORRUPT)
        store->down_status = status;
    else
        open_for_reading(store);
    return status;
}

enum status store_reopen(struct store *store, bool *applied, struct message *message)
{
    enum status status;

    *applied = false;
    store_set_message(message, "");
    store->is_writable = false;
    if (store->db != nullptr) {
        /* Don't close LevelDB while the disk has no space to open it again: it can still be read. */
        store->env->clear_broken(store->dir);
        Status space = store->env->probe_space(store->dir, open_size(store));
        if (!space.ok())
            return report_error(store, space, "the disk accepts no writes yet", message);
    }
    {
        std::unique_lock<std::mutex> guard(store->users_mutex);
        store->is_reopening = true;
        store->users_changed.wait(guard, [store] { return store->users == 0; });
    }
    pthread_rwlock_wrlock(&store->lock);
    status = reopen_locked(store, applied, message);
    pthread_rwlock_unlock(&store->lock);
    {
        std::lock_guard<std::mutex> guard(store->users_mutex);
        store->is_reopening = false;
        store->users_changed.notify_all();
    }
    if (status == STATUS_OK) {
        Status retried = store->runs->retry();

        if (!retried.ok())
            status = report_error(store, retried, "its key runs can't be written", message);
    }
    if (status == STATUS_OK)
        store->is_writable = true;
    return status;
}

/* ---- statistics ---- */

uint64_t store_disk_size(struct store *store)
{
    std::vector<std::string> names;
    uint64_t total = 0;

    if (!store->env->GetChildren(store->dir, &names).ok())
        return 0;
    for (const std::string &name : names) {
        uint64_t size = 0;

        if (store->env->GetFileSize(store->dir + "/" + name, &size).ok())    /* it may have been removed meanwhile */
            total += size;
    }
    return total;
}

static std::string property(struct store *store, const char *name)
{
    std::string value;

    pthread_rwlock_rdlock(&store->lock);
    if (store->db != nullptr)
        store->db->GetProperty(name, &value);
    pthread_rwlock_unlock(&store->lock);
    return value;
}

static uint64_t db_memory(struct store *store)
{
    return strtoull(property(store, "leveldb.approximate-memory-usage").c_str(), nullptr, 10);
}

uint64_t store_memory(struct store *store)
{
    return db_memory(store) + store->runs->memory() + store->runs_cache->TotalCharge();
}

uint64_t store_memtable_memory(struct store *store)
{
    uint64_t size = db_memory(store), cached = store->cache->TotalCharge();

    return (size > cached ? size - cached : 0) + store->runs->memory();
}

/* LevelDB has no function for this. But while it writes a memtable its thread is working, and the two memtables together have at least the
 * size of one write buffer. */
bool store_is_flushing(struct store *store)
{
    return store->runs->is_flushing() || (store_memtable_memory(store) >= store->options.write_buffer_size && store->env->has_work());
}

enum status store_take_merge_status(struct store *store)
{
    return status_of_leveldb(store->runs->take_merge_status());
}

int store_waiting_files(struct store *store)
{
    return store->runs->waiting_files();
}
