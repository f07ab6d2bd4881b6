/* Slot export: atomic migration. Slots of this node are copied to another one (cluster/slot_copy.h), which then takes all of them over at one instant: no
 * client is sent from one node to the other by keys, and writes to these slots alone wait, for some milliseconds.
 *
 *   this node                                              the other one: a Kelvin, by CLUSTER RECEIVESLOTS
 *   CONNECTING    BEGIN ->                                 the slots are this node's, and it has no key of them; it says so in nodes.conf
 *   COPYING       RESTORE ..., commands ->                 as those of any client, for its log and its replicas, too
 *   HANDING_OVER  writes wait; the rest of the history ->
 *                 WAITAOF, WAIT ->                         its log is synced, and its replicas have it all
 *                 "may be taken" saved; reads wait, too
 *                 TAKE with an epoch above all others ->   they are its: saved, then said to all
 *                 <- by the bus: they are its
 *
 * If something fails before TAKE was sent nothing has happened: the other node removes the keys. If the reply to TAKE is lost, all calls wait until it is
 * known what has happened, also after a start of this node: the other node says so, or the bus does; if it has failed to the majority the slots are taken back,
 * with a larger epoch. The other node refuses a TAKE that comes when this one may have given up, or been replaced: later than ten seconds after KEEP, or while the
 * cluster is down for it.
 *
 * With a controller (managed_move.h) TAKE names the version of the topology instead of an epoch, and "may be taken" is on this node's replicas, too, before it is sent: the
 * one that is promoted asks then. There is no bus: the other node, or the one that has replaced it, says whether it has the slots, or a later topology does.
 *
 * Jobs run one after the other on a thread, `kelvin-export`. Threads: any, without locks.
 */
#ifndef KELVIN_CLUSTER_SLOT_EXPORT_H
#define KELVIN_CLUSTER_SLOT_EXPORT_H

#include "base/buffer.h"
#include "base/message.h"
#include "cluster/node_id.h"
#include "cluster/slots.h"

struct cluster;
struct engine;
struct slot_export;

enum slot_export_state { EXPORT_QUEUED, EXPORT_CONNECTING, EXPORT_COPYING, EXPORT_HANDING_OVER, EXPORT_SUCCESS, EXPORT_FAILED, EXPORT_CANCELLED };
const char *slot_export_state_name(enum slot_export_state state);
bool slot_export_state_find(const char *name, enum slot_export_state *state);      /* false: no state has that name */
static inline bool slot_export_has_ended(enum slot_export_state state) { return state >= EXPORT_SUCCESS; }

struct slot_export_job {
    char name[NODE_ID_SIZE + 1];
    struct slots slots;
    struct node_id to;
    enum slot_export_state state;
    struct message message;             /* why it has failed */
    int64_t created_ms, started_ms, changed_ms;     /* Unix time; 0: not yet */
    uint64_t keys, bytes;               /* sent */
    int64_t held_us;                    /* how long writes have waited */
    bool is_resumed;                    /* it was handing over before a start, or on another node: only its outcome is looked up */
    uint64_t receipt;                   /* the other node's number of it, then */
};

/* Returns 0, or the error number: the system gives no thread. */
int slot_export_start(struct engine *engine, struct cluster *cluster, struct slot_export **exporter);
/* Ends the thread. A job that is handing over is left to the cluster. NULL is fine, for both. */
void slot_export_stop(struct slot_export *exporter);
void slot_export_destroy(struct slot_export *exporter);

/* The cluster has another topology, or has heard something of its primary: there may be a hand-over whose outcome this node has to look up. Any thread, with
 * any locks. NULL is fine. */
void slot_export_wake(struct slot_export *exporter);

/* Queues `count` jobs, with names of their own, or one with this name. False: none, as one has slots of one that has not ended, the name is taken, or too many
 * wait; `message` says which. */
bool slot_export_add(struct slot_export *exporter, const struct slots *slots, const struct node_id *to, int count, const char *name, struct message *message);
/* All that have not ended, or the one of this name, but for one of which TAKE was sent. Returns how many. */
int slot_export_cancel(struct slot_export *exporter, const char *name);
/* A copy of the job of this name. False: there is none. */
bool slot_export_find(struct slot_export *exporter, const char *name, struct slot_export_job *job);
/* Whether one has not ended. */
bool slot_export_is_busy(struct slot_export *exporter);
/* Waits until the job of this name has ended, the time is up, or the server ends; -1: no limit. Not on a worker, nor with a lock. False: there is none; *job is as it is then. */
bool slot_export_await(struct slot_export *exporter, const char *name, int64_t limit_ms, struct slot_export_job *job);
/* Copies of the jobs, the newest first: all that have not ended, and the last that have. The caller frees the array. */
int slot_export_list(struct slot_export *exporter, struct slot_export_job **jobs);

#endif
