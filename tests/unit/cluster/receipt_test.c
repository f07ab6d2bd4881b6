/* Atomic migration as the bus sees it: slots that are received, taken over, given up, handed over and taken back. */
#include "cluster/bus_private.h"

#include "support/unit.h"

#include <string.h>

#include "support/cluster_view.h"

static const int64_t noon_ms = 1700000000000;

/* The cluster is ok for it. */
static struct bus *bus_of(const char *description)
{
    struct bus_options options = { .timeout_ms = 2000, .validity_factor = 10, .allows_replica_migration = true, .port = 7000, .bus_port = 17000 };

    struct bus *bus = bus_create(cluster_view_create(description), &options, 77, noon_ms);

    bus->is_ok = true;
    return bus;
}

/* Slots 100 to 149 of node a. */
static struct bus *receiving_bus(uint64_t *receipt)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199");
    struct slots slots = cluster_view_slots("100-149");
    struct node_id a = cluster_view_id('a');

    assert_null(bus_begin_receipt(bus, &slots, &a, noon_ms, receipt));
    assert_true(bus->outcome.has_promised && bus->outcome.topology_changed);
    bus_outcome_clear(bus);
    return bus;
}

static void received_slots_are_taken_with_an_epoch_above_all(void **state)
{
    uint64_t receipt;
    struct bus *bus = receiving_bus(&receipt);

    assert_int_equal(cluster_view_owner(bus->members, 149), 'a');
    assert_string_equal(bus_take_receipt(bus, receipt + 1, 4, noon_ms), "ERR this migration has ended here");
    assert_string_equal(bus_take_receipt(bus, receipt, 3, noon_ms), "TRYAGAIN the epoch is not above 3");
    assert_int_equal(cluster_view_owner(bus->members, 149), 'a');
    assert_null(bus_take_receipt(bus, receipt, 7, noon_ms));
    assert_true(bus->outcome.has_promised);
    assert_int_equal(cluster_view_owner(bus->members, 149), 'b');
    assert_int_equal(cluster_view_owner(bus->members, 150), 'a');
    assert_int_equal(bus->members->myself->config_epoch, 7);
    assert_int_equal(slots_count(&bus->outcome.lost) + slots_count(&bus->members->received) + slots_count(&bus->members->unwanted), 0);
    assert_null(bus_take_receipt(bus, receipt, 7, noon_ms));       /* the reply was lost */
    bus_outcome_clear(bus);
    assert_true(bus_end_receipt(bus, receipt, 100, noon_ms));
    assert_true(bus->outcome.has_promised);                             /* TAKE may not have been saved */
    assert_true(bus_end_receipt(bus, receipt + 1, 149, noon_ms));       /* as after a start */
    assert_true(bus_end_receipt(bus, 0, 149, noon_ms));
    assert_false(bus_end_receipt(bus, 0, 150, noon_ms));
    assert_int_equal(cluster_view_owner(bus->members, 149), 'b');
    members_verify(bus->members);
    bus_destroy(bus);
}

/* By an epoch that is later than the one with which another node may be taking slots of this one, this node would take them back. */
static void no_epoch_is_raised_while_slots_may_be_taken(void **state)
{
    uint64_t receipt;
    struct bus *bus = receiving_bus(&receipt);
    struct slots own = cluster_view_slots("0-9");
    struct node_id a = cluster_view_id('a'), b = cluster_view_id('b');
    bool bumped;

    assert_null(bus_hand_over(bus, &own, &a, 1));
    bus_let_take(bus, 4);
    assert_string_equal(bus_take_receipt(bus, receipt, 9, noon_ms), "TRYAGAIN this node's own slots are being handed over");
    bus_bump_epoch(bus, &bumped);
    assert_false(bumped);
    assert_null(bus_begin_import(bus, 180, &a));
    assert_string_equal(bus_assign_slot(bus, 180, &b, false, noon_ms), "TRYAGAIN Slots of this node are being handed over");
    assert_int_equal(cluster_view_owner(bus->members, 180), 'a');
    assert_int_equal(bus->members->myself->config_epoch, 2);
    bus_end_hand_over(bus);
    assert_null(bus_assign_slot(bus, 180, &b, false, noon_ms));
    assert_null(bus_take_receipt(bus, receipt, 9, noon_ms));
    assert_int_equal(bus->members->myself->config_epoch, 9);
    bus_destroy(bus);
}

static void what_is_given_up_is_lost_and_never_taken(void **state)
{
    uint64_t receipt, next;
    struct bus *bus = receiving_bus(&receipt);
    struct slots slots = cluster_view_slots("150");
    struct node_id a = cluster_view_id('a');

    assert_string_equal(bus_begin_receipt(bus, &slots, &a, noon_ms, &next), "TRYAGAIN this node receives slots of another migration");
    assert_false(bus_end_receipt(bus, receipt + 1, 100, noon_ms));
    assert_int_equal(slots_count(&bus->outcome.lost), 0);
    assert_false(bus_end_receipt(bus, receipt, 100, noon_ms));
    assert_int_equal(slots_count(&bus->outcome.lost), 50);
    assert_true(bus->outcome.has_promised);
    assert_non_null(bus_take_receipt(bus, receipt, 9, noon_ms));
    assert_null(bus_begin_receipt(bus, &slots, &a, noon_ms, &next));
    assert_true(next > receipt);
    assert_non_null(bus_take_receipt(bus, receipt, 9, noon_ms));
    assert_int_equal(cluster_view_owner(bus->members, 150), 'a');
    bus_destroy(bus);
}

static void a_sender_that_says_nothing_is_given_up(void **state)
{
    uint64_t receipt;
    struct bus *bus = receiving_bus(&receipt);
    int64_t now_ms = noon_ms;

    for (int i = 0; i < 90; i++)
        bus_tick(bus, now_ms += 100);
    assert_null(bus_keep_receipt(bus, receipt, now_ms));
    for (int i = 0; i < 90; i++)
        bus_tick(bus, now_ms += 100);
    assert_int_equal(slots_count(&bus->members->received), 50);
    assert_int_equal(slots_count(&bus->members->unwanted), 50);
    for (int i = 0; i < 20; i++)
        bus_tick(bus, now_ms += 100);
    assert_int_equal(slots_count(&bus->members->received), 0);
    assert_int_equal(slots_count(&bus->outcome.lost), 50);
    assert_non_null(bus_keep_receipt(bus, receipt, now_ms));
    bus_destroy(bus);
}

static void slots_of_others_and_those_that_move_by_keys_are_refused(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199\nc master 4 200-299\nd slave-of-b");
    struct slots two = cluster_view_slots("199-200"), one = cluster_view_slots("100");
    struct node_id a = cluster_view_id('a'), b = cluster_view_id('b'), z = cluster_view_id('e');
    uint64_t receipt;

    assert_non_null(strstr(bus_begin_receipt(bus, &two, &a, noon_ms, &receipt), "ERR slot 200 is not a slot of node aaaa"));
    assert_non_null(strstr(bus_begin_receipt(bus, &one, &z, noon_ms, &receipt), "ERR Unknown node eeee"));
    assert_non_null(strstr(bus_begin_receipt(bus, &one, &b, noon_ms, &receipt), "ERR Unknown node bbbb"));
    assert_null(bus_begin_import(bus, 100, &a));
    assert_non_null(strstr(bus_begin_receipt(bus, &one, &a, noon_ms, &receipt), "ERR slot 100 is being moved by keys"));
    bus_destroy(bus);
    bus = bus_of("d slave-of-b\nb master 2 0-99\na master 3 100-199");
    assert_string_equal(bus_begin_receipt(bus, &one, &a, noon_ms, &receipt), "ERR only a primary receives slots");
    bus_destroy(bus);
}

static void keys_of_slots_of_others_are_dropped(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199");
    struct slots slots = cluster_view_slots("100-109"), own = cluster_view_slots("99-100"), none = cluster_view_slots("200");
    struct node_id a = cluster_view_id('a');

    assert_null(bus_drop_slots(bus, &slots));
    assert_int_equal(slots_count(&bus->outcome.lost), 10);
    bus_outcome_clear(bus);
    assert_string_equal(bus_drop_slots(bus, &own), "ERR slot 99 is not another node's");
    assert_string_equal(bus_drop_slots(bus, &none), "ERR slot 200 is not another node's");
    assert_null(bus_begin_import(bus, 105, &a));
    assert_string_equal(bus_drop_slots(bus, &slots), "ERR slot 105 is being moved");
    assert_int_equal(slots_count(&bus->outcome.lost), 0);
    bus_destroy(bus);
}

/* Lost slots are unwanted until they are this node's again, or are imported. */
static void what_a_start_removes_is_noted(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199");
    struct slots slots = cluster_view_slots("100-109");
    struct node_id a = cluster_view_id('a');

    assert_null(bus_drop_slots(bus, &slots));
    assert_int_equal(slots_count(&bus->members->unwanted), 10);
    assert_true(bus->outcome.has_changed);
    bus_outcome_clear(bus);
    assert_null(bus_begin_import(bus, 100, &a));
    assert_int_equal(slots_count(&bus->members->unwanted), 9);
    bus_drop_unwanted(bus);
    assert_int_equal(slots_count(&bus->outcome.lost), 9);
    bus_destroy(bus);
}

/* The owner has passed them on meanwhile. */
static void slots_that_have_another_owner_by_now_are_not_taken(void **state)
{
    uint64_t receipt;
    struct bus *bus = receiving_bus(&receipt);

    members_bind(bus->members, 120, NULL);
    assert_non_null(strstr(bus_take_receipt(bus, receipt, 9, noon_ms), "ERR slot 120 is not a slot of node aaaa"));
    assert_int_equal(cluster_view_owner(bus->members, 119), 'a');
    bus_destroy(bus);
}

/* The sender may have given up, or been replaced, which this node would not have heard. */
static void a_node_that_was_stopped_or_cut_off_takes_nothing(void **state)
{
    uint64_t receipt;
    struct bus *bus = receiving_bus(&receipt);

    bus->is_ok = false;
    assert_string_equal(bus_take_receipt(bus, receipt, 9, noon_ms), "ERR the cluster is down for this node");
    bus->is_ok = true;
    assert_null(bus_keep_receipt(bus, receipt, noon_ms + 1000));
    bus->options.timeout_ms = 15000;                    /* it was stopped for less than that */
    assert_string_equal(bus_take_receipt(bus, receipt, 9, noon_ms + 11000), "ERR this migration is too late");
    assert_int_equal(cluster_view_owner(bus->members, 100), 'a');
    assert_null(bus_keep_receipt(bus, receipt, noon_ms + 11000));
    assert_null(bus_take_receipt(bus, receipt, 9, noon_ms + 20900));
    bus_destroy(bus);
    bus = receiving_bus(&receipt);
    assert_string_equal(bus_take_receipt(bus, receipt, 9, noon_ms + 2000), "ERR the cluster is down for this node");      /* for the timeout */
    bus_destroy(bus);
}

static void slots_that_were_handed_over_are_taken_back_with_a_larger_epoch(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199");
    struct slots slots = cluster_view_slots("0-9");
    struct node_id a = cluster_view_id('a');

    assert_null(bus_hand_over(bus, &slots, &a, 77));
    assert_true(bus->outcome.topology_changed);
    assert_false(bus->outcome.has_promised);
    bus_end_hand_over(bus);
    assert_null(bus_hand_over(bus, &slots, &a, 77));
    bus_let_take(bus, 4);
    assert_true(bus->outcome.has_promised);
    bus_outcome_clear(bus);
    assert_true(bus_take_back(bus));
    assert_int_equal(bus->members->myself->config_epoch, 5);
    assert_int_equal(slots_count(&bus->members->handed_over), 0);
    assert_int_equal(bus->members->handed_epoch, 0);
    assert_true(bus->outcome.has_promised);
    bus_destroy(bus);
}

static void slots_that_have_another_owner_are_not_taken_back(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199");
    struct slots slots = cluster_view_slots("0-9");
    struct node_id a = cluster_view_id('a');

    assert_null(bus_hand_over(bus, &slots, &a, 77));
    bus_let_take(bus, 4);
    members_bind(bus->members, 5, cluster_view_node(bus->members, 'a'));
    assert_false(bus_take_back(bus));
    assert_int_equal(bus->members->myself->config_epoch, 2);
    bus_end_hand_over(bus);
    assert_non_null(bus_hand_over(bus, &slots, &a, 77));
    bus_destroy(bus);
}

/* While it is not known who has the slots, nothing else is done to them. */
static void what_is_handed_over_is_not_moved_otherwise(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199\nd slave-of-b");
    struct slots slots = cluster_view_slots("0-9");
    struct node_id a = cluster_view_id('a'), b = cluster_view_id('b');
    uint64_t receipt;

    assert_null(bus_hand_over(bus, &slots, &a, 77));
    assert_non_null(strstr(bus_begin_export(bus, 9, &a), "ERR slot 9 is being handed over"));
    assert_null(bus_begin_export(bus, 10, &a));
    assert_non_null(strstr(bus_assign_slot(bus, 9, &a, false, noon_ms), "ERR slot 9 is being handed over"));
    assert_non_null(strstr(bus_forget(bus, &a, noon_ms), "ERR slots are being handed over to this node"));
    bus_manual_hear_start(bus, cluster_view_node(bus->members, 'd'));
    assert_int_equal(bus->hold_writes_until_ms, 0);
    bus_end_hand_over(bus);
    bus_manual_hear_start(bus, cluster_view_node(bus->members, 'd'));
    assert_true(bus->hold_writes_until_ms != 0);
    assert_string_equal(bus_hand_over(bus, &slots, &a, 77), "this node's replica takes over");
    bus_destroy(bus);
    bus = receiving_bus(&receipt);
    assert_non_null(strstr(bus_begin_import(bus, 100, &a), "ERR slot 100 is being received"));
    assert_non_null(strstr(bus_assign_slot(bus, 100, &b, false, noon_ms), "ERR slot 100 is being received"));
    bus_destroy(bus);
}

/* What the primary would have removed, as its stream has said, but nothing that is or may be this shard's, or is imported. */
static void a_replica_that_takes_over_removes_keys_of_others(void **state)
{
    struct bus *bus = bus_of("d slave-of-b\nb master 2 0-99\na master 3 100-199");
    struct slots foreign = cluster_view_slots("0-9 100-109 300"), lost = cluster_view_slots("100-109"), more = cluster_view_slots("150-151 160");
    struct node_id a = cluster_view_id('a');

    bus->facts.foreign = foreign;
    bus_tick(bus, noon_ms);
    assert_int_equal(slots_count(&bus->outcome.lost), 0);
    assert_null(bus_failover(bus, BUS_FAILOVER_TAKEOVER, noon_ms));
    assert_true(slots_equal(&bus->outcome.lost, &lost));
    assert_true(slots_equal(&bus->members->unwanted, &lost));
    bus_outcome_clear(bus);
    bus_tick(bus, noon_ms + 100);
    assert_int_equal(slots_count(&bus->outcome.lost), 0);
    bus->facts.foreign = more;                          /* was in the stream before its end, but not seen yet */
    slots_add(&bus->members->conceded, 160);
    assert_null(bus_begin_import(bus, 151, &a));
    assert_true(bus->outcome.has_changed);
    assert_int_equal(slots_count(&bus->outcome.lost), 1);
    assert_true(slots_has(&bus->outcome.lost, 150));
    slots_remove(&bus->members->conceded, 160);
    bus_destroy(bus);
}

static void a_reset_ends_migrations(void **state)
{
    uint64_t receipt;
    struct bus *bus = receiving_bus(&receipt);
    struct slots own = cluster_view_slots("0-9");
    struct node_id a = cluster_view_id('a');

    assert_null(bus_hand_over(bus, &own, &a, 77));
    bus_let_take(bus, 4);
    assert_null(bus_reset(bus, false, false, noon_ms));
    assert_int_equal(slots_count(&bus->members->received) + slots_count(&bus->members->unwanted) + slots_count(&bus->members->handed_over), 0);
    assert_int_equal(bus->members->receipt + bus->members->handed_epoch, 0);
    bus_destroy(bus);
}

static void a_replica_neither_receives_nor_hands_over(void **state)
{
    struct bus *bus = bus_of("b master 2 0\na master 3 100-199");
    struct node_id a = cluster_view_id('a');
    struct slots slots = cluster_view_slots("100-149"), own = cluster_view_slots("0");
    uint64_t receipt;

    assert_null(bus_begin_receipt(bus, &slots, &a, noon_ms, &receipt));
    assert_null(bus_hand_over(bus, &own, &a, 77));
    bus_let_take(bus, 4);
    bus->members->handed_over = (struct slots){ { 0 } };            /* else it is refused */
    assert_null(bus_assign_slot(bus, 0, &a, false, noon_ms));       /* its last one: it follows */
    assert_false(bus->members->myself->flags & NODE_MASTER);
    assert_int_equal(slots_count(&bus->members->received) + slots_count(&bus->members->handed_over), 0);
    assert_int_equal(bus->members->handed_epoch, 0);
    assert_non_null(bus_take_receipt(bus, receipt, 9, noon_ms));
    bus_destroy(bus);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(received_slots_are_taken_with_an_epoch_above_all),
        cmocka_unit_test(no_epoch_is_raised_while_slots_may_be_taken),
        cmocka_unit_test(what_is_given_up_is_lost_and_never_taken),
        cmocka_unit_test(a_sender_that_says_nothing_is_given_up),
        cmocka_unit_test(slots_of_others_and_those_that_move_by_keys_are_refused),
        cmocka_unit_test(keys_of_slots_of_others_are_dropped),
        cmocka_unit_test(what_a_start_removes_is_noted),
        cmocka_unit_test(slots_that_have_another_owner_by_now_are_not_taken),
        cmocka_unit_test(a_node_that_was_stopped_or_cut_off_takes_nothing),
        cmocka_unit_test(slots_that_were_handed_over_are_taken_back_with_a_larger_epoch),
        cmocka_unit_test(slots_that_have_another_owner_are_not_taken_back),
        cmocka_unit_test(what_is_handed_over_is_not_moved_otherwise),
        cmocka_unit_test(a_replica_that_takes_over_removes_keys_of_others),
        cmocka_unit_test(a_reset_ends_migrations),
        cmocka_unit_test(a_replica_neither_receives_nor_hands_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
