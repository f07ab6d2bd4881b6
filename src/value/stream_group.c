#include "value/stream_group.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

/* The index of a name among `count` pointers to structs whose first field is their name, in order; or where it would be inserted. */
static bool name_find(void *const *named, uint32_t count, struct bytes name, uint32_t *index)
{
    uint32_t low = 0, high = count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = bytes_compare(*(const struct bytes *)named[middle], name);

        if (order == 0) {
            *index = middle;
            return true;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *index = low;
    return false;
}

/* Inserts a pointer at `index`; the array may move. */
static void *named_insert(void *array, uint32_t *count, uint32_t *room, uint32_t index, void *item)
{
    void **items = array;

    if (*count == *room) {
        *room += *room / 2 + 1;
        items = mem_realloc(items, *room * sizeof(void *));
    }
    memmove(items + index + 1, items + index, (*count - index) * sizeof(void *));
    items[index] = item;
    ++*count;
    return items;
}

static void named_remove(void *array, uint32_t *count, uint32_t index)
{
    void **items = array;

    --*count;
    memmove(items + index, items + index + 1, (*count - index) * sizeof(void *));
}

/* A struct of `size` bytes, all zero, followed by a name. */
static void *named_alloc(size_t size, struct bytes name)
{
    char *item = mem_zalloc(size + name.size);

    if (name.size > 0)
        memcpy(item + size, name.data, name.size);
    *(struct bytes *)item = bytes_of(item + size, name.size);
    return item;
}

/* Groups */

struct stream_group *stream_group_find(const struct stream *stream, struct bytes name)
{
    uint32_t index;

    return name_find((void *const *)stream->groups, stream->group_count, name, &index) ? stream->groups[index] : NULL;
}

struct stream_group *stream_group_create(struct stream *stream, struct bytes name, struct stream_id last_id, int64_t entries_read)
{
    struct stream_group *group;
    uint32_t index;

    if (name_find((void *const *)stream->groups, stream->group_count, name, &index))
        return NULL;
    group = named_alloc(sizeof(*group), name);
    group->last_id = last_id;
    group->entries_read = entries_read;
    group->oldest_ms = INT64_MAX;
    idmap_init(&group->pending, sizeof(struct stream_pending));
    stream->groups = named_insert(stream->groups, &stream->group_count, &stream->group_room, index, group);
    return group;
}

static void consumer_free(struct stream_consumer *consumer)
{
    idmap_release(&consumer->pending);
    mem_free(consumer);
}

static void group_free(struct stream_group *group)
{
    for (uint32_t i = 0; i < group->consumer_count; i++)
        consumer_free(group->consumers[i]);
    mem_free(group->consumers);
    idmap_release(&group->pending);
    mem_free(group);
}

bool stream_group_destroy(struct stream *stream, struct bytes name)
{
    uint32_t index;

    if (!name_find((void *const *)stream->groups, stream->group_count, name, &index))
        return false;
    group_free(stream->groups[index]);
    named_remove(stream->groups, &stream->group_count, index);
    return true;
}

void stream_groups_destroy(struct stream *stream)
{
    for (uint32_t i = 0; i < stream->group_count; i++)
        group_free(stream->groups[i]);
    mem_free(stream->groups);
}

/* Consumers */

struct stream_consumer *stream_consumer_find(const struct stream_group *group, struct bytes name)
{
    uint32_t index;

    return name_find((void *const *)group->consumers, group->consumer_count, name, &index) ? group->consumers[index] : NULL;
}

struct stream_consumer *stream_consumer_create(struct stream_group *group, struct bytes name, int64_t now_ms)
{
    struct stream_consumer *consumer;
    uint32_t index;

    if (name_find((void *const *)group->consumers, group->consumer_count, name, &index))
        return NULL;
    consumer = named_alloc(sizeof(*consumer), name);
    consumer->seen_ms = now_ms;
    consumer->active_ms = -1;
    idmap_init(&consumer->pending, 0);
    group->consumers = named_insert(group->consumers, &group->consumer_count, &group->consumer_room, index, consumer);
    return consumer;
}

void stream_consumer_destroy(struct stream_group *group, struct stream_consumer *consumer)
{
    struct idmap_place place;
    uint32_t index;

    for (bool more = idmap_first(&consumer->pending, &place); more; more = idmap_next(&consumer->pending, &place))
        CHECK(idmap_remove(&group->pending, idmap_id(&consumer->pending, place)));
    CHECK(name_find((void *const *)group->consumers, group->consumer_count, consumer->name, &index));
    named_remove(group->consumers, &group->consumer_count, index);
    consumer_free(consumer);
}

/* Pending entries */

struct stream_pending *stream_pending_assign(struct stream_group *group, struct stream_id id, struct stream_consumer *consumer,
    int64_t delivered_ms)
{
    bool is_new;
    struct stream_pending *pending = idmap_put(&group->pending, id, &is_new);

    pending->delivered_ms = delivered_ms;
    if (delivered_ms < group->oldest_ms)
        group->oldest_ms = delivered_ms;
    if (pending->consumer == consumer)
        return pending;
    if (!is_new)
        CHECK(idmap_remove(&pending->consumer->pending, id));
    pending->consumer = consumer;
    idmap_put(&consumer->pending, id, &is_new);
    CHECK(is_new);
    return pending;
}

bool stream_pending_remove(struct stream_group *group, struct stream_id id)
{
    struct stream_pending *pending = idmap_find(&group->pending, id);

    if (pending == NULL)
        return false;
    CHECK(idmap_remove(&pending->consumer->pending, id));
    return idmap_remove(&group->pending, id);
}

/* How far a group has read. A deleted entry at or after an ID makes counting from there uncertain, unless it was before
 * all existing ones */

static bool has_deleted_from(const struct stream *stream, struct stream_id start)
{
    return stream->length > 0 && stream_id_compare(stream->first_id, stream->max_deleted_id) <= 0 &&
        stream_id_compare(start, stream->max_deleted_id) <= 0;
}

int64_t stream_entries_up_to(const struct stream *stream, struct stream_id id)
{
    int order;

    if (stream->entries_added == 0)
        return 0;
    order = stream_id_compare(id, stream->last_id);
    if (stream->length == 0 && order <= 0)
        return (int64_t)stream->entries_added;
    if (order == 0)
        return (int64_t)stream->entries_added;
    if (order > 0)
        return STREAM_ENTRIES_READ_UNKNOWN;
    /* No existing entry was deleted in between: all that is missing is missing at the front. */
    if (stream_id_is_zero(stream->max_deleted_id) || stream_id_compare(stream->max_deleted_id, stream->first_id) < 0) {
        order = stream_id_compare(id, stream->first_id);
        if (order <= 0)
            return (int64_t)(stream->entries_added - stream->length + (order == 0));
    }
    return STREAM_ENTRIES_READ_UNKNOWN;
}

bool stream_group_lag(const struct stream *stream, const struct stream_group *group, int64_t *lag)
{
    int64_t read = group->entries_read;

    *lag = 0;
    if (stream->entries_added == 0)
        return true;
    if (read == STREAM_ENTRIES_READ_UNKNOWN || has_deleted_from(stream, group->last_id))
        read = stream_entries_up_to(stream, group->last_id);
    *lag = (int64_t)(stream->entries_added - (uint64_t)read);
    return read != STREAM_ENTRIES_READ_UNKNOWN;
}

void stream_group_advance(const struct stream *stream, struct stream_group *group, struct stream_id id)
{
    if (stream_id_compare(id, group->last_id) <= 0)
        return;
    if (group->entries_read != STREAM_ENTRIES_READ_UNKNOWN && !has_deleted_from(stream, id))
        group->entries_read = (int64_t)((uint64_t)group->entries_read + 1);     /* unsigned: ENTRIESREAD may have set the largest number */
    else if (stream->entries_added > 0)
        group->entries_read = stream_entries_up_to(stream, id);
    group->last_id = id;
}

/* All groups of a stream */

static void group_copy(struct stream *to, const struct stream_group *from)
{
    struct stream_group *group = stream_group_create(to, from->name, from->last_id, from->entries_read);
    struct idmap_place place;

    group->oldest_ms = from->oldest_ms;
    idmap_copy(&group->pending, &from->pending);
    for (uint32_t i = 0; i < from->consumer_count; i++) {
        const struct stream_consumer *old = from->consumers[i];
        struct stream_consumer *consumer = stream_consumer_create(group, old->name, old->seen_ms);

        consumer->active_ms = old->active_ms;
        idmap_copy(&consumer->pending, &old->pending);
        for (bool more = idmap_first(&consumer->pending, &place); more; more = idmap_next(&consumer->pending, &place)) {
            struct stream_pending *pending = idmap_find(&group->pending, idmap_id(&consumer->pending, place));

            pending->consumer = consumer;
        }
    }
}

void stream_groups_copy(struct stream *to, const struct stream *from)
{
    to->groups = NULL;
    to->group_count = to->group_room = 0;
    for (uint32_t i = 0; i < from->group_count; i++)
        group_copy(to, from->groups[i]);
}

size_t stream_groups_memory(const struct stream *stream)
{
    size_t memory = stream->groups != NULL ? mem_size(stream->groups) : 0;

    for (uint32_t i = 0; i < stream->group_count; i++) {
        const struct stream_group *group = stream->groups[i];

        memory += mem_size(group) + idmap_memory(&group->pending) + (group->consumers != NULL ? mem_size(group->consumers) : 0);
        for (uint32_t j = 0; j < group->consumer_count; j++)
            memory += mem_size(group->consumers[j]) + idmap_memory(&group->consumers[j]->pending);
    }
    return memory;
}

size_t stream_groups_blocks(const struct stream *stream)
{
    size_t blocks = stream->group_count > 0;

    for (uint32_t i = 0; i < stream->group_count; i++) {
        const struct stream_group *group = stream->groups[i];

        blocks += 2 + idmap_blocks(&group->pending) + group->consumer_count;
        for (uint32_t j = 0; j < group->consumer_count; j++)
            blocks += idmap_blocks(&group->consumers[j]->pending);
    }
    return blocks;
}

void stream_groups_verify(const struct stream *stream)
{
    for (uint32_t i = 0; i < stream->group_count; i++) {
        const struct stream_group *group = stream->groups[i];
        size_t count = 0;

        CHECK(i == 0 || bytes_compare(stream->groups[i - 1]->name, group->name) < 0);
        idmap_verify(&group->pending);
        for (uint32_t j = 0; j < group->consumer_count; j++) {
            struct stream_consumer *consumer = group->consumers[j];
            struct idmap_place place;

            CHECK(j == 0 || bytes_compare(group->consumers[j - 1]->name, consumer->name) < 0);
            idmap_verify(&consumer->pending);
            count += consumer->pending.count;
            for (bool more = idmap_first(&consumer->pending, &place); more; more = idmap_next(&consumer->pending, &place)) {
                const struct stream_pending *pending = idmap_find(&group->pending, idmap_id(&consumer->pending, place));

                CHECK(pending != NULL && pending->consumer == consumer && pending->delivered_ms >= group->oldest_ms);
            }
        }
        CHECK(count == group->pending.count);
    }
}
