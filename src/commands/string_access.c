#include "commands/string_access.h"

bool string_size_allowed(struct call *call, uint64_t size)
{
    if (size <= string_size_max(call))
        return true;
    reply_error(call, ERR_VALUE_TOO_LARGE);
    return false;
}

char *string_make(struct call *call, size_t size, struct value *value)
{
    *value = (struct value){ .type = VALUE_STRING };
    if (size > STRING_INLINE_MAX) {
        struct blob *blob = blob_create(size);

        blob->buffer.size = size;
        *value = string_value_of_blob(blob);
        return blob->buffer.data;
    } else {
        char *data = arena_alloc(call->arena, size);

        value->encoding = STRING_RAW;
        value->bytes = bytes_of(data, size);
        return data;
    }
}

/* In place. Memory grows to twice the size, later by a quarter, so that many small appends do not copy the string each time. */
static struct string_edit edit_big(struct blob *blob, size_t size_min)
{
    struct buffer *buffer = &blob->buffer;
    bool grown = size_min > buffer->size;

    if (grown) {
        size_t more = size_min - buffer->size;

        memset(buffer_reserve(buffer, more), 0, more);
        buffer->size = size_min;
    }
    return (struct string_edit){ .data = buffer->data, .size = buffer->size, .grown = grown };
}

struct string_edit string_edit_begin(struct key *key, size_t size_min)
{
    char digits[TEXT_INT_SIZE];
    struct bytes old = string_of(key, digits);
    struct string_edit edit = { .grown = !key->present || size_min > old.size };
    struct value value;

    if (key->present && key->value.encoding == STRING_BIG && !blob_is_shared(key->value.object))
        return edit_big(key->value.object, size_min);
    edit.recoded = key->present && key->value.encoding != STRING_RAW;
    edit.size = size_min > old.size ? size_min : old.size;
    edit.data = string_make(key->call, edit.size, &value);
    if (old.size > 0)
        memcpy(edit.data, old.data, old.size);
    if (edit.size > old.size)
        memset(edit.data + old.size, 0, edit.size - old.size);
    key_replace(key, value);
    return edit;
}

void string_edit_end(struct key *key, const struct string_edit *edit, bool changed, enum event event)
{
    if (changed || edit->grown)
        key_changed(key, event);
    else if (edit->recoded)
        key_recode(key);
}
