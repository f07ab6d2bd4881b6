#include "engine/probe.h"

#include "base/clock.h"
#include "engine/memory.h"
#include "keyspace/scan_page.h"

enum { KEYS_A_PAGE = 500 };

/* False: not all can be read. */
static bool bring_pages(struct engine *engine, struct probe *probe) REQUIRES(probe->partition->lock);
static bool bring_pages(struct engine *engine, struct probe *probe)
{
    struct value_limits limits = { 0 };

    engine_limits(engine, &limits);
    keyspace_assert_locked(probe->keyspace);
    pages_attach(&probe->pages, probe->keyspace, &probe->value, &limits, clock_wall_ms());
    keyspace_assert_locked(probe->pages.pages.space);
    return pages_bring_all(&probe->pages, &probe->value);
}

/* In the order of locks. */
static void lock_both(const struct probe *probe) UNCHECKED_LOCKS;
static void lock_both(const struct probe *probe)
{
    if (probe->home != NULL && probe->home->index < probe->partition->index)
        partition_lock(probe->home);
    partition_lock(probe->partition);
    if (probe->home != NULL && probe->home->index > probe->partition->index)
        partition_lock(probe->home);
}

void probe_close(struct probe *probe)
{
    if (probe->home != NULL)
        partition_unlock(probe->home);
    partition_unlock(probe->partition);
}

/* With the partition locked: the key's entry, unless it has expired. */
static enum status find_entry(struct engine *engine, int db, uint64_t hash, struct bytes key, struct probe *probe) REQUIRES(probe->partition->lock);
static enum status find_entry(struct engine *engine, int db, uint64_t hash, struct bytes key, struct probe *probe)
{
    enum status status = STATUS_OK;
    uint32_t handle = 0;
    int64_t expire_ms;

    probe->keyspace = partition_keyspace_if(probe->partition, db);
    if (probe->keyspace == NULL)
        return STATUS_NOT_FOUND;
    handle = keyspace_find(probe->keyspace, hash, key);
    if (handle == 0 && engine->tier != NULL) {
        status = tier_load_in_place(engine->tier, probe->keyspace, hash, key);
        handle = keyspace_find(probe->keyspace, hash, key);
    }
    if (handle == 0)
        return status != STATUS_OK ? status : STATUS_NOT_FOUND;
    probe->entry = keyspace_entry(probe->keyspace, handle);
    probe->value = entry_value(probe->entry);
    expire_ms = entry_death_ms(probe->entry);
    return expire_ms >= 0 && expire_ms <= clock_wall_ms() ? STATUS_NOT_FOUND : STATUS_OK;
}

/* The partition that has the pages of the value that was found, if it is not locked; else NULL. */
static struct partition *lacking_home(const struct engine *engine, const struct probe *probe)
{
    struct partition *home;

    if (!value_is_paged(&probe->value))
        return NULL;
    home = &engine->partitions->partitions[pages_partition(engine->partitions, paged_of(&probe->value)->id)];
    return home != probe->partition && home != probe->home ? home : NULL;
}

enum status probe_open(struct engine *engine, int db, struct bytes key, struct probe *probe)
{
    uint64_t hash = key_hash(&engine->partitions->seed, key);
    struct partition *home;
    enum status status;

    *probe = (struct probe){ .partition = &engine->partitions->partitions[partition_index(engine->partitions, hash)] };
    for (;;) {
        lock_both(probe);
        status = find_entry(engine, db, hash, key, probe);
        home = status == STATUS_OK ? lacking_home(engine, probe) : NULL;
        if (home == NULL)
            break;
        probe_close(probe);
        probe->home = home;
    }
    if (status == STATUS_OK && value_is_paged(&probe->value) && !bring_pages(engine, probe))
        status = STATUS_IO;
    if (status != STATUS_OK)
        probe_close(probe);
    return status;
}

enum status probe_digest_value(struct engine *engine, int db, struct bytes key, uint8_t digest[PROBE_DIGEST_SIZE])
{
    struct probe probe;
    enum status status = probe_open(engine, db, key, &probe);

    memset(digest, 0, PROBE_DIGEST_SIZE);
    if (status == STATUS_OK) {
        value_digest(&probe.value, digest);
        probe_close(&probe);
    }
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

/* Mixes what belongs to one key, so that it makes a difference to which key a value belongs, then adds it to the sum. */
static void add_key(uint8_t sum[PROBE_DIGEST_SIZE], int db, struct bytes key, bool expires, const uint8_t value[PROBE_DIGEST_SIZE])
{
    struct buffer text = { 0 };

    buffer_append(&text, value, PROBE_DIGEST_SIZE);
    buffer_append_format(&text, "%d %d ", db, expires);
    buffer_append_bytes(&text, key);
    for (uint64_t part = 0; part < 3; part++) {
        struct hash_seed seed = { part, 0 };
        uint64_t hash = hash_bytes(&seed, buffer_bytes(&text));

        for (size_t i = 0; i < 8 && part * 8 + i < PROBE_DIGEST_SIZE; i++)
            sum[part * 8 + i] ^= (uint8_t)(hash >> i * 8);
    }
    buffer_release(&text);
}

static enum status digest_key(struct engine *engine, int db, struct bytes key, uint8_t sum[PROBE_DIGEST_SIZE])
{
    uint8_t digest[PROBE_DIGEST_SIZE] = { 0 };
    struct probe probe;
    enum status status = probe_open(engine, db, key, &probe);
    bool expires;

    if (status != STATUS_OK)
        return status == STATUS_NOT_FOUND ? STATUS_OK : status;
    value_digest(&probe.value, digest);
    expires = entry_expire_ms(probe.entry) >= 0;
    probe_close(&probe);
    add_key(sum, db, key, expires, digest);
    return STATUS_OK;
}

static enum status digest_database(struct engine *engine, const struct reader *reader, int db, uint8_t sum[PROBE_DIGEST_SIZE])
{
    enum status status = STATUS_OK;
    uint64_t cursor = 0;

    do {
        struct scan_page page = { 0 };

        if (memory_is_short(engine))
            memory_wait(engine);
        tier_scan(engine->tier, engine->partitions, reader, db, cursor, KEYS_A_PAGE, &page);
        status = page.status;
        for (size_t i = 0; i < page.count && status == STATUS_OK; i++)
            status = digest_key(engine, db, scan_page_key(&page, i), sum);
        cursor = page.cursor;
        scan_page_release(&page);
    } while (cursor != 0 && status == STATUS_OK);
    return status;
}

enum status probe_digest_all(struct engine *engine, const struct claim *as, uint8_t digest[PROBE_DIGEST_SIZE])
{
    struct reader reader = { .as = as, .may_block = true };
    enum status status = STATUS_OK;

    memset(digest, 0, PROBE_DIGEST_SIZE);
    for (int db = 0; db < engine->partitions->db_count && status == STATUS_OK; db++)
        status = digest_database(engine, &reader, db, digest);
    return status;
}
