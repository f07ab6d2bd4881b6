#include "lifecycle/emptying.h"

#include "engine/dataset.h"
#include "engine/engine.h"
#include "engine/tracking.h"
#include "engine/watch.h"
#include "script/registry.h"

void emptying_run(struct engine *engine)
{
    for (int db = 0; db < engine->partitions->db_count; db++) {
        watch_touch_database(engine, db);
        dataset_empty(engine, db);
    }
    registry_publish(engine->scripts, library_set_empty());
}

static uint64_t log_words(struct engine *engine, const struct bytes *words, int count)
{
    return history_is_on(&engine->history) ? history_append(&engine->history, 0, words, count) : 0;
}

void emptying_run_logged(struct engine *engine)
{
    struct tracking_list list = { 0 };
    struct claim claim;
    uint64_t lsn;

    partitions_lock_all_unowned(engine->partitions, &claim);
    emptying_run(engine);
    (void)log_words(engine, (struct bytes[]){ BYTES("FUNCTION"), BYTES("FLUSH") }, 2);
    lsn = log_words(engine, (struct bytes[]){ BYTES("FLUSHALL") }, 1);
    for (uint32_t i = 0; i < engine->partitions->count; i++)
        partition_note_change(&engine->partitions->partitions[i], lsn);
    if (tracking_is_on(engine))
        tracking_note_all(engine, &list);
    engine->dirty++;
    partitions_unlock_all_unowned(engine->partitions, &claim);
    tracking_send(engine, NULL, &list, lsn);
}
