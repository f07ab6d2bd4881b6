/* PSYNC, SYNC and REPLCONF, which replicas call, and REPLICAOF. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "call/call.h"
#include "commands/handlers.h"
#include "engine/engine.h"
#include "engine/role.h"
#include "engine/unit.h"
#include "engine/job.h"
#include "replication/failover.h"
#include "replication/follow.h"
#include "replication/image_offer.h"
#include "replication/primary.h"

/* A replica has data to give away only while it has its primary's. */
static bool has_data(struct call *call)
{
    if (failover_state(call->engine->replication.failover) != VIEW_NO_FAILOVER) {
        reply_errorf(call, "NOMASTERLINK Can't SYNC while failing over");
        return false;
    }
    if (call->engine->replication.has_lost_data) {
        reply_errorf(call, "NOMASTERLINK This node of a cluster has started without its data: a replica should take over, and not copy that");
        return false;
    }
    if (!role_is_replica(call->engine) || role_link_is_up(call->engine))
        return true;
    reply_errorf(call, "NOMASTERLINK Can't SYNC while not connected with my master");
    return false;
}

/* PSYNC with FAILOVER: this server becomes a primary first. */
struct take_over_job {
    struct job job;
    char id[HISTORY_ID_SIZE];
    size_t id_size;
    enum follow_take_over result;
};

static void run_take_over(struct job *base, struct engine *engine)
{
    struct take_over_job *job = (struct take_over_job *)base;

    job->result = follow_take_over(engine->replication.follow, bytes_of(job->id, job->id_size));
}

static void start_take_over(struct call *call)
{
    struct take_over_job *job = mem_zalloc(sizeof(*job));
    struct bytes id = call->args[1];

    job->job = (struct job){ .run = run_take_over };
    job->id_size = id.size == HISTORY_ID_SIZE ? id.size : 0;
    memcpy(job->id, id.data, job->id_size);
    call_start_job(call, &job->job);
}

/* False: it has replied an error, or waits. */
static bool take_over(struct call *call)
{
    const struct take_over_job *done = call_job(call);

    if (done == NULL) {
        start_take_over(call);
        return false;
    }
    if (done->result == FOLLOW_IS_PRIMARY)
        reply_errorf(call, "ERR PSYNC FAILOVER can't be sent to a master.");
    else if (done->result == FOLLOW_HAS_OTHER_ID)
        reply_errorf(call, "ERR PSYNC FAILOVER replid must match my replid.");
    return done->result == FOLLOW_TAKEN_OVER;
}

/* SYNC and PSYNC of such a client do nothing, as in Redis. */
static bool is_fed(const struct client *client)
{
    return client->flags & (CLIENT_REPLICA | CLIENT_MONITOR);
}

void psync_command(struct call *call)
{
    bool with_failover = call->arg_count > 3 && arg_is(call, 3, "failover");
    int64_t offset;

    if (is_fed(call->client))
        return;
    if (with_failover && !role_is_replica(call->engine) && call_job(call) == NULL) {
        reply_errorf(call, "ERR PSYNC FAILOVER can't be sent to a master.");
        return;
    }
    if (!arg_integer(call, 2, &offset) || (with_failover && !take_over(call)))
        return;
    if (!has_data(call))
        return;
    call->keeps_reply = true;
    primary_psync(call->client, call->args[1], offset);
}

void sync_command(struct call *call)
{
    if (is_fed(call->client) || !has_data(call))
        return;
    call->keeps_reply = true;
    primary_sync(call->client);
}

/* ACK offset [FACK offset]: has no reply. */
static bool acknowledge(struct call *call)
{
    int64_t offset, synced = -1;

    if (call->arg_count < 3 || !arg_is(call, 1, "ack"))
        return false;
    if (!text_to_int(call->args[2], &offset))
        return true;
    if (call->arg_count >= 5 && arg_is(call, 3, "fack") && !text_to_int(call->args[4], &synced))
        synced = -1;
    replica_acknowledge(call->client, offset, synced);
    return true;
}

/* Words of the filter: what is named is sent, and nothing else. */
static bool set_filter(struct call *call, struct bytes filter)
{
    bool functions = false;
    size_t at = 0;

    while (at < filter.size) {
        size_t begin = at;

        while (at < filter.size && filter.data[at] != ' ')
            at++;
        if (at > begin && !bytes_is(bytes_of(filter.data + begin, at - begin), "functions")) {
            reply_errorf(call, "ERR Unsupported rdb-filter-only option: %.*s", (int)(at - begin), filter.data + begin);
            return false;
        }
        functions = functions || at > begin;
        at++;
    }
    replica_set(call->client, REPLICA_WITHOUT_KEYS, true);
    replica_set(call->client, REPLICA_WITHOUT_FUNCTIONS, !functions);
    return true;
}

static void set_capability(struct client *client, struct bytes name)
{
    if (bytes_is(name, "eof"))
        replica_set(client, REPLICA_CAN_EOF, true);
    else if (bytes_is(name, "psync2"))
        replica_set(client, REPLICA_CAN_PSYNC2, true);
    else if (bytes_is(name, "rdb12"))
        replica_set(client, REPLICA_CAN_RDB12, true);
    else if (image_offer_fits(client->worker->engine, name))
        replica_set(client, REPLICA_CAN_IMAGE, true);
}

static bool set_ip(struct call *call, struct bytes ip)
{
    if (ip.size >= REPLICA_IP_SIZE) {
        reply_errorf(call, "ERR REPLCONF ip-address provided by replica instance is too long: %zu bytes", ip.size);
        return false;
    }
    replica_set_ip(call->client, ip);
    return true;
}

/* Sets one option to its value. False: an error was replied. */
static bool set_option(struct call *call, int at)
{
    struct bytes name = call->args[at], value = call->args[at + 1];
    int64_t number;

    if (bytes_is(name, "capa")) {
        set_capability(call->client, value);
        return true;
    }
    if (bytes_is(name, "ip-address"))
        return set_ip(call, value);
    if (bytes_is(name, "rdb-filter-only"))
        return set_filter(call, value);
    if (bytes_is(name, "listening-port")) {
        if (!arg_integer_between(call, at + 1, 0, UINT16_MAX, "ERR value is out of range", &number))
            return false;
        replica_set(call->client, REPLICA_PORT, number);
        return true;
    }
    if (bytes_is(name, "rdb-only")) {
        if (!arg_integer_between(call, at + 1, 0, 1, "ERR value is out of range, must be 0 or 1", &number))
            return false;
        replica_set(call->client, REPLICA_RDB_ONLY, number);
        return true;
    }
    reply_errorf(call, "ERR Unrecognized REPLCONF option: %.*s", (int)(name.size < 64 ? name.size : 64), name.data);
    return false;
}

void replconf_command(struct call *call)
{
    if (acknowledge(call))
        return;
    if (call->arg_count >= 2 && arg_is(call, 1, "getack"))
        return;                     /* a primary's, in the stream: replication/applier.h */
    if (call->arg_count % 2 == 0) {
        reply_error(call, ERR_SYNTAX);
        return;
    }
    for (int i = 1; i < call->arg_count; i += 2) {
        if (!set_option(call, i))
            return;
    }
    reply_ok(call->reply);
}

/* --- REPLICAOF --- */

struct follow_job {
    struct job job;
    char host[FOLLOW_HOST_SIZE];    /* "": none */
    int port;
    enum follow_result result;
};

static void run_follow(struct job *base, struct engine *engine)
{
    struct follow_job *job = (struct follow_job *)base;

    job->result = follow_primary(engine->replication.follow, job->host[0] != '\0' ? job->host : NULL, job->port);
}

static void reply_followed(struct call *call, const struct follow_job *done)
{
    if (done->result == FOLLOW_NO_THREAD)
        reply_errorf(call, "ERR Could not create a thread");
    else if (done->result == FOLLOW_LOADING)
        reply_error(call, ERR_NOT_LOADED);
    else if (done->result == FOLLOW_ALREADY && done->host[0] != '\0')
        reply_status(call->reply, BYTES("OK Already connected to specified master"));
    else
        reply_ok(call->reply);
}

/* The change takes some milliseconds, in which other threads come to an end; they may wait for this worker. */
void replicaof_command(struct call *call)
{
    const struct follow_job *done = call_job(call);
    struct follow_job *job;
    int64_t port = 0;
    bool is_none = arg_is(call, 1, "no") && arg_is(call, 2, "one");

    if (done != NULL) {
        reply_followed(call, done);
        return;
    }
    if (call->engine->replication.cluster != NULL) {
        reply_errorf(call, "ERR REPLICAOF not allowed in cluster mode.");
        return;
    }
    if (failover_state(call->engine->replication.failover) != VIEW_NO_FAILOVER) {
        reply_errorf(call, "ERR REPLICAOF not allowed while failing over.");
        return;
    }
    if (unit_owns_something(call)) {
        reply_errorf(call, "ERR REPLICAOF is not possible in a transaction with commands that need keys");
        return;
    }
    if (!is_none && !arg_integer_between(call, 2, 0, UINT16_MAX, "ERR Invalid master port", &port))
        return;
    if (call->args[1].size >= FOLLOW_HOST_SIZE) {
        reply_errorf(call, "ERR Invalid master host");
        return;
    }
    job = mem_zalloc(sizeof(*job));
    job->job = (struct job){ .run = run_follow };
    job->port = (int)port;
    if (!is_none)
        snprintf(job->host, sizeof(job->host), "%.*s", (int)call->args[1].size, call->args[1].data);
    call_start_job(call, &job->job);
}

/* --- FAILOVER --- */

static bool parse_timeout(struct call *call, int at, int64_t *timeout_ms)
{
    if (!arg_integer(call, at, timeout_ms))
        return false;
    if (*timeout_ms > 0)
        return true;
    reply_errorf(call, "ERR FAILOVER timeout must be greater than 0");
    return false;
}

static bool parse_target(struct call *call, int at, struct failover_request *request)
{
    if (!arg_integer(call, at + 1, &request->port))
        return false;
    request->has_target = true;
    snprintf(request->host, sizeof(request->host), "%.*s", (int)call->args[at].size, call->args[at].data);
    return true;
}

/* Each option once. Returns the arguments it took; 0: it has replied an error. */
static int parse_option(struct call *call, int at, struct failover_request *request, bool *aborts)
{
    int left = call->arg_count - at - 1;

    if (arg_is(call, at, "timeout") && left >= 1 && request->timeout_ms == 0)
        return parse_timeout(call, at + 1, &request->timeout_ms) ? 2 : 0;
    if (arg_is(call, at, "to") && left >= 2 && !request->has_target)
        return parse_target(call, at + 1, request) ? 3 : 0;
    if (arg_is(call, at, "force") && !request->forces) {
        request->forces = true;
        return 1;
    }
    if (arg_is(call, at, "abort") && call->arg_count == 2) {
        *aborts = true;
        return 1;
    }
    reply_error(call, ERR_SYNTAX);
    return 0;
}

struct abort_job {
    struct job job;
    uint64_t number;
};

static void run_abort(struct job *base, struct engine *engine)
{
    failover_await_end(engine->replication.failover, ((struct abort_job *)base)->number);
}

/* Replies when the role is what it is after that. A transaction that owns partitions must not wait: the end may wait for it. */
static void abort_failover(struct call *call)
{
    struct abort_job *job;
    uint64_t number;

    if (call_job(call) != NULL) {
        reply_ok(call->reply);
    } else if ((number = failover_abort(call->engine->replication.failover)) == 0) {
        reply_errorf(call, "ERR No failover in progress.");
    } else if (unit_owns_something(call)) {
        reply_ok(call->reply);
    } else {
        job = mem_zalloc(sizeof(*job));
        *job = (struct abort_job){ { .run = run_abort }, number };
        call_start_job(call, &job->job);
    }
}

static void start_failover(struct call *call, const struct failover_request *request)
{
    static const char *const errors[] = {
        [FAILOVER_IN_PROGRESS] = "ERR FAILOVER already in progress.",
        [FAILOVER_IS_REPLICA] = "ERR FAILOVER is not valid when server is a replica.",
        [FAILOVER_NO_REPLICAS] = "ERR FAILOVER requires connected replicas.",
        [FAILOVER_FORCE_NEEDS_BOTH] = "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
        [FAILOVER_NO_SUCH_REPLICA] = "ERR FAILOVER target HOST and PORT is not a replica.",
        [FAILOVER_NOT_ONLINE] = "ERR FAILOVER target replica is not online.",
        [FAILOVER_NO_THREAD] = "ERR Could not create a thread",
    };
    enum failover_result result = failover_start(call->engine->replication.failover, request);

    if (result == FAILOVER_STARTED)
        reply_ok(call->reply);
    else
        reply_errorf(call, "%s", errors[result]);
}

void failover_command(struct call *call)
{
    struct failover_request request = { .timeout_ms = 0 };
    bool aborts = false;

    if (call->engine->replication.cluster != NULL) {
        reply_errorf(call, "ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.");
        return;
    }
    for (int at = 1, taken; at < call->arg_count; at += taken) {
        taken = parse_option(call, at, &request, &aborts);
        if (taken == 0)
            return;
    }
    if (aborts)
        abort_failover(call);
    else
        start_failover(call, &request);
}
