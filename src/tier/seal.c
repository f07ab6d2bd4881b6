/* Sealing: the writer's part of a checkpoint, in bounded steps, so that demotion and loads go on meanwhile.
 *
 * Passes over everything. Before the cut ("clean") each pass writes what is dirty; there are few, as clients make more.
 * After it, passes go on until nothing is left that is as it was at the cut and not written. Then the image is taken.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "tier/batch.h"
#include "tier/checkpoint.h"
#include "tier/demote.h"
#include "tier/sweep.h"
#include "tier/tags.h"

enum {
    STEP_US = 5000,                 /* how long a step takes, about: a batch may take longer */
    BUCKETS_A_PIECE = 64,           /* looked at under one lock */
    PIECE_ENOUGH = 256,             /* entries encoded under one lock */
    PIECE_MAX = PIECE_ENOUGH + 256 * TABLE_BUCKET_SLOTS,     /* what is home to one bucket lies in one leaf */
    GRAVES_A_PIECE = 4096,
    UNKNOWNS_A_PIECE = 1000,
    CLEAN_PASSES = 3,
    CLEAN_ENOUGH_SHARE = 8,         /* a pass that wrote less than this share of the one before it, or of all, is the last */
};

struct found {
    uint64_t hash;
    uint32_t handle;
};

struct sealing {
    struct tier *tier;
    struct batch *batch;
    struct image_request *request;
    struct unknowns unknowns, big;
    enum status status;
    int pass;
    uint64_t seen;                  /* entries in this pass */
    uint64_t found, found_before;   /* that had to be written, in this pass and the one before it */
    size_t handed;                  /* written in this pass */
    uint32_t next_grave;
    uint64_t grave_pieces;          /* so many may be needed; more means that they can't be got rid of */
    bool graves_done;
    /* Where the pass is: the store's order, incarnation, then hash. */
    uint32_t *incarnations;
    size_t count, at, capacity;
    uint32_t partition;
    uint64_t from;                  /* hash */
    /* The piece in hand, under its partition's lock. */
    struct keyspace *keyspace;
    struct found piece[PIECE_MAX];
    size_t piece_count;
};

static bool is_clean_pass(const struct sealing *sealing)
{
    return sealing->request->dir == NULL;
}

static bool commit(struct sealing *sealing)
{
    if (sealing->status == STATUS_OK)
        sealing->status = batch_commit(sealing->tier, sealing->batch);
    return sealing->status == STATUS_OK;
}

static bool must_write(void *context, uint32_t handle)
{
    const struct sealing *sealing = context;
    const struct keyspace *keyspace = sealing->keyspace;
    struct entry *entry = keyspace_entry(keyspace, handle);

    bool is_as_of_cut = !!(entry->flags & ENTRY_EPOCH) != keyspace->partition->all->parity;

    if (is_clean_pass(sealing)) {
        if (is_as_of_cut)           /* of one that failed */
            entry->flags ^= ENTRY_EPOCH;
        return entry_record(entry) != RECORD_CLEAN && !(entry->flags & (ENTRY_WRITING | ENTRY_PINNED));
    }
    if (!is_as_of_cut)
        return false;
    if (entry_record(entry) != RECORD_CLEAN)
        return true;
    entry->flags ^= ENTRY_EPOCH;
    return false;
}

static void collect(void *context, uint64_t hash, uint32_t handle)
{
    struct sealing *sealing = context;

    CHECK(sealing->piece_count < PIECE_MAX);        /* a leaf is smaller */
    sealing->piece[sealing->piece_count++] = (struct found){ hash, handle };
}

static int compare_found(const void *a, const void *b)
{
    const struct found *left = a, *right = b;

    return left->hash < right->hash ? -1 : left->hash > right->hash;
}

/* In the store's order: tables that don't overlap need not be merged with each other. False if there was more than should be encoded
 * under one hold of the lock: the next piece begins with the first that is left. `begins` is where this one began. */
static bool put_piece(struct sealing *sealing, uint64_t begins)
{
    struct keyspace *keyspace = sealing->keyspace;
    size_t before = store_batch_size(sealing->batch->store), i;
    bool whole;

    qsort(sealing->piece, sealing->piece_count, sizeof(sealing->piece[0]), compare_found);
    for (i = 0; i < sealing->piece_count && store_batch_size(sealing->batch->store) - before < BATCH_HOLD_ENOUGH; i++) {
        struct entry *entry = keyspace_entry(keyspace, sealing->piece[i].handle);
        uint64_t hash = sealing->piece[i].hash;

        /* Of a bucket that was begun: it has been looked at, and was changed again. Left to the next pass, else clients that are quick
         * could keep the pass in one place. */
        if (hash < begins && is_clean_pass(sealing))
            continue;
        if (entry_record(entry) == RECORD_UNKNOWN)
            unknowns_add(&sealing->unknowns, keyspace, hash, entry_key(entry));
        else if (entry_is_big(entry))
            unknowns_add(&sealing->big, keyspace, hash, entry_key(entry));
        else
            batch_put(sealing->batch, keyspace, hash, sealing->piece[i].handle, BATCH_CLEAN, NULL);
    }
    whole = i == sealing->piece_count;
    if (!whole)
        sealing->from = sealing->piece[i].hash;
    sealing->found += i;
    sealing->piece_count = 0;
    return whole;
}

/* There is no image without this key. */
static void fail_too_large(struct sealing *sealing, struct bytes key)
{
    char text[OVERSIZED_TEXT_SIZE];

    oversized_text(sealing->tier, key, text);
    tier_note_message(sealing->tier, text);
    message_set(sealing->request->message, "%s", text);
    sealing->status = STATUS_TOO_LARGE;
}

/* Big values, one by one, each in a batch of its own. */
static void write_big(struct sealing *sealing, struct unknowns *big)
{
    if (big->count > 0)
        commit(sealing);
    for (size_t i = 0; i < big->count && sealing->status == STATUS_OK; i++) {
        struct unknown_key *at = &big->keys[i];

        struct bytes key = bytes_of(big->text.data + at->key_at, at->key_size);

        if (batch_put_big(sealing->tier, sealing->batch, at->partition, at->incarnation, at->hash, key, BATCH_CLEAN, NULL) ==
            STATUS_TOO_LARGE)
            fail_too_large(sealing, key);
        commit(sealing);
    }
    big->count = 0;
    big->text.size = 0;
}

/* What a piece collected: reads for those whose record is unknown (they are written in the next pass), and the batch. */
static void write_collected(struct sealing *sealing)
{
    if (unknowns_resolve(sealing->tier, &sealing->unknowns, NULL) != STATUS_OK)
        sealing->status = STATUS_IO;
    write_big(sealing, &sealing->big);
    commit(sealing);
}

/* Those that clients wait for. */
static void write_hurried(struct sealing *sealing)
{
    struct tier *tier = sealing->tier;
    struct unknowns *hurried;

    mutex_lock(&tier->writer_lock);
    hurried = tier->hurried;
    tier->hurried = NULL;
    mutex_unlock(&tier->writer_lock);
    if (hurried == NULL)
        return;
    for (size_t i = 0; i < hurried->count; i++) {       /* unknown ones have to be looked up before they can be written */
        struct unknown_key *at = &hurried->keys[i];
        struct bytes key = bytes_of(hurried->text.data + at->key_at, at->key_size);
        struct keyspace *keyspace;
        uint32_t handle = 0;

        partition_lock(at->partition);
        keyspace = tier_keyspace_of(at->partition, at->incarnation);
        if (keyspace != NULL)
            handle = keyspace_find(keyspace, at->hash, key);
        if (handle != 0 && entry_record(keyspace_entry(keyspace, handle)) == RECORD_UNKNOWN)
            unknowns_add(&sealing->unknowns, keyspace, at->hash, key);
        partition_unlock(at->partition);
    }
    if (unknowns_resolve(tier, &sealing->unknowns, NULL) != STATUS_OK)
        sealing->status = STATUS_IO;
    write_big(sealing, hurried);
    unknowns_release(hurried);
    mem_free(hurried);
}

static void list_incarnation(struct sealing *sealing, uint32_t incarnation)
{
    for (size_t i = 0; i < sealing->count; i++) {
        if (sealing->incarnations[i] == incarnation)
            return;
    }
    if (sealing->count == sealing->capacity) {
        sealing->capacity = sealing->capacity * 2 + 16;
        sealing->incarnations = mem_realloc(sealing->incarnations, sealing->capacity * sizeof(uint32_t));
    }
    sealing->incarnations[sealing->count++] = incarnation;
}

/* Of all databases that have keys, and of those that were flushed since the cut. What comes later has nothing as of the cut. */
static void list_incarnations(struct sealing *sealing)
{
    struct partitions *all = sealing->tier->partitions;

    sealing->count = sealing->at = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        struct partition *partition = &all->partitions[i];

        partition_lock(partition);
        for (int db = 0; db < all->db_count; db++) {
            if (partition->keyspaces[db] != NULL)
                list_incarnation(sealing, partition->keyspaces[db]->incarnation);
        }
        for (struct keyspace *keyspace = partition->flushed; keyspace != NULL; keyspace = keyspace->next_flushed)
            list_incarnation(sealing, keyspace->incarnation);
        partition_unlock(partition);
    }
}

static void go_to(struct sealing *sealing, uint32_t partition)
{
    sealing->partition = partition;
    sealing->from = partition_first_hash(&sealing->tier->partitions->partitions[partition]);
}

/* Some buckets; false at the end of the pass. */
static bool seal_buckets(struct sealing *sealing)
{
    struct partitions *all = sealing->tier->partitions;
    struct partition *partition = &all->partitions[sealing->partition];
    struct table_cursor cursor;
    uint64_t begins = sealing->from;
    bool more, whole;

    if (sealing->at == sealing->count)
        return false;
    partition_lock(partition);
    sealing->keyspace = tier_keyspace_of(partition, sealing->incarnations[sealing->at]);
    if (sealing->keyspace != NULL && sealing->from == partition_first_hash(partition))
        sealing->seen += sealing->keyspace->table.count;
    more = sealing->keyspace != NULL && table_seek(&sealing->keyspace->table, sealing->from, &cursor);
    for (int i = 0; more && i < BUCKETS_A_PIECE && sealing->piece_count < PIECE_ENOUGH; i++) {
        table_home_wanted(&sealing->keyspace->table, &cursor, must_write, collect, sealing);
        sealing->from = cursor.last_hash + 1;
        more = table_next(&sealing->keyspace->table, &cursor);
    }
    whole = put_piece(sealing, begins);
    partition_unlock(partition);
    if (!whole) {
        write_collected(sealing);       /* who waits for the lock gets it meanwhile */
        return true;
    }
    if (!more && sealing->partition + 1 < all->count) {
        go_to(sealing, sealing->partition + 1);
    } else if (!more) {
        sealing->at++;
        go_to(sealing, 0);
    }
    if (store_batch_size(sealing->batch->store) >= (size_t)sealing->tier->settings.batch_size ||
        sealing->unknowns.count >= UNKNOWNS_A_PIECE || sealing->big.count > 0)
        write_collected(sealing);
    return true;
}

/* Deletes that were pending at the cut; false when there are none left. */
static bool seal_graves(struct sealing *sealing)
{
    if (is_clean_pass(sealing) || sealing->graves_done)
        return false;
    sealing->graves_done = sweep_graves(sealing->tier, GRAVES_A_PIECE, sealing->batch, &sealing->next_grave) == 0;
    commit(sealing);
    if (!sealing->graves_done && --sealing->grave_pieces == 0)
        sealing->status = STATUS_IO;        /* some can't be looked up */
    return !sealing->graves_done;
}

static void begin_pass(struct sealing *sealing)
{
    sealing->pass++;
    sealing->found_before = sealing->found;
    sealing->seen = sealing->found = 0;
    sealing->handed = 0;
    list_incarnations(sealing);
    go_to(sealing, 0);
}

static bool is_handed_empty(struct tier *tier)
{
    bool empty;

    mutex_lock(&tier->handed_lock);
    empty = tier->handed_first == NULL;
    mutex_unlock(&tier->handed_lock);
    return empty;
}

static bool is_sealed(const struct sealing *sealing)
{
    if (!is_clean_pass(sealing))
        return sealing->found == 0 && sealing->handed == 0 && is_handed_empty(sealing->tier);
    return sealing->pass >= CLEAN_PASSES || sealing->found <= sealing->seen / CLEAN_ENOUGH_SHARE ||
           (sealing->pass > 1 && sealing->found > sealing->found_before / 2);
}

static void take_image(struct sealing *sealing)
{
    struct tier *tier = sealing->tier;
    struct image_request *request = sealing->request;
    char path[4096];

    if (mkdir(request->dir, 0755) != 0) {
        sealing->status = status_of_errno(errno);
        return;
    }
    snprintf(path, sizeof(path), "%s/store", request->dir);
    sealing->status = store_snapshot(tier->store, path, request->message);
    request->number = store_number(tier->store);
    if (sealing->status == STATUS_OK)
        sealing->status = tags_save(tier, request->dir);
}

static void finish(struct sealing *sealing)
{
    struct tier *tier = sealing->tier;

    if (sealing->batch != NULL && !sealing->batch->failed)
        batch_commit(tier, sealing->batch);     /* what was begun before the failure */
    if (!is_clean_pass(sealing)) {
        checkpoint_stop(tier);
        if (sealing->batch != NULL)
            checkpoint_end(tier, sealing->batch);
    }
    checkpoint_answer(tier, sealing->request, sealing->status);
    tier->sealing = NULL;
    unknowns_release(&sealing->unknowns);
    unknowns_release(&sealing->big);
    mem_free(sealing->incarnations);
    mem_free(sealing);
    tier->hooks.memory_freed(tier->hooks.context);      /* who waited for a held key finds it free */
}

static struct sealing *begin(struct tier *tier, struct batch *batch)
{
    struct sealing *sealing;
    struct image_request *request;

    mutex_lock(&tier->writer_lock);
    request = tier->image;
    mutex_unlock(&tier->writer_lock);
    if (request == NULL)
        return NULL;
    sealing = mem_zalloc(sizeof(*sealing));
    sealing->tier = tier;
    sealing->batch = batch;
    sealing->request = request;
    sealing->grave_pieces = tier->graves / GRAVES_A_PIECE * 4 + 1000;
    CHECK(is_clean_pass(sealing) || tier->checkpointing);
    if (is_clean_pass(sealing) && tier->checkpointing)
        sealing->status = STATUS_CLOSED;        /* older values are still to be written; those that are there now come after them */
    begin_pass(sealing);
    return sealing;
}

bool seal_step(struct tier *tier, struct batch *batch)
{
    struct sealing *sealing = tier->sealing;
    int64_t until_us = clock_mono_us() + STEP_US;
    bool more = true;

    if (sealing == NULL) {
        checkpoint_end(tier, batch);
        if (batch->failed)
            return false;
        sealing = tier->sealing = begin(tier, batch);
    }
    if (sealing == NULL)
        return false;
    commit(sealing);
    while (more && sealing->status == STATUS_OK && clock_mono_us() < until_us) {
        if (tier->image_cancelled)
            sealing->status = STATUS_CANCELLED;
        if (!is_clean_pass(sealing)) {
            sealing->handed += seal_handed(tier, batch, &sealing->status);
            write_hurried(sealing);
        }
        if (sealing->status == STATUS_OK)
            more = seal_graves(sealing) || seal_buckets(sealing);
    }
    write_collected(sealing);       /* the batch is empty between steps: one pending operation a key */
    if (!more) {
        if (sealing->status == STATUS_OK && !is_sealed(sealing)) {
            begin_pass(sealing);
            more = true;
        } else if (sealing->status == STATUS_OK) {
            tier->unsealed = false;
            if (!is_clean_pass(sealing))
                take_image(sealing);
        }
    }
    tier->hooks.memory_freed(tier->hooks.context);
    if (!more || sealing->status != STATUS_OK)
        finish(sealing);
    return true;
}

void seal_abort(struct tier *tier, enum status status)
{
    struct sealing *sealing = tier->sealing != NULL ? tier->sealing : begin(tier, NULL);

    if (sealing == NULL)
        return;
    tier->sealing = sealing;
    sealing->status = status;
    finish(sealing);
}

/* A value whose record was not known about: now it is, and there will be one. False: the store can't be read just now. */
static bool settle_unknown(struct tier *tier, struct handed *handed)
{
    struct buffer record = { 0 };
    enum status read = store_get(tier->store, handed->incarnation, handed->hash, handed->key, &record);
    struct keyspace *keyspace;
    uint32_t handle;

    buffer_release(&record);
    if (read != STATUS_OK && read != STATUS_NOT_FOUND && read != STATUS_CORRUPT)
        return false;
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
    return true;
}

static void give_back(struct tier *tier, struct handed *first)
{
    struct handed *last = first;

    while (last->next != NULL)
        last = last->next;
    mutex_lock(&tier->handed_lock);
    last->next = tier->handed_first;
    if (tier->handed_first == NULL)
        tier->handed_last = last;
    tier->handed_first = first;
    mutex_unlock(&tier->handed_lock);
}

size_t seal_handed(struct tier *tier, struct batch *batch, enum status *status)
{
    struct handed *handed;
    size_t count = 0;

    mutex_lock(&tier->handed_lock);
    handed = tier->handed_first;
    tier->handed_first = tier->handed_last = NULL;
    mutex_unlock(&tier->handed_lock);
    if (handed == NULL)
        return 0;
    while (handed != NULL && *status == STATUS_OK) {
        struct handed *next = handed->next;

        /* After a failure what is not known about may stay so, and be it because it can't be read. */
        if (!handed->unknown || tier->checkpointing == CHECKPOINT_SEALING) {
            if (handed->unknown && !settle_unknown(tier, handed)) {
                *status = STATUS_IO;
                break;
            }
            if (batch_put_handed(tier, batch, handed) == STATUS_TOO_LARGE && tier->checkpointing == CHECKPOINT_SEALING) {
                fail_too_large(tier->sealing, handed->key);
                *status = STATUS_TOO_LARGE;
            }
        }
        tier->handed_bytes -= handed_size(handed);
        buffer_release(&handed->record);
        mem_free(handed);
        handed = next;
        count++;
        if (*status == STATUS_OK && store_batch_size(batch->store) >= (size_t)tier->settings.batch_size)
            *status = batch_commit(tier, batch);
    }
    if (*status == STATUS_OK || !batch->failed) {
        enum status last = batch_commit(tier, batch);

        *status = *status == STATUS_OK ? last : *status;
    }
    if (handed != NULL)
        give_back(tier, handed);
    tier->hooks.memory_freed(tier->hooks.context);
    return count;
}
