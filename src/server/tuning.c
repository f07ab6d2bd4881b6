#include "server/tuning.h"

#include "base/message.h"
#include "engine/event.h"
#include "engine/parking.h"
#include "engine/role.h"
#include "lifecycle/aof_switch.h"
#include "lifecycle/opening.h"
#include "replication/follow.h"
#include "replication/primary.h"

/* Rows whose number is copied into the tier's settings. */
struct tier_row {
    enum config_id id;
    size_t offset;
};

static const struct tier_row tier_rows[] = {
    { CONFIG_MAXMEMORY, offsetof(struct tier_settings, memory_max) },
    { CONFIG_TIER_HIGH_WATERMARK, offsetof(struct tier_settings, high_percent) },
    { CONFIG_TIER_LOW_WATERMARK, offsetof(struct tier_settings, low_percent) },
    { CONFIG_TIER_BATCH_SIZE, offsetof(struct tier_settings, batch_size) },
    { CONFIG_TIER_MAX_SIZE, offsetof(struct tier_settings, store_size_max) },
    { CONFIG_TIER_FULL_POLICY, offsetof(struct tier_settings, full_policy) },
    { CONFIG_TIER_SPACE_TARGET, offsetof(struct tier_settings, space_target) },
    { CONFIG_LFU_LOG_FACTOR, offsetof(struct tier_settings, lfu_log_factor) },
    { CONFIG_LFU_DECAY_TIME, offsetof(struct tier_settings, lfu_decay_minutes) },
    { CONFIG_TIER_LOAD_THREADS, offsetof(struct tier_settings, load_threads) },
    { CONFIG_TIER_ADVISE, offsetof(struct tier_settings, advise) },
    { CONFIG_TIER_WARMUP, offsetof(struct tier_settings, warmup) },
    { CONFIG_TIER_WARMUP_RATE, offsetof(struct tier_settings, warmup_rate) },
    { CONFIG_TIER_COMPRESSION, offsetof(struct tier_settings, compression) },
    { CONFIG_TIER_PACKED_SHARE, offsetof(struct tier_settings, packed_share) },
    { CONFIG_TIER_DICTIONARY_AFTER, offsetof(struct tier_settings, dictionary_after) },
};

static const enum config_id role_rows[] = {
    CONFIG_REPLICA_READ_ONLY, CONFIG_REPLICA_SERVE_STALE_DATA, CONFIG_REPLICA_IGNORE_DISK_WRITE_ERRORS, CONFIG_MIN_REPLICAS_TO_WRITE,
    CONFIG_MIN_REPLICAS_MAX_LAG,
};

enum {
    TIER_ROWS = sizeof(tier_rows) / sizeof(tier_rows[0]),
    WRITE_BUFFER_MIN = 256 * 1024,
    MIB = 1 << 20,
    KEYSPACE_SIZE = 1536,           /* bytes of a database in a partition, with no key in RAM; measured */
};

static const uint64_t CACHE_MAX = UINT64_C(1) << 50;        /* bytes: more is nonsense, and would overflow */

static void tier_number(struct engine *engine, const struct tier_row *row)
{
    if (engine->tier != NULL)
        *(_Atomic int64_t *)((char *)tier_settings(engine->tier) + row->offset) = config_number(engine->config, row->id);
}

static size_t write_buffer_at(const struct config *config, int64_t limit)
{
    int64_t size = config_number(config, CONFIG_TIER_WRITE_BUFFER);

    if (limit > 0 && size > limit / 16)
        size = limit / 16;
    return (size_t)(size > WRITE_BUFFER_MIN ? size : WRITE_BUFFER_MIN);
}

size_t tuning_write_buffer(const struct config *config)
{
    return write_buffer_at(config, config_number(config, CONFIG_MAXMEMORY));
}

/* Bytes: the smallest maxmemory, in whole MiB, at which what the server needs for itself fits below tier-low-watermark: what it used before
 * there was data, write buffers, block cache, a batch and the runs of keys that are made of it, and one database in all partitions. What grows with
 * the data (the record map, files of the store, more databases) is not in it. After info_start. */
static uint64_t tuning_memory_min(const struct engine *engine)
{
    const struct config *config = engine->config;
    uint64_t low = (uint64_t)config_number(config, CONFIG_TIER_LOW_WATERMARK);
    uint64_t cache = (uint64_t)config_number(config, CONFIG_TIER_BLOCK_CACHE);
    uint64_t fixed = engine->memory.startup + (cache < CACHE_MAX ? cache : CACHE_MAX) +
        2 * (uint64_t)config_number(config, CONFIG_TIER_BATCH_SIZE) + (uint64_t)engine->partitions->count * KEYSPACE_SIZE;
    uint64_t limit = MIB, needed;

    for (;;) {
        needed = fixed + 2 * write_buffer_at(config, (int64_t)limit);
        if (needed <= limit / 100 * low)
            return limit;
        /* The write buffers grow with the limit, but only up to tier-write-buffer: so this ends. */
        needed = needed / low * 100;
        limit = (needed > limit ? needed : limit) / MIB * MIB + MIB;
    }
}

void tuning_look_at_memory(struct engine *engine)
{
    uint64_t limit = (uint64_t)config_number(engine->config, CONFIG_MAXMEMORY), least = tuning_memory_min(engine);

    if (limit > 0 && limit < least)
        log_write(engine->log, LOG_LEVEL_WARNING, "maxmemory %llu is less than the server needs for itself: hardly any key can stay in RAM, and "
            "writes may be refused. With these settings the smallest sensible value is %llumb.", (unsigned long long)limit,
            (unsigned long long)(least / MIB));
}

static void tier_rest(struct engine *engine)
{
    struct tier_settings *settings = tier_settings(engine->tier);

    settings->enabled = config_number(engine->config, CONFIG_TIER_ENABLED) != 0;
    settings->write_buffer_size = (int64_t)tuning_write_buffer(engine->config);
}

static bool tier_changed(void *context, enum config_id id, struct message *message)
{
    struct engine *engine = context;

    (void)message;
    for (int i = 0; i < TIER_ROWS; i++) {
        if (tier_rows[i].id == id)
            tier_number(engine, &tier_rows[i]);
    }
    if (engine->tier != NULL) {
        tier_rest(engine);
        tier_nudge(engine->tier);
    }
    if (id == CONFIG_MAXMEMORY) {
        tuning_look_at_memory(engine);
        client_memory_relieve_all(engine);
        parking_notify(engine, PARKED_FOR_REPLIES);     /* replies and messages may take shares of it */
        parking_notify(engine, PARKED_FOR_DELIVERY);
    }
    return true;
}

/* Redis changes these while it runs, Kelvin can't yet: better an error than an OK that does nothing. */
static bool only_at_start(void *context, enum config_id id, struct message *message)
{
    (void)context;
    (void)id;
    message_set(message, "Kelvin can change this at the start only");
    return false;
}

static bool log_level_changed(void *context, enum config_id id, struct message *message)
{
    struct engine *engine = context;

    (void)message;
    log_set_level(engine->log, (enum log_level)config_number(engine->config, id));
    return true;
}

static bool fsync_changed(void *context, enum config_id id, struct message *message)
{
    static const enum aof_fsync policies[] = {
        [CONFIG_FSYNC_EVERYSEC] = AOF_FSYNC_EVERYSEC, [CONFIG_FSYNC_ALWAYS] = AOF_FSYNC_ALWAYS, [CONFIG_FSYNC_NO] = AOF_FSYNC_NO,
    };
    struct engine *engine = context;
    struct aof *aof = engine->aof;

    (void)message;
    if (aof != NULL)
        aof_set_fsync(aof, policies[config_number(engine->config, id)]);
    return true;
}

static bool appendonly_changed(void *context, enum config_id id, struct message *message)
{
    struct engine *engine = context;

    if (engine->state != ENGINE_READY) {
        message_set(message, engine->state == ENGINE_STOPPING ? "The server is ending" : "The data is still being loaded");
        return false;
    }
    if (config_number(engine->config, id) && !opening_log_fits(engine->config, message))
        return false;
    if (aof_switch_start(engine->lifecycle.aof_switch, config_number(engine->config, id) != 0))
        return true;
    message_set(message, "could not create a thread. Check server logs.");
    return false;
}

static bool clients_changed(void *context, enum config_id id, struct message *message)
{
    (void)id;
    (void)message;
    client_memory_relieve_all(context);
    return true;
}

static bool role_settings_changed(void *context, enum config_id id, struct message *message)
{
    (void)id;
    (void)message;
    role_refresh(context);
    return true;
}

static bool events_changed(void *context, enum config_id id, struct message *message)
{
    (void)id;
    (void)message;
    event_configure(context);
    return true;
}

/* Both sides of replication have copies of these. */
static const enum config_id replication_rows[] = {
    CONFIG_REPL_BACKLOG_SIZE, CONFIG_REPL_BACKLOG_DISK_SIZE, CONFIG_MASTERAUTH, CONFIG_MASTERUSER, CONFIG_REPL_TIMEOUT, CONFIG_REPLICA_ANNOUNCE_IP,
    CONFIG_REPLICA_ANNOUNCE_PORT, CONFIG_BIND_SOURCE_ADDR, CONFIG_TLS_REPLICATION, CONFIG_REPL_IMAGE_SYNC,
};

static bool replication_changed(void *context, enum config_id id, struct message *message)
{
    struct engine *engine = context;

    if (id == CONFIG_TLS_REPLICATION && config_number(engine->config, id) != 0 && !follow_has_tls(engine->replication.follow)) {
        message_set(message, "Unable to update TLS configuration. Check server logs.");
        return false;
    }
    if (id == CONFIG_REPL_BACKLOG_SIZE || id == CONFIG_REPL_BACKLOG_DISK_SIZE)
        primary_configure(engine);
    else
        follow_configure(engine->replication.follow);
    return true;
}

void tuning_apply(struct engine *engine)
{
    for (int i = 0; i < TIER_ROWS; i++) {
        tier_number(engine, &tier_rows[i]);
        config_on_change(engine->config, tier_rows[i].id, tier_changed, engine);
    }
    if (engine->tier != NULL)
        tier_rest(engine);
    config_on_change(engine->config, CONFIG_TIER_ENABLED, tier_changed, engine);
    config_on_change(engine->config, CONFIG_TIER_WRITE_BUFFER, tier_changed, engine);
    config_on_change(engine->config, CONFIG_LOGLEVEL, log_level_changed, engine);
    config_on_change(engine->config, CONFIG_APPENDFSYNC, fsync_changed, engine);
    event_configure(engine);
    config_on_change(engine->config, CONFIG_NOTIFY_KEYSPACE_EVENTS, events_changed, engine);
    config_on_change(engine->config, CONFIG_APPENDONLY, appendonly_changed, engine);
    config_on_change(engine->config, CONFIG_MAXMEMORY_CLIENTS, clients_changed, engine);
    config_on_change(engine->config, CONFIG_DIR, only_at_start, engine);
    config_on_change(engine->config, CONFIG_TLS_CLUSTER, only_at_start, engine);
    for (size_t i = 0; i < sizeof(role_rows) / sizeof(role_rows[0]); i++)
        config_on_change(engine->config, role_rows[i], role_settings_changed, engine);
    for (size_t i = 0; i < sizeof(replication_rows) / sizeof(replication_rows[0]); i++)
        config_on_change(engine->config, replication_rows[i], replication_changed, engine);
    config_refuse_absent(engine->config);
}
