#include "commands/hash_fields.h"

/* The limit of Redis, in the year 4199. */
static const int64_t when_max_ms = ((int64_t)1 << 46) - 1;

bool hash_time_argument(struct call *call, int arg, uint32_t form, int64_t *when_ms)
{
    int64_t unit = form & HASH_SECONDS ? 1000 : 1, base = form & HASH_AT ? 0 : call->turn->now_ms;

    if (!arg_integer(call, arg, when_ms))
        return false;
    if (*when_ms < 0) {
        reply_errorf(call, "ERR invalid expire time, must be >= 0");
        return false;
    }
    if (*when_ms > when_max_ms / unit || *when_ms * unit > when_max_ms - base) {
        reply_errorf(call, "ERR invalid expire time in '%s' command", call->command->name);
        return false;
    }
    *when_ms = *when_ms * unit + base;
    return true;
}

bool hash_fields_argument(struct call *call, int arg, const char *bad_count, struct hash_fields *fields)
{
    int64_t count;

    if (arg + 1 >= call->arg_count || !arg_is(call, arg, "fields")) {
        reply_errorf(call, "ERR Mandatory argument FIELDS is missing or not at the right position");
        return false;
    }
    if (!text_to_int(call->args[arg + 1], &count) || count < 1) {
        reply_errorf(call, "ERR %s", bad_count);
        return false;
    }
    if (count != call->arg_count - arg - 2) {
        reply_errorf(call, "ERR The `numfields` parameter must match the number of arguments");
        return false;
    }
    *fields = (struct hash_fields){ call->args + arg + 2, (int)count };
    return true;
}

bool hash_is_past(const struct call *call, int64_t when_ms)
{
    return when_ms <= call->turn->now_ms && !call->turn->clock_stopped;
}

void hash_log_begin(struct call *call, struct hash_log *log, const struct bytes *head, int head_count, int field_words_max)
{
    *log = (struct hash_log){
        .words = arena_alloc(call->arena, (size_t)(head_count + 2 + field_words_max) * sizeof(struct bytes)),
        .head_count = head_count,
        .count = head_count + 2,
    };
    for (int i = 0; i < head_count; i++)
        log->words[i] = head[i];
}

void hash_log_add(struct hash_log *log, struct bytes word)
{
    log->words[log->count++] = word;
}

void hash_log_end(struct call *call, struct hash_log *log, int words_each, bool says_fields)
{
    int words = log->count - log->head_count - 2;

    if (words == 0)
        return;
    if (says_fields) {
        log->words[log->head_count] = BYTES("FIELDS");
        log->words[log->head_count + 1] = call_integer(call, words / words_each);
        call_propagate(call, log->words, log->count);
    } else {
        /* The two words reserved for FIELDS move to the front: the command and the key now directly precede the fields. */
        for (int i = log->head_count - 1; i >= 0; i--)
            log->words[i + 2] = log->words[i];
        call_propagate(call, log->words + 2, log->count - 2);
    }
}
