#include "result.h"

#include <string.h>

#include "base/histogram.h"
#include "base/mem.h"

/* Nanoseconds up to 73 minutes, at most 0.8 % too high. */
enum { LATENCY_STEP_BITS = 7, LATENCY_VALUE_BITS = 42 };

void result_init(struct result *result)
{
    memset(result, 0, sizeof(*result));
    for (int i = 0; i < REQUEST_CLASSES; i++)
        result->tallies[i].latency = histogram_create(LATENCY_STEP_BITS, LATENCY_VALUE_BITS);
}

void result_release(struct result *result)
{
    for (int i = 0; i < REQUEST_CLASSES; i++)
        tally_release(&result->tallies[i]);
    mem_free(result->series);
    result->series = NULL;
    result->series_count = 0;
}

void result_note(struct result *result, size_t index, struct period period)
{
    if (index >= result->series_count) {
        result->series = mem_realloc(result->series, (index + 1) * sizeof(*result->series));
        memset(result->series + result->series_count, 0, (index + 1 - result->series_count) * sizeof(*result->series));
        result->series_count = index + 1;
    }
    result->series[index].replies += period.replies;
    if (period.latency_ns_max > result->series[index].latency_ns_max)
        result->series[index].latency_ns_max = period.latency_ns_max;
}

void tally_release(struct tally *tally)
{
    histogram_destroy(tally->latency);
    tally->latency = NULL;
}

static void tally_add(struct tally *tally, const struct tally *other)
{
    tally->replies += other->replies;
    tally->errors += other->errors;
    tally->found += other->found;
    tally->missing += other->missing;
    tally->wrong += other->wrong;
    histogram_add(tally->latency, other->latency);
}

static void first_keep(char *first, const char *other, size_t size)
{
    if (first[0] == 0)
        memcpy(first, other, size);
}

void result_add(struct result *result, const struct result *other)
{
    for (int i = 0; i < REQUEST_CLASSES; i++)
        tally_add(&result->tallies[i], &other->tallies[i]);
    for (size_t i = 0; i < other->series_count; i++)
        result_note(result, i, other->series[i]);
    first_keep(result->error_first, other->error_first, sizeof(result->error_first));
    first_keep(result->wrong_first, other->wrong_first, sizeof(result->wrong_first));
    first_keep(result->missing_first, other->missing_first, sizeof(result->missing_first));
}

void result_total(const struct result *result, struct tally *total)
{
    *total = (struct tally){ .latency = histogram_create(LATENCY_STEP_BITS, LATENCY_VALUE_BITS) };
    for (int i = 0; i < REQUEST_CLASSES; i++)
        tally_add(total, &result->tallies[i]);
}
