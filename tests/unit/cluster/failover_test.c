/* Failures and failovers in simulated clusters: named scenarios, among them the known defects of Redis and Valkey. */
#include "cluster/bus.h"

#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "support/cluster_simulation.h"
#include "support/cluster_view.h"
#include "support/scaled.h"
#include "support/seed.h"

enum { T = 2000, FAILOVER_MS = 12000 };

static bool node_3_leads(struct simulation *simulation)
{
    return simulation_is_primary(simulation, 3);
}

static bool node_6_leads(struct simulation *simulation)
{
    return simulation_is_primary(simulation, 6);
}

static bool node_3_or_6_leads(struct simulation *simulation)
{
    return simulation_is_primary(simulation, 3) || simulation_is_primary(simulation, 6);
}

static bool node_0_leads(struct simulation *simulation)
{
    return simulation_is_primary(simulation, 0);
}

static bool node_0_follows(struct simulation *simulation)
{
    return !simulation_is_primary(simulation, 0);
}

static bool node_0_is_ok(struct simulation *simulation)
{
    return simulation->nodes[0].bus->is_ok;
}

static const char *ask_failover(struct simulation *simulation, int node, enum bus_failover how)
{
    const char *error = bus_failover(simulation_bus(simulation, node), how, simulation_clock(simulation, node));

    simulation_do(simulation, node);
    return error;
}

static void take_epoch(struct simulation *simulation, int node)
{
    bool bumped;

    bus_bump_epoch(simulation_bus(simulation, node), &bumped);
    simulation_do(simulation, node);
}

static void set_groups(struct simulation *simulation, const char *groups)
{
    for (int i = 0; i < simulation->count; i++)
        simulation->nodes[i].group = (unsigned)groups[i];
}

/* --- Forming, failing */

static void nodes_that_meet_know_each_other(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    simulation_heal(simulation);
    simulation_destroy(simulation);
}

static void a_hundred_nodes_find_a_failure(void **state)
{
    struct simulation *simulation = simulation_create(50, 1, 4 * T, seed_new());

    simulation_kill(simulation, 7, SIMULATION_DIES_NOW);
    simulation_run(simulation, 4 * FAILOVER_MS / 2);
    assert_true(simulation_is_primary(simulation, 57));
    simulation_start(simulation, 7, SIMULATION_DISK_SYNCED);
    assert_true(simulation_run_until(simulation, simulation_agrees, 4 * FAILOVER_MS));
    simulation_verify(simulation);
    simulation_destroy(simulation);
}

static void primaries_with_the_same_epoch_get_different_ones(void **state)
{
    struct simulation *simulation = simulation_create_alone(4, T, seed_new());

    for (int i = 0; i < 4; i++) {
        struct slots slots = { { 0 } };

        slots_add_range(&slots, (struct slot_range){ (uint16_t)(4096 * i), (uint16_t)(4096 * i + 4095) });
        assert_null(bus_add_slots(simulation_bus(simulation, i), &slots));
        simulation_do(simulation, i);
        if (i > 0)
            simulation_meet(simulation, 0, i);
    }
    simulation_heal(simulation);
    simulation_destroy(simulation);
}

static void a_replica_takes_over_from_a_dead_primary_which_follows_it_later(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    simulation_kill(simulation, 0, SIMULATION_DIES_NOW);
    assert_true(simulation_run_until(simulation, node_3_leads, FAILOVER_MS));
    assert_int_equal(simulation->nodes[3].lead_count, 1);
    simulation_start(simulation, 0, SIMULATION_DISK_SYNCED);
    simulation_heal(simulation);
    assert_int_equal(simulation->nodes[0].follows, 3);
    simulation_destroy(simulation);
}

static void of_two_replicas_the_one_with_more_data_takes_over(void **state)
{
    for (int i = 0; i < scaled(10); i++) {
        struct simulation *simulation = simulation_create(3, 2, T, seed_new());

        simulation->nodes[3].is_slow = true;
        simulation_run(simulation, 3000);
        assert_true(simulation->nodes[3].offset < simulation->nodes[6].offset);
        simulation_kill(simulation, 0, SIMULATION_DIES_NOW);
        assert_true(simulation_run_until(simulation, node_6_leads, FAILOVER_MS));
        simulation_run(simulation, 2000);
        assert_false(simulation_is_primary(simulation, 3));
        assert_int_equal(simulation->nodes[3].follows, 6);
        simulation_destroy(simulation);
    }
}

static void set_may_stand(struct simulation *simulation, int node, bool may)
{
    simulation->nodes[node].options.never_stands = !may;
    bus_set_options(simulation_bus(simulation, node), &simulation->nodes[node].options);
}

static void a_replica_with_old_data_or_that_may_not_does_not_stand(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    simulation->nodes[3].is_slow = true;
    simulation_run(simulation, 10000 + 12 * T);
    set_may_stand(simulation, 4, false);
    simulation_run(simulation, 2 * T);
    assert_true(simulation_view(simulation, 0, 4)->flags & NODE_NO_FAILOVER);
    simulation_kill(simulation, 0, SIMULATION_DIES_NOW);
    simulation_run(simulation, 5 * FAILOVER_MS);
    assert_false(simulation_is_primary(simulation, 3));
    simulation_start(simulation, 0, SIMULATION_DISK_SYNCED);
    simulation_heal(simulation);
    simulation_kill(simulation, 1, SIMULATION_DIES_NOW);
    simulation_run(simulation, 5 * FAILOVER_MS);
    assert_false(simulation_is_primary(simulation, 4));
    simulation_destroy(simulation);
}

/* The second primary dies before the other replica has copied anything from it: what that has is an older state of the same data. */
static void a_replica_takes_over_from_a_primary_that_it_has_not_copied_from(void **state)
{
    struct simulation *simulation = simulation_create(3, 2, T, seed_new());

    simulation_run(simulation, 1000);
    simulation->nodes[6].is_slow = true;
    set_may_stand(simulation, 6, false);
    simulation_kill(simulation, 0, SIMULATION_DIES_NOW);
    assert_true(simulation_run_until(simulation, node_3_leads, FAILOVER_MS));
    simulation_run(simulation, 1000);
    assert_int_equal(simulation->nodes[6].follows, 3);
    set_may_stand(simulation, 6, true);
    simulation_kill(simulation, 3, SIMULATION_DIES_NOW);
    assert_true(simulation_run_until(simulation, node_6_leads, 2 * FAILOVER_MS));
    simulation_destroy(simulation);
}

static void a_replica_of_another_shard_does_not_stand_before_it_has_copied(void **state)
{
    struct simulation *simulation = simulation_create(3, 2, T, seed_new());

    set_may_stand(simulation, 4, false);
    set_may_stand(simulation, 7, false);
    simulation_run(simulation, 2 * T);
    simulation->nodes[6].is_slow = true;
    assert_null(bus_replicate(simulation_bus(simulation, 6), &simulation->nodes[1].id, true, simulation_clock(simulation, 6)));
    simulation_do(simulation, 6);
    simulation_run(simulation, 1000);
    assert_int_equal(simulation->nodes[6].follows, 1);
    simulation_kill(simulation, 1, SIMULATION_DIES_NOW);
    simulation_run(simulation, 2 * FAILOVER_MS);
    assert_false(simulation_is_primary(simulation, 6));
    simulation->nodes[6].is_slow = false;
    simulation_start(simulation, 1, SIMULATION_DISK_SYNCED);
    simulation_heal(simulation);
    simulation_destroy(simulation);
}

static void a_primary_that_restarts_in_time_stays_one(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    simulation_kill(simulation, 0, SIMULATION_DIES_NOW);
    simulation_run(simulation, T / 4);
    simulation_start(simulation, 0, SIMULATION_DISK_SYNCED);
    simulation_run(simulation, 1500);
    assert_false(simulation->nodes[0].bus->is_ok);                              /* 2 s after a start at the earliest */
    assert_true(simulation_run_until(simulation, node_0_is_ok, 3000));
    simulation_heal(simulation);
    assert_true(simulation_is_primary(simulation, 0));
    assert_int_equal(simulation->nodes[3].lead_count, 0);
    simulation_destroy(simulation);
}

static void a_primary_that_restarts_without_its_data_is_replaced(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    simulation_kill(simulation, 0, SIMULATION_DIES_NOW);
    simulation_run(simulation, T / 4);
    simulation->nodes[0].has_lost_data = true;
    simulation->nodes[0].offset = 0;
    simulation->nodes[3].is_slow = true;                                        /* it must not copy that */
    simulation_start(simulation, 0, SIMULATION_DISK_WRITTEN);
    while (!simulation_is_primary(simulation, 3) && simulation->now_ms < 60000) {
        simulation_run(simulation, 100);
        assert_false(simulation_is_primary(simulation, 0) && simulation->nodes[0].bus->is_ok);
    }
    simulation->nodes[3].is_slow = false;
    simulation_heal(simulation);
    assert_int_equal(simulation->nodes[0].follows, 3);
    simulation_kill(simulation, 3, SIMULATION_DIES_NOW);
    simulation_run(simulation, FAILOVER_MS);
    assert_true(simulation_is_primary(simulation, 0));                          /* with the data of the other */
    simulation_destroy(simulation);
}

static void a_primary_without_its_data_serves_if_no_replica_has_it(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    simulation_kill(simulation, 0, SIMULATION_DIES_NOW);
    simulation_kill(simulation, 3, SIMULATION_DIES_NOW);
    simulation->nodes[0].has_lost_data = true;
    simulation_start(simulation, 0, SIMULATION_DISK_WRITTEN);
    simulation_run(simulation, 2 * T - 500);
    assert_true(bus_is_silent(simulation->nodes[0].bus));
    simulation_run(simulation, 1000);
    assert_false(bus_is_silent(simulation->nodes[0].bus));
    simulation_heal(simulation);
    assert_true(simulation_is_primary(simulation, 0));
    simulation_destroy(simulation);
}

/* As when all nodes of a cluster without persistence start again. */
static void a_primary_whose_replica_has_no_more_than_it_serves_soon(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    simulation_kill(simulation, 0, SIMULATION_DIES_NOW);
    simulation_kill(simulation, 3, SIMULATION_DIES_NOW);
    simulation->nodes[0].has_lost_data = true;
    simulation->nodes[0].offset = simulation->nodes[3].offset = 0;
    simulation_start(simulation, 0, SIMULATION_DISK_WRITTEN);
    simulation_start(simulation, 3, SIMULATION_DISK_WRITTEN);
    simulation_run(simulation, T - 100);
    assert_false(bus_is_silent(simulation->nodes[0].bus));
    simulation_heal(simulation);
    assert_true(simulation_is_primary(simulation, 0));
    simulation_destroy(simulation);
}

/* Its silence would help no one. */
static void a_primary_without_its_data_serves_if_its_replica_may_not_stand(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    set_may_stand(simulation, 3, false);
    simulation_run(simulation, 2 * T);
    assert_true(simulation_view(simulation, 0, 3)->flags & NODE_NO_FAILOVER);
    simulation_kill(simulation, 0, SIMULATION_DIES_NOW);
    simulation->nodes[0].has_lost_data = true;
    simulation->nodes[0].offset = 0;
    simulation->nodes[3].is_slow = true;                                        /* it has more until then */
    simulation_start(simulation, 0, SIMULATION_DISK_SYNCED);
    assert_true(simulation_run_until(simulation, node_0_is_ok, 2 * T + 3000));
    simulation->nodes[3].is_slow = false;
    simulation_heal(simulation);
    assert_true(simulation_is_primary(simulation, 0));
    simulation_destroy(simulation);
}

static void a_primary_in_the_minority_stops_serving_and_waits_before_it_serves_again(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());
    unsigned reports = 0;

    set_groups(simulation, "011111");
    set_may_stand(simulation, 3, false);
    simulation_run(simulation, 2 * T);
    assert_false(simulation->nodes[0].bus->is_ok);
    assert_true(simulation_view(simulation, 1, 0)->flags & NODE_FAIL);
    for (int i = 1; i < 6; i++)
        reports += bus_failure_reports(simulation_bus(simulation, i), simulation_view(simulation, i, 0), simulation_clock(simulation, i));
    assert_true(reports > 0);
    set_groups(simulation, "000000");
    simulation_run(simulation, 400);
    assert_false(simulation->nodes[0].bus->is_ok);
    simulation_heal(simulation);                                                /* no replica took its slots: FAIL is undone */
    assert_true(simulation_is_primary(simulation, 0));
    simulation_destroy(simulation);
}

static void a_stopped_primary_is_replaced_and_does_not_serve_when_it_goes_on(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    simulation_stop(simulation, 0, 20000);
    assert_true(simulation_run_until(simulation, node_3_leads, FAILOVER_MS));
    while (simulation->nodes[0].stopped_until_ms > simulation->now_ms)
        simulation_run(simulation, 1);
    for (int i = 0; i < 200; i++) {
        simulation_run(simulation, 1);
        assert_false(simulation->nodes[0].bus->is_ok && simulation_is_primary(simulation, 0));
    }
    simulation_heal(simulation);
    assert_int_equal(simulation->nodes[0].follows, 3);
    simulation_destroy(simulation);
}

static void check_no_suspects(struct simulation *simulation)
{
    for (int a = 0; a < simulation->count; a++) {
        for (int b = 0; b < simulation->count; b++)
            assert_false(simulation_view(simulation, a, b)->flags & (NODE_PFAIL | NODE_FAIL));
    }
}

/* Often, and with slow messages, so that some PING is under way. */
static void a_clock_that_is_set_makes_no_node_fail(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());
    static const int64_t jumps_ms[] = { 3600000, 5 * T, -7200000, 2 * T, -5 * T };

    simulation->delay_ms_max = 300;
    for (int i = 0; i < 600; i++) {
        if (i % 10 == 0)
            simulation->nodes[i / 10 % 6].clock_ms += jumps_ms[i / 10 % 5];
        simulation_run(simulation, 50);
        check_no_suspects(simulation);
    }
    simulation_heal(simulation);
    for (int i = 0; i < 3; i++)
        assert_true(simulation_is_primary(simulation, i));
    simulation_destroy(simulation);
}

/* --- By request */

static void a_manual_failover_loses_no_write(void **state)
{
    for (int i = 0; i < scaled(5); i++) {
        struct simulation *simulation = simulation_create(3, 1, T, seed_new());

        assert_null(ask_failover(simulation, 3, BUS_FAILOVER_AGREED));
        simulation_run(simulation, 31);
        assert_true(simulation->nodes[0].bus->hold_writes_until_ms > 0);
        assert_true(simulation_run_until(simulation, node_0_follows, 5000));
        assert_true(simulation_is_primary(simulation, 3));
        assert_int_equal(simulation->nodes[0].bus->hold_writes_until_ms, 0);
        assert_true(simulation->nodes[3].offset >= simulation->nodes[0].offset);
        simulation_heal(simulation);
        assert_null(ask_failover(simulation, 0, BUS_FAILOVER_AGREED));          /* and back */
        assert_true(simulation_run_until(simulation, node_0_leads, 5000));
        simulation_heal(simulation);
        simulation_destroy(simulation);
    }
}

static void a_manual_failover_ends_without_the_replicas_data(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    simulation->nodes[3].is_slow = true;
    simulation_run(simulation, 2000);
    assert_null(ask_failover(simulation, 3, BUS_FAILOVER_AGREED));
    simulation_run(simulation, 1000);
    assert_true(simulation->nodes[0].bus->hold_writes_until_ms > 0);
    simulation_run(simulation, 5000);
    assert_int_equal(simulation->nodes[0].bus->hold_writes_until_ms, 0);
    simulation->nodes[3].is_slow = false;
    simulation_run(simulation, 5000);
    assert_false(simulation_is_primary(simulation, 3));
    simulation_destroy(simulation);
}

static void a_forced_failover_needs_votes_but_not_the_primary(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    simulation_kill(simulation, 0, SIMULATION_DIES_NOW);
    simulation_run(simulation, 100);
    assert_null(ask_failover(simulation, 3, BUS_FAILOVER_FORCED));
    assert_true(simulation_run_until(simulation, node_3_leads, 1000));          /* before it has failed */
    simulation_start(simulation, 0, SIMULATION_DISK_SYNCED);
    simulation_heal(simulation);
    simulation_kill(simulation, 1, SIMULATION_DIES_NOW);
    simulation_kill(simulation, 2, SIMULATION_DIES_NOW);
    assert_null(ask_failover(simulation, 0, BUS_FAILOVER_FORCED));
    simulation_run(simulation, 8000);
    assert_false(simulation_is_primary(simulation, 0));
    simulation_destroy(simulation);
}

static void a_takeover_needs_no_vote(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    for (int i = 0; i < 3; i++)
        simulation_kill(simulation, i, SIMULATION_DIES_NOW);
    for (int i = 3; i < 6; i++) {
        assert_null(ask_failover(simulation, i, BUS_FAILOVER_TAKEOVER));
        assert_true(simulation_is_primary(simulation, i));
    }
    for (int i = 0; i < 3; i++)
        simulation_start(simulation, i, SIMULATION_DISK_SYNCED);
    simulation_heal(simulation);
    for (int i = 3; i < 6; i++)
        assert_true(simulation_is_primary(simulation, i));
    simulation_destroy(simulation);
}

static void a_replica_moves_to_a_primary_whose_replica_is_dead(void **state)
{
    struct simulation *simulation = simulation_create(3, 2, T, seed_new());
    int moved = 0;

    simulation_kill(simulation, 3, SIMULATION_DIES_NOW);
    simulation_kill(simulation, 6, SIMULATION_DIES_NOW);
    simulation_run(simulation, 30000);
    for (int i = 4; i < 9; i++)
        moved += simulation->nodes[i].bus != NULL && simulation->nodes[i].follows == 0;
    assert_int_equal(moved, 1);                                                 /* and the others keep one each */
    simulation_start(simulation, 3, SIMULATION_DISK_SYNCED);
    simulation_start(simulation, 6, SIMULATION_DISK_SYNCED);
    simulation_heal(simulation);
    simulation_destroy(simulation);
}

static void no_replica_moves_if_too_few_would_stay(void **state)
{
    struct simulation *simulation = simulation_create(3, 2, T, seed_new());

    for (int i = 0; i < 9; i++) {
        simulation->nodes[i].options.migration_barrier = 2;
        bus_set_options(simulation_bus(simulation, i), &simulation->nodes[i].options);
    }
    simulation_kill(simulation, 3, SIMULATION_DIES_NOW);
    simulation_kill(simulation, 6, SIMULATION_DIES_NOW);
    simulation_run(simulation, 30000);
    for (int i = 4; i < 9; i++)
        assert_true(simulation->nodes[i].bus == NULL || simulation->nodes[i].follows == i % 3);
    simulation_destroy(simulation);
}

/* --- Moving slots */

static void begin_import(struct simulation *simulation, unsigned slot, int from, int to)
{
    assert_null(bus_begin_import(simulation_bus(simulation, to), slot, &simulation->nodes[from].id));
    simulation_do(simulation, to);
}

static void assign(struct simulation *simulation, unsigned slot, int to, int at)
{
    assert_null(bus_assign_slot(simulation_bus(simulation, at), slot, &simulation->nodes[to].id, false, simulation_clock(simulation, at)));
    simulation_do(simulation, at);
}

static void a_moved_slot_is_seen_by_all(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    begin_import(simulation, 5, 0, 1);
    assert_null(bus_begin_export(simulation_bus(simulation, 0), 5, &simulation->nodes[1].id));
    simulation_do(simulation, 0);
    assign(simulation, 5, 1, 1);
    assign(simulation, 5, 1, 0);
    simulation_heal(simulation);
    for (int i = 0; i < 6; i++)
        assert_true(simulation->nodes[i].bus->members->owners[5] == simulation_view(simulation, i, 1));
    simulation_destroy(simulation);
}

/* redis 12336: the source's epoch is raised before a node is notified of the move. */
static void a_moved_slot_is_not_defended_by_a_new_epoch_of_its_former_owner(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    set_groups(simulation, "001001");
    begin_import(simulation, 5, 0, 1);
    assign(simulation, 5, 1, 1);
    assign(simulation, 5, 1, 0);
    simulation_run(simulation, 200);
    take_epoch(simulation, 0);
    simulation->nodes[1].group = 2;                                             /* 2 hears 0 with a larger epoch before 1 */
    simulation->nodes[2].group = simulation->nodes[5].group = simulation->nodes[0].group;
    simulation_run(simulation, T / 2);
    set_groups(simulation, "000000");
    simulation_heal(simulation);
    for (int i = 0; i < 6; i++)
        assert_true(simulation->nodes[i].bus->members->owners[5] == simulation_view(simulation, i, 1));
    simulation_destroy(simulation);
}

/* redis 6339, 3776: the target dies before its replica knows of the slot. */
static void a_slot_whose_new_owner_dies_at_once_is_served_in_the_end(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    begin_import(simulation, 5, 0, 1);
    simulation->nodes[4].group = 1;
    assign(simulation, 5, 1, 1);
    assign(simulation, 5, 1, 0);
    simulation_run(simulation, 200);
    simulation_kill(simulation, 1, SIMULATION_DIES_NOW);
    simulation->nodes[4].group = 0;
    simulation_run(simulation, 2 * FAILOVER_MS);
    assert_true(simulation_is_primary(simulation, 4));
    simulation_start(simulation, 1, SIMULATION_DISK_SYNCED);
    simulation_heal(simulation);
    simulation_destroy(simulation);
}

/* Kills the target of slot 5, for good, when these nodes know that it has the slot. The bus tells its replica and the others, a command the source. */
static struct simulation *lose_target(bool source_knows, bool replica_knows, bool others_know)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    begin_import(simulation, 5, 0, 1);
    for (int i = 0; i < 6; i++)
        simulation->nodes[i].group = i == 1 || (i == 4 ? replica_knows : others_know) ? 1 : 0;
    assign(simulation, 5, 1, 1);
    if (source_knows)
        assign(simulation, 5, 1, 0);
    simulation_run(simulation, 200);
    simulation_kill(simulation, 1, SIMULATION_DIES_NOW);
    set_groups(simulation, "000000");
    return simulation;
}

static void check_owner(struct simulation *simulation, unsigned slot, int owner)
{
    simulation_heal(simulation);
    for (int i = 0; i < simulation->count; i++)
        assert_true(simulation->nodes[i].bus == NULL || simulation->nodes[i].bus->members->owners[slot] == simulation_view(simulation, i, owner));
}

/* redis 6339: its replica, which has the keys, gets the slot if any node was notified by the bus; else the source keeps it. */
static void a_slot_whose_new_owner_is_gone_for_good_has_an_owner(void **state)
{
    for (int i = 0; i < 8; i++) {
        bool source_knows = i & 1, replica_knows = i & 2, others_know = i & 4;
        struct simulation *simulation;

        if (source_knows && !replica_knows && !others_know)
            continue;
        simulation = lose_target(source_knows, replica_knows, others_know);
        check_owner(simulation, 5, replica_knows || others_know ? 4 : 0);
        simulation_destroy(simulation);
    }
}

/* Only the source was notified, by the command: it does not claim the slot, and no other node does, until redis-cli --cluster fix gives it to a node. */
static void a_slot_that_nobody_claims_is_given_by_hand(void **state)
{
    struct simulation *simulation = lose_target(true, false, false);

    simulation_run(simulation, 2 * FAILOVER_MS);
    assert_true(simulation_is_primary(simulation, 4));
    assert_false(simulation_agrees(simulation));
    assign(simulation, 5, 4, 4);
    take_epoch(simulation, 4);
    check_owner(simulation, 5, 4);
    simulation_destroy(simulation);
}

/* --- Known defects of others */

/* valkey 974: the old primary takes, without asking, the epoch by which its replica was elected. */
static void of_two_primaries_of_a_shard_with_one_epoch_the_one_with_more_data_stays(void **state)
{
    for (int i = 0; i < scaled(10); i++) {
        struct simulation *simulation = simulation_create(3, 1, T, seed_new());
        uint64_t epoch;

        set_groups(simulation, "011111");
        assert_true(simulation_run_until(simulation, node_3_leads, FAILOVER_MS));
        epoch = simulation->nodes[3].bus->members->myself->config_epoch;
        simulation_run(simulation, 20000);
        assert_true(simulation->nodes[3].offset > simulation->nodes[0].offset);
        take_epoch(simulation, 0);
        assert_int_equal(simulation->nodes[0].bus->members->myself->config_epoch, epoch);
        set_groups(simulation, "000000");
        simulation_heal(simulation);
        assert_int_equal(simulation->nodes[0].follows, 3);
        simulation_destroy(simulation);
    }
}

/* valkey 2169: voters know an epoch of the primary that its replica has missed. */
static void a_replica_that_missed_its_primarys_last_epoch_is_elected(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    simulation->nodes[3].group = 1;
    take_epoch(simulation, 0);
    simulation_run(simulation, 200);
    assert_int_equal(simulation_view(simulation, 1, 0)->config_epoch, simulation->nodes[0].bus->members->myself->config_epoch);
    simulation_kill(simulation, 0, SIMULATION_DIES_NOW);
    simulation->nodes[3].group = 0;
    assert_true(simulation_run_until(simulation, node_3_leads, 3 * FAILOVER_MS));
    simulation_start(simulation, 0, SIMULATION_DISK_SYNCED);
    simulation_heal(simulation);
    simulation_destroy(simulation);
}

/* valkey 2261, 2279: two failovers, and a node returns that knows of neither. */
static void a_primary_that_returns_after_two_failovers_follows_the_last(void **state)
{
    struct simulation *simulation = simulation_create(3, 2, T, seed_new());
    int second;

    simulation_kill(simulation, 0, SIMULATION_DIES_NOW);
    assert_true(simulation_run_until(simulation, node_3_or_6_leads, FAILOVER_MS));
    simulation_run(simulation, 1000);
    second = simulation_is_primary(simulation, 3) ? 3 : 6;
    assert_true(simulation_is_primary(simulation, second));
    simulation_kill(simulation, second, SIMULATION_DIES_NOW);
    assert_true(simulation_run_until(simulation, second == 3 ? node_6_leads : node_3_leads, FAILOVER_MS));
    simulation_start(simulation, 0, SIMULATION_DISK_SYNCED);
    simulation_run(simulation, FAILOVER_MS);
    assert_int_equal(simulation->nodes[0].follows, 9 - second);
    simulation_start(simulation, second, SIMULATION_DISK_SYNCED);
    simulation_heal(simulation);
    assert_int_equal(simulation->nodes[second].follows, 9 - second);
    simulation_destroy(simulation);
}

/* redis 1799: two partitions each give the same epoch. */
static void equal_epochs_after_a_partition_become_different(void **state)
{
    struct simulation *simulation = simulation_create(3, 1, T, seed_new());

    set_groups(simulation, "010010");
    take_epoch(simulation, 0);
    take_epoch(simulation, 1);
    assert_int_equal(simulation->nodes[0].bus->members->myself->config_epoch, simulation->nodes[1].bus->members->myself->config_epoch);
    simulation_run(simulation, 200);
    set_groups(simulation, "000000");
    simulation_heal(simulation);
    simulation_destroy(simulation);
}

/* valkey-operator 197: a dead primary without a replica, and a new node for its slots, which is given an epoch before it meets the others. */
static void a_new_node_with_an_epoch_keeps_the_slots_of_a_dead_one(void **state)
{
    struct simulation *simulation = simulation_create_alone(4, T, seed_new());
    struct slots slots = { { 0 } };

    for (int i = 0; i < 3; i++) {
        struct slots own = { { 0 } };

        slots_add_range(&own, (struct slot_range){ (uint16_t)(SLOT_COUNT * i / 3), (uint16_t)(SLOT_COUNT * (i + 1) / 3 - 1) });
        assert_null(bus_add_slots(simulation_bus(simulation, i), &own));
        assert_null(bus_set_config_epoch(simulation_bus(simulation, i), (uint64_t)i + 1));
        simulation_do(simulation, i);
        if (i > 0)
            simulation_meet(simulation, 0, i);
        slots = own;
    }
    simulation_kill(simulation, 3, SIMULATION_DIES_NOW);
    simulation_heal(simulation);
    simulation_kill(simulation, 2, SIMULATION_DIES_NOW);
    simulation_start(simulation, 3, SIMULATION_DISK_SYNCED);
    assert_null(bus_add_slots(simulation_bus(simulation, 3), &slots));
    assert_null(bus_set_config_epoch(simulation_bus(simulation, 3), 4));
    simulation_do(simulation, 3);
    simulation_meet(simulation, 3, 0);
    check_owner(simulation, SLOT_COUNT - 1, 3);
    for (int i = 0; i < 4; i++) {
        if (i == 2)
            continue;
        assert_null(bus_forget(simulation_bus(simulation, i), &simulation->nodes[2].id, simulation_clock(simulation, i)));
        simulation_do(simulation, i);
    }
    check_owner(simulation, SLOT_COUNT - 1, 3);
    simulation_destroy(simulation);
}

static bool node_0_knows_2(struct simulation *simulation)
{
    return simulation_view(simulation, 0, 2) != NULL;
}

/* redis 7330: node 0 has forgotten a dead node, and is notified of it again by gossip; then a node of another cluster gets its address. */
static void gossip_about_a_dead_node_does_not_merge_clusters(void **state)
{
    struct simulation *simulation = simulation_create_alone(5, T, seed_new());

    simulation_meet(simulation, 0, 1);
    simulation_meet(simulation, 0, 2);
    simulation_meet(simulation, 3, 4);
    simulation_run(simulation, 5 * T);
    simulation_kill(simulation, 2, SIMULATION_DIES_NOW);
    simulation->nodes[1].group = 1;                                             /* it does not forget */
    assert_null(bus_forget(simulation_bus(simulation, 0), &simulation->nodes[2].id, simulation_clock(simulation, 0)));
    simulation_do(simulation, 0);
    simulation_run(simulation, 30 * T);                                         /* what was forgotten is not learned for a minute */
    assert_false(node_0_knows_2(simulation));
    simulation_kill(simulation, 3, SIMULATION_DIES_NOW);
    simulation->nodes[1].group = 0;
    assert_true(simulation_run_until(simulation, node_0_knows_2, 10 * T));
    simulation->nodes[3].address = 2;
    simulation->nodes[2].address = 99;
    simulation_start(simulation, 3, SIMULATION_DISK_WRITTEN);
    simulation_run(simulation, 20 * T);
    assert_non_null(simulation_view(simulation, 3, 4));
    for (int i = 0; i < 2; i++)
        assert_null(simulation_view(simulation, i, 3));
    for (int i = 3; i < 5; i++)
        assert_int_equal(simulation->nodes[i].bus->members->count, 2);
    simulation_destroy(simulation);
}

static void a_node_that_dies_between_its_promise_and_its_message_keeps_it(void **state)
{
    for (int i = 0; i < scaled(20); i++) {
        struct simulation *simulation = simulation_create(3, 2, T, seed_new());

        simulation_kill(simulation, 1, i % 2 == 0 ? SIMULATION_DIES_AFTER_SAVE : SIMULATION_DIES_BEFORE_SAVE);
        simulation_kill(simulation, 0, SIMULATION_DIES_NOW);
        for (int k = 0; k < 200; k++) {
            simulation_run(simulation, 100);
            simulation_start(simulation, 1, SIMULATION_DISK_SYNCED);            /* votes for the other candidate only in another epoch */
        }
        simulation_start(simulation, 0, SIMULATION_DISK_SYNCED);
        simulation_heal(simulation);
        simulation_destroy(simulation);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_that_meet_know_each_other),
        cmocka_unit_test(a_hundred_nodes_find_a_failure),
        cmocka_unit_test(primaries_with_the_same_epoch_get_different_ones),
        cmocka_unit_test(a_replica_takes_over_from_a_dead_primary_which_follows_it_later),
        cmocka_unit_test(of_two_replicas_the_one_with_more_data_takes_over),
        cmocka_unit_test(a_replica_with_old_data_or_that_may_not_does_not_stand),
        cmocka_unit_test(a_replica_takes_over_from_a_primary_that_it_has_not_copied_from),
        cmocka_unit_test(a_replica_of_another_shard_does_not_stand_before_it_has_copied),
        cmocka_unit_test(a_primary_that_restarts_in_time_stays_one),
        cmocka_unit_test(a_primary_that_restarts_without_its_data_is_replaced),
        cmocka_unit_test(a_primary_without_its_data_serves_if_no_replica_has_it),
        cmocka_unit_test(a_primary_whose_replica_has_no_more_than_it_serves_soon),
        cmocka_unit_test(a_primary_without_its_data_serves_if_its_replica_may_not_stand),
        cmocka_unit_test(a_primary_in_the_minority_stops_serving_and_waits_before_it_serves_again),
        cmocka_unit_test(a_stopped_primary_is_replaced_and_does_not_serve_when_it_goes_on),
        cmocka_unit_test(a_clock_that_is_set_makes_no_node_fail),
        cmocka_unit_test(a_manual_failover_loses_no_write),
        cmocka_unit_test(a_manual_failover_ends_without_the_replicas_data),
        cmocka_unit_test(a_forced_failover_needs_votes_but_not_the_primary),
        cmocka_unit_test(a_takeover_needs_no_vote),
        cmocka_unit_test(a_replica_moves_to_a_primary_whose_replica_is_dead),
        cmocka_unit_test(no_replica_moves_if_too_few_would_stay),
        cmocka_unit_test(a_moved_slot_is_seen_by_all),
        cmocka_unit_test(a_moved_slot_is_not_defended_by_a_new_epoch_of_its_former_owner),
        cmocka_unit_test(a_slot_whose_new_owner_dies_at_once_is_served_in_the_end),
        cmocka_unit_test(a_slot_whose_new_owner_is_gone_for_good_has_an_owner),
        cmocka_unit_test(a_slot_that_nobody_claims_is_given_by_hand),
        cmocka_unit_test(of_two_primaries_of_a_shard_with_one_epoch_the_one_with_more_data_stays),
        cmocka_unit_test(a_replica_that_missed_its_primarys_last_epoch_is_elected),
        cmocka_unit_test(a_primary_that_returns_after_two_failovers_follows_the_last),
        cmocka_unit_test(equal_epochs_after_a_partition_become_different),
        cmocka_unit_test(a_new_node_with_an_epoch_keeps_the_slots_of_a_dead_one),
        cmocka_unit_test(gossip_about_a_dead_node_does_not_merge_clusters),
        cmocka_unit_test(a_node_that_dies_between_its_promise_and_its_message_keeps_it),
    };

    cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
