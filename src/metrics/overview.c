#include "metrics/overview.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/version.h"
#include "cluster/cluster.h"
#include "cluster/topology.h"
#include "engine/memory.h"
#include "engine/sizing.h"
#include "metrics/hour.h"
#include "metrics/document.h"
#include "metrics/problems.h"
#include "metrics/readings.h"
#include "metrics/ready.h"
#include "stats/hot_keys.h"
#include "stats/rates.h"

static double percent_of(double part, double all)
{
    return all > 0 ? 100 * part / all : -1;
}

static uint64_t stat_of(const struct readings *readings, enum statistic stat)
{
    return engine_stat(readings->engine, stat);
}

static void write_server(struct document *json, const struct readings *readings)
{
    static const char *const states[] = { [ENGINE_LOADING] = "loading", [ENGINE_READY] = "ready", [ENGINE_STOPPING] = "ending" };
    struct engine *engine = readings->engine;
    int state = engine->state;      /* as the index itself gcc would read it without atomicity */

    document_open(json, "server", '{');
    document_text(json, "version", KELVIN_VERSION);
    document_text(json, "redis_version", REDIS_VERSION);
    document_text(json, "mode", engine->replication.cluster != NULL ? "cluster" : "standalone");
    document_text(json, "role", readings->replication.is_replica ? "replica" : "primary");
    document_text(json, "state", states[state]);
    document_integer(json, "port", (uint64_t)config_number(engine->config, config_number(engine->config, CONFIG_PORT) != 0 ? CONFIG_PORT : CONFIG_TLS_PORT));
    document_integer(json, "uptime_seconds", (uint64_t)((clock_mono_us() - engine->started_us) / 1000000));
    document_integer(json, "time_ms", (uint64_t)clock_wall_ms());
    document_integer(json, "workers", (uint64_t)engine->worker_count);
    document_close(json, '}');
}

static void write_clients(struct document *json, const struct readings *readings)
{
    struct engine *engine = readings->engine;

    document_open(json, "clients", '{');
    document_integer(json, "connected", (uint64_t)view_client_count(engine));
    document_integer(json, "max", (uint64_t)config_number(engine->config, CONFIG_MAXCLIENTS));
    document_integer(json, "blocked", readings->blocking.waiters + (uint64_t)engine->clients.paused);
    document_integer(json, "waiting_for_memory", readings->waits.clients);
    document_integer(json, "waiting_for_memory_ms", (uint64_t)readings->waits.longest_ms);
    document_close(json, '}');
    document_open(json, "commands", '{');
    document_integer(json, "processed", stat_of(readings, STAT_COMMANDS));
    document_number(json, "per_second", rates_of(engine->stats.rates, RATE_COMMANDS));
    document_integer(json, "error_replies", stat_of(readings, STAT_ERROR_REPLIES));
    document_close(json, '}');
}

static void write_memory(struct document *json, const struct readings *readings)
{
    const struct memory_stats *memory = &readings->memory;
    const struct memory_view *room = &readings->room;

    document_open(json, "memory", '{');
    document_integer(json, "counted", memory_counted_or_used(room, memory->used));
    document_integer(json, "max", room->limit);
    document_integer(json, "used", memory->used);
    document_integer(json, "peak", memory->peak);
    document_integer(json, "resident", memory->resident);
    document_open(json, "parts", '{');
    document_integer(json, "dataset", memory->dataset);
    document_integer(json, "tables", memory->tables);
    document_integer(json, "tier", memory->tier);
    document_integer(json, "clients", memory->clients);
    document_integer(json, "aof_buffer", memory->aof_buffer);
    document_integer(json, "scripts", memory->scripts + memory->functions + memory->interpreters);
    document_integer(json, "startup", memory->startup);
    document_close(json, '}');
    document_close(json, '}');
}

static void write_uses(struct document *json, struct engine *engine)
{
    struct tier_uses uses;

    tier_sample_uses(engine->tier, &uses);
    for (int n = 0; n <= USES_MAX; n++) {
        document_open(json, NULL, '{');
        document_integer(json, "uses", (uint64_t)n);
        document_integer(json, "keys", (uint64_t)(uses.keys[n] + 0.5));
        document_integer(json, "bytes", (uint64_t)(uses.bytes[n] + 0.5));
        document_close(json, '}');
    }
}

static void write_keys(struct document *json, const struct readings *readings)
{
    const struct tier_stats *tier = &readings->tier;
    uint64_t hot = 0, cold = 0;

    for (int db = 0; db < readings->database_count; db++) {
        hot += readings->databases[db].hot;
        cold += readings->databases[db].cold;
    }
    document_open(json, "keys", '{');
    document_integer(json, "hot", hot);
    document_integer(json, "cold", cold);
    document_integer(json, "hot_bytes", tier->hot_bytes);
    document_integer(json, "record_bytes", tier->segment_live_bytes);
    document_integer(json, "expired", stat_of(readings, STAT_EXPIRED_KEYS) + tier->expired_cold);
    document_integer(json, "evicted", stat_of(readings, STAT_EVICTED_KEYS) + tier->evicted_cold);
    document_open(json, "by_uses", '[');
    if (readings->engine->tier != NULL)
        write_uses(json, readings->engine);
    document_close(json, ']');
    document_close(json, '}');
}

static void write_tier(struct document *json, const struct readings *readings, bool sees_keys)
{
    const struct tier_stats *tier = &readings->tier;
    uint64_t hot = stat_of(readings, STAT_HOT_HITS), cold = stat_of(readings, STAT_COLD_HITS);

    document_open(json, "tier", '{');
    document_text(json, "state", tier_state_name(tier->state));
    document_integer(json, "hot_hits", hot);
    document_integer(json, "cold_hits", cold);
    document_number_if(json, "hit_ratio", percent_of((double)hot, (double)(hot + cold)));
    document_integer(json, "promotions", tier->promotions);
    document_integer(json, "demotions", tier->demotions + tier->clean_demotions);
    document_bool(json, "demoting", readings->engine->tier != NULL && tier_is_demoting(readings->engine->tier));
    document_integer(json, "dirty_keys", tier->dirty_keys);
    document_integer(json, "loads_waiting", tier->loads_waiting);
    document_integer(json, "load_p50_us", tier->load_p50_us);
    document_integer(json, "load_p99_us", tier->load_p99_us);
    document_integer(json, "store_bytes", tier->store_bytes);
    document_integer(json, "store_max_bytes", (uint64_t)config_number(readings->engine->config, CONFIG_TIER_MAX_SIZE));
    document_integer(json, "segment_bytes", tier->segment_bytes);
    document_integer(json, "segment_live_bytes", tier->segment_live_bytes);
    document_integer(json, "errors", tier->errors);
    document_integer(json, "damaged_records", tier->damaged_records);
    document_text(json, "last_error", sees_keys && tier->last_error[0] != '\0' ? tier->last_error : NULL);
    document_close(json, '}');
}

static void write_point(struct document *json, const struct sizing *sizing, int index)
{
    struct sizing_point point = sizing_at(sizing, index);

    document_open(json, NULL, '{');
    document_number(json, "factor", point.factor);
    document_number(json, "maxmemory", (double)(uint64_t)point.maxmemory);
    document_number(json, "hit_ratio", point.hit_ratio);
    document_number(json, "reads_per_second", point.reads);
    document_number_if(json, "mean_usec", point.mean_us);
    document_number_if(json, "p99_usec", point.p99_us);
    document_close(json, '}');
}

/* The sizes that are shown, and those between. */
static void write_sizes(struct document *json, const struct sizing *sizing)
{
    document_open(json, "sizes", '[');
    for (int i = 0; i < SIZING_SHOWN; i++)
        write_point(json, sizing, sizing_shown(i));
    document_close(json, ']');
    document_open(json, "curve", '[');
    for (int i = 0; i < ADVISE_SIZES; i++)
        write_point(json, sizing, i);
    document_close(json, ']');
}

static void write_advice(struct document *json, struct engine *engine)
{
    static const char *const states[] = { [SIZING_KNOWN] = "known", [SIZING_NO_TIER] = "no_tier", [SIZING_NOT_SAMPLED] = "not_sampled", [SIZING_NO_LIMIT] = "no_maxmemory",
        [SIZING_FEW_USES] = "few_uses" };
    struct sizing *sizing = mem_alloc(sizeof(*sizing));
    const struct advise_estimate *estimate = &sizing->estimate;
    enum sizing_state state = sizing_look(engine, sizing);

    document_open(json, "advice", '{');
    document_text(json, "state", states[state]);
    document_number(json, "sampled_uses", (double)(uint64_t)sizing_sampled_uses(estimate));
    document_integer(json, "sampled_uses_needed", SIZING_USES_MIN);
    document_number(json, "seconds", (double)(uint64_t)estimate->seconds);
    document_number_if(json, "known", sizing_known_percent(estimate));
    if (state == SIZING_KNOWN) {
        write_sizes(json, sizing);
    } else {
        document_null(json, "sizes");
        document_null(json, "curve");
    }
    document_close(json, '}');
    mem_free(sizing);
}

static void write_persistence(struct document *json, const struct readings *readings)
{
    const struct task_stats *rewrite = &readings->rewrite;

    document_open(json, "persistence", '{');
    document_bool(json, "aof", readings->has_aof);
    document_bool(json, "aof_ok", !readings->aof_fails);
    document_integer(json, "aof_size", readings->aof.current_size);
    document_integer(json, "aof_replay_bytes", readings->aof.tail_size);
    document_open(json, "checkpoint", '{');
    document_bool(json, "running", rewrite->running_ms >= 0);
    document_number_if(json, "running_ms", (double)rewrite->running_ms);
    document_number_if(json, "last_ms", (double)rewrite->last_ms);
    document_number_if(json, "ended_seconds_ago", rewrite->last_ms < 0 || rewrite->running_ms >= 0 ? -1 :
        (double)((readings->began_us / 1000 - rewrite->began_ms - rewrite->last_ms) / 1000));
    document_integer(json, "count", rewrite->count);
    document_integer(json, "failures", rewrite->failures);
    document_close(json, '}');
    document_open(json, "dump", '{');
    document_bool(json, "running", readings->save.task.running_ms >= 0);
    document_bool(json, "ok", !readings->save.last_failed);
    document_integer(json, "time_ms", (uint64_t)readings->engine->last_save_ms);
    document_integer(json, "changes_since", engine_dirty(readings->engine));
    document_close(json, '}');
    document_open(json, "backup", '{');
    document_bool(json, "running", readings->backups.task.running_ms >= 0);
    document_bool(json, "ok", readings->backups.task.failures == 0);
    document_integer(json, "time_ms", (uint64_t)readings->backups.last_good.time_ms);
    document_close(json, '}');
    document_close(json, '}');
}

static void write_upstream(struct document *json, const struct readings *readings)
{
    const struct view_upstream *link = &readings->replication.upstream;

    if (!readings->replication.is_replica) {
        document_null(json, "primary");
        return;
    }
    document_open(json, "primary", '{');
    document_text(json, "host", link->host);
    document_integer(json, "port", (uint64_t)link->port);
    document_text(json, "link", view_link_name(link->link));
    document_bool(json, "up", link->link == VIEW_LINK_CONNECTED);
    document_number_if(json, "down_seconds", link->link == VIEW_LINK_CONNECTED ? -1 : (double)link->link_down_s);
    document_bool(json, "syncing", link->is_syncing);
    document_close(json, '}');
}

static void write_replication(struct document *json, const struct readings *readings)
{
    const struct replication_view *view = &readings->replication;

    document_open(json, "replication", '{');
    document_integer(json, "offset", (uint64_t)view->point.offset);
    write_upstream(json, readings);
    document_integer(json, "replica_count", (uint64_t)view->replica_count);
    document_open(json, "replicas", '[');
    for (int i = 0; i < view_shown(view); i++) {
        const struct replica_view *replica = &view->replicas[i];

        document_open(json, NULL, '{');
        document_text(json, "ip", replica->ip);
        document_integer(json, "port", (uint64_t)replica->port);
        document_text(json, "state", replica_state_name(replica->state));
        document_integer(json, "lag_bytes", view_lag_bytes(view, replica));
        document_number(json, "lag_seconds", replica->state == REPLICA_ONLINE ? (double)replica->lag_s : 0);
        document_close(json, '}');
    }
    document_close(json, ']');
    document_close(json, '}');
}

static void write_cluster(struct document *json, struct engine *engine)
{
    struct topology *topology;
    uint64_t owned = 0, assigned = 0;

    if (engine->replication.cluster == NULL) {
        document_null(json, "cluster");
        return;
    }
    topology = cluster_topology(engine->replication.cluster);
    for (int slot = 0; slot < SLOT_COUNT; slot++) {
        assigned += topology->owners[slot] >= 0;
        owned += topology->owners[slot] == topology->myself;
    }
    document_open(json, "cluster", '{');
    document_bool(json, "ok", topology->is_ok);
    document_integer(json, "nodes", (uint64_t)topology->count);
    document_integer(json, "slots", SLOT_COUNT);
    document_integer(json, "slots_assigned", assigned);
    document_integer(json, "slots_owned", owned);
    document_close(json, '}');
    topology_release(topology);
}

static void write_hot(struct document *json, const char *name, const struct hot_keys_report *report, enum hot_metric metric)
{
    document_open(json, name, '[');
    for (size_t i = 0; i < report->key_count[metric]; i++) {
        document_open(json, NULL, '{');
        document_bytes(json, "name", report->keys[metric][i].name);
        document_number_if(json, "percent", percent_of((double)report->keys[metric][i].weight, (double)report->total[metric]));
        document_close(json, '}');
    }
    document_close(json, ']');
}

/* The reply of HOTKEYS GET: a session of HOTKEYS finds them, and none is begun here. */
static void write_hot_keys(struct document *json, const struct readings *readings, bool sees_keys)
{
    struct hot_keys_report report;

    document_open(json, "hot_keys", '{');
    if (!sees_keys) {
        document_text(json, "state", "not_allowed");
    } else if (!hot_keys_report(readings->engine->stats.hot_keys, readings->began_us / 1000, &report)) {
        document_text(json, "state", "none");
    } else {
        document_text(json, "state", report.active ? "running" : "ended");
        document_integer(json, "began_ms", (uint64_t)report.plan.started_ms);
        document_integer(json, "duration_ms", (uint64_t)report.duration_ms);
        write_hot(json, "by_time", &report, HOT_TIME);
        write_hot(json, "by_bytes", &report, HOT_BYTES);
        hot_keys_report_release(&report);
    }
    document_close(json, '}');
}

/* Arrays of columns: a sixth of the bytes that an object for each sample would have. */
static void write_hour(struct document *json, struct hour *hour)
{
    static const char *const columns[] = { "time_ms", "span_ms", "hot", "cold", "commands", "loads", "load_p50_us", "load_p99_us", "demoted_bytes", "memory", "memory_max" };
    struct hour_sample *samples = mem_alloc(HOUR_SAMPLES * sizeof(*samples));
    int count = hour_copy(hour, samples);

    document_open(json, "hour", '{');
    document_integer(json, "step_seconds", HOUR_STEP_S);
    document_open(json, "columns", '[');
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        document_text(json, NULL, columns[i]);
    document_close(json, ']');
    document_open(json, "samples", '[');
    for (int i = 0; i < count; i++) {
        const struct hour_sample *sample = &samples[i];
        uint64_t row[] = { (uint64_t)sample->time_ms, sample->span_ms, sample->hot, sample->cold, sample->commands, sample->loads, sample->load_p50_us,
            sample->load_p99_us, sample->demoted_bytes, sample->memory, sample->memory_max };

        document_open(json, NULL, '[');
        for (size_t column = 0; column < sizeof(row) / sizeof(row[0]); column++)
            document_integer(json, NULL, row[column]);
        document_close(json, ']');
    }
    document_close(json, ']');
    document_close(json, '}');
    mem_free(samples);
}

void overview_write(struct overview *overview, bool sees_keys, struct buffer *out)
{
    struct engine *engine = overview->engine;
    struct document json = { .out = out };
    const struct reason *reason = ready_look(engine);
    struct readings *readings = readings_take(engine);

    document_open(&json, NULL, '{');
    write_server(&json, readings);
    document_bool(&json, "ready", reason == NULL);
    problems_write(&json, readings, reason, sees_keys);
    underway_write(&json, &overview->underway, readings);
    write_clients(&json, readings);
    write_memory(&json, readings);
    write_keys(&json, readings);
    write_tier(&json, readings, sees_keys);
    write_advice(&json, engine);
    write_persistence(&json, readings);
    write_replication(&json, readings);
    write_cluster(&json, engine);
    write_hot_keys(&json, readings, sees_keys);
    write_hour(&json, overview->hour);
    document_close(&json, '}');
    buffer_append_u8(out, '\n');
    readings_release(readings);
}
