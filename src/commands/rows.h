/* The rows of all commands: one table for each family, made from its .def. Each table ends with a row without a name. */
#ifndef KELVIN_COMMANDS_ROWS_H
#define KELVIN_COMMANDS_ROWS_H

#include "call/command.h"

extern const struct command string_commands[];
extern const struct command bitmap_commands[];
extern const struct command hyperloglog_commands[];
extern const struct command hash_commands[];
extern const struct command list_commands[];
extern const struct command set_commands[];
extern const struct command zset_commands[];
extern const struct command geo_commands[];
extern const struct command stream_commands[];
extern const struct command keys_commands[];
extern const struct command connection_commands[];
extern const struct command acl_commands[];
extern const struct command client_commands[];
extern const struct command command_commands[];
extern const struct command transaction_commands[];
extern const struct command pubsub_commands[];
extern const struct command replication_commands[];
extern const struct command cluster_commands[];
extern const struct command absent_commands[];
extern const struct command misc_commands[];
extern const struct command saving_commands[];
extern const struct command scripting_commands[];
extern const struct command admin_commands[];

#endif
