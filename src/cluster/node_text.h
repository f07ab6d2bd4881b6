/* Node text: what nodes say about each other as text: flags, host names, human names. The same words are in nodes.conf and in CLUSTER NODES. */
#ifndef KELVIN_CLUSTER_NODE_TEXT_H
#define KELVIN_CLUSTER_NODE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"

/* The bits are those of the bus. */
enum node_flags {
    NODE_MASTER = 1,
    NODE_REPLICA = 2,
    NODE_PFAIL = 4,             /* suspected by the node that says so: "fail?" */
    NODE_FAIL = 8,              /* failed by the judgement of a majority */
    NODE_MYSELF = 16,
    NODE_HANDSHAKE = 32,        /* its ID is not known yet */
    NODE_NO_ADDRESS = 64,
    NODE_MEET = 128,            /* the first message to it is MEET */
    NODE_MIGRATE_TO = 256,      /* replicas may migrate to it */
    NODE_NO_FAILOVER = 512,     /* a replica that does not stand for election */
};

enum { NODE_IP_SIZE = 46, NODE_HOST_NAME_SIZE_MAX = 255, NODE_NAME_SIZE_MAX = 1024 };

/* Appends the words of the flags, separated by commas; "noflags" if there is none. Flags without a word are left out. */
void node_flags_append(struct buffer *out, uint16_t flags);
/* False: there is a word that is no flag. */
bool node_flags_read(struct bytes text, uint16_t *flags);

/* Texts from outside are put into nodes.conf and replies as they are, so these are refused: host names with other characters than letters, digits, '-'
 * and '.', and human names with blanks, control characters, or what separates fields. Empty ones mean none, and are fine. */
bool node_host_name_is_valid(struct bytes name);
bool node_name_is_valid(struct bytes name);
/* An IP address, by its characters only; a host name passes as well, which cluster-announce-ip of Redis permits. May be empty. */
bool node_ip_is_valid(struct bytes ip);

#endif
