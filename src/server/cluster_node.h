/* Cluster node: this server as a node of a cluster: the room cluster, with what it needs of the rest of the server: the directives, the facts of
 * replication, the role.
 *
 * The role changes on a thread of its own ("kelvin-role"): a change waits for units, and is tried again while a full synchronization replaces the data. The
 * bus waits for a take-over, so that this node claims slots as a primary that has applied all it has received; it does not wait for the rest.
 *
 * Locks: the node's is a leaf. No worker waits for the cluster's lock (commands/cluster_call.h), as the bus holds it while units end.
 */
#ifndef KELVIN_SERVER_CLUSTER_NODE_H
#define KELVIN_SERVER_CLUSTER_NODE_H

#include <stdbool.h>

#include "base/message.h"

struct cluster_node;
struct engine;
struct tls_context;

/* With cluster-enabled yes: reads nodes.conf, or makes a new node, and sets engine->redirect and what is the cluster's in engine->replication; a replica's
 * `replicaof` is its primary then. *node is NULL if it is no. After the configuration was applied, before the data is loaded. `hold_tls`: for connections with
 * TLS; NULL: there is no context now. False: `message` says why. */
bool cluster_node_create(struct engine *engine, struct tls_context *(*hold_tls)(void *context), void *context, struct cluster_node **node,
    struct message *message);
/* The data is loaded, ports are open: begins to talk to the others. NULL is fine. */
bool cluster_node_start(struct cluster_node *node, struct message *message);
/* Nothing is asked of the server from then on. Before replication stops; no worker runs. */
void cluster_node_stop(struct cluster_node *node);
void cluster_node_destroy(struct cluster_node *node);       /* the same, and after the threads that use it have ended */

#endif
