/* The string commands that read. */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/string_access.h"

void get_command(struct call *call)
{
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_READING, VALUE_STRING, &key))
        return;
    if (key.present)
        reply_string(call->reply, &key.value);
    else
        reply_null(call->reply);
}

/* A key of another type counts as missing. */
void mget_command(struct call *call)
{
    reply_array(call->reply, (size_t)call->arg_count - 1);
    for (int i = 1; i < call->arg_count; i++) {
        struct key key;

        if (key_open(call, i, KEY_FOR_READING, &key) && key.value.type == VALUE_STRING)
            reply_string(call->reply, &key.value);
        else
            reply_null(call->reply);
    }
}

void strlen_command(struct call *call)
{
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_READING, VALUE_STRING, &key))
        return;
    reply_integer(call->reply, key.present ? (int64_t)string_size(&key.value) : 0);
}

/* Converts an index from the end to one from the start, at least 0. */
static int64_t index_from_start(int64_t index, int64_t size)
{
    if (index >= 0)
        return index;
    return index + size < 0 ? 0 : index + size;
}

/* The part from `start` to `end`, both included; negative ones count from the end. */
static struct bytes part_of(struct bytes string, int64_t start, int64_t end)
{
    int64_t size = (int64_t)string.size;

    if (start < 0 && end < 0 && start > end)    /* otherwise both would become 0, the first byte */
        return bytes_of("", 0);
    start = index_from_start(start, size);
    end = index_from_start(end, size);
    if (end >= size)
        end = size - 1;
    if (start > end)
        return bytes_of("", 0);
    return bytes_of(string.data + start, (size_t)(end - start + 1));
}

void getrange_command(struct call *call)
{
    char digits[TEXT_INT_SIZE];
    int64_t start, end;
    struct key key;

    if (!arg_integer(call, 2, &start) || !arg_integer(call, 3, &end))
        return;
    if (!key_open_as(call, 1, KEY_FOR_READING, VALUE_STRING, &key))
        return;
    reply_bulk(call->reply, part_of(string_of(&key, digits), start, end));
}

void getdel_command(struct call *call)
{
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_STRING, &key))
        return;
    key_count_read(&key);
    if (!key.present) {
        reply_null(call->reply);
        return;
    }
    reply_string(call->reply, &key.value);
    key_remove(&key, KEY_REMOVE_LAZILY, EVENT_DEL);
    call_propagate(call, (struct bytes[]){ BYTES("DEL"), call->args[1] }, 2);
}
