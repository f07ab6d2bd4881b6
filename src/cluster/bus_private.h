/* Bus, private: what the files of the bus share. From the bottom: bus_links (connections), bus_event (notes), bus_send (messages), bus_gossip (PINGs), bus_role (what this node is,
 * and whether the cluster is ok), bus_election, bus_manual, bus_orphan; bus (begin and end of an event); bus_hear, bus_tick, bus_admin (events), bus_show.
 */
#ifndef KELVIN_CLUSTER_BUS_PRIVATE_H
#define KELVIN_CLUSTER_BUS_PRIVATE_H

#include "base/message.h"
#include "cluster/bus.h"
#include "cluster/claim.h"

enum { BUS_HANDSHAKE_MS_MIN = 1000, BUS_MANUAL_MS = 5000, BUS_HOLD_MS = 10000 };

struct bus_link {
    uint64_t number;
    struct node *node;              /* outgoing: the other end. Accepted: the same, once it was recognized, or NULL */
    bool is_outgoing, is_open;
    int64_t opened_ms;              /* or, until it is open, since when it is being opened */
};

struct bus_forgotten {
    struct node_id id;
    int64_t until_ms;
};

/* This replica's attempt to take over. */
struct bus_election {
    int64_t begin_ms;               /* when the votes are or were asked for; 0: there was no attempt */
    int64_t asked_ms;               /* the last time; 0: not yet */
    uint64_t epoch;
    unsigned rank;
};

/* A manual failover: of the replica that was asked for it, or of its primary. All zero: there is none. */
struct bus_manual {
    int64_t until_ms;               /* 0: there is none */
    int64_t until_real_ms;          /* by the caller's clock */
    struct node_id replica;         /* primary */
    bool knows_offset, can_start;   /* replica */
    uint64_t primary_offset;
};

/* The last time that this replica was in step with a primary of the shard. Its data goes on to count, with the age, for another primary of the same shard,
 * which it may not have copied anything from yet; not for one of another shard, and not once it is being replaced. */
struct bus_copied {
    int64_t at_ms;                  /* 0: never */
    struct node_id shard_id;
};

struct bus_receipt {
    struct node_id from;
    int64_t until_ms;               /* unless its node says something */
    int64_t until_real_ms;          /* the same by the caller's clock, which does not stand still while the process is stopped */
    uint64_t last, taken;           /* the largest number so far; the last one that was taken */
};

struct bus_private {
    struct random random;
    struct bus_link **links;        /* in the order of their numbers */
    unsigned link_count, link_room, stranger_count;
    uint64_t last_link, gossip_stamp;
    int64_t now_ms, real_ms;        /* see bus_begin */
    int64_t started_ms;             /* the first tick; 0: there was none */
    int64_t minority_ms;            /* the last time that this node did not reach a majority; 0: never */
    int64_t chained_ms;             /* since when this replica's primary is a replica; 0: it is none */
    unsigned tick_count, suspect_count, handshake_count;
    bool state_is_stale;
    struct bus_forgotten *forgotten;
    unsigned forgotten_count, forgotten_room;
    struct slots promised;          /* this node's slots at the end of the last event */
    struct bus_election election;
    struct bus_manual manual;
    struct bus_copied copied;
    struct bus_receipt receipt;
    char followed_ip[NODE_IP_SIZE]; /* the address of the primary that was reported to the caller */
    struct node_id followed;
    uint16_t followed_port, followed_tls_port;
    uint64_t sent[BUS_TYPE_COUNT], received[BUS_TYPE_COUNT];
    struct buffer host_name, name;  /* of the options */
    struct message error;           /* of the last command that was refused */
};

/* --- bus: an event. The bus has a time of its own that neither goes back nor makes a step of more than a quarter of the timeout, within these bounds: all times
 * in nodes are of it. So a clock that jumps, or a process that was stopped, does not make all others look dead. */

enum { BUS_STEP_MS_MIN = 200, BUS_STEP_MS_MAX = 1000 };

void bus_begin(struct bus *bus, int64_t real_ms);
void bus_finish(struct bus *bus);

/* --- bus_event: what an event changes */

void bus_log(struct bus *bus, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns the error of a command, valid until the next one. */
const char *bus_refuse(struct bus *bus, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Known, and not in a handshake. */
struct node *bus_known(const struct bus *bus, const struct node_id *id);
/* Forgets it with its links. */
void bus_remove_node(struct bus *bus, struct node *node);
void bus_end_manual(struct bus *bus);
/* This node follows another one, whose data replaces its own: it neither receives slots nor hands them over. */
void bus_end_migrations(struct bus *bus);
bool bus_hands_over_to(const struct bus *bus, const struct node_id *id);

enum bus_change {
    BUS_CHANGE_FILE = 1,            /* nodes.conf is not what there is */
    BUS_CHANGE_PROMISE = 3,         /* and has to be synced before anything is sent */
    BUS_CHANGE_MAP = 4,             /* the topology, and maybe whether the cluster is ok */
};
void bus_note(struct bus *bus, unsigned changes);

/* --- bus_links */

struct bus_link *bus_links_find(const struct bus *bus, uint64_t number);
void bus_links_open(struct bus *bus, struct node *node);
void bus_links_recognize(struct bus *bus, struct bus_link *link, struct node *node);
/* Forgets it, without telling the caller. */
void bus_links_remove(struct bus *bus, uint64_t number);
/* 0 is fine. */
void bus_links_close(struct bus *bus, uint64_t number);
struct bus_action *bus_links_act(struct bus *bus, enum bus_action_kind kind, uint64_t link);

/* --- bus_send: messages without gossip. All of them go by this node's own links, those of nodes that can't be reached are dropped. */

void bus_send_header(const struct bus *bus, enum bus_type type, struct bus_message *message);
/* Bytes of the outcome's buffer, of a message of this type. */
void bus_send_bytes(struct bus *bus, uint64_t link, enum bus_type type, size_t begin, size_t size);
void bus_send_simple(struct bus *bus, struct node *to, enum bus_type type);
void bus_send_update(struct bus *bus, struct node *to, const struct node *about);
void bus_send_fail(struct bus *bus, const struct node *about);
void bus_send_request(struct bus *bus);         /* for votes */

/* --- bus_gossip */

enum bus_extensions { BUS_EXTENSIONS_NOT, BUS_EXTENSIONS_SENT };

/* PING, PONG, MEET. */
void bus_gossip_send(struct bus *bus, uint64_t link, enum bus_type type, enum bus_extensions extensions);
/* PING by this node's link to it, or MEET if it may not know this node. */
void bus_gossip_ping(struct bus *bus, struct node *node);
void bus_gossip_pong_to_all(struct bus *bus);
void bus_gossip_pong_to_shard(struct bus *bus);
void bus_gossip_hear(struct bus *bus, struct node *sender, const struct bus_message *message);
void bus_gossip_hear_extensions(struct bus *bus, struct node *sender, const struct bus_message *message);
void bus_gossip_judge(struct bus *bus, struct node *node);
void bus_gossip_forget(struct bus *bus, const struct node_id *id, int64_t seconds);
bool bus_gossip_is_forgotten(const struct bus *bus, const struct node_id *id);
/* False: there is a handshake with this address, or there are too many. */
bool bus_gossip_start_handshake(struct bus *bus, const char *ip, uint16_t port, uint16_t other_port, uint16_t bus_port, uint16_t flags);

/* --- bus_receipt */

void bus_receipt_step(struct bus *bus);
/* NULL: the slots may be taken now, as far as no epoch counts. */
const char *bus_receipt_judge(struct bus *bus, uint64_t receipt);
/* After it was taken: no slot is received any more. */
void bus_receipt_forget(struct bus *bus);

/* --- bus_role */

void bus_role_follow(struct bus *bus, struct node *master);
/* Makes a replica the primary of all slots of its master. Its epoch is set already. */
void bus_role_take_over(struct bus *bus);
void bus_role_apply_claim(struct bus *bus, const struct claim_outcome *outcome);
void bus_role_update_state(struct bus *bus);
/* Reports a primary that has another address than the one that was reported. */
void bus_role_report_master(struct bus *bus);
enum claim_following bus_role_following(const struct bus *bus);

/* --- bus_election, bus_manual, bus_orphan: what is due */

void bus_election_step(struct bus *bus);
void bus_election_hear_request(struct bus *bus, struct node *candidate, const struct bus_message *message);
void bus_manual_step(struct bus *bus);
void bus_manual_hear_start(struct bus *bus, struct node *replica);
void bus_orphan_step(struct bus *bus);

#endif
