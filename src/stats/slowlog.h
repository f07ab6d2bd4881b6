/* Slowlog: the last slow calls, newest first.
 *
 * Arguments are truncated as in Redis: 32 arguments of 128 bytes each, with a note in place of the rest.
 *
 * Threads: any; a leaf lock. Memory: at most `max_len` entries of about 5 KB.
 */
#ifndef KELVIN_STATS_SLOWLOG_H
#define KELVIN_STATS_SLOWLOG_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum { SLOWLOG_ARGS_MAX = 32, SLOWLOG_ARG_SIZE_MAX = 128 };

struct slowlog;

struct slowlog_entry {
    uint64_t id;                    /* counts from 0; not reset by slowlog_reset */
    int64_t time_s;                 /* wall clock, when it ended */
    int64_t us;
    struct bytes address, name;     /* of the client; empty: none */
    int arg_count;
    const struct bytes *args;
};

struct slowlog *slowlog_create(void);
void slowlog_destroy(struct slowlog *slowlog);          /* NULL is fine */

struct slow_call {
    const struct bytes *args;
    int arg_count;
    int64_t us, time_s;
    const char *address, *name;     /* NULL: none */
    struct bytes note;              /* follows the arguments as if it were one more; empty: none */
};

/* Adds an entry, and drops the oldest beyond `max_len`. Everything is copied. */
void slowlog_note(struct slowlog *slowlog, size_t max_len, const struct slow_call *call);

size_t slowlog_count(struct slowlog *slowlog);
void slowlog_reset(struct slowlog *slowlog);

/* Calls `visit` for the newest `count_max` entries, newest first, with the lock held: `visit` must not call these functions.
 * Returns the number of entries visited. */
typedef void slowlog_visit(void *context, const struct slowlog_entry *entry);
size_t slowlog_each(struct slowlog *slowlog, size_t count_max, slowlog_visit *visit, void *context);

#endif
