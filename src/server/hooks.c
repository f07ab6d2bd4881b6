#include "server/hooks.h"

#include "config/limits.h"
#include "engine/event.h"
#include "engine/lazy_free.h"
#include "engine/memory.h"
#include "engine/redirect.h"
#include "engine/watch.h"
#include "lifecycle/lifecycle.h"
#include "lifecycle/rewrite.h"
#include "replication/follow.h"
#include "replication/migrate_cache.h"
#include "replication/primary.h"
#include "server/advice.h"

static uint64_t hook_memory_used(void *context)
{
    struct engine *engine = context;

    return memory_used(engine) + memory_set_aside(engine) + memory_wanted(engine);
}

void hook_cron(struct engine *engine)
{
    lifecycle_cron(engine);
    primary_cron(engine);
    follow_cron(engine->replication.follow);
    advice_cron(engine);
    migrate_cache_cron(engine->replication.migrate_cache);
}

static struct worker *hook_wake(void *context, struct client *client)
{
    (void)context;
    return client_enqueue(client);
}

static void hook_ring(void *context, struct worker *worker)
{
    (void)context;
    mailbox_ring(&worker->mailbox);
}

static void hook_memory_freed(void *context)
{
    struct engine *engine = context;

    parking_notify(engine, PARKED_FOR_MEMORY);
    parking_notify(engine, PARKED_FOR_WRITER);
    waiting_bump(&engine->waiting);
}

static void hook_expired(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum event event)
{
    struct engine *engine = context;
    struct bytes words[2] = { BYTES("DEL"), key };

    if (history_is_on(&engine->history))
        partition_note_change(keyspace->partition, history_append(&engine->history, keyspace->db, words, 2));
    event_note_deleted(engine, keyspace, hash, key, event);
    engine->dirty++;
}

static bool hook_is_received(void *context, uint64_t hash)
{
    const struct engine *engine = context;

    return redirect_receives(engine->redirect) && redirect_state(engine->redirect, hash) == SLOT_RECEIVED;
}

static void hook_free_keyspace(void *context, struct keyspace *keyspace)
{
    struct engine *engine = context;

    lazy_free_keyspace(engine->lazy_free, keyspace);
}

static void hook_free_later(void *context, struct value value)
{
    struct engine *engine = context;

    lazy_free_value(engine->lazy_free, value);
}

static void hook_log(void *context, const char *text)
{
    struct engine *engine = context;

    log_write(engine->log, LOG_LEVEL_WARNING, "%s", text);
}

static void hook_notice(void *context, const char *text)
{
    struct engine *engine = context;

    log_write(engine->log, LOG_LEVEL_NOTICE, "%s", text);
}

static bool hook_wants_checkpoint(void *context)
{
    struct engine *engine = context;

    if (engine->aof == NULL)
        return false;
    if (rewrite_is_running(engine->lifecycle.rewrite) || rewrite_failed_lately(engine->lifecycle.rewrite))
        return true;
    log_write(engine->log, LOG_LEVEL_NOTICE, "The cold tier is full: a checkpoint frees what only the last one has");
    rewrite_schedule(engine->lifecycle.rewrite);
    return true;
}

static bool hook_log_lacks_room(void *context)
{
    struct engine *engine = context;
    struct aof *aof = engine->aof;

    return aof != NULL && aof_error(aof) == STATUS_NO_SPACE;
}

static void hook_disk_is_full(void *context, bool is_full)
{
    struct engine *engine = context;

    engine->disk_is_full = is_full;
    if (engine->aof != NULL)
        log_write(engine->log, LOG_LEVEL_WARNING, is_full ? "The disk is full: only commands that remove data are admitted until there is room"
            : "The disk has room again: all writes are admitted");
}

static void hook_event(void *context, const struct key *key, enum event event)
{
    event_note(context, key->call, key->keyspace, key->hash, key->name, event);
}

static bool hook_load_in_place(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct engine *engine = context;

    return engine->tier == NULL || tier_load_in_place(engine->tier, keyspace, hash, key) == STATUS_OK;
}

static void hook_unlatch(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct engine *engine = context;

    tier_unlatch(engine->tier, keyspace, hash, key);
}

static void hook_used(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    (void)context;
    tier_note_used(keyspace, hash, key);
}

static uint64_t hook_busy_us(void *context)
{
    const struct engine *engine = context;

    return engine->state == ENGINE_READY ? engine_stat(engine, STAT_TURN_US) : 0;
}

static void hook_limits(void *context, struct value_limits *limits)
{
    struct engine *engine = context;

    limits_read(engine->config, limits);
}

struct tier_hooks hooks_of_tier(struct engine *engine)
{
    return (struct tier_hooks){
        .context = engine,
        .memory_used = hook_memory_used,
        .wake = hook_wake,
        .ring = hook_ring,
        .memory_freed = hook_memory_freed,
        .expired = hook_expired,
        .is_received = hook_is_received,
        .meter = engine->meter,
        .notice = hook_notice,
        .free_keyspace = hook_free_keyspace,
        .free_value = hook_free_later,
        .log = hook_log,
        .wants_checkpoint = hook_wants_checkpoint,
        .log_lacks_room = hook_log_lacks_room,
        .disk_is_full = hook_disk_is_full,
        .busy_us = hook_busy_us,
        .limits = hook_limits,
    };
}

struct key_hooks hooks_of_keys(struct engine *engine)
{
    return (struct key_hooks){ engine, hook_event, hook_free_later, hook_load_in_place, hook_unlatch, hook_used };
}
