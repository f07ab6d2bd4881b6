/* Databases as arguments. */
#ifndef KELVIN_COMMANDS_DATABASE_H
#define KELVIN_COMMANDS_DATABASE_H

#include "call/call.h"

/* The number of a database. False: the error was replied. */
bool database_argument(struct call *call, int arg, int *db);
/* True: this server is a node of a cluster, of which each has one database, and the error was replied. */
bool database_is_refused(struct call *call, const char *command);

#endif
