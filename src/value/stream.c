#include "value/stream.h"

#include <string.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/mem.h"
#include "value/stream_group.h"
#include "value/type.h"

enum {
    ENTRY_DELETED = 1,
    ENTRY_SAME_FIELDS = 2,

    NODE_HEAD = 4,              /* elements of a node beside its fields and entries */
    ENTRY_HEAD = 5,             /* of an entry beside its fields and values, at most */
    NODE_SIZE_MAX = LISTPACK_SIZE_MAX - (1 << 16),
};

/* Nodes. */

static struct listpack **node_at(const struct stream *stream, struct idmap_place place)
{
    return idmap_value(&stream->nodes, place);
}

static int64_t number_at(const struct listpack *pack, size_t at)
{
    int64_t number = 0;

    CHECK(at != LISTPACK_NONE && listpack_get_int(pack, at, &number));
    return number;
}

static uint64_t node_live(const struct listpack *pack)
{
    return (uint64_t)number_at(pack, listpack_first(pack));
}

static size_t skip(const struct listpack *pack, size_t at, size_t count)
{
    for (; count > 0 && at != LISTPACK_NONE; count--)
        at = listpack_next(pack, at);
    return at;
}

/* Where the fields begin, and how many there are. */
static size_t node_fields(const struct listpack *pack, size_t *field_count)
{
    size_t at = skip(pack, listpack_first(pack), 2);

    *field_count = (size_t)number_at(pack, at);
    return listpack_next(pack, at);
}

static size_t node_first_entry(const struct listpack *pack)
{
    size_t field_count, at = node_fields(pack, &field_count);

    return skip(pack, at, field_count + 1);
}

/* An entry, looked at. */
struct entry_view {
    int64_t flags;
    struct stream_id id;
    size_t pair_count;
    size_t pairs;               /* the first field, or value if the node has the fields; LISTPACK_NONE if there are none */
};

static struct entry_view entry_read(const struct listpack *pack, struct stream_id node_id, size_t at, size_t node_field_count)
{
    struct entry_view view = { .flags = number_at(pack, at), .id = node_id, .pair_count = node_field_count };

    at = listpack_next(pack, at);
    view.id.ms += (uint64_t)number_at(pack, at);
    at = listpack_next(pack, at);
    view.id.seq += (uint64_t)number_at(pack, at);
    if (!(view.flags & ENTRY_SAME_FIELDS)) {
        at = listpack_next(pack, at);
        view.pair_count = (size_t)number_at(pack, at);
    }
    view.pairs = listpack_next(pack, at);
    return view;
}

/* Where the entry behind begins; LISTPACK_NONE: it was the last. */
static size_t entry_skip(const struct listpack *pack, const struct entry_view *view)
{
    return skip(pack, view->pairs, view->pair_count * (view->flags & ENTRY_SAME_FIELDS ? 1 : 2) + 1);
}

/* The last entry begins here; there is one. */
static size_t node_last_entry(const struct listpack *pack)
{
    size_t at = listpack_last(pack);

    for (int64_t count = number_at(pack, at); count > 0; count--)
        at = listpack_previous(pack, at);
    return at;
}

/* ID of the last entry, deleted or not. */
static struct stream_id node_last_id(const struct listpack *pack, struct stream_id node_id)
{
    return entry_read(pack, node_id, node_last_entry(pack), 0).id;
}

static void node_count_deleted(struct listpack **pack, uint64_t more)
{
    uint64_t live = node_live(*pack);
    size_t at;

    CHECK(live > more);
    listpack_replace_int(pack, listpack_first(*pack), (int64_t)(live - more));
    at = listpack_next(*pack, listpack_first(*pack));
    listpack_replace_int(pack, at, number_at(*pack, at) + (int64_t)more);
}

static bool node_remove(struct stream *stream, struct idmap_place *place)
{
    listpack_destroy(*node_at(stream, *place));
    return idmap_remove_at(&stream->nodes, place);
}

/* The stream. */

struct value stream_create(void)
{
    struct stream *stream = mem_zalloc(sizeof(*stream));

    idmap_init(&stream->nodes, sizeof(struct listpack *));
    return (struct value){ .type = VALUE_STREAM, .encoding = STREAM_NODES, .object = stream };
}

static void note_first(struct stream *stream)
{
    struct stream_iterator iterator;
    size_t pair_count;

    stream->first_id = (struct stream_id){ 0, 0 };
    if (stream->length == 0)
        return;
    stream_iterate(&iterator, stream, (struct stream_id){ 0, 0 }, STREAM_ID_MAX, STREAM_UP);
    CHECK(stream_next(&iterator, &stream->first_id, &pair_count));
}

/* Whether the last node takes one more entry. What is counted against the size is what Redis counts: fields and values. */
static bool node_takes(const struct listpack *pack, const struct value_limits *limits, size_t pair_count, size_t size)
{
    size_t size_max = limits->stream_node_size_max, at = listpack_first(pack);

    if (size_max == 0 || size_max > NODE_SIZE_MAX)
        size_max = NODE_SIZE_MAX;
    if (listpack_size(pack) + size >= size_max || !listpack_has_room(pack, pair_count * 2 + ENTRY_HEAD, size))
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
    listpack_gather_int(&gather, same ? ENTRY_SAME_FIELDS : 0);
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
    size_t size = 0, fields_size = 0;
    struct stream_id node_id = id;
    struct listpack **node;
    struct idmap_place place;
    bool is_new;

    CHECK(stream_id_compare(id, stream->last_id) > 0);
    for (size_t i = 0; i < pair_count; i++) {
        fields_size += pairs[i * 2].size;
        size += pairs[i * 2].size + pairs[i * 2 + 1].size;
    }
    /* A node of its own has the fields in front, and none in the entry. */
    if (size + (pair_count * 3 + NODE_HEAD + ENTRY_HEAD) * LISTPACK_ELEMENT_OVERHEAD + fields_size > NODE_SIZE_MAX)
        return false;
    if (idmap_last(&stream->nodes, &place) && node_takes(*node_at(stream, place), limits, pair_count, size)) {
        node = node_at(stream, place);
        node_id = idmap_id(&stream->nodes, place);
    } else {
        node = idmap_put(&stream->nodes, id, &is_new);
        CHECK(is_new);
        *node = node_create(pairs, pair_count);
    }
    node_append(node, node_id, id, pairs, pair_count);
    if (stream->length++ == 0)
        stream->first_id = id;
    stream->last_id = id;
    stream->entries_added++;
    return true;
}

/* Place and offset of a live entry. */
static bool find(const struct stream *stream, struct stream_id id, struct idmap_place *place, size_t *at)
{
    const struct listpack *pack;
    struct stream_id node_id;
    size_t field_count;

    if (!idmap_seek_back(&stream->nodes, id, place))
        return false;
    pack = *node_at(stream, *place);
    node_id = idmap_id(&stream->nodes, *place);
    node_fields(pack, &field_count);
    *at = node_first_entry(pack);
    while (*at != LISTPACK_NONE) {
        struct entry_view view = entry_read(pack, node_id, *at, field_count);
        int order = stream_id_compare(view.id, id);

        if (order >= 0)
            return order == 0 && !(view.flags & ENTRY_DELETED);
        *at = entry_skip(pack, &view);
    }
    return false;
}

bool stream_has(const struct stream *stream, struct stream_id id)
{
    struct idmap_place place;
    size_t at;

    return find(stream, id, &place, &at);
}

bool stream_delete(struct stream *stream, struct stream_id id)
{
    struct idmap_place place;
    struct listpack **node;
    size_t at;

    if (!find(stream, id, &place, &at))
        return false;
    node = node_at(stream, place);
    if (node_live(*node) == 1) {
        node_remove(stream, &place);
    } else {
        listpack_replace_int(node, at, number_at(*node, at) | ENTRY_DELETED);
        node_count_deleted(node, 1);
    }
    stream->length--;
    if (stream_id_compare(id, stream->max_deleted_id) > 0)
        stream->max_deleted_id = id;
    if (stream_id_compare(id, stream->first_id) == 0)
        note_first(stream);
    return true;
}

/* Flags entries from the node's front. At least one is to stay. */
static uint64_t trim_within(struct stream *stream, const struct stream_trim *trim, struct idmap_place place)
{
    struct listpack **node = node_at(stream, place);
    struct stream_id node_id = idmap_id(&stream->nodes, place);
    uint64_t deleted = 0;
    size_t field_count, at;

    node_fields(*node, &field_count);
    at = node_first_entry(*node);
    while (at != LISTPACK_NONE) {
        struct entry_view view = entry_read(*node, node_id, at, field_count);

        if (trim->by == TRIM_LENGTH ? stream->length - deleted <= trim->length_max : stream_id_compare(view.id, trim->min_id) >= 0)
            break;
        if (!(view.flags & ENTRY_DELETED)) {
            listpack_replace_int(node, at, view.flags | ENTRY_DELETED);
            deleted++;
        }
        at = entry_skip(*node, &view);
    }
    if (deleted > 0 && deleted < node_live(*node))
        node_count_deleted(node, deleted);
    else if (deleted > 0)       /* the entries that were not reached had been deleted before */
        node_remove(stream, &place);
    stream->length -= deleted;
    return deleted;
}

uint64_t stream_trim(struct stream *stream, const struct stream_trim *trim)
{
    struct idmap_place place;
    uint64_t deleted = 0;
    bool more = idmap_first(&stream->nodes, &place);

    while (more && (trim->by != TRIM_LENGTH || stream->length > trim->length_max)) {
        struct listpack *node = *node_at(stream, place);
        uint64_t live = node_live(node);
        bool whole = trim->by == TRIM_LENGTH ? stream->length - live >= trim->length_max
            : stream_id_compare(node_last_id(node, idmap_id(&stream->nodes, place)), trim->min_id) < 0;

        if (trim->limit > 0 && deleted + live > trim->limit)
            break;
        if (!whole) {
            if (!trim->approximate)
                deleted += trim_within(stream, trim, place);
            break;
        }
        more = node_remove(stream, &place);
        stream->length -= live;
        deleted += live;
    }
    if (deleted > 0)
        note_first(stream);
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

/* The next entry goes behind a deleted one in its node. */
struct stream_id stream_last_kept_id(const struct stream *stream)
{
    struct idmap_place place;

    if (!idmap_last(&stream->nodes, &place))
        return (struct stream_id){ 0, 0 };
    return node_last_id(*node_at(stream, place), idmap_id(&stream->nodes, place));
}

/* Iteration. */

static void enter_node(struct stream_iterator *iterator)
{
    const struct listpack *pack = *node_at(iterator->stream, iterator->node);

    iterator->pack = pack;
    iterator->node_id = idmap_id(&iterator->stream->nodes, iterator->node);
    iterator->node_fields = node_fields(pack, &iterator->node_field_count);
    iterator->at = iterator->direction == STREAM_UP ? node_first_entry(pack) : listpack_last(pack);
}

void stream_iterate(struct stream_iterator *iterator, const struct stream *stream, struct stream_id start, struct stream_id end,
    enum stream_direction direction)
{
    bool found;

    iterator->stream = stream;
    iterator->start = start;
    iterator->end = end;
    iterator->direction = direction;
    iterator->pack = NULL;
    if (direction == STREAM_UP)
        found = idmap_seek_back(&stream->nodes, start, &iterator->node) || idmap_first(&stream->nodes, &iterator->node);
    else
        found = idmap_seek_back(&stream->nodes, end, &iterator->node);
    if (found)
        enter_node(iterator);
}

/* Goes to where the next entry begins; false at the node's end. */
static bool step_within(struct stream_iterator *iterator, struct entry_view *view)
{
    const struct listpack *pack = iterator->pack;
    size_t at = iterator->at;

    if (at == LISTPACK_NONE)
        return false;
    if (iterator->direction == STREAM_UP) {
        *view = entry_read(pack, iterator->node_id, at, iterator->node_field_count);
        iterator->at = entry_skip(pack, view);
        return true;
    }
    /* The node's own fields end with a 0: no entry is as short. */
    int64_t count = number_at(pack, at);

    if (count == 0)
        return false;
    for (; count > 0; count--)
        at = listpack_previous(pack, at);
    *view = entry_read(pack, iterator->node_id, at, iterator->node_field_count);
    iterator->at = listpack_previous(pack, at);
    return true;
}

static bool step_node(struct stream_iterator *iterator)
{
    const struct idmap *nodes = &iterator->stream->nodes;
    bool more = iterator->direction == STREAM_UP ? idmap_next(nodes, &iterator->node) : idmap_previous(nodes, &iterator->node);

    if (more)
        enter_node(iterator);
    else
        iterator->pack = NULL;
    return more;
}

bool stream_next(struct stream_iterator *iterator, struct stream_id *id, size_t *pair_count)
{
    bool up = iterator->direction == STREAM_UP;
    struct entry_view view;

    while (iterator->pack != NULL) {
        if (!step_within(iterator, &view)) {
            step_node(iterator);
            continue;
        }
        if (up ? stream_id_compare(view.id, iterator->end) > 0 : stream_id_compare(view.id, iterator->start) < 0)
            break;
        if (view.flags & ENTRY_DELETED ||
            (up ? stream_id_compare(view.id, iterator->start) < 0 : stream_id_compare(view.id, iterator->end) > 0))
            continue;
        *id = view.id;
        *pair_count = view.pair_count;
        iterator->value_at = view.pairs;
        iterator->field_at = view.flags & ENTRY_SAME_FIELDS ? iterator->node_fields : LISTPACK_NONE;
        return true;
    }
    iterator->pack = NULL;
    return false;
}

void stream_pair(struct stream_iterator *iterator, struct bytes *field, struct bytes *value)
{
    const struct listpack *pack = iterator->pack;

    if (iterator->field_at != LISTPACK_NONE) {
        *field = listpack_get(pack, iterator->field_at, iterator->field_digits);
        iterator->field_at = listpack_next(pack, iterator->field_at);
    } else {
        *field = listpack_get(pack, iterator->value_at, iterator->field_digits);
        iterator->value_at = listpack_next(pack, iterator->value_at);
    }
    *value = listpack_get(pack, iterator->value_at, iterator->value_digits);
    iterator->value_at = listpack_next(pack, iterator->value_at);
}

/* Building. */

/* The number at *at, which must be one and not be below `low`; goes on behind it. */
static bool take_number(const struct listpack *pack, size_t *at, int64_t low, int64_t *number)
{
    if (*at == LISTPACK_NONE || !listpack_get_int(pack, *at, number) || *number < low)
        return false;
    *at = listpack_next(pack, *at);
    return true;
}

/* `count` elements; false if there are less. */
static bool take_elements(const struct listpack *pack, size_t *at, int64_t count)
{
    for (; count > 0 && *at != LISTPACK_NONE; count--)
        *at = listpack_next(pack, *at);
    return count == 0;
}

static bool entry_check(const struct listpack *pack, size_t *at, struct stream_id node_id, int64_t node_field_count, struct stream_id *id,
    int64_t *flags)
{
    int64_t ms, seq, pair_count = node_field_count, element_count, count_told;

    if (!take_number(pack, at, 0, flags) || *flags > (ENTRY_DELETED | ENTRY_SAME_FIELDS) || !take_number(pack, at, INT64_MIN, &ms) ||
        !take_number(pack, at, INT64_MIN, &seq))
        return false;
    *id = (struct stream_id){ node_id.ms + (uint64_t)ms, node_id.seq + (uint64_t)seq };
    if (*flags & ENTRY_SAME_FIELDS) {
        element_count = pair_count;
    } else {
        if (!take_number(pack, at, 0, &pair_count) || pair_count > LISTPACK_SIZE_MAX)
            return false;
        element_count = 1 + pair_count * 2;
    }
    return take_elements(pack, at, *flags & ENTRY_SAME_FIELDS ? pair_count : pair_count * 2) &&
        take_number(pack, at, 0, &count_told) && count_told == element_count + 3;
}

/* All of it; says which entry is the last, deleted or not, and which live one. */
static bool node_check(const struct listpack *pack, struct stream_id node_id, struct stream_id *last, uint64_t *live_count)
{
    size_t at = listpack_first(pack);
    int64_t live, deleted, field_count, zero, flags;
    uint64_t deleted_count = 0, count = 0;
    struct stream_id id;

    *live_count = 0;
    if (!take_number(pack, &at, 0, &live) || !take_number(pack, &at, 0, &deleted) || !take_number(pack, &at, 0, &field_count) ||
        !take_elements(pack, &at, field_count) || !take_number(pack, &at, 0, &zero) || zero != 0)
        return false;
    for (; at != LISTPACK_NONE; count++) {
        if (!entry_check(pack, &at, node_id, field_count, &id, &flags) || stream_id_compare(id, count == 0 ? node_id : *last) < (count > 0))
            return false;
        *last = id;
        if (flags & ENTRY_DELETED)
            deleted_count++;
        else
            ++*live_count;
    }
    return count > 0 && *live_count == (uint64_t)live && deleted_count == (uint64_t)deleted;
}

bool stream_build_node(struct stream *stream, struct stream_id id, struct bytes listpack)
{
    struct idmap_place place;
    struct stream_id last;
    struct listpack *pack, **node;
    uint64_t live;
    bool is_new;

    if (idmap_last(&stream->nodes, &place) &&
        stream_id_compare(node_last_id(*node_at(stream, place), idmap_id(&stream->nodes, place)), id) >= 0)
        return false;
    if (!listpack_is_valid(listpack))
        return false;
    pack = listpack_of_bytes(listpack);
    if (!node_check(pack, id, &last, &live)) {
        listpack_destroy(pack);
        return false;
    }
    if (live == 0) {
        listpack_destroy(pack);
        return true;
    }
    node = idmap_put(&stream->nodes, id, &is_new);
    CHECK(is_new);
    *node = pack;
    stream->length += live;
    return true;
}

bool stream_build_end(struct stream *stream)
{
    note_first(stream);
    return stream_id_compare(stream_last_kept_id(stream), stream->last_id) <= 0;
}

void stream_verify(const struct stream *stream)
{
    struct idmap_place place;
    struct stream_id last = { 0, 0 };
    uint64_t length = 0, live;

    idmap_verify(&stream->nodes);
    for (bool more = idmap_first(&stream->nodes, &place); more; more = idmap_next(&stream->nodes, &place)) {
        struct stream_id id = idmap_id(&stream->nodes, place);

        CHECK(listpack_is_valid(listpack_bytes(*node_at(stream, place))));
        CHECK(length == 0 || stream_id_compare(last, id) < 0);
        CHECK(node_check(*node_at(stream, place), id, &last, &live) && live > 0);
        length += live;
    }
    CHECK(length == stream->length);
    CHECK(stream_id_compare(stream_last_live_id(stream), stream->last_id) <= 0);
    CHECK(stream->length > 0 || stream_id_is_zero(stream->first_id));
    stream_groups_verify(stream);
}

/* Operations. */

static const char *encoding_name(const struct value *value)
{
    return "stream";
}

static void free_stream(struct value *value)
{
    struct stream *stream = stream_of(value);
    struct idmap_place place;

    for (bool more = idmap_first(&stream->nodes, &place); more; more = idmap_next(&stream->nodes, &place))
        listpack_destroy(*node_at(stream, place));
    idmap_release(&stream->nodes);
    stream_groups_destroy(stream);
    mem_free(stream);
}

static size_t memory(const struct value *value, size_t samples)
{
    const struct stream *stream = stream_of(value);
    size_t memory = mem_size(stream) + idmap_memory(&stream->nodes) + stream_groups_memory(stream), packs = 0, looked_at = 0;
    struct idmap_place place;

    for (bool more = idmap_first(&stream->nodes, &place); more && (samples == 0 || looked_at < samples); more = idmap_next(&stream->nodes, &place)) {
        packs += listpack_memory(*node_at(stream, place));
        looked_at++;
    }
    return memory + (looked_at > 0 ? (size_t)((double)packs / (double)looked_at * (double)stream->nodes.count) : 0);
}

static size_t effort(const struct value *value)
{
    const struct stream *stream = stream_of(value);

    return 1 + stream->nodes.count + idmap_blocks(&stream->nodes) + stream_groups_blocks(stream);
}

static struct value copy(const struct value *value)
{
    const struct stream *from = stream_of(value);
    struct value result = stream_create();
    struct stream *to = stream_of(&result);
    struct idmap_place place;

    *to = *from;
    idmap_copy(&to->nodes, &from->nodes);
    for (bool more = idmap_first(&to->nodes, &place); more; more = idmap_next(&to->nodes, &place))
        *node_at(to, place) = listpack_copy(*node_at(to, place));
    stream_groups_copy(to, from);
    return result;
}

static void append_sized(struct buffer *buffer, struct bytes bytes)
{
    buffer_append(buffer, &bytes.size, sizeof(bytes.size));
    buffer_append_bytes(buffer, bytes);
}

/* Not when consumers were seen: a dump of version 10 has only half of that. */
static void digest_group(const struct stream_group *group, struct value_sum *sum)
{
    struct buffer element = { 0 };
    struct idmap_place place;

    append_sized(&element, group->name);
    buffer_append(&element, &group->last_id, sizeof(group->last_id));
    buffer_append(&element, &group->entries_read, sizeof(group->entries_read));
    value_sum_add_pair(sum, BYTES("group"), buffer_bytes(&element));
    for (uint32_t i = 0; i < group->consumer_count; i++)
        value_sum_add_pair(sum, group->name, group->consumers[i]->name);
    for (bool more = idmap_first(&group->pending, &place); more; more = idmap_next(&group->pending, &place)) {
        struct stream_id id = idmap_id(&group->pending, place);
        const struct stream_pending *pending = idmap_value(&group->pending, place);

        element.size = 0;
        buffer_append(&element, &id, sizeof(id));
        buffer_append(&element, &pending->delivered_ms, sizeof(pending->delivered_ms));
        buffer_append(&element, &pending->deliveries, sizeof(pending->deliveries));
        append_sized(&element, pending->consumer->name);
        value_sum_add_pair(sum, group->name, buffer_bytes(&element));
    }
    buffer_release(&element);
}

static void digest(const struct value *value, struct value_sum *sum)
{
    const struct stream *stream = stream_of(value);
    struct buffer element = { 0 };
    struct stream_iterator iterator;
    struct stream_id id;
    size_t pair_count;

    buffer_append(&element, &stream->entries_added, sizeof(stream->entries_added));
    buffer_append(&element, &stream->last_id, sizeof(stream->last_id));
    buffer_append(&element, &stream->max_deleted_id, sizeof(stream->max_deleted_id));
    value_sum_add_pair(sum, BYTES("stream"), buffer_bytes(&element));
    stream_iterate(&iterator, stream, (struct stream_id){ 0, 0 }, STREAM_ID_MAX, STREAM_UP);
    while (stream_next(&iterator, &id, &pair_count)) {
        element.size = 0;
        buffer_append(&element, &id, sizeof(id));
        for (; pair_count > 0; pair_count--) {
            struct bytes field, data;

            stream_pair(&iterator, &field, &data);
            append_sized(&element, field);
            append_sized(&element, data);
        }
        value_sum_add(sum, buffer_bytes(&element));
    }
    buffer_release(&element);
    for (uint32_t i = 0; i < stream->group_count; i++)
        digest_group(stream->groups[i], sum);
}

const struct value_operations stream_operations = { encoding_name, free_stream, memory, effort, copy, digest };
