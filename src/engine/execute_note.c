/* Notes about a call that has ended: slow log, latency events, error statistics, hot keys, and what it waited for. */
#include "engine/execute_private.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "call/secrets.h"
#include "stats/error_stats.h"
#include "stats/hot_keys.h"
#include "stats/latency.h"
#include "stats/slowlog.h"
#include "stats/waits.h"

enum { WAITS_TEXT_SIZE = 256 };     /* of WAIT_REASONS numbers with their names */

void execute_note_error(struct call *call)
{
    const struct buffer *out = &call->reply->out;
    const char *text = out->data + call->reply_start, *end;

    turn_count(call->turn, STAT_ERROR_REPLIES, 1);
    if (out->size <= call->reply_start || text[0] != '-')
        return;
    end = memchr(text, '\r', out->size - call->reply_start);
    if (end != NULL)
        error_stats_note(call->engine->stats.errors, bytes_of(text + 1, (size_t)(end - text - 1)));
}

/* Why the client is parked. A load may have ended already: the client has a wait for it until its call has ended. */
static enum wait_reason reason_of(const struct client *client)
{
    if (client->paused)
        return WAIT_PAUSE;
    if (client->parking.queue != 0)
        return WAIT_MEMORY;
    if (client->owned.claim != NULL)
        return WAIT_OWNER;
    if (client->loads.waits != NULL)
        return WAIT_COLD;
    return client->job != NULL ? WAIT_JOB : WAIT_OWNER;
}

void execute_note_parked(struct client *client)
{
    if (!client->request.has_waited)
        memset(client->request.waited_us, 0, sizeof(client->request.waited_us));
    client->request.has_waited = true;
    client->request.parked_for = reason_of(client);
    client->request.parked_us = clock_mono_us();
}

void execute_note_resumed(struct client *client, int64_t now_us)
{
    if (client->request.has_waited && now_us > client->request.parked_us)
        client->request.waited_us[client->request.parked_for] += now_us - client->request.parked_us;
}

void execute_note_waits(struct call *call)
{
    struct engine *engine = call->engine;
    int64_t latency_ms = config_number(engine->config, CONFIG_LATENCY_MONITOR_THRESHOLD);

    for (enum wait_reason reason = 0; reason < WAIT_REASONS; reason++) {
        int64_t us = call->client->request.waited_us[reason];

        if (us > 0)
            waits_note(engine->stats.waits, reason, us);
        if (latency_ms > 0 && us / 1000 >= latency_ms)
            latency_note(engine->stats.latency, wait_name(reason), us / 1000);
    }
}

/* A unit waits as a whole: not each of its calls. */
static int64_t waited_us(const struct call *call)
{
    int64_t us = 0;

    if (LIKELY(!call->client->request.has_waited) || call->unit != NULL)
        return 0;
    for (int reason = 0; reason < WAIT_REASONS; reason++)
        us += call->client->request.waited_us[reason];
    return us;
}

/* EXEC is not logged for its execution, since its calls are. */
static bool is_slow(const struct call *call, int64_t us)
{
    const struct config *config = call->engine->config;
    int64_t slow_us = config_number(config, CONFIG_SLOWLOG_LOG_SLOWER_THAN), wait_us;

    if (slow_us >= 0 && us >= slow_us && !(call->command->flags & COMMAND_SKIP_SLOWLOG))
        return true;
    if (waited_us(call) == 0)
        return false;
    wait_us = config_number(config, CONFIG_SLOWLOG_LOG_WAITS_SLOWER_THAN);
    return wait_us >= 0 && waited_us(call) >= wait_us;
}

/* "(waited 15023 us: cold-wait 15000, owner-wait 23)"; empty: it has not. */
static struct bytes describe_waits(struct call *call)
{
    const struct client *client = call->client;
    const char *mark = ":";
    size_t size = 0;
    char *text;

    if (waited_us(call) == 0)
        return bytes_of(NULL, 0);
    text = arena_alloc(call->arena, WAITS_TEXT_SIZE);
    size += (size_t)snprintf(text, WAITS_TEXT_SIZE, "(waited %" PRId64 " us", waited_us(call));
    for (enum wait_reason reason = 0; reason < WAIT_REASONS; reason++) {
        if (client->request.waited_us[reason] == 0)
            continue;
        size += (size_t)snprintf(text + size, WAITS_TEXT_SIZE - size, "%s %s %" PRId64, mark, wait_name(reason), client->request.waited_us[reason]);
        mark = ",";
    }
    text[size++] = ')';
    return bytes_of(text, size);
}

static void note_slow(struct call *call, int64_t us)
{
    const struct client *client = call->client;
    struct slow_call slow = { .args = secrets_hide(call), .arg_count = call->arg_count, .us = us, .time_s = call->turn->now_ms / 1000,
        .address = client->address, .name = client->names.name, .note = describe_waits(call) };

    slowlog_note(call->engine->stats.slowlog, (size_t)config_number(call->engine->config, CONFIG_SLOWLOG_MAX_LEN), &slow);
}

void execute_note_call(struct call *call, int64_t us)
{
    int64_t latency_ms = config_number(call->engine->config, CONFIG_LATENCY_MONITOR_THRESHOLD);

    if (call->failed && !call->error_counted)
        execute_note_error(call);
    if (is_slow(call, us))
        note_slow(call, us);
    if (latency_ms > 0 && us / 1000 >= latency_ms)
        latency_note(call->engine->stats.latency, call->command->flags & COMMAND_FAST ? "fast-command" : "command", us / 1000);
}

void execute_count_rejected(struct call *call)
{
    if (call->command != NULL)
        command_stats_add(&engine_stats_of(call->engine, call->turn, call->command)->rejected, 1);
    execute_note_error(call);
}

/* Bytes of the request, as clients send it. */
static uint64_t request_size(const struct call *call)
{
    char digits[TEXT_INT_SIZE];
    uint64_t size = 3 + text_of_int(call->arg_count, digits);

    for (int i = 0; i < call->arg_count; i++)
        size += 5 + text_of_int((int64_t)call->args[i].size, digits) + call->args[i].size;
    return size;
}

/* Strings that the reply refers to are part of it, too. */
static uint64_t own_reply_size(const struct call *call)
{
    const struct reply *reply = call->reply;
    uint64_t size = reply->out.size > call->reply_start ? reply->out.size - call->reply_start : 0;

    for (size_t i = reply->share_count; i > 0 && reply->shares[i - 1].offset >= call->reply_start; i--)
        size += reply->shares[i - 1].blob->buffer.size;
    return size;
}

/* A script counts for the keys that it was given, and its own calls do not count. */
void execute_note_keys(struct call *call, int64_t ns)
{
    struct bytes *names;

    if (call->client->caller & (TRAIT_IN_SCRIPT | TRAIT_OBEYED))
        return;
    names = arena_alloc(call->arena, (size_t)call->own_key_count * sizeof(*names));
    for (int i = 0; i < call->own_key_count; i++)
        names[i] = call->args[call->keys[i].arg];
    hot_keys_note(call->engine->stats.hot_keys, call->turn->now_us / 1000, names, (size_t)call->own_key_count, (uint64_t)ns,
        request_size(call) + own_reply_size(call));
}
