/* Commands of no family: TIME LOLWUT. */
#ifndef KELVIN_COMMANDS_MISC_H
#define KELVIN_COMMANDS_MISC_H

#include "call/command.h"

/* The last row's name is NULL. */
extern const struct command misc_commands[];

/* Private: the handlers of the rows. */
command_run time_command, lolwut_command, wait_command;

#endif
