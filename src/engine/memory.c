#include "engine/memory.h"

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/lazy_free.h"
#include "engine/worker.h"
#include "tier/image.h"

enum {
    WAIT_US_MAX = 10000000,
    LOOK_MS = 5,
    EXCESS_SHARE = 20,          /* of maxmemory: what may be resident and unused */
    EXCESS_MAX_SHARE = 3,       /* of maxmemory: the most that the excess counts for */
    WATCH_MOVED = 256 << 10,    /* bytes more or less in use than at the last look */
    WATCH_ANYWAY_US = 1000000,
    REPLY_SHARE = 4,            /* of maxmemory: long strings that replies hold */
};
/* A large value is in memory twice for a while when it is demoted, so twice its size has to be free before it is received. */
enum { LARGE_COPIES = 2, LARGE_PERCENT_MAX = 60 };

uint64_t memory_used(const struct engine *engine)
{
    return meter_used(engine->meter) + segment_pool_used(engine->partitions->pool) + engine->memory.stacks;
}

static bool can_demote(const struct engine *engine)
{
    return !tier_is_blocked(engine->tier) && !tier_is_stuck(engine->tier);
}

bool memory_admit_large(struct engine *engine, struct client *client, uint64_t size)
{
    uint64_t limit = (uint64_t)config_number(engine->config, CONFIG_MAXMEMORY), most = limit / 100 * LARGE_PERCENT_MAX;
    uint64_t wanted = size < most / LARGE_COPIES ? size * LARGE_COPIES : most;
    struct client *nobody = NULL;
    bool is_hopeless = wanted == most || !can_demote(engine);

    if (limit == 0 || engine->memory.large_client == client)
        return true;
    if (memory_used(engine) + wanted <= limit ||
        (is_hopeless && atomic_compare_exchange_strong(&engine->memory.large_client, &nobody, client)))
        return true;
    engine->memory.wanted = wanted;
    engine->memory.wanted_us = clock_mono_us();
    if (engine->tier != NULL && !tier_is_demoting(engine->tier))
        tier_nudge(engine->tier);
    return false;
}

void memory_end_large(struct engine *engine, struct client *client)
{
    struct client *holder = client;

    atomic_compare_exchange_strong(&engine->memory.large_client, &holder, NULL);
}

bool memory_large_is_awaited(const struct engine *engine)
{
    return engine->memory.wanted_us != 0 && clock_mono_us() - engine->memory.wanted_us < LARGE_ASK_MS * 1000;
}

uint64_t memory_wanted(const struct engine *engine)
{
    return memory_large_is_awaited(engine) ? engine->memory.wanted : 0;
}

bool memory_replies_are_full(const struct engine *engine)
{
    int64_t limit = config_number(engine->config, CONFIG_MAXMEMORY);

    return limit > 0 && engine->memory.reply_held > (uint64_t)limit / REPLY_SHARE;
}

/* Resident memory changes with what is used, but for pages that the allocator gives back by and by. */
static bool excess_may_have_changed(struct memory *memory, uint64_t used, int64_t now_us)
{
    uint64_t moved = used > memory->watched_used ? used - memory->watched_used : memory->watched_used - used;

    if (moved < WATCH_MOVED && memory->watched_us != 0 && now_us - memory->watched_us < WATCH_ANYWAY_US)
        return false;
    memory->watched_used = used;
    memory->watched_us = now_us;
    return true;
}

/* Resident is read before and after what is used: a large value that comes or goes between the readings is no excess. */
void memory_watch_excess(struct engine *engine, int64_t now_us)
{
    uint64_t limit = (uint64_t)config_number(engine->config, CONFIG_MAXMEMORY), most = limit / EXCESS_MAX_SHARE;
    uint64_t room, before, allowed, after, resident, excess;

    if (!excess_may_have_changed(&engine->memory, memory_used(engine), now_us))
        return;
    room = engine->tier != NULL ? tier_memtable_room(engine->tier) : 0;
    before = meter_resident();
    allowed = memory_used(engine) + room + meter_freed_pages() + engine->memory.base + limit / EXCESS_SHARE;
    after = meter_resident();
    resident = before < after ? before : after;
    excess = resident > allowed ? resident - allowed : 0;
    engine->memory.excess = excess < most ? excess : most;      /* else a tiny budget would be eaten up by it */
}

void memory_note_use(struct engine *engine, int64_t now_us)
{
    uint64_t used = memory_used(engine);
    int64_t since = engine->memory.over_since_us;

    if (used > engine->memory.peak)
        engine->memory.peak = used;
    if (memory_is_short(engine)) {
        if (since == 0)
            engine->memory.over_since_us = now_us;
    } else if (since != 0) {
        engine->memory.over_us += now_us - since;
        engine->memory.over_since_us = 0;
    }
}

uint64_t memory_set_aside(const struct engine *engine)
{
    return engine->tier != NULL ? engine->memory.excess + tier_memtable_room(engine->tier) : 0;
}

uint64_t memory_counted(const struct memory_view *view)
{
    return view->used + (view->can_demote ? view->set_aside : 0);
}

uint64_t memory_counted_or_used(const struct memory_view *view, uint64_t used)
{
    return view->limit > 0 ? memory_counted(view) : used;
}

enum memory_state memory_judge(const struct memory_view *view)
{
    if (view->limit == 0 || memory_counted(view) <= view->limit)
        return MEMORY_ENOUGH;
    return view->can_demote || view->used - view->limit <= view->leaving ? MEMORY_COMES : MEMORY_OUT;
}

/* The lazy free, pages of deleted values, what the writer has of a big value, and the log's tail, which is being written. The tail counts only beside a tier that can write: an import fills the tail without flushing it, and
 * would wait for itself. */
static uint64_t leaving(const struct engine *engine)
{
    struct aof *aof = engine->aof;

    if (lazy_free_pending(engine->lazy_free) > 0)
        return UINT64_MAX;
    if (engine->tier != NULL && (tier_holds_big(engine->tier) || tier_drops_pages(engine->tier)))
        return UINT64_MAX;
    if (tier_is_blocked(engine->tier))
        return 0;
    return aof != NULL && aof_error(aof) == STATUS_OK ? aof_stats(aof).buffer_size : 0;
}

void memory_look(const struct engine *engine, struct memory_view *view)
{
    int64_t limit = config_number(engine->config, CONFIG_MAXMEMORY);

    *view = (struct memory_view){ .limit = limit > 0 ? (uint64_t)limit : 0 };
    if (limit <= 0)
        return;
    view->used = memory_used(engine);
    view->set_aside = memory_set_aside(engine);
    view->can_demote = can_demote(engine);
    if (!view->can_demote && view->used > view->limit)
        view->leaving = leaving(engine);
}

enum memory_state memory_state(const struct engine *engine)
{
    struct memory_view view;

    memory_look(engine, &view);
    return memory_judge(&view);
}

bool memory_is_short(const struct engine *engine)
{
    return memory_state(engine) != MEMORY_ENOUGH;
}

bool memory_reserve_is_used_up(const struct engine *engine)
{
    return engine->partitions->sealing && engine->tier != NULL && tier_handed_is_full(engine->tier);
}

/* Memory that the tier and the lazy free have freed ends the wait; that of clients does not. */
void memory_await_change(struct engine *engine, uint32_t version)
{
    if (engine->tier != NULL)
        tier_nudge(engine->tier);
    waiting_wait(&engine->waiting, version, LOOK_MS);
}

void memory_wait(struct engine *engine)
{
    int64_t until_us = clock_mono_us() + WAIT_US_MAX;

    while (clock_mono_us() < until_us) {
        uint32_t version = waiting_version(&engine->waiting);

        if (memory_state(engine) != MEMORY_COMES)
            break;
        memory_await_change(engine, version);
    }
}
