/* The prototypes of all handlers, from the rows: COMMAND("get", get_command, ...) declares
 *
 *   void get_command(struct call *call);
 *
 * which get_command's file defines. A row whose handler is missing does not link; a handler without a row gives a warning.
 */
#ifndef KELVIN_COMMANDS_HANDLERS_H
#define KELVIN_COMMANDS_HANDLERS_H

#include "call/command.h"

#define COMMAND COMMAND_PROTOTYPE
#define CONTAINER(...)
#include "commands/string.def"
#include "commands/bitmap.def"
#include "commands/hyperloglog.def"
#include "commands/hash.def"
#include "commands/list.def"
#include "commands/set.def"
#include "commands/zset.def"
#include "commands/geo.def"
#include "commands/stream.def"
#include "commands/keys.def"
#include "commands/connection.def"
#include "commands/acl.def"
#include "commands/client.def"
#include "commands/command.def"
#include "commands/transaction.def"
#include "commands/pubsub.def"
#include "commands/replication.def"
#include "commands/cluster.def"
#include "commands/absent.def"
#include "commands/misc.def"
#include "commands/saving.def"
#include "commands/scripting.def"
#include "commands/admin.def"
#undef COMMAND
#undef CONTAINER

#endif
