/* TIER: what an operator (and a test) does with the two tiers by hand. In this room because src/commands knows nothing of them. */
#ifndef KELVIN_SERVER_TIER_COMMANDS_H
#define KELVIN_SERVER_TIER_COMMANDS_H

#include "call/command.h"

/* The last row's name is NULL. */
extern const struct command tier_commands[];

#endif
