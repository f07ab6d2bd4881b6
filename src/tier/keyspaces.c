#include "tier/keyspaces.h"

#include "base/mem.h"
#include "tier/advise.h"
#include "tier/collect.h"
#include "tier/count.h"
#include "tier/grave.h"
#include "tier/image.h"
#include "tier/latch.h"
#include "tier/load.h"
#include "tier/purge.h"
#include "tier/tier_private.h"

static struct recordmap *create_map(const struct keyspace *keyspace)
{
    const struct partitions *all = keyspace->partition->all;
    bool is_by_slot = all->seed.by_slot || incarnation_is_of_pages(keyspace->incarnation);

    return recordmap_create((uint8_t)((uint64_t)keyspace->partition->index * 256 / all->count), recordmap_best_tag_shift(all->bits, is_by_slot));
}

void keyspaces_created(void *context, struct keyspace *keyspace)
{
    (void)context;
    keyspace->tier = mem_zalloc(sizeof(*keyspace->tier));
    keyspace->tier->map = create_map(keyspace);
}

void keyspaces_empty_map(struct keyspace *keyspace)
{
    ASSERT_LOCKED(keyspace->partition);
    recordmap_destroy(keyspace->tier->map);
    keyspace->tier->map = create_map(keyspace);
}

bool keyspaces_incarnation_is_taken(void *context, uint32_t incarnation)
{
    struct tier *tier = context;
    bool is_taken = purge_has(tier->purge, incarnation) || purge_has(tier->purge, incarnation | INCARNATION_PAGES);

    for (uint32_t i = 0; i < tier->partitions->count && !is_taken; i++) {
        for (struct keyspace *keyspace = tier->partitions->partitions[i].flushed; keyspace != NULL; keyspace = keyspace->next_flushed)
            is_taken = is_taken || (keyspace->incarnation & ~(uint32_t)INCARNATION_PAGES) == incarnation;
    }
    return is_taken;
}

static void free_graves(struct tier *tier, struct keyspace *keyspace)
{
    struct tier_keyspace *part = keyspace->tier;
    struct keyed_node *node;
    size_t slot = 0, slot_count = part->graves.slot_count;

    while ((node = keyed_any(&part->graves, &slot)) != NULL) {
        grave_free(tier, keyspace, (struct grave *)node);
        if (part->graves.slot_count != slot_count) {    /* otherwise it goes on from here: all slots before are empty, and there may be many */
            slot_count = part->graves.slot_count;
            slot = 0;
        }
    }
}

static void release_part(struct tier *tier, struct keyspace *keyspace)
{
    struct tier_keyspace *part = keyspace->tier;

    ASSERT_LOCKED(keyspace->partition);
    packed_forget(tier, keyspace);
    free_graves(tier, keyspace);
    drops_forget(tier, part);
    loads_void_all(tier, keyspace);
    count_forget(part);
    keyed_release(&part->graves);
    keyed_release(&part->loads);
    collect_drop_map(tier, part->map);
    ghost_release(&part->ghost);
    mem_free(part);
    keyspace->tier = NULL;
}

void tier_forget(struct tier *tier, struct keyspace *keyspace)
{
    ASSERT_LOCKED(keyspace->partition);
    latch_orphan(tier, keyspace);
    advise_forget(tier->advise);
    /* Each record has a tag, from before its put is queued until its delete was applied (tier rule 1). */
    if (recordmap_count(keyspace->tier->map) > 0)
        purge_add(tier->purge, keyspace->incarnation);
    outdated_note(&tier->outdated, recordmap_count(keyspace->tier->map));
    release_part(tier, keyspace);
}

bool tier_keep_flushed(struct tier *tier, struct keyspace *keyspace)
{
    struct partition *partition = keyspace->partition;

    ASSERT_LOCKED(keyspace->partition);
    if (tier->epoch.phase == CHECKPOINT_NONE)
        return false;
    advise_forget(tier->advise);
    loads_void_all(tier, keyspace);
    packed_forget(tier, keyspace);
    keyspace->next_flushed = partition->flushed;
    partition->flushed = keyspace;
    return true;
}

/* The first of the partition's flushed keyspaces, taken out of the list; NULL: there is none. */
static struct keyspace *take_flushed(struct partition *partition) REQUIRES(partition->lock);
static struct keyspace *take_flushed(struct partition *partition)
{
    struct keyspace *keyspace = partition->flushed;

    if (keyspace != NULL)
        partition->flushed = keyspace->next_flushed;
    return keyspace;
}

void keyspaces_release_flushed(struct tier *tier)
{
    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];
        struct keyspace *keyspace;

        partition_lock(partition);
        while ((keyspace = take_flushed(partition)) != NULL) {
            tier_forget(tier, keyspace);
            tier->hooks.free_keyspace(tier->hooks.context, keyspace);
        }
        partition_unlock(partition);
    }
}

void keyspaces_release_all(struct tier *tier)
{
    for (uint32_t i = 0; tier->partitions != NULL && i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];
        struct keyspace *keyspace;

        partition_lock(partition);
        while ((keyspace = take_flushed(partition)) != NULL) {
            release_part(tier, keyspace);
            keyspace_destroy(keyspace);
        }
        for (int space = 0; space < tier->partitions->space_count; space++) {
            keyspace = partition->keyspaces[space];
            if (keyspace != NULL && keyspace->tier != NULL)
                release_part(tier, keyspace);
        }
        partition_unlock(partition);
    }
}
