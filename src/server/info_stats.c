/* INFO's sections that count: Stats, Commandstats, Errorstats, Latencystats. */
#include <inttypes.h>
#include <stdlib.h>

#include "acl/acl_log.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/mem.h"
#include "engine/data_stats.h"
#include "engine/own_expiry.h"
#include "engine/tracking.h"
#include "pubsub/hub.h"
#include "replication/migrate_cache.h"
#include "server/info_rows.h"
#include "stats/error_stats.h"
#include "stats/rates.h"

static void write_stat(struct buffer *out, const char *name, const struct engine *engine, enum statistic stat)
{
    info_number(out, name, (int64_t)engine_stat(engine, stat));
}

/* Returns the sum over all workers but the first. */
static uint64_t threaded_stat(const struct engine *engine, enum statistic stat)
{
    return engine_stat(engine, stat) - engine->workers[0]->turn.stats[stat];
}

static double stale_percent(struct engine *engine)
{
    struct expiry_stats expiry;
    uint64_t sampled = 0, expired = 0;

    for (int db = 0; db < engine->partitions->db_count; db++) {
        database_expiry(engine, db, &expiry);
        sampled += expiry.sampled;
        expired += expiry.expired;
    }
    return 100 * info_ratio((double)expired, (double)sampled);
}

static uint64_t time_in_commands_us(const struct engine *engine)
{
    uint64_t us = 0;

    for (size_t i = 0; i < command_row_count(engine->commands); i++)
        us += engine_command_totals(engine, command_row_at(engine->commands, i)).nsec / 1000;
    return us;
}

/* Writes the traffic; that of replicas and of a primary is part of it. */
static void write_traffic(struct buffer *out, struct engine *engine)
{
    uint64_t replica_input = engine->replica_input, replica_output = engine_stat(engine, STAT_REPLICA_OUTPUT);

    write_stat(out, "total_connections_received", engine, STAT_CONNECTIONS);
    write_stat(out, "total_commands_processed", engine, STAT_COMMANDS);
    info_number(out, "instantaneous_ops_per_sec", (int64_t)rates_of(engine->stats.rates, RATE_COMMANDS));
    info_number(out, "total_net_input_bytes", (int64_t)(engine_stat(engine, STAT_NET_INPUT) + replica_input));
    info_number(out, "total_net_output_bytes", (int64_t)(engine_stat(engine, STAT_NET_OUTPUT) + replica_output));
    info_number(out, "total_net_repl_input_bytes", (int64_t)replica_input);
    info_number(out, "total_net_repl_output_bytes", (int64_t)replica_output);
    info_float(out, "instantaneous_input_kbps", rates_of(engine->stats.rates, RATE_NET_INPUT) / 1024);
    info_float(out, "instantaneous_output_kbps", rates_of(engine->stats.rates, RATE_NET_OUTPUT) / 1024);
    info_float(out, "instantaneous_input_repl_kbps", rates_of(engine->stats.rates, RATE_REPLICA_INPUT) / 1024);
    info_float(out, "instantaneous_output_repl_kbps", rates_of(engine->stats.rates, RATE_REPLICA_OUTPUT) / 1024);
    write_stat(out, "rejected_connections", engine, STAT_REJECTED_CONNECTIONS);
    info_write_syncs(out, engine);
}

static void write_departures(struct buffer *out, struct engine *engine)
{
    int64_t over_since = engine->memory.over_since_us;
    int64_t over_us = over_since != 0 ? clock_mono_us() - over_since : 0;
    struct tier_stats tier = { .expired_cold = 0 };

    if (engine->tier != NULL)
        tier_stats(engine->tier, &tier);
    info_number(out, "expired_subkeys", (int64_t)engine_stat(engine, STAT_EXPIRED_FIELDS));
    info_number(out, "expired_keys", (int64_t)(engine_stat(engine, STAT_EXPIRED_KEYS) + tier.expired_cold));
    info_float(out, "expired_stale_perc", stale_percent(engine));
    write_stat(out, "expired_time_cap_reached_count", engine, STAT_EXPIRE_CUT);
    info_number(out, "expire_cycle_cpu_milliseconds", (int64_t)engine_stat(engine, STAT_EXPIRE_US) / 1000);
    info_number(out, "evicted_keys", (int64_t)(engine_stat(engine, STAT_EVICTED_KEYS) + tier.evicted_cold));
    write_stat(out, "evicted_clients", engine, STAT_EVICTED_CLIENTS);
    info_number(out, "total_eviction_exceeded_time", (engine->memory.over_us + over_us) / 1000);
    info_number(out, "current_eviction_exceeded_time", over_us / 1000);
}

static void write_pubsub(struct buffer *out, const struct engine *engine)
{
    struct hub_transit transit = hub_transit(engine->hub);

    info_number(out, "pubsub_channels", (int64_t)hub_topics(engine->hub, TOPIC_CHANNEL));
    info_number(out, "pubsub_patterns", (int64_t)hub_topics(engine->hub, TOPIC_PATTERN));
    info_number(out, "pubsubshard_channels", (int64_t)hub_topics(engine->hub, TOPIC_SHARD));
    info_number(out, "unit_escapes", (int64_t)engine_stat(engine, STAT_UNIT_ESCAPES));
    info_number(out, "unit_restarts", (int64_t)engine_stat(engine, STAT_UNIT_RESTARTS));
    info_number(out, "partition_lock_waits", (int64_t)partitions_wait_count(engine->partitions));
    info_number(out, "pubsub_transit_messages", (int64_t)transit.count);
    info_number(out, "pubsub_transit_bytes", (int64_t)transit.bytes);
}

/* Writes fields that Kelvin has no use for, or not yet: forks, migration, defragmentation by copying. One of them is in between, in Redis' order. */
static void write_absent(struct buffer *out, const struct engine *engine)
{
    static const char *const names[] = {
        "active_defrag_hits", "active_defrag_misses", "active_defrag_key_hits", "active_defrag_key_misses", "total_active_defrag_time",
        "current_active_defrag_time",
    };

    info_number(out, "latest_fork_usec", 0);
    info_number(out, "total_forks", 0);
    info_number(out, "migrate_cached_sockets", migrate_cache_count(engine->replication.migrate_cache));
    info_number(out, "slave_expires_tracked_keys", engine->own_expiry != NULL ? (int64_t)own_expiry_count(engine->own_expiry) : 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        info_number(out, names[i], 0);
}

static void write_tracking(struct buffer *out, const struct engine *engine)
{
    struct tracking_counts counts = tracking_count(engine);

    info_number(out, "tracking_total_keys", (int64_t)counts.keys);
    info_number(out, "tracking_total_items", (int64_t)counts.items);
    info_number(out, "tracking_total_prefixes", (int64_t)counts.prefixes);
}

void info_stats(struct buffer *out, void *context)
{
    struct engine *engine = context;

    write_traffic(out, engine);
    write_departures(out, engine);
    write_stat(out, "keyspace_hits", engine, STAT_KEYSPACE_HITS);
    write_stat(out, "keyspace_misses", engine, STAT_KEYSPACE_MISSES);
    write_pubsub(out, engine);
    write_absent(out, engine);
    write_tracking(out, engine);
    info_number(out, "unexpected_error_replies", 0);
    write_stat(out, "total_error_replies", engine, STAT_ERROR_REPLIES);
    info_number(out, "dump_payload_sanitizations", 0);
    write_stat(out, "total_reads_processed", engine, STAT_READS_PROCESSED);
    write_stat(out, "total_writes_processed", engine, STAT_WRITES_PROCESSED);
    info_number(out, "io_threaded_reads_processed", (int64_t)threaded_stat(engine, STAT_READS_PROCESSED));
    info_number(out, "io_threaded_writes_processed", (int64_t)threaded_stat(engine, STAT_WRITES_PROCESSED));
    write_stat(out, "client_query_buffer_limit_disconnections", engine, STAT_QUERY_BUFFER_LIMIT);
    write_stat(out, "client_output_buffer_limit_disconnections", engine, STAT_OUTPUT_BUFFER_LIMIT);
    info_number(out, "reply_buffer_shrinks", 0);
    info_number(out, "reply_buffer_expands", 0);
    write_stat(out, "eventloop_cycles", engine, STAT_TURNS);
    write_stat(out, "eventloop_duration_sum", engine, STAT_TURN_US);
    info_number(out, "eventloop_duration_cmd_sum", (int64_t)time_in_commands_us(engine));
    info_number(out, "instantaneous_eventloop_cycles_per_sec", (int64_t)rates_of(engine->stats.rates, RATE_TURNS));
    info_number(out, "instantaneous_eventloop_duration_usec",
        (int64_t)info_ratio(rates_of(engine->stats.rates, RATE_TURN_US), rates_of(engine->stats.rates, RATE_TURNS)));
    info_number(out, "acl_access_denied_auth", (int64_t)acl_log_total(engine->users.log, ACL_LOG_AUTH));
    info_number(out, "acl_access_denied_cmd", (int64_t)acl_log_total(engine->users.log, ACL_LOG_COMMAND));
    info_number(out, "acl_access_denied_key", (int64_t)acl_log_total(engine->users.log, ACL_LOG_KEY));
    info_number(out, "acl_access_denied_channel", (int64_t)acl_log_total(engine->users.log, ACL_LOG_CHANNEL));
}

void info_command_stats(struct buffer *out, void *context)
{
    const struct engine *engine = context;

    for (size_t i = 0; i < command_row_count(engine->commands); i++) {
        const struct command *command = command_row_at(engine->commands, i);
        struct command_totals totals = engine_command_totals(engine, command);
        uint64_t us = totals.nsec / 1000;

        if (totals.calls == 0 && totals.rejected == 0 && totals.failed == 0)
            continue;
        buffer_append_format(out, "cmdstat_%s:calls=%" PRIu64 ",usec=%" PRIu64 ",usec_per_call=%.2f,rejected_calls=%" PRIu64
            ",failed_calls=%" PRIu64 "\r\n", command->name, totals.calls, us, info_ratio((double)us, (double)totals.calls), totals.rejected,
            totals.failed);
    }
}

/* A client may have made the code up: what would break the line is replaced. */
static void write_error(void *context, struct bytes code, uint64_t count)
{
    struct buffer *out = context;

    buffer_append_string(out, "errorstat_");
    for (size_t i = 0; i < code.size; i++)
        buffer_append_u8(out, strchr("#:\n\r", code.data[i]) != NULL ? '_' : (uint8_t)code.data[i]);
    buffer_append_format(out, ":count=%" PRIu64 "\r\n", count);
}

void info_error_stats(struct buffer *out, void *context)
{
    const struct engine *engine = context;

    error_stats_each(engine->stats.errors, write_error, out);
}

/* Microseconds; the upper end of the bucket where the percentile is. */
static double percentile_us(const uint64_t counts[LATENCY_BUCKETS], uint64_t total, double percent)
{
    size_t bucket = histogram_percentile_bucket(counts, LATENCY_BUCKETS, total, percent);

    return (double)histogram_bucket_max(bucket, LATENCY_STEP_BITS) / 1000;
}

static void write_percentiles(struct buffer *out, const struct engine *engine, const struct command *command, const char *percentiles)
{
    uint64_t counts[LATENCY_BUCKETS], total = 0;
    const char *at = percentiles, *comma = "";
    char *end;

    engine_command_latency(engine, command, counts);
    for (int i = 0; i < LATENCY_BUCKETS; i++)
        total += counts[i];
    if (total == 0)
        return;
    buffer_append_format(out, "latency_percentiles_usec_%s:", command->name);
    for (double percent = strtod(at, &end); end != at; percent = strtod(at, &end)) {
        char digits[TEXT_DOUBLE_SIZE];

        text_of_double(percent, digits);
        buffer_append_format(out, "%sp%s=%.3f", comma, digits, percentile_us(counts, total, percent));
        comma = ",";
        at = end;
    }
    buffer_append(out, "\r\n", 2);
}

void info_latency_stats(struct buffer *out, void *context)
{
    struct engine *engine = context;
    char *percentiles;

    if (!config_number(engine->config, CONFIG_LATENCY_TRACKING))
        return;
    percentiles = config_string(engine->config, CONFIG_LATENCY_TRACKING_INFO_PERCENTILES);
    for (size_t i = 0; i < command_row_count(engine->commands); i++)
        write_percentiles(out, engine, command_row_at(engine->commands, i), percentiles);
    mem_free(percentiles);
}
