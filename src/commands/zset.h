/* Sorted set commands. zset.c adds and removes, zset_read.c asks, zset_range.c answers and stores ranges (zset_bounds.c reads their
 * ends), zset_algebra.c unites and intersects, zset_pop.c pops, zset_block.c waits until it can, zset_random.c draws, zset_scan.c walks. */
#ifndef KELVIN_COMMANDS_ZSET_H
#define KELVIN_COMMANDS_ZSET_H

#include "base/bytes.h"
#include "call/command.h"

struct key;
struct value;

/* The last row's name is NULL. */
extern const struct command zset_commands[];

/* Popping, for BZPOPMIN and its kin too. */
enum zset_end { ZSET_LOWEST, ZSET_HIGHEST };
/* How the elements of a pop are laid out: member, score, member, score ... an array of pairs, or
 * without an array around them. */
enum zset_pop_reply { ZSET_POP_FLAT, ZSET_POP_PAIRS, ZSET_POP_BARE };
/* Replies up to `count` elements (an array) and removes them from the key, a sorted set that is present and opened for writing;
 * the key goes with the last. Counts a change an element, as Redis does. Returns how many there were. */
size_t zset_pop(struct key *key, enum zset_end end, size_t count, enum zset_pop_reply layout);
/* Replies ZMPOP's answer, and logs it as ZPOPMIN or ZPOPMAX. `arg` is the key's argument. */
void zset_pop_many(struct key *key, int arg, enum zset_end end, size_t count);
/* What stands behind the keys of ZMPOP: MIN|MAX [COUNT count]. False: the error was replied. */
bool zset_pop_options(struct call *call, int arg, enum zset_end *end, int64_t *count);

/* Makes argument `arg`, opened for overwriting by its row, the sorted set, which is taken; or removes what is there if that is
 * empty. Replies how many members it has. For ZUNIONSTORE and all that store, GEO's commands too. */
void zset_store(struct call *call, int arg, struct value zset, const char *event);

/* Private: the handlers of the rows. */
command_run zadd_command, zincrby_command, zrem_command, zremrangebyrank_command, zremrangebyscore_command,
    zremrangebylex_command;
command_run zcard_command, zscore_command, zmscore_command, zrank_command, zrevrank_command, zcount_command, zlexcount_command;
command_run zrange_command, zrevrange_command, zrangebyscore_command, zrevrangebyscore_command, zrangebylex_command,
    zrevrangebylex_command, zrangestore_command;
command_run zunion_command, zinter_command, zdiff_command, zunionstore_command, zinterstore_command, zdiffstore_command,
    zintercard_command;
command_run bzpopmin_command, bzpopmax_command, bzmpop_command;
command_run zpopmin_command, zpopmax_command, zmpop_command, zrandmember_command, zscan_command;

#endif
