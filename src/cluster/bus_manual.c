#include "cluster/bus_private.h"

static bool is_over(const struct bus *bus)
{
    const struct bus_manual *manual = &bus->own->manual;

    return bus->own->now_ms >= manual->until_ms || bus->own->real_ms >= manual->until_real_ms;
}

/* The replica has all that its primary wrote before it held its writes. */
static void look_at_offset(struct bus *bus)
{
    struct bus_manual *manual = &bus->own->manual;

    if (manual->can_start || !manual->knows_offset || bus->facts.offset < manual->primary_offset)
        return;
    manual->can_start = true;
    bus->own->election = (struct bus_election){ 0 };
    bus_log(bus, "Manual failover: this replica has all of its primary's history");
}

void bus_manual_step(struct bus *bus)
{
    if (bus->own->manual.until_ms == 0)
        return;
    if (is_over(bus)) {
        bus_log(bus, "Manual failover timed out");
        bus_end_manual(bus);
        bus->own->election = (struct bus_election){ 0 };
        return;
    }
    if (bus->members->myself->master != NULL)
        look_at_offset(bus);
}

void bus_manual_hear_start(struct bus *bus, struct node *replica)
{
    if (replica->master != bus->members->myself)
        return;
    if (slots_count(&bus->members->handed_over) > 0) {      /* it would serve what another node is just taking over */
        bus_log(bus, "Replica %.40s does not take over now: slots are being handed over to another node", replica->id.text);
        return;
    }
    bus->own->manual = (struct bus_manual){ bus->own->now_ms + BUS_MANUAL_MS, bus->own->real_ms + BUS_MANUAL_MS, replica->id, false, false, 0 };
    bus->hold_writes_until_ms = bus->own->real_ms + BUS_HOLD_MS;
    bus_log(bus, "Manual failover requested by replica %.40s", replica->id.text);
}
