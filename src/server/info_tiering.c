/* INFO's section Tiering; docs/operating.md explains each field. TIER STATS returns the same. */
#include <inttypes.h>

#include "engine/engine.h"
#include "engine/memory.h"
#include "engine/worker.h"
#include "lifecycle/backups.h"
#include "server/advice.h"
#include "server/info_rows.h"
#include "stats/waits.h"

static const char *const warmups[] = {
    [TIER_WARMUP_IDLE] = "idle", [TIER_WARMUP_RUNNING] = "running", [TIER_WARMUP_OFF] = "off", [TIER_WARMUP_DONE] = "done",
};

/* Writes a message of a lower room as one line. */
static void write_message(struct buffer *out, const char *name, const char *message)
{
    buffer_append_format(out, "%s:", name);
    for (const char *at = message; *at != '\0'; at++)
        buffer_append_u8(out, *at == '\r' || *at == '\n' ? ' ' : (uint8_t)*at);
    buffer_append(out, "\r\n", 2);
}

static void count_hot(struct engine *engine, struct tier_stats *stats)
{
    for (int db = 0; db < engine->partitions->db_count; db++)
        stats->hot_keys += partitions_entry_count(engine->partitions, db);
}

static void write_backups(struct buffer *out, struct engine *engine)
{
    struct backups_stats stats = { .task = { .running_ms = -1, .last_ms = -1 } };
    const struct backup_result *last = &stats.last_good;

    if (engine->lifecycle.backups != NULL)
        backups_stats(engine->lifecycle.backups, &stats);
    info_number(out, "tier_backup_in_progress", stats.task.running_ms >= 0);
    info_number(out, "tier_backup_current_ms", stats.task.running_ms >= 0 ? stats.task.running_ms : 0);
    info_text(out, "tier_last_backup_status", stats.task.last_ms < 0 ? "none" : stats.task.failures > 0 ? "err" : "ok");
    info_number(out, "tier_last_backup_time", last->time_ms / 1000);
    info_number(out, "tier_last_backup_ms", stats.task.last_ms);
    info_number(out, "tier_last_backup_keys", (int64_t)last->keys);
    info_number(out, "tier_last_backup_bytes", (int64_t)last->bytes);
    info_number(out, "tier_last_backup_copied_bytes", (int64_t)last->copied_bytes);
}

static void write_waits(struct buffer *out, const struct engine *engine, enum wait_reason reason, const char *prefix)
{
    struct waits_summary summary = waits_summarize(engine->stats.waits, reason);

    buffer_append_format(out, "%s_calls:%" PRIu64 "\r\n", prefix, summary.calls);
    buffer_append_format(out, "%s_usec_p50:%" PRIu64 "\r\n", prefix, summary.p50_us);
    buffer_append_format(out, "%s_usec_p99:%" PRIu64 "\r\n", prefix, summary.p99_us);
}

void info_tiering(struct buffer *out, void *context)
{
    struct engine *engine = context;
    struct tier_stats stats = { .state = TIER_OFF };
    struct parking_waits waits = parking_waits(engine);
    struct memory_view view;
    uint64_t hot = engine_stat(engine, STAT_HOT_HITS), cold = engine_stat(engine, STAT_COLD_HITS);

    if (engine->tier != NULL)
        tier_stats(engine->tier, &stats);
    else
        count_hot(engine, &stats);
    memory_look(engine, &view);
    info_text(out, "tier_status", stats.state == TIER_OK && waits.longest_ms >= PARKING_LONG_MS ? "waiting" : tier_state_name(stats.state));
    info_number(out, "tier_hot_keys", (int64_t)stats.hot_keys);
    info_number(out, "tier_cold_keys", (int64_t)stats.cold_keys);
    info_number(out, "tier_hot_pages", (int64_t)stats.hot_pages);
    info_number(out, "tier_cold_pages", (int64_t)stats.cold_pages);
    info_number(out, "tier_unknown_keys", (int64_t)stats.unknown_keys);
    info_number(out, "tier_dirty_keys", (int64_t)stats.dirty_keys);
    info_number(out, "tier_hot_hits", (int64_t)hot);
    info_number(out, "tier_cold_hits", (int64_t)cold);
    info_number(out, "tier_misses", (int64_t)engine_stat(engine, STAT_TIER_MISSES));
    info_float(out, "tier_hit_ratio", 100 * info_ratio((double)hot, (double)(hot + cold)));
    info_number(out, "tier_blind_writes", (int64_t)engine_stat(engine, STAT_BLIND_WRITES));
    info_number(out, "tier_demotions", (int64_t)(stats.demotions + stats.clean_demotions));
    info_number(out, "tier_clean_demotions", (int64_t)stats.clean_demotions);
    info_number(out, "tier_promotions", (int64_t)stats.promotions);
    info_number(out, "tier_looks", (int64_t)stats.looks);
    info_number(out, "tier_pinned_keys", (int64_t)stats.pinned_keys);
    info_number(out, "tier_rules", (int64_t)stats.rules);
    info_number(out, "tier_batches", (int64_t)stats.batches);
    info_text(out, "tier_read_method", stats.reads_by_ring ? "io_uring" : "threads");
    info_number(out, "tier_ring_reads", (int64_t)stats.ring_reads);
    info_number(out, "tier_ring_batches", (int64_t)stats.ring_batches);
    info_number(out, "tier_loads_waiting", (int64_t)stats.loads_waiting);
    info_number(out, "tier_load_usec_p50", (int64_t)stats.load_p50_us);
    info_number(out, "tier_load_usec_p99", (int64_t)stats.load_p99_us);
    write_waits(out, engine, WAIT_COLD, "tier_cold_wait");
    write_waits(out, engine, WAIT_MEMORY, "tier_memory_wait");
    info_number(out, "tier_false_maybes", (int64_t)stats.false_maybes);
    info_number(out, "tier_store_bytes", (int64_t)stats.store_bytes);
    info_number(out, "tier_segments", (int64_t)stats.segments);
    info_number(out, "tier_segment_bytes", (int64_t)stats.segment_bytes);
    info_number(out, "tier_segment_live_bytes", (int64_t)stats.segment_live_bytes);
    info_number(out, "tier_segment_written_bytes", (int64_t)stats.segment_written_bytes);
    info_number(out, "tier_collected_bytes", (int64_t)stats.collected_bytes);
    info_float(out, "tier_compression_ratio", engine->tier != NULL ? stats.packing_ratio : 1);
    info_number(out, "tier_compressed_records", (int64_t)stats.packed_records);
    info_number(out, "tier_compression_saved_bytes", (int64_t)stats.packing_saved_bytes);
    info_number(out, "tier_packed_keys", (int64_t)stats.packed_keys);
    info_number(out, "tier_packed_bytes", (int64_t)stats.packed_bytes);
    info_number(out, "tier_packed_hits", (int64_t)stats.packed_hits);
    info_number(out, "tier_dictionaries", (int64_t)stats.dictionaries);
    info_number(out, "tier_store_memory", (int64_t)stats.store_memory);
    info_number(out, "tier_memory_set_aside", (int64_t)(view.can_demote ? view.set_aside : 0));
    info_number(out, "tier_memory_counted", (int64_t)(memory_counted_or_used(&view, memory_used(engine))));
    info_number(out, "tier_memory_waiting_clients", (int64_t)waits.clients);
    info_number(out, "tier_memory_waiting_ms", waits.longest_ms);
    info_number(out, "tier_recordmap_bytes", (int64_t)stats.recordmap_bytes);
    info_number(out, "tier_graves", (int64_t)stats.graves);
    info_number(out, "tier_unplanned_reads", (int64_t)stats.unplanned_reads);
    info_number(out, "tier_throttled_clients", (int64_t)engine_stat(engine, STAT_THROTTLED));
    info_number(out, "tier_expired_cold", (int64_t)stats.expired_cold);
    info_number(out, "tier_evicted_cold", (int64_t)stats.evicted_cold);
    info_number(out, "tier_resolved", (int64_t)stats.resolved);
    info_number(out, "tier_errors", (int64_t)stats.errors);
    write_message(out, "tier_last_error", stats.last_error);
    info_number(out, "tier_damaged_records", (int64_t)stats.damaged_records);
    info_text(out, "tier_warmup_state", warmups[stats.warmup]);
    info_number(out, "tier_warmup_keys_total", (int64_t)stats.warmup_keys);
    info_number(out, "tier_warmup_keys_loaded", (int64_t)stats.warmup_loaded);
    info_float(out, "tier_warmup_seconds", (double)stats.warmup_us / 1e6);
    info_number(out, "tier_hot_bytes", (int64_t)stats.hot_bytes);
    info_number(out, "tier_held_bytes", (int64_t)stats.held_bytes);
    advice_info(out, engine);
    write_backups(out, engine);
}
