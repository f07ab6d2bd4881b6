/* Managed: the topology of a cluster whose nodes do not talk to each other. A controller decides who has which slots and which role, and sends that to each
 * node as a whole, with a version that grows (CLUSTERX of Kvrocks). Functions are events of the bus' state machine (bus.h): a text and a version in, the table of
 * nodes and the outcome out; no clock, no socket, no file.
 *
 *   text = a line for each node: id host port master|slave[,fail] master-id|- slot...       slot = a | a-b, of a master only
 *
 * The table is that of the bus, and so is nodes.conf. members->current_epoch, the config epoch of each primary, is the version; 0: no topology was sent yet.
 * members->last_vote_epoch is the largest election version of a HEARTBEAT. A node that is not in the text is a primary without slots, and keeps its keys.
 * Shards are named after the smallest ID of their nodes, so that all nodes name them alike.
 *
 * A node that was stopped may have an older topology until the controller has looked at it: its lease (engine/role.h) keeps it from serving writes.
 */
#ifndef KELVIN_CLUSTER_MANAGED_H
#define KELVIN_CLUSTER_MANAGED_H

#include "cluster/managed_state.h"

/* CLUSTERX. NULL: done. Otherwise the error, with its code; then nothing has changed. */

const char *managed_set_id(struct bus *bus, const struct node_id *id);
/* The version that is there already changes nothing, and a lower one is an error, but with FORCED, which also ends what migrations have left (managed_move.h). */
enum managed_force { MANAGED_NOT_FORCED, MANAGED_FORCED };
const char *managed_set_nodes(struct bus *bus, struct bytes text, int64_t version, enum managed_force force);
/* The version is the next one. */
const char *managed_set_slots(struct bus *bus, struct slot_range range, const struct node_id *owner, int64_t version);
/* `master` is this node's primary, or this node: then its lease may begin again. */
const char *managed_heartbeat(struct bus *bus, const struct node_id *master, int64_t election);
/* CLUSTER RESET: the version and the election are forgotten, also without HARD, which forgets the ID. */
const char *managed_reset(struct bus *bus, bool is_hard, bool has_keys, int64_t now_ms);

#endif
