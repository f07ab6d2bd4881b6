/* Values: what a row holds, and how it is read and printed, by its kind. Private to config/config*.c.
 * Numbers and words are done in config_value.c, lists in config_list.c.
 */
#ifndef KELVIN_CONFIG_CONFIG_VALUE_H
#define KELVIN_CONFIG_CONFIG_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/message.h"
#include "config/config_row.h"

struct config_value {
    int64_t number;     /* of kinds that are numbers; a percentage is below 0 */
    char *text;         /* of all others, owned, as CONFIG GET prints it; NULL for numbers */
};

/* What reading needs to know beside the words. */
struct config_reading {
    const char *base;   /* the text that a line adds to; NULL: it starts afresh */
    const char *home;   /* the directory that relative paths start from */
};

/* False: `message` has the reason as Redis words it, and `value` is empty. */
bool config_value_read(const struct config_row *row, const struct bytes *words, int count,
    const struct config_reading *reading, struct config_value *value, struct message *message);
/* The kinds that are lists; called by config_value_read. Their one word, if there is only one, has been split. */
bool config_list_read(const struct config_row *row, const struct bytes *words, int count,
    const struct config_reading *reading, struct config_value *value, struct message *message);

void config_value_release(struct config_value *value);
struct config_value config_value_copy(const struct config_value *value);
bool config_value_equal(const struct config_value *a, const struct config_value *b);

/* Appends what CONFIG GET shows. */
void config_value_print(const struct config_row *row, const struct config_value *value, struct buffer *out);

/* Appends the lines for a file. `initial`, if given, is the default: what need not be said is left out. Without it the
 * lines hold whatever stands before them in the file. */
void config_value_print_lines(const struct config_row *row, const struct config_value *value,
    const struct config_value *initial, struct buffer *out);
void config_list_print_lines(const struct config_row *row, const struct config_value *value,
    const struct config_value *initial, struct buffer *out);
/* 3145728 as 3mb, 1000 as 1000. */
void config_memory_print(int64_t size, struct buffer *out);

/* The nine numbers of a text that config_list_read made. */
void config_output_limits_read(const char *text, int64_t limits[3][3]);

/* Writes the message; always false. */
bool config_refuse(struct message *message, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The path itself if it is absolute, else below `home`. Freed with mem_free. */
char *config_path(const char *home, struct bytes path);

#endif
