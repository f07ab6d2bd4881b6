/* COMMAND DOCS: what a row tells people. */
#ifndef KELVIN_COMMANDS_COMMAND_DOCS_H
#define KELVIN_COMMANDS_COMMAND_DOCS_H

#include "base/arena.h"
#include "call/command.h"
#include "resp/reply.h"

/* The map of COMMAND DOCS about one command. The arena serves until the call ends. */
void command_docs_reply(struct reply *reply, struct arena *arena, const struct command *command);

#endif
