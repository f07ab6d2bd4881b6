#include "tier/count.h"

#include <sched.h>

#include "base/mem.h"
#include "base/mutex.h"
#include "tier/grave.h"
#include "tier/look_up.h"
#include "tier/reader.h"
#include "tier/resolve.h"
#include "tier/tier_private.h"

enum {
    YIELDS_MAX = 1000,
    ATTEMPTS_MAX = 100,             /* to claim all partitions with the writer held */
};

void counting_init(struct counting *counting)
{
    mutex_init(&counting->lock);
}

void counting_release(struct counting *counting)
{
    mutex_release(&counting->lock);
}

void counting_block(struct counting *counting)
{
    mutex_lock(&counting->lock);
}

void counting_unblock(struct counting *counting)
{
    mutex_unlock(&counting->lock);
}

void counting_let_in(struct counting *counting)
{
    for (int i = 0; i < YIELDS_MAX && counting->waiting > 0; i++)
        sched_yield();
}

uint64_t tier_keyspace_count(const struct keyspace *keyspace)
{
    uint64_t count = keyspace->table.count;

    if (keyspace->tier == NULL)
        return count;
    return count + recordmap_count(keyspace->tier->map) - keyspace->record_counts[RECORD_STALE] -
           keyspace->record_counts[RECORD_CLEAN] - (keyspace->tier->graves.count - keyspace->tier->unknown_graves);
}

bool tier_count_now(struct tier *tier, const struct claim *as, int db, uint64_t *count)
{
    bool exact = true;

    *count = 0;
    partitions_lock_all(tier->partitions);      /* one instant: a key may be on its way from one partition to another */
    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct keyspace *keyspace;

        partition_assert_locked(&tier->partitions->partitions[i]);
        keyspace = partition_keyspace_if(&tier->partitions->partitions[i], db);
        if (tier->partitions->partitions[i].owner != NULL && tier->partitions->partitions[i].owner != as)
            exact = false;
        if (keyspace == NULL)
            continue;
        *count += tier_keyspace_count(keyspace);
        if (keyspace->tier != NULL && (keyspace->record_counts[RECORD_UNKNOWN] > 0 || keyspace->tier->unknown_graves > 0))
            exact = false;
    }
    partitions_unlock_all(tier->partitions);
    return exact;
}

static void note_unknown(struct keyspace *keyspace, struct key_list *unknowns)
{
    struct heap *heap = &keyspace->heap;
    struct keyed *graves = &keyspace->tier->graves;

    for (uint32_t segment = 0; keyspace->record_counts[RECORD_UNKNOWN] > 0 && segment < heap->segment_count; segment++) {
        uint32_t unit = 1;
        struct entry *entry;

        if (heap->segments[segment] == NULL)
            continue;
        while ((entry = heap_walk(heap, segment, &unit)) != NULL) {
            unit += entry_block_size(entry) / ENTRY_UNIT;
            if (entry_record(entry) == RECORD_UNKNOWN)
                key_list_add(unknowns, keyspace, keyspace_hash(keyspace, entry_key(entry)), entry_key(entry));
        }
    }
    for (size_t slot = 0; keyspace->tier->unknown_graves > 0 && slot < graves->slot_count; slot++) {
        for (struct keyed_node *node = graves->slots[slot]; node != NULL; node = node->next) {
            if (((struct grave *)node)->unknown)
                key_list_add(unknowns, keyspace, node->hash, node->key);
        }
    }
}

void count_forget(struct tier_keyspace *part)
{
    if (part->noted == NULL)
        return;
    key_list_release(part->noted);
    mem_free(part->noted);
    part->noted = NULL;
}

void count_note(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct tier_keyspace *part = keyspace->tier;
    uint64_t current = tier->counting.current;

    ASSERT_LOCKED(keyspace->partition);
    if (current == 0 || part->counted != current)
        return;                     /* the thread that counts has yet to look here */
    if (part->noted == NULL)
        part->noted = mem_zalloc(sizeof(*part->noted));
    key_list_add(part->noted, keyspace, hash, key);
}

static void take_noted(struct tier_keyspace *part, const struct keyspace *keyspace, struct key_list *unknowns)
{
    for (size_t i = 0; part->noted != NULL && i < part->noted->count; i++) {
        key_list_add(unknowns, keyspace, part->noted->keys[i].hash, key_list_key(part->noted, i));
    }
    count_forget(part);
}

static void hold_writer(struct counting *counting) ACQUIRE(counting->lock);
static void hold_writer(struct counting *counting)
{
    counting->waiting++;
    mutex_lock(&counting->lock);
    counting->waiting--;
}

/* The entries that are unknown are resolved first, a partition at a time, so that few are left for the count itself. The thread that
 * holds the counting lock may do the writer's work. */
static void resolve_beforehand(struct tier *tier, struct tier_reader **look_ups, int db, struct key_list *unknowns)
{
    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];
        struct keyspace *keyspace;

        hold_writer(&tier->counting);
        partition_lock(partition);
        keyspace = partition_keyspace_if(partition, db);
        if (keyspace != NULL)
            note_unknown(keyspace, unknowns);
        partition_unlock(partition);
        (void)resolve_entries(tier, look_ups, unknowns, NULL, NULL);       /* what can't be read is looked up again in the count */
        mutex_unlock(&tier->counting.lock);
    }
}

/* With the writer blocked, only a flush makes an unknown key known. So the unknown keys are listed one partition after another, keys that
 * become unknown afterwards are noted, and one instant with all partitions locked is enough for the count and the list. False if databases
 * were swapped meanwhile. */
static bool count_at_once(struct tier *tier, int db, struct key_list *unknowns, uint32_t *incarnation, uint64_t *count)
    REQUIRES(tier->counting.lock);
static bool count_at_once(struct tier *tier, int db, struct key_list *unknowns, uint32_t *incarnation, uint64_t *count)
{
    struct partitions *all = tier->partitions;
    uint64_t number = ++tier->counting.last;
    bool whole = true;

    *count = 0;
    tier->counting.current = number;
    for (uint32_t i = 0; i < all->count; i++) {
        struct keyspace *keyspace;

        partition_lock(&all->partitions[i]);
        keyspace = partition_keyspace_if(&all->partitions[i], db);
        if (keyspace != NULL) {
            count_forget(keyspace->tier);
            keyspace->tier->counted = number;
            note_unknown(keyspace, unknowns);
        }
        partition_unlock(&all->partitions[i]);
    }
    partitions_lock_all(all);
    tier->counting.current = 0;
    *incarnation = all->incarnations[db];
    for (uint32_t i = 0; i < all->count; i++) {
        struct keyspace *keyspace;

        partition_assert_locked(&all->partitions[i]);
        keyspace = partition_keyspace_if(&all->partitions[i], db);
        if (keyspace == NULL)
            continue;
        *count += tier_keyspace_count(keyspace);
        take_noted(keyspace->tier, keyspace, unknowns);
        if (keyspace->tier->counted != number && keyspace->record_counts[RECORD_UNKNOWN] + keyspace->tier->unknown_graves > 0)
            whole = false;
    }
    partitions_unlock_all(all);
    return whole;
}

/* An unknown that has a record was counted twice (an entry) or although it is gone (a grave): one too many in either case. */
static enum status count_correct(struct tier *tier, struct tier_reader **look_ups, struct key_list *unknowns, uint32_t incarnation, uint64_t *count)
{
    enum status status = STATUS_OK;
    bool has_record;

    look_up(tier, look_ups, unknowns);
    for (size_t i = 0; i < unknowns->count; i++) {
        const struct listed_key *listed = &unknowns->keys[i];

        if (listed->incarnation != incarnation)
            continue;                       /* flushed */
        if (!look_up_tells(listed, &has_record))
            status = listed->status;
        else if (has_record)
            --*count;
    }
    return status;
}

static void ignore_grant(struct claim *claim)
{
    (void)claim;
}

/* False: a unit or a claim is in the way. */
static bool try_claim_all(struct partitions *all, struct claim *claim)
{
    claim_init(claim, ignore_grant, NULL);
    partition_bits_fill(&claim->wanted, all->count);
    if (owners_claim(&all->owners, claim) == CLAIM_GRANTED)
        return true;
    owners_withdraw(&all->owners, claim);
    owners_give(&all->owners, claim);       /* it may have been granted just before */
    return false;
}

/* Clients wait for the claim, and the writer's round may take long: so the writer is held first. It may not be held while a unit is waited for,
 * which may need the writer: then the unit is waited for with nothing held, and all begins again. After some attempts the claim is kept. */
static void hold_writer_and_claim(struct tier *tier, struct claim *claim) ACQUIRE(tier->counting.lock);
static void hold_writer_and_claim(struct tier *tier, struct claim *claim)
{
    for (int i = 0; i < ATTEMPTS_MAX; i++) {
        hold_writer(&tier->counting);
        if (try_claim_all(tier->partitions, claim))
            return;
        mutex_unlock(&tier->counting.lock);
        owners_claim_all(tier->partitions, claim);
        owners_give(&tier->partitions->owners, claim);
    }
    owners_claim_all(tier->partitions, claim);
    hold_writer(&tier->counting);
}

/* --- the keys of a slot --- */

static struct partition *partition_of_slot(const struct partitions *all, uint16_t slot)
{
    return &all->partitions[partition_index(all, slot_first_hash(slot))];
}

static uint64_t count_of_slot(const struct slot_counts *counts)
{
    return (uint64_t)counts->entries + counts->records - counts->shadowed;
}

bool tier_slot_count_now(struct partitions *partitions, const struct reader *reader, int db, uint16_t slot, uint64_t *count)
{
    struct partition *partition = partition_of_slot(partitions, slot);
    bool exact = partition_lock_for(partition, reader);
    struct keyspace *keyspace;

    *count = 0;
    if (!exact)
        return false;
    keyspace = partition_keyspace_if(partition, db);
    if (keyspace != NULL) {
        const struct slot_counts *counts = keyspace_slot(keyspace, slot_first_hash(slot));

        *count = count_of_slot(counts);
        exact = counts->unknown == 0;
    }
    partition_unlock(partition);
    return exact;
}

struct slot_unknowns {
    struct keyspace *keyspace;
    struct key_list *list;
};

static void note_if_unknown(void *context, uint64_t hash, uint32_t handle)
{
    struct slot_unknowns *unknowns = context;
    const struct entry *entry = keyspace_entry(unknowns->keyspace, handle);

    if (entry_record(entry) == RECORD_UNKNOWN)
        key_list_add(unknowns->list, unknowns->keyspace, hash, entry_key(entry));
}

/* Lists the unknowns of a slot. */
static void note_unknown_of_slot(struct keyspace *keyspace, uint16_t slot, struct key_list *list)
{
    struct slot_unknowns unknowns = { keyspace, list };
    uint64_t first = slot_first_hash(slot), last = slot_last_hash(slot);
    struct keyed *graves = &keyspace->tier->graves;
    struct table_cursor cursor;

    if (keyspace_slot(keyspace, first)->unknown == 0)
        return;
    for (bool more = table_seek(&keyspace->table, first, &cursor); more; more = cursor.last_hash < last && table_next(&keyspace->table, &cursor))
        table_home_entries(&keyspace->table, &cursor, note_if_unknown, &unknowns);
    for (size_t i = 0; keyspace->tier->unknown_graves > 0 && i < graves->slot_count; i++) {
        for (struct keyed_node *node = graves->slots[i]; node != NULL; node = node->next) {
            if (((struct grave *)node)->unknown && node->hash >= first && node->hash <= last)
                key_list_add(list, keyspace, node->hash, node->key);
        }
    }
}

/* Locks the partition at an instant at which no unit owns it, with the writer held: nothing may wait for a unit while it holds the writer, which
 * the unit may need. After some attempts units are kept out by a claim, which then owns the partition (`owns`). */
static void hold_writer_and_lock(struct tier *tier, struct partition *partition, const struct reader *reader, struct claim *claim, bool *owns)
    ACQUIRE(tier->counting.lock) ACQUIRE(partition->lock) UNCHECKED_LOCKS;
static void hold_writer_and_lock(struct tier *tier, struct partition *partition, const struct reader *reader, struct claim *claim, bool *owns)
{
    struct reader now = { .as = reader->as };

    *owns = false;
    for (int i = 0;; i++) {
        hold_writer(&tier->counting);
        if (partition_lock_for(partition, &now))
            return;
        mutex_unlock(&tier->counting.lock);
        if (i < ATTEMPTS_MAX) {
            if (partition_lock_for(partition, reader))
                partition_unlock(partition);
            continue;
        }
        partition_bits_add(&claim->wanted, partition->index);
        partitions_own(tier->partitions, claim, &claim->wanted);
        *owns = true;
        now.as = claim;
    }
}

enum status tier_slot_count(struct tier *tier, const struct reader *reader, int db, uint16_t slot, uint64_t *count)
{
    struct partition *partition = partition_of_slot(tier->partitions, slot);
    struct key_list unknowns = { 0 };
    struct tier_reader *look_ups = NULL;
    struct keyspace *keyspace;
    uint32_t incarnation = 0;
    enum status status;
    struct claim claim = { 0 };
    bool owns;

    *count = 0;
    hold_writer_and_lock(tier, partition, reader, &claim, &owns);
    keyspace = partition_keyspace_if(partition, db);
    if (keyspace != NULL) {
        incarnation = keyspace->incarnation;
        *count = count_of_slot(keyspace_slot(keyspace, slot_first_hash(slot)));
        note_unknown_of_slot(keyspace, slot, &unknowns);
    }
    partition_unlock(partition);
    if (owns)
        partitions_give(tier->partitions, &claim, 0);
    status = count_correct(tier, &look_ups, &unknowns, incarnation, count);
    mutex_unlock(&tier->counting.lock);
    reader_close(look_ups);
    key_list_release(&unknowns);
    return status;
}

enum status tier_count(struct tier *tier, int db, bool in_unit, uint64_t *count)
{
    struct key_list unknowns = { 0 };
    struct tier_reader *look_ups = NULL;
    struct claim claim;
    uint32_t incarnation;
    enum status status;

    resolve_beforehand(tier, &look_ups, db, &unknowns);
    if (in_unit)
        hold_writer(&tier->counting);
    else
        hold_writer_and_claim(tier, &claim);
    while (!count_at_once(tier, db, &unknowns, &incarnation, count))
        key_list_clear(&unknowns);
    if (!in_unit)
        owners_give(&tier->partitions->owners, &claim);
    status = count_correct(tier, &look_ups, &unknowns, incarnation, count);
    mutex_unlock(&tier->counting.lock);
    reader_close(look_ups);
    key_list_release(&unknowns);
    return status;
}
