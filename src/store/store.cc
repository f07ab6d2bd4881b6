#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "base/message.h"
#include "store/store_body.h"

extern "C" {
#include "base/check.h"
#include "base/file.h"
#include "base/random.h"
}

using leveldb::Status;

static const size_t size_mib = 1 << 20;

#ifdef __SANITIZE_THREAD__
/* LevelDB's library is not instrumented: the sanitizer sees its memcpy, but not the atomics that order it. (called_from_lib would suppress less,
 * but with it the sanitizer misses operations on mutexes.) It applies to every program that links the store. */
extern "C" const char *__tsan_default_suppressions(void);
extern "C" const char *__tsan_default_suppressions(void)
{
    return "race:libleveldb.so\n";
}
#endif

/* ---- open and close ---- */

store::~store()
{
    runs.reset();                   /* before the cache and the env that they use */
    segments_close(segments);
    dictionaries_close(dictionaries);
    if (lock >= 0)
        env->disk->close(env->disk->context, lock);
}

static enum status make_directory(const struct store *store, struct message *message)
{
    const struct disk *disk = store->env->disk;

    if (disk->mkdir(disk->context, AT_FDCWD, store->dir.c_str(), 0755) == 0 || errno == EEXIST)
        return STATUS_OK;
    message_set(message, "can't create the store '%.150s': %s", store->dir.c_str(), strerror(errno));
    return status_of_errno(errno);
}

static enum status take_lock(struct store *store, struct message *message)
{
    enum status status = store_lock(store->env->disk, store->dir.c_str(), &store->lock);

    if (status == STATUS_LOCKED)
        message_set(message, "store '%.150s' is in use already", store->dir.c_str());
    else if (status != STATUS_OK)
        message_set(message, "can't lock the store '%.150s': %s", store->dir.c_str(), strerror(errno));
    return status;
}

static void create_meta(struct store *store, bool by_slot, struct store_meta *meta)
{
    random_system(&meta->seed, sizeof(meta->seed));
    meta->by_slot = by_slot;
    store->is_new = true;
}

/* `*has_list`: the meta data has the list of key runs; otherwise it is lost. */
static enum status meta_load(struct store *store, const struct store_options *options, struct store_meta *meta, bool *has_list, struct message *message)
{
    struct store_salvage *salvage = options->salvage;
    enum status status = meta_read(store->env->disk, store->dir, meta, message);

    *has_list = true;
    if (status == STATUS_NOT_FOUND && !options->is_read_only && !store_is_there(store->dir.c_str())) {
        create_meta(store, options->by_slot, meta);
        return STATUS_OK;
    }
    if (status == STATUS_NOT_FOUND) {
        message_set(message, "store '%.150s' has no meta data: it is damaged, or not a store of Kelvin", store->dir.c_str());
        status = STATUS_CORRUPT;
    }
    if (status != STATUS_CORRUPT || salvage == nullptr || !salvage->has_seed)
        return status;
    *meta = {};
    meta->seed = salvage->seed;
    meta->by_slot = salvage->by_slot;
    meta->number = salvage->number;
    *has_list = false;
    salvage->is_needed = true;
    return STATUS_OK;
}

static size_t or_default(size_t value, size_t fallback)
{
    return value != 0 ? value : fallback;
}

static enum status runs_load(struct store *store, const struct store_options *options, const struct store_meta &meta, bool has_list,
    struct message *message)
{
    leveldb::Options run_options;
    bool is_partial = false;
    Status status;

    store->cache.reset(leveldb::NewLRUCache(or_default(options->block_cache_size, size_mib)));
    run_options.block_cache = store->cache.get();
    run_options.block_size = or_default(options->block_size, 8 * 1024);
    run_options.compression = leveldb::kNoCompression;
    run_options.paranoid_checks = true;     /* see the header */
    store->runs = std::make_unique<class key_runs>(store->env, store->dir, run_options, or_default(options->write_buffer_size, 16 * size_mib));
    if (options->holds_merges)
        store->runs->hold_merges();
    if (has_list)
        status = store->runs->load_list(meta.runs, options->salvage != nullptr, &is_partial);
    else
        store->runs->load_all(&is_partial);
    if (is_partial)
        options->salvage->is_needed = true;
    if (status.ok())
        return STATUS_OK;
    message_set(message, "store '%.100s': a key run can't be opened: %s", store->dir.c_str(), status.ToString().c_str());
    return status_of_leveldb(status) == STATUS_INVALID ? STATUS_CORRUPT : status_of_leveldb(status);
}

static enum status segments_load(struct store *store, const struct store_options *options, struct message *message)
{
    struct segments_options of_segments = { store->dir.c_str(), store->env->disk, options->segment_size,
        static_cast<uint64_t>(options->descriptors_max), options->is_read_only };

    return segments_open(&of_segments, &store->segments, message);
}

/* The directory of a store that is written is out of date from the first change on: it must not be taken for an image. */
static enum status forget_meta(const struct store *store, struct message *message)
{
    Status status = file_remove(store->env, store->dir + "/" + META_NAME);

    if (!status.ok())
        message_set(message, "store '%.100s': %s", store->dir.c_str(), status.ToString().c_str());
    return status_of_leveldb(status);
}

enum status store_open(const struct store_options *options, struct store **store, struct message *message)
{
    auto opened = std::make_unique<struct store>();
    struct store_meta meta;
    bool has_list = false;
    enum status status = STATUS_OK;
    int error;

    *store = nullptr;
    message_set(message, "%s", "");
    CHECK(options->salvage == nullptr || options->is_read_only);
    opened->dir = options->dir;
    while (opened->dir.size() > 1 && opened->dir.back() == '/')
        opened->dir.pop_back();
    if (options->env == nullptr)
        opened->env_owned.reset(store_env_create(disk_system()));
    opened->env = options->env != nullptr ? options->env : opened->env_owned.get();
    if (options->salvage != nullptr)
        options->salvage->is_needed = false;
    error = options->is_read_only ? 0 : opened->env->start(nullptr);
    if (error != 0) {
        message_set(message, "store '%.150s': no thread: %s", opened->dir.c_str(), strerror(error));
        return STATUS_IO;
    }
    if (!options->is_read_only)
        status = make_directory(opened.get(), message);
    if (status == STATUS_OK && !options->is_read_only)
        status = take_lock(opened.get(), message);
    if (status == STATUS_OK)
        status = meta_load(opened.get(), options, &meta, &has_list, message);
    if (status == STATUS_OK)
        status = runs_load(opened.get(), options, meta, has_list, message);
    if (status == STATUS_OK)
        status = segments_load(opened.get(), options, message);
    if (status == STATUS_OK && !options->is_read_only)
        status = forget_meta(opened.get(), message);
    if (status != STATUS_OK)
        return status;
    opened->seed = meta.seed;
    opened->is_by_slot = meta.by_slot;
    opened->number = meta.number;
    opened->dictionaries = dictionaries_open(opened->dir.c_str(), opened->env->disk);
    opened->is_writable = !options->is_read_only;
    *store = opened.release();
    return STATUS_OK;
}

void store_close(struct store *store)
{
    delete store;
}

void store_release_merges(struct store *store)
{
    store->runs->release_merges();
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

enum status store_has(struct store *store, uint32_t incarnation, uint64_t hash, struct bytes key)
{
    std::string name = key_prefix(incarnation, hash);

    CHECK(key_is_of_database(incarnation));
    name.append(key.data, key.size);
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

/* ---- writing ---- */

uint64_t store_number(const struct store *store)
{
    return store->number.load();
}

bool store_is_writable(const struct store *store)
{
    return store->is_writable.load();
}

void store_set_write_buffer(struct store *store, size_t size)
{
    store->runs->set_memory_max(size);
}

enum status store_retry(struct store *store, struct message *message)
{
    Status status = store->runs->retry();

    store->is_writable = status.ok();
    if (!status.ok())
        message_set(message, "store '%.100s': its key runs can't be written: %s", store->dir.c_str(), status.ToString().c_str());
    return status_of_leveldb(status);
}

enum status store_flush(struct store *store)
{
    Status status;

    if (!store->is_writable.load())
        return STATUS_CLOSED;
    store->runs->wait_for_flush();
    store->runs->flush_now();
    store->runs->wait_for_flush();
    status = store->runs->room();
    store->is_writable = status.ok();
    return status_of_leveldb(status);
}

/* ---- statistics ---- */

uint64_t store_disk_size(struct store *store)
{
    std::vector<std::string> names;
    uint64_t total = 0;

    if (!directory_names(store->dir, &names).ok())
        return 0;
    for (const std::string &name : names) {
        uint64_t size = 0;

        if (file_size(store->dir + "/" + name, &size).ok())         /* it may have been removed meanwhile */
            total += size;
    }
    return total;
}

uint64_t store_memory(struct store *store)
{
    return store->runs->memory() + store->cache->TotalCharge();
}

uint64_t store_memtable_memory(struct store *store)
{
    return store->runs->memory();
}

bool store_is_flushing(struct store *store)
{
    return store->runs->is_flushing();
}

enum status store_take_merge_status(struct store *store)
{
    return status_of_leveldb(store->runs->take_merge_status());
}

int store_waiting_files(struct store *store)
{
    return store->runs->waiting_files();
}
