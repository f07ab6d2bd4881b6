/* MEMORY: reports about memory usage; engine/data_stats.h has the statistics. */
#include <inttypes.h>

#include "base/message.h"
#include "call/key.h"
#include "commands/admin.h"
#include "commands/handlers.h"
#include "engine/data_stats.h"
#include "stats/info.h"

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
           value_memory(&key->value, samples) + (share < TABLE_SHARE_MAX ? share : TABLE_SHARE_MAX);
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
    struct reply_later later = reply_later_begin(call->reply);
    uint64_t keys, grown;
    size_t databases;

    memory_stats(call->engine, &stats);
    grown = stats.used > stats.startup ? stats.used - stats.startup : 0;
    reply_number(call, "peak.allocated", stats.peak);
    reply_number(call, "total.allocated", stats.used);
    reply_number(call, "startup.allocated", stats.startup);
    reply_number(call, "replication.backlog", 0);
    reply_number(call, "clients.slaves", 0);
    reply_number(call, "clients.normal", stats.clients);
    reply_number(call, "cluster.links", 0);
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

static void append_problems(struct buffer *out, const struct engine *engine, const struct memory_stats *stats)
{
    int64_t limit = config_number(engine->config, CONFIG_MAXMEMORY);
    char human[32], other[32];

    info_human(stats->used, human);
    if (stats->used > 0 && stats->peak > stats->used + stats->used / 2) {
        info_human(stats->peak, other);
        buffer_append_format(out, "- Memory usage was much higher before (%s, now %s). The allocator returns the difference to the system with "
            "time; MEMORY PURGE returns it at once.\n", other, human);
    }
    if (stats->resident > stats->used + stats->used / 2) {
        info_human(stats->resident, other);
        buffer_append_format(out, "- Fragmentation: the process uses %s of the system's memory for %s of data. MEMORY PURGE may return "
            "some of it; new data fills the rest again.\n", other, human);
    }
    if (stats->clients > stats->used / 4) {
        info_human(stats->clients, other);
        buffer_append_format(out, "- The buffers of clients use %s. CLIENT LIST shows which clients; client-output-buffer-limit and "
            "maxmemory-clients limit them.\n", other);
    }
    if (stats->tier > stats->used / 2) {
        info_human(stats->tier, other);
        buffer_append_format(out, "- The tags of cold keys and the store's own memory use %s. A larger maxmemory, or a smaller "
            "tier-write-buffer, leaves more room for hot keys.\n", other);
    }
    if (limit > 0 && stats->used > (uint64_t)limit)
        buffer_append_string(out, "- Memory usage is over maxmemory: demotion cannot keep up, or maxmemory-policy evicts nothing. "
            "See INFO tiering.\n");
}

/* MEMORY DOCTOR */
void memory_doctor_command(struct call *call)
{
    struct memory_stats stats;
    struct buffer text = { 0 };

    memory_stats(call->engine, &stats);
    if (stats.used < 5 << 20)
        buffer_append_string(&text, "The server uses too little memory for a report.\n");
    else
        append_problems(&text, call->engine, &stats);
    if (text.size == 0)
        buffer_append_string(&text, "No problems with memory were found.\n");
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
