#include "tier/keyed.h"

#include "base/check.h"
#include "base/mem.h"

enum { SLOTS_MIN = 8 };

void keyed_init(struct keyed *keyed)
{
    *keyed = (struct keyed){ 0 };
}

void keyed_release(struct keyed *keyed)
{
    mem_free(keyed->slots);
    keyed_init(keyed);
}

static struct keyed_node **slot_of(const struct keyed *keyed, uint64_t hash)
{
    return &keyed->slots[hash & (keyed->slot_count - 1)];
}

static void resize_slots(struct keyed *keyed, size_t slot_count)
{
    struct keyed old = *keyed;

    keyed->slot_count = slot_count;
    keyed->slots = slot_count > 0 ? mem_zalloc(slot_count * sizeof(struct keyed_node *)) : NULL;
    for (size_t i = 0; i < old.slot_count; i++) {
        while (old.slots[i] != NULL) {
            struct keyed_node *node = old.slots[i], **slot = slot_of(keyed, node->hash);

            old.slots[i] = node->next;
            node->next = *slot;
            *slot = node;
        }
    }
    mem_free(old.slots);
}

struct keyed_node *keyed_find(const struct keyed *keyed, uint64_t hash, struct bytes key)
{
    struct keyed_node *node;

    if (keyed->count == 0)
        return NULL;
    for (node = *slot_of(keyed, hash); node != NULL; node = node->next) {
        if (node->hash == hash && bytes_equal(node->key, key))
            return node;
    }
    return NULL;
}

void keyed_add(struct keyed *keyed, struct keyed_node *node)
{
    struct keyed_node **slot;

    if (keyed->count >= keyed->slot_count)
        resize_slots(keyed, keyed->slot_count > 0 ? keyed->slot_count * 2 : SLOTS_MIN);
    slot = slot_of(keyed, node->hash);
    node->next = *slot;
    *slot = node;
    keyed->count++;
}

void keyed_remove(struct keyed *keyed, struct keyed_node *node)
{
    struct keyed_node **link = slot_of(keyed, node->hash);

    while (*link != node) {
        CHECK(*link != NULL);
        link = &(*link)->next;
    }
    *link = node->next;
    keyed->count--;
    if (keyed->slot_count > SLOTS_MIN && keyed->count < keyed->slot_count / 8)
        resize_slots(keyed, keyed->slot_count / 4);
    else if (keyed->count == 0)
        resize_slots(keyed, 0);
}

struct keyed_node *keyed_any(const struct keyed *keyed, size_t *slot)
{
    for (; *slot < keyed->slot_count; ++*slot) {
        if (keyed->slots[*slot] != NULL)
            return keyed->slots[*slot];
    }
    return NULL;
}
