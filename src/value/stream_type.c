/* Operations of the type */
#include "value/stream_private.h"

#include "base/buffer.h"
#include "base/mem.h"
#include "value/stream_group.h"
#include "value/type.h"

static const char *stream_encoding_name(const struct value *value)
{
    return "stream";
}

static void stream_free(struct value *value)
{
    struct stream *stream = stream_of(value);

    stream_nodes_release(stream);
    stream_groups_destroy(stream);
    mem_free(value->object);
}

/* For one in pages: what is with the root. */
static size_t stream_memory(const struct value *value, size_t samples)
{
    const struct stream *stream = stream_of(value);
    size_t memory = mem_size(value->object) + stream_groups_memory(stream), packs = 0, looked_at = 0;
    struct idmap_place place;

    if (stream->pages != NULL && stream->pages->tree.top.data != NULL)
        memory += mem_size(stream->pages->tree.top.data);
    memory += idmap_memory(&stream->nodes);
    for (bool more = idmap_first(&stream->nodes, &place); more && (samples == 0 || looked_at < samples); more = idmap_next(&stream->nodes, &place)) {
        packs += listpack_memory(*(struct listpack **)idmap_value(&stream->nodes, place));
        looked_at++;
    }
    return memory + (looked_at > 0 ? (size_t)((double)packs / (double)looked_at * (double)stream->nodes.count) : 0);
}

static size_t stream_free_effort(const struct value *value)
{
    const struct stream *stream = stream_of(value);

    return 1 + stream->nodes.count + idmap_blocks(&stream->nodes) + stream_groups_blocks(stream);
}

/* A value that leaves its database is whole. */
static struct value stream_copy(const struct value *value)
{
    const struct stream *from = stream_of(value);
    struct value result = stream_create();
    struct stream *to = stream_of(&result);
    struct idmap nodes = to->nodes;

    *to = *from;
    to->nodes = nodes;
    to->pages = NULL;
    stream_nodes_copy(to, from);
    stream_groups_copy(to, from);
    return result;
}

static void append_sized(struct buffer *buffer, struct bytes bytes)
{
    buffer_append(buffer, &bytes.size, sizeof(bytes.size));
    buffer_append_bytes(buffer, bytes);
}

/* Without the times at which consumers were seen: a dump of version 10 contains only one of the two. */
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

static void stream_digest(const struct value *value, struct value_sum *sum)
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

const struct value_operations stream_operations = {
    .encoding_name = stream_encoding_name,
    .free = stream_free,
    .memory = stream_memory,
    .free_effort = stream_free_effort,
    .copy = stream_copy,
    .digest = stream_digest,
};
