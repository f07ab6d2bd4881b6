/* Chain: doubly linked lists of keys in arrays; the lists are numbered. */
#ifndef KELVIN_SIMULATE_CHAIN_H
#define KELVIN_SIMULATE_CHAIN_H

#include <stdint.h>

struct chain {
    uint32_t *next, *previous;  /* the keys' links, then those of the lists' heads */
    uint32_t key_count;
};

void chain_init(struct chain *chain, uint32_t key_count, uint32_t list_count);
void chain_release(struct chain *chain);
void chain_append(struct chain *chain, uint32_t list, uint32_t key);       /* the key is in no list */
void chain_remove(struct chain *chain, uint32_t key);
/* The key that was appended first; UINT32_MAX: the list is empty. */
uint32_t chain_first(const struct chain *chain, uint32_t list);

#endif
