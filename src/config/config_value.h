/* Values: the value of a row, and how it is parsed and printed, by its kind. Private to config/config*.c.
 * Numbers and words are handled in config_value.c, lists in config_list.c.
 */
#ifndef KELVIN_CONFIG_CONFIG_VALUE_H
#define KELVIN_CONFIG_CONFIG_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/message.h"
#include "config/config_row.h"

struct config_value {
    int64_t number;     /* for kinds that are numbers; a percentage is negative */
    char *text;         /* for all other kinds, owned, as CONFIG GET prints it; NULL for numbers */
};

/* The state of parsing a value, apart from its words. */
struct config_reading {
    const char *base;   /* the text that a line adds to; NULL: none, it replaces the value */
    const char *home;   /* the directory that relative paths start from */
};

/* False: `message` has the reason, in the text of Redis, and `value` is empty. */
bool config_value_read(const struct config_row *row, const struct bytes *words, int count,
    const struct config_reading *reading, struct config_value *value, struct message *message);
/* For the kinds that are lists; called by config_value_read. If there was only one word, it has been split already. */
bool config_list_read(const struct config_row *row, const struct bytes *words, int count,
    const struct config_reading *reading, struct config_value *value, struct message *message);

void config_value_release(struct config_value *value);
struct config_value config_value_copy(const struct config_value *value);
bool config_value_equal(const struct config_value *a, const struct config_value *b);

/* Appends the value as CONFIG GET shows it. */
void config_value_print(const struct config_row *row, const struct config_value *value, struct buffer *out);

/* Appends the lines for a file. If `initial`, the default, is not NULL, lines that it makes redundant are left out. If it is
 * NULL, the lines set the value regardless of the lines before them in the file. */
void config_value_print_lines(const struct config_row *row, const struct config_value *value,
    const struct config_value *initial, struct buffer *out);
void config_list_print_lines(const struct config_row *row, const struct config_value *value,
    const struct config_value *initial, struct buffer *out);
/* Prints 3145728 as 3mb, 1000 as 1000. */
void config_memory_print(int64_t size, struct buffer *out);

/* Parses the nine numbers from a text that config_list_read returned. */
void config_output_limits_read(const char *text, int64_t limits[3][3]);

/* Sets the message and returns false. */
bool config_refuse(struct message *message, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the path itself if it is absolute, otherwise the path below `home`. Freed with mem_free. */
char *config_path(const char *home, struct bytes path);

#endif
