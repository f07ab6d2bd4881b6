/* Exposition as protobuf: messages io.prometheus.client.MetricFamily, each after its length. The one format that has native histograms: buckets with limits at
 * powers of 2^(2^-schema), of which only those with counts are sent. Field numbers are those of that message and of the messages in it.
 */
#include "metrics/exposition_protobuf.h"

#include <math.h>

#include "base/histogram.h"
#include "base/varint.h"
#include "metrics/protobuf.h"

enum family_field { FAMILY_NAME = 1, FAMILY_HELP = 2, FAMILY_TYPE = 3, FAMILY_METRIC = 4, FAMILY_UNIT = 5 };
enum metric_field { METRIC_LABEL = 1, METRIC_IS_GAUGE = 2, METRIC_IS_COUNTER = 3, METRIC_IS_HISTOGRAM = 7 };
enum label_field { LABEL_NAME = 1, LABEL_VALUE = 2 };
enum number_field { NUMBER_VALUE = 1 };             /* of a gauge, of a counter */
enum histogram_field {
    HISTOGRAM_COUNT = 1, HISTOGRAM_SUM = 2, HISTOGRAM_BUCKET = 3, HISTOGRAM_SCHEMA = 5, HISTOGRAM_ZERO_LIMIT = 6, HISTOGRAM_ZERO_COUNT = 7,
    HISTOGRAM_SPAN = 12, HISTOGRAM_DELTA = 13,
};
enum bucket_field { BUCKET_COUNT = 1, BUCKET_LIMIT = 2 };
enum span_field { SPAN_OFFSET = 1, SPAN_LENGTH = 2 };
enum family_type { TYPE_COUNTER = 0, TYPE_GAUGE = 1, TYPE_HISTOGRAM = 4 };

void exposition_protobuf_begin(struct exposition *exposition)
{
    static const enum family_type types[] = {
        [METRIC_COUNTER] = TYPE_COUNTER, [METRIC_GAUGE] = TYPE_GAUGE, [METRIC_INFO] = TYPE_GAUGE, [METRIC_HISTOGRAM] = TYPE_HISTOGRAM,
    };
    const struct metric *family = &exposition->family;
    struct buffer name = { 0 };

    buffer_append_string(&name, family->name);
    buffer_append_string(&name, metric_suffix(family->kind));
    protobuf_bytes(&exposition->message, FAMILY_NAME, buffer_bytes(&name));
    protobuf_bytes(&exposition->message, FAMILY_HELP, bytes_of_string(family->help));
    protobuf_unsigned(&exposition->message, FAMILY_TYPE, types[family->kind]);
    if (family->unit != NULL)
        protobuf_bytes(&exposition->message, FAMILY_UNIT, bytes_of_string(family->unit));
    buffer_release(&name);
}

void exposition_protobuf_flush(struct exposition *exposition)
{
    if (exposition->message.size > 0) {
        varint_append(exposition->out, exposition->message.size);
        buffer_append_bytes(exposition->out, buffer_bytes(&exposition->message));
    }
    exposition->message.size = 0;
}

/* Strings have to be UTF-8. */
static void append_labels(struct buffer *metric, const struct label *labels, int label_count)
{
    for (int i = 0; i < label_count; i++) {
        struct buffer label = { 0 }, value = { 0 };

        metric_append_utf8(&value, labels[i].value);
        protobuf_bytes(&label, LABEL_NAME, bytes_of_string(labels[i].name));
        protobuf_bytes(&label, LABEL_VALUE, buffer_bytes(&value));
        protobuf_bytes(metric, METRIC_LABEL, buffer_bytes(&label));
        buffer_release(&label);
        buffer_release(&value);
    }
}

static void append_metric(struct exposition *exposition, const struct label *labels, int label_count, enum metric_field field, const struct buffer *value)
{
    struct buffer metric = { 0 };

    append_labels(&metric, labels, label_count);
    protobuf_bytes(&metric, field, buffer_bytes(value));
    protobuf_bytes(&exposition->message, FAMILY_METRIC, buffer_bytes(&metric));
    buffer_release(&metric);
}

void exposition_protobuf_number(struct exposition *exposition, const struct label *labels, int label_count, double number)
{
    struct buffer value = { 0 };

    protobuf_double(&value, NUMBER_VALUE, number);
    append_metric(exposition, labels, label_count, exposition->family.kind == METRIC_COUNTER ? METRIC_IS_COUNTER : METRIC_IS_GAUGE, &value);
    buffer_release(&value);
}

/* --- Native histograms --- */

/* The native buckets so far, which come in ascending order. */
struct natives {
    struct buffer spans;            /* fields of the histogram: runs of buckets side by side */
    struct buffer deltas;           /* each bucket's count less that of the one before */
    int64_t index;                  /* of the bucket that is counted in */
    uint64_t count, before;         /* in it; in the one before it */
    int64_t end;                    /* index after the last bucket that was written */
    int64_t span_gap;               /* of the span that grows: buckets between it and the span before, or 0 for the first */
    uint64_t span_length;
};

static void end_span(struct natives *natives)
{
    struct buffer span = { 0 };

    if (natives->span_length == 0)
        return;
    protobuf_signed(&span, SPAN_OFFSET, natives->span_gap);
    protobuf_unsigned(&span, SPAN_LENGTH, natives->span_length);
    protobuf_bytes(&natives->spans, HISTOGRAM_SPAN, buffer_bytes(&span));
    buffer_release(&span);
    natives->span_length = 0;
}

/* Writes the bucket that was counted in. The first span's offset is the index itself. */
static void end_native(struct natives *natives)
{
    if (natives->count == 0)
        return;
    if (natives->deltas.size == 0 || natives->index != natives->end) {
        end_span(natives);
        natives->span_gap = natives->index - natives->end;
    }
    protobuf_packed_signed(&natives->deltas, (int64_t)(natives->count - natives->before));
    natives->span_length++;
    natives->before = natives->count;
    natives->end = natives->index + 1;
    natives->count = 0;
}

/* Returns the index of the native bucket in which the middle of this one is. The limits of both are powers of two divided by 2^step_bits, but of different units, so a value is
 * off by one bucket at most. */
static int64_t native_index(const struct exposition_histogram *histogram, size_t bucket)
{
    double low = (double)histogram_bucket_min(bucket, histogram->step_bits), high = (double)histogram_bucket_max(bucket, histogram->step_bits) + 1;

    return (int64_t)ceil(log2((low + high) / 2 / histogram->per_unit) * (1 << histogram->step_bits));
}

static void append_natives(struct buffer *out, const struct exposition_histogram *histogram)
{
    struct natives natives = { .index = 0 };

    for (size_t bucket = 1; bucket < histogram->bucket_count; bucket++) {
        int64_t index;

        if (histogram->counts[bucket] == 0)
            continue;
        index = native_index(histogram, bucket);
        if (index != natives.index)
            end_native(&natives);
        natives.index = index;
        natives.count += histogram->counts[bucket];
    }
    end_native(&natives);
    end_span(&natives);
    protobuf_signed(out, HISTOGRAM_SCHEMA, histogram->step_bits);
    protobuf_double(out, HISTOGRAM_ZERO_LIMIT, 1 / histogram->per_unit);
    protobuf_unsigned(out, HISTOGRAM_ZERO_COUNT, histogram->bucket_count > 0 ? histogram->counts[0] : 0);
    buffer_append_bytes(out, buffer_bytes(&natives.spans));
    if (natives.deltas.size > 0)
        protobuf_bytes(out, HISTOGRAM_DELTA, buffer_bytes(&natives.deltas));
    buffer_release(&natives.spans);
    buffer_release(&natives.deltas);
}

/* A bucket with a limit, as in text. */
void exposition_protobuf_bucket(struct buffer *out, double limit, uint64_t seen)
{
    struct buffer bucket = { 0 };

    protobuf_unsigned(&bucket, BUCKET_COUNT, seen);
    protobuf_double(&bucket, BUCKET_LIMIT, limit);
    protobuf_bytes(out, HISTOGRAM_BUCKET, buffer_bytes(&bucket));
    buffer_release(&bucket);
}

void exposition_protobuf_histogram(struct exposition *exposition, const struct label *labels, int label_count, const struct exposition_histogram *histogram,
    const struct buffer *buckets, uint64_t count)
{
    struct buffer value = { 0 };

    protobuf_unsigned(&value, HISTOGRAM_COUNT, count);
    protobuf_double(&value, HISTOGRAM_SUM, histogram->sum);
    buffer_append_bytes(&value, buffer_bytes(buckets));
    append_natives(&value, histogram);
    append_metric(exposition, labels, label_count, METRIC_IS_HISTOGRAM, &value);
    buffer_release(&value);
}
