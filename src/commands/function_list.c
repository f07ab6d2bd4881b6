/* FUNCTION LIST, STATS and HELP: what there is. */
#include "call/call.h"
#include "commands/handlers.h"
#include "engine/engine.h"
#include "script/flags.h"
#include "script/registry.h"

static void reply_flags(struct reply *reply, uint32_t flags)
{
    struct reply_later later = reply_later_begin(reply);
    const char *name;
    uint32_t flag;
    size_t count = 0;

    for (int i = 0; (name = script_flag_at(i, &flag)) != NULL; i++) {
        if (!(flags & flag))
            continue;
        reply_status(reply, bytes_of_string(name));
        count++;
    }
    reply_later_set(reply, later, count);
}

static void reply_function(struct reply *reply, const struct library_function *function)
{
    reply_map(reply, 3);
    reply_bulk_string(reply, "name");
    reply_bulk(reply, function->name);
    reply_bulk_string(reply, "description");
    if (function->description.data != NULL)
        reply_bulk(reply, function->description);
    else
        reply_null(reply);
    reply_bulk_string(reply, "flags");
    reply_flags(reply, function->flags);
}

static void reply_library(struct reply *reply, const struct library *library, bool with_code)
{
    reply_map(reply, with_code ? 4 : 3);
    reply_bulk_string(reply, "library_name");
    reply_bulk(reply, library->script.name);
    reply_bulk_string(reply, "engine");
    reply_bulk_string(reply, "LUA");
    reply_bulk_string(reply, "functions");
    reply_array(reply, (size_t)library->function_count);
    for (int i = 0; i < library->function_count; i++)
        reply_function(reply, &library->functions[i]);
    if (!with_code)
        return;
    reply_bulk_string(reply, "library_code");
    reply_bulk(reply, library->text);
}

struct list_options {
    bool with_code;
    const struct bytes *pattern;        /* NULL: all */
};

/* False: an error was replied. */
static bool parse_options(struct call *call, struct list_options *options)
{
    for (int i = 2; i < call->arg_count; i++) {
        if (!options->with_code && arg_is(call, i, "withcode")) {
            options->with_code = true;
        } else if (options->pattern == NULL && arg_is(call, i, "libraryname")) {
            if (++i == call->arg_count) {
                reply_errorf(call, "ERR library name argument was not given");
                return false;
            }
            options->pattern = &call->args[i];
        } else {
            reply_errorf(call, "ERR Unknown argument %.*s", (int)call->args[i].size, call->args[i].data);
            return false;
        }
    }
    return true;
}

/* FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE] */
void function_list_command(struct call *call)
{
    struct list_options options = { .with_code = false };
    struct reply_later later;
    struct library_set *set;
    size_t count = 0;

    if (!parse_options(call, &options))
        return;
    set = registry_libraries(call->engine->scripts);
    later = reply_later_begin(call->reply);
    for (int i = 0; i < set->count; i++) {
        if (options.pattern != NULL && !text_matches(*options.pattern, set->libraries[i]->script.name, TEXT_CASE_IGNORED))
            continue;
        reply_library(call->reply, set->libraries[i], options.with_code);
        count++;
    }
    reply_later_array(call->reply, later, count);
    library_set_release(set);
}

void function_stats_command(struct call *call)
{
    struct engine *engine = call->engine;
    struct registry_stats stats;

    registry_stats(engine->scripts, &stats);
    reply_map(call->reply, 2);
    reply_bulk_string(call->reply, "running_script");
    if (engine->reply_running_script != NULL)
        engine->reply_running_script(engine, call->reply);
    else
        reply_null(call->reply);
    reply_bulk_string(call->reply, "engines");
    reply_map(call->reply, 1);
    reply_bulk_string(call->reply, "LUA");
    reply_map(call->reply, 2);
    reply_bulk_string(call->reply, "libraries_count");
    reply_integer(call->reply, (int64_t)stats.library_count);
    reply_bulk_string(call->reply, "functions_count");
    reply_integer(call->reply, (int64_t)stats.function_count);
}

void function_help_command(struct call *call)
{
    static const char *const lines[] = {
        "FUNCTION <subcommand> [<argument> ...]. Subcommands are:",
        "DELETE <library>",
        "    Deletes a library with all its functions.",
        "DUMP",
        "    Returns all libraries as bytes for FUNCTION RESTORE.",
        "FLUSH [ASYNC|SYNC]",
        "    Deletes all libraries.",
        "KILL",
        "    Ends the function that runs, if it has changed nothing yet.",
        "LIST [LIBRARYNAME <pattern>] [WITHCODE]",
        "    Lists the libraries, those whose names match the pattern, and their functions; with their code if asked.",
        "LOAD [REPLACE] <code>",
        "    Makes a library of the code, in place of one of the same name if REPLACE is given.",
        "RESTORE <dump> [APPEND|FLUSH|REPLACE]",
        "    Makes libraries of a dump. One that exists is an error (APPEND, the default) or is replaced (REPLACE);",
        "    FLUSH deletes all others first.",
        "STATS",
        "    Returns what runs, and the numbers of libraries and functions.",
        "HELP",
        "    Prints this help.",
        NULL,
    };

    reply_help(call, lines);
}
