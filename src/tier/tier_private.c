#include "tier/tier_private.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "keyspace/heat.h"

struct keyspace *tier_living_keyspace(struct partition *partition, uint32_t incarnation)
{
    int first = incarnation_is_of_pages(incarnation) ? partitions_page_space(partition->all, 0) : 0;

    ASSERT_LOCKED(partition);
    for (int db = 0; db < partition->all->db_count; db++) {
        struct keyspace *keyspace = partition->keyspaces[first + db];

        if (keyspace != NULL && keyspace->incarnation == incarnation)
            return keyspace;
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
    tier->statistics.last_error_us = clock_mono_us();
    mutex_unlock(&tier->statistics.error_lock);
}

uint64_t tier_record_size(struct tier *tier)
{
    uint64_t count = tier->statistics.record_count;

    return count > 0 ? tier->statistics.record_bytes / count : 0;
}

/* Idle for at least as long, whenever in its minute it was used. */
static int64_t idle_s(const struct entry *entry)
{
    int64_t now_ms = clock_wall_ms(), idle = (int64_t)heat_idle(entry->heat_minutes, heat_minutes(now_ms)) * 60 + now_ms / 1000 % 60 - 60;

    return idle > 0 ? idle : 0;
}

enum key_rules_verdict tier_judge(const struct key_rules *rules, const struct keyspace *keyspace, const struct entry *entry)
{
    ASSERT_LOCKED(keyspace->partition);
    if (incarnation_is_of_pages(keyspace->incarnation))
        return KEY_RULES_BY_USES;
    return key_rules_judge(rules, keyspace->db, entry_key(entry), idle_s(entry));
}

bool tier_keeps(struct tier *tier, const struct keyspace *keyspace, const struct entry *entry)
{
    const struct key_rules *rules = rulebook_hold_if_any(&tier->rules);
    bool keeps = rules != NULL && tier_judge(rules, keyspace, entry) == KEY_RULES_KEEP;

    key_rules_release(rules);
    return keeps;
}
