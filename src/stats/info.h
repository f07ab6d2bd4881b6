/* Info: the sections of INFO as a table of rows. What a section says is written by a function that its row names; this room
 * knows how they are chosen and put together.
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

/* `context` is what info_write was given. */
typedef void info_writer(struct buffer *out, void *context);

struct info_section {
    const char *name;       /* "Server"; its heading. NULL ends the table */
    enum info_presence presence;
    info_writer *write;
};

/* Appends the chosen sections in the order of the table, each once, an empty line between them. `names` in any case: of sections,
 * or "default", "all", "everything"; no names: default. Names nobody has are passed over. */
void info_write(const struct info_section *sections, const struct bytes *names, int count, void *context,
    struct buffer *out);

/* One field each. */
void info_number(struct buffer *out, const char *name, int64_t number);
void info_text(struct buffer *out, const char *name, const char *text);
void info_float(struct buffer *out, const char *name, double number);       /* two digits behind the point */
/* Two fields: `name` in bytes, and `name`_human as "1.50M". */
void info_size(struct buffer *out, const char *name, uint64_t bytes);

/* "1.50M", powers of 1024. `out` has 32 bytes. */
void info_human(uint64_t bytes, char *out);

/* a / b, or 0 if there is nothing to divide by. */
static inline double info_ratio(double a, double b) { return b > 0 ? a / b : 0; }

#endif
