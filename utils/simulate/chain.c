#include "chain.h"

#include "base/mem.h"

void chain_init(struct chain *chain, uint32_t key_count, uint32_t list_count)
{
    uint64_t size = (uint64_t)key_count + list_count;

    chain->key_count = key_count;
    chain->next = mem_alloc(size * sizeof(*chain->next));
    chain->previous = mem_alloc(size * sizeof(*chain->previous));
    for (uint32_t head = key_count; head < size; head++)
        chain->next[head] = chain->previous[head] = head;
}

void chain_release(struct chain *chain)
{
    mem_free(chain->next);
    mem_free(chain->previous);
}

void chain_append(struct chain *chain, uint32_t list, uint32_t key)
{
    uint32_t head = chain->key_count + list, last = chain->previous[head];

    chain->next[last] = key;
    chain->previous[key] = last;
    chain->next[key] = head;
    chain->previous[head] = key;
}

void chain_remove(struct chain *chain, uint32_t key)
{
    chain->next[chain->previous[key]] = chain->next[key];
    chain->previous[chain->next[key]] = chain->previous[key];
}

uint32_t chain_first(const struct chain *chain, uint32_t list)
{
    uint32_t first = chain->next[chain->key_count + list];

    return first < chain->key_count ? first : UINT32_MAX;
}
