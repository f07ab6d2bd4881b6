/* Images of before version 6 had their meta data in LevelDB. It is read once, when such an image is cloned; the clone has a file of its own for it. */
#include <errno.h>
#include <leveldb/db.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "store/store_key.h"
#include "store/store_meta.h"

using leveldb::Status;

enum { VERSION_RECORDS = 2, VERSION_RECORDS_BY_SLOT = 3, VERSION = 4, VERSION_BY_SLOT = 5 };

static std::string meta_key(const char *name)
{
    std::string key;

    key_append_u32(&key, STORE_INCARNATION_META);
    return key + name;
}

static bool ends_with(const std::string &name, const std::string &end)
{
    return name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

static bool is_table(const std::string &name)
{
    return ends_with(name, ".ldb") || ends_with(name, ".sst");
}

bool meta_is_of_leveldb(const std::string &name)
{
    return name == "CURRENT" || name.compare(0, 9, "MANIFEST-") == 0 || ends_with(name, ".log") || is_table(name);
}

/* LevelDB writes when it is opened. It removes tables, but never changes one. */
static Status copy_files(struct store_env *env, const std::string &dir, const std::string &scratch)
{
    std::vector<std::string> names;
    Status status = directory_names(dir, &names);

    for (const std::string &name : names) {
        std::string from = dir + "/" + name, to = scratch + "/" + name;

        if (!status.ok() || !meta_is_of_leveldb(name) || (is_table(name) && link(from.c_str(), to.c_str()) == 0))
            continue;
        status = file_copy(env, from, to);
    }
    return status;
}

static bool take_number(const char **at, char before, uint64_t *number)
{
    char *end;

    if (before != '\0' && *(*at)++ != before)
        return false;
    if (**at < '0' || **at > '9')
        return false;
    *number = strtoull(*at, &end, 10);
    *at = end;
    return true;
}

/* A line for each run, the oldest first: number tombstones bytes [incarnation:entries]... */
static bool parse_run(const std::string &line, struct key_run_facts *run)
{
    const char *at = line.c_str();
    uint64_t incarnation, entries;

    if (!take_number(&at, '\0', &run->number) || !take_number(&at, ' ', &run->tombstones) || !take_number(&at, ' ', &run->bytes))
        return false;
    while (*at != '\0') {
        if (!take_number(&at, ' ', &incarnation) || !take_number(&at, ':', &entries) || incarnation > UINT32_MAX)
            return false;
        run->incarnations.emplace_back(static_cast<uint32_t>(incarnation), entries);
    }
    return true;
}

static bool parse_runs(const std::string &text, std::vector<struct key_run_facts> *runs)
{
    size_t at = 0, end;

    for (; at < text.size(); at = end + 1) {
        struct key_run_facts run;

        end = text.find('\n', at);
        if (end == std::string::npos || !parse_run(text.substr(at, end - at), &run))
            return false;
        runs->push_back(std::move(run));
    }
    return true;
}

static leveldb::ReadOptions verified()
{
    leveldb::ReadOptions options;

    options.verify_checksums = true;
    return options;
}

static Status get(leveldb::DB *db, const char *name, size_t size, std::string *value)
{
    Status status = db->Get(verified(), meta_key(name), value);

    if (status.IsNotFound())
        return Status::Corruption(name, "is missing");
    return status.ok() && value->size() != size ? Status::Corruption(name, "has the wrong size") : status;
}

/* Keys besides meta data: of records, which a version 4 has as well if it was made from a version 2. */
static Status find_records(leveldb::DB *db, bool *has_records)
{
    std::unique_ptr<leveldb::Iterator> iterator(db->NewIterator(verified()));

    iterator->Seek(key_prefix(1, 0));
    *has_records = iterator->Valid();
    return iterator->status();
}

static Status read_meta(leveldb::DB *db, struct store_meta *meta, uint32_t *version, bool *has_records)
{
    std::string value;
    Status status = get(db, "version", 4, &value);

    if (status.ok())
        *version = key_u32(value.data());
    if (status.ok())
        status = find_records(db, has_records);
    if (!status.ok() || *has_records || (*version != VERSION && *version != VERSION_BY_SLOT))
        return status;
    meta->by_slot = *version == VERSION_BY_SLOT;
    status = get(db, "seed", sizeof(meta->seed), &value);
    if (status.ok())
        memcpy(&meta->seed, value.data(), sizeof(meta->seed));
    if (status.ok())
        status = get(db, "number", 8, &value);
    if (status.ok())
        meta->number = key_u64(value.data());
    if (status.ok())
        status = db->Get(verified(), meta_key("runs"), &value);
    if (status.IsNotFound())        /* an image that never had a key */
        return Status::OK();
    return status.ok() && !parse_runs(value, &meta->runs) ? Status::Corruption("runs", "is invalid") : status;
}

/* STATUS_VERSION: it is a newer one. STATUS_INVALID: it has records in LevelDB. */
static enum status judge(const std::string &dir, uint32_t version, bool has_records, struct message *message)
{
    if (version > VERSION_BY_SLOT) {
        message_set(message, "store '%.120s' has version %u: it was written by a newer Kelvin", dir.c_str(), version);
        return STATUS_VERSION;
    }
    if (!has_records && version > VERSION_RECORDS_BY_SLOT)
        return STATUS_OK;
    message_set(message, "store '%.100s' has records in LevelDB, as Kelvin wrote them before its version 0.1.0. Start the Kelvin that wrote it, SAVE, and "
        "start this one with that dump.rdb", dir.c_str());
    return STATUS_INVALID;
}

static Status open_scratch(const std::string &scratch, std::unique_ptr<leveldb::DB> *db)
{
    leveldb::Options options;
    leveldb::DB *opened = nullptr;
    Status status;

    options.paranoid_checks = true;     /* otherwise a damaged log loses what it had without an error */
    options.compression = leveldb::kNoCompression;
    status = leveldb::DB::Open(options, scratch, &opened);
    db->reset(opened);
    return status;
}

void meta_remove_scratch(const std::string &scratch)
{
    std::vector<std::string> names;

    (void)directory_names(scratch, &names).ok();
    for (const std::string &name : names)
        (void)unlink((scratch + "/" + name).c_str());
    (void)rmdir(scratch.c_str());
}

enum status meta_import(struct store_env *env, const std::string &dir, const std::string &scratch, struct store_meta *meta, struct message *message)
{
    std::unique_ptr<leveldb::DB> db;
    uint32_t version = 0;
    bool has_records = false;
    Status status;

    *meta = {};
    if (access((dir + "/CURRENT").c_str(), F_OK) != 0)
        return STATUS_NOT_FOUND;
    meta_remove_scratch(scratch);
    if (mkdir(scratch.c_str(), 0755) != 0)
        status = disk_status(scratch, errno);
    if (status.ok())
        status = copy_files(env, dir, scratch);
    if (status.ok())
        status = open_scratch(scratch, &db);
    if (status.ok())
        status = read_meta(db.get(), meta, &version, &has_records);
    db.reset();
    meta_remove_scratch(scratch);
    if (status.ok())
        return judge(dir, version, has_records, message);
    message_set(message, "the meta data of store '%.100s' can't be read: %s", dir.c_str(), status.ToString().c_str());
    return status_of_leveldb(status) == STATUS_NO_SPACE ? STATUS_NO_SPACE : status.IsIOError() ? STATUS_IO : STATUS_CORRUPT;
}
