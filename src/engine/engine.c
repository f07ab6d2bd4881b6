#include "engine/engine.h"

#include <ctype.h>

#include "base/clock.h"
#include "call/secrets.h"
#include "engine/blocking.h"
#include "engine/internal.h"
#include "engine/lazy_free.h"
#include "stats/error_stats.h"
#include "stats/latency.h"
#include "stats/rates.h"
#include "stats/slowlog.h"

enum {
    EXPIRE_BUCKETS_A_STEP = 512,
    EXPIRE_BUDGET_US = 2000,        /* of a cron's tick; more work goes on at the next */
};

uint64_t engine_stat(const struct engine *engine, enum statistic stat)
{
    uint64_t sum = 0;

    for (int i = 0; i < engine->worker_count; i++)
        sum += atomic_load_explicit(&engine->workers[i]->turn.stats[stat], memory_order_relaxed);
    return sum;
}

void engine_reset_stats(struct engine *engine)
{
    for (int i = 0; i < engine->worker_count; i++) {
        for (int stat = 0; stat < STAT_COUNT; stat++)
            atomic_store_explicit(&engine->workers[i]->turn.stats[stat], 0, memory_order_relaxed);
    }
    command_stats_reset(engine->commands);
    if (engine->tier != NULL)
        tier_reset_stats(engine->tier);
}

void engine_set_active_expire(struct engine *engine, bool on)
{
    engine->active_expire = on;
    if (engine->tier != NULL)
        tier_set_expiry(engine->tier, on);
}

const char *command_upper_name(struct call *call, const struct command *command)
{
    struct bytes name = arena_copy(call->arena, bytes_of_string(command->name));
    char *text = (char *)name.data;

    for (size_t i = 0; i < name.size; i++)
        text[i] = (char)toupper((unsigned char)text[i]);
    return text;
}

void engine_note_error(struct call *call)
{
    const struct buffer *out = &call->reply->out;
    const char *text = out->data + call->reply_start, *end;

    turn_count(call->turn, STAT_ERROR_REPLIES, 1);
    if (out->size <= call->reply_start || text[0] != '-')
        return;
    end = memchr(text, '\r', out->size - call->reply_start);
    if (end != NULL)
        error_stats_note(call->engine->errors, bytes_of(text + 1, (size_t)(end - text - 1)));
}

void engine_note_call(struct call *call, int64_t us)
{
    const struct config *config = call->engine->config;
    int64_t slow_us = config_number(config, CONFIG_SLOWLOG_LOG_SLOWER_THAN);
    int64_t latency_ms = config_number(config, CONFIG_LATENCY_MONITOR_THRESHOLD);

    if (call->failed)
        engine_note_error(call);
    if (slow_us >= 0 && us >= slow_us && !(call->command->flags & COMMAND_SKIP_SLOWLOG)) {
        slowlog_note(call->engine->slowlog, (size_t)config_number(config, CONFIG_SLOWLOG_MAX_LEN), secrets_hide(call),
            call->arg_count, us,
            call->turn->now_ms / 1000, call->client->address, call->client->name);
    }
    if (latency_ms > 0 && us / 1000 >= latency_ms)
        latency_note(call->engine->latency, call->command->flags & COMMAND_FAST ? "fast-command" : "command", us / 1000);
}

void engine_delete_key(struct engine *engine, struct keyspace *keyspace, uint64_t hash, uint32_t handle, const char *event)
{
    struct keyspace_watch *watch = &engine->partitions->watch;
    struct entry *entry = keyspace_entry(keyspace, handle);
    enum record_state record = entry_record(entry);
    struct buffer name = { 0 };
    struct bytes words[2];
    struct value value;

    (void)event;
    ASSERT_LOCKED(keyspace->partition);
    partition_changing(keyspace, hash, handle);
    record = entry_record(entry);
    buffer_append_bytes(&name, entry_key(entry));
    words[0] = BYTES("DEL");
    words[1] = buffer_bytes(&name);
    if (engine->aof != NULL)
        keyspace->partition->last_lsn = aof_append(engine->aof, keyspace->db, words, 2);
    keyspace_remove(keyspace, hash, handle, &value);
    if (watch->removed != NULL)
        watch->removed(watch->context, keyspace, hash, words[1], record);
    blocking_note_removed(engine, keyspace, hash, words[1]);
    if (value_is_object(&value))
        lazy_free_value(engine->lazy_free, value);
    buffer_release(&name);
    engine->dirty++;
}

/* The words of an HDEL. */
struct dead_fields {
    struct buffer text;
    size_t sizes[EXPIRE_FIELDS_A_STEP];
    size_t count;
};

static void note_dead(void *context, struct bytes field)
{
    struct dead_fields *dead = context;

    buffer_append_bytes(&dead->text, field);
    dead->sizes[dead->count++] = field.size;
}

static void log_dead(struct engine *engine, struct keyspace *keyspace, struct bytes key, const struct dead_fields *dead)
{
    struct bytes words[2 + EXPIRE_FIELDS_A_STEP] = { BYTES("HDEL"), key };
    size_t at = 0;

    for (size_t i = 0; i < dead->count; i++) {
        words[2 + i] = bytes_of(dead->text.data + at, dead->sizes[i]);
        at += dead->sizes[i];
    }
    if (engine->aof != NULL)
        keyspace->partition->last_lsn = aof_append(engine->aof, keyspace->db, words, 2 + (int)dead->count);
}

size_t engine_expire_fields(struct engine *engine, struct keyspace *keyspace, uint64_t hash, uint32_t handle, int64_t now_ms)
{
    struct entry *entry = keyspace_entry(keyspace, handle);
    struct dead_fields dead = { .count = 0 };
    struct value value;
    size_t count;

    value = entry_value(entry);
    if (entry_death_ms(entry) <= now_ms && entry_death_ms(entry) >= 0) {
        count = hash_count(&value);
        engine_delete_key(engine, keyspace, hash, handle, "hexpired");
        return count;
    }
    keyspace_assert_locked(keyspace);
    partition_changing(keyspace, hash, handle);
    count = hash_remove_expired(&value, now_ms, EXPIRE_FIELDS_A_STEP, note_dead, &dead);
    log_dead(engine, keyspace, entry_key(entry), &dead);
    keyspace_mark_dirty(keyspace, entry);
    handle = keyspace_set_value(keyspace, hash, handle, &value);
    keyspace_note_times(keyspace, hash, handle, now_ms);
    buffer_release(&dead.text);
    engine->dirty += count;
    return count;
}

struct expiry {
    struct engine *engine;
    int64_t now_ms;
    uint64_t count, field_count;
};

static void expire_found(void *context, struct keyspace *keyspace, uint64_t hash, uint32_t handle)
{
    struct expiry *expiry = context;

    if (entry_is_held(keyspace, keyspace_entry(keyspace, handle)))
        return;                 /* the next round gets it */
    if (entry_has_times(keyspace_entry(keyspace, handle))) {
        int64_t expire_ms = entry_expire_ms(keyspace_entry(keyspace, handle));

        if (expire_ms < 0 || expire_ms > expiry->now_ms) {
            expiry->field_count += engine_expire_fields(expiry->engine, keyspace, hash, handle, expiry->now_ms);
            return;
        }
    }
    engine_delete_key(expiry->engine, keyspace, hash, handle, "expired");
    expiry->count++;
}

/* Every bucket's line is looked at once a second or so; the work is bounded by a budget of time a tick. */
static void expire_hot(struct worker *worker)
{
    struct engine *engine = worker->engine;
    struct partitions *all = engine->partitions;
    struct expiry expiry = { engine, worker->turn.now_ms, 0, 0 };
    int64_t began_us = clock_mono_us();
    int64_t effort = config_number(engine->config, CONFIG_ACTIVE_EXPIRE_EFFORT);
    int hz = (int)config_number(engine->config, CONFIG_HZ);
    uint32_t share = all->count / (uint32_t)(hz > 0 ? hz : 10) + 1;

    for (uint32_t i = 0; i < share || i < all->count / 10; i++) {
        struct partition *partition = &all->partitions[worker->expire_next];
        bool done = true;

        for (int db = 0; db < all->db_count; db++) {
            struct keyspace *keyspace;
            bool round = true;

            partition_lock(partition);
            keyspace = partition_keyspace_if(partition, db);
            if (keyspace != NULL && (keyspace->expiring_count > 0 || keyspace->may_have_times)) {
                keyspace_assert_locked(keyspace);
                round = keyspace_expire_step(keyspace, worker->turn.now_ms, EXPIRE_BUCKETS_A_STEP, expire_found, &expiry);
            }
            partition_unlock(partition);
            done = done && round;
        }
        if (done)
            worker->expire_next = (worker->expire_next + 1) % all->count;
        if (clock_mono_us() - began_us > EXPIRE_BUDGET_US * effort) {
            turn_count(&worker->turn, STAT_EXPIRE_CUT, 1);
            break;
        }
    }
    turn_count(&worker->turn, STAT_EXPIRE_US, (uint64_t)(clock_mono_us() - began_us));
    if (expiry.count > 0)
        turn_count(&worker->turn, STAT_EXPIRED_KEYS, expiry.count);
    if (expiry.field_count > 0)
        turn_count(&worker->turn, STAT_EXPIRED_FIELDS, expiry.field_count);
}

/* Cold keys are expired by the tier's writer. */
static void expire(struct worker *worker)
{
    struct engine *engine = worker->engine;
    bool expires = engine->active_expire && !engine_keeps_expired(engine);

    if (engine->tier != NULL)
        tier_set_expiry(engine->tier, expires);
    if (expires)
        expire_hot(worker);
}

static void note_rates(struct engine *engine, int64_t now_us)
{
    uint64_t totals[RATE_COUNT] = {
        [RATE_COMMANDS] = engine_stat(engine, STAT_COMMANDS),
        [RATE_NET_INPUT] = engine_stat(engine, STAT_NET_INPUT),
        [RATE_NET_OUTPUT] = engine_stat(engine, STAT_NET_OUTPUT),
        [RATE_TURNS] = engine_stat(engine, STAT_TURNS),
        [RATE_TURN_US] = engine_stat(engine, STAT_TURN_US),
    };

    rates_note(engine->rates, now_us, totals);
}

static void note_memory(struct engine *engine, int64_t now_us)
{
    uint64_t used = engine_memory_used(engine);
    int64_t since = engine->memory_over_since_us;

    if (used > engine->memory_peak)
        engine->memory_peak = used;
    if (engine_memory_is_short(engine)) {
        if (since == 0)
            engine->memory_over_since_us = now_us;
    } else if (since != 0) {
        engine->memory_over_us += now_us - since;
        engine->memory_over_since_us = 0;
    }
}

void engine_cron(struct worker *worker)
{
    struct engine *engine = worker->engine;
    int64_t pause = engine->pause_until_ms;

    if (worker->memory_first != NULL && (pause != 0 || !engine_memory_is_short(engine) || !engine_may_wait_for_memory(engine)))
        worker_memory_came(worker);
    if (worker->index != 0)
        return;
    blocking_retry(worker);
    if (engine->rates != NULL)
        note_rates(engine, worker->turn.now_us);
    if (pause != 0 && worker->turn.now_ms >= pause)
        engine->pause_until_ms = 0;
    if (engine->state == ENGINE_READY)
        expire(worker);
    note_memory(engine, worker->turn.now_us);
    engine_memory_watch(engine);
    if (engine->upper.cron != NULL)
        engine->upper.cron(engine);
}
