/* Metric: what a family of metrics is, whatever the format. Pure. */
#ifndef KELVIN_METRICS_METRIC_H
#define KELVIN_METRICS_METRIC_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/bytes.h"

enum metric_kind {
    METRIC_COUNTER,         /* only grows; samples have the suffix _total */
    METRIC_GAUGE,
    METRIC_INFO,            /* its labels are the value; samples have the suffix _info */
    METRIC_HISTOGRAM,
};

/* A family. The name ends with the unit, if there is one: "kelvin_memory_used_bytes". */
struct metric {
    const char *name;
    enum metric_kind kind;
    const char *unit;       /* "seconds", "bytes", "ratio"; NULL: a number of things */
    const char *help;       /* a sentence */
};

struct label {
    const char *name;
    struct bytes value;     /* any bytes: what is not UTF-8 becomes U+FFFD */
};

/* "_total" of a counter and so on; of a histogram "". */
const char *metric_suffix(enum metric_kind kind);

/* The size of the UTF-8 character with which the text, which is not empty, begins. 0: its first bytes are not valid UTF-8, surrogates and overlong forms included. */
size_t metric_utf8_size(struct bytes text);
/* Takes the next character of the text; U+FFFD for a byte that is not UTF-8. False: the text is at its end. */
bool metric_utf8_next(struct bytes *text, struct bytes *character);
/* Appends a label's value or another text; bytes that are no UTF-8 become U+FFFD. */
void metric_append_utf8(struct buffer *out, struct bytes text);

#endif
