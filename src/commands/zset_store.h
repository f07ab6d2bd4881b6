/* Stores a sorted set that a command has built: ZRANGESTORE, ZUNIONSTORE, GEOSEARCHSTORE and so on. */
#ifndef KELVIN_COMMANDS_ZSET_STORE_H
#define KELVIN_COMMANDS_ZSET_STORE_H

#include "call/call.h"
#include "call/event.h"

/* Stores the sorted set, which is taken, in argument `arg`, which its row opens for overwriting; removes the key if the set is
 * empty. Replies how many members it has. */
void zset_store(struct call *call, int arg, struct value zset, enum event event);

#endif
