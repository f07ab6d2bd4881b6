/* Script run: EVAL, EVALSHA, FCALL and their read-only forms, as a unit.
 *
 * Before the unit begins, script_start finds the source or the function and decides whether it may run; then the handler of the command, on
 * the unit's fiber, runs it, and each redis.call becomes a call of the unit. A script that is run by EXEC is part of that unit.
 *
 * A script without a first line "#!lua" says nothing about itself: it may write, and is refused in the middle, at its first write that
 * needs memory, if there is none.
 */
#ifndef KELVIN_ENGINE_SCRIPT_RUN_H
#define KELVIN_ENGINE_SCRIPT_RUN_H

#include "engine/unit.h"

/* Finds what the call's command is to run. False: an error was replied. */
bool script_find(struct call *call, struct script_start *start);
/* script_flags.c: the call's flags, enum command_flag, and what the script or function says of itself with "#!lua" now: for EXEC, which looks at the flags of all that is
 * queued. */
uint32_t script_call_flags(const struct call *call);
/* Whether it may be run now, as far as its flags say. False: the call is parked, or an error was replied. */
bool script_pass_gates(struct call *call, struct worker *worker, struct script_start *start);
void script_start_release(struct script_start *start);

/* Returns whether the reply to a request says that a script or function that this server does not have was to be run, or there was no
 * memory for its stack. It has done nothing, which says nothing about what it did elsewhere. */
bool script_was_missing(struct bytes reply);

/* On the unit's fiber: runs what was found, and writes its reply. */
void script_run(struct call *call);

#endif
