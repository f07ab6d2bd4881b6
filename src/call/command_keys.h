/* Keys: which arguments of a call are keys, and what is done to them, from the command's row. */
#ifndef KELVIN_CALL_COMMAND_KEYS_H
#define KELVIN_CALL_COMMAND_KEYS_H

#include "call/call.h"

/* Fills `keys` (room for `capacity`) with argument index and flags; hashes are not set. Returns their number, which may be more
 * than the room: call again with enough. -1: the arguments make no sense (numkeys is no number, or too large); the handler, run
 * without keys, words the error.
 *
 * The flags are those of this very call: a SET is KEY_OW, with NX, XX or KEEPTTL also KEY_RESIDENT, and with GET KEY_RW; a BITFIELD
 * that only GETs is KEY_RO. */
int command_keys(const struct command *command, const struct bytes *args, int arg_count, struct call_key *keys, int capacity);

#endif
