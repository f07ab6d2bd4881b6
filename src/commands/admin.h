/* Admin commands: what operators inspect and set. Helpers that their files share. */
#ifndef KELVIN_COMMANDS_ADMIN_H
#define KELVIN_COMMANDS_ADMIN_H

#include "base/message.h"
#include "call/call.h"
#include "call/command.h"

/* "ERR unknown subcommand or wrong number of arguments for 'x'. Try SLOWLOG HELP." */
void admin_reply_usage(struct call *call, const char *command);
/* The client is on this machine. */
bool admin_is_local(const struct call *call);

/* Runs work that may block (disk, kernel) as a job; until it has finished the call waits. Then replies OK, or the message as the
 * error if `run` returned false. */
void admin_errand(struct call *call, bool (*run)(struct engine *engine, struct message *message));

#endif
