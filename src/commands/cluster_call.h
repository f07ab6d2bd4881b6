/* Cluster call: a command about this server's node of a cluster. The cluster's lock is held while nodes.conf is synced and while the role changes, which
 * waits for units; so no worker waits for it: the command is a job, whose client waits.
 *
 *   static void forget(struct cluster_call *asked, struct engine *engine, struct bus *bus) { ... }       with the cluster locked
 *
 *   void cluster_forget_command(struct call *call)
 *   {
 *       struct cluster_call *asked = cluster_call_new(call, forget, NULL);
 *
 *       if (asked == NULL)
 *           return;                                    replied: an error, or what the job has found
 *       cluster_call_take_node(call, asked, 2);
 *       cluster_call_start(call, asked);
 *   }
 */
#ifndef KELVIN_COMMANDS_CLUSTER_CALL_H
#define KELVIN_COMMANDS_CLUSTER_CALL_H

#include "cluster/bus.h"
#include "cluster/cluster.h"
#include "engine/engine.h"
#include "engine/job.h"

struct cluster_call;

typedef void cluster_act(struct cluster_call *asked, struct engine *engine, struct bus *bus);
typedef void cluster_reply(struct call *call, const struct cluster_call *done);

struct cluster_call {
    struct job job;
    cluster_act *act;               /* NULL: none */
    void (*after)(struct cluster_call *asked, struct engine *engine);       /* then, without the lock, unless there is an error: it may ask other nodes. NULL: nothing */
    cluster_reply *reply;           /* NULL: OK */
    bool is_tls;                    /* the client's connection: of two ports it is shown the one that it can use */

    /* The request; each command has its own use of these. */
    struct bytes name;              /* of a node, or a text, as it was sent; belongs to it */
    struct node_id id;              /* of the name; none: it is no ID, and no node has it */
    int64_t number;
    int choice;
    struct slot_range *ranges;      /* belong to it */
    int range_count;
    struct slots slots;
    char ip[NODE_IP_SIZE];
    uint16_t port, bus_port;
    int64_t lease_end_us;           /* of HEARTBEAT */
    bool awaits_lost;               /* the keys of lost slots have to be gone first: slots may come back, or the data may be another's */
    char *later_error;              /* of an argument: replied if `act` finds nothing wrong with those before it. Belongs to it; NULL: none */

    struct claim claim;             /* owns the partitions whose keys were counted until the change has been carried out, if owns_partitions */
    bool owns_partitions;

    /* The result. */
    struct buffer error;            /* not empty: replied in place of all else */
    struct buffer text;
    int64_t count;
    bool was_saved;                 /* nodes.conf, if there was something to save */
};

/* The node; NULL: "cluster support disabled" was replied. */
struct cluster *cluster_call_cluster(struct call *call);

/* NULL: the handler returns. It was replied: the job has ended, there is no cluster, or the call's unit owns partitions. */
struct cluster_call *cluster_call_new(struct call *call, cluster_act *act, cluster_reply *reply);
/* The same for what only the bus can do, and for what only a controller may: NULL also with the other cluster-control, after an error. */
struct cluster_call *cluster_call_new_gossip(struct call *call, cluster_act *act, cluster_reply *reply);
struct cluster_call *cluster_call_new_managed(struct call *call, cluster_act *act, cluster_reply *reply);
/* False: an error was replied, because there is no cluster, or another control. */
bool cluster_call_is_gossip(struct call *call);
bool cluster_call_is_managed(struct call *call);
/* The same as the first member of a struct of `size` bytes, whose rest is zero. */
struct cluster_call *cluster_call_new_sized(struct call *call, cluster_act *act, cluster_reply *reply, size_t size);
/* Starts the job, unless an error was replied meanwhile. */
void cluster_call_start(struct call *call, struct cluster_call *asked);

/* Keeps an argument as `name`. */
void cluster_call_take_text(struct call *call, struct cluster_call *asked, int arg);
/* The argument is the ID of a node. */
void cluster_call_take_node(struct call *call, struct cluster_call *asked, int arg);
/* Adds the ranges from args[*arg] on, pairs of numbers, at least one. False: an error was replied. */
bool cluster_call_read_ranges(struct call *call, int *arg, struct slots *slots);
/* For `act`: the node of that name; NULL: the error is "ERR `unknown` NAME". */
struct node *cluster_call_node(struct cluster_call *asked, const struct bus *bus, const char *unknown);
/* For `act`. False: the error, which may be NULL, is the reply. */
bool cluster_call_accept(struct cluster_call *asked, const char *error);
void cluster_call_fail(struct cluster_call *asked, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Replies for cluster_call_new: the text, and the count. */
void cluster_call_reply_text(struct call *call, const struct cluster_call *done);
void cluster_call_reply_count(struct call *call, const struct cluster_call *done);

#endif
