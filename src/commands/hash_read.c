/* The hash commands that only read. */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "value/hash.h"

static bool open_for_reading(struct call *call, struct key *key)
{
    return key_open_as(call, 1, KEY_FOR_READING, VALUE_HASH, key);
}

static void reply_field(struct call *call, const struct key *key, struct bytes field)
{
    char digits[TEXT_INT_SIZE];
    struct bytes value;

    if (key->present && hash_get(&key->value, field, &value, digits))
        reply_bulk(call->reply, value);
    else
        reply_null(call->reply);
}

void hget_command(struct call *call)
{
    struct key key;

    if (open_for_reading(call, &key))
        reply_field(call, &key, call->args[2]);
}

void hmget_command(struct call *call)
{
    struct key key;

    if (!open_for_reading(call, &key))
        return;
    reply_array(call->reply, (size_t)call->arg_count - 2);
    for (int i = 2; i < call->arg_count; i++)
        reply_field(call, &key, call->args[i]);
}

void hlen_command(struct call *call)
{
    struct key key;

    if (open_for_reading(call, &key))
        reply_integer(call->reply, key.present ? (int64_t)hash_count(&key.value) : 0);
}

void hexists_command(struct call *call)
{
    struct key key;

    if (open_for_reading(call, &key))
        reply_integer(call->reply, key.present && hash_has(&key.value, call->args[2]));
}

void hstrlen_command(struct call *call)
{
    char digits[TEXT_INT_SIZE];
    struct bytes value;
    struct key key;

    if (!open_for_reading(call, &key))
        return;
    if (!key.present || !hash_get(&key.value, call->args[2], &value, digits))
        value.size = 0;
    reply_integer(call->reply, (int64_t)value.size);
}

enum { FIELDS = 1, VALUES = 2 };

static void reply_all(struct call *call, int parts)
{
    struct hash_iterator iterator;
    struct bytes field, value;
    struct key key;
    size_t count;

    if (!open_for_reading(call, &key))
        return;
    count = key.present ? hash_count(&key.value) : 0;
    if (parts == (FIELDS | VALUES))
        reply_map(call->reply, count);
    else
        reply_array(call->reply, count);
    if (!key.present)
        return;
    hash_iterate(&iterator, &key.value);
    while (hash_next(&iterator, &field, &value)) {
        if (parts & FIELDS)
            reply_bulk(call->reply, field);
        if (parts & VALUES)
            reply_bulk(call->reply, value);
    }
}

void hgetall_command(struct call *call)
{
    reply_all(call, FIELDS | VALUES);
}

void hkeys_command(struct call *call)
{
    reply_all(call, FIELDS);
}

void hvals_command(struct call *call)
{
    reply_all(call, VALUES);
}
