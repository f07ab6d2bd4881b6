/* What is noted of a call that has ended: slow log, latency events, error statistics. */
#include "engine/execute_private.h"

#include "call/secrets.h"
#include "stats/error_stats.h"
#include "stats/latency.h"
#include "stats/slowlog.h"

void execute_note_error(struct call *call)
{
    const struct buffer *out = &call->reply->out;
    const char *text = out->data + call->reply_start, *end;

    turn_count(call->turn, STAT_ERROR_REPLIES, 1);
    if (out->size <= call->reply_start || text[0] != '-')
        return;
    end = memchr(text, '\r', out->size - call->reply_start);
    if (end != NULL)
        error_stats_note(call->engine->errors, bytes_of(text + 1, (size_t)(end - text - 1)));
}

void execute_note_call(struct call *call, int64_t us)
{
    const struct config *config = call->engine->config;
    int64_t slow_us = config_number(config, CONFIG_SLOWLOG_LOG_SLOWER_THAN);
    int64_t latency_ms = config_number(config, CONFIG_LATENCY_MONITOR_THRESHOLD);

    if (call->failed && !call->error_counted)
        execute_note_error(call);
    if (slow_us >= 0 && us >= slow_us && !(call->command->flags & COMMAND_SKIP_SLOWLOG)) {
        slowlog_note(call->engine->slowlog, (size_t)config_number(config, CONFIG_SLOWLOG_MAX_LEN), secrets_hide(call),
            call->arg_count, us,
            call->turn->now_ms / 1000, call->client->address, call->client->name);
    }
    if (latency_ms > 0 && us / 1000 >= latency_ms)
        latency_note(call->engine->latency, call->command->flags & COMMAND_FAST ? "fast-command" : "command", us / 1000);
}
