#include "cluster/bus_private.h"
#include "cluster/vote.h"

enum { ELECTION_MS_MIN = 2000, ASK_AGAIN_MS = 1000, RANK_MS = 1000 };

/* For how long votes are waited for. The next attempt begins after twice that. */
static int64_t election_ms(const struct bus *bus)
{
    return bus->options.timeout_ms * 2 < ELECTION_MS_MIN ? ELECTION_MS_MIN : bus->options.timeout_ms * 2;
}

static bool is_manual(const struct bus *bus)
{
    return bus->own->manual.can_start;
}

static bool data_is_fresh(const struct bus *bus)
{
    const struct bus_options *options = &bus->options;
    const struct bus_copied *copied = &bus->own->copied;

    if (copied->at_ms == 0 || !node_id_equal(&copied->shard_id, &bus->members->myself->shard_id))
        return options->validity_factor == 0;
    return vote_data_is_fresh(bus->own->now_ms - copied->at_ms, options->timeout_ms, options->primary_ping_ms, options->validity_factor);
}

/* This node has a reason and the right to take over from its master. */
static bool may_stand(const struct bus *bus)
{
    const struct node *master = bus->members->myself->master;

    if (master == NULL || master->slot_count == 0 || bus->facts.is_loading)
        return false;
    return is_manual(bus) || (master->flags & NODE_FAIL && !bus->options.never_stands && data_is_fresh(bus));
}

static void schedule_election(struct bus *bus)
{
    struct bus_election *election = &bus->own->election;
    int64_t delay_ms;

    *election = (struct bus_election){ .rank = is_manual(bus) ? 0 : vote_rank(bus->members, bus->facts.offset) };
    delay_ms = is_manual(bus) ? 0 : vote_delay_ms(election->rank, &bus->own->random);
    election->begin_ms = bus->own->now_ms + delay_ms;
    if (is_manual(bus))
        return;
    bus_log(bus, "An election begins in %lld ms: %u replicas have more of the history, this one has %llu", (long long)delay_ms, election->rank,
            (unsigned long long)bus->facts.offset);
    bus_gossip_pong_to_shard(bus);                              /* the other replicas have to know this one's offset */
}

/* Others have said that they have more. */
static void update_rank(struct bus *bus)
{
    struct bus_election *election = &bus->own->election;
    unsigned rank = is_manual(bus) ? 0 : vote_rank(bus->members, bus->facts.offset);

    if (rank <= election->rank)
        return;
    election->begin_ms += (int64_t)(rank - election->rank) * RANK_MS;
    election->rank = rank;
}

static void ask_for_votes(struct bus *bus)
{
    struct bus_election *election = &bus->own->election;
    struct members *members = bus->members;

    if (election->asked_ms == 0) {
        if (members->current_epoch == UINT64_MAX)
            return;
        election->epoch = ++members->current_epoch;
        bus_note(bus, BUS_CHANGE_PROMISE);
        bus_log(bus, "Asking for votes in epoch %llu", (unsigned long long)election->epoch);
    }
    election->asked_ms = bus->own->now_ms;
    bus_send_request(bus);
}

static unsigned votes(const struct bus *bus)
{
    unsigned count = 0;

    for (unsigned i = 0; i < bus->members->count; i++) {
        const struct node *node = bus->members->all[i];

        count += node_is_voter(node) && node->peer.granted_epoch == bus->own->election.epoch;
    }
    return count;
}

static void win(struct bus *bus)
{
    struct members *members = bus->members;

    if (members->myself->config_epoch < bus->own->election.epoch)
        members_set_epoch(members, members->myself, bus->own->election.epoch);
    bus_role_take_over(bus);
}

/* A voter may have been asked before it knew of the failure, or the request was lost: it is asked again, in the same epoch. */
static bool may_ask(const struct bus *bus)
{
    const struct bus_election *election = &bus->own->election;

    return election->asked_ms == 0 || (election->epoch == bus->members->current_epoch && bus->own->now_ms - election->asked_ms >= ASK_AGAIN_MS);
}

void bus_election_step(struct bus *bus)
{
    struct bus_election *election = &bus->own->election;
    int64_t age_ms = bus->own->now_ms - election->begin_ms;

    if (!may_stand(bus))
        return;
    if (election->begin_ms == 0 || age_ms > 2 * election_ms(bus)) {
        schedule_election(bus);
        age_ms = bus->own->now_ms - election->begin_ms;
    }
    if (election->asked_ms == 0) {
        update_rank(bus);
        age_ms = bus->own->now_ms - election->begin_ms;
    }
    if (age_ms < 0 || age_ms > election_ms(bus))
        return;
    if (election->asked_ms != 0 && votes(bus) >= members_majority(bus->members))
        win(bus);
    else if (may_ask(bus))
        ask_for_votes(bus);
}

static const char *refusal(enum vote_verdict verdict)
{
    switch (verdict) {
    case VOTE_OLD_EPOCH:
        return "the cluster is at a later epoch";
    case VOTE_GIVEN:
        return "this node has voted in this epoch";
    case VOTE_NO_REPLICA:
        return "it is no replica of a known node";
    case VOTE_PRIMARY_IS_UP:
        return "its primary has not failed";
    case VOTE_TOO_SOON:
        return "this node has just voted about its primary";
    default:
        return "one of its slots has a newer owner";
    }
}

void bus_election_hear_request(struct bus *bus, struct node *candidate, const struct bus_message *message)
{
    struct vote_request request = { candidate, message->current_epoch, message->config_epoch, message->slots, (message->message_flags & BUS_FORCE_ACK) != 0 };
    const struct node *newer = NULL;
    enum vote_verdict verdict = vote_decide(bus->members, &request, bus->own->now_ms, bus->options.timeout_ms, &newer);

    if (verdict == VOTE_GRANTED) {
        bus_note(bus, BUS_CHANGE_PROMISE);
        bus_log(bus, "Vote for %.40s in epoch %llu", candidate->id.text, (unsigned long long)request.epoch);
        bus_send_simple(bus, candidate, BUS_FAILOVER_AUTH_ACK);
    } else if (verdict != VOTE_NO_RIGHT) {
        bus_log(bus, "No vote for %.40s in epoch %llu: %s", candidate->id.text, (unsigned long long)request.epoch, refusal(verdict));
    }
    if (verdict == VOTE_OLD_CLAIM)
        bus_send_update(bus, candidate, newer);
}
