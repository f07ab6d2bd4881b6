#include "tier/expiry.h"

#include "call/event.h"
#include "tier/batch.h"
#include "tier/due.h"
#include "tier/grave.h"
#include "tier/key_list.h"
#include "tier/look_up.h"
#include "tier/nominees.h"
#include "tier/tier_private.h"

enum {
    PAUSE_MS = 1000,                /* before expired keys that could not be dealt with are looked at again */
    PAUSE_MAX_MS = 64000,
    DAMAGED_AGAIN_MS = 3600000,     /* before a key whose record is damaged is looked at again */
};

/* No key changes under a transaction or a script, or if expiry was turned off meanwhile (by a thread that holds all partitions): then it is to be looked at again. */
static enum verdict judge_nominee(struct tier *tier, struct partition *partition, const struct nominee *nominee, struct bytes key) REQUIRES(partition->lock);
static enum verdict judge_nominee(struct tier *tier, struct partition *partition, const struct nominee *nominee, struct bytes key)
{
    if (partition->owner != NULL || !tier->expire_cold)
        return VERDICT_KEEP;
    return nominee_judge(tier_keyspace_of(partition, nominee->incarnation), nominee, key);
}

/* The key has expired and is cold: it is deleted. */
static void expire_cold(struct tier *tier, struct keyspace *keyspace, const struct listed_key *listed, struct bytes key, enum event event, struct batch *batch)
{
    uint64_t hash = listed->hash;

    ASSERT_LOCKED(keyspace->partition);
    tier->hooks.expired(tier->hooks.context, keyspace, hash, key, event);
    grave_removed(tier, keyspace, hash, key, RECORD_CLEAN);
    tier_drop_value(tier, keyspace, &listed->pages);
    batch_bury(batch, keyspace, grave_find(keyspace, hash, key));
    statistics_count(&tier->statistics.expired_cold);
}

/* Goes back for what is to be looked at again, now and then only: the index has to step over all that was deleted since. Further and
 * further apart if what is first in line is always the same: it may be unreadable for good. */
static void walk_again(struct expiry_walk *walk, int64_t now_ms)
{
    if (walk->pause_ms == 0)
        walk->again_ms = INT64_MAX, walk->pause_ms = PAUSE_MS, walk->rewound_ms = -1;
    if (walk->again_at_ms > now_ms + PAUSE_MAX_MS)
        walk->again_at_ms = now_ms;         /* the clock was set back */
    if (walk->again_ms == INT64_MAX || now_ms < walk->again_at_ms)
        return;
    if (walk->again_ms != walk->rewound_ms)
        walk->pause_ms = PAUSE_MS;
    else if (walk->pause_ms < PAUSE_MAX_MS)
        walk->pause_ms *= 2;
    store_expiry_seek(&walk->from, walk->again_ms);
    walk->from_ms = walk->rewound_ms = walk->again_ms;
    walk->next_ms = 0;
    walk->again_ms = INT64_MAX;
    walk->again_at_ms = now_ms + walk->pause_ms;
}

/* An expiry key of this time has to be looked at again. */
static void note_again(struct expiry_walk *walk, int64_t expire_ms, int64_t now_ms)
{
    if (walk->again_ms == INT64_MAX && walk->again_at_ms < now_ms)
        walk->again_at_ms = now_ms + PAUSE_MS;
    if (expire_ms < walk->again_ms)
        walk->again_ms = expire_ms;
}

/* --- one step --- */

struct step {
    struct tier *tier;
    struct batch *batch;
    int64_t now_ms;
    const struct nominees *nominees;
    struct key_list unread;             /* those whose records are to be read; note: the index */
    size_t done;
};

/* The nominee is dealt with, or has to be looked at again. */
static void end_nominee(struct step *step, const struct nominee *nominee, struct bytes key, bool is_done)
{
    if (is_done) {
        store_batch_delete_expiry(step->batch->store, nominee->expire_ms, nominee->incarnation, nominee->hash, key);
        step->done++;
    } else {
        note_again(&step->tier->expiry, nominee->expire_ms, step->now_ms);
    }
}

/* When the key expires is not known, and will not be until it is written: the nominee would hold up all that is after it, and SCAN would step over
 * that (tier/due.h). */
static void postpone_nominee(struct step *step, const struct nominee *nominee, struct bytes key)
{
    int64_t again_ms = step->now_ms + DAMAGED_AGAIN_MS;

    end_nominee(step, nominee, key, true);
    store_batch_put_expiry(step->batch->store, again_ms, nominee->incarnation, nominee->hash, key);
    due_note_put(step->tier, again_ms);
}

/* The key's record was read without the lock: only this thread could change it until the lock is held again. */
static void judge_record(struct step *step, const struct listed_key *listed)
{
    const struct nominee *nominee = &step->nominees->list[listed->note];
    struct bytes key = nominees_key(step->nominees, listed->note);
    enum verdict verdict = VERDICT_OUTDATED;
    bool is_by_field = listed->expire_ms < 0 || listed->expire_ms > step->now_ms;

    if (listed->status == STATUS_CORRUPT) {
        postpone_nominee(step, nominee, key);
        return;
    }
    if (listed->status != STATUS_OK && listed->status != STATUS_NOT_FOUND) {
        end_nominee(step, nominee, key, false);
        return;
    }
    if (listed->status == STATUS_OK && listed->gone_ms >= 0 && listed->gone_ms <= step->now_ms) {
        partition_lock(listed->partition);
        verdict = judge_nominee(step->tier, listed->partition, nominee, key);
        if (verdict == VERDICT_READ)
            expire_cold(step->tier, tier_keyspace_of(listed->partition, nominee->incarnation), listed, key,
                is_by_field ? EVENT_HEXPIRED : EVENT_EXPIRED, step->batch);
        partition_unlock(listed->partition);
    }
    end_nominee(step, nominee, key, verdict != VERDICT_KEEP);
}

/* Tier rule 10. A record is not read if the key is found in RAM: of keys that were hot when they expired there may be a million. */
static void look_at(struct step *step, size_t index)
{
    struct partitions *partitions = step->tier->partitions;
    const struct nominee *nominee = &step->nominees->list[index];
    struct bytes key = nominees_key(step->nominees, index);
    struct partition *partition = &partitions->partitions[partition_index(partitions, nominee->hash)];
    enum verdict verdict;

    partition_lock(partition);
    verdict = judge_nominee(step->tier, partition, nominee, key);
    if (verdict == VERDICT_READ)
        key_list_add(&step->unread, tier_keyspace_of(partition, nominee->incarnation), nominee->hash, key)->note = index;
    partition_unlock(partition);
    if (verdict != VERDICT_READ)
        end_nominee(step, nominee, key, verdict != VERDICT_KEEP);
}

static void settle_walk(struct expiry_walk *walk)
{
    int64_t reached_ms = walk->next_ms > walk->from_ms ? walk->next_ms : walk->from_ms;

    walk->settled_ms = walk->again_ms < reached_ms ? walk->again_ms : reached_ms;
}

static void note_next(void *context, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key)
{
    (void)incarnation;
    (void)hash;
    (void)key;
    *(int64_t *)context = expire_ms;
}

/* The time of the first expiry key from the walk's place on. */
static int64_t find_next(const struct tier *tier)
{
    struct buffer from = { 0 };
    int64_t next_ms = INT64_MAX;
    enum status status;

    buffer_append_bytes(&from, buffer_bytes(&tier->expiry.from));
    status = store_expired(tier->store, &from, INT64_MAX, 1, note_next, &next_ms);
    buffer_release(&from);
    return status == STATUS_OK || status == STATUS_NOT_FOUND ? next_ms : 0;
}

size_t expiry_step(struct tier *tier, int64_t now_ms, int count, struct batch *batch, bool *more)
{
    struct expiry_walk *walk = &tier->expiry;
    struct nominees nominees = { 0 };
    struct step step = { .tier = tier, .batch = batch, .now_ms = now_ms, .nominees = &nominees };
    int64_t soonest = store_expiry_soonest(tier->store);
    enum status status;

    walk_again(walk, now_ms);
    if (soonest <= walk->from_ms)
        note_again(walk, soonest, now_ms);
    if (soonest < walk->next_ms)
        walk->next_ms = soonest;
    *more = false;
    if (now_ms < walk->next_ms) {       /* not a look at the index each time: it steps over all that was deleted before the next one */
        settle_walk(walk);
        return 0;
    }
    status = store_expired(tier->store, &walk->from, now_ms, count, nominees_add, &nominees);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND)
        tier_note_error(tier, "expired keys can't be looked up", status);
    for (size_t i = 0; i < nominees.count; i++) {
        look_at(&step, i);
        walk->from_ms = nominees.list[i].expire_ms;
    }
    look_up(tier, &tier->look_ups, &step.unread);
    for (size_t i = 0; i < step.unread.count; i++)
        judge_record(&step, &step.unread.keys[i]);
    *more = nominees.count == (size_t)count;
    walk->next_ms = *more || (status != STATUS_OK && status != STATUS_NOT_FOUND) ? 0 : find_next(tier);
    settle_walk(walk);
    nominees_release(&nominees);
    key_list_release(&step.unread);
    return step.done;
}

/* --- whether they have expired or not --- */

struct visit {
    struct tier *tier;
    const struct nominees *nominees;
    struct key_list unread;             /* note: the index */
    struct batch *batch;
};

static void list_unread(struct visit *visit, size_t index)
{
    struct partitions *partitions = visit->tier->partitions;
    const struct nominee *nominee = &visit->nominees->list[index];
    struct bytes key = nominees_key(visit->nominees, index);
    struct partition *partition = &partitions->partitions[partition_index(partitions, nominee->hash)];

    partition_lock(partition);
    if (judge_nominee(visit->tier, partition, nominee, key) == VERDICT_READ)
        key_list_add(&visit->unread, tier_keyspace_of(partition, nominee->incarnation), nominee->hash, key)->note = index;
    partition_unlock(partition);
}

static void visit_listed(struct visit *visit, const struct listed_key *listed, expiry_visitor *visitor, void *context)
{
    const struct nominee *nominee = &visit->nominees->list[listed->note];
    struct bytes key = nominees_key(visit->nominees, listed->note);
    struct keyspace *keyspace;
    bool is_deleted = false;

    if (listed->status != STATUS_OK || listed->gone_ms != nominee->expire_ms)
        return;
    partition_lock(listed->partition);
    keyspace = tier_living_keyspace(listed->partition, nominee->incarnation);
    if (keyspace != NULL && judge_nominee(visit->tier, listed->partition, nominee, key) == VERDICT_READ)
        is_deleted = visitor(context, listed->partition, keyspace, listed, key, visit->batch);
    partition_unlock(listed->partition);
    if (is_deleted)
        store_batch_delete_expiry(visit->batch->store, nominee->expire_ms, nominee->incarnation, nominee->hash, key);
}

bool expiry_visit(struct tier *tier, struct buffer *from, int count, struct batch *batch, expiry_visitor *visitor, void *context)
{
    struct nominees nominees = { 0 };
    struct visit visit = { .tier = tier, .nominees = &nominees, .batch = batch };
    enum status status = store_expired(tier->store, from, INT64_MAX, count, nominees_add, &nominees);
    bool more = nominees.count == (size_t)count;

    if (status != STATUS_OK && status != STATUS_NOT_FOUND)
        tier_note_error(tier, "expiry keys can't be looked up", status);
    for (size_t i = 0; i < nominees.count; i++)
        list_unread(&visit, i);
    look_up(tier, &tier->look_ups, &visit.unread);
    for (size_t i = 0; i < visit.unread.count; i++)
        visit_listed(&visit, &visit.unread.keys[i], visitor, context);
    nominees_release(&nominees);
    key_list_release(&visit.unread);
    return more;
}
