/* Commands that save: SAVE BGSAVE LASTSAVE BGREWRITEAOF. */
#ifndef KELVIN_COMMANDS_SAVING_H
#define KELVIN_COMMANDS_SAVING_H

#include "call/command.h"

/* The last row's name is NULL. */
extern const struct command saving_commands[];

/* Private: the handlers of the rows. */
command_run save_command, bgsave_command, lastsave_command, bgrewriteaof_command;

#endif
