/* Claim: who has which slots, by the epochs with which primaries claim them, without a vote or a coordinator.
 *
 *   1. A slot goes to a primary that claims it if it has no owner, if its owner does not claim it any more, or if the claim's epoch is larger than the
 *      owner's. A slot that is imported here stays: what ends the import decides.
 *   2. A slot that its owner does not claim any more stays with it until another claims it, so that clients are redirected once more and not refused;
 *      but the owner's epoch does not defend it, neither here nor by an UPDATE.
 *   3. A node whose last slot, or whose master's last slot, went to a primary follows that one. Otherwise the keys of the slots that it lost are removed.
 *   4. A slot that this node gives up because a third node said so (UPDATE) is only conceded: its keys are not removed before its new owner itself
 *      claims it, and if the new owner does not, the slot is taken back. Otherwise two nodes that are sent each other's older claims would both
 *      give the slot up, and none would claim it ever again. A conceded slot whose new owner is forgotten, or becomes a replica, is taken back, too.
 *      The price: if the new owner has passed it on, and its header comes before that of the next one, this node serves the slot until then, and
 *      what it accepts meanwhile is lost, as at every failover. Which slots were conceded is not saved: after a start they are their new owners'. The
 *      last slot is not conceded: the node follows at once (rule 3).
 *   5. Of two primaries with the same epoch the one with the smaller ID takes a new one; of two in one shard, which are the old and the new one, that
 *      with more of the history.
 *
 * Every function here only changes the table: the caller saves it before it sends anything that depends on it.
 */
#ifndef KELVIN_CLUSTER_CLAIM_H
#define KELVIN_CLUSTER_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/members.h"

/* Whether a node without slots follows a primary that has other slots as well: cluster-allow-replica-migration. */
enum claim_following { CLAIM_FOLLOW_ANY, CLAIM_FOLLOW_SHARD };

struct claim_outcome {
    bool has_changed;               /* a slot has another owner */
    struct node *new_master;        /* NULL, or the node that this node has to follow; that is not done yet */
    struct slots lost;              /* slots of this node that their new owners claim, whose keys are to be removed; none if it follows */
};

/* A header of a primary, or a node as another describes it. `epoch` is that of the claim: members_set_epoch is the caller's. Claims about this node are
 * ignored. */
void claim_slots(struct members *members, struct node *claimer, uint64_t epoch, const struct slots *claimed, enum claim_following following,
                 struct claim_outcome *outcome);
/* The body of an UPDATE: also makes a primary of a replica, and notes the epoch. False: nothing is new in it. */
bool claim_update(struct members *members, struct node *about, uint64_t epoch, const struct slots *claimed, enum claim_following following,
                  struct claim_outcome *outcome);

/* A node that has one of the claimed slots with a larger epoch, so that the claimer, a primary or a replica, is sent an UPDATE about it; NULL: none. */
const struct node *claim_newer_owner(const struct members *members, const struct node *claimer, uint64_t epoch, const struct slots *claimed);

/* Rule 5, for a header of a primary with this epoch. `offset` is this node's. True: this node has a new epoch. */
bool claim_resolve_collision(struct members *members, const struct node *other, uint64_t epoch, uint64_t offset);
/* Takes a new epoch without asking, unless this node has the largest one already: for what an administrator or a migration does. */
bool claim_raise_epoch(struct members *members);

/* Every slot has an owner that has not failed. */
bool claim_covers_all(const struct members *members);

#endif
