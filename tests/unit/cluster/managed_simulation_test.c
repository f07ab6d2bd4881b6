/* Migrations with a controller, in random orders of all that can happen: steps of the conversation, messages that are lost, nodes that are killed before and after a save, topologies that reach
 * some nodes, failovers. A slot has one value, a number that grows; replicas have what their primary has while they are linked to it, as those whose writes WAIT confirms.
 *
 * Holds: of the primaries that the controller means, no two serve the slot; in the end one does, with the last value that was acknowledged. KELVIN_SIMULATIONS: how many runs.
 */
#include "cluster/managed_move.h"

#include "support/unit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/managed.h"
#include "support/cluster_view.h"
#include "support/managed_view.h"
#include "support/scaled.h"
#include "support/seed.h"

enum { NODES = 5, SHARDS = 3, SLOT = 50, STEPS = 300, RUNS = 300, ALONE = 4, NO_KEYS = -1 };

enum sim_step { IDLE, BEGIN, HOLD, LET_TAKE, TAKE, SETTLE };
enum fate { UNKNOWN, TAKEN, NOT_TAKEN };

struct sim_node {
    struct bus *bus;                /* NULL: it is down */
    char *saved;                    /* nodes.conf */
    size_t saved_size;
    int value;                      /* of the slot */
    bool is_linked;                 /* a replica: it has all that its primary has */
    int primary;                    /* which one that is; of a node that is down: was */
    enum sim_step step;                 /* of its migration */
    int to;
    uint64_t receipt, version;
};

/* Node 2 s leads shard s at first, and 2 s + 1 is its replica; the last node is alone. */
struct sim {
    struct sim_node nodes[NODES];
    struct random random;
    int leaders[SHARDS], owner;     /* as the controller says: of the slot, a shard */
    int64_t version, now_ms;
    int acknowledged, next;         /* the last value, and the next one */
    unsigned moves;
    bool is_calm;                   /* nothing fails any more */
};

static bool is_one_of(struct sim *sim, unsigned n) { return random_below(&sim->random, n) == 0; }
static bool fails(struct sim *sim, unsigned n) { return !sim->is_calm && is_one_of(sim, n); }
static int shard_of(int at) { return at / 2; }
static int other_of(int at) { return at == ALONE ? ALONE : at ^ 1; }
static int index_of(const struct node_id *id) { return id->text[0] - 'a'; }
static struct node_id id_of(int at) { return cluster_view_id((char)('a' + at)); }

static struct slots the_slots(void) { return cluster_view_slots("0-99"); }

static bool is_primary(const struct sim_node *node) { return node->bus != NULL && node->bus->members->myself->master == NULL; }

static bool serves(const struct sim_node *node)
{
    return is_primary(node) && node->bus->members->owners[SLOT] == node->bus->members->myself && !slots_has(&node->bus->members->handed_over, SLOT);
}

/* --- A node --- */

static void forget(struct sim *sim, int at)
{
    struct sim_node *node = &sim->nodes[at];

    node->primary = node->bus->members->myself->master != NULL ? index_of(&node->bus->members->myself->master->id) : at;
    bus_destroy(node->bus);
    node->bus = NULL;
    node->step = IDLE;
}

static void save(struct sim_node *node)
{
    struct buffer text = { 0 };

    members_write(node->bus->members, &text);
    free(node->saved);
    node->saved = malloc(text.size + 1);
    memcpy(node->saved, text.data, text.size);
    node->saved_size = text.size;
    buffer_release(&text);
}

/* It saves what it hears before anything depends on it. */
static void copy_to_replica(struct sim *sim, int at)
{
    struct sim_node *node = &sim->nodes[at], *replica = &sim->nodes[other_of(at)];
    struct buffer text = { 0 };

    if (!is_primary(node) || replica == node || replica->bus == NULL || !replica->is_linked || replica->primary != at)
        return;
    members_write_moves(node->bus->members, &text);
    assert_true(managed_hear_moves(replica->bus, buffer_bytes(&text)));
    replica->value = node->value;
    save(replica);
    bus_outcome_clear(replica->bus);
    buffer_release(&text);
}

/* The end of an event: saved, said to the replica, carried out; or the node is killed in between. False: it was. */
static bool commit(struct sim *sim, int at)
{
    struct sim_node *node = &sim->nodes[at];
    bool is_killed = fails(sim, 40);

    members_verify(node->bus->members);
    if (is_killed && is_one_of(sim, 2)) {
        forget(sim, at);
        return false;
    }
    save(node);
    if (is_killed) {
        forget(sim, at);
        return false;
    }
    if (node->bus->outcome.role != BUS_ROLE_KEPT)
        node->is_linked = false;
    if (node->bus->outcome.role == BUS_ROLE_LEAD)
        node->primary = at;
    if (is_primary(node) && slots_has(&node->bus->outcome.lost, SLOT))
        node->value = NO_KEYS;
    bus_outcome_clear(node->bus);
    copy_to_replica(sim, at);
    return true;
}

static void start(struct sim *sim, int at)
{
    struct sim_node *node = &sim->nodes[at];

    node->bus = managed_view_bus_of(bytes_of(node->saved, node->saved_size));
    node->is_linked = false;
    if (is_primary(node))
        bus_drop_unwanted(node->bus);
    (void)commit(sim, at);
}

static void kill_node(struct sim *sim, int at)
{
    if (sim->nodes[at].bus != NULL)
        forget(sim, at);
}

/* A replica gets all that its primary has. */
static void link_replica(struct sim *sim, int at)
{
    struct sim_node *node = &sim->nodes[at];
    int primary;

    if (node->bus == NULL || is_primary(node))
        return;
    primary = index_of(&node->bus->members->myself->master->id);
    if (!is_primary(&sim->nodes[primary]))
        return;
    node->primary = primary;
    node->is_linked = true;
    copy_to_replica(sim, primary);
}

static void write_value(struct sim *sim)
{
    for (int at = 0; at < NODES; at++) {
        if (!serves(&sim->nodes[at]) || sim->leaders[shard_of(at)] != at)
            continue;
        sim->nodes[at].value = sim->acknowledged = sim->next++;
        copy_to_replica(sim, at);
    }
}

/* --- The controller --- */

static void write_topology(const struct sim *sim, char *text, size_t size)
{
    static const char *const ranges[SHARDS] = { "100-8191", "8192-12000", "12001-16383" };
    size_t used = 0;

    for (int at = 0; at < NODES; at++) {
        int leader = sim->leaders[shard_of(at)];

        if (at != leader)
            used += (size_t)snprintf(text + used, size - used, "%c %d slave %c\n", 'a' + at, at + 1, 'a' + leader);
        else
            used += (size_t)snprintf(text + used, size - used, "%c %d master - %s%s\n", 'a' + at, at + 1, sim->owner == shard_of(at) ? "0-99 " : "", ranges[shard_of(at)]);
    }
}

static void publish_to(struct sim *sim, int at)
{
    struct sim_node *node = &sim->nodes[at];
    char text[1000];

    if (node->bus == NULL || node->bus->members->current_epoch == (uint64_t)sim->version)
        return;
    write_topology(sim, text, sizeof(text));
    assert_null(managed_view_set(node->bus, text, sim->version, MANAGED_NOT_FORCED));
    (void)commit(sim, at);
}

/* To the replica, which has all that the leader has or had. */
static void fail_over(struct sim *sim, int shard)
{
    int leader = sim->leaders[shard];
    struct sim_node *replica = &sim->nodes[other_of(leader)];

    if (leader == ALONE || replica->bus == NULL || is_primary(replica) || !replica->is_linked || replica->primary != leader)
        return;
    sim->leaders[shard] = other_of(leader);
    sim->version++;
    publish_to(sim, other_of(leader));
}

/* CLUSTER INFO of the leader of the slot's shard: has it moved? */
static void look_for_success(struct sim *sim)
{
    struct sim_node *node = &sim->nodes[sim->leaders[sim->owner]];
    const struct moved_set *set;

    if (!is_primary(node) || node->bus->members->current_epoch != (uint64_t)sim->version)
        return;
    set = moved_slots_find(&node->bus->members->moved, SLOT);
    if (set == NULL || !node_id_equal(&set->from, &node->bus->members->myself->id))
        return;
    sim->owner = shard_of(index_of(&set->to));
    sim->version++;
    sim->moves++;
}

static void migrate(struct sim *sim)
{
    struct sim_node *node = &sim->nodes[sim->leaders[sim->owner]];
    struct slots slots = the_slots();
    struct node_id to;

    if (!is_primary(node) || node->step != IDLE)
        return;
    node->to = sim->leaders[(sim->owner + 1 + (int)random_below(&sim->random, SHARDS - 1)) % SHARDS];
    to = id_of(node->to);
    if (managed_may_migrate(node->bus, &slots, &to) == NULL)
        node->step = BEGIN;
}

/* --- The conversation: as slot_export has it --- */

static void give_up(struct sim *sim, int at)
{
    struct sim_node *node = &sim->nodes[at], *target = &sim->nodes[node->to];
    struct node_id own = id_of(at);
    bool was_taken;

    if (target->bus != NULL && !fails(sim, 4)) {
        (void)managed_end_receipt(target->bus, node->receipt, SLOT, &own, sim->now_ms, &was_taken);
        (void)commit(sim, node->to);
    }
    node->step = IDLE;
}

static void release(struct sim *sim, int at)
{
    bus_end_hand_over(sim->nodes[at].bus);
    if (commit(sim, at))
        give_up(sim, at);
}

/* Those that the topology names. `except` knows what there is to know. */
static bool has_replicas(const struct sim *sim, int at, int except)
{
    const struct sim_node *replica = &sim->nodes[other_of(at)];

    return at == ALONE || other_of(at) == except || (replica->bus != NULL && !is_primary(replica) && replica->is_linked && replica->primary == at);
}

static void begin(struct sim *sim, int at)
{
    struct sim_node *node = &sim->nodes[at], *target = &sim->nodes[node->to];
    struct slots slots = the_slots();
    struct node_id own = id_of(at);

    node->receipt = 0;
    if (target->bus == NULL || bus_begin_receipt(target->bus, &slots, &own, sim->now_ms, &node->receipt) != NULL) {
        node->step = IDLE;
        return;
    }
    target->value = NO_KEYS;
    if (commit(sim, node->to))
        node->step = HOLD;
    else
        node->step = IDLE;
}

static bool may_go_on(const struct sim_node *node)
{
    return is_primary(node) && node->bus->members->owners[SLOT] == node->bus->members->myself;
}

/* All keys and changes go over, and stay as they are from then on. */
static void hold(struct sim *sim, int at)
{
    struct sim_node *node = &sim->nodes[at], *target = &sim->nodes[node->to];
    struct slots slots = the_slots();
    struct node_id to = id_of(node->to);

    if (!may_go_on(node) || bus_hand_over(node->bus, &slots, &to, node->receipt) != NULL) {
        give_up(sim, at);
        return;
    }
    if (!commit(sim, at))
        return;
    if (target->bus == NULL || bus_keep_receipt(target->bus, node->receipt, sim->now_ms) != NULL || !has_replicas(sim, node->to, NODES)) {
        release(sim, at);
        return;
    }
    target->value = node->value;
    copy_to_replica(sim, node->to);
    node->version = target->bus->members->current_epoch;
    node->step = LET_TAKE;
}

/* Its replica by the topology is notified of it. */
static void let_take(struct sim *sim, int at)
{
    struct sim_node *node = &sim->nodes[at];

    if (!may_go_on(node) || node->bus->members->current_epoch != node->version) {
        release(sim, at);
        return;
    }
    bus_let_take(node->bus, node->version);
    if (!commit(sim, at))
        return;
    if (has_replicas(sim, at, NODES))
        node->step = TAKE;
    else
        release(sim, at);
}

static enum fate ask_to_take(struct sim *sim, int at)
{
    struct sim_node *node = &sim->nodes[at], *target = &sim->nodes[node->to];
    struct managed_taken undo;

    if (target->bus == NULL || fails(sim, 8))
        return UNKNOWN;
    if (managed_take(target->bus, node->receipt, node->version, sim->now_ms, &undo) != NULL)
        return UNKNOWN;
    if (fails(sim, 8))
        managed_untake(target->bus, &undo);             /* it can't be saved */
    if (!commit(sim, node->to) || fails(sim, 8))
        return UNKNOWN;
    return serves(target) && has_replicas(sim, node->to, NODES) ? TAKEN : UNKNOWN;
}

static enum fate ask_fate(struct sim *sim, int at, int whom, int to, uint64_t receipt)
{
    struct node_id own = id_of(at);
    bool was_taken;

    if (sim->nodes[whom].bus == NULL || managed_end_receipt(sim->nodes[whom].bus, receipt, SLOT, &own, sim->now_ms, &was_taken) != NULL)
        return UNKNOWN;
    if (!commit(sim, whom))
        return UNKNOWN;
    if (was_taken && !has_replicas(sim, whom, to))
        return UNKNOWN;
    return was_taken ? TAKEN : NOT_TAKEN;
}

static void settle(struct sim *sim, int at, enum fate fate)
{
    struct sim_node *node = &sim->nodes[at];
    const struct members *members = node->bus->members;
    const struct node *to = members_find(members, &members->handed_to);

    node->step = SETTLE;
    if (members->handed_epoch == 0 || !is_primary(node)) {
        node->step = IDLE;
        return;
    }
    if (fate == UNKNOWN && to != NULL && to->master != NULL)
        fate = ask_fate(sim, at, index_of(&to->master->id), index_of(&members->handed_to), 0);
    else if (fate == UNKNOWN)
        fate = ask_fate(sim, at, index_of(&members->handed_to), index_of(&members->handed_to), members->handed_receipt);
    if (fate == NOT_TAKEN) {
        bus_end_hand_over(node->bus);
        node->step = IDLE;
        (void)commit(sim, at);
    } else if (fate == TAKEN) {
        managed_end_hand_over(node->bus);
        node->step = IDLE;
        (void)commit(sim, at);
    }
}

static void go_on(struct sim *sim, int at)
{
    struct sim_node *node = &sim->nodes[at];

    if (node->bus == NULL)
        return;
    if (node->step == IDLE && is_primary(node) && node->bus->members->handed_epoch != 0)
        node->step = SETTLE;
    switch (node->step) {
    case IDLE: break;
    case BEGIN: may_go_on(node) ? begin(sim, at) : (void)(node->step = IDLE); break;
    case HOLD: hold(sim, at); break;
    case LET_TAKE: let_take(sim, at); break;
    case TAKE: settle(sim, at, ask_to_take(sim, at)); break;
    case SETTLE: settle(sim, at, UNKNOWN); break;
    }
}

/* --- Runs --- */

static void check_servers(const struct sim *sim)
{
    int count = 0;

    for (int at = 0; at < NODES; at++)
        count += serves(&sim->nodes[at]) && sim->leaders[shard_of(at)] == at;
    assert_true(count <= 1);
}

static void do_something(struct sim *sim)
{
    int at = (int)random_below(&sim->random, NODES);

    sim->now_ms += is_one_of(sim, 50) ? 11000 : 10;
    switch (random_below(&sim->random, 12)) {
    case 0: write_value(sim); break;
    case 1: publish_to(sim, at); break;
    case 2: look_for_success(sim); break;
    case 3: migrate(sim); break;
    case 4:
        if (is_one_of(sim, 6))
            fail_over(sim, shard_of(at));
        break;
    case 5:
        if (is_one_of(sim, 10))
            kill_node(sim, at);
        break;
    case 6:
        if (sim->nodes[at].bus == NULL)
            start(sim, at);
        else
            managed_step(sim->nodes[at].bus, sim->now_ms), (void)commit(sim, at);
        break;
    case 7: link_replica(sim, at); break;
    default: go_on(sim, at); break;
    }
    check_servers(sim);
}

/* All nodes are started, and all is known to all in the end. */
static void heal(struct sim *sim)
{
    sim->is_calm = true;
    for (int round = 0; round < 200; round++) {
        for (int at = 0; at < NODES; at++) {
            if (sim->nodes[at].bus == NULL)
                start(sim, at);
            publish_to(sim, at);
            link_replica(sim, at);
            go_on(sim, at);
            check_servers(sim);
        }
        sim->now_ms += 1000;
        look_for_success(sim);
    }
}

static void check_end(const struct sim *sim)
{
    int leader = sim->leaders[sim->owner];

    for (int at = 0; at < NODES; at++)
        assert_int_equal(serves(&sim->nodes[at]), at == leader);
    assert_int_equal(sim->nodes[leader].value, sim->acknowledged);
}

static void begin_run(struct sim *sim, uint64_t seed)
{
    *sim = (struct sim){ .leaders = { 0, 2, 4 }, .version = 1, .now_ms = 1700000000000, .next = 1 };
    random_init(&sim->random, seed);
    for (int at = 0; at < NODES; at++) {
        sim->nodes[at] = (struct sim_node){ .bus = managed_view_bus((char)('a' + at)), .value = at == 0 ? 0 : NO_KEYS, .primary = at };
        save(&sim->nodes[at]);
    }
}

static void end_run(struct sim *sim)
{
    for (int at = 0; at < NODES; at++) {
        if (sim->nodes[at].bus != NULL)
            bus_destroy(sim->nodes[at].bus);
        free(sim->nodes[at].saved);
    }
}

static void no_write_is_lost_and_no_two_nodes_serve_a_slot(void **state)
{
    const char *wanted = getenv("KELVIN_SIMULATIONS");
    unsigned runs = wanted != NULL ? (unsigned)atoi(wanted) : (unsigned)scaled(RUNS), moves = 0;
    struct sim sim;

    for (unsigned run = 0; run < runs; run++) {
        begin_run(&sim, seed_new());
        for (int step = 0; step < STEPS; step++)
            do_something(&sim);
        heal(&sim);
        check_end(&sim);
        moves += sim.moves;
        end_run(&sim);
    }
    printf("%u moves in %u runs\n", moves, runs);
    assert_in_range(moves, runs / 4 + 1, UINT_MAX);         /* else nothing was tested */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_write_is_lost_and_no_two_nodes_serve_a_slot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
