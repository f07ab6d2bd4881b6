/* The table of a partition: the keys that clients may have a copy of, each with its trackers. Chained buckets; the array doubles when there
 * are more keys than buckets, and halves when there are few. */
#include "engine/tracking_private.h"

#include <string.h>

#include "base/mem.h"

enum { CAPACITY_MIN = 16 };

struct tracked_key *tracked_create(struct bytes key)
{
    struct tracked_key *tracked = mem_alloc(sizeof(*tracked) + key.size);

    *tracked = (struct tracked_key){ .room = 1, .size = (uint32_t)key.size };
    if (key.size > 0)
        memcpy(tracked->key, key.data, key.size);
    return tracked;
}

void tracker_release(struct tracker *tracker)
{
    if (atomic_fetch_sub_explicit(&tracker->holders, 1, memory_order_acq_rel) == 1)
        mem_free(tracker);
}

void tracked_free(struct tracked_key *tracked)
{
    for (uint32_t i = 0; i < tracked->count; i++)
        tracker_release(tracked_tracker(tracked, i));
    if (tracked->room > 1)
        mem_free(tracked->many);
    mem_free(tracked);
}

static struct tracked_key **bucket_of(const struct tracking_table *table, uint64_t hash)
{
    return &table->buckets[hash & (table->capacity - 1)];
}

static void resize(struct tracking_table *table, uint32_t capacity)
{
    struct tracking_table old = *table;

    table->capacity = capacity;
    table->buckets = mem_zalloc(capacity * sizeof(struct tracked_key *));
    for (uint32_t i = 0; i < old.capacity; i++) {
        struct tracked_key *next;

        for (struct tracked_key *tracked = old.buckets[i]; tracked != NULL; tracked = next) {
            struct tracked_key **bucket = bucket_of(table, tracked->hash);

            next = tracked->next;
            tracked->next = *bucket;
            *bucket = tracked;
        }
    }
    mem_free(old.buckets);
}

/* The link that refers to the key, or that ends its bucket. The table has buckets. */
static struct tracked_key **find_link(const struct tracking_table *table, uint64_t hash, struct bytes key)
{
    struct tracked_key **link = bucket_of(table, hash);

    while (*link != NULL && ((*link)->hash != hash || !bytes_equal(tracked_name(*link), key)))
        link = &(*link)->next;
    return link;
}

/* The place of the tracker among those of the key, or where it belongs. */
static uint32_t place_of(const struct tracked_key *tracked, const struct tracker *tracker)
{
    uint32_t low = 0, high = tracked->count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if ((uintptr_t)tracked_tracker(tracked, middle) < (uintptr_t)tracker)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct tracker **trackers_of(struct tracked_key *tracked)
{
    return tracked->room == 1 ? &tracked->one : tracked->many;
}

/* Returns their number. */
static uint32_t remove_gone(struct tracked_key *tracked)
{
    struct tracker **trackers = trackers_of(tracked);
    uint32_t kept = 0, count = tracked->count;

    for (uint32_t i = 0; i < count; i++) {
        if (tracker_is_gone(trackers[i]))
            tracker_release(trackers[i]);
        else
            trackers[kept++] = trackers[i];
    }
    tracked->count = kept;
    return count - kept;
}

static void grow_clients(struct tracked_key *tracked)
{
    uint32_t room = tracked->room == 1 ? 4 : tracked->room * 2;
    struct tracker **many = mem_alloc(room * sizeof(struct tracker *));

    memcpy(many, trackers_of(tracked), tracked->count * sizeof(struct tracker *));
    if (tracked->room > 1)
        mem_free(tracked->many);
    tracked->many = many;
    tracked->room = room;
}

/* Returns how many more there are. */
static int64_t add_tracker(struct tracked_key *tracked, struct tracker *tracker)
{
    uint32_t place = place_of(tracked, tracker), removed = 0;
    struct tracker **trackers;

    if (place < tracked->count && tracked_tracker(tracked, place) == tracker)
        return 0;
    if (tracked->count == tracked->room) {
        removed = remove_gone(tracked);
        if (tracked->count > tracked->room / 2)
            grow_clients(tracked);
        place = place_of(tracked, tracker);
    }
    trackers = trackers_of(tracked);
    memmove(trackers + place + 1, trackers + place, (tracked->count - place) * sizeof(*trackers));
    trackers[place] = tracker_hold(tracker);
    tracked->count++;
    return 1 - (int64_t)removed;
}

struct tracking_change tracking_table_add(struct tracking_table *table, uint64_t hash, struct bytes key, struct tracker *tracker)
{
    struct tracking_change change = { 0 };
    struct tracked_key **link;

    if (table->count == table->capacity)
        resize(table, table->capacity == 0 ? CAPACITY_MIN : table->capacity * 2);
    link = find_link(table, hash, key);
    if (*link == NULL) {
        *link = tracked_create(key);
        (*link)->hash = hash;
        table->count++;
        change.keys = 1;
    }
    change.bytes = change.keys != 0 ? tracked_bytes(*link) : 0;
    change.items = add_tracker(*link, tracker);
    change.bytes += change.items * (int64_t)sizeof(tracker);
    return change;
}

static struct tracked_key *unlink_key(struct tracking_table *table, struct tracked_key **link)
{
    struct tracked_key *tracked = *link;

    *link = tracked->next;
    tracked->next = NULL;
    table->count--;
    if (table->capacity > CAPACITY_MIN && table->count < table->capacity / 8)
        resize(table, table->capacity / 2);
    return tracked;
}

struct tracked_key *tracking_table_take(struct tracking_table *table, uint64_t hash, struct bytes key)
{
    struct tracked_key **link;

    if (table->count == 0)
        return NULL;
    link = find_link(table, hash, key);
    return *link == NULL ? NULL : unlink_key(table, link);
}

struct tracked_key *tracking_table_take_any(struct tracking_table *table, struct random *random)
{
    uint32_t at;

    if (table->count == 0)
        return NULL;
    at = (uint32_t)random_below(random, table->capacity);
    while (table->buckets[at] == NULL)
        at = (at + 1) & (table->capacity - 1);
    return unlink_key(table, &table->buckets[at]);
}

struct tracking_change tracking_table_clear(struct tracking_table *table)
{
    struct tracking_change change = { 0 };

    for (uint32_t i = 0; i < table->capacity; i++) {
        struct tracked_key *next;

        for (struct tracked_key *tracked = table->buckets[i]; tracked != NULL; tracked = next) {
            next = tracked->next;
            change.keys--;
            change.items -= tracked->count;
            change.bytes -= tracked_bytes(tracked);
            tracked_free(tracked);
        }
    }
    mem_free(table->buckets);
    *table = (struct tracking_table){ 0 };
    return change;
}
