/* Moved slots: slots that a migration has given to another shard than the controller's topology says (cluster/managed_move.h), until a topology says so.
 * Owner: the caller.
 */
#ifndef KELVIN_CLUSTER_MOVED_SLOTS_H
#define KELVIN_CLUSTER_MOVED_SLOTS_H

#include "base/buffer.h"
#include "cluster/node_id.h"
#include "cluster/slots.h"

/* The slots that went from one node, the owner by the topology, to another one. */
struct moved_set {
    struct node_id from, to;
    struct slots slots;
};

/* Zeroed: none. No slot is in two sets, no set is empty, and each has another pair of nodes. */
struct moved_slots {
    struct moved_set *all;
    unsigned count;
};

void moved_slots_release(struct moved_slots *moved);
void moved_slots_copy(struct moved_slots *to, const struct moved_slots *from);         /* replaces `to` */

/* In place of another set. */
void moved_slots_add(struct moved_slots *moved, unsigned slot, const struct node_id *from, const struct node_id *to);
void moved_slots_remove(struct moved_slots *moved, unsigned slot);                     /* also if it is in none */
/* NULL: it is in none. */
const struct moved_set *moved_slots_find(const struct moved_slots *moved, unsigned slot);
bool moved_slots_overlap(const struct moved_slots *moved, const struct slots *slots);

/* A set as text: "from:to:0-99,200". moved_slots_read adds; false: it is no such text. */
void moved_set_write(const struct moved_set *set, struct buffer *out);
bool moved_slots_read(struct moved_slots *moved, struct bytes text);

#endif
