#include "store/store.h"

#include "store/store_body.h"

extern "C" {
#include "base/check.h"
}

using leveldb::Slice;
using leveldb::Status;

store_keys::store_keys(struct store *store) : runs(store->runs->view())
{
}

void store_keys::skip_tombstones()
{
    while (merge.is_valid() && merge.value() == KEY_RUN_TOMBSTONE)
        merge.next();
}

void store_keys::go_to(const Slice &from)
{
    for (size_t i = is_open ? 0 : runs->size(); i-- > 0;)
        merge.add(std::unique_ptr<leveldb::Iterator>((*runs)[i]->scan(true)));
    is_open = true;
    merge.seek(from);
    skip_tombstones();
}

void store_keys::go_on()
{
    merge.next();
    skip_tombstones();
}

enum status store_keys::state() const
{
    const Status &status = merge.status();

    if (status.ok())
        return merge.is_valid() ? STATUS_OK : STATUS_NOT_FOUND;
    return status.IsNotFound() ? STATUS_CORRUPT : status_of_leveldb(status);
}

struct store_iterator {
    store_iterator(struct store *store, uint32_t its_incarnation, uint64_t from_hash)
        : keys(store), incarnation(its_incarnation), start(key_prefix(its_incarnation, from_hash))
    {
        if (store->runs->is_buried(incarnation))
            ended = STATUS_NOT_FOUND;
    }

    store_keys keys;
    uint32_t incarnation;
    std::string start;
    bool is_started = false;
    enum status ended = STATUS_OK;                  /* what every further call returns */
};

struct store_iterator *store_scan(struct store *store, uint32_t incarnation, uint64_t from_hash)
{
    CHECK(incarnation != STORE_INCARNATION_META && incarnation != STORE_INCARNATION_EXPIRY);
    return new store_iterator(store, incarnation, from_hash);
}

enum status store_next(struct store_iterator *iterator, struct store_record *record)
{
    Slice key;

    if (iterator->ended != STATUS_OK)
        return iterator->ended;
    if (iterator->is_started)
        iterator->keys.go_on();
    else
        iterator->keys.go_to(iterator->start);
    iterator->is_started = true;
    iterator->ended = iterator->keys.state();
    if (iterator->ended != STATUS_OK)
        return iterator->ended;
    key = iterator->keys.key();
    if (key.size() < STORE_KEY_PREFIX || key_u32(key.data()) != iterator->incarnation) {
        iterator->ended = STATUS_NOT_FOUND;
        return iterator->ended;
    }
    record->hash = key_u64(key.data() + 4);
    record->key = bytes_of(key.data() + STORE_KEY_PREFIX, key.size() - STORE_KEY_PREFIX);
    return STATUS_OK;
}

void store_scan_close(struct store_iterator *iterator)
{
    delete iterator;
}

void store_expiry_seek(struct buffer *from, int64_t expire_ms)
{
    std::string start;

    key_append_u32(&start, STORE_INCARNATION_EXPIRY);
    key_append_u64(&start, expire_ms > 0 ? static_cast<uint64_t>(expire_ms) : 0);
    from->size = 0;
    buffer_append(from, start.data(), start.size());
}

int64_t store_expiry_soonest(struct store *store)
{
    int64_t soonest = store->expiry_soonest;

    store->expiry_soonest = INT64_MAX;
    return soonest;
}

enum status store_expired(struct store *store, struct buffer *from, int64_t until_ms, int count, store_expiry_found *found, void *context)
{
    store_keys keys(store);

    if (from->size == 0)
        store_expiry_seek(from, 0);
    for (keys.go_to(Slice(from->data, from->size)); count > 0; keys.go_on(), count--) {
        enum status status = keys.state();
        Slice key;
        int64_t expire_ms;

        if (status == STATUS_NOT_FOUND)
            return STATUS_OK;
        if (status != STATUS_OK)
            return status;
        key = keys.key();
        if (key.size() < STORE_EXPIRY_PREFIX)
            return STATUS_CORRUPT;
        expire_ms = static_cast<int64_t>(key_u64(key.data() + 4));
        if (expire_ms > until_ms)
            return STATUS_OK;
        found(context, expire_ms, key_u32(key.data() + 12), key_u64(key.data() + 16),
            bytes_of(key.data() + STORE_EXPIRY_PREFIX, key.size() - STORE_EXPIRY_PREFIX));
        from->size = 0;
        buffer_append(from, key.data(), key.size());
        buffer_append_u8(from, 0);      /* the next possible key */
    }
    return STATUS_OK;
}

enum status store_incarnation(struct store *store, uint32_t from, uint32_t *incarnation)
{
    store_keys keys(store);

    CHECK(from != STORE_INCARNATION_META);
    for (;; from = *incarnation + 1) {
        keys.go_to(key_prefix(from, 0));
        if (keys.state() != STATUS_OK)
            return keys.state();
        if (keys.key().size() < STORE_KEY_PREFIX)
            return STATUS_CORRUPT;
        *incarnation = key_u32(keys.key().data());
        if (*incarnation == STORE_INCARNATION_EXPIRY)
            return STATUS_NOT_FOUND;
        if (!store->runs->is_buried(*incarnation))
            return STATUS_OK;
    }
}

void store_purge(struct store *store, uint32_t incarnation)
{
    CHECK(key_is_of_database(incarnation));
    store->runs->bury(incarnation);
}
