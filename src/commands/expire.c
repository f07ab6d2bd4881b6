/* EXPIRE, TTL, PERSIST and related commands.
 *
 * The log gets absolute times (PEXPIREAT), so that replaying it an hour later does not add an hour, and no conditions, because
 * they held.
 */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/keys.h"

enum expire_condition { IF_NONE = 1, IF_ANY = 2, IF_GREATER = 4, IF_LESS = 8 };

/* NX, XX, GT, LT from argument 3 on. */
static bool parse_conditions(struct call *call, uint32_t *conditions)
{
    *conditions = 0;
    for (int arg = 3; arg < call->arg_count; arg++) {
        if (arg_is(call, arg, "nx")) {
            *conditions |= IF_NONE;
        } else if (arg_is(call, arg, "xx")) {
            *conditions |= IF_ANY;
        } else if (arg_is(call, arg, "gt")) {
            *conditions |= IF_GREATER;
        } else if (arg_is(call, arg, "lt")) {
            *conditions |= IF_LESS;
        } else {
            reply_errorf(call, "ERR Unsupported option %.*s", (int)call->args[arg].size, call->args[arg].data);
            return false;
        }
    }
    if (*conditions & IF_NONE && *conditions != IF_NONE) {
        reply_errorf(call, "ERR NX and XX, GT or LT options at the same time are not compatible");
        return false;
    }
    if (*conditions & IF_GREATER && *conditions & IF_LESS) {
        reply_errorf(call, "ERR GT and LT options at the same time are not compatible");
        return false;
    }
    return true;
}

/* No expiry counts as infinite. */
static bool conditions_hold(uint32_t conditions, int64_t old_ms, int64_t when_ms)
{
    bool has_old = old_ms >= 0;

    if (conditions & IF_NONE && has_old)
        return false;
    if (conditions & IF_ANY && !has_old)
        return false;
    if (conditions & IF_GREATER && (!has_old || when_ms <= old_ms))
        return false;
    return !(conditions & IF_LESS && has_old && when_ms >= old_ms);
}

enum time_origin { SINCE_NOW, SINCE_1970 };
enum time_unit { SECONDS = 1000, MILLISECONDS = 1 };

/* Argument 2, as milliseconds since 1970; may be in the past, and even negative. */
static bool parse_time(struct call *call, enum time_origin origin, enum time_unit unit, int64_t *when_ms)
{
    if (!arg_integer(call, 2, when_ms))
        return false;
    if (!__builtin_mul_overflow(*when_ms, (int64_t)unit, when_ms) &&
        (origin == SINCE_1970 || !__builtin_add_overflow(*when_ms, call->turn->now_ms, when_ms)))
        return true;
    reply_errorf(call, "ERR invalid expire time in '%s' command", call->command->name);
    return false;
}

/* The time has passed already: the key is removed at once. */
static void remove_expired(struct call *call, struct key *key)
{
    call_propagate(call, (struct bytes[]){ BYTES("DEL"), key->name }, 2);
    key_remove(key, keys_removal(call, CONFIG_LAZYFREE_LAZY_EXPIRE), EVENT_DEL);
}

static void set_expiry(struct call *call, struct key *key, int64_t when_ms)
{
    key->expire_ms = when_ms;
    key_changed(key, EVENT_EXPIRE);
    call_propagate(call, (struct bytes[]){ BYTES("PEXPIREAT"), key->name, call_integer(call, when_ms) }, 3);
}

static void run_expire(struct call *call, enum time_origin origin, enum time_unit unit)
{
    uint32_t conditions;
    int64_t when_ms;
    struct key key;

    if (!parse_conditions(call, &conditions) || !parse_time(call, origin, unit, &when_ms))
        return;
    if (!key_open(call, 1, KEY_FOR_WRITING, &key) || !conditions_hold(conditions, key.expire_ms, when_ms)) {
        reply_integer(call->reply, 0);
        return;
    }
    if (when_ms <= call->turn->now_ms && !call->turn->clock_stopped)
        remove_expired(call, &key);
    else
        set_expiry(call, &key, when_ms < 0 ? 0 : when_ms);
    reply_integer(call->reply, 1);
}

void expire_command(struct call *call)
{
    run_expire(call, SINCE_NOW, SECONDS);
}

void pexpire_command(struct call *call)
{
    run_expire(call, SINCE_NOW, MILLISECONDS);
}

void expireat_command(struct call *call)
{
    run_expire(call, SINCE_1970, SECONDS);
}

void pexpireat_command(struct call *call)
{
    run_expire(call, SINCE_1970, MILLISECONDS);
}

void persist_command(struct call *call)
{
    struct key key;

    if (!key_open(call, 1, KEY_FOR_WRITING, &key) || key.expire_ms < 0) {
        reply_integer(call->reply, 0);
        return;
    }
    key.expire_ms = -1;
    key_changed(&key, EVENT_PERSIST);
    reply_integer(call->reply, 1);
}

static void tell_expiry(struct call *call, enum time_origin origin, enum time_unit unit)
{
    struct key key;
    int64_t ms;

    if (!key_open(call, 1, KEY_FOR_READING, &key)) {
        reply_integer(call->reply, -2);
        return;
    }
    if (key.expire_ms < 0) {
        reply_integer(call->reply, -1);
        return;
    }
    ms = key.expire_ms;
    if (origin == SINCE_NOW)
        ms = ms > call->turn->now_ms ? ms - call->turn->now_ms : 0;
    reply_integer(call->reply, unit == SECONDS ? ms / 1000 + (ms % 1000 >= 500) : ms);
}

void ttl_command(struct call *call)
{
    tell_expiry(call, SINCE_NOW, SECONDS);
}

void pttl_command(struct call *call)
{
    tell_expiry(call, SINCE_NOW, MILLISECONDS);
}

void expiretime_command(struct call *call)
{
    tell_expiry(call, SINCE_1970, SECONDS);
}

void pexpiretime_command(struct call *call)
{
    tell_expiry(call, SINCE_1970, MILLISECONDS);
}
