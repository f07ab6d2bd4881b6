/* DEBUG: the connections of a node of a cluster. */
#include <limits.h>

#include "base/mem.h"
#include "commands/cluster_call.h"
#include "commands/debug.h"

static bool has_cluster(struct call *call)
{
    if (call->engine->replication.cluster != NULL)
        return true;
    reply_errorf(call, "ERR Debug option only available for cluster mode enabled setup!");
    return false;
}

enum { LINKS_TO = 1, LINKS_FROM = 2 };

static void kill_links(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    const struct node *node = cluster_call_node(asked, bus, "Unknown node");
    struct bus_link_view view;

    if (node == NULL || !cluster_call_accept(asked, asked->later_error))
        return;
    for (unsigned i = 0; bus_link_view(bus, i, &view); i++) {
        if (view.node == node && asked->choice & (view.is_outgoing ? LINKS_TO : LINKS_FROM))
            cluster_kill_link(engine->replication.cluster, view.link);
    }
}

/* CLUSTERLINK KILL to|from|all id */
void debug_clusterlink(struct call *call)
{
    struct cluster_call *asked;

    if (!arg_is(call, 2, "kill"))
        reply_error(call, ERR_SYNTAX);
    if (call->failed || !has_cluster(call) || (asked = cluster_call_new(call, kill_links, NULL)) == NULL)
        return;
    asked->choice = arg_is(call, 3, "all") ? LINKS_TO | LINKS_FROM : arg_is(call, 3, "to") ? LINKS_TO : arg_is(call, 3, "from") ? LINKS_FROM : 0;
    if (asked->choice == 0)
        asked->later_error = mem_string(call_format(call, "ERR Unknown direction %.*s", (int)call->args[3].size, call->args[3].data));
    cluster_call_take_node(call, asked, 4);
    cluster_call_start(call, asked);
}

/* DROP-CLUSTER-PACKET-FILTER type; -1: none. */
void debug_drop_messages(struct call *call)
{
    int64_t type;

    if (!arg_integer(call, 2, &type) || !has_cluster(call))
        return;
    cluster_drop_messages(call->engine->replication.cluster, type >= 0 && type < INT_MAX ? (int)type : -1);
    reply_ok(call->reply);
}
