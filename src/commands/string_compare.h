/* Commands that depend on what a string is now: IFEQ and IFNE compare its bytes, IFDEQ and IFDNE its digest, which is the XXH3 hash of
 * the bytes in 16 hexadecimal digits. */
#ifndef KELVIN_COMMANDS_STRING_COMPARE_H
#define KELVIN_COMMANDS_STRING_COMPARE_H

#include "call/key.h"
#include "commands/string_options.h"

/* False if a digest is given that is none: the error was replied. */
bool string_comparison_check(struct call *call, const struct string_options *options);

/* The key is absent or has a string. An absent one differs from everything. */
bool string_comparison_holds(struct call *call, const struct key *key, const struct string_options *options);

#endif
