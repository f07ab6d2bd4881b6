/* Pops from lists, and moves between them: what LPOP, LMPOP and LMOVE share with the blocking commands. */
#ifndef KELVIN_COMMANDS_LIST_POP_H
#define KELVIN_COMMANDS_LIST_POP_H

#include "call/call.h"
#include "value/chunk_list.h"

struct key;

/* Argument `arg` is LEFT or RIGHT. False: a syntax error was replied. */
bool arg_list_end(struct call *call, int arg, enum list_end *end);

/* For all pops: the key is a list, present and opened for writing; it is removed with its last element. Each element counts as
 * one change. */

/* Replies and removes one element. */
void list_pop_one(struct key *key, enum list_end end);
/* Replies and removes an array of `count` elements, or as many as there are. Returns how many. */
size_t list_pop(struct key *key, enum list_end end, size_t count);
/* Pops for LMPOP, replies the key and the elements, and logs an LPOP or RPOP. `arg` is the key's argument. */
void list_pop_many(struct key *key, int arg, enum list_end end, size_t count);
/* LMOVE from the source, which is present, to argument 2. False: the destination has another type, and the error was replied. */
bool list_move(struct key *source, enum list_end from, enum list_end to);
/* What follows the keys of LMPOP: LEFT|RIGHT [COUNT count]. False: the error was replied. */
bool list_pop_options(struct call *call, int arg, enum list_end *end, int64_t *count);

#endif
