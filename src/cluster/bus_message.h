/* Bus message: the bytes that nodes of a Redis Cluster exchange, version 1 of the protocol: Redis 4.0 to 8, Valkey. All numbers are big-endian.
 *
 *   header = "RCmb" | size u32 | version u16 | port u16 | type u16 | gossip count u16 | current epoch u64 | config epoch u64 | offset u64 |
 *            sender 40 | slots 2048 | master 40 | ip 46 | extension count u16 | 30 zeros | other port u16 | bus port u16 | flags u16 |
 *            state u8 | message flags u8 | 2 zeros                                                            2256 bytes
 *   PING, PONG, MEET = header | gossip... | extension...
 *   gossip = id 40 | ping sent u32 | pong received u32 | ip 46 | port u16 | bus port u16 | flags u16 | other port u16 | 2 zeros      104 bytes
 *   extension = size u32, a multiple of 8 | type u16 | 2 zeros | contents | zeros
 *   contents = host name, with a NUL (0) | human name, with a NUL (1) | forgotten node 40, seconds u64 (2) | shard ID 40 (3)
 *   FAIL = header | node 40
 *   UPDATE = header | config epoch u64 | node 40 | slots 2048
 *   PUBLISH, PUBLISHSHARD = header | channel size u32 | message size u32 | channel | message
 *   FAILOVER_AUTH_REQUEST, FAILOVER_AUTH_ACK, MFSTART = header
 *   MODULE = header | module u64 | size u32 | type u8 | bytes
 *
 * The port is open to anyone: bus_message_size decides by the first 16 bytes, before memory is allocated, how many may follow. What is read is valid in
 * itself: IDs, addresses, sizes, texts; it says nothing about the sender's rights. The caller decides what a stranger may send.
 */
#ifndef KELVIN_CLUSTER_BUS_MESSAGE_H
#define KELVIN_CLUSTER_BUS_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "cluster/node_id.h"
#include "cluster/node_text.h"
#include "cluster/slots.h"

enum {
    BUS_PREFIX_SIZE = 16,                       /* bytes that say how long a message is */
    BUS_HEADER_SIZE = 2256,
    BUS_EXTENSIONS_SIZE_MAX = 1 << 20,          /* of one message */
    BUS_KNOWN_SIZE_MAX = 1 << 30,               /* of a node of the cluster: PUBLISH */
    BUS_STRANGER_SIZE_MAX = 256 << 10,          /* for connections on which no node of the cluster was recognized yet: a PING of 2000 nodes */
};

enum bus_type {
    BUS_PING, BUS_PONG, BUS_MEET, BUS_FAIL, BUS_PUBLISH, BUS_FAILOVER_AUTH_REQUEST, BUS_FAILOVER_AUTH_ACK, BUS_UPDATE, BUS_MFSTART, BUS_MODULE,
    BUS_PUBLISHSHARD, BUS_TYPE_COUNT
};

enum bus_message_flags {
    BUS_PAUSED = 1,                 /* the sender, a primary, holds its writes for a manual failover */
    BUS_FORCE_ACK = 2,              /* a vote is asked for although the primary has not failed */
    BUS_HAS_EXTENSIONS = 4,         /* is set with the first one. A message that has the flag and none says that its sender knows them: all versions take it */
};

struct bus_message {
    uint16_t type;                          /* enum bus_type, or one of a later version: then only the header was read */
    uint16_t flags;                         /* the sender's: enum node_flags, and others of later versions */
    uint16_t port, other_port, bus_port;    /* of clients: with tls-cluster the TLS port, and the other is the plain one; else the other way round */
    uint8_t state;                          /* 0: the cluster is ok, 1: it failed */
    uint8_t message_flags;
    uint64_t current_epoch, config_epoch;   /* of a replica: the second is its master's */
    uint64_t offset;                        /* of the replication */
    struct node_id sender;
    struct node_id master;                  /* none: the sender is a primary */
    char ip[NODE_IP_SIZE];                  /* ends with NUL; "": the one of the connection */
    const struct slots *slots;              /* a replica's are its master's */

    /* PING, PONG, MEET: set by reading only */
    uint16_t gossip_count;
    struct bytes gossip, extensions;        /* bus_message_gossip, bus_message_forgotten */
    struct bytes host_name, name;           /* empty: none, or not valid */
    struct node_id shard_id;                /* none: there is no such extension */

    /* FAIL, UPDATE: the node that it is about */
    struct node_id about;
    uint64_t about_epoch;                   /* UPDATE */
    const struct slots *about_slots;

    struct bytes channel, text;             /* PUBLISH, PUBLISHSHARD */
};

struct bus_gossip {
    struct node_id id;
    uint32_t ping_sent_s, pong_s;           /* Unix time */
    char ip[NODE_IP_SIZE];
    uint16_t port, other_port, bus_port, flags;
};

/* Whole size of the message that begins with these BUS_PREFIX_SIZE bytes. STATUS_CORRUPT: no message begins so; STATUS_TOO_LARGE: it has more than
 * `size_max` bytes, or more than its parts can have. In both cases the connection has to be closed. */
enum status bus_message_size(struct bytes prefix, size_t size_max, uint32_t *size);

/* Reads a whole message. What it refers to stays in `bytes`. STATUS_VERSION: of another version of the protocol, to be ignored. STATUS_CORRUPT: it is
 * not what it says. */
enum status bus_message_read(struct bytes bytes, struct bus_message *message);

/* An entry of a message that was read; `index` is below gossip_count. */
void bus_message_gossip(const struct bus_message *message, unsigned index, struct bus_gossip *gossip);
/* The next node that the sender was asked to forget; *at starts with 0. False: there is no more. */
bool bus_message_forgotten(const struct bus_message *message, size_t *at, struct node_id *id, uint64_t *seconds);

/* Appends a message and returns its offset in `out`, which is passed to the functions below: gossip first, then extensions. `slots` may be NULL for
 * none. MODULE is not written. */
size_t bus_message_write(const struct bus_message *message, struct buffer *out);
void bus_message_add_gossip(struct buffer *out, size_t begin, const struct bus_gossip *gossip);
void bus_message_add_host_name(struct buffer *out, size_t begin, struct bytes name);
void bus_message_add_name(struct buffer *out, size_t begin, struct bytes name);
void bus_message_add_forgotten(struct buffer *out, size_t begin, const struct node_id *id, uint64_t seconds);
void bus_message_add_shard_id(struct buffer *out, size_t begin, const struct node_id *id);

/* As in INFO and in the statistics of CLUSTER INFO: "ping", "auth-req" ...; "unknown" for types of later versions. */
const char *bus_type_name(uint16_t type);

#endif
