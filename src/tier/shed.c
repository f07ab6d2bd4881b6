#include "tier/shed.h"

#include "base/clock.h"
#include "tier/expiry.h"
#include "tier/grave.h"
#include "tier/key_list.h"
#include "tier/record.h"
#include "tier/tier_private.h"
#include "tier/usage.h"

enum {
    BEGIN_PERCENT = 85,             /* of tier-max-size: removed files that a checkpoint has may take a tenth more */
    URGENT_PERCENT = 97,            /* uses do not count */
    PAUSE_US = 2000000,             /* after nothing could be deleted */
    HOLD_US_MAX = 10000000,
    KEYS_A_STEP = 1000,
};

void shed_release(struct shed *shed)
{
    buffer_release(&shed->from);
}

/* Bytes on the disk that deleting can still make less, in percent of tier-max-size, which CONFIG SET may change at any time; 0 without it. */
static uint64_t filled_percent(struct tier *tier)
{
    int64_t limit = tier->settings.store_size_max;

    return limit > 0 ? (uint64_t)((double)usage_own(tier) * 100 / (double)limit) : 0;
}

/* Replicas delete what their primaries do. */
static bool is_allowed(struct tier *tier)
{
    return tier->settings.full_policy != TIER_FULL_NOEVICTION && tier->settings.store_size_max > 0 && tier->expire_cold &&
           clock_mono_us() >= tier->shed.again_us;
}

bool shed_is_due(struct tier *tier)
{
    return is_allowed(tier) && tier->epoch.phase == CHECKPOINT_NONE && tier->state != TIER_ERROR && filled_percent(tier) >= BEGIN_PERCENT;
}

bool shed_needs_room(struct tier *tier)
{
    return is_allowed(tier) && usage_now(tier) / BEGIN_PERCENT >= (uint64_t)tier->settings.store_size_max / 100;
}

bool shed_takes_segments(struct tier *tier)
{
    return tier->settings.full_policy != TIER_FULL_VOLATILE_TTL && shed_is_due(tier);
}

void shed_note_size(struct tier *tier)
{
    bool is_over = tier->settings.store_size_max > 0 && usage_now(tier) > (uint64_t)tier->settings.store_size_max;

    if (!is_over)
        tier->shed.over_us = 0;
    else if (tier->shed.over_us == 0)
        tier->shed.over_us = clock_mono_us();
}

bool shed_holds_demotion(struct tier *tier)
{
    return is_allowed(tier) && tier->shed.over_us != 0 && clock_mono_us() - tier->shed.over_us < HOLD_US_MAX;
}

static void pause_shedding(struct tier *tier)
{
    tier->shed.fruitless = 0;
    tier->shed.again_us = clock_mono_us() + PAUSE_US;
}

/* Deletes a cold key. Its partition is locked. */
static void delete_cold(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key, const struct paged_extent *pages, struct batch *batch)
{
    ASSERT_LOCKED(keyspace->partition);
    tier->hooks.expired(tier->hooks.context, keyspace, hash, key, EVENT_EVICTED);
    grave_removed(tier, keyspace, hash, key, RECORD_CLEAN);
    tier_drop_value(tier, keyspace, pages);
    batch_bury(batch, keyspace, grave_find(keyspace, hash, key));
    statistics_count(&tier->statistics.evicted_cold);
}

/* Whether keys with or without an expiry may be deleted at this moment. With a partition locked, so that none of its keys is deleted any more when CONFIG SET
 * has returned, or this is a replica. */
static bool may_delete(struct tier *tier, bool has_expiry)
{
    int64_t policy = tier->settings.full_policy;

    return tier->expire_cold && policy != TIER_FULL_NOEVICTION && (has_expiry || policy == TIER_FULL_ALLKEYS_COLDEST) &&
           filled_percent(tier) >= BEGIN_PERCENT;
}

/* Whether a key, which has a record, is cold, and no thread has anything to do with it. */
static bool is_at_rest(struct tier *tier, const struct partition *partition, const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    const struct key_rules *rules;
    bool is_kept;

    keyspace_assert_locked(keyspace);
    if (incarnation_is_of_pages(keyspace->incarnation))
        return false;               /* a value goes as a whole */
    if (partition->owner != NULL || keyspace_find(keyspace, hash, key) != 0 || grave_find(keyspace, hash, key) != NULL ||
        load_find(keyspace, hash, key) != NULL)
        return false;
    if (tier->hooks.is_received != NULL && tier->hooks.is_received(tier->hooks.context, hash))
        return false;
    rules = rulebook_hold_if_any(&tier->rules);
    is_kept = rules != NULL && key_rules_judge(rules, keyspace->db, key, 0) == KEY_RULES_KEEP;
    key_rules_release(rules);
    return !is_kept;
}

/* A key has one more turn for each use after its first. */
static bool has_another_turn(struct tier *tier, struct keyspace *keyspace, uint64_t hash)
{
    unsigned uses = filled_percent(tier) < URGENT_PERCENT ? ghost_take(&keyspace->tier->ghost, hash) : 0;

    if (uses > 1)
        ghost_note(&keyspace->tier->ghost, hash, uses - 1, keyspace->table.count);
    return uses > 1;
}

bool shed_record(struct tier *tier, struct partition *partition, const struct segment_record *record, uint64_t hash, uint64_t place,
    struct batch *batch)
{
    struct paged_extent pages = { 0 };
    struct keyspace *keyspace;
    enum value_type type;
    int64_t gone_ms = -1;
    bool is_deleted = false;

    if (tier->epoch.phase != CHECKPOINT_NONE || record_peek(record->value, &gone_ms, &type) != STATUS_OK)
        return false;               /* it belongs to the image, or can't be read */
    partition_lock(partition);
    keyspace = tier_living_keyspace(partition, record->incarnation);
    if (keyspace != NULL && may_delete(tier, gone_ms >= 0) && recordmap_has_place(keyspace->tier->map, hash, place) &&
        is_at_rest(tier, partition, keyspace, hash, record->key) && !has_another_turn(tier, keyspace, hash)) {
        (void)record_peek_pages(record->value, &pages, NULL);
        delete_cold(tier, keyspace, hash, record->key, &pages, batch);
        is_deleted = true;
    }
    partition_unlock(partition);
    return is_deleted;
}

void shed_note_segment(struct tier *tier, uint64_t deleted)
{
    struct segments_stats stats;

    if (deleted > 0) {
        tier->shed.fruitless = 0;
        return;
    }
    segments_measure(store_segments(tier->store), &stats);
    if (++tier->shed.fruitless >= stats.count)
        pause_shedding(tier);
}

/* --- the keys that expire next --- */

static bool delete_soonest(void *context, struct partition *partition, struct keyspace *keyspace, const struct listed_key *listed, struct bytes key, struct batch *batch)
{
    struct tier *tier = context;

    keyspace_assert_locked(keyspace);
    if (!may_delete(tier, true) || !is_at_rest(tier, partition, keyspace, listed->hash, key))
        return false;
    delete_cold(tier, keyspace, listed->hash, key, &listed->pages, batch);
    tier->shed.has_deleted = true;
    return true;
}

/* Returns whether live records fill it, and not garbage that will be collected. */
static bool is_full_of_live(struct tier *tier)
{
    struct segments_stats stats;
    uint64_t garbage;

    segments_measure(store_segments(tier->store), &stats);
    garbage = stats.bytes > stats.live_bytes ? stats.bytes - stats.live_bytes : 0;
    return filled_percent(tier) >= BEGIN_PERCENT * SHED_LIVE_TARGET / 100 + (uint64_t)((double)garbage * 100 / (double)tier->settings.store_size_max);
}

/* Keys that expire sooner come in all the time: from the beginning again after each step that has deleted some. */
bool shed_soonest(struct tier *tier, struct batch *batch)
{
    struct shed *shed = &tier->shed;
    bool more;

    if (tier->settings.full_policy != TIER_FULL_VOLATILE_TTL || !shed_is_due(tier) || !is_full_of_live(tier))
        return false;
    shed->has_deleted = false;
    more = expiry_visit(tier, &shed->from, KEYS_A_STEP, batch, delete_soonest, tier);
    if (more && !shed->has_deleted)
        return true;
    buffer_release(&shed->from);
    if (!shed->has_deleted)
        pause_shedding(tier);
    return shed->has_deleted;
}
