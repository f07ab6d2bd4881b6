/* Readonly: tables that all scripts share and none can change.
 *
 * Debian's Lua has no read-only tables. What a script sees is an empty table, whose metatable refers to the real one and
 * refuses assignments; the script has no way to get at either. Functions that look at tables without metamethods (next,
 * rawget ...) are replaced by ones that see the real table through it.
 */
#ifndef KELVIN_SCRIPT_READONLY_H
#define KELVIN_SCRIPT_READONLY_H

#include <stdbool.h>

struct lua_State;

/* Replaces the table at the top of the stack with a read-only view of it. */
void readonly_wrap(struct lua_State *lua);

/* Makes the view at `index` one of the table at the top of the stack, and pops that. */
void readonly_redirect(struct lua_State *lua, int index);

bool readonly_is(struct lua_State *lua, int index);

/* Replaces the view at `index` with the real table; leaves other values as they are. */
void readonly_unwrap(struct lua_State *lua, int index);

/* Raises an error if the table at `index` is read-only. */
void readonly_refuse(struct lua_State *lua, int index);

#endif
