/* Hash fields: what HEXPIRE, HGETEX, HGETDEL and the like share: times and lists of fields as arguments, and changes of several
 * fields in the log. */
#ifndef KELVIN_COMMANDS_HASH_FIELDS_H
#define KELVIN_COMMANDS_HASH_FIELDS_H

#include "call/call.h"
#include "call/key.h"

enum hash_time_form { HASH_SECONDS = 1, HASH_AT = 2 };      /* neither: milliseconds from now */
/* Argument `arg` as a time in milliseconds since 1970, in a form. False: the error was replied. */
bool hash_time_argument(struct call *call, int arg, uint32_t form, int64_t *when_ms);
/* Argument `arg` is FIELDS; a number follows, and that many fields to the end of the arguments. False: the error was replied,
 * `bad_count` if the number is invalid. */
struct hash_fields {
    const struct bytes *list;
    int count;
};
bool hash_fields_argument(struct call *call, int arg, const char *bad_count, struct hash_fields *fields);
/* The arguments of the logged command for a change of several fields: begun with those before FIELDS, then the fields. */
struct hash_log {
    struct bytes *words;
    int head_count, count;
};
void hash_log_begin(struct call *call, struct hash_log *log, const struct bytes *head, int head_count, int field_words_max);
void hash_log_add(struct hash_log *log, struct bytes word);
/* Logs the command, or nothing if no field was added. `words_each`: 1 for fields, 2 with values. `says_fields`: the command has
 * FIELDS and a number. */
void hash_log_end(struct call *call, struct hash_log *log, int words_each, bool says_fields);
/* Whether a time has passed already: then the field expires at once. Never while replaying. */
bool hash_is_past(const struct call *call, int64_t when_ms);

#endif
