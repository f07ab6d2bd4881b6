#include "tier/latch.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "tier/tier_private.h"

struct entry *latch_begin(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key, uint32_t handle)
{
    struct entry *entry = keyspace_entry(keyspace, handle);
    uint32_t size = entry_block_size(entry);
    struct entry *copy = mem_alloc(size);

    ASSERT_LOCKED(keyspace->partition);
    entry->flags |= ENTRY_LATCHED;
    tier->latch = (struct latch){ keyspace, hash, key, false };
    memcpy(copy, entry, size);
    return copy;
}

uint32_t latch_end(struct tier *tier)
{
    struct latch latch = tier->latch;
    uint32_t handle;

    tier->latch = (struct latch){ 0 };
    if (latch.is_orphaned)
        return 0;
    ASSERT_LOCKED(latch.keyspace->partition);
    handle = keyspace_find(latch.keyspace, latch.hash, latch.key);
    CHECK(handle != 0);
    keyspace_entry(latch.keyspace, handle)->flags &= (uint8_t)~ENTRY_LATCHED;
    return handle;
}

static void make_orphan(struct tier *tier)
{
    tier->latch.keyspace = NULL;
    tier->latch.is_orphaned = true;
}

void latch_orphan(struct tier *tier, struct keyspace *keyspace)
{
    struct value nothing = { .type = VALUE_STRING, .encoding = STRING_INT, .integer = 0 };
    uint32_t handle;

    ASSERT_LOCKED(keyspace->partition);
    if (tier->latch.keyspace != keyspace)
        return;
    handle = keyspace_find(keyspace, tier->latch.hash, tier->latch.key);
    CHECK(handle != 0 && keyspace_entry(keyspace, handle)->flags & ENTRY_LATCHED);
    keyspace_set_value(keyspace, tier->latch.hash, handle, &nothing);
    make_orphan(tier);
}

void tier_unlatch(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    uint32_t handle = keyspace_find(keyspace, hash, key);
    struct value value;

    ASSERT_LOCKED(keyspace->partition);
    CHECK(handle != 0 && tier->latch.keyspace == keyspace);
    value = entry_value(keyspace_entry(keyspace, handle));
    value = value_copy(&value);
    handle = keyspace_set_value(keyspace, hash, handle, &value);
    keyspace_entry(keyspace, handle)->flags &= (uint8_t)~ENTRY_LATCHED;
    make_orphan(tier);
}

void latch_unlatch(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    tier_unlatch(context, keyspace, hash, key);
}
