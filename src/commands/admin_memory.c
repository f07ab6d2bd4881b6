/* MEMORY: reports about memory usage; engine/data_stats.h has the statistics. */
#include <unistd.h>

#include "base/message.h"
#include "call/key.h"
#include "cluster/cluster.h"
#include "commands/admin.h"
#include "commands/handlers.h"
#include "engine/data_stats.h"
#include "engine/memory.h"
#include "engine/worker.h"
#include "replication/primary.h"
#include "stats/info.h"
#include "stats/memory_report.h"
#include "stats/waits.h"

enum { SAMPLES_BY_DEFAULT = 5, TABLE_SHARE_MAX = 64 };

static bool parse_samples(struct call *call, int64_t *samples)
{
    *samples = SAMPLES_BY_DEFAULT;
    for (int i = 3; i < call->arg_count; i += 2) {
        if (!arg_is(call, i, "samples") || i + 1 >= call->arg_count) {
            reply_error(call, ERR_SYNTAX);
            return false;
        }
        if (!arg_integer(call, i + 1, samples))
            return false;
        if (*samples < 0) {
            reply_error(call, ERR_SYNTAX);
            return false;
        }
    }
    return true;
}

/* Block, value, and the key's share of the table. */
static uint64_t key_memory(const struct key *key, size_t samples)
{
    const struct entry *entry = keyspace_entry(key->keyspace, key->handle);
    const struct table *table = &key->keyspace->table;
    uint64_t share = table_size(table) / table->count;

    return entry_block_size(entry) + (key->name.size > ENTRY_KEY_INLINE_MAX ? key->name.size : 0) +
           value_memory(&key->value, samples) + value_memory_in_pages(&key->value) + (share < TABLE_SHARE_MAX ? share : TABLE_SHARE_MAX);
}

/* MEMORY USAGE key [SAMPLES count] */
void memory_usage_command(struct call *call)
{
    int64_t samples;
    struct key key;

    if (!parse_samples(call, &samples))
        return;
    if (key_open(call, 2, KEY_FOR_LOOKING, &key))
        reply_integer(call->reply, (int64_t)key_memory(&key, (size_t)samples));
    else
        reply_null(call->reply);
}

static void reply_number(struct call *call, const char *name, uint64_t number)
{
    reply_bulk_string(call->reply, name);
    reply_integer(call->reply, (int64_t)number);
}

static void reply_ratio(struct call *call, const char *name, double ratio)
{
    reply_bulk_string(call->reply, name);
    reply_double(call->reply, ratio);
}

/* Returns how many databases were replied, and adds up their keys. */
static size_t reply_databases(struct call *call, uint64_t *keys)
{
    struct engine *engine = call->engine;
    size_t replied = 0;

    *keys = 0;
    for (int db = 0; db < engine->partitions->db_count; db++) {
        uint64_t count;

        database_key_count(engine, db, &count);
        if (count == 0)
            continue;
        *keys += count;
        replied++;
        reply_bulk(call->reply, call_format(call, "db.%d", db));
        reply_map(call->reply, 3);
        reply_number(call, "overhead.hashtable.main", database_table_size(engine, db));
        reply_number(call, "overhead.hashtable.expires", 0);
        reply_number(call, "overhead.hashtable.slot-to-keys", 0);
    }
    return replied;
}

static void reply_allocator(struct call *call, const struct memory_stats *stats)
{
    const struct meter_allocator *allocator = &stats->allocator;

    reply_number(call, "allocator.allocated", allocator->allocated);
    reply_number(call, "allocator.active", allocator->active);
    reply_number(call, "allocator.resident", allocator->resident);
    reply_ratio(call, "allocator-fragmentation.ratio", info_ratio((double)allocator->active, (double)allocator->allocated));
    reply_number(call, "allocator-fragmentation.bytes", allocator->active - allocator->allocated);
    reply_ratio(call, "allocator-rss.ratio", info_ratio((double)allocator->resident, (double)allocator->active));
    reply_number(call, "allocator-rss.bytes", allocator->resident - allocator->active);
    reply_ratio(call, "rss-overhead.ratio", info_ratio((double)stats->resident, (double)allocator->resident));
    reply_number(call, "rss-overhead.bytes", stats->resident - allocator->resident);
    reply_ratio(call, "fragmentation", info_ratio((double)stats->resident, (double)stats->used));
    reply_number(call, "fragmentation.bytes", stats->resident - stats->used);
}

/* MEMORY STATS */
void memory_stats_command(struct call *call)
{
    struct memory_stats stats;
    struct primary_stats primary;
    struct reply_later later = reply_later_begin(call->reply);
    uint64_t keys, grown;
    size_t databases;

    memory_stats(call->engine, &stats);
    primary_stats(call->engine, &primary);
    grown = stats.used > stats.startup ? stats.used - stats.startup : 0;
    reply_number(call, "peak.allocated", stats.peak);
    reply_number(call, "total.allocated", stats.used);
    reply_number(call, "startup.allocated", stats.startup);
    reply_number(call, "replication.backlog", primary.backlog_memory);
    reply_number(call, "clients.slaves", 0);
    reply_number(call, "clients.normal", stats.clients);
    reply_number(call, "cluster.links", cluster_totals(call->engine->replication.cluster).link_buffer_bytes);
    reply_number(call, "aof.buffer", stats.aof_buffer);
    reply_number(call, "lua.caches", stats.scripts);
    reply_number(call, "functions.caches", stats.functions);
    databases = reply_databases(call, &keys);
    reply_number(call, "overhead.total", stats.overhead);
    reply_number(call, "keys.count", keys);
    reply_number(call, "keys.bytes-per-key", keys > 0 ? grown / keys : 0);
    reply_number(call, "dataset.bytes", stats.dataset);
    reply_ratio(call, "dataset.percentage", 100 * info_ratio((double)stats.dataset, (double)grown));
    reply_ratio(call, "peak.percentage", 100 * info_ratio((double)stats.used, (double)stats.peak));
    reply_allocator(call, &stats);
    reply_later_map(call->reply, later, 27 + databases);
}

static void collect_symptoms(struct engine *engine, struct memory_symptoms *symptoms)
{
    struct memory_view view;
    struct memory_stats stats;
    struct primary_stats primary;
    struct parking_waits waits = parking_waits(engine);
    long pages = sysconf(_SC_PHYS_PAGES), page_size = sysconf(_SC_PAGESIZE);

    memory_stats(engine, &stats);
    primary_stats(engine, &primary);
    memory_look(engine, &view);
    *symptoms = (struct memory_symptoms){
        .limit = view.limit,
        .counted = memory_counted_or_used(&view, stats.used),
        .used = stats.used,
        .peak = stats.peak,
        .resident = stats.resident,
        .machine = pages > 0 && page_size > 0 ? (uint64_t)pages * (uint64_t)page_size : 0,
        .clients = stats.clients,
        .backlog = primary.backlog_memory,
        .scripts = stats.scripts + stats.functions + stats.interpreters,
        .log_buffer = stats.aof_buffer,
        .cold = stats.tier,
        .is_off = stats.demotion == DEMOTION_OFF,
        .is_full = stats.demotion == DEMOTION_FULL,
        .is_failing = stats.demotion == DEMOTION_FAILS,
        .is_stuck = stats.demotion == DEMOTION_ON && !view.can_demote,
        .is_warming = stats.warming_up,
        .hot_keys = stats.hot_keys,
        .cold_keys = stats.cold_keys,
        .hot_hits = engine_stat(engine, STAT_HOT_HITS),
        .cold_hits = engine_stat(engine, STAT_COLD_HITS),
        .throttled_calls = engine_stat(engine, STAT_THROTTLED),
        .wait_p99_us = waits_summarize(engine->stats.waits, WAIT_MEMORY).p99_us,
        .waiting_clients = waits.clients,
        .waiting_ms = waits.longest_ms,
    };
}

/* MEMORY DOCTOR */
void memory_doctor_command(struct call *call)
{
    struct memory_symptoms symptoms;
    struct buffer text = { 0 };

    collect_symptoms(call->engine, &symptoms);
    memory_report(&text, &symptoms);
    reply_verbatim(call->reply, "txt", buffer_bytes(&text));
    buffer_release(&text);
}

/* MEMORY MALLOC-STATS */
void memory_malloc_stats_command(struct call *call)
{
    struct buffer text = { 0 };

    meter_report(&text);
    reply_verbatim(call->reply, "txt", buffer_bytes(&text));
    buffer_release(&text);
}

static bool purge_allocator(struct engine *engine, struct message *message)
{
    (void)engine;
    (void)message;
    meter_purge();
    return true;
}

/* MEMORY PURGE: takes time when there is much to return. */
void memory_purge_command(struct call *call)
{
    admin_errand(call, purge_allocator);
}

void memory_help_command(struct call *call)
{
    static const char *const lines[] = {
        "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DOCTOR",
        "    Returns a report about problems with memory, with advice.",
        "MALLOC-STATS",
        "    Returns the allocator's own statistics.",
        "PURGE",
        "    Makes the allocator return unused memory to the system.",
        "STATS",
        "    Returns what memory is used for.",
        "USAGE <key> [SAMPLES <count>]",
        "    Returns how many bytes a key and its value take in RAM, estimated from <count> elements (default 5, 0: all).",
        "HELP",
        "    Returns this text.",
        NULL,
    };

    reply_help(call, lines);
}
