#include "commands/rows.h"

#include "commands/acl.h"
#include "commands/function.h"
#include "commands/handlers.h"

#define COMMAND COMMAND_ROW
#define CONTAINER CONTAINER_ROW

const struct command string_commands[] = {
#include "commands/string.def"
    { .name = NULL },
};

const struct command bitmap_commands[] = {
#include "commands/bitmap.def"
    { .name = NULL },
};

const struct command hyperloglog_commands[] = {
#include "commands/hyperloglog.def"
    { .name = NULL },
};

const struct command hash_commands[] = {
#include "commands/hash.def"
    { .name = NULL },
};

const struct command list_commands[] = {
#include "commands/list.def"
    { .name = NULL },
};

const struct command set_commands[] = {
#include "commands/set.def"
    { .name = NULL },
};

const struct command zset_commands[] = {
#include "commands/zset.def"
    { .name = NULL },
};

const struct command geo_commands[] = {
#include "commands/geo.def"
    { .name = NULL },
};

const struct command stream_commands[] = {
#include "commands/stream.def"
    { .name = NULL },
};

const struct command keys_commands[] = {
#include "commands/keys.def"
    { .name = NULL },
};

const struct command connection_commands[] = {
#include "commands/connection.def"
    { .name = NULL },
};

const struct command acl_commands[] = {
#include "commands/acl.def"
    { .name = NULL },
};

const struct command client_commands[] = {
#include "commands/client.def"
    { .name = NULL },
};

const struct command command_commands[] = {
#include "commands/command.def"
    { .name = NULL },
};

const struct command transaction_commands[] = {
#include "commands/transaction.def"
    { .name = NULL },
};

const struct command pubsub_commands[] = {
#include "commands/pubsub.def"
    { .name = NULL },
};

const struct command replication_commands[] = {
#include "commands/replication.def"
    { .name = NULL },
};

const struct command cluster_commands[] = {
#include "commands/cluster.def"
    { .name = NULL },
};

const struct command absent_commands[] = {
#include "commands/absent.def"
    { .name = NULL },
};

const struct command misc_commands[] = {
#include "commands/misc.def"
    { .name = NULL },
};

const struct command saving_commands[] = {
#include "commands/saving.def"
    { .name = NULL },
};

const struct command scripting_commands[] = {
#include "commands/scripting.def"
    { .name = NULL },
};

const struct command admin_commands[] = {
#include "commands/admin.def"
    { .name = NULL },
};
