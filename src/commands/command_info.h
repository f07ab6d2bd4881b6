/* COMMAND INFO: a row as clients and proxies use it. */
#ifndef KELVIN_COMMANDS_COMMAND_INFO_H
#define KELVIN_COMMANDS_COMMAND_INFO_H

#include "call/command.h"
#include "resp/reply.h"

/* Replies the entry of COMMAND INFO, with its subcommands. */
void command_info_reply(struct reply *reply, const struct command *command);
/* Bits of enum command_category: the explicit ones and those that follow from the flags. */
uint32_t command_categories(const struct command *command);
/* The category with this name ("string"), 0 if there is none. */
uint32_t command_category_of(struct bytes name);
/* Replies the names of enum key_flag, as a set, without those that are Kelvin's own. */
void command_key_flags_reply(struct reply *reply, uint32_t flags);

#endif
