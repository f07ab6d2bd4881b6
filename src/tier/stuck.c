#include "tier/stuck.h"

#include "base/clock.h"
#include "tier/demotion.h"
#include "tier/tier_private.h"

enum { STEP_SHARE = 64, STEP_MIN = 1 << 20, STEP_MAX = 8 << 20 };

static uint64_t growth_step(const struct tier *tier)
{
    uint64_t size = (uint64_t)tier->settings.memory_max / STEP_SHARE;

    return size < STEP_MIN ? STEP_MIN : size > STEP_MAX ? STEP_MAX : size;
}

static uint64_t memory_used(const struct tier *tier)
{
    return tier->hooks.memory_used(tier->hooks.context);
}

bool tier_is_stuck(struct tier *tier)
{
    const struct stuck *stuck = &tier->stuck;
    uint64_t step = growth_step(tier);

    return stuck->is_stuck && memory_used(tier) < stuck->bytes + step && segment_pool_used(tier->partitions->pool) < stuck->heap_bytes + step;
}

bool stuck_pauses(struct tier *tier)
{
    struct stuck *stuck = &tier->stuck;
    int64_t now_us = clock_mono_us();

    if (now_us < stuck->pause_until_us)
        return true;
    /* A pause that memory's growth may cut short. */
    if (stuck->since_us != 0 && tier_is_stuck(tier) && now_us < stuck->pause_until_us + (STUCK_RETRY_MS - STUCK_PAUSE_MS) * 1000)
        return true;
    stuck->began_us = now_us;
    return false;
}

void stuck_end(struct tier *tier)
{
    tier->stuck.is_stuck = false;
    tier->stuck.since_us = tier->stuck.pause_until_us = tier->stuck.began_us = 0;
    tier->stuck.windows = tier->stuck.freed = 0;
}

static void note_progress(struct tier *tier)
{
    struct stuck *stuck = &tier->stuck;
    uint64_t now;

    stuck->since_us = 0;
    stuck->windows = stuck->freed = 0;
    stuck->held_count = 0;
    stuck->has_freed = false;
    if (!stuck->is_stuck)
        return;
    now = memory_used(tier);
    if (now <= (uint64_t)tier->settings.memory_max || now + growth_step(tier) <= stuck->bytes)
        stuck->is_stuck = false;
}

/* Windows of the largest keyspace, at least. */
static uint64_t windows_max(struct tier *tier)
{
    size_t buckets = 0;

    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];

        partition_lock(partition);
        for (int space = 0; space < tier->partitions->space_count; space++) {
            const struct keyspace *keyspace = partition->keyspaces[space];

            if (keyspace != NULL && keyspace->table.count > 0 && table_buckets_max(&keyspace->table) > buckets)
                buckets = table_buckets_max(&keyspace->table);
        }
        partition_unlock(partition);
    }
    return buckets / DEMOTE_WINDOW_BUCKETS + 1;
}

/* A whole pass that freed next to nothing. True: not the first one. */
static bool end_poor_pass(struct tier *tier)
{
    struct stuck *stuck = &tier->stuck;
    int64_t now_us = clock_mono_us(), took_us = now_us - stuck->began_us, patience_us = STUCK_SETTLE_MS * 1000;
    int64_t pause_us = took_us * STUCK_PAUSE_SHARE;
    bool is_first = stuck->since_us == 0;

    if (is_first)
        stuck->since_us = now_us;
    stuck->has_freed |= stuck->freed > 0;
    if (stuck->held_count > 0 || stuck->has_freed)
        patience_us = STUCK_HELD_MS * 1000;
    if (store_is_flushing(tier->store))
        patience_us = STUCK_FLUSHING_MS * 1000;
    stuck->windows = stuck->freed = 0;
    stuck->held_count = 0;
    if (is_first)
        return false;
    stuck->pause_until_us = now_us + (pause_us > STUCK_PAUSE_MS * 1000 ? pause_us : STUCK_PAUSE_MS * 1000);
    if (now_us - stuck->since_us < patience_us)
        return true;
    stuck->bytes = memory_used(tier);
    stuck->heap_bytes = segment_pool_used(tier->partitions->pool);
    stuck->is_stuck = true;
    tier->hooks.memory_freed(tier->hooks.context);      /* clients that wait for memory have to learn that none comes */
    return true;
}

bool stuck_note_batch(struct tier *tier, uint64_t freed, uint64_t need, bool is_round)
{
    struct stuck *stuck = &tier->stuck;
    uint64_t step = growth_step(tier);

    stuck->freed += freed;
    if (stuck->freed >= (need < step ? need : step)) {
        note_progress(tier);
        return false;
    }
    return is_round && ++stuck->windows > windows_max(tier) && end_poor_pass(tier);
}
