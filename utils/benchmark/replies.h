/* Replies: finds where a RESP2 or RESP3 reply ends, and walks through its elements afterwards.
 *
 * hiredis' reader builds an object for every reply; that costs more than everything else a load generator does.
 */
#ifndef KELVIN_BENCHMARK_REPLIES_H
#define KELVIN_BENCHMARK_REPLIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

/* How far the reply at the front of a buffer was followed. All zero before each reply. */
struct reply_scan {
    size_t size;            /* bytes followed; the reply's size once it is complete */
    uint64_t missing;       /* elements still to come */
};

/* Goes on with a reply. `data` begins with it, and holds what it held at the call before and more.
 * OK: it is complete, `scan->size` bytes. TRUNCATED: more bytes are needed. CORRUPT: not RESP.
 */
enum status reply_scan(struct reply_scan *scan, const char *data, size_t size);

/* One element of a complete reply. */
struct reply_element {
    char type;              /* the byte it begins with: + - : $ * ... */
    bool is_nil;
    uint64_t count;         /* elements of an array or a set, pairs of a map */
    struct bytes text;      /* the bulk string, or the rest of the line */
};

/* Takes the next element off the front of `rest`, which lies within a complete reply. */
struct reply_element reply_next(struct bytes *rest);

#endif
