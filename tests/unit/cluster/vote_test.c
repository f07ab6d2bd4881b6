#include "cluster/vote.h"

#include "support/unit.h"

#include <stdio.h>

#include "base/mem.h"
#include "cluster/suspect.h"
#include "support/cluster_view.h"
#include "support/seed.h"

enum { T = 1000 };

/* c, a replica of b, asks in epoch 10; this node is a. */
struct box {
    struct members *members;
    struct slots slots;
    struct vote_request request;
    const struct node *newer;
};

static void box_open(struct box *box, const char *description)
{
    struct node *b;

    *box = (struct box){ .members = cluster_view_create(description), .slots = cluster_view_slots("1-9") };
    box->request = (struct vote_request){ cluster_view_node(box->members, 'c'), 10, 2, &box->slots, false };
    box->members->current_epoch = 10;
    b = cluster_view_node(box->members, 'b');
    suspect_set_failed(b, 5000);
}

static void check(struct box *box, enum vote_verdict verdict)
{
    uint64_t last = box->members->last_vote_epoch;

    assert_int_equal(vote_decide(box->members, &box->request, 100000, T, &box->newer), verdict);
    if (verdict != VOTE_GRANTED)
        assert_int_equal(box->members->last_vote_epoch, last);
}

static const char usual[] = "a master 1 0\nb master 2 1-9\nc slave-of-b\n" "d slave-of-b\ne master 3 10";

static void a_replica_of_a_failed_primary_gets_one_vote_in_each_epoch(void **state)
{
    struct box box;

    box_open(&box, usual);
    check(&box, VOTE_GRANTED);
    assert_int_equal(box.members->last_vote_epoch, 10);
    check(&box, VOTE_GIVEN);                                                    /* neither again nor to another */
    box.request.candidate = cluster_view_node(box.members, 'd');
    check(&box, VOTE_GIVEN);
    box.request.epoch = box.members->current_epoch = 11;
    check(&box, VOTE_TOO_SOON);
    cluster_view_node(box.members, 'b')->voted_ms = 100000 - 2 * T;
    check(&box, VOTE_GRANTED);
    members_destroy(box.members);
}

static void a_vote_is_refused_for_each_reason(void **state)
{
    struct box box;

    box_open(&box, usual);
    box.request.epoch = 9;
    check(&box, VOTE_OLD_EPOCH);
    box.request.epoch = 10;
    cluster_view_node(box.members, 'b')->flags = NODE_MASTER | NODE_PFAIL;
    check(&box, VOTE_PRIMARY_IS_UP);
    box.request.is_forced = true;
    check(&box, VOTE_GRANTED);
    members_destroy(box.members);

    box_open(&box, usual);
    box.request.candidate = cluster_view_node(box.members, 'e');
    check(&box, VOTE_NO_REPLICA);
    box.request.candidate = cluster_view_node(box.members, 'c');
    members_set_master(box.members, box.request.candidate, NULL);
    check(&box, VOTE_NO_REPLICA);
    members_destroy(box.members);

    box_open(&box, "a master 1\nb master 2 1-9\nc slave-of-b");
    check(&box, VOTE_NO_RIGHT);
    members_destroy(box.members);
    box_open(&box, "a slave-of-b\nb master 2 1-9\nc slave-of-b");
    check(&box, VOTE_NO_RIGHT);
    members_destroy(box.members);
}

/* valkey #2169: the primary took a new epoch and failed before its replicas were notified of it. */
static void a_candidate_with_an_old_claim_is_refused_and_shown_the_newer_one(void **state)
{
    struct box box;

    box_open(&box, usual);
    members_set_epoch(box.members, cluster_view_node(box.members, 'b'), 7);
    check(&box, VOTE_OLD_CLAIM);
    assert_true(box.newer == cluster_view_node(box.members, 'b'));
    box.request.config_epoch = 7;                                               /* it has learned */
    check(&box, VOTE_GRANTED);
    members_destroy(box.members);

    box_open(&box, usual);
    box.slots = cluster_view_slots("1-10");                                     /* a slot of another primary */
    check(&box, VOTE_OLD_CLAIM);
    assert_true(box.newer == cluster_view_node(box.members, 'e'));
    members_destroy(box.members);
}

static void the_rank_counts_replicas_that_have_more(void **state)
{
    struct members *members = cluster_view_create("c slave-of-b\nb master 2 1-9\n" "d slave-of-b\ne slave-of-b\nf slave-of-b\ng slave-of-a\na master 3 10");

    cluster_view_node(members, 'd')->offset = 101;
    cluster_view_node(members, 'e')->offset = 100;
    cluster_view_node(members, 'f')->offset = 500;
    cluster_view_node(members, 'g')->offset = 900;
    assert_int_equal(vote_rank(members, 100), 2);
    cluster_view_node(members, 'd')->flags |= NODE_NO_FAILOVER;
    assert_int_equal(vote_rank(members, 100), 1);
    cluster_view_node(members, 'f')->flags |= NODE_FAIL;
    assert_int_equal(vote_rank(members, 100), 0);
    members_destroy(members);
    members = cluster_view_create("d slave-of-b\nb master 2 1-9\nc slave-of-b\ne slave-of-b");
    for (unsigned i = 0; i < members->count; i++)
        members->all[i]->offset = 100;
    assert_int_equal(vote_rank(members, 100), 1);                               /* c: as much, and a smaller ID */
    members_destroy(members);
}

static void better_candidates_ask_earlier(void **state)
{
    struct random random;

    random_init(&random, seed_new());
    for (int i = 0; i < 1000; i++) {
        int64_t first = vote_delay_ms(0, &random), second = vote_delay_ms(1, &random);

        assert_true(first >= 500 && first < 1000 && second >= 1500 && second < 2000);
    }
}

static void data_is_fresh_for_some_timeouts(void **state)
{
    assert_true(vote_data_is_fresh(1000 + 10000 + 10000, 1000, 10000, 10));
    assert_false(vote_data_is_fresh(1000 + 10000 + 10001, 1000, 10000, 10));
    assert_true(vote_data_is_fresh(INT64_MAX, 1000, 10000, 0));
}

/* Voters that restart with the file that they wrote before each vote was sent; requests that are repeated, and come late. */
enum { VOTERS = 5, CANDIDATES = 3, EPOCHS = 40 };

static struct members *restart(struct members *members)
{
    struct buffer text = { 0 };
    struct nodes_file *file = mem_alloc(sizeof(*file));
    struct random random;

    members_write(members, &text);
    members_destroy(members);
    assert_int_equal(nodes_file_read(buffer_bytes(&text), NODES_FILE_PORT_PLAIN, file, NULL), STATUS_OK);
    random_init(&random, 1);
    members = members_create_from(file, 1, &random);
    nodes_file_release(file);
    mem_free(file);
    buffer_release(&text);
    return members;
}

static struct members *voter_view(unsigned voter)
{
    char text[300];
    size_t end = (size_t)sprintf(text, "%c master 1 %u", 'a' + voter, voter);

    for (unsigned i = 0; i < VOTERS; i++)
        end += i == voter ? 0 : (size_t)sprintf(text + end, "\n%c master 1 %u", 'a' + i, i);
    end += (size_t)sprintf(text + end, "\nx master 1 100-200");
    for (unsigned i = 0; i < CANDIDATES; i++)
        end += (size_t)sprintf(text + end, "\n%c slave-of-x", '0' + i);
    return cluster_view_create(text);
}

static void in_an_epoch_one_candidate_at_most_has_a_majority(void **state)
{
    struct members *voters[VOTERS];
    struct slots slots = cluster_view_slots("100-200");
    struct random random;
    unsigned elected = 0;

    random_init(&random, seed_new());
    for (unsigned i = 0; i < VOTERS; i++)
        voters[i] = voter_view(i);
    for (uint64_t epoch = 2; epoch < EPOCHS; epoch++) {
        unsigned votes[CANDIDATES] = { 0 }, winners = 0;
        bool has_voted[VOTERS][CANDIDATES] = { { false } };

        for (int step = 0; step < 60; step++) {
            unsigned voter = (unsigned)random_below(&random, VOTERS), candidate = (unsigned)random_below(&random, CANDIDATES);
            struct vote_request request = { NULL, epoch, 1, &slots, false };
            const struct node *newer;

            if (random_below(&random, 3) == 0)
                voters[voter] = restart(voters[voter]);
            request.candidate = cluster_view_node(voters[voter], (char)('0' + candidate));
            suspect_set_failed(cluster_view_node(voters[voter], 'x'), 1);
            if (voters[voter]->current_epoch < epoch)
                voters[voter]->current_epoch = epoch;
            if (vote_decide(voters[voter], &request, (int64_t)epoch * 10 * T, T, &newer) == VOTE_GRANTED) {
                assert_false(has_voted[voter][candidate]);
                has_voted[voter][candidate] = true;
                votes[candidate]++;
            }
        }
        for (unsigned i = 0; i < CANDIDATES; i++)
            winners += votes[i] >= members_majority(voters[0]);
        assert_true(winners <= 1);
        elected += winners;
    }
    assert_true(elected > 0);
    for (unsigned i = 0; i < VOTERS; i++)
        members_destroy(voters[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replica_of_a_failed_primary_gets_one_vote_in_each_epoch),
        cmocka_unit_test(a_vote_is_refused_for_each_reason),
        cmocka_unit_test(a_candidate_with_an_old_claim_is_refused_and_shown_the_newer_one),
        cmocka_unit_test(the_rank_counts_replicas_that_have_more),
        cmocka_unit_test(better_candidates_ask_earlier),
        cmocka_unit_test(data_is_fresh_for_some_timeouts),
        cmocka_unit_test(in_an_epoch_one_candidate_at_most_has_a_majority),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
