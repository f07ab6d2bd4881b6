#include "tier/sweep.h"

#include "base/mem.h"
#include "tier/record.h"

enum {
    UNKNOWN_LOOKS_MAX = 8192,       /* entries a round */
    EXPIRY_PAUSE_MS = 1000,         /* before it is looked again at expired keys that could not be dealt with */
    EXPIRY_PAUSE_MAX_MS = 64000,
};

static size_t bury_keyspace(struct tier *tier, struct keyspace *keyspace, size_t count, struct batch *batch,
    struct unknowns *unknowns)
{
    struct keyed *graves = &keyspace->tier->graves;
    size_t taken = 0;

    (void)tier;
    for (size_t slot = 0; slot < graves->slot_count && taken < count; slot++) {
        for (struct keyed_node *node = graves->slots[slot]; node != NULL && taken < count; node = node->next) {
            struct grave *grave = (struct grave *)node;

            if (grave->applying || grave_is_late(tier, grave))
                continue;
            if (grave->unknown)
                unknowns_add(unknowns, keyspace, node->hash, node->key);
            else
                batch_bury(batch, keyspace, grave);
            taken++;
        }
    }
    return taken;
}

/* Graves of which nobody knows whether there is a record: read, without a lock, and bury or forget. */
static void resolve_graves(struct tier *tier, struct unknowns *unknowns, struct batch *batch)
{
    for (size_t i = 0; i < unknowns->count; i++) {
        struct unknown_key *at = &unknowns->keys[i];
        struct bytes key = bytes_of(unknowns->text.data + at->key_at, at->key_size);
        struct keyspace *keyspace;
        struct grave *grave = NULL;
        enum status read;

        unknowns->record.size = 0;
        read = store_get(tier->store, at->incarnation, at->hash, key, &unknowns->record);
        if (read != STATUS_OK && read != STATUS_NOT_FOUND)
            continue;
        partition_lock(at->partition);
        keyspace = tier_keyspace_of(at->partition, at->incarnation);
        if (keyspace != NULL)
            grave = (struct grave *)keyed_find(&keyspace->tier->graves, at->hash, key);
        /* Not if it was dug behind a cut made meanwhile: what is there belongs to the image. */
        if (grave != NULL && grave->unknown && !grave_is_late(tier, grave)) {
            if (read == STATUS_OK) {
                grave->unknown = false;
                keyspace->tier->unknown_graves--;
                batch_bury(batch, keyspace, grave);
            } else {
                grave_free(keyspace->tier, tier, grave);
            }
        }
        partition_unlock(at->partition);
    }
    unknowns->count = 0;
    unknowns->text.size = 0;
}

size_t sweep_graves(struct tier *tier, size_t count, struct batch *batch, uint32_t *next_partition)
{
    struct unknowns unknowns = { 0 };
    size_t taken = 0;

    if (atomic_load_explicit(&tier->graves, memory_order_relaxed) == 0)
        return 0;
    for (uint32_t i = 0; i < tier->partitions->count && taken < count; i++) {
        struct partition *partition = &tier->partitions->partitions[*next_partition];

        *next_partition = (*next_partition + 1) % tier->partitions->count;
        partition_lock(partition);
        for (int db = 0; db < tier->partitions->db_count && taken < count; db++) {
            if (partition->keyspaces[db] != NULL && partition->keyspaces[db]->tier->graves.count > 0)
                taken += bury_keyspace(tier, partition->keyspaces[db], count - taken, batch, &unknowns);
        }
        /* What a checkpoint still has to seal has to be without them, too. */
        for (struct keyspace *keyspace = partition->flushed; keyspace != NULL && taken < count; keyspace = keyspace->next_flushed)
            taken += bury_keyspace(tier, keyspace, count - taken, batch, &unknowns);
        partition_unlock(partition);
    }
    resolve_graves(tier, &unknowns, batch);
    unknowns_release(&unknowns);
    return taken;
}

struct nominee {
    int64_t expire_ms;
    uint32_t incarnation;
    uint64_t hash;
    size_t key_at, key_size;
};

struct nominees {
    struct nominee *list;
    size_t count, capacity;
    struct buffer text;
};

static void nominate(void *context, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key)
{
    struct nominees *nominees = context;

    if (nominees->count == nominees->capacity) {
        nominees->capacity = nominees->capacity * 2 + 64;
        nominees->list = mem_realloc(nominees->list, nominees->capacity * sizeof(struct nominee));
    }
    nominees->list[nominees->count++] = (struct nominee){ expire_ms, incarnation, hash, nominees->text.size, key.size };
    buffer_append_bytes(&nominees->text, key);
}

/* The key is hot or on its way, and may be dropped again as it is: its expiry key is still needed. */
static bool may_turn_cold(struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    uint32_t handle = keyspace_find(keyspace, hash, key);

    if (handle != 0)
        return entry_record(keyspace_entry(keyspace, handle)) == RECORD_CLEAN;
    return keyed_find(&keyspace->tier->loads, hash, key) != NULL;
}

/* Tier rule 10. The record was read just now, without the lock: only this thread could have changed it since. True if the nominee
 * is dealt with. */
static bool expire_nominee(struct tier *tier, const struct nominee *at, struct bytes key, int64_t now_ms, struct buffer *record,
    struct batch *batch)
{
    struct partition *partition = &tier->partitions->partitions[partition_index(tier->partitions, at->hash)];
    struct keyspace *keyspace;
    struct grave *grave;
    enum value_type type;
    int64_t expire_ms = -1;
    enum status read;

    record->size = 0;
    read = store_get(tier->store, at->incarnation, at->hash, key, record);
    if (read == STATUS_OK)
        read = record_peek(buffer_bytes(record), &expire_ms, &type);
    if (read != STATUS_OK && read != STATUS_NOT_FOUND)
        return false;
    if (read == STATUS_NOT_FOUND || expire_ms < 0 || expire_ms > now_ms) {
        store_batch_delete_expiry(batch->store, at->expire_ms, at->incarnation, at->hash, key);
        return true;            /* the expiry key was stale */
    }
    partition_lock(partition);
    keyspace = tier_keyspace_of(partition, at->incarnation);
    if (keyspace != NULL && may_turn_cold(keyspace, at->hash, key)) {
        partition_unlock(partition);
        return false;
    }
    store_batch_delete_expiry(batch->store, at->expire_ms, at->incarnation, at->hash, key);
    if (keyspace != NULL && keyspace_find(keyspace, at->hash, key) == 0 &&
        keyed_find(&keyspace->tier->graves, at->hash, key) == NULL) {
        tier->hooks.expired(tier->hooks.context, keyspace, key);
        grave_removed(tier, keyspace, at->hash, key, RECORD_CLEAN);
        grave = (struct grave *)keyed_find(&keyspace->tier->graves, at->hash, key);
        batch_bury(batch, keyspace, grave);
        atomic_fetch_add_explicit(&tier->expired_cold, 1, memory_order_relaxed);
    }
    partition_unlock(partition);
    return true;
}

/* Goes back for what is to be looked at again, now and then only: LevelDB has to step over all that was deleted since. Further and
 * further apart if what is first in line is always the same: it may be unreadable for good. */
static void walk_again(struct expiry_walk *walk, int64_t now_ms)
{
    if (walk->pause_ms == 0)
        *walk = (struct expiry_walk){ .again_ms = INT64_MAX, .pause_ms = EXPIRY_PAUSE_MS, .rewound_ms = -1 };
    if (walk->again_at_ms > now_ms + EXPIRY_PAUSE_MAX_MS)
        walk->again_at_ms = now_ms;         /* the clock was set back */
    if (walk->again_ms == INT64_MAX || now_ms < walk->again_at_ms)
        return;
    if (walk->again_ms != walk->rewound_ms)
        walk->pause_ms = EXPIRY_PAUSE_MS;
    else if (walk->pause_ms < EXPIRY_PAUSE_MAX_MS)
        walk->pause_ms *= 2;
    store_expiry_seek(&walk->from, walk->again_ms);
    walk->from_ms = walk->rewound_ms = walk->again_ms;
    walk->again_ms = INT64_MAX;
    walk->again_at_ms = now_ms + walk->pause_ms;
}

/* An expiry key of this time has to be looked at again. */
static void note_again(struct expiry_walk *walk, int64_t expire_ms, int64_t now_ms)
{
    if (walk->again_ms == INT64_MAX && walk->again_at_ms < now_ms)
        walk->again_at_ms = now_ms + EXPIRY_PAUSE_MS;
    if (expire_ms < walk->again_ms)
        walk->again_ms = expire_ms;
}

size_t sweep_expired(struct tier *tier, int64_t now_ms, int count, struct batch *batch, bool *more)
{
    struct expiry_walk *walk = &tier->expiry;
    struct nominees nominees = { 0 };
    struct buffer record = { 0 };
    size_t done = 0;
    int64_t soonest = store_expiry_soonest(tier->store);
    enum status status;

    walk_again(walk, now_ms);
    if (soonest <= walk->from_ms)
        note_again(walk, soonest, now_ms);
    status = store_expired(tier->store, &walk->from, now_ms, count, nominate, &nominees);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND)
        tier_note_error(tier, "expired keys can't be looked up", status);
    for (size_t i = 0; i < nominees.count; i++) {
        struct nominee *at = &nominees.list[i];

        if (expire_nominee(tier, at, bytes_of(nominees.text.data + at->key_at, at->key_size), now_ms, &record, batch))
            done++;
        else
            note_again(walk, at->expire_ms, now_ms);
        walk->from_ms = at->expire_ms;
    }
    *more = nominees.count == (size_t)count;
    mem_free(nominees.list);
    buffer_release(&nominees.text);
    buffer_release(&record);
    return done;
}

/* Looks at some of the entries, from where it left off: a walk over all would cost more the more is hot. */
static size_t unknown_keyspace(struct keyspace *keyspace, size_t count, size_t *budget, struct unknowns *unknowns)
{
    size_t taken = 0;

    while (taken < count && *budget > 0) {
        struct table_cursor cursor;

        if (!table_seek(&keyspace->table, keyspace->resolve_cursor, &cursor))
            break;
        for (int slot = 0; slot < TABLE_BUCKET_SLOTS; slot++) {
            struct entry *entry;

            if (cursor.bucket->handles[slot] == 0)
                continue;
            entry = keyspace_entry(keyspace, cursor.bucket->handles[slot]);
            --*budget;
            if (entry_record(entry) != RECORD_UNKNOWN)
                continue;
            unknowns_add(unknowns, keyspace, hash_bytes(&keyspace->partition->all->seed, entry_key(entry)), entry_key(entry));
            taken++;
        }
        if (*budget < TABLE_BUCKET_SLOTS)
            *budget = 0;
        keyspace->resolve_cursor = cursor.last_hash + 1;
        if (keyspace->resolve_cursor == 0 ||
            partition_index(keyspace->partition->all, keyspace->resolve_cursor) != keyspace->partition->index) {
            keyspace->resolve_cursor = partition_first_hash(keyspace->partition);
            break;
        }
    }
    return taken;
}

size_t sweep_unknown(struct tier *tier, size_t count, struct unknowns *unknowns, uint32_t *next_partition)
{
    size_t taken = 0, budget = UNKNOWN_LOOKS_MAX;

    for (uint32_t i = 0; i < tier->partitions->count && taken < count && budget > 0; i++) {
        struct partition *partition = &tier->partitions->partitions[*next_partition];

        partition_lock(partition);
        for (int db = 0; db < tier->partitions->db_count && taken < count; db++) {
            struct keyspace *keyspace = partition->keyspaces[db];

            if (keyspace != NULL && keyspace->record_counts[RECORD_UNKNOWN] > 0)
                taken += unknown_keyspace(keyspace, count - taken, &budget, unknowns);
        }
        partition_unlock(partition);
        *next_partition = (*next_partition + 1) % tier->partitions->count;
    }
    return taken;
}

bool sweep_compact(struct tier *tier, uint32_t block_count, uint32_t hole_percent)
{
    bool more = false;

    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];

        for (int db = 0; db < tier->partitions->db_count; db++) {
            partition_lock(partition);
            if (partition->keyspaces[db] != NULL && keyspace_compact(partition->keyspaces[db], block_count, hole_percent))
                more = true;
            partition_unlock(partition);
        }
    }
    return more;
}
