/* COMMAND INFO: a row as clients and proxies use it. */
#ifndef KELVIN_COMMANDS_COMMAND_INFO_H
#define KELVIN_COMMANDS_COMMAND_INFO_H

#include "call/command.h"
#include "resp/reply.h"

/* Replies the entry of COMMAND INFO, with its subcommands. */
void command_info_reply(struct reply *reply, const struct command *command);
/* Replies the names of enum key_flag, as a set, without those that are Kelvin's own. */
void command_key_flags_reply(struct reply *reply, uint32_t flags);

#endif
