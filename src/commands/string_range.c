/* The string commands that change a part of the value. */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/string_access.h"

void append_command(struct call *call)
{
    struct bytes tail = call->args[2];
    struct string_edit edit;
    size_t size;
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_STRING, &key))
        return;
    if (!key.present) {
        key_set_string(&key, tail);
        key_changed(&key, EVENT_APPEND);
        reply_integer(call->reply, (int64_t)tail.size);
        return;
    }
    size = string_size(&key.value);
    if (!string_size_allowed(call, (uint64_t)size + tail.size))
        return;
    if (!string_edit_begin(&key, size, tail.size, &edit))
        return;
    string_edit_write(&edit, size, tail);
    string_edit_end(&edit, true, EVENT_APPEND);
    reply_integer(call->reply, (int64_t)edit.size);
}

void setrange_command(struct call *call)
{
    struct bytes part = call->args[3];
    struct string_edit edit;
    int64_t offset;
    struct key key;

    if (!arg_integer(call, 2, &offset))
        return;
    if (offset < 0) {
        reply_errorf(call, "ERR offset is out of range");
        return;
    }
    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_STRING, &key))
        return;
    if (part.size == 0) {       /* changes nothing, not even the length */
        reply_integer(call->reply, key.present ? (int64_t)string_size(&key.value) : 0);
        return;
    }
    if (!string_size_allowed(call, (uint64_t)offset + part.size))
        return;
    if (!string_edit_begin(&key, (uint64_t)offset, part.size, &edit))
        return;
    string_edit_write(&edit, (uint64_t)offset, part);
    string_edit_end(&edit, true, EVENT_SETRANGE);
    reply_integer(call->reply, (int64_t)edit.size);
}
