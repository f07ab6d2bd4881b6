#include "lifecycle/lifecycle.h"

#include "engine/engine.h"
#include "lifecycle/aof_switch.h"
#include "lifecycle/backups.h"
#include "lifecycle/dump_image.h"
#include "lifecycle/full_sync.h"
#include "lifecycle/reload.h"
#include "lifecycle/rewrite.h"
#include "lifecycle/save.h"
#include "lifecycle/shutdown.h"
#include "lifecycle/task.h"

void lifecycle_cron(struct engine *engine)
{
    aof_switch_retry(engine->aof_switch);
    rewrite_consider(engine->rewrite);
    save_consider(engine->save);
}

static bool lifecycle_denies_writes(struct engine *engine)
{
    return save_denies_writes(engine->save);
}

void lifecycle_create(struct engine *engine)
{
    engine->tasks = tasks_create(engine->meter);
    engine->aof_switch = aof_switch_create(engine);
    engine->rewrite = rewrite_create(engine);
    engine->backups = backups_create(engine);
    engine->save = save_create(engine);
    engine->full_sync = full_sync_create(engine);
    engine->shutdown = shutdown_create(engine);
    dump_image_clean(engine);
    engine->upper = (struct engine_upper){ .cron = lifecycle_cron, .denies_writes = lifecycle_denies_writes };
}

void lifecycle_stop(struct engine *engine)
{
    shutdown_destroy(engine->shutdown);
    reload_stop(engine);
    backups_destroy(engine->backups);
    aof_switch_stop(engine->aof_switch);
    full_sync_destroy(engine->full_sync);
    save_destroy(engine->save);
    rewrite_destroy(engine->rewrite);
}

void lifecycle_destroy(struct engine *engine)
{
    aof_switch_destroy(engine->aof_switch);
    tasks_destroy(engine->tasks);
}
