/* Exposition as protobuf: the functions of exposition.h for this format. Private to exposition.c. */
#ifndef KELVIN_METRICS_EXPOSITION_PROTOBUF_H
#define KELVIN_METRICS_EXPOSITION_PROTOBUF_H

#include "metrics/exposition.h"

/* The family is in exposition->message until the next one begins. */
void exposition_protobuf_begin(struct exposition *exposition);
void exposition_protobuf_flush(struct exposition *exposition);
void exposition_protobuf_number(struct exposition *exposition, const struct label *labels, int label_count, double number);
void exposition_protobuf_bucket(struct buffer *out, double limit, uint64_t seen);
/* `buckets`: all of them; `count`: of the last one. */
void exposition_protobuf_histogram(struct exposition *exposition, const struct label *labels, int label_count, const struct exposition_histogram *histogram,
    const struct buffer *buckets, uint64_t count);

#endif
