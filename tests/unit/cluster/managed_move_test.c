/* Slots that go with their keys from one node to another, with a controller: what either node, and their replicas, make of each topology. Node a sends slots to c; b and d
 * are their replicas, e is a third one. */
#include "cluster/managed_move.h"

#include "support/unit.h"

#include <string.h>

#include "cluster/bus_private.h"
#include "support/cluster_view.h"
#include "support/managed_view.h"

static const char before[] = "a 1 master - 0-8191\nb 2 slave a\nc 3 master - 8192-12000\nd 4 slave c\ne 5 master - 12001-16383\n";
static const char after[] = "a 1 master - 100-8191\nb 2 slave a\nc 3 master - 0-99 8192-12000\nd 4 slave c\ne 5 master - 12001-16383\n";
static const char third[] = "a 1 master - 100-8191\nb 2 slave a\nc 3 master - 8192-12000\nd 4 slave c\ne 5 master - 0-99 12001-16383\n";
static const char b_leads[] = "a 1 slave b\nb 2 master - 0-8191\nc 3 master - 8192-12000\nd 4 slave c\ne 5 master - 12001-16383\n";
static const char d_leads[] = "a 1 master - 0-8191\nb 2 slave a\nc 3 slave d\nd 4 master - 8192-12000\ne 5 master - 12001-16383\n";
static const char without_a[] = "b 2 master - 0-8191\nc 3 master - 8192-12000\nd 4 slave c\ne 5 master - 12001-16383\n";
static const char without_c[] = "a 1 master - 0-8191\nb 2 slave a\nd 4 master - 8192-12000\ne 5 master - 12001-16383\n";
static const char without_shard[] = "a 1 master - 0-8191\nb 2 slave a\ne 5 master - 8192-16383\n";

static const int64_t now_ms = 1700000000000;

static struct slots slots_0_99(void) { return cluster_view_slots("0-99"); }

static void refuse(const char *error, const char *why)
{
    assert_non_null(error);
    if (strstr(error, why) == NULL)
        fail_msg("'%s' does not say '%s'", error, why);
}

static char owner(const struct bus *bus) { return cluster_view_owner(bus->members, 50); }
static bool has_moved(const struct bus *bus) { return moved_slots_find(&bus->members->moved, 50) != NULL; }
static bool is_in_doubt(const struct bus *bus) { return bus->members->handed_epoch != 0 && slots_has(&bus->members->handed_over, 50); }

/* The topology. */
static void publish(struct bus *bus, const char *lines, int64_t version)
{
    managed_view_accept(bus, lines, version);
}

static void force(struct bus *bus, const char *lines, int64_t version)
{
    bus_outcome_clear(bus);
    assert_null(managed_view_set(bus, lines, version, MANAGED_FORCED));
    members_verify(bus->members);
}

static struct bus *new_node(char letter)
{
    struct bus *bus = managed_view_bus(letter);

    publish(bus, before, 1);
    bus_outcome_clear(bus);
    return bus;
}

/* Node c, which receives. */
static struct bus *receiver(uint64_t *receipt)
{
    struct bus *bus = new_node('c');
    struct slots slots = slots_0_99();
    struct node_id a = cluster_view_id('a');

    assert_null(bus_begin_receipt(bus, &slots, &a, now_ms, receipt));
    bus_outcome_clear(bus);
    return bus;
}

/* Node c, which has them. */
static struct bus *owner_by_move(void)
{
    struct managed_taken undo;
    uint64_t receipt;
    struct bus *bus = receiver(&receipt);

    assert_null(managed_take(bus, receipt, 1, now_ms, &undo));
    members_verify(bus->members);
    bus_outcome_clear(bus);
    return bus;
}

/* Node a, which does not know whether they were taken. */
static struct bus *doubtful(void)
{
    struct bus *bus = new_node('a');
    struct slots slots = slots_0_99();
    struct node_id c = cluster_view_id('c');

    assert_null(bus_hand_over(bus, &slots, &c, 77));
    bus_let_take(bus, 1);
    assert_true(bus->outcome.has_promised);
    bus_outcome_clear(bus);
    return bus;
}

/* Node a, which knows it. */
static struct bus *sender_by_move(void)
{
    struct bus *bus = doubtful();

    managed_end_hand_over(bus);
    members_verify(bus->members);
    return bus;
}

/* Gives the replica what its primary says in the stream. */
static void hear(struct bus *replica, const struct bus *primary)
{
    struct buffer text = { 0 };

    members_write_moves(primary->members, &text);
    assert_true(managed_hear_moves(replica, buffer_bytes(&text)));
    members_verify(replica->members);
    buffer_release(&text);
}

/* --- The node that receives */

static void slots_are_taken_in_the_version_of_the_sender(void **state)
{
    struct managed_taken undo;
    uint64_t receipt;
    struct bus *bus = receiver(&receipt);

    refuse(managed_take(bus, receipt, 2, now_ms, &undo), "ERR the topology of this node has version 1, not 2");
    refuse(managed_take(bus, receipt + 1, 1, now_ms, &undo), "ERR this migration has ended here");
    assert_int_equal(owner(bus), 'a');
    assert_null(managed_take(bus, receipt, 1, now_ms, &undo));
    assert_true(bus->outcome.has_promised && bus->outcome.topology_changed);
    assert_int_equal(owner(bus), 'c');
    assert_true(has_moved(bus));
    assert_int_equal(bus->members->current_epoch, 1);
    assert_int_equal(slots_count(&bus->outcome.lost) + slots_count(&bus->members->received) + slots_count(&bus->members->unwanted), 0);
    members_verify(bus->members);
    assert_null(managed_take(bus, receipt, 1, now_ms, &undo));         /* the reply was lost */
    managed_untake(bus, &undo);                                        /* and could not be saved: it was, the first time */
    assert_int_equal(owner(bus), 'c');
    bus_destroy(bus);
}

static void what_could_not_be_saved_was_not_taken(void **state)
{
    struct managed_taken undo;
    uint64_t receipt;
    struct bus *bus = receiver(&receipt);
    struct node_id a = cluster_view_id('a');
    bool was_taken;

    assert_null(managed_take(bus, receipt, 1, now_ms, &undo));
    managed_untake(bus, &undo);
    members_verify(bus->members);
    assert_int_equal(owner(bus), 'a');
    assert_false(has_moved(bus));
    assert_int_equal(slots_count(&bus->members->received), 100);
    assert_int_equal(slots_count(&bus->members->unwanted), 100);
    bus_outcome_clear(bus);
    assert_null(managed_end_receipt(bus, receipt, 0, &a, now_ms, &was_taken));
    assert_false(was_taken);
    assert_true(bus->outcome.has_promised);
    assert_int_equal(slots_count(&bus->outcome.lost), 100);
    bus_destroy(bus);
}

static void the_receiver_says_whether_it_has_them(void **state)
{
    struct bus *bus = owner_by_move();
    struct node_id a = cluster_view_id('a'), b = cluster_view_id('b'), z = cluster_view_id('z');
    bool was_taken = false;
    uint64_t receipt;

    assert_null(managed_end_receipt(bus, 7, 50, &a, now_ms, &was_taken));       /* whatever the number, as after a start */
    assert_true(was_taken && bus->outcome.has_promised);
    publish(bus, third, 2);                         /* and has them no more */
    was_taken = false;
    assert_null(managed_end_receipt(bus, 7, 50, &a, now_ms, &was_taken));
    assert_true(was_taken);
    bus_destroy(bus);
    bus = new_node('d');                            /* its primary may have them */
    refuse(managed_end_receipt(bus, 7, 50, &a, now_ms, &was_taken), "ERR this node is a replica");
    bus_destroy(bus);
    bus = receiver(&receipt);
    refuse(managed_end_receipt(bus, receipt, 50, &z, now_ms, &was_taken), "ERR Unknown node");
    assert_int_equal(bus->members->receipt, receipt);
    assert_null(managed_end_receipt(bus, receipt, 50, &b, now_ms, &was_taken)); /* the replica of a is promoted, which this node does not know yet */
    assert_false(was_taken);
    assert_int_equal(bus->members->receipt, 0);
    bus_destroy(bus);
}

static void a_sender_that_says_nothing_is_given_up(void **state)
{
    uint64_t receipt;
    struct bus *bus = receiver(&receipt);

    managed_step(bus, now_ms + 9000);
    assert_int_equal(slots_count(&bus->members->received), 100);
    assert_null(bus_keep_receipt(bus, receipt, now_ms + 9000));
    managed_step(bus, now_ms + 18000);
    assert_int_equal(slots_count(&bus->outcome.lost), 0);
    managed_step(bus, now_ms + 20000);
    assert_int_equal(slots_count(&bus->outcome.lost), 100);
    assert_int_equal(bus->members->receipt, 0);
    assert_true(bus->is_ok);                        /* times without events are no pauses */
    bus_destroy(bus);
}

static void what_is_received_is_dropped_by_a_topology_with_another_sender_or_receiver(void **state)
{
    static const char *const texts[] = { b_leads, third, without_a, "a 1 master - 0-8191\nb 2 slave a\ne 5 master - 8192-16383\n" };
    uint64_t receipt;
    struct bus *bus = receiver(&receipt);

    publish(bus, before, 2);
    assert_int_equal(bus->members->receipt, receipt);
    assert_int_equal(slots_count(&bus->members->received), 100);
    assert_int_equal(slots_count(&bus->outcome.lost), 0);
    bus_destroy(bus);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        bus = receiver(&receipt);
        publish(bus, texts[i], 2);
        assert_int_equal(bus->members->receipt, 0);
        assert_true(slots_has(&bus->outcome.lost, 99));
        assert_true(slots_has(&bus->members->unwanted, 99));
        bus_destroy(bus);
    }
    bus = receiver(&receipt);
    publish(bus, d_leads, 2);                       /* it gets another one's data */
    assert_int_equal(bus->members->receipt, 0);
    assert_int_equal(slots_count(&bus->outcome.lost) + slots_count(&bus->members->unwanted), 0);
    bus_destroy(bus);
    bus = receiver(&receipt);
    publish(bus, after, 2);                         /* given without the keys */
    assert_int_equal(bus->members->receipt, 0);
    assert_int_equal(slots_count(&bus->outcome.lost), 0);
    assert_int_equal(owner(bus), 'c');
    bus_destroy(bus);
}

static void a_receipt_is_forgotten_by_a_start_and_its_keys_are_removed(void **state)
{
    uint64_t receipt;
    struct bus *bus = receiver(&receipt);
    struct node_id a = cluster_view_id('a');
    bool was_taken;

    managed_view_restart(&bus);
    assert_int_equal(bus->members->receipt, 0);
    bus_drop_unwanted(bus);
    assert_int_equal(slots_count(&bus->outcome.lost), 100);
    assert_null(managed_end_receipt(bus, receipt, 0, &a, now_ms, &was_taken));
    assert_false(was_taken);
    bus_destroy(bus);
    bus = owner_by_move();
    managed_view_restart(&bus);
    bus_drop_unwanted(bus);
    assert_int_equal(slots_count(&bus->outcome.lost), 0);
    assert_int_equal(owner(bus), 'c');
    assert_true(has_moved(bus));
    bus_destroy(bus);
}

/* --- What has moved, and topologies */

static void a_topology_without_the_move_takes_nothing_back(void **state)
{
    struct bus *nodes[] = { owner_by_move(), sender_by_move() };

    for (int i = 0; i < 2; i++) {
        for (int64_t version = 2; version < 4; version++) {
            publish(nodes[i], before, version);
            assert_int_equal(owner(nodes[i]), 'c');
            assert_true(has_moved(nodes[i]));
            assert_int_equal(slots_count(&nodes[i]->outcome.lost), 0);
            managed_view_restart(&nodes[i]);
            assert_int_equal(owner(nodes[i]), 'c');
        }
        publish(nodes[i], after, 4);
        assert_int_equal(owner(nodes[i]), 'c');
        assert_false(has_moved(nodes[i]));
        assert_int_equal(slots_count(&nodes[i]->outcome.lost), 0);
        bus_destroy(nodes[i]);
    }
}

static void the_sender_loses_the_keys_when_it_knows(void **state)
{
    struct bus *bus = doubtful();
    struct slots expected = slots_0_99();

    managed_end_hand_over(bus);
    assert_true(bus->outcome.has_promised && bus->outcome.topology_changed);
    assert_true(slots_equal(&bus->outcome.lost, &expected));
    assert_true(slots_equal(&bus->members->unwanted, &expected));
    assert_int_equal(bus->members->handed_epoch, 0);
    assert_true(bus->is_ok);
    bus_destroy(bus);
}

/* The controller has failed the sender or the receiver over, and does not know of the migration. */
static void the_shard_counts_and_not_the_node(void **state)
{
    struct bus *bus = owner_by_move();
    struct node_id b = cluster_view_id('b');

    publish(bus, b_leads, 2);
    assert_int_equal(owner(bus), 'c');
    assert_true(node_id_equal(&moved_slots_find(&bus->members->moved, 50)->from, &b));
    publish(bus, without_a, 3);
    assert_int_equal(owner(bus), 'c');
    publish(bus, before, 4);                        /* and back */
    assert_int_equal(owner(bus), 'c');
    publish(bus, d_leads, 5);
    assert_int_equal(owner(bus), 'd');
    assert_int_equal(bus->outcome.role, BUS_ROLE_FOLLOW);
    bus_destroy(bus);
    bus = sender_by_move();
    publish(bus, d_leads, 2);
    assert_int_equal(owner(bus), 'd');
    publish(bus, b_leads, 3);
    assert_int_equal(owner(bus), 'c');
    publish(bus, without_c, 4);
    assert_int_equal(owner(bus), 'd');
    bus_destroy(bus);
    bus = owner_by_move();
    publish(bus, without_a, 2);                     /* its replica was promoted, and it is gone, at once */
    assert_int_equal(owner(bus), 'c');
    bus_destroy(bus);
}

static void a_topology_for_a_third_node_is_the_last_word_and_so_is_force(void **state)
{
    struct bus *bus = owner_by_move();
    struct slots expected = slots_0_99();

    publish(bus, third, 2);
    assert_int_equal(owner(bus), 'e');
    assert_false(has_moved(bus));
    assert_true(slots_equal(&bus->outcome.lost, &expected));
    bus_destroy(bus);
    bus = owner_by_move();
    force(bus, before, 1);
    assert_int_equal(owner(bus), 'a');
    assert_false(has_moved(bus));
    bus_destroy(bus);
    bus = sender_by_move();
    force(bus, before, 2);
    assert_int_equal(owner(bus), 'a');
    assert_false(has_moved(bus));
    assert_int_equal(slots_count(&bus->members->unwanted), 0);
    bus_destroy(bus);
}

static void setslot_names_its_slots_only(void **state)
{
    struct bus *bus = sender_by_move();
    struct node_id a = cluster_view_id('a'), c = cluster_view_id('c'), e = cluster_view_id('e');

    bus_outcome_clear(bus);
    assert_null(managed_set_slots(bus, (struct slot_range){ 5000, 5000 }, &e, 2));
    assert_int_equal(owner(bus), 'c');
    assert_true(has_moved(bus));
    assert_null(managed_set_slots(bus, (struct slot_range){ 0, 49 }, &c, 3));
    assert_null(moved_slots_find(&bus->members->moved, 49));
    assert_true(has_moved(bus));
    assert_int_equal(cluster_view_owner(bus->members, 49), 'c');
    assert_null(managed_set_slots(bus, (struct slot_range){ 50, 99 }, &a, 4));
    assert_int_equal(owner(bus), 'a');
    assert_int_equal(bus->members->moved.count, 0);
    members_verify(bus->members);
    bus_destroy(bus);
}

/* The data is at a node that the topology does not have: no node serves it. */
static void what_has_moved_to_a_node_that_is_not_in_the_topology_has_no_owner(void **state)
{
    struct bus *bus = sender_by_move();

    publish(bus, without_shard, 2);
    assert_int_equal(owner(bus), '-');
    assert_false(bus->is_ok);
    publish(bus, before, 3);
    assert_int_equal(owner(bus), 'c');
    assert_true(bus->is_ok);
    bus_destroy(bus);
    bus = owner_by_move();
    publish(bus, without_shard, 2);
    assert_int_equal(owner(bus), '-');
    assert_int_equal(slots_count(&bus->outcome.lost), 0);
    publish(bus, after, 3);
    assert_int_equal(owner(bus), 'c');
    assert_false(has_moved(bus));
    bus_destroy(bus);
}

/* --- What is in doubt */

static void a_doubt_outlives_topologies_and_starts(void **state)
{
    struct bus *bus = doubtful();

    publish(bus, before, 2);
    assert_true(is_in_doubt(bus));
    managed_view_restart(&bus);
    assert_true(is_in_doubt(bus));
    assert_int_equal(bus->members->handed_receipt, 77);
    publish(bus, d_leads, 3);
    assert_true(is_in_doubt(bus));
    assert_int_equal(bus->members->handed_to.text[0], 'c');        /* it can still be asked */
    publish(bus, without_c, 4);
    assert_true(is_in_doubt(bus));
    assert_int_equal(bus->members->handed_to.text[0], 'd');
    assert_int_equal(bus->members->handed_receipt, 0);
    publish(bus, without_shard, 5);
    assert_true(is_in_doubt(bus));
    force(bus, without_shard, 6);
    assert_false(is_in_doubt(bus));
    assert_int_equal(owner(bus), 'a');
    bus_destroy(bus);
}

static void a_topology_ends_the_doubt_for_the_slots_that_it_gives_away(void **state)
{
    struct bus *bus = doubtful();
    struct slots half = cluster_view_slots("50-99");

    publish(bus, "a 1 master - 50-8191\nb 2 slave a\nc 3 master - 0-49 8192-12000\nd 4 slave c\ne 5 master - 12001-16383\n", 2);
    assert_true(slots_equal(&bus->members->handed_over, &half));
    assert_int_equal(slots_count(&bus->outcome.lost), 50);
    publish(bus, third, 3);
    assert_int_equal(bus->members->handed_epoch, 0);
    assert_int_equal(owner(bus), 'e');
    bus_destroy(bus);
}

/* Until TAKE is sent it is only that writes wait: a replica does not do that. */
static void a_sender_that_is_replaced_keeps_the_doubt_only(void **state)
{
    struct bus *bus = doubtful();

    publish(bus, b_leads, 2);
    assert_true(is_in_doubt(bus));
    publish(bus, before, 3);                        /* back before it has heard anything of b */
    assert_true(is_in_doubt(bus));
    publish(bus, b_leads, 4);
    bus_let_take(bus, 0);
    publish(bus, b_leads, 5);
    assert_int_equal(slots_count(&bus->members->handed_over), 0);
    bus_destroy(bus);
}

/* --- Replicas */

static void a_promoted_replica_goes_on_with_what_it_has_heard(void **state)
{
    struct bus *primary = doubtful(), *replica = new_node('b');

    hear(replica, primary);
    assert_true(replica->outcome.has_promised);
    assert_true(is_in_doubt(replica));
    managed_view_restart(&replica);
    publish(replica, b_leads, 2);
    assert_int_equal(replica->outcome.role, BUS_ROLE_LEAD);
    assert_true(is_in_doubt(replica));
    managed_end_hand_over(replica);
    assert_int_equal(owner(replica), 'c');
    bus_destroy(replica);
    replica = new_node('b');
    managed_end_hand_over(primary);
    hear(replica, primary);
    assert_int_equal(owner(replica), 'c');
    publish(replica, b_leads, 2);
    assert_int_equal(owner(replica), 'c');
    assert_int_equal(slots_count(&replica->outcome.lost), 100);        /* the primary may not have removed all */
    bus_destroy(replica);
    bus_destroy(primary);
    primary = owner_by_move();
    replica = new_node('d');
    hear(replica, primary);
    publish(replica, d_leads, 2);
    assert_int_equal(owner(replica), 'd');
    assert_int_equal(slots_count(&replica->outcome.lost), 0);
    bus_destroy(replica);
    bus_destroy(primary);
}

static void what_is_said_last_counts(void **state)
{
    struct bus *primary = sender_by_move(), *replica = new_node('b'), *other = new_node('a');

    hear(replica, primary);
    hear(replica, primary);
    assert_int_equal(owner(replica), 'c');
    hear(replica, other);
    assert_int_equal(owner(replica), 'a');
    assert_false(has_moved(replica));
    assert_false(managed_hear_moves(replica, BYTES(" moved what")));
    assert_false(managed_hear_moves(replica, BYTES(" other 1")));
    assert_false(managed_hear_moves(replica, BYTES(" moved")));
    assert_int_equal(owner(replica), 'a');
    bus_destroy(primary);
    bus_destroy(replica);
    bus_destroy(other);
}

/* The slots have moved twice since the topology that the replica has. */
static void a_primary_may_be_ahead_of_its_replica(void **state)
{
    struct bus *primary = owner_by_move(), *replica = new_node('d');
    struct slots slots = slots_0_99();
    struct node_id e = cluster_view_id('e');

    publish(primary, after, 2);
    assert_null(bus_hand_over(primary, &slots, &e, 7));
    bus_let_take(primary, 2);
    managed_end_hand_over(primary);
    hear(replica, primary);
    managed_view_restart(&replica);
    publish(replica, "a 1 master - 100-8191\nb 2 slave a\nc 3 slave d\nd 4 master - 0-99 8192-12000\ne 5 master - 12001-16383\n", 3);
    assert_int_equal(owner(replica), 'e');
    publish(replica, third, 4);
    assert_int_equal(owner(replica), 'e');
    assert_false(has_moved(replica));
    bus_destroy(primary);
    bus_destroy(replica);
}

/* Its last words come while it is being promoted. */
static void a_primary_may_hear_the_end_of_the_stream(void **state)
{
    struct bus *primary = sender_by_move(), *replica = new_node('b');

    publish(replica, b_leads, 2);
    bus_outcome_clear(replica);
    hear(replica, primary);
    assert_int_equal(owner(replica), 'c');
    assert_int_equal(slots_count(&replica->outcome.lost), 100);
    bus_destroy(primary);
    bus_destroy(replica);
}

/* --- The command */

static void who_may_migrate_what(void **state)
{
    struct bus *bus = managed_view_bus('a');
    struct slots slots = slots_0_99(), others = cluster_view_slots("8191-8192");
    struct node_id a = cluster_view_id('a'), c = cluster_view_id('c'), d = cluster_view_id('d'), z = cluster_view_id('z');

    refuse(managed_may_migrate(bus, &slots, &c), "CLUSTERDOWN The cluster is not initialized");
    publish(bus, before, 1);
    refuse(managed_may_migrate(bus, &slots, &z), "ERR Can't find the destination node id");
    refuse(managed_may_migrate(bus, &others, &c), "ERR Can't migrate slot which doesn't belong to me");
    refuse(managed_may_migrate(bus, &slots, &d), "ERR Can't migrate slot to a slave");
    refuse(managed_may_migrate(bus, &slots, &a), "ERR Can't migrate slot to myself");
    assert_null(managed_may_migrate(bus, &slots, &c));
    bus_destroy(bus);
    bus = owner_by_move();
    refuse(managed_may_migrate(bus, &slots, &a), "ERR Can't migrate slot which has been migrated");
    publish(bus, after, 2);
    assert_null(managed_may_migrate(bus, &slots, &a));
    bus_destroy(bus);
    bus = doubtful();
    slots = cluster_view_slots("5000");
    refuse(managed_may_migrate(bus, &slots, &c), "ERR There is already a migrating job");
    assert_string_equal(bus_hand_over(bus, &slots, &c, 78), "it is not known yet whether other slots were taken");
    bus_destroy(bus);
}

static void a_reset_forgets_all_of_it(void **state)
{
    struct bus *nodes[] = { owner_by_move(), sender_by_move(), doubtful() };

    for (int i = 0; i < 3; i++) {
        bus_outcome_clear(nodes[i]);
        assert_null(managed_reset(nodes[i], true, false, now_ms));
        members_verify(nodes[i]->members);
        assert_int_equal(nodes[i]->members->moved.count + nodes[i]->members->handed_epoch + slots_count(&nodes[i]->members->unwanted), 0);
        bus_destroy(nodes[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_taken_in_the_version_of_the_sender),
        cmocka_unit_test(what_could_not_be_saved_was_not_taken),
        cmocka_unit_test(the_receiver_says_whether_it_has_them),
        cmocka_unit_test(a_sender_that_says_nothing_is_given_up),
        cmocka_unit_test(what_is_received_is_dropped_by_a_topology_with_another_sender_or_receiver),
        cmocka_unit_test(a_receipt_is_forgotten_by_a_start_and_its_keys_are_removed),
        cmocka_unit_test(a_topology_without_the_move_takes_nothing_back),
        cmocka_unit_test(the_sender_loses_the_keys_when_it_knows),
        cmocka_unit_test(the_shard_counts_and_not_the_node),
        cmocka_unit_test(a_topology_for_a_third_node_is_the_last_word_and_so_is_force),
        cmocka_unit_test(setslot_names_its_slots_only),
        cmocka_unit_test(what_has_moved_to_a_node_that_is_not_in_the_topology_has_no_owner),
        cmocka_unit_test(a_doubt_outlives_topologies_and_starts),
        cmocka_unit_test(a_topology_ends_the_doubt_for_the_slots_that_it_gives_away),
        cmocka_unit_test(a_sender_that_is_replaced_keeps_the_doubt_only),
        cmocka_unit_test(a_promoted_replica_goes_on_with_what_it_has_heard),
        cmocka_unit_test(what_is_said_last_counts),
        cmocka_unit_test(a_primary_may_be_ahead_of_its_replica),
        cmocka_unit_test(a_primary_may_hear_the_end_of_the_stream),
        cmocka_unit_test(who_may_migrate_what),
        cmocka_unit_test(a_reset_forgets_all_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
