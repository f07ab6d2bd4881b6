/* Latency graph: the samples of an event as a picture of characters, as LATENCY GRAPH replies it. */
#ifndef KELVIN_COMMANDS_LATENCY_GRAPH_H
#define KELVIN_COMMANDS_LATENCY_GRAPH_H

#include "base/buffer.h"
#include "stats/latency.h"

void latency_graph_draw(struct buffer *out, const struct latency_event *event, int64_t now_s);

#endif
