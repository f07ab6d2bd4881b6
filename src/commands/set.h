/* Set commands: SADD and its kin. set.c changes, set_read.c asks, set_random.c draws, set_combine.c intersects, unites and subtracts,
 * set_scan.c walks. */
#ifndef KELVIN_COMMANDS_SET_H
#define KELVIN_COMMANDS_SET_H

#include "call/command.h"

/* The last row's name is NULL. */
extern const struct command set_commands[];

/* Private: the handlers of the rows. */
command_run sadd_command, srem_command, smove_command;
command_run scard_command, sismember_command, smismember_command, smembers_command;
command_run spop_command, srandmember_command;
command_run sinter_command, sinterstore_command, sintercard_command, sunion_command, sunionstore_command, sdiff_command,
    sdiffstore_command;
command_run sscan_command;

#endif
