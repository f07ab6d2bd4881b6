/* Interpreter: Lua 5.1 as Redis 7.2 has it, for one worker.
 *
 * Owner: one worker thread. Several runs may be in progress at the same time: a run that is suspended in a callback of
 * its host (see host.h), on a stack of its own, stays as it is while others begin and end. Everything that belongs to a
 * run (KEYS and ARGV, random numbers, protocol, the decision to stop) is in the run. Stacks need 256 KiB at least, and 8
 * MiB for the deepest recursion that Lua allows.
 *
 * Memory: the Lua heap is counted and limited. A run that needs more gets the error "not enough memory", which it can
 * catch; other runs, and what is cached, stay as they are.
 */
#ifndef KELVIN_SCRIPT_INTERPRETER_H
#define KELVIN_SCRIPT_INTERPRETER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "script/host.h"

struct buffer;
struct interpreter;
struct reply;

struct interpreter_options {
    size_t heap_size_max;           /* bytes of the Lua heap; 0: no limit */
    size_t cached_scripts_max;      /* compiled scripts of EVAL that are kept; at least 1 */
    int64_t load_ms_max;            /* for the code of a library when it is loaded; 0: no limit */
};

/* Never NULL. All runs have to be over when it is destroyed. */
struct interpreter *interpreter_create(const struct interpreter_options *options);
void interpreter_destroy(struct interpreter *interpreter);          /* NULL is fine */

/* Applies to the next allocation and the next compiled script. */
void interpreter_set_options(struct interpreter *interpreter, const struct interpreter_options *options);

enum { SCRIPT_SHA_SIZE = 40 };

/* The source of an EVAL script. Borrowed during the call. */
struct script_source {
    char sha[SCRIPT_SHA_SIZE];      /* hex, lower case, of the whole script: it is the key of the cache */
    struct bytes code;              /* what is compiled: without the shebang, but with the newline at its end, so that line numbers are right */
};

/* A library of functions. Borrowed during the call. */
struct script_library {
    struct bytes name;
    uint64_t version;               /* unique: another one is given to each FUNCTION LOAD, also of the same text */
    struct bytes code;              /* as above */
};

/* The request for one run. Exactly one of `source` and `library` is set. All pointers are borrowed until interpreter_run returns. */
struct script_run {
    const struct script_source *source;
    const struct script_library *library;
    struct bytes function;          /* of the library; the name in error messages is this, or the SHA */
    const struct bytes *keys;
    int key_count;
    const struct bytes *args;
    int arg_count;
    const struct script_host *host;
    /* For a run that may have to be repeated: where its random numbers begin. 0 before the first attempt, which stores it; the
     * attempts that follow draw the same numbers. NULL: never repeated. */
    uint64_t *random_start;
};

enum script_result {
    SCRIPT_OK,              /* the reply is written */
    SCRIPT_ERROR,           /* an error reply is written; count it in the statistics of errors */
    SCRIPT_ERROR_COUNTED,   /* an error reply is written: that of a command, which was counted when it ran */
    SCRIPT_STOPPED,         /* may_go_on returned false; nothing is written */
    SCRIPT_NO_FUNCTION,     /* the library does not have the function; nothing is written */
};

/* Runs a script or function to its end and appends its reply in the protocol reply->protocol (that of the caller of the
 * script). A script that is not compiled yet, or a library that is not loaded yet in this version, is compiled first; an
 * error there becomes an error reply. */
enum script_result interpreter_run(struct interpreter *interpreter, const struct script_run *run, struct reply *reply);

/* Compiles a script, for SCRIPT LOAD and for EVAL before it is stored, and keeps the result in the cache. False: `error`
 * has the text of the error reply, without '-', as "ERR Error compiling script (new function): ...". */
bool interpreter_check(struct interpreter *interpreter, const struct script_source *source, struct buffer *error);

/* A function that a library registers; `description.data` is NULL if it has none; `flags` are enum script_flags. */
typedef void script_function_found(void *context, struct bytes name, struct bytes description, unsigned flags);

/* Runs the code of a library, which registers its functions, and keeps it loaded as this version for the runs that
 * follow. `found` is called for each function after all went well. False: nothing was found, and
 * `error` has the text of the error reply, without '-'. `host` is used for redis.log only; NULL: messages are dropped. */
bool interpreter_load(struct interpreter *interpreter, const struct script_library *library, const struct script_host *host,
                      script_function_found *found, void *context, struct buffer *error);

/* Unloads a library, in whatever version, and forgets compiled scripts: after FUNCTION DELETE, FUNCTION FLUSH and SCRIPT
 * FLUSH. Not needed for correctness, only for memory: names and versions decide what runs. Runs in progress keep what
 * they use. */
void interpreter_unload(struct interpreter *interpreter, struct bytes library);
void interpreter_unload_all(struct interpreter *interpreter);
void interpreter_forget_scripts(struct interpreter *interpreter);

/* Bytes of the Lua heap, as Lua counts them, and of the cache. */
size_t interpreter_memory(const struct interpreter *interpreter);
size_t interpreter_script_count(const struct interpreter *interpreter);     /* compiled scripts in the cache */

#endif
