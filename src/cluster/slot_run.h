/* Slot run: the job of slot_export that runs: what it knows, its connection to the other node, and the words of the conversation. Owner: the thread of the exporter.
 */
#ifndef KELVIN_CLUSTER_SLOT_RUN_H
#define KELVIN_CLUSTER_SLOT_RUN_H

#include "base/waiting.h"
#include "cluster/cluster.h"
#include "cluster/peer_link.h"
#include "cluster/slots.h"
#include "engine/engine.h"

enum {
    SLOT_RUN_WORD_SIZE = 32,
    SLOT_RUN_LINK_MS = 5000,        /* for each step of the connection */
    SLOT_RUN_SYNC_MS = 4000,        /* for replicas, and the other node's disk: less than LINK_MS */
    SLOT_RUN_AGAIN_MS = 100,
};

enum slot_fate { SLOT_TAKEN, SLOT_NOT_TAKEN, SLOT_FATE_UNKNOWN };

struct slot_export;
struct slot_export_job;

struct slot_run {
    struct slot_export *exporter;   /* these two are slot_export's */
    struct slot_export_job *job;
    struct engine *engine;
    struct cluster *cluster;
    struct waiting *changed;        /* of the exporter */
    const _Atomic bool *stopping;   /* the same */
    struct slots slots;
    struct peer_link peer;          /* its message is why the job has failed */
    char receipt[SLOT_RUN_WORD_SIZE];
    uint64_t epoch;                 /* the other node's current one, as of its last reply; with a controller the version of its topology */
    int64_t kept_ms;
    bool is_managed;
    bool leaves_doubt;              /* managed: what was handed over stays so */
    int64_t ready_ms;               /* managed: since when all but the version of the topology is as it has to be; 0: it is not */
    int64_t heard_ms;               /* the time of the bus at which it had heard the other one last when that was to have dropped the slots; 0: before */
};

/* Returns false, and keeps the text as the reason, unless there is one. */
bool slot_run_fail(struct slot_run *run, const char *text);

/* CLUSTER RECEIVESLOTS `what` with the receipt. `more`: the next word; NULL: none. As peer_link_ask. */
bool slot_run_ask(struct slot_run *run, const char *what, const char *more, char *reply, size_t room);
/* The receipt goes on, and the reply is the other node's epoch. */
bool slot_run_keep(struct slot_run *run);
/* Ends it, unless the other node has taken the slots: it replies 1 then. */
bool slot_run_end(struct slot_run *run, char *reply, size_t room);
/* Asks the other node, by a new connection, what has become of it; if it has not taken the slots, it will not. */
enum slot_fate slot_run_look_up(struct slot_run *run);

/* By the topology, unless it has failed. */
bool slot_run_is_replica(const struct topology *topology, int index, const struct node_id *of);
/* How many replicas that node should have, without `except` if it is one. */
int64_t slot_run_count_replicas(const struct slot_run *run, const struct node_id *of, const struct node_id *except);

#endif
