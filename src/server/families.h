/* Families: all commands and INFO sections there are, from the rooms that have some. */
#ifndef KELVIN_SERVER_FAMILIES_H
#define KELVIN_SERVER_FAMILIES_H

#include "call/command.h"


/* Arrays of rows, ended by NULL. */
const struct command *const *families_of_commands(void);

#endif
