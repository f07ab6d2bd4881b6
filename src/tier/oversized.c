#include "tier/oversized.h"

#include <stdio.h>

#include "tier/tier_private.h"

enum { SAMPLES = 5, SLACK_SHARE = 8, KEY_SHOWN_MAX = 40 };

size_t oversized_limit(const struct tier *tier)
{
    int64_t limit = tier->settings.record_size_max;

    return limit > 0 ? (size_t)limit : STORE_RECORD_SIZE_MAX;
}

size_t oversized_value_size(const struct entry *entry)
{
    struct value value = entry_value(entry);

    return entry_key(entry).size + value_memory(&value, SAMPLES) + 1;
}

static struct oversized_key *find_known(const struct oversized *oversized, uint32_t incarnation, uint64_t hash)
{
    for (uint32_t i = 0; i < oversized->count; i++) {
        struct oversized_key *known = (struct oversized_key *)&oversized->keys[i];

        if (known->incarnation == incarnation && known->hash == hash)
            return known;
    }
    return NULL;
}

bool oversized_is(const struct tier *tier, const struct keyspace *keyspace, uint64_t hash, const struct entry *entry,
    enum oversized_care care)
{
    const struct oversized_key *known = NULL;
    double limit = (double)oversized_limit(tier), record_size;

    ASSERT_LOCKED(keyspace->partition);
    if (entry_key(entry).size > oversized_limit(tier))
        return true;
    if (tier->oversized.count > 0)
        known = find_known(&tier->oversized, keyspace->incarnation, hash);
    if (known == NULL)
        return false;
    record_size = (double)known->record_size * ((double)oversized_value_size(entry) / (double)known->value_size);
    return record_size > (care == OVERSIZED_SURELY ? limit + limit / SLACK_SHARE : limit);
}

void oversized_note(struct tier *tier, uint32_t incarnation, uint64_t hash, struct bytes key, size_t value_size, size_t record_size)
{
    struct oversized *oversized = &tier->oversized;
    struct oversized_key *known = find_known(oversized, incarnation, hash);
    char text[OVERSIZED_TEXT_SIZE];

    if (known == NULL) {
        if (oversized->count < OVERSIZED_KEYS_MAX)
            known = &oversized->keys[oversized->count++];
        else
            known = &oversized->keys[oversized->next++ % OVERSIZED_KEYS_MAX];
        oversized_text(tier, key, text);
        tier_note_message(tier, text);
        tier->hooks.log(tier->hooks.context, text);
    }
    *known = (struct oversized_key){ incarnation, hash, value_size, record_size };
}

void oversized_forget(struct tier *tier, uint32_t incarnation, uint64_t hash)
{
    struct oversized *oversized = &tier->oversized;
    struct oversized_key *known = find_known(oversized, incarnation, hash);

    if (known != NULL)
        *known = oversized->keys[--oversized->count];
}

void oversized_text(const struct tier *tier, struct bytes key, char text[OVERSIZED_TEXT_SIZE])
{
    char name[KEY_SHOWN_MAX * 4 + 4];
    size_t size = 0;

    for (size_t i = 0; i < key.size && i < KEY_SHOWN_MAX; i++) {
        unsigned char byte = (unsigned char)key.data[i];

        if (byte < ' ' || byte >= 0x7f || byte == '\'' || byte == '\\')
            size += (size_t)snprintf(name + size, sizeof(name) - size, "\\x%02x", byte);
        else
            name[size++] = (char)byte;
    }
    snprintf(name + size, sizeof(name) - size, "%s", key.size > KEY_SHOWN_MAX ? "..." : "");
    snprintf(text, OVERSIZED_TEXT_SIZE, "key '%s' has a record larger than the store takes (%zu bytes)", name, oversized_limit(tier));
}
