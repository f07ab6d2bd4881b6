#include "tier/collect.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "tier/reserve.h"
#include "tier/record.h"
#include "tier/stale.h"
#include "tier/tags.h"
#include "tier/tail.h"
#include "tier/tier_private.h"
#include "tier/writing.h"

enum {
    WRITE_SIZE = 512 << 10,         /* bytes that are moved by one write, and */
    LOOK_US = 3000,                 /* how long it looks for them */
    STEP_US = 20000,                /* of a step, if more than that was written since the last one: */
    KEEP_UP = 2,                    /* bytes moved for each byte that others have written, so that garbage does not grow without bound */
    PLACES_A_STEP = 200000,         /* of a flushed keyspace */
    LOOK_EVERY_MS = 50,             /* for segments to collect, settle or remove */
    RETRY_MS = 1000,                /* after one that could not be removed */
    HELD_PART = 10,                 /* of tier-max-size, or */
    HELD_MAX = 64 << 20,            /* bytes without a limit: what only the base image may have, for a store that is full to move more */
    ASK_EVERY_MS = 5000,            /* for a checkpoint; what moved meanwhile is then free, and more can be moved */
    ASK_EVERY_MS_HELD = 200,        /* the same, if demotion waits for it */
    DYING_MIN = 1 << 20,            /* bytes of a tail that is sealed when it has no live record; of any size in a store that is full, as */
    TARGET_WHEN_FULL = 95,          /* percent, in the place of tier-space-target when tier-max-size is reached */
};

/* A record that was written again. */
struct moved {
    struct partition *partition;
    uint32_t incarnation;
    uint64_t hash;
    uint64_t from, to;
    size_t key_at, key_size;        /* in `text` */
};

struct dropped {
    struct dropped *next;
    struct recordmap *map;
    struct recordmap_walk walk;
    bool is_begun;
};

struct collect {
    struct segment *victim;         /* NULL: none */
    bool sheds;                     /* it was taken to delete cold keys (tier/shed.h) */
    uint64_t shed_count;            /* keys of it that were deleted */
    struct segment_walk walk;
    bool is_damaged;                /* a record of the victim is damaged, first at: */
    uint64_t damaged_at;
    bool is_reported;               /* with the key whose record it is */
    bool is_unread;                 /* the rest of the victim could not be read */
    struct moved *moved;
    size_t count, capacity;
    struct buffer text;
    uint64_t seen_bytes;            /* written to segments at the end of the last step */
    int64_t look_at_ms;
    int64_t asked_ms;               /* for a checkpoint, the last time */
    _Atomic bool is_counted;        /* it is known what is live; before, everything is kept */

    struct mutex lock;              /* leaf */
    struct dropped *dropped;        /* lock */
    struct dropped *dropping;
};

struct collect *collect_create(struct segments *segments)
{
    struct collect *collect = mem_zalloc(sizeof(*collect));

    collect->is_counted = segments == NULL || segments_next(segments, NULL) == NULL;
    mutex_init(&collect->lock);
    return collect;
}

/* --- flushed keyspaces --- */

void collect_drop_map(struct tier *tier, struct recordmap *map)
{
    struct collect *collect = tier->collect;
    struct dropped *dropped;

    if (recordmap_count(map) == 0) {
        recordmap_destroy(map);
        return;
    }
    dropped = mem_zalloc(sizeof(*dropped));
    dropped->map = map;
    mutex_lock(&collect->lock);
    dropped->next = collect->dropped;
    collect->dropped = dropped;
    mutex_unlock(&collect->lock);
}

bool collect_is_idle(struct tier *tier)
{
    struct collect *collect = tier->collect;
    bool is_idle;

    mutex_lock(&collect->lock);
    is_idle = collect->dropped == NULL && collect->dropping == NULL && collect->count == 0;
    mutex_unlock(&collect->lock);
    return is_idle;
}

bool collect_is_exact(struct tier *tier)
{
    return tier->collect->is_counted && collect_is_idle(tier);
}

static struct dropped *take_dropped(struct collect *collect)
{
    struct dropped *dropped;

    mutex_lock(&collect->lock);
    dropped = collect->dropped;
    if (dropped != NULL)
        collect->dropped = dropped->next;
    mutex_unlock(&collect->lock);
    return dropped;
}

static void free_dropped(struct dropped *dropped)
{
    recordmap_destroy(dropped->map);
    mem_free(dropped);
}

/* Returns whether there is more. */
static bool bury_dropped(struct tier *tier)
{
    struct collect *collect = tier->collect;
    struct recordmap_record record;

    for (int i = 0; i < PLACES_A_STEP; i++) {
        struct dropped *dropped = collect->dropping;

        if (dropped == NULL) {
            dropped = collect->dropping = take_dropped(collect);
            if (dropped == NULL)
                return false;
            recordmap_walk_begin(&dropped->walk, dropped->map, 0);
        }
        if (!recordmap_walk_next(&dropped->walk, &record)) {
            free_dropped(dropped);
            collect->dropping = NULL;
            continue;
        }
        segments_dead(store_segments(tier->store), record.place);
    }
    return true;
}

/* --- what is live at the start --- */

/* By slot. Summed up here: the counters of segments are shared, and there may be 10^8 records. */
struct live {
    uint64_t *weights, *counts;
};

static void count_map(const struct live *live, const struct recordmap *map)
{
    struct recordmap_walk walk;
    struct recordmap_record record;

    recordmap_walk_begin(&walk, map, 0);
    while (recordmap_walk_next(&walk, &record)) {
        if (!place_is_in_segment(record.place))
            continue;
        live->weights[place_slot(record.place)] += place_weight(record.place);
        live->counts[place_slot(record.place)]++;
    }
}

static void count_maps(const struct live *live, struct partitions *partitions)
{
    for (uint32_t i = 0; i < partitions->count; i++) {
        struct partition *partition = &partitions->partitions[i];

        partition_lock(partition);
        for (int space = 0; space < partitions->space_count; space++) {
            if (partition->keyspaces[space] != NULL)
                count_map(live, partition->keyspaces[space]->tier->map);
        }
        partition_unlock(partition);
    }
}

/* Whether all segments of the list are there; if so, their weights are set. */
static bool take_weights(struct segments *segments, const struct tags_weights *weights)
{
    uint64_t *sequences = mem_zalloc(((size_t)1 << PLACE_SLOT_BITS) * sizeof(uint64_t));
    struct segment *segment = NULL;
    bool are_there = weights->is_known;

    while ((segment = segments_next(segments, segment)) != NULL)
        sequences[segment_slot(segment)] = segment_sequence(segment) + 1;
    for (uint32_t i = 0; i < weights->count && are_there; i++) {
        const struct tags_weight *weight = &weights->list[i];

        are_there = weight->slot >> PLACE_SLOT_BITS == 0 && sequences[weight->slot] == weight->sequence + 1;
        if (are_there)
            sequences[weight->slot] = 0;        /* once */
    }
    for (uint32_t i = 0; i < weights->count && are_there; i++)
        (void)segments_alive(segments, weights->list[i].slot, weights->list[i].weight);
    mem_free(sequences);
    return are_there;
}

static uint64_t count_live(struct tier *tier)
{
    size_t slot_count = (size_t)1 << PLACE_SLOT_BITS;
    struct live live = { mem_zalloc(slot_count * sizeof(uint64_t)), mem_zalloc(slot_count * sizeof(uint64_t)) };
    uint64_t lost = 0;

    count_maps(&live, tier->partitions);
    for (size_t slot = 0; slot < slot_count; slot++) {
        if (live.counts[slot] > 0 && !segments_alive(store_segments(tier->store), (uint32_t)slot, live.weights[slot]))
            lost += live.counts[slot];
    }
    mem_free(live.weights);
    mem_free(live.counts);
    return lost;
}

uint64_t collect_count_live(struct tier *tier, const struct tags_weights *weights)
{
    uint64_t lost = take_weights(store_segments(tier->store), weights) ? 0 : count_live(tier);

    tier->collect->is_counted = true;
    return lost;
}

/* --- moving --- */

static bool is_needed(struct tier *tier, const struct segment_record *record, uint64_t hash, uint64_t place, struct partition *partition)
{
    struct keyspace *keyspace;
    bool is_needed = false;

    partition_lock(partition);
    keyspace = tier_keyspace_of(partition, record->incarnation);
    if (keyspace != NULL && keyspace->tier != NULL && recordmap_has_place(keyspace->tier->map, hash, place)) {
        keyspace_assert_locked(keyspace);
        is_needed = !stale_give_up(tier, keyspace, hash, record->key, place);
    }
    partition_unlock(partition);
    return is_needed;
}

/* A record that can't be read is moved as it is. */
static unsigned tail_of_record(const struct segment_record *record)
{
    enum value_type type;
    int64_t gone_ms;

    return tail_of(record_peek(record->value, &gone_ms, &type) == STATUS_OK ? gone_ms : -1, true);
}

static void move_record(struct tier *tier, const struct segment_record *record, uint64_t place)
{
    struct collect *collect = tier->collect;
    uint64_t hash = name_hash(&tier->partitions->seed, record->incarnation, record->key);
    struct partition *partition = &tier->partitions->partitions[partition_index(tier->partitions, hash)];

    if (!is_needed(tier, record, hash, place, partition))
        return;
    if (collect->sheds && shed_record(tier, partition, record, hash, place, &tier->writing->batch)) {
        collect->shed_count++;
        return;
    }
    if (collect->count == collect->capacity) {
        collect->capacity = collect->capacity * 2 + 256;
        collect->moved = mem_realloc(collect->moved, collect->capacity * sizeof(struct moved));
    }
    collect->moved[collect->count++] = (struct moved){
        .partition = partition,
        .incarnation = record->incarnation,
        .hash = hash,
        .from = place,
        .to = segments_put(store_segments(tier->store), tail_of_record(record), record->incarnation, record->kind, record->key,
            record->value, record_dictionary(record->value)),
        .key_at = collect->text.size,
        .key_size = record->key.size,
    };
    buffer_append_bytes(&collect->text, record->key);
    statistics_add(&tier->statistics.collected_bytes, segment_record_size(record->incarnation, record->kind, record->key.size, record->value.size));
}

/* The records are at their new places. What was overwritten or deleted meanwhile is dead there, too. */
static void finish_moved(struct tier *tier)
{
    struct collect *collect = tier->collect;
    struct segments *segments = store_segments(tier->store);

    for (size_t i = 0; i < collect->count; i++) {
        struct moved *moved = &collect->moved[i];
        struct bytes key = bytes_of(collect->text.data + moved->key_at, moved->key_size);
        struct keyspace *keyspace;
        bool is_live = false;

        partition_lock(moved->partition);
        keyspace = tier_keyspace_of(moved->partition, moved->incarnation);
        if (keyspace != NULL && keyspace->tier != NULL)
            is_live = recordmap_has_place(keyspace->tier->map, moved->hash, moved->from);
        if (is_live)
            recordmap_move(keyspace->tier->map, moved->hash, key, moved->from, moved->to);
        partition_unlock(moved->partition);
        segments_dead(segments, is_live ? moved->from : moved->to);
    }
    collect->count = 0;
    collect->text.size = 0;
    buffer_shrink(&collect->text, 1 << 20);
}

/* Keys have records in what is damaged, but it does not say which ones. */
static void report_bytes(struct tier *tier)
{
    struct message text;

    message_set(&text, "Bytes of a segment are damaged (%08llu.seg, offset %llu): keys whose records were there can't be read",
        (unsigned long long)segment_sequence(tier->collect->victim), (unsigned long long)tier->collect->damaged_at);
    tier_note_message(tier, text.text);
    tier->hooks.log(tier->hooks.context, text.text);
}

/* Ends a victim. One with records that could not be read is tried again later: a suspect segment has to be emptied, or there is no image any more. */
static void end_victim(struct tier *tier)
{
    struct collect *collect = tier->collect;

    segment_walk_end(&collect->walk);
    if (collect->sheds)
        shed_note_segment(tier, collect->shed_count);
    if (collect->is_damaged && !collect->is_reported && !segment_is_dead(collect->victim))
        report_bytes(tier);
    if (collect->is_unread || (!segment_is_dead(collect->victim) && !collect->is_damaged))
        segment_put_off(collect->victim);
    else if (!segment_is_dead(collect->victim))
        segment_spare(collect->victim);
    collect->victim = NULL;
    collect->sheds = false;
    collect->is_damaged = collect->is_unread = collect->is_reported = false;
}

/* Notes damaged bytes. The first ones of a run may say whose record it is. */
static void note_damage(struct tier *tier)
{
    struct collect *collect = tier->collect;
    uint64_t offset;
    struct bytes data = segment_walk_damaged(&collect->walk, &offset);

    if (damage_note_bytes(tier, collect->victim, offset, data))
        collect->is_reported = true;
    if (!collect->is_damaged)
        collect->damaged_at = offset;
    collect->is_damaged = true;
}

/* Some records of the victim. Returns whether there are more. */
static bool move_some(struct tier *tier, enum status *status)
{
    struct collect *collect = tier->collect;
    struct segments *segments = store_segments(tier->store);
    int64_t until_us = clock_mono_us() + LOOK_US;
    enum status found = STATUS_OK;

    while (found != STATUS_NOT_FOUND && segments_pending(segments) < WRITE_SIZE && clock_mono_us() < until_us) {
        struct segment_record record;
        uint64_t place;

        found = segment_walk_next(&collect->walk, &place, &record);
        if (found == STATUS_OK)
            move_record(tier, &record, place);
        else if (found == STATUS_CORRUPT)
            note_damage(tier);
        else if (found != STATUS_NOT_FOUND)
            break;                  /* it can't be read now */
    }
    *status = segments_write(segments);
    if (*status != STATUS_OK)
        return true;                /* what is moved is finished by the next step */
    finish_moved(tier);
    writing_commit(tier);           /* the graves of what was deleted */
    if (found != STATUS_OK && found != STATUS_CORRUPT && found != STATUS_NOT_FOUND) {
        tier_note_error(tier, "a segment can't be read", found);
        collect->is_unread = true;
        found = STATUS_NOT_FOUND;
    }
    if (found == STATUS_NOT_FOUND)
        end_victim(tier);
    return true;
}

static uint64_t written_bytes(struct segments *segments)
{
    struct segments_stats stats;

    segments_measure(segments, &stats);
    return stats.written_bytes;
}

static bool is_too_early(struct collect *collect)
{
    int64_t now_ms = clock_mono_us() / 1000;

    if (now_ms < collect->look_at_ms)
        return true;
    collect->look_at_ms = now_ms + LOOK_EVERY_MS;
    return false;
}

/* Segments without live records. That one can't be removed does not keep others from being written. */
static bool remove_dead(struct tier *tier, struct segments *segments)
{
    enum status status = segments_tidy(segments);

    if (status == STATUS_OK)
        return true;
    tier_note_error(tier, "a segment can't be removed", status);
    tier->collect->look_at_ms += RETRY_MS;
    return false;
}

/* A page cache of half the size of the RAM for keys does not fit beside that. */
static bool is_cramped(const struct tier *tier)
{
    uint64_t limit = (uint64_t)tier->settings.memory_max;

    return tier->machine_memory < limit + limit / 2;
}

static void look_after(struct tier *tier, struct segments *segments)
{
    enum status status;

    if (tier->state == TIER_FULL)
        segments_seal_dying(segments, TARGET_WHEN_FULL, 0);
    else
        segments_seal_dying(segments, 0, DYING_MIN);
    status = segments_write(segments);
    if (status != STATUS_OK)
        tier_note_error(tier, "a segment can't be written", status);
    (void)remove_dead(tier, segments);
    segments_prefer_direct(segments, access_for_writes(&tier->access, is_cramped(tier)) == SEGMENT_DIRECT);
    status = segments_settle(segments);
    if (status != STATUS_OK)
        tier_note_error(tier, "a segment can't be synced", status);
}

void collect_note_image(struct tier *tier)
{
    tier->size.linked_at_image = usage_linked(tier);
}

void collect_note_base(struct tier *tier)
{
    tier->size.linked_at_base = tier->size.linked_at_image;
}

/* False: there is no log, so none will be made. */
static bool ask_for_checkpoint(struct tier *tier)
{
    struct collect *collect = tier->collect;
    int64_t now_ms = clock_mono_us() / 1000;

    if (now_ms < collect->asked_ms + (shed_holds_demotion(tier) ? ASK_EVERY_MS_HELD : ASK_EVERY_MS) || !tier_image_has_room(tier))
        return true;
    if (tier->hooks.wants_checkpoint == NULL || !tier->hooks.wants_checkpoint(tier->hooks.context))
        return false;
    collect->asked_ms = now_ms;
    return true;
}

bool collect_awaits_checkpoint(struct tier *tier)
{
    return tier->writing->disk_is_full && usage_linked(tier) > tier->size.linked_at_base && ask_for_checkpoint(tier);
}

/* Moving takes room first, and gives it back only when no image has the old segment: until then there has to be room for the next checkpoint. */
static bool has_room_to_move(struct tier *tier, const struct segment *victim)
{
    bool is_kept = tier->writing->disk_is_full && segment_sequence(victim) < damage_base(&tier->damage);
    int64_t room = is_kept ? tier_image_spare(tier) : (int64_t)reserve_free_bytes(tier->dir);

    return room / 2 > (int64_t)segment_live_bytes(victim);
}

/* Files that the base image has are free with the next one. False: without a log images of dumps had them, which are removed when these end. */
static bool ask_to_free_held(struct tier *tier)
{
    if (ask_for_checkpoint(tier))
        return true;
    tier->size.linked_at_base = usage_linked(tier);
    return false;
}

/* The store is full. */
static bool may_move(struct tier *tier, const struct segment *victim)
{
    uint64_t held = usage_held(tier), limit = (uint64_t)tier->settings.store_size_max;

    if (victim != NULL && segment_is_suspect(victim))
        return true;
    if (held > (limit > 0 ? limit / HELD_PART : HELD_MAX) || (victim == NULL && held > 0)) {
        if (ask_to_free_held(tier))
            return false;
    }
    return victim != NULL && has_room_to_move(tier, victim);
}

/* On a full disk those segments come first that the last checkpoint has not: only these make room at once. */
static struct segment *find_victim(struct tier *tier)
{
    struct segments *segments = store_segments(tier->store);
    unsigned target = tier->state == TIER_FULL ? TARGET_WHEN_FULL : (unsigned)tier->settings.space_target;
    struct segment *victim = NULL;

    if (target < SHED_LIVE_TARGET && tier->settings.full_policy == TIER_FULL_VOLATILE_TTL && shed_is_due(tier))
        target = SHED_LIVE_TARGET;
    if (tier->writing->disk_is_full)
        victim = segments_victim(segments, target, damage_base(&tier->damage));
    if (victim == NULL || !has_room_to_move(tier, victim))
        victim = segments_victim(segments, target, 0);
    return victim;
}

/* Garbage is collected first. */
static struct segment *find_to_shed(struct tier *tier)
{
    struct segment *victim = shed_takes_segments(tier) ? segments_oldest(store_segments(tier->store)) : NULL;

    tier->collect->sheds = victim != NULL;
    return victim;
}

/* Beside segments only the base image may have tables of the index: when demotion waits for room, a checkpoint is worth it for any of them. */
static void free_held_if_due(struct tier *tier)
{
    uint64_t held = usage_held(tier), enough = shed_holds_demotion(tier) ? 0 : (uint64_t)tier->settings.store_size_max / HELD_PART;

    if (held > enough && shed_needs_room(tier))
        (void)ask_to_free_held(tier);
}

/* False: nothing has to be collected, or may be. */
static bool take_victim(struct tier *tier)
{
    struct collect *collect = tier->collect;
    struct segments *segments = store_segments(tier->store);
    struct segment *victim = find_victim(tier);

    free_held_if_due(tier);
    if (tier->state == TIER_FULL && !may_move(tier, victim))
        victim = NULL;
    if (victim == NULL)
        victim = find_to_shed(tier);
    collect->victim = victim;
    collect->shed_count = 0;
    if (victim != NULL)
        segment_walk_begin(segments, victim, &collect->walk);
    return victim != NULL;
}

/* In the same step, as segments may be small; not after one that can't be emptied or removed: that waits for the next look. */
static bool take_next_victim(struct tier *tier)
{
    struct collect *collect = tier->collect;

    return clock_mono_us() / 1000 + LOOK_EVERY_MS >= collect->look_at_ms && remove_dead(tier, store_segments(tier->store)) && take_victim(tier);
}

/* Moves as much as keeps up with what was written since the last step, within a time; at least once. */
static bool move_enough(struct tier *tier, enum status *status)
{
    struct collect *collect = tier->collect;
    struct segments *segments = store_segments(tier->store);
    uint64_t began_bytes = written_bytes(segments), enough = (began_bytes - collect->seen_bytes) * KEEP_UP;
    int64_t until_us = clock_mono_us() + STEP_US;
    bool more;

    do {
        more = move_some(tier, status);
        if (*status != STATUS_OK || tier->writing->batch.failed || clock_mono_us() >= until_us || written_bytes(segments) - began_bytes >= enough)
            break;
    } while (collect->victim != NULL || take_next_victim(tier));
    collect->seen_bytes = written_bytes(segments);
    return more;
}

bool collect_is_due(const struct tier *tier)
{
    const struct collect *collect = tier->collect;

    return collect->is_counted && (collect->victim != NULL || clock_mono_us() / 1000 >= collect->look_at_ms);
}

bool collect_step(struct tier *tier, enum status *status)
{
    struct collect *collect = tier->collect;
    struct segments *segments = store_segments(tier->store);

    *status = STATUS_OK;
    if (collect->count > 0) {       /* what an earlier step could not write */
        *status = segments_write(segments);
        if (*status != STATUS_OK)
            return false;
        finish_moved(tier);
    }
    if (bury_dropped(tier))
        return true;
    if (collect->victim != NULL)
        return move_enough(tier, status);
    if (!collect->is_counted || is_too_early(collect))
        return false;
    look_after(tier, segments);
    if (!take_victim(tier))
        collect->seen_bytes = written_bytes(segments);
    return collect->victim != NULL;
}

void collect_remove(struct tier *tier)
{
    struct collect *collect = tier->collect;

    (void)bury_dropped(tier);
    if (!collect->is_counted || is_too_early(collect))
        return;
    if (collect->victim != NULL && segment_is_dead(collect->victim))
        end_victim(tier);           /* it is about to be freed */
    (void)remove_dead(tier, store_segments(tier->store));
}

void collect_destroy(struct tier *tier)
{
    struct collect *collect = tier->collect;

    if (collect->victim != NULL)
        segment_walk_end(&collect->walk);
    if (collect->dropping != NULL)
        free_dropped(collect->dropping);
    while (collect->dropped != NULL)
        free_dropped(take_dropped(collect));
    buffer_release(&collect->text);
    mutex_release(&collect->lock);
    mem_free(collect->moved);
    mem_free(collect);
}
