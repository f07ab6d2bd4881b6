/* Redirection: the meaning of a topology for the clients of this server: which slots it serves, and the addresses of the nodes that serve the others. */
#ifndef KELVIN_CLUSTER_REDIRECTION_H
#define KELVIN_CLUSTER_REDIRECTION_H

#include "base/buffer.h"
#include "cluster/topology.h"
#include "engine/redirect.h"

/* cluster-preferred-endpoint-type. The order is that of its names in the configuration. */
enum endpoint_type { ENDPOINT_IP, ENDPOINT_HOST_NAME, ENDPOINT_UNKNOWN };

/* All but is_down. */
void redirection_states(const struct topology *topology, struct slot_states *states);

/* Appends "host:port" of the owner of the slot, or of the node to which it moves (`is_move`): with ENDPOINT_UNKNOWN without a host, so that clients take
 * that of their connection; "?" for a host name that is not known. False: there is no such node, or it is this one. */
bool redirection_address(const struct topology *topology, unsigned slot, bool is_move, bool is_tls, enum endpoint_type type, struct buffer *out);

#endif
