/* Bus: what this node does when something happens in its cluster: a message, a tick, a command, a link. Events in, actions out; no clock, no socket, no
 * file, no thread, so that a test runs hundreds of nodes in one process. The rules are those of Redis Cluster 7.2 (`claim`, `suspect`, `vote`; gossip, times and manual
 * failover here), but for the README's table.
 *
 * Use: fill in `facts`, call one function of an event, then carry out `bus_outcome` in this order, which keeps the promise that nothing is sent before it
 * is on disk, and call bus_outcome_clear:
 *
 *   1. save        members_write(bus->members), with fsync if `has_promised`
 *   2. role, topology, lost slots, writes that are held
 *   3. actions     in their order
 *
 * Owner: one lock, the caller's. Times are Unix time in milliseconds, `now_ms`; they may jump: a jump delays, and fails no node by itself.
 */
#ifndef KELVIN_CLUSTER_BUS_H
#define KELVIN_CLUSTER_BUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/random.h"
#include "cluster/bus_message.h"
#include "cluster/members.h"

/* Directives, copied. Host names and names are valid (node_text.h). */
struct bus_options {
    int64_t timeout_ms;                 /* cluster-node-timeout */
    int64_t primary_ping_ms;            /* repl-ping-replica-period */
    unsigned validity_factor;           /* cluster-replica-validity-factor */
    unsigned migration_barrier;         /* cluster-migration-barrier */
    bool allows_replica_migration, requires_full_coverage, never_stands;        /* the last: cluster-replica-no-failover */
    char ip[NODE_IP_SIZE];              /* cluster-announce-ip; "": the others take the address of the connection */
    uint16_t port, tls_port, bus_port;  /* announced; 0: none */
    bool is_tls;                        /* tls-cluster */
    bool is_managed;                    /* cluster-control managed: a controller says who has which slots (managed.h), and there is no network */
    struct bytes host_name, name;       /* empty: none. Copied */
};

/* The state of this server, as of the event. */
struct bus_facts {
    uint64_t offset;                    /* of the history: a replica's is what it has applied */
    int64_t link_age_ms;                /* replica: since its primary's last byte; -1: not in step with the one that it was last notified to follow */
    bool holds_writes;                  /* primary: every write is held back, `offset` does not grow */
    bool is_loading;
    bool has_lost_data;                 /* it has started without the data that it had: see bus_is_silent */
    struct slots foreign;               /* the primary that this node follows or has followed says that it may have keys of these slots of others */
    uint64_t links_over_limit;          /* links that were closed because their queue was too long; for CLUSTER INFO */
};

/* A link is a connection to a bus port; the number of one is never used again. Each node opens one to each other node; what it accepts is replied to there. */
enum bus_action_kind {
    BUS_OPEN,           /* connect to ip:port; report bus_link_opened or bus_link_closed */
    BUS_CLOSE,          /* the link, if it is still there; not reported */
    BUS_SEND,           /* bytes of the outcome's `bytes`; dropped if the link is not there */
    BUS_DELIVER,        /* a message that another node has published: to this server's subscribers */
};

struct bus_action {
    enum bus_action_kind kind;
    uint64_t link;
    char ip[NODE_IP_SIZE];              /* OPEN */
    uint16_t port;
    size_t begin, size;                 /* SEND; DELIVER: the channel, then the text */
    size_t text_begin, text_size;
    bool is_shard;                      /* DELIVER: SPUBLISH */
    uint16_t type;                      /* SEND: enum bus_type, for the statistics */
};

enum bus_role_change { BUS_ROLE_KEPT, BUS_ROLE_FOLLOW, BUS_ROLE_LEAD };

/* Grows until bus_outcome_clear. */
struct bus_outcome {
    bool has_changed;                   /* nodes.conf is to be written, soon */
    bool has_promised;                  /* and synced, before anything is sent */
    bool topology_changed;              /* who has which slots or which role, an address, or whether the cluster is ok */
    enum bus_role_change role;          /* FOLLOW: bus->members->myself->master, also if that has another address now */
    bool empties;                       /* RESET of a replica: the data set is removed */
    struct slots lost;                  /* slots whose keys are to be removed */
    struct bus_action *actions;
    unsigned action_count, action_room;
    struct buffer bytes;
    struct buffer log;                  /* lines for the log, each with '\n' */
};

struct bus {
    struct members *members;            /* read: CLUSTER NODES and the like; changed here only */
    struct bus_options options;
    struct bus_facts facts;
    struct bus_outcome outcome;
    bool is_ok;                         /* cluster_state */
    int64_t hold_writes_until_ms;       /* a manual failover that this primary has been asked for; 0: none. The caller holds them */
    struct bus_private *own;            /* links, handshakes, what is forgotten, the election, the manual failover, statistics */
};

/* Takes over `members`. Nothing happens before the first event. */
struct bus *bus_create(struct members *members, const struct bus_options *options, uint64_t seed, int64_t now_ms);
void bus_destroy(struct bus *bus);
void bus_set_options(struct bus *bus, const struct bus_options *options);       /* tells the others with the next tick */
void bus_outcome_clear(struct bus *bus);

/* A primary that has started without its data, and has replicas that have more of the history, says nothing, so that one of them is elected. It serves as it
 * is when no replica that may be elected has more, or none was elected in ten timeouts. */
bool bus_is_silent(const struct bus *bus);

/* --- Events of the network */

void bus_tick(struct bus *bus, int64_t now_ms);                                 /* each 100 ms */
void bus_link_accepted(struct bus *bus, uint64_t link, bool *is_refused);       /* the caller numbers: bus_new_link */
uint64_t bus_new_link(struct bus *bus);
void bus_link_opened(struct bus *bus, uint64_t link, int64_t now_ms);
void bus_link_closed(struct bus *bus, uint64_t link);
/* Most bytes that a message of this link may have: bus_message_size. */
size_t bus_link_size_max(const struct bus *bus, uint64_t link);
/* `from_ip`: the address of the other end; `own_ip`: of this one. */
void bus_received(struct bus *bus, uint64_t link, const struct bus_message *message, const char *from_ip, const char *own_ip, int64_t now_ms);

/* --- Commands. NULL: done. Otherwise the error, with its code, as Redis 7.2 words it; then nothing has changed. */

const char *bus_meet(struct bus *bus, const char *ip, uint16_t port, uint16_t bus_port, int64_t now_ms);
const char *bus_forget(struct bus *bus, const struct node_id *id, int64_t now_ms);
const char *bus_add_slots(struct bus *bus, const struct slots *slots);          /* all of them are free, the caller has looked */
const char *bus_remove_slots(struct bus *bus, const struct slots *slots);       /* all of them have owners */
const char *bus_flush_slots(struct bus *bus);                                   /* the server is empty, the caller has looked */
const char *bus_begin_export(struct bus *bus, unsigned slot, const struct node_id *to);         /* SETSLOT MIGRATING */
const char *bus_begin_import(struct bus *bus, unsigned slot, const struct node_id *from);       /* SETSLOT IMPORTING */
const char *bus_end_move(struct bus *bus, unsigned slot);                                       /* SETSLOT STABLE */
const char *bus_assign_slot(struct bus *bus, unsigned slot, const struct node_id *to, bool has_keys, int64_t now_ms);       /* SETSLOT NODE */
const char *bus_replicate(struct bus *bus, const struct node_id *master, bool has_keys, int64_t now_ms);
enum bus_failover { BUS_FAILOVER_AGREED, BUS_FAILOVER_FORCED, BUS_FAILOVER_TAKEOVER };
const char *bus_failover(struct bus *bus, enum bus_failover how, int64_t now_ms);
const char *bus_reset(struct bus *bus, bool is_hard, bool has_keys, int64_t now_ms);
const char *bus_set_config_epoch(struct bus *bus, uint64_t epoch);
/* *bumped false: this node has the largest epoch already. */
void bus_bump_epoch(struct bus *bus, bool *bumped);

/* Atomic migration (slot_export.h): another node, the owner of the slots, sends their keys. They are removed if the node does not keep the receipt alive
 * (10 s), or ends it, and by a start. One at a time. */
const char *bus_begin_receipt(struct bus *bus, const struct slots *slots, const struct node_id *from, int64_t now_ms, uint64_t *receipt);
const char *bus_keep_receipt(struct bus *bus, uint64_t receipt, int64_t now_ms);
/* The slots are this node's, with that epoch, which has to be above the current one. Again: nothing more. */
const char *bus_take_receipt(struct bus *bus, uint64_t receipt, uint64_t epoch, int64_t now_ms);
/* Unless it was taken, which is returned: then `slot`, one of them, is this node's, also after a start. */
bool bus_end_receipt(struct bus *bus, uint64_t receipt, unsigned slot, int64_t now_ms);
/* Removes keys of slots of other nodes, which are not being moved: a replica that took over from a primary that received slots does not know of that. */
const char *bus_drop_slots(struct bus *bus, const struct slots *slots);
/* A start: has the keys of unwanted slots removed. */
void bus_drop_unwanted(struct bus *bus);
/* `receipt`: the other node's number. Writes to these slots of this node wait from now on, until they have another owner, or bus_end_hand_over. They are not moved otherwise meanwhile, no replica is
 * let take over by agreement, and the other node is not forgotten. The error is without a code. */
const char *bus_hand_over(struct bus *bus, const struct slots *slots, const struct node_id *to, uint64_t receipt);
/* From now on the other node may take them, with epochs up to this one: reads wait, too, and this node raises its own epoch for nothing. Known after a start as well: the outcome has to be
 * looked up then. 0: it has refused, and no longer may. */
void bus_let_take(struct bus *bus, uint64_t epoch);
/* The other node has taken them, or will not. */
void bus_end_hand_over(struct bus *bus);
/* The other node has failed: they are this node's, with an epoch above all with which it may have taken them. False: they have another owner. */
bool bus_take_back(struct bus *bus);
void bus_publish(struct bus *bus, struct bytes channel, struct bytes text, bool is_shard);      /* to the other nodes; `is_shard`: to those of its shard */

/* --- To be shown */

/* Appends the lines of CLUSTER NODES, of one node (`only`) or of all (NULL), as Redis 7.2 does, with nodes in a handshake. `port`: for clients with
 * TLS, or without. */
void bus_describe_nodes(const struct bus *bus, const struct node *only, enum nodes_file_port port, struct buffer *out);
void bus_describe_info(const struct bus *bus, struct buffer *out);              /* CLUSTER INFO */
unsigned bus_failure_reports(struct bus *bus, const struct node *node, int64_t now_ms);

/* A link with a node, for CLUSTER LINKS. */
struct bus_link_view {
    uint64_t link;
    bool is_outgoing;
    const struct node *node;            /* NULL: this one is not there, or is being opened */
    int64_t opened_ms;
};
/* False: there is no such index. Each node has two: of this node's link to it, and of the one that it opened. Clients expect them side by side. */
bool bus_link_view(const struct bus *bus, unsigned index, struct bus_link_view *view);

#endif
