#include "cluster/vote.h"

#include "cluster/claim.h"

enum { DELAY_MS = 500, DELAY_RANDOM_MS = 500, DELAY_RANK_MS = 1000 };

enum vote_verdict vote_decide(struct members *members, const struct vote_request *request, int64_t now_ms, int64_t timeout_ms, const struct node **newer)
{
    struct node *master = request->candidate->master;

    if (!node_is_voter(members->myself))
        return VOTE_NO_RIGHT;
    if (request->epoch < members->current_epoch)
        return VOTE_OLD_EPOCH;
    if (request->epoch <= members->last_vote_epoch)
        return VOTE_GIVEN;
    if (request->candidate->flags & NODE_MASTER || master == NULL)
        return VOTE_NO_REPLICA;
    if (!(master->flags & NODE_FAIL) && !request->is_forced)
        return VOTE_PRIMARY_IS_UP;
    if (master->voted_ms != 0 && now_ms - master->voted_ms < 2 * timeout_ms)
        return VOTE_TOO_SOON;
    *newer = claim_newer_owner(members, request->candidate, request->config_epoch, request->slots);
    if (*newer != NULL)
        return VOTE_OLD_CLAIM;
    members->last_vote_epoch = request->epoch;
    master->voted_ms = now_ms;
    return VOTE_GRANTED;
}

static bool is_better(const struct node *other, const struct node *myself, uint64_t offset)
{
    if (other == myself || other->master != myself->master || other->flags & (NODE_FAIL | NODE_NO_FAILOVER))
        return false;
    return other->offset > offset || (other->offset == offset && node_id_compare(&other->id, &myself->id) < 0);
}

unsigned vote_rank(const struct members *members, uint64_t offset)
{
    unsigned rank = 0;

    for (unsigned i = 0; i < members->count && members->myself->master != NULL; i++)
        rank += is_better(members->all[i], members->myself, offset);
    return rank;
}

int64_t vote_delay_ms(unsigned rank, struct random *random)
{
    return DELAY_MS + (int64_t)random_below(random, DELAY_RANDOM_MS) + (int64_t)rank * DELAY_RANK_MS;
}

bool vote_data_is_fresh(int64_t age_ms, int64_t timeout_ms, int64_t ping_period_ms, unsigned factor)
{
    return factor == 0 || age_ms <= timeout_ms + ping_period_ms + timeout_ms * (int64_t)factor;
}
