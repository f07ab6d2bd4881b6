/* COMMAND DOCS: a row as documentation. */
#ifndef KELVIN_COMMANDS_COMMAND_DOCS_H
#define KELVIN_COMMANDS_COMMAND_DOCS_H

#include "base/arena.h"
#include "call/command.h"
#include "resp/reply.h"

/* Replies the documentation of one command, a map. The arena lives as long as the call. */
void command_docs_reply(struct reply *reply, struct arena *arena, const struct command *command);

#endif
