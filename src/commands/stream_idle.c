#include "commands/stream_idle.h"

#include <stdlib.h>

#include "base/check.h"
#include "commands/stream_id.h"
#include "commands/stream_log.h"
#include "commands/stream_range.h"
#include "value/stream.h"

/* By time, then by ID. */
static int compare_idle(const void *a, const void *b)
{
    const struct stream_idle_entry *x = a, *y = b;

    if (x->delivered_ms != y->delivered_ms)
        return x->delivered_ms < y->delivered_ms ? -1 : 1;
    return stream_id_compare(x->id, y->id);
}

/* The entries are a heap with the one that comes last at its root, so that it is the one to give up for a better one. */
static void sift_down(struct stream_idle_entry *entries, size_t count, struct stream_idle_entry entry)
{
    size_t at = 0, child;

    while ((child = at * 2 + 1) < count) {
        if (child + 1 < count && compare_idle(&entries[child], &entries[child + 1]) < 0)
            child++;
        if (compare_idle(&entries[child], &entry) <= 0)
            break;
        entries[at] = entries[child];
        at = child;
    }
    entries[at] = entry;
}

static void sift_up(struct stream_idle_entry *entries, size_t at, struct stream_idle_entry entry)
{
    for (; at > 0 && compare_idle(&entries[(at - 1) / 2], &entry) < 0; at = (at - 1) / 2)
        entries[at] = entries[(at - 1) / 2];
    entries[at] = entry;
}

/* Collects the first `room` in the order of the reply. Notes the oldest time of all. */
static size_t collect(struct stream_group *group, int64_t until_ms, struct stream_idle_entry *entries, size_t room)
{
    int64_t oldest_ms = INT64_MAX;
    struct idmap_place place;
    size_t count = 0;

    for (bool more = idmap_first(&group->pending, &place); more; more = idmap_next(&group->pending, &place)) {
        const struct stream_pending *pending = idmap_value(&group->pending, place);
        struct stream_idle_entry entry = { idmap_id(&group->pending, place), pending->delivered_ms };

        if (entry.delivered_ms < oldest_ms)
            oldest_ms = entry.delivered_ms;
        if (entry.delivered_ms > until_ms)
            continue;
        if (count < room)
            sift_up(entries, count++, entry);
        else if (compare_idle(&entry, &entries[0]) < 0)
            sift_down(entries, count, entry);
    }
    group->oldest_ms = oldest_ms;
    qsort(entries, count, sizeof(*entries), compare_idle);
    return count;
}

/* Removes from the list, and from the pending entries, what is not in the stream. */
static size_t drop_deleted(struct call *call, int key_arg, const struct stream *stream, struct stream_group *group,
    struct stream_idle_entry *entries, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        struct stream_id id = entries[i].id;

        if (stream_has(stream, id)) {
            entries[kept++] = entries[i];
        } else {
            CHECK(stream_pending_remove(group, id));
            call_propagate(call, (struct bytes[]){ BYTES("XACK"), call->args[key_arg], group->name, call_stream_id(call, id) }, 4);
        }
    }
    return kept;
}

/* Entries that were deleted are passed over, so more are looked at until that many are in the stream. */
bool stream_idle_is_here(struct call *call, const struct stream *stream, struct stream_group *group, int64_t idle_min_ms, uint64_t count_max)
{
    int64_t until_ms = call->turn->now_ms - idle_min_ms;
    size_t all = group->pending.count, wanted = count_max > 0 && count_max < all ? (size_t)count_max : all, room = wanted, found, there;
    struct stream_idle_entry *entries;
    struct stream_id *ids;

    if (stream_is_here(stream) || group->oldest_ms > until_ms || wanted == 0)
        return true;
    for (;; room = room < all / 2 ? room * 2 : all) {
        entries = arena_alloc(call->arena, room * sizeof(*entries));
        ids = arena_alloc(call->arena, room * sizeof(*ids));
        found = collect(group, until_ms, entries, room);
        for (size_t i = 0; i < found; i++)
            ids[i] = entries[i].id;
        if (!stream_has_ids(stream, ids, found))
            return false;
        there = 0;
        for (size_t i = 0; i < found; i++)
            there += stream_has(stream, ids[i]);
        if (there >= wanted || found < room || room == all)
            return true;
    }
}

struct stream_idle stream_idle_find(struct call *call, int key_arg, const struct stream *stream, struct stream_group *group,
    int64_t idle_min_ms, uint64_t count_max)
{
    int64_t until_ms = call->turn->now_ms - idle_min_ms;
    size_t room = count_max > 0 && count_max < group->pending.count ? (size_t)count_max : group->pending.count, found;
    struct stream_idle idle = { .count = 0 };

    if (group->oldest_ms > until_ms || room == 0)
        return idle;
    idle.entries = arena_alloc(call->arena, room * sizeof(*idle.entries));
    do {
        found = collect(group, until_ms, idle.entries, room);
        idle.count = drop_deleted(call, key_arg, stream, group, idle.entries, found);
        idle.dropped |= idle.count < found;
    } while (found > 0 && idle.count == 0);
    return idle;
}

static void reply_claimed(struct call *call, const struct stream *stream, struct stream_id id, int64_t idle_ms, uint64_t deliveries)
{
    struct stream_iterator iterator;
    size_t pair_count;

    stream_iterate(&iterator, stream, id, id, STREAM_UP);
    CHECK(stream_next(&iterator, &id, &pair_count));
    reply_stream_delivery(call, &iterator, id, pair_count, idle_ms, deliveries);
}

void stream_idle_claim(struct call *call, int key_arg, const struct stream *stream, struct stream_group *group,
    struct stream_consumer *consumer, const struct stream_idle *idle)
{
    int64_t now_ms = call->turn->now_ms;
    struct claim_log log;

    claim_log_begin(&log, call, key_arg, group, consumer);
    for (size_t i = 0; i < idle->count; i++) {
        struct stream_pending *pending = stream_pending_assign(group, idle->entries[i].id, consumer, now_ms);

        reply_claimed(call, stream, idle->entries[i].id, now_ms - idle->entries[i].delivered_ms, pending->deliveries);
        if (pending->deliveries < STREAM_DELIVERIES_MAX)
            pending->deliveries++;
        claim_log_add(&log, idle->entries[i].id, pending);
    }
    claim_log_end(&log);
}

int64_t stream_idle_next_ms(const struct stream_group *group, int64_t idle_min_ms, int64_t now_ms)
{
    int64_t from_ms = group->oldest_ms < now_ms ? group->oldest_ms : now_ms, next_ms;

    return __builtin_add_overflow(from_ms, idle_min_ms, &next_ms) ? INT64_MAX : next_ms;
}
