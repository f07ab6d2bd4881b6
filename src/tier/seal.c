#include "tier/seal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/message.h"
#include "tier/batch.h"
#include "tier/collect.h"
#include "tier/epoch.h"
#include "tier/grave.h"
#include "tier/handover.h"
#include "tier/keyspaces.h"
#include "tier/oversized.h"
#include "tier/request.h"
#include "tier/resolve.h"
#include "tier/sweep.h"
#include "tier/tags.h"
#include "tier/tier_private.h"
#include "tier/writing.h"

enum {
    STEP_SIZE = 16 * 1024,          /* of a batch, which may make a step take longer than PAUSE_STEP_US */
    BUCKETS_A_PIECE = 16,           /* looked at under one lock */
    PIECE_ENOUGH = 64,              /* entries encoded under one lock */
    PIECE_MAX = PIECE_ENOUGH + 256 * TABLE_BUCKET_SLOTS,     /* entries that belong to one bucket are in one leaf */
    GRAVES_A_PIECE = 4096,
    UNKNOWNS_A_PIECE = 1000,
};

struct found {
    uint64_t hash;
    uint32_t handle;
};

struct sealing {
    struct tier *tier;
    struct batch *batch;
    struct image_request *request;
    struct key_list unknown, big;
    enum status status;
    uint64_t found_count;                 /* entries that had to be written in this pass */
    size_t handed_count;                  /* written in this pass */
    uint32_t next_grave;
    uint64_t grave_pieces;          /* that may be needed; if it takes more, some graves can't be buried */
    bool graves_done;
    /* Where the pass is: the store's order, incarnation, then hash. */
    uint32_t *incarnations;
    size_t incarnation_count, incarnation_index, incarnation_capacity;
    uint32_t partition;
    uint64_t from;                  /* hash */
    /* The piece in hand, under its partition's lock. */
    struct keyspace *keyspace;
    struct found piece[PIECE_MAX];
    size_t piece_count;
};

static bool is_batch_full(const struct sealing *sealing)
{
    size_t size = store_batch_size(sealing->batch->store);

    return size >= STEP_SIZE || size >= (size_t)sealing->tier->settings.batch_size;
}

static bool is_clean_pass(const struct sealing *sealing)
{
    return sealing->request->dir == NULL;
}

static bool commit_batch(struct sealing *sealing)
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

    if (is_clean_pass(sealing)) {
        epoch_leave_cut(keyspace, entry);       /* of a checkpoint that failed */
        return entry_record(entry) != RECORD_CLEAN && !(entry->flags & (ENTRY_WRITING | ENTRY_PINNED));
    }
    if (!entry_is_as_of_cut(keyspace, entry))
        return false;
    if (entry_record(entry) != RECORD_CLEAN)
        return true;
    epoch_leave_cut(keyspace, entry);
    return false;
}

static void collect_entry(void *context, uint64_t hash, uint32_t handle)
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
    size_t before = batch_work(sealing->batch), i;
    bool whole;

    if (sealing->piece_count == 0)
        return true;
    keyspace_assert_locked(keyspace);
    qsort(sealing->piece, sealing->piece_count, sizeof(sealing->piece[0]), compare_found);
    for (i = 0; i < sealing->piece_count && batch_work(sealing->batch) - before < BATCH_HOLD_ENOUGH; i++) {
        struct entry *entry = keyspace_entry(keyspace, sealing->piece[i].handle);
        uint64_t hash = sealing->piece[i].hash;

        /* An entry of a bucket that was begun has been looked at, and was changed again. It is left to the next pass; otherwise clients
         * that are quick enough could keep the pass in one place. */
        if (hash < begins && is_clean_pass(sealing))
            continue;
        if (entry_record(entry) == RECORD_UNKNOWN)
            key_list_add(&sealing->unknown, keyspace, hash, entry_key(entry));
        else if (entry_is_big(entry))
            key_list_add(&sealing->big, keyspace, hash, entry_key(entry));
        else
            batch_put(sealing->tier, sealing->batch, keyspace, hash, sealing->piece[i].handle, BATCH_CLEAN, NULL);
    }
    whole = i == sealing->piece_count;
    if (!whole)
        sealing->from = sealing->piece[i].hash;
    sealing->found_count += i;
    sealing->piece_count = 0;
    return whole;
}

/* There is no image without the key that `text` names. */
static void fail_too_large(struct sealing *sealing, const char *text)
{
    tier_note_message(sealing->tier, text);
    message_set(sealing->request->message, "%s", text);
    sealing->status = STATUS_TOO_LARGE;
}

/* Big values, one by one, each in a batch of its own. */
static void write_big(struct sealing *sealing, struct key_list *big)
{
    if (big->count > 0)
        commit_batch(sealing);
    for (size_t i = 0; i < big->count && sealing->status == STATUS_OK; i++) {
        const struct listed_key *listed = &big->keys[i];
        struct bytes key = key_list_key(big, i);
        char text[OVERSIZED_TEXT_SIZE];

        if (batch_put_big(sealing->tier, sealing->batch, listed->partition, listed->incarnation, listed->hash, key, BATCH_CLEAN, NULL) ==
            STATUS_TOO_LARGE) {
            oversized_text(sealing->tier, key, text);
            fail_too_large(sealing, text);
        }
        commit_batch(sealing);
    }
    key_list_clear(big);
}

/* Writes what a piece collected: reads for those whose record is unknown (they are written in the next pass), and the batch. */
static void write_collected(struct sealing *sealing)
{
    if (resolve_entries(sealing->tier, &sealing->tier->look_ups, &sealing->unknown, NULL, NULL) != STATUS_OK)
        sealing->status = STATUS_IO;
    write_big(sealing, &sealing->big);
    commit_batch(sealing);
}

/* Writes the keys that clients wait for. */
static void write_urgent(struct sealing *sealing)
{
    struct tier *tier = sealing->tier;
    struct key_list *urgent = requests_take_urgent(tier);

    if (urgent == NULL)
        return;
    for (size_t i = 0; i < urgent->count; i++) {       /* unknown ones have to be looked up before they can be written */
        struct listed_key *listed = &urgent->keys[i];
        struct bytes key = key_list_key(urgent, i);
        struct keyspace *keyspace;
        uint32_t handle = 0;

        partition_lock(listed->partition);
        keyspace = tier_keyspace_of(listed->partition, listed->incarnation);
        if (keyspace != NULL)
            handle = keyspace_find(keyspace, listed->hash, key);
        if (handle != 0 && entry_record(keyspace_entry(keyspace, handle)) == RECORD_UNKNOWN)
            key_list_add(&sealing->unknown, keyspace, listed->hash, key);
        partition_unlock(listed->partition);
    }
    if (resolve_entries(tier, &tier->look_ups, &sealing->unknown, NULL, NULL) != STATUS_OK)
        sealing->status = STATUS_IO;
    write_big(sealing, urgent);
    key_list_release(urgent);
    mem_free(urgent);
}

static void list_incarnation(struct sealing *sealing, uint32_t incarnation)
{
    for (size_t i = 0; i < sealing->incarnation_count; i++) {
        if (sealing->incarnations[i] == incarnation)
            return;
    }
    if (sealing->incarnation_count == sealing->incarnation_capacity) {
        sealing->incarnation_capacity = sealing->incarnation_capacity * 2 + 16;
        sealing->incarnations = mem_realloc(sealing->incarnations, sealing->incarnation_capacity * sizeof(uint32_t));
    }
    sealing->incarnations[sealing->incarnation_count++] = incarnation;
}

/* Lists the incarnations of all databases that have keys, and of those that were flushed since the cut. Later ones have no keys as of the cut. */
static void list_incarnations(struct sealing *sealing)
{
    struct partitions *all = sealing->tier->partitions;

    sealing->incarnation_count = sealing->incarnation_index = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        struct partition *partition = &all->partitions[i];

        partition_lock(partition);
        for (int space = 0; space < all->space_count; space++) {
            if (partition->keyspaces[space] != NULL)
                list_incarnation(sealing, partition->keyspaces[space]->incarnation);
        }
        for (struct keyspace *keyspace = partition->flushed; keyspace != NULL; keyspace = keyspace->next_flushed)
            list_incarnation(sealing, keyspace->incarnation);
        partition_unlock(partition);
    }
}

static void go_to_partition(struct sealing *sealing, uint32_t partition)
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

    if (sealing->incarnation_index == sealing->incarnation_count)
        return false;
    partition_lock(partition);
    sealing->keyspace = tier_keyspace_of(partition, sealing->incarnations[sealing->incarnation_index]);
    more = sealing->keyspace != NULL && table_seek(&sealing->keyspace->table, sealing->from, &cursor);
    for (int i = 0; more && i < BUCKETS_A_PIECE && sealing->piece_count < PIECE_ENOUGH; i++) {
        table_home_wanted(&sealing->keyspace->table, &cursor, must_write, collect_entry, sealing);
        sealing->from = cursor.last_hash + 1;
        more = table_next(&sealing->keyspace->table, &cursor);
    }
    whole = put_piece(sealing, begins);
    partition_unlock(partition);
    if (!whole) {
        write_collected(sealing);       /* threads that wait for the lock get it meanwhile */
        return true;
    }
    if (!more && sealing->partition + 1 < all->count) {
        go_to_partition(sealing, sealing->partition + 1);
    } else if (!more) {
        sealing->incarnation_index++;
        go_to_partition(sealing, 0);
    }
    if (is_batch_full(sealing) || sealing->unknown.count >= UNKNOWNS_A_PIECE || sealing->big.count > 0)
        write_collected(sealing);
    return true;
}

/* Deletes that were pending at the cut; false when there are none left. */
static bool seal_graves(struct sealing *sealing)
{
    if (is_clean_pass(sealing) || sealing->graves_done)
        return false;
    sealing->graves_done = sweep_graves(sealing->tier, GRAVES_A_PIECE, sealing->batch, &sealing->next_grave) == 0;
    commit_batch(sealing);
    if (!sealing->graves_done && --sealing->grave_pieces == 0)
        sealing->status = STATUS_IO;        /* some can't be looked up */
    return !sealing->graves_done;
}

static void begin_pass(struct sealing *sealing)
{
    sealing->found_count = 0;
    sealing->handed_count = 0;
    list_incarnations(sealing);
    go_to_partition(sealing, 0);
}

static bool is_sealed(const struct sealing *sealing)
{
    return is_clean_pass(sealing) || (sealing->found_count == 0 && sealing->handed_count == 0 && handover_is_empty(sealing->tier));
}

/* A clean pass while keys are demoted: what it writes has changed or is cold before it ends, and after the cut demotion writes what the image
 * needs, and nothing else. Not after a cut that was not sealed. */
static bool is_needless(const struct sealing *sealing)
{
    return is_clean_pass(sealing) && tier_is_demoting(sealing->tier) && !sealing->tier->epoch.is_unsealed;
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
    collect_note_image(tier);
    tier->damage.image_sequence = segments_next_sequence(store_segments(tier->store));
    if (sealing->status == STATUS_OK)
        sealing->status = tags_save(tier, request->dir);
}

static void give_graves_back(struct tier *tier)
{
    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];

        partition_lock(partition);
        for (int space = 0; space < tier->partitions->space_count; space++) {
            struct keyspace *keyspace = partition_keyspace_if(partition, space);

            if (keyspace == NULL)
                continue;
            keyspace_assert_locked(keyspace);
            graves_give_back(tier, keyspace);
        }
        partition_unlock(partition);
    }
}

void seal_stop(struct tier *tier)
{
    CHECK(tier->epoch.phase == CHECKPOINT_SEALING);
    epoch_set_phase(tier, CHECKPOINT_ENDING);
}

void seal_end(struct tier *tier, struct batch *batch)
{
    char problem[OVERSIZED_TEXT_SIZE];          /* not now: what is too large is written as an empty record */
    enum status status = STATUS_OK;

    if (tier->epoch.phase != CHECKPOINT_ENDING || batch->failed)
        return;
    CHECK(batch->count == 0);
    /* A value that was handed over has its tag already, and must not come after a younger value: all of it is written now. */
    while (status == STATUS_OK && handover_write(tier, batch, &status, problem) > 0)
        ;
    if (status != STATUS_OK)
        return;                     /* the store is in error: again when it is back */
    epoch_set_phase(tier, CHECKPOINT_NONE);
    if (tier->epoch.is_unsealed)
        give_graves_back(tier);     /* before anything else is put into a batch */
    keyspaces_release_flushed(tier);
}

static void finish_sealing(struct sealing *sealing)
{
    struct tier *tier = sealing->tier;

    if (sealing->batch != NULL && !sealing->batch->failed)
        (void)batch_commit(tier, sealing->batch);       /* what was begun before the failure */
    if (!is_clean_pass(sealing)) {
        seal_stop(tier);
        if (sealing->batch != NULL)
            seal_end(tier, sealing->batch);
    }
    /* Before the image ends: the next one may be asked for as soon as it has, and the store is said to be well. */
    if (tier->state != TIER_ERROR && (!store_is_writable(tier->store) || (sealing->batch != NULL && sealing->batch->failed)))
        writing_fail(tier, sealing->status == STATUS_NO_SPACE ? STATUS_NO_SPACE : STATUS_IO);
    requests_complete_image(tier, sealing->request, sealing->status);
    tier->sealing = NULL;
    key_list_release(&sealing->unknown);
    key_list_release(&sealing->big);
    mem_free(sealing->incarnations);
    mem_free(sealing);
    tier->hooks.memory_freed(tier->hooks.context);      /* clients that waited for a held key may change it */
}

static struct sealing *begin_sealing(struct tier *tier, struct batch *batch)
{
    struct sealing *sealing;
    struct image_request *request = requests_image(tier);

    if (request == NULL)
        return NULL;
    sealing = mem_zalloc(sizeof(*sealing));
    sealing->tier = tier;
    sealing->batch = batch;
    sealing->request = request;
    sealing->grave_pieces = tier->statistics.graves / GRAVES_A_PIECE * 4 + 1000;
    CHECK(is_clean_pass(sealing) || tier->epoch.phase != CHECKPOINT_NONE);
    if (is_clean_pass(sealing) && tier->epoch.phase != CHECKPOINT_NONE)
        sealing->status = STATUS_CLOSED;        /* values that were handed over are to be written before the present ones */
    begin_pass(sealing);
    return sealing;
}

bool seal_step(struct tier *tier, struct batch *batch, int64_t step_us)
{
    struct sealing *sealing = tier->sealing;
    int64_t until_us = clock_mono_us() + step_us;
    char problem[OVERSIZED_TEXT_SIZE];
    bool more = true;

    if (sealing == NULL) {
        seal_end(tier, batch);
        if (batch->failed)
            return false;
        sealing = tier->sealing = begin_sealing(tier, batch);
    }
    if (sealing == NULL)
        return false;
    commit_batch(sealing);
    while (more && sealing->status == STATUS_OK && clock_mono_us() < until_us) {
        if (tier->image_cancelled)
            sealing->status = STATUS_CANCELLED;
        if (!is_clean_pass(sealing)) {
            sealing->handed_count += handover_write(tier, batch, &sealing->status, problem);
            if (sealing->status == STATUS_TOO_LARGE)
                fail_too_large(sealing, problem);
            write_urgent(sealing);
        }
        if (sealing->status == STATUS_OK)
            more = seal_graves(sealing) || seal_buckets(sealing);
    }
    write_collected(sealing);       /* the batch is empty between steps: one pending operation a key */
    if (is_needless(sealing))
        more = false;
    if (!more) {
        if (sealing->status == STATUS_OK && !is_sealed(sealing)) {
            begin_pass(sealing);
            more = true;
        } else if (sealing->status == STATUS_OK) {
            tier->epoch.is_unsealed = false;
            if (!is_clean_pass(sealing))
                take_image(sealing);
        }
    }
    tier->hooks.memory_freed(tier->hooks.context);
    if (!more || sealing->status != STATUS_OK)
        finish_sealing(sealing);
    return true;
}

void seal_abort(struct tier *tier, enum status status)
{
    struct sealing *sealing = tier->sealing != NULL ? tier->sealing : begin_sealing(tier, NULL);

    if (sealing == NULL)
        return;
    tier->sealing = sealing;
    sealing->status = status;
    finish_sealing(sealing);
}
