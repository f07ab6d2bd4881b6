/* LATENCY: slow events (stats/latency.h), and the latencies of commands (call/command_table.h). */
#include <inttypes.h>

#include "base/histogram.h"
#include "base/mem.h"
#include "commands/handlers.h"
#include "commands/latency_graph.h"
#include "engine/engine.h"
#include "stats/latency.h"
#include "stats/waits.h"

enum { HISTOGRAM_STEPS = 24 };

/* LATENCY LATEST */
void latency_latest_command(struct call *call)
{
    struct latency_event *events;
    size_t count = latency_events(call->engine->stats.latency, &events);

    reply_array(call->reply, count);
    for (size_t i = 0; i < count; i++) {
        const struct latency_sample *last = &events[i].samples[events[i].count - 1];

        reply_array(call->reply, 4);
        reply_bulk_string(call->reply, events[i].name);
        reply_integer(call->reply, last->time_s);
        reply_integer(call->reply, last->ms);
        reply_integer(call->reply, events[i].worst_ms);
    }
    mem_free(events);
}

/* LATENCY HISTORY event */
void latency_history_command(struct call *call)
{
    struct latency_event *event = arena_alloc(call->arena, sizeof(*event));

    if (!latency_find(call->engine->stats.latency, call->args[2], event))
        event->count = 0;
    reply_array(call->reply, event->count);
    for (size_t i = 0; i < event->count; i++) {
        reply_array(call->reply, 2);
        reply_integer(call->reply, event->samples[i].time_s);
        reply_integer(call->reply, event->samples[i].ms);
    }
}

/* LATENCY RESET [event ...] */
void latency_reset_command(struct call *call)
{
    size_t count = 0;

    if (call->arg_count == 2)
        count = latency_reset_all(call->engine->stats.latency);
    for (int i = 2; i < call->arg_count; i++)
        count += latency_reset(call->engine->stats.latency, call->args[i]);
    reply_integer(call->reply, (int64_t)count);
}

/* LATENCY GRAPH event */
void latency_graph_command(struct call *call)
{
    struct latency_event *event = arena_alloc(call->arena, sizeof(*event));
    struct buffer text = { 0 };

    if (!latency_find(call->engine->stats.latency, call->args[2], event)) {
        reply_errorf(call, "ERR No samples available for event '%.*s'", (int)(call->args[2].size < 256 ? call->args[2].size : 256),
            call->args[2].data);
        return;
    }
    latency_graph_draw(&text, event, call->turn->now_ms / 1000);
    reply_verbatim(call->reply, "txt", buffer_bytes(&text));
    buffer_release(&text);
}

static void describe_event(struct buffer *out, const struct latency_event *event)
{
    const struct latency_sample *first = &event->samples[0], *last = &event->samples[event->count - 1];
    int64_t sum = 0, deviation = 0, mean;

    for (size_t i = 0; i < event->count; i++)
        sum += event->samples[i].ms;
    mean = sum / (int64_t)event->count;
    for (size_t i = 0; i < event->count; i++)
        deviation += event->samples[i].ms > mean ? event->samples[i].ms - mean : mean - event->samples[i].ms;
    buffer_append_format(out, "- %s: %zu samples over %" PRId64 " s, %" PRId64 " ms on average (mean deviation %" PRId64
        " ms), worst %" PRId64 " ms.\n", event->name, event->count, last->time_s - first->time_s, mean,
        deviation / (int64_t)event->count, event->worst_ms);
}

static bool has_event(const struct latency_event *events, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(events[i].name, name) == 0)
            return true;
    }
    return false;
}

static void advise_about_waits(struct buffer *out, const struct latency_event *events, size_t count)
{
    if (has_event(events, count, wait_name(WAIT_COLD)))
        buffer_append_string(out, "- Calls waited for cold keys: see tier_hit_ratio, tier_load_usec_p99 and tier_loads_waiting in INFO tiering. "
            "More maxmemory, more tier-load-threads, or a faster disk.\n");
    if (has_event(events, count, wait_name(WAIT_MEMORY)))
        buffer_append_string(out, "- Calls waited for memory: demotion does not keep up with the writes. A faster disk, or more maxmemory.\n");
    if (has_event(events, count, wait_name(WAIT_OWNER)))
        buffer_append_string(out, "- Calls waited for a transaction or a script of another client: shorter ones, and keys that scripts declare.\n");
    if (has_event(events, count, wait_name(WAIT_PAUSE)))
        buffer_append_string(out, "- Calls waited for the end of CLIENT PAUSE.\n");
}

static void append_advice(struct buffer *out, const struct engine *engine, const struct latency_event *events, size_t count)
{
    const struct config *config = engine->config;
    int64_t threshold_us = config_number(config, CONFIG_LATENCY_MONITOR_THRESHOLD) * 1000;
    int64_t slow_us = config_number(config, CONFIG_SLOWLOG_LOG_SLOWER_THAN);
    bool commands = has_event(events, count, "command"), fast = has_event(events, count, "fast-command");

    buffer_append_string(out, "\nAdvice:\n");
    if (commands) {
        buffer_append_string(out, "- SLOWLOG GET shows which commands were slow. Large keys are the most expensive: read "
            "and change them in parts, and remove them with UNLINK.\n");
        if (slow_us < 0 || (threshold_us > 0 && slow_us > threshold_us))
            buffer_append_format(out, "- The slow log does not record all of them: CONFIG SET slowlog-log-slower-than %" PRId64 "\n",
                threshold_us);
    }
    if (fast)
        buffer_append_string(out, "- Commands that do almost no work were slow, so the machine was busy with something else: look for other "
            "busy programs, swapping, a virtual machine without enough CPU time, or raise io-threads.\n");
    if (engine->aof != NULL && config_number(config, CONFIG_APPENDFSYNC) == CONFIG_FSYNC_ALWAYS)
        buffer_append_string(out, "- With appendfsync always each write waits for the disk; with everysec it does not.\n");
    advise_about_waits(out, events, count);
}

/* LATENCY DOCTOR */
void latency_doctor_command(struct call *call)
{
    struct engine *engine = call->engine;
    struct latency_event *events;
    size_t count = latency_events(engine->stats.latency, &events);
    struct buffer text = { 0 };

    if (count == 0 && config_number(engine->config, CONFIG_LATENCY_MONITOR_THRESHOLD) == 0) {
        buffer_append_string(&text, "Latency monitoring is off: latency-monitor-threshold is 0. CONFIG SET latency-monitor-threshold 100 "
            "records events that take 100 milliseconds or longer.\n");
    } else if (count == 0) {
        buffer_append_format(&text, "No event has taken %" PRId64 " milliseconds or longer yet.\n",
            config_number(engine->config, CONFIG_LATENCY_MONITOR_THRESHOLD));
    } else {
        buffer_append_string(&text, "Slow events:\n");
        for (size_t i = 0; i < count; i++)
            describe_event(&text, &events[i]);
        append_advice(&text, engine, events, count);
    }
    reply_verbatim(call->reply, "txt", buffer_bytes(&text));
    buffer_release(&text);
    mem_free(events);
}

/* Steps are powers of two of 1.024 us. Each shows the largest time that is counted in it, as Redis does: with two digits of
 * precision a value is known to 1/128 of its power of two. */
static uint64_t step_end_us(int step)
{
    return ((UINT64_C(1024) << step) + (UINT64_C(8) << step) - 1) / 1000;
}

static bool reply_histogram(struct call *call, const char *name, const uint64_t counts[LATENCY_BUCKETS])
{
    uint64_t seen = 0, reported = 0, total = 0;
    struct reply_later later;
    size_t pairs = 0;
    size_t bucket = 0;

    for (int i = 0; i < LATENCY_BUCKETS; i++)
        total += counts[i];
    if (total == 0)
        return false;
    reply_bulk_string(call->reply, name);
    reply_map(call->reply, 2);
    reply_bulk_string(call->reply, "calls");
    reply_integer(call->reply, (int64_t)total);
    reply_bulk_string(call->reply, "histogram_usec");
    later = reply_later_begin(call->reply);
    for (int step = 0; step < HISTOGRAM_STEPS || seen < total; step++) {
        /* A bucket that begins below the step's power of two ends there at the latest. */
        while (bucket < LATENCY_BUCKETS && (histogram_bucket_min(bucket, LATENCY_STEP_BITS) < UINT64_C(1024) << step || step >= HISTOGRAM_STEPS))
            seen += counts[bucket++];
        if (seen == reported)
            continue;
        reply_integer(call->reply, (int64_t)step_end_us(step));
        reply_integer(call->reply, (int64_t)seen);
        reported = seen;
        pairs++;
    }
    reply_later_map(call->reply, later, pairs);
    return true;
}

static bool reply_command(struct call *call, const struct command *command)
{
    uint64_t counts[LATENCY_BUCKETS];

    engine_command_latency(call->engine, command, counts);
    return reply_histogram(call, command->name, counts);
}

/* Replies the histogram of a wait, whose name is no command's. It is not among those of all commands. */
static bool reply_wait(struct call *call, struct bytes name)
{
    enum wait_reason reason = wait_find(name);
    uint64_t counts[LATENCY_BUCKETS];

    if (reason == WAIT_REASONS)
        return false;
    histogram_load(waits_histogram(call->engine->stats.waits, reason), LATENCY_BUCKETS, counts);
    return reply_histogram(call, wait_name(reason), counts);
}

/* LATENCY HISTOGRAM [command ...]: a container selects its subcommands. */
void latency_histogram_command(struct call *call)
{
    const struct command_table *table = call->engine->commands;
    struct reply_later later = reply_later_begin(call->reply);
    size_t count = 0;

    if (call->arg_count == 2) {
        for (size_t i = 0; i < command_row_count(table); i++)
            count += reply_command(call, command_row_at(table, i));
    }
    for (int i = 2; i < call->arg_count; i++) {
        const struct command *command = command_find_full(table, call->args[i]);

        if (command == NULL) {
            count += reply_wait(call, call->args[i]);
            continue;
        }
        count += reply_command(call, command);
        for (struct command **child = command->children; child != NULL && *child != NULL; child++)
            count += reply_command(call, *child);
    }
    reply_later_map(call->reply, later, count);
}

void latency_help_command(struct call *call)
{
    static const char *const lines[] = {
        "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DOCTOR",
        "    Returns a report about slow events, with advice.",
        "GRAPH <event>",
        "    Returns the samples of an event as a graph.",
        "HISTORY <event>",
        "    Returns the samples of an event: time and milliseconds.",
        "LATEST",
        "    Returns the newest and the worst sample of each event.",
        "RESET [<event> ...]",
        "    Deletes the samples of the events, or of all events.",
        "HISTOGRAM [<command> ...]",
        "    Returns how many calls took up to how many microseconds, for the commands or for all. The names of",
        "    waits are cold-wait, memory-wait, owner-wait, pause-wait and job-wait.",
        "HELP",
        "    Returns this text.",
        NULL,
    };

    reply_help(call, lines);
}
