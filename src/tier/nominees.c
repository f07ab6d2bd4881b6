#include "tier/nominees.h"

#include "base/mem.h"
#include "tier/grave.h"
#include "tier/load.h"
#include "tier/tier_private.h"

void nominees_add(void *context, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key)
{
    struct nominees *nominees = context;

    if (nominees->count == nominees->capacity) {
        nominees->capacity = nominees->capacity * 2 + 64;
        nominees->list = mem_realloc(nominees->list, nominees->capacity * sizeof(struct nominee));
    }
    nominees->list[nominees->count++] = (struct nominee){ expire_ms, incarnation, hash, nominees->text.size, key.size };
    buffer_append_bytes(&nominees->text, key);
}

void nominees_release(struct nominees *nominees)
{
    mem_free(nominees->list);
    buffer_release(&nominees->text);
}

struct bytes nominees_key(const struct nominees *nominees, size_t index)
{
    const struct nominee *nominee = &nominees->list[index];

    return bytes_of(nominees->text.data + nominee->key_at, nominee->key_size);
}

/* A clean entry may be demoted as it is: the expiry key with its time is still needed. The record of one that is not clean will be overwritten,
 * with another expiry key, or deleted. */
static enum verdict judge_hot(const struct entry *entry, int64_t expire_ms)
{
    int64_t death_ms = entry_death_ms(entry);

    if (entry->flags & ENTRY_WRITING)
        return VERDICT_KEEP;
    if (entry_record(entry) != RECORD_CLEAN || death_ms < 0)
        return VERDICT_OUTDATED;
    return death_ms == expire_ms ? VERDICT_KEEP : VERDICT_OUTDATED;
}

enum verdict nominee_judge(struct keyspace *keyspace, const struct nominee *nominee, struct bytes key)
{
    uint32_t handle;

    if (keyspace == NULL)
        return VERDICT_OUTDATED;
    ASSERT_LOCKED(keyspace->partition);
    handle = keyspace_find(keyspace, nominee->hash, key);
    if (handle != 0)
        return judge_hot(keyspace_entry(keyspace, handle), nominee->expire_ms);
    if (grave_find(keyspace, nominee->hash, key) != NULL || !recordmap_maybe(keyspace->tier->map, nominee->hash))
        return VERDICT_OUTDATED;
    return load_find(keyspace, nominee->hash, key) != NULL ? VERDICT_KEEP : VERDICT_READ;
}
