/* Replies to commands of a feature that Kelvin does not have: modules. */
#include "call/call.h"
#include "commands/handlers.h"

void no_modules_command(struct call *call)
{
    reply_errorf(call, "ERR MODULE command not allowed. Kelvin has no modules");
}

void module_list_command(struct call *call)
{
    reply_array(call->reply, 0);
}

void module_help_command(struct call *call)
{
    static const char *const lines[] = {
        "MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "LIST",
        "    Returns the modules that are loaded: none.",
        "LOAD <path> [<arg> ...]",
        "LOADEX <path> [CONFIG <name> <value> ...] [ARGS <arg> ...]",
        "UNLOAD <name>",
        "    Reply an error.",
        "HELP",
        "    Returns this text.",
        NULL,
    };

    reply_help(call, lines);
}
