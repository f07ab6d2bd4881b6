#include <algorithm>

#include "store/store.h"
#include "store/store_body.h"

extern "C" {
#include "base/check.h"
}

using leveldb::Slice;

static const size_t BATCH_KEPT_MAX = 4 << 20;       /* bytes: a larger batch gives its memory back when it is cleared */

struct store_batch {
    struct change {
        size_t at, key_size;    /* of the store key in `text` */
        bool is_deleted;        /* otherwise it is indexed */
    };
    std::vector<struct change> changes;
    std::string text;
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
    batch->count = 0;
    batch->appended = 0;
    batch->expiry_soonest = INT64_MAX;
}

static struct store_batch::change *batch_change(struct store_batch *batch, uint32_t incarnation, uint64_t hash, struct bytes key)
{
    CHECK(key_is_of_database(incarnation));
    batch->changes.push_back({ batch->text.size(), STORE_KEY_PREFIX + key.size, false });
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
    batch->changes.push_back({ batch->text.size(), STORE_EXPIRY_PREFIX + key.size, false });
    key_append_u32(&batch->text, STORE_INCARNATION_EXPIRY);
    key_append_u64(&batch->text, expire_ms > 0 ? static_cast<uint64_t>(expire_ms) : 0);
    key_append_u32(&batch->text, incarnation);
    key_append_u64(&batch->text, hash);
    batch->text.append(key.data, key.size);
    batch->count++;
    return &batch->changes.back();
}

uint64_t store_batch_append(struct store *store, struct store_batch *batch, unsigned tail, uint32_t incarnation, unsigned kind, struct bytes key,
    struct bytes record, uint32_t dictionary)
{
    batch->count++;
    batch->appended += key.size + record.size;
    return segments_put(store->segments, tail, incarnation, kind, key, record, dictionary);
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

static void add_to_runs(struct store *store, const struct store_batch *batch)
{
    std::vector<struct key_change> changes;

    for (const auto &change : batch->changes)
        changes.push_back({ Slice(batch->text.data() + change.at, change.key_size), change.is_deleted });
    if (!changes.empty())
        store->runs->add_changes(&changes);
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
    store->expiry_soonest = std::min(store->expiry_soonest, batch->expiry_soonest);
    store->number++;
    return STATUS_OK;
}
