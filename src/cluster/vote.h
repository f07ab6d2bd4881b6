/* Vote: which replica may take over from its failed primary. Each primary with slots has one vote in each epoch; a candidate needs a majority.
 *
 * The epoch of a vote is a promise: the caller saves the table before it sends the vote.
 */
#ifndef KELVIN_CLUSTER_VOTE_H
#define KELVIN_CLUSTER_VOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "cluster/members.h"

/* The request of a candidate. */
struct vote_request {
    struct node *candidate;
    uint64_t epoch;                     /* the election's: the current epoch of its header */
    uint64_t config_epoch;              /* its master's, as it knows it */
    const struct slots *slots;          /* the same */
    bool is_forced;                     /* a manual failover: the primary may be up */
};

enum vote_verdict {
    VOTE_GRANTED,
    VOTE_NO_RIGHT,                      /* this node is no primary with slots */
    VOTE_OLD_EPOCH,                     /* the cluster is at a later one */
    VOTE_GIVEN,                         /* this node has voted in this epoch */
    VOTE_NO_REPLICA,                    /* the candidate is not a replica of a known node */
    VOTE_PRIMARY_IS_UP,
    VOTE_TOO_SOON,                      /* this node has voted about the same primary within twice the timeout */
    VOTE_OLD_CLAIM,                     /* a slot has an owner with a larger epoch than the candidate knows */
};

/* Decides, and notes the vote if it is granted. The current epoch is that of the request or a larger one: the caller has seen its header. `newer` is
 * set with VOTE_OLD_CLAIM: the candidate is sent an UPDATE about that node, because it could never win otherwise. */
enum vote_verdict vote_decide(struct members *members, const struct vote_request *request, int64_t now_ms, int64_t timeout_ms, const struct node **newer);

/* How many replicas of this node's master are better candidates: those that have more of the history, or as much and a smaller ID, so that they do not
 * share the votes. `offset` is this node's. */
unsigned vote_rank(const struct members *members, uint64_t offset);
/* From the failure of the primary to the request: the better the candidate, the sooner. */
int64_t vote_delay_ms(unsigned rank, struct random *random);

/* How old a replica's data may be, in milliseconds since its link to the primary broke, for it to stand; `factor` is cluster-replica-validity-factor,
 * 0 for any age. */
bool vote_data_is_fresh(int64_t age_ms, int64_t timeout_ms, int64_t ping_period_ms, unsigned factor);

#endif
