#include "support/cluster_simulation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum { TICK_MS = 100, DELAY_MS_MAX = 30, START_MS = 1700000000, PORT = 7000, BUS_PORT = 17000, WRITES_MAX = 5, HEAL_MS = 90000 };

enum event_kind { EVENT_TICK, EVENT_CONNECT, EVENT_OPENED, EVENT_CLOSED, EVENT_MESSAGE };

struct simulation_event {
    int64_t at_ms;
    uint64_t sequence;
    enum event_kind kind;
    int node;                   /* where it happens */
    unsigned start;             /* of the node: events of an earlier life are dropped */
    unsigned link;
    struct buffer bytes;
};

/* A connection from one node to another. */
struct simulation_link {
    int from, to;
    unsigned from_start, to_start;
    uint64_t from_number, to_number;
    bool is_open, is_broken;
    int64_t last_ms[2];         /* when the last message to `from`, to `to` arrives */
};

/* --- The queue of events */

static bool is_before(const struct simulation_event *a, const struct simulation_event *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->sequence < b->sequence;
}

static void swap_events(struct simulation_event *a, struct simulation_event *b)
{
    struct simulation_event kept = *a;

    *a = *b;
    *b = kept;
}

static void push_event(struct simulation *simulation, struct simulation_event event)
{
    unsigned at = simulation->event_count++;

    if (at == simulation->event_room) {
        simulation->event_room = simulation->event_room * 2 + 64;
        simulation->events = mem_realloc(simulation->events, simulation->event_room * sizeof(*simulation->events));
    }
    event.sequence = simulation->sequence++;
    simulation->events[at] = event;
    for (; at > 0 && is_before(&simulation->events[at], &simulation->events[(at - 1) / 2]); at = (at - 1) / 2)
        swap_events(&simulation->events[at], &simulation->events[(at - 1) / 2]);
}

static struct simulation_event pop_event(struct simulation *simulation)
{
    struct simulation_event *events = simulation->events, first = events[0];
    unsigned at = 0, count = --simulation->event_count;

    events[0] = events[count];
    for (;;) {
        unsigned child = at * 2 + 1;

        if (child < count && child + 1 < count && is_before(&events[child + 1], &events[child]))
            child++;
        if (child >= count || !is_before(&events[child], &events[at]))
            return first;
        swap_events(&events[at], &events[child]);
        at = child;
    }
}

static void add_event(struct simulation *simulation, enum event_kind kind, int node, unsigned link, int64_t at_ms)
{
    push_event(simulation, (struct simulation_event){ .at_ms = at_ms, .kind = kind, .node = node, .start = simulation->nodes[node].starts, .link = link });
}

/* --- The network */

static int64_t random_delay(struct simulation *simulation)
{
    return 1 + (int64_t)random_below(&simulation->random, (uint64_t)simulation->delay_ms_max);
}

static bool reaches(const struct simulation *simulation, int from, int to)
{
    return simulation->nodes[from].group == simulation->nodes[to].group && !simulation->nodes[from].is_muted;
}

static bool chance(struct simulation *simulation, unsigned percent)
{
    return percent > 0 && random_below(&simulation->random, 100) < percent;
}

/* The link of a node with this number; link_count: none. */
static unsigned find_link(const struct simulation *simulation, int at, uint64_t number)
{
    const struct simulation_node *node = &simulation->nodes[at];

    return number < node->number_room && node->link_of[number] > 0 ? node->link_of[number] - 1 : simulation->link_count;
}

static void note_number(struct simulation *simulation, int at, uint64_t number, unsigned link)
{
    struct simulation_node *node = &simulation->nodes[at];

    if (number >= node->number_room) {
        unsigned room = (unsigned)number * 2 + 64;

        node->link_of = mem_realloc(node->link_of, room * sizeof(*node->link_of));
        memset(node->link_of + node->number_room, 0, (room - node->number_room) * sizeof(*node->link_of));
        node->number_room = room;
    }
    node->link_of[number] = link + 1;
}

/* The node with this address; -1: none has it. */
static int node_at(const struct simulation *simulation, const char *ip)
{
    int address = ip[0] == '\0' ? -1 : atoi(ip + strlen("10.0.0."));

    for (int i = 0; i < simulation->count; i++) {
        if (simulation->nodes[i].address == address)
            return i;
    }
    return -1;
}

static void open_link(struct simulation *simulation, int from, const struct bus_action *action)
{
    unsigned at = simulation->link_count;
    int to = node_at(simulation, action->ip);

    CHECK(action->port > BUS_PORT - 1 && action->port < BUS_PORT + SIMULATION_NODES_MAX);
    if (to < 0)
        return;                                                 /* no route: neither opened nor closed */
    simulation->link_count++;
    if (at == simulation->link_room) {
        simulation->link_room = simulation->link_room * 2 + 64;
        simulation->links = mem_realloc(simulation->links, simulation->link_room * sizeof(*simulation->links));
    }
    simulation->links[at] = (struct simulation_link){ .from = from, .to = to, .from_number = action->link, .from_start = simulation->nodes[from].starts };
    note_number(simulation, from, action->link, at);
    add_event(simulation, EVENT_CONNECT, to, at, simulation->now_ms + random_delay(simulation));
}

static int other_end(const struct simulation_link *link, int node)
{
    return link->from == node ? link->to : link->from;
}

static void break_link(struct simulation *simulation, unsigned at, int by)
{
    struct simulation_link *link = &simulation->links[at];
    int other = other_end(link, by);

    if (link->is_broken)
        return;
    link->is_broken = true;
    if (link->is_open && reaches(simulation, by, other))
        add_event(simulation, EVENT_CLOSED, other, at, simulation->now_ms + random_delay(simulation));
}

static void note_vote(struct simulation *simulation, const struct simulation_link *link, int from, struct bytes bytes)
{
    struct simulation_vote vote = { .voter = simulation->nodes[from].id, .candidate = simulation->nodes[other_end(link, from)].id };
    struct bus_message message;

    CHECK(bus_message_read(bytes, &message) == STATUS_OK);
    vote.epoch = message.current_epoch;
    for (unsigned i = 0; i < simulation->vote_count; i++) {
        const struct simulation_vote *other = &simulation->votes[i];

        CHECK(other->epoch != vote.epoch || !node_id_equal(&other->voter, &vote.voter) || node_id_equal(&other->candidate, &vote.candidate));
    }
    if (simulation->vote_count == simulation->vote_room) {
        simulation->vote_room = simulation->vote_room * 2 + 16;
        simulation->votes = mem_realloc(simulation->votes, simulation->vote_room * sizeof(vote));
    }
    simulation->votes[simulation->vote_count++] = vote;
}

/* Slots that went are no promise. */
static bool is_promised(const struct simulation_promise *promise, const struct bus_message *message)
{
    struct slots all = promise->slots;

    slots_add_all(&all, message->slots);
    return message->config_epoch == promise->config_epoch && slots_equal(&all, &promise->slots);
}

/* What is sent must have been synced. */
static void check_promise(struct simulation *simulation, int from, struct bytes bytes)
{
    const struct simulation_promise *promise = &simulation->nodes[from].promise;
    struct bus_message message;

    CHECK(bus_message_read(bytes, &message) == STATUS_OK);
    CHECK(message.type != BUS_FAILOVER_AUTH_ACK || message.current_epoch == promise->vote_epoch);
    CHECK(message.type != BUS_FAILOVER_AUTH_REQUEST || message.current_epoch <= promise->current_epoch);
    if (!node_id_is_none(&message.master) || message.flags & NODE_REPLICA)
        return;
    CHECK(is_promised(promise, &message) || is_promised(&simulation->nodes[from].before, &message));
    for (unsigned slot = 0; slot < SLOT_COUNT; slot += 64) {
        if (slots_has(message.slots, slot) && message.config_epoch > simulation->highest[slot])
            simulation->highest[slot] = message.config_epoch;
    }
}

static void send_bytes(struct simulation *simulation, int from, const struct bus_action *action, const char *data)
{
    unsigned at = find_link(simulation, from, action->link);
    struct simulation_link *link = &simulation->links[at];
    struct simulation_event event = { .kind = EVENT_MESSAGE, .link = at };
    int64_t *last_ms;

    if (at == simulation->link_count || link->is_broken || !link->is_open)
        return;
    event.node = other_end(link, from);
    event.start = simulation->nodes[event.node].starts;
    simulation->sent[action->type]++;
    if (action->type == BUS_FAILOVER_AUTH_ACK)
        note_vote(simulation, link, from, bytes_of(data, action->size));
    check_promise(simulation, from, bytes_of(data, action->size));
    if (!reaches(simulation, from, event.node) || chance(simulation, simulation->loss_percent))
        return;
    last_ms = &link->last_ms[event.node == link->to];
    event.at_ms = simulation->now_ms + random_delay(simulation);
    event.at_ms = event.at_ms < *last_ms ? *last_ms : event.at_ms;
    *last_ms = event.at_ms;
    buffer_append(&event.bytes, data, action->size);
    push_event(simulation, event);
    if (!chance(simulation, simulation->repeat_percent))
        return;
    event.bytes = (struct buffer){ 0 };                         /* the same again, much later, as if forged */
    buffer_append(&event.bytes, data, action->size);
    event.at_ms += (int64_t)random_below(&simulation->random, SIMULATION_REPEAT_MS_MAX);
    push_event(simulation, event);
}

/* --- Nodes */

int64_t simulation_clock(const struct simulation *simulation, int node)
{
    return START_MS * 1000LL + simulation->now_ms + simulation->nodes[node].clock_ms;
}

struct bus *simulation_bus(struct simulation *simulation, int at)
{
    struct simulation_node *node = &simulation->nodes[at];

    CHECK(node->bus != NULL);
    node->bus->facts = (struct bus_facts){ .offset = node->offset, .link_age_ms = node->copied_ms < 0 || simulation->now_ms - node->copied_ms >= 2 * TICK_MS ? -1 : simulation->now_ms - node->copied_ms,
                                           .has_lost_data = node->has_lost_data,
                                           .holds_writes = node->bus->hold_writes_until_ms > simulation_clock(simulation, at) };
    return node->bus;
}

static void die(struct simulation *simulation, int at)
{
    struct simulation_node *node = &simulation->nodes[at];

    for (unsigned i = 0; i < simulation->link_count; i++) {
        struct simulation_link *link = &simulation->links[i];

        if ((link->from == at && link->from_start == node->starts) || (link->to == at && link->to_start == node->starts))
            break_link(simulation, i, at);
    }
    bus_destroy(node->bus);
    node->bus = NULL;
    node->death = SIMULATION_LIVES;
    node->starts++;
    if (node->number_room > 0)
        memset(node->link_of, 0, node->number_room * sizeof(*node->link_of));
}

static void change_role(const struct simulation *simulation, struct simulation_node *node)
{
    const struct node *master = node->bus->members->myself->master;

    if (node->bus->outcome.role == BUS_ROLE_LEAD) {
        node->follows = -1;
        node->lead_count++;
    } else if (node->bus->outcome.role == BUS_ROLE_FOLLOW) {
        CHECK(master != NULL);
        if (node->follows != node_at(simulation, master->ip))
            node->copied_ms = -1;
        node->follows = node_at(simulation, master->ip);
        node->follow_count++;
    }
}

static void sync_file(struct simulation_node *node)
{
    const struct members *members = node->bus->members;

    node->synced.size = 0;
    buffer_append_bytes(&node->synced, buffer_bytes(&node->written));
    node->before = node->promise;
    node->promise = (struct simulation_promise){ members->current_epoch, members->last_vote_epoch, members->myself->config_epoch, members->myself->slots };
}

static void save(struct simulation_node *node)
{
    if (!node->bus->outcome.has_changed)
        return;
    node->written.size = 0;
    members_write(node->bus->members, &node->written);
    if (node->bus->outcome.has_promised)
        sync_file(node);
}

static void act(struct simulation *simulation, int at)
{
    struct bus_outcome *outcome = &simulation->nodes[at].bus->outcome;

    for (unsigned i = 0; i < outcome->action_count; i++) {
        const struct bus_action *action = &outcome->actions[i];
        unsigned link;

        switch (action->kind) {
        case BUS_OPEN:
            open_link(simulation, at, action);
            break;
        case BUS_CLOSE:
            link = find_link(simulation, at, action->link);
            if (link < simulation->link_count)
                break_link(simulation, link, at);
            break;
        case BUS_SEND:
            send_bytes(simulation, at, action, outcome->bytes.data + action->begin);
            break;
        case BUS_DELIVER:
            simulation->nodes[at].delivered++;
            break;
        }
    }
}

/* As the contract of bus.h says. A node that is to die does so before or after its promise is saved, and sends nothing. */
void simulation_do(struct simulation *simulation, int at)
{
    struct simulation_node *node = &simulation->nodes[at];
    struct bus_outcome *outcome = &node->bus->outcome;
    bool dies = node->death != SIMULATION_LIVES && outcome->has_promised;

    CHECK(!outcome->has_promised || outcome->has_changed);
    if (outcome->topology_changed && simulation->sequence % (unsigned)simulation->count == 0)
        members_verify(node->bus->members);
    if (dies && node->death == SIMULATION_DIES_BEFORE_SAVE) {
        die(simulation, at);
        return;
    }
    save(node);
    if (dies) {
        die(simulation, at);
        return;
    }
    change_role(simulation, node);
    for (size_t i = 0; i < SLOTS_SIZE; i++)
        node->lost.bits[i] |= outcome->lost.bits[i];
    node->empty_count += outcome->empties;
    act(simulation, at);
    bus_outcome_clear(node->bus);
}

/* Primaries write, replicas copy what their primary has. */
static void move_data(struct simulation *simulation, int at)
{
    struct simulation_node *node = &simulation->nodes[at];
    const struct simulation_node *primary;

    if (node->follows < 0) {
        if (node->bus->is_ok && node->bus->hold_writes_until_ms <= simulation_clock(simulation, at))
            node->offset += random_below(&simulation->random, WRITES_MAX);
        return;
    }
    primary = &simulation->nodes[node->follows];
    if (primary->bus == NULL || primary->stopped_until_ms > simulation->now_ms || primary->group != node->group || node->is_slow)
        return;
    node->offset = primary->offset;
    node->copied_ms = simulation->now_ms;
}

static void tick(struct simulation *simulation, int at)
{
    move_data(simulation, at);
    bus_tick(simulation_bus(simulation, at), simulation_clock(simulation, at));
    simulation_do(simulation, at);
    if (simulation->nodes[at].bus == NULL)
        return;
    sync_file(&simulation->nodes[at]);
    add_event(simulation, EVENT_TICK, at, 0, simulation->now_ms + TICK_MS);
}

/* At the node that is connected to. */
static void accept_link(struct simulation *simulation, unsigned at)
{
    struct simulation_link *link = &simulation->links[at];
    struct simulation_node *node = &simulation->nodes[link->to];
    bool is_refused;

    if (link->is_broken || !reaches(simulation, link->to, link->from) || !reaches(simulation, link->from, link->to))
        return;                                                 /* as if there was no route */
    link->to_number = bus_new_link(node->bus);
    link->to_start = node->starts;
    note_number(simulation, link->to, link->to_number, at);
    link->is_open = true;
    bus_link_accepted(simulation_bus(simulation, link->to), link->to_number, &is_refused);
    CHECK(!is_refused);
    push_event(simulation, (struct simulation_event){ .at_ms = simulation->now_ms + random_delay(simulation), .kind = EVENT_OPENED, .node = link->from,
                                                      .start = link->from_start, .link = at });
}

static void refuse_connection(struct simulation *simulation, unsigned at)
{
    struct simulation_link *link = &simulation->links[at];

    link->is_broken = true;
    push_event(simulation, (struct simulation_event){ .at_ms = simulation->now_ms + random_delay(simulation), .kind = EVENT_CLOSED, .node = link->from,
                                                      .start = link->from_start, .link = at });
}

static void receive(struct simulation *simulation, const struct simulation_event *event)
{
    const struct simulation_link *link = &simulation->links[event->link];
    uint64_t number = event->node == link->to ? link->to_number : link->from_number;
    char from_ip[NODE_IP_SIZE], own_ip[NODE_IP_SIZE];
    struct bus_message message;

    if (link->is_broken)
        return;
    CHECK(bus_message_read(buffer_bytes(&event->bytes), &message) == STATUS_OK);
    CHECK(event->bytes.size <= bus_link_size_max(simulation->nodes[event->node].bus, number));
    snprintf(from_ip, sizeof(from_ip), "10.0.0.%d", simulation->nodes[other_end(link, event->node)].address);
    snprintf(own_ip, sizeof(own_ip), "10.0.0.%d", simulation->nodes[event->node].address);
    simulation->received++;
    bus_received(simulation_bus(simulation, event->node), number, &message, from_ip, own_ip, simulation_clock(simulation, event->node));
    simulation_do(simulation, event->node);
}

static void run_event(struct simulation *simulation, const struct simulation_event *event)
{
    const struct simulation_link *link = event->kind == EVENT_TICK ? NULL : &simulation->links[event->link];

    switch (event->kind) {
    case EVENT_TICK:
        tick(simulation, event->node);
        break;
    case EVENT_CONNECT:
        accept_link(simulation, event->link);
        break;
    case EVENT_OPENED:
        if (link->is_broken)
            break;
        bus_link_opened(simulation_bus(simulation, event->node), link->from_number, simulation_clock(simulation, event->node));
        simulation_do(simulation, event->node);
        break;
    case EVENT_CLOSED:
        bus_link_closed(simulation_bus(simulation, event->node), event->node == link->to ? link->to_number : link->from_number);
        break;
    case EVENT_MESSAGE:
        receive(simulation, event);
        break;
    }
}

static void step(struct simulation *simulation)
{
    struct simulation_event event = pop_event(simulation);
    struct simulation_node *node = &simulation->nodes[event.node];

    simulation->now_ms = event.at_ms;
    if (node->bus != NULL && event.start == node->starts && node->stopped_until_ms > event.at_ms) {
        event.at_ms = node->stopped_until_ms;                   /* in order, once it goes on */
        push_event(simulation, event);
        return;
    }
    if (event.kind == EVENT_CONNECT && node->bus == NULL)
        refuse_connection(simulation, event.link);
    else if (node->bus != NULL && (event.start == node->starts || event.kind == EVENT_CONNECT))
        run_event(simulation, &event);
    buffer_release(&event.bytes);
}

void simulation_run(struct simulation *simulation, int64_t ms)
{
    int64_t until_ms = simulation->now_ms + ms;

    while (simulation->event_count > 0 && simulation->events[0].at_ms <= until_ms)
        step(simulation);
    simulation->now_ms = until_ms;
}

bool simulation_run_until(struct simulation *simulation, bool (*is_so)(struct simulation *simulation), int64_t ms)
{
    for (int64_t passed = 0; passed < ms; passed += TICK_MS) {
        if (is_so(simulation))
            return true;
        simulation_run(simulation, TICK_MS);
    }
    return is_so(simulation);
}

void simulation_kill(struct simulation *simulation, int at, enum simulation_death death)
{
    if (simulation->nodes[at].bus == NULL)
        return;
    if (death == SIMULATION_DIES_NOW)
        die(simulation, at);
    else
        simulation->nodes[at].death = death;
}

static void begin_life(struct simulation *simulation, int at, struct members *members)
{
    struct simulation_node *node = &simulation->nodes[at];

    node->bus = bus_create(members, &node->options, random_next(&simulation->random), simulation_clock(simulation, at));
    node->id = members->myself->id;
    node->follows = -1;
    node->copied_ms = -1;
    node->stopped_until_ms = 0;
    add_event(simulation, EVENT_TICK, at, 0, simulation->now_ms + (int64_t)random_below(&simulation->random, TICK_MS));
}

void simulation_start(struct simulation *simulation, int at, enum simulation_disk disk)
{
    struct simulation_node *node = &simulation->nodes[at];
    struct nodes_file file;
    struct message message = { { 0 } };

    if (node->bus != NULL)
        return;
    if (disk == SIMULATION_DISK_SYNCED) {
        node->written.size = 0;
        buffer_append_bytes(&node->written, buffer_bytes(&node->synced));
    }
    if (nodes_file_read(buffer_bytes(&node->written), NODES_FILE_PORT_PLAIN, &file, &message) != STATUS_OK)
        check_failed(__FILE__, __LINE__, message.text);
    begin_life(simulation, at, members_create_from(&file, simulation_clock(simulation, at), &simulation->random));
    nodes_file_release(&file);
}

void simulation_stop(struct simulation *simulation, int at, int64_t ms)
{
    simulation->nodes[at].stopped_until_ms = simulation->now_ms + ms;
}

void simulation_meet(struct simulation *simulation, int at, int other)
{
    char ip[NODE_IP_SIZE];

    snprintf(ip, sizeof(ip), "10.0.0.%d", simulation->nodes[other].address);
    CHECK(bus_meet(simulation_bus(simulation, at), ip, (uint16_t)(PORT + other), (uint16_t)(BUS_PORT + other), simulation_clock(simulation, at)) == NULL);
    simulation_do(simulation, at);
}

struct simulation *simulation_create_alone(int count, int64_t timeout_ms, uint64_t seed)
{
    struct simulation *simulation = mem_zalloc(sizeof(*simulation));

    CHECK(count <= SIMULATION_NODES_MAX);
    random_init(&simulation->random, seed);
    simulation->timeout_ms = timeout_ms;
    simulation->delay_ms_max = DELAY_MS_MAX;
    simulation->count = count;
    for (int i = 0; i < count; i++) {
        struct simulation_node *node = &simulation->nodes[i];

        node->options = (struct bus_options){ .timeout_ms = timeout_ms, .primary_ping_ms = 10000, .validity_factor = 10, .migration_barrier = 1,
                                              .allows_replica_migration = true, .requires_full_coverage = true, .port = (uint16_t)(PORT + i),
                                              .bus_port = (uint16_t)(BUS_PORT + i) };
        node->address = i;
        begin_life(simulation, i, members_create(&simulation->random));
        members_write(node->bus->members, &node->written);
        sync_file(node);                                        /* a new node's file is synced by its creator */
        simulation_do(simulation, i);
    }
    return simulation;
}

static bool all_know_all(struct simulation *simulation)
{
    for (int i = 0; i < simulation->count; i++) {
        for (int k = 0; k < simulation->count; k++) {
            const struct node *node = simulation_view(simulation, i, k);

            if (node == NULL || (k != i && node->pong_ms == 0))
                return false;
        }
    }
    return true;
}

struct simulation *simulation_create(int primaries, int replicas, int64_t timeout_ms, uint64_t seed)
{
    struct simulation *simulation = simulation_create_alone(primaries + primaries * replicas, timeout_ms, seed);
    bool is_ready;

    for (int i = 0; i < primaries; i++) {
        struct slots slots = { { 0 } };

        slots_add_range(&slots, (struct slot_range){ (uint16_t)(SLOT_COUNT * i / primaries), (uint16_t)(SLOT_COUNT * (i + 1) / primaries - 1) });
        CHECK(bus_add_slots(simulation_bus(simulation, i), &slots) == NULL);
        simulation_do(simulation, i);
    }
    for (int i = 0; i < simulation->count; i++) {
        CHECK(bus_set_config_epoch(simulation_bus(simulation, i), (uint64_t)i + 1) == NULL);
        simulation_do(simulation, i);
        if (i > 0)
            simulation_meet(simulation, 0, i);
    }
    is_ready = simulation_run_until(simulation, all_know_all, 60000);
    for (int i = primaries; i < simulation->count && is_ready; i++) {
        CHECK(bus_replicate(simulation_bus(simulation, i), &simulation->nodes[i % primaries].id, false, simulation_clock(simulation, i)) == NULL);
        simulation_do(simulation, i);
    }
    if (!is_ready || !simulation_run_until(simulation, simulation_agrees, 60000)) {
        simulation_print(simulation);
        check_failed(__FILE__, __LINE__, "the cluster was not formed");
    }
    simulation_run(simulation, 1000);
    return simulation;
}

void simulation_destroy(struct simulation *simulation)
{
    for (int i = 0; i < simulation->count; i++) {
        bus_destroy(simulation->nodes[i].bus);
        buffer_release(&simulation->nodes[i].written);
        buffer_release(&simulation->nodes[i].synced);
        mem_free(simulation->nodes[i].link_of);
    }
    for (unsigned i = 0; i < simulation->event_count; i++)
        buffer_release(&simulation->events[i].bytes);
    mem_free(simulation->events);
    mem_free(simulation->links);
    mem_free(simulation->votes);
    mem_free(simulation);
}

/* --- What is to be seen */

struct node *simulation_view(struct simulation *simulation, int at, int other)
{
    return members_find(simulation->nodes[at].bus->members, &simulation->nodes[other].id);
}

bool simulation_is_primary(struct simulation *simulation, int at)
{
    const struct bus *bus = simulation->nodes[at].bus;

    return bus != NULL && bus->members->myself->flags & NODE_MASTER;
}

static bool same_id(const struct node *a, const struct node *b)
{
    return a == NULL || b == NULL ? a == b : node_id_equal(&a->id, &b->id);
}

/* What two nodes think of a third. Of a dead one only that it has no slots: they may have been notified of its last role or not. */
static bool same_opinion(const struct node *one, const struct node *other, bool is_dead)
{
    if (!same_id(one, other) || (one->flags | other->flags) & (NODE_HANDSHAKE | NODE_NO_ADDRESS))
        return false;
    if (is_dead)
        return one->slot_count == 0 && other->slot_count == 0;
    return same_id(one->master, other->master) && node_id_equal(&one->shard_id, &other->shard_id) && (one->flags & NODE_MASTER) == (other->flags & NODE_MASTER) &&
           !((one->flags | other->flags) & (NODE_FAIL | NODE_PFAIL)) && slots_equal(&one->slots, &other->slots) &&
           (one->slot_count == 0 || one->config_epoch == other->config_epoch) && (one->master == NULL || one->master->master == NULL);
}

static struct simulation_node *node_with_id(struct simulation *simulation, const struct node_id *id)
{
    for (int i = 0; i < simulation->count; i++) {
        if (node_id_equal(&simulation->nodes[i].id, id))
            return &simulation->nodes[i];
    }
    return NULL;
}

static bool same_view(struct simulation *simulation, const struct members *a, const struct members *b)
{
    if (a->count != b->count)
        return false;
    for (unsigned i = 0; i < a->count; i++) {
        const struct simulation_node *node = node_with_id(simulation, &a->all[i]->id);

        if (node == NULL || !same_opinion(a->all[i], b->all[i], node->bus == NULL))         /* NULL: a handshake has an ID of its own */
            return false;
    }
    return true;
}

/* A replica copies from the live primary that it says it does. */
static bool copies_its_master(struct simulation *simulation, const struct simulation_node *node)
{
    const struct node *master = node->bus->members->myself->master;

    if (master == NULL)
        return node->follows < 0;
    return node->follows >= 0 && &simulation->nodes[node->follows] == node_with_id(simulation, &master->id) &&
           simulation_is_primary(simulation, node->follows);
}

bool simulation_agrees(struct simulation *simulation)
{
    const struct members *first = NULL;

    for (int i = 0; i < simulation->count; i++) {
        const struct bus *bus = simulation->nodes[i].bus;

        if (bus == NULL)
            continue;
        first = first == NULL ? bus->members : first;
        if (!bus->is_ok || !same_view(simulation, first, bus->members) || !copies_its_master(simulation, &simulation->nodes[i]))
            return false;
    }
    return true;
}

void simulation_print(struct simulation *simulation)
{
    struct buffer out = { 0 };

    for (int i = 0; i < simulation->count; i++) {
        const struct bus *bus = simulation->nodes[i].bus;

        buffer_append_format(&out, "--- node %d at %lld, group %u, follows %d: %s\n", i, (long long)simulation->now_ms, simulation->nodes[i].group,
                             simulation->nodes[i].follows, bus == NULL ? "dead" : bus->is_ok ? "ok" : "fail");
        if (bus != NULL)
            bus_describe_nodes(bus, NULL, NODES_FILE_PORT_PLAIN, &out);
    }
    printf("%.*s\n", (int)out.size, out.data);
    buffer_release(&out);
}

void simulation_verify(struct simulation *simulation)
{
    const struct members *members = NULL;

    for (int i = 0; i < simulation->count; i++) {
        if (simulation->nodes[i].bus == NULL)
            continue;
        members = simulation->nodes[i].bus->members;
        members_verify(members);
    }
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        CHECK(members->owners[slot] != NULL && members->owners[slot]->config_epoch >= simulation->highest[slot]);
    }
    for (unsigned i = 0; i < members->count; i++) {
        for (unsigned k = 0; k < i; k++)
            CHECK(!node_is_voter(members->all[i]) || !node_is_voter(members->all[k]) || members->all[i]->config_epoch != members->all[k]->config_epoch);
    }
}

void simulation_heal(struct simulation *simulation)
{
    bool agrees = simulation_run_until(simulation, simulation_agrees, HEAL_MS);

    simulation_run(simulation, agrees ? 8000 : 0);                 /* a replica may move then */
    if (!agrees || !simulation_run_until(simulation, simulation_agrees, HEAL_MS)) {
        simulation_print(simulation);
        check_failed(__FILE__, __LINE__, "the nodes do not agree");
    }
    simulation_verify(simulation);
}
