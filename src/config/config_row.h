/* The table of configuration rows. Private to config/config*.c and its test; constant, so any thread may read it. */
#ifndef KELVIN_CONFIG_CONFIG_ROW_H
#define KELVIN_CONFIG_CONFIG_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "config/config.h"

/* The syntax of a value: one word, unless noted otherwise. A "list" is several words in a file, and one string with single
 * spaces between its parts in CONFIG SET. */
enum config_kind {
    CONFIG_BOOL_KIND,               /* yes, no */
    CONFIG_INTEGER_KIND,            /* low .. high */
    CONFIG_MEMORY_KIND,             /* low .. high, accepts units */
    CONFIG_PERCENT_MEMORY_KIND,     /* the same, or "5%" of maxmemory, stored as -5 */
    CONFIG_OCTAL_KIND,              /* a file's permissions */
    CONFIG_ENUM_KIND,               /* one of the words */
    CONFIG_FLAGS_KIND,              /* list of the words; the first word means none of the others */
    CONFIG_EVENTS_KIND,             /* letters of keyspace events */
    CONFIG_STRING_KIND,             /* anything without a NUL */
    CONFIG_FILE_NAME_KIND,          /* a name without a slash */
    CONFIG_DIR_KIND,                /* a directory that exists; stored as an absolute path */
    CONFIG_TITLE_KIND,              /* a template with {variables} */
    CONFIG_HOST_NAME_KIND,
    CONFIG_NODE_NAME_KIND,
    CONFIG_BIND_KIND,               /* list of addresses */
    CONFIG_SAVE_KIND,               /* list of pairs: seconds, changes; lines accumulate */
    CONFIG_OUTPUT_LIMITS_KIND,      /* list of class, hard, soft, seconds; other classes keep their limits */
    CONFIG_OOM_VALUES_KIND,         /* list of three numbers */
    CONFIG_PERCENTILES_KIND,        /* list of 0 .. 100 */
    CONFIG_REPLICAOF_KIND,          /* host and port, or "no one" */
    CONFIG_LINES_KIND,              /* low .. high words; lines accumulate; only in files */
    CONFIG_INCLUDE_KIND,            /* handled by the loader; has no value */
    CONFIG_OBSOLETE_KIND,           /* accepted and ignored; only in files */
};

enum config_flag {
    CONFIG_FLAG_FIXED = 0,
    CONFIG_FLAG_LIVE = 1,
    CONFIG_FLAG_PROTECTED = 2,
    CONFIG_FLAG_HIDDEN = 4,
    CONFIG_FLAG_UNUSED = 8,
    CONFIG_FLAG_POWER_OF_TWO = 16,
    CONFIG_FLAG_ABSENT = 32,
    CONFIG_FLAG_NAMES_FILE = 64,
};

struct config_row {
    enum config_id id;
    const char *name, *alias;       /* alias: NULL if there is none */
    enum config_kind kind;
    unsigned flags;
    const char *initial;            /* the default */
    int64_t low, high;
    const char *words;
};

const struct config_row *config_row(enum config_id id);

/* Finds a row by name or alias, case-insensitively; NULL if there is none. `name_given` is set to the spelling in the table. */
const struct config_row *config_row_find(struct bytes name, const char **name_given);
/* The name of a directive that is written almost like this one; NULL: none is. */
const char *config_row_similar(struct bytes name);

/* True if CONFIG GET and SET have it; other rows are used in files only. */
bool config_row_is_parameter(const struct config_row *row);

/* Returns the index of the word in row->words, or -1 if it is not there. */
int64_t config_row_word(const struct config_row *row, struct bytes word);
/* The word at that index. */
struct bytes config_row_word_at(const struct config_row *row, int64_t place);

#endif
