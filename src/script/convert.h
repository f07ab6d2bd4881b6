/* Convert: replies of commands to Lua values, and Lua values to replies, as in Redis. */
#ifndef KELVIN_SCRIPT_CONVERT_H
#define KELVIN_SCRIPT_CONVERT_H

#include <stdbool.h>

#include "base/bytes.h"

struct lua_State;
struct reply;

enum convert_result { CONVERT_OK, CONVERT_ERROR };

/* Pushes one reply, RESP2 or RESP3. CONVERT_ERROR: it is an error; pushed is a table with its text. */
enum convert_result convert_push_reply(struct lua_State *lua, struct bytes reply);

/* Writes the value at the top of the stack, which stays. Does not raise; the heap has to be unlimited. `protocol` is that of
 * the script, which decides about booleans. A table that is nested too deep becomes an error within the reply. False: it is
 * larger than size_max bytes; what was written so far is in `reply`. */
bool convert_write_value(struct lua_State *lua, int protocol, size_t size_max, struct reply *reply);

#endif
