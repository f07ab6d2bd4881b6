#include "call/streamed.h"

#include <string.h>

/* MIGRATE is sent as the DEL that it does on the primary. */
static bool is_change(const struct command *command)
{
    return command->flags & (COMMAND_WRITE | COMMAND_MAY_REPLICATE) && !(command->flags & COMMAND_OWNS_KEYS);
}

/* Versions of Redis that send scripts as they are send these, too: an EVALSHA may follow. */
static bool is_of_scripts(const struct command *command)
{
    return strcmp(command->name, "script|load") == 0 || strcmp(command->name, "script|flush") == 0;
}

enum streamed_kind streamed_kind(const struct command *command, const struct bytes *args, int arg_count)
{
    if (command != NULL && (is_change(command) || is_of_scripts(command)))
        return STREAMED_CHANGE;
    if (bytes_is(args[0], "select"))
        return STREAMED_CHANGE;
    if (bytes_is(args[0], "multi") || bytes_is(args[0], "exec"))
        return STREAMED_BRACKET;
    if (bytes_is(args[0], "ping") || (bytes_is(args[0], "replconf") && arg_count >= 2))
        return STREAMED_SIGN;
    return STREAMED_FOREIGN;
}

bool streamed_is_getack(const struct bytes *args, int arg_count)
{
    return arg_count >= 2 && bytes_is(args[0], "replconf") && bytes_is(args[1], "getack");
}
