/* Cluster keys: whether there are keys, for commands that change the cluster. On a job's thread. False: an error is the reply. */
#ifndef KELVIN_COMMANDS_CLUSTER_KEYS_H
#define KELVIN_COMMANDS_CLUSTER_KEYS_H

#include "commands/cluster_call.h"

/* In any database. */
bool cluster_keys_has_any(struct cluster_call *asked, struct engine *engine, bool *has_keys);
/* Nothing can be written to the slot from now on until what the command changes can be seen. */
bool cluster_keys_has_in_slot(struct cluster_call *asked, struct engine *engine, uint16_t slot, bool *has_keys);

#endif
