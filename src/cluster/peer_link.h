/* Peer link: a connection to the port of clients of another node of the cluster, over which commands are sent. It authenticates with `masteruser` and
 * `masterauth`. It blocks, with the steps and timeouts of replication/migrate_link.h.
 *
 * Each function that returns a bool returns false after an error; the link's message says which, unless it has one already.
 *
 * Owner: one thread at a time, without locks.
 */
#ifndef KELVIN_CLUSTER_PEER_LINK_H
#define KELVIN_CLUSTER_PEER_LINK_H

#include "base/message.h"
#include "cluster/node_id.h"
#include "cluster/node_text.h"
#include "replication/migrate_link.h"

struct cluster;

enum { PEER_WORD_SIZE = 32 };           /* room for the first line of a reply that is a number, or for the beginning of an error */

struct peer_link {
    struct engine *engine;
    struct cluster *cluster;
    struct node_id node;
    const char *name;                   /* of the node, for messages: "the other node" */
    char ip[NODE_IP_SIZE], port[PEER_WORD_SIZE];    /* where it was last */
    struct migrate_link link;
    struct message message;
};

void peer_link_init(struct peer_link *peer, struct engine *engine, struct cluster *cluster, const struct node_id *node, const char *name);
void peer_link_close(struct peer_link *peer);       /* if it is open */
bool peer_link_is_open(const struct peer_link *peer);

/* Connects again if it is open. `timeout_ms`: for each step of the link, from now on. */
bool peer_link_open(struct peer_link *peer, int64_t timeout_ms);
bool peer_link_write(struct peer_link *peer, struct bytes commands);
/* Reads a reply of any form, and copies its first line that is no array's, up to `room` bytes. False: the link has failed, or the reply is an error or has one. */
bool peer_link_read_reply(struct peer_link *peer, char *first, size_t room);
/* One command and its reply. */
bool peer_link_ask(struct peer_link *peer, const struct bytes *words, int count, char *first, size_t room);

/* Sets the message, unless there is one. Returns false. */
bool peer_link_fail(struct peer_link *peer, const char *text);

#endif
