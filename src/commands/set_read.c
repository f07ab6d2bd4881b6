/* The set commands that only read. */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "value/set.h"

static bool open_for_reading(struct call *call, struct key *key)
{
    return key_open_as(call, 1, KEY_FOR_READING, VALUE_SET, key);
}

void scard_command(struct call *call)
{
    struct key key;

    if (open_for_reading(call, &key))
        reply_integer(call->reply, key.present ? (int64_t)set_count(&key.value) : 0);
}

void sismember_command(struct call *call)
{
    struct key key;

    if (open_for_reading(call, &key))
        reply_integer(call->reply, key.present && set_has(&key.value, call->args[2]));
}

void smismember_command(struct call *call)
{
    struct key key;

    if (!open_for_reading(call, &key))
        return;
    reply_array(call->reply, (size_t)call->arg_count - 2);
    for (int i = 2; i < call->arg_count; i++)
        reply_integer(call->reply, key.present && set_has(&key.value, call->args[i]));
}

void smembers_command(struct call *call)
{
    struct set_iterator iterator;
    struct bytes member;
    struct key key;

    if (!open_for_reading(call, &key))
        return;
    reply_set(call->reply, key.present ? set_count(&key.value) : 0);
    if (!key.present)
        return;
    set_iterate(&iterator, &key.value);
    while (set_next(&iterator, &member))
        reply_bulk(call->reply, member);
}
