#include "commands/hash_fields.h"

/* The limit of Redis, in the year 4199. */
static const int64_t when_max_ms = ((int64_t)1 << 46) - 1;

bool hash_time_argument(struct call *call, int arg, uint32_t form, int64_t *when_ms)
{
    int64_t unit = form & HASH_TIME_SECONDS ? 1000 : 1, base = form & HASH_TIME_ABSOLUTE ? 0 : call->turn->now_ms;

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

bool hash_time_is_past(const struct call *call, int64_t when_ms)
{
    return when_ms <= call->turn->now_ms && !call->turn->clock_stopped;
}

void hash_log_begin(struct hash_log *log, struct call *call, enum hash_log_form form, const struct bytes *head, int head_count,
    int field_words_max)
{
    int field_first = form == HASH_LOG_PLAIN ? head_count : head_count + 2;

    *log = (struct hash_log){
        .call = call,
        .form = form,
        .words = arena_alloc(call->arena, (size_t)(field_first + field_words_max) * sizeof(struct bytes)),
        .field_first = field_first,
        .count = field_first,
    };
    for (int i = 0; i < head_count; i++)
        log->words[i] = head[i];
}

void hash_log_add(struct hash_log *log, struct bytes word)
{
    log->words[log->count++] = word;
}

void hash_log_end(struct hash_log *log)
{
    int word_count = log->count - log->field_first;

    if (word_count == 0)
        return;
    if (log->form != HASH_LOG_PLAIN) {
        log->words[log->field_first - 2] = BYTES("FIELDS");
        log->words[log->field_first - 1] = call_integer(log->call, log->form == HASH_LOG_PAIRS ? word_count / 2 : word_count);
    }
    call_propagate(log->call, log->words, log->count);
}

void hash_log_store(struct hash_log *log, struct key *key, enum event event)
{
    uint64_t changes = log->call->change_count, changed = (uint64_t)(log->count - log->field_first);

    if (changed == 0)
        return;
    key_changed(key, event);
    if (hash_count(&key->value) == 0)
        key_remove(key, KEY_REMOVE_NOW, EVENT_DEL);
    log->call->change_count = changes + changed;
    hash_log_end(log);
}
