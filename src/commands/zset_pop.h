/* Pops from sorted sets: what ZPOPMIN and ZMPOP share with the blocking commands. */
#ifndef KELVIN_COMMANDS_ZSET_POP_H
#define KELVIN_COMMANDS_ZSET_POP_H

#include "commands/pop.h"

enum zset_end { ZSET_LOWEST, ZSET_HIGHEST };
/* Layout of the popped elements: member, score, member, score ...; an array of pairs; or one pair without an array around it. */
enum zset_pop_reply { ZSET_POP_FLAT, ZSET_POP_PAIRS, ZSET_POP_BARE };
/* Replies up to `count` elements (an array) and removes them from the key, a sorted set that is present and opened for writing;
 * the key is removed with the last one. Each element counts as one change, as in Redis. Returns how many there were. */
size_t zset_pop(struct key *key, enum zset_end end, size_t count, enum zset_pop_reply layout);
/* A pop of ZMPOP: parses numkeys key [key ...] MIN|MAX [COUNT count] from argument `arg` on. False: the error was replied. */
bool zset_pop_parse(struct pop *pop, struct call *call, int arg);

#endif
