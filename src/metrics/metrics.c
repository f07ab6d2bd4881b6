#include "metrics/metrics.h"

#include <stdio.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_log.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "engine/pulse.h"
#include "metrics/families.h"
#include "metrics/hour.h"
#include "metrics/http.h"
#include "metrics/overview.h"
#include "metrics/page.h"
#include "metrics/ready.h"

struct metrics {
    struct engine *engine;
    struct http *http;
    struct pulse *pulse;            /* kelvin-http */
    struct hour *hour;
    struct overview overview;           /* kelvin-page */
    char *page_policy;              /* immutable */
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

static void serve_ready(void *context, const struct http_request *request, struct http_response *response)
{
    struct metrics *metrics = context;
    const struct reason *reason = ready_look(metrics->engine);

    (void)request;
    serve_health(response, reason == NULL ? NULL : reason->what);
}

/* --- / --- */

static void serve_page(void *context, const struct http_request *request, struct http_response *response)
{
    const struct metrics *metrics = context;

    (void)request;
    response->type = "text/html; charset=utf-8";
    response->policy = metrics->page_policy;
    buffer_append_bytes(&response->body, page_html());
}

static void serve_status(void *context, const struct http_request *request, struct http_response *response)
{
    struct metrics *metrics = context;

    response->type = "application/json";
    overview_write(&metrics->overview, request->is_privileged, &response->body);
}

/* Takes leaves only. */
static void note_totals(struct metrics *metrics, int64_t now_us)
{
    struct engine *engine = metrics->engine;
    struct memory_view room;
    struct hour_totals totals;

    memory_look(engine, &room);
    totals = (struct hour_totals){
        .hot = engine_stat(engine, STAT_HOT_HITS),
        .cold = engine_stat(engine, STAT_COLD_HITS),
        .commands = engine_stat(engine, STAT_COMMANDS),
        .memory = memory_counted_or_used(&room, memory_used(engine)),
        .memory_max = room.limit,
    };
    if (engine->tier != NULL) {
        tier_load_latency(engine->tier, totals.loads);
        totals.demoted_bytes = tier_demoted_bytes(engine->tier);
    }
    hour_note(metrics->hour, now_us, clock_wall_ms(), &totals);
}

/* Each HOUR_STEP_S. Nothing is kept while the port is closed. */
static void note_hour(struct metrics *metrics, int64_t now_us)
{
    if (config_number(metrics->engine->config, CONFIG_METRICS_PORT) == 0)
        hour_clear(metrics->hour);
    else if (hour_is_due(metrics->hour, now_us))
        note_totals(metrics, now_us);
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

/* As protected mode has it for the other ports: without users, names of keys are not for other machines. */
static enum http_admission admit_without_users(const struct engine *engine, const struct http_caller *caller)
{
    return caller->is_local || !config_number(engine->config, CONFIG_PROTECTED_MODE) ? HTTP_PRIVILEGED : HTTP_ADMITTED;
}

/* A request without a user is how programs find out that one is wanted: that is not in the log. A name and password protect from DNS rebinding, too: a
 * browser does not send them to another domain. Privileged are those that may see the names of all keys, as HOTKEYS GET shows them. */
static enum http_admission admit(void *context, const struct http_caller *caller)
{
    struct metrics *metrics = context;
    struct engine *engine = metrics->engine;
    struct acl *acl = engine->users.acl;
    struct acl_user *user;
    bool may, sees_keys;

    if (acl_is_open(acl))
        return caller->has_foreign_name ? HTTP_FOREIGN_NAME : admit_without_users(engine, caller);
    if (caller->user == NULL)
        return HTTP_LOGIN_WANTED;
    user = acl_authenticate(acl, bytes_of_string(caller->user), bytes_of_string(caller->password));
    if (user == NULL) {
        log_refusal(engine, caller, ACL_LOG_AUTH);
        return HTTP_LOGIN_WANTED;
    }
    may = acl_may_call(acl, user, command_find_own(engine->commands, BYTES("info")));
    sees_keys = acl_may_list_keys(acl, user, command_find_own_full(engine->commands, BYTES("hotkeys|get")));
    acl_user_release(user);
    if (!may)
        log_refusal(engine, caller, ACL_LOG_COMMAND);
    return !may ? HTTP_FORBIDDEN : sees_keys ? HTTP_PRIVILEGED : HTTP_ADMITTED;
}

/* --- Start and end --- */

/* So that there is a look at the workers' turns in time, whenever a client asks. */
static void tick(void *context)
{
    struct metrics *metrics = context;
    int64_t now_us = clock_mono_us();

    pulse_look(metrics->pulse, now_us / 1000);
    note_hour(metrics, now_us);
}

static const struct http_route routes[] = {
    { "/", HTTP_AT_ONCE, HTTP_GUARDED, serve_page },
    { "/status.json", HTTP_APART, HTTP_GUARDED, serve_status },
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
    struct buffer policy = { 0 };

    metrics->engine = engine;
    metrics->pulse = pulse_create(engine);
    metrics->hour = hour_create();
    metrics->overview = (struct overview){ .engine = engine, .hour = metrics->hour };
    page_policy(page_html(), &policy);
    metrics->page_policy = mem_string(buffer_bytes(&policy));
    buffer_release(&policy);
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
    hour_destroy(metrics->hour);
    mem_free(metrics->page_policy);
    mem_free(metrics);
}
