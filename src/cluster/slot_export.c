#include "cluster/slot_export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/text.h"
#include "base/thread.h"
#include "cluster/cluster.h"
#include "cluster/slot_copy.h"
#include "cluster/slot_run.h"
#include "cluster/slot_settle.h"
#include "cluster/slot_words.h"
#include "engine/job.h"
#include "engine/role.h"

enum {
    JOBS_MAX = 64,
    JOBS_KEPT = 32,                 /* of those that have ended, no more than this in all */
    COPY_MS = 30000,                /* the same while a value may be large */
    CONNECT_TRIES = 600,            /* while the other node receives from another one, or removes what it had received */
    TAKE_TRIES = 8,
    TAKE_AGAIN_MS = 30,
    KEEP_MS = 1000,
    RECEIPT_MS = 12000,             /* the other node refuses TAKE by then (bus_receipt.c) */
    LAG_MAX = 64 << 10,             /* bytes of the history that writes may wait for */
    FOLLOW_MS = 5,
    AWAIT_MS = 100,                 /* until it is looked whether the server ends */
};

struct slot_export {
    struct engine *engine;
    struct cluster *cluster;
    struct thread thread;
    struct waiting changed;
    _Atomic bool stopping;
    struct random random;           /* under the lock */
    struct mutex lock;              /* guards what follows */
    struct slot_export_job jobs[JOBS_MAX];      /* the oldest first */
    int count;
    bool is_cancelled;              /* the one that runs */
};

static const char *const state_names[] = { "waiting", "connecting", "copying", "handing-over", "success", "failed", "cancelled" };

const char *slot_export_state_name(enum slot_export_state state) { return state_names[state]; }

bool slot_export_state_find(const char *name, enum slot_export_state *state)
{
    for (size_t i = 0; i < sizeof(state_names) / sizeof(state_names[0]); i++) {
        *state = (enum slot_export_state)i;
        if (strcmp(name, state_names[i]) == 0)
            return true;
    }
    return false;
}

static bool has_ended(const struct slot_export_job *job) { return slot_export_has_ended(job->state); }

static void set_state(struct slot_run *run, enum slot_export_state state)
{
    mutex_lock(&run->exporter->lock);
    run->job->state = state;
    run->job->changed_ms = clock_wall_ms();
    run->job->message = run->peer.message;
    mutex_unlock(&run->exporter->lock);
    if (slot_export_has_ended(state))
        waiting_bump(run->changed);
}

/* --- The slots --- */

/* Whether all of them have this owner. */
static bool are_owned_by(const struct topology *topology, const struct slots *slots, int owner)
{
    struct slot_range range;

    for (unsigned at = 0; slots_next(slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            if (topology->owners[slot] != owner)
                return false;
        }
    }
    return true;
}

static bool are_mine(const struct slot_run *run)
{
    struct topology *topology = cluster_topology(run->cluster);
    bool are = are_owned_by(topology, &run->slots, topology->myself) && topology->nodes[topology->myself].flags & NODE_MASTER;

    topology_release(topology);
    return are;
}

/* Whether the job may go on. */
static bool may_go_on(struct slot_run *run)
{
    struct slot_export *exporter = run->exporter;
    bool is_cancelled;

    mutex_lock(&exporter->lock);
    is_cancelled = exporter->is_cancelled;
    mutex_unlock(&exporter->lock);
    if (exporter->stopping || job_must_end(exporter->engine))
        return slot_run_fail(run, "the server ends");
    if (is_cancelled)
        return slot_run_fail(run, "cancelled");
    return are_mine(run) || slot_run_fail(run, "the slots are not this node's any more");
}

/* --- The connection --- */

static bool begin_receipt(struct slot_run *run, char *reply, size_t room)
{
    struct topology *topology = cluster_topology(run->cluster);
    struct slot_words words;
    bool is_good;

    slot_words_init(&words);
    slot_words_add(&words, BYTES("CLUSTER"));
    slot_words_add(&words, BYTES("RECEIVESLOTS"));
    slot_words_add(&words, BYTES("BEGIN"));
    slot_words_add(&words, bytes_of(topology->nodes[topology->myself].id.text, NODE_ID_SIZE));
    slot_words_add_slots(&words, &run->slots);
    is_good = peer_link_ask(&run->peer, words.words, words.count, reply, room);
    slot_words_release(&words);
    topology_release(topology);
    return is_good;
}

/* The other node may receive from another one, or still remove what it has received before. */
static bool connect_to(struct slot_run *run)
{
    char reply[SLOT_RUN_WORD_SIZE];

    if (!peer_link_open(&run->peer, SLOT_RUN_LINK_MS))
        return false;
    for (int i = 0; i < CONNECT_TRIES && may_go_on(run); i++) {
        uint32_t version = waiting_version(run->changed);

        if (begin_receipt(run, reply, sizeof(reply))) {
            snprintf(run->receipt, sizeof(run->receipt), "%s", reply + 1);
            return slot_run_keep(run);
        }
        if (strncmp(reply, "-TRYAGAIN", 9) != 0)
            return false;
        run->peer.message.text[0] = '\0';
        waiting_wait(run->changed, version, SLOT_RUN_AGAIN_MS);
    }
    return slot_run_fail(run, "the other node receives slots of another migration");
}

/* --- Copying --- */

static bool send_commands(void *context, struct bytes commands, uint64_t count)
{
    struct slot_run *run = context;
    char reply[SLOT_RUN_WORD_SIZE];

    if (!peer_link_write(&run->peer, commands))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        if (!peer_link_read_reply(&run->peer, reply, sizeof(reply)))
            return false;
    }
    mutex_lock(&run->exporter->lock);
    run->job->bytes += commands.size;
    mutex_unlock(&run->exporter->lock);
    return true;
}

static bool step(struct slot_run *run, struct slot_copy *copy)
{
    struct message message = { "" };

    if (!may_go_on(run))
        return false;
    if (clock_mono_us() / 1000 - run->kept_ms > KEEP_MS && !slot_run_keep(run))
        return false;
    if (!slot_copy_step(copy, &message))
        return slot_run_fail(run, message.text);
    mutex_lock(&run->exporter->lock);
    run->job->keys = slot_copy_key_count(copy);
    mutex_unlock(&run->exporter->lock);
    return true;
}

static bool copy_all(struct slot_run *run, struct slot_copy *copy)
{
    bool is_due = false;

    for (;;) {
        if (!step(run, copy))
            return false;
        if (slot_copy_has_keys_left(copy))
            continue;
        if (slot_copy_lag(copy) <= LAG_MAX && !slot_settle_compare_versions(run, &is_due))
            return false;
        if (slot_copy_lag(copy) <= LAG_MAX && is_due)
            return true;
        waiting_wait(run->changed, waiting_version(run->changed), FOLLOW_MS);
    }
}

/* --- Handing over --- */

/* False: they are not this node's any more, or the outcome can't be published now. */
static bool hold_writes(struct slot_run *run)
{
    struct cluster *cluster = run->cluster;
    struct bus *bus = cluster_lock(cluster);
    const char *error = bus_hand_over(bus, &run->slots, &run->peer.node, strtoull(run->receipt, NULL, 10));
    struct topology *topology;
    bool is_done;

    (void)cluster_unlock(cluster);
    if (error != NULL)
        return slot_run_fail(run, error);
    topology = cluster_topology(cluster);
    is_done = slots_equal(&topology->handed_over, &run->slots);         /* not while a promise of before can't be saved */
    topology_release(topology);
    return is_done || slot_run_fail(run, "nodes.conf can't be saved");
}

static void release_writes(struct slot_run *run)
{
    bus_end_hand_over(cluster_lock(run->cluster));
    (void)cluster_unlock(run->cluster);
}

/* Calls and units that had begun have ended. Returns the position of the last change. */
static uint64_t await_writes(struct slot_run *run)
{
    struct partitions *all = run->engine->partitions;
    struct partition_bits wanted = { { 0 } };
    struct claim claim = { 0 };
    struct slot_range range;
    uint64_t lsn;

    for (unsigned at = 0; slots_next(&run->slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++)
            partition_bits_add(&wanted, partition_index(all, slot_first_hash((uint16_t)slot)));
    }
    partitions_own(all, &claim, &wanted);
    lsn = history_end(&run->engine->history);
    partitions_give(all, &claim, 0);
    return lsn;
}

/* *count: how many replicas are asked for, and found. */
static bool ask_replicas(struct slot_run *run, int64_t *count)
{
    char wanted[TEXT_INT_SIZE], limit[TEXT_INT_SIZE], reply[SLOT_RUN_WORD_SIZE];
    struct bytes words[] = { BYTES("WAIT"), bytes_of(wanted, text_of_int(*count, wanted)), bytes_of(limit, text_of_int(SLOT_RUN_SYNC_MS, limit)) };

    if (!slot_run_keep(run) || !peer_link_ask(&run->peer, words, 3, reply, sizeof(reply)))
        return false;
    *count = strtoll(reply + 1, NULL, 10);
    return true;
}

/* Without a log there is nothing to sync. */
static bool sync_log(struct slot_run *run)
{
    static const char no_log[] = "-ERR WAITAOF cannot be used";
    char limit[TEXT_INT_SIZE], reply[sizeof(no_log)];
    struct bytes words[] = { BYTES("WAITAOF"), BYTES("1"), BYTES("0"), bytes_of(limit, text_of_int(SLOT_RUN_SYNC_MS, limit)) };

    if (!slot_run_keep(run))
        return false;
    if (peer_link_ask(&run->peer, words, 4, reply, sizeof(reply)))
        return strcmp(reply, ":1") == 0 || slot_run_fail(run, "the other node's log was not synced in time");
    if (strcmp(reply, no_log) != 0)
        return false;
    run->peer.message.text[0] = '\0';
    return true;
}

/* The other node's disk and replicas have what those of this one had. Replicas that did not have it in time before writes were held are not waited for. */
static bool is_kept_there(struct slot_run *run, int64_t replicas)
{
    int64_t found = replicas;

    if (!sync_log(run) || (replicas > 0 && !ask_replicas(run, &found)))
        return false;
    return found >= replicas || slot_run_fail(run, "the replicas of the other node did not get it all in time");
}

/* Saved: a start has to ask what has become of it. */
static bool let_take(struct slot_run *run)
{
    struct cluster *cluster = run->cluster;
    struct topology *topology = cluster_topology(cluster);
    bool is_ok = topology->is_ok;
    struct bus *bus;

    topology_release(topology);
    if (!is_ok)
        return slot_run_fail(run, "the cluster is down for this node: it may have been replaced");
    bus = cluster_lock(cluster);
    if (bus->members->current_epoch > run->epoch)
        run->epoch = bus->members->current_epoch;       /* this node may have taken slots meanwhile */
    bus_let_take(bus, ++run->epoch);
    return cluster_unlock(cluster) == STATUS_OK || slot_run_fail(run, "nodes.conf can't be saved");
}

/* The other node has refused the epoch, and no other was sent: it does not have the slots. Two nodes that hand slots over to each other refuse both, so each waits for a time of its
 * own, in which it takes what the other one hands over. */
static void wait_to_take(struct slot_run *run)
{
    struct cluster *cluster = run->cluster;
    uint32_t version = waiting_version(run->changed);

    bus_let_take(cluster_lock(cluster), 0);
    (void)cluster_unlock(cluster);
    waiting_wait(run->changed, version, 1 + (int)(clock_mono_us() % TAKE_AGAIN_MS));
}

static enum slot_fate take(struct slot_run *run)
{
    char epoch[SLOT_RUN_WORD_SIZE], reply[SLOT_RUN_WORD_SIZE];

    for (int i = 0; i < TAKE_TRIES; i++) {
        if (!let_take(run))
            return SLOT_NOT_TAKEN;
        snprintf(epoch, sizeof(epoch), "%llu", (unsigned long long)run->epoch);
        reply[0] = '\0';
        if (slot_run_ask(run, "TAKE", epoch, reply, sizeof(reply)))
            return SLOT_TAKEN;
        if (strncmp(reply, "-TRYAGAIN", 9) != 0)
            return SLOT_FATE_UNKNOWN;             /* also after an error: it may only be the file that could not be saved yet */
        wait_to_take(run);
        if (!slot_run_keep(run))
            return SLOT_NOT_TAKEN;
    }
    return SLOT_NOT_TAKEN;
}

/* True: the other node has failed, or has said by the bus that it still does not have the slots, long after it would have dropped them; and the slots are
 * this node's again, with a larger epoch than the other one could take them with. If it has said that it took them, only its failure counts. */
static bool take_back(struct slot_run *run, enum slot_fate fate)
{
    struct cluster *cluster = run->cluster;
    struct bus *bus = cluster_lock(cluster);
    const struct node *other = members_find(bus->members, &run->peer.node);
    bool is_late = fate != SLOT_TAKEN && clock_mono_us() / 1000 - run->kept_ms > RECEIPT_MS, is_over = other == NULL ? is_late : other->flags & NODE_FAIL;

    if (!is_over && is_late && run->heard_ms == 0)
        run->heard_ms = other->peer.heard_ms;
    else if (!is_over && is_late)
        is_over = other->peer.heard_ms != run->heard_ms;
    is_over = is_over && bus_take_back(bus);
    (void)cluster_unlock(cluster);
    return is_over;
}

/* Until the outcome is known, or the server ends: a shutdown that is given up changes nothing. */
static bool end_hand_over(struct slot_run *run, enum slot_fate fate)
{
    while (!*run->stopping) {
        uint32_t version = waiting_version(run->changed);

        if (!are_mine(run)) {
            run->peer.message.text[0] = '\0';
            return true;
        }
        if (fate == SLOT_FATE_UNKNOWN)
            fate = slot_run_look_up(run);
        if (fate == SLOT_NOT_TAKEN)
            return slot_run_fail(run, "the other node has not taken the slots");
        if (take_back(run, fate))
            return slot_run_fail(run, "the other node has failed, or can't be reached");
        waiting_wait(run->changed, version, fate == SLOT_TAKEN ? FOLLOW_MS : SLOT_RUN_AGAIN_MS);
    }
    return slot_run_fail(run, "the server ends");
}

static bool hand_over(struct slot_run *run, struct slot_copy *copy)
{
    struct message message = { "" };
    int64_t begin_us, named = slot_run_count_replicas(run, &run->peer.node, &run->peer.node), replicas = named;
    bool is_done = false;

    run->peer.link.timeout_ms = SLOT_RUN_LINK_MS;
    if ((replicas > 0 && !ask_replicas(run, &replicas)) || !sync_log(run) || !slot_run_keep(run))
        return false;
    if (run->is_managed && replicas < named)
        return slot_run_fail(run, "a replica of the other node does not reply: it would not have the slots if it were promoted");
    set_state(run, EXPORT_HANDING_OVER);
    begin_us = clock_mono_us();
    if (hold_writes(run)) {
        if (!slot_copy_finish(copy, await_writes(run), &message))
            (void)slot_run_fail(run, message.text);
        else if (is_kept_there(run, replicas) && slot_run_keep(run) && may_go_on(run))
            is_done = run->is_managed ? slot_settle(run, slot_settle_take(run)) : end_hand_over(run, take(run));
        if (!*run->stopping && !run->leaves_doubt)         /* else writes may be the other node's by now */
            release_writes(run);
    }
    mutex_lock(&run->exporter->lock);
    run->job->held_us = clock_mono_us() - begin_us;
    mutex_unlock(&run->exporter->lock);
    return is_done;
}

/* --- Jobs --- */

/* A hand-over of before a start: the other node may have taken the slots. */
static bool resume_job(struct slot_run *run)
{
    bool is_done;

    set_state(run, EXPORT_HANDING_OVER);
    run->kept_ms = clock_mono_us() / 1000;
    snprintf(run->receipt, sizeof(run->receipt), "%llu", (unsigned long long)run->job->receipt);
    is_done = run->is_managed ? slot_settle(run, SLOT_FATE_UNKNOWN) : end_hand_over(run, SLOT_FATE_UNKNOWN);
    if (!*run->stopping && !run->leaves_doubt)
        release_writes(run);
    return is_done;
}

static bool migrate(struct slot_run *run)
{
    struct slot_copy *copy;
    bool is_done;
    char reply[SLOT_RUN_WORD_SIZE];

    set_state(run, EXPORT_CONNECTING);
    if (!may_go_on(run) || !connect_to(run))
        return false;
    set_state(run, EXPORT_COPYING);
    run->peer.link.timeout_ms = COPY_MS;
    copy = slot_copy_create(run->engine, &run->slots, send_commands, run, &run->peer.message);
    is_done = copy != NULL && copy_all(run, copy) && hand_over(run, copy);
    slot_copy_destroy(copy);
    if (!is_done && peer_link_is_open(&run->peer)) {
        struct message why = run->peer.message;

        (void)slot_run_end(run, reply, sizeof(reply));       /* or it finds out by itself */
        run->peer.message = why;
    }
    return is_done;
}

static bool is_managed(const struct slot_export *exporter)
{
    struct topology *topology = cluster_topology(exporter->cluster);
    bool is = topology->is_managed;

    topology_release(topology);
    return is;
}

static void run_job(struct slot_export *exporter, struct slot_export_job *job)
{
    struct slot_run run = { .exporter = exporter, .job = job, .engine = exporter->engine, .cluster = exporter->cluster, .changed = &exporter->changed, .stopping = &exporter->stopping,
        .slots = job->slots, .is_managed = is_managed(exporter) };
    struct log *log = exporter->engine->log;
    bool is_done, is_cancelled;

    peer_link_init(&run.peer, exporter->engine, exporter->cluster, &job->to, "the other node");
    log_write(log, LOG_LEVEL_NOTICE, "Migration %s of %u slots to %.40s begins", job->name, slots_count(&run.slots), job->to.text);
    is_done = job->is_resumed ? resume_job(&run) : migrate(&run);
    peer_link_close(&run.peer);
    mutex_lock(&exporter->lock);
    is_cancelled = exporter->is_cancelled;
    mutex_unlock(&exporter->lock);
    set_state(&run, is_done ? EXPORT_SUCCESS : is_cancelled ? EXPORT_CANCELLED : EXPORT_FAILED);
    if (is_done)
        log_write(log, LOG_LEVEL_NOTICE, "Migration %s has ended: %llu keys, %llu bytes, writes waited %lld us", job->name, (unsigned long long)job->keys,
            (unsigned long long)job->bytes, (long long)job->held_us);
    else
        log_write(log, LOG_LEVEL_WARNING, "Migration %s was given up: %s", job->name, run.peer.message.text);
}

/* Between two jobs, as the one that runs stays where it is. */
static void forget_ended(struct slot_export *exporter) REQUIRES(exporter->lock);
static void forget_ended(struct slot_export *exporter)
{
    for (int i = 0; i < exporter->count && exporter->count > JOBS_KEPT; i++) {
        if (!has_ended(&exporter->jobs[i]))
            continue;
        exporter->count--;
        memmove(&exporter->jobs[i], &exporter->jobs[i + 1], (size_t)(exporter->count - i) * sizeof(exporter->jobs[0]));
        i--;
    }
}

/* NULL: none waits. */
static struct slot_export_job *next_job(struct slot_export *exporter)
{
    struct slot_export_job *next = NULL;

    mutex_lock(&exporter->lock);
    forget_ended(exporter);
    for (int i = 0; i < exporter->count && next == NULL; i++) {
        if (exporter->jobs[i].state == EXPORT_QUEUED)
            next = &exporter->jobs[i];
    }
    if (next != NULL) {
        next->state = EXPORT_CONNECTING;
        next->started_ms = clock_wall_ms();
        exporter->is_cancelled = false;
    }
    mutex_unlock(&exporter->lock);
    return next;
}

static struct slot_export_job *find_job(struct slot_export *exporter, const char *name) REQUIRES(exporter->lock);
static struct slot_export_job *find_job(struct slot_export *exporter, const char *name)
{
    for (int i = 0; i < exporter->count; i++) {
        if (strcmp(exporter->jobs[i].name, name) == 0)
            return &exporter->jobs[i];
    }
    return NULL;
}

/* `name` NULL: a new one. */
static struct slot_export_job *add_job(struct slot_export *exporter, const struct slots *slots, const struct node_id *to, const char *name)
    REQUIRES(exporter->lock);
static struct slot_export_job *add_job(struct slot_export *exporter, const struct slots *slots, const struct node_id *to, const char *name)
{
    struct slot_export_job *job = &exporter->jobs[exporter->count++];
    int64_t now_ms = clock_wall_ms();
    struct node_id made;

    node_id_make(&exporter->random, &made);
    *job = (struct slot_export_job){ .slots = *slots, .to = *to, .created_ms = now_ms, .changed_ms = now_ms };
    snprintf(job->name, sizeof(job->name), "%.40s", name != NULL ? name : made.text);
    return job;
}

/* Adds the hand-over that a start has interrupted, as nodes.conf says, or whose primary this node has replaced. No job runs. */
static void add_interrupted(struct slot_export *exporter)
{
    struct topology *topology = cluster_topology(exporter->cluster);

    mutex_lock(&exporter->lock);
    forget_ended(exporter);
    if (topology->handed_epoch != 0 && topology->nodes[topology->myself].master < 0 && exporter->count < JOBS_MAX) {
        struct slot_export_job *job = add_job(exporter, &topology->handed_over, &topology->handed_to, NULL);

        job->is_resumed = true;
        job->receipt = topology->handed_receipt;
    }
    mutex_unlock(&exporter->lock);
    topology_release(topology);
}

/* With a controller: an event, so that what the primary has said is saved, and what this node has to find out if it has replaced one. Returns in how many milliseconds there
 * is to be another one, as a sender of slots may say nothing any more; -1: when it is woken. */
static int64_t take_note(struct slot_export *exporter)
{
    struct topology *topology;
    int64_t again_ms = -1;

    if (!is_managed(exporter))
        return -1;
    (void)cluster_lock(exporter->cluster);
    (void)cluster_unlock(exporter->cluster);
    add_interrupted(exporter);
    topology = cluster_topology(exporter->cluster);
    if (topology->receipt != 0)
        again_ms = KEEP_MS;
    topology_release(topology);
    return again_ms;
}

static void export_main(void *context)
{
    struct slot_export *exporter = context;

    while (exporter->engine->state == ENGINE_LOADING && !exporter->stopping)
        waiting_wait(&exporter->changed, waiting_version(&exporter->changed), SLOT_RUN_AGAIN_MS);
    while (!exporter->stopping) {
        uint32_t version = waiting_version(&exporter->changed);
        struct slot_export_job *job = next_job(exporter);
        int64_t again_ms = -1;

        if (job == NULL) {
            again_ms = take_note(exporter);
            job = next_job(exporter);
        }
        if (job != NULL)
            run_job(exporter, job);
        else
            waiting_wait(&exporter->changed, version, again_ms);
    }
}

int slot_export_start(struct engine *engine, struct cluster *cluster, struct slot_export **exporter)
{
    struct slot_export *new = mem_zalloc(sizeof(*new));
    uint64_t seed;
    int error;

    new->engine = engine;
    new->cluster = cluster;
    random_system(&seed, sizeof(seed));
    random_init(&new->random, seed);
    mutex_init(&new->lock);
    add_interrupted(new);
    error = thread_start(&new->thread, "kelvin-export", engine->meter, export_main, new);
    *exporter = new;
    if (error == 0)
        return 0;
    slot_export_destroy(new);
    *exporter = NULL;
    return error;
}

void slot_export_stop(struct slot_export *exporter)
{
    if (exporter == NULL)
        return;
    exporter->stopping = true;
    waiting_bump(&exporter->changed);
    waiting_bump(&exporter->engine->waiting);
    thread_join(&exporter->thread);
}

void slot_export_destroy(struct slot_export *exporter)
{
    if (exporter == NULL)
        return;
    mutex_release(&exporter->lock);
    mem_free(exporter);
}

void slot_export_wake(struct slot_export *exporter)
{
    if (exporter != NULL)
        waiting_bump(&exporter->changed);
}

bool slot_export_is_busy(struct slot_export *exporter)
{
    bool is_busy = false;

    mutex_lock(&exporter->lock);
    for (int i = 0; i < exporter->count; i++)
        is_busy |= !has_ended(&exporter->jobs[i]);
    mutex_unlock(&exporter->lock);
    return is_busy;
}

bool slot_export_await(struct slot_export *exporter, const char *name, int64_t limit_ms, struct slot_export_job *job)
{
    int64_t begin_ms = clock_mono_us() / 1000;

    for (;;) {
        uint32_t version = waiting_version(&exporter->changed);
        int64_t left_ms = limit_ms < 0 ? AWAIT_MS : limit_ms - (clock_mono_us() / 1000 - begin_ms);

        if (!slot_export_find(exporter, name, job))
            return false;
        if (has_ended(job) || left_ms <= 0 || exporter->stopping || job_must_end(exporter->engine))
            return true;
        waiting_wait(&exporter->changed, version, left_ms < AWAIT_MS ? left_ms : AWAIT_MS);
    }
}

/* Whether a job that has not ended has some of the slots. */
static bool are_in_use(const struct slot_export *exporter, const struct slots *slots) REQUIRES(exporter->lock);
static bool are_in_use(const struct slot_export *exporter, const struct slots *slots)
{
    for (int i = 0; i < exporter->count; i++) {
        if (!has_ended(&exporter->jobs[i]) && slots_overlap(&exporter->jobs[i].slots, slots))
            return true;
    }
    return false;
}

bool slot_export_add(struct slot_export *exporter, const struct slots *slots, const struct node_id *to, int count, const char *name, struct message *message)
{
    mutex_lock(&exporter->lock);
    if (name != NULL && find_job(exporter, name) != NULL)
        message_set(message, "there is a migration of that name");
    for (int i = 0; i < count; i++) {
        if (are_in_use(exporter, &slots[i]))
            message_set(message, "some of the slots are being migrated already");
    }
    if (exporter->count + count > JOBS_MAX)
        message_set(message, "too many migrations wait");
    for (int i = 0; i < count && message_is_empty(message); i++)
        (void)add_job(exporter, &slots[i], &to[i], name);
    mutex_unlock(&exporter->lock);
    waiting_bump(&exporter->changed);
    return message_is_empty(message);
}

int slot_export_cancel(struct slot_export *exporter, const char *name)
{
    int count = 0;

    mutex_lock(&exporter->lock);
    for (int i = 0; i < exporter->count; i++) {
        struct slot_export_job *job = &exporter->jobs[i];

        if (has_ended(job) || (name != NULL && strcmp(name, job->name) != 0))
            continue;
        count++;
        if (job->state == EXPORT_QUEUED) {
            job->state = EXPORT_CANCELLED;
            job->changed_ms = clock_wall_ms();
        } else {
            exporter->is_cancelled = true;
        }
    }
    mutex_unlock(&exporter->lock);
    waiting_bump(&exporter->changed);
    return count;
}

bool slot_export_find(struct slot_export *exporter, const char *name, struct slot_export_job *job)
{
    struct slot_export_job *found;

    mutex_lock(&exporter->lock);
    found = find_job(exporter, name);
    if (found != NULL)
        *job = *found;
    mutex_unlock(&exporter->lock);
    return found != NULL;
}

int slot_export_list(struct slot_export *exporter, struct slot_export_job **jobs)
{
    int count;

    *jobs = mem_alloc(JOBS_MAX * sizeof(**jobs));
    mutex_lock(&exporter->lock);
    count = exporter->count;
    for (int i = 0; i < count; i++)
        (*jobs)[i] = exporter->jobs[count - 1 - i];
    mutex_unlock(&exporter->lock);
    return count;
}
