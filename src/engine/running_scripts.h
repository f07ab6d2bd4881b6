/* Running scripts: those that SCRIPT KILL, FUNCTION KILL and FUNCTION STATS find, on all workers: all that are suspended, or were. */
#ifndef KELVIN_ENGINE_RUNNING_SCRIPTS_H
#define KELVIN_ENGINE_RUNNING_SCRIPTS_H

#include "call/call.h"

struct engine;
struct running_scripts;
struct script_start;
struct unit;

/* A script in the list; on its handler's stack. */
struct running_script {
    struct running_script *prev, *next;     /* the list's lock */
    struct unit *unit;
    bool is_function;
    struct bytes name;                      /* of the function; borrowed */
    const struct bytes *command;            /* the request's arguments, in the unit's arena */
    int command_count;
    const struct bytes *nested_args;        /* EXEC has queued the request: its arguments; NULL: it is the unit's own */
    int64_t began_us;                       /* monotonic clock */
    bool is_published;                      /* its worker: it is in the list */
};

struct running_scripts *running_scripts_create(void);
void running_scripts_destroy(struct running_scripts *scripts);      /* NULL is fine */

/* On the script's worker: it begins, and ends. Costs no lock unless it is suspended. */
void running_script_begin(struct unit *unit, const struct call *call, const struct script_start *start, struct running_script *running);
void running_script_end(struct unit *unit, struct running_script *running);
/* The unit, which runs a script, is suspended: from now on others can see it. On its worker. */
void running_script_publish(struct unit *unit);
bool running_script_is_function(const struct unit *unit);
/* The unit's script is about to write for the first time, or again. False: it was killed, and must not. On its worker. */
bool running_script_may_write(struct unit *unit);

/* SCRIPT KILL and FUNCTION KILL: ends all scripts (or functions) that are past busy-reply-threshold and have not called a command that
 * writes; replies. */
void running_scripts_kill(struct call *call, bool functions);
/* FUNCTION STATS: replies a map with `name`, `command` and `duration_ms` of the function that has been running longest, or null. Of the
 * command, the first 128 arguments and 1 KiB of each. */
void running_scripts_reply(struct engine *engine, struct reply *reply);

#endif
