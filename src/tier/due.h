/* Due: which cold keys may have expired and are still in the store, because the writer has yet to delete them (tier/expiry.h). The index has
 * no times of its own, so SCAN asks here before it shows a cold key. */
#ifndef KELVIN_TIER_DUE_H
#define KELVIN_TIER_DUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tier;

/* An expiry key of this time is put into the batch. The writer. */
void due_note_put(struct tier *tier, int64_t expire_ms);

/* Owner: the caller. All zero: nothing is due. */
struct due {
    uint64_t *hashes;               /* ascending */
    size_t count, capacity;
    bool is_partial;                /* there are more: any key may be due */
};

/* Finds them, as of `now_ms`. Reads the store. */
void due_find(struct tier *tier, int64_t now_ms, struct due *due);
void due_release(struct due *due);
/* Whether the key may have expired; the record says. */
bool due_may_have(const struct due *due, uint64_t hash);

#endif
