#include "metrics/progress.h"

#include "engine/role.h"
#include "lifecycle/aof_switch.h"
#include "metrics/document.h"
#include "metrics/readings.h"

enum { SEEN_US_MIN = 1000000 };     /* less says nothing about the pace */

/* The state of one kind. */
struct step {
    bool runs;
    const char *kind, *what, *unit;
    uint64_t done, total;           /* total 0: not known */
};

double progress_left(struct progress *progress, int64_t now_us, uint64_t done, uint64_t total)
{
    if (!progress->runs || done < progress->last)
        *progress = (struct progress){ .runs = true, .since_us = now_us, .first = done };
    progress->last = done;
    if (done <= progress->first || now_us - progress->since_us < SEEN_US_MIN || total < done)
        return -1;
    return (double)(total - done) / (double)(done - progress->first) * (double)(now_us - progress->since_us) / 1e6;
}

static void write_step(struct document *json, struct progress *progress, const struct step *step, int64_t now_us)
{
    if (!step->runs) {
        progress->runs = false;
        return;
    }
    document_open(json, NULL, '{');
    document_text(json, "kind", step->kind);
    document_text(json, "what", step->what);
    document_text(json, "unit", step->unit);
    document_integer(json, "done", step->done);
    if (step->total > 0)
        document_integer(json, "total", step->total);
    else
        document_null(json, "total");
    document_number_if(json, "seconds_left", progress_left(progress, now_us, step->done, step->total));
    document_close(json, '}');
}

void progress_write(struct document *json, struct progress_list *list, const struct readings *readings)
{
    struct engine *engine = readings->engine;
    const struct view_upstream *upstream = &readings->replication.upstream;
    const struct tier_stats *tier = &readings->tier;
    bool is_loading = engine->state == ENGINE_LOADING || role_is_syncing(engine);
    bool receives = readings->replication.is_replica && upstream->is_syncing && !is_loading;
    const struct step steps[PROGRESS_KINDS] = {
        [PROGRESS_LOADING] = { is_loading, "loading", "Loading the data", "bytes", engine->loading_done, engine->loading_total },
        [PROGRESS_SYNC] = { receives, "sync", "Receiving the data from the primary", "bytes", (uint64_t)upstream->sync_received,
            upstream->sync_size > 0 ? (uint64_t)upstream->sync_size : 0 },
        [PROGRESS_WARMUP] = { tier->warmup == TIER_WARMUP_RUNNING, "warmup", "Bringing back the keys that were hot before the start", "keys", tier->warmup_loaded,
            tier->warmup_keys },
        [PROGRESS_CHECKPOINT] = { readings->rewrite.running_ms >= 0 || aof_switch_is_running(engine->lifecycle.aof_switch), "checkpoint", "Taking a checkpoint", "keys", 0, 0 },
        [PROGRESS_SAVE] = { readings->save.task.running_ms >= 0, "save", "Writing a dump", "keys", readings->save.keys, readings->save.key_total },
        [PROGRESS_BACKUP] = { readings->backups.task.running_ms >= 0, "backup", "Making a backup", "keys", 0, 0 },
    };

    document_open(json, "progress", '[');
    for (int i = 0; i < PROGRESS_KINDS; i++)
        write_step(json, &list->at[i], &steps[i], readings->began_us);
    document_close(json, ']');
}
