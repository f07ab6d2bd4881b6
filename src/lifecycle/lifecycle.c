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
    aof_switch_retry(engine->lifecycle.aof_switch);
    rewrite_consider(engine->lifecycle.rewrite);
    save_consider(engine->lifecycle.save);
}

static bool lifecycle_denies_writes(struct engine *engine)
{
    return save_denies_writes(engine->lifecycle.save);
}

void lifecycle_create(struct engine *engine)
{
    engine->tasks = tasks_create(engine->meter, &engine->waiting, engine->log);
    engine->lifecycle.aof_switch = aof_switch_create(engine);
    engine->lifecycle.rewrite = rewrite_create(engine);
    engine->lifecycle.backups = backups_create(engine);
    engine->lifecycle.save = save_create(engine);
    engine->lifecycle.full_sync = full_sync_create(engine);
    engine->lifecycle.shutdown = shutdown_create(engine);
    dump_image_clean(engine);
    engine->upper = (struct engine_upper){ .cron = lifecycle_cron, .denies_writes = lifecycle_denies_writes };
}

void lifecycle_stop(struct engine *engine)
{
    shutdown_destroy(engine->lifecycle.shutdown);
    reload_stop(engine);
    backups_destroy(engine->lifecycle.backups);
    aof_switch_stop(engine->lifecycle.aof_switch);
    full_sync_destroy(engine->lifecycle.full_sync);
    save_destroy(engine->lifecycle.save);
    rewrite_destroy(engine->lifecycle.rewrite);
}

void lifecycle_destroy(struct engine *engine)
{
    aof_switch_destroy(engine->lifecycle.aof_switch);
    tasks_destroy(engine->tasks);
}
