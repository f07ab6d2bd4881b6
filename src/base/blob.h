/* Blob: a long run of bytes with several holders. A string's value, a reply that is being sent and a request may hold the same one, so
 * that it is never copied on its way.
 *
 * Whoever is not its only holder does not change it. Thread-safe: holders may be on any thread.
 */
#ifndef KELVIN_BASE_BLOB_H
#define KELVIN_BASE_BLOB_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/buffer.h"

struct blob {
    struct buffer buffer;
    _Atomic uint32_t holders;
    _Atomic uint32_t senders;       /* of these, replies that are being sent */
};

struct blob *blob_create(size_t capacity);          /* empty, with one holder; not zeroed */
struct blob *blob_copy(struct bytes bytes);
struct blob *blob_hold(struct blob *blob);          /* one holder more; returns its argument */
void blob_release(struct blob *blob);               /* one holder less; the last one frees it. NULL is fine */

/* Others hold it, too. False is certain to stay so while its only holder does not hand it on. */
static inline bool blob_is_shared(const struct blob *blob)
{
    return atomic_load_explicit(&blob->holders, memory_order_acquire) > 1;
}

#endif
