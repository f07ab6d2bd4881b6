/* Managed state: whether a node with a controller (managed.h) has a topology, and whether the cluster is ok by it. */
#ifndef KELVIN_CLUSTER_MANAGED_STATE_H
#define KELVIN_CLUSTER_MANAGED_STATE_H

#include "cluster/bus.h"

extern const char managed_not_initialized[];        /* an error: no topology was sent yet */

static inline bool managed_is_initialized(const struct bus *bus) { return bus->members->current_epoch > 0; }

/* After bus_create, and after the options or the owners of slots have changed: whether the cluster is ok. */
void managed_refresh(struct bus *bus);

#endif
