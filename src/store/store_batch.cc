#include <algorithm>

#include "store/store.h"
#include "store/store_body.h"

extern "C" {
#include "base/check.h"
}

using leveldb::Slice;
using leveldb::Status;

static const size_t BATCH_KEPT_MAX = 4 << 20;       /* bytes: a larger batch gives its memory back when it is cleared */

struct store_batch {
    struct change {
        size_t at, key_size;    /* of the store key in `text` */
        size_t record_size;     /* of the record after it, if there is one */
        bool has_record;        /* it is put into LevelDB with the key */
        bool is_deleted;        /* otherwise it is indexed */
    };
    std::vector<struct change> changes;
    std::string text;
    bool has_records = false;
    uint64_t count = 0;
    size_t appended = 0;        /* bytes in segments */
    int64_t expiry_soonest = INT64_MAX;
};

struct store_batch *store_batch_create(void)
{
    return new store_batch;
}

void store_batch_destroy(struct store_batch *batch)
{
    delete batch;
}

void store_batch_clear(struct store_batch *batch)
{
    if (batch->text.capacity() > BATCH_KEPT_MAX)
        std::string().swap(batch->text);        /* clearing it would keep its memory */
    batch->text.clear();
    batch->changes.clear();
    batch->has_records = false;
    batch->count = 0;
    batch->appended = 0;
    batch->expiry_soonest = INT64_MAX;
}

static struct store_batch::change *batch_change(struct store_batch *batch, uint32_t incarnation, uint64_t hash, struct bytes key)
{
    CHECK(key_is_of_database(incarnation));
    batch->changes.push_back({ batch->text.size(), STORE_KEY_PREFIX + key.size, 0, false, false });
    key_append_u32(&batch->text, incarnation);
    key_append_u64(&batch->text, hash);
    batch->text.append(key.data, key.size);
    batch->count++;
    return &batch->changes.back();
}

static struct store_batch::change *batch_expiry_change(struct store_batch *batch, int64_t expire_ms, uint32_t incarnation, uint64_t hash,
    struct bytes key)
{
    CHECK(key_is_of_database(incarnation));
    batch->changes.push_back({ batch->text.size(), STORE_EXPIRY_PREFIX + key.size, 0, false, false });
    key_append_u32(&batch->text, STORE_INCARNATION_EXPIRY);
    key_append_u64(&batch->text, expire_ms > 0 ? static_cast<uint64_t>(expire_ms) : 0);
    key_append_u32(&batch->text, incarnation);
    key_append_u64(&batch->text, hash);
    batch->text.append(key.data, key.size);
    batch->count++;
    return &batch->changes.back();
}

void store_batch_put(struct store_batch *batch, uint32_t incarnation, uint64_t hash, struct bytes key, struct bytes record)
{
    CHECK(key.size + record.size <= STORE_RECORD_SIZE_MAX);
    struct store_batch::change *change = batch_change(batch, incarnation, hash, key);

    change->has_record = batch->has_records = true;
    change->record_size = record.size;
    batch->text.append(record.data, record.size);
}

uint64_t store_batch_append(struct store *store, struct store_batch *batch, uint32_t incarnation, unsigned kind, struct bytes key,
    struct bytes record)
{
    batch->count++;
    batch->appended += key.size + record.size;
    return segments_put(store->segments, incarnation, kind, key, record);
}

void store_batch_index(struct store_batch *batch, uint32_t incarnation, uint64_t hash, struct bytes key)
{
    (void)batch_change(batch, incarnation, hash, key);
}

void store_batch_delete(struct store_batch *batch, uint32_t incarnation, uint64_t hash, struct bytes key)
{
    batch_change(batch, incarnation, hash, key)->is_deleted = true;
}

void store_batch_put_expiry(struct store_batch *batch, int64_t expire_ms, uint32_t incarnation, uint64_t hash,
    struct bytes key)
{
    (void)batch_expiry_change(batch, expire_ms, incarnation, hash, key);
    batch->expiry_soonest = std::min(batch->expiry_soonest, expire_ms);
}

void store_batch_delete_expiry(struct store_batch *batch, int64_t expire_ms, uint32_t incarnation, uint64_t hash,
    struct bytes key)
{
    batch_expiry_change(batch, expire_ms, incarnation, hash, key)->is_deleted = true;
}

size_t store_batch_size(const struct store_batch *batch)
{
    return batch->text.size() + batch->appended;
}

uint64_t store_batch_count(const struct store_batch *batch)
{
    return batch->count;
}

/* A batch that failed gets into the runs again when it is repeated, which changes nothing. */
static void add_to_runs(struct store *store, const struct store_batch *batch)
{
    std::vector<struct key_change> changes;

    for (const auto &change : batch->changes)
        if (!change.has_record)
            changes.push_back({ Slice(batch->text.data() + change.at, change.key_size), change.is_deleted });
    if (!changes.empty())
        store->runs->add_changes(&changes);
}

/* LevelDB's part: empty if it has no keys. */
static void add_to_db(struct store *store, const struct store_batch *batch, leveldb::WriteBatch *db_batch)
{
    if (batch->has_records)
        store->has_db_keys = true;
    if (!store->has_db_keys)
        return;
    for (const auto &change : batch->changes) {
        Slice key(batch->text.data() + change.at, change.key_size);

        if (change.has_record)
            db_batch->Put(key, Slice(batch->text.data() + change.at + change.key_size, change.record_size));
        else
            db_batch->Delete(key);
    }
}

enum status store_write(struct store *store, struct store_batch *batch)
{
    enum status status = segments_write(store->segments);

    if (status != STATUS_OK)
        return status;
    if (!store->is_writable.load())
        return STATUS_CLOSED;
    status = status_of_leveldb(store->runs->room());
    if (status != STATUS_OK) {
        store->is_writable = false;
        return status;
    }
    add_to_runs(store, batch);
    /* Even if the write fails: store_reopen may find the batch in the log. */
    store->expiry_soonest = std::min(store->expiry_soonest, batch->expiry_soonest);
    leveldb::WriteBatch db_batch;

    add_to_db(store, batch, &db_batch);
    return store_write_numbered(store, &db_batch);
}
