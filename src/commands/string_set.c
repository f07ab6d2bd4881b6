/* The string commands that write whole values, and GETEX, which shares their options.
 *
 * What is logged never depends on the time of the replay: an expiry is logged as PXAT. Nor does it depend on the old value, where
 * that is easy to achieve: then replaying an overwrite needs no load of a cold key.
 */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/string_access.h"
#include "commands/string_options.h"

/* These options need to know the old value. */
enum { OPTIONS_THAT_LOOK = OPTION_NX | OPTION_XX | OPTION_GET | OPTION_KEEPTTL };

static void propagate_set(struct call *call, struct bytes value, int64_t expire_ms, bool keeps_expiry)
{
    struct bytes words[5] = { BYTES("SET"), call->args[1], value };
    int count = 3;

    if (expire_ms >= 0) {
        words[count++] = BYTES("PXAT");
        words[count++] = call_integer(call, expire_ms);
    } else if (keeps_expiry) {
        words[count++] = BYTES("KEEPTTL");
    }
    call_propagate(call, words, count);
}

/* Writes the value without reading the old one: no allocation unless it is a large one. */
static void overwrite_value(struct call *call, int key_arg, int value_arg, int64_t expire_ms)
{
    struct key key;

    key_open(call, key_arg, KEY_FOR_OVERWRITING, &key);
    key_set_string(&key, call->args[value_arg]);
    key.expire_ms = expire_ms;
    key_changed(&key, EVENT_SET);
    if (expire_ms >= 0)
        key_event(&key, EVENT_EXPIRE);
}

/* False if the options forbid the change, or an error was replied. */
static bool may_set(struct call *call, const struct key *key, uint32_t given)
{
    bool forbidden = (given & OPTION_NX && key->present) || (given & OPTION_XX && !key->present);

    if (given & OPTION_GET) {
        if (key->present && key->value.type != VALUE_STRING) {
            reply_error(call, ERR_WRONG_TYPE);
            return false;
        }
        key_count_read(key);
        if (key->present)
            reply_string(call->reply, &key->value);
        else
            reply_null(call->reply);
    } else if (forbidden) {
        reply_null(call->reply);
    }
    return !forbidden;
}

static void set_looking(struct call *call, uint32_t given, int64_t expire_ms)
{
    struct key key;

    key_open(call, 1, KEY_FOR_WRITING, &key);
    if (!may_set(call, &key, given))
        return;
    key_set_string(&key, call->args[2]);
    if (!(given & OPTION_KEEPTTL))
        key.expire_ms = expire_ms;
    key_changed(&key, EVENT_SET);
    if (expire_ms >= 0)
        key_event(&key, EVENT_EXPIRE);
    if (expire_ms >= 0 || given & (OPTION_XX | OPTION_GET))
        propagate_set(call, call->args[2], expire_ms, given & OPTION_KEEPTTL);
    if (!(given & OPTION_GET))
        reply_ok(call->reply);
}

void set_command(struct call *call)
{
    struct string_options options;
    int64_t expire_ms;

    if (__builtin_expect(call->arg_count == 3, 1)) {
        overwrite_value(call, 1, 2, -1);
        reply_ok(call->reply);
        return;
    }
    if (!string_options_read(call, 3, OPTIONS_OF_SET, &options) || !string_options_expire_ms(call, &options, &expire_ms))
        return;
    if (options.given & OPTIONS_THAT_LOOK) {
        set_looking(call, options.given, expire_ms);
        return;
    }
    overwrite_value(call, 1, 2, expire_ms);
    propagate_set(call, call->args[2], expire_ms, false);
    reply_ok(call->reply);
}

static void set_expiring(struct call *call, enum string_option unit)
{
    struct string_options options = { .given = unit, .time_arg = 2 };
    int64_t expire_ms;

    if (!string_options_expire_ms(call, &options, &expire_ms))
        return;
    overwrite_value(call, 1, 3, expire_ms);
    propagate_set(call, call->args[3], expire_ms, false);
    reply_ok(call->reply);
}

void setex_command(struct call *call)
{
    set_expiring(call, OPTION_EX);
}

void psetex_command(struct call *call)
{
    set_expiring(call, OPTION_PX);
}

void setnx_command(struct call *call)
{
    struct key key;

    if (key_open(call, 1, KEY_FOR_WRITING, &key)) {
        reply_integer(call->reply, 0);
        return;
    }
    key_set_string(&key, call->args[2]);
    key_changed(&key, EVENT_SET);
    reply_integer(call->reply, 1);
}

void getset_command(struct call *call)
{
    struct key key;

    key_open(call, 1, KEY_FOR_WRITING, &key);
    if (!may_set(call, &key, OPTION_GET))
        return;
    key_set_string(&key, call->args[2]);
    key.expire_ms = -1;
    key_changed(&key, EVENT_SET);
    propagate_set(call, call->args[2], -1, false);
}

/* A time that has passed removes the key at once; not while replaying, when only the log removes keys. */
static void getex_expire(struct call *call, struct key *key, uint32_t given, int64_t expire_ms)
{
    if (given & OPTION_ABSOLUTE && expire_ms <= call->turn->now_ms && !call->turn->clock_stopped) {
        key_remove(key, KEY_REMOVE_LAZILY, EVENT_DEL);
        call_propagate(call, (struct bytes[]){ BYTES("DEL"), call->args[1] }, 2);
        return;
    }
    key->expire_ms = expire_ms;
    key_changed(key, EVENT_EXPIRE);
    call_propagate(call, (struct bytes[]){ BYTES("PEXPIREAT"), call->args[1], call_integer(call, expire_ms) }, 3);
}

void getex_command(struct call *call)
{
    struct string_options options;
    int64_t expire_ms;
    struct key key;

    if (!string_options_read(call, 2, OPTIONS_OF_GETEX, &options))
        return;
    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_STRING, &key))
        return;
    key_count_read(&key);
    if (!key.present) {         /* before the time is parsed, as in Redis */
        reply_null(call->reply);
        return;
    }
    if (!string_options_expire_ms(call, &options, &expire_ms))
        return;
    reply_string(call->reply, &key.value);
    if (options.given & OPTION_TIMES) {
        getex_expire(call, &key, options.given, expire_ms);
    } else if (options.given & OPTION_PERSIST && key.expire_ms >= 0) {
        key.expire_ms = -1;
        key_changed(&key, EVENT_PERSIST);
        call_propagate(call, (struct bytes[]){ BYTES("PERSIST"), call->args[1] }, 2);
    }
}

/* Keys and values come in pairs. */
static bool check_pairs(struct call *call)
{
    if (call->arg_count % 2 != 0)
        return true;
    reply_wrong_arity(call);
    return false;
}

void mset_command(struct call *call)
{
    if (!check_pairs(call))
        return;
    for (int i = 1; i < call->arg_count; i += 2)
        overwrite_value(call, i, i + 1, -1);
    reply_ok(call->reply);
}

void msetnx_command(struct call *call)
{
    struct key key;

    if (!check_pairs(call))
        return;
    for (int i = 1; i < call->arg_count; i += 2)
        if (key_open(call, i, KEY_FOR_WRITING, &key)) {
            reply_integer(call->reply, 0);
            return;
        }
    for (int i = 1; i < call->arg_count; i += 2)
        overwrite_value(call, i, i + 1, -1);
    reply_integer(call->reply, 1);
}
