/* String commands: SET and its kin. string.c reads, string_set.c writes whole values (string_options.c knows the words behind
 * SET and GETEX), string_number.c counts, string_range.c changes parts, string_lcs.c compares.
 */
#ifndef KELVIN_COMMANDS_STRING_H
#define KELVIN_COMMANDS_STRING_H

#include "call/command.h"

/* The last row's name is NULL. */
extern const struct command string_commands[];

/* Private: the handlers of the rows. */
command_run get_command, mget_command, strlen_command, getrange_command, getdel_command;
command_run set_command, setnx_command, setex_command, psetex_command, getset_command, getex_command, mset_command,
    msetnx_command;
command_run incr_command, decr_command, incrby_command, decrby_command, incrbyfloat_command;
command_run append_command, setrange_command;
command_run lcs_command;

#endif
