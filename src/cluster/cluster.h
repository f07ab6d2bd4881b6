/* Cluster: this server's node: the bus under its lock, its thread with the links (`kelvin-bus`), nodes.conf, and the topology that it publishes.
 *
 * Lock order: this lock comes before those of partitions, and after none: it is not taken by a thread that has a partition locked. nodes.conf is written and
 * synced under it, so a thread that serves clients takes it for commands of administrators only, and for what is shown; redirections need the topology alone.
 */
#ifndef KELVIN_CLUSTER_CLUSTER_H
#define KELVIN_CLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/message.h"
#include "base/status.h"
#include "cluster/bus.h"
#include "cluster/topology.h"

struct cluster;
struct disk;
struct meter;
struct tls_context;

/* Calls to the rest of the server. All but the last are made with the cluster locked, on the bus thread or by cluster_lock and
 * cluster_unlock, from cluster_start to cluster_stop. They must not wait, for the bus stands still meanwhile, and must not lock the cluster. */
struct cluster_hooks {
    void *context;
    void (*facts)(void *context, struct bus_facts *facts);
    /* Whether the workers take their turns: a node whose workers hang must not look healthy, so its bus is silent then, and deaf. Asked with each tick. */
    bool (*is_alive)(void *context);
    void (*hold_writes)(void *context, bool holds);
    void (*lead)(void *context);
    void (*follow)(void *context, const char *ip, uint16_t port, uint16_t tls_port);       /* 0: it has no such port */
    void (*empty)(void *context);                                               /* removes the data set: CLUSTER RESET of a replica */
    void (*topology_changed)(void *context, const struct topology *topology);   /* after it was published:
                                                                                 * clients that are redirected then get the new owner */
    /* A primary may have keys of these slots of others, or hands them over: its replicas are to be sent that before topology_changed. With a lock, that of
     * cluster_say_foreign. */
    void (*say_foreign)(void *context, const struct slots *slots);
    /* The same with a controller, of what migrations have changed: for cluster_hear_moves. */
    void (*say_moves)(void *context, struct bytes text);
    void (*refuse)(void *context);      /* requests for keys, until topology_changed: a promise can't be saved */
    void (*slots_lost)(void *context, const struct slots *slots);               /* after it was published */
    void (*deliver)(void *context, struct bytes channel, struct bytes text, bool is_shard);
    struct tls_context *(*hold_tls)(void *context);     /* for a new connection, with `is_tls`; NULL: it can't be had. Without the lock */
};

struct cluster_config {
    const char *nodes_path;             /* cluster-config-file, in the data directory */
    struct bus_options options;
    const char *const *bind;            /* the words of the directive: where the bus listens; NULL at the end */
    uint16_t port;                      /* there; 0: options.bus_port, the one that is announced */
    const char *bind_source;            /* bind-source-addr; NULL or "": any */
    int backlog;                        /* tcp-backlog */
    uint64_t link_buffer_max;           /* cluster-link-sendbuf-limit; 0: none. A link whose queue is longer is closed, and counted */
    struct log *log;
    struct meter *meter;                /* counts the thread's memory; may be NULL */
    const struct disk *disk;            /* NULL: the system's */
};

/* Locks and reads nodes.conf, or makes a new node and saves it. STATUS_LOCKED: another process has the file; else it is damaged, or can't be read or
 * written; `message` says which. No hook is called. What `config` refers to is copied, but for the log, the meter and the disk. */
enum status cluster_create(const struct cluster_config *config, const struct cluster_hooks *hooks, struct cluster **cluster, struct message *message);
/* Listens, and starts the thread: once the data set is loaded. On failure it can be tried again. With `is_managed` there is no thread and no port, and
 * cluster_lock and cluster_unlock around an event of managed.h do all. */
enum status cluster_start(struct cluster *cluster, struct message *message);
void cluster_stop(struct cluster *cluster);             /* no hook is called from then on. Saves */
void cluster_destroy(struct cluster *cluster);          /* NULL is fine */

/* The bus for an event or to be shown; its facts are filled in. */
struct bus *cluster_lock(struct cluster *cluster);
/* Carries out what has come of it (bus.h): saves and syncs, calls hooks, and has the thread send. Else nodes.conf could not be saved: nothing is sent and no
 * hook is called but `refuse` until it can be, which is tried with each tick. To the others this node has failed meanwhile, and it serves no keys, as
 * it may have given its slots away. With `is_managed` hooks are called all the same, and saving is tried with the next command. */
enum status cluster_unlock(struct cluster *cluster);

/* Writes and syncs nodes.conf although nothing has changed. The cluster is locked. A failure breaks no promise. */
enum status cluster_save(struct cluster *cluster);

/* --- Slots of others of which there are keys (bus_facts). Any thread, also with partitions locked */

/* The primary says so, in the stream. */
void cluster_hear_foreign(struct cluster *cluster, const struct slots *slots);
/* Has the hook say it again: a replica begins to read the stream. */
void cluster_say_foreign(struct cluster *cluster);
/* The same with a controller. What is heard counts from the next event on. */
void cluster_hear_moves(struct cluster *cluster, struct bytes text);

/* --- Any thread, with any locks: the thread of the bus does it, soon. */

void cluster_set_options(struct cluster *cluster, const struct bus_options *options);      /* CONFIG SET */
void cluster_set_link_buffer_max(struct cluster *cluster, uint64_t bytes);
/* PUBLISH, or SPUBLISH. Messages are dropped when too many wait, as the bus drops those to a node that it does not reach. */
void cluster_publish(struct cluster *cluster, struct bytes channel, struct bytes text, bool is_shard);

/* --- For DEBUG */

void cluster_kill_link(struct cluster *cluster, uint64_t link);        /* with the cluster locked */
void cluster_drop_messages(struct cluster *cluster, int type);         /* those of the type (enum bus_type) that come in; -1: none. Any thread */

/* The published one, kept for the caller: topology_release. Any thread; does not wait for the cluster's lock. */
struct topology *cluster_topology(struct cluster *cluster);

/* For INFO, CLUSTER INFO and CLUSTER LINKS. Any thread, with or without the lock. NULL: there is no cluster, and nothing is used. */
struct cluster_totals {
    uint64_t link_buffer_bytes, links_over_limit, link_count;
};
struct cluster_totals cluster_totals(struct cluster *cluster);
/* Bytes of a link's queue: allocated, and in use. False: it is gone. */
bool cluster_link_queue(struct cluster *cluster, uint64_t link, uint64_t *allocated, uint64_t *used);

#endif
