/* Topology: an immutable picture of the cluster for threads that serve clients: who has which slots, and the addresses. A new one is made with each change, published by
 * cluster.h, counted: a reader keeps one for as long as it needs it, without a lock.
 */
#ifndef KELVIN_CLUSTER_TOPOLOGY_H
#define KELVIN_CLUSTER_TOPOLOGY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "cluster/members.h"

struct topology_node {
    struct node_id id, shard_id;
    int master;                         /* index of its primary; -1: it is one, or its primary is not known */
    uint16_t flags;                     /* enum node_flags */
    char ip[NODE_IP_SIZE];
    uint16_t port, tls_port, bus_port;  /* 0: none */
    struct bytes host_name;             /* empty: none. Belongs to the topology */
    uint64_t offset;                    /* of its replication, as of this picture */
    unsigned slot_count;
};

struct topology {
    _Atomic int references;
    struct topology_node *nodes;        /* in the order of the IDs, without those in a handshake */
    int count, myself;
    bool is_ok;                         /* cluster_state */
    bool is_managed;                    /* of a controller (managed.h): then nodes do not say their offsets, and these three have a meaning: */
    uint64_t version;                   /* 0: none was sent yet */
    bool has_leases;                    /* a HEARTBEAT with an election version has come */
    int16_t owners[SLOT_COUNT];         /* index of the node; -1: none */
    int16_t moves[SLOT_COUNT];          /* node to or from which this node moves the slot; -1: it does not move */
    struct slots received, handed_over; /* see struct members */
    struct node_id handed_to;
    uint64_t handed_epoch;              /* 0: the other node can't have taken them */
    uint64_t handed_receipt;
    uint64_t receipt;
    char *texts;
};

/* With one reference. Not managed: the caller says so. */
struct topology *topology_create(const struct members *members, bool is_ok);
struct topology *topology_keep(struct topology *topology);
void topology_release(struct topology *topology);       /* NULL is fine */

/* The port of the node's clients: the TLS one if `is_tls`, or if there is no other. */
uint16_t topology_port(const struct topology_node *node, bool is_tls);

#endif
