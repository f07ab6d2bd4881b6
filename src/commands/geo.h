/* Geo commands: sorted sets whose scores are places (commands/geohash.h). geo.c adds and answers places and distances, geo_search.c
 * searches and stores what it finds, geo_area.c says where to look. */
#ifndef KELVIN_COMMANDS_GEO_H
#define KELVIN_COMMANDS_GEO_H

#include <stdbool.h>

#include "call/command.h"
#include "commands/geohash.h"

struct call;
struct reply;

/* Private to geo*.c. */

/* Arguments `arg` and `arg` + 1, which are there. False: the error was replied. */
bool geo_read_point(struct call *call, int arg, struct geo_point *point);
/* How many metres the unit at `arg` has; 0: the error was replied. */
double geo_read_unit(struct call *call, int arg);
/* A bulk with four digits behind the point. */
void geo_reply_distance(struct reply *reply, double distance);
void geo_reply_point(struct reply *reply, struct geo_point point);

#endif
