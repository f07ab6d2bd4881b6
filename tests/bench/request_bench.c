/* Speed of parsing the requests of a pipeline, and of writing the replies.
 *
 * A pipeline of 16 equal requests (a query buffer in the cache) is parsed repeatedly; prints nanoseconds per request,
 * the best of several runs. Then the same for replies written into a buffer, and for doubles as text.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/text.h"
#include "resp/reply.h"
#include "resp/request.h"

enum { PIPELINE = 16, ROUNDS = 20000, RUNS = 7, VALUE_SIZE = 64, NUMBERS = 1024 };

static void write_get(struct buffer *out)
{
    buffer_append_string(out, "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000001\r\n");
}

static void write_set(struct buffer *out)
{
    buffer_append_string(out, "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000001\r\n");
    buffer_append_format(out, "$%d\r\n%0*d\r\n", VALUE_SIZE, VALUE_SIZE, 7);
}

static void write_mget(struct buffer *out)
{
    buffer_append_string(out, "*101\r\n$4\r\nMGET\r\n");
    for (int i = 0; i < 100; i++)
        buffer_append_format(out, "$16\r\nkey:%012d\r\n", i);
}

static void write_inline(struct buffer *out)
{
    buffer_append_string(out, "GET key:000000000001\r\n");
}

static void parse_pipeline(struct request_parser *parser, const struct request_limits *limits, struct bytes data)
{
    size_t at = 0;
    size_t consumed, wanted;

    while (at < data.size) {
        CHECK(request_parse(parser, limits, data.data + at, data.size - at, &consumed, &wanted) == REQUEST_COMPLETE);
        at += consumed;
    }
}

static void time_parse(const char *name, void (*write)(struct buffer *))
{
    static const struct request_limits limits = { 512 << 20, INT32_MAX, 64 << 10, true };
    struct request_parser parser;
    struct buffer data = { 0 };
    int64_t best = INT64_MAX;

    request_init(&parser);
    for (int i = 0; i < PIPELINE; i++)
        write(&data);
    for (int run = 0; run < RUNS; run++) {
        int64_t start = clock_mono_ns();

        for (int i = 0; i < ROUNDS; i++)
            parse_pipeline(&parser, &limits, buffer_bytes(&data));
        if (clock_mono_ns() - start < best)
            best = clock_mono_ns() - start;
    }
    printf("parse %-34s %8.1f ns\n", name, (double)best / ROUNDS / PIPELINE);
    buffer_release(&data);
    request_release(&parser);
}

static void say_ok(struct reply *reply, int i)
{
    reply_ok(reply);
}

static void say_integer(struct reply *reply, int i)
{
    reply_integer(reply, i * 1000);
}

static void say_bulk(struct reply *reply, int i)
{
    static const char value[VALUE_SIZE] = { 'v' };

    reply_bulk(reply, bytes_of(value, sizeof(value)));
}

static void time_reply(const char *name, void (*say)(struct reply *, int))
{
    struct reply reply;
    int64_t best = INT64_MAX;

    reply_init(&reply, 2);
    for (int run = 0; run < RUNS; run++) {
        int64_t start = clock_mono_ns();

        for (int i = 0; i < ROUNDS; i++) {
            reply.out.size = 0;
            for (int j = 0; j < PIPELINE; j++)
                say(&reply, j);
        }
        if (clock_mono_ns() - start < best)
            best = clock_mono_ns() - start;
    }
    printf("reply %-34s %8.1f ns\n", name, (double)best / ROUNDS / PIPELINE);
    reply_release(&reply);
}

static void time_doubles(const char *name, const double *numbers)
{
    char text[NUMBERS][TEXT_DOUBLE_SIZE];
    size_t sizes[NUMBERS];
    int64_t best_write = INT64_MAX, best_read = INT64_MAX;
    double number;

    for (int run = 0; run < RUNS; run++) {
        int64_t start = clock_mono_ns();
        int64_t middle;

        for (int i = 0; i < NUMBERS; i++)
            sizes[i] = text_of_double(numbers[i], text[i]);
        middle = clock_mono_ns();
        for (int i = 0; i < NUMBERS; i++)
            CHECK(text_to_double(bytes_of(text[i], sizes[i]), &number) && number == numbers[i]);
        if (middle - start < best_write)
            best_write = middle - start;
        if (clock_mono_ns() - middle < best_read)
            best_read = clock_mono_ns() - middle;
    }
    printf("write %-34s %8.1f ns\nread  %-34s %8.1f ns\n", name, (double)best_write / NUMBERS, name,
        (double)best_read / NUMBERS);
}

int main(void)
{
    double numbers[NUMBERS];
    struct random random;

    time_parse("GET, key of 16", write_get);
    time_parse("SET, key of 16, value of 64", write_set);
    time_parse("MGET, 100 keys of 16", write_mget);
    time_parse("GET inline", write_inline);
    time_reply("OK", say_ok);
    time_reply("integer up to 15000", say_integer);
    time_reply("bulk of 64", say_bulk);
    random_init(&random, 1);
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = (double)random_below(&random, 1000000);
    time_doubles("double, integers below 10^6", numbers);
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = (double)random_below(&random, 100000000) / 100;
    time_doubles("double, two digits after the point", numbers);
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = (double)(random_next(&random) >> 11) * 0x1p-53;
    time_doubles("double, random in 0..1", numbers);
    return 0;
}
