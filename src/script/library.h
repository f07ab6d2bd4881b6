/* Library: functions with one source, as FUNCTION LOAD makes it. Immutable and counted: a run holds the library that it runs. Any thread. */
#ifndef KELVIN_SCRIPT_LIBRARY_H
#define KELVIN_SCRIPT_LIBRARY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "script/interpreter.h"

struct library;

struct library_function {
    const struct library *library;
    struct bytes name;              /* unique among all functions, whatever the case */
    struct bytes description;       /* .data is NULL: none */
    uint32_t flags;                 /* enum script_flags */
};

struct library {
    struct script_library script;   /* name, version, and the code without the first line "#!lua" */
    struct bytes text;              /* all of it: what FUNCTION LOAD was given */
    struct library_function *functions;     /* in the order in which they were registered; at least one */
    int function_count;
    size_t size;                    /* bytes of memory */
    _Atomic uint32_t references;
};

/* Names of libraries and functions: letters, digits and underscores, at least one. */
bool library_name_is_valid(struct bytes name);

/* The head of a library: what its first line declares. */
struct library_head {
    char *name;                     /* freed with library_head_release */
    size_t body;                    /* offset of the code */
};
/* False: `error` has the text of the error reply, without '-'. */
bool library_head_read(struct bytes text, struct library_head *head, struct buffer *error);
void library_head_release(struct library_head *head);

/* Runs the text's code, which registers the functions, in an interpreter that nothing else uses, and unloads it again. Held once. `version` is
 * of this library only (registry_next_version). `host` is for redis.log; NULL: messages are dropped. NULL: `error` has the text of the error
 * reply, without '-'. May take long: no lock is held. */
struct library *library_create(struct bytes text, uint64_t version, struct interpreter *interpreter, const struct script_host *host,
    struct buffer *error);
struct library *library_hold(struct library *library);
void library_release(struct library *library);      /* NULL is fine */

#endif
