#include "commands/cluster_call.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "cluster/lost_slots.h"
#include "engine/unit.h"

struct cluster *cluster_call_cluster(struct call *call)
{
    if (call->engine->replication.cluster == NULL)
        reply_errorf(call, "ERR This instance has cluster support disabled");
    return call->engine->replication.cluster;
}

static void run_locked(struct job *base, struct engine *engine)
{
    struct cluster_call *asked = (struct cluster_call *)base;
    struct cluster *cluster = engine->replication.cluster;

    if (asked->awaits_lost)
        lost_slots_await(engine->replication.lost_slots);
    if (asked->act != NULL) {
        asked->act(asked, engine, cluster_lock(cluster));
        asked->was_saved = cluster_unlock(cluster) == STATUS_OK;
    }
    if (asked->owns_partitions)
        partitions_give(engine->partitions, &asked->claim, 0);
    if (asked->after != NULL && asked->error.size == 0)
        asked->after(asked, engine);
}

static void release_call(struct job *base)
{
    struct cluster_call *asked = (struct cluster_call *)base;

    mem_free((char *)asked->name.data);
    mem_free(asked->ranges);
    mem_free(asked->later_error);
    buffer_release(&asked->error);
    buffer_release(&asked->text);
    mem_free(asked);
}

static void reply_done(struct call *call, const struct cluster_call *done)
{
    if (done->error.size > 0)
        reply_errorf(call, "%.*s", (int)done->error.size, done->error.data);
    else if (!done->was_saved)
        reply_errorf(call, "ERR error saving the cluster node config: see the log. The change is made as soon as it can be saved; until then this node serves no keys");
    else if (done->reply != NULL)
        done->reply(call, done);
    else
        reply_ok(call->reply);
}

struct cluster_call *cluster_call_new(struct call *call, cluster_act *act, cluster_reply *reply)
{
    return cluster_call_new_sized(call, act, reply, sizeof(struct cluster_call));
}

struct cluster_call *cluster_call_new_sized(struct call *call, cluster_act *act, cluster_reply *reply, size_t size)
{
    const struct cluster_call *done = call_job(call);
    struct cluster_call *asked;

    if (cluster_call_cluster(call) == NULL)
        return NULL;
    if (done != NULL) {
        reply_done(call, done);
        return NULL;
    }
    if (unit_owns_something(call)) {
        reply_errorf(call, "ERR CLUSTER is not possible in a transaction or script with commands that need keys");
        return NULL;
    }
    asked = mem_zalloc(size);
    asked->job = (struct job){ .run = run_locked, .release = release_call, .has_only_reply_left = true };
    asked->act = act;
    asked->was_saved = true;
    asked->reply = reply;
    asked->is_tls = call->requester->flags & CLIENT_TLS;
    return asked;
}

static bool has_control(struct call *call, enum config_control control)
{
    return config_number(call->engine->config, CONFIG_CLUSTER_CONTROL) == (int64_t)control;
}

bool cluster_call_is_gossip(struct call *call)
{
    if (cluster_call_cluster(call) == NULL)
        return false;
    if (!has_control(call, CONFIG_CONTROL_GOSSIP))
        reply_errorf(call, "ERR This needs cluster-control gossip: with cluster-control managed a controller says which node has which slots and role");
    return !call->failed;
}

struct cluster_call *cluster_call_new_gossip(struct call *call, cluster_act *act, cluster_reply *reply)
{
    return cluster_call_is_gossip(call) ? cluster_call_new(call, act, reply) : NULL;
}

bool cluster_call_is_managed(struct call *call)
{
    if (cluster_call_cluster(call) == NULL)
        return false;
    if (!has_control(call, CONFIG_CONTROL_MANAGED))
        reply_errorf(call, "ERR CLUSTERX needs cluster-control managed");
    return !call->failed;
}

struct cluster_call *cluster_call_new_managed(struct call *call, cluster_act *act, cluster_reply *reply)
{
    return cluster_call_is_managed(call) ? cluster_call_new(call, act, reply) : NULL;
}

void cluster_call_start(struct call *call, struct cluster_call *asked)
{
    asked->job.lane = asked->after != NULL ? JOB_OF_NETWORK : JOB_PLAIN;
    if (call->failed)
        release_call(&asked->job);
    else
        call_start_job(call, &asked->job);
}

void cluster_call_take_text(struct call *call, struct cluster_call *asked, int arg)
{
    asked->name = bytes_of(mem_string(call->args[arg]), call->args[arg].size);
}

void cluster_call_take_node(struct call *call, struct cluster_call *asked, int arg)
{
    cluster_call_take_text(call, asked, arg);
    if (!node_id_read(asked->name, &asked->id))
        asked->id = (struct node_id){ .text = "" };
}

bool cluster_call_read_ranges(struct call *call, int *arg, struct slots *slots)
{
    int first_arg = *arg;

    for (; *arg + 1 < call->arg_count; *arg += 2) {
        int64_t first, last;

        if (!text_to_int(call->args[*arg], &first))
            break;
        if (!text_to_int(call->args[*arg + 1], &last) || first < 0 || last >= SLOT_COUNT) {
            reply_errorf(call, "ERR Invalid or out of range slot");
            return false;
        }
        if (first > last) {
            reply_errorf(call, "ERR start slot number %d is greater than end slot number %d", (int)first, (int)last);
            return false;
        }
        for (int64_t slot = first; slot <= last; slot++) {
            if (slots_has(slots, (unsigned)slot)) {
                reply_errorf(call, "ERR Slot %d specified multiple times", (int)slot);
                return false;
            }
            slots_add(slots, (unsigned)slot);
        }
    }
    if (*arg == first_arg)
        reply_error(call, ERR_SYNTAX);
    return *arg > first_arg;
}

struct node *cluster_call_node(struct cluster_call *asked, const struct bus *bus, const char *unknown)
{
    struct node *node = node_id_is_none(&asked->id) ? NULL : members_find(bus->members, &asked->id);

    if (node == NULL)
        buffer_append_format(&asked->error, "ERR %s %s", unknown, asked->name.data);
    return node;
}

bool cluster_call_accept(struct cluster_call *asked, const char *error)
{
    if (error != NULL)
        cluster_call_fail(asked, "%s", error);
    return error == NULL;
}

void cluster_call_fail(struct cluster_call *asked, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    buffer_append_string(&asked->error, text);
}

void cluster_call_reply_text(struct call *call, const struct cluster_call *done)
{
    reply_verbatim(call->reply, "txt", buffer_bytes(&done->text));
}

void cluster_call_reply_count(struct call *call, const struct cluster_call *done)
{
    reply_integer(call->reply, done->count);
}
