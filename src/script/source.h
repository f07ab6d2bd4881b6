/* Source: the text of a script of EVAL, as the registry keeps it. Immutable, but for the marks at the end, and counted: a run holds what it
 * runs. Any thread.
 */
#ifndef KELVIN_SCRIPT_SOURCE_H
#define KELVIN_SCRIPT_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "script/interpreter.h"

struct source {
    struct script_source script;    /* its name, the SHA-1 of the text, and the code without the first line "#!lua" */
    struct bytes text;              /* all of it; in the same block */
    uint32_t flags;                 /* enum script_flags, or SCRIPT_COMPATIBLE */
    _Atomic uint32_t references;
    _Atomic bool retired;           /* it was flushed, or dropped: it must not be started any more */
    _Atomic bool used;              /* since the registry looked the last time for what it may drop */
    /* The registry's, under its lock. */
    struct source *next;
    struct source *older, *newer;   /* in the list of those that may be dropped */
    bool may_be_dropped;
};

/* Reads a name as clients write it, in any case. False: it is none. */
bool source_read_sha(struct bytes text, char sha[SCRIPT_SHA_SIZE]);

/* Held once. NULL: the first line is invalid, and `error` has the text of the error reply, without '-'. */
struct source *source_create(const char sha[SCRIPT_SHA_SIZE], struct bytes text, struct buffer *error);
struct source *source_hold(struct source *source);
void source_release(struct source *source);         /* NULL is fine */

size_t source_size(const struct source *source);    /* bytes of memory */

#endif
