/* Hash fields: what HEXPIRE, HGETEX, HGETDEL and related commands share: times and lists of fields as arguments, and changes of
 * several fields in the log. */
#ifndef KELVIN_COMMANDS_HASH_FIELDS_H
#define KELVIN_COMMANDS_HASH_FIELDS_H

#include "call/call.h"
#include "call/key.h"
#include "value/hash.h"

enum hash_time_form { HASH_TIME_SECONDS = 1, HASH_TIME_ABSOLUTE = 2 };      /* neither: milliseconds from now */

/* Argument `arg` as a time in milliseconds since 1970, in a form. False: the error was replied. */
bool hash_time_argument(struct call *call, int arg, uint32_t form, int64_t *when_ms);
/* Whether a time has passed already: then the field expires at once. Never while replaying. */
bool hash_time_is_past(const struct call *call, int64_t when_ms);

struct hash_fields {
    const struct bytes *list;
    int count;
};

/* Argument `arg` is FIELDS; a number follows, and that many fields to the end of the arguments. False: the error was replied,
 * `bad_count` if the number is invalid. */
bool hash_fields_argument(struct call *call, int arg, const char *bad_count, struct hash_fields *fields);

/* Whether what a change of these fields needs is there, every step-th of `count`: their times go (HASH_NO_TIME), or are set to `when_ms`. False: the call asks for it (key_ask). */
static inline bool hash_fields_ready(const struct key *key, const struct bytes *fields, int count, int step, int64_t when_ms)
{
    if (!key->present || hash_has_change(&key->value, fields, count, step, when_ms))
        return true;
    key_ask(key);
    return false;
}

enum hash_log_form {
    HASH_LOG_PLAIN,             /* HDEL key field ... */
    HASH_LOG_FIELDS,            /* HPEXPIREAT key time FIELDS 2 field field */
    HASH_LOG_PAIRS,             /* HSETEX key FIELDS 2 field value field value */
};

/* The command that is logged for a change of several fields: begun with the words before FIELDS, then the fields that changed. */
struct hash_log {
    struct call *call;
    enum hash_log_form form;
    struct bytes *words;        /* in the call's arena */
    int field_first;              /* index of the first field */
    int count;
};

void hash_log_begin(struct hash_log *log, struct call *call, enum hash_log_form form, const struct bytes *head, int head_count,
    int field_words_max);
void hash_log_add(struct hash_log *log, struct bytes word);
/* Logs the command, or nothing if no field was added. */
void hash_log_end(struct hash_log *log);
/* Stores the change, too, which counts once for each field (not for PAIRS). The key is removed with its last field. */
void hash_log_store(struct hash_log *log, struct key *key, enum event event);

#endif
