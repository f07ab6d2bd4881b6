/* Info: the sections of INFO as a table of rows. The function in a section's row writes its content; this file selects the
 * sections and joins them.
 */
#ifndef KELVIN_STATS_INFO_H
#define KELVIN_STATS_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"

enum info_presence {
    INFO_BY_DEFAULT,        /* in INFO without arguments */
    INFO_WHEN_ASKED,        /* in INFO all, or by its name */
};

/* `context` is the argument of info_write. */
typedef void info_writer(struct buffer *out, void *context);

struct info_section {
    const char *name;       /* "Server"; its heading. NULL ends the table */
    enum info_presence presence;
    info_writer *write;
};

/* Appends the selected sections in the order of the table, each once, separated by an empty line. `names` are names of sections,
 * or "default", "all", "everything", case-insensitive; no names: default. Unknown names are ignored. */
void info_write(const struct info_section *sections, const struct bytes *names, int count, void *context,
    struct buffer *out);

/* Each appends one field. */
void info_number(struct buffer *out, const char *name, int64_t number);
void info_text(struct buffer *out, const char *name, const char *text);
void info_float(struct buffer *out, const char *name, double number);       /* two decimal digits */
/* Appends two fields: `name` in bytes, and `name`_human as "1.50M". */
void info_size(struct buffer *out, const char *name, uint64_t bytes);

/* Writes "1.50M", in powers of 1024, to `out`, which has 32 bytes. */
void info_human(uint64_t bytes, char *out);

/* a / b, or 0 if b is 0. */
static inline double info_ratio(double a, double b) { return b > 0 ? a / b : 0; }

#endif
