/* Connection commands: PING ECHO QUIT RESET HELLO AUTH. Those of CLIENT stand in client.c. */
#ifndef KELVIN_COMMANDS_CONNECTION_H
#define KELVIN_COMMANDS_CONNECTION_H

#include "call/command.h"

/* The last row's name is NULL. */
extern const struct command connection_commands[];

/* Private: the handlers of the rows. */
command_run ping_command, echo_command, quit_command, reset_command, hello_command, auth_command;

#endif
