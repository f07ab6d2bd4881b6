#include "metrics/exposition.h"

#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/histogram.h"

static void begin(struct exposition *exposition, struct buffer *out, enum exposition_format format)
{
    *out = (struct buffer){ 0 };
    *exposition = (struct exposition){ .out = out, .format = format };
}

static void assert_written(struct buffer *out, const char *text)
{
    buffer_append(out, "", 1);
    assert_string_equal(out->data, text);
    buffer_release(out);
}

static void a_counter_has_its_suffix_where_the_format_wants_it(void **state)
{
    const struct metric family = { "x_bytes", METRIC_COUNTER, "bytes", "Bytes." };
    struct exposition exposition;
    struct buffer out;

    (void)state;
    begin(&exposition, &out, EXPOSITION_OPENMETRICS);
    exposition_begin(&exposition, &family);
    exposition_integer(&exposition, NULL, 0, UINT64_MAX);
    exposition_end(&exposition);
    assert_written(&out, "# HELP x_bytes Bytes.\n# TYPE x_bytes counter\n# UNIT x_bytes bytes\nx_bytes_total 18446744073709551615\n# EOF\n");
    begin(&exposition, &out, EXPOSITION_TEXT);
    exposition_begin(&exposition, &family);
    exposition_integer(&exposition, NULL, 0, 7);
    exposition_end(&exposition);
    assert_written(&out, "# HELP x_bytes_total Bytes.\n# TYPE x_bytes_total counter\nx_bytes_total 7\n");
}

static void an_info_is_a_gauge_for_programs_that_do_not_know_it(void **state)
{
    const struct metric family = { "x", METRIC_INFO, NULL, "What." };
    const struct label label = { "version", BYTES("1.2") };
    struct exposition exposition;
    struct buffer out;

    (void)state;
    begin(&exposition, &out, EXPOSITION_OPENMETRICS);
    exposition_begin(&exposition, &family);
    exposition_integer(&exposition, &label, 1, 1);
    assert_written(&out, "# HELP x What.\n# TYPE x info\nx_info{version=\"1.2\"} 1\n");
    begin(&exposition, &out, EXPOSITION_TEXT);
    exposition_begin(&exposition, &family);
    exposition_integer(&exposition, &label, 1, 1);
    assert_written(&out, "# HELP x_info What.\n# TYPE x_info gauge\nx_info{version=\"1.2\"} 1\n");
}

static void any_bytes_can_be_a_label(void **state)
{
    static const struct {
        struct bytes value;
        const char *shown;
    } rows[] = {
        { BYTES(""), "" },
        { BYTES("a\"b\\c\nd"), "a\\\"b\\\\c\\nd" },
        { BYTES("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"), "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80" },
        { BYTES("\x80"), "\xef\xbf\xbd" },
        { BYTES("\xc0\xaf"), "\xef\xbf\xbd\xef\xbf\xbd" },                                  /* could be shorter */
        { BYTES("\xe0\x9f\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
        { BYTES("\xf0\x8f\xbf\xbf"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
        { BYTES("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },                  /* a surrogate */
        { BYTES("\xf4\x90\x80\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },  /* beyond U+10FFFF */
        { BYTES("\xf4\x8f\xbf\xbf\xed\x9f\xbf"), "\xf4\x8f\xbf\xbf\xed\x9f\xbf" },
        { BYTES("a\xe2\x82"), "a\xef\xbf\xbd\xef\xbf\xbd" },                                /* cut off */
        { BYTES("\xff\xfe"), "\xef\xbf\xbd\xef\xbf\xbd" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct exposition exposition;
        struct buffer out, wanted = { 0 };

        begin(&exposition, &out, EXPOSITION_OPENMETRICS);
        exposition.family = (struct metric){ "x", METRIC_GAUGE, NULL, "" };
        exposition_integer(&exposition, &(struct label){ "l", rows[i].value }, 1, 0);
        buffer_append_format(&wanted, "x{l=\"%s\"} 0\n", rows[i].shown);
        buffer_append(&wanted, "", 1);
        assert_written(&out, wanted.data);
        buffer_release(&wanted);
    }
}

static void help_is_escaped_as_the_format_wants_it(void **state)
{
    const struct metric family = { "x", METRIC_GAUGE, NULL, "a \"b\" \\ \n" };
    struct exposition exposition;
    struct buffer out;

    (void)state;
    begin(&exposition, &out, EXPOSITION_OPENMETRICS);
    exposition_begin(&exposition, &family);
    assert_written(&out, "# HELP x a \\\"b\\\" \\\\ \\n\n# TYPE x gauge\n");
    begin(&exposition, &out, EXPOSITION_TEXT);
    exposition_begin(&exposition, &family);
    assert_written(&out, "# HELP x a \"b\" \\\\ \\n\n# TYPE x gauge\n");
}

static void numbers_are_what_prometheus_reads(void **state)
{
    static const struct {
        double number;
        const char *shown;
    } rows[] = { { 0, "0" }, { -1, "-1" }, { 0.1, "0.1" }, { 1e-7, "1e-7" }, { 1e21, "1e+21" }, { INFINITY, "+Inf" }, { -INFINITY, "-Inf" }, { NAN, "NaN" } };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct exposition exposition;
        struct buffer out;
        char wanted[32];

        begin(&exposition, &out, EXPOSITION_OPENMETRICS);
        exposition.family = (struct metric){ "x", METRIC_GAUGE, NULL, "" };
        exposition_number(&exposition, NULL, 0, rows[i].number);
        snprintf(wanted, sizeof(wanted), "x %s\n", rows[i].shown);
        assert_written(&out, wanted);
    }
}

/* Values below a limit are in its bucket, and all those before are in it, too. The last bucket that is counted in also has all that is larger. */
static void buckets_are_cumulative_and_exact(void **state)
{
    _Atomic uint64_t counting[64] = { 0 };
    uint64_t counts[64];
    const uint64_t values[] = { 0, 15, 16, 31, 32, 63, 64, 1000000 };
    struct exposition exposition;
    struct buffer out;

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        histogram_count(counting, 64, 2, values[i]);
    histogram_load(counting, 64, counts);
    begin(&exposition, &out, EXPOSITION_OPENMETRICS);
    exposition_begin(&exposition, &(struct metric){ "x_seconds", METRIC_HISTOGRAM, "seconds", "Times." });
    exposition_histogram(&exposition, &(struct label){ "f", BYTES("a") }, 1, &(struct exposition_histogram){
        .counts = counts, .bucket_count = 64, .step_bits = 2, .per_unit = 16, .first = 4, .last = 6, .sum = 2.5 });
    assert_written(&out, "# HELP x_seconds Times.\n# TYPE x_seconds histogram\n# UNIT x_seconds seconds\n"
        "x_seconds_bucket{f=\"a\",le=\"1.0\"} 2\nx_seconds_bucket{f=\"a\",le=\"2.0\"} 4\nx_seconds_bucket{f=\"a\",le=\"4.0\"} 6\n"
        "x_seconds_bucket{f=\"a\",le=\"+Inf\"} 8\nx_seconds_count{f=\"a\"} 8\nx_seconds_sum{f=\"a\"} 2.5\n");
}

static void limits_beyond_the_buckets_are_no_error(void **state)
{
    uint64_t counts[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    struct exposition exposition;
    struct buffer out;

    (void)state;
    begin(&exposition, &out, EXPOSITION_TEXT);
    exposition.family = (struct metric){ "x", METRIC_HISTOGRAM, NULL, "" };
    exposition_histogram(&exposition, NULL, 0, &(struct exposition_histogram){
        .counts = counts, .bucket_count = 8, .step_bits = 2, .per_unit = 1e9, .first = 10, .last = 11, .sum = 0 });
    assert_written(&out, "x_bucket{le=\"1.024e-6\"} 8\nx_bucket{le=\"2.048e-6\"} 8\nx_bucket{le=\"+Inf\"} 8\nx_count 8\nx_sum 0\n");
}

static void assert_bytes(struct buffer *out, const char *bytes, size_t size)
{
    assert_int_equal(out->size, size);
    assert_memory_equal(out->data, bytes, size);
    buffer_release(out);
}

/* A family after its length: name, help, type, unit, and the metric: labels, the number as a double. */
static void protobuf_has_a_message_for_each_family(void **state)
{
    static const char bytes[] = "\x26\x0a\x07x_total\x12\x02H.\x18\x00\x2a\x01u" "\x22\x12" "\x0a\x05\x0a\x01l\x12\x00" "\x1a\x09\x09\x00\x00\x00\x00\x00\x00\x00\x40"
        "\x09\x0a\x01y\x12\x02H.\x18\x01";
    struct exposition exposition;
    struct buffer out;

    (void)state;
    begin(&exposition, &out, EXPOSITION_PROTOBUF);
    exposition_begin(&exposition, &(struct metric){ "x", METRIC_COUNTER, "u", "H." });
    exposition_integer(&exposition, &(struct label){ "l", BYTES("") }, 1, 2);
    exposition_begin(&exposition, &(struct metric){ "y", METRIC_GAUGE, NULL, "H." });
    exposition_end(&exposition);
    assert_bytes(&out, bytes, sizeof(bytes) - 1);
}

static void the_client_chooses_the_format(void **state)
{
    static const struct {
        const char *accept;
        enum exposition_format format;
    } rows[] = {
        { "", EXPOSITION_OPENMETRICS },
        { "*/*", EXPOSITION_OPENMETRICS },
        { "text/plain", EXPOSITION_TEXT },
        { "TEXT/Plain; Version=0.0.4", EXPOSITION_TEXT },
        { "text/plain;version=9", EXPOSITION_OPENMETRICS },
        { "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
          EXPOSITION_OPENMETRICS },
        { "application/openmetrics-text;q=0.4,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", EXPOSITION_TEXT },
        { "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", EXPOSITION_TEXT },
        { "image/png", EXPOSITION_OPENMETRICS },
        { "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,*/*;q=0.1",
          EXPOSITION_PROTOBUF },
        { "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text,text/plain;q=0.5", EXPOSITION_TEXT },
        { "application/vnd.google.protobuf;encoding=delimited,text/plain;q=0.5", EXPOSITION_TEXT },
        { "text/plain;q=0", EXPOSITION_OPENMETRICS },
        { "text/plain;q=0.001, application/openmetrics-text;q=0", EXPOSITION_TEXT },
        /* Hostile. */
        { ",", EXPOSITION_OPENMETRICS }, { ",,;;==,", EXPOSITION_OPENMETRICS }, { ";", EXPOSITION_OPENMETRICS }, { "q=1;q", EXPOSITION_OPENMETRICS },
        { "text/plain;", EXPOSITION_TEXT }, { "text/plain;q", EXPOSITION_TEXT }, { "text/plain;q=", EXPOSITION_OPENMETRICS },
        { "text/plain;q=2", EXPOSITION_OPENMETRICS }, { "text/plain;q=1.", EXPOSITION_TEXT }, { "text/plain;q=0.99999999999999999999", EXPOSITION_TEXT },
        { "text/plain;version", EXPOSITION_TEXT }, { "text/plain;version=", EXPOSITION_OPENMETRICS }, { " \t text/plain \t ; q = 1", EXPOSITION_TEXT },
        { "\xff\xfe/\x01,text/plain", EXPOSITION_TEXT },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (exposition_choose(rows[i].accept) != rows[i].format)
            fail_msg("%s", rows[i].accept);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_counter_has_its_suffix_where_the_format_wants_it),
        cmocka_unit_test(an_info_is_a_gauge_for_programs_that_do_not_know_it),
        cmocka_unit_test(any_bytes_can_be_a_label),
        cmocka_unit_test(help_is_escaped_as_the_format_wants_it),
        cmocka_unit_test(numbers_are_what_prometheus_reads),
        cmocka_unit_test(buckets_are_cumulative_and_exact),
        cmocka_unit_test(limits_beyond_the_buckets_are_no_error),
        cmocka_unit_test(protobuf_has_a_message_for_each_family),
        cmocka_unit_test(the_client_chooses_the_format),
    };

    return cmocka_run_group_tests_name("metrics/exposition", tests, NULL, NULL);
}
