/* Nodes: the table from ids to nodes. Segments of equal size, so that it grows without being copied; only the first
 * starts small.
 */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "containers/btree_private.h"

void nodes_init(struct nodes *nodes)
{
    *nodes = (struct nodes){ .segments = mem_alloc(sizeof(nodes->segments[0])), .segment_count = 1, .capacity = NODES_FIRST,
                             .used = 1 };
    nodes->segments[0] = mem_zalloc(NODES_FIRST * sizeof(void *));
}

void nodes_release(struct nodes *nodes)
{
    for (uint32_t i = 0; i < nodes->segment_count; i++)
        mem_free(nodes->segments[i]);
    mem_free(nodes->segments);
}

void nodes_copy(struct nodes *to, const struct nodes *from)
{
    uint32_t room = 1;

    *to = *from;
    while (room < from->segment_count)
        room *= 2;
    to->segments = mem_alloc(room * sizeof(to->segments[0]));
    for (uint32_t i = 0; i < from->segment_count; i++) {
        size_t size = (from->capacity < NODES_SEGMENT ? from->capacity : NODES_SEGMENT) * sizeof(void *);

        to->segments[i] = mem_alloc(size);
        memcpy(to->segments[i], from->segments[i], size);
    }
}

static void grow_segments(struct nodes *nodes)
{
    if (nodes->capacity < NODES_SEGMENT) {
        nodes->capacity *= 2;
        nodes->segments[0] = mem_realloc(nodes->segments[0], nodes->capacity * sizeof(void *));
        return;
    }
    if ((nodes->segment_count & (nodes->segment_count - 1)) == 0)
        nodes->segments = mem_realloc(nodes->segments, 2 * nodes->segment_count * sizeof(nodes->segments[0]));
    nodes->segments[nodes->segment_count++] = mem_alloc(NODES_SEGMENT * sizeof(void *));
    nodes->capacity += NODES_SEGMENT;
}

uint32_t nodes_add(struct nodes *nodes, void *node)
{
    void **unused = nodes_slot(nodes, 0);
    uint32_t id = (uint32_t)(uintptr_t)*unused;

    nodes->live++;
    if (id != 0) {
        *unused = *nodes_slot(nodes, id);
    } else {
        if (nodes->used == nodes->capacity)
            grow_segments(nodes);
        id = nodes->used++;
        CHECK(id <= NODE_ID_MAX);
    }
    *nodes_slot(nodes, id) = node;
    return id;
}

void nodes_remove(struct nodes *nodes, uint32_t id)
{
    void **unused = nodes_slot(nodes, 0);

    nodes->live--;
    *nodes_slot(nodes, id) = *unused;
    *unused = (void *)(uintptr_t)id;
}

size_t nodes_memory(const struct nodes *nodes)
{
    return mem_size(nodes->segments) + mem_size(nodes->segments[0]) +
        (nodes->segment_count > 1 ? (nodes->segment_count - 1) * mem_size(nodes->segments[1]) : 0);
}
