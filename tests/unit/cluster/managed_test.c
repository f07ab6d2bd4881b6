#include "cluster/managed.h"

#include "support/unit.h"

#include <string.h>

#include "base/mem.h"
#include "support/cluster_view.h"
#include "support/managed_view.h"

static void refuse(struct bus *bus, const char *error, const char *why)
{
    assert_non_null(error);
    if (strstr(error, why) == NULL)
        fail_msg("'%s' does not say '%s'", error, why);
    assert_false(bus->outcome.has_changed);
    assert_int_equal(bus->outcome.role, BUS_ROLE_KEPT);
    members_verify(bus->members);
}

static const char two_shards[] = "a 1 master - 0-8191\nb 2 slave a\nc 3 master - 8192-16382 16383\nd 4 slave c\n";
static const char b_leads[] = "a 1 slave b\nb 2 master - 0-8191\nc 3 master - 8192-16383\nd 4 slave c\n";

static void a_topology_says_who_has_which_slots_and_roles(void **state)
{
    struct bus *bus = managed_view_bus('a');
    struct members *members;

    assert_false(managed_is_initialized(bus) || bus->is_ok);
    managed_view_accept(bus, two_shards, 7);
    members = bus->members;
    assert_true(managed_is_initialized(bus) && bus->is_ok);
    assert_int_equal(members->count, 4);
    assert_int_equal(members->current_epoch, 7);
    assert_int_equal(node_epoch(cluster_view_node(members, 'd')), 7);
    assert_int_equal(cluster_view_owner(members, 8191), 'a');
    assert_int_equal(cluster_view_owner(members, 16383), 'c');
    assert_ptr_equal(cluster_view_node(members, 'd')->master, cluster_view_node(members, 'c'));
    assert_int_equal(cluster_view_node(members, 'c')->port, 3);
    assert_int_equal(cluster_view_node(members, 'c')->tls_port, 0);
    assert_int_equal(bus->outcome.role, BUS_ROLE_KEPT);
    assert_int_equal(slots_count(&bus->outcome.lost), 0);
    bus_destroy(bus);
}

static void roles_change_by_the_topology(void **state)
{
    struct bus *bus = managed_view_bus('a');

    managed_view_accept(bus, two_shards, 1);
    managed_view_accept(bus, b_leads, 2);
    assert_int_equal(bus->outcome.role, BUS_ROLE_FOLLOW);
    assert_int_equal(bus->members->myself->master->port, 2);
    assert_int_equal(slots_count(&bus->outcome.lost), 0);       /* a replica gets its primary's data */
    managed_view_accept(bus, b_leads, 3);
    assert_int_equal(bus->outcome.role, BUS_ROLE_KEPT);
    managed_view_accept(bus, "a 1 slave b\nb 9 master - 0-8191\nc 3 master - 8192-16383\nd 4 slave c\n", 4);
    assert_int_equal(bus->outcome.role, BUS_ROLE_FOLLOW);       /* its primary has another port */
    managed_view_accept(bus, two_shards, 5);
    assert_int_equal(bus->outcome.role, BUS_ROLE_LEAD);
    bus_destroy(bus);
}

static void keys_are_lost_with_their_slots_but_not_those_of_a_node_that_was_left_out(void **state)
{
    struct bus *bus = managed_view_bus('a');
    struct slots expected = cluster_view_slots("100-8191");

    managed_view_accept(bus, two_shards, 1);
    managed_view_accept(bus, "a 1 master - 0-99\nc 3 master - 100-16383\n", 2);
    assert_true(slots_equal(&bus->outcome.lost, &expected));
    managed_view_accept(bus, "a 1 master -\nc 3 master - 100-16383\n", 3);
    assert_int_equal(slots_count(&bus->outcome.lost), 0);       /* no node has the slots now */
    assert_false(bus->is_ok);
    managed_view_accept(bus, two_shards, 4);
    managed_view_accept(bus, "c 3 master - 0-16383\n", 5);
    assert_int_equal(slots_count(&bus->outcome.lost), 0);
    assert_int_equal(bus->members->count, 2);
    assert_true(bus->members->myself->flags & NODE_MASTER && bus->members->myself->slot_count == 0);
    bus_destroy(bus);
}

static void a_replica_that_was_left_out_leads(void **state)
{
    struct bus *bus = managed_view_bus('a');

    managed_view_accept(bus, b_leads, 1);
    managed_view_accept(bus, "b 2 master - 0-16383\n", 2);
    assert_int_equal(bus->outcome.role, BUS_ROLE_LEAD);
    bus_destroy(bus);
}

static void an_old_version_is_refused_and_the_same_one_changes_nothing(void **state)
{
    struct bus *bus = managed_view_bus('a');

    managed_view_accept(bus, two_shards, 5);
    bus_outcome_clear(bus);
    refuse(bus, managed_view_set(bus, b_leads, 4, MANAGED_NOT_FORCED), "version");
    refuse(bus, managed_view_set(bus, b_leads, 0, MANAGED_FORCED), "version");
    assert_null(managed_view_set(bus, b_leads, 5, MANAGED_NOT_FORCED));
    assert_false(bus->outcome.has_changed);
    assert_int_equal(cluster_view_owner(bus->members, 0), 'a');
    assert_null(managed_view_set(bus, b_leads, 4, MANAGED_FORCED));
    assert_int_equal(bus->members->current_epoch, 4);
    assert_int_equal(cluster_view_owner(bus->members, 0), 'b');
    assert_int_equal(bus->outcome.role, BUS_ROLE_FOLLOW);
    bus_destroy(bus);
}

static void all_nodes_of_a_shard_name_it_alike_and_a_failover_keeps_the_name(void **state)
{
    struct bus *bus = managed_view_bus('a');
    struct node_id shard = cluster_view_id('a');

    managed_view_accept(bus, two_shards, 1);
    assert_true(node_id_equal(&cluster_view_node(bus->members, 'b')->shard_id, &shard));
    managed_view_accept(bus, b_leads, 2);
    assert_true(node_id_equal(&cluster_view_node(bus->members, 'b')->shard_id, &shard));
    assert_true(node_id_equal(&cluster_view_node(bus->members, 'a')->shard_id, &shard));
    bus_destroy(bus);
}

static void slots_are_given_in_the_next_version(void **state)
{
    struct bus *bus = managed_view_bus('a');
    struct node_id b = cluster_view_id('b'), c = cluster_view_id('c'), x = cluster_view_id('x');
    struct slots expected = cluster_view_slots("10-20");

    managed_view_accept(bus, two_shards, 5);
    bus_outcome_clear(bus);
    refuse(bus, managed_set_slots(bus, (struct slot_range){ 10, 20 }, &c, 5), "the next one is 6");
    refuse(bus, managed_set_slots(bus, (struct slot_range){ 10, 20 }, &c, 7), "the next one is 6");
    refuse(bus, managed_set_slots(bus, (struct slot_range){ 10, 20 }, &x, 6), "Unknown node");
    refuse(bus, managed_set_slots(bus, (struct slot_range){ 10, 20 }, &b, 6), "not a master");
    assert_null(managed_set_slots(bus, (struct slot_range){ 10, 20 }, &c, 6));
    members_verify(bus->members);
    assert_true(bus->outcome.has_promised && slots_equal(&bus->outcome.lost, &expected));
    assert_int_equal(cluster_view_owner(bus->members, 10), 'c');
    assert_int_equal(cluster_view_owner(bus->members, 21), 'a');
    assert_int_equal(bus->members->current_epoch, 6);
    assert_int_equal(node_epoch(cluster_view_node(bus->members, 'b')), 6);
    bus_destroy(bus);
}

static void a_node_gets_its_id(void **state)
{
    struct bus *bus = managed_view_bus('a');
    struct node_id id, b = cluster_view_id('b');

    assert_true(node_id_read(BYTES("AZaz09AZaz09AZaz09AZaz09AZaz09AZaz09AZaz"), &id));
    assert_null(managed_set_id(bus, &id));
    assert_true(bus->outcome.has_promised && node_id_equal(&bus->members->myself->id, &id));
    bus_outcome_clear(bus);
    assert_null(managed_set_id(bus, &id));
    assert_false(bus->outcome.has_changed);
    managed_view_accept(bus, "b 2 master - 0-16383\n", 1);
    bus_outcome_clear(bus);
    refuse(bus, managed_set_id(bus, &b), "another node");
    bus_destroy(bus);
}

static void the_file_has_the_id_the_topology_and_the_election(void **state)
{
    struct bus *bus = managed_view_bus('a');
    struct buffer text = { 0 }, again = { 0 };
    struct message message = { "" };
    struct nodes_file *file = mem_alloc(sizeof(*file));
    struct node_id a = cluster_view_id('a');
    struct random random;

    random_init(&random, 1);
    managed_view_accept(bus, two_shards, 9);
    assert_null(managed_heartbeat(bus, &a, 12));
    members_write(bus->members, &text);
    bus_destroy(bus);
    assert_int_equal(nodes_file_read(buffer_bytes(&text), NODES_FILE_PORT_PLAIN, file, &message), STATUS_OK);
    bus = bus_create(members_create_from(file, 1000, &random), &(struct bus_options){ .is_managed = true, .port = 77 }, 1, 1000);
    managed_refresh(bus);
    assert_true(bus->is_ok && bus->members->current_epoch == 9 && bus->members->last_vote_epoch == 12);
    assert_int_equal(bus->members->myself->port, 1);            /* the controller's word, not the configuration's */
    members_write(bus->members, &again);
    assert_true(bytes_equal(buffer_bytes(&text), buffer_bytes(&again)));
    nodes_file_release(file);
    mem_free(file);
    buffer_release(&text);
    buffer_release(&again);
    bus_destroy(bus);
}

static void a_heartbeat_names_this_nodes_primary_and_no_older_election(void **state)
{
    struct bus *bus = managed_view_bus('a');
    struct node_id a = cluster_view_id('a'), b = cluster_view_id('b');

    bus_outcome_clear(bus);
    refuse(bus, managed_heartbeat(bus, &a, 1), "CLUSTERDOWN The cluster is not initialized");
    managed_view_accept(bus, two_shards, 1);
    bus_outcome_clear(bus);
    refuse(bus, managed_heartbeat(bus, &b, 3), "master mismatch");
    assert_int_equal(bus->members->last_vote_epoch, 0);
    assert_null(managed_heartbeat(bus, &a, 3));
    assert_true(bus->outcome.has_promised);
    bus_outcome_clear(bus);
    assert_null(managed_heartbeat(bus, &a, 3));
    refuse(bus, managed_heartbeat(bus, &a, 2), "election version mismatch");
    refuse(bus, managed_heartbeat(bus, &a, -1), "election version mismatch");
    managed_view_accept(bus, b_leads, 2);
    bus_outcome_clear(bus);
    refuse(bus, managed_heartbeat(bus, &a, 3), "master mismatch");
    assert_null(managed_heartbeat(bus, &b, 3));                 /* a replica is notified of its primary */
    bus_destroy(bus);
}

static void a_reset_forgets_the_topology_and_the_election_and_hard_the_id(void **state)
{
    struct bus *bus = managed_view_bus('a');
    struct node_id a = cluster_view_id('a');

    managed_view_accept(bus, two_shards, 4);
    assert_null(managed_heartbeat(bus, &a, 3));
    bus_outcome_clear(bus);
    assert_non_null(managed_reset(bus, true, true, 2000));
    assert_int_equal(bus->members->current_epoch, 4);
    assert_null(managed_reset(bus, false, false, 2000));
    members_verify(bus->members);
    assert_true(!managed_is_initialized(bus) && !bus->is_ok && bus->members->last_vote_epoch == 0 && bus->members->count == 1);
    assert_true(node_id_equal(&bus->members->myself->id, &a));
    managed_view_accept(bus, two_shards, 1);
    assert_null(managed_reset(bus, true, false, 3000));
    assert_false(managed_is_initialized(bus) || node_id_equal(&bus->members->myself->id, &a));
    bus_destroy(bus);
}

static void coverage_counts_if_it_is_required(void **state)
{
    struct bus *bus = managed_view_bus('a');
    struct bus_options options = bus->options;

    managed_view_accept(bus, "a 1 master - 0-100\n", 1);
    assert_false(bus->is_ok);
    options.requires_full_coverage = false;
    bus_set_options(bus, &options);
    managed_refresh(bus);
    assert_true(bus->is_ok);
    managed_view_accept(bus, "a 1 master - 0-16383\nb 2 slave,fail a\n", 2);
    assert_true(cluster_view_node(bus->members, 'b')->flags & NODE_FAIL);
    bus_destroy(bus);
}

static void with_tls_the_ports_are_those_of_tls(void **state)
{
    struct bus *bus = managed_view_bus('a');

    bus->options.is_tls = true;
    managed_view_accept(bus, two_shards, 1);
    assert_int_equal(cluster_view_node(bus->members, 'c')->port, 0);
    assert_int_equal(cluster_view_node(bus->members, 'c')->tls_port, 3);
    bus_destroy(bus);
}

/* Each text is refused, and changes nothing. */
static void texts_that_are_no_topology_are_refused(void **state)
{
    static const char *const plain[] = {
        "a 1 master - 0-100\na 2 master - 200\n", "a 1 master - 0-100\nb 2 master - 100\n", "a 1 master - 0-16384\n", "a 1 master - 5-4\n",
        "a 1 master - 1 1\n", "a 1 master - [1->-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb]\n", "a 1 master - x\n", "a 1 master - -5\n", "a 1 master - 5-\n",
        "a 1 slave b\n", "a 1 slave a\n", "a 1 slave -\n", "a 1 master b\nb 2 master - 0-16383\n", "a 1 slave b\nb 2 slave c\nc 3 master - 0-16383\n",
        "a 1 slave b 5\nb 2 master -\n", "a 0 master -\n", "a 65536 master -\n", "a 1 primary -\n", "a 1 master,myself -\n", "a 1 master,slave -\n",
        "a 1 noflags -\n", "a 1 slave b\nb 2 slave a\n",
    };
    static const char *const raw[] = {
        "", "\n \n", "a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1.2.3.4 1 master -\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1.2.3.4,x 1 master -\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1.2.3.4@5 1 master -\n",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1234567890123456789012345678901234567890123456 1 master -\n",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1.2.3.4 1 master\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1.2.3.4 1 master - 1\t2\n",
        "vars currentEpoch 5 lastVoteEpoch 9\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1.2.3.4 1 master -\nvars currentEpoch 5 lastVoteEpoch 9\n",
    };
    struct bus *bus = managed_view_bus('a');

    managed_view_accept(bus, two_shards, 1);
    bus_outcome_clear(bus);
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        refuse(bus, managed_view_set(bus, plain[i], 2, MANAGED_NOT_FORCED), "ERR Invalid cluster nodes info: ");
    for (size_t i = 0; i < sizeof(raw) / sizeof(raw[0]); i++)
        refuse(bus, managed_set_nodes(bus, bytes_of_string(raw[i]), 2, MANAGED_NOT_FORCED), "ERR Invalid cluster nodes info: ");
    assert_int_equal(bus->members->count, 4);
    assert_int_equal(bus->members->current_epoch, 1);
    bus_destroy(bus);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topology_says_who_has_which_slots_and_roles),
        cmocka_unit_test(roles_change_by_the_topology),
        cmocka_unit_test(keys_are_lost_with_their_slots_but_not_those_of_a_node_that_was_left_out),
        cmocka_unit_test(a_replica_that_was_left_out_leads),
        cmocka_unit_test(an_old_version_is_refused_and_the_same_one_changes_nothing),
        cmocka_unit_test(all_nodes_of_a_shard_name_it_alike_and_a_failover_keeps_the_name),
        cmocka_unit_test(slots_are_given_in_the_next_version),
        cmocka_unit_test(a_node_gets_its_id),
        cmocka_unit_test(the_file_has_the_id_the_topology_and_the_election),
        cmocka_unit_test(a_heartbeat_names_this_nodes_primary_and_no_older_election),
        cmocka_unit_test(a_reset_forgets_the_topology_and_the_election_and_hard_the_id),
        cmocka_unit_test(coverage_counts_if_it_is_required),
        cmocka_unit_test(with_tls_the_ports_are_those_of_tls),
        cmocka_unit_test(texts_that_are_no_topology_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
