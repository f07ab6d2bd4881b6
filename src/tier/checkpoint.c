/* The checkpoint's half in the tier: cut, seal, snapshot.
 *
 * The cut turns the partitions' parity with all of them locked. An entry whose ENTRY_EPOCH differs from it is as it was at the cut.
 * Sealing brings the store to the state of the cut: the writer writes every dirty entry that is as it was, and whoever is about
 * to change one hands its value over first. Until the snapshot the writer applies nothing that is younger: entries changed
 * since are barred, graves dug since wait, a flushed keyspace is kept until it is sealed. Nothing is taken back when a
 * checkpoint fails: what was sealed was true, and what waited goes on.
 */
#include "tier/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "tier/batch.h"
#include "tier/demote.h"
#include "tier/record.h"
#include "tier/sweep.h"
#include "tier/tags.h"

enum { SEAL_BUCKETS = 64, GRAVES_A_STEP = 4096 };

static bool is_as_of_cut(const struct keyspace *keyspace, const struct entry *entry)
{
    return !!(entry->flags & ENTRY_EPOCH) != keyspace->partition->all->parity;
}

bool checkpoint_bars(const struct tier *tier, const struct keyspace *keyspace, const struct entry *entry)
{
    return tier->checkpointing && !is_as_of_cut(keyspace, entry) && entry_record(entry) != RECORD_CLEAN;
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
        .expire_ms = entry_expire_ms(entry),
        .unknown = entry_record(entry) == RECORD_UNKNOWN,
    };
    record_encode(entry, &handed->record);
    if (entry_record(entry) == RECORD_NONE) {
        recordmap_add(keyspace->tier->map, hash);
        keyspace_set_record(keyspace, entry, RECORD_STALE);
    }
    pthread_mutex_lock(&tier->handed_lock);
    if (tier->handed_last != NULL)
        tier->handed_last->next = handed;
    else
        tier->handed_first = handed;
    tier->handed_last = handed;
    pthread_mutex_unlock(&tier->handed_lock);
}

void checkpoint_changing(void *context, struct keyspace *keyspace, uint64_t hash, uint32_t handle)
{
    struct tier *tier = context;
    struct entry *entry = keyspace_entry(keyspace, handle);

    ASSERT_LOCKED(keyspace->partition);
    if (tier->checkpointing && entry_record(entry) != RECORD_CLEAN)
        hand_over(tier, keyspace, hash, entry);
    entry->flags ^= ENTRY_EPOCH;
}

void tier_image_begin(struct tier *tier)
{
    pthread_mutex_lock(&tier->image_turn);
}

void tier_image_end(struct tier *tier)
{
    pthread_mutex_unlock(&tier->image_turn);
}

bool tier_may_cut(struct tier *tier)
{
    return !tier->checkpointing;
}

void tier_cut(struct tier *tier)
{
    ASSERT_LOCKED(&tier->partitions->partitions[0]);
    CHECK(!tier->checkpointing);
    tier->partitions->parity ^= 1;
    tier->epoch++;
    tier->checkpointing = true;
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

/* What the writer works with while it seals. */
struct sealing {
    struct tier *tier;
    struct batch *batch;
    struct unknowns *unknowns, *big;
    enum status status;
    size_t found;               /* entries that were still to be sealed in this pass */
};

static bool commit(struct sealing *sealing)
{
    if (sealing->status == STATUS_OK)
        sealing->status = batch_commit(sealing->tier, sealing->batch);
    return sealing->status == STATUS_OK;
}

static void seal_bucket(struct sealing *sealing, struct keyspace *keyspace, const struct bucket *bucket)
{
    for (int slot = 0; slot < BUCKET_SLOTS; slot++) {
        struct entry *entry;
        struct bytes key;
        uint64_t hash;

        if (bucket->handles[slot] == 0)
            continue;
        entry = keyspace_entry(keyspace, bucket->handles[slot]);
        if (!is_as_of_cut(keyspace, entry))
            continue;
        if (entry_record(entry) == RECORD_CLEAN) {
            entry->flags ^= ENTRY_EPOCH;
            continue;
        }
        key = entry_key(entry);
        hash = hash_bytes(&keyspace->partition->all->seed, key);
        sealing->found++;
        if (entry_record(entry) == RECORD_UNKNOWN)
            unknowns_add(sealing->unknowns, keyspace, hash, key);
        else if (is_big(entry))
            unknowns_add(sealing->big, keyspace, hash, key);
        else
            batch_put(sealing->batch, keyspace, hash, bucket->handles[slot], BATCH_CLEAN, NULL);
    }
}

/* What a step collected: reads for those whose record is unknown (they are written in the next pass), big values one by one. */
static bool seal_collected(struct sealing *sealing)
{
    if (unknowns_resolve(sealing->tier, sealing->unknowns, NULL) != STATUS_OK)
        sealing->status = STATUS_IO;
    for (size_t i = 0; i < sealing->big->count && sealing->status == STATUS_OK; i++) {
        struct unknown_key *at = &sealing->big->keys[i];

        batch_put_big(sealing->tier, sealing->batch, at->partition, at->incarnation, at->hash,
            bytes_of(sealing->big->text.data + at->key_at, at->key_size), BATCH_CLEAN, NULL);
        commit(sealing);
    }
    sealing->big->count = 0;
    sealing->big->text.size = 0;
    return commit(sealing);
}

static void seal_keyspace(struct sealing *sealing, struct partition *partition, uint32_t incarnation)
{
    uint64_t from = partition_first_hash(partition);
    bool more = true;

    while (more && sealing->status == STATUS_OK) {
        struct keyspace *keyspace;
        struct table_cursor cursor;

        partition_lock(partition);
        keyspace = tier_keyspace_of(partition, incarnation);
        more = keyspace != NULL && table_seek(&keyspace->table, from, &cursor);
        for (int i = 0; more && i < SEAL_BUCKETS; i++) {
            seal_bucket(sealing, keyspace, cursor.bucket);
            from = cursor.last_hash + 1;
            more = table_next(&keyspace->table, &cursor);
        }
        partition_unlock(partition);
        if (store_batch_size(sealing->batch->store) >= (size_t)sealing->tier->settings.batch_size || sealing->unknowns->count > 1000 ||
            sealing->big->count > 0)
            seal_collected(sealing);
        sealing->tier->hooks.memory_freed(sealing->tier->hooks.context);
    }
    seal_collected(sealing);
}

/* The incarnations of a partition's keyspaces, those flushed since the cut too. */
static size_t incarnations_of(struct partition *partition, uint32_t *list, size_t capacity)
{
    size_t count = 0;

    partition_lock(partition);
    for (int db = 0; db < partition->all->db_count && count < capacity; db++) {
        if (partition->keyspaces[db] != NULL)
            list[count++] = partition->keyspaces[db]->incarnation;
    }
    for (struct keyspace *keyspace = partition->flushed; keyspace != NULL && count < capacity; keyspace = keyspace->next_flushed)
        list[count++] = keyspace->incarnation;
    partition_unlock(partition);
    return count;
}

static void settle_unknown(struct tier *tier, struct handed *handed)
{
    struct buffer record = { 0 };
    enum status read = store_get(tier->store, handed->incarnation, handed->hash, handed->key, &record);
    struct keyspace *keyspace;
    uint32_t handle;

    buffer_release(&record);
    partition_lock(handed->partition);
    keyspace = tier_keyspace_of(handed->partition, handed->incarnation);
    if (keyspace != NULL) {
        struct grave *grave = (struct grave *)keyed_find(&keyspace->tier->graves, handed->hash, handed->key);

        if (read == STATUS_NOT_FOUND)
            recordmap_add(keyspace->tier->map, handed->hash);
        handle = keyspace_find(keyspace, handed->hash, handed->key);
        if (handle != 0 && entry_record(keyspace_entry(keyspace, handle)) == RECORD_UNKNOWN)
            keyspace_set_record(keyspace, keyspace_entry(keyspace, handle), RECORD_STALE);
        if (grave != NULL && grave->unknown) {
            grave->unknown = false;
            keyspace->tier->unknown_graves--;
        }
    }
    partition_unlock(handed->partition);
}

static size_t seal_handed(struct sealing *sealing)
{
    struct tier *tier = sealing->tier;
    struct handed *handed;
    size_t count = 0;

    pthread_mutex_lock(&tier->handed_lock);
    handed = tier->handed_first;
    tier->handed_first = tier->handed_last = NULL;
    pthread_mutex_unlock(&tier->handed_lock);
    while (handed != NULL) {
        struct handed *next = handed->next;

        if (handed->unknown)
            settle_unknown(tier, handed);
        batch_put_handed(sealing->batch, handed);
        buffer_release(&handed->record);
        mem_free(handed);
        handed = next;
        count++;
        if (store_batch_size(sealing->batch->store) >= (size_t)tier->settings.batch_size && !commit(sealing) && sealing->batch->failed)
            break;          /* the rest goes back to the queue */
    }
    if (handed != NULL) {
        pthread_mutex_lock(&tier->handed_lock);
        struct handed *last = handed;

        while (last->next != NULL)
            last = last->next;
        last->next = tier->handed_first;
        if (tier->handed_first == NULL)
            tier->handed_last = last;
        tier->handed_first = handed;
        pthread_mutex_unlock(&tier->handed_lock);
    }
    commit(sealing);
    return count;
}

/* Passes over everything, until nothing is left that is as it was at the cut and not written. */
static void seal_all(struct sealing *sealing)
{
    struct tier *tier = sealing->tier;
    uint32_t next_grave = 0, *list = mem_alloc(1024 * sizeof(*list));
    size_t handed;

    do {
        sealing->found = 0;
        handed = seal_handed(sealing);
        while (sealing->status == STATUS_OK && sweep_graves(tier, GRAVES_A_STEP, sealing->batch, &next_grave) > 0)
            commit(sealing);
        for (uint32_t i = 0; i < tier->partitions->count && sealing->status == STATUS_OK; i++) {
            size_t count = incarnations_of(&tier->partitions->partitions[i], list, 1024);

            for (size_t at = 0; at < count && sealing->status == STATUS_OK; at++)
                seal_keyspace(sealing, &tier->partitions->partitions[i], list[at]);
        }
    } while (sealing->status == STATUS_OK && (sealing->found > 0 || handed > 0 || tier->handed_first != NULL));
    mem_free(list);
}

/* The checkpoint needs them no longer. */
static void release_flushed(struct tier *tier)
{
    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];

        partition_lock(partition);
        while (partition->flushed != NULL) {
            struct keyspace *keyspace = partition->flushed;
            uint32_t incarnation = keyspace->incarnation;

            partition->flushed = keyspace->next_flushed;
            tier_forget(tier, keyspace);
            tier->hooks.free_keyspace(tier->hooks.context, keyspace);
            tier_purge(tier, incarnation);
        }
        partition_unlock(partition);
    }
}

void checkpoint_serve(struct tier *tier, struct image_request *request, struct batch *batch, struct unknowns *unknowns,
    struct unknowns *big)
{
    struct sealing sealing = { tier, batch, unknowns, big, tier->state == TIER_ERROR ? STATUS_CLOSED : STATUS_OK, 0 };
    char path[4096];

    CHECK(tier->checkpointing);
    if (sealing.status == STATUS_OK)
        seal_all(&sealing);
    if (sealing.status == STATUS_OK && mkdir(request->dir, 0755) != 0)
        sealing.status = status_of_errno(errno);
    if (sealing.status == STATUS_OK) {
        snprintf(path, sizeof(path), "%s/store", request->dir);
        sealing.status = store_snapshot(tier->store, path, request->message);
    }
    if (sealing.status == STATUS_OK)
        sealing.status = tags_save(tier, request->dir);
    request->status = sealing.status;
    tier->checkpoint_over = true;
    checkpoint_end(tier, batch);
}

void checkpoint_end(struct tier *tier, struct batch *batch)
{
    struct sealing rest = { tier, batch, NULL, NULL, STATUS_OK, 0 };

    if (!tier->checkpoint_over || batch->failed)
        return;
    /* What was handed over has its tag already, and must not come after a younger value: all of it is written now. */
    while (rest.status == STATUS_OK && seal_handed(&rest) > 0)
        ;
    if (rest.status != STATUS_OK)
        return;                     /* the store is in error: again when it is back */
    tier->checkpoint_over = false;
    tier->checkpointing = false;
    release_flushed(tier);
}

enum status tier_image(struct tier *tier, const char *dir, char *message)
{
    struct image_request request = { dir, message, STATUS_OK, false };

    message[0] = '\0';
    pthread_mutex_lock(&tier->writer_lock);
    CHECK(tier->image == NULL);
    tier->image = &request;
    pthread_cond_signal(&tier->writer_asked);
    while (!request.done)
        pthread_cond_wait(&tier->writer_answered, &tier->writer_lock);
    pthread_mutex_unlock(&tier->writer_lock);
    return request.status;
}
