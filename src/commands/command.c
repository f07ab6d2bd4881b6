/* COMMAND: lists of commands, and the keys of a given one. */
#include "base/text.h"
#include "call/call.h"
#include "call/command_category.h"
#include "call/command_keys.h"
#include "commands/command_docs.h"
#include "commands/command_info.h"
#include "commands/handlers.h"
#include "engine/engine.h"

static const struct command_table *table_of(const struct call *call)
{
    return call->engine->commands;
}

void command_command(struct call *call)
{
    size_t count = command_count(table_of(call));

    reply_array(call->reply, count);
    for (size_t i = 0; i < count; i++)
        command_info_reply(call->reply, command_at(table_of(call), i));
}

void command_count_command(struct call *call)
{
    reply_integer(call->reply, (int64_t)command_count(table_of(call)));
}

void command_info_command(struct call *call)
{
    if (call->arg_count == 2) {
        command_command(call);
        return;
    }
    reply_array(call->reply, (size_t)call->arg_count - 2);
    for (int i = 2; i < call->arg_count; i++) {
        const struct command *command = command_find_full(table_of(call), call->args[i]);

        if (command == NULL)
            reply_null(call->reply);
        else
            command_info_reply(call->reply, command);
    }
}

static void reply_docs_pair(struct call *call, const struct command *command)
{
    reply_bulk_string(call->reply, command->name);
    command_docs_reply(call->reply, call->arena, command);
}

/* Unknown names are omitted. */
void command_docs_command(struct call *call)
{
    size_t count = command_count(table_of(call)), known = 0;
    struct reply_later later;

    if (call->arg_count == 2) {
        reply_map(call->reply, count);
        for (size_t i = 0; i < count; i++)
            reply_docs_pair(call, command_at(table_of(call), i));
        return;
    }
    later = reply_later_begin(call->reply);
    for (int i = 2; i < call->arg_count; i++) {
        const struct command *command = command_find_full(table_of(call), call->args[i]);

        if (command == NULL)
            continue;
        reply_docs_pair(call, command);
        known++;
    }
    reply_later_map(call->reply, later, known);
}

/* The filter of COMMAND LIST. */
struct list_filter {
    bool nothing;               /* nothing matches: modules, and categories that do not exist */
    uint32_t categories;        /* 0: any */
    const struct bytes *pattern;
};

static bool is_listed(const struct list_filter *filter, const struct command *command)
{
    if (filter->nothing || (filter->categories != 0 && !(command_categories(command) & filter->categories)))
        return false;
    return filter->pattern == NULL || text_matches(*filter->pattern, bytes_of_string(command->name), TEXT_CASE_IGNORED);
}

static size_t reply_listed(struct call *call, const struct list_filter *filter, const struct command *command)
{
    size_t count = 0;

    if (is_listed(filter, command)) {
        reply_bulk_string(call->reply, command->name);
        count++;
    }
    for (struct command **child = command->children; child != NULL && *child != NULL; child++)
        count += reply_listed(call, filter, *child);
    return count;
}

static bool parse_list_filter(struct call *call, struct list_filter *filter)
{
    if (call->arg_count == 2)
        return true;
    if (call->arg_count == 5 && arg_is(call, 2, "filterby")) {
        if (arg_is(call, 3, "aclcat")) {
            filter->categories = command_category_of(call->args[4]);
            filter->nothing = filter->categories == 0;
            return true;
        }
        if (arg_is(call, 3, "pattern")) {
            filter->pattern = &call->args[4];
            return true;
        }
        filter->nothing = true;
        if (arg_is(call, 3, "module"))
            return true;
    }
    reply_error(call, ERR_SYNTAX);
    return false;
}

void command_list_command(struct call *call)
{
    struct list_filter filter = { 0 };
    struct reply_later later;
    size_t count = 0;

    if (!parse_list_filter(call, &filter))
        return;
    later = reply_later_begin(call->reply);
    for (size_t i = 0; i < command_count(table_of(call)); i++)
        count += reply_listed(call, &filter, command_at(table_of(call), i));
    reply_later_array(call->reply, later, count);
}

/* False: none, or only what looks like keys (the channels of SSUBSCRIBE). */
static bool has_keys(const struct command *command)
{
    for (const struct key_spec *spec = command->keys; spec != NULL && spec->flags != 0; spec++) {
        if (!(spec->flags & KEY_NOT_KEY))
            return true;
    }
    return false;
}

/* The command named by args[2]; NULL: an error was replied. */
static const struct command *given_command(struct call *call, const struct bytes *args, int arg_count)
{
    const struct command *command = command_find_call(table_of(call), args, arg_count);

    if (command == NULL)
        reply_errorf(call, "ERR Invalid command specified");
    else if (!has_keys(command))
        reply_errorf(call, "ERR The command has no key arguments");
    else if (!command_takes(command, arg_count))
        reply_errorf(call, "ERR Invalid number of arguments specified for command");
    else
        return command;
    return NULL;
}

enum keys_form { KEYS_ALONE, KEYS_WITH_FLAGS };

static void reply_keys(struct call *call, enum keys_form form)
{
    const struct bytes *args = call->args + 2;
    int arg_count = call->arg_count - 2, count;
    const struct command *command = given_command(call, args, arg_count);
    struct call_key *keys;

    if (command == NULL)
        return;
    count = command_keys(command, args, arg_count, NULL, 0);
    if (count <= 0 && !(command->flags & COMMAND_NO_MANDATORY_KEYS)) {
        reply_errorf(call, "ERR Invalid arguments specified for command");
        return;
    }
    if (count < 0)
        count = 0;
    keys = arena_alloc(call->arena, ((size_t)count + 1) * sizeof(*keys));
    command_keys(command, args, arg_count, keys, count);
    reply_array(call->reply, (size_t)count);
    for (int i = 0; i < count; i++) {
        if (form == KEYS_WITH_FLAGS)
            reply_array(call->reply, 2);
        reply_bulk(call->reply, args[keys[i].arg]);
        if (form == KEYS_WITH_FLAGS)
            command_key_flags_reply(call->reply, keys[i].flags & ~(uint32_t)(KEY_INCOMPLETE | KEY_VARIABLE_FLAGS));
    }
}

void command_getkeys_command(struct call *call)
{
    reply_keys(call, KEYS_ALONE);
}

void command_getkeysandflags_command(struct call *call)
{
    reply_keys(call, KEYS_WITH_FLAGS);
}

void command_help_command(struct call *call)
{
    static const char *const lines[] = {
        "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "(no subcommand)",
        "    Returns a description of all commands.",
        "COUNT",
        "    Returns the number of commands.",
        "DOCS [<command-name> ...]",
        "    Returns the documentation of the commands, or of all commands.",
        "GETKEYS <full-command>",
        "    Returns which of its arguments are keys.",
        "GETKEYSANDFLAGS <full-command>",
        "    Returns which of its arguments are keys, and how they are used.",
        "INFO [<command-name> ...]",
        "    Returns arity, flags, categories and keys of the commands, or of all commands.",
        "LIST [FILTERBY (MODULE <name>|ACLCAT <category>|PATTERN <pattern>)]",
        "    Returns the names of commands.",
        "HELP",
        "    Returns this text.",
        NULL,
    };

    reply_help(call, lines);
}
