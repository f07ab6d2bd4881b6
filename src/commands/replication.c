/* PSYNC, SYNC and REPLCONF, which replicas call, and REPLICAOF. */
#include <stdio.h>

#include "base/mem.h"
#include "call/call.h"
#include "commands/handlers.h"
#include "engine/engine.h"
#include "engine/role.h"
#include "engine/unit.h"
#include "engine/job.h"
#include "replication/follow.h"
#include "replication/primary.h"

/* A replica has data to give away only while it has its primary's. */
static bool has_data(struct call *call)
{
    if (!role_is_replica(call->engine) || role_link_is_up(call->engine))
        return true;
    reply_errorf(call, "NOMASTERLINK Can't SYNC while not connected with my master");
    return false;
}

void psync_command(struct call *call)
{
    int64_t offset;

    if (!arg_integer(call, 2, &offset))
        return;
    if (call->arg_count > 3) {
        reply_errorf(call, "ERR Kelvin does not take over by PSYNC ... FAILOVER");
        return;
    }
    if (has_data(call))
        primary_psync(call->client, call->args[1], offset);
}

void failover_command(struct call *call)
{
    reply_errorf(call, "ERR FAILOVER is not supported yet: use REPLICAOF NO ONE on the replica, or Sentinel");
}

void sync_command(struct call *call)
{
    if (has_data(call))
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

/* One option and its value. False: it has replied an error. */
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

    job->result = follow_primary(engine->follow, job->host[0] != '\0' ? job->host : NULL, job->port);
}

static void release_follow(struct job *base)
{
    mem_free(base);
}

static void reply_followed(struct call *call, const struct follow_job *done)
{
    if (done->result == FOLLOW_NO_THREAD)
        reply_errorf(call, "ERR Could not create a thread");
    else if (done->result == FOLLOW_ALREADY && done->host[0] != '\0')
        reply_status(call->reply, BYTES("OK Already connected to specified master"));
    else
        reply_ok(call->reply);
}

/* The change waits until no unit owns partitions. */
static bool owns_partitions(const struct call *call)
{
    uint32_t count = call->partitions->count;

    return call->unit != NULL && partition_bits_next(&call->unit->claim.owned, 0, count) < count;
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
    if (owns_partitions(call)) {
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
    job->job = (struct job){ .run = run_follow, .release = release_follow };
    job->port = (int)port;
    if (!is_none)
        snprintf(job->host, sizeof(job->host), "%.*s", (int)call->args[1].size, call->args[1].data);
    call_start_job(call, &job->job);
}
