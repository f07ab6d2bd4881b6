/* Overview: what the page `/` shows, as JSON: /status.json. docs/monitoring.md describes its members. On kelvin-page. */
#ifndef KELVIN_METRICS_OVERVIEW_H
#define KELVIN_METRICS_OVERVIEW_H

#include <stdbool.h>

#include "metrics/underway.h"

struct buffer;
struct engine;
struct hour;

struct overview {
    struct engine *engine;
    struct hour *hour;
    struct underway underway;
};

/* `sees_keys`: names of keys may be in it. */
void overview_write(struct overview *overview, bool sees_keys, struct buffer *out);

#endif
