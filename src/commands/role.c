/* ROLE: what this server is in replication. */
#include "base/mem.h"
#include "call/call.h"
#include "commands/handlers.h"
#include "replication/view.h"

/* Only replicas that receive the stream. */
static void reply_replicas(struct reply *reply, const struct replication_view *view)
{
    int count = 0;

    for (int i = 0; i < view_shown(view); i++)
        count += view->replicas[i].state == REPLICA_ONLINE;
    reply_array(reply, count);
    for (int i = 0; i < view_shown(view); i++) {
        const struct replica_view *replica = &view->replicas[i];

        if (replica->state != REPLICA_ONLINE)
            continue;
        reply_array(reply, 3);
        reply_bulk_string(reply, replica->ip);
        reply_bulk_integer(reply, replica->port);
        reply_bulk_integer(reply, view_acknowledged(replica));
    }
}

static void reply_as_replica(struct reply *reply, const struct view_upstream *upstream)
{
    reply_array(reply, 5);
    reply_bulk_string(reply, "slave");
    reply_bulk_string(reply, upstream->host);
    reply_integer(reply, upstream->port);
    reply_bulk_string(reply, view_link_name(upstream->link));
    reply_integer(reply, upstream->link == VIEW_LINK_CONNECTED ? upstream->applied : -1);
}

void role_command(struct call *call)
{
    struct replication_view *view = mem_alloc(sizeof(*view));

    replication_view(call->engine, view);
    if (view->is_replica) {
        reply_as_replica(call->reply, &view->upstream);
    } else {
        reply_array(call->reply, 3);
        reply_bulk_string(call->reply, "master");
        reply_integer(call->reply, view->point.offset);
        reply_replicas(call->reply, view);
    }
    mem_free(view);
}
