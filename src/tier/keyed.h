/* Keyed: a small hash table of nodes by exact key; for graves and loads, of which there are few at a time.
 *
 * Nodes are embedded in what is kept and point to a copy of the key, which may follow them in memory. Owner: the partition's lock.
 */
#ifndef KELVIN_TIER_KEYED_H
#define KELVIN_TIER_KEYED_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct keyed_node {
    struct keyed_node *next;
    uint64_t hash;
    struct bytes key;           /* owned by the creator of the node */
};

struct keyed {
    struct keyed_node **slots;
    size_t slot_count;          /* power of two, or 0 */
    size_t count;
};

void keyed_init(struct keyed *keyed);
void keyed_release(struct keyed *keyed);    /* the caller frees the nodes */

struct keyed_node *keyed_find(const struct keyed *keyed, uint64_t hash, struct bytes key);
void keyed_add(struct keyed *keyed, struct keyed_node *node);
void keyed_remove(struct keyed *keyed, struct keyed_node *node);
/* Any node, or NULL when there is none: for emptying. `slot` remembers where the search is; begin with 0,
 * also when slot_count has changed. */
struct keyed_node *keyed_any(const struct keyed *keyed, size_t *slot);

#endif
