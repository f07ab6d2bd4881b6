/* Admin commands: what an operator asks and sets. admin.c has INFO, ROLE, REPLICAOF and SHUTDOWN; the rest stands in
 * admin_config.c, admin_slowlog.c, admin_latency.c, admin_memory.c and admin_debug.c.
 */
#ifndef KELVIN_COMMANDS_ADMIN_H
#define KELVIN_COMMANDS_ADMIN_H

#include "base/message.h"
#include "call/call.h"
#include "call/command.h"

/* "ERR unknown subcommand or wrong number of arguments for 'x'. Try SLOWLOG HELP." */
void admin_reply_usage(struct call *call, const char *command);
/* The client is on this machine. */
bool admin_is_local(const struct call *call);

/* Private: an errand is a call's work that may block (disk, kernel), done as a job. `run` answers whether it went well; the message
 * becomes the error. Replies OK or the error when done; until then the call waits. */
void admin_errand(struct call *call, bool (*run)(struct engine *engine, struct message *message));

#endif
