#include "commands/string_access.h"

#include <string.h>

#include "commands/bits.h"

enum { BITS_WINDOW = 9 };           /* bytes that 64 bits may be in */

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
static char *extend(struct blob *blob, size_t size_min)
{
    struct buffer *buffer = &blob->buffer;

    if (size_min > buffer->size) {
        size_t more = size_min - buffer->size;

        memset(buffer_reserve(buffer, more), 0, more);
        buffer->size = size_min;
    }
    return buffer->data;
}

/* --- parts --- */

struct bytes string_of_blocks(const struct key *key)
{
    size_t size = string_size(&key->value);
    char *bytes = arena_alloc(key->call->arena, size);

    string_read(&key->value, 0, size, bytes);
    return bytes_of(bytes, size);
}

void reply_part(struct reply *reply, const struct value *value, uint64_t offset, size_t size)
{
    struct string_run run = size > 0 ? string_run(value, offset, NULL) : (struct string_run){ "", 0 };
    struct blob *blob;

    if (run.data != NULL && run.size >= size) {
        reply_bulk(reply, bytes_of(run.data, size));
        return;
    }
    blob = blob_create(size);
    blob->buffer.size = size;
    string_read(value, offset, size, blob->buffer.data);
    reply_bulk_blob(reply, blob);
    blob_release(blob);
}

bool string_open_part(struct call *call, enum key_access access, struct key *key)
{
    if (!key_open_as(call, 1, access, VALUE_STRING, key))
        return false;
    if (key->present)
        key_use_in_parts(key, 0);
    return true;
}

bool string_ask(const struct key *key, uint64_t offset, uint64_t size)
{
    if (!key->present || string_has(&key->value, offset, size))
        return true;
    key_ask(key);
    return false;
}

/* Bytes with these bits. */
static size_t bytes_of_bits(uint64_t offset, int width)
{
    return (size_t)((offset % 8 + (unsigned)width + 7) / 8);
}

/* As string_bits, for a string in blocks. */
static uint64_t bits_in_blocks(const struct value *value, uint64_t offset, int width)
{
    uint64_t first = offset / 8, length = string_size(value);
    size_t size = bytes_of_bits(offset, width);
    char window[BITS_WINDOW];

    if (first >= length)
        return 0;
    if (size > length - first)
        size = (size_t)(length - first);
    string_read(value, first, size, window);
    return bits_read(window, size, offset % 8, width);
}

uint64_t string_bits(const struct key *key, uint64_t offset, int width)
{
    char digits[TEXT_INT_SIZE];
    struct bytes string;

    if (UNLIKELY(string_is_in_blocks(&key->value)))
        return bits_in_blocks(&key->value, offset, width);
    string = string_of(key, digits);
    return bits_read(string.data, string.size, offset, width);
}

bool string_edit_begin(struct key *key, uint64_t offset, size_t size, struct string_edit *edit)
{
    char digits[TEXT_INT_SIZE];
    size_t size_min = (size_t)offset + size, old_size = key->present ? string_size(&key->value) : 0;
    struct bytes old;
    struct value value;

    key_use_in_parts(key, size_min);
    if (key->present && !string_has_change(&key->value, offset, size)) {
        key_ask(key);
        return false;
    }
    *edit = (struct string_edit){ .key = key, .size = size_min > old_size ? size_min : old_size, .grown = !key->present || size_min > old_size };
    if (string_is_in_blocks(&key->value)) {
        if (!string_fits(&key->value, size_min)) {
            reply_error(key->call, ERR_VALUE_TOO_LARGE);
            return false;
        }
        string_grow(&key->value, size_min);
        return true;
    }
    if (key->present && key->value.encoding == STRING_BIG && !blob_is_shared(key->value.object)) {
        edit->data = extend(key->value.object, size_min);
        return true;
    }
    old = string_of(key, digits);
    edit->recoded = key->present && key->value.encoding != STRING_RAW;
    edit->data = string_make(key->call, edit->size, &value);
    if (old.size > 0)
        memcpy(edit->data, old.data, old.size);
    if (edit->size > old.size)
        memset(edit->data + old.size, 0, edit->size - old.size);
    key_replace(key, value);
    return true;
}

void string_edit_write(struct string_edit *edit, uint64_t offset, struct bytes bytes)
{
    if (edit->data == NULL)
        string_write(&edit->key->value, offset, bytes);
    else if (bytes.size > 0)
        memcpy(edit->data + offset, bytes.data, bytes.size);
}

uint64_t string_edit_bits(const struct string_edit *edit, uint64_t offset, int width)
{
    return edit->data != NULL ? bits_read(edit->data, edit->size, offset, width) : bits_in_blocks(&edit->key->value, offset, width);
}

void string_edit_set_bits(struct string_edit *edit, uint64_t offset, int width, uint64_t value)
{
    uint64_t first = offset / 8;
    size_t size = bytes_of_bits(offset, width);
    char window[BITS_WINDOW];

    if (edit->data != NULL) {
        bits_write(edit->data, offset, width, value);
        return;
    }
    string_read(&edit->key->value, first, size, window);
    bits_write(window, offset % 8, width, value);
    string_write(&edit->key->value, first, bytes_of(window, size));
}

void string_edit_end(const struct string_edit *edit, bool changed, enum event event)
{
    if (changed || edit->grown)
        key_changed(edit->key, event);
    else if (edit->recoded)
        key_recode(edit->key);
}
