/* Parser: the one way by which a text gets to Lua's parser, whatever it came by: EVAL, SCRIPT LOAD, a library, `load`, `loadstring`.
 *
 * The library of the system is stock Lua 5.1, whose parser trusts its input in ways that Redis' copy no longer does. Here it gets nothing
 * but text (never compiled code, which would be a way out of the sandbox), in a size that none of its counters overflows for, all at once,
 * so that nothing else runs while it works, and with a name that the collector can't take (docs/SECURITY.md, Lua).
 */
#ifndef KELVIN_SCRIPT_PARSER_H
#define KELVIN_SCRIPT_PARSER_H

#include "base/bytes.h"

struct lua_State;

/* Bytes of a text: that of a largest request by default. Lua counts lines, and the '=' of a bracket, in an int, and computes with the double. */
enum { PARSER_TEXT_MAX = 512 << 20 };

/* Compiles `text` and pushes the function, or the text of an error. Returns Lua's status: 0 if all went well. `name` is what lua_load takes.
 * May raise for missing memory before it begins. */
int parser_load(struct lua_State *lua, struct bytes text, const char *name);

/* The same with a text that `gather` pushes, as a string, before the parser starts; an error that it raises is returned as one of the text. */
typedef void parser_gather(struct lua_State *lua);
int parser_load_gathered(struct lua_State *lua, parser_gather *gather, const char *name);

#endif
