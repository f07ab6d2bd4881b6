/* Report: prints the results of runs to stdout, in the selected format. */
#ifndef KELVIN_BENCHMARK_REPORT_H
#define KELVIN_BENCHMARK_REPORT_H

#include <stdbool.h>
#include <stddef.h>

struct options;
struct run;

/* What is reported of latencies besides mean, least and most. */
enum { REPORT_PERCENTILES = 5 };
struct percentile {
    double percent;
    const char *name;
};
extern const struct percentile report_percentiles[REPORT_PERCENTILES];

void report_begin(const struct options *options);
void report_run(const struct options *options, const char *name, const struct run *run, size_t index);
void report_end(const struct options *options);

/* True if the run is complete, without errors and wrong values, and with --verify, without missing values unless allowed. */
bool report_is_clean(const struct options *options, const struct run *run);

#endif
