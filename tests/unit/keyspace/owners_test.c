#include "keyspace/owners.h"

#include "support/unit.h"

#include <stdlib.h>

enum { PARTITIONS = 128, CLAIMS = 5 };

struct box {
    struct owners owners;
    struct claim claims[CLAIMS];
    int granted[CLAIMS];            /* how often its claim was granted later */
};

static void note_granted(struct claim *claim)
{
    ++*(int *)claim->context;
}

static int make(void **state)
{
    struct box *box = calloc(1, sizeof(*box));

    owners_init(&box->owners, PARTITIONS);
    for (int i = 0; i < CLAIMS; i++)
        claim_init(&box->claims[i], note_granted, &box->granted[i]);
    *state = box;
    return 0;
}

static int drop(void **state)
{
    struct box *box = *state;

    owners_release(&box->owners);
    free(box);
    return 0;
}

static enum claim_result ask(struct box *box, int claim, uint32_t partition)
{
    partition_bits_clear(&box->claims[claim].wanted, PARTITIONS);
    partition_bits_add(&box->claims[claim].wanted, partition);
    return owners_claim(&box->owners, &box->claims[claim]);
}

static void claims_of_different_partitions_do_not_meet(void **state)
{
    struct box *box = *state;

    assert_int_equal(ask(box, 0, 3), CLAIM_GRANTED);
    assert_int_equal(ask(box, 1, 100), CLAIM_GRANTED);
    assert_true(partition_bits_has(&box->claims[1].owned, 100));
    owners_give(&box->owners, &box->claims[0]);
    owners_give(&box->owners, &box->claims[1]);
}

static void claims_that_wait_are_granted_in_order(void **state)
{
    struct box *box = *state;

    assert_int_equal(ask(box, 0, 3), CLAIM_GRANTED);
    assert_int_equal(ask(box, 1, 3), CLAIM_WAITS);
    assert_int_equal(ask(box, 2, 3), CLAIM_WAITS);
    owners_give(&box->owners, &box->claims[0]);
    assert_int_equal(box->granted[1], 1);
    assert_int_equal(box->granted[2], 0);
    owners_give(&box->owners, &box->claims[1]);
    assert_int_equal(box->granted[2], 1);
    owners_give(&box->owners, &box->claims[2]);
}

/* Else a claim of all partitions would never be granted while there are always some of one. */
static void a_claim_of_all_bars_later_ones(void **state)
{
    struct box *box = *state;

    assert_int_equal(ask(box, 0, 3), CLAIM_GRANTED);
    partition_bits_fill(&box->claims[1].wanted, PARTITIONS);
    assert_int_equal(owners_claim(&box->owners, &box->claims[1]), CLAIM_WAITS);
    assert_int_equal(ask(box, 2, 7), CLAIM_WAITS);
    owners_give(&box->owners, &box->claims[0]);
    assert_int_equal(box->granted[1], 1);
    assert_int_equal(box->granted[2], 0);
    owners_give(&box->owners, &box->claims[1]);
    assert_int_equal(box->granted[2], 1);
    owners_give(&box->owners, &box->claims[2]);
}

static void a_claim_that_waits_for_a_slow_one_bars_none(void **state)
{
    struct box *box = *state;

    assert_int_equal(ask(box, 0, 3), CLAIM_GRANTED);
    box->claims[0].slow = true;
    partition_bits_fill(&box->claims[1].wanted, PARTITIONS);
    assert_int_equal(owners_claim(&box->owners, &box->claims[1]), CLAIM_WAITS);
    assert_int_equal(ask(box, 2, 7), CLAIM_GRANTED);
    owners_give(&box->owners, &box->claims[2]);
    owners_give(&box->owners, &box->claims[0]);
    assert_int_equal(box->granted[1], 1);
    owners_give(&box->owners, &box->claims[1]);
}

/* Two that wait for what the other has would wait for ever. */
static void only_the_holder_of_the_token_waits_while_it_owns(void **state)
{
    struct box *box = *state;

    assert_int_equal(ask(box, 0, 3), CLAIM_GRANTED);
    assert_int_equal(ask(box, 1, 7), CLAIM_GRANTED);
    assert_int_equal(ask(box, 0, 7), CLAIM_WAITS);
    assert_true(box->claims[0].has_token);
    assert_int_equal(ask(box, 1, 3), CLAIM_MUST_RESTART);
    partition_bits_clear(&box->claims[1].wanted, PARTITIONS);
    owners_give(&box->owners, &box->claims[1]);
    assert_int_equal(box->granted[0], 1);
    owners_give(&box->owners, &box->claims[0]);
    assert_null(box->owners.token_holder);
}

/* It owns nothing yet, and those that wait for the token want what it needs. */
static void the_holder_of_the_token_comes_first(void **state)
{
    struct box *box = *state;

    box->claims[0].wants_token = true;
    assert_int_equal(owners_claim(&box->owners, &box->claims[0]), CLAIM_GRANTED);
    box->claims[1].wants_token = true;
    assert_int_equal(ask(box, 1, 3), CLAIM_WAITS);
    assert_int_equal(ask(box, 0, 3), CLAIM_GRANTED);
    owners_give(&box->owners, &box->claims[0]);
    assert_int_equal(box->granted[1], 1);
    owners_give(&box->owners, &box->claims[1]);
}

static void a_claim_that_is_withdrawn_bars_none(void **state)
{
    struct box *box = *state;

    assert_int_equal(ask(box, 0, 3), CLAIM_GRANTED);
    partition_bits_fill(&box->claims[1].wanted, PARTITIONS);
    assert_int_equal(owners_claim(&box->owners, &box->claims[1]), CLAIM_WAITS);
    assert_int_equal(ask(box, 2, 7), CLAIM_WAITS);
    owners_withdraw(&box->owners, &box->claims[1]);
    assert_int_equal(box->granted[2], 1);
    owners_give(&box->owners, &box->claims[2]);
    owners_give(&box->owners, &box->claims[0]);
    assert_int_equal(box->granted[1], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(claims_of_different_partitions_do_not_meet, make, drop),
        cmocka_unit_test_setup_teardown(claims_that_wait_are_granted_in_order, make, drop),
        cmocka_unit_test_setup_teardown(a_claim_of_all_bars_later_ones, make, drop),
        cmocka_unit_test_setup_teardown(a_claim_that_waits_for_a_slow_one_bars_none, make, drop),
        cmocka_unit_test_setup_teardown(only_the_holder_of_the_token_waits_while_it_owns, make, drop),
        cmocka_unit_test_setup_teardown(the_holder_of_the_token_comes_first, make, drop),
        cmocka_unit_test_setup_teardown(a_claim_that_is_withdrawn_bars_none, make, drop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
