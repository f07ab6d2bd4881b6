/* Members: the nodes of the cluster as this node knows them, which of them have which slots, and the epochs. A table without rules: those are in claim,
 * suspect and vote.
 *
 * Owner: one thread. A node's pointer is valid until members_remove. Times are Unix time in milliseconds, handed in by the caller; 0 is never.
 *
 * Invariants: owners[s] is n if and only if n->slots has s; slot_count and replica_count are exact; a node whose master is set is a replica of its shard, and
 * has no slots; current_epoch is not below any config epoch; `all` is in the order of the IDs.
 */
#ifndef KELVIN_CLUSTER_MEMBERS_H
#define KELVIN_CLUSTER_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/random.h"
#include "cluster/moved_slots.h"
#include "cluster/node_id.h"
#include "cluster/node_text.h"
#include "cluster/nodes_file.h"
#include "cluster/slots.h"

struct node;

/* A primary says that a node does not reply. */
struct node_report {
    struct node *reporter;
    int64_t at_ms;
};

/* The bus' notes about a node; not saved. */
struct node_peer {
    uint64_t link, accepted;                    /* this node's link to it, and the one that it opened; 0: none */
    int64_t added_ms, heard_ms;                 /* when it was added, and when its last message came */
    int64_t orphaned_ms;                        /* a primary: since when none of its replicas works; 0: not so */
    uint64_t said_epoch;                        /* the largest current epoch that its headers had */
    int64_t led_ms;                             /* when it became a primary */
    uint64_t granted_epoch;                     /* its vote for this node */
    uint64_t gossip_stamp;                      /* the last message in which it was mentioned */
    unsigned working_replicas;                  /* bus_orphan */
    bool takes_extensions;
    bool has_replied;                           /* a PONG of it came by this node's link, or it is of nodes.conf */
    bool is_met;                                /* this node has sent it MEET, and it has sent no PING yet */
};

struct node {
    struct node_id id, shard_id;
    struct node *master;                        /* NULL: a primary, or a replica of an unknown node */
    uint16_t flags;                             /* enum node_flags */
    char ip[NODE_IP_SIZE];                      /* "": not known */
    uint16_t port, tls_port, bus_port;
    struct buffer host_name, name;              /* empty: none */
    bool is_connected;                          /* this node's link to it is open */
    uint64_t config_epoch;                      /* the largest that it claimed; a replica's is not used: node_epoch */
    uint64_t offset;                            /* of its replication, as it said last */
    int64_t ping_sent_ms;                       /* when the PING without a reply was sent; 0: there is none */
    int64_t pong_ms;                            /* when the last reply came */
    int64_t fail_ms;                            /* when it became NODE_FAIL */
    int64_t voted_ms;                           /* when this node voted for a replica of it */
    unsigned slot_count, replica_count;
    struct slots slots;
    struct node_report *reports;                /* suspect.h */
    unsigned report_count, report_room;
    struct node_peer peer;
};

/* A slot that this node gives to, or takes from another. */
struct node_move {
    struct node *other;
    uint16_t slot;
    bool is_import;
};

struct members {
    struct node **all;
    unsigned count, room;
    struct node *myself;
    struct node *owners[SLOT_COUNT];            /* NULL: none */
    struct slots unclaimed;                     /* those whose owner does not claim them any more */
    struct slots conceded;                      /* those that this node gave up because a third one said so: see claim.h */
    struct slots unwanted;                      /* others', of which this node may have keys that are to be removed: also by the next start */
    struct slots received;                      /* another's, which sends their keys to this node; unwanted until they are its own. Not saved */
    uint64_t receipt;                           /* number of the migration that brings them; 0: none. Not saved */
    struct slots handed_over;                   /* this node's, whose writes wait until another has taken them over, or not */
    struct node_id handed_to;                   /* that other one */
    uint64_t handed_receipt;                    /* its number of the migration */
    uint64_t handed_epoch;                      /* the largest with which it may have taken them; 0: it has not. These four are saved if it may */
    struct moved_slots moved;                   /* by managed_move.h: their owner is the node that they went to, or none if that is not known */
    struct node_move *moves;                    /* in the order of the slots */
    unsigned move_count, move_room;
    uint64_t current_epoch, last_vote_epoch;
};

/* A cluster of this node alone, a primary with random IDs. */
struct members *members_create(struct random *random);
/* Makes the table of a file. Missing shard IDs are those of the master, or random. PING and PONG that were there are taken for `now_ms`. */
struct members *members_create_from(const struct nodes_file *file, int64_t now_ms, struct random *random);
void members_destroy(struct members *members);        /* NULL is fine */

/* Appends the current epoch, `handed_*` and `moved` only (nodes_file_read_moves). */
void members_write_moves(const struct members *members, struct buffer *out);

/* Appends the text of nodes.conf. Nodes in a handshake are left out, and moves to and from them: their IDs are not theirs. */
void members_write(const struct members *members, struct buffer *out);

struct node *members_find(const struct members *members, const struct node_id *id);           /* NULL: it is not known */
/* The ID must not be known. The shard ID is random until the node says its own. NULL: there are NODES_FILE_COUNT_MAX of them. */
struct node *members_add(struct members *members, const struct node_id *id, uint16_t flags, struct random *random);
/* Forgets it: its slots have no owner then, its replicas no master. Not this node. */
void members_remove(struct members *members, struct node *node);
/* The end of a handshake: the node has said its ID, which must not be known. */
void members_rename(struct members *members, struct node *node, const struct node_id *id);

/* Makes it a replica of `master`, which may be NULL: of a node that is not known. It loses its slots, and is in the shard of its master. */
void members_set_master(struct members *members, struct node *node, struct node *master);
/* Also of its replicas, and theirs. */
void members_set_shard(struct members *members, struct node *node, const struct node_id *id);
void members_set_primary(struct members *members, struct node *node);
/* `owner` is NULL for none, or a primary. A conceded slot without an owner is this node's again. */
void members_bind(struct members *members, unsigned slot, struct node *owner);

/* NULL: the slot does not move. */
const struct node_move *members_move_of(const struct members *members, unsigned slot);
void members_begin_move(struct members *members, const struct node_move *move);       /* replaces one of the slot */
void members_end_move(struct members *members, unsigned slot);                        /* also if there is none */

/* Sets the largest claimed epoch of a node, and the current one if that is below. */
void members_set_epoch(struct members *members, struct node *node, uint64_t epoch);
/* A replica's is its master's. */
uint64_t node_epoch(const struct node *node);

/* Primaries with slots: those with a vote. */
unsigned members_voters(const struct members *members);
static inline unsigned members_majority(const struct members *members)
{
    return members_voters(members) / 2 + 1;
}

static inline bool node_is_voter(const struct node *node)
{
    return node->flags & NODE_MASTER && node->slot_count > 0;
}

/* For tests: CHECKs all invariants. */
void members_verify(const struct members *members);

#endif
