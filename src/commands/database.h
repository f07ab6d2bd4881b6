/* Databases as arguments. */
#ifndef KELVIN_COMMANDS_DATABASE_H
#define KELVIN_COMMANDS_DATABASE_H

#include "call/call.h"

/* The number of a database. False: the error was replied. */
bool database_argument(struct call *call, int arg, int *db);

#endif
