/* INFO's sections about the data: Memory, Persistence, Keyspace. */
#include <inttypes.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cluster/cluster.h"
#include "engine/data_stats.h"
#include "engine/lazy_free.h"
#include "engine/scripts.h"
#include "lifecycle/aof_switch.h"
#include "lifecycle/rewrite.h"
#include "lifecycle/save.h"
#include "script/registry.h"
#include "server/info_rows.h"

static double percent(uint64_t part, uint64_t whole)
{
    return 100 * info_ratio((double)part, (double)whole);
}

/* A worker has one interpreter for scripts and functions: its memory is counted as that of scripts. */
static void write_scripts(struct buffer *out, struct engine *engine)
{
    uint64_t interpreters = scripts_memory(engine);
    struct registry_stats stats;
    char human[32];

    registry_stats(engine->scripts, &stats);
    info_human(interpreters, human);
    info_number(out, "used_memory_lua", (int64_t)interpreters);
    info_number(out, "used_memory_vm_eval", (int64_t)interpreters);
    info_text(out, "used_memory_lua_human", human);
    info_number(out, "used_memory_scripts_eval", (int64_t)stats.source_bytes);
    info_number(out, "number_of_cached_scripts", (int64_t)stats.source_count);
    info_number(out, "number_of_functions", (int64_t)stats.function_count);
    info_number(out, "number_of_libraries", (int64_t)stats.library_count);
    info_number(out, "used_memory_vm_functions", 0);
    info_size(out, "used_memory_vm_total", interpreters);
    info_number(out, "used_memory_functions", (int64_t)stats.library_bytes);
    info_size(out, "used_memory_scripts", stats.source_bytes + stats.library_bytes);
}

static void write_fragmentation(struct buffer *out, const struct memory_stats *stats)
{
    const struct meter_allocator *allocator = &stats->allocator;

    info_float(out, "allocator_frag_ratio", info_ratio((double)allocator->active, (double)allocator->allocated));
    info_number(out, "allocator_frag_bytes", (int64_t)(allocator->active - allocator->allocated));
    info_float(out, "allocator_rss_ratio", info_ratio((double)allocator->resident, (double)allocator->active));
    info_number(out, "allocator_rss_bytes", (int64_t)(allocator->resident - allocator->active));
    info_float(out, "rss_overhead_ratio", info_ratio((double)stats->resident, (double)allocator->resident));
    info_number(out, "rss_overhead_bytes", (int64_t)(stats->resident - allocator->resident));
    info_float(out, "mem_fragmentation_ratio", info_ratio((double)stats->resident, (double)stats->used));
    info_number(out, "mem_fragmentation_bytes", (int64_t)(stats->resident - stats->used));
}

void info_memory(struct buffer *out, void *context)
{
    struct engine *engine = context;
    struct memory_stats stats;
    char *policy = config_string(engine->config, CONFIG_MAXMEMORY_POLICY), allocator[64];

    memory_stats(engine, &stats);
    meter_name(allocator);
    info_size(out, "used_memory", stats.used);
    info_size(out, "used_memory_rss", stats.resident);
    info_size(out, "used_memory_peak", stats.peak);
    buffer_append_format(out, "used_memory_peak_perc:%.2f%%\r\n", percent(stats.used, stats.peak));
    info_number(out, "used_memory_overhead", (int64_t)stats.overhead);
    info_number(out, "used_memory_startup", (int64_t)stats.startup);
    info_number(out, "used_memory_dataset", (int64_t)stats.dataset);
    buffer_append_format(out, "used_memory_dataset_perc:%.2f%%\r\n",
        stats.used > stats.startup ? percent(stats.dataset, stats.used - stats.startup) : 0.0);
    info_number(out, "allocator_allocated", (int64_t)stats.allocator.allocated);
    info_number(out, "allocator_active", (int64_t)stats.allocator.active);
    info_number(out, "allocator_resident", (int64_t)stats.allocator.resident);
    info_size(out, "total_system_memory", (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    write_scripts(out, engine);
    info_size(out, "maxmemory", (uint64_t)config_number(engine->config, CONFIG_MAXMEMORY));
    info_text(out, "maxmemory_policy", policy);
    write_fragmentation(out, &stats);
    info_number(out, "mem_not_counted_for_evict", 0);
    info_write_backlog_memory(out, engine);
    info_number(out, "mem_clients_normal", (int64_t)stats.clients);
    info_number(out, "mem_cluster_links", (int64_t)cluster_totals(engine->replication.cluster).link_buffer_bytes);
    info_number(out, "mem_aof_buffer", (int64_t)stats.aof_buffer);
    info_text(out, "mem_allocator", allocator);
    info_number(out, "active_defrag_running", 0);
    info_number(out, "lazyfree_pending_objects", (int64_t)lazy_free_pending(engine->lazy_free));
    info_number(out, "lazyfreed_objects", (int64_t)lazy_free_done(engine->lazy_free));
    mem_free(policy);
}

static void write_loading(struct buffer *out, const struct engine *engine)
{
    uint64_t total = engine->loading_total, done = engine->loading_done;
    int64_t spent_s = (clock_mono_us() - engine->loading_since_us) / 1000000;

    info_number(out, "loading_start_time", engine->loading_since_ms / 1000);
    info_number(out, "loading_total_bytes", (int64_t)total);
    info_number(out, "loading_rdb_used_mem", 0);
    info_number(out, "loading_loaded_bytes", (int64_t)done);
    info_float(out, "loading_loaded_perc", percent(done, total));
    info_number(out, "loading_eta_seconds", done > 0 ? (int64_t)((double)spent_s * (double)(total - done) / (double)done) : 1);
}

static void write_aof(struct buffer *out, struct aof *aof)
{
    struct aof_stats stats = aof_stats(aof);

    info_number(out, "aof_current_size", (int64_t)stats.current_size);
    info_number(out, "aof_base_size", (int64_t)stats.base_size);
    info_number(out, "aof_pending_rewrite", 0);
    info_number(out, "aof_buffer_length", (int64_t)stats.buffer_size);
    info_number(out, "aof_pending_bio_fsync", (int64_t)stats.fsync_pending);
    info_number(out, "aof_delayed_fsync", (int64_t)stats.delayed_fsync);
}

/* -1 stays what it is: none. */
static int64_t seconds_of(int64_t ms)
{
    return ms < 0 ? -1 : ms / 1000;
}

/* Kelvin never forks: the sizes of copied pages are 0. */
void info_persistence(struct buffer *out, void *context)
{
    struct engine *engine = context;
    bool is_loading = engine->state == ENGINE_LOADING;
    struct task_stats rewrite = task_stats(engine->tasks, TASK_REWRITE);
    struct aof *aof = engine->aof;
    struct save_stats save;

    save_stats(engine->lifecycle.save, &save);
    info_number(out, "loading", is_loading);
    info_number(out, "async_loading", 0);
    info_number(out, "current_cow_peak", 0);
    info_number(out, "current_cow_size", 0);
    info_number(out, "current_cow_size_age", 0);
    info_float(out, "current_fork_perc", 0);
    info_number(out, "current_save_keys_processed", (int64_t)save.keys);
    info_number(out, "current_save_keys_total", (int64_t)save.key_total);
    info_number(out, "rdb_changes_since_last_save", (int64_t)engine_dirty(engine));
    info_number(out, "rdb_bgsave_in_progress", save.task.running_ms >= 0);
    info_number(out, "rdb_last_save_time", engine->last_save_ms / 1000);
    info_text(out, "rdb_last_bgsave_status", save.last_failed ? "err" : "ok");
    info_number(out, "rdb_last_bgsave_time_sec", seconds_of(save.last_ms));
    info_number(out, "rdb_current_bgsave_time_sec", seconds_of(save.task.running_ms));
    info_number(out, "rdb_saves", (int64_t)save.count);
    info_number(out, "rdb_last_cow_size", 0);
    info_number(out, "rdb_last_load_keys_expired", (int64_t)engine->imported_expired);
    info_number(out, "rdb_last_load_keys_loaded", (int64_t)engine->imported_keys);
    info_number(out, "aof_enabled", aof != NULL);
    info_number(out, "aof_rewrite_in_progress", rewrite.running_ms >= 0 || aof_switch_is_running(engine->lifecycle.aof_switch));
    info_number(out, "aof_rewrite_scheduled", rewrite_is_scheduled(engine->lifecycle.rewrite));
    info_number(out, "aof_last_rewrite_time_sec", seconds_of(rewrite.last_ms));
    info_number(out, "aof_current_rewrite_time_sec", seconds_of(rewrite.running_ms));
    info_text(out, "aof_last_bgrewrite_status", rewrite.failures > 0 ? "err" : "ok");
    info_number(out, "aof_rewrites", (int64_t)rewrite.count);
    info_number(out, "aof_rewrites_consecutive_failures", (int64_t)rewrite.failures);
    info_text(out, "aof_last_write_status", aof == NULL || (aof_error(aof) == STATUS_OK && !engine_disk_refuses_growth(engine)) ? "ok" : "err");
    info_number(out, "aof_last_cow_size", 0);
    info_number(out, "module_fork_in_progress", 0);
    info_number(out, "module_fork_last_cow_size", 0);
    if (aof != NULL)
        write_aof(out, aof);
    if (is_loading)
        write_loading(out, engine);
}

/* keys= counts both tiers; expires= and avg_ttl= know the keys in RAM only. */
void info_keyspace(struct buffer *out, void *context)
{
    struct engine *engine = context;

    for (int db = 0; db < engine->partitions->db_count; db++) {
        struct expiry_stats expiry;
        uint64_t count, living;

        database_key_count(engine, db, &count);
        if (count == 0)
            continue;
        database_expiry(engine, db, &expiry);
        living = expiry.sampled - expiry.expired;
        buffer_append_format(out, "db%d:keys=%" PRIu64 ",expires=%" PRIu64 ",avg_ttl=%" PRIu64 "\r\n", db, count, expiry.count,
            living > 0 ? expiry.ttl_ms / living : 0);
    }
}
