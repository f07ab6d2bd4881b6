/* HyperLogLog commands: PFADD and its kin, over strings in the format of containers/hll.h. */
#ifndef KELVIN_COMMANDS_HYPERLOGLOG_H
#define KELVIN_COMMANDS_HYPERLOGLOG_H

#include "call/command.h"

/* The last row's name is NULL. */
extern const struct command hyperloglog_commands[];

/* Private: the handlers of the rows. */
command_run pfadd_command, pfcount_command, pfmerge_command, pfdebug_command, pfselftest_command;

#endif
