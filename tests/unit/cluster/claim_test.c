#include "cluster/claim.h"

#include "support/unit.h"

#include <stdio.h>

#include "support/cluster_view.h"
#include "support/seed.h"

/* A header of `letter` with this epoch and these slots comes, as the state machine handles it. */
static struct claim_outcome hear(struct members *members, char letter, uint64_t epoch, const char *ranges, enum claim_following following)
{
    struct node *node = cluster_view_node(members, letter);
    struct slots claimed = cluster_view_slots(ranges);
    struct claim_outcome outcome;

    if (epoch > node->config_epoch)
        members_set_epoch(members, node, epoch);
    claim_slots(members, node, epoch, &claimed, following, &outcome);
    members_verify(members);
    return outcome;
}

static void a_slot_goes_to_the_larger_epoch(void **state)
{
    struct members *members = cluster_view_create("a master 5 0-9\nb master 6 10-19\nc master 7");
    struct claim_outcome outcome;

    outcome = hear(members, 'b', 6, "10-20", CLAIM_FOLLOW_ANY);                 /* 20 has no owner */
    assert_true(outcome.has_changed);
    assert_int_equal(cluster_view_owner(members, 20), 'b');
    outcome = hear(members, 'c', 7, "19-20", CLAIM_FOLLOW_ANY);
    assert_true(outcome.has_changed);
    assert_int_equal(cluster_view_owner(members, 19), 'c');
    assert_int_equal(cluster_view_owner(members, 18), 'b');
    outcome = hear(members, 'b', 7, "10-20", CLAIM_FOLLOW_ANY);                 /* not with an equal one */
    assert_false(outcome.has_changed);
    assert_int_equal(cluster_view_owner(members, 19), 'c');
    outcome = hear(members, 'b', 6, "0-20", CLAIM_FOLLOW_ANY);                  /* by the epoch of the claim, not the largest known */
    assert_int_equal(cluster_view_owner(members, 0), 'b');
    assert_int_equal(cluster_view_owner(members, 19), 'c');
    members_destroy(members);
}

static void slots_of_this_node_that_others_have_are_lost(void **state)
{
    struct members *members = cluster_view_create("a master 5 0-9\nb master 6 10-19");
    struct claim_outcome outcome = hear(members, 'b', 6, "3-4 10-19", CLAIM_FOLLOW_ANY);
    struct slots lost = cluster_view_slots("3-4");

    assert_true(slots_equal(&outcome.lost, &lost));
    assert_null(outcome.new_master);
    outcome = hear(members, 'b', 6, "3-4 10-19", CLAIM_FOLLOW_ANY);
    assert_int_equal(slots_count(&outcome.lost), 0);
    members_destroy(members);
}

static void a_slot_that_is_imported_stays_until_the_import_ends(void **state)
{
    struct members *members = cluster_view_create("a master 5 0-9\nb master 6 10-19\nc master 7");

    members_begin_move(members, &(struct node_move){ cluster_view_node(members, 'b'), 15, true });
    members_begin_move(members, &(struct node_move){ cluster_view_node(members, 'b'), 5, false });
    hear(members, 'c', 7, "5 15-16", CLAIM_FOLLOW_ANY);
    assert_int_equal(cluster_view_owner(members, 15), 'b');
    assert_int_equal(cluster_view_owner(members, 16), 'c');
    assert_int_equal(cluster_view_owner(members, 5), 'c');
    members_end_move(members, 15);
    hear(members, 'c', 7, "5 15-16", CLAIM_FOLLOW_ANY);
    assert_int_equal(cluster_view_owner(members, 15), 'c');
    members_destroy(members);
}

/* redis #12336: the source of a migration has a larger epoch by now, for another reason, when the target's claim comes. */
static void a_slot_that_its_owner_gave_up_is_not_defended_by_its_epoch(void **state)
{
    struct members *members = cluster_view_create("a master 5 0-9\nb master 9 10-19\nc master 7");
    struct slots claimed = cluster_view_slots("19");

    hear(members, 'b', 9, "10-18", CLAIM_FOLLOW_ANY);
    assert_int_equal(cluster_view_owner(members, 19), 'b');                     /* clients are sent there until another claims it */
    assert_null(claim_newer_owner(members, cluster_view_node(members, 'c'), 7, &claimed));
    hear(members, 'c', 7, "19", CLAIM_FOLLOW_ANY);
    assert_int_equal(cluster_view_owner(members, 19), 'c');
    members_destroy(members);
}

static void a_slot_that_is_claimed_again_is_defended_again(void **state)
{
    struct members *members = cluster_view_create("a master 5 0-9\nb master 9 10-19\nc master 7");
    struct slots claimed = cluster_view_slots("19");

    hear(members, 'b', 9, "10-18", CLAIM_FOLLOW_ANY);
    hear(members, 'b', 9, "10-19", CLAIM_FOLLOW_ANY);
    assert_true(claim_newer_owner(members, cluster_view_node(members, 'c'), 7, &claimed) == cluster_view_node(members, 'b'));
    hear(members, 'c', 7, "19", CLAIM_FOLLOW_ANY);
    assert_int_equal(cluster_view_owner(members, 19), 'b');
    members_destroy(members);
}

static void who_lost_its_last_slot_follows_the_one_that_has_it(void **state)
{
    struct members *members = cluster_view_create("a master 5 0-9\nb master 6 10-19\nc slave-of-a");
    struct claim_outcome outcome = hear(members, 'b', 6, "0-8 10-19", CLAIM_FOLLOW_ANY);

    assert_null(outcome.new_master);
    outcome = hear(members, 'b', 6, "0-19", CLAIM_FOLLOW_ANY);
    assert_true(outcome.new_master == cluster_view_node(members, 'b'));
    assert_int_equal(slots_count(&outcome.lost), 0);                            /* the keys are replaced as a whole */
    members_destroy(members);

    members = cluster_view_create("a master 5 0-9\nb master 6 10-19");          /* b is of another shard */
    outcome = hear(members, 'b', 6, "0-19", CLAIM_FOLLOW_SHARD);
    assert_null(outcome.new_master);
    assert_int_equal(slots_count(&outcome.lost), 10);
    members_destroy(members);

    members = cluster_view_create("a master 5 0-9\nb slave-of-a");              /* b was elected */
    members_set_primary(members, cluster_view_node(members, 'b'));
    outcome = hear(members, 'b', 6, "0-9", CLAIM_FOLLOW_SHARD);
    assert_true(outcome.new_master == cluster_view_node(members, 'b'));
    members_destroy(members);

    members = cluster_view_create("c slave-of-a\na master 5 0-9\nb master 6 10-19");
    outcome = hear(members, 'b', 6, "0-9 10-19", CLAIM_FOLLOW_ANY);
    assert_true(outcome.new_master == cluster_view_node(members, 'b'));
    members_destroy(members);
}

static void an_update_makes_a_primary_and_is_only_believed_if_it_is_newer(void **state)
{
    struct members *members = cluster_view_create("a master 5 0-9\nb slave-of-a\nc master 7 10-19");
    struct slots claimed = cluster_view_slots("0-9");
    struct node *b = cluster_view_node(members, 'b'), *c = cluster_view_node(members, 'c');
    struct claim_outcome outcome;

    assert_false(claim_update(members, c, 7, &claimed, CLAIM_FOLLOW_ANY, &outcome));
    assert_false(claim_update(members, members->myself, 20, &claimed, CLAIM_FOLLOW_ANY, &outcome));
    assert_true(claim_update(members, b, 8, &claimed, CLAIM_FOLLOW_ANY, &outcome));
    members_verify(members);
    assert_true(b->flags & NODE_MASTER);
    assert_true(outcome.new_master == b);
    assert_int_equal(members->current_epoch, 8);
    members_destroy(members);
}

/* redis #6339: b's older claim is passed on by a third node when b has already given the slot to this node. */
static void a_slot_that_is_given_up_by_hearsay_is_taken_back_if_none_claims_it(void **state)
{
    struct members *members = cluster_view_create("a master 5 0-9\nb master 4 10-19");
    struct slots claimed = cluster_view_slots("3-4 10-19"), lost = cluster_view_slots("4");
    struct node *b = cluster_view_node(members, 'b');
    struct claim_outcome outcome;

    assert_true(claim_update(members, b, 7, &claimed, CLAIM_FOLLOW_ANY, &outcome));
    members_verify(members);
    assert_true(outcome.has_changed);
    assert_int_equal(cluster_view_owner(members, 3), 'b');                      /* not served here any more, but its keys stay */
    assert_int_equal(slots_count(&outcome.lost), 0);
    outcome = hear(members, 'b', 4, "10-19", CLAIM_FOLLOW_ANY);                 /* was on its way when b got them */
    assert_int_equal(cluster_view_owner(members, 3), 'b');
    outcome = hear(members, 'b', 7, "4 10-19", CLAIM_FOLLOW_ANY);               /* b has 4 and does not have 3 */
    assert_true(outcome.has_changed);
    assert_true(slots_equal(&outcome.lost, &lost));
    assert_int_equal(cluster_view_owner(members, 3), 'a');
    assert_int_equal(cluster_view_owner(members, 4), 'b');
    outcome = hear(members, 'b', 7, "4 10-19", CLAIM_FOLLOW_ANY);
    assert_false(outcome.has_changed);
    assert_int_equal(slots_count(&outcome.lost), 0);
    members_destroy(members);

    members = cluster_view_create("a master 5 0-9\nb master 4 10-19\nc master 8");     /* a third one has it in the end */
    claim_update(members, cluster_view_node(members, 'b'), 7, &claimed, CLAIM_FOLLOW_ANY, &outcome);
    outcome = hear(members, 'c', 8, "4", CLAIM_FOLLOW_ANY);
    assert_true(slots_equal(&outcome.lost, &lost));
    assert_int_equal(cluster_view_owner(members, 4), 'c');
    members_set_master(members, members->myself, cluster_view_node(members, 'c'));       /* a replica has nothing to take back */
    outcome = hear(members, 'b', 7, "10-19", CLAIM_FOLLOW_ANY);
    assert_int_equal(cluster_view_owner(members, 3), 'b');
    members_destroy(members);

    members = cluster_view_create("a master 5 0-9\nb master 4 10-19");          /* the new owner is forgotten */
    claim_update(members, cluster_view_node(members, 'b'), 7, &claimed, CLAIM_FOLLOW_ANY, &outcome);
    members_remove(members, cluster_view_node(members, 'b'));
    members_verify(members);
    assert_int_equal(cluster_view_owner(members, 3), 'a');
    assert_int_equal(cluster_view_owner(members, 10), '-');
    members_destroy(members);
}

static void who_claims_with_an_old_epoch_is_shown_the_owner(void **state)
{
    struct members *members = cluster_view_create("a master 5 0-9\nb master 6 10-19\nc slave-of-b");
    struct slots claimed = cluster_view_slots("10-19"), other = cluster_view_slots("0-9"), none = cluster_view_slots("");
    struct node *b = cluster_view_node(members, 'b'), *c = cluster_view_node(members, 'c');

    assert_null(claim_newer_owner(members, b, 6, &claimed));
    assert_null(claim_newer_owner(members, b, 5, &claimed));                    /* its own */
    assert_null(claim_newer_owner(members, b, 5, &other));
    assert_true(claim_newer_owner(members, b, 4, &other) == members->myself);
    assert_null(claim_newer_owner(members, b, 4, &none));
    assert_null(claim_newer_owner(members, c, 6, &claimed));
    assert_true(claim_newer_owner(members, c, 5, &claimed) == b);               /* a replica that missed its master's new epoch */
    members_destroy(members);
}

static void of_two_primaries_with_one_epoch_the_smaller_id_takes_a_new_one(void **state)
{
    struct members *members = cluster_view_create("b master 6 10-19\na master 6 0-9\nc master 6 20\n" "d slave-of-c");

    assert_false(claim_resolve_collision(members, cluster_view_node(members, 'a'), 6, 0));
    assert_false(claim_resolve_collision(members, cluster_view_node(members, 'c'), 5, 0));
    assert_false(claim_resolve_collision(members, cluster_view_node(members, 'd'), 6, 0));
    assert_true(claim_resolve_collision(members, cluster_view_node(members, 'c'), 6, 0));
    assert_int_equal(members->myself->config_epoch, 7);
    assert_int_equal(members->current_epoch, 7);
    members_destroy(members);
}

static void an_epoch_is_raised_unless_it_is_the_only_largest(void **state)
{
    struct members *members = cluster_view_create("a master 6 10-19\nb master 5 0-9");

    assert_false(claim_raise_epoch(members));
    members->current_epoch = 7;                                                 /* of an election without a winner */
    assert_true(claim_raise_epoch(members));
    assert_int_equal(members->myself->config_epoch, 8);
    members_set_epoch(members, cluster_view_node(members, 'b'), 8);
    assert_true(claim_raise_epoch(members));
    assert_int_equal(members->myself->config_epoch, 9);
    members->current_epoch = UINT64_MAX;
    assert_false(claim_raise_epoch(members));
    members_destroy(members);
    members = cluster_view_create("a master 6 10-19\nb slave-of-a");
    members_set_epoch(members, cluster_view_node(members, 'b'), 6);             /* its header has its master's */
    assert_false(claim_raise_epoch(members));
    members_destroy(members);
    members = cluster_view_create("a master 0");
    assert_true(claim_raise_epoch(members));
    assert_int_equal(members->myself->config_epoch, 1);
    members_destroy(members);
}

static void slots_are_covered_when_each_has_an_owner_that_has_not_failed(void **state)
{
    struct members *members = cluster_view_create("a master 6 0-8000\nb master 5 8001-16383");

    assert_true(claim_covers_all(members));
    cluster_view_node(members, 'b')->flags |= NODE_PFAIL;
    assert_true(claim_covers_all(members));
    cluster_view_node(members, 'b')->flags |= NODE_FAIL;
    assert_false(claim_covers_all(members));
    members_bind(members, 7, NULL);
    cluster_view_node(members, 'b')->flags = NODE_MASTER;
    assert_false(claim_covers_all(members));
    members_destroy(members);
}

/* Several primaries that take slots from each other without asking, while their headers come late, or not at all. */
enum { PRIMARIES = 6, STEPS = 400, ROUNDS = 100, SPAN = 300 };

static void send_header(struct members **views, unsigned from, unsigned to)
{
    const struct node *sender = views[from]->myself;
    struct members *members = views[to];
    struct node *node = members_find(members, &sender->id);
    const struct node *newer;
    struct claim_outcome outcome;

    if (views[from]->current_epoch > members->current_epoch)
        members->current_epoch = views[from]->current_epoch;
    if (sender->config_epoch > node->config_epoch)
        members_set_epoch(members, node, sender->config_epoch);
    claim_slots(members, node, sender->config_epoch, &sender->slots, CLAIM_FOLLOW_SHARD, &outcome);
    newer = claim_newer_owner(members, node, sender->config_epoch, &sender->slots);
    if (newer != NULL)
        claim_update(views[from], members_find(views[from], &newer->id), newer->config_epoch, &newer->slots, CLAIM_FOLLOW_SHARD, &outcome);
    claim_resolve_collision(members, node, sender->config_epoch, 0);
    members_verify(members);
}

static void take_slots(struct members *members, struct random *random)
{
    unsigned first = (unsigned)random_below(random, SPAN), count = 1 + (unsigned)random_below(random, 20);

    claim_raise_epoch(members);
    for (unsigned slot = first; slot < first + count; slot++)
        members_bind(members, slot, members->myself);
}

/* All headers are sent until no view changes. */
static void settle(struct members **views)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t epochs = 0, after = 0;

        for (unsigned i = 0; i < PRIMARIES; i++)
            epochs += views[i]->current_epoch;
        for (unsigned i = 0; i < PRIMARIES * PRIMARIES; i++) {
            if (i / PRIMARIES != i % PRIMARIES)
                send_header(views, i / PRIMARIES, i % PRIMARIES);
        }
        for (unsigned i = 0; i < PRIMARIES; i++)
            after += views[i]->current_epoch;
        if (epochs == after && round > 2)
            return;
    }
    fail_msg("the epochs do not settle");
}

static void check_agreement(struct members **views, const bool *had_owner)
{
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        char owner = cluster_view_owner(views[0], slot);

        for (unsigned i = 0; i < PRIMARIES; i++)
            assert_int_equal(cluster_view_owner(views[i], slot), owner);
        assert_true(owner != '-' || !had_owner[slot]);
    }
    for (unsigned i = 0; i < PRIMARIES * PRIMARIES; i++)
        assert_true(i / PRIMARIES == i % PRIMARIES || views[i / PRIMARIES]->myself->config_epoch != views[i % PRIMARIES]->myself->config_epoch);
}

static void primaries_that_take_slots_from_each_other_agree_in_the_end(void **state)
{
    struct random random;

    random_init(&random, seed_new());
    for (int round = 0; round < 20; round++) {
        struct members *views[PRIMARIES];
        bool had_owner[SLOT_COUNT] = { false };

        for (unsigned i = 0; i < PRIMARIES; i++) {
            char text[200];
            size_t end = (size_t)sprintf(text, "%c master 0", 'a' + i);

            for (unsigned k = 0; k < PRIMARIES; k++)
                end += i == k ? 0 : (size_t)sprintf(text + end, "\n%c master 0", 'a' + k);
            views[i] = cluster_view_create(text);
        }
        for (int step = 0; step < STEPS; step++) {
            unsigned from = (unsigned)random_below(&random, PRIMARIES), to = (unsigned)random_below(&random, PRIMARIES);

            if (random_below(&random, 4) == 0)
                take_slots(views[from], &random);
            else if (from != to)
                send_header(views, from, to);
            for (unsigned slot = 0; slot < SPAN + 20; slot++)
                had_owner[slot] |= views[from]->owners[slot] != NULL;
        }
        settle(views);
        check_agreement(views, had_owner);
        for (unsigned i = 0; i < PRIMARIES; i++)
            members_destroy(views[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_goes_to_the_larger_epoch),
        cmocka_unit_test(slots_of_this_node_that_others_have_are_lost),
        cmocka_unit_test(a_slot_that_is_imported_stays_until_the_import_ends),
        cmocka_unit_test(a_slot_that_its_owner_gave_up_is_not_defended_by_its_epoch),
        cmocka_unit_test(a_slot_that_is_claimed_again_is_defended_again),
        cmocka_unit_test(who_lost_its_last_slot_follows_the_one_that_has_it),
        cmocka_unit_test(an_update_makes_a_primary_and_is_only_believed_if_it_is_newer),
        cmocka_unit_test(a_slot_that_is_given_up_by_hearsay_is_taken_back_if_none_claims_it),
        cmocka_unit_test(who_claims_with_an_old_epoch_is_shown_the_owner),
        cmocka_unit_test(of_two_primaries_with_one_epoch_the_smaller_id_takes_a_new_one),
        cmocka_unit_test(an_epoch_is_raised_unless_it_is_the_only_largest),
        cmocka_unit_test(slots_are_covered_when_each_has_an_owner_that_has_not_failed),
        cmocka_unit_test(primaries_that_take_slots_from_each_other_agree_in_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
