#include "cluster/managed_state.h"

#include "cluster/bus_private.h"
#include "cluster/claim.h"

const char managed_not_initialized[] = "CLUSTERDOWN The cluster is not initialized";

void managed_refresh(struct bus *bus)
{
    const struct members *members = bus->members;
    bool is_ok = managed_is_initialized(bus) && (!bus->options.requires_full_coverage || claim_covers_all(members));

    for (unsigned i = 0; i < members->count; i++)
        members->all[i]->is_connected = true;           /* as far as this node can know */
    if (is_ok != bus->is_ok)
        bus_log(bus, "Cluster state changed: %s", is_ok ? "ok" : "fail");
    bus->outcome.topology_changed |= is_ok != bus->is_ok;
    bus->is_ok = is_ok;
}
