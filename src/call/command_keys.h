/* Command keys: which arguments of a call are keys, and what is done to them, from the command's row. */
#ifndef KELVIN_CALL_COMMAND_KEYS_H
#define KELVIN_CALL_COMMAND_KEYS_H

#include "call/call.h"

/* Fills `keys` (room for `capacity`) with argument index and flags; hashes are not set. Returns the number of keys, which may be
 * more than the capacity: call again with enough room. -1: the arguments are invalid (numkeys is not a number, or too large); the
 * handler, run without keys, replies the error.
 *
 * The flags are those of this very call: a SET or MSETEX is KEY_OW, with NX, XX or KEEPTTL also KEY_RESIDENT; a SET with GET or a
 * comparison is KEY_RW; a DELEX without one is KEY_RM; a BITFIELD with only GETs is KEY_RO.
 */
int command_keys(const struct command *command, const struct bytes *args, int arg_count, struct call_key *keys, int capacity);

/* The database that MOVE or COPY name: that of COPY's second key, and of the key that MOVE creates, which has the name of its only one. -1: none is named, or it is
 * another command. It need not exist. */
int command_named_db(const struct command *command, const struct bytes *args, int arg_count);

#endif
