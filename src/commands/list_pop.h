/* Pops from lists, and moves from one to another: what LPOP, LMPOP and LMOVE share with the commands that wait. */
#ifndef KELVIN_COMMANDS_LIST_POP_H
#define KELVIN_COMMANDS_LIST_POP_H

#include "call/call.h"
#include "value/chunk_list.h"

struct key;

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

#endif
