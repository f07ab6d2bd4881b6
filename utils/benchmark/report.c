#include "report.h"

#include <stdint.h>
#include <stdio.h>

#include "base/histogram.h"
#include "options.h"
#include "run.h"

const struct percentile report_percentiles[REPORT_PERCENTILES] = {
    { 50, "p50" }, { 90, "p90" }, { 99, "p99" }, { 99.9, "p99.9" }, { 99.99, "p99.99" },
};

static const char *const class_names[] = { [REQUEST_READ] = "reads", [REQUEST_WRITE] = "writes" };

static const char *const end_names[] = {
    [RUN_COMPLETE] = "complete", [RUN_INTERRUPTED] = "interrupted", [RUN_FAILED] = "failed",
};

static const char *const distribution_names[] = {
    [DISTRIBUTION_UNIFORM] = "uniform", [DISTRIBUTION_ZIPFIAN] = "zipfian",
    [DISTRIBUTION_HOT] = "hot", [DISTRIBUTION_SEQUENTIAL] = "sequential",
};

static double per_second(uint64_t count, double seconds)
{
    return seconds > 0 ? (double)count / seconds : 0;
}

static double us(double ns)
{
    return ns / 1000;
}

static double us_each(uint64_t ns, uint64_t count)
{
    return count ? us((double)ns) / (double)count : 0;
}

static double percent_of(uint64_t part, uint64_t whole)
{
    return whole ? 100 * (double)part / (double)whole : 0;
}

static unsigned long long big(uint64_t number)
{
    return number;
}

static bool is_mixed(const struct run *run)
{
    return run->result.tallies[REQUEST_READ].replies > 0 && run->result.tallies[REQUEST_WRITE].replies > 0;
}

bool report_is_clean(const struct options *options, const struct run *run)
{
    for (int i = 0; i < REQUEST_CLASSES; i++) {
        const struct tally *tally = &run->result.tallies[i];

        if (tally->errors > 0 || tally->wrong > 0 || (options->verify && !options->allow_missing && tally->missing > 0))
            return false;
    }
    return run->end == RUN_COMPLETE;
}

/* ---- text */

static void text_latency(const char *name, const struct histogram *latency)
{
    printf("  %-12s mean %.3f", name, us(histogram_mean(latency)) / 1000);
    for (int i = 0; i < REPORT_PERCENTILES; i++)
        printf("  %s %.3f", report_percentiles[i].name,
            us((double)histogram_percentile(latency, report_percentiles[i].percent)) / 1000);
    printf("  max %.3f\n", us((double)histogram_max(latency)) / 1000);
}

static void text_info(const struct run *run)
{
    const struct server_info *a = &run->info_before, *b = &run->info_after;
    uint64_t hits = b->keyspace_hits - a->keyspace_hits, misses = b->keyspace_misses - a->keyspace_misses;

    if (hits + misses > 0)
        printf("  %-12s %llu hits, %llu misses: %.2f %% of lookups were hits\n", "keyspace", big(hits),
            big(misses), percent_of(hits, hits + misses));
    if (a->has_tier && b->has_tier) {
        uint64_t hot = b->tier_hot_hits - a->tier_hot_hits, cold = b->tier_cold_hits - a->tier_cold_hits;

        printf("  %-12s %llu hot hits, %llu cold hits, %llu misses: %.2f %% of hits were hot\n", "tier", big(hot),
            big(cold), big(b->tier_misses - a->tier_misses), percent_of(hot, hot + cold));
    }
    printf("  %-12s RSS %.1f MiB, used %.1f MiB, %llu keys evicted\n", "memory",
        (double)b->used_memory_rss / 1048576, (double)b->used_memory / 1048576,
        big(b->evicted_keys - a->evicted_keys));
}

static void text_counts(const struct options *options, const struct run *run, const struct tally *total)
{
    const struct result *result = &run->result;

    if (total->found + total->missing > 0)
        printf("  %-12s %llu found, %llu missing%s%s\n", "values", big(total->found), big(total->missing),
            options->verify && total->missing ? ", first: " : "",
            options->verify && total->missing ? result->missing_first : "");
    if (options->verify)
        printf("  %-12s %llu wrong%s%s\n", "verified", big(total->wrong), total->wrong ? ", first: " : "",
            total->wrong ? result->wrong_first : "");
    if (total->errors)
        printf("  %-12s %llu, first: %s\n", "ERRORS", big(total->errors), result->error_first);
}

static void text_run(const struct options *options, const char *name, const struct run *run, const struct tally *total)
{
    printf("====== %s ======\n", name);
    if (run->end != RUN_COMPLETE)
        printf("  %-12s the test is incomplete%s%s\n", end_names[run->end], run->failure[0] ? ": " : "", run->failure);
    printf("  %-12s %llu in %.3f s; %llu clients, %llu threads, pipeline %zu, %llu keys, %s\n", "requests",
        big(total->replies), run->seconds, big(options->clients), big(options->threads), run->pipeline,
        big(options->keys.count),
        run->is_load ? "each once" : distribution_names[options->keys.distribution]);
    printf("  %-12s %.0f requests/s\n", "throughput", per_second(total->replies, run->seconds));
    text_latency("latency ms", total->latency);
    for (int i = 0; i < REQUEST_CLASSES && is_mixed(run); i++)
        text_latency(class_names[i], run->result.tallies[i].latency);
    text_counts(options, run, total);
    printf("  %-12s", "CPU");
    if (run->has_server_cpu)
        printf(" server %.3f us/request (%.0f %% of a core),", us_each(run->server_cpu_ns, total->replies),
            run->seconds > 0 ? (double)run->server_cpu_ns / run->seconds / 1e7 : 0);
    printf(" client %.3f us/request\n", us_each(run->client_cpu_ns, total->replies));
    if (run->has_info)
        text_info(run);
    printf("\n");
}

static void quiet_run(const char *name, const struct run *run, const struct tally *total)
{
    printf("%s: %.2f requests per second, p50=%.3f msec, p99=%.3f msec, max=%.3f msec", name,
        per_second(total->replies, run->seconds), us((double)histogram_percentile(total->latency, 50)) / 1000,
        us((double)histogram_percentile(total->latency, 99)) / 1000, us((double)histogram_max(total->latency)) / 1000);
    if (run->has_server_cpu)
        printf(", server CPU %.3f us/request", us_each(run->server_cpu_ns, total->replies));
    if (total->errors)
        printf(", %llu ERRORS (%s)", big(total->errors), run->result.error_first);
    if (total->wrong)
        printf(", %llu WRONG (%s)", big(total->wrong), run->result.wrong_first);
    if (total->missing)
        printf(", %llu missing", big(total->missing));
    if (run->end != RUN_COMPLETE)
        printf(", %s", end_names[run->end]);
    printf("\n");
}

/* ---- CSV */

static void csv_begin(void)
{
    printf("test,end,requests,seconds,requests_per_second,errors,found,missing,wrong,mean_us,min_us");
    for (int i = 0; i < REPORT_PERCENTILES; i++)
        printf(",%s_us", report_percentiles[i].name);
    printf(",max_us,client_cpu_us_per_request,server_cpu_us_per_request,keyspace_hits,keyspace_misses,"
           "tier_hot_hits,tier_cold_hits,tier_misses,used_memory_rss\n");
}

/* Fields that were not measured are empty. */
static void csv_run(const char *name, const struct run *run, const struct tally *total)
{
    const struct server_info *a = &run->info_before, *b = &run->info_after;

    putchar('"');
    for (const char *c = name; *c; c++)
        printf(*c == '"' ? "\"\"" : "%c", *c);
    printf("\",%s,%llu,%.6f,%.2f,%llu,%llu,%llu,%llu,%.3f,%.3f", end_names[run->end], big(total->replies), run->seconds,
        per_second(total->replies, run->seconds), big(total->errors), big(total->found), big(total->missing),
        big(total->wrong), us(histogram_mean(total->latency)), us((double)histogram_min(total->latency)));
    for (int i = 0; i < REPORT_PERCENTILES; i++)
        printf(",%.3f", us((double)histogram_percentile(total->latency, report_percentiles[i].percent)));
    printf(",%.3f,%.4f,", us((double)histogram_max(total->latency)), us_each(run->client_cpu_ns, total->replies));
    if (run->has_server_cpu)
        printf("%.4f", us_each(run->server_cpu_ns, total->replies));
    if (run->has_info)
        printf(",%llu,%llu,", big(b->keyspace_hits - a->keyspace_hits), big(b->keyspace_misses - a->keyspace_misses));
    else
        printf(",,,");
    if (run->has_info && a->has_tier && b->has_tier)
        printf("%llu,%llu,%llu,", big(b->tier_hot_hits - a->tier_hot_hits), big(b->tier_cold_hits - a->tier_cold_hits),
            big(b->tier_misses - a->tier_misses));
    else
        printf(",,,");
    if (run->has_info)
        printf("%llu", big(b->used_memory_rss));
    printf("\n");
}

/* ---- JSON */

/* Bytes above ASCII are treated as Latin-1, so that the output is valid JSON for any error text of a server. */
static void json_string(const char *text)
{
    putchar('"');
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            printf("\\%c", *c);
        else if (*c < 0x20 || *c >= 0x7f)
            printf("\\u%04x", *c);
        else
            putchar(*c);
    }
    putchar('"');
}

static void json_begin(const struct options *options)
{
    printf("{\n \"load\": {\"host\": ");
    json_string(options->socket ? options->socket : options->host);
    printf(", \"port\": %llu, \"resp\": %llu, \"clients\": %llu, \"threads\": %llu, \"rps_limit\": %.3f, \"seed\": %llu,\n"
           "  \"keys\": %llu, \"key_size\": %llu, \"value_size_min\": %llu, \"value_size_max\": %llu, \"generation\": %llu,\n"
           "  \"distribution\": \"%s\"",
        big(options->socket ? 0 : options->port), big(options->resp), big(options->clients), big(options->threads),
        options->rps, big(options->seed), big(options->keys.count), big(options->key_size),
        big(options->values.size_min), big(options->values.size_max), big(options->values.generation),
        distribution_names[options->keys.distribution]);
    if (options->keys.distribution == DISTRIBUTION_ZIPFIAN)
        printf(", \"zipf_theta\": %g", options->keys.zipf_theta);
    if (options->keys.distribution == DISTRIBUTION_HOT)
        printf(", \"hot_percent\": %g, \"hot_keys\": %llu", options->keys.hot_percent, big(options->keys.hot_count));
    printf("},\n \"tests\": [");
}

static void json_tally(const struct tally *tally)
{
    printf("\"requests\": %llu, \"errors\": %llu, \"found\": %llu, \"missing\": %llu, \"wrong\": %llu,\n"
           "   \"latency_us\": {\"mean\": %.3f, \"min\": %.3f",
        big(tally->replies), big(tally->errors), big(tally->found), big(tally->missing), big(tally->wrong),
        us(histogram_mean(tally->latency)), us((double)histogram_min(tally->latency)));
    for (int i = 0; i < REPORT_PERCENTILES; i++)
        printf(", \"%s\": %.3f", report_percentiles[i].name,
            us((double)histogram_percentile(tally->latency, report_percentiles[i].percent)));
    printf(", \"max\": %.3f}", us((double)histogram_max(tally->latency)));
}

static void json_info(const struct run *run)
{
    const struct server_info *a = &run->info_before, *b = &run->info_after;
    uint64_t hits = b->keyspace_hits - a->keyspace_hits, misses = b->keyspace_misses - a->keyspace_misses;

    printf(",\n   \"info\": {\"keyspace_hits\": %llu, \"keyspace_misses\": %llu, \"evicted_keys\": %llu,"
           " \"used_memory\": %llu, \"used_memory_rss\": %llu",
        big(hits), big(misses), big(b->evicted_keys - a->evicted_keys), big(b->used_memory), big(b->used_memory_rss));
    if (hits + misses > 0)
        printf(", \"hit_percent\": %.4f", percent_of(hits, hits + misses));
    if (a->has_tier && b->has_tier) {
        uint64_t hot = b->tier_hot_hits - a->tier_hot_hits, cold = b->tier_cold_hits - a->tier_cold_hits;

        printf(", \"tier_hot_hits\": %llu, \"tier_cold_hits\": %llu, \"tier_misses\": %llu", big(hot), big(cold),
            big(b->tier_misses - a->tier_misses));
        if (hot + cold > 0)
            printf(", \"tier_hot_percent\": %.4f", percent_of(hot, hot + cold));
    }
    printf("}");
}

static void json_series(const struct options *options, const struct result *result)
{
    printf(",\n   \"series\": {\"period_ms\": %llu, \"replies\": [", big(options->period_ms));
    for (size_t i = 0; i < result->series_count; i++)
        printf("%s%llu", i ? ", " : "", big(result->series[i].replies));
    printf("],\n    \"latency_us_max\": [");
    for (size_t i = 0; i < result->series_count; i++)
        printf("%s%.3f", i ? ", " : "", us((double)result->series[i].latency_ns_max));
    printf("]}");
}

static void json_run(const struct options *options, const char *name, const struct run *run, const struct tally *total, size_t index)
{
    const struct result *result = &run->result;

    printf("%s\n  {\"test\": ", index ? "," : "");
    json_string(name);
    printf(", \"end\": \"%s\", \"pipeline\": %zu, \"seconds\": %.6f, \"requests_per_second\": %.2f,\n   ",
        end_names[run->end], run->pipeline, run->seconds, per_second(total->replies, run->seconds));
    json_tally(total);
    for (int i = 0; i < REQUEST_CLASSES && is_mixed(run); i++) {
        printf(",\n   \"%s\": {", class_names[i]);
        json_tally(&result->tallies[i]);
        printf("}");
    }
    const struct {
        const char *name, *text;
    } texts[] = {
        { "failure", run->failure },
        { "first_error", result->error_first },
        { "first_missing", result->missing_first },
        { "first_wrong", result->wrong_first },
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i].text[0]) {
            printf(",\n   \"%s\": ", texts[i].name);
            json_string(texts[i].text);
        }
    }
    printf(",\n   \"client_cpu_us_per_request\": %.4f", us_each(run->client_cpu_ns, total->replies));
    if (run->has_server_cpu)
        printf(", \"server_cpu_us_per_request\": %.4f, \"server_cpu_seconds\": %.6f",
            us_each(run->server_cpu_ns, total->replies), (double)run->server_cpu_ns / 1e9);
    if (run->has_info)
        json_info(run);
    if (options->period_ms > 0)
        json_series(options, &run->result);
    printf("}");
}

/* ---- */

void report_begin(const struct options *options)
{
    if (options->format == FORMAT_CSV)
        csv_begin();
    if (options->format == FORMAT_JSON)
        json_begin(options);
}

void report_run(const struct options *options, const char *name, const struct run *run, size_t index)
{
    struct tally total;

    result_total(&run->result, &total);
    switch (options->format) {
    case FORMAT_TEXT: text_run(options, name, run, &total); break;
    case FORMAT_QUIET: quiet_run(name, run, &total); break;
    case FORMAT_CSV: csv_run(name, run, &total); break;
    case FORMAT_JSON: json_run(options, name, run, &total, index); break;
    }
    fflush(stdout);
    tally_release(&total);
}

void report_end(const struct options *options)
{
    if (options->format == FORMAT_JSON)
        printf("\n ]\n}\n");
    fflush(stdout);
}
