#include "cluster/claim.h"

/* Says itself, or is said by a third node. */
enum claim_source { CLAIM_HEADER, CLAIM_HEARSAY };

/* A claim under way. */
struct claim {
    struct members *members;
    struct node *claimer;
    struct node *primary;           /* this node, or its master; NULL: its master is not known */
    uint64_t epoch;
    enum claim_source source;
    unsigned taken;                 /* of the primary's slots */
    struct claim_outcome *outcome;
};

static bool is_defended(const struct members *members, unsigned slot)
{
    return members->owners[slot] != NULL && !slots_has(&members->unclaimed, slot);
}

/* The claimer itself claims a slot that was given up: the keys are not needed any more. */
static void confirm_loss(struct claim *claim, unsigned slot)
{
    if (claim->source == CLAIM_HEADER && slots_has(&claim->members->conceded, slot)) {
        slots_remove(&claim->members->conceded, slot);
        slots_add(&claim->outcome->lost, slot);
    }
}

static void take_slot(struct claim *claim, unsigned slot)
{
    struct members *members = claim->members;
    struct node *owner = members->owners[slot];
    const struct node_move *move;

    if (owner == claim->claimer) {
        slots_remove(&members->unclaimed, slot);
        confirm_loss(claim, slot);
        return;
    }
    move = members_move_of(members, slot);
    if ((move != NULL && move->is_import) || (is_defended(members, slot) && owner->config_epoch >= claim->epoch))
        return;
    if (owner == members->myself)
        slots_add(&members->conceded, slot);
    claim->taken += owner != NULL && owner == claim->primary;
    members_bind(members, slot, claim->claimer);
    confirm_loss(claim, slot);
    claim->outcome->has_changed = true;
}

/* A slot of the claimer that it does not claim. A header from before the epoch by which it got the slot does not give a
 * conceded one back. */
static void leave_slot(struct claim *claim, unsigned slot)
{
    struct members *members = claim->members;

    if (claim->source == CLAIM_HEADER && claim->epoch >= claim->claimer->config_epoch && slots_has(&members->conceded, slot)) {
        members_bind(members, slot, members->myself);
        claim->outcome->has_changed = true;
    } else {
        slots_add(&members->unclaimed, slot);
    }
}

/* Rule 3. */
static struct node *master_to_follow(const struct claim *claim, const struct slots *claimed, enum claim_following following)
{
    bool has_lost_all = claim->taken > 0 && claim->primary->slot_count == 0;

    return has_lost_all && (following == CLAIM_FOLLOW_ANY || claim->taken == slots_count(claimed)) ? claim->claimer : NULL;
}

/* Looks only at slots whose claim differs from what is known, or was doubted: mostly none. */
static void run_claim(struct claim *claim, const struct slots *claimed, enum claim_following following)
{
    struct members *members = claim->members;

    if (claim->claimer == members->myself || !(claim->claimer->flags & NODE_MASTER))
        return;
    for (unsigned i = 0; i < SLOTS_WORDS; i++) {
        uint64_t word = slots_word(claimed, i), doubted = slots_word(&members->unclaimed, i) | slots_word(&members->conceded, i);

        for (uint64_t left = (word ^ slots_word(&claim->claimer->slots, i)) | (word & doubted); left != 0; left &= left - 1) {
            unsigned bit = (unsigned)__builtin_ctzll(left), slot = i * SLOTS_WORD_BITS + bit;

            if (word >> bit & 1)
                take_slot(claim, slot);
            else
                leave_slot(claim, slot);
        }
    }
    claim->outcome->new_master = master_to_follow(claim, claimed, following);
    if (claim->outcome->new_master != NULL)
        claim->outcome->lost = (struct slots){ { 0 } };
}

static struct claim make_claim(struct members *members, struct node *claimer, uint64_t epoch, enum claim_source source, struct claim_outcome *outcome)
{
    struct node *myself = members->myself;

    *outcome = (struct claim_outcome){ 0 };
    return (struct claim){ members, claimer, myself->flags & NODE_MASTER ? myself : myself->master, epoch, source, 0, outcome };
}

void claim_slots(struct members *members, struct node *claimer, uint64_t epoch, const struct slots *claimed, enum claim_following following,
                 struct claim_outcome *outcome)
{
    struct claim claim = make_claim(members, claimer, epoch, CLAIM_HEADER, outcome);

    run_claim(&claim, claimed, following);
}

bool claim_update(struct members *members, struct node *about, uint64_t epoch, const struct slots *claimed, enum claim_following following,
                  struct claim_outcome *outcome)
{
    struct claim claim = make_claim(members, about, epoch, CLAIM_HEARSAY, outcome);

    if (about == members->myself || about->config_epoch >= epoch)
        return false;
    members_set_primary(members, about);
    members_set_epoch(members, about, epoch);
    run_claim(&claim, claimed, following);
    return true;
}

const struct node *claim_newer_owner(const struct members *members, const struct node *claimer, uint64_t epoch, const struct slots *claimed)
{
    for (unsigned i = 0; i < SLOTS_WORDS; i++) {
        for (uint64_t left = slots_word(claimed, i) & ~slots_word(&claimer->slots, i); left != 0; left &= left - 1) {
            unsigned slot = i * SLOTS_WORD_BITS + (unsigned)__builtin_ctzll(left);

            if (is_defended(members, slot) && members->owners[slot]->config_epoch > epoch)
                return members->owners[slot];
        }
    }
    return NULL;
}

/* False: there is no larger one, which only a broken or hostile node can bring about; or another node may be taking slots with an epoch that was larger than this node's when
 * it was let: by a later one this node would take them back. */
static bool take_epoch(struct members *members)
{
    if (members->current_epoch == UINT64_MAX || members->handed_epoch != 0)
        return false;
    members_set_epoch(members, members->myself, members->current_epoch + 1);
    return true;
}

bool claim_resolve_collision(struct members *members, const struct node *other, uint64_t epoch, uint64_t offset)
{
    const struct node *myself = members->myself;
    bool is_first = node_id_compare(&myself->id, &other->id) < 0;

    if (!(myself->flags & NODE_MASTER) || !(other->flags & NODE_MASTER) || other == myself || epoch != myself->config_epoch)
        return false;
    if (node_id_equal(&myself->shard_id, &other->shard_id) && offset != other->offset)
        is_first = offset > other->offset;
    return is_first && take_epoch(members);
}

static bool has_largest_epoch(const struct members *members)
{
    const struct node *myself = members->myself;

    for (unsigned i = 0; i < members->count; i++) {
        const struct node *node = members->all[i];

        if (node != myself && node->flags & NODE_MASTER && node->config_epoch >= myself->config_epoch)
            return false;
    }
    return myself->config_epoch == members->current_epoch && myself->config_epoch > 0;
}

bool claim_raise_epoch(struct members *members)
{
    return !has_largest_epoch(members) && take_epoch(members);
}

bool claim_covers_all(const struct members *members)
{
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        if (members->owners[slot] == NULL || members->owners[slot]->flags & NODE_FAIL)
            return false;
    }
    return true;
}
