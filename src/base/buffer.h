/* Buffer: bytes that grow at the end. Owner: the struct that embeds it. Capacity doubles up to 1 MiB, then grows by a
 * quarter.
 */
#ifndef KELVIN_BASE_BUFFER_H
#define KELVIN_BASE_BUFFER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

struct buffer {
    char *data;
    size_t size;        /* bytes in use */
    size_t capacity;
};

void buffer_init(struct buffer *buffer);        /* allocates nothing; all zero is the same */
void buffer_release(struct buffer *buffer);     /* frees the memory; the buffer may be used again */

/* Makes room for `more` bytes after `size`. A number that can only come of a subtraction below 0 is a bug: CHECK. */
void buffer_grow(struct buffer *buffer, size_t more);

/* The same without spare capacity: for buffers that are large, or of which there are many. */
void buffer_reserve_exact(struct buffer *buffer, size_t more);

/* Frees memory when more than `keep` bytes are allocated and little of it is used. */
void buffer_shrink(struct buffer *buffer, size_t keep);

/* Makes room for `more` bytes and returns where they go. The caller writes them and adds their number to `size`. */
static inline char *buffer_reserve(struct buffer *buffer, size_t more)
{
    if (buffer->capacity - buffer->size < more)
        buffer_grow(buffer, more);
    return buffer->data + buffer->size;
}

static inline void buffer_append(struct buffer *buffer, const void *data, size_t size)
{
    if (size == 0)
        return;
    memcpy(buffer_reserve(buffer, size), data, size);
    buffer->size += size;
}

static inline void buffer_append_bytes(struct buffer *buffer, struct bytes bytes)
{
    buffer_append(buffer, bytes.data, bytes.size);
}

static inline void buffer_append_u8(struct buffer *buffer, uint8_t byte)
{
    buffer_append(buffer, &byte, 1);
}

void buffer_append_string(struct buffer *buffer, const char *string);
void buffer_append_format(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline struct bytes buffer_bytes(const struct buffer *buffer)
{
    return bytes_of(buffer->data, buffer->size);
}

#endif
