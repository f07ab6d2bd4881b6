/* The string commands that write whole values, and GETEX, which shares their options.
 *
 * What is logged never depends on the time of the replay: an expiry is logged as PXAT. Nor does it depend on the old value, where
 * that is easy to achieve: then replaying an overwrite needs no load of a cold key.
 */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/string_access.h"
#include "commands/string_compare.h"
#include "commands/string_options.h"

/* These options need to know the old value. */
enum { OPTIONS_THAT_LOOK = OPTION_NX | OPTION_XX | OPTION_GET | OPTION_KEEPTTL | OPTION_COMPARISONS };

static void propagate_set_of(struct call *call, int key_arg, struct bytes value, int64_t expire_ms, bool keeps_expiry)
{
    struct bytes words[5] = { BYTES("SET"), call->args[key_arg], value };
    int count = 3;

    if (expire_ms >= 0) {
        words[count++] = BYTES("PXAT");
        words[count++] = call_integer(call, expire_ms);
    } else if (keeps_expiry) {
        words[count++] = BYTES("KEEPTTL");
    }
    call_propagate(call, words, count);
}

static void propagate_set(struct call *call, struct bytes value, int64_t expire_ms, bool keeps_expiry)
{
    propagate_set_of(call, 1, value, expire_ms, keeps_expiry);
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

/* The old value, if the options need one, is a string. False: WRONGTYPE was replied. */
static bool old_value_fits(struct call *call, const struct key *key, uint32_t given)
{
    if (!(given & (OPTION_GET | OPTION_COMPARISONS)) || !key->present || key->value.type == VALUE_STRING)
        return true;
    reply_error(call, ERR_WRONG_TYPE);
    return false;
}

/* False if the options forbid the change, an error was replied, or the old value is not there. */
static bool may_set(struct call *call, const struct key *key, const struct string_options *options)
{
    uint32_t given = options->given;
    bool forbidden = (given & OPTION_NX && key->present) || (given & OPTION_XX && !key->present);

    if (!old_value_fits(call, key, given) || (given & (OPTION_GET | OPTION_COMPARISONS) && !string_ask(key, 0, UINT64_MAX)))
        return false;
    if (given & OPTION_COMPARISONS)
        forbidden = !string_comparison_holds(call, key, options);
    if (given & OPTION_GET) {
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

static void set_looking(struct call *call, const struct string_options *options, int64_t expire_ms)
{
    uint32_t given = options->given;
    struct key key;

    key_open(call, 1, KEY_FOR_WRITING, &key);
    if (!may_set(call, &key, options))
        return;
    key_set_string(&key, call->args[2]);
    if (!(given & OPTION_KEEPTTL))
        key.expire_ms = expire_ms;
    key_changed(&key, EVENT_SET);
    if (expire_ms >= 0)
        key_event(&key, EVENT_EXPIRE);
    if (expire_ms >= 0 || given & (OPTION_XX | OPTION_GET | OPTION_COMPARISONS))
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
    if (!string_options_read(call, 3, OPTIONS_OF_SET, &options) || !string_options_expire_ms(call, &options, &expire_ms) ||
        !string_comparison_check(call, &options))
        return;
    if (options.given & OPTIONS_THAT_LOOK) {
        set_looking(call, &options, expire_ms);
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
    const struct string_options options = { .given = OPTION_GET };
    struct key key;

    key_open(call, 1, KEY_FOR_WRITING, &key);
    if (!may_set(call, &key, &options))
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

/* The arguments of MSETEX: the pairs begin at argument 2. False: an error was replied. */
static bool read_pairs(struct call *call, int *pair_count, struct string_options *options)
{
    int64_t count;

    if (!text_to_int(call->args[1], &count) || count < 1 || count > INT32_MAX) {
        reply_errorf(call, "ERR invalid numkeys value");
        return false;
    }
    if (count > (call->arg_count - 2) / 2) {
        reply_errorf(call, "ERR wrong number of key-value pairs");
        return false;
    }
    *pair_count = (int)count;
    return string_options_read(call, 2 + *pair_count * 2, OPTIONS_OF_MSETEX, options);
}

/* NX: none of the keys may exist; XX: all of them must. */
static bool condition_holds(struct call *call, int pair_count, uint32_t given)
{
    struct key key;

    if (!(given & (OPTION_NX | OPTION_XX)))
        return true;
    for (int i = 0; i < pair_count; i++) {
        if (key_open(call, 2 + i * 2, KEY_FOR_WRITING, &key) != (bool)(given & OPTION_XX))
            return false;
    }
    return true;
}

static void overwrite_keeping_expiry(struct call *call, int key_arg)
{
    struct key key;

    key_open(call, key_arg, KEY_FOR_WRITING, &key);
    key_set_string(&key, call->args[key_arg + 1]);
    key_changed(&key, EVENT_SET);
}

/* MSETEX numkeys key value ... [NX|XX] [expiry]. It is logged as MSET if that does the same, or else as a SET of each key. */
void msetex_command(struct call *call)
{
    struct string_options options;
    struct bytes *words;
    int64_t expire_ms;
    int pair_count;
    bool keeps;

    if (!read_pairs(call, &pair_count, &options) || !string_options_expire_ms(call, &options, &expire_ms))
        return;
    if (!condition_holds(call, pair_count, options.given)) {
        reply_integer(call->reply, 0);
        return;
    }
    keeps = options.given & OPTION_KEEPTTL;
    for (int arg = 2; arg < 2 + pair_count * 2; arg += 2) {
        if (keeps)
            overwrite_keeping_expiry(call, arg);
        else
            overwrite_value(call, arg, arg + 1, expire_ms);
        if (keeps || expire_ms >= 0)
            propagate_set_of(call, arg, call->args[arg + 1], expire_ms, keeps);
    }
    if (!keeps && expire_ms < 0) {
        words = arena_alloc(call->arena, (size_t)(1 + pair_count * 2) * sizeof(*words));
        words[0] = BYTES("MSET");
        memcpy(words + 1, call->args + 2, (size_t)pair_count * 2 * sizeof(*words));
        call_propagate(call, words, 1 + pair_count * 2);
    }
    reply_integer(call->reply, 1);
}
