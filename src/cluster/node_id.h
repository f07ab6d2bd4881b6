/* Node ID: the name of a node of a cluster, or of a shard: 40 letters and digits, without a NUL. Redis makes them of random hexadecimal
 * digits, and the Kvrocks controller of all letters, also in upper case. All zero means none.
 */
#ifndef KELVIN_CLUSTER_NODE_ID_H
#define KELVIN_CLUSTER_NODE_ID_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/random.h"

enum { NODE_ID_SIZE = 40 };

struct node_id {
    char text[NODE_ID_SIZE];
};

/* False: it is no ID. */
bool node_id_read(struct bytes text, struct node_id *id);

void node_id_make(struct random *random, struct node_id *id);          /* hexadecimal digits */
bool node_id_is_none(const struct node_id *id);

/* As bytes: the order that decides between two primaries with the same epoch. */
static inline int node_id_compare(const struct node_id *a, const struct node_id *b)
{
    return memcmp(a->text, b->text, NODE_ID_SIZE);
}

static inline bool node_id_equal(const struct node_id *a, const struct node_id *b)
{
    return node_id_compare(a, b) == 0;
}

static inline struct bytes node_id_bytes(const struct node_id *id)
{
    return bytes_of(id->text, NODE_ID_SIZE);
}

#endif
