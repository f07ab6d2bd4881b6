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

/* The part from `start` to `end`, both included, of `size` bytes; negative ones count from the end. False: it is empty. */
static bool part_of(int64_t size, int64_t *start, int64_t *end)
{
    if (*start < 0 && *end < 0 && *start > *end)        /* otherwise both would become 0, the first byte */
        return false;
    *start = index_from_start(*start, size);
    *end = index_from_start(*end, size);
    if (*end >= size)
        *end = size - 1;
    return *start <= *end;
}

void getrange_command(struct call *call)
{
    char digits[TEXT_INT_SIZE];
    int64_t start, end, size;
    struct key key;

    if (!arg_integer(call, 2, &start) || !arg_integer(call, 3, &end))
        return;
    if (!string_open_part(call, KEY_FOR_READING, &key))
        return;
    size = key.present ? (int64_t)string_size(&key.value) : 0;
    if (!part_of(size, &start, &end)) {
        reply_bulk_string(call->reply, "");
        return;
    }
    size = end - start + 1;
    if (!string_ask(&key, (uint64_t)start, (uint64_t)size))
        return;
    if (UNLIKELY(string_is_in_blocks(&key.value)))
        reply_part(call->reply, &key.value, (uint64_t)start, (size_t)size);
    else
        reply_bulk(call->reply, bytes_of(string_of(&key, digits).data + start, (size_t)size));
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
