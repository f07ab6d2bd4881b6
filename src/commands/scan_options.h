/* Scan options: what SCAN and its kin take behind the key: cursor [MATCH pattern] [COUNT count] [TYPE type].
 *
 * Two steps, because Redis looks at the key between them: a bad cursor is an error whatever the key is, a bad option is
 * none when the key is missing. Each function returns false after it replied an error.
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
    bool has_pattern;           /* false for "*" too: it lets everything through */
    struct bytes pattern;       /* borrowed from the arguments, as is the type */
    int64_t count;              /* at least 1 */
    bool has_type;
    struct bytes type;
};

/* Argument `arg` is the cursor; everything else gets its default. */
bool scan_options_cursor(struct call *call, int arg, struct scan_options *options);

/* All arguments from `arg` on are options. TYPE is one of them only if asked for. */
enum scan_type_option { SCAN_WITHOUT_TYPE, SCAN_WITH_TYPE };
bool scan_options_parse(struct call *call, int arg, enum scan_type_option type, struct scan_options *options);

/* Does MATCH let the name through? */
bool scan_options_match(const struct scan_options *options, struct bytes name);

/* COUNT as a size from which multiples up to tenfold can be computed. */
size_t scan_options_count(const struct scan_options *options);

/* The reply of a step: the next cursor, and `count` elements that stand in `elements` as replies already written. */
void scan_options_reply(struct call *call, uint64_t cursor, size_t count, const struct buffer *elements);

#endif
