#include "cluster/suspect.h"

#include "support/unit.h"

#include "support/cluster_view.h"

enum { T = 1000 };

static const char five[] = "a master 1 0\nb master 2 1\nc master 3 2\n" "d master 4 3\ne master 5 4\nf master 6\ng slave-of-e";

static void a_majority_of_those_with_a_vote_decides_that_a_node_has_failed(void **state)
{
    struct members *members = cluster_view_create(five);
    struct node *e = cluster_view_node(members, 'e');

    assert_true(suspect_report(e, cluster_view_node(members, 'b'), 100));
    assert_false(suspect_report(e, cluster_view_node(members, 'b'), 200));      /* the same again */
    assert_true(suspect_report(e, cluster_view_node(members, 'f'), 200));       /* without slots, without a vote */
    assert_true(suspect_report(e, cluster_view_node(members, 'g'), 200));
    e->flags |= NODE_PFAIL;
    assert_false(suspect_judge(members, e, 300, T));                            /* a, b of five */
    assert_true(suspect_report(e, cluster_view_node(members, 'c'), 300));
    e->flags &= (uint16_t)~NODE_PFAIL;
    assert_false(suspect_judge(members, e, 300, T));                            /* this node gets its replies */
    e->flags |= NODE_PFAIL;
    assert_true(suspect_judge(members, e, 300, T));
    assert_int_equal(e->flags & ~NODE_MIGRATE_TO, NODE_MASTER | NODE_FAIL);
    assert_int_equal(e->fail_ms, 300);
    e->flags |= NODE_PFAIL;
    assert_false(suspect_judge(members, e, 300, T));                            /* once */
    members_destroy(members);
}

static void a_node_without_a_vote_needs_the_majority_of_the_others(void **state)
{
    struct members *members = cluster_view_create("f master 6\na master 1 0\nb master 2 1\nc master 3 2");
    struct node *a = cluster_view_node(members, 'a');

    a->flags |= NODE_PFAIL;
    suspect_report(a, cluster_view_node(members, 'b'), 100);
    assert_false(suspect_judge(members, a, 100, T));
    suspect_report(a, cluster_view_node(members, 'c'), 100);
    assert_true(suspect_judge(members, a, 100, T));
    members_destroy(members);
}

static void the_only_primary_decides_alone(void **state)
{
    struct members *members = cluster_view_create("a master 1 0\nb slave-of-a");
    struct node *b = cluster_view_node(members, 'b');

    b->flags |= NODE_PFAIL;
    assert_true(suspect_judge(members, b, 100, T));
    members_destroy(members);
}

static void reports_are_withdrawn_and_end_after_twice_the_timeout(void **state)
{
    struct members *members = cluster_view_create(five);
    struct node *e = cluster_view_node(members, 'e'), *b = cluster_view_node(members, 'b'), *c = cluster_view_node(members, 'c');

    suspect_report(e, b, 1000);
    suspect_report(e, c, 1500);
    assert_int_equal(suspect_report_count(e, 3000, T), 2);
    assert_int_equal(suspect_report_count(e, 3001, T), 1);
    e->flags |= NODE_PFAIL;
    suspect_report(e, b, 3001);
    assert_false(suspect_judge(members, e, 3501, T));                           /* that of c is too old */
    suspect_report(e, c, 3501);
    assert_true(suspect_withdraw(e, c));
    assert_false(suspect_withdraw(e, c));
    assert_false(suspect_judge(members, e, 3501, T));
    members_remove(members, b);                                                 /* takes its report with it */
    assert_int_equal(suspect_report_count(e, 3501, T), 0);
    members_verify(members);
    members_destroy(members);
}

static void a_node_that_replies_again_has_not_failed_unless_a_replica_may_be_elected(void **state)
{
    struct members *members = cluster_view_create(five);
    struct node *e = cluster_view_node(members, 'e'), *f = cluster_view_node(members, 'f'), *g = cluster_view_node(members, 'g');

    assert_false(suspect_clear(e, 100, T));
    suspect_set_failed(e, 100);
    suspect_set_failed(f, 100);
    suspect_set_failed(g, 100);
    assert_true(suspect_clear(f, 100, T));                                      /* no slots */
    assert_true(suspect_clear(g, 100, T));                                      /* a replica */
    suspect_set_failed(e, 1000);                                                /* another FAIL begins no other time */
    suspect_set_failed(members->myself, 1000);
    assert_false(members->myself->flags & NODE_FAIL);
    assert_false(suspect_clear(e, 2100, T));
    assert_true(suspect_clear(e, 2101, T));
    assert_int_equal(e->flags & ~NODE_MIGRATE_TO, NODE_MASTER);
    members_destroy(members);
}

static void a_node_that_reaches_no_majority_is_in_the_minority(void **state)
{
    struct members *members = cluster_view_create(five);

    assert_false(suspect_is_minority(members));
    cluster_view_node(members, 'b')->flags |= NODE_PFAIL;
    cluster_view_node(members, 'c')->flags |= NODE_FAIL;
    cluster_view_node(members, 'f')->flags |= NODE_FAIL;
    assert_false(suspect_is_minority(members));
    cluster_view_node(members, 'd')->flags |= NODE_PFAIL;
    assert_true(suspect_is_minority(members));
    members_destroy(members);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_majority_of_those_with_a_vote_decides_that_a_node_has_failed),
        cmocka_unit_test(a_node_without_a_vote_needs_the_majority_of_the_others),
        cmocka_unit_test(the_only_primary_decides_alone),
        cmocka_unit_test(reports_are_withdrawn_and_end_after_twice_the_timeout),
        cmocka_unit_test(a_node_that_replies_again_has_not_failed_unless_a_replica_may_be_elected),
        cmocka_unit_test(a_node_that_reaches_no_majority_is_in_the_minority),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
