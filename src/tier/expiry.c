#include "tier/expiry.h"

#include "base/check.h"
#include "call/event.h"
#include "tier/batch.h"
#include "tier/due.h"
#include "tier/grave.h"
#include "tier/key_list.h"
#include "tier/look_up.h"
#include "tier/nominees.h"
#include "tier/record.h"
#include "tier/tier_private.h"
#include "tier/writer.h"

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

/* Of a record that can be read and is expired: by its own time, or with the last field of a hash. */
static enum event expiry_event(struct bytes bytes, int64_t now_ms)
{
    struct record record;
    struct bytes payload;

    CHECK(record_split(bytes, &record, &payload) == STATUS_OK);
    return record.expire_ms >= 0 && record.expire_ms <= now_ms ? EVENT_EXPIRED : EVENT_HEXPIRED;
}

/* The key has expired and is cold: it is deleted. */
static void expire_cold(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum event event, struct batch *batch)
{
    ASSERT_LOCKED(keyspace->partition);
    tier->hooks.expired(tier->hooks.context, keyspace, hash, key, event);
    grave_removed(tier, keyspace, hash, key, RECORD_CLEAN);
    batch_bury(batch, keyspace, grave_find(keyspace, hash, key));
    statistics_count(&tier->statistics.expired_cold);
}

/* Goes back for what is to be looked at again, now and then only: LevelDB has to step over all that was deleted since. Further and
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
    struct key_list unread;             /* keys whose records are to be read */
    const struct nominee *nominees[LOOK_UP_MAX];    /* of these keys */
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
static void found_record(void *context, size_t index, enum status status, struct bytes record)
{
    struct step *step = context;
    const struct nominee *nominee = step->nominees[index];
    struct partition *partition = step->unread.keys[index].partition;
    struct bytes key = key_list_key(&step->unread, index);
    enum verdict verdict = VERDICT_OUTDATED;
    enum value_type type;
    int64_t gone_ms = -1;

    if (status == STATUS_OK)
        status = record_peek(record, &gone_ms, &type);
    if (status == STATUS_CORRUPT) {
        postpone_nominee(step, nominee, key);
        return;
    }
    if (status != STATUS_OK && status != STATUS_NOT_FOUND) {
        end_nominee(step, nominee, key, false);
        return;
    }
    if (gone_ms >= 0 && gone_ms <= step->now_ms) {
        partition_lock(partition);
        verdict = judge_nominee(step->tier, partition, nominee, key);
        if (verdict == VERDICT_READ)
            expire_cold(step->tier, tier_keyspace_of(partition, nominee->incarnation), nominee->hash, key,
                expiry_event(record, step->now_ms), step->batch);
        partition_unlock(partition);
    }
    end_nominee(step, nominee, key, verdict != VERDICT_KEEP);
}

static void read_records(struct step *step)
{
    if (step->unread.count > 0)
        look_up_records(step->tier, writer_look_up(step->tier), &step->unread, 0, step->unread.count, found_record, step);
    key_list_clear(&step->unread);
}

/* Tier rule 10. A record is not read if the key is found in RAM: of keys that were hot when they expired there may be a million. */
static void expire_nominee(struct step *step, const struct nominee *nominee, struct bytes key)
{
    struct partitions *partitions = step->tier->partitions;
    struct partition *partition = &partitions->partitions[partition_index(partitions, nominee->hash)];
    enum verdict verdict;

    partition_lock(partition);
    verdict = judge_nominee(step->tier, partition, nominee, key);
    if (verdict == VERDICT_READ) {
        step->nominees[step->unread.count] = nominee;
        key_list_add(&step->unread, tier_keyspace_of(partition, nominee->incarnation), nominee->hash, key);
    }
    partition_unlock(partition);
    if (verdict != VERDICT_READ)
        end_nominee(step, nominee, key, verdict != VERDICT_KEEP);
    if (step->unread.count == LOOK_UP_MAX)
        read_records(step);
}

static void settle(struct expiry_walk *walk)
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
    struct step step = { .tier = tier, .batch = batch, .now_ms = now_ms };
    int64_t soonest = store_expiry_soonest(tier->store);
    enum status status;

    walk_again(walk, now_ms);
    if (soonest <= walk->from_ms)
        note_again(walk, soonest, now_ms);
    if (soonest < walk->next_ms)
        walk->next_ms = soonest;
    *more = false;
    if (now_ms < walk->next_ms) {       /* not a look at the index each time: LevelDB steps over all that was deleted before the next one */
        settle(walk);
        return 0;
    }
    status = store_expired(tier->store, &walk->from, now_ms, count, nominees_add, &nominees);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND)
        tier_note_error(tier, "expired keys can't be looked up", status);
    for (size_t i = 0; i < nominees.count; i++) {
        const struct nominee *nominee = &nominees.list[i];

        expire_nominee(&step, nominee, nominees_key(&nominees, i));
        walk->from_ms = nominee->expire_ms;
    }
    read_records(&step);
    *more = nominees.count == (size_t)count;
    walk->next_ms = *more || (status != STATUS_OK && status != STATUS_NOT_FOUND) ? 0 : find_next(tier);
    settle(walk);
    nominees_release(&nominees);
    key_list_release(&step.unread);
    return step.done;
}
