/* Hostile bytes as the headers Accept and Host, and as the value of a label in all formats: the text must be one line with balanced quotes, and valid UTF-8 stays as it is.
 * The same bytes as a name of a key in JSON: a string that ends only at its end. First byte: which.
 */
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/mem.h"
#include "metrics/document.h"
#include "metrics/exposition.h"
#include "metrics/host.h"
#include "support/fuzz.h"

static void choose(struct bytes text)
{
    char *accept = mem_string(text);
    enum exposition_format format = exposition_choose(accept);

    CHECK(exposition_type(format) != NULL);
    mem_free(accept);
}

/* A port at the end changes nothing. */
static void name(struct bytes text)
{
    char *host = mem_string(text);
    struct buffer with_port = { 0 };
    bool is_own = host_is_own(host, "machine");

    buffer_append_format(&with_port, "%s:9121", host);
    buffer_append_u8(&with_port, 0);
    CHECK(strchr(host, ':') != NULL || host_is_own(with_port.data, "machine") == is_own);
    CHECK(!is_own || host_is_own(host, "another") || strncasecmp(host, "machine", strlen("machine")) == 0);
    mem_free(host);
    buffer_release(&with_port);
}

/* x{l="..."} 1, and a line end: in the quotes no quote or line end without a backslash before it. */
static void check_line(struct bytes line)
{
    size_t at = strlen("x{l=\""), end = line.size - strlen("\"} 1\n");

    CHECK(line.size >= at + strlen("\"} 1\n") && memcmp(line.data, "x{l=\"", at) == 0 && memcmp(line.data + end, "\"} 1\n", line.size - end) == 0);
    for (; at < end; at++) {
        CHECK(line.data[at] != '"' && line.data[at] != '\n');
        at += line.data[at] == '\\';
    }
    CHECK(at == end);
}

static void write_label(struct bytes value, enum exposition_format format)
{
    struct buffer out = { 0 };
    struct exposition exposition = { .out = &out, .format = format };

    exposition_begin(&exposition, &(struct metric){ "x", METRIC_GAUGE, NULL, "X." });
    if (format == EXPOSITION_TEXT)
        out.size = 0;
    exposition_integer(&exposition, &(struct label){ "l", value }, 1, 1);
    exposition_end(&exposition);
    if (format == EXPOSITION_TEXT)
        check_line(buffer_bytes(&out));
    buffer_release(&out);
}

/* What was made valid is valid. */
static void check_utf8(struct bytes text)
{
    struct buffer once = { 0 }, twice = { 0 };

    metric_append_utf8(&once, text);
    metric_append_utf8(&twice, buffer_bytes(&once));
    CHECK(bytes_equal(buffer_bytes(&once), buffer_bytes(&twice)));
    buffer_release(&once);
    buffer_release(&twice);
}

/* Valid UTF-8, without control characters, and no quote but the two at its ends is without a backslash. */
static void check_json(struct bytes name)
{
    struct buffer out = { 0 }, same = { 0 };
    struct document document = { .out = &out };

    document_bytes(&document, NULL, name);
    metric_append_utf8(&same, buffer_bytes(&out));
    CHECK(bytes_equal(buffer_bytes(&out), buffer_bytes(&same)) && out.size >= 2 && out.data[0] == '"' && out.data[out.size - 1] == '"');
    for (size_t at = 1; at < out.size - 1; at++) {
        CHECK((unsigned char)out.data[at] >= 0x20 && out.data[at] != '"');
        at += out.data[at] == '\\';
        CHECK(at < out.size - 1);
    }
    buffer_release(&out);
    buffer_release(&same);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input fuzz;
    struct buffer input = { 0 };
    struct bytes exact;
    uint64_t kind;

    fuzz_begin(&fuzz, data, size);
    kind = fuzz_below(&fuzz, 3);
    fuzz_rest(&fuzz, &input);
    exact = fuzz_exact_copy(buffer_bytes(&input));
    if (kind == 0) {
        choose(exact);
    } else if (kind == 2) {
        name(exact);
    } else {
        write_label(exact, EXPOSITION_TEXT);
        write_label(exact, EXPOSITION_OPENMETRICS);
        write_label(exact, EXPOSITION_PROTOBUF);
        check_utf8(exact);
        check_json(exact);
    }
    mem_free((void *)exact.data);
    buffer_release(&input);
    return 0;
}
