/* Nodes file: the text of nodes.conf, in which a node keeps what it knows about its cluster and what it has promised. Files of redis-server 3.0 to
 * 7.2 are read; what is written is what 7.2 writes, byte for byte, so that each can start in the other's directory, but for
 * files that are refused below.
 *
 *   line = id address flags master ping-sent pong-received config-epoch connected|disconnected slot...
 *   address = ip:port[@bus-port][,[host name][,tls-port=n][,tcp-port=n][,nodename=name][,shard-id=id]]
 *   flags = words separated by commas; master = an ID, or "-"
 *   slot = a | a-b | [a->-id] | [a-<-id]        the last two, on the line of this node only: a is migrating to, being imported from that node
 *   the last line = vars currentEpoch n lastVoteEpoch n [unwanted a-b,c,...] [handed id:epoch:receipt:a-b,c,...]     redis-server skips the last two, which 7.2 does not know
 *
 * A file can be edited by a person, or damaged: what can't be what it should be is refused with the number of the line, and nothing is guessed.
 * Stricter than redis-server's reader: a file whose last line has no end, or that has not both epochs, is refused, because the votes that this node
 * has given would be forgotten; so is a slot of two nodes, a node with two lines, and a node that is a master or the other end of a slot and has none. A node has either slots
 * or a master.
 */
#ifndef KELVIN_CLUSTER_NODES_FILE_H
#define KELVIN_CLUSTER_NODES_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/message.h"
#include "base/status.h"
#include "cluster/moved_slots.h"
#include "cluster/node_id.h"
#include "cluster/slots.h"
#include "keyspace/slot.h"

enum { NODES_FILE_SIZE_MAX = 16 << 20, NODES_FILE_COUNT_MAX = 16384 };

struct nodes_file_node {
    struct node_id id;
    struct node_id master;              /* none: it is a primary, or a replica of an unknown node */
    struct node_id shard_id;            /* none: the file is older than 7.2 */
    struct bytes ip, host_name, name;   /* borrowed from the text; each may be empty */
    uint16_t port, tls_port, bus_port;  /* 0: none */
    uint16_t flags;                     /* enum node_flags */
    bool is_connected;
    uint64_t ping_sent_ms, pong_ms;     /* Unix time; 0: none */
    uint64_t config_epoch;              /* of a replica: its master's */
};

/* A slot that is on its way from or to this node. */
struct nodes_file_move {
    struct node_id other;
    uint16_t slot;
    bool is_import;
};

struct nodes_file {
    struct nodes_file_node *nodes;      /* in the order of the lines */
    struct nodes_file_move *moves;      /* the same; Redis writes them in the order of the slots */
    uint32_t node_count, move_count;
    uint32_t myself;                    /* index */
    uint64_t current_epoch, last_vote_epoch;
    uint16_t owners[SLOT_COUNT];        /* index of the node + 1; 0: none */
    struct slots unwanted;              /* see struct members, as for the next five */
    struct slots handed_over;
    struct node_id handed_to;
    uint64_t handed_epoch, handed_receipt;
    struct moved_slots moved;           /* belongs to it */
};

/* Which port an address has if the file, of 7.0 or older, does not say: with `tls-cluster` it is the one for TLS. */
enum nodes_file_port { NODES_FILE_PORT_PLAIN, NODES_FILE_PORT_TLS };

/* STATUS_NOT_FOUND: the text is empty, so that this is a new node. STATUS_TOO_LARGE, STATUS_CORRUPT: `message` says why, and the file is
 * empty. Otherwise the text has to stay as long as the file, which the caller releases. */
enum status nodes_file_read(struct bytes text, enum nodes_file_port port, struct nodes_file *file, struct message *message);
void nodes_file_release(struct nodes_file *file);

void nodes_file_write(const struct nodes_file *file, struct buffer *out);

/* Only what migrations have left: `handed_*` and `moved`, as words of the last line, each after a blank; empty for none. nodes_file_read_moves also reads
 * "version <current_epoch>". It adds, to a file that is zeroed, and released also after false: it is no such text. */
void nodes_file_write_moves(const struct nodes_file *file, struct buffer *out);
bool nodes_file_read_moves(struct bytes text, struct nodes_file *file);

#endif
