/* The writer: the one thread that changes the store and the record map (tier rule 1).
 *
 * Each round: finish what failed, do what was asked, demote while memory is over the high mark, bury, expire, purge, tidy up.
 * It sleeps when there is nothing to do, and is nudged by workers that see the memory rise.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/mutex.h"
#include "tier/batch.h"
#include "tier/demote.h"
#include "tier/purge.h"
#include "tier/stuck.h"
#include "tier/sweep.h"
#include "tier/usage.h"

enum {
    ROUND_MS = 50,                  /* how long it sleeps at most */
    SEAL_PAUSE_MS = 5,              /* between two steps of a checkpoint */
    BATCH_ITEMS_MAX = 8192,
    GRAVES_A_ROUND = 4096,
    EXPIRED_A_ROUND = 1024,
    UNKNOWN_A_ROUND = 512,
    BATCHES_WHILE_SEALING = 4,
    COMPACT_BLOCKS = 64,
    HOLE_PERCENT = 4,               /* of the heaps may be holes before compaction starts */
    REOPEN_EVERY_MS = 1000,
    SIZE_EVERY_MS = 500,
    FLUSH_WAIT_MS_MAX = 2000,
    LEVEL0_SOFT = 5,                /* tables; LevelDB begins to merge at 4 */
    BRAKE_MS = 1,                   /* for each batch, times the square of the tables beyond that */
    BRAKE_MS_MAX = 50,
    YIELDS_MAX = 1000,
    SHARE_MIN = DEMOTE_SHARE_ONE / 100,
    STORE_FULL_AGAIN_PERCENT = 95,  /* after the store was full, it is written again below that */
};

struct writer_state {
    struct batch batch;
    struct unknowns unknowns;
    struct unknowns big;
    struct random random;
    uint32_t next_demote, next_grave, next_unknown;
    int64_t reopen_at_ms, size_at_ms;
    struct stuck stuck;
};

void tier_note_error(struct tier *tier, const char *what, enum status status)
{
    char text[sizeof(tier->last_error)];

    snprintf(text, sizeof(text), "%s: %s", what, status_name(status));
    tier_note_message(tier, text);
}

void tier_note_message(struct tier *tier, const char *text)
{
    atomic_fetch_add_explicit(&tier->errors, 1, memory_order_relaxed);
    mutex_lock(&tier->error_lock);
    snprintf(tier->last_error, sizeof(tier->last_error), "%s", text);
    mutex_unlock(&tier->error_lock);
}

struct keyspace *tier_keyspace_of(struct partition *partition, uint32_t incarnation)
{
    ASSERT_LOCKED(partition);
    for (int db = 0; db < partition->all->db_count; db++) {
        if (partition->keyspaces[db] != NULL && partition->keyspaces[db]->incarnation == incarnation)
            return partition->keyspaces[db];
    }
    for (struct keyspace *keyspace = partition->flushed; keyspace != NULL; keyspace = keyspace->next_flushed) {
        if (keyspace->incarnation == incarnation)
            return keyspace;
    }
    return NULL;
}

static void tell(struct tier *tier, const char *format, const char *detail)
{
    char text[400];

    snprintf(text, sizeof(text), format, detail);
    tier->hooks.log(tier->hooks.context, text);
}

/* All writing stops here until the store is back. */
static void enter_error(struct tier *tier, enum status status)
{
    tier_note_error(tier, "the store can't be written", status);
    if (tier->state != TIER_ERROR)
        tell(tier, "The cold tier's store can't be written (%s). Keys stay in RAM; trying again each second.", status_name(status));
    tier->state = TIER_ERROR;
    tier->writing->reopen_at_ms = clock_wall_ms() + REOPEN_EVERY_MS;
    tier->hooks.memory_freed(tier->hooks.context);      /* who waits for memory has to learn that none comes */
}

static void commit(struct tier *tier)
{
    enum status status;

    if (tier->writing->batch.failed)
        return;                 /* try_reopen sees to it; another attempt here would put that one off */
    status = batch_commit(tier, &tier->writing->batch);
    if (status != STATUS_OK)
        enter_error(tier, status);
}

static bool try_reopen(struct tier *tier)
{
    struct writer_state *writing = tier->writing;
    bool applied = false;
    struct message message = { "" };
    enum status status = STATUS_OK;

    if (clock_wall_ms() < writing->reopen_at_ms)
        return false;
    if (!store_is_writable(tier->store))
        status = store_reopen(tier->store, &applied, &message);
    if (status == STATUS_OK && writing->batch.failed) {
        if (applied)
            batch_finish(tier, &writing->batch);
        else
            status = batch_commit(tier, &writing->batch);
    }
    if (status != STATUS_OK) {
        tier_note_error(tier, "the store can't be written", status);
        writing->reopen_at_ms = clock_wall_ms() + REOPEN_EVERY_MS;
        return false;
    }
    tier->state = TIER_OK;
    tell(tier, "The cold tier's store is writable again.%s", "");
    return true;
}

/* Between two rounds, without a lock: there may be many files. At most a twentieth of the time. */
static void measure_size(struct tier *tier)
{
    int64_t began_ms = clock_wall_ms(), took_ms;

    if (began_ms < tier->writing->size_at_ms)
        return;
    tier->store_bytes = usage_measure(tier->dir, tier->images);
    took_ms = clock_wall_ms() - began_ms;
    tier->writing->size_at_ms = began_ms + (took_ms > SIZE_EVERY_MS / 20 ? took_ms * 20 : SIZE_EVERY_MS);
}

static void watch_size(struct tier *tier)
{
    int64_t limit = tier->settings.store_size_max;
    uint64_t size = tier->store_bytes;

    if (tier->state == TIER_OK && limit > 0 && size > (uint64_t)limit) {
        tier->state = TIER_FULL;
        tell(tier, "The cold tier has reached tier-max-size. Nothing more is demoted until there is room.%s", "");
        tier->hooks.memory_freed(tier->hooks.context);
    } else if (tier->state == TIER_FULL && (limit <= 0 || size < (uint64_t)limit / 100 * STORE_FULL_AGAIN_PERCENT)) {
        tier->state = TIER_OK;
    }
}

static uint64_t used(struct tier *tier)
{
    return tier->hooks.memory_used(tier->hooks.context);
}

static bool over(struct tier *tier, int64_t percent, uint64_t *by)
{
    int64_t limit = tier->settings.memory_max;
    uint64_t mark, now;

    if (limit <= 0)
        return false;
    mark = (uint64_t)limit / 100 * (uint64_t)percent;
    now = used(tier);
    *by = now > mark ? now - mark : 0;
    return now > mark;
}

/* LevelDB keeps what is written in a memtable until the next one is begun. A value that is larger than a memtable should be has it written
 * out at once. */
static void commit_big(struct tier *tier)
{
    bool is_large = store_batch_size(tier->writing->batch.store) >= tier->tuned.write_buffer_size;
    enum status status = STATUS_OK;

    commit(tier);
    if (is_large && !tier->writing->batch.failed)
        status = store_flush(tier->store);
    if (status != STATUS_OK)
        enter_error(tier, status);
}

/* Several large memtables at a time would be more memory than the values that they make room for. */
static void wait_for_flush(struct tier *tier)
{
    struct timespec pause = { 0, 1000000 };
    uint64_t by;

    for (int i = 0; i < FLUSH_WAIT_MS_MAX && !tier->stopping && over(tier, 100, &by) && store_is_flushing(tier->store); i++)
        nanosleep(&pause, NULL);
}

/* Big values, one after the other; a batch of its own each. */
static void put_big(struct tier *tier)
{
    struct unknowns *big = &tier->writing->big;

    if (big->count > 0)
        commit(tier);
    for (size_t i = 0; i < big->count && !tier->writing->batch.failed; i++) {
        struct unknown_key *at = &big->keys[i];

        wait_for_flush(tier);
        (void)batch_put_big(tier, &tier->writing->batch, at->partition, at->incarnation, at->hash,
            bytes_of(big->text.data + at->key_at, at->key_size), BATCH_DEMOTE, NULL);      /* too large: it is passed over from now on */
        commit_big(tier);
    }
    big->count = 0;
    big->text.size = 0;
}

/* One batch's worth of cold keys; false if no key could be taken in a whole round of the partitions. */
static bool demote_batch(struct tier *tier, uint32_t share, uint64_t wanted)
{
    struct writer_state *writing = tier->writing;
    uint64_t freed = 0;
    int64_t now_ms = clock_wall_ms();
    bool clean_only = tier->state != TIER_OK;

    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[writing->next_demote];

        writing->next_demote = (writing->next_demote + 1) % tier->partitions->count;
        partition_lock(partition);
        for (int db = 0; db < tier->partitions->db_count; db++) {
            if (partition->keyspaces[db] != NULL && partition->keyspaces[db]->table.count > 0)
                freed += demote_window(tier, partition->keyspaces[db], share, clean_only, &writing->batch, &writing->unknowns,
                    &writing->big, &writing->random, now_ms);
        }
        partition_unlock(partition);
        demoted_free(tier);
        if (freed >= wanted || writing->batch.count >= BATCH_ITEMS_MAX ||
            store_batch_size(writing->batch.store) >= (size_t)tier->settings.batch_size)
            break;
    }
    if (writing->unknowns.count > 0) {
        enum status status = unknowns_resolve(tier, &writing->unknowns, &writing->batch);

        if (status != STATUS_OK)
            tier_note_error(tier, "a record can't be read", status);
    }
    put_big(tier);
    commit(tier);
    atomic_fetch_add_explicit(&tier->demoted_bytes, freed, memory_order_relaxed);
    return freed > 0;
}

static uint64_t sum_live(struct tier *tier)
{
    uint64_t live = 0;

    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];

        partition_lock(partition);
        for (int db = 0; db < tier->partitions->db_count; db++) {
            if (partition->keyspaces[db] != NULL)
                live += partition->keyspaces[db]->heap.live_bytes;
        }
        partition_unlock(partition);
    }
    return live;
}

/* Which share of each window has to go, so that `need` bytes do. What can go is the heaps, and values beside them, which are not
 * counted; of all that is used the rest is buffers and the store's own. Too little is made up for by another round of the windows, too
 * much takes what is hot. */
static uint32_t demote_share(struct tier *tier, uint64_t need)
{
    uint64_t live = sum_live(tier), half = used(tier) / 2, movable = live > half ? live : half;
    uint64_t share = movable > need ? need * DEMOTE_SHARE_ONE / movable + 1 : DEMOTE_SHARE_ONE / 2;

    if (share < SHARE_MIN)
        return SHARE_MIN;
    return share > DEMOTE_SHARE_ONE / 2 ? DEMOTE_SHARE_ONE / 2 : (uint32_t)share;
}

/* Somebody waits for the writer. */
static bool is_asked(struct tier *tier)
{
    bool asked;

    mutex_lock(&tier->writer_lock);
    asked = tier->image != NULL || tier->requests != NULL;
    mutex_unlock(&tier->writer_lock);
    return asked;
}

/* Who counts waits for a place between two batches; a mutex alone would hardly ever give it to him. */
static void yield_to_counters(struct tier *tier)
{
    for (int i = 0; i < YIELDS_MAX && tier->counters > 0; i++)
        sched_yield();
}

/* LevelDB stops writes for as long as it takes when too many tables wait to be merged. Slowing down before that, more and more, spreads the
 * stop over the batches before it; clients follow, as their pace goes by what is freed. */
static void brake(struct tier *tier)
{
    int over_soft = store_level0_count(tier->store) - LEVEL0_SOFT;
    struct timespec pause = { 0, 1000000L * BRAKE_MS * over_soft * over_soft };

    if (over_soft <= 0)
        return;
    if (pause.tv_nsec > 1000000L * BRAKE_MS_MAX)
        pause.tv_nsec = 1000000L * BRAKE_MS_MAX;
    nanosleep(&pause, NULL);
}

/* From above the high mark down to the low one. */
static void demote_to_low(struct tier *tier)
{
    struct stuck *stuck = &tier->writing->stuck;
    uint64_t need;
    uint32_t share;
    int batches = 0;

    if (!tier->settings.enabled || !over(tier, tier->settings.high_percent, &need)) {
        stuck_end(tier, stuck);
        tier->demoting = false;
        return;
    }
    if (stuck_pauses(tier, stuck))
        return;
    over(tier, tier->settings.low_percent, &need);
    tier->demoting = true;
    share = demote_share(tier, need);
    while (!tier->stopping && over(tier, tier->settings.low_percent, &need)) {
        if (demote_batch(tier, share, need)) {
            stuck_progress(tier, stuck);
            tier->hooks.memory_freed(tier->hooks.context);
        } else if (stuck_fruitless(tier, stuck)) {
            break;
        } else {
            share = DEMOTE_SHARE_ONE;
        }
        sweep_compact(tier, COMPACT_BLOCKS, HOLE_PERCENT);
        mutex_unlock(&tier->counting_lock);
        yield_to_counters(tier);
        brake(tier);
        mutex_lock(&tier->counting_lock);
        /* Clients may fill what is freed as quickly, for ever. A checkpoint goes on, and begins, all the same: what it writes can be
         * dropped without another write. */
        if (++batches >= BATCHES_WHILE_SEALING && (tier->sealing != NULL || is_asked(tier)))
            return;
    }
    tier->demoting = false;
}

static enum tier_move demote_one(struct tier *tier, struct demote_request *request)
{
    struct writer_state *writing = tier->writing;
    struct partition *partition = &tier->partitions->partitions[partition_index(tier->partitions, request->hash)];
    struct keyspace *keyspace;
    enum tier_move result = TIER_BUSY;
    uint32_t handle = 0;
    bool unknown = false, big = false;
    uint32_t incarnation = 0;

    for (int attempt = 0; attempt < 2; attempt++) {
        partition_lock(partition);
        keyspace = partition_keyspace_if(partition, request->db);
        handle = keyspace != NULL ? keyspace_find(keyspace, request->hash, request->key) : 0;
        if (handle == 0) {
            result = TIER_NOT_THERE;
        } else if (keyspace_entry(keyspace, handle)->flags & ENTRY_PINNED ||
                   checkpoint_bars(tier, keyspace, keyspace_entry(keyspace, handle))) {
            result = TIER_BUSY;
        } else if (entry_record(keyspace_entry(keyspace, handle)) == RECORD_CLEAN) {
            demote_entry(tier, keyspace, request->hash, handle);
            atomic_fetch_add_explicit(&tier->clean_demotions, 1, memory_order_relaxed);
            result = TIER_MOVED;
        } else if (entry_record(keyspace_entry(keyspace, handle)) == RECORD_UNKNOWN) {
            unknown = true;
            unknowns_add(&writing->unknowns, keyspace, request->hash, request->key);
        } else if (tier->state != TIER_OK || !tier->settings.enabled) {
            result = TIER_MOVE_FAILED;
        } else if (entry_is_big(keyspace_entry(keyspace, handle))) {
            big = true;
            incarnation = keyspace->incarnation;
        } else {
            batch_put(&writing->batch, keyspace, request->hash, handle, BATCH_DEMOTE, request);
        }
        partition_unlock(partition);
        demoted_free(tier);
        if (!unknown)
            break;
        unknown = false;
        if (unknowns_resolve(tier, &writing->unknowns, NULL) != STATUS_OK)
            return TIER_MOVE_FAILED;
    }
    if (big)
        commit(tier);
    if (big && writing->batch.failed)
        return TIER_MOVE_FAILED;
    if (big && batch_put_big(tier, &writing->batch, partition, incarnation, request->hash, request->key, BATCH_DEMOTE, request) ==
        STATUS_TOO_LARGE)
        return TIER_MOVE_FAILED;
    return result;
}

static void serve_requests(struct tier *tier)
{
    struct demote_request *requests;

    mutex_lock(&tier->writer_lock);
    requests = tier->requests;
    tier->requests = NULL;
    mutex_unlock(&tier->writer_lock);
    if (requests == NULL)
        return;
    for (struct demote_request *at = requests; at != NULL; at = at->next) {
        at->result = TIER_BUSY;
        at->result = demote_one(tier, at);
        if (tier->writing->batch.count >= BATCH_ITEMS_MAX)
            commit(tier);
    }
    commit(tier);
    if (tier->writing->batch.failed) {      /* it will be written some day, but nobody waits for that */
        for (size_t i = 0; i < tier->writing->batch.count; i++) {
            struct demote_request **at = &tier->writing->batch.items[i].request;

            if (*at != NULL)
                (*at)->result = TIER_MOVE_FAILED;
            *at = NULL;
        }
    }
    mutex_lock(&tier->writer_lock);
    while (requests != NULL) {
        struct demote_request *next = requests->next;

        requests->done = true;
        requests = next;
    }
    condition_broadcast(&tier->writer_answered);
    mutex_unlock(&tier->writer_lock);
}

static bool purge_some(struct tier *tier)
{
    enum status status;
    bool more = purge_step(tier, &status);

    if (status != STATUS_OK)
        enter_error(tier, status);
    return more;
}

/* Sizes were changed by CONFIG SET: the store takes them over as it is opened. */
static void retune(struct tier *tier)
{
    struct store_tuning wanted = {
        (size_t)tier->settings.write_buffer_size, (size_t)tier->settings.block_cache_size, tier->settings.compression != 0,
    };
    struct message message = { "" };
    enum status status;
    bool applied;

    if (wanted.write_buffer_size == tier->tuned.write_buffer_size && wanted.block_cache_size == tier->tuned.block_cache_size &&
        wanted.compression == tier->tuned.compression)
        return;
    store_tune(tier->store, &wanted);
    tier->tuned = wanted;
    status = store_reopen(tier->store, &applied, &message);
    if (status != STATUS_OK)
        enter_error(tier, status);
}

/* One round; true if there is more to do at once. */
static bool writer_round(struct tier *tier)
{
    struct writer_state *writing = tier->writing;
    int64_t now_ms = clock_wall_ms();
    bool more = false;

    if (tier->state == TIER_ERROR)
        seal_abort(tier, STATUS_CLOSED);
    if (tier->state == TIER_ERROR && !try_reopen(tier)) {
        serve_requests(tier);
        demote_to_low(tier);        /* what is clean can still be dropped: its record was written */
        return false;
    }
    if (tier->settings.load_threads != tier->loader_count)
        loaders_adjust(tier);
    if (!tier->checkpointing)
        retune(tier);
    if (tier->state == TIER_ERROR)
        return false;
    watch_size(tier);
    serve_requests(tier);
    more = seal_step(tier, &writing->batch);
    checkpoint_end(tier, &writing->batch);
    if (writing->batch.failed && tier->state != TIER_ERROR)
        enter_error(tier, STATUS_IO);
    demote_to_low(tier);
    if (tier->state == TIER_ERROR)
        return false;
    if (sweep_graves(tier, GRAVES_A_ROUND, &writing->batch, &writing->next_grave) == GRAVES_A_ROUND)
        more = true;
    if (tier->expire_cold && !tier->checkpointing) {
        bool more_expired;

        sweep_expired(tier, now_ms, EXPIRED_A_ROUND, &writing->batch, &more_expired);
        more = more || more_expired;
    }
    commit(tier);
    if (tier->state == TIER_ERROR)
        return false;
    if (!tier->checkpointing && purge_some(tier))
        more = true;
    if (sweep_unknown(tier, UNKNOWN_A_ROUND, &writing->unknowns, &writing->next_unknown) == UNKNOWN_A_ROUND)
        more = true;
    if (unknowns_resolve(tier, &writing->unknowns, NULL) != STATUS_OK)
        more = false;
    if (sweep_compact(tier, COMPACT_BLOCKS, HOLE_PERCENT))
        more = true;
    return more;
}

/* A checkpoint in no hurry leaves half of the time to others: there may be few cores, and clients come first. */
static void wait_for_work(struct tier *tier, bool more, bool sealing)
{
    int64_t pause_ms = !more ? ROUND_MS : sealing ? SEAL_PAUSE_MS : 0;
    struct timespec until;

    mutex_lock(&tier->writer_lock);
    if (pause_ms > 0) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += pause_ms * 1000000L;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        while (!tier->stopping && !tier->nudged && tier->requests == NULL && (tier->image == NULL || sealing)) {
            if (!condition_wait_until(&tier->writer_asked, &tier->writer_lock, &until))
                break;
        }
    }
    tier->nudged = false;
    mutex_unlock(&tier->writer_lock);
}

void *writer_main(void *context)
{
    struct tier *tier = context;
    struct writer_state *writing = mem_zalloc(sizeof(*writing));
    uint64_t seed;

    tier->hooks.thread_started(tier->hooks.context, "kelvin-writer");
    random_system(&seed, sizeof(seed));
    random_init(&writing->random, seed);
    batch_init(&writing->batch);
    tier->writing = writing;
    while (!tier->stopping) {
        bool more, sealing;

        measure_size(tier);
        mutex_lock(&tier->counting_lock);
        more = writer_round(tier);
        sealing = tier->sealing != NULL;        /* a test that holds the writer makes it do a step */
        mutex_unlock(&tier->counting_lock);
        wait_for_work(tier, more, sealing);
        yield_to_counters(tier);
    }
    serve_requests(tier);       /* nobody is left waiting */
    seal_abort(tier, STATUS_CLOSED);
    purge_stop(tier);
    batch_release(&writing->batch);
    unknowns_release(&writing->unknowns);
    unknowns_release(&writing->big);
    mem_free(tier->demoted);
    tier->demoted = NULL;
    mem_free(writing);
    tier->writing = NULL;
    return NULL;
}
