/* Key commands: what can be done to a key whatever it holds, and to databases.
 *
 * keys.c asks, touches and deletes; keys_move.c renames, moves and copies; expire.c has times to live; scan.c walks; dump.c
 * dumps and restores; object.c tells how a value is kept; database.c selects, swaps and flushes.
 */
#ifndef KELVIN_COMMANDS_KEYS_H
#define KELVIN_COMMANDS_KEYS_H

#include "call/command.h"
#include "call/key.h"
#include "config/config.h"

/* The last row's name is NULL. */
extern const struct command keys_commands[];

/* How a value is freed, by one of the lazyfree-lazy-* settings. */
enum key_removal keys_removal(const struct call *call, enum config_id lazy);

/* The number of a database. False: the error was replied. */
bool database_argument(struct call *call, int arg, int *db);

/* Private: the handlers of the rows. */
command_run del_command, unlink_command, exists_command, type_command, touch_command;
command_run rename_command, renamenx_command, move_command, copy_command;
command_run expire_command, pexpire_command, expireat_command, pexpireat_command, persist_command;
command_run ttl_command, pttl_command, expiretime_command, pexpiretime_command;
command_run keys_command, scan_command, randomkey_command, dbsize_command;
command_run sort_command, sort_ro_command;
command_run dump_command, restore_command;
command_run object_encoding_command, object_refcount_command, object_idletime_command, object_freq_command, object_help_command;
command_run select_command, swapdb_command, flushdb_command, flushall_command;

#endif
