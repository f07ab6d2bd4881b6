#include "server/families.h"

#include <stddef.h>

#include "commands/hash.h"
#include "commands/keys.h"
#include "commands/string.h"

const struct command *const *families_of_commands(void)
{
    static const struct command *const families[] = {
        string_commands,
        hash_commands,
        keys_commands,
        NULL,
    };

    return families;
}
