/* Problems: what is wrong with the server now, in plain words, each with what to do. */
#ifndef KELVIN_METRICS_PROBLEMS_H
#define KELVIN_METRICS_PROBLEMS_H

#include <stdbool.h>

struct document;
struct readings;
struct reason;

/* Appends an array "problems" of objects: level ("error": requests are refused, or data can't be read; "warning"; "note"), what, do, and detail, which may be null.
 * `reason`: why the server is not ready; NULL: it is. `sees_keys`: details, which may have names of keys in them, are there. */
void problems_write(struct document *json, const struct readings *readings, const struct reason *reason, bool sees_keys);

#endif
