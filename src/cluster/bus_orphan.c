#include "cluster/bus_private.h"

enum { ORPHANED_MS = 5000 };

static bool works(const struct node *node)
{
    return !(node->flags & (NODE_FAIL | NODE_PFAIL));
}

static void count_working_replicas(struct members *members)
{
    for (unsigned i = 0; i < members->count; i++)
        members->all[i]->peer.working_replicas = 0;
    for (unsigned i = 0; i < members->count; i++) {
        if (members->all[i]->master != NULL && works(members->all[i]))
            members->all[i]->master->peer.working_replicas++;
    }
}

/* A primary that had replicas, and has none that works. */
static bool is_orphaned(const struct node *node)
{
    return node->flags & NODE_MASTER && !(node->flags & NODE_FAIL) && node->flags & NODE_MIGRATE_TO && node->slot_count > 0 &&
           node->peer.working_replicas == 0;
}

/* The replica with the smallest ID goes, of those whose primaries have the most replicas. */
static bool is_first_to_go(const struct members *members, unsigned most)
{
    for (unsigned i = 0; i < members->count && members->all[i] != members->myself; i++) {
        const struct node *node = members->all[i];

        if (node->master != NULL && works(node) && node->master->peer.working_replicas == most)
            return false;
    }
    return true;
}

/* The first of those that have been orphaned for long enough: during a failover the replicas of a primary look as if they had left it. `most`: working
 * replicas of one primary. */
static struct node *look_for_orphan(struct members *members, int64_t now_ms, unsigned *most)
{
    struct node *target = NULL;

    count_working_replicas(members);
    *most = 0;
    for (unsigned i = 0; i < members->count; i++) {
        struct node *node = members->all[i];

        if (node->flags & NODE_MASTER && !(node->flags & NODE_FAIL) && node->peer.working_replicas > *most)
            *most = node->peer.working_replicas;
        if (!is_orphaned(node))
            node->peer.orphaned_ms = 0;
        else if (node->peer.orphaned_ms == 0)
            node->peer.orphaned_ms = now_ms;
        else if (target == NULL && now_ms - node->peer.orphaned_ms > ORPHANED_MS)
            target = node;
    }
    return target;
}

void bus_orphan_step(struct bus *bus)
{
    struct members *members = bus->members;
    const struct node *master = members->myself->master;
    struct node *target;
    unsigned most;

    if (master == NULL || !bus->options.allows_replica_migration)
        return;
    target = look_for_orphan(members, bus->own->now_ms, &most);
    if (target == NULL || !bus->is_ok || most < 2 || master->peer.working_replicas < most || most <= bus->options.migration_barrier ||
        !is_first_to_go(members, most))
        return;
    bus_log(bus, "Moving to %.40s, whose replicas do not work", target->id.text);
    bus_role_follow(bus, target);
}
