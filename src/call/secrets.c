#include "call/secrets.h"

#include <string.h>

static const char *const secret_parameters[] = { "requirepass", "masterauth", "masteruser", "tls-key-file-pass", "tls-client-key-file-pass" };

static bool is_secret_parameter(struct bytes name)
{
    for (size_t i = 0; i < sizeof(secret_parameters) / sizeof(secret_parameters[0]); i++) {
        if (bytes_is(name, secret_parameters[i]))
            return true;
    }
    return false;
}

enum secrecy { NOTHING_SECRET, ALL_SECRET, ALL_OF_SUBCOMMAND, SECRET_BEHIND_AUTH, SECRET_OF_MIGRATE, SECRET_PARAMETERS };

static enum secrecy secrecy_of(const struct command *command)
{
    if (strcmp(command->name, "auth") == 0)
        return ALL_SECRET;
    if (strcmp(command->name, "hello") == 0)
        return SECRET_BEHIND_AUTH;
    if (strcmp(command->name, "acl|setuser") == 0 || strcmp(command->name, "acl|deluser") == 0 || strcmp(command->name, "acl|getuser") == 0)
        return ALL_OF_SUBCOMMAND;
    if (strcmp(command->name, "migrate") == 0)
        return SECRET_OF_MIGRATE;
    return strcmp(command->name, "config|set") == 0 ? SECRET_PARAMETERS : NOTHING_SECRET;
}

/* AUTH password, AUTH2 user password: options up to the keys. */
static bool is_secret_of_migrate(const struct call *call, int arg)
{
    for (int i = 6; i < arg && !arg_is(call, i, "keys"); i++) {
        int count = arg_is(call, i, "auth") ? 1 : arg_is(call, i, "auth2") ? 2 : 0;

        if (arg <= i + count)
            return true;
        i += count;
    }
    return false;
}

static bool is_secret(const struct call *call, enum secrecy secrecy, int arg)
{
    switch (secrecy) {
    case NOTHING_SECRET:
        return false;
    case ALL_SECRET:
        return arg >= 1;
    case ALL_OF_SUBCOMMAND:
        return arg >= 2;
    case SECRET_BEHIND_AUTH:
        return (arg >= 3 && arg_is(call, arg - 1, "auth")) || (arg >= 4 && arg_is(call, arg - 2, "auth"));
    case SECRET_OF_MIGRATE:
        return is_secret_of_migrate(call, arg);
    case SECRET_PARAMETERS:
        return arg >= 3 && arg % 2 == 1 && is_secret_parameter(call->args[arg - 1]);
    }
    return false;
}

const struct bytes *secrets_hide(struct call *call)
{
    enum secrecy secrecy = secrecy_of(call->command);
    struct bytes *shown;

    if (secrecy == NOTHING_SECRET)
        return call->args;
    shown = arena_alloc(call->arena, (size_t)call->arg_count * sizeof(*shown));
    for (int i = 0; i < call->arg_count; i++)
        shown[i] = is_secret(call, secrecy, i) ? BYTES("(redacted)") : call->args[i];
    return shown;
}
