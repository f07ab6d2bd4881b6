/* Commands, texts, and messages of strangers. Failures and elections: simulation_test.c. */
#include "cluster/bus.h"

#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/cluster_simulation.h"
#include "support/cluster_view.h"
#include "support/seed.h"

enum { T = 2000, HEAL_MS = 60000 };

static const int64_t noon_ms = 1700000000000;

/* A bus whose outcome is looked at, but not carried out. */
static struct bus *bus_of(const char *description)
{
    struct bus_options options = { .timeout_ms = T, .validity_factor = 10, .migration_barrier = 1, .allows_replica_migration = true,
                                   .requires_full_coverage = true, .port = 7000, .bus_port = 17000 };
    struct members *members = cluster_view_create(description);

    for (unsigned i = 0; i < members->count; i++) {
        snprintf(members->all[i]->ip, NODE_IP_SIZE, "10.0.0.%u", i + 1);
        members->all[i]->port = (uint16_t)(7000 + i);
        members->all[i]->bus_port = (uint16_t)(17000 + i);
        members->all[i]->pong_ms = 0;
    }
    return bus_create(members, &options, 77, noon_ms);
}

static struct node *node_of(struct bus *bus, char letter)
{
    return cluster_view_node(bus->members, letter);
}

/* Bytes of a sender, by a new link that it has opened. */
static void hear_bytes(struct bus *bus, const struct buffer *bytes, const char *from_ip, int64_t now_ms)
{
    struct bus_message message;
    uint64_t link = bus_new_link(bus);
    bool is_refused;

    assert_int_equal(bus_message_read(buffer_bytes(bytes), &message), STATUS_OK);
    bus_link_accepted(bus, link, &is_refused);
    if (!is_refused)
        bus_received(bus, link, &message, from_ip, "10.0.0.1", now_ms);
}

static void hear_new(struct bus *bus, const struct bus_message *message, const char *from_ip)
{
    struct buffer bytes = { 0 };

    bus_message_write(message, &bytes);
    hear_bytes(bus, &bytes, from_ip, noon_ms);
    buffer_release(&bytes);
}

static struct bus_message message_of(char letter, enum bus_type type)
{
    struct bus_message message = { .type = (uint16_t)type, .flags = NODE_MASTER, .port = 7009, .bus_port = 17009 };

    message.sender = cluster_view_id(letter);
    return message;
}

/* --- Texts */

static void nodes_are_described_as_redis_does(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99 200\na master 3 300-16383\nc slave-of-a");
    struct node_id a = cluster_view_id('a'), c = cluster_view_id('c');
    struct buffer out = { 0 };
    char line[512];

    node_of(bus, 'a')->is_connected = true;
    node_of(bus, 'a')->tls_port = 7100;
    buffer_append_string(&node_of(bus, 'a')->host_name, "one.example.com");
    node_of(bus, 'c')->ping_sent_ms = noon_ms - 5;
    node_of(bus, 'c')->pong_ms = noon_ms - 9;
    node_of(bus, 'c')->flags |= NODE_PFAIL;
    assert_null(bus_begin_export(bus, 99, &a));
    assert_null(bus_begin_import(bus, 300, &a));
    bus_describe_nodes(bus, NULL, NODES_FILE_PORT_PLAIN, &out);
    snprintf(line, sizeof(line), "%.40s 10.0.0.1:7000@17000,one.example.com master - 0 0 3 connected 300-16383\n", a.text);
    assert_memory_equal(out.data, line, strlen(line));
    snprintf(line, sizeof(line), "myself,master - 0 0 2 connected 0-99 200 [99->-%.40s] [300-<-%.40s]\n%.40s 10.0.0.3:7002@17002 slave,fail? %.40s "
             "1699999999995 1699999999991 3 disconnected\n", a.text, a.text, c.text, a.text);
    assert_memory_equal(out.data + out.size - strlen(line), line, strlen(line));
    out.size = 0;
    bus_describe_nodes(bus, node_of(bus, 'a'), NODES_FILE_PORT_TLS, &out);
    assert_non_null(strstr(out.data, " 10.0.0.1:7100@17000,"));
    assert_ptr_equal(memchr(out.data, '\n', out.size), out.data + out.size - 1);
    buffer_release(&out);
    bus_destroy(bus);
}

static void cluster_info_is_as_redis_has_it(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199\nc master 4 200-299\n" "d slave-of-b");
    struct bus_message publish = message_of('a', BUS_PUBLISH);
    struct buffer out = { 0 };

    node_of(bus, 'a')->flags |= NODE_PFAIL;
    node_of(bus, 'c')->flags |= NODE_FAIL;
    bus->facts.links_over_limit = 7;
    hear_new(bus, &publish, "10.0.0.9");
    bus_describe_info(bus, &out);
    buffer_append_u8(&out, 0);
    assert_string_equal(out.data, "cluster_state:fail\r\ncluster_slots_assigned:300\r\ncluster_slots_ok:100\r\ncluster_slots_pfail:100\r\n"
                        "cluster_slots_fail:100\r\ncluster_known_nodes:4\r\ncluster_size:3\r\ncluster_current_epoch:4\r\ncluster_my_epoch:2\r\n"
                        "cluster_stats_messages_sent:0\r\ncluster_stats_messages_publish_received:1\r\ncluster_stats_messages_received:1\r\n"
                        "total_cluster_links_buffer_limit_exceeded:7\r\n");
    buffer_release(&out);
    bus_destroy(bus);
}

/* --- Commands */

static void slots_are_added_and_removed(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199\nc slave-of-a");
    struct slots slots = cluster_view_slots("200-299");

    assert_null(bus_add_slots(bus, &slots));
    assert_true(bus->outcome.has_promised && bus->outcome.topology_changed);
    assert_int_equal(bus->members->myself->slot_count, 200);
    slots = cluster_view_slots("0-99 150");
    assert_null(bus_remove_slots(bus, &slots));
    assert_int_equal(cluster_view_owner(bus->members, 50), '-');
    assert_int_equal(cluster_view_owner(bus->members, 150), '-');
    assert_int_equal(cluster_view_owner(bus->members, 250), 'b');
    assert_null(bus_flush_slots(bus));
    assert_int_equal(bus->members->myself->slot_count, 0);
    assert_int_equal(cluster_view_owner(bus->members, 151), 'a');
    assert_true(slots_count(&bus->outcome.lost) == 0);
    bus_destroy(bus);
    bus = bus_of("c slave-of-a\na master 3 100-199");
    assert_string_equal(bus_add_slots(bus, &slots), "ERR Slots can be assigned only to masters.");
    bus_destroy(bus);
}

static void a_slot_that_was_conceded_and_is_removed_stays_removed(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199");
    struct slots slots = cluster_view_slots("50");

    slots_add(&bus->members->conceded, 50);
    members_bind(bus->members, 50, node_of(bus, 'a'));
    assert_null(bus_remove_slots(bus, &slots));
    assert_int_equal(cluster_view_owner(bus->members, 50), '-');
    bus_destroy(bus);
}

static void a_conceded_slot_that_comes_back_is_promised(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199\nc master 4");
    struct node_id a = cluster_view_id('a');

    slots_add(&bus->members->conceded, 50);
    members_bind(bus->members, 50, node_of(bus, 'a'));
    bus_tick(bus, noon_ms);
    bus_outcome_clear(bus);
    assert_null(bus_forget(bus, &a, noon_ms));
    assert_int_equal(cluster_view_owner(bus->members, 50), 'b');
    assert_true(bus->outcome.has_promised);
    bus_destroy(bus);
}

static void moves_are_refused_as_redis_does(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199\nc slave-of-a");
    struct node_id a = cluster_view_id('a'), b = cluster_view_id('b'), c = cluster_view_id('c'), x = cluster_view_id('x');
    char text[128];

    snprintf(text, sizeof(text), "ERR I don't know about node %.40s", x.text);
    assert_string_equal(bus_begin_export(bus, 100, &a), "ERR I'm not the owner of hash slot 100");
    assert_string_equal(bus_begin_import(bus, 99, &a), "ERR I'm already the owner of hash slot 99");
    assert_string_equal(bus_begin_export(bus, 99, &x), text);
    assert_string_equal(bus_begin_import(bus, 100, &c), "ERR Target node is not a master");
    snprintf(text, sizeof(text), "ERR Unknown node %.40s", x.text);
    assert_string_equal(bus_assign_slot(bus, 99, &x, false, noon_ms), text);
    assert_string_equal(bus_assign_slot(bus, 99, &c, false, noon_ms), "ERR Target node is not a master");
    assert_string_equal(bus_assign_slot(bus, 99, &a, true, noon_ms),
                        "ERR Can't assign hashslot 99 to a different node while I still hold keys for this hash slot.");
    assert_false(bus->outcome.has_promised);
    assert_null(bus_begin_export(bus, 99, &a));
    assert_null(bus_assign_slot(bus, 99, &b, true, noon_ms));                   /* to itself, with keys: the move goes on */
    assert_int_equal(bus->members->move_count, 1);
    assert_null(bus_end_move(bus, 99));
    assert_int_equal(bus->members->move_count, 0);
    bus_destroy(bus);
    bus = bus_of("c slave-of-a\na master 3 100-199");
    assert_string_equal(bus_begin_export(bus, 99, &a), "ERR Please use SETSLOT only with masters.");
    assert_string_equal(bus_end_move(bus, 99), "ERR Please use SETSLOT only with masters.");
    assert_string_equal(bus_assign_slot(bus, 99, &a, false, noon_ms), "ERR Please use SETSLOT only with masters.");
    bus_destroy(bus);
}

static void a_new_cluster_is_ok_as_soon_as_all_slots_have_owners(void **state)
{
    struct bus *bus = bus_of("b master 0");
    struct slots all = cluster_view_slots("0-16383");
    int64_t now_ms = noon_ms;

    while (now_ms < noon_ms + 4000)
        bus_tick(bus, now_ms += 100);
    assert_false(bus->is_ok);
    assert_null(bus_add_slots(bus, &all));
    bus_tick(bus, now_ms += 100);
    assert_true(bus->is_ok);
    bus_destroy(bus);
}

static void an_imported_slot_is_taken_with_a_new_epoch(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199");
    struct node_id a = cluster_view_id('a'), b = cluster_view_id('b');

    assert_null(bus_begin_import(bus, 150, &a));
    assert_null(bus_assign_slot(bus, 150, &b, true, noon_ms));
    assert_int_equal(bus->members->move_count, 0);
    assert_int_equal(bus->members->myself->config_epoch, 4);
    assert_int_equal(cluster_view_owner(bus->members, 150), 'b');
    bus_outcome_clear(bus);
    assert_null(bus_begin_export(bus, 150, &a));
    assert_null(bus_assign_slot(bus, 150, &a, false, noon_ms));
    assert_int_equal(bus->members->move_count, 0);
    assert_int_equal(bus->members->myself->config_epoch, 4);
    bus_destroy(bus);
}

static void a_node_that_gives_its_last_slot_follows_the_new_owner(void **state)
{
    struct bus *bus = bus_of("b master 2 0\na master 3 100-199");
    struct node_id a = cluster_view_id('a');

    assert_null(bus_assign_slot(bus, 0, &a, false, noon_ms));
    assert_true(bus->members->myself->master == node_of(bus, 'a'));
    assert_int_equal(bus->outcome.role, BUS_ROLE_FOLLOW);
    bus_destroy(bus);
    bus = bus_of("b master 2 0\na master 3 100-199");
    bus->options.allows_replica_migration = false;
    assert_null(bus_assign_slot(bus, 0, &a, false, noon_ms));
    assert_true(bus->members->myself->flags & NODE_MASTER);
    bus_destroy(bus);
}

static void roles_are_refused_as_redis_does(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199\nc slave-of-a");
    struct node_id a = cluster_view_id('a'), b = cluster_view_id('b'), c = cluster_view_id('c'), x = cluster_view_id('x');
    char text[128];

    snprintf(text, sizeof(text), "ERR Unknown node %.40s", x.text);
    assert_string_equal(bus_replicate(bus, &x, false, noon_ms), text);
    assert_string_equal(bus_replicate(bus, &b, false, noon_ms), "ERR Can't replicate myself");
    assert_string_equal(bus_replicate(bus, &c, false, noon_ms), "ERR I can only replicate a master, not a replica.");
    assert_string_equal(bus_replicate(bus, &a, false, noon_ms), "ERR To set a master the node must be empty and without assigned slots.");
    assert_null(bus_flush_slots(bus));
    assert_string_equal(bus_replicate(bus, &a, true, noon_ms), "ERR To set a master the node must be empty and without assigned slots.");
    assert_string_equal(bus_failover(bus, BUS_FAILOVER_FORCED, noon_ms), "ERR You should send CLUSTER FAILOVER to a replica");
    assert_null(bus_replicate(bus, &a, false, noon_ms));
    assert_int_equal(bus->outcome.role, BUS_ROLE_FOLLOW);
    assert_string_equal(bus_failover(bus, BUS_FAILOVER_AGREED, noon_ms), "ERR Master is down or failed, please use CLUSTER FAILOVER FORCE");
    assert_string_equal(bus_forget(bus, &a, noon_ms), "ERR Can't forget my master!");
    assert_string_equal(bus_forget(bus, &b, noon_ms), "ERR I tried hard but I can't forget myself...");
    assert_string_equal(bus_forget(bus, &x, noon_ms), text);
    members_set_master(bus->members, bus->members->myself, NULL);
    assert_string_equal(bus_failover(bus, BUS_FAILOVER_FORCED, noon_ms), "ERR I'm a replica but my master is unknown to me");
    assert_string_equal(bus_meet(bus, "one.example.com", 7000, 17000, noon_ms), "ERR Invalid node address specified: one.example.com:7000");
    assert_string_equal(bus_meet(bus, "10.0.0.1", 0, 17000, noon_ms), "ERR Invalid node address specified: 10.0.0.1:0");
    bus_destroy(bus);
}

static void epochs_are_set_alone_only_and_bumped_if_not_the_largest(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199");
    bool bumped;

    assert_string_equal(bus_set_config_epoch(bus, 9), "ERR The user can assign a config epoch only when the node does not know any other node.");
    bus_bump_epoch(bus, &bumped);
    assert_true(bumped && bus->members->myself->config_epoch == 4 && bus->outcome.has_promised);
    bus_bump_epoch(bus, &bumped);
    assert_false(bumped);
    bus_destroy(bus);
    bus = bus_of("b master 0");
    assert_null(bus_set_config_epoch(bus, 9));
    assert_int_equal(bus->members->current_epoch, 9);
    assert_string_equal(bus_set_config_epoch(bus, 10), "ERR Node config epoch is already non-zero");
    bus_destroy(bus);
}

static void a_reset_node_is_alone(void **state)
{
    struct bus *bus = bus_of("c slave-of-a\na master 3 100-199\nb master 4 0");
    struct node_id c = cluster_view_id('c'), shard = bus->members->myself->shard_id;

    assert_null(bus_reset(bus, false, true, noon_ms));
    assert_true(bus->outcome.empties && bus->outcome.role == BUS_ROLE_LEAD);
    assert_int_equal(bus->members->count, 1);
    assert_true(node_id_equal(&bus->members->myself->id, &c));
    assert_int_equal(bus->members->current_epoch, 4);
    assert_int_equal(cluster_view_owner(bus->members, 100), '-');
    bus_outcome_clear(bus);
    assert_string_equal(bus_reset(bus, false, true, noon_ms), "ERR CLUSTER RESET can't be called with master nodes containing keys");
    assert_null(bus_reset(bus, true, false, noon_ms));
    assert_false(bus->outcome.empties);
    assert_false(node_id_equal(&bus->members->myself->id, &c));
    assert_false(node_id_equal(&bus->members->myself->shard_id, &shard));
    assert_int_equal(bus->members->current_epoch, 0);
    members_verify(bus->members);
    bus_destroy(bus);
}

static bool node_5_is_forgotten(struct simulation *simulation)
{
    for (int i = 0; i < 5; i++) {
        if (simulation_view(simulation, i, 5) != NULL)
            return false;
    }
    return true;
}

static void a_forgotten_node_is_forgotten_by_all_and_not_learned_again(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());
    struct node_id id = simulation->nodes[5].id;

    assert_null(bus_forget(simulation_bus(simulation, 0), &id, simulation_clock(simulation, 0)));
    simulation_do(simulation, 0);
    assert_true(simulation_run_until(simulation, node_5_is_forgotten, 10 * T));
    assert_null(bus_forget(simulation_bus(simulation, 1), &id, simulation_clock(simulation, 1)));       /* gossip was faster */
    simulation_run(simulation, 55000);
    assert_true(node_5_is_forgotten(simulation));
    assert_null(bus_reset(simulation_bus(simulation, 5), true, false, simulation_clock(simulation, 5)));
    simulation_do(simulation, 5);
    assert_int_equal(simulation->nodes[5].empty_count, 1);
    simulation_run(simulation, 60000);
    assert_true(node_5_is_forgotten(simulation));
    simulation_destroy(simulation);
}

static void a_forgotten_node_is_not_learned_from_gossip_for_a_minute(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199\nc master 4");
    struct bus_message ping = message_of('a', BUS_PING);
    struct bus_gossip gossip = { .ip = "10.0.0.3", .port = 7003, .bus_port = 17003, .flags = NODE_MASTER };
    struct buffer bytes = { 0 };

    gossip.id = cluster_view_id('c');
    bus_message_write(&ping, &bytes);
    bus_message_add_gossip(&bytes, 0, &gossip);
    assert_null(bus_forget(bus, &gossip.id, noon_ms));
    for (int i = 0; i < 600; i++)
        hear_bytes(bus, &bytes, "10.0.0.2", noon_ms + i * 100);
    assert_int_equal(bus->members->count, 2);
    hear_bytes(bus, &bytes, "10.0.0.2", noon_ms + 60100);
    assert_int_equal(bus->members->count, 3);
    buffer_release(&bytes);
    bus_destroy(bus);
}

static void what_is_published_is_delivered_to_all_or_to_the_shard(void **state)
{
    struct simulation *simulation = simulation_create(3, 2, T, seed_new());

    bus_publish(simulation_bus(simulation, 4), BYTES("channel"), BYTES("text"), false);
    simulation_do(simulation, 4);
    simulation_run(simulation, 100);
    for (int i = 0; i < 9; i++)
        assert_int_equal(simulation->nodes[i].delivered, i == 4 ? 0 : 1);
    bus_publish(simulation_bus(simulation, 4), BYTES(""), BYTES(""), true);
    simulation_do(simulation, 4);
    simulation_run(simulation, 100);
    for (int i = 0; i < 9; i++)
        assert_int_equal(simulation->nodes[i].delivered, i == 4 ? 0 : i == 1 || i == 7 ? 2 : 1);
    simulation_destroy(simulation);
}

static void a_published_message_is_delivered_as_it_was_sent(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199");
    struct bus_message message = message_of('a', BUS_PUBLISHSHARD);
    const struct bus_action *action;

    message.channel = BYTES("news");
    message.text = BYTES("all is well");
    hear_new(bus, &message, "10.0.0.9");
    action = &bus->outcome.actions[bus->outcome.action_count - 1];
    assert_int_equal(action->kind, BUS_DELIVER);
    assert_true(action->is_shard);
    assert_true(bytes_equal(bytes_of(bus->outcome.bytes.data + action->begin, action->size), BYTES("news")));
    assert_true(bytes_equal(bytes_of(bus->outcome.bytes.data + action->text_begin, action->text_size), BYTES("all is well")));
    bus_destroy(bus);
}

/* --- Links */

static void each_node_has_a_link_to_and_from_each_other(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());
    struct bus *bus = simulation_bus(simulation, 0);
    struct bus_link_view view;
    unsigned count = 0;

    for (unsigned i = 0; bus_link_view(bus, i, &view); i++) {
        if (view.node == NULL)
            continue;
        assert_ptr_equal(view.node, bus->members->all[i / 2]);
        assert_true(view.is_outgoing == (count++ % 2 == 0));
        assert_true(view.opened_ms <= simulation_clock(simulation, 0));
        assert_int_equal(bus_link_size_max(bus, view.link), BUS_KNOWN_SIZE_MAX);
    }
    assert_int_equal(count, 10);
    simulation_destroy(simulation);
}

static void meeting_a_known_node_changes_nothing(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    simulation_meet(simulation, 0, 4);
    assert_int_equal(simulation->nodes[0].bus->members->count, 7);
    simulation_run(simulation, T / 4);
    assert_int_equal(simulation->nodes[0].bus->members->count, 6);
    assert_true(simulation_agrees(simulation));
    simulation_destroy(simulation);
}

static void a_node_that_moves_to_another_address_is_found_there(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());
    unsigned follows = simulation->nodes[3].follow_count;

    simulation_kill(simulation, 0, SIMULATION_DIES_NOW);
    simulation->nodes[0].address = 100;
    simulation_start(simulation, 0, SIMULATION_DISK_WRITTEN);
    assert_true(simulation_run_until(simulation, simulation_agrees, HEAL_MS));
    simulation_run(simulation, 2 * T);
    for (int i = 1; i < 6; i++)
        assert_string_equal(simulation_view(simulation, i, 0)->ip, "10.0.0.100");
    assert_true(simulation_is_primary(simulation, 0));
    assert_true(simulation->nodes[3].follow_count > follows);                   /* its replica has to know */
    assert_int_equal(simulation->nodes[3].follows, 0);
    simulation_destroy(simulation);
}

static void a_node_of_another_cluster_at_a_known_address_is_not_taken_in(void **state)
{
    struct simulation *simulation = simulation_create_alone(5, T, seed_new());

    simulation_meet(simulation, 0, 1);
    simulation_meet(simulation, 0, 2);
    simulation_meet(simulation, 3, 4);
    simulation_run(simulation, 5 * T);
    simulation_kill(simulation, 2, SIMULATION_DIES_NOW);
    simulation_kill(simulation, 3, SIMULATION_DIES_NOW);
    simulation->nodes[3].address = 2;
    simulation->nodes[2].address = 99;
    simulation_start(simulation, 3, SIMULATION_DISK_WRITTEN);
    simulation_run(simulation, 20 * T);
    assert_int_equal(simulation->nodes[0].bus->members->count, 3);
    assert_int_equal(simulation->nodes[3].bus->members->count, 2);
    assert_int_equal(simulation->nodes[4].bus->members->count, 2);
    assert_true(simulation_view(simulation, 0, 2)->flags & NODE_NO_ADDRESS);
    assert_string_equal(simulation_view(simulation, 4, 3)->ip, "10.0.0.2");
    simulation_destroy(simulation);
}

/* The one that is met hears the MEET, but its own handshake fails. */
static void a_node_that_has_missed_the_introduction_is_introduced_again(void **state)
{
    struct simulation *simulation = simulation_create_alone(2, T, seed_new());

    simulation->delay_ms_max = 1;                                               /* the PONG arrives before the other one can have connected and sent its PING */
    simulation_meet(simulation, 0, 1);
    while (simulation->sent[BUS_PONG] == 0)
        simulation_run(simulation, 1);
    simulation_run(simulation, 1);
    assert_non_null(simulation_view(simulation, 0, 1));
    assert_true(simulation_view(simulation, 0, 1)->peer.is_met);
    simulation_kill(simulation, 1, SIMULATION_DIES_NOW);                        /* what it knew is not in its file */
    simulation_start(simulation, 1, SIMULATION_DISK_SYNCED);
    simulation_run(simulation, 10 * T);
    assert_non_null(simulation_view(simulation, 1, 0));
    simulation_destroy(simulation);
}

/* --- Roles of others */

static void run_ticks(struct bus *bus, int64_t from_ms, int64_t ms)
{
    for (int64_t at = 100; at <= ms; at += 100) {
        bus_tick(bus, noon_ms + from_ms + at);
        bus_outcome_clear(bus);
    }
}

static void a_replica_of_a_replica_follows_the_primary_if_that_lasts(void **state)
{
    struct bus *bus = bus_of("c slave-of-a\na slave-of-b\nb master 6 10-19");

    run_ticks(bus, 0, T);
    assert_true(bus->members->myself->master == node_of(bus, 'a'));
    run_ticks(bus, T, 200);
    assert_true(bus->members->myself->master == node_of(bus, 'b'));
    bus_destroy(bus);
    bus = bus_of("c slave-of-a\na slave-of-c\n" "d master 7");                     /* a circle is left to the administrator */
    run_ticks(bus, 0, 2 * T);
    assert_true(bus->members->myself->master == node_of(bus, 'a'));
    bus_destroy(bus);
}

/* Sent before it won, and overtaken by its first header as a primary. */
static void a_late_header_of_a_candidate_does_not_take_its_slots(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199\nc slave-of-a\n" "d slave-of-a");
    struct slots slots = cluster_view_slots("100-199");
    struct bus_message message = message_of('c', BUS_PING), late = message_of('c', BUS_PING);

    message.slots = late.slots = &slots;
    message.current_epoch = message.config_epoch = late.current_epoch = 4;
    late.config_epoch = 3;
    late.master = cluster_view_id('a');
    late.flags = NODE_REPLICA;
    hear_new(bus, &message, "10.0.0.3");
    assert_int_equal(cluster_view_owner(bus->members, 150), 'c');
    hear_new(bus, &late, "10.0.0.3");
    assert_int_equal(cluster_view_owner(bus->members, 150), 'c');
    run_ticks(bus, 0, T);
    hear_new(bus, &late, "10.0.0.3");                                           /* it goes on to say so */
    assert_int_equal(cluster_view_owner(bus->members, 150), '-');
    late.current_epoch = 3;
    late.master = cluster_view_id('b');
    hear_new(bus, &late, "10.0.0.3");
    assert_true(node_of(bus, 'c')->master == node_of(bus, 'a'));
    bus_destroy(bus);
}

/* This header is the first sign of a failover for this node. */
static void a_replaced_primary_says_who_has_its_slots(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199\nc slave-of-a\n" "d slave-of-a");
    struct slots slots = cluster_view_slots("100-199");
    struct bus_message message = message_of('a', BUS_PING);

    message.slots = &slots;
    message.current_epoch = message.config_epoch = 4;
    message.master = cluster_view_id('c');
    message.flags = NODE_REPLICA;
    hear_new(bus, &message, "10.0.0.1");
    assert_true(node_of(bus, 'c')->flags & NODE_MASTER);
    assert_true(node_of(bus, 'a')->master == node_of(bus, 'c'));
    assert_int_equal(cluster_view_owner(bus->members, 150), 'c');
    assert_int_equal(node_of(bus, 'c')->config_epoch, 4);
    bus_destroy(bus);
}

/* The message of this type that was sent last. */
static struct bus_message sent_message(const struct bus *bus, enum bus_type type)
{
    struct bus_message message = { 0 };

    for (unsigned i = 0; i < bus->outcome.action_count; i++) {
        const struct bus_action *action = &bus->outcome.actions[i];

        if (action->kind == BUS_SEND && action->type == type)
            assert_int_equal(bus_message_read(bytes_of(bus->outcome.bytes.data + action->begin, action->size), &message), STATUS_OK);
    }
    assert_int_equal(message.type, type);
    return message;
}

/* So that something can be sent to it. */
static void open_link_to(struct bus *bus, char letter)
{
    if (node_of(bus, letter)->peer.link == 0)
        bus_tick(bus, noon_ms);
    bus_link_opened(bus, node_of(bus, letter)->peer.link, noon_ms);
    bus_outcome_clear(bus);
}

static void a_node_that_claims_what_a_newer_one_has_is_sent_an_update(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 9 100-199\nc master 4 200\n" "d slave-of-c");
    struct slots old = cluster_view_slots("100-200");
    struct bus_message ping = message_of('c', BUS_PING), request = message_of('d', BUS_FAILOVER_AUTH_REQUEST), update;
    struct node_id a = cluster_view_id('a');

    open_link_to(bus, 'c');
    open_link_to(bus, 'd');
    ping.slots = request.slots = &old;
    ping.config_epoch = request.config_epoch = 4;
    ping.current_epoch = 9;
    ping.bus_port = node_of(bus, 'c')->bus_port;
    ping.port = node_of(bus, 'c')->port;
    hear_new(bus, &ping, node_of(bus, 'c')->ip);
    update = sent_message(bus, BUS_UPDATE);
    assert_true(node_id_equal(&update.about, &a) && update.about_epoch == 9 && slots_count(update.about_slots) == 100);
    bus_outcome_clear(bus);
    request.current_epoch = 10;
    request.message_flags = BUS_FORCE_ACK;
    request.master = cluster_view_id('c');
    hear_new(bus, &request, node_of(bus, 'd')->ip);                             /* a candidate that could never win */
    update = sent_message(bus, BUS_UPDATE);
    assert_true(node_id_equal(&update.about, &a));
    assert_int_equal(bus->members->last_vote_epoch, 0);
    bus_destroy(bus);
}

/* The replica takes the offset of a paused primary for its last. */
static void a_primary_says_that_it_is_paused_once_its_writes_are_held(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199\nc slave-of-b");
    struct bus_message start = message_of('c', BUS_MFSTART);

    open_link_to(bus, 'c');
    hear_new(bus, &start, "10.0.0.3");
    assert_true(bus->hold_writes_until_ms > noon_ms);
    bus_tick(bus, noon_ms + 100);
    assert_false(sent_message(bus, BUS_PING).message_flags & BUS_PAUSED);
    bus_outcome_clear(bus);
    bus->facts.holds_writes = true;
    bus->facts.offset = 77;
    bus_tick(bus, noon_ms + 200);
    assert_true(sent_message(bus, BUS_PING).message_flags & BUS_PAUSED);
    assert_int_equal(sent_message(bus, BUS_PING).offset, 77);
    bus_outcome_clear(bus);
    for (int i = 3; i < 55; i++)
        bus_tick(bus, noon_ms + i * 100);
    assert_int_equal(bus->hold_writes_until_ms, 0);
    start = message_of('a', BUS_MFSTART);                                       /* not its replica */
    hear_new(bus, &start, "10.0.0.1");
    assert_int_equal(bus->hold_writes_until_ms, 0);
    bus_destroy(bus);
}

/* Its first message, which has the slots, has none. */
static void a_node_that_shows_that_it_takes_extensions_is_sent_them_at_once(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199");
    struct bus_message pong = message_of('a', BUS_PONG);

    buffer_append_string(&bus->members->myself->host_name, "two.example.com");
    open_link_to(bus, 'a');
    hear_new(bus, &pong, "10.0.0.1");
    for (unsigned i = 0; i < bus->outcome.action_count; i++)
        assert_false(bus->outcome.actions[i].kind == BUS_SEND);                 /* an old node, for all that is known */
    pong.message_flags = BUS_HAS_EXTENSIONS;
    hear_new(bus, &pong, "10.0.0.1");
    assert_true(bytes_equal(sent_message(bus, BUS_PONG).host_name, BYTES("two.example.com")));
    bus_outcome_clear(bus);
    hear_new(bus, &pong, "10.0.0.1");
    for (unsigned i = 0; i < bus->outcome.action_count; i++)
        assert_false(bus->outcome.actions[i].kind == BUS_SEND);                 /* once */
    bus_destroy(bus);
}

static void the_slots_of_others_are_synced(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199\nc master 4 200");
    struct slots slots = cluster_view_slots("150-200");
    struct bus_message ping = message_of('c', BUS_PING);

    bus_outcome_clear(bus);
    ping.slots = &slots;
    ping.config_epoch = ping.current_epoch = 4;
    hear_new(bus, &ping, "10.0.0.3");
    assert_int_equal(cluster_view_owner(bus->members, 150), 'c');
    assert_true(bus->outcome.has_promised && bus->outcome.topology_changed);
    bus_destroy(bus);
}

/* What was sent last comes back by this link. The bytes are copied, as those of the outcome move when something is sent. */
static void hear_own(struct bus *bus, uint64_t link, enum bus_type type)
{
    struct bus_message message = sent_message(bus, type);
    struct buffer bytes = { 0 };

    bus_message_write(&message, &bytes);
    assert_int_equal(bus_message_read(buffer_bytes(&bytes), &message), STATUS_OK);
    bus_received(bus, link, &message, "10.0.0.2", "10.0.0.2", noon_ms);
    buffer_release(&bytes);
}

static void a_node_that_meets_itself_notices(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199");
    uint64_t accepted = bus_new_link(bus), opened = 0;
    bool is_refused;

    assert_null(bus_meet(bus, "10.0.0.2", 7001, 17001, noon_ms));
    assert_int_equal(bus->members->count, 3);
    bus_tick(bus, noon_ms);
    for (unsigned i = 0; i < bus->outcome.action_count; i++) {
        if (bus->outcome.actions[i].kind == BUS_OPEN && bus->outcome.actions[i].port == 17001)
            opened = bus->outcome.actions[i].link;
    }
    bus_link_accepted(bus, accepted, &is_refused);
    bus_link_opened(bus, opened, noon_ms);
    hear_own(bus, accepted, BUS_MEET);
    assert_int_equal(bus->members->count, 3);
    hear_own(bus, opened, BUS_PONG);
    assert_int_equal(bus->members->count, 2);
    bus_destroy(bus);
}

/* --- Strangers */

static void a_stranger_only_gets_in_by_meet(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199");
    struct slots all = cluster_view_slots("0-16383");

    bus_outcome_clear(bus);
    for (unsigned type = 0; type < BUS_TYPE_COUNT; type++) {
        struct bus_message message = message_of('x', (enum bus_type)type);

        if (type == BUS_MEET || type == BUS_MODULE)
            continue;
        message.slots = message.about_slots = &all;
        message.about = cluster_view_id('a');
        message.current_epoch = message.config_epoch = message.about_epoch = 99;
        hear_new(bus, &message, "10.0.0.9");
    }
    assert_int_equal(bus->members->count, 2);
    assert_int_equal(bus->members->current_epoch, 3);
    assert_false(bus->outcome.has_changed);
    assert_int_equal(bus->outcome.action_count, 1);                             /* the PONG to its PING */
    bus_destroy(bus);
}

static void strangers_that_introduce_themselves_are_bounded(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199");
    struct bus_message message = message_of('x', BUS_MEET);

    for (unsigned i = 0; i < 5000; i++) {
        message.port = (uint16_t)(1000 + i);
        message.bus_port = (uint16_t)(11000 + i);
        snprintf(message.sender.text, 10, "%09u", i);
        message.sender.text[9] = 'x';
        hear_new(bus, &message, "10.0.0.9");
        bus_outcome_clear(bus);
    }
    assert_true(bus->members->count > 2 && bus->members->count < 1100);
    for (unsigned i = 0; i < 30; i++) {
        bus_tick(bus, noon_ms + i * 100);
        bus_outcome_clear(bus);
    }
    assert_int_equal(bus->members->count, 2);
    bus_destroy(bus);
}

/* A message of a known node with the addresses of new nodes. */
static void hear_gossip_of(struct bus *bus, unsigned count)
{
    struct bus_message ping = message_of('a', BUS_PING), read;
    struct buffer bytes = { 0 };
    uint64_t link = bus_new_link(bus);
    bool is_refused;

    bus_message_write(&ping, &bytes);
    for (unsigned i = 0; i < count; i++) {
        struct bus_gossip gossip = { .ip = "10.9.9.9", .port = 1, .bus_port = 2, .flags = NODE_MASTER };

        char digits[16];

        snprintf(digits, sizeof(digits), "%010u", i);
        memset(gossip.id.text, 'e', NODE_ID_SIZE);
        memcpy(gossip.id.text, digits, 10);
        bus_message_add_gossip(&bytes, 0, &gossip);
    }
    assert_int_equal(bus_message_read(buffer_bytes(&bytes), &read), STATUS_OK);
    bus_link_accepted(bus, link, &is_refused);
    bus_received(bus, link, &read, "10.0.0.1", "10.0.0.2", noon_ms);
    bus_outcome_clear(bus);
    buffer_release(&bytes);
}

/* Of those that this node opens, or has opened. */
static unsigned count_links(const struct bus *bus)
{
    unsigned count = 0;

    for (unsigned i = 0; i < bus->members->count; i++)
        count += bus->members->all[i]->peer.link != 0;
    return count;
}

static void links_to_nodes_that_never_replied_are_bounded(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199\nc slave-of-a");
    unsigned count, reached = 0;
    uint64_t last = 0;

    hear_gossip_of(bus, 2000);
    assert_int_equal(bus->members->count, 2003);
    bus_tick(bus, noon_ms);
    count = count_links(bus);
    assert_true(count > 100 && count < 600);
    assert_true(node_of(bus, 'a')->peer.link != 0 && node_of(bus, 'c')->peer.link != 0);       /* of nodes.conf */
    bus_outcome_clear(bus);
    assert_null(bus_meet(bus, "10.0.0.77", 7000, 17000, noon_ms));
    bus_tick(bus, noon_ms + 100);
    assert_int_equal(count_links(bus), count + 1);                              /* an administrator's */
    for (unsigned i = 2; i < 200; i++, last = bus_new_link(bus)) {              /* all are refused: others have their turn */
        for (uint64_t link = last + 1; link < last + 3000; link++)
            bus_link_closed(bus, link);
        bus_outcome_clear(bus);
        bus_tick(bus, noon_ms + i * 100);
        assert_true(count_links(bus) <= count + 1);
    }
    for (unsigned i = 0; i < bus->members->count; i++)
        reached += bus->members->all[i]->ping_sent_ms != 0;
    assert_true(reached > 1900);
    bus_destroy(bus);
}

static void strangers_that_say_nothing_are_sent_away(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199");
    bool is_refused = false;
    unsigned count = 0;

    for (; !is_refused; count++)
        bus_link_accepted(bus, bus_new_link(bus), &is_refused);
    assert_true(count > 100);
    for (unsigned i = 1; i < 60; i++) {
        bus_tick(bus, noon_ms + i * 100);
        bus_outcome_clear(bus);
    }
    bus_link_accepted(bus, bus_new_link(bus), &is_refused);
    assert_false(is_refused);
    bus_destroy(bus);
}

static void a_message_with_anything_in_it_is_survived(void **state)
{
    struct bus *bus = bus_of("b master 2 0-99\na master 3 100-199\nc slave-of-a\n" "d slave-of-b\ne master 5 300");
    struct random random;
    uint64_t seed = seed_new();
    static const char letters[] = "abcdex";

    random_init(&random, seed);
    for (unsigned i = 0; i < 5000; i++) {
        struct bus_message message = message_of(letters[random_below(&random, 6)], (enum bus_type)random_below(&random, BUS_MODULE));
        struct slots slots = { { 0 } };

        slots_add_range(&slots, (struct slot_range){ (uint16_t)random_below(&random, 200), (uint16_t)(200 + random_below(&random, 200)) });
        message.flags = (uint16_t)random_next(&random);
        message.message_flags = (uint8_t)(random_next(&random) & ~(unsigned)BUS_HAS_EXTENSIONS);
        message.current_epoch = random_below(&random, 5) == 0 ? random_next(&random) : random_below(&random, 100);
        message.config_epoch = random_below(&random, 50) == 0 ? random_next(&random) : random_below(&random, 100);
        message.offset = random_next(&random);
        message.slots = message.about_slots = &slots;
        message.about_epoch = random_below(&random, 100);
        message.about = cluster_view_id(letters[random_below(&random, 6)]);
        if (random_below(&random, 2) == 0)
            message.master = cluster_view_id(letters[random_below(&random, 6)]);
        hear_new(bus, &message, "10.0.0.9");
        bus_tick(bus, noon_ms + (int64_t)random_below(&random, 100000));
        if (i % 16 == 0)
            members_verify(bus->members);
        bus_outcome_clear(bus);
    }
    bus_destroy(bus);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_described_as_redis_does),
        cmocka_unit_test(cluster_info_is_as_redis_has_it),
        cmocka_unit_test(slots_are_added_and_removed),
        cmocka_unit_test(a_slot_that_was_conceded_and_is_removed_stays_removed),
        cmocka_unit_test(a_conceded_slot_that_comes_back_is_promised),
        cmocka_unit_test(moves_are_refused_as_redis_does),
        cmocka_unit_test(a_new_cluster_is_ok_as_soon_as_all_slots_have_owners),
        cmocka_unit_test(an_imported_slot_is_taken_with_a_new_epoch),
        cmocka_unit_test(a_node_that_gives_its_last_slot_follows_the_new_owner),
        cmocka_unit_test(roles_are_refused_as_redis_does),
        cmocka_unit_test(epochs_are_set_alone_only_and_bumped_if_not_the_largest),
        cmocka_unit_test(a_reset_node_is_alone),
        cmocka_unit_test(a_forgotten_node_is_forgotten_by_all_and_not_learned_again),
        cmocka_unit_test(a_forgotten_node_is_not_learned_from_gossip_for_a_minute),
        cmocka_unit_test(what_is_published_is_delivered_to_all_or_to_the_shard),
        cmocka_unit_test(a_published_message_is_delivered_as_it_was_sent),
        cmocka_unit_test(each_node_has_a_link_to_and_from_each_other),
        cmocka_unit_test(meeting_a_known_node_changes_nothing),
        cmocka_unit_test(a_node_that_moves_to_another_address_is_found_there),
        cmocka_unit_test(a_node_of_another_cluster_at_a_known_address_is_not_taken_in),
        cmocka_unit_test(a_node_that_has_missed_the_introduction_is_introduced_again),
        cmocka_unit_test(a_replica_of_a_replica_follows_the_primary_if_that_lasts),
        cmocka_unit_test(a_late_header_of_a_candidate_does_not_take_its_slots),
        cmocka_unit_test(a_replaced_primary_says_who_has_its_slots),
        cmocka_unit_test(a_node_that_claims_what_a_newer_one_has_is_sent_an_update),
        cmocka_unit_test(a_primary_says_that_it_is_paused_once_its_writes_are_held),
        cmocka_unit_test(a_node_that_shows_that_it_takes_extensions_is_sent_them_at_once),
        cmocka_unit_test(the_slots_of_others_are_synced),
        cmocka_unit_test(a_node_that_meets_itself_notices),
        cmocka_unit_test(a_stranger_only_gets_in_by_meet),
        cmocka_unit_test(strangers_that_introduce_themselves_are_bounded),
        cmocka_unit_test(links_to_nodes_that_never_replied_are_bounded),
        cmocka_unit_test(strangers_that_say_nothing_are_sent_away),
        cmocka_unit_test(a_message_with_anything_in_it_is_survived),
    };

    cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
