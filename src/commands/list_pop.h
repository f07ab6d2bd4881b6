/* Pops from lists, and moves between them: what LPOP, LMPOP and LMOVE share with the blocking commands. */
#ifndef KELVIN_COMMANDS_LIST_POP_H
#define KELVIN_COMMANDS_LIST_POP_H

#include "commands/pop.h"
#include "value/chunk_list.h"

/* Argument `arg` is LEFT or RIGHT. False: a syntax error was replied. */
bool arg_list_end(struct call *call, int arg, enum list_end *end);

/* For all pops: the key is a list, present and opened for writing; it is removed with its last element. Each element counts as
 * one change. */

/* The list has got shorter: changes its encoding if need be, before key_changed. */
void list_settle(struct key *key);
/* Replies and removes one element. False: elements are missing (key_ask). */
bool list_pop_one(struct key *key, enum list_end end);
/* LMOVE from the source, which is present, to argument 2. False: the destination has another type, and the error was replied; or elements are missing (key_ask). */
bool list_move(struct key *source, enum list_end from, enum list_end to);
/* A pop of LMPOP: parses numkeys key [key ...] LEFT|RIGHT [COUNT count] from argument `arg` on. False: the error was replied. */
bool list_pop_parse(struct pop *pop, struct call *call, int arg);

#endif
