/* Command table: all rows by name. Immutable after start. */
#ifndef KELVIN_CALL_COMMAND_TABLE_H
#define KELVIN_CALL_COMMAND_TABLE_H

#include "base/bytes.h"
#include "base/status.h"
#include "call/command.h"

struct command_table;

/* Copies the rows and links subcommands to their containers. `families` are arrays of rows, each of which ends with a row without
 * a name; the list ends with NULL. */
struct command_table *command_table_create(const struct command *const *families);
void command_table_destroy(struct command_table *table);

/* By the name that clients use, in upper or lower case; NULL if there is none. A subcommand is found in its container: "list" of "client". */
struct command *command_find(const struct command_table *table, struct bytes name);
struct command *command_find_child(const struct command *container, struct bytes name);
/* Finds the command of a call, or its subcommand, whose name is the second argument then. NULL: there is none of these names. */
struct command *command_find_call(const struct command_table *table, const struct bytes *args, int arg_count);
/* "client|list" or "get". */
struct command *command_find_full(const struct command_table *table, struct bytes full_name);

/* Top-level commands, in alphabetical order. */
size_t command_count(const struct command_table *table);
struct command *command_at(const struct command_table *table, size_t index);
/* All rows, subcommands too, by their id: for statistics. */
size_t command_row_count(const struct command_table *table);
struct command *command_row_at(const struct command_table *table, size_t index);

/* By the names of the rows, whatever rename-command says: for ACL. The second one also finds "client|list". */
struct command *command_find_own(const struct command_table *table, struct bytes name);
struct command *command_find_own_full(const struct command_table *table, struct bytes full_name);
/* Returns the command that a log names: a log has the rows' names. One that was written by Redis, or by an older Kelvin, has the names of clients. */
struct command *command_find_logged(const struct command_table *table, struct bytes name);
/* As command_find_call. */
struct command *command_find_logged_call(const struct command_table *table, const struct bytes *args, int arg_count);
/* The row's name, without a subcommand: what the log has in place of the name that the client has sent. */
struct bytes command_own_name(const struct command *command);

/* Renames a command, or removes it (empty name): rename-command. Only at start. Its row keeps the old name, which COMMAND, errors
 * and statistics show. STATUS_NOT_FOUND: no such command; STATUS_INVALID: the new name is used. */
enum status command_rename(struct command_table *table, struct bytes from, struct bytes to);

#endif
