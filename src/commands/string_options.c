#include "commands/string_options.h"

enum {
    OPTIONS_OF_EXPIRY = OPTION_KEEPTTL | OPTION_PERSIST | OPTION_TIMES,
    CONDITIONS = OPTION_NX | OPTION_XX | OPTION_COMPARISONS,
};

static const struct {
    const char *word;
    enum string_option option;
    uint32_t rivals;            /* options that exclude it */
} words[] = {
    { "NX", OPTION_NX, CONDITIONS },
    { "XX", OPTION_XX, CONDITIONS },
    { "IFEQ", OPTION_IFEQ, CONDITIONS },
    { "IFNE", OPTION_IFNE, CONDITIONS },
    { "IFDEQ", OPTION_IFDEQ, CONDITIONS },
    { "IFDNE", OPTION_IFDNE, CONDITIONS },
    { "GET", OPTION_GET, 0 },
    { "KEEPTTL", OPTION_KEEPTTL, OPTIONS_OF_EXPIRY },
    { "PERSIST", OPTION_PERSIST, OPTIONS_OF_EXPIRY },
    { "EX", OPTION_EX, OPTIONS_OF_EXPIRY },
    { "PX", OPTION_PX, OPTIONS_OF_EXPIRY },
    { "EXAT", OPTION_EXAT, OPTIONS_OF_EXPIRY },
    { "PXAT", OPTION_PXAT, OPTIONS_OF_EXPIRY },
};
enum { WORD_COUNT = sizeof(words) / sizeof(words[0]) };

static int find_word(struct bytes text)
{
    for (int i = 0; i < WORD_COUNT; i++)
        if (bytes_is(text, words[i].word))
            return i;
    return -1;
}

bool string_options_read(struct call *call, int from, uint32_t allowed, struct string_options *options)
{
    *options = (struct string_options){ 0 };
    for (int i = from; i < call->arg_count; i++) {
        int word = find_word(call->args[i]);
        uint32_t option;

        if (word < 0)
            goto refuse;
        option = words[word].option;
        /* An option may be repeated, and the last time counts, as in Redis. */
        if (!(option & allowed) || options->given & words[word].rivals & ~option)
            goto refuse;
        options->given |= option;
        if (option & (OPTION_TIMES | OPTION_COMPARISONS)) {
            if (++i == call->arg_count)
                goto refuse;
            *(option & OPTION_TIMES ? &options->time_arg : &options->compared_arg) = i;
        }
    }
    return true;
refuse:
    reply_error(call, ERR_SYNTAX);
    return false;
}

bool string_options_expire_ms(struct call *call, const struct string_options *options, int64_t *expire_ms)
{
    int64_t time;

    *expire_ms = -1;
    if (options->time_arg == 0)
        return true;
    if (!arg_integer(call, options->time_arg, &time))
        return false;
    if (time <= 0)
        goto refuse;
    if (options->given & (OPTION_EX | OPTION_EXAT) && __builtin_mul_overflow(time, 1000, &time))
        goto refuse;
    if (!(options->given & OPTION_ABSOLUTE) && __builtin_add_overflow(time, call->turn->now_ms, &time))
        goto refuse;
    *expire_ms = time;
    return true;
refuse:
    reply_errorf(call, "ERR invalid expire time in '%s' command", call->command->name);
    return false;
}
