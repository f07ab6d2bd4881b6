/* Admin commands: what an operator asks and sets. admin.c has INFO, ROLE, REPLICAOF and SHUTDOWN; the rest stands in
 * admin_config.c, admin_slowlog.c, admin_latency.c, admin_memory.c and admin_debug.c.
 */
#ifndef KELVIN_COMMANDS_ADMIN_H
#define KELVIN_COMMANDS_ADMIN_H

#include "base/message.h"
#include "call/call.h"
#include "call/command.h"

/* The last row's name is NULL. */
extern const struct command admin_commands[];

/* Private: the handlers of the rows. */
command_run info_command, monitor_command, role_command, replicaof_command, shutdown_command;
command_run config_get_command, config_set_command, config_resetstat_command, config_rewrite_command, config_help_command;
command_run slowlog_get_command, slowlog_len_command, slowlog_reset_command, slowlog_help_command;
command_run latency_latest_command, latency_history_command, latency_reset_command, latency_graph_command,
    latency_doctor_command, latency_histogram_command, latency_help_command;
command_run memory_usage_command, memory_stats_command, memory_doctor_command, memory_malloc_stats_command,
    memory_purge_command, memory_help_command;
command_run debug_command;

/* "ERR unknown subcommand or wrong number of arguments for 'x'. Try SLOWLOG HELP." */
void admin_reply_usage(struct call *call, const char *command);
/* The client is on this machine. */
bool admin_is_local(const struct call *call);

/* Private: an errand is a call's work that may block (disk, kernel), done as a job. `run` answers whether it went well; the message
 * becomes the error. Replies OK or the error when done; until then the call waits. */
void admin_errand(struct call *call, bool (*run)(struct engine *engine, struct message *message));

#endif
