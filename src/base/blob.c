#include "base/blob.h"

#include "base/mem.h"

struct blob *blob_create(size_t capacity)
{
    struct blob *blob = mem_zalloc(sizeof(*blob));

    blob->holders = 1;
    if (capacity > 0) {
        blob->buffer.data = mem_alloc(capacity);        /* the exact size: buffer_reserve would round it up */
        blob->buffer.capacity = capacity;
    }
    return blob;
}

struct blob *blob_copy(struct bytes bytes)
{
    struct blob *blob = blob_create(bytes.size);

    buffer_append_bytes(&blob->buffer, bytes);
    return blob;
}

struct blob *blob_hold(struct blob *blob)
{
    atomic_fetch_add_explicit(&blob->holders, 1, memory_order_relaxed);
    return blob;
}

void blob_cut(struct blob *blob, size_t size)
{
    struct buffer *buffer = &blob->buffer;

    if (size == 0) {
        buffer_release(buffer);
        return;
    }
    buffer->data = mem_realloc(buffer->data, size);
    buffer->size = buffer->capacity = size;
}

void blob_release(struct blob *blob)
{
    if (blob == NULL || atomic_fetch_sub_explicit(&blob->holders, 1, memory_order_acq_rel) > 1)
        return;
    buffer_release(&blob->buffer);
    mem_free(blob);
}
