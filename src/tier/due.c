#include "tier/due.h"

#include <stdlib.h>

#include "base/mem.h"
#include "tier/tier_private.h"

enum { DUE_MAX = 10000 };

void due_note_put(struct tier *tier, int64_t expire_ms)
{
    if (expire_ms < tier->expiry.settled_ms)
        tier->expiry.settled_ms = expire_ms;
    outdated_note(&tier->outdated, 1);
    outdated_note_time(&tier->outdated, expire_ms);
}

static void add_due(void *context, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key)
{
    struct due *due = context;

    (void)expire_ms;
    (void)incarnation;
    (void)key;
    if (due->count == due->capacity) {
        due->capacity = due->capacity * 2 + 64;
        due->hashes = mem_realloc(due->hashes, due->capacity * sizeof(due->hashes[0]));
    }
    due->hashes[due->count++] = hash;
}

static int by_hash(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

void due_find(struct tier *tier, int64_t now_ms, struct due *due)
{
    struct buffer from = { 0 };
    enum status status;

    *due = (struct due){ 0 };
    if (tier->expiry.settled_ms > now_ms)
        return;                     /* the index would step over what was deleted since */
    store_expiry_seek(&from, tier->expiry.settled_ms);
    status = store_expired(tier->store, &from, now_ms, DUE_MAX, add_due, due);
    due->is_partial = due->count == DUE_MAX || (status != STATUS_OK && status != STATUS_NOT_FOUND);
    if (due->count > 0)
        qsort(due->hashes, due->count, sizeof(due->hashes[0]), by_hash);
    buffer_release(&from);
}

void due_release(struct due *due)
{
    mem_free(due->hashes);
    *due = (struct due){ 0 };
}

bool due_may_have(const struct due *due, uint64_t hash)
{
    return due->is_partial ||
           (due->count > 0 && bsearch(&hash, due->hashes, due->count, sizeof(due->hashes[0]), by_hash) != NULL);
}
