#include "tier/grave.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "tier/advise.h"
#include "tier/count.h"
#include "tier/epoch.h"
#include "tier/load.h"
#include "tier/reading.h"
#include "tier/tier_private.h"

/* By epoch: after the last one, unless the grave was being applied while a checkpoint began. */
static void add_waiting(struct tier_keyspace *part, struct grave *grave)
{
    struct grave *before = part->waiting_last;

    while (before != NULL && before->epoch > grave->epoch)
        before = before->before;
    grave->before = before;
    grave->after = before != NULL ? before->after : part->waiting_first;
    *(before != NULL ? &before->after : &part->waiting_first) = grave;
    *(grave->after != NULL ? &grave->after->before : &part->waiting_last) = grave;
}

static void remove_waiting(struct tier_keyspace *part, struct grave *grave)
{
    *(grave->before != NULL ? &grave->before->after : &part->waiting_first) = grave->after;
    *(grave->after != NULL ? &grave->after->before : &part->waiting_last) = grave->before;
}

/* The counts by slot: `count` graves of this kind more, or less. */
static void count_by_slot(struct keyspace *keyspace, const struct grave *grave, int count)
{
    if (grave->unknown)
        keyspace_count_unknown(keyspace, grave->node.hash, count);
    else
        keyspace_count_shadows(keyspace, grave->node.hash, count);
}

static void grave_create(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key, bool unknown)
{
    struct tier_keyspace *part = keyspace->tier;
    struct grave *grave = mem_zalloc(sizeof(*grave) + key.size);
    char *copy = (char *)(grave + 1);

    if (key.size > 0)
        memcpy(copy, key.data, key.size);
    grave->node.hash = hash;
    grave->epoch = tier->epoch.number;
    grave->node.key = bytes_of(copy, key.size);
    grave->unknown = unknown;
    if (unknown)
        part->unknown_graves++;
    count_by_slot(keyspace, grave, 1);
    keyed_add(&part->graves, &grave->node);
    add_waiting(part, grave);
    statistics_count(&tier->statistics.graves);
}

void grave_free(struct tier *tier, struct keyspace *keyspace, struct grave *grave)
{
    struct tier_keyspace *part = keyspace->tier;

    count_by_slot(keyspace, grave, -1);
    if (grave->unknown)
        part->unknown_graves--;
    if (!grave->applying)
        remove_waiting(part, grave);
    keyed_remove(&part->graves, &grave->node);
    atomic_fetch_sub_explicit(&tier->statistics.graves, 1, memory_order_relaxed);
    mem_free(grave);
}

/* Removes what is left of a deleted record: its tag, and its bytes in a segment. */
static void remove_record(struct tier *tier, struct keyspace *keyspace, const struct grave *grave)
{
    recordmap_remove(keyspace->tier->map, grave->node.hash, grave->node.key, grave->place);
    keyspace_count_records(keyspace, grave->node.hash, -1);
    segments_dead(store_segments(tier->store), grave->place);
}

enum record_state grave_record_of_new(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct tier *tier = context;
    struct load *load = load_find(keyspace, hash, key);
    struct grave *grave = grave_find(keyspace, hash, key);
    bool absent = false;

    ASSERT_LOCKED(keyspace->partition);
    if (load != NULL) {
        partition_assert_locked(load->partition);
        absent = load->state == LOAD_ABSENT;
        if (load->state == LOAD_READING)
            load_void(tier, load);      /* what it reads is older than what is being written now */
        load->state = LOAD_DONE;        /* what it found is out of date */
    }
    if (grave != NULL) {
        bool unknown = grave->unknown;

        /* The writer takes the record away in any case: it has begun to, or it was gone at a checkpoint's cut. */
        if (grave->applying || (tier->epoch.phase != CHECKPOINT_NONE && !epoch_bars_delete(tier, grave)))
            return RECORD_NONE;
        grave_free(tier, keyspace, grave);
        return unknown ? RECORD_UNKNOWN : RECORD_STALE;
    }
    if (absent || !reading_is_possible(keyspace, hash, key))
        return RECORD_NONE;
    count_note(tier, keyspace, hash, key);
    return RECORD_UNKNOWN;
}

unsigned grave_uses_of_new(void *context, struct keyspace *keyspace, uint64_t hash)
{
    (void)context;
    ASSERT_LOCKED(keyspace->partition);
    return ghost_take(&keyspace->tier->ghost, hash);
}

void grave_removed(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum record_state record)
{
    struct tier *tier = context;
    struct grave *grave;

    ASSERT_LOCKED(keyspace->partition);
    if (advise_samples(&keyspace->partition->all->sample_limit, hash))
        advise_remove(tier->advise, hash, keyspace->incarnation);
    if (record == RECORD_NONE)
        return;                         /* or it still has its grave */
    grave = grave_find(keyspace, hash, key);
    if (grave != NULL) {                /* a value over it was handed over: a record follows the one that is being deleted */
        CHECK(grave->applying && !grave->has_successor);
        grave->has_successor = true;
        grave->epoch = tier->epoch.number;
        remove_record(tier, keyspace, grave);       /* one grave, one tag: the other record's stays for this one */
        return;
    }
    grave_create(tier, keyspace, hash, key, record == RECORD_UNKNOWN);
}

void grave_dropped_unread(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct tier *tier = context;
    struct load *load = load_find(keyspace, hash, key);

    ASSERT_LOCKED(keyspace->partition);
    if (advise_samples(&keyspace->partition->all->sample_limit, hash))
        advise_remove(tier->advise, hash, keyspace->incarnation);
    if (load != NULL) {
        partition_assert_locked(load->partition);
        load_void(tier, load);
    }
    if (grave_find(keyspace, hash, key) == NULL && reading_is_possible(keyspace, hash, key))
        grave_create(tier, keyspace, hash, key, false);
}

void grave_begin_applying(struct keyspace *keyspace, struct grave *grave)
{
    bool is_there = recordmap_find(keyspace->tier->map, grave->node.hash, grave->node.key, &grave->place);

    ASSERT_LOCKED(keyspace->partition);
    CHECK(!grave->applying && !grave->unknown && is_there);
    remove_waiting(keyspace->tier, grave);
    grave->applying = true;
}

void grave_set_known(struct keyspace *keyspace, struct grave *grave)
{
    CHECK(grave->unknown);
    count_by_slot(keyspace, grave, -1);
    grave->unknown = false;
    count_by_slot(keyspace, grave, 1);
    keyspace->tier->unknown_graves--;
}

void grave_applied(struct tier *tier, struct keyspace *keyspace, struct grave *grave)
{
    uint32_t handle;

    ASSERT_LOCKED(keyspace->partition);
    CHECK(grave->applying);
    if (!grave->has_successor) {
        remove_record(tier, keyspace, grave);
    } else {
        handle = keyspace_find(keyspace, grave->node.hash, grave->node.key);
        if (handle == 0) {              /* it waits for that record */
            grave->applying = grave->has_successor = false;
            add_waiting(keyspace->tier, grave);
            return;
        }
        keyspace_set_record(keyspace, keyspace_entry(keyspace, handle), RECORD_STALE);
    }
    grave_free(tier, keyspace, grave);
}

void graves_give_back(struct tier *tier, struct keyspace *keyspace)
{
    struct keyed *graves = &keyspace->tier->graves;
    struct grave **list;
    size_t count = 0;

    ASSERT_LOCKED(keyspace->partition);
    if (graves->count == 0)
        return;
    list = mem_alloc(graves->count * sizeof(struct grave *));
    for (size_t slot = 0; slot < graves->slot_count; slot++) {
        for (struct keyed_node *node = graves->slots[slot]; node != NULL; node = node->next) {
            if (!((struct grave *)node)->applying && keyspace_find(keyspace, node->hash, node->key) != 0)
                list[count++] = (struct grave *)node;
        }
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t handle = keyspace_find(keyspace, list[i]->node.hash, list[i]->node.key);

        keyspace_set_record(keyspace, keyspace_entry(keyspace, handle), list[i]->unknown ? RECORD_UNKNOWN : RECORD_STALE);
        grave_free(tier, keyspace, list[i]);
    }
    mem_free(list);
}
