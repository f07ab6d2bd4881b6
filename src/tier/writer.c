#include "tier/writer.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "tier/collect.h"
#include "tier/count.h"
#include "tier/demotion.h"
#include "tier/expiry.h"
#include "tier/look_up.h"
#include "tier/pause.h"
#include "tier/purge.h"
#include "tier/read_pool.h"
#include "tier/reader.h"
#include "tier/replace.h"
#include "tier/resolve.h"
#include "tier/seal.h"
#include "tier/sweep.h"
#include "tier/tier_private.h"
#include "tier/writing.h"

enum {
    ROUND_US = 50000,               /* how long it sleeps at most after a round that has found something to do, ... */
    IDLE_ROUND_US = 400000,         /* ... and when rounds find nothing: what is urgent wakes it */
    SEAL_TIDY_US = 20000,           /* during a checkpoint what can wait is done so often */
    GRAVES_A_ROUND = 4096,
    GRAVES_MANY = 256,              /* if a round buries as many, the next one follows at once */
    EXPIRED_A_ROUND = 4096,
    UNKNOWN_A_ROUND = 2048,         /* and no more at once: reads of clients go first */
};

struct writer {
    struct thread thread;
    /* The thread's. */
    struct key_list unknown;
    uint32_t next_grave, next_unknown;      /* partitions */
    struct pause pause;
    int64_t tidied_us;
    int64_t demotion_us;                /* how long demotion took in the last round */
    bool is_demoting;                   /* and there is more of it */
    uint64_t work_seen;                 /* work_done after the last round */
    int64_t round_us;                   /* the next sleep, if there is nothing to do at once */
};

static bool collect_some(struct tier *tier)
{
    enum status status;
    bool more;

    if (tier->writing->batch.failed)
        return false;
    more = collect_step(tier, &status);
    if (status != STATUS_OK)
        writing_fail(tier, status);
    return more && status == STATUS_OK;
}

/* Burying and expiring, in one batch. */
static bool delete_some(struct tier *tier)
{
    struct batch *batch = &tier->writing->batch;
    bool more, more_expired;

    more = drops_step(tier);
    more = sweep_graves(tier, GRAVES_A_ROUND, batch, &tier->writer->next_grave) >= GRAVES_MANY || more;
    if (tier->expire_cold && tier->epoch.phase == CHECKPOINT_NONE) {
        expiry_step(tier, clock_wall_ms(), EXPIRED_A_ROUND, batch, &more_expired);
        more = more || more_expired;
    }
    if (shed_soonest(tier, batch))
        more = true;
    writing_commit(tier);
    return more;
}

/* Does work that can wait: purging, resolving unknown records, compacting the heaps. `more`: there was more to do before it. */
static bool tidy_some(struct tier *tier, bool more)
{
    struct writer *writer = tier->writer;

    if (tier->epoch.phase == CHECKPOINT_NONE && !collect_awaits_checkpoint(tier) && purge_step(tier))
        more = true;
    if (tier->state != TIER_ERROR && collect_some(tier))
        more = true;
    if (tier->epoch.phase == CHECKPOINT_NONE && tier->state != TIER_ERROR)
        outdated_step(tier);
    sweep_unknown(tier, UNKNOWN_A_ROUND, &writer->unknown, &writer->next_unknown);
    if (resolve_entries(tier, &tier->look_ups, &writer->unknown, NULL, NULL) != STATUS_OK)
        more = false;               /* the store can't be read: not at once */
    return sweep_compact(tier) || more;
}

/* The steps of a checkpoint are shorter than a look at all partitions. */
static bool tidy_is_due(struct writer *writer)
{
    int64_t now_us = clock_mono_us();

    if (now_us - writer->tidied_us < SEAL_TIDY_US)
        return false;
    writer->tidied_us = now_us;
    return true;
}

/* A step of a checkpoint is not followed by a longer pause because there was demotion, and gets its share of the time beside it. */
static void demote_some(struct tier *tier) REQUIRES(tier->counting.lock);
static void demote_some(struct tier *tier)
{
    struct writer *writer = tier->writer;
    int64_t begun_us = clock_mono_us(), begun_ns = pause_other_begin();

    writer->is_demoting = demotion_run(tier);
    writer->demotion_us = clock_mono_us() - begun_us;
    pause_other_end(&writer->pause, begun_ns);
}

/* The store is in error. True if it is back. */
static bool recover_store(struct tier *tier)
{
    seal_abort(tier, STATUS_CLOSED);
    return writing_recover(tier);
}

/* One round; true if there is more to do at once. */
static bool writer_round(struct tier *tier) REQUIRES(tier->counting.lock);
static bool writer_round(struct tier *tier)
{
    struct batch *batch = &tier->writing->batch;
    bool more;

    writing_help_log(tier);
    if (tier->state == TIER_ERROR)
        collect_remove(tier);       /* it takes no room, and makes some */
    if (tier->state == TIER_ERROR && !recover_store(tier)) {
        demotion_serve_requests(tier);
        demotion_run(tier);         /* what is clean can still be dropped: its record was written */
        return drops_step(tier);    /* hot pages of deleted values take memory that clients wait for */
    }
    read_pool_adjust(tier);
    packed_trim(tier);
    demotion_note_room(tier);
    writing_retune(tier);
    writing_check_size(tier);
    demotion_serve_requests(tier);
    more = seal_step(tier, batch, pause_step_us(tier->writer->demotion_us));
    seal_end(tier, batch);
    if (batch->failed && tier->state != TIER_ERROR)
        writing_fail(tier, STATUS_IO);
    demote_some(tier);
    if (tier->state == TIER_ERROR)
        return false;
    if (more && !tidy_is_due(tier->writer))
        return true;
    more = delete_some(tier) || more || tier->writer->is_demoting;
    if (tier->state == TIER_ERROR)
        return false;
    return tidy_some(tier, more);
}

/* Changes when the writer has done something, or clients have used keys of the store: then there is soon more of it. */
static uint64_t work_done(const struct tier *tier)
{
    const struct statistics *statistics = &tier->statistics;

    return statistics->graves + statistics->graves_seen + statistics->batches + statistics->resolved + statistics->collected_bytes +
           statistics->demotions + statistics->clean_demotions + statistics->promotions + statistics->looks + statistics->expired_cold;
}

/* Returns how long to sleep after a round that leaves nothing to do at once: longer each time while there is no work. */
static int64_t next_round_us(struct tier *tier)
{
    struct writer *writer = tier->writer;
    uint64_t done = work_done(tier);
    bool is_idle = done == writer->work_seen && tier->state == TIER_OK && tier->epoch.phase == CHECKPOINT_NONE;

    writer->work_seen = done;
    writer->round_us = !is_idle ? ROUND_US : writer->round_us < IDLE_ROUND_US / 2 ? 2 * writer->round_us : IDLE_ROUND_US;
    return writer->round_us;
}

/* The steps of a checkpoint are short, and leave time to other threads: there may be few cores, and clients come first. While there is demotion
 * clients wait for that, and the checkpoint has its share of the writer's time only. */
static void wait_for_work(struct tier *tier, bool more, bool is_sealing)
{
    int64_t step_pause_us = pause_after_step(&tier->writer->pause, &tier->hooks);
    int64_t pause_us = !more ? next_round_us(tier) : is_sealing && !tier->writer->is_demoting ? step_pause_us : 0;

    if (requests_wait(tier, pause_us, is_sealing ? WAIT_EXCEPT_IMAGE : WAIT_FOR_ALL) || more)
        tier->writer->round_us = ROUND_US / 2;
}

static void writer_main(void *context)
{
    struct tier *tier = context;

    while (!tier->stopping) {
        bool more, is_sealing;

        pause_begin_step(&tier->writer->pause);
        replace_serve(tier);
        if (tier->store == NULL) {              /* it failed: the server ends */
            requests_wait(tier, ROUND_US, WAIT_FOR_ALL);
            continue;
        }
        writing_measure(tier);
        counting_block(&tier->counting);
        more = writer_round(tier);
        is_sealing = tier_is_sealing(tier);     /* a test that holds the writer makes it do a step */
        counting_unblock(&tier->counting);
        wait_for_work(tier, more, is_sealing);
        counting_let_in(&tier->counting);
    }
    demotion_serve_requests(tier);              /* no thread is left waiting */
    replace_refuse(tier);
    seal_abort(tier, STATUS_CLOSED);
    reader_close(tier->look_ups);
    tier->look_ups = NULL;
}

int writer_start(struct tier *tier)
{
    tier->writer = mem_zalloc(sizeof(*tier->writer));
    pause_init(&tier->writer->pause);
    tier->writer->round_us = ROUND_US;
    return thread_start(&tier->writer->thread, "kelvin-writer", tier->hooks.meter, writer_main, tier);
}

void writer_stop(struct tier *tier)
{
    if (tier->writer == NULL)
        return;
    requests_wake(tier);
    thread_join(&tier->writer->thread);
    key_list_release(&tier->writer->unknown);
    mem_free(tier->writer);
    tier->writer = NULL;
}
