/* Managed view: a node whose controller is the test (cluster/managed.h). Letters stand for IDs, as in cluster_view. */
#ifndef KELVIN_TESTS_MANAGED_VIEW_H
#define KELVIN_TESTS_MANAGED_VIEW_H

#include "cluster/managed.h"

/* The node of this letter, without a topology. */
struct bus *managed_view_bus(char letter);
/* A node after a start: its nodes.conf. */
struct bus *managed_view_bus_of(struct bytes text);
/* The same: of what it would have saved. Replaces it. */
void managed_view_restart(struct bus **bus);

/* CLUSTERX SETNODES of lines such as "a 7000 master - 0-99\nb 7001 slave a\n". Returns the error. */
const char *managed_view_set(struct bus *bus, const char *lines, int64_t version, enum managed_force force);
/* It is done, and to be saved before anything else. */
void managed_view_accept(struct bus *bus, const char *lines, int64_t version);

#endif
