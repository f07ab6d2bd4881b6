#include "commands/scan_options.h"

#include <inttypes.h>

#include "base/text.h"
#include "call/call.h"

/* Cursors are parsed as strtoul does, which is what clients of Redis see: a sign is accepted, "-1" is the largest number, an
 * empty text is 0, and the text ends at a NUL. Spaces are not accepted. */
static bool cursor_of_text(struct bytes text, uint64_t *cursor)
{
    const char *digits = text.data, *end = text.size == 0 ? digits : memchr(digits, 0, text.size);
    bool is_negative = false;
    uint64_t number = 0;

    if (end == NULL)
        end = text.data + text.size;
    *cursor = 0;
    if (digits == end)
        return true;
    if (*digits == '-' || *digits == '+')
        is_negative = *digits++ == '-';
    if (digits == end)
        return false;
    for (; digits < end; digits++) {
        if (*digits < '0' || *digits > '9' || __builtin_mul_overflow(number, (uint64_t)10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*digits - '0'), &number))
            return false;
    }
    *cursor = is_negative ? 0 - number : number;
    return true;
}

bool scan_options_cursor(struct call *call, int arg, struct scan_options *options)
{
    *options = (struct scan_options){ .count = SCAN_COUNT_DEFAULT };
    if (cursor_of_text(call->args[arg], &options->cursor))
        return true;
    reply_error(call, ERR_INVALID_CURSOR);
    return false;
}

static bool parse_count(struct call *call, int arg, struct scan_options *options)
{
    if (!arg_integer(call, arg, &options->count))
        return false;
    if (options->count >= 1)
        return true;
    reply_error(call, ERR_SYNTAX);
    return false;
}

bool scan_options_parse(struct call *call, int arg, enum scan_own_option own, struct scan_options *options)
{
    for (; arg < call->arg_count; arg += 2) {
        bool has_value = arg + 1 < call->arg_count;

        if (own == SCAN_WITH_NOVALUES && arg_is(call, arg, "novalues")) {
            options->no_values = true;
            arg--;
        } else if (has_value && arg_is(call, arg, "count")) {
            if (!parse_count(call, arg + 1, options))
                return false;
        } else if (has_value && arg_is(call, arg, "match")) {
            options->pattern = call->args[arg + 1];
            options->has_pattern = !bytes_equal(options->pattern, BYTES("*"));
        } else if (has_value && own == SCAN_WITH_TYPE && arg_is(call, arg, "type")) {
            options->type = call->args[arg + 1];
            options->has_type = true;
        } else {
            reply_error(call, ERR_SYNTAX);
            return false;
        }
    }
    return true;
}

bool scan_options_match(const struct scan_options *options, struct bytes name)
{
    return !options->has_pattern || text_matches(options->pattern, name, TEXT_CASE_EXACT);
}

size_t scan_options_count(const struct scan_options *options)
{
    return (uint64_t)options->count > SIZE_MAX / 10 ? SIZE_MAX / 10 : (size_t)options->count;
}

void scan_options_reply(struct call *call, uint64_t cursor, size_t count, const struct buffer *elements)
{
    reply_array(call->reply, 2);
    reply_bulk_format(call->reply, "%" PRIu64, cursor);
    reply_array(call->reply, count);
    buffer_append_bytes(&call->reply->out, buffer_bytes(elements));
}
