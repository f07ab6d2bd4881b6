#include "commands/string_compare.h"

#include <ctype.h>
#include <inttypes.h>

#include "base/xxh3.h"
#include "commands/handlers.h"
#include "commands/keys.h"
#include "commands/string_access.h"

enum { DIGEST_SIZE = 16 };

static bool is_digest(struct bytes text)
{
    if (text.size != DIGEST_SIZE)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (!isxdigit((unsigned char)text.data[i]))
            return false;
    }
    return true;
}

static struct bytes digest_of(struct call *call, struct bytes value)
{
    return call_format(call, "%016" PRIx64, xxh3(value));
}

bool string_comparison_check(struct call *call, const struct string_options *options)
{
    if (!(options->given & OPTION_DIGESTS) || is_digest(call->args[options->compared_arg]))
        return true;
    reply_errorf(call, "ERR must be exactly 16 hexadecimal characters");
    return false;
}

bool string_comparison_holds(struct call *call, const struct key *key, const struct string_options *options)
{
    bool wants_equal = options->given & (OPTION_IFEQ | OPTION_IFDEQ);
    struct bytes given = call->args[options->compared_arg];
    char digits[TEXT_INT_SIZE];
    struct bytes value;

    if (!key->present)
        return !wants_equal;
    value = string_of(key, digits);
    if (!(options->given & OPTION_DIGESTS))
        return bytes_equal(value, given) == wants_equal;
    value = digest_of(call, value);
    return (strncasecmp(value.data, given.data, DIGEST_SIZE) == 0) == wants_equal;
}

void digest_command(struct call *call)
{
    char digits[TEXT_INT_SIZE];
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_READING, VALUE_STRING, &key))
        return;
    if (key.present)
        reply_bulk(call->reply, digest_of(call, string_of(&key, digits)));
    else
        reply_null(call->reply);
}

/* False: an error was replied. */
static bool read_condition(struct call *call, struct string_options *options)
{
    if (call->arg_count != 2 && call->arg_count != 4) {
        reply_wrong_arity(call);
        return false;
    }
    return string_options_read(call, 2, OPTION_COMPARISONS, options) && string_comparison_check(call, options);
}

/* DELEX key [condition]. An absent key is never removed. */
void delex_command(struct call *call)
{
    enum key_removal removal = keys_removal(call, CONFIG_LAZYFREE_LAZY_USER_DEL);
    struct string_options options;
    struct key key;

    if (!read_condition(call, &options))
        return;
    if (options.given == 0)
        key_open(call, 1, KEY_FOR_LOOKING, &key);
    else if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_STRING, &key))
        return;
    if (options.given != 0 && !string_ask(&key, 0, UINT64_MAX))
        return;
    if (!key.present || (options.given != 0 && !string_comparison_holds(call, &key, &options))) {
        reply_integer(call->reply, 0);
        return;
    }
    key_remove(&key, removal, EVENT_DEL);
    call_propagate(call, (struct bytes[]){ removal == KEY_REMOVE_LAZILY ? BYTES("UNLINK") : BYTES("DEL"), call->args[1] }, 2);
    reply_integer(call->reply, 1);
}
