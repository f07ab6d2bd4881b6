/* Exposition: metrics for Prometheus: OpenMetrics 1.0, the text format 0.0.4 for programs that do not accept the former, or protobuf, which has native histograms.
 *
 *     exposition_begin(&out, &(struct metric){ "kelvin_keys", METRIC_GAUGE, NULL, "Keys." });
 *     exposition_integer(&out, labels, 2, 12);             kelvin_keys{db="0",tier="hot"} 12
 *     ...
 *     exposition_end(&out);                                # EOF
 *
 * All zero but for `out` and `format` is a new one. Pure: no clocks, no locks.
 */
#ifndef KELVIN_METRICS_EXPOSITION_H
#define KELVIN_METRICS_EXPOSITION_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "metrics/metric.h"

enum exposition_format { EXPOSITION_OPENMETRICS, EXPOSITION_TEXT, EXPOSITION_PROTOBUF };

struct exposition {
    struct buffer *out;
    enum exposition_format format;
    struct metric family;           /* begun last */
    struct buffer message;          /* protobuf: that family. exposition_end frees it */
};

/* The format that a client prefers by its header Accept; OpenMetrics if it says nothing. Browsers, which ask for text/html, get 0.0.4. */
enum exposition_format exposition_choose(const char *accept);
const char *exposition_type(enum exposition_format format);         /* Content-Type */

void exposition_begin(struct exposition *exposition, const struct metric *family);
/* A sample of the family that was begun last; of an info the number is 1. */
void exposition_integer(struct exposition *exposition, const struct label *labels, int label_count, uint64_t number);
void exposition_number(struct exposition *exposition, const struct label *labels, int label_count, double number);

/* Counts in the buckets of base/histogram.h. The powers of two from 2^first to 2^last become the limits of buckets; all above is in +Inf. */
struct exposition_histogram {
    const uint64_t *counts;
    size_t bucket_count;
    unsigned step_bits;
    double per_unit;                /* how many of what was counted are one of the family's unit: 1e9 for nanoseconds and seconds */
    unsigned first, last;
    double sum;                     /* of all values, in the family's unit */
};
void exposition_histogram(struct exposition *exposition, const struct label *labels, int label_count, const struct exposition_histogram *histogram);

/* The last call: completes the output, and frees what the exposition has. */
void exposition_end(struct exposition *exposition);

#endif
