/* Geo commands: sorted sets whose scores are positions (commands/geohash.h). Helpers that geo.c and geo_search.c share. */
#ifndef KELVIN_COMMANDS_GEO_H
#define KELVIN_COMMANDS_GEO_H

#include <stdbool.h>

#include "call/command.h"
#include "commands/geohash.h"

struct call;
struct reply;

/* Arguments `arg` and `arg` + 1, which are there. False: the error was replied. */
bool geo_read_point(struct call *call, int arg, struct geo_point *point);
/* How many metres the unit at `arg` has; 0: the error was replied. */
double geo_read_unit(struct call *call, int arg);
/* A bulk string with four decimals. */
void geo_reply_distance(struct reply *reply, double distance);
void geo_reply_point(struct reply *reply, struct geo_point point);

#endif
