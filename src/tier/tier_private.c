#include "tier/tier_private.h"

#include <stdio.h>

#include "base/mutex.h"

struct keyspace *tier_living_keyspace(struct partition *partition, uint32_t incarnation)
{
    ASSERT_LOCKED(partition);
    for (int db = 0; db < partition->all->db_count; db++) {
        if (partition->keyspaces[db] != NULL && partition->keyspaces[db]->incarnation == incarnation)
            return partition->keyspaces[db];
    }
    return NULL;
}

struct keyspace *tier_keyspace_of(struct partition *partition, uint32_t incarnation)
{
    struct keyspace *living = tier_living_keyspace(partition, incarnation);

    if (living != NULL)
        return living;
    for (struct keyspace *keyspace = partition->flushed; keyspace != NULL; keyspace = keyspace->next_flushed) {
        if (keyspace->incarnation == incarnation)
            return keyspace;
    }
    return NULL;
}

void tier_note_error(struct tier *tier, const char *what, enum status status)
{
    char text[sizeof(tier->statistics.last_error)];

    snprintf(text, sizeof(text), "%s: %s", what, status_name(status));
    tier_note_message(tier, text);
}

void tier_note_message(struct tier *tier, const char *text)
{
    statistics_count(&tier->statistics.errors);
    mutex_lock(&tier->statistics.error_lock);
    snprintf(tier->statistics.last_error, sizeof(tier->statistics.last_error), "%s", text);
    mutex_unlock(&tier->statistics.error_lock);
}

uint64_t tier_record_size(struct tier *tier)
{
    uint64_t count = tier->statistics.record_count;

    return count > 0 ? tier->statistics.record_bytes / count : 0;
}
