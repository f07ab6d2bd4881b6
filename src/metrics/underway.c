#include "metrics/underway.h"

#include "engine/role.h"
#include "lifecycle/aof_switch.h"
#include "metrics/document.h"
#include "metrics/readings.h"

/* The state of one kind. */
struct step {
    bool runs;
    const char *kind, *what;
    enum progress_unit unit;
    uint64_t done, total;           /* total 0: not known */
};

static void write_step(struct document *json, struct progress *progress, const struct step *step, int64_t now_us)
{
    if (!step->runs) {
        *progress = (struct progress){ .total = 0 };
        return;
    }
    progress_follow(progress, step->unit, step->done, step->total, now_us);
    document_open(json, NULL, '{');
    document_text(json, "kind", step->kind);
    document_text(json, "what", step->what);
    document_text(json, "unit", step->unit == PROGRESS_BYTES ? "bytes" : "keys");
    document_integer(json, "done", step->done);
    if (step->total > 0)
        document_integer(json, "total", step->total);
    else
        document_null(json, "total");
    document_number_if(json, "seconds_left", progress_left_s(progress));
    document_close(json, '}');
}

void underway_write(struct document *json, struct underway *underway, const struct readings *readings)
{
    struct engine *engine = readings->engine;
    const struct view_upstream *upstream = &readings->replication.upstream;
    const struct tier_stats *tier = &readings->tier;
    bool is_loading = engine->state == ENGINE_LOADING || role_is_syncing(engine);
    bool receives = readings->replication.is_replica && upstream->is_syncing && !is_loading;
    const struct step steps[UNDERWAY_KINDS] = {
        [UNDERWAY_LOADING] = { is_loading, "loading", "Loading the data", PROGRESS_BYTES, engine->loading_done, engine->loading_total },
        [UNDERWAY_SYNC] = { receives, "sync", "Receiving the data from the primary", PROGRESS_BYTES, (uint64_t)upstream->sync_received,
            upstream->sync_size > 0 ? (uint64_t)upstream->sync_size : 0 },
        [UNDERWAY_WARMUP] = { tier->warmup == TIER_WARMUP_RUNNING, "warmup", "Bringing back the keys that were hot before the start", PROGRESS_COUNT, tier->warmup_loaded,
            tier->warmup_keys },
        [UNDERWAY_CHECKPOINT] = { readings->rewrite.running_ms >= 0 || aof_switch_is_running(engine->lifecycle.aof_switch), "checkpoint", "Taking a checkpoint", PROGRESS_COUNT, 0, 0 },
        [UNDERWAY_SAVE] = { readings->save.task.running_ms >= 0, "save", "Writing a dump", PROGRESS_COUNT, readings->save.keys, readings->save.key_total },
        [UNDERWAY_BACKUP] = { readings->backups.task.running_ms >= 0, "backup", "Making a backup", PROGRESS_COUNT, 0, 0 },
    };

    document_open(json, "progress", '[');
    for (int i = 0; i < UNDERWAY_KINDS; i++)
        write_step(json, &underway->at[i], &steps[i], readings->began_us);
    document_close(json, ']');
}
