#include "metrics/readings.h"

#include "base/clock.h"
#include "base/mem.h"
#include "engine/memory.h"
#include "engine/parking.h"

static void read_log(struct readings *readings)
{
    struct engine *engine = readings->engine;
    struct aof *aof = engine->aof;

    readings->has_aof = aof != NULL;
    if (aof == NULL)
        return;
    readings->aof = aof_stats(aof);
    readings->aof_fails = aof_error(aof) != STATUS_OK || engine_disk_refuses_growth(engine);
}

struct readings *readings_take(struct engine *engine)
{
    struct readings *readings = mem_zalloc(sizeof(*readings));

    readings->engine = engine;
    readings->began_us = clock_mono_us();
    readings->tier.state = TIER_OFF;
    memory_stats(engine, &readings->memory);
    memory_look(engine, &readings->room);
    if (engine->tier != NULL)
        tier_stats(engine->tier, &readings->tier);
    readings->waits = parking_waits(engine);
    readings->blocking = blocking_stats(engine);
    readings->database_count = engine->partitions->db_count;
    readings->databases = mem_alloc((size_t)readings->database_count * sizeof(*readings->databases));
    database_keys(engine, readings->databases);
    replication_view(engine, &readings->replication);
    readings->rewrite = task_stats(engine->tasks, TASK_REWRITE);
    save_stats(engine->lifecycle.save, &readings->save);
    readings->backups.task = (struct task_stats){ .running_ms = -1, .last_ms = -1 };
    if (engine->lifecycle.backups != NULL)
        backups_stats(engine->lifecycle.backups, &readings->backups);
    read_log(readings);
    return readings;
}

void readings_release(struct readings *readings)
{
    mem_free(readings->databases);
    mem_free(readings);
}
