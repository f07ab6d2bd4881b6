/* Cluster simulation: nodes of a cluster (cluster/bus.h) in one process, with a virtual clock, a network between them, and disks.
 *
 *   network   messages take a random time, in order on each link, and may be lost, or repeated later; nodes are in groups that reach only their own
 *   node      may be killed, between any save and what is sent after it; stopped (SIGSTOP); its clock may be set
 *   disk      what was saved but not synced may be gone after a power failure
 *   data      a primary that may write does; its replicas copy it; an offset stands for the data
 *
 * Checked with each message: a node votes once in each epoch, also after a restart; its vote, its request, and as a primary its epoch and its slots are in the synced
 * file. Deterministic, by its seed.
 */
#ifndef KELVIN_TESTS_CLUSTER_SIMULATION_H
#define KELVIN_TESTS_CLUSTER_SIMULATION_H

#include "base/buffer.h"
#include "base/random.h"
#include "cluster/bus.h"

enum { SIMULATION_NODES_MAX = 128, SIMULATION_REPEAT_MS_MAX = 20000 };

/* When a node dies: at once, or with its next promise, before or after it is saved. */
enum simulation_death { SIMULATION_LIVES, SIMULATION_DIES_NOW, SIMULATION_DIES_BEFORE_SAVE, SIMULATION_DIES_AFTER_SAVE };

/* What the synced file of a node says about itself. */
struct simulation_promise {
    uint64_t current_epoch, vote_epoch, config_epoch;
    struct slots slots;
};

struct simulation_node {
    struct bus *bus;                        /* NULL: it is dead */
    struct bus_options options;
    struct node_id id;
    struct buffer written, synced;          /* nodes.conf */
    struct simulation_promise promise, before;          /* of the last sync, and the one before: an event may send what it then changes */
    unsigned *link_of, number_room;         /* index + 1 of the link with a number of this node's */
    enum simulation_death death;
    int64_t clock_ms;                       /* how much its clock is ahead */
    int64_t stopped_until_ms;
    unsigned group;
    uint64_t offset;
    int64_t copied_ms;                      /* when it last copied its primary; -1: not since it follows it */
    int address;                            /* its IP is 10.0.0.address; usually its index */
    int follows;                            /* index; -1: it is a primary */
    bool is_slow;                           /* copies nothing more */
    bool is_muted;                          /* nothing that it sends arrives */
    bool has_lost_data;                     /* its disk was empty at its last start */
    unsigned delivered, follow_count, lead_count, starts, empty_count;
    struct slots lost;
};

struct simulation_vote {
    struct node_id voter, candidate;
    uint64_t epoch;
};

struct simulation {
    struct random random;
    int64_t now_ms, timeout_ms, delay_ms_max;
    int count;
    struct simulation_node nodes[SIMULATION_NODES_MAX];
    struct simulation_link *links;
    unsigned link_count, link_room;
    struct simulation_event *events;        /* a heap */
    unsigned event_count, event_room;
    uint64_t sequence;
    unsigned loss_percent, repeat_percent;
    uint64_t highest[SLOT_COUNT];           /* the largest epoch with which a primary has claimed it, in what it sent */
    struct simulation_vote *votes;
    unsigned vote_count, vote_room;
    uint64_t sent[BUS_TYPE_COUNT], received;
};

/* Primaries and replicas, with all slots shared by the primaries; node i + primaries * k is a replica of node i. They know each other, and the cluster is
 * ok. */
struct simulation *simulation_create(int primaries, int replicas, int64_t timeout_ms, uint64_t seed);
/* Nodes that are alone. */
struct simulation *simulation_create_alone(int count, int64_t timeout_ms, uint64_t seed);
void simulation_destroy(struct simulation *simulation);

void simulation_run(struct simulation *simulation, int64_t ms);
/* False: not within `ms`. */
bool simulation_run_until(struct simulation *simulation, bool (*is_so)(struct simulation *simulation), int64_t ms);

void simulation_kill(struct simulation *simulation, int node, enum simulation_death death);
enum simulation_disk { SIMULATION_DISK_WRITTEN, SIMULATION_DISK_SYNCED };
void simulation_start(struct simulation *simulation, int node, enum simulation_disk disk);
void simulation_stop(struct simulation *simulation, int node, int64_t ms);

/* The bus of a node for a command, which has to live; simulation_do then carries out its outcome. */
struct bus *simulation_bus(struct simulation *simulation, int node);
int64_t simulation_clock(const struct simulation *simulation, int node);
void simulation_do(struct simulation *simulation, int node);
void simulation_meet(struct simulation *simulation, int node, int other);

/* How `node` sees `other`; NULL: it does not know it. */
struct node *simulation_view(struct simulation *simulation, int node, int other);
bool simulation_is_primary(struct simulation *simulation, int node);
/* All nodes that live see the same owners, roles and epochs, no failure of a live node, and a cluster that is ok; replicas copy their primary. */
bool simulation_agrees(struct simulation *simulation);
/* Prints how each node sees the cluster. */
void simulation_print(struct simulation *simulation);
/* Runs until they agree, and CHECKs that they go on to do so, and what simulation_verify does. */
void simulation_heal(struct simulation *simulation);
/* CHECKs that hold after a quiet time: no two primaries with one epoch and a common slot, no slot's epoch has fallen. */
void simulation_verify(struct simulation *simulation);

#endif
