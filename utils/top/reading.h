/* Reading: what a server has replied at one moment, as fields by name. Pure: made from the bytes of replies, which may be anything.
 *
 * A field that is missing or is no number is not there: functions return false or NULL, and there is no default.
 */
#ifndef KELVIN_TOP_READING_H
#define KELVIN_TOP_READING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/message.h"

enum { READING_FIELDS_MAX = 20000 };

struct field {
    struct bytes name, value;
};

struct reading {
    char *text;                     /* a copy of INFO's reply that fields refer to */
    struct field *fields;
    size_t count;
    int64_t taken_us;               /* monotonic */
    double took_s;                  /* from the request to the reply */
};

/* What other sizes of memory would bring, by TIER ADVISE. */
struct advice_size {
    bool known;
    double hit_ratio, reads_per_s, mean_us, p99_us;     /* below 0: not known */
};
struct advice {
    struct advice_size present, doubled;
};

/* From the complete reply to INFO. NULL: `message` says what it is instead, an error of the server's among them. */
struct reading *reading_create(struct bytes reply, int64_t taken_us, double took_s, struct message *message);
void reading_destroy(struct reading *reading);      /* NULL is fine */

/* From the complete reply to TIER ADVISE; nothing is known after an error or another reply. */
void advice_read(struct bytes reply, struct advice *advice);

/* Replaces what is not printable ASCII by '?', so that a terminal shows the text as it is and does nothing else. */
void reading_make_printable(char *text, size_t size);

bool reading_text(const struct reading *reading, const char *name, struct bytes *value);
/* The same for the field that is likely to be at this place, as in another reading of the same server. */
bool reading_text_near(const struct reading *reading, size_t place, struct bytes name, struct bytes *value);
bool reading_number(const struct reading *reading, const char *name, double *number);
bool reading_is(const struct reading *reading, const char *name, const char *value);
/* A part of a value like "calls=1,usec=2": the text after `name` and '='. */
bool reading_part(struct bytes value, const char *name, struct bytes *part);
bool reading_part_number(struct bytes value, const char *name, double *number);

/* How much a counter has grown each second since `before`. False if either does not have it, it is another server, or the counter was reset. */
bool reading_rate(const struct reading *before, const struct reading *now, const char *name, double *per_s);
/* Whether both are of the same run of the same server, with time between them. */
bool reading_follows(const struct reading *before, const struct reading *now);

#endif
