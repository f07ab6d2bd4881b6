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
#include "cluster/peer_link.h"
#include "cluster/slot_copy.h"
#include "cluster/slot_words.h"
#include "engine/job.h"
#include "engine/role.h"

enum {
    JOBS_MAX = 64,
    JOBS_KEPT = 32,                 /* of those that have ended, no more than this in all */
    LINK_MS = 5000,                 /* for each step of the connection */
    COPY_MS = 30000,                /* the same while a value may be large */
    AGAIN_MS = 100,
    CONNECT_TRIES = 600,            /* while the other node receives from another one, or removes what it had received */
    TAKE_TRIES = 8,
    TAKE_AGAIN_MS = 30,
    KEEP_MS = 1000,
    RECEIPT_MS = 12000,             /* the other node refuses TAKE by then (bus_receipt.c) */
    SYNC_MS = 4000,                 /* for its replicas, and its disk: less than LINK_MS */
    LAG_MAX = 64 << 10,             /* bytes of the history that writes may wait for */
    FOLLOW_MS = 5,
    WORD_SIZE = 32,
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

/* The job that runs. Owner: the thread. */
struct run {
    struct slot_export *exporter;
    struct slot_export_job *job;    /* its own fields under the lock */
    struct slots slots;
    struct peer_link peer;          /* its message is why the job has failed */
    char receipt[WORD_SIZE];
    uint64_t epoch;                 /* the other node's current one, as of its last reply */
    int64_t kept_ms;
    int64_t heard_ms;               /* the time of the bus at which it had heard the other one last when that was to have dropped the slots; 0: before */
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

static void set_state(struct run *run, enum slot_export_state state)
{
    mutex_lock(&run->exporter->lock);
    run->job->state = state;
    run->job->changed_ms = clock_wall_ms();
    run->job->message = run->peer.message;
    mutex_unlock(&run->exporter->lock);
}

static bool fail(struct run *run, const char *text) { return peer_link_fail(&run->peer, text); }

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

static bool are_mine(const struct run *run)
{
    struct topology *topology = cluster_topology(run->exporter->cluster);
    bool are = are_owned_by(topology, &run->slots, topology->myself) && topology->nodes[topology->myself].flags & NODE_MASTER;

    topology_release(topology);
    return are;
}

/* Whether the job may go on. */
static bool may_go_on(struct run *run)
{
    struct slot_export *exporter = run->exporter;
    bool is_cancelled;

    mutex_lock(&exporter->lock);
    is_cancelled = exporter->is_cancelled;
    mutex_unlock(&exporter->lock);
    if (exporter->stopping || job_must_end(exporter->engine))
        return fail(run, "the server ends");
    if (is_cancelled)
        return fail(run, "cancelled");
    return are_mine(run) || fail(run, "the slots are not this node's any more");
}

/* --- The connection --- */

static bool ask_receipt(struct run *run, const char *what, const char *more, char *reply, size_t room)
{
    struct bytes words[] = { BYTES("CLUSTER"), BYTES("RECEIVESLOTS"), bytes_of_string(what), bytes_of_string(run->receipt),
                             more != NULL ? bytes_of_string(more) : BYTES("") };

    return peer_link_ask(&run->peer, words, more != NULL ? 5 : 4, reply, room);
}

/* The receipt goes on, and the reply is the other node's epoch. */
static bool keep_alive(struct run *run)
{
    char reply[WORD_SIZE];

    if (!ask_receipt(run, "KEEP", NULL, reply, sizeof(reply)))
        return false;
    run->epoch = strtoull(reply + 1, NULL, 10);
    run->kept_ms = clock_mono_us() / 1000;
    return true;
}

static bool begin_receipt(struct run *run, char *reply, size_t room)
{
    struct topology *topology = cluster_topology(run->exporter->cluster);
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
static bool connect_to(struct run *run)
{
    char reply[WORD_SIZE];

    if (!peer_link_open(&run->peer, LINK_MS))
        return false;
    for (int i = 0; i < CONNECT_TRIES && may_go_on(run); i++) {
        uint32_t version = waiting_version(&run->exporter->changed);

        if (begin_receipt(run, reply, sizeof(reply))) {
            snprintf(run->receipt, sizeof(run->receipt), "%s", reply + 1);
            return keep_alive(run);
        }
        if (strncmp(reply, "-TRYAGAIN", 9) != 0)
            return false;
        run->peer.message.text[0] = '\0';
        waiting_wait(&run->exporter->changed, version, AGAIN_MS);
    }
    return fail(run, "the other node receives slots of another migration");
}

/* --- Copying --- */

static bool send_commands(void *context, struct bytes commands, uint64_t count)
{
    struct run *run = context;
    char reply[WORD_SIZE];

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

static bool step(struct run *run, struct slot_copy *copy)
{
    struct message message = { "" };

    if (!may_go_on(run))
        return false;
    if (clock_mono_us() / 1000 - run->kept_ms > KEEP_MS && !keep_alive(run))
        return false;
    if (!slot_copy_step(copy, &message))
        return fail(run, message.text);
    mutex_lock(&run->exporter->lock);
    run->job->keys = slot_copy_key_count(copy);
    mutex_unlock(&run->exporter->lock);
    return true;
}

static bool copy_all(struct run *run, struct slot_copy *copy)
{
    for (;;) {
        if (!step(run, copy))
            return false;
        if (slot_copy_has_keys_left(copy))
            continue;
        if (slot_copy_lag(copy) <= LAG_MAX)
            return true;
        waiting_wait(&run->exporter->changed, waiting_version(&run->exporter->changed), FOLLOW_MS);
    }
}

/* --- Handing over --- */

/* False: they are not this node's any more, or the outcome can't be published now. */
static bool hold_writes(struct run *run)
{
    struct cluster *cluster = run->exporter->cluster;
    struct bus *bus = cluster_lock(cluster);
    const char *error = bus_hand_over(bus, &run->slots, &run->peer.node, strtoull(run->receipt, NULL, 10));
    struct topology *topology;
    bool is_done;

    (void)cluster_unlock(cluster);
    if (error != NULL)
        return fail(run, error);
    topology = cluster_topology(cluster);
    is_done = slots_equal(&topology->handed_over, &run->slots);         /* not while a promise of before can't be saved */
    topology_release(topology);
    return is_done || fail(run, "nodes.conf can't be saved");
}

static void release_writes(struct run *run)
{
    bus_end_hand_over(cluster_lock(run->exporter->cluster));
    (void)cluster_unlock(run->exporter->cluster);
}

/* Calls and units that had begun have ended. Returns the position of the last change. */
static uint64_t await_writes(struct run *run)
{
    struct partitions *all = run->exporter->engine->partitions;
    struct partition_bits wanted = { { 0 } };
    struct claim claim = { 0 };
    struct slot_range range;
    uint64_t lsn;

    for (unsigned at = 0; slots_next(&run->slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++)
            partition_bits_add(&wanted, partition_index(all, slot_first_hash((uint16_t)slot)));
    }
    partitions_own(all, &claim, &wanted);
    lsn = history_end(&run->exporter->engine->history);
    partitions_give(all, &claim, 0);
    return lsn;
}

/* How many replicas the other node should have. */
static int64_t count_replicas(const struct run *run)
{
    struct topology *topology = cluster_topology(run->exporter->cluster);
    int64_t count = 0;

    for (int i = 0; i < topology->count; i++) {
        const struct topology_node *node = &topology->nodes[i];

        count += node->master >= 0 && node_id_equal(&topology->nodes[node->master].id, &run->peer.node) && !(node->flags & NODE_FAIL);
    }
    topology_release(topology);
    return count;
}

/* *count: how many replicas are asked for, and found. */
static bool ask_replicas(struct run *run, int64_t *count)
{
    char wanted[TEXT_INT_SIZE], limit[TEXT_INT_SIZE], reply[WORD_SIZE];
    struct bytes words[] = { BYTES("WAIT"), bytes_of(wanted, text_of_int(*count, wanted)), bytes_of(limit, text_of_int(SYNC_MS, limit)) };

    if (!keep_alive(run) || !peer_link_ask(&run->peer, words, 3, reply, sizeof(reply)))
        return false;
    *count = strtoll(reply + 1, NULL, 10);
    return true;
}

/* Without a log there is nothing to sync. */
static bool sync_log(struct run *run)
{
    static const char no_log[] = "-ERR WAITAOF cannot be used";
    char limit[TEXT_INT_SIZE], reply[sizeof(no_log)];
    struct bytes words[] = { BYTES("WAITAOF"), BYTES("1"), BYTES("0"), bytes_of(limit, text_of_int(SYNC_MS, limit)) };

    if (!keep_alive(run))
        return false;
    if (peer_link_ask(&run->peer, words, 4, reply, sizeof(reply)))
        return strcmp(reply, ":1") == 0 || fail(run, "the other node's log was not synced in time");
    if (strcmp(reply, no_log) != 0)
        return false;
    run->peer.message.text[0] = '\0';
    return true;
}

/* The other node's disk and replicas have what those of this one had. Replicas that did not have it in time before writes were held are not waited for. */
static bool is_kept_there(struct run *run, int64_t replicas)
{
    int64_t found = replicas;

    if (!sync_log(run) || (replicas > 0 && !ask_replicas(run, &found)))
        return false;
    return found >= replicas || fail(run, "the replicas of the other node did not get it all in time");
}

enum fate { TAKEN, NOT_TAKEN, UNKNOWN };

/* Saved: a start has to ask what has become of it. */
static bool let_take(struct run *run)
{
    struct cluster *cluster = run->exporter->cluster;
    struct topology *topology = cluster_topology(cluster);
    bool is_ok = topology->is_ok;
    struct bus *bus;

    topology_release(topology);
    if (!is_ok)
        return fail(run, "the cluster is down for this node: it may have been replaced");
    bus = cluster_lock(cluster);
    if (bus->members->current_epoch > run->epoch)
        run->epoch = bus->members->current_epoch;       /* this node may have taken slots meanwhile */
    bus_let_take(bus, ++run->epoch);
    return cluster_unlock(cluster) == STATUS_OK || fail(run, "nodes.conf can't be saved");
}

/* The other node has refused the epoch, and no other was sent: it does not have the slots. Two nodes that hand slots over to each other refuse both, so each waits for a time of its
 * own, in which it takes what the other one hands over. */
static void wait_to_take(struct run *run)
{
    struct cluster *cluster = run->exporter->cluster;
    uint32_t version = waiting_version(&run->exporter->changed);

    bus_let_take(cluster_lock(cluster), 0);
    (void)cluster_unlock(cluster);
    waiting_wait(&run->exporter->changed, version, 1 + (int)(clock_mono_us() % TAKE_AGAIN_MS));
}

static enum fate take(struct run *run)
{
    char epoch[WORD_SIZE], reply[WORD_SIZE];

    for (int i = 0; i < TAKE_TRIES; i++) {
        if (!let_take(run))
            return NOT_TAKEN;
        snprintf(epoch, sizeof(epoch), "%llu", (unsigned long long)run->epoch);
        reply[0] = '\0';
        if (ask_receipt(run, "TAKE", epoch, reply, sizeof(reply)))
            return TAKEN;
        if (strncmp(reply, "-TRYAGAIN", 9) != 0)
            return UNKNOWN;             /* also after an error: it may only be the file that could not be saved yet */
        wait_to_take(run);
        if (!keep_alive(run))
            return NOT_TAKEN;
    }
    return NOT_TAKEN;
}

/* True: the other node has failed, or has said by the bus that it still does not have the slots, long after it would have dropped them; and the slots are
 * this node's again, with a larger epoch than the other one could take them with. If it has said that it took them, only its failure counts. */
static bool take_back(struct run *run, enum fate fate)
{
    struct cluster *cluster = run->exporter->cluster;
    struct bus *bus = cluster_lock(cluster);
    const struct node *other = members_find(bus->members, &run->peer.node);
    bool is_late = fate != TAKEN && clock_mono_us() / 1000 - run->kept_ms > RECEIPT_MS, is_over = other == NULL ? is_late : other->flags & NODE_FAIL;

    if (!is_over && is_late && run->heard_ms == 0)
        run->heard_ms = other->peer.heard_ms;
    else if (!is_over && is_late)
        is_over = other->peer.heard_ms != run->heard_ms;
    is_over = is_over && bus_take_back(bus);
    (void)cluster_unlock(cluster);
    return is_over;
}

/* Ends it, unless the other node has taken the slots: it replies 1 then. */
static bool end_receipt(struct run *run, char *reply, size_t room)
{
    struct slot_range range;
    char slot[WORD_SIZE];

    (void)slots_next(&run->slots, 0, &range);
    snprintf(slot, sizeof(slot), "%u", range.first);
    return ask_receipt(run, "END", slot, reply, room);
}

/* Asks the other node what has become of it; if it has not taken the slots, it will not. */
static enum fate look_up_fate(struct run *run)
{
    struct message why = run->peer.message;
    enum fate fate = UNKNOWN;
    char reply[WORD_SIZE];

    if (peer_link_open(&run->peer, LINK_MS) && end_receipt(run, reply, sizeof(reply)))
        fate = reply[1] == '1' ? TAKEN : NOT_TAKEN;
    run->peer.message = why;
    return fate;
}

/* Until the outcome is known, or the server ends: a shutdown that is given up changes nothing. */
static bool end_hand_over(struct run *run, enum fate fate)
{
    while (!run->exporter->stopping) {
        uint32_t version = waiting_version(&run->exporter->changed);

        if (!are_mine(run)) {
            run->peer.message.text[0] = '\0';
            return true;
        }
        if (fate == UNKNOWN)
            fate = look_up_fate(run);
        if (fate == NOT_TAKEN)
            return fail(run, "the other node has not taken the slots");
        if (take_back(run, fate))
            return fail(run, "the other node has failed, or can't be reached");
        waiting_wait(&run->exporter->changed, version, fate == TAKEN ? FOLLOW_MS : AGAIN_MS);
    }
    return fail(run, "the server ends");
}

static bool hand_over(struct run *run, struct slot_copy *copy)
{
    struct message message = { "" };
    int64_t begin_us, replicas = count_replicas(run);
    bool is_done = false;

    run->peer.link.timeout_ms = LINK_MS;
    if ((replicas > 0 && !ask_replicas(run, &replicas)) || !sync_log(run) || !keep_alive(run))
        return false;
    set_state(run, EXPORT_HANDING_OVER);
    begin_us = clock_mono_us();
    if (hold_writes(run)) {
        if (!slot_copy_finish(copy, await_writes(run), &message))
            (void)fail(run, message.text);
        else if (is_kept_there(run, replicas) && keep_alive(run) && may_go_on(run))
            is_done = end_hand_over(run, take(run));
        if (!run->exporter->stopping)       /* else writes may be the other node's by now */
            release_writes(run);
    }
    mutex_lock(&run->exporter->lock);
    run->job->held_us = clock_mono_us() - begin_us;
    mutex_unlock(&run->exporter->lock);
    return is_done;
}

/* --- Jobs --- */

/* A hand-over of before a start: the other node may have taken the slots. */
static bool resume_job(struct run *run)
{
    bool is_done;

    set_state(run, EXPORT_HANDING_OVER);
    run->kept_ms = clock_mono_us() / 1000;
    snprintf(run->receipt, sizeof(run->receipt), "%llu", (unsigned long long)run->job->resumed);
    is_done = end_hand_over(run, UNKNOWN);
    if (!run->exporter->stopping)
        release_writes(run);
    return is_done;
}

static bool migrate(struct run *run)
{
    struct slot_copy *copy;
    bool is_done;
    char reply[WORD_SIZE];

    set_state(run, EXPORT_CONNECTING);
    if (!may_go_on(run) || !connect_to(run))
        return false;
    set_state(run, EXPORT_COPYING);
    run->peer.link.timeout_ms = COPY_MS;
    copy = slot_copy_create(run->exporter->engine, &run->slots, send_commands, run, &run->peer.message);
    is_done = copy != NULL && copy_all(run, copy) && hand_over(run, copy);
    slot_copy_destroy(copy);
    if (!is_done && peer_link_is_open(&run->peer)) {
        struct message why = run->peer.message;

        (void)end_receipt(run, reply, sizeof(reply));       /* or it finds out by itself */
        run->peer.message = why;
    }
    return is_done;
}

static void run_job(struct slot_export *exporter, struct slot_export_job *job)
{
    struct run run = { .exporter = exporter, .job = job, .slots = job->slots };
    struct log *log = exporter->engine->log;
    bool is_done, is_cancelled;

    peer_link_init(&run.peer, exporter->engine, exporter->cluster, &job->to, "the other node");
    log_write(log, LOG_LEVEL_NOTICE, "Migration %s of %u slots to %.40s begins", job->name, slots_count(&run.slots), job->to.text);
    is_done = job->resumed != 0 ? resume_job(&run) : migrate(&run);
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

/* Adds the hand-over that a start has interrupted, as nodes.conf says. */
static void add_interrupted(struct slot_export *exporter)
{
    struct topology *topology = cluster_topology(exporter->cluster);

    mutex_lock(&exporter->lock);
    if (topology->handed_epoch != 0)
        add_job(exporter, &topology->handed_over, &topology->handed_to, NULL)->resumed = topology->handed_receipt;
    mutex_unlock(&exporter->lock);
    topology_release(topology);
}

static void export_main(void *context)
{
    struct slot_export *exporter = context;

    while (exporter->engine->state == ENGINE_LOADING && !exporter->stopping)
        waiting_wait(&exporter->changed, waiting_version(&exporter->changed), AGAIN_MS);
    while (!exporter->stopping) {
        uint32_t version = waiting_version(&exporter->changed);
        struct slot_export_job *job = next_job(exporter);

        if (job != NULL)
            run_job(exporter, job);
        else
            waiting_wait(&exporter->changed, version, -1);
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
