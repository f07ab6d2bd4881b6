/* Server: puts all rooms together, starts and stops them in order. The only room that knows all others. */
#ifndef KELVIN_SERVER_SERVER_H
#define KELVIN_SERVER_SERVER_H

#include "config/config.h"

/* Checks what only the server knows about a configuration that config_check has passed: whether there are the commands that rename-command
 * names. False: `message` says what is wrong. */
bool server_check(struct config *config, struct message *message);

/* Serves until SHUTDOWN, SIGTERM or SIGINT. Takes the config over. Returns the exit status. `restore`: the absolute path of a backup
 * to begin with (persist/backup.h), or NULL. */
int server_run(struct config *config, const char *executable, const char *restore);

#endif
