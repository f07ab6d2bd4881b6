#include <string.h>

#include "cluster/bus_private.h"
#include "cluster/suspect.h"

enum { START_MS = 2000, REJOIN_MS_MIN = 500, REJOIN_MS_MAX = 5000 };

void bus_role_follow(struct bus *bus, struct node *master)
{
    members_set_master(bus->members, bus->members->myself, master);
    bus_end_manual(bus);
    bus_end_migrations(bus);
    bus->own->election = (struct bus_election){ 0 };
    bus->own->followed = (struct node_id){ { 0 } };             /* reported at the end of the event */
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
    bus_log(bus, "This node follows %.40s", master->id.text);
}

void bus_role_take_over(struct bus *bus)
{
    struct members *members = bus->members;
    struct node *master = members->myself->master;
    struct slots slots = master->slots;
    struct slot_range range;

    members_set_primary(members, members->myself);
    for (unsigned at = 0; slots_next(&slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++)
            members_bind(members, slot, members->myself);
    }
    bus->outcome.role = BUS_ROLE_LEAD;
    bus_note(bus, BUS_CHANGE_PROMISE | BUS_CHANGE_MAP);
    bus_role_update_state(bus);
    bus_gossip_pong_to_all(bus);
    bus_end_manual(bus);
    bus->own->election = (struct bus_election){ 0 };
    bus_log(bus, "This node is the primary of its shard in epoch %llu", (unsigned long long)members->myself->config_epoch);
}

enum claim_following bus_role_following(const struct bus *bus)
{
    return bus->options.allows_replica_migration ? CLAIM_FOLLOW_ANY : CLAIM_FOLLOW_SHARD;
}

void bus_role_apply_claim(struct bus *bus, const struct claim_outcome *outcome)
{
    if (outcome->has_changed)
        bus_note(bus, BUS_CHANGE_PROMISE | BUS_CHANGE_MAP);     /* who forgets it could vote for, or be, a replica of the old owner, without these slots' keys */
    slots_add_all(&bus->outcome.lost, &outcome->lost);
    if (outcome->new_master != NULL)
        bus_role_follow(bus, outcome->new_master);
}

void bus_role_report_master(struct bus *bus)
{
    struct bus_private *own = bus->own;
    const struct node *master = bus->members->myself->master;

    if (master == NULL || master->ip[0] == '\0' || (master->port == 0 && master->tls_port == 0))
        return;
    if (node_id_equal(&own->followed, &master->id) && strcmp(own->followed_ip, master->ip) == 0 && own->followed_port == master->port &&
        own->followed_tls_port == master->tls_port)
        return;
    own->followed = master->id;
    memcpy(own->followed_ip, master->ip, NODE_IP_SIZE);
    own->followed_port = master->port;
    own->followed_tls_port = master->tls_port;
    bus->outcome.role = BUS_ROLE_FOLLOW;
}

static int64_t rejoin_ms(const struct bus *bus)
{
    int64_t timeout_ms = bus->options.timeout_ms;

    return timeout_ms < REJOIN_MS_MIN ? REJOIN_MS_MIN : timeout_ms > REJOIN_MS_MAX ? REJOIN_MS_MAX : timeout_ms;
}

/* A primary that was cut off or has just started may have been replaced: it waits until it would have heard so. */
static bool may_be_ok(const struct bus *bus)
{
    const struct bus_private *own = bus->own;

    if (!(bus->members->myself->flags & NODE_MASTER))
        return true;
    return !bus_is_silent(bus) && own->started_ms != 0 && own->now_ms - own->started_ms >= START_MS &&
           (own->minority_ms == 0 || own->now_ms - own->minority_ms >= rejoin_ms(bus));
}

void bus_role_update_state(struct bus *bus)
{
    bool is_ok = !bus->options.requires_full_coverage || claim_covers_all(bus->members);

    bus->own->state_is_stale = false;
    if (suspect_is_minority(bus->members)) {
        is_ok = false;
        if (members_voters(bus->members) > 0)       /* nothing can be replaced in a cluster without slots */
            bus->own->minority_ms = bus->own->now_ms;
    }
    if (is_ok == bus->is_ok || (is_ok && !may_be_ok(bus)))
        return;
    bus->is_ok = is_ok;
    bus->outcome.topology_changed = true;
    bus_log(bus, "Cluster state changed: %s", is_ok ? "ok" : "fail");
}
