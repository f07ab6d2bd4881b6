/* Stores a sorted set that a command made: ZRANGESTORE, ZUNIONSTORE, GEOSEARCHSTORE and the like. */
#ifndef KELVIN_COMMANDS_ZSET_STORE_H
#define KELVIN_COMMANDS_ZSET_STORE_H

#include "call/call.h"

/* Makes argument `arg`, opened for overwriting by its row, the sorted set, which is taken; or removes what is there if that is
 * empty. Replies how many members it has. For ZUNIONSTORE and all that store, GEO's commands too. */
void zset_store(struct call *call, int arg, struct value zset, const char *event);

#endif
