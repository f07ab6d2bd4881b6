/* CLUSTERX: the commands of a controller, with cluster-control managed (cluster/managed.h). As the Kvrocks controller sends them. */
#include <inttypes.h>

#include "base/arrival.h"
#include "base/mem.h"
#include "cluster/managed.h"
#include "cluster/managed_move.h"
#include "cluster/slot_export.h"
#include "commands/cluster_call.h"
#include "commands/handlers.h"
#include "engine/role.h"

/* --- The node, and the topology --- */

static void set_id(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    (void)engine;
    cluster_call_accept(asked, managed_set_id(bus, &asked->id));
}

void clusterx_setnodeid_command(struct call *call)
{
    struct cluster_call *asked = cluster_call_new_managed(call, set_id, NULL);

    if (asked == NULL)
        return;
    cluster_call_take_node(call, asked, 2);
    if (node_id_is_none(&asked->id))
        reply_errorf(call, "ERR Invalid node id: it is not 40 letters and digits");
    cluster_call_start(call, asked);
}

static void set_nodes(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    (void)engine;
    cluster_call_accept(asked, managed_set_nodes(bus, asked->name, asked->number, (enum managed_force)asked->choice));
}

void clusterx_setnodes_command(struct call *call)
{
    struct cluster_call *asked = cluster_call_new_managed(call, set_nodes, NULL);

    if (asked == NULL)
        return;
    asked->choice = call->arg_count == 5 ? MANAGED_FORCED : MANAGED_NOT_FORCED;
    asked->awaits_lost = true;
    if (call->arg_count > 5 || (call->arg_count == 5 && !arg_is(call, 4, "force")))
        reply_error(call, ERR_SYNTAX);
    else if (arg_integer(call, 3, &asked->number))
        cluster_call_take_text(call, asked, 2);
    cluster_call_start(call, asked);
}

static void set_slots(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    (void)engine;
    cluster_call_accept(asked, managed_set_slots(bus, asked->ranges[0], &asked->id, asked->number));
}

/* "a" or "a-b". */
static bool read_range(struct call *call, int arg, struct slot_range *range)
{
    struct bytes text = call->args[arg], first = text, last = text;
    const char *dash = text.size > 1 ? memchr(text.data + 1, '-', text.size - 1) : NULL;
    int64_t begin, end;

    if (dash != NULL) {
        first.size = (size_t)(dash - text.data);
        last = bytes_of(dash + 1, text.size - first.size - 1);
    }
    if (!text_to_int(first, &begin) || !text_to_int(last, &end) || begin < 0 || end < begin || end >= SLOT_COUNT) {
        reply_errorf(call, "ERR Invalid slot range");
        return false;
    }
    *range = (struct slot_range){ (uint16_t)begin, (uint16_t)end };
    return true;
}

void clusterx_setslot_command(struct call *call)
{
    struct cluster_call *asked = cluster_call_new_managed(call, set_slots, NULL);

    if (asked == NULL)
        return;
    asked->awaits_lost = true;
    asked->ranges = mem_alloc(sizeof(*asked->ranges));
    cluster_call_take_node(call, asked, 4);
    if (!arg_is(call, 3, "node"))
        reply_error(call, ERR_SYNTAX);
    else if (node_id_is_none(&asked->id))
        reply_errorf(call, "ERR Invalid node id: it is not 40 letters and digits");
    else if (read_range(call, 2, asked->ranges))
        (void)arg_integer(call, 5, &asked->number);
    cluster_call_start(call, asked);
}

/* --- MIGRATE slots id [ASYNC | SYNC [timeout]] --- */

struct migration {
    struct cluster_call asked;
    struct slots slots;
    char name[NODE_ID_SIZE + 1];
    int64_t limit_ms;               /* SYNC; -1: none */
    bool has_ended;
};

static void make_name(char name[NODE_ID_SIZE + 1])
{
    struct random random;
    struct node_id id;
    uint64_t seed;

    random_system(&seed, sizeof(seed));
    random_init(&random, seed);
    node_id_make(&random, &id);
    memcpy(name, id.text, NODE_ID_SIZE);
    name[NODE_ID_SIZE] = '\0';
}

static void begin_migration(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    struct migration *migration = (struct migration *)asked;
    struct slot_export *exporter = engine->replication.slot_export;
    struct message message = { "" };

    make_name(migration->name);
    if (!(bus->members->myself->flags & NODE_MASTER))
        cluster_call_fail(asked, "ERR Slave can't migrate slot");
    else if (slot_export_is_busy(exporter))
        cluster_call_fail(asked, "ERR There is already a migrating job");
    else if (cluster_call_accept(asked, managed_may_migrate(bus, &migration->slots, &asked->id)) &&
             !slot_export_add(exporter, &migration->slots, &asked->id, 1, migration->name, &message))
        cluster_call_fail(asked, "ERR %s", message.text);
}

/* SYNC. */
static void await_migration(struct cluster_call *asked, struct engine *engine)
{
    struct migration *migration = (struct migration *)asked;
    struct slot_export_job job;

    if (!slot_export_await(engine->replication.slot_export, migration->name, migration->limit_ms, &job)) {
        cluster_call_fail(asked, "ERR the migration has ended, and others since");
        return;
    }
    migration->has_ended = slot_export_has_ended(job.state);
    if (migration->has_ended && job.state != EXPORT_SUCCESS)
        cluster_call_fail(asked, "ERR %s", job.message.text);
}

static void reply_migrated(struct call *call, const struct cluster_call *done)
{
    const struct migration *migration = (const struct migration *)done;

    if (done->after == NULL || migration->has_ended)
        reply_ok(call->reply);
    else
        reply_null(call->reply);        /* the time is up */
}

/* False: an error was replied. */
static bool read_mode(struct call *call, struct migration *migration)
{
    int64_t limit_s = 0;

    migration->limit_ms = -1;
    if (call->arg_count == 4 || (call->arg_count == 5 && arg_is(call, 4, "async")))
        return true;
    if (arg_is(call, 4, "async"))
        reply_errorf(call, "ERR Async migration does not support timeout");
    else if (!arg_is(call, 4, "sync"))
        reply_errorf(call, "ERR Invalid sync flag");
    else if (call->arg_count == 6 && (!text_to_int(call->args[5], &limit_s) || limit_s > INT32_MAX))
        reply_errorf(call, "ERR timeout is not an integer or out of range");
    else if (limit_s < 0)
        reply_errorf(call, "ERR timeout is negative");
    if (call->failed)
        return false;
    migration->limit_ms = limit_s > 0 ? limit_s * 1000 : -1;
    migration->asked.after = await_migration;
    return true;
}

void clusterx_migrate_command(struct call *call)
{
    struct migration *migration;
    struct slot_range range;

    if (!cluster_call_is_managed(call))
        return;
    if (call->arg_count > 6) {
        reply_wrong_arity(call);
        return;
    }
    migration = (struct migration *)cluster_call_new_sized(call, begin_migration, reply_migrated, sizeof(*migration));
    if (migration == NULL)
        return;
    cluster_call_take_node(call, &migration->asked, 3);
    if (read_range(call, 2, &range) && read_mode(call, migration))
        slots_add_range(&migration->slots, range);
    cluster_call_start(call, &migration->asked);
}

void clusterx_version_command(struct call *call)
{
    struct topology *topology;

    if (!cluster_call_is_managed(call))
        return;
    topology = cluster_topology(call->engine->replication.cluster);
    reply_bulk(call->reply, topology->version > 0 ? call_format(call, "%" PRIu64, topology->version) : BYTES("-1"));
    topology_release(topology);
}

void clusterx_myid_command(struct call *call)
{
    if (cluster_call_is_managed(call))
        cluster_myid_command(call);
}

/* --- HEARTBEAT --- */

static void hear(struct cluster_call *asked, struct engine *engine, struct bus *bus)
{
    bool is_primary = bus->members->myself->master == NULL;

    (void)engine;
    if (!cluster_call_accept(asked, managed_heartbeat(bus, &asked->id, asked->number)))
        return;
    if (!is_primary)
        asked->lease_end_us = ROLE_LEASE_NONE;
    buffer_append_format(&asked->text, "role:%s\r\nsequence:%" PRIu64 "\r\n", is_primary ? "master" : "slave", bus->facts.offset);
}

/* The election version was saved. */
static void reply_heartbeat(struct call *call, const struct cluster_call *done)
{
    role_set_lease(call->engine, done->lease_end_us);
    reply_bulk(call->reply, buffer_bytes(&done->text));
}

/* The lease begins when the request reached this machine: it may be one that the controller has given up long ago, while this process was stopped. */
void clusterx_heartbeat_command(struct call *call)
{
    enum { LEASE_MS_MAX = 1 << 30 };
    struct cluster_call *asked = cluster_call_new_managed(call, hear, reply_heartbeat);
    int64_t lease_ms;

    if (asked == NULL)
        return;
    cluster_call_take_node(call, asked, 2);
    if (node_id_is_none(&asked->id))
        reply_errorf(call, "ERR Invalid node id: it is not 40 letters and digits");
    else if (arg_integer(call, 3, &lease_ms) && arg_integer(call, 4, &asked->number) && (lease_ms < 1 || lease_ms > LEASE_MS_MAX))
        reply_errorf(call, "ERR Invalid lease: it is not 1 to %d milliseconds", LEASE_MS_MAX);
    if (!call->failed)
        asked->lease_end_us = arrival_us(call->requester->fd) + lease_ms * 1000;
    cluster_call_start(call, asked);
}

void clusterx_help_command(struct call *call)
{
    static const char *const lines[] = {
        "CLUSTERX <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "HEARTBEAT <master-id> <lease-ms> <election-version>",
        "    Lets this node, if it is that master, serve writes until the lease ends.",
        "MIGRATE <slots> <node-id> [ASYNC|SYNC [<timeout>]]",
        "    Moves slots of this node with their keys to another master. SYNC waits for it, for that many seconds at most.",
        "MYID",
        "    Returns the ID of this node.",
        "SETNODEID <node-id>",
        "    Sets it.",
        "SETNODES <nodes> <version> [FORCE]",
        "    Sets the topology. A line for each node:",
        "    <id> <host> <port> (master -|slave <master-id>) [<slot>|<first>-<last> ...]",
        "SETSLOT <slot>|<first>-<last> NODE <node-id> <version>",
        "    Gives slots to a node, in the next version of the topology.",
        "VERSION",
        "    Returns the version of the topology; -1 before the first.",
        "HELP",
        "    Returns this text.",
        NULL,
    };

    if (cluster_call_is_managed(call))
        reply_help(call, lines);
}
