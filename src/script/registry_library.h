/* Registry library: functions with one text, as FUNCTION LOAD makes them. Immutable and counted: a run holds the library that it runs. Any thread.
 */
#ifndef KELVIN_SCRIPT_REGISTRY_LIBRARY_H
#define KELVIN_SCRIPT_REGISTRY_LIBRARY_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "script/interpreter.h"

struct registry_library;

struct registry_function {
    const struct registry_library *library;
    struct bytes name;              /* unique among all functions, whatever the case */
    struct bytes description;       /* .data is NULL: none */
    uint32_t flags;                 /* enum script_flags */
};

struct registry_library {
    struct script_library script;   /* name, version, and the code without the first line "#!lua" */
    struct bytes text;              /* all of it: what FUNCTION LOAD was given */
    struct registry_function *functions;     /* in the order in which they were registered; at least one */
    int function_count;
    size_t size;                    /* bytes of memory */
    _Atomic uint32_t references;
};

/* Runs the text's code, which registers the functions, in an interpreter that nothing else uses, and unloads it again. Held once. `version` is
 * of this library only (registry_next_version). `host` is for redis.log; NULL: messages are dropped. NULL: `error` has the text of the error
 * reply, without '-'. Takes up to 500 ms; no lock is held. */
struct registry_library *registry_library_create(struct bytes text, uint64_t version, struct interpreter *interpreter, const struct script_host *host,
    struct buffer *error);
struct registry_library *registry_library_hold(struct registry_library *library);
void registry_library_release(struct registry_library *library);      /* NULL is fine */

#endif
