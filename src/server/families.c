#include "server/families.h"

#include <stddef.h>

#include "base/check.h"
#include "base/message.h"
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
        replication_commands,
        cluster_commands,
        absent_commands,
        misc_commands,
        saving_commands,
        scripting_commands,
        admin_commands,
        tier_commands,
        NULL,
    };

    return families;
}

struct renaming {
    struct command_table *table;
    struct message *message;
    bool failed;
};

/* The first line that fails is the one that is reported. */
static void rename_one(void *context, const struct bytes *words, int count)
{
    struct renaming *renaming = context;
    enum status status;

    CHECK(count == 2);
    if (renaming->failed)
        return;
    status = command_rename(renaming->table, words[0], words[1]);
    renaming->failed = status != STATUS_OK;
    if (renaming->failed)
        message_set(renaming->message, "'rename-command %.*s %.*s': %s", (int)(words[0].size < 60 ? words[0].size : 60), words[0].data,
            (int)(words[1].size < 60 ? words[1].size : 60), words[1].data,
            status == STATUS_NOT_FOUND ? "No such command in rename-command" : "Target command name already exists");
}

bool families_rename(struct command_table *table, struct config *config, struct message *message)
{
    struct renaming renaming = { .table = table, .message = message };

    config_lines(config, CONFIG_RENAME_COMMAND, rename_one, &renaming);
    return !renaming.failed;
}
