#include "tier/outdated.h"

#include "tier/batch.h"
#include "tier/key_list.h"
#include "tier/look_up.h"
#include "tier/nominees.h"
#include "tier/purge.h"
#include "tier/tier_private.h"
#include "tier/writing.h"

enum {
    GARBAGE_MIN = 1000,
    STEP_MIN = 4096,
    STEP_MAX = 16384,
    SAMPLE = 16,                    /* of the records of cold keys one in 16 is read */
    WORTH_SHARE = 4,                /* all, if a quarter of them showed garbage */
    READS_A_LOOK = 128,             /* that are read before the share is looked at again */
};

static bool is_due(const struct outdated *outdated)
{
    return outdated->is_walking || outdated->garbage >= GARBAGE_MIN + outdated->kept / 2;
}

static void begin_walk(struct outdated *outdated)
{
    outdated->is_walking = true;
    outdated->garbage = outdated->seen_garbage = 0;
    outdated->kept = outdated->reads = outdated->outdated_reads = 0;
    outdated->number++;
    outdated->first_ms = INT64_MAX;
    store_expiry_seek(&outdated->from, 0);
}

/* Twice what was put since the last step, so that a walk ends. */
static int step_size(struct outdated *outdated)
{
    uint64_t garbage = outdated->garbage, size = STEP_MIN + 2 * (garbage - outdated->seen_garbage);

    outdated->seen_garbage = garbage;
    return size < STEP_MAX ? (int)size : STEP_MAX;
}

struct step {
    struct tier *tier;
    struct batch *batch;
    struct nominees nominees;
    struct key_list unread;             /* those whose records are to be read; note: the index */
};

static void keep(struct outdated *outdated, int64_t expire_ms)
{
    outdated->kept++;
    outdated_note_time(outdated, expire_ms);
}

static void end_nominee(struct step *step, size_t index, bool is_outdated)
{
    const struct nominee *nominee = &step->nominees.list[index];
    struct outdated *outdated = &step->tier->outdated;
    struct bytes key = nominees_key(&step->nominees, index);

    if (!is_outdated) {
        keep(outdated, nominee->expire_ms);
        return;
    }
    store_batch_delete_expiry(step->batch->store, nominee->expire_ms, nominee->incarnation, nominee->hash, key);
}

/* Only this thread writes records, so this is the newest one, or one that was deleted meanwhile. */
static void judge_record(struct step *step, const struct listed_key *listed)
{
    struct outdated *outdated = &step->tier->outdated;
    bool is_outdated = listed->status == STATUS_NOT_FOUND ||
                       (listed->status == STATUS_OK && listed->gone_ms != step->nominees.list[listed->note].expire_ms);

    outdated->reads++;
    outdated->outdated_reads += is_outdated;
    end_nominee(step, listed->note, is_outdated);
}

static void read_records(struct step *step)
{
    look_up(step->tier, &step->tier->look_ups, &step->unread);
    for (size_t i = 0; i < step->unread.count; i++)
        judge_record(step, &step->unread.keys[i]);
    key_list_clear(&step->unread);
}

/* Another sample in each walk. */
static bool is_worth_reading(const struct outdated *outdated, uint64_t hash)
{
    return hash % SAMPLE == outdated->number % SAMPLE || outdated->outdated_reads >= outdated->reads / WORTH_SHARE;
}

static void look_at(struct step *step, size_t index)
{
    const struct nominee *nominee = &step->nominees.list[index];
    struct partitions *partitions = step->tier->partitions;
    struct partition *partition = &partitions->partitions[partition_index(partitions, nominee->hash)];
    struct bytes key = nominees_key(&step->nominees, index);
    struct keyspace *keyspace;
    enum verdict verdict;

    partition_lock(partition);
    keyspace = tier_keyspace_of(partition, nominee->incarnation);
    verdict = nominee_judge(keyspace, nominee, key);
    if (verdict == VERDICT_READ && is_worth_reading(&step->tier->outdated, nominee->hash))
        key_list_add(&step->unread, keyspace, nominee->hash, key)->note = index;
    else
        end_nominee(step, index, verdict == VERDICT_OUTDATED);
    partition_unlock(partition);
    if (step->unread.count == READS_A_LOOK)
        read_records(step);
}

/* Ends a walk that is through, or that can't read the index: it is made again later. On a replica, where no other walk looks at the expiry
 * keys, a SCAN does not have to step over those that were deleted. */
static void end_walk(struct tier *tier, enum status status)
{
    struct outdated *outdated = &tier->outdated;

    outdated->is_walking = false;
    if ((status == STATUS_OK || status == STATUS_NOT_FOUND) && outdated->first_ms > tier->expiry.settled_ms)
        tier->expiry.settled_ms = outdated->first_ms;
}

void outdated_step(struct tier *tier)
{
    struct outdated *outdated = &tier->outdated;
    struct step step = { .tier = tier, .batch = &tier->writing->batch };
    enum status status;
    int count;

    if (!is_due(outdated) || step.batch->failed)
        return;
    if (!outdated->is_walking)
        begin_walk(outdated);
    count = step_size(outdated);
    status = store_expired(tier->store, &outdated->from, INT64_MAX, count, nominees_add, &step.nominees);
    for (size_t i = 0; i < step.nominees.count; i++)
        look_at(&step, i);
    read_records(&step);
    if (step.nominees.count < (size_t)count || status != STATUS_OK)
        end_walk(tier, status);
    writing_commit(tier);
    nominees_release(&step.nominees);
    key_list_release(&step.unread);
}
