#include "cluster/moved_slots.h"

#include <string.h>

#include "base/mem.h"

void moved_slots_release(struct moved_slots *moved)
{
    mem_free(moved->all);
    *moved = (struct moved_slots){ NULL, 0 };
}

void moved_slots_copy(struct moved_slots *to, const struct moved_slots *from)
{
    struct moved_slots copy = { NULL, from->count };

    if (from->count > 0) {
        copy.all = mem_alloc(from->count * sizeof(*copy.all));
        memcpy(copy.all, from->all, from->count * sizeof(*copy.all));
    }
    moved_slots_release(to);
    *to = copy;
}

static struct moved_set *set_of(struct moved_slots *moved, const struct node_id *from, const struct node_id *to)
{
    for (unsigned i = 0; i < moved->count; i++) {
        if (node_id_equal(&moved->all[i].from, from) && node_id_equal(&moved->all[i].to, to))
            return &moved->all[i];
    }
    moved->all = mem_realloc(moved->all, (moved->count + 1) * sizeof(*moved->all));
    moved->all[moved->count] = (struct moved_set){ .from = *from, .to = *to };
    return &moved->all[moved->count++];
}

void moved_slots_add(struct moved_slots *moved, unsigned slot, const struct node_id *from, const struct node_id *to)
{
    moved_slots_remove(moved, slot);
    slots_add(&set_of(moved, from, to)->slots, slot);
}

void moved_slots_remove(struct moved_slots *moved, unsigned slot)
{
    for (unsigned i = 0; i < moved->count; i++) {
        struct moved_set *set = &moved->all[i];

        if (!slots_has(&set->slots, slot))
            continue;
        slots_remove(&set->slots, slot);
        if (slots_count(&set->slots) == 0)
            *set = moved->all[--moved->count];
        return;
    }
}

const struct moved_set *moved_slots_find(const struct moved_slots *moved, unsigned slot)
{
    for (unsigned i = 0; i < moved->count; i++) {
        if (slots_has(&moved->all[i].slots, slot))
            return &moved->all[i];
    }
    return NULL;
}

bool moved_slots_overlap(const struct moved_slots *moved, const struct slots *slots)
{
    for (unsigned i = 0; i < moved->count; i++) {
        if (slots_overlap(&moved->all[i].slots, slots))
            return true;
    }
    return false;
}

void moved_set_write(const struct moved_set *set, struct buffer *out)
{
    buffer_append_format(out, "%.40s:%.40s:", set->from.text, set->to.text);
    slots_write(&set->slots, out);
}

bool moved_slots_read(struct moved_slots *moved, struct bytes text)
{
    enum { SLOTS_AT = 2 * (NODE_ID_SIZE + 1) };
    struct slots slots = { { 0 } };
    struct node_id from, to;
    struct slot_range range;

    if (text.size <= SLOTS_AT || text.data[NODE_ID_SIZE] != ':' || text.data[SLOTS_AT - 1] != ':' || !node_id_read(bytes_of(text.data, NODE_ID_SIZE), &from) ||
        !node_id_read(bytes_of(text.data + NODE_ID_SIZE + 1, NODE_ID_SIZE), &to) || !slots_read(bytes_of(text.data + SLOTS_AT, text.size - SLOTS_AT), &slots))
        return false;
    for (unsigned at = 0; slots_next(&slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++)
            moved_slots_add(moved, slot, &from, &to);
    }
    return true;
}
