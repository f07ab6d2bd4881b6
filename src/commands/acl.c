/* ACL: what changes users, and what concerns commands. commands/acl_show.c shows users, commands/acl_store.c has the file. */
#include "commands/acl.h"

#include "acl/acl.h"
#include "acl/acl_file.h"
#include "acl/change.h"
#include "base/random.h"
#include "call/command_category.h"
#include "call/command_keys.h"
#include "call/command_table.h"
#include "commands/handlers.h"
#include "engine/access.h"
#include "engine/engine.h"

enum { GENPASS_BITS = 256, GENPASS_BITS_MAX = 4096, BITS_PER_DIGIT = 4 };

bool acl_channels_by_default(const struct call *call)
{
    return config_number(call->engine->config, CONFIG_ACL_PUBSUB_DEFAULT) == CONFIG_PUBSUB_DEFAULT_ALL;
}

void acl_reply_usage(struct call *call)
{
    reply_errorf(call, "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try ACL HELP.", (int)call->args[1].size,
        call->args[1].data);
}

/* ACL SETUSER name [rule ...] */
void acl_setuser_command(struct call *call)
{
    struct buffer error = { 0 };
    struct acl_change *change;

    if (access_is_published(call)) {
        reply_ok(call->reply);
        return;
    }
    if (!acl_name_is_valid(call->args[2])) {
        reply_errorf(call, "ERR Usernames can't contain spaces or null characters");
        return;
    }
    change = acl_change_set_user(call->engine->users.acl, call->args[2], call->args + 3, call->arg_count - 3, acl_channels_by_default(call), &error);
    if (change == NULL)
        reply_errorf(call, "ERR %.*s", (int)error.size, error.data);
    else
        access_publish(call, change);
    buffer_release(&error);
}

/* ACL DELUSER name ...: returns how many there were. */
void acl_deluser_command(struct call *call)
{
    struct acl_change *change;
    size_t count;

    if (access_is_published(call)) {
        reply_integer(call->reply, (int64_t)acl_change_removed(access_change(call)));
        return;
    }
    for (int i = 2; i < call->arg_count; i++) {
        if (bytes_equal(call->args[i], BYTES("default"))) {
            reply_errorf(call, "ERR The 'default' user cannot be removed");
            return;
        }
    }
    change = acl_change_remove(call->engine->users.acl, call->args + 2, call->arg_count - 2, &count);
    access_publish(call, change);
}

void acl_whoami_command(struct call *call)
{
    struct acl_user *user = call->client->user;

    reply_bulk(call->reply, user != NULL ? acl_user_name(user) : BYTES("default"));
}

/* ACL GENPASS [bits]: a hexadecimal digit for every four bits. */
void acl_genpass_command(struct call *call)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char random[GENPASS_BITS_MAX / BITS_PER_DIGIT];
    char text[GENPASS_BITS_MAX / BITS_PER_DIGIT];
    int64_t bits = GENPASS_BITS;
    size_t size;

    if (call->arg_count > 3) {
        acl_reply_usage(call);
        return;
    }
    if (call->arg_count == 3 && !arg_integer(call, 2, &bits))
        return;
    if (bits <= 0 || bits > GENPASS_BITS_MAX) {
        reply_errorf(call, "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to %d",
            GENPASS_BITS_MAX);
        return;
    }
    size = (size_t)(bits + BITS_PER_DIGIT - 1) / BITS_PER_DIGIT;
    random_system(random, size);
    for (size_t i = 0; i < size; i++)
        text[i] = digits[random[i] & 15];
    reply_bulk(call->reply, bytes_of(text, size));
}

/* ---- CAT */

static void reply_categories(struct call *call)
{
    reply_array(call->reply, COMMAND_CATEGORY_COUNT);
    for (int i = 0; i < COMMAND_CATEGORY_COUNT; i++)
        reply_bulk_string(call->reply, command_category_name(i));
}

static void reply_commands(struct call *call, uint32_t category)
{
    const struct command_table *table = call->engine->commands;
    struct reply_later later = reply_later_begin(call->reply);
    size_t count = 0;

    for (size_t i = 0; i < command_row_count(table); i++) {
        const struct command *command = command_row_at(table, i);

        if (!(command_categories(command) & category))
            continue;
        reply_bulk_string(call->reply, command->name);
        count++;
    }
    reply_later_array(call->reply, later, count);
}

/* ACL CAT [category] */
void acl_cat_command(struct call *call)
{
    uint32_t category;

    if (call->arg_count > 3) {
        acl_reply_usage(call);
        return;
    }
    if (call->arg_count == 2) {
        reply_categories(call);
        return;
    }
    category = command_category_of(call->args[2]);
    if (category == 0)
        reply_errorf(call, "ERR Unknown category '%.*s'", (int)call->args[2].size, call->args[2].data);
    else
        reply_commands(call, category);
}

/* ---- DRYRUN */

/* The row of the command that follows the user's name. NULL: the error was replied. */
static const struct command *given_command(struct call *call)
{
    const struct bytes *args = call->args + 3;
    int arg_count = call->arg_count - 3;
    const struct command *command = command_find_call(call->engine->commands, args, arg_count);

    if (command == NULL)
        reply_errorf(call, "ERR Command '%.*s' not found", (int)args[0].size, args[0].data);
    else if (!command_takes(command, arg_count))
        reply_errorf(call, "ERR wrong number of arguments for '%s' command", command->name);
    else
        return command;
    return NULL;
}

static struct acl_request given_request(struct call *call, const struct command *command)
{
    struct acl_request request = { .command = command, .args = call->args + 3, .arg_count = call->arg_count - 3 };
    int count = command_keys(command, request.args, request.arg_count, NULL, 0);
    struct call_key *keys;

    if (count <= 0)
        return request;
    keys = arena_alloc(call->arena, (size_t)count * sizeof(*keys));
    command_keys(command, request.args, request.arg_count, keys, count);
    request.keys = keys;
    request.key_count = count;
    return request;
}

/* ACL DRYRUN user command [argument ...] */
void acl_dryrun_command(struct call *call)
{
    struct acl_user *user = acl_find(call->engine->users.acl, call->args[2]);
    const struct command *command;
    struct acl_request request;
    struct buffer text = { 0 };
    enum acl_verdict verdict;
    int argument;

    if (user == NULL) {
        reply_errorf(call, "ERR User '%.*s' not found", (int)call->args[2].size, call->args[2].data);
        return;
    }
    command = given_command(call);
    if (command != NULL) {
        request = given_request(call, command);
        verdict = acl_check(acl_user_rules(user), &request, &argument);
        if (verdict == ACL_ALLOWED)
            reply_ok(call->reply);
        else
            acl_denial_text(&text, acl_user_name(user), &request, verdict, argument, ACL_DENIAL_FULL);
        if (verdict != ACL_ALLOWED)
            reply_bulk(call->reply, buffer_bytes(&text));
        buffer_release(&text);
    }
    acl_user_release(user);
}

void acl_help_command(struct call *call)
{
    static const char *const lines[] = {
        "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CAT [<category>]",
        "    Lists the categories of commands, or the commands of a category.",
        "DELUSER <username> [<username> ...]",
        "    Removes users and closes their connections.",
        "DRYRUN <username> <command> [<arg> ...]",
        "    Checks whether the user may run the command, without running it.",
        "GENPASS [<bits>]",
        "    Returns a random text of that many bits (256 by default) for a password.",
        "GETUSER <username>",
        "    Returns the rules of a user.",
        "LIST",
        "    Returns all users in the format of the ACL file.",
        "LOAD",
        "    Replaces all users by those of the ACL file.",
        "LOG [<count> | RESET]",
        "    Returns the last calls that were denied, or forgets them.",
        "SAVE",
        "    Writes all users to the ACL file.",
        "SETUSER <username> [<rule> ...]",
        "    Creates a user, or changes its rules.",
        "USERS",
        "    Returns the names of all users.",
        "WHOAMI",
        "    Returns the name of the connection's user.",
        "HELP",
        "    Returns this text.",
        NULL,
    };

    reply_help(call, lines);
}
