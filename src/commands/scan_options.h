/* Scan options: the arguments of SCAN, HSCAN, SSCAN and ZSCAN after the key: cursor [MATCH pattern] [COUNT count] [TYPE type]
 * [NOVALUES].
 *
 * They are parsed in two steps, because Redis looks up the key in between: a bad cursor is always an error, a bad option only if
 * the key exists. Each function returns false after it has replied an error.
 */
#ifndef KELVIN_COMMANDS_SCAN_OPTIONS_H
#define KELVIN_COMMANDS_SCAN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/buffer.h"

struct call;

enum { SCAN_COUNT_DEFAULT = 10 };

struct scan_options {
    uint64_t cursor;
    bool has_pattern;           /* false for "*", too, which matches everything */
    struct bytes pattern;       /* borrowed from the arguments, as is the type */
    int64_t count;              /* at least 1 */
    bool has_type;
    struct bytes type;
    bool no_values;
};

/* Argument `arg` is the cursor; all options get their defaults. */
bool scan_options_cursor(struct call *call, int arg, struct scan_options *options);

/* Parses all arguments from `arg` on as options. TYPE and NOVALUES are options only of the command that has them. */
enum scan_own_option { SCAN_WITH_NONE, SCAN_WITH_TYPE, SCAN_WITH_NOVALUES };
bool scan_options_parse(struct call *call, int arg, enum scan_own_option own, struct scan_options *options);

/* Whether the name matches MATCH. */
bool scan_options_match(const struct scan_options *options, struct bytes name);

/* COUNT as a size, small enough that ten times as much can be computed. */
size_t scan_options_count(const struct scan_options *options);

/* Replies a step: the next cursor, and `count` elements, which are in `elements` as replies already. */
void scan_options_reply(struct call *call, uint64_t cursor, size_t count, const struct buffer *elements);

#endif
