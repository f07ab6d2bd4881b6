/* HEXPIRE, HTTL, HPERSIST and related commands: expiry times of fields.
 *
 * The log gets absolute times (HPEXPIREAT) and no conditions, because they held, and only the fields for which they did. A field
 * whose time has passed already is deleted at once and logged as an HDEL.
 */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/hash_fields.h"
#include "value/hash.h"

enum hash_expire_condition { ALWAYS, IF_NONE, IF_ANY, IF_GREATER, IF_LESS };

/* The condition at argument 3, if there is one. */
static enum hash_expire_condition condition_argument(struct call *call)
{
    static const char *const words[] = { [IF_NONE] = "nx", [IF_ANY] = "xx", [IF_GREATER] = "gt", [IF_LESS] = "lt" };

    for (int i = IF_NONE; i <= IF_LESS; i++) {
        if (arg_is(call, 3, words[i]))
            return (enum hash_expire_condition)i;
    }
    return ALWAYS;
}

/* No expiry counts as infinite. */
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
    if (hash_time_is_past(call, when_ms)) {
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
    bool is_past = hash_time_is_past(call, when_ms);
    struct hash_log log;

    hash_log_begin(&log, call, is_past ? HASH_LOG_PLAIN : HASH_LOG_FIELDS, is_past ? delete : expire, is_past ? 2 : 3, fields->count);
    reply_array(call->reply, (size_t)fields->count);
    for (int i = 0; i < fields->count; i++) {
        int result = expire_field(call, key, fields->list[i], condition, when_ms);

        if (result == DONE || result == DELETED)
            hash_log_add(&log, fields->list[i]);
        reply_integer(call->reply, result);
    }
    hash_log_store(&log, key, is_past ? EVENT_HDEL : EVENT_HEXPIRE);
}

static void run_expire(struct call *call, uint32_t form)
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
    if (!hash_fields_ready(&key, fields.list, fields.count, 1, hash_time_is_past(call, when_ms) ? HASH_NO_TIME : when_ms))
        return;
    if (key.present)
        expire_fields(call, &key, &fields, condition, when_ms);
    else
        reply_missing(call, fields.count);
}

void hexpire_command(struct call *call)
{
    run_expire(call, HASH_TIME_SECONDS);
}

void hpexpire_command(struct call *call)
{
    run_expire(call, 0);
}

void hexpireat_command(struct call *call)
{
    run_expire(call, HASH_TIME_SECONDS | HASH_TIME_ABSOLUTE);
}

void hpexpireat_command(struct call *call)
{
    run_expire(call, HASH_TIME_ABSOLUTE);
}

static const char *const count_not_positive = "Number of fields must be a positive integer";

/* Seconds are rounded up, so that a field that exists has at least one. */
static void reply_times(struct call *call, uint32_t form)
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

        if (ms >= 0 && !(form & HASH_TIME_ABSOLUTE))
            ms = ms > call->turn->now_ms ? ms - call->turn->now_ms : 0;
        if (ms >= 0 && form & HASH_TIME_SECONDS)
            ms = (ms + 999) / 1000;
        reply_integer(call->reply, ms);
    }
}

void httl_command(struct call *call)
{
    reply_times(call, HASH_TIME_SECONDS);
}

void hpttl_command(struct call *call)
{
    reply_times(call, 0);
}

void hexpiretime_command(struct call *call)
{
    reply_times(call, HASH_TIME_SECONDS | HASH_TIME_ABSOLUTE);
}

void hpexpiretime_command(struct call *call)
{
    reply_times(call, HASH_TIME_ABSOLUTE);
}

void hpersist_command(struct call *call)
{
    struct hash_fields fields;
    struct key key;
    uint64_t changes = call->change_count, changed = 0;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_HASH, &key) || !hash_fields_argument(call, 2, count_not_positive, &fields))
        return;
    if (!hash_fields_ready(&key, fields.list, fields.count, 1, HASH_NO_TIME))
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
    key_changed(&key, EVENT_HPERSIST);
    call->change_count = changes + changed;
}
