/* Users: those of the configuration: requirepass, user lines, aclfile. */
#ifndef KELVIN_COMMANDS_USERS_H
#define KELVIN_COMMANDS_USERS_H

#include <stdbool.h>

#include "base/buffer.h"
#include "call/command_table.h"
#include "config/config.h"

struct engine;

/* Whether users_load would succeed. False: `error` has the reason, of a file all of them. */
bool users_check(struct config *config, const struct command_table *commands, struct buffer *error);

/* At the start, before there are clients. False: the log has the reason. From then on requirepass changes the default user. */
bool users_load(struct engine *engine);

/* Before CONFIG REWRITE: puts the users into the configuration if they are not those that its user lines make. On a worker. */
void users_note(struct engine *engine);

#endif
