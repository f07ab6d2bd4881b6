/* DEBUG's subcommands that have files of their own. Each is run with its number of arguments checked (debug.c). */
#ifndef KELVIN_COMMANDS_DEBUG_H
#define KELVIN_COMMANDS_DEBUG_H

#include "call/call.h"

/* debug_value.c */
command_run debug_object;               /* OBJECT key */
command_run debug_listpack;             /* LISTPACK key: to the server's log, as it may be long */
command_run debug_sdslen;               /* SDSLEN key */
command_run debug_digest;               /* DIGEST: of all keys, cold ones included */
command_run debug_digest_value;         /* DIGEST-VALUE [key ...] */

/* debug_data.c */
command_run debug_reload;               /* RELOAD [NOSAVE] [NOFLUSH] [MERGE] */
command_run debug_loadaof;              /* LOADAOF */
command_run debug_populate;             /* POPULATE count [prefix] [size] */

/* debug_cluster.c */
command_run debug_clusterlink;          /* CLUSTERLINK KILL to|from|all id */
command_run debug_drop_messages;        /* DROP-CLUSTER-PACKET-FILTER type */

/* debug_protocol.c */
command_run debug_protocol;             /* PROTOCOL type */

#endif
