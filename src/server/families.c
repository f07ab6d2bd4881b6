#include "server/families.h"

#include <stddef.h>

#include "commands/rows.h"
#include "server/tier_commands.h"

const struct command *const *families_of_commands(void)
{
    static const struct command *const families[] = {
        string_commands,
        bitmap_commands,
        hyperloglog_commands,
        hash_commands,
        list_commands,
        set_commands,
        zset_commands,
        geo_commands,
        stream_commands,
        keys_commands,
        connection_commands,
        acl_commands,
        client_commands,
        command_commands,
        transaction_commands,
        pubsub_commands,
        misc_commands,
        saving_commands,
        scripting_commands,
        admin_commands,
        tier_commands,
        NULL,
    };

    return families;
}
