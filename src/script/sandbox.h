/* Sandbox: what scripts see. Owner: the interpreter's thread.
 *
 * All tables that scripts share are read-only (readonly.h). Only what is listed here exists: no files, no processes, no
 * environment, no modules, no debug library, no finalizers, no compiled code from outside.
 */
#ifndef KELVIN_SCRIPT_SANDBOX_H
#define KELVIN_SCRIPT_SANDBOX_H

struct lua_State;

/* Once per interpreter: prepares the libraries in Lua's registry. */
void sandbox_open(struct lua_State *lua);

/* Pushes a new table of the globals of EVAL scripts, in which KEYS and ARGV can be set, and a read-only view of it, which
 * becomes the globals of the Lua thread. */
void sandbox_push_globals(struct lua_State *lua);

/* Pushes the globals that functions have when they are called. */
void sandbox_push_function_globals(struct lua_State *lua);

/* Pushes new globals for the code of a library: only what a library needs to register its functions. After its code has
 * run, sandbox_complete_globals gives its functions what they have when they are called. */
void sandbox_push_library_globals(struct lua_State *lua);
void sandbox_complete_globals(struct lua_State *lua, int index);

/* Push what getmetatable returns: for "", and for the read-only table at `index`, which is nil for most of them. */
void sandbox_push_string_metatable(struct lua_State *lua);
void sandbox_push_shown_metatable(struct lua_State *lua, int index);

/* Each adds or replaces functions of Lua's libraries, in the table at the top of the stack. */
void sandbox_open_base(struct lua_State *lua);
void sandbox_open_coroutine(struct lua_State *lua);
void sandbox_open_math(struct lua_State *lua);
void sandbox_open_string(struct lua_State *lua);
void sandbox_open_table(struct lua_State *lua);

/* cmsgpack, struct, bit: each pushes its table. cjson: json.h. */
void msgpack_open(struct lua_State *lua);
void structs_open(struct lua_State *lua);
void bits_open(struct lua_State *lua);

#endif
