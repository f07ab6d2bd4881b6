/* Hash commands: HSET and its kin. hash.c changes, hash_read.c asks, hash_random.c draws, hash_scan.c walks. */
#ifndef KELVIN_COMMANDS_HASH_H
#define KELVIN_COMMANDS_HASH_H

#include "command/command.h"

/* The last row's name is NULL. */
extern const struct command hash_commands[];

/* Private: the handlers of the rows. */
command_run hset_command, hmset_command, hsetnx_command, hdel_command, hincrby_command, hincrbyfloat_command;
command_run hget_command, hmget_command, hgetall_command, hkeys_command, hvals_command, hlen_command, hexists_command,
    hstrlen_command;
command_run hrandfield_command, hscan_command;

#endif
