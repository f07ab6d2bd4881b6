/* Times of fields: HEXPIRE and its kin, HTTL and its kin, HPERSIST.
 *
 * The log gets absolute times (HPEXPIREAT) and none of the conditions, for they held, and only the fields for which they did; a
 * field whose time has come already is deleted at once, and logged as an HDEL.
 */
#include "call/call.h"
#include "call/key.h"
#include "commands/hash.h"
#include "value/hash.h"

/* Redis takes no later ones; the year is 4199. */
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
        /* The two words kept free for FIELDS go to the front, the command and the key right behind them. */
        for (int i = log->head_count - 1; i >= 0; i--)
            log->words[i + 2] = log->words[i];
        call_propagate(call, log->words + 2, log->count - 2);
    }
}

enum hash_expire_condition { ALWAYS, IF_NONE, IF_ANY, IF_GREATER, IF_LESS };

/* A word at argument 3, if there is one of these. */
static enum hash_expire_condition condition_argument(struct call *call)
{
    static const char *const words[] = { [IF_NONE] = "nx", [IF_ANY] = "xx", [IF_GREATER] = "gt", [IF_LESS] = "lt" };

    for (int i = IF_NONE; i <= IF_LESS; i++) {
        if (arg_is(call, 3, words[i]))
            return (enum hash_expire_condition)i;
    }
    return ALWAYS;
}

/* No time counts as an infinite one. */
static bool condition_holds(enum hash_expire_condition condition, int64_t old_ms, int64_t when_ms)
{
    switch (condition) {
    case ALWAYS: return true;
    case IF_NONE: return old_ms < 0;
    case IF_ANY: return old_ms >= 0;
    case IF_GREATER: return old_ms >= 0 && when_ms > old_ms;
    case IF_LESS: return old_ms < 0 || when_ms < old_ms;
    }
    return false;
}

enum { NO_FIELD = -2, NO_TIME = -1, NOT_MET = 0, DONE = 1, DELETED = 2 };

static void reply_missing(struct call *call, int count)
{
    reply_array(call->reply, (size_t)count);
    for (int i = 0; i < count; i++)
        reply_integer(call->reply, NO_FIELD);
}

static int expire_field(struct call *call, struct key *key, struct bytes field, enum hash_expire_condition condition, int64_t when_ms)
{
    int64_t old_ms = hash_time(&key->value, field);

    if (old_ms == HASH_NO_FIELD)
        return NO_FIELD;
    if (!condition_holds(condition, old_ms, when_ms))
        return NOT_MET;
    if (hash_is_past(call, when_ms)) {
        hash_delete(&key->value, field);
        return DELETED;
    }
    hash_set_time(&key->value, &call->turn->limits, field, when_ms);
    return DONE;
}

static void expire_fields(struct call *call, struct key *key, const struct hash_fields *fields, enum hash_expire_condition condition,
    int64_t when_ms)
{
    const struct bytes expire[] = { BYTES("HPEXPIREAT"), key->name, call_integer(call, when_ms) };
    const struct bytes delete[] = { BYTES("HDEL"), key->name };
    bool is_past = hash_is_past(call, when_ms);
    uint64_t changes = call->change_count, changed = 0;
    struct hash_log log;

    hash_log_begin(call, &log, is_past ? delete : expire, is_past ? 2 : 3, fields->count);
    reply_array(call->reply, (size_t)fields->count);
    for (int i = 0; i < fields->count; i++) {
        int result = expire_field(call, key, fields->list[i], condition, when_ms);

        if (result == DONE || result == DELETED) {
            hash_log_add(&log, fields->list[i]);
            changed++;
        }
        reply_integer(call->reply, result);
    }
    if (changed == 0)
        return;
    key_changed(key, is_past ? "hdel" : "hexpire");
    if (hash_count(&key->value) == 0)
        key_remove(key, KEY_REMOVE_NOW, "del");
    call->change_count = changes + changed;
    hash_log_end(call, &log, 1, !is_past);
}

static void expire(struct call *call, uint32_t form)
{
    struct hash_fields fields;
    enum hash_expire_condition condition;
    int64_t when_ms;
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_HASH, &key) || !hash_time_argument(call, 2, form, &when_ms))
        return;
    condition = condition_argument(call);
    if (!hash_fields_argument(call, condition == ALWAYS ? 3 : 4, "Parameter `numFields` should be greater than 0", &fields))
        return;
    if (key.present)
        expire_fields(call, &key, &fields, condition, when_ms);
    else
        reply_missing(call, fields.count);
}

void hexpire_command(struct call *call)
{
    expire(call, HASH_SECONDS);
}

void hpexpire_command(struct call *call)
{
    expire(call, 0);
}

void hexpireat_command(struct call *call)
{
    expire(call, HASH_SECONDS | HASH_AT);
}

void hpexpireat_command(struct call *call)
{
    expire(call, HASH_AT);
}

static const char *const count_not_positive = "Number of fields must be a positive integer";

/* Seconds are rounded up: what is left is more than nothing until it is nothing. */
static void tell_times(struct call *call, uint32_t form)
{
    struct hash_fields fields;
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_READING, VALUE_HASH, &key) || !hash_fields_argument(call, 2, count_not_positive, &fields))
        return;
    if (!key.present) {
        reply_missing(call, fields.count);
        return;
    }
    reply_array(call->reply, (size_t)fields.count);
    for (int i = 0; i < fields.count; i++) {
        int64_t ms = hash_time(&key.value, fields.list[i]);

        if (ms >= 0 && !(form & HASH_AT))
            ms = ms > call->turn->now_ms ? ms - call->turn->now_ms : 0;
        if (ms >= 0 && form & HASH_SECONDS)
            ms = (ms + 999) / 1000;
        reply_integer(call->reply, ms);
    }
}

void httl_command(struct call *call)
{
    tell_times(call, HASH_SECONDS);
}

void hpttl_command(struct call *call)
{
    tell_times(call, 0);
}

void hexpiretime_command(struct call *call)
{
    tell_times(call, HASH_SECONDS | HASH_AT);
}

void hpexpiretime_command(struct call *call)
{
    tell_times(call, HASH_AT);
}

void hpersist_command(struct call *call)
{
    struct hash_fields fields;
    struct key key;
    uint64_t changes = call->change_count, changed = 0;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_HASH, &key) || !hash_fields_argument(call, 2, count_not_positive, &fields))
        return;
    if (!key.present) {
        reply_missing(call, fields.count);
        return;
    }
    reply_array(call->reply, (size_t)fields.count);
    for (int i = 0; i < fields.count; i++) {
        int64_t ms = hash_time(&key.value, fields.list[i]);

        if (ms >= 0) {
            hash_set_time(&key.value, &call->turn->limits, fields.list[i], HASH_NO_TIME);
            changed++;
        }
        reply_integer(call->reply, ms >= 0 ? DONE : ms);
    }
    if (changed == 0)
        return;
    key_changed(&key, "hpersist");
    call->change_count = changes + changed;
}
