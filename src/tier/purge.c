#include "tier/purge.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "tier/tier_private.h"

enum { RECORDS_A_STEP = 20000, INCARNATIONS_A_STEP = 64 };

#define SLICE_SIZE (64ull << 20)
#define EXPIRY_SIZE_MIN (8ull << 20)    /* of deleted expiry keys: a flush leaves nothing next to them that would have LevelDB compact them */
#define RANGE_SIZE_MAX (4ull << 30)     /* of what is deleted before room is given back */

struct purge {
    struct mutex lock;               /* leaf */
    uint32_t *numbers;                  /* lock. The set, ascending, is first .. end - 1 */
    size_t first, end, capacity;        /* lock */

    uint32_t current;                   /* these are the writer's. Being deleted, still in the set; 0: none */
    struct store_span span;             /* deleted since the last range was begun */
    struct store_span expiry;           /* of deleted expiry keys */
    struct store_span range;            /* being compacted */
    uint64_t slice_next, slice_count;   /* of the range; equal: it is finished */
    struct store_span slice;            /* the thread's while it has started */
    enum status slice_status;           /* the thread's until `slice_is_done` */
    struct thread thread;
    _Atomic bool slice_is_done;
    _Atomic uint64_t slices_begun;
};

struct purge *purge_create(void)
{
    struct purge *purge = mem_zalloc(sizeof(*purge));

    mutex_init(&purge->lock);
    return purge;
}

void purge_destroy(struct purge *purge)
{
    if (purge == NULL)
        return;
    CHECK(!purge->thread.has_started);
    mutex_release(&purge->lock);
    mem_free(purge->numbers);
    mem_free(purge);
}

/* --- the set --- */

/* Where the number is, or would be. */
static size_t place_of(const struct purge *purge, uint32_t incarnation)
{
    size_t low = purge->first, high = purge->end;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (purge->numbers[middle] < incarnation)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const struct purge *purge, size_t place, uint32_t incarnation)
{
    return place < purge->end && purge->numbers[place] == incarnation;
}

/* Numbers are removed at the front: that space is used again before more memory is allocated. */
static void make_room(struct purge *purge)
{
    if (purge->end < purge->capacity)
        return;
    if (purge->first < purge->capacity / 2 + 1) {
        purge->capacity = purge->capacity * 2 + 8;
        purge->numbers = mem_realloc(purge->numbers, purge->capacity * sizeof(uint32_t));
        return;
    }
    memmove(purge->numbers, purge->numbers + purge->first, (purge->end - purge->first) * sizeof(uint32_t));
    purge->end -= purge->first;
    purge->first = 0;
}

void purge_add(struct purge *purge, uint32_t incarnation)
{
    size_t place;

    mutex_lock(&purge->lock);
    if (!is_at(purge, place_of(purge, incarnation), incarnation)) {
        make_room(purge);
        place = place_of(purge, incarnation);       /* nearly always the end: later lives have higher numbers */
        memmove(purge->numbers + place + 1, purge->numbers + place, (purge->end - place) * sizeof(uint32_t));
        purge->numbers[place] = incarnation;
        purge->end++;
    }
    mutex_unlock(&purge->lock);
}

static void set_remove(struct purge *purge, uint32_t incarnation)
{
    size_t place;

    mutex_lock(&purge->lock);
    place = place_of(purge, incarnation);
    CHECK(is_at(purge, place, incarnation));
    if (place == purge->first) {
        purge->first++;
    } else {
        memmove(purge->numbers + place, purge->numbers + place + 1, (purge->end - place - 1) * sizeof(uint32_t));
        purge->end--;
    }
    mutex_unlock(&purge->lock);
}

static uint32_t set_lowest(struct purge *purge)
{
    uint32_t lowest;

    mutex_lock(&purge->lock);
    lowest = purge->first < purge->end ? purge->numbers[purge->first] : 0;
    mutex_unlock(&purge->lock);
    return lowest;
}

bool purge_has(struct purge *purge, uint32_t incarnation)
{
    bool has;

    mutex_lock(&purge->lock);
    has = is_at(purge, place_of(purge, incarnation), incarnation);
    mutex_unlock(&purge->lock);
    return has;
}

uint64_t purge_slices(const struct purge *purge) { return purge->slices_begun; }

size_t purge_count(struct purge *purge)
{
    size_t count;

    mutex_lock(&purge->lock);
    count = purge->end - purge->first;
    mutex_unlock(&purge->lock);
    return count;
}

/* --- deleting --- */

/* Whether a database has an incarnation between the two. */
static bool is_any_live(const struct partitions *partitions, uint32_t low, uint32_t high)
{
    bool live = false;

    for (int db = 0; db < partitions->db_count; db++)
        live = live || (partitions->incarnations[db] >= low && partitions->incarnations[db] <= high);
    return live;
}

enum status purge_find(struct tier *tier)
{
    uint32_t incarnation = 0;
    enum status status;

    while ((status = store_incarnation(tier->store, incarnation + 1, &incarnation)) == STATUS_OK) {
        if (!is_any_live(tier->partitions, incarnation, incarnation))
            purge_add(tier->purge, incarnation);
    }
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

/* Live records between deleted ones must not be rewritten only to give back the room of those: a new range begins. */
static void begin_incarnation(struct tier *tier, uint32_t incarnation)
{
    struct purge *purge = tier->purge;
    struct store_span *span = &purge->span;

    purge->current = incarnation;
    if (span->size > 0 && (is_any_live(tier->partitions, span->last_incarnation, incarnation) ||
                           is_any_live(tier->partitions, incarnation, span->first_incarnation)))
        *span = (struct store_span){ 0 };
}

/* Returns whether there is more to delete. */
static bool delete_some(struct tier *tier, enum status *status)
{
    struct purge *purge = tier->purge;

    for (int i = 0; i < INCARNATIONS_A_STEP; i++) {
        bool done = false;

        if (purge->current == 0) {
            uint32_t next = set_lowest(purge);

            if (next == 0)
                return false;
            begin_incarnation(tier, next);
        }
        *status = store_purge(tier->store, purge->current, RECORDS_A_STEP, &purge->span, &done);
        if (*status != STATUS_OK)
            return false;
        if (!done)
            return true;
        set_remove(purge, purge->current);
        purge->current = 0;
    }
    return true;
}

/* --- giving room back --- */

static void compact_main(void *context)
{
    struct tier *tier = context;
    struct purge *purge = tier->purge;

    purge->slice_status = store_compact_span(tier->store, &purge->slice);
    purge->slice_is_done = true;
    tier_nudge(tier);
}

/* The place of a slice's beginning: incarnation and hash as one number. */
static unsigned __int128 place_of_slice(const struct purge *purge, uint64_t slice)
{
    const struct store_span *range = &purge->range;
    unsigned __int128 first = (unsigned __int128)range->first_incarnation << 64 | range->first_hash;
    unsigned __int128 last = (unsigned __int128)range->last_incarnation << 64 | range->last_hash;

    return slice < purge->slice_count ? first + (last - first) / purge->slice_count * slice : last;
}

/* Without a thread it is tried again at the next step. */
static void begin_slice(struct tier *tier)
{
    struct purge *purge = tier->purge;
    unsigned __int128 first = place_of_slice(purge, purge->slice_next), last = place_of_slice(purge, purge->slice_next + 1);

    purge->slice = (struct store_span){
        .first_incarnation = (uint32_t)(first >> 64),
        .last_incarnation = (uint32_t)(last >> 64),
        .first_hash = (uint64_t)first,
        .last_hash = (uint64_t)last,
    };
    purge->slice_is_done = false;
    if (thread_start(&purge->thread, "kelvin-purge", tier->hooks.meter, compact_main, tier) != 0)
        return;
    purge->slice_next++;
    purge->slices_begun++;
}

void purge_note_expiry(struct purge *purge, const struct store_span *span)
{
    struct store_span *expiry = &purge->expiry;

    if (expiry->size == 0) {
        *expiry = *span;
        return;
    }
    expiry->first_hash = span->first_hash < expiry->first_hash ? span->first_hash : expiry->first_hash;
    expiry->last_hash = span->last_hash > expiry->last_hash ? span->last_hash : expiry->last_hash;
    expiry->size += span->size;
}

/* Makes what was deleted the range to be compacted, if it is much and there is no other. */
static void begin_range(struct purge *purge, bool more)
{
    bool is_expiry = purge->expiry.size >= EXPIRY_SIZE_MIN;
    struct store_span *span = is_expiry ? &purge->expiry : &purge->span;

    if (purge->slice_next < purge->slice_count || (!is_expiry && span->size < (more ? RANGE_SIZE_MAX : SLICE_SIZE)))
        return;
    purge->range = *span;
    purge->slice_next = 0;
    purge->slice_count = span->size / SLICE_SIZE + (span->size < SLICE_SIZE);
    *span = (struct store_span){ 0 };
}

bool purge_step(struct tier *tier, enum status *status)
{
    struct purge *purge = tier->purge;
    bool more;

    *status = STATUS_OK;
    if (purge->thread.has_started && purge->slice_is_done) {
        thread_join(&purge->thread);
        if (!store_is_writable(tier->store))        /* else it was reopened after the failure */
            *status = purge->slice_status;
    }
    if (*status != STATUS_OK)
        return false;
    more = delete_some(tier, status);
    if (*status != STATUS_OK || purge->thread.has_started)
        return more;
    begin_range(purge, more);
    if (purge->slice_next < purge->slice_count)
        begin_slice(tier);
    return more;
}

void purge_stop(struct tier *tier)
{
    thread_join(&tier->purge->thread);
}
