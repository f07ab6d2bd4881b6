#include "tier/handover.h"

#include <string.h>

#include "base/mem.h"
#include "tier/batch.h"
#include "tier/epoch.h"
#include "tier/grave.h"
#include "tier/look_up.h"
#include "tier/record.h"
#include "tier/tier_private.h"

enum {
    RESERVE_SHARE = 16,                 /* of maxmemory, for the queue */
    LOOK_UP_MAX = 1024,                 /* values whose records are looked up together */
};

#define RESERVE_MIN (8ull << 20)
#define RESERVE_MAX (64ull << 20)

void handover_init(struct handover *handover)
{
    mutex_init(&handover->lock);
}

static uint64_t handed_size(const struct handed *handed)
{
    return sizeof(*handed) + handed->key.size + handed->record.capacity;
}

static void handed_free(struct handover *handover, struct handed *handed)
{
    handover->bytes -= handed_size(handed);
    buffer_release(&handed->record);
    mem_free(handed);
}

void handover_release(struct handover *handover)
{
    while (handover->first != NULL) {
        struct handed *next = handover->first->next;

        handed_free(handover, handover->first);
        handover->first = next;
    }
    mutex_release(&handover->lock);
}

void handover_begin(struct tier *tier)
{
    uint64_t reserve = (uint64_t)tier->settings.memory_max / RESERVE_SHARE;

    if (reserve < RESERVE_MIN && tier->settings.memory_max > 0)
        reserve = RESERVE_MIN;
    tier->handover.bytes_max = reserve > 0 && reserve < RESERVE_MAX ? reserve : RESERVE_MAX;
}

bool handover_is_full(const struct tier *tier)
{
    return tier->handover.bytes > tier->handover.bytes_max;
}

bool handover_is_empty(struct tier *tier)
{
    bool is_empty;

    mutex_lock(&tier->handover.lock);
    is_empty = tier->handover.first == NULL;
    mutex_unlock(&tier->handover.lock);
    return is_empty;
}

/* The value as of the cut, for the writer. From here on there is a record, older than the entry (tier rule 2). */
static void hand_over(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct entry *entry)
{
    struct handover *handover = &tier->handover;
    struct bytes key = entry_key(entry);
    struct handed *handed = mem_zalloc(sizeof(*handed) + key.size);
    char *copy = (char *)(handed + 1);

    memcpy(copy, key.data, key.size);
    *handed = (struct handed){
        .partition = keyspace->partition,
        .db = keyspace->db,
        .incarnation = keyspace->incarnation,
        .hash = hash,
        .key = bytes_of(copy, key.size),
        .expire_ms = entry_death_ms(entry),
        .type = entry_type(entry),
        .unknown = entry_record(entry) == RECORD_UNKNOWN,
    };
    record_encode(entry, &handed->record);
    handover->bytes += handed_size(handed);
    keyspace_assert_locked(keyspace);
    if (entry_record(entry) == RECORD_NONE) {
        recordmap_add(keyspace->tier->map, hash, key, 0);
        keyspace_count_records(keyspace, hash, 1);
        keyspace_set_record(keyspace, entry, RECORD_STALE);
    }
    mutex_lock(&handover->lock);
    if (handover->last != NULL)
        handover->last->next = handed;
    else
        handover->first = handed;
    handover->last = handed;
    mutex_unlock(&handover->lock);
}

void handover_changing(void *context, struct keyspace *keyspace, uint64_t hash, uint32_t handle)
{
    struct tier *tier = context;
    struct entry *entry = keyspace_entry(keyspace, handle);

    ASSERT_LOCKED(keyspace->partition);
    if (tier->epoch.phase == CHECKPOINT_SEALING && entry_record(entry) != RECORD_CLEAN)
        hand_over(tier, keyspace, hash, entry);
    epoch_leave_cut(keyspace, entry);
}

/* --- the writer's side --- */

static struct handed *take_all(struct handover *handover)
{
    struct handed *first;

    mutex_lock(&handover->lock);
    first = handover->first;
    handover->first = handover->last = NULL;
    mutex_unlock(&handover->lock);
    return first;
}

/* Puts what is left back, before what was handed over meanwhile. */
static void give_back(struct handover *handover, struct handed *first)
{
    struct handed *last = first;

    if (first == NULL)
        return;
    while (last->next != NULL)
        last = last->next;
    mutex_lock(&handover->lock);
    last->next = handover->first;
    if (handover->first == NULL)
        handover->last = last;
    handover->first = first;
    mutex_unlock(&handover->lock);
}

/* Values of the queue of which it is not known whether they have records, looked up together: one after the other they keep the writer while
 * clients wait for room in the queue. */
struct unknowns {
    struct key_list list;
    size_t next;                        /* the value that is put next */
};

/* The value's, which is the next one of them. */
static const struct listed_key *next_unknown(struct tier *tier, struct unknowns *unknowns, const struct handed *handed)
{
    struct key_list *list = &unknowns->list;

    if (unknowns->next == list->count) {
        key_list_clear(list);
        unknowns->next = 0;
        for (; handed != NULL && list->count < LOOK_UP_MAX; handed = handed->next) {
            if (handed->unknown)
                key_list_add_in(list, handed->partition, handed->incarnation, handed->hash, handed->key);
        }
        look_up(tier, &tier->look_ups, list);
    }
    return &list->keys[unknowns->next++];
}

/* A value whose record was not known: now it is, and there will be one. False: the store can't be read just now. */
static bool settle_unknown(struct tier *tier, struct handed *handed, struct unknowns *unknowns)
{
    struct keyspace *keyspace;
    uint32_t handle;
    bool has_record;

    if (!look_up_tells(next_unknown(tier, unknowns, handed), &has_record))
        return false;
    partition_lock(handed->partition);
    keyspace = tier_keyspace_of(handed->partition, handed->incarnation);
    if (keyspace != NULL) {
        struct grave *grave = grave_find(keyspace, handed->hash, handed->key);

        keyspace_assert_locked(keyspace);
        if (!has_record) {
            recordmap_add(keyspace->tier->map, handed->hash, handed->key, 0);
            keyspace_count_records(keyspace, handed->hash, 1);
        }
        handle = keyspace_find(keyspace, handed->hash, handed->key);
        if (handle != 0 && entry_record(keyspace_entry(keyspace, handle)) == RECORD_UNKNOWN)
            keyspace_set_record(keyspace, keyspace_entry(keyspace, handle), RECORD_STALE);
        if (grave != NULL && grave->unknown)
            grave_set_known(keyspace, grave);
    }
    partition_unlock(handed->partition);
    return true;
}

static enum status put_handed(struct tier *tier, struct batch *batch, struct handed *handed, struct unknowns *unknowns,
    char problem[OVERSIZED_TEXT_SIZE])
{
    bool is_sealing = tier->epoch.phase == CHECKPOINT_SEALING;

    /* After a failure an unknown record may stay unknown; perhaps it can't be read. */
    if (handed->unknown && !is_sealing)
        return STATUS_OK;
    if (handed->unknown && !settle_unknown(tier, handed, unknowns))
        return STATUS_IO;
    if (batch_put_handed(tier, batch, handed) == STATUS_TOO_LARGE && is_sealing) {
        oversized_text(tier, handed->key, problem);
        return STATUS_TOO_LARGE;
    }
    return STATUS_OK;
}

size_t handover_write(struct tier *tier, struct batch *batch, enum status *status, char problem[OVERSIZED_TEXT_SIZE])
{
    struct handed *handed = take_all(&tier->handover);
    struct unknowns unknowns = { .next = 0 };
    size_t count = 0;

    if (handed == NULL)
        return 0;
    while (handed != NULL && *status == STATUS_OK) {
        struct handed *next = handed->next;

        *status = put_handed(tier, batch, handed, &unknowns, problem);
        if (*status == STATUS_IO)
            break;                  /* it was not put */
        handed_free(&tier->handover, handed);
        handed = next;
        count++;
        if (*status == STATUS_OK && store_batch_size(batch->store) >= (size_t)tier->settings.batch_size)
            *status = batch_commit(tier, batch);
    }
    if (*status == STATUS_OK || !batch->failed) {
        enum status last = batch_commit(tier, batch);

        *status = *status == STATUS_OK ? last : *status;
    }
    key_list_release(&unknowns.list);
    give_back(&tier->handover, handed);
    tier->hooks.memory_freed(tier->hooks.context);
    return count;
}
