/* List commands: LPUSH and its kin. list.c changes, list_read.c asks, list_pop.c pops and moves,
 * list_block.c waits until it can. */
#ifndef KELVIN_COMMANDS_LIST_H
#define KELVIN_COMMANDS_LIST_H

#include "call/command.h"
#include "value/chunk_list.h"

struct key;

/* The last row's name is NULL. */
extern const struct command list_commands[];

/* Argument `arg` says LEFT or RIGHT; false: a syntax error was replied. */
bool arg_list_end(struct call *call, int arg, enum list_end *end);

/* Popping, for BLPOP and its kin too. The key is a list, present and opened for writing; the key goes with its last element. Counts
 * one change for each element. */

/* Replies one element. */
void list_pop_one(struct key *key, enum list_end end);
/* Replies an array of `count` elements, or as many as there are. Returns how many. */
size_t list_pop(struct key *key, enum list_end end, size_t count);
/* Replies LMPOP's answer, and logs it as LPOP or RPOP. `arg` is the key's argument. */
void list_pop_many(struct key *key, int arg, enum list_end end, size_t count);
/* LMOVE from the source, which is present, and argument 2. False: the destination is of another type, which was replied. */
bool list_move(struct key *source, enum list_end from, enum list_end to);
/* What stands behind the keys of LMPOP: LEFT|RIGHT [COUNT count]. False: the error was replied. */
bool list_pop_options(struct call *call, int arg, enum list_end *end, int64_t *count);

/* Private: the handlers of the rows. */
command_run lpush_command, rpush_command, lpushx_command, rpushx_command, linsert_command, lset_command, lrem_command, ltrim_command;
command_run lindex_command, llen_command, lrange_command, lpos_command;
command_run lpop_command, rpop_command, lmpop_command, lmove_command, rpoplpush_command;
command_run blpop_command, brpop_command, blmpop_command, blmove_command, brpoplpush_command;

#endif
