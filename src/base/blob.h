/* Blob: a long run of bytes with a reference count. A string value, a reply that is being sent and a request may hold
 * the same blob, so that its bytes are never copied on the way from one to the other.
 *
 * A holder may change the bytes only while it is the only one. Thread-safe: holders may be on different threads.
 */
#ifndef KELVIN_BASE_BLOB_H
#define KELVIN_BASE_BLOB_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/buffer.h"

struct blob {
    struct buffer buffer;
    _Atomic uint32_t holders;
    _Atomic uint32_t senders;       /* how many of the holders are replies that are being sent */
};

struct blob *blob_create(size_t capacity);          /* empty, with one holder; not zeroed */
struct blob *blob_copy(struct bytes bytes);
struct blob *blob_hold(struct blob *blob);          /* adds a holder; returns its argument */
void blob_release(struct blob *blob);               /* removes a holder; the last one frees the blob. NULL is fine */

/* Shortens it, and gives the memory back. For the only holder. */
void blob_cut(struct blob *blob, size_t size);

/* True if there is more than one holder. For the only holder, false remains true until it passes the blob on. */
static inline bool blob_is_shared(const struct blob *blob)
{
    return atomic_load_explicit(&blob->holders, memory_order_acquire) > 1;
}

#endif
