/* Functions that the files of ACL share. */
#ifndef KELVIN_COMMANDS_ACL_H
#define KELVIN_COMMANDS_ACL_H

#include <stdbool.h>

#include "call/call.h"
#include "call/command.h"

command_prepare acl_load_prepare;

bool acl_channels_by_default(const struct call *call);          /* acl-pubsub-default is allchannels */
/* Replies that the subcommand was given too many arguments. */
void acl_reply_usage(struct call *call);

#endif
