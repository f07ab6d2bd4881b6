/* Cluster box: nodes of a cluster in this process, with a folder, ports and sockets of their own, and a server that only notes what the node asks it to do. For
 * tests; what can't be done, or does not happen in 60 seconds, fails a CHECK.
 */
#ifndef KELVIN_TESTS_CLUSTER_BOX_H
#define KELVIN_TESTS_CLUSTER_BOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "cluster/cluster.h"

struct certificate;
struct disk;

enum { CLUSTER_BOX_TIMEOUT_MS = 2000 };

struct cluster_box {
    struct cluster *cluster;                /* NULL: stopped */
    struct log *log;
    char dir[64], path[80];                 /* nodes.conf */
    uint16_t port, bus_port;
    int reserved_fd;                        /* keeps bus_port from others, also while the node is stopped */
    char id[41];                            /* after the first start */
    /* set by the test before the start; all zero is fine */
    int64_t timeout_ms;                     /* 0: CLUSTER_BOX_TIMEOUT_MS */
    uint64_t link_buffer_max;
    struct certificate *certificate;        /* NULL: without TLS */
    const struct disk *disk;
    const char *announced_ip;               /* NULL: none */
    const char *address;                    /* where it listens, and connects from; NULL: 127.0.0.1, and any */
    /* set by the test at any time */
    _Atomic uint64_t offset;
    _Atomic bool hangs;                     /* its workers do */
    /* what the node has asked for */
    _Atomic int asked;                      /* whether its workers hang, while they do */
    _Atomic int leads, follows, empties, holds, deliveries, lost_slots, topologies, refusals;
    _Atomic uint16_t follow_port;
    char delivered[100];                    /* the last message, with the cluster locked */
};

/* Makes the folder, and takes ports that are free. A node keeps both from one start to the next. */
void cluster_box_init(struct cluster_box *box);
void cluster_box_start(struct cluster_box *box);
void cluster_box_stop(struct cluster_box *box);         /* as SHUTDOWN does */
void cluster_box_release(struct cluster_box *box);      /* stops it, removes the folder */

/* Commands; what is refused fails a CHECK. */
void cluster_box_meet(struct cluster_box *box, uint16_t port, uint16_t bus_port);
void cluster_box_add_slots(struct cluster_box *box, unsigned first, unsigned last);
/* Repeats it until it succeeds: the master may not be known yet. */
void cluster_box_replicate(struct cluster_box *box, const char *master_id);

/* Waits until its CLUSTER NODES or CLUSTER INFO contains the text, or as often as that. */
void cluster_box_wait_nodes(struct cluster_box *box, const char *text, int times);
void cluster_box_wait_info(struct cluster_box *box, const char *text);
/* Waits until its line of the node has this text. */
void cluster_box_wait_node(struct cluster_box *box, const char *id, const char *text);
/* Waits until a number is there. */
void cluster_box_wait_count(const _Atomic int *count, int wanted);
/* The text of CLUSTER NODES. */
void cluster_box_nodes(struct cluster_box *box, struct buffer *out);
/* The ID of the owner in the published topology; "": none. */
void cluster_box_owner(struct cluster_box *box, unsigned slot, char id[41]);

#endif
