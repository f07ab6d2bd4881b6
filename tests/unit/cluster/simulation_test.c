/* Whole clusters of simulated nodes: what has to hold after any failures. KELVIN_SIMULATIONS: how many random runs. Scenarios: failover_test.c. */
#include "cluster/bus.h"

#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cluster_simulation.h"
#include "support/scaled.h"
#include "support/seed.h"

enum { T = 2000, RANDOM_RUNS = 40 };

static void fail_something(struct simulation *simulation, int at)
{
    struct random *random = &simulation->random;
    struct simulation_node *node = &simulation->nodes[at];

    switch (random_below(random, 10)) {
    case 0:
        simulation_kill(simulation, at, SIMULATION_DIES_NOW);
        break;
    case 1:
        simulation_kill(simulation, at, random_below(random, 2) == 0 ? SIMULATION_DIES_BEFORE_SAVE : SIMULATION_DIES_AFTER_SAVE);
        break;
    case 2:
    case 3:
        simulation_start(simulation, at, random_below(random, 2) == 0 ? SIMULATION_DISK_SYNCED : SIMULATION_DISK_WRITTEN);
        break;
    case 4:
        simulation_stop(simulation, at, (int64_t)random_below(random, 5 * T));
        break;
    case 5:
        node->group = (unsigned)random_below(random, 2);
        break;
    case 6:
        for (int i = 0; i < simulation->count; i++)
            simulation->nodes[i].group = 0;
        break;
    case 7:
    case 8:
        node->is_muted = random_below(random, 2) == 0;
        node->is_slow = random_below(random, 2) == 0;
        break;
    case 9:
        node->clock_ms += (int64_t)random_below(random, 10 * T) - 5 * T;
        break;
    }
}

static void command_something(struct simulation *simulation, int at)
{
    struct random *random = &simulation->random;
    struct bus *bus = simulation->nodes[at].bus;
    unsigned slot = (unsigned)random_below(random, SLOT_COUNT);
    int64_t now_ms = simulation_clock(simulation, at);
    bool bumped;

    if (bus == NULL || simulation->nodes[at].stopped_until_ms > simulation->now_ms)
        return;
    simulation_bus(simulation, at);
    switch (random_below(random, 6)) {
    case 0:
        bus_failover(bus, BUS_FAILOVER_AGREED, now_ms);
        break;
    case 1:
        bus_failover(bus, BUS_FAILOVER_FORCED, now_ms);
        break;
    case 2:
        if (random_below(random, 4) == 0)
            bus_failover(bus, BUS_FAILOVER_TAKEOVER, now_ms);
        break;
    case 3:
        bus_bump_epoch(bus, &bumped);
        break;
    case 4:
        if (bus->members->owners[slot] != NULL)
            bus_begin_import(bus, slot, &bus->members->owners[slot]->id);
        break;
    case 5:
        if (bus->members->move_count > 0)
            bus_assign_slot(bus, bus->members->moves[0].slot, &bus->members->myself->id, false, now_ms);
        break;
    }
    simulation_do(simulation, at);
}

static void end_moves(struct simulation *simulation, int at)
{
    struct bus *bus = simulation_bus(simulation, at);

    while (bus->members->move_count > 0)
        bus_end_move(bus, bus->members->moves[0].slot);
    simulation_do(simulation, at);
}

static void be_quiet(struct simulation *simulation)
{
    simulation->loss_percent = simulation->repeat_percent = 0;
    for (int i = 0; i < simulation->count; i++) {
        simulation->nodes[i].group = 0;
        simulation->nodes[i].is_muted = simulation->nodes[i].is_slow = false;
        simulation->nodes[i].death = SIMULATION_LIVES;
        simulation_start(simulation, i, SIMULATION_DISK_SYNCED);
        end_moves(simulation, i);
    }
}

/* A primary that has a replica dies for good. */
static void lose_primary(struct simulation *simulation)
{
    int from = (int)random_below(&simulation->random, (uint64_t)simulation->count);

    for (int i = 0; i < simulation->count; i++) {
        int at = (from + i) % simulation->count;
        const struct node *node = simulation_view(simulation, at, at);

        if (node_is_voter(node) && node->replica_count > 0) {
            simulation_kill(simulation, at, SIMULATION_DIES_NOW);
            return;
        }
    }
}

static void run_at_random(uint64_t seed)
{
    struct random shape;
    struct simulation *simulation;

    random_init(&shape, seed);
    simulation = simulation_create(3 + (int)random_below(&shape, 3), 1 + (int)random_below(&shape, 2), T, seed);
    for (int i = 0; i < simulation->count; i++)
        simulation->nodes[i].options.validity_factor = 0;
    simulation->delay_ms_max = 1 + (int64_t)random_below(&shape, 10) * 30;
    simulation->loss_percent = (unsigned)random_below(&shape, 3) * 5;
    simulation->repeat_percent = (unsigned)random_below(&shape, 3);
    for (int i = 0; i < 60; i++) {
        int at = (int)random_below(&shape, (uint64_t)simulation->count);

        if (random_below(&shape, 3) > 0)
            fail_something(simulation, at);
        else
            command_something(simulation, at);
        simulation_run(simulation, (int64_t)random_below(&shape, 3000));
    }
    be_quiet(simulation);
    simulation_run(simulation, SIMULATION_REPEAT_MS_MAX);
    simulation_heal(simulation);
    lose_primary(simulation);
    simulation_run(simulation, 2 * T);
    simulation_heal(simulation);
    simulation_destroy(simulation);
}

static void after_any_failures_all_nodes_agree_and_all_slots_are_served(void **state)
{
    const char *wanted = getenv("KELVIN_SIMULATIONS");
    int runs = wanted != NULL ? atoi(wanted) : scaled(RANDOM_RUNS);

    for (int i = 0; i < runs; i++)
        run_at_random(seed_new());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_any_failures_all_nodes_agree_and_all_slots_are_served),
    };

    cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
