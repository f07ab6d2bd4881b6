/* Pattern: Lua's patterns, with a limit on recursion and with pauses.
 *
 * Lua's own matcher recurses once per item of a pattern and never lets go: a pattern of a million items overruns the stack,
 * and some patterns take longer than the age of the universe. This one polls the run (run_poll), so that a script in it
 * can be stopped.
 */
#ifndef KELVIN_SCRIPT_PATTERN_H
#define KELVIN_SCRIPT_PATTERN_H

#include <stddef.h>

#include "base/bytes.h"
#include "script/interpreter_private.h"

enum { PATTERN_CAPTURES_MAX = 32, PATTERN_DEPTH_MAX = 2000 };

struct pattern_capture {
    const char *start;
    ptrdiff_t size;         /* or one of these */
};
enum { PATTERN_UNFINISHED = -1, PATTERN_POSITION = -2 };

/* The subject and the pattern are Lua strings on the stack. As in Lua, a NUL ends the pattern. */
struct pattern {
    lua_State *lua;
    struct bytes subject;
    const char *end;                    /* of the pattern */
    uint32_t *steps;
    int depth, capture_count;
    struct pattern_capture captures[PATTERN_CAPTURES_MAX];
};

/* Matches at `at` only. Returns the end of the match, or NULL. Raises an error if the pattern is malformed. */
const char *pattern_match(struct pattern *pattern, const char *at, const char *items);

/* Pushes all captures; if there are none, the whole match if `at` is not NULL. Returns how many. */
int pattern_push_captures(struct pattern *pattern, const char *at, const char *end);

/* Pushes capture `index`, counted from 0; 0 is the whole match if there are no captures. */
void pattern_push_capture(struct pattern *pattern, int index, const char *at, const char *end);

#endif
