#include "call/call.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "call/command_table.h"
#include "resp/request.h"

static const char *const error_texts[ERR_COUNT] = {
    [ERR_SYNTAX] = "ERR syntax error",
    [ERR_WRONG_TYPE] = "WRONGTYPE Operation against a key holding the wrong kind of value",
    [ERR_NOT_INTEGER] = "ERR value is not an integer or out of range",
    [ERR_NOT_FLOAT] = "ERR value is not a valid float",
    [ERR_OVERFLOW] = "ERR increment or decrement would overflow",
    [ERR_OUT_OF_RANGE] = "ERR value is out of range",
    [ERR_NOT_POSITIVE] = "ERR value is out of range, must be positive",
    [ERR_NO_SUCH_KEY] = "ERR no such key",
    [ERR_NO_SUCH_KEY_NIL] = "ERR no such key",
    [ERR_VALUE_TOO_LARGE] = "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
    [ERR_DB_INDEX] = "ERR DB index is out of range",
    [ERR_OOM] = "OOM command not allowed when used memory > 'maxmemory'.",
    [ERR_INVALID_CURSOR] = "ERR invalid cursor",
    [ERR_TIER_READ] = "ERR the key's record can't be read from the store (see the log and INFO tiering)",
    [ERR_SAME_OBJECT] = "ERR source and destination objects are the same",
    [ERR_BUSY_KEY] = "BUSYKEY Target key name already exists.",
    [ERR_NOT_LOADED] = "LOADING Redis is loading the dataset in memory",
};

static void error_bytes(struct call *call, struct bytes text)
{
    call->failed = true;
    reply_error_text(call->reply, text);
}

void reply_error(struct call *call, enum error error)
{
    if (error == ERR_TIER_READ)
        call->turn->met_unreadable = true;
    error_bytes(call, bytes_of_string(error_texts[error]));
}

void reply_errorf(struct call *call, const char *format, ...)
{
    char text[512], *long_text = text;
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (size >= (int)sizeof(text)) {        /* it repeats an argument, in full */
        long_text = arena_alloc(call->arena, (size_t)size + 1);
        va_start(arguments, format);
        vsnprintf(long_text, (size_t)size + 1, format, arguments);
        va_end(arguments);
    }
    error_bytes(call, bytes_of(long_text, (size_t)size));
}

void reply_wrong_arity(struct call *call)
{
    reply_errorf(call, "ERR wrong number of arguments for '%s' command", call->command->name);
}

struct bytes call_upper_name(struct call *call)
{
    struct bytes name = arena_copy(call->arena, call->args[0]);
    char *text = (char *)name.data;

    for (size_t i = 0; i < name.size; i++)
        text[i] = (char)toupper((unsigned char)text[i]);
    return name;
}

/* The first line of a help begins with the name. */
static struct bytes help_head(struct call *call, const char *line)
{
    const char *rest = strchr(line, ' ');
    struct bytes name = call_upper_name(call);

    return rest != NULL ? call_format(call, "%.*s%s", (int)name.size, name.data, rest) : bytes_of_string(line);
}

void reply_help(struct call *call, const char *const *lines)
{
    size_t count = 0;

    while (lines[count] != NULL)
        count++;
    reply_array(call->reply, count);
    for (size_t i = 0; i < count; i++)
        reply_status(call->reply, i == 0 && call->command->renamed ? help_head(call, lines[0]) : bytes_of_string(lines[i]));
}

/* A command that is logged with other arguments under the name that the client has sent. */
static bool is_sent_name(const struct call *call, struct bytes name)
{
    return call->command->renamed && name.data == call->args[0].data;
}

void call_propagate(struct call *call, const struct bytes *args, int arg_count)
{
    struct propagation *propagation;

    if (call->unlogged)
        return;
    propagation = arena_alloc(call->arena, sizeof(*propagation));
    *propagation = (struct propagation){
        .db = call->db,
        .args = arena_alloc(call->arena, (size_t)arg_count * sizeof(struct bytes)),
        .arg_count = arg_count,
    };
    /* Large arguments belong to the request, which outlives the call. */
    for (int i = 0; i < arg_count; i++) {
        bool is_large = request_large_find(call->client->large.list, call->client->large.count, args[i]) != NULL;

        propagation->args[i] = is_large ? args[i] : arena_copy(call->arena, args[i]);
    }
    if (is_sent_name(call, args[0]))
        propagation->args[0] = command_own_name(call->command);
    if (call->last != NULL)
        call->last->next = propagation;
    else
        call->first = propagation;
    call->last = propagation;
}

void call_propagate_nothing(struct call *call)
{
    call->propagate_nothing = true;
}

bool call_has_locked(const struct call *call, uint32_t partition)
{
    if (call->command->flags & COMMAND_EXCLUSIVE)
        return true;
    for (int i = 0; i < call->key_count; i++) {
        if (partition_index(call->partitions, call->keys[i].hash) == partition)
            return true;
    }
    for (int i = 0; i < call->home_count; i++) {
        if (call->homes[i] == partition)
            return true;
    }
    return false;
}

void call_ask_for_keys(struct call *call, const struct bytes *names, int count)
{
    CHECK(call->change_count == 0 && call->reply->out.size == call->reply_start);
    call->asked = names;
    call->asked_count = count;
    call->asks = true;
}

void reply_wait_end(struct reply *reply, enum call_wait_end end)
{
    if (end == CALL_WAIT_ZERO)
        reply_integer(reply, 0);
    else
        reply_null_array(reply);
}

void call_wait(struct call *call, const struct call_wait *wait)
{
    struct call_wait *copy;

    if (!call_may_wait(call)) {
        reply_wait_end(call->reply, wait->end);
        return;
    }
    copy = arena_alloc(call->arena, sizeof(*copy));
    *copy = *wait;
    call->wait = copy;
    call->client->retry_ms = wait->retry_ms;
}

/* `ms` after the time at which the request first ran. False: an error was replied. */
static bool deadline_in(struct call *call, int64_t ms, int64_t *deadline_us)
{
    if (ms < 0) {
        reply_errorf(call, "ERR timeout is negative");
        return false;
    }
    if (ms > INT64_MAX - call->turn->now_ms) {
        reply_errorf(call, "ERR timeout is out of range");
        return false;
    }
    if (ms > 0)
        *deadline_us = ms > (INT64_MAX - call->client->request.began_us) / 1000 ? INT64_MAX : call->client->request.began_us + ms * 1000;
    return true;
}

bool arg_timeout(struct call *call, int index, int64_t *deadline_us)
{
    long double seconds;
    int64_t ms;

    *deadline_us = 0;
    if (!text_to_long_double(call->args[index], &seconds)) {
        reply_errorf(call, "ERR timeout is not a float or out of range");
        return false;
    }
    if (seconds > (long double)(INT64_MAX / 1000)) {
        reply_errorf(call, "ERR timeout is out of range");
        return false;
    }
    ms = seconds < 0 ? -1 : (int64_t)ceill(seconds * 1000);
    if (seconds < 0 && ceill(seconds * 1000) == 0)
        ms = 0;                         /* less than a millisecond below 0 is rounded up, as in Redis */
    return deadline_in(call, ms, deadline_us);
}

bool arg_timeout_ms(struct call *call, int index, int64_t *deadline_us)
{
    int64_t ms;

    *deadline_us = 0;
    return arg_integer_between(call, index, INT64_MIN, INT64_MAX, "ERR timeout is not an integer or out of range", &ms) &&
        deadline_in(call, ms, deadline_us);
}

bool arg_integer(struct call *call, int index, int64_t *number)
{
    if (text_to_int(call->args[index], number))
        return true;
    reply_error(call, ERR_NOT_INTEGER);
    return false;
}

bool arg_integer_between(struct call *call, int index, int64_t low, int64_t high, const char *error, int64_t *number)
{
    if (text_to_int(call->args[index], number) && *number >= low && *number <= high)
        return true;
    reply_errorf(call, "%s", error);
    return false;
}

bool arg_double(struct call *call, int index, double *number)
{
    if (text_to_double(call->args[index], number))
        return true;
    reply_error(call, ERR_NOT_FLOAT);
    return false;
}

struct bytes call_format(struct call *call, const char *format, ...)
{
    va_list arguments;
    char *text;
    int size;

    va_start(arguments, format);
    size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    text = arena_alloc(call->arena, (size_t)size + 1);
    va_start(arguments, format);
    vsnprintf(text, (size_t)size + 1, format, arguments);
    va_end(arguments);
    return bytes_of(text, (size_t)size);
}

struct bytes call_integer(struct call *call, int64_t number)
{
    char *digits = arena_alloc(call->arena, TEXT_INT_SIZE);

    return bytes_of(digits, text_of_int(number, digits));
}
