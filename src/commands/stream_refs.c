#include "commands/stream_refs.h"

#include "base/check.h"
#include "commands/stream_id.h"
#include "value/stream.h"

bool arg_stream_refs(const struct call *call, int arg, enum stream_refs *refs)
{
    static const char *const names[] = { "keepref", "delref", "acked" };

    for (int i = 0; i < 3; i++) {
        if (!arg_is(call, arg, names[i]))
            continue;
        *refs = (enum stream_refs)i;
        return true;
    }
    return false;
}

bool stream_entry_is_needed(const struct stream *stream, struct stream_id id)
{
    for (uint32_t i = 0; i < stream->group_count; i++) {
        struct stream_group *group = stream->groups[i];

        if (stream_id_compare(id, group->last_id) > 0 || idmap_find(&group->pending, id) != NULL)
            return true;
    }
    return false;
}

void log_stream_ids(struct call *call, const struct bytes *head, int head_count, const struct stream_id *ids, size_t count)
{
    struct bytes *words;

    if (count == 0)
        return;
    words = arena_alloc(call->arena, ((size_t)head_count + count) * sizeof(*words));
    memcpy(words, head, (size_t)head_count * sizeof(*words));
    for (size_t i = 0; i < count; i++)
        words[(size_t)head_count + i] = call_stream_id(call, ids[i]);
    call_propagate(call, words, head_count + (int)count);
}

size_t stream_refs_remove(struct call *call, int key_arg, struct stream *stream, const struct stream_id *ids, size_t count)
{
    struct stream_id *removed = arena_alloc(call->arena, count * sizeof(*removed));
    size_t total = 0;

    for (uint32_t i = 0; i < stream->group_count && count > 0; i++) {
        struct stream_group *group = stream->groups[i];
        const struct bytes head[] = { BYTES("XACK"), call->args[key_arg], group->name };
        size_t removed_count = 0;

        for (size_t j = 0; j < count; j++) {
            if (stream_pending_remove(group, ids[j]))
                removed[removed_count++] = ids[j];
        }
        log_stream_ids(call, head, 3, removed, removed_count);
        total += removed_count;
    }
    return total;
}

/* How many entries a trim is to remove at most. */
static uint64_t trim_room(const struct stream *stream, const struct stream_trim *trim)
{
    uint64_t room = stream->length;

    if (trim->by == TRIM_LENGTH)
        room = stream->length > trim->length_max ? stream->length - trim->length_max : 0;
    return trim->approximate && trim->limit > 0 && trim->limit < room ? trim->limit : room;
}

/* IDs from the front of the stream that a trim may remove: `room` at most, and of needed ones none. All after the first one that a group
 * has not read are needed. */
static size_t collect_unneeded(const struct stream *stream, const struct stream_trim *trim, uint64_t room, struct buffer *ids)
{
    struct stream_id end = STREAM_ID_MAX, id;
    struct stream_iterator iterator;
    size_t pair_count, count = 0;

    for (uint32_t i = 0; i < stream->group_count; i++) {
        if (stream_id_compare(stream->groups[i]->last_id, end) < 0)
            end = stream->groups[i]->last_id;
    }
    stream_iterate(&iterator, stream, (struct stream_id){ 0, 0 }, end, STREAM_UP);
    while (count < room && stream_next(&iterator, &id, &pair_count)) {
        if (trim->by == TRIM_ID && stream_id_compare(id, trim->min_id) >= 0)
            break;
        if (stream_entry_is_needed(stream, id))
            continue;
        buffer_append(ids, &id, sizeof(id));
        count++;
    }
    return count;
}

uint64_t stream_trim_respecting(struct call *call, int key_arg, struct stream *stream, const struct stream_trim *trim)
{
    const struct bytes head[] = { BYTES("XDEL"), call->args[key_arg] };
    struct buffer ids = { 0 };
    size_t count = collect_unneeded(stream, trim, trim_room(stream, trim), &ids);
    const struct stream_id *list = (const struct stream_id *)(const void *)ids.data;

    for (size_t i = 0; i < count; i++)
        CHECK(stream_delete(stream, list[i]));
    log_stream_ids(call, head, 2, list, count);
    buffer_release(&ids);
    return count;
}

/* The IDs that are pending in a group and are in the stream, with those of `ids`. */
static void collect_pending(const struct stream *stream, const struct stream_group *group, struct buffer *ids)
{
    struct idmap_place place;

    for (bool more = idmap_first(&group->pending, &place); more; more = idmap_next(&group->pending, &place)) {
        struct stream_id id = idmap_id(&group->pending, place);

        if (stream_has(stream, id))
            buffer_append(ids, &id, sizeof(id));
    }
}

uint64_t stream_trim_with_refs(struct call *call, int key_arg, struct stream *stream, const struct stream_trim *trim)
{
    struct buffer ids = { 0 };
    struct stream_id *list;
    size_t count, gone = 0;
    uint64_t trimmed;

    for (uint32_t i = 0; i < stream->group_count; i++)
        collect_pending(stream, stream->groups[i], &ids);
    trimmed = stream_trim(stream, trim);
    list = (struct stream_id *)(void *)ids.data;
    count = ids.size / sizeof(*list);
    for (size_t i = 0; i < count && trimmed > 0; i++) {
        if (!stream_has(stream, list[i]))
            list[gone++] = list[i];
    }
    stream_refs_remove(call, key_arg, stream, list, gone);
    buffer_release(&ids);
    return trimmed;
}
