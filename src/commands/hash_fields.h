/* Hash fields: what HEXPIRE, HGETEX, HGETDEL and the like share: times and lists of fields as arguments, and changes of several
 * fields in the log. */
#ifndef KELVIN_COMMANDS_HASH_FIELDS_H
#define KELVIN_COMMANDS_HASH_FIELDS_H

#include "call/call.h"
#include "call/key.h"

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
