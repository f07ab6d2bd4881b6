/* The checkpoint's half in the tier: the cut, and what those do who change keys behind it. seal.c has the writer's part.
 *
 * The cut turns the partitions' parity with all of them locked. An entry whose ENTRY_EPOCH differs from it is as it was at the cut.
 * Sealing brings the store to the state of the cut: the writer writes every dirty entry that is as it was, and whoever is about
 * to change one hands its value over first. Until the snapshot the writer applies nothing that is younger: entries changed
 * since are barred, graves dug since wait, a flushed keyspace is kept until it is sealed. Nothing is taken back when a
 * checkpoint fails: what was sealed was true, and what waited goes on.
 */
#include "tier/checkpoint.h"

#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/mutex.h"
#include "tier/hot.h"
#include "tier/demote.h"
#include "tier/record.h"

enum { HURRIED_MAX = 256, RESERVE_SHARE = 16 };

#define RESERVE_MIN (8ull << 20)
#define RESERVE_MAX (64ull << 20)

static bool is_as_of_cut(const struct keyspace *keyspace, const struct entry *entry)
{
    return !!(entry->flags & ENTRY_EPOCH) != keyspace->partition->all->parity;
}

bool checkpoint_bars(const struct tier *tier, const struct keyspace *keyspace, const struct entry *entry)
{
    return tier->checkpointing && !is_as_of_cut(keyspace, entry) && entry_record(entry) != RECORD_CLEAN;
}

size_t handed_size(const struct handed *handed)
{
    return sizeof(*handed) + handed->key.size + handed->record.capacity;
}

/* The value as of the cut, for the writer. From here on there is a record, older than the entry (tier rule 2). */
static void hand_over(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct entry *entry)
{
    struct bytes key = entry_key(entry);
    struct handed *handed = mem_zalloc(sizeof(*handed) + key.size);
    char *copy = (char *)(handed + 1);

    memcpy(copy, key.data, key.size);
    *handed = (struct handed){
        .partition = keyspace->partition,
        .incarnation = keyspace->incarnation,
        .hash = hash,
        .key = bytes_of(copy, key.size),
        .expire_ms = entry_death_ms(entry),
        .unknown = entry_record(entry) == RECORD_UNKNOWN,
    };
    record_encode(entry, &handed->record);
    tier->handed_bytes += handed_size(handed);
    if (entry_record(entry) == RECORD_NONE) {
        recordmap_add(keyspace->tier->map, hash);
        keyspace_set_record(keyspace, entry, RECORD_STALE);
    }
    mutex_lock(&tier->handed_lock);
    if (tier->handed_last != NULL)
        tier->handed_last->next = handed;
    else
        tier->handed_first = handed;
    tier->handed_last = handed;
    mutex_unlock(&tier->handed_lock);
}

void checkpoint_changing(void *context, struct keyspace *keyspace, uint64_t hash, uint32_t handle)
{
    struct tier *tier = context;
    struct entry *entry = keyspace_entry(keyspace, handle);

    ASSERT_LOCKED(keyspace->partition);
    if (tier->checkpointing == CHECKPOINT_SEALING && entry_record(entry) != RECORD_CLEAN)
        hand_over(tier, keyspace, hash, entry);
    entry->flags ^= ENTRY_EPOCH;
}

void tier_image_begin(struct tier *tier)
{
    mutex_lock(&tier->image_turn);
}

void tier_image_end(struct tier *tier)
{
    mutex_unlock(&tier->image_turn);
}

bool tier_may_cut(struct tier *tier)
{
    return !tier->checkpointing && !tier->unsealed;
}

void tier_cut(struct tier *tier)
{
    uint64_t reserve = (uint64_t)tier->settings.memory_max / RESERVE_SHARE;

    ASSERT_LOCKED(&tier->partitions->partitions[0]);
    CHECK(tier_may_cut(tier));
    if (reserve < RESERVE_MIN && tier->settings.memory_max > 0)
        reserve = RESERVE_MIN;
    tier->handed_max = reserve > 0 && reserve < RESERVE_MAX ? reserve : RESERVE_MAX;
    tier->partitions->parity ^= 1;
    tier->epoch++;
    tier->unsealed = true;
    tier->checkpointing = CHECKPOINT_SEALING;
    tier->partitions->sealing = true;
}

bool tier_keep_flushed(struct tier *tier, struct keyspace *keyspace)
{
    struct partition *partition = keyspace->partition;

    ASSERT_LOCKED(partition);
    if (!tier->checkpointing)
        return false;
    loads_void_all(tier, keyspace);
    keyspace->next_flushed = partition->flushed;
    partition->flushed = keyspace;
    return true;
}

/* The checkpoint needs them no longer. */
static void release_flushed(struct tier *tier)
{
    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];

        partition_lock(partition);
        while (partition->flushed != NULL) {
            struct keyspace *keyspace = partition->flushed;

            partition->flushed = keyspace->next_flushed;
            tier_forget(tier, keyspace);
            tier->hooks.free_keyspace(tier->hooks.context, keyspace);
        }
        partition_unlock(partition);
    }
}

static void give_graves_back(struct tier *tier)
{
    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];

        partition_lock(partition);
        for (int db = 0; db < tier->partitions->db_count; db++) {
            if (partition->keyspaces[db] != NULL)
                graves_give_back(tier, partition->keyspaces[db]);
        }
        partition_unlock(partition);
    }
}

/* With all partitions locked: a call that holds one sees one phase from its beginning to its end. If it saw two, it could hand a value
 * over after the queue was drained, and the next checkpoint would write it over a newer record; or it could take a late grave for one
 * from before the cut, and leave it beside an entry that says RECORD_NONE. */
static void set_phase(struct tier *tier, enum checkpoint_phase phase)
{
    partitions_lock_all(tier->partitions);
    tier->checkpointing = phase;
    tier->partitions->sealing = phase == CHECKPOINT_SEALING;
    partitions_unlock_all(tier->partitions);
}

void checkpoint_stop(struct tier *tier)
{
    CHECK(tier->checkpointing == CHECKPOINT_SEALING);
    set_phase(tier, CHECKPOINT_ENDING);
}

void checkpoint_end(struct tier *tier, struct batch *batch)
{
    enum status status = STATUS_OK;

    if (tier->checkpointing != CHECKPOINT_ENDING || batch->failed)
        return;
    CHECK(batch->count == 0);
    /* What was handed over has its tag already, and must not come after a younger value: all of it is written now. */
    while (status == STATUS_OK && seal_handed(tier, batch, &status) > 0)
        ;
    if (status != STATUS_OK)
        return;                     /* the store is in error: again when it is back */
    set_phase(tier, CHECKPOINT_NONE);
    if (tier->unsealed)
        give_graves_back(tier);     /* before anything else is put into a batch */
    release_flushed(tier);
}

void checkpoint_answer(struct tier *tier, struct image_request *request, enum status status)
{
    mutex_lock(&tier->writer_lock);
    request->status = status;
    request->done = true;
    tier->image = NULL;
    condition_broadcast(&tier->writer_answered);
    mutex_unlock(&tier->writer_lock);
}

static enum status ask(struct tier *tier, struct image_request *request)
{
    mutex_lock(&tier->writer_lock);
    CHECK(tier->image == NULL);
    tier->image = request;
    condition_signal(&tier->writer_asked);
    while (!request->done)
        condition_wait(&tier->writer_answered, &tier->writer_lock);
    mutex_unlock(&tier->writer_lock);
    return request->status;
}

enum status tier_clean(struct tier *tier, struct message *message)
{
    struct image_request request = { .dir = NULL, .message = message };

    message->text[0] = '\0';
    return ask(tier, &request);
}

/* For the warm-up. Without it the image is as good: if the disk is about to fail, what follows will say so. */
static void remember_hot(struct tier *tier, const char *dir)
{
    enum status status = hot_save(tier, dir);
    char text[160];

    if (status == STATUS_OK)
        return;
    snprintf(text, sizeof(text), "Which keys are hot can't be written down for the next start (%s)", status_name(status));
    tier->hooks.log(tier->hooks.context, text);
}

enum status tier_image(struct tier *tier, const char *dir, uint64_t *number, struct message *message)
{
    struct image_request request = { .dir = dir, .message = message };
    enum status status;

    message->text[0] = '\0';
    status = ask(tier, &request);
    *number = request.number;
    if (status == STATUS_OK)
        remember_hot(tier, dir);
    return status;
}

void tier_image_cancel(struct tier *tier, bool cancel)
{
    tier->image_cancelled = cancel;
}

bool tier_handed_is_full(struct tier *tier)
{
    return tier->handed_bytes > tier->handed_max;
}

void tier_hurry(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    ASSERT_LOCKED(keyspace->partition);
    if (keyspace_entry(keyspace, keyspace_find(keyspace, hash, key))->flags & ENTRY_LATCHED)
        return;                     /* it is just being written */
    mutex_lock(&tier->writer_lock);
    if (tier->hurried == NULL)
        tier->hurried = mem_zalloc(sizeof(*tier->hurried));
    if (tier->hurried->count < HURRIED_MAX)     /* beyond it the others' turn comes soon enough */
        unknowns_add(tier->hurried, keyspace, hash, key);
    tier->nudged = true;
    condition_signal(&tier->writer_asked);
    mutex_unlock(&tier->writer_lock);
}
