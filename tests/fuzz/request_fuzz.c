/* Hostile bytes for the request parser.
 *
 *     request_fuzz SECONDS [SEED]
 *
 * Each round has a seed of its own, SEED + round. It mutates an input of the corpus, or writes requests of random
 * arguments, and parses that at once and in random pieces, each piece in a new exact block of memory, so that a
 * sanitizer sees a byte read too far and whoever keeps an old address. Both ways must give the same; so must the
 * arguments that were written. A failing round prints its seed: `request_fuzz 0 SEED` runs that round alone. When a
 * sanitizer ends the process, the seed printed at the start and the same number of rounds come to the same place.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "resp/request.h"
#include "support/fuzz.h"

static const struct bytes corpus[] = {
    BYTES("*1\r\n$4\r\nPING\r\n"),
    BYTES("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"),
    BYTES("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n*0\r\n*-1\r\n\r\nPING\r\n"),
    BYTES("*4\r\n$4\r\nMSET\r\n$12\r\n0123456789ab\r\n$1\r\nx\r\n$16\r\n0123456789abcdef\r\n"),
    BYTES("*01\r\n$4\r\nPING\r\n"),
    BYTES("*2147483647\r\n$1\r\na\r\n$536870912\r\nabc"),
    BYTES("*-9223372036854775808\r\n*1\r\n$99999999999999999999\r\n"),
    BYTES("*1\r\n$-1\r\n*1\rx$4\ryPINGzz"),
    BYTES("set key \"a\\x41\\n\\q\\\"b\" 'it\\'s' plain\r\nget key\n"),
    BYTES("a\"b\" c'd e' \"\" ''\r\n\x0b\x0c x \t y\r\r\n"),
    BYTES("\"a\"b\r\n'a\r\n\"\\"),
    BYTES("                                                                               \n"),
    BYTES("*11\r\n$1\r\na\r\n$1\r\nb\r\n$16385\r\n"),
    BYTES("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
};

/* Pieces that mean something to the parser. */
static const struct bytes tokens[] = {
    BYTES("\r\n"), BYTES("\r"), BYTES("\n"), BYTES("*"), BYTES("$"), BYTES("*1\r\n"), BYTES("*2\r\n"), BYTES("$1\r\n"),
    BYTES("$0\r\n\r\n"), BYTES("$-1\r\n"), BYTES("0"), BYTES("9"), BYTES("\""), BYTES("'"), BYTES("\\"), BYTES("\\x"),
    BYTES(" "), BYTES("\0"), BYTES("\xff"), BYTES("9223372036854775807"), BYTES("4294967296"), BYTES("*3\r\n$1\r\n"),
};

enum { CORPUS = sizeof(corpus) / sizeof(corpus[0]), TOKENS = sizeof(tokens) / sizeof(tokens[0]), CALLS_MAX = 100000 };

static void insert(struct buffer *input, size_t at, struct bytes bytes)
{
    buffer_reserve(input, bytes.size);
    memmove(input->data + at + bytes.size, input->data + at, input->size - at);
    memcpy(input->data + at, bytes.data, bytes.size);
    input->size += bytes.size;
}

static void mutate(struct random *random, struct buffer *input)
{
    size_t at = random_below(random, input->size + 1);
    size_t left = input->size - at;
    size_t size;

    switch (random_below(random, 6)) {
    case 0:
        if (left > 0)
            input->data[at] = (char)random_next(random);
        break;
    case 1:
        if (left > 0)
            input->data[at] ^= (char)(1 << random_below(random, 8));
        break;
    case 2:
        insert(input, at, tokens[random_below(random, TOKENS)]);
        break;
    case 3:
        size = random_below(random, left < 16 ? left + 1 : 16);
        memmove(input->data + at, input->data + at + size, left - size);
        input->size -= size;
        break;
    case 4:
        insert(input, at, corpus[random_below(random, CORPUS)]);
        break;
    case 5:
        input->size = at;
        break;
    }
}

static void write_mutated(struct random *random, struct buffer *input)
{
    size_t parts = 1 + random_below(random, 3);
    size_t mutations = random_below(random, 12);

    for (size_t i = 0; i < parts; i++)
        buffer_append_bytes(input, corpus[random_below(random, CORPUS)]);
    for (size_t i = 0; i < mutations; i++)
        mutate(random, input);
}

/* Well-formed requests, and what must come of them in the words of `record`. */
static void write_valid(struct random *random, struct buffer *input, struct buffer *expected)
{
    size_t requests = 1 + random_below(random, 4);

    for (size_t i = 0; i < requests; i++) {
        size_t start = input->size;
        size_t args = 1 + random_below(random, random_below(random, 20) == 0 ? 100 : 5);
        struct buffer words = { 0 };

        buffer_append_format(input, "*%zu\r\n", args);
        for (size_t j = 0; j < args; j++) {
            size_t size = random_below(random, random_below(random, 20) == 0 ? 3000 : 20);
            char *at;

            buffer_append_format(input, "$%zu\r\n", size);
            at = buffer_reserve(input, size + 2);
            for (size_t k = 0; k < size; k++)
                at[k] = "\r\n$*a0"[random_below(random, 6)];
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

/* Parses all of `input`; pieces of up to `piece_max` bytes. False when the parser broke its word about sizes. */
static bool parse(struct random *random, const struct request_limits *limits, struct bytes input, size_t piece_max,
    struct buffer *out)
{
    struct request_parser parser;
    size_t at = 0, size = 0;
    bool sane = true;

    request_init(&parser);
    for (int calls = 0; sane; calls++) {
        char *block = mem_alloc(size);
        size_t consumed = 0, wanted = 0, left = input.size - at - size;
        enum request_result result;

        if (size > 0)
            memcpy(block, input.data + at, size);
        result = request_parse(&parser, limits, block, size, &consumed, &wanted);
        if (result == REQUEST_COMPLETE)
            record(&parser, consumed, out);
        mem_free(block);
        if (result == REQUEST_COMPLETE) {
            sane = consumed > 0 && consumed <= size;
            at += consumed;
            size -= consumed;
        } else if (result == REQUEST_ERROR) {
            buffer_append_string(out, parser.error);
            break;
        } else if (left == 0) {
            sane = wanted > 0;
            buffer_append_string(out, "more");
            break;
        } else {
            size_t piece = piece_max < left ? 1 + random_below(random, piece_max) : left;

            sane = wanted > 0;
            size += piece;
        }
        sane = sane && calls < CALLS_MAX;
    }
    request_release(&parser);
    return sane;
}

static void complain(uint64_t seed, const char *what, struct bytes input, struct bytes one, struct bytes other)
{
    fprintf(stderr, "request_fuzz: %s; repeat with: request_fuzz 0 %" PRIu64 "\ninput:\n", what, seed);
    for (size_t i = 0; i < input.size; i++)
        fprintf(stderr, "%02x%s", (unsigned char)input.data[i], i % 32 == 31 ? "\n" : "");
    fprintf(stderr, "\none:   %.*s\nother: %.*s\n", (int)one.size, one.data, (int)other.size, other.data);
}

static bool round_run(uint64_t seed)
{
    struct request_limits limits = { 1 << 20, INT32_MAX, 64 << 10, true };
    struct buffer input = { 0 }, expected = { 0 }, whole = { 0 }, pieces = { 0 };
    struct random random;
    bool valid, sane;

    random_init(&random, seed);
    valid = random_below(&random, 4) == 0;
    if (valid) {
        write_valid(&random, &input, &expected);
    } else {
        write_mutated(&random, &input);
        limits.authenticated = random_below(&random, 2) == 0;
        limits.inline_size_max = random_below(&random, 2) == 0 ? 64 : 64 << 10;
        limits.bulk_size_max = random_below(&random, 4) == 0 ? 64 : limits.bulk_size_max;
    }
    sane = parse(&random, &limits, buffer_bytes(&input), SIZE_MAX, &whole) &&
        parse(&random, &limits, buffer_bytes(&input), 1 + random_below(&random, 40), &pieces);
    if (!sane) {
        complain(seed, "sizes make no sense", buffer_bytes(&input), buffer_bytes(&whole), buffer_bytes(&pieces));
    } else if (!bytes_equal(buffer_bytes(&whole), buffer_bytes(&pieces))) {
        complain(seed, "whole and pieces differ", buffer_bytes(&input), buffer_bytes(&whole), buffer_bytes(&pieces));
        sane = false;
    } else if (valid && !bytes_equal(buffer_bytes(&whole), buffer_bytes(&expected))) {
        complain(seed, "not what was written", buffer_bytes(&input), buffer_bytes(&whole), buffer_bytes(&expected));
        sane = false;
    }
    buffer_release(&input);
    buffer_release(&expected);
    buffer_release(&whole);
    buffer_release(&pieces);
    return sane;
}

int main(int count, char **arguments)
{
    struct fuzz_time time;
    uint64_t seed = fuzz_begin(&time, "request_fuzz", count, arguments), rounds = 0;

    do {
        if (!round_run(seed + rounds))
            return 1;
        rounds++;
    } while (fuzz_goes_on(&time));
    printf("request_fuzz: %" PRIu64 " rounds\n", rounds);
    return 0;
}
