/* Suspect: which nodes have failed. A node that does not reply to this one in time is suspected (NODE_PFAIL, by the caller); when a majority of the
 * primaries with slots says so, it has failed (NODE_FAIL), for all nodes.
 *
 * `timeout_ms` is cluster-node-timeout.
 */
#ifndef KELVIN_CLUSTER_SUSPECT_H
#define KELVIN_CLUSTER_SUSPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/members.h"

/* The gossip of a primary says that it does not get replies of the node, or gets them again. True: that is new. */
bool suspect_report(struct node *node, struct node *reporter, int64_t now_ms);
bool suspect_withdraw(struct node *node, const struct node *reporter);

/* Reports that are not older than twice the timeout; the others are removed. */
unsigned suspect_report_count(struct node *node, int64_t now_ms, int64_t timeout_ms);

/* If this node suspects it, and a majority of the voters does (this node is one of them if it has a vote), it has failed. True: it has just become so, and
 * the others have to be sent FAIL. Reports of nodes that have no vote by now don't count. */
bool suspect_judge(struct members *members, struct node *node, int64_t now_ms, int64_t timeout_ms);
void suspect_set_failed(struct node *node, int64_t now_ms);             /* because a FAIL came; not again, and not this node */

/* A node that has failed replies again. True: it has not failed any more: at once if no slots are waiting for it, else after twice the timeout, by
 * which a replica would have been elected. */
bool suspect_clear(struct node *node, int64_t now_ms, int64_t timeout_ms);

/* This node reaches less than a majority of the voters: it must not serve. */
bool suspect_is_minority(const struct members *members);

#endif
