/* Graves, and what a new entry knows about its record: tier rules 2 and 3. */
#include "base/check.h"
#include "base/mem.h"
#include "tier/tier_private.h"

void grave_keyspace_created(void *context, struct keyspace *keyspace)
{
    (void)context;
    keyspace->tier = mem_zalloc(sizeof(*keyspace->tier));
    keyspace->tier->map = recordmap_create((uint8_t)((uint64_t)keyspace->partition->index * 256 / keyspace->partition->all->count));
}

static struct grave *grave_create(struct tier *tier, struct tier_keyspace *in, uint64_t hash, struct bytes key)
{
    struct grave *grave = mem_zalloc(sizeof(*grave) + key.size);
    char *copy = (char *)(grave + 1);

    if (key.size > 0)
        memcpy(copy, key.data, key.size);
    grave->node.hash = hash;
    grave->epoch = tier->epoch;
    grave->node.key = bytes_of(copy, key.size);
    keyed_add(&in->graves, &grave->node);
    atomic_fetch_add_explicit(&tier->graves, 1, memory_order_relaxed);
    return grave;
}

void grave_free(struct tier_keyspace *in, struct tier *tier, struct grave *grave)
{
    if (grave->unknown)
        in->unknown_graves--;
    keyed_remove(&in->graves, &grave->node);
    atomic_fetch_sub_explicit(&tier->graves, 1, memory_order_relaxed);
    mem_free(grave);
}

enum record_state grave_record_of_new(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct tier *tier = context;
    struct tier_keyspace *in = keyspace->tier;
    struct load *load = (struct load *)keyed_find(&in->loads, hash, key);
    struct grave *grave = (struct grave *)keyed_find(&in->graves, hash, key);
    bool absent = false;

    ASSERT_LOCKED(keyspace->partition);
    if (load != NULL) {
        absent = load->state == LOAD_ABSENT;
        if (load->state == LOAD_READING)
            load_void(tier, load);      /* what comes back is older than what is being written now */
        load->state = LOAD_DONE;        /* what it found out does not hold any more */
    }
    if (grave != NULL) {
        bool unknown = grave->unknown;

        /* The writer takes the record away in any case: it has begun to, or it was gone at a checkpoint's cut. */
        if (grave->applying || (tier->checkpointing && !grave_is_late(tier, grave)))
            return RECORD_NONE;
        grave_free(in, tier, grave);
        return unknown ? RECORD_UNKNOWN : RECORD_STALE;
    }
    if (absent || !recordmap_maybe(in->map, hash))
        return RECORD_NONE;
    count_note(tier, keyspace, hash, key);
    return RECORD_UNKNOWN;
}

void grave_removed(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum record_state record)
{
    struct tier *tier = context;
    struct tier_keyspace *in = keyspace->tier;
    struct grave *grave;

    if (record == RECORD_NONE)
        return;                         /* or its grave is there still */
    grave = grave_create(tier, in, hash, key);
    grave->unknown = record == RECORD_UNKNOWN;
    if (grave->unknown)
        in->unknown_graves++;
}
