/* COMMAND and its subcommands: what clients can learn about the commands. command.c has the rows, the lists and the keys,
 * command_info.c tells what the server goes by, command_docs.c what people go by. All of it derives from the commands' rows.
 */
#ifndef KELVIN_COMMANDS_COMMAND_H
#define KELVIN_COMMANDS_COMMAND_H

#include "base/arena.h"
#include "call/command.h"
#include "resp/reply.h"

/* The last row's name is NULL. */
extern const struct command command_commands[];

/* The entry of COMMAND INFO, with its subcommands. */
void command_info_reply(struct reply *reply, const struct command *command);
/* Bits of enum command_category: the explicit ones and those that follow from the flags. */
uint32_t command_categories(const struct command *command);
/* The category of a name ("string"), 0 if there is none. */
uint32_t command_category_of(struct bytes name);
/* Names of enum key_flag, as a set; those only Kelvin knows are left out. */
void command_key_flags_reply(struct reply *reply, uint32_t flags);

/* The map of COMMAND DOCS about one command. The arena serves until the call ends. */
void command_docs_reply(struct reply *reply, struct arena *arena, const struct command *command);

/* Private: the handlers of the rows. */
command_run command_command, command_count_command, command_info_command, command_docs_command, command_list_command,
    command_getkeys_command, command_getkeysandflags_command, command_help_command;

#endif
