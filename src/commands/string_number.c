/* The string commands that count. */
#include <math.h>

#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/string_access.h"

static void add_to_key(struct call *call, int64_t by)
{
    int64_t number = 0;
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_STRING, &key))
        return;
    if (key.present && !string_to_int(&key.value, &number)) {
        reply_error(call, ERR_NOT_INTEGER);
        return;
    }
    if (__builtin_add_overflow(number, by, &number)) {
        reply_error(call, ERR_OVERFLOW);
        return;
    }
    key_replace(&key, string_value_of_int(number));
    key_changed(&key, EVENT_INCRBY);
    reply_integer(call->reply, number);
}

void incr_command(struct call *call)
{
    add_to_key(call, 1);
}

void decr_command(struct call *call)
{
    add_to_key(call, -1);
}

void incrby_command(struct call *call)
{
    int64_t by;

    if (arg_integer(call, 2, &by))
        add_to_key(call, by);
}

void decrby_command(struct call *call)
{
    int64_t by;

    if (!arg_integer(call, 2, &by))
        return;
    if (by == INT64_MIN)
        reply_errorf(call, "ERR decrement would overflow");
    else
        add_to_key(call, -by);
}

/* The result stays text even if it is an integer, so that OBJECT ENCODING is the same as in Redis. */
static struct value value_of_text(struct bytes text)
{
    struct value value = string_value_raw(text);

    if (value.encoding == STRING_RAW)
        value.encoding = STRING_EMBEDDED;
    return value;
}

void incrbyfloat_command(struct call *call)
{
    char digits[TEXT_INT_SIZE], text[TEXT_LONG_DOUBLE_SIZE];
    long double number = 0, by;
    struct bytes result;
    struct key key;
    bool is_long;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_STRING, &key))
        return;
    is_long = key.present && string_size(&key.value) > TEXT_LONG_DOUBLE_MAX;
    if (!is_long && !string_ask(&key, 0, UINT64_MAX))
        return;
    if (is_long || (key.present && !text_to_long_double(string_of(&key, digits), &number)) || !text_to_long_double(call->args[2], &by)) {
        reply_error(call, ERR_NOT_FLOAT);
        return;
    }
    number += by;
    if (isnan(number) || isinf(number)) {
        reply_errorf(call, "ERR increment would produce NaN or Infinity");
        return;
    }
    result = bytes_of(text, text_of_long_double(number, text));
    key_replace(&key, value_of_text(result));
    key_changed(&key, EVENT_INCRBYFLOAT);
    /* The sum itself, because another machine might round differently. */
    call_propagate(call, (struct bytes[]){ BYTES("SET"), call->args[1], result, BYTES("KEEPTTL") }, 4);
    reply_bulk(call->reply, result);
}
