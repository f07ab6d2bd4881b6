/* Shebang: the first line of a source, with its engine and options.
 *
 *   #!lua flags=no-writes,allow-oom        of EVAL and SCRIPT LOAD; may be missing
 *   #!lua name=mylib                       of a library
 *
 * Words are separated and quoted as in inline commands. Lua does not know such a line: it is given the source from `body` on, which begins
 * with the line's end, so that line numbers stay right.
 */
#ifndef KELVIN_SCRIPT_SHEBANG_H
#define KELVIN_SCRIPT_SHEBANG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "script/host.h"

/* On failure these return false, and append the text of the error reply, without '-'. */

/* A source without this line is checked command by command as it runs, as sources of before Redis 7. */
enum { SCRIPT_COMPATIBLE = 1 << 16 };

/* `*body` is the offset of the line's end, 0 if there is no such line; `*flags` are enum script_flags, or SCRIPT_COMPATIBLE. */
bool shebang_of_script(struct bytes source, size_t *body, uint32_t *flags, struct buffer *error);

struct shebang_library {
    char *engine, *name;        /* as written; freed with mem_free */
    size_t body;
};
bool shebang_of_library(struct bytes source, struct shebang_library *library, struct buffer *error);
void shebang_library_release(struct shebang_library *library);

#endif
