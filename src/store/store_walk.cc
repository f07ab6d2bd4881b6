#include "store/store_walk.h"

#include "base/message.h"
#include "store/store_body.h"

using leveldb::Slice;
using leveldb::Status;

namespace {

const size_t batch_size_max = 1 << 20;

struct bytes bytes_of_slice(const Slice &slice, size_t from)
{
    return bytes_of(slice.data() + from, slice.size() - from);
}

struct store_item item_of(const Slice &key, const Slice &value)
{
    struct store_item item = {};

    item.key = bytes_of_slice(key, 0);
    item.record = bytes_of_slice(value, 0);
    item.kind = STORE_STRANGE;
    if (key.size() < 4)
        return item;
    item.incarnation = key_u32(key.data());
    if (item.incarnation == STORE_INCARNATION_META) {
        item.kind = STORE_META;
        item.key = bytes_of_slice(key, 4);
    } else if (item.incarnation == STORE_INCARNATION_EXPIRY && key.size() >= STORE_EXPIRY_PREFIX) {
        item.kind = STORE_EXPIRY;
        item.expire_ms = static_cast<int64_t>(key_u64(key.data() + 4));
        item.incarnation = key_u32(key.data() + 12);
        item.hash = key_u64(key.data() + 16);
        item.key = bytes_of_slice(key, STORE_EXPIRY_PREFIX);
    } else if (item.incarnation != STORE_INCARNATION_EXPIRY && key.size() >= STORE_KEY_PREFIX) {
        item.kind = STORE_RECORD;
        item.hash = key_u64(key.data() + 4);
        item.key = bytes_of_slice(key, STORE_KEY_PREFIX);
    }
    return item;
}

Status write_and_clear(leveldb::DB *db, leveldb::WriteBatch *batch, bool sync)
{
    leveldb::WriteOptions options;
    Status status;

    options.sync = sync;
    status = db->Write(options, batch);
    batch->Clear();
    return status;
}

/* The key of a record or an expiry. */
std::string key_of(const struct store_item &item)
{
    std::string key;

    if (item.kind == STORE_EXPIRY) {
        key_append_u32(&key, STORE_INCARNATION_EXPIRY);
        key_append_u64(&key, item.expire_ms > 0 ? static_cast<uint64_t>(item.expire_ms) : 0);
    }
    return key + key_prefix(item.incarnation, item.hash) + std::string(item.key.data, item.key.size);
}

Status add_all(leveldb::DB *db, leveldb::WriteBatch *batch, store_more *more, void *context)
{
    struct store_item item = {};
    Status status;

    while (status.ok() && more(context, &item)) {
        batch->Put(key_of(item), Slice(item.record.data, item.record.size));
        if (batch->ApproximateSize() >= batch_size_max)
            status = write_and_clear(db, batch, false);
        item = {};
    }
    return status;
}

Status copy_all(struct store *from, leveldb::DB *db, uint64_t number, store_found *keep, store_more *more, void *context)
{
    store_keys keys(from, true);
    leveldb::WriteBatch batch;
    std::string meta, value;
    Status status;

    for (keys.go_to(Slice()); status.ok() && keys.has_key(); keys.go_on()) {
        struct store_item item = item_of(keys.key(), keys.value());

        if (item.kind == STORE_META ? bytes_equal(item.key, bytes_of_string("runs")) : !keep(context, &item))
            continue;
        batch.Put(keys.key(), keys.value());
        if (batch.ApproximateSize() >= batch_size_max)
            status = write_and_clear(db, &batch, false);
    }
    if (status.ok() && more != nullptr)
        status = add_all(db, &batch, more, context);
    key_append_u32(&meta, STORE_INCARNATION_META);
    key_append_u64(&value, number);
    batch.Put(meta + "number", value);
    return status.ok() ? write_and_clear(db, &batch, true) : status;
}

}  // namespace

enum status store_walk(struct store *store, store_found *found, void *context)
{
    store_keys keys(store, true);

    for (keys.go_to(Slice()); keys.has_key(); keys.go_on()) {
        struct store_item item = item_of(keys.key(), keys.value());

        if (!found(context, &item))
            return STATUS_OK;
    }
    return keys.state() == STATUS_NOT_FOUND ? STATUS_OK : keys.state();
}

enum status store_rewrite(struct store *from, const char *to, uint64_t number, store_found *keep, store_more *more, void *context,
    struct message *message)
{
    leveldb::Options options = from->options;
    leveldb::DB *db = nullptr;
    Status status;

    options.create_if_missing = true;
    options.error_if_exists = true;
    options.block_cache = nullptr;
    status = leveldb::DB::Open(options, to, &db);
    std::unique_ptr<leveldb::DB> db_owned(db);
    if (status.ok())
        status = copy_all(from, db, number, keep, more, context);
    db_owned.reset();
    if (status.ok())
        status = from->env->directory_status(to);
    if (status.ok())
        return STATUS_OK;
    store_set_message(message, "can't write the store '" + std::string(to) + "': " + status.ToString());
    (void)store_remove(to, from->env);
    return status_of_leveldb(status);
}
