/* Client commands: CLIENT and its subcommands. client.c has the small ones and the rows, client_line.c writes the line of a client,
 * client_all.c has those that look at all clients, whichever worker they belong to: LIST and KILL.
 */
#ifndef KELVIN_COMMANDS_CLIENT_H
#define KELVIN_COMMANDS_CLIENT_H

#include "base/buffer.h"
#include "call/call.h"
#include "call/command.h"

/* The last row's name is NULL. */
extern const struct command client_commands[];

/* Names and library names: printable ASCII, no spaces; may be empty. */
bool client_name_is_valid(struct bytes name);
#define CLIENT_NAME_ERROR "ERR Client names cannot contain spaces, newlines or special characters."

/* Puts a copy in place of what is there; empty: NULL. */
void client_set_text(char **field, struct bytes text);

/* The client's line in CLIENT LIST, with the newline. `asker` is the client that wants to know. On the client's own worker. */
void client_line(struct buffer *out, const struct client *client, uint64_t asker, int64_t now_ms);

/* Private: the handlers of the rows. */
command_run client_id_command, client_getname_command, client_setname_command, client_setinfo_command, client_info_command,
    client_noevict_command, client_notouch_command, client_reply_command, client_pause_command, client_unpause_command,
    client_unblock_command, client_getredir_command, client_trackinginfo_command, client_tracking_command, client_caching_command,
    client_help_command;
command_run client_list_command, client_kill_command;

#endif
