/* Families: all commands and INFO sections there are, from the rooms that have some. */
#ifndef KELVIN_SERVER_FAMILIES_H
#define KELVIN_SERVER_FAMILIES_H

#include "call/command_table.h"
#include "config/config.h"

/* Arrays of rows, ended by NULL. */
const struct command *const *families_of_commands(void);
/* Renames commands in the table as rename-command says. False: `message` has the line that can't be followed, and why. */
bool families_rename(struct command_table *table, struct config *config, struct message *message);


#endif
