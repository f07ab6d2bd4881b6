/* Hostile bytes for the request parser: any bytes, or well-formed requests of random arguments.
 *
 * An input is parsed at once and in random pieces, each piece in a new exact block of memory, so that a sanitizer sees a byte read too far
 * and a use of an old address. Both ways must give the same; so must the arguments that were written.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/mem.h"
#include "resp/request.h"
#include "support/fuzz.h"

enum { CALLS_MAX = 100000 };

/* Well-formed requests, and what must come of them in the words of `record`. */
static void write_valid(struct fuzz_input *fuzz, struct buffer *input, struct buffer *expected)
{
    size_t requests = 1 + fuzz_below(fuzz, 4);

    for (size_t i = 0; i < requests; i++) {
        size_t start = input->size;
        size_t args = 1 + fuzz_below(fuzz, fuzz_below(fuzz, 20) == 0 ? 100 : 5);
        struct buffer words = { 0 };

        buffer_append_format(input, "*%zu\r\n", args);
        for (size_t j = 0; j < args; j++) {
            size_t size = fuzz_below(fuzz, fuzz_below(fuzz, 20) == 0 ? 3000 : 20);
            char *at;

            buffer_append_format(input, "$%zu\r\n", size);
            at = buffer_reserve(input, size + 2);
            for (size_t k = 0; k < size; k++)
                at[k] = "\r\n$*a0"[fuzz_below(fuzz, 6)];
            memcpy(at + size, "\r\n", 2);
            input->size += size + 2;
            buffer_append_format(&words, "<%zu:", size);
            buffer_append(&words, at, size);
            buffer_append_string(&words, ">");
        }
        buffer_append_format(expected, "%zu", input->size - start);
        buffer_append_bytes(expected, buffer_bytes(&words));
        buffer_append_string(expected, ";");
        buffer_release(&words);
    }
    buffer_append_string(expected, "more");
}

static void record(const struct request_parser *parser, size_t consumed, struct buffer *out)
{
    buffer_append_format(out, "%zu", consumed);
    for (int i = 0; i < parser->arg_count; i++) {
        buffer_append_format(out, "<%zu:", parser->args[i].size);
        buffer_append_bytes(out, parser->args[i]);
        buffer_append_string(out, ">");
    }
    buffer_append_string(out, ";");
}

/* Parses all of `input`; pieces of up to `piece_max` bytes. */
static void parse(struct fuzz_input *fuzz, const struct request_limits *limits, struct bytes input, size_t piece_max, struct buffer *out)
{
    struct request_parser parser;
    size_t at = 0, size = 0;

    request_init(&parser);
    for (int calls = 0;; calls++) {
        char *block = mem_alloc(size);
        size_t consumed = 0, wanted = 0, left = input.size - at - size;
        enum request_result result;

        CHECK(calls < CALLS_MAX);
        if (size > 0)
            memcpy(block, input.data + at, size);
        result = request_parse(&parser, limits, block, size, &consumed, &wanted);
        if (result == REQUEST_COMPLETE)
            record(&parser, consumed, out);
        mem_free(block);
        if (result == REQUEST_COMPLETE) {
            CHECK(consumed > 0 && consumed <= size);
            at += consumed;
            size -= consumed;
            continue;
        }
        if (result == REQUEST_ERROR) {
            buffer_append_string(out, parser.error);
            break;
        }
        CHECK(wanted > 0);
        if (left == 0) {
            buffer_append_string(out, "more");
            break;
        }
        size += piece_max < left ? 1 + random_below(&fuzz->random, piece_max) : left;
    }
    request_release(&parser);
}

static void fail(const char *what, struct bytes one, struct bytes other)
{
    fprintf(stderr, "request_fuzz: %s\none:   %.*s\nother: %.*s\n", what, (int)one.size, one.data, (int)other.size, other.data);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct request_limits limits = { 1 << 20, INT32_MAX, 64 << 10, true };
    struct buffer input = { 0 }, expected = { 0 }, whole = { 0 }, pieces = { 0 };
    struct fuzz_input fuzz;
    size_t piece_max;
    bool valid;

    fuzz_begin(&fuzz, data, size);
    valid = fuzz_below(&fuzz, 4) == 1;
    piece_max = 1 + fuzz_below(&fuzz, 40);
    if (valid) {
        write_valid(&fuzz, &input, &expected);
    } else {
        uint64_t choices = fuzz_below(&fuzz, 8);

        limits.authenticated = (choices & 1) == 0;
        limits.inline_size_max = (choices & 2) != 0 ? 64 : 64 << 10;
        limits.bulk_size_max = (choices & 4) != 0 ? 64 : limits.bulk_size_max;
        fuzz_rest(&fuzz, &input);
    }
    parse(&fuzz, &limits, buffer_bytes(&input), SIZE_MAX, &whole);
    parse(&fuzz, &limits, buffer_bytes(&input), piece_max, &pieces);
    if (!bytes_equal(buffer_bytes(&whole), buffer_bytes(&pieces)))
        fail("whole and pieces differ", buffer_bytes(&whole), buffer_bytes(&pieces));
    if (valid && !bytes_equal(buffer_bytes(&whole), buffer_bytes(&expected)))
        fail("not what was written", buffer_bytes(&whole), buffer_bytes(&expected));
    buffer_release(&input);
    buffer_release(&expected);
    buffer_release(&whole);
    buffer_release(&pieces);
    return 0;
}
