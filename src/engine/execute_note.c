/* What is noted of a call that has ended: slow log, latency events, error statistics, hot keys. */
#include "engine/execute_private.h"

#include "call/secrets.h"
#include "stats/error_stats.h"
#include "stats/hot_keys.h"
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

    if (call->client->flags & (CLIENT_SCRIPT | CLIENT_REPLAY))
        return;
    names = arena_alloc(call->arena, (size_t)call->own_key_count * sizeof(*names));
    for (int i = 0; i < call->own_key_count; i++)
        names[i] = call->args[call->keys[i].arg];
    hot_keys_note(call->engine->hot_keys, call->turn->now_ms, names, (size_t)call->own_key_count, (uint64_t)ns,
        request_size(call) + own_reply_size(call));
}
