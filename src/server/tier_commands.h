/* TIER: lets operators (and tests) control the two tiers. In this room because src/commands knows nothing about them. */
#ifndef KELVIN_SERVER_TIER_COMMANDS_H
#define KELVIN_SERVER_TIER_COMMANDS_H

#include "call/call.h"
#include "call/command.h"

/* The last row's name is NULL. */
extern const struct command tier_commands[];

/* False: there is no tier; an error was replied. */
bool tier_commands_may_run(struct call *call);

#endif
