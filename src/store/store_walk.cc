#include "store/store_walk.h"

#include <errno.h>

#include "base/message.h"
#include "store/store_body.h"

using leveldb::Slice;

static const size_t batch_size_max = 1 << 20;

static struct bytes bytes_of_slice(const Slice &slice, size_t from)
{
    return bytes_of(slice.data() + from, slice.size() - from);
}

static struct store_item item_of(const Slice &key)
{
    struct store_item item = {};

    item.key = bytes_of_slice(key, 0);
    item.kind = STORE_STRANGE;
    if (key.size() < STORE_KEY_PREFIX)
        return item;
    item.incarnation = key_u32(key.data());
    if (item.incarnation == STORE_INCARNATION_EXPIRY && key.size() >= STORE_EXPIRY_PREFIX) {
        item.kind = STORE_EXPIRY;
        item.expire_ms = static_cast<int64_t>(key_u64(key.data() + 4));
        item.incarnation = key_u32(key.data() + 12);
        item.hash = key_u64(key.data() + 16);
        item.key = bytes_of_slice(key, STORE_EXPIRY_PREFIX);
    } else if (key_is_of_database(item.incarnation)) {
        item.kind = STORE_RECORD;
        item.hash = key_u64(key.data() + 4);
        item.key = bytes_of_slice(key, STORE_KEY_PREFIX);
    }
    return item;
}

enum status store_walk(struct store *store, store_found *found, void *context)
{
    store_keys keys(store);

    for (keys.go_to(Slice()); keys.has_key(); keys.go_on()) {
        struct store_item item = item_of(keys.key());

        if (!found(context, &item))
            return STATUS_OK;
    }
    return keys.state() == STATUS_NOT_FOUND ? STATUS_OK : keys.state();
}

/* ---- rewriting ---- */

namespace {

/* Keys on their way to another store. */
struct rewriting {
    struct store *to;
    struct store_batch *batch;
    enum status status;
};

}  // namespace

static void write_batch(struct rewriting *rewriting)
{
    if (rewriting->status == STATUS_OK)
        rewriting->status = store_write(rewriting->to, rewriting->batch);
    store_batch_clear(rewriting->batch);
}

static void add_item(struct rewriting *rewriting, const struct store_item &item)
{
    if (item.kind == STORE_EXPIRY)
        store_batch_put_expiry(rewriting->batch, item.expire_ms, item.incarnation, item.hash, item.key);
    else
        store_batch_index(rewriting->batch, item.incarnation, item.hash, item.key);
    if (store_batch_size(rewriting->batch) >= batch_size_max)
        write_batch(rewriting);
}

static enum status copy_all(struct store *from, struct store *to, store_found *keep, store_more *more, void *context)
{
    struct rewriting rewriting = { to, store_batch_create(), STATUS_OK };
    store_keys keys(from);
    struct store_item item = {};

    for (keys.go_to(Slice()); rewriting.status == STATUS_OK && keys.has_key(); keys.go_on()) {
        item = item_of(keys.key());
        if (item.kind != STORE_STRANGE && keep(context, &item))
            add_item(&rewriting, item);
    }
    for (item = {}; more != nullptr && rewriting.status == STATUS_OK && more(context, &item); item = {})
        add_item(&rewriting, item);
    write_batch(&rewriting);
    store_batch_destroy(rewriting.batch);
    return rewriting.status;
}

enum status store_rewrite(struct store *from, const char *to, uint64_t number, store_found *keep, store_more *more, void *context,
    struct message *message)
{
    struct store_options options = {};
    struct store *store;
    std::shared_ptr<const key_run_list> runs;
    enum status status;

    options.dir = to;
    status = store_open(&options, &store, message);
    if (status != STATUS_OK)
        return status;
    store->seed = from->seed;
    store->is_by_slot = from->is_by_slot;
    status = copy_all(from, store, keep, more, context);
    store->number = number;
    store->runs->end_work();
    if (status == STATUS_OK)
        status = status_of_leveldb(store->runs->save(&runs));
    if (status == STATUS_OK)
        status = meta_write(store->env->disk, to, store_meta_of(store, *runs), message);
    else
        message_set(message, "can't write the store '%.150s': %s", to, status_name(status));
    runs.reset();
    store_close(store);
    if (status != STATUS_OK)
        (void)store_remove(to, nullptr);
    return status;
}
