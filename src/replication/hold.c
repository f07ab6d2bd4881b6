#include "replication/hold.h"

#include "base/mem.h"
#include "engine/barrier.h"
#include "engine/engine.h"

/* Passes all workers; their barrier and the thread that waits refer to it. */
struct passage {
    struct barrier barrier;
    struct engine *engine;
    _Atomic bool is_over;
    _Atomic int references;
};

void hold_begin(struct engine *engine)
{
    engine->holds_writes = true;
    if (engine->tier != NULL)
        tier_set_expiry(engine->tier, false);       /* on again in a tick of the cron */
}

void hold_end(struct engine *engine)
{
    engine->holds_writes = false;
    parking_notify(engine, PARKED_FOR_PAUSE);
}

static void drop_passage(struct passage *passage)
{
    if (atomic_fetch_sub(&passage->references, 1) == 1)
        mem_free(passage);
}

static void note_passed(struct job *job)
{
    struct passage *passage = (struct passage *)job;
    struct engine *engine = passage->engine;

    passage->is_over = true;
    drop_passage(passage);
    waiting_bump(&engine->waiting);
}

static bool await_passage(struct passage *passage, bool (*gives_up)(const void *context), const void *context)
{
    struct waiting *waiting = &passage->engine->waiting;

    for (;;) {
        uint32_t version = waiting_version(waiting);

        if (passage->is_over)
            return true;
        if (gives_up(context))
            return false;
        waiting_wait(waiting, version, -1);
    }
}

bool hold_await(struct engine *engine, bool (*gives_up)(const void *context), const void *context)
{
    struct passage *passage = mem_zalloc(sizeof(*passage));
    struct claim claim;
    bool is_over;

    passage->engine = engine;
    passage->references = 2;
    passage->barrier.job.release = note_passed;
    barrier_post(engine, &passage->barrier);
    is_over = await_passage(passage, gives_up, context);
    drop_passage(passage);
    if (!is_over)
        return false;
    partitions_lock_all_unowned(engine->partitions, &claim);
    partitions_unlock_all_unowned(engine->partitions, &claim);
    return true;
}
