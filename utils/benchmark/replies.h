/* Replies: finds the end of a RESP2 or RESP3 reply, and then iterates over its elements.
 *
 * hiredis' reader creates an object for each reply; that costs more than all other work of a load generator.
 */
#ifndef KELVIN_BENCHMARK_REPLIES_H
#define KELVIN_BENCHMARK_REPLIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

/* Progress in parsing the reply at the beginning of a buffer. All zero before each reply. */
struct reply_scan {
    size_t size;            /* bytes parsed; the reply's size when it is complete */
    uint64_t missing;       /* number of elements that follow */
};

/* Continues to parse a reply. `data` begins with it, and has all bytes of the previous call and more.
 * OK: it is complete, with `scan->size` bytes. TRUNCATED: more bytes are needed. CORRUPT: not RESP.
 */
enum status reply_scan(struct reply_scan *scan, const char *data, size_t size);

/* One element of a complete reply. */
struct reply_element {
    char type;              /* its first byte: + - : $ * ... */
    bool is_nil;
    uint64_t count;         /* elements of an array or a set, pairs of a map */
    struct bytes text;      /* the bulk string, or the rest of the line */
};

/* Removes the next element from the beginning of `rest`, which is part of a complete reply. */
struct reply_element reply_next(struct bytes *rest);

#endif
