#include "value/stream.h"

#include "base/check.h"
#include "base/mem.h"
#include "value/stream_private.h"

static void node_count_deleted(struct listpack **pack, uint64_t more)
{
    uint64_t live = node_live(*pack);
    size_t at;

    CHECK(live > more);
    listpack_replace_int(pack, listpack_first(*pack), (int64_t)(live - more));
    at = listpack_next(*pack, listpack_first(*pack));
    listpack_replace_int(pack, at, number_at(*pack, at) + (int64_t)more);
}

struct value stream_create(void)
{
    struct stream *stream = mem_zalloc(sizeof(*stream));

    idmap_init(&stream->nodes, sizeof(struct listpack *));
    return (struct value){ .type = VALUE_STREAM, .encoding = STREAM_NODES, .object = stream };
}

void stream_note_first(struct stream *stream)
{
    struct stream_iterator iterator;
    size_t pair_count;

    stream->first_id = (struct stream_id){ 0, 0 };
    if (stream->length == 0)
        return;
    stream_iterate(&iterator, stream, (struct stream_id){ 0, 0 }, STREAM_ID_MAX, STREAM_UP);
    CHECK(stream_next(&iterator, &stream->first_id, &pair_count));
}

size_t stream_pairs_size(const struct bytes *pairs, size_t pair_count)
{
    size_t size = 0;

    for (size_t i = 0; i < pair_count * 2; i++)
        size += pairs[i].size;
    return size;
}

bool stream_node_takes(const struct stream *stream, const struct listpack *pack, const struct value_limits *limits, size_t pair_count, size_t size)
{
    size_t size_max = limits->stream_node_size_max, largest = stream_node_size_max(stream), at = listpack_first(pack);

    if (size_max == 0 || size_max > largest)
        size_max = largest;
    if (listpack_size(pack) + size >= size_max || !listpack_has_room(pack, pair_count * 2 + ENTRY_HEAD_ELEMENTS, size))
        return false;
    if (limits->stream_node_entries_max == 0)
        return true;
    return (uint64_t)number_at(pack, at) + (uint64_t)number_at(pack, listpack_next(pack, at)) < limits->stream_node_entries_max;
}

static bool has_same_fields(const struct listpack *pack, const struct bytes *pairs, size_t pair_count)
{
    size_t field_count, at = node_fields(pack, &field_count);

    if (field_count != pair_count)
        return false;
    for (size_t i = 0; i < pair_count; i++, at = listpack_next(pack, at)) {
        if (!listpack_equals(pack, at, pairs[i * 2]))
            return false;
    }
    return true;
}

static struct listpack *node_create(const struct bytes *pairs, size_t pair_count)
{
    struct listpack *pack = listpack_create();
    struct listpack_gather gather;

    listpack_gather_begin(&gather, &pack);
    listpack_gather_int(&gather, 0);
    listpack_gather_int(&gather, 0);
    listpack_gather_int(&gather, (int64_t)pair_count);
    for (size_t i = 0; i < pair_count; i++)
        listpack_gather(&gather, pairs[i * 2]);
    listpack_gather_int(&gather, 0);
    listpack_gather_end(&gather);
    return pack;
}

static void node_append(struct listpack **pack, struct stream_id node_id, struct stream_id id, const struct bytes *pairs, size_t pair_count)
{
    bool same = has_same_fields(*pack, pairs, pair_count);
    struct listpack_gather gather;

    listpack_replace_int(pack, listpack_first(*pack), (int64_t)node_live(*pack) + 1);
    listpack_gather_begin(&gather, pack);
    listpack_gather_int(&gather, same ? STREAM_ENTRY_SAME_FIELDS : 0);
    listpack_gather_int(&gather, (int64_t)(id.ms - node_id.ms));
    listpack_gather_int(&gather, (int64_t)(id.seq - node_id.seq));
    if (!same)
        listpack_gather_int(&gather, (int64_t)pair_count);
    for (size_t i = 0; i < pair_count; i++) {
        if (!same)
            listpack_gather(&gather, pairs[i * 2]);
        listpack_gather(&gather, pairs[i * 2 + 1]);
    }
    listpack_gather_int(&gather, (int64_t)(same ? 3 + pair_count : 4 + pair_count * 2));
    listpack_gather_end(&gather);
}

bool stream_append(struct stream *stream, const struct value_limits *limits, struct stream_id id, const struct bytes *pairs,
    size_t pair_count)
{
    size_t size = stream_pairs_size(pairs, pair_count), fields_size = 0;
    struct stream_id node_id;
    struct stream_place place;
    struct stream_edit edit;

    CHECK(stream_id_compare(id, stream->last_id) > 0);
    for (size_t i = 0; i < pair_count; i++)
        fields_size += pairs[i * 2].size;
    /* In a new node the fields are at the front, and not in the entry. */
    if (size + (pair_count * 3 + NODE_HEAD_ELEMENTS + ENTRY_HEAD_ELEMENTS) * LISTPACK_ELEMENT_OVERHEAD + fields_size > NODE_SIZE_MAX)
        return false;
    if (stream_node_last(stream, &place) && stream_node_takes(stream, stream_node_read(stream, &place, &node_id), limits, pair_count, size)) {
        stream_node_edit(stream, &place, &edit);
        node_append(edit.pack, node_id, id, pairs, pair_count);
        stream_node_store(stream, &place, &edit);
    } else {
        struct listpack *pack = node_create(pairs, pair_count);

        node_append(&pack, id, id, pairs, pair_count);
        stream_node_add(stream, id, pack);
    }
    if (stream->length++ == 0)
        stream->first_id = id;
    stream->last_id = id;
    stream->entries_added++;
    return true;
}

/* The place and the position of a live entry. */
static bool find_live_entry(const struct stream *stream, struct stream_id id, struct stream_place *place, size_t *at)
{
    const struct listpack *pack;
    struct stream_id node_id;
    size_t field_count;

    if (!stream_node_seek(stream, id, place))
        return false;
    pack = stream_node_read(stream, place, &node_id);
    node_fields(pack, &field_count);
    *at = node_first_entry(pack);
    while (*at != LISTPACK_NONE) {
        struct stream_entry view = stream_entry_read(pack, node_id, *at, field_count);
        int order = stream_id_compare(view.id, id);

        if (order >= 0)
            return order == 0 && !(view.flags & STREAM_ENTRY_DELETED);
        *at = stream_entry_skip(pack, &view);
    }
    return false;
}

bool stream_has(const struct stream *stream, struct stream_id id)
{
    struct stream_place place;
    size_t at;

    return find_live_entry(stream, id, &place, &at);
}

bool stream_delete(struct stream *stream, struct stream_id id)
{
    struct stream_place place;
    struct stream_edit edit;
    size_t at;

    if (!find_live_entry(stream, id, &place, &at))
        return false;
    if (stream_node_live(stream, &place) == 1) {
        stream_node_remove(stream, &place);
    } else {
        stream_node_edit(stream, &place, &edit);
        listpack_replace_int(edit.pack, at, number_at(*edit.pack, at) | STREAM_ENTRY_DELETED);
        node_count_deleted(edit.pack, 1);
        stream_node_store(stream, &place, &edit);
    }
    stream->length--;
    if (stream_id_compare(id, stream->max_deleted_id) > 0)
        stream->max_deleted_id = id;
    if (stream_id_compare(id, stream->first_id) == 0)
        stream_note_first(stream);
    return true;
}

/* Flags entries from the node's front as deleted. At least one must remain. */
static uint64_t trim_within(struct stream *stream, const struct stream_trim *trim, struct stream_place *place)
{
    uint64_t deleted = 0, live = stream_node_live(stream, place);
    struct stream_edit edit;
    struct stream_id node_id;
    size_t field_count, at;

    (void)stream_node_read(stream, place, &node_id);
    stream_node_edit(stream, place, &edit);
    node_fields(*edit.pack, &field_count);
    at = node_first_entry(*edit.pack);
    while (at != LISTPACK_NONE) {
        struct stream_entry view = stream_entry_read(*edit.pack, node_id, at, field_count);

        if (trim->by == TRIM_LENGTH ? stream->length - deleted <= trim->length_max : stream_id_compare(view.id, trim->min_id) >= 0)
            break;
        if (!(view.flags & STREAM_ENTRY_DELETED)) {
            listpack_replace_int(edit.pack, at, view.flags | STREAM_ENTRY_DELETED);
            deleted++;
        }
        at = stream_entry_skip(*edit.pack, &view);
    }
    if (deleted > 0 && deleted < live)
        node_count_deleted(edit.pack, deleted);
    stream_node_store(stream, place, &edit);
    if (deleted > 0 && deleted == live)         /* the entries that were not reached had been deleted before */
        stream_node_remove(stream, place);
    stream->length -= deleted;
    return deleted;
}

/* Whether a node goes as a whole. `left`: entries of the stream with it. */
static bool goes_as_whole(const struct stream *stream, const struct stream_trim *trim, const struct stream_place *place, uint64_t left, bool *whole)
{
    const struct listpack *pack;
    struct stream_id id;

    *whole = trim->by == TRIM_LENGTH ? left - stream_node_live(stream, place) >= trim->length_max : stream_node_is_below(stream, place, trim->min_id);
    if (trim->by == TRIM_LENGTH || *whole)
        return true;
    pack = stream_node_read(stream, place, &id);
    if (pack != NULL)
        *whole = stream_id_compare(node_last_id(pack, id), trim->min_id) < 0;
    return pack != NULL;
}

bool stream_trim_plan(const struct stream *stream, const struct stream_trim *trim, uint64_t added, struct stream_trim_plan *plan, struct stream_place *place)
{
    uint64_t left = stream->length + added;
    bool more = stream_node_first(stream, place), whole;

    *plan = (struct stream_trim_plan){ 0 };
    while (more && (trim->by != TRIM_LENGTH || left > trim->length_max)) {
        uint64_t live = stream_node_live(stream, place);

        if (!goes_as_whole(stream, trim, place, left, &whole))
            return false;
        if (trim->limit > 0 && plan->live + live > trim->limit)
            break;
        if (!whole) {
            plan->within = !trim->approximate;
            break;
        }
        plan->nodes++;
        plan->live += live;
        left -= live;
        more = stream_node_next(stream, place);
    }
    return more;
}

uint64_t stream_trim(struct stream *stream, const struct stream_trim *trim)
{
    struct stream_trim_plan plan;
    struct stream_place place;
    uint64_t deleted;

    (void)stream_trim_plan(stream, trim, 0, &plan, &place);
    deleted = plan.live;
    stream->length -= plan.live;
    for (; plan.nodes > 0 && stream_node_first(stream, &place); plan.nodes--)
        stream_node_remove(stream, &place);
    if (plan.within && stream_node_first(stream, &place))
        deleted += trim_within(stream, trim, &place);
    if (deleted > 0)
        stream_note_first(stream);
    return deleted;
}

struct stream_id stream_last_live_id(const struct stream *stream)
{
    struct stream_iterator iterator;
    struct stream_id id = { 0, 0 };
    size_t pair_count;

    stream_iterate(&iterator, stream, id, STREAM_ID_MAX, STREAM_DOWN);
    if (!stream_next(&iterator, &id, &pair_count))
        CHECK(stream->length == 0);
    return id;
}

/* The next entry will be added after a deleted one in its node. */
struct stream_id stream_last_kept_id(const struct stream *stream)
{
    struct stream_place place;
    struct stream_id id;

    if (!stream_node_last(stream, &place))
        return (struct stream_id){ 0, 0 };
    return node_last_id(stream_node_read(stream, &place, &id), id);
}
