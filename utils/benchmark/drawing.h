/* Drawing: the results of runs as one SVG picture: for each a line of numbers, as the report prints them, and plots of latency percentiles, of
 * throughput over time, and of the hit ratio over time. Light or dark as the reader's browser is; no scripts.
 */
#ifndef KELVIN_BENCHMARK_DRAWING_H
#define KELVIN_BENCHMARK_DRAWING_H

#include "base/buffer.h"
#include "base/status.h"

struct options;
struct run;

/* All zero is an empty drawing. */
struct drawing {
    struct buffer body;
    int panels;
};

void drawing_add(struct drawing *drawing, const struct options *options, const char *name, const struct run *run);
/* Writes the file; `title` is its heading. On failure errno is set. */
enum status drawing_write(const struct drawing *drawing, const char *title, const char *path);
void drawing_release(struct drawing *drawing);

#endif
