/* Users: those of the configuration: requirepass, user lines, aclfile. */
#ifndef KELVIN_COMMANDS_USERS_H
#define KELVIN_COMMANDS_USERS_H

#include <stdbool.h>

struct engine;

/* At the start, before there are clients. False: the log has the reason. From then on requirepass changes the default user. */
bool users_load(struct engine *engine);

/* Before CONFIG REWRITE: puts the users into the configuration if they are not those that its user lines make. On a worker. */
void users_note(struct engine *engine);

#endif
