/* Managed move: slots that go with their keys from one node to another, while a controller says who has which (managed.h). The keys go as with the bus
 * (slot_export.h); who has the slots is known to the two nodes first, and to the others with a later topology:
 *
 *   the node that has the slots                       the other one
 *   handed over: writes to them wait                  received (bus.h)
 *   "may be taken": saved, and on its replicas
 *                             TAKE, in the same version of the topology ->
 *                                                     moved, and its own: saved, then served
 *   moved, and the other one's: saved; MOVED
 *                             <- topology: they are the other one's ->
 *   not moved                                         not moved
 *
 * What has moved is laid over each topology that still gives the slots to the shard that had them: the controller does not know of it yet. One that gives them to
 * another shard, or that is forced, is the last word. Nodes that fail over are followed: the shard counts, not the node.
 *
 * It goes to the replicas as text in the stream, so that the one that the controller promotes goes on with it. Until the outcome is known, a primary serves no slot that may have been
 * taken, and asks.
 */
#ifndef KELVIN_CLUSTER_MANAGED_MOVE_H
#define KELVIN_CLUSTER_MANAGED_MOVE_H

#include "cluster/bus.h"

/* Ends a receipt whose sender says nothing. At any event. */
void managed_step(struct bus *bus, int64_t now_ms);

/* --- The node that receives. NULL: done. Otherwise the error, with its code; then nothing has changed. */

/* For managed_untake. */
struct managed_taken {
    struct slots slots;                 /* empty: they were taken before */
    struct node_id from;
    uint64_t receipt, taken_before;
};
/* The slots are this node's, which the caller saves before anything else, or undoes. `version`: of the sender's topology. */
const char *managed_take(struct bus *bus, uint64_t receipt, uint64_t version, int64_t now_ms, struct managed_taken *undo);
void managed_untake(struct bus *bus, const struct managed_taken *undo);
/* Whether the slots of the receipt, of which `slot` is one, were taken; if not, they will not be: it ends. `asker`: a node that has them otherwise. */
const char *managed_end_receipt(struct bus *bus, uint64_t receipt, unsigned slot, const struct node_id *asker, int64_t now_ms, bool *was_taken);

/* --- The node that sends */

/* NULL: it may migrate these slots to that node; otherwise the error, as Kvrocks words it. */
const char *managed_may_migrate(struct bus *bus, const struct slots *slots, const struct node_id *to);
/* After it was taken. */
void managed_end_hand_over(struct bus *bus);

/* --- The topology */

/* From the present table to `next`, which has the owners that the topology says, for bus->members to be replaced by it. `is_member`: the topology has this node. `named`: slots
 * for which it is the last word. Keys that are received no more are lost. */
void managed_carry(struct bus *bus, struct members *next, bool is_member, const struct slots *named);
/* Gives what has moved back to the owners by the topology, in a copy of the present table. */
void managed_undo_moves(struct members *members);

/* This node has become the primary of a shard: keys of what has moved from there may be left. */
void managed_lose_moved(struct bus *bus);

/* --- The stream: members_write_moves of the primary, whose topology may be later than this node's */

/* False: it is no such text. */
bool managed_hear_moves(struct bus *bus, struct bytes text);

#endif
