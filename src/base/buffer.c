#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"

enum { BUFFER_MIN = 64, BUFFER_DOUBLE_MAX = 1 << 20 };

void buffer_init(struct buffer *buffer)
{
    *buffer = (struct buffer){ 0 };
}

void buffer_release(struct buffer *buffer)
{
    mem_free(buffer->data);
    buffer_init(buffer);
}

void buffer_grow(struct buffer *buffer, size_t more)
{
    size_t needed = buffer->size + more;
    size_t capacity = buffer->capacity;

    CHECK(more <= SIZE_MAX / 2);
    capacity += capacity < BUFFER_DOUBLE_MAX ? capacity : capacity / 4;
    if (capacity < BUFFER_MIN)
        capacity = BUFFER_MIN;
    if (capacity < needed)
        capacity = needed;
    buffer->data = mem_realloc(buffer->data, capacity);
    buffer->capacity = capacity;
}

void buffer_reserve_exact(struct buffer *buffer, size_t more)
{
    if (buffer->capacity - buffer->size >= more)
        return;
    CHECK(more <= SIZE_MAX / 2);
    buffer->data = mem_realloc(buffer->data, buffer->size + more);
    buffer->capacity = buffer->size + more;
}

void buffer_shrink(struct buffer *buffer, size_t keep)
{
    if (buffer->capacity <= keep || buffer->size > keep / 2)
        return;
    if (buffer->size == 0) {
        buffer_release(buffer);
        return;
    }
    buffer->data = mem_realloc(buffer->data, keep);
    buffer->capacity = keep;
}

void buffer_append_string(struct buffer *buffer, const char *string)
{
    buffer_append(buffer, string, strlen(string));
}

void buffer_append_format(struct buffer *buffer, const char *format, ...)
{
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    buffer_reserve(buffer, (size_t)size + 1);
    va_start(arguments, format);
    vsnprintf(buffer->data + buffer->size, (size_t)size + 1, format, arguments);
    va_end(arguments);
    buffer->size += (size_t)size;
}
