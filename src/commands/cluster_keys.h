/* Cluster keys: whether there are keys, for commands that change the cluster. On a job's thread, with the cluster locked, once a command. False: an error is
 * the reply. Nothing can be written there from now on until what the command changes can be seen, so the change may not be one that waits for units: of
 * outcomes (cluster/bus.h), BUS_ROLE_LEAD does. */
#ifndef KELVIN_COMMANDS_CLUSTER_KEYS_H
#define KELVIN_COMMANDS_CLUSTER_KEYS_H

#include "commands/cluster_call.h"

/* In any database. */
bool cluster_keys_has_any(struct cluster_call *asked, struct engine *engine, const struct bus *bus, bool *has_keys);
bool cluster_keys_has_in_slot(struct cluster_call *asked, struct engine *engine, const struct bus *bus, uint16_t slot, bool *has_keys);

#endif
