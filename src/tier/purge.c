#include "tier/purge.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "tier/tier_private.h"

enum { INCARNATIONS_A_STEP = 64 };

struct purge {
    struct mutex lock;               /* leaf */
    uint32_t *numbers;                  /* lock. The set, ascending, is first .. end - 1 */
    size_t first, end, capacity;        /* lock */
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

size_t purge_count(struct purge *purge)
{
    size_t count;

    mutex_lock(&purge->lock);
    count = purge->end - purge->first;
    mutex_unlock(&purge->lock);
    return count;
}

/* --- deleting --- */

enum status purge_find(struct tier *tier)
{
    uint32_t incarnation = 0;
    enum status status;

    while ((status = store_incarnation(tier->store, incarnation + 1, &incarnation)) == STATUS_OK) {
        if (partitions_space_of(tier->partitions, incarnation) < 0)
            purge_add(tier->purge, incarnation);
    }
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

bool purge_step(struct tier *tier)
{
    for (int i = 0; i < INCARNATIONS_A_STEP; i++) {
        uint32_t next = set_lowest(tier->purge);

        if (next == 0)
            return false;
        store_purge(tier->store, next);
        set_remove(tier->purge, next);
    }
    return true;
}
