/* Hash commands: HSET and its kin. hash.c changes, hash_read.c asks, hash_random.c draws, hash_scan.c walks; hash_expire.c and
 * hash_access.c know the times of fields. */
#ifndef KELVIN_COMMANDS_HASH_H
#define KELVIN_COMMANDS_HASH_H

#include "call/command.h"

/* The last row's name is NULL. */
extern const struct command hash_commands[];

/* Private: the handlers of the rows. */
command_run hset_command, hmset_command, hsetnx_command, hdel_command, hincrby_command, hincrbyfloat_command;
command_run hget_command, hmget_command, hgetall_command, hkeys_command, hvals_command, hlen_command, hexists_command,
    hstrlen_command;
command_run hrandfield_command, hscan_command;
command_run hexpire_command, hpexpire_command, hexpireat_command, hpexpireat_command, httl_command, hpttl_command,
    hexpiretime_command, hpexpiretime_command, hpersist_command;
command_run hgetex_command, hsetex_command, hgetdel_command;

/* What hash_expire.c and hash_access.c share. */
enum hash_time_form { HASH_SECONDS = 1, HASH_AT = 2 };      /* else milliseconds, from now on */
/* Argument `arg` as a time in milliseconds since 1970, in a form. False: the error was replied. */
bool hash_time_argument(struct call *call, int arg, uint32_t form, int64_t *when_ms);
/* Argument `arg` is FIELDS, with a number and as many fields to the end of the words behind it. False: the error was replied,
 * `bad_count` if the number is none. */
struct hash_fields {
    const struct bytes *list;
    int count;
};
bool hash_fields_argument(struct call *call, int arg, const char *bad_count, struct hash_fields *fields);
/* The log's words for a change of several fields: begun with the command and what stands in front of FIELDS, ended by the fields. */
struct hash_log {
    struct bytes *words;
    int head_count, count;
};
void hash_log_begin(struct call *call, struct hash_log *log, const struct bytes *head, int head_count, int field_words_max);
void hash_log_add(struct hash_log *log, struct bytes word);
/* Nothing, if no field was added. `words_each`: 1 for fields, 2 with values. `says_fields`: the command wants FIELDS and a number. */
void hash_log_end(struct call *call, struct hash_log *log, int words_each, bool says_fields);
/* A time that has come already: nobody sees the field any more. Never while replaying. */
bool hash_is_past(const struct call *call, int64_t when_ms);

#endif
