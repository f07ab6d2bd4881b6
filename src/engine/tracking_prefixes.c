/* The broadcasting mode: which trackers get the changed keys that begin with which prefix. */
#include "engine/tracking_private.h"

#include <string.h>

#include "base/mem.h"

void tracking_prefixes_init(struct tracking_prefixes *all)
{
    *all = (struct tracking_prefixes){ .count = 0 };
    mutex_init(&all->lock);
}

static void release_prefix(struct tracking_prefix *prefix)
{
    for (size_t i = 0; i < prefix->count; i++)
        tracker_release(prefix->trackers[i]);
    mem_free(prefix->trackers);
    mem_free((char *)prefix->name.data);
}

void tracking_prefixes_release(struct tracking_prefixes *all)
{
    for (size_t i = 0; i < all->count; i++)
        release_prefix(&all->prefixes[i]);
    mem_free(all->prefixes);
    mutex_release(&all->lock);
}

/* Where the name is, or belongs. */
static size_t place_of(const struct tracking_prefixes *all, struct bytes name)
{
    size_t low = 0, high = all->count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (bytes_compare(all->prefixes[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct tracking_prefix *insert_prefix(struct tracking_prefixes *all, size_t place, struct bytes name)
{
    struct tracking_prefix *prefix;

    if (all->count == all->room) {
        all->room = all->room == 0 ? 4 : all->room * 2;
        all->prefixes = mem_realloc(all->prefixes, all->room * sizeof(*all->prefixes));
    }
    prefix = &all->prefixes[place];
    memmove(prefix + 1, prefix, (all->count - place) * sizeof(*prefix));
    *prefix = (struct tracking_prefix){ .name = bytes_of(mem_string(name), name.size) };
    all->count++;
    return prefix;
}

static void add_tracker(struct tracking_prefix *prefix, struct tracker *tracker)
{
    for (size_t i = 0; i < prefix->count; i++) {
        if (prefix->trackers[i] == tracker)
            return;
    }
    if (prefix->count == prefix->room) {
        prefix->room = prefix->room == 0 ? 1 : prefix->room * 2;
        prefix->trackers = mem_realloc(prefix->trackers, prefix->room * sizeof(struct tracker *));
    }
    prefix->trackers[prefix->count++] = tracker_hold(tracker);
}

void tracking_prefixes_add(struct tracking_prefixes *all, struct tracker *tracker, struct bytes name)
{
    size_t place;

    mutex_lock(&all->lock);
    place = place_of(all, name);
    if (place < all->count && bytes_equal(all->prefixes[place].name, name))
        add_tracker(&all->prefixes[place], tracker);
    else
        add_tracker(insert_prefix(all, place, name), tracker);
    mutex_unlock(&all->lock);
}

static void remove_tracker(struct tracking_prefixes *all, size_t place, struct tracker *tracker)
{
    struct tracking_prefix *prefix = &all->prefixes[place];
    size_t kept = 0;

    for (size_t i = 0; i < prefix->count; i++) {
        if (prefix->trackers[i] == tracker)
            tracker_release(tracker);
        else
            prefix->trackers[kept++] = prefix->trackers[i];
    }
    prefix->count = kept;
    if (kept > 0)
        return;
    release_prefix(prefix);
    all->count--;
    memmove(prefix, prefix + 1, (all->count - place) * sizeof(*prefix));
}

void tracking_prefixes_remove(struct tracking_prefixes *all, struct tracker *tracker)
{
    mutex_lock(&all->lock);
    for (int i = 0; i < tracker->prefix_count; i++) {
        size_t place = place_of(all, tracker->prefixes[i]);

        if (place < all->count && bytes_equal(all->prefixes[place].name, tracker->prefixes[i]))
            remove_tracker(all, place, tracker);
    }
    mutex_unlock(&all->lock);
}

static bool has_prefix(struct bytes key, struct bytes prefix)
{
    return key.size >= prefix.size && memcmp(key.data, prefix.data, prefix.size) == 0;
}

/* The first key that is not below the prefix: those that begin with it follow. */
static size_t first_not_below(struct tracked_key *const *keys, size_t key_count, struct bytes prefix)
{
    size_t low = 0, high = key_count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (bytes_compare(tracked_name(keys[middle]), prefix) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void tracking_prefixes_match(struct tracking_prefixes *all, struct tracked_key *const *keys, size_t key_count, tracking_prefix_found *found,
    void *context)
{
    mutex_lock(&all->lock);
    for (size_t i = 0; i < all->count; i++) {
        const struct tracking_prefix *prefix = &all->prefixes[i];
        size_t first = first_not_below(keys, key_count, prefix->name), last = first;

        while (last < key_count && has_prefix(tracked_name(keys[last]), prefix->name))
            last++;
        if (last > first)
            found(context, prefix, keys + first, last - first);
    }
    mutex_unlock(&all->lock);
}
