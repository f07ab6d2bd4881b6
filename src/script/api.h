/* Api: the table `redis`. */
#ifndef KELVIN_SCRIPT_API_H
#define KELVIN_SCRIPT_API_H

struct lua_State;

enum api_of { API_OF_SCRIPTS, API_OF_FUNCTIONS, API_OF_LIBRARIES };

/* Pushes a new table: `redis` of EVAL scripts, of functions when they are called, or of the code of a library. */
void api_open(struct lua_State *lua, enum api_of of);

#endif
