/* Errors: as in Redis 7, an error of redis.call is a table with the text in `err`; the message handler of a run makes
 * such a table of any other error and adds `source` and `line`.
 */
#ifndef KELVIN_SCRIPT_ERRORS_H
#define KELVIN_SCRIPT_ERRORS_H

#include <stdbool.h>

#include "base/bytes.h"

struct lua_State;
struct buffer;

/* Pushes a table with this text; it includes the code, as "ERR ...". Line ends at its end are removed. */
void error_push(struct lua_State *lua, struct bytes text);

/* Raises such a table. */
int error_raise(struct lua_State *lua, const char *text);

/* The message handler of a run. */
int error_locate(struct lua_State *lua);

/* Writes the text of an error reply for the error at the top of the stack. `name` (SHA1 or function) and the position are
 * added if name.data is not NULL and the position is known. Raises nothing. True: the error is that of a command, which
 * was counted when it ran. */
bool error_write(struct lua_State *lua, struct bytes name, struct buffer *out);

#endif
