#include "tier/demotion.h"

#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/meter.h"
#include "keyspace/uses.h"
#include "tier/census.h"
#include "tier/collect.h"
#include "tier/count.h"
#include "tier/epoch.h"
#include "tier/oversized.h"
#include "tier/request.h"
#include "tier/resolve.h"
#include "tier/seal.h"
#include "tier/stuck.h"
#include "tier/sweep.h"
#include "tier/writing.h"

enum {
    RANK_NOT_NOW = USES_RANKS,      /* the entry can't be taken */
    RANK_FIRST,                     /* a rule says that it goes before all others */
    AGE_TURNOVERS = 3,              /* uses are halved when this many times the hot keys were demoted ... */
    AGE_GAP_SHARE = 16,             /* ... or a sixteenth of them, if none has less than half of the uses that can be counted */
    BATCH_ITEMS_MAX = 8192,
    BATCHES_WHILE_ASKED = 4,
    TURN_US = 250,                  /* how long it runs until others may, on a CPU that is shared */
    URGENT_PERCENT = 98,            /* of maxmemory: beyond that it doesn't stop for others, who are about to wait for memory */
    FILES_SOFT = 5,                 /* files of the index for which the merges don't follow */
    BRAKE_MS = 1,                   /* for each batch, times the square of the tables beyond that */
    BRAKE_MS_MAX = 50,
    SHARE_MIN = DEMOTE_SHARE_ONE / 100,
    FRUITLESS_STEP = 4,             /* how much the share grows after a round that took nothing */
    VALUE_SAMPLES = 5,              /* elements looked at for the memory of a value */
    MEMTABLES_PERCENT = 125,        /* of a memtable: it, and what the next one gets until it is written out */
    TAKEN_DECAY_US = 10000000,      /* time constant of the running sum of what the memtables have taken */
    BATCH_SHARE = 32,               /* of maxmemory: what a batch frees */
    FREED_SHARE = 20,               /* of maxmemory: freed pages that the allocator may keep while there is demotion */
    MARK_LEFT_PERCENT = 50,         /* of maxmemory: below that, memory comes to its mark as if for the first time */
};

struct demotion {
    _Atomic bool is_running;        /* memory was over the high mark and is not below the low one yet */
    _Atomic uint64_t freed_bytes;   /* in all */
    /* The writer's. */
    struct demote_targets targets;
    struct random random;
    uint32_t next_partition;
    struct census census;
    uint32_t age;                   /* how often uses were halved */
    uint64_t taken;                 /* keys since */
    uint64_t hot_count;             /* keys in all tables */
    uint64_t resolved_bytes;        /* of entries that can go now, in the current batch */
    int64_t room_noted_us;          /* monotonic: when demotion_note_room was called ... */
    uint64_t memtable_size;         /* ... the bytes of the memtables then ... */
    uint64_t memtable_taken;        /* ... and by how much they have grown lately */
    bool was_at_mark;
    bool has_freed;                 /* since the last round of the windows */
    int64_t turn_us;                /* monotonic: when others last could run */
};

struct demotion *demotion_create(struct batch *batch)
{
    struct demotion *demotion = mem_zalloc(sizeof(*demotion));
    uint64_t seed;

    demotion->targets.batch = batch;
    random_system(&seed, sizeof(seed));
    random_init(&demotion->random, seed);
    return demotion;
}

void demotion_destroy(struct demotion *demotion)
{
    key_list_release(&demotion->targets.unknown);
    key_list_release(&demotion->targets.big);
    mem_free(demotion);
}

uint64_t tier_demoted_bytes(const struct tier *tier)
{
    return tier->demotion->freed_bytes;
}

uint64_t tier_memtable_room(const struct tier *tier)
{
    return tier->memtable_room;
}

bool tier_is_demoting(const struct tier *tier)
{
    return tier->demotion->is_running;
}

/* Handles of the next window's entries, their lines on the way to the CPU. */
static uint32_t window_collect(struct keyspace *keyspace, uint32_t handles[DEMOTE_WINDOW_MAX])
{
    uint32_t count = 0;

    for (int i = 0; i < DEMOTE_WINDOW_BUCKETS; i++) {
        struct table_cursor cursor;

        if (!table_seek(&keyspace->table, keyspace->demote_cursor, &cursor))
            break;
        for (int slot = 0; slot < TABLE_BUCKET_SLOTS; slot++) {
            uint32_t handle = cursor.bucket->handles[slot];

            if (handle == 0)
                continue;
            __builtin_prefetch(keyspace_entry(keyspace, handle));
            handles[count++] = handle;
        }
        keyspace->demote_cursor = cursor.last_hash + 1;
        if (keyspace->demote_cursor == 0 ||
            partition_index(keyspace->partition->all, keyspace->demote_cursor) != keyspace->partition->index) {
            keyspace->demote_cursor = partition_first_hash(keyspace->partition);
            break;
        }
    }
    return count;
}

/* Returns whether the entry's record would be larger than the store takes. Called for every entry, so it looks closer only at those that may be. */
static bool is_too_large(struct tier *tier, struct keyspace *keyspace, const struct entry *entry)
{
    if (entry->key_size != ENTRY_KEY_EXTENDED && (tier->oversized.count == 0 || !entry_is_big(entry)))
        return false;
    return oversized_is(tier, keyspace, keyspace_hash(keyspace, entry_key(entry)), entry, OVERSIZED_PROBABLY);
}

/* 0 goes first, after RANK_FIRST. RANK_NOT_NOW: the entry can't be taken. */
static unsigned rank_of(struct tier *tier, struct keyspace *keyspace, const struct entry *entry, enum demote_which which, const struct key_rules *rules)
    REQUIRES(keyspace->partition->lock);
static unsigned rank_of(struct tier *tier, struct keyspace *keyspace, const struct entry *entry, enum demote_which which, const struct key_rules *rules)
{
    if (entry->flags & (ENTRY_PINNED | ENTRY_WRITING | ENTRY_LATCHED) || epoch_bars_write(tier, keyspace, entry)) {
        stuck_note_held(&tier->stuck);
        return RANK_NOT_NOW;
    }
    /* Its pages may be dirty, and could not be evicted without it. */
    if (which == DEMOTE_CLEAN_ONLY && entry_is_paged(entry))
        return RANK_NOT_NOW;
    if (entry_record(entry) != RECORD_CLEAN && (which == DEMOTE_CLEAN_ONLY || is_too_large(tier, keyspace, entry)))
        return RANK_NOT_NOW;
    switch (rules != NULL ? tier_judge(rules, keyspace, entry) : KEY_RULES_BY_USES) {
    case KEY_RULES_KEEP: return RANK_NOT_NOW;
    case KEY_RULES_FIRST: return RANK_FIRST;
    case KEY_RULES_BY_USES: break;
    }
    return uses_rank(entry);
}

uint64_t demotion_entry_size(const struct entry *entry, uint64_t *outside)
{
    *outside = 0;
    if (!entry_is_inline(entry)) {
        struct value value = entry_value(entry);

        *outside = value_memory(&value, VALUE_SAMPLES);
    }
    return entry_block_size(entry) + TABLE_BUCKET_SLOTS / 2 + *outside;
}

static uint64_t bytes_of_entry(const struct entry *entry)
{
    uint64_t outside;

    return demotion_entry_size(entry, &outside);
}

/* Demotes a clean entry, and puts others where they have to go. Returns the bytes that are or will be free. */
static uint64_t take_entry(struct tier *tier, struct keyspace *keyspace, uint32_t handle, struct demote_targets *targets)
    REQUIRES(keyspace->partition->lock);
static uint64_t take_entry(struct tier *tier, struct keyspace *keyspace, uint32_t handle, struct demote_targets *targets)
{
    struct entry *entry = keyspace_entry(keyspace, handle);
    struct bytes key = entry_key(entry);
    uint64_t hash = keyspace_hash(keyspace, key);
    uint64_t freed = bytes_of_entry(entry);

    tier->demotion->taken++;
    if (entry_record(entry) == RECORD_CLEAN) {
        batch_note_work(targets->batch, packed_keep(tier, keyspace, hash, entry));
        demote_entry(tier, keyspace, hash, handle);
        statistics_count(&tier->statistics.clean_demotions);
    } else if (entry_record(entry) == RECORD_UNKNOWN) {
        key_list_add(&targets->unknown, keyspace, hash, key);
        targets->unknown_bytes += freed;
    } else if (entry_is_big(entry)) {
        key_list_add(&targets->big, keyspace, hash, key);
    } else {
        batch_put(tier, targets->batch, keyspace, hash, handle, BATCH_DEMOTE, NULL);
    }
    return freed;
}

/* Each entry is halved once, as the windows come to it; the keyspaces are halved at the same time, so that their ranks can be compared. */
static void age_window(struct tier *tier, struct keyspace *keyspace, const uint32_t *handles, uint32_t count)
{
    struct tier_keyspace *part = keyspace->tier;

    ASSERT_LOCKED(keyspace->partition);
    if (part->age != tier->demotion->age) {
        part->age = tier->demotion->age;
        part->to_age = keyspace->table.count;
        ghost_age(&part->ghost, keyspace->table.count);
    }
    if (part->to_age == 0)
        return;
    for (uint32_t i = 0; i < count; i++)
        keyspace_entry(keyspace, handles[i])->uses >>= 1;
    part->to_age -= part->to_age < count ? part->to_age : count;
}

static bool is_beyond(struct census_limit limit, unsigned rank, struct random *random)
{
    return rank < limit.rank || (rank == limit.rank && random_below(random, CENSUS_ONE) < limit.chance);
}

uint64_t demotion_window(struct tier *tier, struct keyspace *keyspace, uint32_t share, enum demote_which which,
    struct demote_targets *targets, struct random *random)
{
    uint32_t handles[DEMOTE_WINDOW_MAX], counts[CENSUS_RANKS] = { 0 };
    uint8_t ranks[DEMOTE_WINDOW_MAX];
    uint32_t count = window_collect(keyspace, handles), i;
    size_t before = batch_work(targets->batch);
    const struct key_rules *rules = rulebook_hold_if_any(&tier->rules);
    struct census_limit limit;
    uint64_t freed = 0;

    ASSERT_LOCKED(keyspace->partition);
    age_window(tier, keyspace, handles, count);
    for (i = 0; i < count; i++) {
        ranks[i] = (uint8_t)rank_of(tier, keyspace, keyspace_entry(keyspace, handles[i]), which, rules);
        if (ranks[i] != RANK_NOT_NOW)
            counts[ranks[i] == RANK_FIRST ? 0 : ranks[i]]++;
    }
    census_add(&tier->demotion->census, counts, count);
    /* A rule may say which keys go first: then more windows are looked at for those. */
    limit = census_limit(&tier->demotion->census, share, DEMOTE_SHARE_ONE, counts, count, rules == NULL);
    key_rules_release(rules);
    /* Other threads wait for the lock: what is left of the window's share, the next round of the windows takes. */
    for (i = 0; i < count && batch_work(targets->batch) - before < BATCH_HOLD_ENOUGH; i++) {
        if (ranks[i] == RANK_FIRST || (ranks[i] != RANK_NOT_NOW && is_beyond(limit, ranks[i], random)))
            freed += take_entry(tier, keyspace, handles[i], targets);
    }
    if (i < count)
        stuck_note_cut(&tier->stuck);
    return freed;
}

/* --- how many --- */

static uint64_t memory_used(struct tier *tier)
{
    return tier->hooks.memory_used(tier->hooks.context);
}

/* Whether more than `percent` of maxmemory is used. `*excess`: the bytes beyond it. */
static bool memory_is_over(struct tier *tier, int64_t percent, uint64_t *excess)
{
    int64_t limit = tier->settings.memory_max;
    uint64_t mark, now;

    if (limit <= 0)
        return false;
    mark = (uint64_t)limit / 100 * (uint64_t)percent;
    now = memory_used(tier);
    *excess = now > mark ? now - mark : 0;
    return now > mark;
}

/* A running sum of what the memtables have taken, which decays. Until memory is at its mark for the first time it is a whole memtable: the first
 * demotions will fill that. */
static uint64_t taken_lately(struct tier *tier, uint64_t full, uint64_t size)
{
    struct demotion *demotion = tier->demotion;
    int64_t now_us = clock_mono_us(), elapsed = now_us - demotion->room_noted_us;
    uint64_t decayed = elapsed < TAKEN_DECAY_US ? demotion->memtable_taken * (uint64_t)elapsed / TAKEN_DECAY_US : demotion->memtable_taken;
    uint64_t excess;

    if (!memory_is_over(tier, MARK_LEFT_PERCENT, &excess))
        demotion->was_at_mark = false;
    demotion->memtable_taken = demotion->was_at_mark ? demotion->memtable_taken - decayed : full;
    if (size > demotion->memtable_size)
        demotion->memtable_taken += size - demotion->memtable_size;
    if (demotion->memtable_taken > full)
        demotion->memtable_taken = full;
    demotion->memtable_size = size;
    demotion->room_noted_us = now_us;
    return demotion->memtable_taken;
}

void demotion_note_room(struct tier *tier)
{
    uint64_t full = tier->writing->buffer_size * MEMTABLES_PERCENT / 100, size = store_memtable_memory(tier->store);
    uint64_t room = full > size ? full - size : 0, taken = taken_lately(tier, full, size);

    tier->memtable_room = room < taken ? room : taken;
}

/* Big values, one after the other; a batch of its own each. */
static void put_big(struct tier *tier, struct key_list *big)
{
    struct batch *batch = &tier->writing->batch;

    if (big->count > 0)
        writing_commit(tier);
    for (size_t i = 0; i < big->count && !batch->failed; i++) {
        const struct listed_key *listed = &big->keys[i];

        (void)batch_put_big(tier, batch, listed->partition, listed->incarnation, listed->hash, key_list_key(big, i), BATCH_DEMOTE,
            NULL);                  /* too large: it is passed over from now on */
        writing_commit(tier);
    }
    key_list_clear(big);
}

/* An entry whose record was unknown: now it can be demoted. Its partition is locked. */
static void put_resolved(void *context, struct keyspace *keyspace, uint64_t hash, uint32_t handle)
{
    struct tier *tier = context;
    const struct entry *entry = keyspace_entry(keyspace, handle);

    keyspace_assert_locked(keyspace);
    tier->demotion->resolved_bytes += bytes_of_entry(entry);
    if (!(entry->flags & ENTRY_PINNED) && !entry_is_big(entry))
        batch_put(tier, &tier->writing->batch, keyspace, hash, handle, BATCH_DEMOTE, NULL);
}

/* Returns the bytes of the entries that can go now: one whose record can't be looked up stays, and is no progress. */
static uint64_t resolve_unknown(struct tier *tier, struct demote_targets *targets)
{
    targets->unknown_bytes = 0;
    tier->demotion->resolved_bytes = 0;
    if (targets->unknown.count == 0)
        return 0;
    (void)resolve_entries(tier, &tier->look_ups, &targets->unknown, put_resolved, tier);
    return tier->demotion->resolved_bytes;
}

/* Workers may wait for this CPU, and the kernel looks for them at its ticks only, which are up to 4 ms apart. */
static void let_others_run(struct tier *tier)
{
    struct demotion *demotion = tier->demotion;
    int64_t now_us = clock_mono_us();
    uint64_t excess;

    if (now_us - demotion->turn_us < TURN_US)
        return;
    if (!memory_is_over(tier, URGENT_PERCENT, &excess))
        sched_yield();
    demotion->turn_us = clock_mono_us();
}

/* One batch's worth of cold keys. Returns the bytes that were freed; *is_round: with it, a window of each keyspace has been looked at since the last
 * round, also if it took several batches. */
static uint64_t demote_batch(struct tier *tier, uint32_t share, uint64_t wanted, bool *is_round)
{
    struct demotion *demotion = tier->demotion;
    struct demote_targets *targets = &demotion->targets;
    enum demote_which which = tier->state == TIER_OK ? DEMOTE_ALL : DEMOTE_CLEAN_ONLY;
    uint64_t freed = 0;

    *is_round = false;
    while (!*is_round) {
        struct partition *partition = &tier->partitions->partitions[demotion->next_partition];

        demotion->next_partition = (demotion->next_partition + 1) % tier->partitions->count;
        partition_lock(partition);
        for (int space = 0; space < tier->partitions->space_count; space++) {
            struct keyspace *keyspace = partition_keyspace_if(partition, space);

            if (keyspace == NULL || keyspace->table.count == 0)
                continue;
            keyspace_assert_locked(keyspace);
            freed += demotion_window(tier, keyspace, share, which, targets, &demotion->random);
        }
        partition_unlock(partition);
        *is_round = demotion->next_partition == 0;
        if (*is_round)
            census_turn(&demotion->census);
        demoted_free(tier);
        let_others_run(tier);
        if (freed >= wanted || targets->batch->count >= BATCH_ITEMS_MAX ||
            store_batch_size(targets->batch->store) >= (size_t)tier->settings.batch_size)
            break;
    }
    freed -= targets->unknown_bytes;
    freed += resolve_unknown(tier, targets);
    put_big(tier, &targets->big);
    writing_commit(tier);
    packing_after_batch(tier);          /* there may have been none */
    demotion_note_room(tier);
    statistics_add(&demotion->freed_bytes, freed);
    return freed;
}

static uint64_t sum_live(struct tier *tier, uint64_t *key_count)
{
    uint64_t live = 0;

    *key_count = 0;
    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];

        partition_lock(partition);
        for (int space = 0; space < tier->partitions->space_count; space++) {
            if (partition->keyspaces[space] == NULL)
                continue;
            live += partition->keyspaces[space]->heap.live_bytes;
            *key_count += partition->keyspaces[space]->table.count;
        }
        partition_unlock(partition);
    }
    return live;
}

/* Which share of each window has to go, so that `need` bytes do. What can go is the heaps, and values beside them, which are not
 * counted; of all that is used the rest is buffers and the store's own. If it is too little, there is another round of the windows; too
 * much takes what is hot. */
static uint32_t demote_share(struct tier *tier, uint64_t need)
{
    uint64_t live = sum_live(tier, &tier->demotion->hot_count), used = memory_used(tier), packed = packed_bytes(tier);
    uint64_t half = used > packed ? (used - packed) / 2 : 0, movable = live > half ? live : half;
    uint64_t share = movable > need ? need * DEMOTE_SHARE_ONE / movable + 1 : DEMOTE_SHARE_ONE / 2;

    if (share < SHARE_MIN)
        return SHARE_MIN;
    return share > DEMOTE_SHARE_ONE / 2 ? DEMOTE_SHARE_ONE / 2 : (uint32_t)share;
}

/* Halves the uses of all keys from the next windows on, if it is time: what was used long ago counts less and less. Time is counted in
 * demotions, so it stands still while everything that is used fits into memory. */
static void age_if_due(struct demotion *demotion, uint32_t share)
{
    static const uint32_t no_counts[CENSUS_RANKS];
    struct census_limit limit = census_limit(&demotion->census, share, DEMOTE_SHARE_ONE, no_counts, 0, false);
    bool is_high = demotion->census.last_total > 0 && share < DEMOTE_SHARE_ONE && limit.rank >= USES_RANKS / 2;

    if (demotion->taken < AGE_TURNOVERS * demotion->hot_count && !(is_high && demotion->taken > demotion->hot_count / AGE_GAP_SHARE))
        return;
    demotion->age++;
    demotion->taken = 0;
    demotion->census = (struct census){ 0 };       /* ranks mean something else from now on */
}

/* A SCAN page looks into each file of the index, so there must not be more and more of them: the writer slows down until the merges follow, and
 * clients with it, as their pace goes by what is freed. */
static void slow_down(struct tier *tier)
{
    int over_soft = store_waiting_files(tier->store) - FILES_SOFT;
    struct timespec pause = { 0, 1000000L * BRAKE_MS * over_soft * over_soft };

    if (over_soft <= 0)
        return;
    if (pause.tv_nsec > 1000000L * BRAKE_MS_MAX)
        pause.tv_nsec = 1000000L * BRAKE_MS_MAX;
    nanosleep(&pause, NULL);
}

bool demotion_run(struct tier *tier)
{
    struct demotion *demotion = tier->demotion;
    uint64_t need;
    uint32_t share;
    bool is_round;
    int batches = 0;

    if (!tier->settings.enabled || !memory_is_over(tier, tier->settings.high_percent, &need)) {
        stuck_end(tier);
        demotion->is_running = false;
        return false;
    }
    if (shed_holds_demotion(tier)) {
        stuck_end(tier);        /* there will be room on the disk */
        return false;
    }
    if (stuck_pauses(tier))
        return false;
    memory_is_over(tier, tier->settings.low_percent, &need);
    demotion->is_running = demotion->was_at_mark = true;
    share = stuck_is_likely(&tier->stuck) ? DEMOTE_SHARE_ONE : demote_share(tier, need);
    age_if_due(demotion, share);
    while (!tier->stopping && memory_is_over(tier, tier->settings.low_percent, &need)) {
        uint64_t most = (uint64_t)tier->settings.memory_max / BATCH_SHARE + 1, freed = demote_batch(tier, share, need < most ? need : most, &is_round);

        if (stuck_is_likely(&tier->stuck))
            freed += packed_give(tier, need < most ? need : most);
        if (freed > 0)
            tier->hooks.memory_freed(tier->hooks.context);
        demotion->has_freed |= freed > 0;
        if (stuck_note_batch(tier, freed, need, is_round))
            break;
        if (stuck_is_likely(&tier->stuck))
            share = DEMOTE_SHARE_ONE;
        else if (is_round && !demotion->has_freed)
            share = share < DEMOTE_SHARE_ONE / FRUITLESS_STEP ? share * FRUITLESS_STEP : DEMOTE_SHARE_ONE;
        demotion->has_freed &= !is_round;
        age_if_due(demotion, share);        /* while clients fill what is freed, a run does not end */
        sweep_compact(tier);
        counting_unblock(&tier->counting);
        counting_let_in(&tier->counting);
        meter_give_back((uint64_t)tier->settings.memory_max / FREED_SHARE);
        slow_down(tier);
        counting_block(&tier->counting);
        /* Clients may fill what is freed as quickly, for ever. A checkpoint goes on, and begins, all the same: what it writes can be
         * dropped without another write. And garbage is collected, or the store would grow without bound. */
        if (++batches >= BATCHES_WHILE_ASKED && (tier_is_sealing(tier) || requests_pending(tier) || collect_is_due(tier)))
            return true;
    }
    demotion->is_running = false;
    return false;
}

/* --- on request --- */

enum attempt { ATTEMPT_ENDED, ATTEMPT_UNKNOWN, ATTEMPT_BIG };

/* Demotes the key if it can be done under the lock. The key is noted if its record has to be looked up first, `*incarnation` is set if its
 * value is big. */
static enum attempt attempt_demotion(struct tier *tier, struct demote_request *request, struct partition *partition,
    uint32_t *incarnation) REQUIRES(partition->lock);
static enum attempt attempt_demotion(struct tier *tier, struct demote_request *request, struct partition *partition, uint32_t *incarnation)
{
    struct keyspace *keyspace = partition_keyspace_if(partition, request->db);
    uint32_t handle = keyspace != NULL ? keyspace_find(keyspace, request->hash, request->key) : 0;
    struct entry *entry = handle != 0 ? keyspace_entry(keyspace, handle) : NULL;

    request->result = entry == NULL ? TIER_NOT_THERE : TIER_BUSY;
    if (entry == NULL)
        return ATTEMPT_ENDED;
    keyspace_assert_locked(keyspace);
    if (entry->flags & ENTRY_PINNED || epoch_bars_write(tier, keyspace, entry) || tier_keeps(tier, keyspace, entry)) {
        return ATTEMPT_ENDED;
    } else if (entry_record(entry) == RECORD_CLEAN) {
        (void)packed_keep(tier, keyspace, request->hash, entry);
        demote_entry(tier, keyspace, request->hash, handle);
        statistics_count(&tier->statistics.clean_demotions);
        request->result = TIER_MOVED;
    } else if (entry_record(entry) == RECORD_UNKNOWN) {
        key_list_add(&tier->demotion->targets.unknown, keyspace, request->hash, request->key);
        return ATTEMPT_UNKNOWN;
    } else if (tier->state != TIER_OK || !tier->settings.enabled) {
        request->result = TIER_MOVE_FAILED;
    } else if (entry_is_big(entry)) {
        *incarnation = keyspace->incarnation;
        return ATTEMPT_BIG;
    } else {
        batch_put(tier, &tier->writing->batch, keyspace, request->hash, handle, BATCH_DEMOTE, request);     /* its end sets the result */
    }
    return ATTEMPT_ENDED;
}

static void demote_big(struct tier *tier, struct demote_request *request, struct partition *partition, uint32_t incarnation)
{
    struct batch *batch = &tier->writing->batch;

    writing_commit(tier);
    if (batch->failed || batch_put_big(tier, batch, partition, incarnation, request->hash, request->key, BATCH_DEMOTE, request) ==
                             STATUS_TOO_LARGE)
        request->result = TIER_MOVE_FAILED;
}

static void demote_requested(struct tier *tier, struct demote_request *request)
{
    struct partition *partition = &tier->partitions->partitions[partition_index(tier->partitions, request->hash)];
    enum attempt attempt = ATTEMPT_UNKNOWN;
    uint32_t incarnation = 0;

    for (int i = 0; attempt == ATTEMPT_UNKNOWN && i < 2; i++) {
        partition_lock(partition);
        attempt = attempt_demotion(tier, request, partition, &incarnation);
        partition_unlock(partition);
        demoted_free(tier);
        if (attempt == ATTEMPT_UNKNOWN && resolve_entries(tier, &tier->look_ups, &tier->demotion->targets.unknown, NULL, NULL) != STATUS_OK) {
            request->result = TIER_MOVE_FAILED;
            return;
        }
    }
    if (attempt == ATTEMPT_BIG)
        demote_big(tier, request, partition, incarnation);
}

void demotion_serve_requests(struct tier *tier)
{
    struct demote_request *requests = requests_take_demotions(tier);
    struct batch *batch = &tier->writing->batch;

    if (requests == NULL)
        return;
    for (struct demote_request *request = requests; request != NULL; request = request->next) {
        demote_requested(tier, request);
        if (batch->count >= BATCH_ITEMS_MAX)
            writing_commit(tier);
    }
    writing_commit(tier);
    if (batch->failed) {            /* it will be written later, but the requests do not wait for that */
        for (size_t i = 0; i < batch->count; i++) {
            if (batch->items[i].request != NULL)
                batch->items[i].request->result = TIER_MOVE_FAILED;
            batch->items[i].request = NULL;
        }
    }
    requests_complete_demotions(tier, requests);
}
