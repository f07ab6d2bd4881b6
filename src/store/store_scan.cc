#include "store/store.h"

#include "store/store_body.h"

extern "C" {
#include "base/check.h"
}

using leveldb::Slice;
using leveldb::Status;

struct store_iterator {
    store_iterator(struct store *store, uint32_t its_incarnation, uint64_t from_hash)
        : user(store), incarnation(its_incarnation), start(key_prefix(its_incarnation, from_hash))
    {
        pthread_rwlock_rdlock(&store->lock);
        if (store->db != nullptr)
            iterator.reset(store->db->NewIterator(read_options_scan()));
        else
            ended = store->down_status;
        pthread_rwlock_unlock(&store->lock);
    }

    store_user user;                                /* declared first, so destroyed last: after `iterator` */
    std::unique_ptr<leveldb::Iterator> iterator;
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

/* LevelDB's iterator skips blocks that it can't read and stays valid, so its status is checked first. */
static enum status iterator_status(const leveldb::Iterator &iterator)
{
    Status status = iterator.status();

    if (status.ok())
        return iterator.Valid() ? STATUS_OK : STATUS_NOT_FOUND;
    return status.IsNotFound() ? STATUS_CORRUPT : status_of_leveldb(status);
}

enum status store_next(struct store_iterator *iterator, struct store_record *record)
{
    Slice key, value;

    if (iterator->ended != STATUS_OK)
        return iterator->ended;
    if (iterator->is_started)
        iterator->iterator->Next();
    else
        iterator->iterator->Seek(iterator->start);
    iterator->is_started = true;
    iterator->ended = iterator_status(*iterator->iterator);
    if (iterator->ended != STATUS_OK)
        return iterator->ended;
    key = iterator->iterator->key();
    if (key.size() < STORE_KEY_PREFIX || key_u32(key.data()) != iterator->incarnation) {
        iterator->ended = STATUS_NOT_FOUND;
        return iterator->ended;
    }
    value = iterator->iterator->value();
    record->hash = key_u64(key.data() + 4);
    record->key = bytes_of(key.data() + STORE_KEY_PREFIX, key.size() - STORE_KEY_PREFIX);
    record->record = bytes_of(value.data(), value.size());
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
    store_user user(store);
    std::unique_ptr<leveldb::Iterator> iterator;
    enum status status;

    pthread_rwlock_rdlock(&store->lock);
    if (store->db != nullptr)
        iterator.reset(store->db->NewIterator(read_options_scan()));
    status = store->down_status;
    pthread_rwlock_unlock(&store->lock);
    if (iterator == nullptr)
        return status;
    if (from->size == 0)
        store_expiry_seek(from, 0);
    for (iterator->Seek(Slice(from->data, from->size)); count > 0; iterator->Next(), count--) {
        Slice key;
        int64_t expire_ms;

        status = iterator_status(*iterator);
        if (status == STATUS_NOT_FOUND)
            return STATUS_OK;
        if (status != STATUS_OK)
            return status;
        key = iterator->key();
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
    store_user user(store);
    std::unique_ptr<leveldb::Iterator> iterator;
    enum status status;

    pthread_rwlock_rdlock(&store->lock);
    if (store->db != nullptr)
        iterator.reset(store->db->NewIterator(read_options_scan()));
    status = store->down_status;
    pthread_rwlock_unlock(&store->lock);
    if (iterator == nullptr)
        return status;
    CHECK(from != STORE_INCARNATION_META);
    iterator->Seek(key_prefix(from, 0));
    status = iterator_status(*iterator);
    if (status != STATUS_OK)
        return status;
    if (iterator->key().size() < STORE_KEY_PREFIX)
        return STATUS_CORRUPT;
    *incarnation = key_u32(iterator->key().data());
    return *incarnation == STORE_INCARNATION_EXPIRY ? STATUS_NOT_FOUND : STATUS_OK;
}

/* The bytes of one step: of its batch, which is in memory three times, and of the records that it deletes, which the iterator reads. */
static const size_t purge_size_max = 4 << 20, purge_read_max = 16 << 20;

static void span_extend(struct store_span *span, const Slice &key, uint64_t size)
{
    uint32_t incarnation = key_u32(key.data());
    uint64_t hash = key_u64(key.data() + 4);

    if (span->size == 0 || incarnation < span->first_incarnation ||
        (incarnation == span->first_incarnation && hash < span->first_hash)) {
        span->first_incarnation = incarnation;
        span->first_hash = hash;
    }
    if (span->size == 0 || incarnation > span->last_incarnation ||
        (incarnation == span->last_incarnation && hash > span->last_hash)) {
        span->last_incarnation = incarnation;
        span->last_hash = hash;
    }
    span->size += size;
}

void store_span_add_expiry(struct store_span *span, int64_t expire_ms, struct bytes key)
{
    span_extend(span, key_prefix(STORE_INCARNATION_EXPIRY, static_cast<uint64_t>(expire_ms)), STORE_EXPIRY_PREFIX + key.size);
}

enum status store_purge(struct store *store, uint32_t incarnation, uint64_t count, struct store_span *deleted, bool *done)
{
    leveldb::WriteBatch batch;
    struct store_span span = deleted != nullptr ? *deleted : store_span {};
    uint64_t taken = 0, read = 0;
    std::string last;
    enum status status;

    *done = false;
    CHECK(incarnation != STORE_INCARNATION_META && incarnation != STORE_INCARNATION_EXPIRY);
    if (!store->is_writable.load())
        return STATUS_CLOSED;
    if (store->purge_incarnation != incarnation) {
        store->purge_incarnation = incarnation;
        store->purge_last = key_prefix(incarnation, 0);
    }
    /* From the last key on: otherwise LevelDB would have to skip the deleted keys of all previous calls. */
    std::unique_ptr<leveldb::Iterator> iterator(store->db->NewIterator(read_options_scan()));
    for (iterator->Seek(store->purge_last); taken < count && batch.ApproximateSize() < purge_size_max && read < purge_read_max;
         iterator->Next()) {
        status = iterator_status(*iterator);
        if (status != STATUS_OK && status != STATUS_NOT_FOUND)
            return status;
        if (status == STATUS_NOT_FOUND || key_u32(iterator->key().data()) != incarnation) {
            *done = true;
            break;
        }
        last = iterator->key().ToString();
        batch.Delete(last);
        span_extend(&span, last, last.size() + iterator->value().size());
        read += last.size() + iterator->value().size();
        taken++;
    }
    iterator.reset();
    if (taken > 0) {
        status = store_write_numbered(store, &batch);
        if (status != STATUS_OK) {
            *done = false;
            return status;
        }
        store->purge_last = last;
        if (deleted != nullptr)
            *deleted = span;
    }
    if (*done)
        store->purge_incarnation = 0;
    return STATUS_OK;
}

enum status store_compact(struct store *store, uint32_t incarnation)
{
    struct store_span span = { incarnation, incarnation, 0, UINT64_MAX, 0 };

    return store_compact_span(store, &span);
}

static std::string key_after(uint32_t incarnation, uint64_t hash)
{
    return hash < UINT64_MAX ? key_prefix(incarnation, hash + 1) : key_prefix(incarnation + 1, 0);
}

enum status store_compact_span(struct store *store, const struct store_span *span)
{
    store_user user(store);
    std::string from = key_prefix(span->first_incarnation, span->first_hash);
    std::string until = key_after(span->last_incarnation, span->last_hash);
    Slice from_key(from), until_key(until);
    leveldb::WriteBatch nothing;
    leveldb::DB *db;
    Status status;

    CHECK(span->first_incarnation != STORE_INCARNATION_META);
    pthread_rwlock_rdlock(&store->lock);
    db = store->db.get();           /* stays open: store_reopen waits for `user` */
    pthread_rwlock_unlock(&store->lock);
    if (db == nullptr || !store->is_writable.load())
        return STATUS_CLOSED;
    store->env->open_gate(db);
    db->CompactRange(&from_key, &until_key);
    store->env->close_gate(db);
    /* CompactRange returns no status. But after a background error LevelDB refuses all writes, even an empty one. */
    status = db->Write(leveldb::WriteOptions(), &nothing);
    if (status.ok())
        return STATUS_OK;
    store->is_writable = false;
    return status_of_leveldb(status);
}
