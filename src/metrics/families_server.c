/* Metrics of the process, its clients, and what it writes to disks. */
#include "metrics/families.h"

#include <sys/resource.h>

#include "acl/acl_log.h"
#include "base/clock.h"
#include "base/version.h"
#include "engine/tracking.h"
#include "lifecycle/aof_switch.h"
#include "pubsub/hub.h"
#include "script/registry.h"
#include "stats/error_stats.h"

static double stat_of(const struct readings *readings, enum statistic stat)
{
    return (double)engine_stat(readings->engine, stat);
}

static double seconds_of(const struct timeval *time)
{
    return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

static void write_build(struct exposition *out, const struct engine *engine)
{
    const struct label labels[] = {
        { "version", BYTES(KELVIN_VERSION) },
        { "redis_version", BYTES(REDIS_VERSION) },
        { "build", BYTES(KELVIN_BUILD) },
        { "mode", bytes_of_string(engine->replication.cluster != NULL ? "cluster" : "standalone") },
    };

    exposition_begin(out, &(struct metric){ "kelvin_build", METRIC_INFO, NULL, "The program that runs." });
    exposition_integer(out, labels, 4, 1);
}

static void write_cpu(struct exposition *out)
{
    struct rusage usage = { .ru_maxrss = 0 };

    getrusage(RUSAGE_SELF, &usage);
    family_labelled(out, &(struct metric){ "kelvin_cpu_seconds", METRIC_COUNTER, "seconds", "CPU time of all threads." }, "mode",
        (struct family_sample[]){ { "user", seconds_of(&usage.ru_utime) }, { "system", seconds_of(&usage.ru_stime) } }, 2);
}

void families_server(struct exposition *out, const struct readings *readings)
{
    struct engine *engine = readings->engine;
    struct registry_stats scripts;

    registry_stats(engine->scripts, &scripts);
    write_build(out, engine);
    family_gauge(out, "kelvin_start_time_seconds", "seconds", "When the server was started, as a Unix time.",
        (double)(clock_wall_us() - (clock_mono_us() - engine->started_us)) / 1e6);
    family_gauge(out, "kelvin_loading", NULL, "1 while the data is being loaded at the start.", engine->state == ENGINE_LOADING);
    family_gauge(out, "kelvin_loading_read_bytes", "bytes", "Bytes of the log or dump that the start has read so far.", (double)engine->loading_done);
    family_gauge(out, "kelvin_loading_size_bytes", "bytes", "Bytes of the log or dump that the start has to read.", (double)engine->loading_total);
    write_cpu(out);
    family_gauge(out, "kelvin_workers", NULL, "Event loops that serve clients.", engine->worker_count);
    family_counter(out, "kelvin_turns", NULL, "Turns of the event loops.", stat_of(readings, STAT_TURNS));
    family_counter(out, "kelvin_turns_busy_seconds", "seconds", "Time that the event loops have spent in their turns.", stat_of(readings, STAT_TURN_US) / 1e6);
    family_counter(out, "kelvin_partition_lock_waits", NULL, "Locks of partitions that another thread had.",
        (double)partitions_wait_count(engine->partitions));
    family_counter(out, "kelvin_unit_escapes", NULL, "Transactions and scripts that needed a partition they did not own yet.", stat_of(readings, STAT_UNIT_ESCAPES));
    family_counter(out, "kelvin_unit_restarts", NULL, "Transactions and scripts that began again because they might not wait for a partition.",
        stat_of(readings, STAT_UNIT_RESTARTS));
    family_gauge(out, "kelvin_scripts_cached", NULL, "Scripts of EVAL that are kept.", (double)scripts.source_count);
    family_gauge(out, "kelvin_functions", NULL, "Functions of libraries.", (double)scripts.function_count);
    family_gauge(out, "kelvin_pubsub_channels", NULL, "Channels with subscribers.", (double)hub_topics(engine->hub, TOPIC_CHANNEL));
    family_gauge(out, "kelvin_pubsub_patterns", NULL, "Patterns with subscribers.", (double)hub_topics(engine->hub, TOPIC_PATTERN));
    family_gauge(out, "kelvin_pubsub_transit_bytes", "bytes", "Bytes of messages that have not reached all their subscribers' buffers yet.",
        (double)hub_transit(engine->hub).bytes);
}

static void write_network(struct exposition *out, const struct readings *readings)
{
    family_counter(out, "kelvin_network_input_bytes", "bytes", "Bytes that clients have sent, without replication.", stat_of(readings, STAT_NET_INPUT));
    family_counter(out, "kelvin_network_output_bytes", "bytes", "Bytes that were sent to clients, without replication.", stat_of(readings, STAT_NET_OUTPUT));
}

void families_clients(struct exposition *out, const struct readings *readings)
{
    struct engine *engine = readings->engine;
    struct tracking_counts tracked = tracking_count(engine);

    family_gauge(out, "kelvin_clients_connected", NULL, "Connections of clients, replicas not counted.",
        (double)view_client_count(engine));
    family_gauge(out, "kelvin_clients_max", NULL, "maxclients.", (double)config_number(engine->config, CONFIG_MAXCLIENTS));
    family_gauge(out, "kelvin_clients_blocked", NULL, "Clients in blocking commands, or held back by CLIENT PAUSE.",
        (double)readings->blocking.waiters + (double)engine->clients.paused);
    family_gauge(out, "kelvin_clients_parked", NULL, "Clients whose request waits for a cold key, memory or other work.", (double)engine->clients.parked);
    family_gauge(out, "kelvin_clients_tracking", NULL, "Clients with CLIENT TRACKING.", (double)tracked.clients);
    family_counter(out, "kelvin_connections", NULL, "Connections that were accepted.", stat_of(readings, STAT_CONNECTIONS));
    family_counter(out, "kelvin_connections_rejected", NULL, "Connections that were refused because of maxclients.", stat_of(readings, STAT_REJECTED_CONNECTIONS));
    family_labelled(out, &(struct metric){ "kelvin_clients_closed", METRIC_COUNTER, NULL, "Clients that were closed because of a limit." }, "limit",
        (struct family_sample[]){
            { "query_buffer", stat_of(readings, STAT_QUERY_BUFFER_LIMIT) },
            { "output_buffer", stat_of(readings, STAT_OUTPUT_BUFFER_LIMIT) },
            { "maxmemory_clients", stat_of(readings, STAT_EVICTED_CLIENTS) },
        }, 3);
    write_network(out, readings);
    family_labelled(out, &(struct metric){ "kelvin_acl_denied", METRIC_COUNTER, NULL, "What ACL rules have refused." }, "reason",
        (struct family_sample[]){
            { "auth", (double)acl_log_total(engine->users.log, ACL_LOG_AUTH) },
            { "command", (double)acl_log_total(engine->users.log, ACL_LOG_COMMAND) },
            { "key", (double)acl_log_total(engine->users.log, ACL_LOG_KEY) },
            { "channel", (double)acl_log_total(engine->users.log, ACL_LOG_CHANNEL) },
        }, 4);
}

static void write_aof(struct exposition *out, const struct readings *readings)
{
    struct engine *engine = readings->engine;

    family_gauge(out, "kelvin_aof_enabled", NULL, "1 with a log.", readings->has_aof);
    family_gauge(out, "kelvin_aof_last_write_ok", NULL, "1 unless the log can't be written.", !readings->aof_fails);
    family_gauge(out, "kelvin_aof_size_bytes", "bytes", "Size of the log with its base.", (double)readings->aof.current_size);
    family_gauge(out, "kelvin_aof_replay_bytes", "bytes", "Size of the increments, which a restart has to replay.", (double)readings->aof.tail_size);
    family_gauge(out, "kelvin_aof_buffer_bytes", "bytes", "What has not been written to a file yet.", (double)readings->aof.buffer_size);
    family_counter(out, "kelvin_aof_delayed_fsyncs", NULL, "fsyncs that took more than 2 seconds.", (double)readings->aof.delayed_fsync);
    family_gauge(out, "kelvin_aof_rewrite_in_progress", NULL, "1 while a checkpoint or rewrite of the log runs.",
        readings->rewrite.running_ms >= 0 || aof_switch_is_running(engine->lifecycle.aof_switch));
    family_counter(out, "kelvin_aof_rewrites", NULL, "Checkpoints and rewrites of the log that have ended.", (double)readings->rewrite.count);
    family_gauge(out, "kelvin_aof_rewrite_failures", NULL, "Checkpoints and rewrites that have failed since the last one that succeeded.",
        (double)readings->rewrite.failures);
    family_gauge(out, "kelvin_aof_rewrite_last_duration_seconds", "seconds", "How long the last checkpoint or rewrite took; -1 if there was none.",
        readings->rewrite.last_ms < 0 ? -1 : (double)readings->rewrite.last_ms / 1000);
}

void families_persistence(struct exposition *out, const struct readings *readings)
{
    struct engine *engine = readings->engine;

    write_aof(out, readings);
    family_gauge(out, "kelvin_changes_since_save", NULL, "Changes since the last dump.", (double)engine_dirty(engine));
    family_gauge(out, "kelvin_save_in_progress", NULL, "1 while BGSAVE runs.", readings->save.task.running_ms >= 0);
    family_gauge(out, "kelvin_save_last_ok", NULL, "1 unless the last BGSAVE has failed.", !readings->save.last_failed);
    family_gauge(out, "kelvin_save_last_time_seconds", "seconds", "When the last dump was made, or the server started, as a Unix time.",
        (double)engine->last_save_ms / 1000);
    family_gauge(out, "kelvin_backup_in_progress", NULL, "1 while TIER BACKUP runs.", readings->backups.task.running_ms >= 0);
    family_gauge(out, "kelvin_backup_last_ok", NULL, "1 unless the last TIER BACKUP has failed.", readings->backups.task.failures == 0);
    family_gauge(out, "kelvin_backup_last_time_seconds", "seconds", "When the last good backup was made, as a Unix time; 0: never since the start.",
        (double)readings->backups.last_good.time_ms / 1000);
    family_gauge(out, "kelvin_writes_refused", NULL, "1 while writes are refused because a disk can't be written.", engine_disks_fail(engine, &(int){ 0 }));
}
