/* HOTKEYS: stats/hot_keys.h does the work. */
#include "commands/handlers.h"
#include "engine/engine.h"
#include "stats/hot_keys.h"

enum { COUNT_BY_DEFAULT = 10, DURATION_MAX_S = 1000000 };

/* METRICS count [CPU] [NET], which are the first options; `*arg` is left after them. */
static bool read_metrics(struct call *call, int *arg, struct hot_keys_plan *plan)
{
    static const char *const names[HOT_METRICS] = { "cpu", "net" };
    int64_t count, found = 0;
    int at = 4;

    if (call->arg_count < 4 || !arg_is(call, 2, "metrics")) {
        reply_errorf(call, "ERR METRICS parameter is required");
        return false;
    }
    if (!arg_integer_between(call, 3, 1, HOT_METRICS, "ERR METRICS count must be between 1 and 2", &count))
        return false;
    for (; at < call->arg_count && (arg_is(call, at, names[HOT_TIME]) || arg_is(call, at, names[HOT_BYTES])); at++, found++) {
        bool *metric = &plan->metrics[arg_is(call, at, names[HOT_TIME]) ? HOT_TIME : HOT_BYTES];

        if (*metric) {
            reply_error(call, ERR_SYNTAX);
            return false;
        }
        *metric = true;
    }
    *arg = at;
    if (found == count)
        return true;
    reply_errorf(call, found == 0 ? "ERR METRICS no valid metrics passed. Supported: CPU|NET"
        : "ERR METRICS count does not match number of metric types provided");
    return false;
}

static bool read_plan(struct call *call, struct hot_keys_plan *plan)
{
    int64_t count = COUNT_BY_DEFAULT, seconds = 0, sample = 1;
    int arg;

    *plan = (struct hot_keys_plan){ .count = 0 };
    if (!read_metrics(call, &arg, plan))
        return false;
    for (; arg + 1 < call->arg_count; arg += 2) {
        if (arg_is(call, arg, "count")) {
            if (!arg_integer_between(call, arg + 1, 1, HOT_KEYS_COUNT_MAX, "ERR COUNT must be between 1 and 64", &count))
                return false;
        } else if (arg_is(call, arg, "duration")) {
            if (!arg_integer_between(call, arg + 1, 1, DURATION_MAX_S, "ERR DURATION must be between 1 and 1000000", &seconds))
                return false;
        } else if (arg_is(call, arg, "sample")) {
            if (!arg_integer_between(call, arg + 1, 1, INT32_MAX, "ERR SAMPLE ratio must be positive", &sample))
                return false;
        } else if (arg_is(call, arg, "slots")) {
            reply_errorf(call, "ERR SLOTS parameter cannot be used in non-cluster mode");
            return false;
        } else {
            break;
        }
    }
    if (arg < call->arg_count) {
        reply_error(call, ERR_SYNTAX);
        return false;
    }
    plan->count = (uint32_t)count;
    plan->duration_ms = seconds * 1000;
    plan->sample = (uint64_t)sample;
    plan->started_ms = call->turn->now_ms;
    return true;
}

/* HOTKEYS START METRICS count [CPU] [NET] [COUNT k] [DURATION seconds] [SAMPLE ratio] */
void hotkeys_start_command(struct call *call)
{
    struct hot_keys_plan plan;

    if (!read_plan(call, &plan))
        return;
    if (hot_keys_start(call->engine->stats.hot_keys, &plan, call->turn->now_us / 1000))
        reply_ok(call->reply);
    else
        reply_errorf(call, "ERR hotkeys tracking session is already in progress");
}

void hotkeys_stop_command(struct call *call)
{
    if (hot_keys_stop(call->engine->stats.hot_keys, call->turn->now_us / 1000))
        reply_ok(call->reply);
    else
        reply_null(call->reply);
}

void hotkeys_reset_command(struct call *call)
{
    if (hot_keys_reset(call->engine->stats.hot_keys, call->turn->now_us / 1000))
        reply_ok(call->reply);
    else
        reply_errorf(call, "ERR hotkeys tracking session in progress, stop tracking first");
}

static void reply_number(struct call *call, const char *name, uint64_t number)
{
    reply_bulk_string(call->reply, name);
    reply_integer(call->reply, (int64_t)number);
}

static void reply_keys(struct call *call, const char *name, const struct hot_keys_report *report, enum hot_metric metric, uint64_t unit)
{
    reply_bulk_string(call->reply, name);
    reply_array(call->reply, report->key_count[metric] * 2);
    for (size_t i = 0; i < report->key_count[metric]; i++) {
        reply_bulk(call->reply, report->keys[metric][i].name);
        reply_integer(call->reply, (int64_t)(report->keys[metric][i].weight / unit));
    }
}

/* A map within an array of one, as in Redis, where it is one for each node. */
static void reply_report(struct call *call, const struct hot_keys_report *report)
{
    bool has_time = report->plan.metrics[HOT_TIME], has_bytes = report->plan.metrics[HOT_BYTES];

    reply_array(call->reply, 1);
    reply_map(call->reply, 7 + (has_time ? 3 : 0) + (has_bytes ? 2 : 0));
    reply_number(call, "tracking-active", report->active);
    reply_number(call, "sample-ratio", report->plan.sample);
    reply_bulk_string(call->reply, "selected-slots");
    reply_array(call->reply, 0);
    reply_number(call, "all-commands-all-slots-us", report->total[HOT_TIME] / 1000);
    reply_number(call, "net-bytes-all-commands-all-slots", report->total[HOT_BYTES]);
    reply_number(call, "collection-start-time-unix-ms", (uint64_t)report->plan.started_ms);
    reply_number(call, "collection-duration-ms", (uint64_t)report->duration_ms);
    if (has_time) {
        reply_number(call, "total-cpu-time-user-ms", report->user_ms);
        reply_number(call, "total-cpu-time-sys-ms", report->system_ms);
    }
    if (has_bytes)
        reply_number(call, "total-net-bytes", report->total[HOT_BYTES]);
    if (has_time)
        reply_keys(call, "by-cpu-time-us", report, HOT_TIME, 1000);
    if (has_bytes)
        reply_keys(call, "by-net-bytes", report, HOT_BYTES, 1);
}

void hotkeys_get_command(struct call *call)
{
    struct hot_keys_report report;

    if (!hot_keys_report(call->engine->stats.hot_keys, call->turn->now_us / 1000, &report)) {
        reply_null(call->reply);
        return;
    }
    reply_report(call, &report);
    hot_keys_report_release(&report);
}

void hotkeys_help_command(struct call *call)
{
    static const char *const lines[] = {
        "HOTKEYS <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "START METRICS <count> [CPU] [NET] [COUNT <k>] [DURATION <seconds>] [SAMPLE <ratio>]",
        "    Begins to measure the keys on which commands spend time (CPU), or that",
        "    take bytes of requests and replies (NET). <count> is the number of metrics.",
        "GET",
        "    Returns what was measured, and the <k> keys that come first (10 by default).",
        "STOP",
        "    Ends the measurement and keeps its results.",
        "RESET",
        "    Forgets the results.",
        "HELP",
        "    Prints this help.",
        NULL,
    };

    reply_help(call, lines);
}
