#include "metrics/metrics.h"

#include <stdio.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_log.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cluster/cluster.h"
#include "cluster/topology.h"
#include "engine/engine.h"
#include "engine/pulse.h"
#include "engine/role.h"
#include "metrics/families.h"
#include "metrics/http.h"

struct metrics {
    struct engine *engine;
    struct http *http;
    struct pulse *pulse;            /* kelvin-http */
};

/* --- /metrics --- */

static families_writer *const writers[] = {
    families_server, families_clients, families_commands, families_memory, families_keys, families_tier, families_persistence, families_replication,
    families_cluster,
};

static void write_metrics(struct engine *engine, enum exposition_format format, struct buffer *out)
{
    struct exposition exposition = { .out = out, .format = format };
    struct readings *readings = readings_take(engine);

    for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++)
        writers[i](&exposition, readings);
    family_gauge(&exposition, "kelvin_scrape_duration_seconds", "seconds", "How long it took to read and write all of this.",
        (double)(clock_mono_us() - readings->began_us) / 1e6);
    exposition_end(&exposition);
    readings_release(readings);
}

static void serve_metrics(void *context, const struct http_request *request, struct http_response *response)
{
    struct metrics *metrics = context;
    enum exposition_format format = exposition_choose(request->accept);

    response->type = exposition_type(format);
    write_metrics(metrics->engine, format, &response->body);
}

/* --- /health --- */

static void serve_health(struct http_response *response, const char *problem)
{
    response->status = problem == NULL ? 200 : 503;
    buffer_append_format(&response->body, "%s\n", problem == NULL ? "ok" : problem);
}

static void serve_live(void *context, const struct http_request *request, struct http_response *response)
{
    struct metrics *metrics = context;

    (void)request;
    serve_health(response, pulse_look(metrics->pulse, clock_mono_us() / 1000) ? NULL : "A worker has not ended a turn for too long.");
}

static bool not_ready(struct message *message, const char *reason)
{
    message_set(message, "%s", reason);
    return false;
}

static bool role_is_ready(struct engine *engine, struct message *message)
{
    uint32_t bits = role_bits(engine);

    if (bits & ROLE_SYNCING)
        return not_ready(message, "A full synchronization from the primary is being loaded.");
    if (bits & ROLE_STALE)
        return not_ready(message, "The link to the primary is down, and replica-serve-stale-data is no.");
    if (bits & ROLE_LEASED && role_lease_has_ended(engine))
        return not_ready(message, "The lease of this primary has ended.");
    if (bits & ROLE_FEW_REPLICAS)
        return not_ready(message, "Fewer replicas than min-replicas-to-write are good: writes are refused.");
    return true;
}

static bool cluster_is_ready(struct engine *engine, struct message *message)
{
    struct cluster *cluster = engine->replication.cluster;
    struct topology *topology;
    bool is_ok;

    if (cluster == NULL)
        return true;
    topology = cluster_topology(cluster);
    is_ok = topology->is_ok;
    topology_release(topology);
    return is_ok || not_ready(message, "The cluster is down, as this node sees it.");
}

static bool is_ready(struct engine *engine, struct message *message)
{
    int number;

    if (engine->state == ENGINE_LOADING)
        return not_ready(message, "The data is being loaded.");
    if (engine->state == ENGINE_STOPPING)
        return not_ready(message, "The server is ending.");
    if (!role_is_ready(engine, message))
        return false;
    if (engine_disks_fail(engine, &number))
        return not_ready(message, number != 0 ? "The log can't be written: writes are refused." : "The last dump has failed: writes are refused.");
    if (engine_disk_refuses_growth(engine))
        return not_ready(message, "The disk is full: writes are refused, but those that remove.");
    if (memory_state(engine) == MEMORY_OUT && config_number(engine->config, CONFIG_MAXMEMORY_POLICY) == CONFIG_POLICY_NOEVICTION)
        return not_ready(message, "Memory is used up and can't be freed: writes are refused.");
    return cluster_is_ready(engine, message);
}

static void serve_ready(void *context, const struct http_request *request, struct http_response *response)
{
    struct metrics *metrics = context;
    struct message message = { "" };

    (void)request;
    serve_health(response, is_ready(metrics->engine, &message) ? NULL : message.text);
}

/* --- Users --- */

static void log_refusal(struct engine *engine, const struct http_caller *caller, enum acl_log_reason reason)
{
    struct buffer line = { 0 };

    buffer_append_format(&line, "id=0 addr=%s name= user=%s cmd=http", caller->address, reason == ACL_LOG_AUTH ? "(none)" : caller->user);
    acl_log_note(engine->users.log, (size_t)config_number(engine->config, CONFIG_ACLLOG_MAX_LEN), &(struct acl_log_event){
        .reason = reason,
        .context = ACL_LOG_TOPLEVEL,
        .object = reason == ACL_LOG_AUTH ? BYTES("http") : BYTES("info"),
        .user = bytes_of_string(caller->user),
        .client = buffer_bytes(&line),
        .now_ms = clock_wall_ms(),
    });
    buffer_release(&line);
}

/* A request without a user is how programs find out that one is wanted: that is not in the log. A name and password protect from DNS rebinding, too: a
 * browser does not send them to another domain. */
static enum http_admission admit(void *context, const struct http_caller *caller)
{
    struct metrics *metrics = context;
    struct engine *engine = metrics->engine;
    struct acl *acl = engine->users.acl;
    struct acl_user *user;
    bool may;

    if (acl_is_open(acl))
        return caller->has_foreign_name ? HTTP_FOREIGN_NAME : HTTP_ADMITTED;
    if (caller->user == NULL)
        return HTTP_LOGIN_WANTED;
    user = acl_authenticate(acl, bytes_of_string(caller->user), bytes_of_string(caller->password));
    if (user == NULL) {
        log_refusal(engine, caller, ACL_LOG_AUTH);
        return HTTP_LOGIN_WANTED;
    }
    may = acl_may_call(acl, user, command_find_own(engine->commands, BYTES("info")));
    acl_user_release(user);
    if (!may)
        log_refusal(engine, caller, ACL_LOG_COMMAND);
    return may ? HTTP_ADMITTED : HTTP_FORBIDDEN;
}

/* --- Start and end --- */

/* So that there is a look at the workers' turns in time, whenever a client asks. */
static void tick(void *context)
{
    struct metrics *metrics = context;

    pulse_look(metrics->pulse, clock_mono_us() / 1000);
}

static const struct http_route routes[] = {
    { "/metrics", HTTP_APART, HTTP_GUARDED, serve_metrics },
    { "/health/live", HTTP_AT_ONCE, HTTP_OPEN, serve_live },
    { "/health/ready", HTTP_AT_ONCE, HTTP_OPEN, serve_ready },
    { NULL, HTTP_AT_ONCE, HTTP_OPEN, NULL },
};

static bool listen_as_configured(struct metrics *metrics, struct message *message)
{
    struct config *config = metrics->engine->config;
    char *addresses = config_string(config, CONFIG_METRICS_BIND);
    bool done = http_listen(metrics->http, addresses, (int)config_number(config, CONFIG_METRICS_PORT), message);

    mem_free(addresses);
    return done;
}

static bool config_changed_it(void *context, enum config_id id, struct message *message)
{
    struct metrics *metrics = context;
    struct message reason = { "" };

    (void)id;
    if (listen_as_configured(metrics, &reason))
        return true;
    log_write(metrics->engine->log, LOG_LEVEL_WARNING, "%s", reason.text);
    message_set(message, "%.140s", reason.text);
    return false;
}

struct metrics *metrics_start(struct engine *engine, struct message *message)
{
    struct metrics *metrics = mem_zalloc(sizeof(*metrics));

    metrics->engine = engine;
    metrics->pulse = pulse_create(engine);
    metrics->http = http_create(&(struct http_options){ .context = metrics, .routes = routes, .admit = admit, .tick = tick, .meter = engine->meter });
    if (!listen_as_configured(metrics, message)) {
        metrics_stop(metrics);
        return NULL;
    }
    config_on_change(engine->config, CONFIG_METRICS_PORT, config_changed_it, metrics);
    config_on_change(engine->config, CONFIG_METRICS_BIND, config_changed_it, metrics);
    return metrics;
}

void metrics_stop(struct metrics *metrics)
{
    if (metrics == NULL)
        return;
    http_destroy(metrics->http);
    pulse_destroy(metrics->pulse);
    mem_free(metrics);
}
